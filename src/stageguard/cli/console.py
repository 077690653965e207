"""Text and tables on the terminal. Rich lays them out, and is imported when something is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from stageguard.base.errors import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

PIPE_WIDTH = 110
LONGEST_WORD = 40  # longest word that a column makes room for; longer ones, such as paths, are broken
GAP = 3  # spaces between columns


class Text:
    """A text of pieces, each with or without a style such as `bold red`."""

    def __init__(self, *pieces: str | tuple[str, str] | Text) -> None:
        self._pieces: list[tuple[str, str]] = []
        for piece in pieces:
            if isinstance(piece, Text):
                self._pieces += piece._pieces
            else:
                self._pieces.append((piece, "") if isinstance(piece, str) else piece)

    def __str__(self) -> str:
        """Return the text without styles, and with escapes for what a terminal would obey."""
        return "".join(_escaped(text) for text, _ in self._pieces)

    def to_rich(self, style: str = "") -> RichText:
        """Return the text for rich."""
        from rich.text import Text as RichText

        return RichText.assemble(*((_escaped(text), one) for text, one in self._pieces), style=style)


def _escaped(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


class Table:
    """A table, `headed` by the names of its columns or not; columns in `right` are numbers."""

    def __init__(self, *columns: str, right: Sequence[str] = (), headed: bool = True) -> None:
        self._columns = [Text(name) for name in columns]
        self._right = [name in right for name in columns]
        self._headed = headed
        self._rows: list[tuple[list[Text], str]] = []

    def add_row(self, *row: str | Text, style: str = "") -> None:
        """Add a row."""
        self._rows.append(([cell if isinstance(cell, Text) else Text(cell) for cell in row], style))

    def to_rich(self) -> RichTable:
        """Return the table for rich: no column is narrower than its words."""
        from rich import box
        from rich.table import Table as RichTable

        made = RichTable(
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            show_header=self._headed,
            header_style="bold",
        )
        for name, is_right, width in zip(self._columns, self._right, self.least_widths(), strict=True):
            made.add_column(
                name.to_rich(),
                justify="right" if is_right else "left",
                no_wrap=is_right,
                overflow="fold",
                min_width=width,
            )
        for row, style in self._rows:
            made.add_row(*(cell.to_rich() for cell in row), style=style)
        return made

    def least_widths(self) -> list[int]:
        """Return the length of the longest word of each column; a number keeps its sign and its unit."""
        from rich.cells import cell_len

        widths = []
        for k, (name, is_right) in enumerate(zip(self._columns, self._right, strict=True)):
            texts = [str(row[k]) for row, _ in self._rows]
            words = texts if is_right else [word for text in texts for word in text.split()]
            longest = max(map(cell_len, [*words, *str(name).split(), " "]))
            widths.append(min(longest, LONGEST_WORD))
        return widths


class Console:
    """Standard output or standard error, as wide as the terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._stream: TextIO = sys.stderr if stderr else sys.stdout
        self.width = width_of(self._stream)

    def print(
        self, shown: str | Text | Table = "", style: str = "", *, indent: int = 0, whole_line: bool = False
    ) -> None:
        """Print a text or a table; `whole_line` leaves it to the terminal to break the line."""
        from rich.console import Console as RichConsole
        from rich.padding import Padding

        least = indent + 1
        if isinstance(shown, Table):
            widths = shown.least_widths()
            least += sum(widths) + GAP * (len(widths) - 1)
        out = RichConsole(
            file=self._stream,
            width=max(self.width, least),
            color_system="auto" if is_coloured(self._stream) else None,
        )
        text = Text(shown) if isinstance(shown, str) else shown
        rich: RenderableType = text.to_rich() if isinstance(text, Table) else text.to_rich(style)
        if indent and not whole_line:
            rich = Padding.indent(rich, indent)
        with out.capture() as captured:
            out.print(rich, soft_wrap=whole_line)
        before = " " * indent if whole_line else ""
        for line in captured.get().splitlines():
            self._stream.write(f"{before}{line}".rstrip() + "\n")


def width_of(stream: object, otherwise: int = PIPE_WIDTH) -> int:
    """Return the width of a stream: COLUMNS, else the terminal's width, else `otherwise`."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or otherwise  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # not a terminal
        return otherwise


def is_coloured(stream: TextIO) -> bool:
    """Whether to print styles: the stream is a terminal that supports them, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
