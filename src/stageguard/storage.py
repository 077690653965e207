"""Addresses such as s3://bucket/night.csv, and what they name.

A path of this computer stays a `pathlib.Path` and loads nothing. An address becomes a path of
universal-pathlib, which has the same methods and reads and writes through fsspec. Credentials come from the
environment, as each store's library reads them; those in a web address are kept out of its text.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard, cast

from stageguard.errors import InputError, MissingExtraError, StageGuardError
from stageguard.lazy import library, to_install


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of store: the library that reaches it, the extra with this library, and what it can do."""

    library: str
    extra: str = "remote"
    is_web: bool = False  # can be read, and neither written nor listed
    is_local: bool = False  # asking it costs nothing


STORES = {
    "s3": Store("s3fs"),
    "gs": Store("gcsfs", "gs"),
    "https": Store("aiohttp", is_web=True),
    "http": Store("aiohttp", is_web=True),
    "memory": Store("fsspec", is_local=True),
}
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/(/?)")  # two letters at least: C:/ is a drive
SMALL_BYTES = 16 * 2**20  # larger objects are read in parts, where a library can


# ---- from text to a path


def is_remote(path: object) -> bool:
    """Whether a path is in a store rather than on this computer."""
    upath = sys.modules.get("upath")  # without it nobody has made such a path
    return upath is not None and isinstance(path, upath.UPath) and not isinstance(path, os.PathLike)


def names_file(source: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether an argument is the name of a file: text, a path, or a path of universal-pathlib."""
    return isinstance(source, str | os.PathLike) or is_remote(source)


def location(path: str | os.PathLike[str]) -> Path:
    """Return the path that text or a path-like object names, on this computer or in a store."""
    refuse_lost_slash(path)
    text = str(path) if is_remote(path) else os.fspath(path)
    address = _ADDRESS.match(text)
    if isinstance(path, Path) or address is None:
        return Path(path)
    scheme = address[1].lower()
    if is_remote(path) and scheme in STORES and not {"@", "?"} & set(text):
        return cast(Path, path)
    return _from_file_address(text) if scheme == "file" else _from_address(text, scheme)


def refuse_lost_slash(path: object) -> None:
    """Refuse s3:/bucket/night.csv, as Path("s3://bucket/night.csv") is: it would name a folder s3: here."""
    address = None if is_remote(path) else _ADDRESS.match(str(path))
    if address and not address[2]:
        raise InputError(
            f"{_without_secrets(str(path))[:200]} is an address that lost a slash, expected "
            f"{address[1]}://... Give it as text, not as a Path."
        )


def _from_file_address(text: str) -> Path:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise InputError(f"{text[:200]} names another computer, expected file:///folder/night.csv.")
    return Path(url2pathname(text.partition("://")[2].removeprefix(parts.netloc)))


def _from_address(text: str, scheme: str) -> Path:
    scheme, rest = {"gcs": "gs", "s3a": "s3"}.get(scheme, scheme), text.partition("://")[2]
    store, shown = STORES.get(scheme), _without_secrets(text)[:200]
    if store is None:
        known = ", ".join(f"{name}://" for name in (*STORES, "file"))
        raise InputError(f"{shown} begins with {scheme}://, expected one of {known}, or a path.")
    for name in ("upath", store.library):
        try:
            library(name, f"{scheme}://", store.extra)
        except MissingExtraError:
            needed, command = name.replace("upath", "universal-pathlib"), to_install(store.extra)
            raise MissingExtraError(f"{scheme}:// needs {needed!r}. Install with: {command}") from None
    options: dict[str, Any] = {} if store.is_local else {"use_listings_cache": False}
    if store.is_web:
        rest, options = _web_options(rest)
    elif "@" in rest.partition("/")[0] or "\0" in rest:
        raise InputError(f"{shown} has credentials in it, expected them in the environment.")
    return cast(Path, library("upath", f"{scheme}://").UPath(f"{scheme}://{rest}", **options))


def _web_options(rest: str) -> tuple[str, dict[str, Any]]:
    """Return a web address without what must not be shown, and that as options of its file system."""
    import base64
    from urllib.parse import unquote_to_bytes

    options: dict[str, Any] = {}
    host, slash, inner = rest.partition("/")
    user, at, host = host.rpartition("@")
    if at:
        coded = base64.b64encode(unquote_to_bytes(user)).decode()
        options["headers"] = {"Authorization": f"Basic {coded}"}
    inner, _, query = inner.partition("#")[0].partition("?")
    if query:
        options["params"] = query
    return f"{host}{slash}{inner}", options


def _without_secrets(text: str) -> str:
    return re.sub(r"(?<=/)[^/@]*@|[?].*", "", text)


def hide_addresses(text: str) -> str:
    """Return a library's text without the addresses in it, which may hold secrets."""
    return re.sub(r"\w+://[^\s\"')\]]+", "...", text)


def store_of(path: Path) -> Store:
    """Return the kind of store that a remote path is in."""
    return STORES[cast(Any, path).protocol]


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
    return (folder / relative).resolve() if is_remote(folder) else Path(os.path.normpath(folder / relative))


# ---- reading and writing objects


class StoreError(OSError):
    """A store that cannot be reached, or refuses to answer."""


@contextlib.contextmanager
def _file_system(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield the file system and the path in it; its errors become OSErrors without secrets."""
    try:
        yield cast(Any, path).fs, cast(Any, path).path
    except (StageGuardError, StoreError, MemoryError):
        raise
    except Exception as error:
        cause = (error.__cause__ or error) if store_of(path).is_web else error
        status: Any = getattr(cause, "status", None)
        kind = {401: PermissionError, 403: PermissionError, 404: FileNotFoundError}.get(status)
        if kind is None and cause is error:
            kind = next((each for each in _CODES if isinstance(error, each)), None)
        if kind is not None:
            raise kind(_CODES[kind], os.strerror(_CODES[kind]), str(path)) from None
        words = hide_addresses(" ".join(str(cause).split()))[:120].rstrip(". ")
        text = f"answered {status}" if status else f"{type(cause).__name__}: {words}".removesuffix(": ")
        raise StoreError(errno.EIO, f"not reached: {text}", str(path)) from None


_CODES: dict[type[OSError], int] = {
    IsADirectoryError: errno.EISDIR,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
    FileNotFoundError: errno.ENOENT,
}


def size_of(path: Path) -> int | None:
    """Return the size of an object, None if its store does not tell; none is there: OSError."""
    with _file_system(path) as (fs, name):
        info = fs.info(name)
    if info.get("type") == "directory":
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    size: int | None = info.get("size")
    return size


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; the web has none, though its libraries take pages for folders."""
    if not is_remote(path):
        return path.is_dir()
    with contextlib.suppress(OSError), _file_system(path) as (fs, name):
        return not store_of(path).is_web and bool(fs.isdir(name))
    return False


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder."""
    if not is_remote(folder):
        return [path for path in folder.iterdir() if not path.is_dir()]
    with _file_system(folder) as (fs, name):
        infos = fs.ls(name, detail=True)
    names = [str(info["name"]) for info in infos if info["type"] != "directory"]
    return [folder / name.rpartition("/")[2] for name in names if not name.endswith("/")]  # a folder's marker


def files_below(folder: Path) -> list[Path]:
    """Return the files in a folder and in those below it."""
    if not is_remote(folder):
        return [path for path in folder.rglob("*") if path.is_file()]
    with _file_system(folder) as (fs, name):
        names = fs.find(name)
    start = len(cast(Any, folder).path.rstrip("/"))
    return [folder / name[start:].lstrip("/") for name in names if not name.endswith("/")]


def place_in(path: Path, folder: Path) -> str:
    """Return where a file is below a folder, with forward slashes."""
    if is_remote(path):
        return str(cast(Any, path).path[len(cast(Any, folder).path.rstrip("/")) :]).lstrip("/")
    return path.relative_to(folder).as_posix()


def has_marker(path: Path, name: str, depth: int) -> bool:
    """Whether a marker of this name lies beside an object, or some folders above."""
    store = store_of(path)
    look = _is_object if store.is_local else _is_object_once  # thousands of nights share their folders
    return not store.is_web and any(look(folder / name) for folder in (path, *path.parents)[: depth + 1])


def _is_object(path: Path) -> bool:
    with contextlib.suppress(OSError):
        size_of(path)
        return True
    return False


_is_object_once = cache(_is_object)


@cache
def _folder_of(pid: int) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="stageguard-", ignore_cleanup_errors=True)


def own_folder() -> Path:
    """Return a new folder that is kept until this process ends."""
    return Path(tempfile.mkdtemp(dir=_folder_of(os.getpid()).name))


def scratch_file(path: Path | str) -> Path:
    """Return a file of this process in which an object can be made ready."""
    name = hashlib.sha256(str(path).encode()).hexdigest()[:32]
    return Path(_folder_of(os.getpid()).name) / f"{name}.scratch"


def local_copy(path: Path) -> Path:
    """Return a local copy of an object, of the same name; fetch it if there is none of this version."""
    with _file_system(path) as (fs, name):
        version = f"{path}\n{fs.ukey(name)}\n{sorted(cast(Any, path).storage_options.items())}"
        folder = scratch_file(version).with_suffix("")
        place = folder / (path.name.encode()[-200:].decode(errors="ignore") or "object")
        if not place.exists():
            folder.mkdir(exist_ok=True)
            fs.get_file(name, str(folder / ".partial"))
            (folder / ".partial").replace(place)
    return place


def open_object(path: Path) -> BinaryIO:
    """Return an object open for reading, as a stream of its store."""
    with _file_system(path) as (fs, name):
        return cast(BinaryIO, fs.open(name, "rb"))


def write_object(path: Path, data: bytes, *, overwrite: bool) -> None:
    """Write an object, which appears complete or not at all; FileExistsError if it may not be replaced."""
    with _file_system(path) as (fs, name):
        fs.pipe_file(name, data, mode="overwrite" if overwrite else "create")


def remove_object(path: Path) -> None:
    """Remove an object."""
    with _file_system(path) as (fs, name):
        fs.rm_file(name)


def put_object(source: Path, target: Path) -> None:
    """Make a file of this computer, or another object of the same store, an object of this name."""
    with _file_system(target) as (fs, name):
        if is_remote(source):
            fs.cp_file(cast(Any, source).path, name)
        else:
            fs.put_file(str(source), name)
