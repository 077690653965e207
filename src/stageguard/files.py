"""Read files, and write one or several files completely or not at all.

A path may be in a store (`storage.py`): small objects are read from local copies, and objects are written one
at a time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TextIO

from stageguard import checks, storage
from stageguard.errors import (
    FileFormatError,
    InputError,
    OutputError,
    OutputExistsError,
    StageGuardError,
    fault_text,
)

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where nothing is locked
    fcntl = None

MOST_BYTES = 4 * 2**30  # of a file that is read into memory at once; those read in parts have no limit
_NUMBERS = count()  # of temporary files of this process
UNNAMED = "bytes"  # name of the file of bytes that have none, without a suffix that tells a format
SYNTHETIC_FILE = "synthetic.json"  # in the top folder of a simulated cohort
SYNTHETIC_WORD = "SYNTHETIC"  # in headers, where a format has room for words
SYNTHETIC_DEPTH = 6  # folders of the deepest native layout, and then some


# ---- reading


def checked_file(path: Path) -> Path:
    """Return the path if it leads to a regular file; a pipe or a device could be read forever."""
    if storage.is_remote(path):
        storage.size_of(path)
        return path
    storage.refuse_lost_slash(path)
    if "\0" in str(path):  # which Python refuses with a ValueError
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise file_error(path, "is a pipe or a device, expected a file. Save it to one first.")
    return path


def local_file(path: Path) -> Path:
    """Return a checked file for a library that opens files of this computer; of an object, a local copy."""
    checked_file(path)
    return storage.local_copy(path) if storage.is_remote(path) else path


def seekable_file(path: Path) -> Path | BinaryIO:
    """Return a checked file for a library that reads parts of it; of a large object, a stream."""
    if storage.is_remote(path) and (storage.size_of(path) or 0) > storage.SMALL_BYTES:
        return storage.open_object(path)
    return local_file(path)


def open_file(path: Path, *, buffering: int = -1) -> BinaryIO:
    """Return a file that is open for reading bytes; `buffering` of 0 is for many small slices."""
    file = seekable_file(path) if buffering else local_file(path)
    return file.open("rb", buffering=buffering) if isinstance(file, Path) else file


def open_text(path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> TextIO:
    """Return a file that is open for reading text, with its line ends as they are."""
    return local_file(path).open(encoding=encoding, errors=errors, newline="")


def read_file(path: Path) -> bytes:
    """Return the bytes of a file of at most `MOST_BYTES`."""
    file = local_file(path)
    if (size := file.stat().st_size) > MOST_BYTES:
        raise file_error(path, f"has {size:,} bytes, expected at most {MOST_BYTES:,}.")
    return file.read_bytes()


def read_text(path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a file, with plain line ends."""
    return io.TextIOWrapper(io.BytesIO(read_file(path)), encoding=encoding, errors=errors).read()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file that may be larger than the memory."""
    with local_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_json(path: Path) -> Any:
    """Return the content of a JSON file; a damaged file raises a one-line error."""
    try:
        return json.loads(read_file(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise file_error(path, f"is not readable JSON ({reason}). Was it copied completely?") from None


def json_lines(value: Any, *, ensure_ascii: bool = True, levels: int = 2, line_end: str = "\n") -> str:
    """Return JSON with a line for each entry of the outer levels, which Python would indent slowly."""
    if not levels or not value or not isinstance(value, dict | list):
        return json.dumps(value, allow_nan=False, ensure_ascii=ensure_ascii)
    inner = line_end + "  "
    lined = partial(json_lines, ensure_ascii=ensure_ascii, levels=levels - 1, line_end=inner)
    if isinstance(value, list):
        return "[" + inner + f",{inner}".join(map(lined, value)) + line_end + "]"
    entries = [f"{lined(key, levels=0)}: {lined(item)}" for key, item in value.items()]
    return "{" + inner + f",{inner}".join(entries) + line_end + "}"


def is_synthetic(path: str | Path) -> bool:
    """Whether a file or folder lies in a simulated cohort, marked beside it or some folders above."""
    inner = storage.location(path)
    if storage.is_remote(inner):
        return storage.has_marker(inner, SYNTHETIC_FILE, SYNTHETIC_DEPTH)
    inner = inner.absolute()
    folders = (inner, *inner.parents)[: SYNTHETIC_DEPTH + 1]
    return any((folder / SYNTHETIC_FILE).is_file() for folder in folders)


# ---- bytes and open files, for readers that read files


def is_stream(source: object) -> bool:
    """Whether an argument is the content of a file: bytes, or an object that is open for reading."""
    return isinstance(source, bytes | bytearray | memoryview) or callable(getattr(source, "read", None))


@contextlib.contextmanager
def as_file(source: Any) -> Iterator[Path]:
    """Yield a file with the content of bytes or of an open file; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="stageguard-") as folder:
        yield _write_source(source, Path(folder))


def kept_file(source: Any) -> Path:
    """Return a file with the content of bytes or of an open file, which is kept until this process ends."""
    return _write_source(source, storage.own_folder())


def _write_source(source: Any, folder: Path) -> Path:
    name, kind = getattr(source, "name", None), type(source).__name__
    path = folder / ((PurePath(name).name if isinstance(name, str) else "") or UNNAMED)
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(source if hasattr(source, "read") else io.BytesIO(source), file)
    except TypeError:  # text was read
        raise InputError(f'{kind} is open as text, expected bytes: open(path, "rb").') from None
    except ValueError as error:
        raise InputError(f"{kind} cannot be read ({error}), expected a file open for reading.") from None
    return path


# ---- errors


@contextlib.contextmanager
def faults_named(name: str) -> Iterator[None]:
    """Turn an unexpected error of a reader into one line with the file's name and the error's type."""
    try:
        yield
    except (StageGuardError, OSError, MemoryError):
        raise
    except Exception as error:
        raise FileFormatError(f"{name}: cannot be read ({fault_text(error)}). Is it damaged?") from error


def damaged_file(path: Path | str, reason: Exception | str) -> FileFormatError:
    """Return the error for a damaged file, with what is wrong, or the error of the library that read it."""
    text = " ".join(str(reason).split())[:120] or type(reason).__name__
    return file_error(path, f"is damaged or cut short ({text}). Save it again.")


def exists_error(path: Path | str, problem: str = "", *, to: str = "replace it") -> OutputExistsError:
    """Return the error for an output that may not be replaced; `to` is what overwriting does."""
    return OutputExistsError(f"{path} exists already{problem}. Use overwrite=True to {to}.")


def file_error(path: Path | str, *reason: object, code: str = "") -> FileFormatError:
    """Return an error whose message begins with the name of the file, or of an object given as text."""
    name = path if isinstance(path, str) else path.name or str(path)
    text = "".join(map(str, reason))
    error = FileFormatError(f"{name}: {text}")
    error.reason, error.code = text, code
    return error


# ---- writing


def write_text_atomic(
    path: str | os.PathLike[str], text: str, *, overwrite: bool = False, spare: Iterable[Path] = ()
) -> None:
    """Write text as UTF-8; see `write_together`."""
    write_together({storage.location(path): text}, overwrite=overwrite, spare=spare)


def write_together(
    contents: Mapping[Path, str | bytes],
    *,
    overwrite: bool = False,
    make_folders: bool = False,
    spare: Iterable[Path] = (),
    durable: bool = True,
) -> None:
    """Write files, all of them or none, so that no incomplete file is ever visible under its name.

    Text is written as UTF-8. The bytes go to temporary files in the same folders, which are then renamed; a
    failure restores what was there. Objects of a store are written one at a time, in this order: what vouches
    for the others comes last. ``spare`` are files that must not be overwritten, such as inputs. Without
    ``durable`` the function does not wait for the disk: after a power cut a file may be empty.

    Raises
    ------
    OutputExistsError
        A file exists and ``overwrite`` is False; nothing was touched.
    OutputError
        A file cannot be written; the message says why.
    """
    check_places(contents, overwrite=overwrite)
    targets = check_apart(contents, spare)  # links are followed, so that they survive
    undo: list[Callable[[], object] | None] = []  # what puts back what was there, file by file
    ready: dict[Path, Path] = {}  # path -> temporary file
    kept: list[Path] = []  # second names of files that are being replaced
    path = next(iter(contents))
    try:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            if storage.is_remote(path):
                back = _undo_object(path) if len(contents) > 1 else None
                storage.write_object(path, data, overwrite=overwrite)
                undo.append(back)
                continue
            if make_folders:
                targets[path].parent.mkdir(parents=True, exist_ok=True)
            ready[path] = _beside(targets[path], "tmp")  # known before it exists: a signal leaves none
            with ready[path].open("xb") as stream:
                stream.write(data)
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
        for path, temporary in ready.items():
            back = _undo_file(targets[path], kept) if len(ready) > 1 else None
            temporary.replace(targets[path])
            undo.append(back)  # not before: what somebody else has just written is not ours to remove
        undo.clear()  # all have their names
    except OSError as error:
        raise _why_not(path, error) from None
    finally:
        for put_back in filter(None, reversed(undo)):
            with contextlib.suppress(OSError):
                put_back()
        for leftover in (*ready.values(), *kept):
            with contextlib.suppress(OSError):  # a read-only disk refuses even where there is no file
                leftover.unlink()


def _undo_file(target: Path, kept: list[Path]) -> Callable[[], object]:
    """Give a file that will be replaced a second name, and return what restores it; it is never missing."""
    if not target.exists():
        return partial(target.unlink, missing_ok=True)
    second = _beside(target, "old")
    kept.append(second)
    try:
        os.link(target, second)
    except OSError:  # a file system without links
        shutil.copy2(target, second)
    return partial(os.replace, second, target)


def _undo_object(path: Path) -> Callable[[], object]:
    """Return what restores an object that will be replaced."""
    try:
        return partial(storage.write_object, path, read_file(path), overwrite=True)
    except FileNotFoundError:
        return partial(remove_file, path)


def _why_not(path: Path, error: OSError) -> OutputError:
    if isinstance(error, FileExistsError):
        return exists_error(path, to="replace it, or choose another name")
    reason = f"{error.strerror or error}. Choose a folder you can write to."
    if isinstance(error, FileNotFoundError):
        place = "the bucket" if storage.is_remote(path) else f"folder {path.parent}"
        reason = f"{place} does not exist. Create it first."
    return OutputError(f"cannot write {path}: {reason}")


def _beside(target: Path, suffix: str) -> Path:
    """Return a hidden name beside a file that no other thread or process uses."""
    stem = target.name.encode(errors="ignore")[:100].decode(errors="ignore")  # a name has room for 255 bytes
    return target.with_name(f".{stem}.stageguard-{os.getpid()}-{next(_NUMBERS)}.{suffix}")


def check_places(paths: Iterable[Path], *, overwrite: bool = False) -> None:
    """Refuse folders, devices and web addresses, and files that exist already unless they may be replaced."""
    for path in paths:
        if storage.is_remote(path) and storage.store_of(path).is_web:
            raise OutputError(f"cannot write {path}: the web is only read. Choose a file or a store.")
        try:
            checked_file(path)
        except FileNotFoundError:
            continue
        except IsADirectoryError:
            raise OutputError(f"cannot write {path}: it is a folder, expected a file name.") from None
        except FileFormatError:
            raise OutputError(f"cannot write {path}: it is a pipe or a device, expected a file.") from None
        except OSError as error:
            raise _why_not(path, error) from None
        if not overwrite:
            raise exists_error(path, to="replace it, or choose another name")


def check_apart(paths: Iterable[Path], spare: Iterable[Path]) -> dict[Path, Path]:
    """Return paths with their links followed; refuse two that are the same file, and files of `spare`."""
    taken = {real_path(path): path for path in spare}
    targets = {}
    for path in paths:
        targets[path] = target = real_path(path)
        if (other := taken.get(target)) is not None:
            raise OutputError(f"cannot write {path}: it is the same file as {other}. Choose another name.")
        taken[target] = path
    return targets


# ---- paths, folders, locks


def real_path(path: Path) -> Path:
    """Return a path with its links followed."""
    if storage.is_remote(path):
        return path if storage.store_of(path).is_web else path.resolve()  # which would ask the web site
    return Path(os.path.realpath(path))


def as_path(path: object, what: str, *, may_be_folder: bool = False) -> Path:
    """Return a caller's argument as the path of a file, or of a folder such as the current one."""
    if not storage.names_file(path) or isinstance(path, bytes) or "\0" in str(path):
        raise InputError(f"{what} is {checks.shown(path)}, expected a path in quotes.")
    found = storage.location(path)
    if not str(path) or not (found.name or may_be_folder):
        raise InputError(f"{what} is {checks.shown(path)}, expected a path to a file.")
    return found


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; a store needs none, and would make a bucket."""
    if not storage.is_remote(folder):
        folder.mkdir(parents=True, exist_ok=True)


def remove_file(path: Path) -> None:
    """Remove a file or an object, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        storage.remove_object(path) if storage.is_remote(path) else path.unlink()


def move_file(source: Path, target: Path) -> None:
    """Give a complete file of this computer its name, beside it or in a store."""
    if not storage.is_remote(target):
        source.replace(target)
        return
    storage.put_object(source, target)
    source.unlink()


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as possible."""
    if not storage.is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in storage.files_below(folder):
        with contextlib.suppress(OSError):
            storage.remove_object(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file while the block runs; raise BlockingIOError if another process holds it.

    The lock ends with its process. Windows, stores and file systems without locks lock nothing.
    """
    if fcntl is None or storage.is_remote(path):
        if fcntl is None:
            path.touch()  # and not kept open: callers remove it, which Windows refuses for an open file
        yield
        return
    with path.open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass
        if not is_same_file(stream, path):  # its last holder has just removed it
            raise BlockingIOError(errno.EAGAIN, "locked by another process", str(path))
        yield


def is_same_file(stream: BinaryIO | io.FileIO, path: Path) -> bool:
    """Whether a path still leads to the file that a stream has open."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


# ---- cells of tables

_UNSHOWN = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]|\\\\(?=x[0-9a-f]{2}|u[0-9a-f]{4})")
_SHOWN = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4}))")
_FORMULA = re.compile(r"'*[=+\-@]")
CELL_WORDS = (
    "Text that begins with = + - or @ has an apostrophe before it, so that no spreadsheet takes it for a "
    "formula; control characters are written as \\xNN or \\uNNNN."
)


def write_cell(text: str) -> str:
    """Return a text as a cell of a table, escaped as `CELL_WORDS` says. `read_cell` reverses it."""
    shown = _UNSHOWN.sub(lambda c: f"\\x{ord(c[0]):02x}" if ord(c[0]) < 256 else f"\\u{ord(c[0]):04x}", text)
    return f"'{shown}" if _FORMULA.match(shown) else shown


def read_cell(cell: str) -> str:
    """Return the text of a cell that `write_cell` wrote."""
    text = cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
    return _SHOWN.sub(lambda c: chr(int(c[1] or c[2], 16)), text)
