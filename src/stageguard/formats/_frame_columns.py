"""Columns of tables in memory, and what their index says about time. Imports no library of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

import numpy as np

from stageguard.formats._density_file import Where, file_error
from stageguard.formats._row_times import Meaning, meaning_of
from stageguard.formats._timing import FloatVector

Columns = Sequence[tuple[str, Any]]  # names and arrays, in order
INDEX = "index"
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
    return [(name, source.iloc[:, place].to_numpy()) for place, name in enumerate(names)]


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


def index_columns(index: Any) -> IndexColumns:
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
    if kind in "mM":
        return IndexColumns([(INDEX, index.to_numpy())], {INDEX: _CERTAIN}, zone)
    if kind == "f" and not name:
        return IndexColumns([(INDEX, index.to_numpy())], {INDEX: _LIKELY})
    if kind in "iu" and len(index) > 1 and not name:
        steps = np.diff(index.to_numpy().astype(np.int64))
        if (steps != 1).any():
            said = "the index does not count by 1: rows are read one after the other. Name it epoch if"
            return IndexColumns(notes=(f"{said} epochs are missing",))
    return IndexColumns([(name, index.to_numpy())] if name and kind not in "iuf" else ())


def time_cells(where: Where, name: str, values: Any) -> list[str] | FloatVector:
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
