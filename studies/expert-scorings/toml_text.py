"""Write TOML with comments.

Only what profile files need: strings, numbers, booleans, lists, inline tables. It reads nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping


def value(item: object) -> str:
    """One TOML value on one line."""
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str):
        return json.dumps(item, ensure_ascii=False)
    if isinstance(item, (int, float)):
        return repr(item)
    if isinstance(item, Mapping):
        return "{ " + ", ".join(f"{key(k)} = {value(v)}" for k, v in item.items()) + " }"
    if isinstance(item, (list, tuple)):
        return "[" + ", ".join(value(entry) for entry in item) + "]"
    raise TypeError(f"cannot write {item!r} as TOML")


def key(name: str) -> str:
    """A key, quoted where it must be."""
    return name if name.replace("-", "").replace("_", "").isalnum() else json.dumps(name)


def line(name: str, item: object, comment: str = "") -> str:
    """``name = value``, with its source or reason behind it."""
    return f"{key(name)} = {value(item)}" + (f"  # {comment}" if comment else "")


def section(header: str, entries: Mapping[str, object], comment: str = "") -> str:
    """A table, ``[header]`` or ``[[header]]``, with its entries below it."""
    lines = [header + (f"  # {comment}" if comment else "")]
    return "\n".join(lines + [line(name, item) for name, item in entries.items()])
