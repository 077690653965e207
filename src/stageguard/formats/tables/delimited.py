"""Delimited text: a header, rows of cells, and the line each row begins on.

Every reader of CSV and TSV builds on it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from stageguard.files import file_error, read_file
from stageguard.formats.night import Where
from stageguard.formats.sniffing import UTF16_MARKS
from stageguard.formats.tables.table import EvenCells, Table, is_number
from stageguard.guard import kernels
from stageguard.night.stages import canonical_name

DELIMITERS = ("\t", ";", ",")
HEADER_SEARCH_LINES = 20
MOST_COLUMNS = 10_000
_SPACES = " \t\x0b\x0c\x1c\x1d\x1e\x1f"  # ASCII characters that `strip` removes
_CLOCK_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")

Row = Sequence[str]


def read_text(path: Path, *, fallback: str | None = None) -> str:
    """Return the text of a file with plain line ends and no byte order mark.

    It is UTF-8, or UTF-16 as spreadsheets save it; other text is read with the encoding `fallback`, or is
    refused.
    """
    data = read_file(path)
    if data[:2] in UTF16_MARKS:
        data = data.decode("utf-16", errors="replace").encode()
    if b"\x00" in data:
        raise file_error(path, f"holds binary data (a NUL at byte {data.index(0)}), not a CSV or TSV table.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if fallback is None:
            line = data.count(b"\n", 0, error.start) + 1
            problem = f"line {line} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
            raise file_error(path, problem) from None
        text = data.decode(fallback)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def text_lines(path: Path) -> list[str]:
    """Return the lines of a text file without empty ones at the end; an empty text is an error."""
    return lines_of(path, read_text(path))


def lines_of(path: Path, text: str) -> list[str]:
    """Like `text_lines`, from the text of a file."""
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise file_error(path, "is empty. Expected one stage per epoch.")
    return lines


def first_filled(lines: Sequence[str]) -> int:
    """Return the index of the first line that is neither empty nor a comment."""
    return next((index for index, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), 0)


def split_line(line: str, delimiter: str) -> tuple[str, ...]:
    """Return the cells of one line, stripped; none if the quotes do not match."""
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return ()
    return tuple(cell.strip() for cell in rows[0]) if rows else ()


def split_rows(
    path: Where,
    lines: Sequence[str],
    delimiter: str,
    numbers: Sequence[int],
    *,
    quotes: bool = True,
    exact: int | None = None,
) -> tuple[list[Row], Sequence[int]]:
    """Return the stripped cells of lines, and the line that each row begins on.

    `numbers` are the numbers of the lines in the file, counted from 1. If `quotes`, cells in quotes may hold
    delimiters and line breaks; otherwise quotes are ordinary characters. Cells of the column `exact` are not
    stripped.
    """

    def stripped(row: Row) -> Row:
        return [each if k == exact and not each.isspace() else each.strip() for k, each in enumerate(row)]

    text = "\n".join(lines)
    if not quotes or '"' not in text:
        rows: list[Row] = [line.split(delimiter) if line else [] for line in lines]
        is_plain = text.isascii() and not any(mark in text for mark in _SPACES if mark != delimiter)
        return rows if is_plain else list(map(stripped, rows)), numbers
    if text.count('"') % 2:
        line = numbers[text.count("\n", 0, text.rindex('"'))]
        raise file_error(path, f"has a quote that is not closed, by line {line}. Close or remove it.")
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True)
    rows, begins, first = [], [], 0
    try:
        for row in reader:
            rows.append(stripped(row))
            begins.append(numbers[first])
            first = reader.line_num
    except csv.Error as error:
        line = numbers[min(reader.line_num, len(lines)) - 1]
        raise file_error(path, f"line {line} is not a row of a table ({error}).") from None
    return rows, begins


def even_rows(
    path: Where, text: str, header_line: int, delimiter: str, header: Sequence[str]
) -> Table | None:
    """Return the same as `rows_below` if all cells below the header are plain numbers, else None."""
    text, width = text.rstrip("\n"), len(header)
    numbers = kernels.active.read_rows(text, delimiter, width) if width > 1 else None
    if numbers is None:
        return None
    begins = range(header_line + 2, header_line + 2 + len(numbers))
    return Table(path, tuple(header), EvenCells(text, delimiter, numbers), begins, delimiter)


def rows_below(
    path: Where, lines: Sequence[str], header_line: int, delimiter: str, header: Sequence[str]
) -> Table:
    """Return the table below the line `header_line`, -1 without a header; rows need one cell per column.

    Rows of empty cells at the end, as spreadsheets write them, are left out.
    """
    end, n_empty = len(lines), 0
    while end > header_line + 1 and not lines[end - 1].strip(f"{delimiter} \t"):
        end -= 1
        n_empty += delimiter in lines[end]
    if end == header_line + 1 and n_empty:
        end, n_empty = len(lines), 0  # all cells are empty: epochs without evidence
        while not lines[end - 1]:
            end -= 1
    numbers = range(header_line + 2, end + 1)
    rows, begins = split_rows(path, lines[header_line + 1 : end], delimiter, numbers)
    if not rows:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    if len(header) == 1:
        rows = [row or [""] for row in rows]
    expected = f"the header has {len(header)}. Every row needs one cell per column."
    if header_line < 0:
        expected = f"expected {len(header)}: {', '.join(header)}."
    check_widths(path, rows, begins, len(header), expected)
    note = f"{n_empty} row{'s' * (n_empty != 1)} of empty cells at the end left out"
    columns = list(zip(*rows, strict=True))
    return Table(path, tuple(header), columns, begins, delimiter, (note,) if n_empty else ())


def read_rows(path: Path, wanted: Sequence[str]) -> Table:
    """Return the table whose header has all of these names, in any order; header names are lower-cased."""
    return rows_of(path, text_lines(path), wanted)


def rows_of(path: Path, lines: Sequence[str], wanted: Sequence[str]) -> Table:
    """Like `read_rows`, from the lines of a text."""
    table = find_rows(path, lines, {*wanted}.issubset)
    if table is None:
        problem = f"has no header with the columns {', '.join(wanted)}. Was it written completely?"
        raise file_error(path, problem)
    return table


def find_rows(path: Path, lines: Sequence[str], is_header: Callable[[Sequence[str]], bool]) -> Table | None:
    """Return the rows below the first line that `is_header` accepts in lower case, or None.

    Names are lower-cased; between semicolons, decimal commas become points.
    """
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        for delimiter in DELIMITERS:
            header = split_line(line, delimiter)
            if not is_header([cell.casefold() for cell in header]):
                continue
            above = [split_line(each, delimiter) for each in lines[:number]]
            refuse_rows_above(path, [len(row) == len(header) and all(map(_is_datum, row)) for row in above])
            table = rows_below(path, lines, number, delimiter, header)
            columns, notes = table.columns, table.notes
            if delimiter == ";":
                columns = [tuple(table.times(column)) for column in range(len(header))]
                if columns != table.columns:
                    notes = ("decimal commas were read as points", *notes)
            names = tuple(name.casefold() for name in header)
            return replace(table, header=names, columns=columns, notes=notes)
    return None


def refuse_rows_above(path: Where, are_rows: Sequence[bool]) -> None:
    """Refuse a table if one of the lines above its header is a row of data, which would be lost."""
    if any(are_rows):
        raise file_error(
            path,
            f"line {len(are_rows) + 1} names the columns, and line {are_rows.index(True) + 1} above it is a "
            "row of data. Move the header to the first line.",
        )


def _is_datum(cell: str) -> bool:
    """Whether a cell is a number, a stage or a time, as in a row of stages, and no word of a title."""
    return is_number(cell) or canonical_name(cell) is not None or _CLOCK_TIME.fullmatch(cell) is not None


def read_delimited(
    path: Path,
    *,
    comments: bool = False,
    quotes: bool = True,
    delimiter: str | None = None,
    fallback: str | None = None,
    expected: str = "a header and rows",
) -> Table:
    """Return a table whose first line is its header, without blank lines and, if `comments`, lines with #.

    See `read_text` for `fallback`, and `split_rows` for `quotes`. The default delimiter is the most frequent
    one in the first line. The error for an empty file says what was `expected`.
    """
    numbered = [
        (number, line)
        for number, line in enumerate(read_text(path, fallback=fallback).split("\n"), start=1)
        if line.strip() and not (comments and line.startswith("#"))
    ]
    if not numbered:
        raise file_error(path, f"is empty, expected {expected}.")
    numbers, lines = zip(*numbered, strict=True)
    mark = delimiter or max(DELIMITERS, key=lines[0].count)
    (header, *rows), begins = split_rows(path, lines, mark, numbers, quotes=quotes)
    check_widths(path, rows, begins[1:], len(header), f"the header has {len(header)}.")
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    return Table(path, tuple(header), columns, begins[1:], mark)


def as_moment(path: Where, line: int, cell: str) -> datetime:
    """Return the date and time in a cell; anything else is an error that names its line."""
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        raise file_error(path, f"line {line} has the time {cell[:40]!r}, expected a date and time.") from None


def check_widths(path: Where, rows: Sequence[Row], lines: Sequence[int], width: int, expected: str) -> None:
    """Refuse a row that has more or fewer cells than the header."""
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise file_error(path, f"line {line} has {len(row)} cell{'s' * (len(row) != 1)}, {expected}")
