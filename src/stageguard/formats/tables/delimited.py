"""Delimited text: a header, rows of cells, and the line each row begins on.

Every reader of CSV and TSV builds on it. Numbers are parsed by Python's `float`: decoding a cohort of CSV
files took 1.08 to 1.15 times the processor time that it took with blocks of digits parsed in NumPy
(docs/bench.md).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.checks import MISSING_WORDS
from stageguard.base.files import file_error, read_file
from stageguard.formats.density import Where

DELIMITERS = ("\t", ";", ",")
HEADER_SEARCH_LINES = 20
MOST_COLUMNS = 10_000
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_SPACES = " \t\x0b\x0c\x1c\x1d\x1e\x1f"  # of ASCII, that `strip` takes away
_COMMA = re.compile(r"^([+-]?\d*),(\d+)$", re.ASCII)  # a cell that is a number with a decimal comma

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class TextTable:
    """Names of the columns, rows with one cell for each, and where each row stands in its file."""

    path: Where
    header: tuple[str, ...]
    rows: Sequence[Row]
    lines: Sequence[int]
    delimiter: str = ","
    notes: tuple[str, ...] = ()

    def column(self, column: str | int) -> tuple[str, ...]:
        """Return the cells of a column, by its name or its index."""
        index = self.header.index(column) if isinstance(column, str) else column
        return tuple([row[index] for row in self.rows])

    def records(self) -> list[dict[str, str]]:
        """Return each row as cells by the name of their column."""
        return [dict(zip(self.header, row, strict=True)) for row in self.rows]

    def seconds(self, name: str) -> Floats:
        """Return the numbers of a column of times; a cell that is none is an error that names its line."""
        values = np.empty(len(self.rows))
        for row, cell in enumerate(self.column(name)):
            value = as_number(cell)
            if value is None:
                raise cell_error(self.path, self.lines[row], name, "seconds", cell)
            values[row] = value
        return values

    def numbers(self, index: int) -> tuple[Floats, bool]:
        """Return the numbers of a column, NaN where missing, and whether they had decimal commas."""
        cells: Sequence[str] = self.column(index)
        text = "\n".join(cells)
        has_commas = self.delimiter != "," and "," in text
        if has_commas:
            cells = [cell.replace(",", ".") for cell in cells]
        if "_" not in text:  # Python reads 1_000 as a number; no table means that
            try:
                return np.array(list(map(float, cells))), has_commas
            except ValueError:
                pass
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if is_number(cell):
                values[row] = float(cell)
            elif cell.casefold() not in MISSING_WORDS:
                raise cell_error(self.path, self.lines[row], self.header[index], "a number", cell)
        return values, has_commas


def read_text(path: Path, kind: str = "text", *, utf16: bool = False, fallback: str | None = None) -> str:
    """Text of a file with plain line ends and no byte order mark.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        Which limit of `base.files` it is held to.
    utf16 : bool
        Whether UTF-16 is read, as spreadsheets save it, or refused.
    fallback : str, optional
        Encoding of a file that is not UTF-8; refused without.
    """
    data = read_file(path, kind)
    if data[:2] in UTF16_MARKS:
        if not utf16:
            raise file_error(path, "is UTF-16 text. Save it as UTF-8.")
        data = data.decode("utf-16", errors="replace").encode()
    if b"\x00" in data:
        raise file_error(path, f"holds binary data (a NUL at byte {data.index(0)}), not a CSV or TSV table.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if fallback is None:
            line = data.count(b"\n", 0, error.start) + 1
            raise file_error(
                path, f"line {line} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
            ) from None
        text = data.decode(fallback)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def text_lines(path: Path) -> list[str]:
    """Return the lines of a text without the empty ones at its end; none is an error."""
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise file_error(path, "is empty. Expected one stage per epoch.")
    return lines


def first_filled(lines: Sequence[str]) -> int:
    """Return the index of the first line that is neither empty nor a comment."""
    return next((index for index, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), 0)


def split_line(line: str, delimiter: str) -> tuple[str, ...]:
    """Cells of one line, without the space around them; none when the quotes do not match."""
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return ()
    return tuple(cell.strip() for cell in rows[0]) if rows else ()


def delimiter_of(line: str) -> str:
    """Return the delimiter that a header has most of."""
    return max(("\t", ";", ","), key=line.count)


def split_rows(
    path: Where, lines: Sequence[str], delimiter: str, numbers: Sequence[int], *, quotes: bool = True
) -> tuple[list[Row], Sequence[int]]:
    """Cells of lines, without the space around them, and the line each row begins on.

    A quoted cell may hold delimiters and line breaks.

    Parameters
    ----------
    path : Path or str
        For the errors.
    lines : sequence of str
        Without line ends.
    delimiter : str
        One character.
    numbers : sequence of int
        What line of the file each is, as editors count.
    quotes : bool
        Whether quotes enclose cells, or are characters like others.
    """
    text = "\n".join(lines)
    if not quotes or '"' not in text:
        rows: list[Row] = [line.split(delimiter) if line else [] for line in lines]
        is_plain = text.isascii() and not any(mark in text for mark in _SPACES if mark != delimiter)
        return rows if is_plain else [[cell.strip() for cell in row] for row in rows], numbers
    if text.count('"') % 2:
        line = numbers[text.count("\n", 0, text.rindex('"'))]
        raise file_error(path, f"has a quote that is not closed, by line {line}. Close or remove it.")
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True)
    rows, begins, first = [], [], 0
    try:
        for row in reader:
            rows.append([cell.strip() for cell in row])
            begins.append(numbers[first])
            first = reader.line_num
    except csv.Error as error:
        line = numbers[min(reader.line_num, len(lines)) - 1]
        raise file_error(path, f"line {line} is not a row of a table ({error}).") from None
    return rows, begins


def rows_below(
    path: Where, lines: Sequence[str], header_line: int, delimiter: str, header: Sequence[str]
) -> TextTable:
    """Return the table below a header, -1 where there is none; every row needs one cell per column.

    Rows of empty cells at the end, as spreadsheets write them, are left out.
    """
    end, n_empty = len(lines), 0
    while end > header_line + 1 and not lines[end - 1].strip(f"{delimiter} \t"):
        end -= 1
        n_empty += delimiter in lines[end]
    if end == header_line + 1 and n_empty:
        end, n_empty = len(lines), 0  # nothing but empty cells: epochs without evidence
        while not lines[end - 1]:
            end -= 1
    numbers = range(header_line + 2, end + 1)
    rows, begins = split_rows(path, lines[header_line + 1 : end], delimiter, numbers)
    if not rows:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    if len(header) == 1:
        rows = [row or [""] for row in rows]
    expected = f"expected {len(header)}: {', '.join(header)}." if header_line < 0 else (
        f"the header has {len(header)}. Every row needs one cell per column."
    )  # fmt: skip
    _check_widths(path, rows, begins, len(header), expected)
    return TextTable(path, tuple(header), rows, begins, delimiter, _empty_rows_note(n_empty))


def read_rows(path: Path, wanted: Sequence[str]) -> TextTable:
    """Return the table whose header has all of these names, in any order; its names are in lower case."""
    lines = text_lines(path)
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        for delimiter in DELIMITERS:
            header = split_line(line, delimiter)
            if set(wanted) <= {cell.casefold() for cell in header}:
                return stage_rows(path, lines, number, delimiter, header)
    raise file_error(path, f"has no header with the columns {', '.join(wanted)}. Was it written completely?")


def stage_rows(
    path: Path, lines: Sequence[str], header_line: int, delimiter: str, header: Sequence[str]
) -> TextTable:
    """Return `rows_below` with names in lower case; beside semicolons decimal commas become points."""
    table = rows_below(path, lines, header_line, delimiter, header)
    rows, notes = table.rows, table.notes
    if delimiter == ";":
        rows = [[_COMMA.sub(r"\1.\2", cell) for cell in row] for row in table.rows]
        if rows != table.rows:
            notes = ("decimal commas were read as points", *notes)
    names = tuple(name.casefold() for name in header)
    return TextTable(path, names, rows, table.lines, delimiter, notes)


def read_delimited(
    path: Path,
    *,
    kind: str = "a list",
    comments: bool = False,
    quotes: bool = True,
    delimiter: str | None = None,
    utf16: bool = False,
    fallback: str | None = None,
    expected: str = "a header and rows",
) -> TextTable:
    """Return a table whose first line is its header; blank lines are left out.

    Parameters
    ----------
    path : Path
        The file.
    kind, utf16, fallback
        See `read_text`.
    comments : bool
        Whether lines that begin with # are left out, too.
    quotes : bool
        See `split_rows`.
    delimiter : str, optional
        By default the one the first line has most of.
    expected : str
        What the file should hold, for the error of an empty one.
    """
    text = read_text(path, kind, utf16=utf16, fallback=fallback)
    numbered = [
        (number, line)
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip() and not (comments and line.startswith("#"))
    ]
    if not numbered:
        raise file_error(path, f"is empty, expected {expected}.")
    numbers, lines = zip(*numbered, strict=True)
    mark = delimiter or delimiter_of(lines[0])
    rows, begins = split_rows(path, lines, mark, numbers, quotes=quotes)
    _check_widths(path, rows, begins, len(rows[0]), f"the header has {len(rows[0])}.")
    return TextTable(path, tuple(rows[0]), rows[1:], begins[1:], mark)


def cell_error(path: Where, line: int, name: str, expected: str, cell: str) -> Exception:
    """One line that says what a cell holds, and what was expected there."""
    return file_error(path, f"line {line}, column {name!r}: expected {expected}, got {cell[:40]!r}.")


def as_number(cell: str) -> float | None:
    """Return the finite number a cell holds, or None."""
    value = float(cell) if is_number(cell) else float("nan")
    return value if isfinite(value) else None


def is_number(cell: str) -> bool:
    """Whether a cell is a number as tables write it."""
    if "_" in cell:
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_widths(path: Where, rows: Sequence[Row], lines: Sequence[int], width: int, expected: str) -> None:
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise file_error(path, f"line {line} has {len(row)} cell{'s' * (len(row) != 1)}, {expected}")


def _empty_rows_note(n_rows: int) -> tuple[str, ...]:
    if not n_rows:
        return ()
    return (f"{n_rows} row{'s' * (n_rows != 1)} of empty cells at the end left out",)
