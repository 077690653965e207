"""Writing files whole or not at all, one or several together. Knows nothing about what is in them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from stageguard.base import checks
from stageguard.base.errors import OVERWRITE, InputError, Message, OutputError, OutputExistsError
from stageguard.base.input_files import read_file

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where leftovers stay
    fcntl = None

MOST_NAME_BYTES = 255


def write_text_atomic(
    path: str | Path, text: str, *, overwrite: bool = False, spare: Iterable[Path] = ()
) -> None:
    """Write text as UTF-8; see `write_together`."""
    write_together({Path(path): text}, overwrite=overwrite, spare=spare)


def write_together(
    contents: Mapping[Path, str | bytes],
    *,
    overwrite: bool = False,
    make_folders: bool = False,
    spare: Iterable[Path] = (),
    durable: bool = True,
) -> None:
    """Write files that are complete whenever they can be seen under their names, all of them or none.

    Text is UTF-8. The bytes go to temporary files in the same folders, which then take the names. An
    interruption leaves the old files, or none, and nothing else; a failure puts back what was there.

    ``spare`` are files that no name may lead to, such as those that were read. Without ``durable`` the disk
    is not waited for: after a power cut a file may be empty, so the caller must look whether it is.

    Raises
    ------
    OutputExistsError
        A file exists and ``overwrite`` is False; nothing was touched.
    OutputError
        A file cannot be written; the message says why.
    """
    check_places(contents, overwrite=overwrite)
    check_apart(contents, spare)
    written: dict[Path, Path] = {}  # final place -> temporary file
    path = next(iter(contents))
    streams = contextlib.ExitStack()  # open, and so locked, until the files have their names
    try:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            place = real_path(path)  # through a link, so that the link survives
            if make_folders:
                place.parent.mkdir(parents=True, exist_ok=True)
            written[place], stream = new_temporary(place)
            _write(streams.enter_context(stream), data, durable=durable)
        if os.name == "nt":  # where an open file cannot be renamed
            streams.close()
        _move_all(written)
    except FileNotFoundError as error:
        if path.parent.is_dir():  # one that takes no files, such as /proc
            raise _explain(path, error) from error
        raise OutputError(
            f"cannot write {path}: folder {path.parent} does not exist. Create it first."
        ) from None
    except OSError as error:
        raise _explain(path, error) from error
    finally:
        streams.close()
        for leftover in written.values():
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)


def real_path(path: Path) -> Path:
    """Return where a path leads; unlike `Path.resolve`, also that of a link that leads to itself."""
    return Path(os.path.realpath(path))


def as_path(path: object, what: str) -> Path:
    """Return a path of what a caller gave."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"{what} is {checks.shown(path)}, expected a path in quotes.")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text:
        raise InputError(f"{what} is {checks.shown(path)}, expected a path without zero characters.")
    if not Path(text).name:
        raise InputError(f"{what} is {checks.shown(path)}, expected a path to a file.")
    return Path(text)


def check_places(paths: Iterable[Path], *, overwrite: bool = False) -> None:
    """Refuse names that no file can have, and files that exist already unless they may be replaced."""
    for path in paths:
        _check_place(path, overwrite)


def _check_place(path: Path, overwrite: bool) -> None:
    n_bytes = len(os.fsencode(path.name))
    if n_bytes > MOST_NAME_BYTES:
        raise OutputError(
            f"cannot write {path.name[:40]}...: its name has {n_bytes} bytes, expected at most "
            f"{MOST_NAME_BYTES}. Choose a shorter name."
        )
    try:
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder, expected a file name.")
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {path}: it is a device or a pipe, expected a file name.")
        if path.exists() and not overwrite:
            raise OutputExistsError(
                Message(f"{path} exists already. ", OVERWRITE, " to replace it, or choose another name.")
            )
        if path.parent.exists() and not path.parent.is_dir():
            raise OutputError(f"cannot write {path}: {path.parent} is a file, expected a folder.")
    except OutputError:
        raise
    except OSError as error:
        raise _explain(path, error) from error


def check_apart(paths: Iterable[Path], spare: Iterable[Path]) -> None:
    """Refuse names that lead, through links, to one file or to a file to spare."""
    taken = {real_path(path): path for path in spare}
    for path in paths:
        other = taken.setdefault(real_path(path), path)
        if other is not path:
            raise OutputError(f"cannot write {path}: it is the same file as {other}. Choose another name.")


def _explain(path: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot write {path}: {error.strerror or error}. Choose a folder you can write to.")


def new_temporary(place: Path) -> tuple[Path, BinaryIO]:
    """Return a new file beside another one, locked where the system can.

    Names are numbered, so that the next process to write the same file comes upon what a killed one left.
    """
    known = place.name.encode(errors="ignore")[:100].decode(errors="ignore")  # a name has room for 255 bytes
    for number in count():
        temporary = place.with_name(f".{known}.stageguard-{number}.tmp")
        _remove_leftover(temporary)
        stream = _create(temporary)
        if stream is not None:
            return temporary, stream
    raise AssertionError


def _remove_leftover(temporary: Path) -> None:
    """Remove a temporary file whose writer is dead: the lock that a writer holds ends with its process."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink()


def _create(temporary: Path) -> BinaryIO | None:
    """Return a new file, locked; None where another process has the name."""
    try:
        # a plain open, unlike tempfile's, gives the permissions that any other new file would get
        stream = temporary.open("xb")
    except FileExistsError:
        return None
    if fcntl is None:
        return stream
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = _is_same(stream, temporary)
    except BlockingIOError:
        is_ours = False
    except OSError:  # a file system without locks, where no leftover is removed either
        is_ours = True
    if not is_ours:  # another process took it for a leftover before it was locked
        stream.close()
        return None
    return stream


def _is_same(stream: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _write(stream: BinaryIO, data: bytes, *, durable: bool) -> None:
    stream.write(data)
    stream.flush()
    if durable:
        os.fsync(stream.fileno())


def _move_all(written: Mapping[Path, Path]) -> None:
    is_alone = len(written) == 1
    kept = [] if is_alone else [place for place in written if place.exists()]
    before = {place: read_file(place, "a recording") for place in kept}
    moved: list[Path] = []
    try:
        for place, temporary in written.items():
            temporary.replace(place)
            moved.append(place)
    except BaseException:
        for place in moved:
            old = before.get(place)
            if old is None:
                place.unlink(missing_ok=True)
            else:
                place.write_bytes(old)
        raise


_UNSHOWN = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]|\\\\(?=x[0-9a-f]{2}|u[0-9a-f]{4})")
_SHOWN = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4}))")
_FORMULA = re.compile(r"'*[=+\-@]")
CELL_WORDS = (
    "Text that begins with = + - or @ has an apostrophe before it, so that no spreadsheet takes it for a "
    "formula; control characters are written as \\xNN or \\uNNNN."
)


def write_cell(text: str) -> str:
    """Return a text as a cell of a table: see `CELL_WORDS`. `read_cell` gives it back."""
    shown = _UNSHOWN.sub(lambda c: f"\\x{ord(c[0]):02x}" if ord(c[0]) < 256 else f"\\u{ord(c[0]):04x}", text)
    return f"'{shown}" if _FORMULA.match(shown) else shown


def read_cell(cell: str) -> str:
    """Return the text that `write_cell` made a cell of."""
    text = cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
    return _SHOWN.sub(lambda c: chr(int(c[1] or c[2], 16)), text)
