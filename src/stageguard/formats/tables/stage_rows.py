"""Rows of a text table that holds stages, by the names of its columns. Knows no stage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.files import file_error
from stageguard.formats.tables.cells import empty_rows_note
from stageguard.formats.tables.delimited import DELIMITERS, HEADER_SEARCH_LINES, read_text, split_line

_COMMA = re.compile(r"^([+-]?\d*),(\d+)$", re.ASCII)  # a cell that is a number with a decimal comma


@dataclass(frozen=True, slots=True)
class StageRows:
    """Cells of a table: names of its columns in lower case, rows, and where each of them stands."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    lines: list[int]
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> tuple[str, ...]:
        """Return the cells of a column."""
        place = self.header.index(name)
        return tuple(row[place] for row in self.rows)

    def numbers(self, path: Path, name: str) -> Floats:
        """Return the numbers of a column; a cell that is none is an error that names its line."""
        return numbers_of(path, name, self.column(name), self.lines)


def read_rows(path: Path, wanted: Sequence[str]) -> StageRows:
    """Return the table whose header has all of these names, in any order and case."""
    lines = text_lines(path)
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        for delimiter in DELIMITERS:
            header = split_line(line, delimiter)
            if set(wanted) <= {cell.casefold() for cell in header}:
                return rows_below(path, lines, number, delimiter, header)
    raise file_error(path, f"has no header with the columns {', '.join(wanted)}. Was it written completely?")


def read_bare_rows(path: Path, header: Sequence[str], delimiter: str) -> StageRows:
    """Return a table without header; every line has one cell per name."""
    return rows_below(path, text_lines(path), -1, delimiter, header)


def text_lines(path: Path) -> list[str]:
    """Return the lines of a text without the empty ones at its end; none is an error."""
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise file_error(path, "is empty. Expected one stage per epoch.")
    return lines


def first_filled(lines: Sequence[str]) -> int:
    """Return the place of the first line that is neither empty nor a comment."""
    return next((place for place, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), 0)


def rows_below(
    path: Path, lines: Sequence[str], header_line: int, delimiter: str, header: Sequence[str]
) -> StageRows:
    """Return the rows below a header; every one needs one cell per column."""
    numbers, rows, has_commas = [], [], False
    end = len(lines)
    while len(header) > 1 and end > header_line + 2 and not lines[end - 1].strip(f"{delimiter} "):
        end -= 1
    for number, line in enumerate(lines[header_line + 1 : end], start=header_line + 2):
        row = split_line(line, delimiter) if line.strip() else ("",)
        if line.count('"') % 2:
            raise file_error(path, f"line {number} has a quote that is not closed. Close or remove it.")
        if delimiter == ";" and "," in line:
            plain = tuple(_COMMA.sub(r"\1.\2", cell) for cell in row)
            has_commas |= plain != row
            row = plain
        if len(row) != len(header):
            raise file_error(
                path,
                f"line {number} has {len(row)} cell{'s' * (len(row) != 1)}, the header has {len(header)}. "
                "Every row needs one cell per column."
                if header_line >= 0
                else f"line {number} has {len(row)} cell{'s' * (len(row) != 1)}, expected {len(header)}: "
                f"{', '.join(header)}.",
            )
        numbers.append(number)
        rows.append(row)
    if not rows:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    notes: tuple[str, ...] = ("decimal commas were read as points",) if has_commas else ()
    notes += empty_rows_note(len(lines) - end)
    return StageRows(tuple(name.casefold() for name in header), rows, numbers, notes)


def numbers_of(path: Path, name: str, cells: Sequence[str], lines: Sequence[int]) -> Floats:
    """Return numbers of seconds; a cell that is none is an error that names its line."""
    values = np.empty(len(cells))
    for place, cell in enumerate(cells):
        value = as_number(cell)
        if value is None:
            raise file_error(
                path, f"line {lines[place]}, column {name!r}: expected seconds, got {cell[:40]!r}."
            )
        values[place] = value
    return values


def as_number(cell: str) -> float | None:
    """Return the finite number a cell holds, or None."""
    try:
        value = float(cell) if "_" not in cell else float("nan")
    except ValueError:
        return None
    return value if isfinite(value) else None
