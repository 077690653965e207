"""Read files up to a limit of size, and write one or several files completely or not at all.

A path may be in a store (`storage.py`): small objects are read from local copies, and objects are
written one at a time.

Only regular files that are not too large for their kind are opened. `tests/base/test_input_files.py` checks
that every module reads its files through this one.
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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from stageguard import checks, storage
from stageguard.errors import (
    OVERWRITE,
    FileFormatError,
    InputError,
    Message,
    OutputError,
    OutputExistsError,
    StageGuardError,
    fault_text,
)

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where temporary files of killed processes stay
    fcntl = None

# Largest size of a file of each kind in bytes, far above that of any real file.
LIMITS = {
    "a header": 10**6,
    "TOML": 16 * 2**20,
    "XML": 32 * 2**20,
    "JSON": 64 * 2**20,
    "a list": 64 * 2**20,
    "annotations": 256 * 2**20,
    "text": 2**30,
    "an array": 4 * 2**30,
    "an ONNX file": 2 * 2**30,
    "weights": 64 * 2**30,
    "a recording": 2**40,
}
BLOCK_BYTES = 2**20
LINED_LEVELS = 2  # nested lists and objects of written JSON whose entries have a line each
_ENCODERS = {
    is_ascii: json.JSONEncoder(allow_nan=False, ensure_ascii=is_ascii).encode for is_ascii in (True, False)
}
MOST_CONTAINERS = 1_000_000  # lists and objects in a JSON document; each takes some 100 bytes of memory
SAVE_FIRST = "is a pipe or a device, expected a file. Save it to one first."
MOST_NAME_BYTES = 255
SYNTHETIC_FILE = "synthetic.json"  # in the top folder of a simulated cohort
SYNTHETIC_WORD = "SYNTHETIC"  # in headers, where a format has room for words
SYNTHETIC_DEPTH = 6  # folders of the deepest native layout, and then some


def checked_file(path: Path, kind: str) -> Path:
    """Return the path if it leads, also through links, to a regular file that is not too large for its kind.

    A file that is missing or not accessible raises Python's own OSError.
    """
    if storage.is_remote(path):
        size = storage.facts_of(path).size
        if size is not None and size > LIMITS[kind]:
            raise _too_large(path, kind, size)
        return path
    storage.refuse_lost_slash(path)
    try:
        facts = path.stat()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise file_error(path, "is a link that leads back to itself. Name the file it stood for.") from None
    except ValueError:  # a zero character in its name
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path)) from None
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(facts.st_mode):
        raise file_error(path, SAVE_FIRST)
    if facts.st_size > LIMITS[kind]:
        raise _too_large(path, kind, facts.st_size)
    if facts.st_size == 0 and not _is_empty(path):
        raise file_error(
            path, "is made by the system while it is read, expected a saved file. Copy it first."
        )
    return path


def local_file(path: Path, kind: str) -> Path:
    """Return a checked file for a library that opens files of this computer; of an object, a local copy."""
    checked_file(path, kind)
    if not storage.is_remote(path):
        return path
    copy = storage.local_copy(path, LIMITS[kind])
    if (size := copy.stat().st_size) > LIMITS[kind]:  # the store did not tell
        raise _too_large(path, kind, size)
    return copy


def seekable_file(path: Path, kind: str) -> Path | BinaryIO:
    """Return a checked file for a library that reads parts of it; of a large object, a stream."""
    if storage.is_remote(path) and storage.is_large(checked_file(path, kind)):
        return storage.open_object(path)
    return local_file(path, kind)


def _is_empty(path: Path) -> bool:
    """Whether a file of 0 bytes has none; those of /proc have some, or let their reader wait forever."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except PermissionError:
        return True  # said when it is opened
    try:
        return not os.read(descriptor, 1) or os.fstat(descriptor).st_size > 0  # another process writes it
    except OSError:
        return False
    finally:
        os.close(descriptor)


def special(path: Path) -> str | None:
    """Return why a path is refused that is no regular file, such as a pipe; None for other paths."""
    try:
        checked_file(path, "a recording")
    except StageGuardError as error:
        return str(error)
    except FileNotFoundError:
        if path.is_symlink():
            return f"{path.name}: is a link to {path.readlink()}, which is not there. Name the file itself."
    except OSError:  # reported when the file is read
        pass
    return None


def refuse_special(path: Path) -> None:
    """Refuse a path that is no regular file."""
    problem = special(path)
    if problem is not None:
        raise InputError(problem)


def open_file(path: Path, kind: str, *, buffering: int = -1) -> BinaryIO:
    """Return a file that is open for reading bytes; `buffering` of 0 is for many small slices."""
    file = seekable_file(path, kind) if buffering else local_file(path, kind)
    return file.open("rb", buffering=buffering) if isinstance(file, Path) else file


def open_text(path: Path, kind: str, *, encoding: str = "utf-8", errors: str = "strict") -> TextIO:
    """Return a file that is open for reading text, with its line ends as they are."""
    return local_file(path, kind).open(encoding=encoding, errors=errors, newline="")


def read_file(path: Path, kind: str) -> bytes:
    """Return the bytes of a file; refuse it also if it grows too large while it is read."""
    with local_file(path, kind).open("rb") as file:
        data = file.read(os.fstat(file.fileno()).st_size + 1)  # not up to the limit: `read` allocates at once
        while (block := file.read(BLOCK_BYTES)) and len(data) <= LIMITS[kind]:
            data += block
    if len(data) > LIMITS[kind]:
        raise _too_large(path, kind, len(data))
    return data


def file_sha256(path: Path, kind: str) -> str:
    """Return the SHA-256 of a file that may be larger than the memory."""
    digest = hashlib.sha256()
    with open_file(path, kind, buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read_text(path: Path, kind: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a file, with plain line ends."""
    return io.TextIOWrapper(io.BytesIO(read_file(path, kind)), encoding=encoding, errors=errors).read()


def parse_json(text: str | bytes) -> Any:
    """Return parsed JSON; a name twice in one object, or far too many lists, raises ValueError."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    n_containers = data.count(b"[") + data.count(b"{")
    if n_containers > MOST_CONTAINERS:
        raise ValueError(f"{n_containers:,} lists and objects, expected at most {MOST_CONTAINERS:,}")
    return json.loads(text, object_pairs_hook=_object)


def load_json(path: Path) -> Any:
    """Return the content of a JSON file from outside; a damaged file raises a one-line error."""
    data = read_file(path, "JSON")
    try:
        return parse_json(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise file_error(path, f"is not readable JSON ({reason}). Was it copied completely?") from None


def json_lines(
    value: Any, *, ensure_ascii: bool = True, levels: int = LINED_LEVELS, line_end: str = "\n"
) -> str:
    """Return JSON with a line for each entry of the outer levels; deeper levels stay on the entry's line.

    Each line is encoded in C. `json.dumps` with an indent encodes in Python, several times as slowly.
    """
    encode = _ENCODERS[ensure_ascii]
    if not levels or not value or not isinstance(value, dict | list):
        return encode(value)
    inner = line_end + "  "
    lined = partial(json_lines, ensure_ascii=ensure_ascii, levels=levels - 1, line_end=inner)
    if isinstance(value, dict):
        entries = [f"{encode(key)}: {lined(item)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(entries) + line_end + "}"
    entries = [lined(item) for item in value]
    return "[" + inner + f",{inner}".join(entries) + line_end + "]"


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
    """Return the error for an output that may not be replaced.

    `problem` ends the sentence about the output; `to` is what overwriting does.
    """
    return OutputExistsError(Message(f"{path} exists already{problem}. ", OVERWRITE, f" to {to}."))


def file_error(path: Path | str, *reason: object, code: str = "") -> FileFormatError:
    """Return an error whose message begins with the name of the file, or of an object given as text."""
    name = path if isinstance(path, str) else path.name
    if not isinstance(path, str) and name in ("", ".."):
        name = real_path(path).name or str(path)
    error = FileFormatError(Message(name, ": ", *reason))
    error.reason, error.code = Message(*reason), code
    return error


def is_synthetic(path: str | Path) -> bool:
    """Whether a file or folder lies in a simulated cohort, marked beside it or some folders above."""
    inner = storage.location(path)
    if storage.is_remote(inner):
        return storage.has_marker(inner, SYNTHETIC_FILE, SYNTHETIC_DEPTH)
    inner = inner.absolute()
    folders = (inner, *inner.parents)[: SYNTHETIC_DEPTH + 1]
    return any((folder / SYNTHETIC_FILE).is_file() for folder in folders)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:40]!r} is there twice, expected it once")
    return content


def _too_large(path: Path, kind: str, size: int) -> FileFormatError:
    return file_error(path, f"has {size:,} bytes, expected at most {LIMITS[kind]:,} of {kind}.")


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

    Text is written as UTF-8. The bytes go to temporary files in the same folders, which are then renamed. An
    interruption leaves the old files, if there are any, and nothing else; a failure restores them.

    Objects of a store are written one at a time, in this order, each complete or not at all; a failure
    restores the earlier ones, an interruption leaves them. So what vouches for the others comes last.

    ``spare`` are files that must not be overwritten, such as inputs. Without ``durable`` the function does
    not wait for the disk: after a power cut a file may be empty, and the caller must check for that.

    Raises
    ------
    OutputExistsError
        A file exists and ``overwrite`` is False; nothing was touched.
    OutputError
        A file cannot be written; the message says why.
    """
    check_places(contents, overwrite=overwrite)
    targets = check_apart(contents, spare)  # links are followed, so that they survive
    objects = {path: data for path, data in contents.items() if storage.is_remote(path)}
    if objects:
        contents = {path: data for path, data in contents.items() if path not in objects}
        if contents:
            write_together(contents, overwrite=overwrite, make_folders=make_folders, durable=durable)
        _write_objects(objects, overwrite=overwrite)
        return
    written: dict[Path, Path] = {}  # final path -> temporary file
    begun: list[Path] = []
    path = next(iter(contents))
    streams = contextlib.ExitStack()  # open, and so locked, until the files have their names
    try:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            target = targets[path]
            if make_folders and not target.parent.is_dir():
                target.parent.mkdir(parents=True, exist_ok=True)
            written[target], stream = new_temporary(target, begun)
            streams.enter_context(stream).write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        if os.name == "nt":  # where an open file cannot be renamed
            streams.close()
        _move_all(written)
        written.clear()
        begun.clear()
    except FileNotFoundError as error:
        if path.parent.is_dir():  # a folder that takes no files, such as /proc
            raise _explain(path, error) from error
        raise OutputError(
            f"cannot write {path}: folder {path.parent} does not exist. Create it first."
        ) from None
    except OSError as error:
        raise _explain(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # closing retries what a full disk refused
            streams.close()
        for leftover in written.values():
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)
        for unsure in set(begun).difference(written.values()):  # a signal came while the file was made
            _remove_leftover(unsure)


def _write_objects(contents: Mapping[Path, str | bytes], *, overwrite: bool) -> None:
    """Write objects of a store in this order; if one fails, put back what was there before."""
    before: dict[Path, bytes | None] = {}
    path = next(iter(contents))
    try:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            if len(contents) > 1:
                before[path] = _object_bytes(path) if overwrite else None
            storage.write_object(path, data, overwrite=overwrite)
    except BaseException as error:
        before.pop(path, None)  # it appears complete or not at all
        for written, old in before.items():
            with contextlib.suppress(OSError):
                if old is None:
                    storage.remove_object(written)
                else:
                    storage.write_object(written, old, overwrite=True)
        if isinstance(error, FileExistsError):
            raise exists_error(path, to="replace it, or choose another name") from None
        if isinstance(error, FileNotFoundError):
            raise OutputError(f"cannot write {path}: there is no such bucket. Create it first.") from None
        if isinstance(error, OSError):
            raise _explain(path, error) from error
        raise


def _object_bytes(path: Path) -> bytes | None:
    try:
        return read_file(path, "a recording")
    except FileNotFoundError:
        return None


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; a store needs none, and would make a bucket."""
    if not storage.is_remote(folder):
        folder.mkdir(parents=True, exist_ok=True)


def remove_file(path: Path) -> None:
    """Remove a file or an object, if it is there."""
    if not storage.is_remote(path):
        path.unlink(missing_ok=True)
        return
    with contextlib.suppress(FileNotFoundError):
        storage.remove_object(path)


def move_file(source: Path, target: Path) -> None:
    """Give a complete file of this computer its name, beside it or in a store."""
    if not storage.is_remote(target):
        source.replace(target)
        return
    storage.put_object(source, target)
    source.unlink()


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as possible."""
    if storage.is_remote(folder):
        for path in storage.files_below(folder):
            with contextlib.suppress(OSError):
                storage.remove_object(path)
        return
    shutil.rmtree(folder, ignore_errors=True)


def real_path(path: Path) -> Path:
    """Return a path with its links followed; unlike `Path.resolve`, accept a link that leads to itself."""
    if storage.is_remote(path):
        return path if storage.store_of(path).is_web else path.resolve()  # which would ask the web site
    return Path(os.path.realpath(path))


def as_path(path: object, what: str, *, may_be_folder: bool = False) -> Path:
    """Return a caller's argument as the path of a file, or of a folder such as the current one."""
    if not storage.names_file(path):
        raise InputError(f"{what} is {checks.shown(path)}, expected a path in quotes.")
    text: str | bytes = str(path) if storage.is_remote(path) else os.fspath(path)
    if isinstance(text, bytes) or "\0" in text:
        raise InputError(f"{what} is {checks.shown(path)}, expected a path without zero characters.")
    found = storage.location(path)
    if not text or not (found.name or may_be_folder):
        raise InputError(f"{what} is {checks.shown(path)}, expected a path to a file.")
    return found


def check_places(paths: Iterable[Path], *, overwrite: bool = False) -> None:
    """Refuse names that no file can have, and files that exist already unless they may be replaced."""
    for path in paths:
        if storage.is_remote(path):
            _check_object_place(path, overwrite=overwrite)
            continue
        storage.refuse_lost_slash(path)
        n_bytes = len(os.fsencode(path.name))
        if n_bytes > MOST_NAME_BYTES:
            raise OutputError(
                f"cannot write {path.name[:40]}...: its name has {n_bytes} bytes, expected at most "
                f"{MOST_NAME_BYTES}. Choose a shorter name."
            )
        try:
            mode, folder_mode = _mode(path), _mode(path.parent)
        except OSError as error:
            raise _explain(path, error) from error
        if stat.S_ISDIR(mode):
            raise OutputError(f"cannot write {path}: it is a folder, expected a file name.")
        if mode and not stat.S_ISREG(mode):
            raise OutputError(f"cannot write {path}: it is a device or a pipe, expected a file name.")
        if mode and not overwrite:
            raise exists_error(path, to="replace it, or choose another name")
        if folder_mode and not stat.S_ISDIR(folder_mode):
            raise OutputError(f"cannot write {path}: {path.parent} is a file, expected a folder.")


def _check_object_place(path: Path, *, overwrite: bool) -> None:
    if not storage.store_of(path).is_writable:
        raise OutputError(f"cannot write {path}: web addresses can only be read. Choose a file or a store.")
    if not path.name:
        raise OutputError(f"cannot write {path}: expected the name of an object.")
    try:
        storage.facts_of(path)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        raise OutputError(f"cannot write {path}: it is a folder, expected a file name.") from None
    except OSError as error:
        raise _explain(path, error) from error
    if not overwrite:
        raise exists_error(path, to="replace it, or choose another name")


def _mode(path: Path) -> int:
    """Return the mode of the file or folder that a path leads to, 0 if there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):
        return int(path.exists())  # False, or raises


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


def _explain(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {path}: {error.strerror or error}. Choose a folder you can write to.")


def new_temporary(target: Path, begun: list[Path] | None = None) -> tuple[Path, BinaryIO]:
    """Return a new temporary file beside the target, locked where the system can.

    Names are numbered, so that the next process that writes the target finds what a killed process left.
    Each name is added to `begun` before its file is created, so that callers can clean up after a signal.
    """
    for temporary in _temporary_names(target):
        if begun is not None:
            begun.append(temporary)
        stream = _create(temporary)
        if stream is None:
            _remove_leftover(temporary)
            stream = _create(temporary)
        if stream is not None:
            return temporary, stream
    raise AssertionError


def _temporary_names(target: Path) -> Iterator[Path]:
    stem = target.name.encode(errors="ignore")[:100].decode(errors="ignore")  # a name has room for 255 bytes
    for number in count():
        yield target.with_name(f".{stem}.stageguard-{number}.tmp")


def remove_leftovers(targets: Iterable[Path], n_writers: int = 4) -> None:
    """Remove temporary files that up to `n_writers` killed processes left beside each of the targets."""
    for target in targets:
        if storage.is_remote(target):  # objects are written without temporary ones
            continue
        for temporary in islice(_temporary_names(target), n_writers):
            _remove_leftover(temporary)


def _remove_leftover(temporary: Path) -> None:
    """Remove a temporary file whose writer is dead: a writer's lock ends with its process."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()


def _create(temporary: Path) -> BinaryIO | None:
    """Return a new, locked file; None if another process has the name."""
    try:
        # a plain open, unlike tempfile's, gives the permissions that any other new file would get
        stream = temporary.open("xb")
    except FileExistsError:
        return None
    if fcntl is None:
        return stream
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = is_same_file(stream, temporary)
    except BlockingIOError:
        is_ours = False
    except OSError:  # a file system without locks, where no leftover is removed either
        is_ours = True
    except BaseException:  # a signal: closing ends the lock, so that the file can be removed
        stream.close()
        raise
    if not is_ours:  # another process took it for a leftover before it was locked
        stream.close()
        return None
    return stream


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file while the block runs; raise BlockingIOError if another process holds it.

    The lock ends with its process, even a killed one. On a file system without locks, on Windows, and in a
    store, nothing is locked.
    """
    if storage.is_remote(path):
        yield
        return
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
        else:
            if not is_same_file(stream, path):  # its last holder has just removed it
                raise BlockingIOError(errno.EAGAIN, "locked by another process", str(path))
        yield


def is_same_file(stream: BinaryIO | io.FileIO, path: Path) -> bool:
    """Whether a path still leads to the file that a stream has open."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _move_all(written: Mapping[Path, Path]) -> None:
    before: dict[Path, bytes] = {}
    if len(written) > 1:
        before = {target: read_file(target, "a recording") for target in written if target.exists()}
    moved: list[Path] = []
    try:
        for target, temporary in written.items():
            temporary.replace(target)
            moved.append(target)
    except BaseException:
        for target in moved:
            if target in before:
                target.write_bytes(before[target])
            else:
                target.unlink(missing_ok=True)
        raise


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
