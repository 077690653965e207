"""Print text and tables as wide as the terminal, and in colour on a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

from stageguard.base.errors import visible

PIPE_WIDTH = 110
LONGEST_WORD = 40  # longest word that a column makes room for; longer ones, such as paths, are broken
GAP = 3  # spaces between columns
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Text:
    """A text of pieces, each with or without a style: one or more words of `CODES`."""

    def __init__(self, *pieces: str | tuple[str, str] | Text) -> None:
        self.pieces: list[tuple[str, str]] = []
        for piece in pieces:
            if isinstance(piece, Text):
                self.pieces += piece.pieces
            else:
                text, style = (piece, "") if isinstance(piece, str) else piece
                self.pieces.append(("\n".join(map(visible, text.split("\n"))), style))

    def __str__(self) -> str:
        """Return the text without styles."""
        return "".join(text for text, _ in self.pieces)

    def lines(self, width: int, style: str, *, coloured: bool) -> list[tuple[str, int]]:
        """Return the lines of the text, none wider than `width`, with their widths."""
        text = str(self)
        spans = _spans(text, width)
        if not coloured:
            return [(text[start:end], cells(text[start:end])) for start, end in spans]
        return [(self._styled(start, end, style), cells(text[start:end])) for start, end in spans]

    def _styled(self, start: int, end: int, style: str) -> str:
        shown, begin = "", 0
        for text, piece_style in self.pieces:
            part = text[max(start - begin, 0) : max(end - begin, 0)]
            begin += len(text)
            codes = ";".join(CODES[word] for word in f"{style} {piece_style}".split())
            shown += f"\x1b[{codes}m{part}\x1b[0m" if codes and part else part
        return shown


def cells(text: str) -> int:
    """Return how many columns of the terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken between words."""
    return [text[start:end] for start, end in _spans(text, width)]


def _spans(text: str, width: int) -> list[tuple[int, int]]:
    """Return where the lines of a text begin and end, without spaces at their ends."""
    if "\n" not in text and cells(text) <= width:
        return [(0, len(text.rstrip()))]
    spans = []
    for paragraph in re.finditer(r"[^\n]*(?:\n|$)", text):
        start, room = paragraph.start(), width
        for word in re.finditer(r"\s*\S+\s*", paragraph.group()):
            begin, shown = paragraph.start() + word.start(), word.group().rstrip()
            if cells(shown) > room and begin > start:
                spans.append((start, begin))
                start, room = begin, width
            while cells(shown) > width:  # a word that is longer than a line
                n_letters = _n_fitting(shown, width)
                spans.append((start, start + n_letters))
                start, shown, room = start + n_letters, shown[n_letters:], width
            room -= cells(shown) + len(word.group()) - len(word.group().rstrip())
        if start < paragraph.end() or not spans:
            spans.append((start, paragraph.end()))
    return [(start, start + len(text[start:end].rstrip())) for start, end in spans]


def _n_fitting(word: str, width: int) -> int:
    """Return how many letters of a word fit, at least one."""
    n_letters = width
    while n_letters > 1 and cells(word[:n_letters]) > width:
        n_letters -= 1
    return n_letters


class Table:
    """A table, `headed` by the names of its columns or not; columns in `right` are numbers."""

    def __init__(self, *columns: str, right: Sequence[str] = (), headed: bool = True) -> None:
        self._columns, self._headed = columns, headed
        self._right = [column in right for column in columns]
        self._rows: list[tuple[list[Text], str]] = []

    def add_row(self, *row: str | Text, style: str = "") -> None:
        """Add a row."""
        self._rows.append(([cell if isinstance(cell, Text) else Text(cell) for cell in row], style))

    def lines(self, width: int, *, coloured: bool, rule: str) -> list[str]:
        """Return the lines of the table, wider than `width` only if the words do not fit."""
        widths = self._widths(width)
        body = [self._row(row, style, widths, coloured=coloured) for row, style in self._rows]
        ruled = rule * (sum(widths) + GAP * (len(widths) - 1))
        names = [Text(name) for name in self._columns]
        head = [self._row(names, "bold", widths, coloured=coloured), [ruled]] if self._headed else []
        return [line for row in (*head, *body) for line in row]

    def _row(self, row: Sequence[Text], style: str, widths: Sequence[int], *, coloured: bool) -> list[str]:
        columns = [
            cell.lines(width, style, coloured=coloured) for cell, width in zip(row, widths, strict=True)
        ]
        made = []
        for k in range(max(map(len, columns), default=0)):
            line = ""
            for column, width, right in zip(columns, widths, self._right, strict=True):
                text, n_cells = column[k] if k < len(column) else ("", 0)
                blanks = " " * (width - n_cells)
                line += (blanks + text if right else text + blanks) + " " * GAP
            made.append(line.rstrip())
        return made

    def _widths(self, width: int) -> list[int]:
        """Return the widths of the columns; the widest are narrowed until the table fits."""
        widths, least = [], []
        for k, (name, right) in enumerate(zip(self._columns, self._right, strict=True)):
            texts = [str(row[k]) for row, _ in self._rows]
            # a number is not broken from its sign or its unit
            words = texts if right else [word for text in texts for word in text.split()]
            lengths = [*map(cells, words), *map(cells, name.split()), 1]
            widths.append(max(*map(cells, texts), cells(name), 1) if texts else max(cells(name), 1))
            least.append(min(max(lengths), LONGEST_WORD))
        too_much = sum(widths) + GAP * (len(widths) - 1) - width
        while too_much > 0 and (yielding := [k for k, size in enumerate(widths) if size > least[k]]):
            widths[max(yielding, key=lambda k: widths[k])] -= 1
            too_much -= 1
        return widths


class Console:
    """Standard output or standard error, as wide as the terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._stream = sys.stderr if stderr else sys.stdout
        self.width = width_of(self._stream)
        self.is_coloured = is_coloured(self._stream)

    def print(
        self, shown: str | Text | Table = "", style: str = "", *, indent: int = 0, whole_line: bool = False
    ) -> None:
        """Print a text or a table; `whole_line` leaves it to the terminal to break the line."""
        width = sys.maxsize if whole_line else max(self.width - indent, 1)
        if isinstance(shown, Table):
            lines = shown.lines(width, coloured=self.is_coloured, rule=self._rule())
        else:
            text = shown if isinstance(shown, Text) else Text(shown)
            lines = [line for line, _ in text.lines(width, style, coloured=self.is_coloured)]
        self._stream.write("".join(f"{' ' * indent}{line}".rstrip() + "\n" for line in lines))

    def _rule(self) -> str:
        try:
            "─".encode(getattr(self._stream, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            return "-"
        return "─"


def width_of(stream: object, otherwise: int = PIPE_WIDTH) -> int:
    """Return the width of a stream: COLUMNS, else the terminal's width, else `otherwise`."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or otherwise  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # not a terminal
        return otherwise


def is_coloured(stream: object) -> bool:
    """Whether to print styles: the stream is a terminal that supports them, and NO_COLOR is not set."""
    is_terminal: bool = stream.isatty()  # type: ignore[attr-defined]
    can = os.name != "nt" or "WT_SESSION" in os.environ or "TERM" in os.environ
    return is_terminal and can and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
