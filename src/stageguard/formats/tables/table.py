"""A table: named columns with one row per epoch, as text or as arrays, and where it comes from.

Every source of rows (delimited text, Parquet, a data frame, a dictionary, xarray) becomes a `Table`; what its
columns mean is decided in `probabilities` and `tools.text`, once for all sources.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats
from stageguard.checks import MISSING_WORDS
from stageguard.files import file_error
from stageguard.formats.density import listed
from stageguard.formats.night import Where
from stageguard.guard import kernels

_COMMA = re.compile(r"^([+-]?\d*),(\d+)$", re.ASCII)  # a cell that is a number with a decimal comma
NAMELESS = ("", "unnamed: 0", "__index_level_0__")  # names that files give to an index without a name
# If a column of such a name has several values, the file holds more than one night. Names are without marks.
_WHOSE = ("subject", "subj", "sub", "participant", "patient", "person", "case", "animal", "mouse", "rat")
_WHICH = ("recording", "record", "rec", "night", "session", "ses", "visit", "study", "file", "edffile")
NIGHT_COLUMNS = {
    *(f"{name}{ending}" for name in (*_WHOSE, *_WHICH) for ending in ("", "id", "no", "name")),
    *("id", "pid", "sid", "uid", "nsrrid", "fold", "filepath", "edf"),
}
PART_COLUMNS = {
    **dict.fromkeys(("channel", "ch", "electrode"), "channels"),
    **dict.fromkeys(("scorer", "rater", "annotator"), "scorers"),
}
DECODED_COLUMNS = frozenset(("stage", "label", "argmax_stage"))  # in all outputs of `decode`

Role = Literal["onset", "end", "duration", "epoch"]
Cells = Sequence[str] | npt.NDArray[Any]


class Meaning(NamedTuple):
    """What a column says about time, and the seconds per unit of its numbers."""

    role: Role
    factor: float
    is_plain: bool  # its name leaves no doubt about the unit


@dataclass(frozen=True, slots=True)
class IndexColumns:
    """An index as columns, with meanings for columns without a telling name, time zone and remarks."""

    columns: Sequence[tuple[str, Cells]] = ()  # texts, or numbers
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    zone: tzinfo | None = None
    notes: tuple[str, ...] = ()


NO_INDEX = IndexColumns()


class EvenCells(Sequence[tuple[str, ...]]):
    """Columns of text that are all numbers; cells are made only when needed: a night has thousands."""

    def __init__(self, text: str, delimiter: str, numbers: Floats) -> None:
        self._text, self._delimiter = text, delimiter
        self._cells: list[str] | None = None
        self.numbers = numbers  # (n_rows, n_columns)

    def __len__(self) -> int:
        """Return the number of columns."""
        return int(self.numbers.shape[1])

    def __getitem__(self, column: Any) -> Any:
        """Return the cells of one column or of several."""
        if isinstance(column, slice):
            return [self[number] for number in range(len(self))[column]]
        if self._cells is None:
            self._cells = self._text.replace("\n", self._delimiter).split(self._delimiter)
        return tuple(self._cells[range(len(self))[column] :: len(self)])


@dataclass(frozen=True, slots=True)
class Table:
    """Columns with their names, an index, the line of each row if rows are lines, and remarks."""

    path: Where
    header: tuple[str, ...]  # names, of which some may be the same
    columns: Sequence[Cells]
    lines: Sequence[int]  # of the rows in a file, counted from 1, or their numbers from 0
    delimiter: str = ","
    notes: tuple[str, ...] = ()
    index: IndexColumns = NO_INDEX
    are_lines: bool = True  # whether messages name rows by their lines

    @property
    def lines_of_file(self) -> Sequence[int] | None:
        """The line of each row, or None if rows are not lines."""
        return self.lines if self.are_lines else None

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of each row."""
        return list(zip(*map(self.column, range(len(self.header))), strict=True))

    def records(self) -> list[dict[str, str]]:
        """Return each row as cells by column name."""
        return [dict(zip(self.header, row, strict=True)) for row in self.rows]

    def column(self, column: str | int) -> tuple[str, ...]:
        """Return the cells of a column as text, given its name or its index."""
        cells = self.columns[self.header.index(column) if isinstance(column, str) else column]
        if not isinstance(cells, np.ndarray):
            return tuple(cells)
        values = time_cells(self.path, cells) if cells.dtype.kind in "mM" else cells.tolist()
        return tuple([cell_text(cell) for cell in values])

    def seconds(self, name: str) -> Floats:
        """Return a column of times as numbers; any other cell is an error that names its line."""
        cells = self.column(name)
        values = [as_number(cell) for cell in cells]
        if None in values:
            raise self.cell_error(values.index(None), name, "seconds", cells[values.index(None)])
        return np.array(values, dtype=np.float64)

    def numbers(self, column: int) -> tuple[Floats, bool]:
        """Return the numbers of a column, NaN if missing, and whether they had decimal commas."""
        if isinstance(self.columns, EvenCells):
            return self.columns.numbers[:, column], False
        cells, name = self.columns[column], self.header[column][:40]
        if isinstance(cells, np.ndarray):
            if cells.ndim != 1 or cells.dtype.kind not in "fiuOUS":
                found = f"has shape {cells.shape} and type {cells.dtype}"
                raise file_error(self.path, f"column {name!r} {found}, expected one number per row.")
            if cells.dtype.kind in "fiu":
                return np.asarray(cells, dtype=np.float64), False
            cells = [cell_text(cell).strip() for cell in cells.tolist()]
        has_commas = self.delimiter != "," and "," in "".join(cells)
        if has_commas:
            cells = [cell.replace(",", ".") for cell in cells]
        numbers: Floats | None = kernels.active.read_numbers(tuple(cells))
        if numbers is not None:
            return numbers, has_commas
        values = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            if is_number(cell):
                values[row] = float(cell)
            elif cell.casefold() not in MISSING_WORDS:
                raise self.cell_error(row, name, "a number", cell)
        return values, has_commas

    def times(self, column: int) -> Cells:
        """Return a column that times rows: texts, with points for decimal commas, or numbers."""
        if isinstance(self.columns, EvenCells):
            return self.columns.numbers[:, column]
        cells = self.columns[column]
        if isinstance(cells, np.ndarray):
            return time_cells(self.path, cells)
        return cells if self.delimiter == "," else [_COMMA.sub(r"\1.\2", cell) for cell in cells]

    def cell_error(self, row: int, name: str, expected: str, cell: str) -> Exception:
        """Return the error that says what a cell holds and what was expected."""
        return file_error(
            self.path,
            f"{row_name(self.lines_of_file, row)}, column {name!r}: expected {expected}, got {cell[:40]!r}.",
        )


def row_name(lines: Sequence[int] | None, row: int) -> str:
    """Return the name of a row for a message."""
    return f"row {row}" if lines is None else f"line {lines[row]}"


def time_cells(where: Where, array: npt.NDArray[Any]) -> Cells:
    """Return a column as seconds, or as texts of times and dates."""
    if array.dtype.kind in "mM":
        if np.isnat(array).any():
            raise file_error(
                where, f"row {int(np.argmax(np.isnat(array)))} has no time. Expected one for every row."
            )
        if array.dtype.kind == "m":
            return np.asarray(array / np.timedelta64(1, "s"), dtype=np.float64)
        return [str(text) for text in np.datetime_as_string(array.astype("datetime64[us]"))]
    if array.dtype.kind in "fiu":
        return np.asarray(array, dtype=np.float64)
    return [cell_text(cell) for cell in array.tolist()]


def cell_text(value: object) -> str:
    """Return a cell as text; nothing if it is missing."""
    if value is None or str(value) in ("<NA>", "NaT") or value != value:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.9g}"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def as_number(cell: str) -> float | None:
    """Return the finite number in a cell, or None."""
    value = float(cell) if is_number(cell) else math.nan
    return value if math.isfinite(value) else None


def is_number(cell: str) -> bool:
    """Whether a cell is a number; unlike Python, tables have no numbers such as 1_000."""
    if "_" in cell:
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return the name of a column in lower case without blanks, underscores, points and hyphens."""
    return re.sub(r"[\s_.\-]+", "", name.casefold())


def is_night_column(name: str) -> bool:
    """Whether a column of this name says which recording, channel or scorer a row belongs to."""
    return plain_name(name) in NIGHT_COLUMNS or plain_name(name) in PART_COLUMNS


def refuse_several(table: Table, *, of_channels: bool = True) -> None:
    """Refuse a table if a column or a level of its index tells several nights, channels or scorers apart.

    Unless `of_channels`, rows may be of several channels, as events are.
    """
    for column, name in enumerate(table.header):
        if is_night_column(name) and (of_channels or PART_COLUMNS.get(name) != "channels"):
            _refuse_many(table.path, name, table.column(column))
    for name, cells in table.index.columns:
        if is_night_column(name):
            _refuse_many(table.path, name, [cell_text(cell) for cell in np.asarray(cells).tolist()])


def _refuse_many(path: Where, name: str, cells: Sequence[str]) -> None:
    """Refuse a table if its column `name` has several values and does not number the rows."""
    values = list(dict.fromkeys(cells))
    if len(values) < 2 or (len(values) == len(cells) and _counts(values)):
        return
    what = PART_COLUMNS.get(plain_name(name), "recordings")
    advice = "Keep the rows of one"
    if what == "channels":
        advice += ", or read each and put them together with sg.combine"
    elif plain_name(name) == "id":
        advice += ", or decode all of them with a table as output, such as out.csv"
    many = f"{len(values):,} {what} by its column {name} ({listed(values, 4)})"
    raise file_error(path, f"holds {many}, expected one. {advice}.")


def _counts(cells: Sequence[str]) -> bool:
    """Whether cells number the rows."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return False
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))
