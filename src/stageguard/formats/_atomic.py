"""Write several small text files so that all of them change or none. Knows nothing of their content."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from stageguard.errors import OutputError, OutputExistsError


def write_texts(texts: Mapping[Path, str], *, overwrite: bool = False) -> None:
    """Write every file beside its place first, then move all into place; a failure puts back what was there.

    Raises
    ------
    OutputExistsError
        A file exists and `overwrite` is false; nothing was touched.
    OutputError
        A folder or file cannot be written; earlier content is as it was.
    """
    for path in texts:
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder. Choose another name.")
        if path.parent.exists() and not path.parent.is_dir():
            raise OutputError(f"cannot write {path}: {path.parent} is a file, expected a folder.")
        if path.exists() and not overwrite:
            raise OutputExistsError(
                f"{path} exists already. Pass overwrite=True to replace it, or choose another place."
            )
    temporary: dict[Path, Path] = {}
    try:
        try:
            for path, text in texts.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary[path.resolve()] = _write_beside(path.resolve(), text)
            _move_all(temporary)
        except OSError as error:
            place = error.filename or next(iter(texts))
            raise OutputError(
                f"cannot write {place}: {error.strerror or error}. Choose a folder you can write to."
            ) from error
    finally:
        for leftover in temporary.values():
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)


def _write_beside(path: Path, text: str) -> Path:
    written = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with written.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    return written


def _move_all(temporary: Mapping[Path, Path]) -> None:
    before = {path: path.read_bytes() if path.exists() else None for path in temporary}
    moved: list[Path] = []
    try:
        for path, written in temporary.items():
            written.replace(path)
            moved.append(path)
    except BaseException:
        for path in moved:
            old = before[path]
            if old is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(old)
        raise
