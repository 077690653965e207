"""Writing a file whole or not at all. Knows nothing about what is in it."""

from __future__ import annotations

import os
from pathlib import Path

from stageguard.errors import OutputError, OutputExistsError


def write_text_atomic(path: str | Path, text: str, *, overwrite: bool = False) -> None:
    """Write text as UTF-8; see `write_bytes_atomic`."""
    write_bytes_atomic(path, text.encode(), overwrite=overwrite)


def write_bytes_atomic(path: str | Path, data: bytes, *, overwrite: bool = False) -> None:
    """Write a file that is complete whenever it can be seen under its name.

    The bytes go to a temporary file in the same folder, which then takes the name. An
    interruption leaves the old file, or none, and nothing else.

    Raises
    ------
    OutputExistsError
        The file exists and ``overwrite`` is False.
    OutputError
        It cannot be written; the message says why.
    """
    path = Path(path)
    try:
        _write(path, data, overwrite)
    except OutputError:
        raise
    except FileNotFoundError:
        raise OutputError(
            f"cannot write {path}: folder {path.parent} does not exist. Create it first."
        ) from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}.") from error


def _write(path: Path, data: bytes, overwrite: bool) -> None:
    target = path.resolve()  # through a link, so that the link survives
    if target.is_dir():
        raise OutputError(f"cannot write {path}: it is a folder, expected a file name.")
    if target.exists() and not target.is_file():
        raise OutputError(f"cannot write {path}: it is a device or a pipe, expected a file name.")
    if target.exists() and not overwrite:
        raise OutputExistsError(
            f"{path} exists already. Pass overwrite=True to replace it, or choose another name."
        )
    # a plain open, unlike tempfile's, gives the permissions that any other new file would get
    temporary = target.with_name(f".{target.name[:100]}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
