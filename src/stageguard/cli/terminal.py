"""Print on the terminal: texts, lists, tables, progress bars, errors, and JSON."""

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
from unicodedata import combining, east_asian_width

import click

from stageguard.errors import InputError, error_message, visible

if TYPE_CHECKING:
    from stageguard.runner.run import Outcome

Item = TypeVar("Item")
Piece = str | tuple[str, str]  # a text, or a text and its style, such as `bold red`
Text = list[tuple[str, str]]  # characters, each with its style
Widths = list[int]  # of the columns of a table

PIPE_WIDTH = 110
LONGEST_WORD = 40  # longest word that a column makes room for; longer ones, such as paths, are broken
GAP = 3  # spaces between columns
SECONDS_BETWEEN = 0.1  # between two drawings of a progress bar
NUMBERS = ">"  # before the title of a column of numbers, which stand at the right
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Console:
    """Standard output or standard error, as wide as the terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._stream: TextIO = sys.stderr if stderr else sys.stdout
        self.width = _width_of_stream(self._stream)

    def print(self, *pieces: Piece, style: str = "", indent: int = 0, whole_line: bool = False) -> None:
        """Print a text; `whole_line` leaves it to the terminal to break the line."""
        width = sys.maxsize if whole_line else max(1, self.width - indent)
        for line in _wrapped(_text(pieces, style), width):
            self._write(" " * indent + self._coloured(line))

    def heading(self, heading: str) -> None:
        """Print a heading with a blank line before it."""
        self.print()
        self.print(heading, style="bold")

    def list(self, heading: str, items: Iterable[object]) -> None:
        """Print a heading and its items, or nothing if there are no items."""
        texts = [one_line(item) for item in items]
        if len(texts) == 1:
            self.print((f"{heading}: ", "bold"), texts[0])
        elif texts:
            self.print(heading, style="bold")
            for text in texts:
                self.print(f"- {text}", indent=2)

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
        right = [column.startswith(NUMBERS) for column in columns]
        titles = [_cell((column.removeprefix(NUMBERS), "bold")) for column in columns]
        cells = [titles, *([_cell(value) for value in row] for row in rows)]
        widths = self._widths(cells, right, indent)
        for number, row in enumerate(cells):
            if number or headed:
                self._write_row(row, widths, right, indent)
            if headed and number == 0:
                has_line = "─".encode(_encoding(self._stream), "replace") != b"?"
                rule = "─" if has_line else "-"
                self._write(" " * indent + rule * (sum(widths) + GAP * (len(widths) - 1)))

    def _widths(self, cells: Sequence[Sequence[Text]], right: Sequence[bool], indent: int) -> Widths:
        """Return the widths of columns; texts are broken into lines if the table would be too wide."""
        widths, least = [], []
        for is_number, column in zip(right, zip(*cells, strict=True), strict=True):
            texts = [_plain(cell) for cell in column]
            words = texts if is_number else [word for text in texts for word in text.split()]
            widths.append(max(map(_width, texts)))
            least.append(min(LONGEST_WORD, max(map(_width, words), default=0)))
        room = self.width - indent - GAP * (len(widths) - 1)
        while sum(widths) > room:
            spare = [max(0, width - low) for width, low in zip(widths, least, strict=True)]
            if not any(spare):
                break
            widths[spare.index(max(spare))] -= 1
        return widths

    def _write_row(self, row: Sequence[Text], widths: Widths, right: Sequence[bool], indent: int) -> None:
        columns = [_wrapped(cell, max(1, width)) for cell, width in zip(row, widths, strict=True)]
        for line in itertools.zip_longest(*columns, fillvalue=list[tuple[str, str]]()):
            parts = []
            for cell, width, is_number in zip(line, widths, right, strict=True):
                blank, text = " " * (width - _width(_plain(cell))), self._coloured(cell)
                parts.append(blank + text if is_number else text + blank)
            self._write(" " * indent + (" " * GAP).join(parts))

    def _coloured(self, text: Text) -> str:
        """Return a text with the escapes of its styles, on a terminal that shows them."""
        stream = self._stream
        if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return _plain(text)
        runs = [(style, _plain(list(run))) for style, run in itertools.groupby(text, lambda each: each[1])]
        codes = [";".join(STYLES[name] for name in style.split()) for style, _ in runs]
        return "".join(
            f"\x1b[{code}m{run}\x1b[0m" if code else run for code, (_, run) in zip(codes, runs, strict=True)
        )

    def _write(self, line: str) -> None:
        self._stream.write(line.rstrip() + "\n")


def _text(pieces: Iterable[Piece], style: str = "") -> Text:
    """Return a text, with escapes for what a terminal would obey."""
    styled = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
    return [
        (character, f"{style} {own}".strip())
        for text, own in styled
        for character in "\n".join(map(visible, text.split("\n")))
    ]


def _cell(cell: object) -> Text:
    """Return a cell of a table: of a list of pieces, a text and its style, or what has a text."""
    if isinstance(cell, list):
        return _text(cell)
    if isinstance(cell, tuple):
        return _text([(one_line(cell[0]), cell[1])])
    return _text([f"{cell:,}" if isinstance(cell, int) else one_line(cell)])


def _plain(text: Text) -> str:
    return "".join(character for character, _ in text)


def _width(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def _wrapped(text: Text, width: int) -> list[Text]:
    """Return the lines of a text, broken between words; a word that fits on no line is broken anywhere."""
    lines, plain, begin = [], _plain(text), 0
    for paragraph in plain.split("\n"):
        start = stop = begin  # of the line so far
        for word in re.finditer(r"\S+", paragraph):
            first, last = begin + word.start(), begin + word.end()
            if stop > start and _width(plain[start:last]) > width:
                lines.append(text[start:stop])
                start = first
            while _width(plain[start:last]) > width and last - start > 1:
                cut = next(
                    n for n in range(last - 1, start, -1) if n == start + 1 or _width(plain[start:n]) <= width
                )
                lines.append(text[start:cut])
                start = cut
            stop = last
        lines.append(text[start:stop])
        begin += len(paragraph) + 1
    return lines


def _width_of_stream(stream: TextIO) -> int:
    """Return the width of a stream: COLUMNS, else the terminal's, else that of a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    except (AttributeError, OSError, ValueError):  # not a terminal
        return PIPE_WIDTH


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
_PYTHON_OPTION = re.compile(r"(?<![^ ])([a-z_]+)=(True|'[^']*'|[0-9.]*[0-9])(?=[.,;:)]?(?: |$))")
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
    has_all = text == text.encode(code := _encoding(sys.stdout), "replace").decode(code)
    if has_all and text.replace("\n", "").isprintable():  # JSON escapes only some of what a terminal obeys
        return text
    return json_lines(plain(value), levels=levels)


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


@contextmanager
def progress_bar(what: str, *, quiet: bool) -> Iterator[Callable[..., None]]:
    """Yield a function that says how far the work is (total, completed, description).

    It writes one line to standard error, which disappears at the end; without a terminal nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda **_: None
        return
    console, begun, said = Console(stderr=True), monotonic(), -SECONDS_BETWEEN

    def move(*, total: int | None = None, completed: int = 0, description: str | None = None) -> None:
        nonlocal said
        now = monotonic() - begun
        if now - said < SECONDS_BETWEEN:
            return
        said = now
        text = f"{description or what} {completed:,}" + (f" of {total:,}" if total else "")
        if total and completed:
            minutes, seconds = divmod(round(now / completed * (total - completed)), 60)
            text += f", about {minutes}:{seconds:02} left"
        line = _wrapped(_text([text]), max(1, console.width - 1))[0]
        print(f"\r\x1b[2K{_plain(line)}", end="", file=sys.stderr, flush=True)

    try:
        move()
        yield move
    finally:
        print("\r\x1b[2K", end="", file=sys.stderr, flush=True)


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
            move(total=n_nights, completed=next(numbers))

        yield on_outcome


def progress(items: Iterable[Item], what: str, n_items: int, *, quiet: bool) -> Iterable[Item]:
    """Yield the items, with a bar if there are several and standard error is a terminal."""
    with progress_bar(what, quiet=quiet or n_items < 2) as move_bar:
        for number, item in enumerate(items, 1):
            yield item
            move_bar(total=n_items, completed=number)
