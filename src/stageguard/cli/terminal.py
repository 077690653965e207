"""Print what all commands print in the same way: errors, lists, tables, JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stageguard.base.errors import (
    Argument,
    EpochNumber,
    InputError,
    Message,
    NightNumber,
    RowNumber,
    error_message,
    message_of,
    visible,
)
from stageguard.cli.console import Console, Text
from stageguard.runner.stopping import unstopped

# Options that are not named after their argument.
_OPTIONS = {
    "target_format": "--to",
    "reepoch_to": "--reepoch",
    "merge_to": "--merge",
    "pool_to_seconds": "--pool",
}


def in_options(message: object, names: Sequence[str] = ()) -> str:
    """Return a message as text, with options for its arguments and names for its numbered nights."""

    def say(part: object) -> object:
        if isinstance(part, Argument):
            return _option(part)
        if isinstance(part, NightNumber) and 0 < part.number <= len(names):
            return names[part.number - 1]
        return part.for_people() if isinstance(part, EpochNumber | RowNumber) else part

    return str(message_of(message).replace_parts(say))


@contextmanager
def naming_nights(names: Sequence[str]) -> Iterator[None]:
    """Replace the numbers of nights in an error by their names."""
    try:
        yield
    except InputError as error:
        raise InputError(in_options(error, names)) from None


def _option(argument: Argument) -> str:
    option = _OPTIONS.get(argument.name, f"--{argument.name.replace('_', '-')}")
    value = argument.value
    if value is None or value is True:
        return option
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    if isinstance(value, str) and " " in value:
        value = shlex.quote(value)
    return f"{option} {value:g}" if isinstance(value, float) else f"{option} {value}"


def one_line(text: object) -> str:
    """Return a text on one line, with options for a message's arguments and escapes as by `visible`."""
    return visible(" ".join(in_options(text).split()))


def count(number: int, noun: str) -> str:
    """Return a number of things, as in `1 epoch`, `960 epochs`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def error_text(error: object, path: Path | None = None) -> str:
    """Return an error as one line that begins with its file."""
    return one_line(error_message(error, path))


def print_error(error: object, path: Path | None = None) -> None:
    """Write `stageguard: <one line>` to stderr."""
    print(f"stageguard: {error_text(error, path)}", file=sys.stderr)


def print_warning(warning: object) -> None:
    """Write `stageguard: warning: <one line>` to stderr."""
    print(f"stageguard: warning: {one_line(warning)}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Write JSON, and nothing but JSON, to stdout."""
    print(json_text(value))


def json_text(value: Any) -> str:
    """Return JSON that standard output can encode; messages name options instead of arguments."""
    from stageguard.base.files import json_lines
    from stageguard.formats.outputs import plain

    value = _said(value)
    text = json_lines(plain(value), ensure_ascii=False)
    if not text.replace("\n", "").isprintable():  # JSON escapes only some of what a terminal obeys
        return json_lines(plain(value))
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json_lines(plain(value))
    return text


def _said(value: Any) -> Any:
    if isinstance(value, Message):
        return in_options(value)
    if isinstance(value, dict):
        return {key: _said(item) for key, item in value.items()}
    return [_said(item) for item in value] if isinstance(value, list | tuple) else value


class JsonList:
    """A JSON list, printed item by item and always closed, so that the output stays valid JSON."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._wanted, self._n_items = wanted, 0

    def __enter__(self) -> JsonList:
        """Begin the list."""
        return self

    def add(self, value: Any) -> None:
        """Print one more item."""
        if not self._wanted:
            return
        text = "\n".join(f"  {line}" for line in json_text(value).split("\n"))
        with unstopped():  # a signal must not cut an item in two
            print(f"[\n{text}" if self._n_items == 0 else f",\n{text}", end="")
            self._n_items += 1

    def __exit__(self, *_: object) -> None:
        """Close the list."""
        if self._wanted:
            print("\n]" if self._n_items else "[]", flush=True)


def print_heading(out: Console, heading: str) -> None:
    """Print a heading with a blank line before it."""
    out.print()
    out.print(heading, "bold")


def print_list(out: Console, heading: str, items: Any, *, whole_lines: bool = False) -> None:
    """Print a heading and its items, or nothing if there are no items.

    With `whole_lines`, the terminal breaks long lines, so that a command in them can be copied.
    """
    items = [one_line(item) for item in items]
    if not items:
        return
    if len(items) == 1:
        out.print(Text((f"{heading}: ", "bold"), items[0]), whole_line=whole_lines)
        return
    out.print(heading, "bold")
    for item in items:
        out.print(f"- {item}", indent=2, whole_line=whole_lines)
