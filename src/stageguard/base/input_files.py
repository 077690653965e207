"""The one gate through which files are read: regular files, no larger than their kind ever is.

`tests/base/test_input_files.py` holds every module to it.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from stageguard.base.errors import FileFormatError, StageGuardError

# Bytes that a file of each kind may have, far above what any real one has.
LIMITS = {
    "a header": 10**6,
    "TOML": 16 * 2**20,
    "XML": 32 * 2**20,
    "JSON": 64 * 2**20,
    "a list": 64 * 2**20,
    "annotations": 256 * 2**20,
    "text": 2**30,
    "an array": 4 * 2**30,
    "weights": 64 * 2**30,
    "a recording": 2**40,
}
BLOCK_BYTES = 2**20
MOST_CONTAINERS = 1_000_000  # lists and objects in a JSON document; each takes some 100 bytes of memory
SAVE_FIRST = "is a pipe or a device, expected a file. Save it to one first."


def checked_file(path: Path, kind: str) -> Path:
    """Return the path of a regular file, also through links, that is not too large for its kind.

    What is not there, or may not be looked at, is Python's own OSError.
    """
    try:
        facts = path.stat()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _refused(path, "is a link that leads back to itself. Name the file it stood for.") from None
    except ValueError:  # a zero character in its name
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path)) from None
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(facts.st_mode):
        raise _refused(path, SAVE_FIRST)
    if facts.st_size > LIMITS[kind]:
        raise _too_large(path, kind, facts.st_size)
    return path


def open_file(path: Path, kind: str, *, buffering: int = -1) -> BinaryIO:
    """Return a file that is open for reading bytes."""
    return checked_file(path, kind).open("rb", buffering=buffering)


def open_text(path: Path, kind: str, *, encoding: str = "utf-8", errors: str = "strict") -> TextIO:
    """Return a file that is open for reading text, with its line ends as they are."""
    return checked_file(path, kind).open(encoding=encoding, errors=errors, newline="")


def read_file(path: Path, kind: str) -> bytes:
    """Return what a file holds; one that grows meanwhile is refused, too."""
    with open_file(path, kind) as file:
        data = file.read(os.fstat(file.fileno()).st_size + 1)  # no more, for it is set aside at once
        while (block := file.read(BLOCK_BYTES)) and len(data) <= LIMITS[kind]:
            data += block
    if len(data) > LIMITS[kind]:
        raise _too_large(path, kind, len(data))
    return data


def read_text(path: Path, kind: str, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a file, with plain line ends."""
    return io.TextIOWrapper(io.BytesIO(read_file(path, kind)), encoding=encoding, errors=errors).read()


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says; a name twice in one object, or far too many lists, is a ValueError."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    n_containers = data.count(b"[") + data.count(b"{")
    if n_containers > MOST_CONTAINERS:
        raise ValueError(f"{n_containers:,} lists and objects, expected at most {MOST_CONTAINERS:,}")
    return json.loads(text, object_pairs_hook=_object)


@contextmanager
def faults_named(name: str) -> Iterator[None]:
    """Turn what a reader raises by mistake into one line with the file's name and the error's type."""
    try:
        yield
    except (StageGuardError, OSError, MemoryError):
        raise
    except Exception as error:
        raise FileFormatError(f"{name}: cannot be read ({fault_text(error)}). Is it damaged?") from error


def fault_text(error: Exception) -> str:
    """Return the type of an error that is not this package's, and what it says, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}".removesuffix(": ")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:40]!r} is there twice, expected it once")
    return found


def _too_large(path: Path, kind: str, size: int) -> FileFormatError:
    return _refused(path, f"has {size:,} bytes, expected at most {LIMITS[kind]:,} of {kind}.")


def _refused(path: Path, message: str) -> FileFormatError:
    return FileFormatError(f"{path.name or path}: {message}")
