"""Rows of probabilities from a stream of text, one line at a time. Decodes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError

LONGEST_LINE = 65_536  # bytes: an epoch has a handful of numbers
DELIMITERS = (";", "\t", ",")
MISSING = ("", "nan", "n/a", "na")
QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class Line:
    """One line with something on it: its number, counted from 1, and its cells."""

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """Which columns are stages, by name, and which is the quality."""

    stages: tuple[str, ...]
    columns: tuple[int, ...]
    quality: int | None
    n_columns: int

    @classmethod
    def of(cls, names: Sequence[str]) -> Header:
        """Return what the columns are; `quality` is the only one that is no stage."""
        columns = [i for i, name in enumerate(names) if name.casefold() != QUALITY]
        others = [i for i in range(len(names)) if i not in columns]
        if len(others) > 1:
            raise InputError(f"the header has {len(others)} columns {QUALITY!r}, expected one at most.")
        stages = tuple(names[i] for i in columns)
        return cls(stages, tuple(columns), others[0] if others else None, len(names))


def lines_of(stream: BinaryIO) -> Iterator[Line]:
    """Yield lines as they come in, without the empty ones."""
    number, delimiter = 0, None
    while data := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(data) > LONGEST_LINE:
            raise InputError(
                f"line {number} is longer than {LONGEST_LINE:,} bytes, expected one epoch's probabilities. "
                "End each epoch with a line break."
            )
        try:
            text = data.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n\0")
        except UnicodeDecodeError:
            raise InputError(f"line {number} is not text, expected numbers such as 0.7,0.2,0.1.") from None
        if not text.strip():
            continue
        if delimiter is None:
            delimiter = next((mark for mark in DELIMITERS if mark in text), None) or " "
        cells = text.split() if delimiter == " " else text.split(delimiter)
        decimal = "." if delimiter == "," else ","
        yield Line(number, tuple(cell.strip().strip('"').replace(decimal, ".") for cell in cells))


def is_header(line: Line) -> bool:
    """Whether a line names columns: some cell is neither a number nor a missing one."""
    return any(_number(cell) is None for cell in line.cells)


def read_row(line: Line, header: Header) -> tuple[Floats, float | None]:
    """Return a line's numbers in the header's order, NaN where missing, and its quality."""
    if len(line.cells) != header.n_columns:
        raise InputError(
            f"line {line.number} has {len(line.cells)} cells, expected {header.n_columns}: "
            f"{', '.join(_names(header))}."
        )
    values = []
    for cell in line.cells:
        value = _number(cell)
        if value is None:
            raise InputError(
                f"line {line.number} holds {cell[:40]!r}, expected a number, or NaN throughout for no "
                "evidence."
            )
        values.append(value)
    row = np.array([values[i] for i in header.columns])
    if header.quality is None or np.isnan(row).all():
        return row, None
    return row, values[header.quality]


def _names(header: Header) -> list[str]:
    names = dict(zip(header.columns, header.stages, strict=True))
    return [names.get(i, QUALITY) for i in range(header.n_columns)]


def _number(cell: str) -> float | None:
    if cell.casefold() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None
