"""What every command says to the user: errors, tables, JSON, progress."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from stageguard.base.errors import (
    Argument,
    Message,
    NightNumber,
    error_message,
    message_of,
)
from stageguard.runner.stopping import unstopped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Item = TypeVar("Item")

PIPE_WIDTH = 110
LONGEST_WORD = 40  # that a column makes room for; longer ones, such as paths, are broken

# Arguments whose option is not called like them.
_OPTIONS = {
    "target_format": "--to",
    "reepoch_to": "--reepoch",
    "merge_to": "--merge",
    "pool_to_seconds": "--pool",
}


def in_options(message: object, names: Sequence[str] = ()) -> str:
    """Text of a message with options for its arguments, and names for the numbers of its nights."""

    def say(part: object) -> object:
        if isinstance(part, Argument):
            return _option(part)
        if isinstance(part, NightNumber) and 0 < part.number <= len(names):
            return names[part.number - 1]
        return part

    return str(message_of(message).replace_parts(say))


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
    """Text on one line, without control characters, with options for a message's arguments."""
    return " ".join("".join(c if c.isprintable() else " " for c in in_options(text)).split())


def escaped(text: object) -> str:
    """Text on one line, with characters that do not show, or turn a line around, written as escapes."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def count(number: int, noun: str) -> str:
    """Return a number of things, as in `1 epoch`, `960 epochs`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def error_text(error: object, path: Path | None = None) -> str:
    """One line for an error, beginning with the file it is about."""
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
    """Return JSON that standard output can show, whatever its encoding; messages speak of options."""
    from stageguard.formats.outputs import plain

    value = _said(value)
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(plain(value), indent=2, allow_nan=False)
    return text


def _said(value: Any) -> Any:
    if isinstance(value, Message):
        return in_options(value)
    if isinstance(value, dict):
        return {key: _said(item) for key, item in value.items()}
    return [_said(item) for item in value] if isinstance(value, list | tuple) else value


class JsonList:
    """A JSON list on stdout, item by item as they come; closed whatever happens, so that it stays JSON."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._wanted, self._n_items = wanted, 0

    def __enter__(self) -> JsonList:
        """Begin the list."""
        return self

    def add(self, value: Any) -> None:
        """Print one more."""
        if not self._wanted:
            return
        text = "\n".join(f"  {line}" for line in json_text(value).split("\n"))
        with unstopped():  # whoever stops it gets whole items
            print(f"[\n{text}" if self._n_items == 0 else f",\n{text}", end="")
            self._n_items += 1

    def __exit__(self, *_: object) -> None:
        """Close the list."""
        if self._wanted:
            print("\n]" if self._n_items else "[]", flush=True)


def console(*, stderr: bool = False) -> Console:
    """Return a console that takes text as it is: brackets in a file name are no markup."""
    from rich.console import Console
    from rich.table import Table

    class Roomy(Console):
        """Makes itself as wide as a table needs: of a narrow terminal's lines none loses a column."""

        def print(self, *objects: Any, **options: Any) -> None:
            needed = max((_least_width(one) for one in objects if isinstance(one, Table)), default=0)
            before = self.width
            self.width = max(before, needed)
            try:
                super().print(*objects, **options)
            finally:
                self.width = before

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    file = None if stream.isatty() else cast("IO[str]", _Trimmed(stream))
    return Roomy(
        file=file, stderr=stderr, markup=False, highlight=False, emoji=False, width=width, soft_wrap=False
    )


def _least_width(shown: Table) -> int:
    """Give each column room for its longest word; returns what the table then needs."""
    from rich.cells import cell_len

    for column in shown.columns:
        texts = [str(one) for one in (column.header, *column.cells)]
        if column.justify == "right":  # a number stays on its line, with its sign and its unit
            words = texts[1:] + texts[0].split()
        else:
            words = [word for text in texts for word in text.split()]
        column.min_width = min(max(map(cell_len, words), default=1), LONGEST_WORD)
    gaps = 3 * (len(shown.columns) - 1)
    return sum(column.min_width or 1 for column in shown.columns) + gaps


class _Trimmed:
    """A stream whose lines end without blanks, which wrapped lines and tables leave behind."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def progress(items: Iterable[Item], what: str, n_items: int, *, quiet: bool) -> Iterable[Item]:
    """Return the items, with a progress bar on stderr when there are several and a person is watching."""
    if n_items < 2 or quiet or not sys.stderr.isatty():
        return items
    from rich.progress import track

    return track(items, description=what, total=n_items, console=console(stderr=True), transient=True)


@contextmanager
def progress_bar(what: str, *, quiet: bool) -> Iterator[Callable[..., None] | None]:
    """Yield what moves a bar on stderr (total, completed, description), or None where nobody is watching."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task(what, total=None))


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table in the house style; the columns named in `right` are numbers."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def print_heading(out: Console, heading: str) -> None:
    """Print a heading with a blank line before it."""
    from rich.text import Text

    out.print()
    out.print(Text(heading, "bold"))


def print_list(out: Console, heading: str, items: Any, *, whole_lines: bool = False) -> None:
    """Print a heading and its items, or nothing when there are none.

    `whole_lines` leaves it to the terminal to break long lines, so that a command in them can be copied.
    """
    from rich.padding import Padding
    from rich.text import Text

    items = [one_line(item) for item in items]
    if not items:
        return
    if len(items) == 1:
        out.print(Text.assemble((f"{heading}: ", "bold"), items[0]), soft_wrap=whole_lines)
        return
    out.print(Text(heading, "bold"))
    for item in items:
        if whole_lines:
            out.print(Text(f"  - {item}"), soft_wrap=True)
        else:
            out.print(Padding(Text(f"- {item}"), (0, 0, 0, 2), expand=False))
