"""JSON that people can read and that takes little time to write."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

LEVELS = 2  # of lists and objects that have a line for each entry
_ENCODERS = {
    is_ascii: json.JSONEncoder(allow_nan=False, ensure_ascii=is_ascii).encode for is_ascii in (True, False)
}


def json_lines(value: Any, *, ensure_ascii: bool = True) -> str:
    """Return JSON with a line for each entry of the outer levels; the rest of an entry is on its line.

    C encodes what is on a line. An indent for every level is left to Python, which takes several times as
    long.
    """
    return _lines(value, _ENCODERS[ensure_ascii], LEVELS, "\n")


def _lines(value: Any, encode: Callable[[Any], str], levels: int, line_end: str) -> str:
    if not levels or not value or not isinstance(value, dict | list):
        return encode(value)
    inner = line_end + "  "
    if isinstance(value, dict):
        entries = [f"{encode(key)}: {_lines(item, encode, levels - 1, inner)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(entries) + line_end + "}"
    entries = [_lines(item, encode, levels - 1, inner) for item in value]
    return "[" + inner + f",{inner}".join(entries) + line_end + "]"
