"""A small exact TOML writer; what it writes, tomllib reads back as it was. Does not keep comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

LINE_LENGTH = 110

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_ESCAPED = re.compile(r'[\\"\x00-\x1f\x7f]')


def dumps(document: Mapping[str, object]) -> str:
    """Return a document as TOML.

    Values are strings, numbers, booleans, lists and mappings of these, nested at will. Mappings
    at the top get a header of their own; deeper ones only where they would not fit on a line.
    """
    return "\n".join(_blocks(document))


def _blocks(table: Mapping[str, Any], path: tuple[str, ...] = (), header: str = "") -> Iterator[str]:
    """Yield the table's own lines, then a block for each part that needs a header."""
    parts = {key: value for key, value in table.items() if _needs_header(key, value, top=not path)}
    lines = "".join(f"{_assignment(key, value)}\n" for key, value in table.items() if key not in parts)
    if header or lines:
        yield header + lines
    for key, value in parts.items():
        inner = (*path, _key(key))
        if isinstance(value, Mapping):
            yield from _blocks(value, inner, f"[{'.'.join(inner)}]\n")
        else:
            for item in value:
                yield from _blocks(item, inner, f"[[{'.'.join(inner)}]]\n")


def _needs_header(key: str, value: Any, *, top: bool) -> bool:
    if isinstance(value, Mapping):
        return top or _is_long(key, value)
    is_tables = isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value)
    return is_tables and len(value) > 0 and _is_long(key, value)


def _assignment(key: str, value: object) -> str:
    if not isinstance(value, list | tuple) or not _is_long(key, value):
        return f"{_key(key)} = {_value(value)}"
    if all(isinstance(item, int | float) for item in value):
        numbers, width = ", ".join(map(_value, value)), max(1, LINE_LENGTH - 5)
        lines = wrap(numbers, width, break_long_words=False, break_on_hyphens=False)
    else:
        lines = [f"{_value(item)}," for item in value]
    items = "".join(f"    {line}\n" for line in lines)
    return f"{_key(key)} = [\n{items}]"


def _is_long(key: str, value: object) -> bool:
    return len(f"{_key(key)} = {_value(value)}") > LINE_LENGTH


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)  # the shortest digits that read back as the same number
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    raise TypeError(f"cannot write {value!r} ({type(value).__name__}) as TOML.")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], f"\\u{ord(match[0]):04x}")
