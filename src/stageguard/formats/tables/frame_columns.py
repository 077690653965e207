"""Columns of tables in memory, and what their index says about time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.checks import MISSING_WORDS
from stageguard.base.files import file_error
from stageguard.formats.density import Where
from stageguard.formats.tables.row_times import Meaning, meaning_of, parse_cells

Columns = Sequence[tuple[str, Any]]  # names and arrays, in order
INDEX = "index"
NAMELESS = ("", "unnamed: 0", "__index_level_0__")  # what files call an index that had no name
_CERTAIN, _LIKELY = Meaning("onset", 1.0, True), Meaning("onset", 1.0, False)


@dataclass(frozen=True, slots=True)
class IndexColumns:
    """An index as columns, what one without a telling name means, its time zone, and remarks on it."""

    columns: Columns = ()
    meanings: Mapping[str, Meaning] = field(default_factory=dict)
    zone: tzinfo | None = None
    notes: tuple[str, ...] = ()


def pandas_columns(source: Any) -> Columns:
    """Return the columns of a `pandas.DataFrame`, also those whose names are there twice."""
    names = [column_name(name) for name in source.columns]
    return [(name, source.iloc[:, column_index].to_numpy()) for column_index, name in enumerate(names)]


def polars_columns(source: Any) -> Columns:
    """Return the columns of a `polars.DataFrame`."""
    return [(name, polars_values(source.get_column(name))) for name in source.columns]


def polars_values(series: Any) -> Any:
    """Return what a `polars.Series` holds; times of a zone keep it."""
    if getattr(series.dtype, "time_zone", None):
        return np.array(series.to_list(), dtype=object)
    return series.to_numpy()


def arrow_values(column: Any) -> Any:
    """Return what a column of pyarrow holds; times of a zone keep it."""
    if getattr(column.type, "tz", None):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy()


def arrow_columns(where: Where, table: Any) -> tuple[Columns, IndexColumns]:
    """Return the columns of a `pyarrow.Table`, and the index that pandas left in it."""
    found = [
        (name, arrow_values(table.column(column_index)))
        for column_index, name in enumerate(table.column_names)
    ]
    index = next((values for name, values in found if name == NAMELESS[-1]), None)
    if index is not None:
        return [each for each in found if each[0] != NAMELESS[-1]], nameless_index(where, index)
    metadata = (getattr(table.schema, "pandas_metadata", None) or {}).get("index_columns", [])
    span = next((each for each in metadata if isinstance(each, dict) and each.get("kind") == "range"), None)
    if span is None or span.get("name"):
        return found, IndexColumns()
    counts = np.arange(span.get("start", 0), span.get("stop", 0), span.get("step", 1))
    return found, IndexColumns(notes=_count_notes(where, counts))


def index_columns(where: Where, index: Any) -> IndexColumns:
    """Return the levels of a pandas index that say which epoch or recording a row is."""
    if index.nlevels > 1:
        found = [
            (column_name(name) or f"{INDEX} {level}", index.get_level_values(level).to_numpy())
            for level, name in enumerate(index.names)
        ]
        return IndexColumns(found)
    name, kind = column_name(index.name), index.dtype.kind
    zone = getattr(index, "tz", None)
    if name and meaning_of(name) is not None:
        return IndexColumns([(name, index.to_numpy())], zone=zone)
    if kind in "mM" or not name:
        return replace(nameless_index(where, index.to_numpy()), zone=zone)
    return IndexColumns([(name, index.to_numpy())] if kind not in "iuf" else ())


def nameless_index(where: Where, values: Any) -> IndexColumns:
    """Return what an index without a name says: times where it holds them, and nothing where it counts.

    Parameters
    ----------
    where : Path or str
        For the errors.
    values : array
        Dates, times, numbers, or texts of these as a file has them.
    """
    array = np.asarray(values)
    if array.dtype.kind in "OU":
        array = _told(array)
    kind = array.dtype.kind
    if kind in "mM":
        return IndexColumns([(INDEX, array)], {INDEX: _CERTAIN})
    if kind == "O":
        return IndexColumns([(INDEX, array)], {INDEX: _CERTAIN} if len(array) else {})
    if kind == "f":
        return IndexColumns([(INDEX, array)], {INDEX: _LIKELY})
    return IndexColumns(notes=_count_notes(where, array)) if kind in "iu" else IndexColumns()


def _told(array: Any) -> Any:
    """Return texts that are numbers or times as such, and something else as an array that says nothing."""
    texts = [cell_text(cell).strip() for cell in array.tolist()]
    if texts and all(re.fullmatch(r"\d{1,15}", text) for text in texts):
        return np.array([int(text) for text in texts])
    parsed = parse_cells(texts) if texts else None
    if parsed is None:
        return np.zeros(0, dtype=bool)
    return parsed.values if parsed.kind == "numbers" else np.array(texts, dtype=object)


def _count_notes(where: Where, index: Any) -> tuple[str, ...]:
    """Say that an index of whole numbers leaves rows out; refuse one that says they are not in order."""
    if len(index) < 2:
        return ()
    counts = index.astype(np.int64)
    steps = np.diff(counts)
    back = np.flatnonzero(steps <= 0)
    if len(back) and (counts[back + 1] != counts[0]).any():  # parts joined below each other begin anew
        row = int(back[np.argmax(counts[back + 1] != counts[0])]) + 1
        raise file_error(
            where,
            f"row {row} has the index {counts[row]} after {counts[row - 1]}, expected rows in the order of "
            "time. Sort them (sort_index), or drop the index if they are in order (reset_index(drop=True)).",
        )
    if (steps != 1).any():
        said = "the index does not count by 1: rows are read one after the other. Name it epoch if"
        return (f"{said} epochs are missing",)
    if counts[0] > 1:
        said = f"the index begins at {counts[0]}: read as the first epoch"
        return (f"{said}. If epochs before it are missing, add a column onset in seconds",)
    return ()


def time_cells(where: Where, name: str, values: Any) -> list[str] | Floats:
    """Return a column as numbers of seconds, or as texts of times and dates."""
    array = np.asarray(values)
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
    """Return a cell as a text table has it; nothing for what is missing."""
    if value is None or value != value or str(value) in ("<NA>", "NaT"):
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


def column_name(name: Any) -> str:
    """Return what a column is called."""
    return name if isinstance(name, str) else "" if name is None else str(name)


def numbers_of(where: Where, name: str, values: Any) -> Floats:
    """Return a column as numbers: text that spells them too, NaN for what is missing."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise file_error(where, f"column {name[:40]!r} has shape {array.shape}, expected one number per row.")
    if array.dtype.kind in "fiu":
        return np.asarray(array, dtype=np.float64)
    if array.dtype.kind not in "OUS":
        raise file_error(where, f"column {name[:40]!r} is of type {array.dtype}, expected numbers.")
    return np.array(
        [_number(where, name, row, cell) for row, cell in enumerate(array.tolist())], dtype=np.float64
    )


def _number(where: Where, name: str, row: int, cell: Any) -> float:
    text = str(cell).strip() if not isinstance(cell, bytes) else cell.decode("utf-8", "replace").strip()
    if cell is None or text.casefold() in MISSING_WORDS:
        return math.nan
    try:
        if isinstance(cell, bool) or "_" in text:
            raise ValueError
        return float(text if isinstance(cell, str | bytes) else cell)
    except (TypeError, ValueError, OverflowError):
        raise file_error(
            where, f"row {row}, column {name[:40]!r}: expected a number, got {text[:40]!r}."
        ) from None
