"""Tell addresses such as s3://bucket/night.csv from paths, and read and write what they name.

A path of this computer stays a `pathlib.Path` and loads nothing. An address becomes a path of
universal-pathlib, which has the same methods, and which callers therefore type as a Path. Credentials come
from the environment, as each store's library reads them; those in a web address are kept out of its text.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import posixpath
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard, cast

from stageguard.errors import InputError, MissingExtraError, StageGuardError
from stageguard.extras import library, to_install

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where copies of killed processes stay
    fcntl = None


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of store: the library that reaches it, the extra with this library, and what it can do."""

    library: str
    extra: str = "remote"
    is_writable: bool = True
    is_web: bool = False
    has_folders: bool = True  # can be listed
    is_local: bool = False  # asking it costs nothing


STORES = {
    "s3": Store("s3fs"),
    "gs": Store("gcsfs", "gs"),
    "https": Store("aiohttp", is_writable=False, is_web=True, has_folders=False),
    "http": Store("aiohttp", is_writable=False, is_web=True, has_folders=False),
    "memory": Store("fsspec", is_local=True),
}
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(/?)")  # two letters at least: C:/ is a drive
COPIES_BYTES = 8 * 2**30  # of local copies, of which the least recently used are removed
SMALL_BYTES = 16 * 2**20  # up to this size one request brings the whole object
FRESH_SECONDS = 1.0  # how long what a store said about an object is believed
BLOCK_BYTES = 2**20
_FOLDER = "stageguard-copies-"


# ---- from text to a path


def names_file(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether an argument is the name of a file: text, a path, or a path of universal-pathlib."""
    return isinstance(source, str | os.PathLike) or is_remote(source)


def is_remote(path: object) -> bool:
    """Whether a path is in a store rather than on this computer."""
    upath = sys.modules.get("upath")  # without it nobody has made such a path
    return upath is not None and isinstance(path, upath.UPath) and not isinstance(path, os.PathLike)


def location(path: str | os.PathLike[str]) -> Path:
    """Return the path that text or a path-like object names, on this computer or in a store."""
    if isinstance(path, Path) or is_remote(path):
        refuse_lost_slash(path)
        return _checked_kind(path) if is_remote(path) else cast(Path, path)
    text = os.fspath(path)
    address = _ADDRESS.match(text)
    if address is None:
        return Path(text)
    if not address[2]:
        refuse_lost_slash(text)
    return _remote(text, address[1].lower())


def refuse_lost_slash(path: object) -> None:
    """Refuse s3:/bucket/night.csv, as Path("s3://bucket/night.csv") is: it would name a folder s3: here."""
    if not is_remote(path) and (address := _ADDRESS.match(str(path))):
        raise InputError(
            f"{_without_secrets(str(path))[:200]} is an address that lost a slash, expected "
            f"{address[1]}://... Give it as text, not as a Path."
        )


def local_only(path: Path, what: str) -> Path:
    """Return a path of this computer; `what` ("a review") needs one."""
    if is_remote(path):
        raise InputError(f"{str(path)[:200]} is an address; {what} needs a folder of this computer.")
    refuse_lost_slash(path)
    return path


def relative_address(path: Path, folder: Path) -> str | None:
    """Return the path of an object from a folder of the same store; None elsewhere."""
    if not (is_remote(path) and is_remote(folder)):
        return None
    here, there = cast(Any, folder), cast(Any, path)
    if (here.protocol, here.parts[:1]) != (there.protocol, there.parts[:1]):
        return None
    return posixpath.relpath(f"/{there.path.lstrip('/')}", f"/{here.path.lstrip('/')}")


def inside(folder: Path, relative: str) -> Path:
    """Return the path that a recorded relative path names from a folder, on this computer or in its store."""
    if is_remote(folder):
        return (folder / relative).resolve()
    return Path(os.path.normpath(folder / relative))


def store_of(path: Path) -> Store:
    """Return the kind of store that a remote path is in."""
    return STORES[cast(Any, path).protocol]


def _remote(text: str, scheme: str) -> Path:
    if scheme == "file":
        return _of_file_address(text)
    if "\0" in text:
        raise InputError(f"{text[:60]!r} has a zero character, expected the address of a file.")
    scheme = {"gcs": "gs", "s3a": "s3"}.get(scheme, scheme)
    store = STORES.get(scheme)
    if store is None:
        known = ", ".join(f"{name}://" for name in (*STORES, "file"))
        raise InputError(
            f"{_without_secrets(text)[:200]} begins with {scheme}://, expected one of {known}, or a path."
        )
    _check_installed(scheme, store)
    plain, options = _options(scheme, store, text)
    path = cast(Path, library("upath", f"{scheme}://", store.extra).UPath(plain, **options))
    _check_reachable(path)
    return path


def _checked_kind(path: Any) -> Path:
    """Return a caller's path of universal-pathlib, if it is in a store that is known here."""
    if path.protocol not in STORES or "@" in str(path) or "?" in str(path):
        return _remote(str(path), path.protocol)  # raises, or hides what must not be shown
    return cast(Path, path)


def _of_file_address(text: str) -> Path:
    import urllib.parse
    import urllib.request

    parts = urllib.parse.urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise InputError(f"{text[:200]} names another computer, expected file:///folder/night.csv.")
    return Path(urllib.request.url2pathname(text.partition("://")[2].removeprefix(parts.netloc)))


def _check_installed(scheme: str, store: Store) -> None:
    for name in ("upath", store.library):
        try:
            library(name, f"{scheme}://", store.extra)
        except MissingExtraError:
            command = to_install(store.extra)
            raise MissingExtraError(
                f"{scheme}:// needs {name.replace('upath', 'universal-pathlib')!r}. Install with: {command}"
            ) from None


def _options(scheme: str, store: Store, text: str) -> tuple[str, dict[str, Any]]:
    """Return an address without what must not be shown, and the options of its file system."""
    rest = text.partition("://")[2]
    host, slash, inner = rest.partition("/")
    if not store.is_web:
        if "@" in host:
            raise InputError(
                f"{_without_secrets(text)[:200]} has credentials in it, expected them in the environment."
            )
        return f"{scheme}://{rest}", {} if store.is_local else {"use_listings_cache": False}
    import base64
    from urllib.parse import unquote_to_bytes

    options: dict[str, Any] = {}
    user, at, host = host.rpartition("@")
    if at:
        coded = base64.b64encode(unquote_to_bytes(user)).decode()
        options["headers"] = {"Authorization": f"Basic {coded}"}
    inner, _, query = inner.partition("#")[0].partition("?")
    if query:
        options["params"] = query
    return f"{scheme}://{host}{slash}{inner}", options


def _without_secrets(text: str) -> str:
    """Return an address without user, password and query."""
    return re.sub(r"(?<=/)[^/@]*@|[?].*", "", text)


def hide_addresses(text: str) -> str:
    """Return a library's text without the addresses in it, which may hold secrets."""
    return re.sub(r"\w+://[^\s\"')\]]+", "...", text)


@lru_cache(maxsize=64)
def _reached(root: str) -> list[bool]:
    return []


def _check_reachable(path: Path) -> None:
    """Refuse a store that cannot be asked at all, for want of credentials or of a network; ask once."""
    reached = _reached(f"{cast(Any, path).protocol}://{path.parts[0]}")
    if reached or store_of(path).is_local or store_of(path).is_web:  # a host's silence is an OSError
        return
    try:
        facts_of(path)
    except StoreError as error:
        raise InputError(f"{path}: {error.strerror}.") from None
    except OSError:  # said when the file is read
        pass
    reached.append(True)


# ---- what a store says about an object


class StoreError(OSError):
    """A store that cannot be reached, or refuses to answer."""


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn errors of a store's library into OSErrors with the address of the object, free of secrets."""
    try:
        yield
    except (StageGuardError, StoreError, MemoryError):
        raise
    except Exception as error:
        raise _as_os_error(path, error) from None


def _as_os_error(path: Path, error: Exception) -> OSError:
    cause = error.__cause__
    status = getattr(cause if cause is not None else error, "status", None)
    kinds: tuple[tuple[type[OSError], int, str], ...] = (
        (IsADirectoryError, errno.EISDIR, "Is a directory"),
        (FileExistsError, errno.EEXIST, "File exists"),
        (PermissionError, errno.EACCES, "Permission denied"),
        (FileNotFoundError, errno.ENOENT, "No such file or directory"),
    )
    if status in (401, 403):
        return PermissionError(errno.EACCES, "Permission denied", str(path))
    is_web = store_of(path).is_web
    if not (is_web and cause is not None and status is None):  # a silent host is not a missing file
        for kind, number, words in kinds:
            if isinstance(error, kind):
                return kind(number, words, str(path))
    root = cause if is_web and cause is not None else error
    text = f"answered {status}" if status else _plain_reason(root)
    return StoreError(errno.EIO, f"not reached: {text}", str(path))


def _plain_reason(error: BaseException) -> str:
    """Return type and text of a library's error, without addresses, which may hold secrets."""
    words = hide_addresses(" ".join(str(error).split()))[:120].rstrip(". ")
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


@dataclass(frozen=True, slots=True)
class Facts:
    """What a store says about an object; `size` is None if it does not tell."""

    size: int | None
    version: tuple[str, ...]


_facts: OrderedDict[str, tuple[float, Facts]] = OrderedDict()
_lock = threading.RLock()
_numbers = count()


def facts_of(path: Path) -> Facts:
    """Return the size and the version of an object; a missing object or a folder raises an OSError."""
    name = _identity(path)
    with _lock:
        told = _facts.get(name)
    if told is not None and time.monotonic() - told[0] < FRESH_SECONDS:
        return told[1]
    with store_errors(path):
        info = cast(Any, path).fs.info(cast(Any, path).path)
    if info.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    return _remember(path, info)


def _remember(path: Path, info: Mapping[str, Any]) -> Facts:
    """Return what a store's answer says, and believe it for a while."""
    keys = ("ETag", "etag", "generation", "LastModified", "updated", "mtime", "Last-Modified", "created")
    version = tuple(f"{key}={info[key]}" for key in keys if info.get(key) is not None)
    facts = Facts(info.get("size"), version or (f"asked={next(_numbers)}",))
    if not store_of(path).is_local:
        with _lock:
            _facts[_identity(path)] = (time.monotonic(), facts)
            while len(_facts) > 10_000:
                _facts.popitem(last=False)
    return facts


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder; a store tells their sizes in the same answer."""
    if not is_remote(folder):
        return [path for path in folder.iterdir() if not path.is_dir()]
    with store_errors(folder):
        infos = cast(Any, folder).fs.ls(cast(Any, folder).path, detail=True)
    files = []
    for info in infos:
        name = str(info["name"]).rstrip("/").rpartition("/")[2]
        is_listed_itself = str(info["name"]).endswith("/")  # a marker of a folder
        if info["type"] != "directory" and not is_listed_itself:
            files.append(folder / name)
            _remember(files[-1], info)
    return files


def files_below(folder: Path) -> list[Path]:
    """Return the files in a folder and in those below it."""
    if not is_remote(folder):
        return [path for path in folder.rglob("*") if path.is_file()]
    with store_errors(folder):
        infos = cast(Any, folder).fs.find(cast(Any, folder).path, detail=True)
    root = cast(Any, folder).path.rstrip("/")
    files = []
    for name, info in infos.items():
        if not name.endswith("/"):  # a marker of a folder
            files.append(folder / name[len(root) :].lstrip("/"))
            _remember(files[-1], info)
    return files


def place_in(path: Path, folder: Path) -> str:
    """Return where a file is below a folder, with forward slashes."""
    if is_remote(path):
        return str(cast(Any, path).path[len(cast(Any, folder).path.rstrip("/")) :]).lstrip("/")
    return path.relative_to(folder).as_posix()


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; the web has none, though its libraries take pages for folders."""
    if not is_remote(path):
        return path.is_dir()
    if not store_of(path).has_folders:
        return False
    try:
        facts_of(path)
    except IsADirectoryError:
        return True
    except OSError:
        pass
    return False


def forget(path: Path) -> None:
    """Ask the store again about an object that has just been written or removed."""
    with _lock:
        _facts.pop(_identity(path), None)


def _identity(path: Path) -> str:
    """Return what tells an object from others: what one token may read, another may not. Never shown."""
    return f"{path}\n{sorted(cast(Any, path).storage_options.items())}"


# ---- local copies


class _Copies:
    """Copies of objects in a folder of this process, which is removed at its end."""

    def __init__(self) -> None:
        import tempfile

        self._pid = os.getpid()
        _remove_dead_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        self._sizes: OrderedDict[Path, int] = OrderedDict()
        self._held = (self.folder / "lock").open("wb")
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _at_end(self.close)

    @property
    def is_ours(self) -> bool:
        """Whether this process made the folder, rather than the one it was forked from."""
        return self._pid == os.getpid()

    def close(self) -> None:
        """Remove the folder."""
        import shutil

        self._held.close()
        if self.is_ours:
            shutil.rmtree(self.folder, ignore_errors=True)

    def find(self, place: Path) -> bool:
        """Whether a copy is there; it becomes the most recently used."""
        if place not in self._sizes or not place.is_file():
            return False
        self._sizes.move_to_end(place)
        return True

    def add(self, place: Path) -> None:
        """Count a new copy, and remove the least recently used ones beyond the limit."""
        import shutil

        self._sizes[place] = place.stat().st_size
        while sum(self._sizes.values()) > COPIES_BYTES and len(self._sizes) > 1:
            old, _ = self._sizes.popitem(last=False)
            shutil.rmtree(old.parent, ignore_errors=True)


_copies: _Copies | None = None


def _open_copies() -> _Copies:
    global _copies
    if _copies is None or not _copies.is_ours:
        _copies = _Copies()
    return _copies


def own_folder() -> Path:
    """Return a new folder that is kept until this process ends."""
    import tempfile

    with _lock:
        return Path(tempfile.mkdtemp(dir=_open_copies().folder))


def _at_end(close: Any) -> None:
    """Call a function when this process ends, also if it is a worker, which skips `atexit`."""
    atexit.register(close)
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, close, exitpriority=0)


def _remove_dead_folders() -> None:
    """Remove folders of killed processes: the lock in a folder ends with its process."""
    import shutil
    import tempfile

    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with contextlib.suppress(OSError), (folder / "lock").open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def local_copy(path: Path, most_bytes: int) -> Path:
    """Return a local copy of an object, of the same name; fetch it if there is none of this version."""
    facts = facts_of(path)
    version = "\n".join((_identity(path), str(facts.size), *facts.version))
    key = hashlib.sha256(version.encode()).hexdigest()[:32]
    with _lock:
        copies = _open_copies()
        place = copies.folder / key / _local_name(path.name)
        if not copies.find(place):
            place.parent.mkdir(exist_ok=True)
            partial = place.parent / ".partial"
            with store_errors(path):
                _fetch(path, facts, partial, most_bytes)
            partial.replace(place)
            copies.add(place)
    return place


def _local_name(name: str) -> str:
    """Return an object's name as a name of a file, with its end, which may tell its format."""
    return name.encode(errors="surrogateescape")[-200:].decode(errors="ignore") or "object"


def _fetch(path: Path, facts: Facts, place: Path, most_bytes: int) -> None:
    source = cast(Any, path)
    if facts.size is not None and facts.size <= SMALL_BYTES:
        place.write_bytes(source.fs.cat_file(source.path))
        return
    if facts.size is not None:
        source.fs.get_file(source.path, str(place))
        return
    with source.fs.open(source.path, "rb") as stream, place.open("wb") as copy:
        copy_stream(stream, copy, most_bytes)


def copy_stream(stream: Any, copy: BinaryIO, most_bytes: int) -> int:
    """Copy bytes up to one beyond a limit, so that the copy is seen to be too large; return how many."""
    n_bytes = 0
    while n_bytes <= most_bytes and (block := stream.read(min(BLOCK_BYTES, most_bytes + 1 - n_bytes))):
        copy.write(block)
        n_bytes += len(block)
    return n_bytes


def is_large(path: Path) -> bool:
    """Whether an object is better read in parts than copied."""
    size = facts_of(path).size
    return size is not None and size > SMALL_BYTES


def open_object(path: Path) -> BinaryIO:
    """Return an object open for reading, as a stream of its store."""
    with store_errors(path):
        return cast(BinaryIO, cast(Any, path).fs.open(cast(Any, path).path, "rb"))


def has_marker(path: Path, name: str, depth: int) -> bool:
    """Whether a marker of this name lies beside an object, or some folders above; folders are asked once."""
    if not store_of(path).has_folders:
        return False
    folders = (path, *path.parents)[: depth + 1]
    find = _is_object if store_of(path).is_local else _is_object_once
    return any(find(folder / name) for folder in folders)


@lru_cache(maxsize=4096)  # thousands of nights share their folders
def _is_object_once(path: Path) -> bool:
    return _is_object(path)


def _is_object(path: Path) -> bool:
    try:
        facts_of(path)
    except OSError:
        return False
    return True


# ---- writing


def write_object(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write an object, which appears complete or not at all; FileExistsError if it may not be replaced."""
    target = cast(Any, path)
    with store_errors(path):
        try:
            target.fs.pipe_file(target.path, data, mode="overwrite" if overwrite else "create")
        finally:
            forget(path)


def remove_object(path: Path) -> None:
    """Remove an object."""
    with store_errors(path):
        try:
            cast(Any, path).fs.rm_file(cast(Any, path).path)
        finally:
            forget(path)


def put_object(source: Path, target: Path) -> None:
    """Make a file of this computer, or another object of the same store, an object of this name."""
    store = cast(Any, target).fs
    with store_errors(target):
        try:
            if is_remote(source):
                store.cp_file(cast(Any, source).path, cast(Any, target).path)
            else:
                store.put_file(str(source), cast(Any, target).path)
        finally:
            forget(target)


def scratch_file(path: Path) -> Path:
    """Return a file of this process in which an object can be made ready."""
    name = hashlib.sha256(_identity(path).encode()).hexdigest()[:32]
    with _lock:
        return _open_copies().folder / f"{name}.scratch"
