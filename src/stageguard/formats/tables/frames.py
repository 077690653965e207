"""Tables in memory: pandas, polars, pyarrow, xarray and dictionaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.checks import MISSING_WORDS, type_name
from stageguard.base.files import file_error
from stageguard.formats.density import NAMES_NO_STAGES, listed
from stageguard.formats.raw_night import FileOptions, RawDensity, RawHypnogram, Where
from stageguard.formats.tables.delimited import NAMELESS, TextTable
from stageguard.formats.tables.one_night import (
    DECODED_COLUMNS,
    is_night_column,
    refuse_many,
    refuse_runs,
    refuse_untold_times,
)
from stageguard.formats.tables.probabilities import choose_columns, stage_of, timed_density
from stageguard.formats.tables.row_times import (
    INDEX,
    Columns,
    IndexColumns,
    Meaning,
    cell_text,
    meaning_of,
    nameless_index,
    row_times,
)
from stageguard.formats.tools import luna, yasa

Raw = TypeVar("Raw", RawDensity, RawHypnogram)


def density_of_frame(read: Callable[[Any], tuple[Columns, IndexColumns]]) -> Callable[..., RawDensity]:
    """Return a reader of probabilities from an object whose columns and index `read` returns."""

    def density(source: Any, options: FileOptions) -> RawDensity:
        columns, index = read(source)
        return in_zone(density_of_columns(type_name(source), columns, options, index), index)

    return density


def in_zone(raw: Raw, index: IndexColumns) -> Raw:
    """Return a night with its start in the time zone of its index."""
    if raw.start is None or raw.start.tzinfo is None or index.zone is None:
        return raw
    return replace(raw, start=raw.start.astimezone(index.zone))


def density_of_mapping(source: Mapping[Any, Any], options: FileOptions) -> RawDensity:
    """Return the probabilities in a dictionary of columns, or in the dictionary of a `yasa.Hypnogram`."""
    if source.keys() >= yasa.KEYS:
        return yasa.density_of_document("dict of yasa.Hypnogram", source)
    columns = [(_column_name(name), np.asarray(values)) for name, values in source.items()]
    return density_of_columns(type_name(source), columns, options)


def density_of_xarray(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities in an `xarray.DataArray` of epochs and stages, or in a `Dataset`."""
    where = type_name(source)
    if type(source).__name__ == "Dataset":
        columns = [(_column_name(name), source[name].to_numpy()) for name in source.data_vars]
        epoch_dim = next(iter(source.dims), None)
    else:
        if source.ndim != 2:
            raise file_error(where, f"has shape {source.shape}, expected two dimensions: epochs and stages.")
        names, stage_axis = _stage_axis(where, source, options)
        matrix = source.to_numpy() if stage_axis == 1 else source.to_numpy().T
        if matrix.shape[1] != len(names):
            raise file_error(where, f"has {matrix.shape[1]} columns, but {len(names)} stages are named.")
        columns = list(zip(names, matrix.T, strict=True))
        epoch_dim = source.dims[1 - stage_axis]
    seconds = source.attrs.get("epoch_seconds")
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    index = _coordinate(source, epoch_dim)
    return density_of_columns(where, columns, options, index, seconds=float(seconds) if is_number else None)


def _stage_axis(where: str, source: Any, options: FileOptions) -> tuple[tuple[str, ...], int]:
    """Return the names of the stages, and the axis of the stages in a `DataArray`."""
    for axis, dim in enumerate(source.dims):
        if dim in source.coords:
            names = tuple(str(name) for name in source.coords[dim].to_numpy())
            if sum(stage_of(name) is not None for name in names[:200]) > 1:
                return names, axis
    if options.stages is None:
        raise file_error(
            where, "names no stages in its coordinates. Say what the columns are with stages, for "
            "example stages=['W', 'N1', 'N2', 'N3', 'R']."
        )  # fmt: skip
    n_stages = len(options.stages)
    return options.stages, 0 if source.shape[0] == n_stages != source.shape[1] else 1


def _coordinate(source: Any, dim: Any) -> IndexColumns | None:
    """Return the coordinate along the epochs, if it tells times."""
    if dim is None or dim not in source.coords:
        return None
    values, name = source.coords[dim].to_numpy(), f"{dim} coordinate"
    meaning = Meaning("onset", 1.0, True) if values.dtype.kind in "mM" else meaning_of(str(dim))
    return None if meaning is None else IndexColumns([(name, values)], {name: meaning})


def density_of_columns(
    where: Where,
    columns: Columns,
    options: FileOptions,
    index: IndexColumns | None = None,
    *,
    seconds: float | None = None,
    fills_lead: bool = True,
) -> RawDensity:
    """Return the probabilities in named columns; onset, time, duration, epoch and the index time the rows.

    `seconds` is the epoch length if the object says it elsewhere. If `fills_lead`, whole epochs before the
    first row belong to the night.
    """
    index = index or IndexColumns()
    header = tuple(name for name, _ in columns)
    lengths = {len(values) if np.ndim(values) else 0 for _, values in columns}
    if len(lengths) != 1 or not lengths - {0}:
        raise file_error(where, "has no rows." if lengths <= {0} else "has columns of different lengths.")
    if DECODED_COLUMNS.issubset(header):
        raise file_error(where, "is an output of decode, expected the stager's probabilities.")
    for name, cells in (*index.columns, *columns):
        if is_night_column(name):
            refuse_many(where, name, [cell_text(cell) for cell in np.asarray(cells).tolist()], header)
    is_luna = luna.is_pops(header)
    if is_luna:
        options = replace(
            options, stages=options.stages or luna.posterior_columns(where, header), scheme=None
        )
    chosen, names = choose_columns(where, header, options)
    if len(chosen) < 2 and not is_luna:
        raise file_error(
            where,
            f"names no stages (got: {listed(header)}). Expected columns such as W, N1, N2, N3, R.",
            code=NAMES_NO_STAGES,
        )
    values = np.column_stack([numbers_of(where, *columns[column]) for column in chosen])
    if is_luna:
        by_name = {name.casefold(): np.asarray(cells) for name, cells in columns}
        texts = {name: [str(cell) for cell in cells.tolist()] for name, cells in by_name.items()}
        return luna.density_of_epochs(where, values, names, numbers_of(where, "E", by_name["e"]), texts, None)
    others = [column_pair for column, column_pair in enumerate(columns) if column not in chosen]
    timed = [
        (name, time_cells(where, cells))
        for name, cells in (*index.columns, *others)
        if name in index.meanings or meaning_of(name) is not None
    ]
    times = row_times(where, timed, index.meanings)
    left = [(name, cells) for name, cells in others if name not in times.used]
    refuse_runs(where, ((name, _run_cells(cells)) for name, cells in left), times, can_decode=True)
    refuse_untold_times(where, ((name, _run_cells(cells)) for name, cells in left), times)
    ignored = [name for name, _ in left]
    notes = ((f"columns ignored: {listed(ignored)}",) if ignored else ()) + index.notes
    raw = timed_density(where, values, names, times, None, options, notes=notes, fills_lead=fills_lead)
    seconds = raw.epoch_seconds if raw.epoch_seconds is not None else seconds
    return replace(raw, epoch_seconds=seconds, ignored=tuple(ignored))


def _run_cells(values: Any) -> Sequence[str] | Floats:
    """Return a column as numbers or texts, to see whether it is constant in runs."""
    array = np.asarray(values)
    is_plain = array.dtype.kind in "fiu" and array.ndim == 1
    return np.asarray(array, dtype=np.float64) if is_plain else [cell_text(cell) for cell in array.tolist()]


def pandas_columns(source: Any) -> tuple[Columns, IndexColumns]:
    """Return columns and index of a `pandas.DataFrame`; a name may occur twice."""
    columns = [(_column_name(name), source.iloc[:, i].to_numpy()) for i, name in enumerate(source.columns)]
    return columns, index_columns(type_name(source), source.index)


def polars_columns(source: Any) -> tuple[Columns, IndexColumns]:
    """Return the columns of a `polars.DataFrame`."""
    if type(source).__name__ == "LazyFrame":
        raise file_error(type_name(source), "is not computed yet. Pass its collect().")
    columns = [
        (series.name, _values(series, getattr(series.dtype, "time_zone", None), series.to_list))
        for series in source.get_columns()
    ]
    return columns, IndexColumns()


def _values(column: Any, zone: Any, cells: Callable[[], list[Any]]) -> Any:
    """Return the values of a column; times with a zone keep it."""
    return np.array(cells(), dtype=object) if zone else column.to_numpy()


def arrow_columns(table: Any, where: Where = "pyarrow.Table") -> tuple[Columns, IndexColumns]:
    """Return the columns of a `pyarrow.Table`, and the index that pandas stored in it."""
    columns = [
        (name, _values(each, getattr(each.type, "tz", None), each.to_pylist))
        for name, each in zip(table.column_names, table.columns, strict=True)
    ]
    index = next((values for name, values in columns if name == NAMELESS[-1]), None)
    if index is not None:
        return [each for each in columns if each[0] != NAMELESS[-1]], nameless_index(where, index)
    metadata = (getattr(table.schema, "pandas_metadata", None) or {}).get("index_columns", [])
    span = next((each for each in metadata if isinstance(each, dict) and each.get("kind") == "range"), None)
    if span is None or span.get("name"):
        return columns, IndexColumns()
    counts = np.arange(span.get("start", 0), span.get("stop", 0), span.get("step", 1))
    return columns, nameless_index(where, counts)


def index_columns(where: Where, index: Any) -> IndexColumns:
    """Return the levels of a pandas index that say which epoch or recording a row is."""
    if index.nlevels > 1:
        levels = [
            (_column_name(name) or f"{INDEX} {level}", index.get_level_values(level).to_numpy())
            for level, name in enumerate(index.names)
        ]
        return IndexColumns(levels)
    name, kind = _column_name(index.name), index.dtype.kind
    zone = getattr(index, "tz", None)
    if name and meaning_of(name) is not None:
        return IndexColumns([(name, index.to_numpy())], zone=zone)
    if kind in "mM" or not name:
        return replace(nameless_index(where, index.to_numpy()), zone=zone)
    return IndexColumns([(name, index.to_numpy())] if kind not in "iuf" else ())


def stage_table(path: Path, columns: Columns, notes: tuple[str, ...]) -> TextTable:
    """Return columns as a table of text, to read stages from."""
    rows = list(zip(*(_texts(path, values) for _, values in columns), strict=True))
    if not rows:
        raise file_error(path, "has no rows. Expected one per epoch.")
    header = tuple(name.casefold() for name, _ in columns)
    return TextTable(path, header, rows, range(len(rows)), notes=notes)


def _texts(path: Path, values: Any) -> list[str]:
    if isinstance(values, np.ndarray):
        values = time_cells(path, values) if values.dtype.kind in "mM" else values.tolist()
    return [cell_text(cell) for cell in values]


def _column_name(name: Any) -> str:
    return "" if name is None else str(name)


def time_cells(where: Where, values: Any) -> list[str] | Floats:
    """Return a column as seconds, or as texts of times and dates."""
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


def numbers_of(where: Where, name: str, values: Any) -> Floats:
    """Return a column as numbers, also from text; missing cells are NaN."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise file_error(where, f"column {name[:40]!r} has shape {array.shape}, expected one number per row.")
    if array.dtype.kind in "fiu":
        return np.asarray(array, dtype=np.float64)
    if array.dtype.kind not in "OUS":
        raise file_error(where, f"column {name[:40]!r} is of type {array.dtype}, expected numbers.")
    return np.array([_number(where, name, row, cell) for row, cell in enumerate(array.tolist())])


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
