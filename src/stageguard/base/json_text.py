"""JSON that people can read and that takes little time to write."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

LEVELS = 2  # nested lists and objects whose entries have a line each
_ENCODERS = {
    is_ascii: json.JSONEncoder(allow_nan=False, ensure_ascii=is_ascii).encode for is_ascii in (True, False)
}


def json_lines(value: Any, *, ensure_ascii: bool = True) -> str:
    """Return JSON with a line for each entry of the outer levels; deeper levels stay on the entry's line.

    Each line is encoded in C. `json.dumps` with an indent encodes in Python, several times as slowly.
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
