"""Read and write TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stageguard.base.files import file_error, read_file

MOST_KEY_PARTS = 100  # as in "a.b.c"; the time to read a key grows with the square of its parts
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_KEY_PART}(?:\.[ \t]*+{_KEY_PART}){{{MOST_KEY_PARTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Return a TOML document; whatever cannot be read is a `tomllib.TOMLDecodeError`."""
    if _LONG_KEY.search(text):
        raise tomllib.TOMLDecodeError(f"a key has more than {MOST_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("tables or lists are nested too deeply") from None
    except ValueError as error:  # also a number of more digits than Python reads
        raise tomllib.TOMLDecodeError(str(error)) from None


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return a TOML document (`what`: "a profile"); a missing file raises Python's own FileNotFoundError."""
    try:
        data = read_file(path, "TOML")
    except IsADirectoryError:
        raise file_error(path, "is a folder, expected a .toml file.") from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise file_error(path, f"cannot be read: {error.strerror or error}.") from None
    if not data.strip():
        raise file_error(path, f"the file is empty ({len(data)} bytes), expected {what} in TOML.")
    try:
        return parse_toml(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        reason = f"not a text file (byte {error.start} is not UTF-8), expected {what} in TOML."
    except tomllib.TOMLDecodeError as error:
        reason = f"not valid TOML: {error}."
    raise file_error(path, reason)


def toml_text(document: Mapping[str, object]) -> str:
    """Return a document as TOML that reads back equal, its keys in their order."""
    import tomli_w  # here, so that `import stageguard` loads numpy only

    return tomli_w.dumps(document)
