"""Give bytes and open binary files to readers that read files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from stageguard.errors import InputError
from stageguard.files import LIMITS
from stageguard.storage import copy_stream, own_folder

UNNAMED = "bytes"  # name of the file of bytes that have none, without a suffix that tells a format


def is_stream(source: object) -> bool:
    """Whether an argument is the content of a file: bytes, or an object that is open for reading."""
    return isinstance(source, bytes | bytearray | memoryview) or callable(getattr(source, "read", None))


@contextmanager
def as_file(source: Any, kind: str) -> Iterator[Path]:
    """Yield a file with the content of bytes or of an open file; it is removed afterwards."""
    with TemporaryDirectory(prefix="stageguard-") as folder:
        yield _write(source, kind, Path(folder))


def kept_file(source: Any, kind: str) -> Path:
    """Return a file with the content of bytes or of an open file, which is kept until this process ends."""
    return _write(source, kind, own_folder())


def _write(source: Any, kind: str, folder: Path) -> Path:
    name = getattr(source, "name", None)
    name = PurePath(name).name if isinstance(name, str) else ""
    stream = source if callable(getattr(source, "read", None)) else io.BytesIO(source)
    path = folder / (name or UNNAMED)
    with path.open("wb") as file:
        try:
            n_bytes = copy_stream(stream, file, LIMITS[kind])
        except (TypeError, io.UnsupportedOperation, ValueError) as error:
            raise _unreadable(source, error) from None
    if n_bytes > LIMITS[kind]:
        raise InputError(f"{path.name}: has more than {LIMITS[kind]:,} bytes, expected fewer of {kind}.")
    return path


def _unreadable(source: Any, error: Exception) -> InputError:
    if isinstance(error, TypeError):  # text was read
        return InputError(f'{type(source).__name__} is open as text, expected bytes: open(path, "rb").')
    return InputError(f"{type(source).__name__} cannot be read ({error}), expected a file open for reading.")
