"""The numbers of a delimited table: all at once where it is clean, cell by cell where it is not.

Knows no stages. Both ways read the same numbers; the careful one says what is wrong with a table, and where.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Indices
from stageguard.base.files import file_error
from stageguard.formats.tables.decimals import PADDING, read_decimals

NO_EVIDENCE = frozenset({"", "nan", "na", "n/a", "null", "none", "."})
_NO_EVIDENCE_BYTES = frozenset(word.encode() for word in NO_EVIDENCE)


class Layout(Protocol):
    """What must be known about a table to read numbers from it."""

    @property
    def delimiter(self) -> str:
        """What stands between cells."""
        ...

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns."""
        ...

    @property
    def first_line(self) -> int:
        """Number of the line the first row stands on."""
        ...


@dataclass(frozen=True, slots=True)
class Cells:
    """Where every cell of a table stands in its bytes, which begin and end with `PADDING` others."""

    data: bytes
    first: Indices  # (n_rows, n_columns)
    end: Indices

    def text(self, row: int, column: int) -> str:
        """Return one cell, without the space around it."""
        return self.data[self.first[row, column] : self.end[row, column]].decode().strip()

    def column(self, column: int) -> list[str]:
        """Return the cells of a column, without the space around them."""
        pairs = zip(self.first[:, column].tolist(), self.end[:, column].tolist(), strict=True)
        return [self.data[a:b].decode().strip() for a, b in pairs]


def find_cells(body: bytes, layout: Layout) -> Cells | None:
    """Cells of the rows, or None unless every row has one per column and quotes enclose whole cells."""
    data = b"".join((b" " * PADDING, body, b"" if body.endswith(b"\n") else b"\n", b" " * PADDING))
    mark, n_columns = ord(layout.delimiter), len(layout.header)
    characters = np.frombuffer(data, dtype=np.uint8)
    is_end = characters == mark
    is_end |= characters == ord("\n")
    ends = np.flatnonzero(is_end)
    if len(ends) % n_columns:
        return None
    kinds = characters[ends].reshape(-1, n_columns)
    if not ((kinds[:, -1] == ord("\n")).all() and (kinds[:, :-1] == mark).all()):
        return None
    firsts = np.empty_like(ends)
    firsts[0], firsts[1:] = PADDING, ends[:-1] + 1
    if b'"' in body:
        unquoted = _without_quotes(characters, firsts, ends)
        if unquoted is None:
            return None
        firsts, ends = unquoted
    shape = kinds.shape
    return Cells(data, firsts.reshape(shape), ends.reshape(shape))


def _without_quotes(
    characters: npt.NDArray[np.uint8], firsts: Indices, ends: Indices
) -> tuple[Indices, Indices] | None:
    """Cells without their quotes, or None where a quote is not at the border of a cell."""
    quotes = np.flatnonzero(characters == ord('"'))
    if len(quotes) % 2:
        return None
    opening, closing = quotes[::2], quotes[1::2]
    cells = np.searchsorted(ends, opening)
    if not ((firsts[cells] == opening).all() and (ends[cells] - 1 == closing).all()):
        return None
    firsts, ends = firsts.copy(), ends.copy()
    firsts[cells] += 1
    ends[cells] -= 1
    return firsts, ends


def quick_numbers(cells: Cells, columns: Sequence[int]) -> Floats | None:
    """Numbers of some columns, NaN where there is none; None when a cell holds anything else."""
    chosen = list(columns)
    first, end = cells.first[:, chosen].ravel(), cells.end[:, chosen].ravel()
    values, is_read = read_decimals(cells.data, first, end)
    rest = np.flatnonzero(~is_read & (end > first))
    for place, low, high in zip(rest.tolist(), first[rest].tolist(), end[rest].tolist(), strict=True):
        cell = cells.data[low:high]
        try:
            values[place] = float(cell)
        except ValueError:
            if cell.strip().lower() not in _NO_EVIDENCE_BYTES:
                return None
        if b"_" in cell:  # Python reads 1_000 as a number; no table means that
            return None
    return values.reshape(len(cells.first), len(chosen))


def careful_numbers(
    path: Path, body: str, layout: Layout, columns: Sequence[int]
) -> tuple[Floats, list[int], bool]:
    """Numbers cell by cell, the line of each row, and whether there are decimal commas.

    The first thing wrong is named. A row has a number in each of the columns, or in none.
    """
    decimal_comma = layout.delimiter != "," and any(
        "," in row[i] for _, row in rows_of(path, body, layout) for i in columns
    )
    values: list[list[float]] = []
    lines = []
    for line, row in rows_of(path, body, layout):
        numbers = [_number(path, layout, line, row, i, decimal_comma) for i in columns]
        empty = [i for i, number in zip(columns, numbers, strict=True) if number != number]
        if empty and len(empty) < len(numbers):
            raise file_error(
                path,
                f"line {line}, column {layout.header[empty[0]]!r}: no number, but other stages of this row "
                "have one. Fill it, or leave all stages of the row empty where there is no evidence.",
            )
        values.append(numbers)
        lines.append(line)
    return np.array(values, dtype=np.float64).reshape(len(values), len(columns)), lines, decimal_comma


def _number(path: Path, layout: Layout, line: int, row: Sequence[str], i: int, decimal_comma: bool) -> float:
    cell = row[i].strip()
    if cell.casefold() in NO_EVIDENCE:
        return float("nan")
    number = cell.replace(",", ".") if decimal_comma else cell
    if not is_number(number):
        raise file_error(
            path, f"line {line}, column {layout.header[i]!r}: expected a number, got {cell[:40]!r}."
        )
    return float(number)


def careful_times(path: Path, body: str, layout: Layout, columns: Sequence[int]) -> Floats:
    """Numbers of columns that say when a row is, cell by cell; none may be missing."""
    found: list[list[float]] = []
    for line, row in rows_of(path, body, layout):
        cells = [point(row[i].strip(), layout.delimiter) for i in columns]
        for i, cell in zip(columns, cells, strict=True):
            if not is_number(cell) or not np.isfinite(float(cell)):
                raise file_error(
                    path, f"line {line}, column {layout.header[i]!r}: expected a number, got {cell[:40]!r}."
                )
        found.append([float(cell) for cell in cells])
    return np.array(found).reshape(len(found), len(columns))


def rows_of(path: Path, body: str, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1, as editors count) and cells of each row; ragged rows are refused."""
    if body.count('"') % 2:
        line = layout.first_line + 1 + body.count("\n", 0, body.rindex('"'))
        raise file_error(path, f"has a quote that is not closed, by line {line}. Close or remove it.")
    reader = csv.reader(io.StringIO(body, newline="\n"), delimiter=layout.delimiter)
    try:
        for row in reader:
            line = layout.first_line + reader.line_num
            if len(row) != len(layout.header):
                raise file_error(
                    path,
                    f"line {line} has {len(row)} cell{'s' * (len(row) != 1)}, the header has "
                    f"{len(layout.header)}. Every row needs one cell per column.",
                )
            yield line, row
    except csv.Error as error:
        raise file_error(path, f"line {layout.first_line + reader.line_num}: {error}.") from None


def empty_rows_note(n_rows: int) -> tuple[str, ...]:
    """Say that rows of empty cells at the end were left out, as spreadsheets write them."""
    if not n_rows:
        return ()
    return (f"{n_rows} row{'s' * (n_rows != 1)} of empty cells at the end left out",)


def point(cell: str, delimiter: str) -> str:
    """Return a number's text with a decimal point where a comma cannot be anything else."""
    return cell if delimiter == "," else cell.replace(",", ".")


def is_number(cell: str) -> bool:
    """Whether a cell is a number as tables write it."""
    if "_" in cell:
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True
