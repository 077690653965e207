"""Print on the terminal: texts, lists, tables and progress bars that rich lays out, errors, and JSON.

Rich is imported when something is printed.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from stageguard.errors import (
    InputError,
    error_message,
    visible,
)
from stageguard.runner.stopping import unstopped

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import ProgressColumn
    from rich.text import Text

    from stageguard.runner.run import Outcome

Item = TypeVar("Item")
Piece = str | tuple[str, str]  # a text, or a text and its style, such as `bold red`

PIPE_WIDTH = 110
LONGEST_WORD = 40  # longest word that a column makes room for; longer ones, such as paths, are broken
GAP = 3  # spaces between columns
SECONDS_BETWEEN = 0.1  # between two drawings of a progress bar
NUMBERS = ">"  # before the title of a column of numbers, which stand at the right


class Console:
    """Standard output or standard error, as wide as the terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._stream: TextIO = sys.stderr if stderr else sys.stdout
        self.width = _width_of(self._stream)

    def print(self, *pieces: Piece, style: str = "", indent: int = 0, whole_line: bool = False) -> None:
        """Print a text; `whole_line` leaves it to the terminal to break the line."""
        self._write(_rich_text(pieces, style), indent, indent + 1, whole_line=whole_line)

    def heading(self, heading: str) -> None:
        """Print a heading with a blank line before it."""
        self.print()
        self.print(heading, style="bold")

    def list(self, heading: str, items: Iterable[object], *, whole_lines: bool = False) -> None:
        """Print a heading and its items, or nothing if there are no items.

        With `whole_lines`, the terminal breaks long lines, so that a command in them can be copied.
        """
        texts = [one_line(item) for item in items]
        if len(texts) == 1:
            self.print((f"{heading}: ", "bold"), texts[0], whole_line=whole_lines)
        elif texts:
            self.print(heading, style="bold")
            for text in texts:
                self.print(f"- {text}", indent=2, whole_line=whole_lines)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        headed: bool = True,
        indent: int = 0,
    ) -> None:
        """Print a table, with a line of titles if it is `headed`; `>` before a title means numbers.

        No column is narrower than its words, and a number keeps its sign and its unit.
        """
        from rich import box
        from rich.cells import cell_len
        from rich.table import Table

        cells = [list(map(_rich_cell, row)) for row in rows]
        table = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=headed, header_style="bold"
        )
        least = indent + 1 + GAP * (len(columns) - 1)
        for k, column in enumerate(columns):
            title, is_number = one_line(column.removeprefix(NUMBERS)), column.startswith(NUMBERS)
            texts = [row[k].plain for row in cells]
            words = texts if is_number else [word for text in texts for word in text.split()]
            width = min(LONGEST_WORD, max(map(cell_len, [*words, *title.split(), " "])))
            least += width
            table.add_column(
                title,
                justify="right" if is_number else "left",
                no_wrap=is_number,
                overflow="fold",
                min_width=width,
            )
        for row in cells:
            table.add_row(*row)
        self._write(table, indent, least)

    def _write(self, shown: RenderableType, indent: int, least: int, *, whole_line: bool = False) -> None:
        """Write text or a table without blanks at the ends of lines."""
        from rich.console import Console as RichConsole
        from rich.padding import Padding

        out = RichConsole(
            file=self._stream,
            width=max(self.width, least),
            color_system="auto" if _is_coloured(self._stream) else None,
            markup=False,
            emoji=False,
        )
        with out.capture() as captured:
            out.print(
                Padding.indent(shown, indent) if indent and not whole_line else shown, soft_wrap=whole_line
            )
        before = " " * indent if whole_line else ""
        for line in captured.get().splitlines():
            self._stream.write(f"{before}{line}".rstrip() + "\n")


def _rich_text(pieces: Iterable[Piece], style: str = "") -> Text:
    """Return a text for rich, with escapes for what a terminal would obey."""
    from rich.text import Text

    styled = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
    escaped = [("\n".join(map(visible, text.split("\n"))), style) for text, style in styled]
    return Text.assemble(*escaped, style=style)


def _rich_cell(cell: object) -> Text:
    """Return a cell of a table for rich: a list of pieces, a text and its style, or what has a text."""
    if isinstance(cell, list):
        return _rich_text(cell)
    if isinstance(cell, tuple):
        return _rich_text([(one_line(cell[0]), cell[1])])
    return _rich_text([f"{cell:,}" if isinstance(cell, int) else one_line(cell)])


def _width_of(stream: TextIO) -> int:
    """Return the width of a stream: COLUMNS, else the terminal's, else that of a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    except (AttributeError, OSError, ValueError):  # not a terminal
        return PIPE_WIDTH


def _is_coloured(stream: TextIO) -> bool:
    """Whether to print styles: the stream is a terminal that supports them, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def with_names(message: object, names: Sequence[str]) -> str:
    """Return a message with names for its numbered nights."""
    text = str(message)
    for number, name in enumerate(names, start=1):
        text = re.sub(rf"\b(?:night|expert) {number}\b", name.replace("\\", r"\\"), text)
    return text


@contextmanager
def naming_nights(names: Sequence[str]) -> Iterator[None]:
    """Replace the numbers of nights in an error by their names."""
    try:
        yield
    except InputError as error:
        raise InputError(with_names(error, names)) from None


def one_line(text: object) -> str:
    """Return a text on one line, with the command's options for Python's, and escapes as by `visible`."""
    return visible(_PYTHON_OPTION.sub(_in_shell, " ".join(str(text).split())))


# An option as messages spell it, such as logits=True or format='dreem-json'.
_PYTHON_OPTION = re.compile(r"(?<= )([a-z_]+)=(True|'[^']*'|[0-9.]*[0-9])(?=[.,;:)]?(?: |$))")
_OPTIONS = {"target_format": "--to", "reepoch_to": "--reepoch", "merge_to": "--merge"}


def _in_shell(found: re.Match[str]) -> str:
    """Return an option as the shell spells it, if the command that runs has it."""
    context = click.get_current_context(silent=True)
    option = _OPTIONS.get(found[1], f"--{found[1].replace('_', '-')}")
    if context is None or not any(option in parameter.opts for parameter in context.command.params):
        return found[0]
    return option if found[2] == "True" else f"{option} {found[2].strip(chr(39))}"


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


def json_text(value: Any, levels: int = 2) -> str:
    """Return JSON that standard output can encode, with a line for each entry of the outer levels."""
    from stageguard.files import json_lines
    from stageguard.formats.outputs import plain

    text = json_lines(plain(value), ensure_ascii=False, levels=levels)
    if not text.replace("\n", "").isprintable():  # JSON escapes only some of what a terminal obeys
        return json_lines(plain(value), levels=levels)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json_lines(plain(value), levels=levels)
    return text


@contextmanager
def json_list() -> Iterator[Callable[[Any], None]]:
    """Yield a function that prints one more item of a JSON list: plain types, or what has `to_dict`.

    The list is always closed, so that the output stays valid JSON.
    """
    n_items = 0

    def add(item: Any) -> None:
        nonlocal n_items
        value = item.to_dict() if hasattr(item, "to_dict") else item
        text = "\n".join(f"  {line}" for line in json_text(value).split("\n"))
        with unstopped():  # a signal must not cut an item in two
            print(f"[\n{text}" if n_items == 0 else f",\n{text}", end="")
            n_items += 1

    try:
        yield add
    finally:
        print("\n]" if n_items else "[]", flush=True)


@contextmanager
def progress_bar(what: str, *, quiet: bool, in_bytes: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function that moves a bar (total, completed, description), or None without a terminal.

    The bar is on standard error, and disappears at the end.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    amount: ProgressColumn = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeLeft())
    # Drawn by the calls alone: a thread that draws would be copied into forked workers.
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    with bar:
        task, drawn = bar.add_task(what, total=None), monotonic()
        bar.refresh()

        def move(
            *, total: int | None = None, completed: int | None = None, description: str | None = None
        ) -> None:
            nonlocal drawn
            bar.update(task, total=total, completed=completed, description=description)
            if monotonic() - drawn >= SECONDS_BETWEEN:
                drawn = monotonic()
                bar.refresh()

        yield move


@contextmanager
def outcome_bar(
    what: str, n_nights: int | None, *, quiet: bool, show: Callable[[Outcome[Any]], None] | None = None
) -> Iterator[Callable[[Outcome[Any]], None]]:
    """Yield what to do with the outcome of each night: show it, and move a bar if there are several.

    How many nights a table has is not known before: `n_nights` is None.
    """
    numbers = itertools.count(1)
    with progress_bar(what, quiet=quiet or (n_nights is not None and n_nights < 2)) as move:

        def on_outcome(outcome: Outcome[Any]) -> None:
            if show is not None:
                show(outcome)
            if move is not None:
                move(total=n_nights, completed=next(numbers))

        yield on_outcome


def progress(items: Iterable[Item], what: str, n_items: int, *, quiet: bool) -> Iterable[Item]:
    """Yield the items, with a bar if there are several and standard error is a terminal."""
    with progress_bar(what, quiet=quiet or n_items < 2) as move_bar:
        for number, item in enumerate(items, 1):
            yield item
            if move_bar is not None:
                move_bar(total=n_items, completed=number)


def size_words(n_bytes: int) -> str:
    """Return a size, as in `1.5 MB`."""
    from rich.filesize import decimal

    return decimal(n_bytes)
