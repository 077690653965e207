"""Tables in memory: pandas, polars, pyarrow, xarray and dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from stageguard.checks import array_of, type_name
from stageguard.files import file_error
from stageguard.formats.density import NAMES_NO_STAGES, listed
from stageguard.formats.night import FileOptions, RawDensity, RawHypnogram, Where
from stageguard.formats.tables.one_night import DECODED_COLUMNS
from stageguard.formats.tables.probabilities import choose_columns, density_of_table, stage_of
from stageguard.formats.tables.row_times import INDEX, meaning_of, nameless_index
from stageguard.formats.tables.table import NAMELESS, NO_INDEX, IndexColumns, Meaning, Table, time_cells
from stageguard.formats.tools import luna, yasa

Raw = TypeVar("Raw", RawDensity, RawHypnogram)
Named = list[tuple[str, Any]]  # names and arrays of columns


def density_of_frame(table: Table, options: FileOptions, *, fills_lead: bool = True) -> RawDensity:
    """Return the probabilities in columns of arrays; see `density_of_table`."""
    where, header = table.path, table.header
    lengths = {len(cells) if np.ndim(cells) else 0 for cells in table.columns}
    if len(lengths) != 1 or not lengths - {0}:
        raise file_error(where, "has no rows." if lengths <= {0} else "has columns of different lengths.")
    if DECODED_COLUMNS.issubset(header):
        raise file_error(where, "is an output of decode, expected the stager's probabilities.")
    if luna.is_pops(header):
        return luna.density_of_pops(table, options)
    stages = choose_columns(where, header, options)
    if len(stages.places) < 2:
        raise file_error(
            where,
            f"names no stages (got: {listed(header)}). Expected columns such as W, N1, N2, N3, R.",
            code=NAMES_NO_STAGES,
        )
    return in_zone(density_of_table(table, stages, options, fills_lead=fills_lead), table.index)


def in_zone(raw: Raw, index: IndexColumns) -> Raw:
    """Return a night with its start in the time zone of its index."""
    if raw.start is None or raw.start.tzinfo is None or index.zone is None:
        return raw
    return replace(raw, start=raw.start.astimezone(index.zone))


def array_table(where: Where, columns: Named, index: IndexColumns = NO_INDEX) -> Table:
    """Return named arrays as a table."""
    header, arrays = [name for name, _ in columns], [_plain(values) for _, values in columns]
    n_rows = len(arrays[0]) if arrays and arrays[0].ndim else 0
    return Table(where, tuple(header), arrays, range(n_rows), index=index, are_lines=False)


def _plain(values: Any) -> npt.NDArray[Any]:
    """Return a column as an array."""
    return np.asarray(array_of(np.asanyarray(values), "the columns", "read_density"))


def stage_table(path: Path, table: Table) -> Table:
    """Return a table to read stages from: names in lower case, levels of the index as columns."""
    names = tuple(name.casefold() for name in table.header)
    levels = [(name, cells) for name, cells in table.index.columns if name.casefold() not in names]
    if not table.lines:
        raise file_error(path, "has no rows. Expected one per epoch.")
    return replace(
        table,
        path=path,
        header=(*(name.casefold() for name, _ in levels), *names),
        columns=[*(cells for _, cells in levels), *table.columns],
        notes=table.index.notes,
        are_lines=True,
    )


def density_of_mapping(source: Mapping[Any, Any], options: FileOptions) -> RawDensity:
    """Return the probabilities in a dictionary of columns, or in the dictionary of a `yasa.Hypnogram`."""
    if source.keys() >= yasa.KEYS:
        return yasa.density_of_document("dict of yasa.Hypnogram", source)
    columns = [(_column_name(name), values) for name, values in source.items()]
    return density_of_frame(array_table(type_name(source), columns), options)


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
    raw = density_of_frame(array_table(where, columns, _coordinate(source, epoch_dim)), options)
    seconds = source.attrs.get("epoch_seconds")
    if raw.epoch_seconds is not None or isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return raw
    return replace(raw, epoch_seconds=float(seconds))


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


def _coordinate(source: Any, dim: Any) -> IndexColumns:
    """Return the coordinate along the epochs, if it tells times."""
    if dim is None or dim not in source.coords:
        return NO_INDEX
    values, name = source.coords[dim].to_numpy(), f"{dim} coordinate"
    meaning = Meaning("onset", 1.0, True) if values.dtype.kind in "mM" else meaning_of(str(dim))
    if meaning is None:
        return NO_INDEX
    return IndexColumns([(name, time_cells(type_name(source), values))], {name: meaning})


def pandas_table(source: Any) -> Table:
    """Return columns and index of a `pandas.DataFrame`; a name may occur twice."""
    where = type_name(source)
    columns = [(_column_name(name), source.iloc[:, i].to_numpy()) for i, name in enumerate(source.columns)]
    return array_table(where, columns, pandas_index(where, source.index))


def polars_table(source: Any) -> Table:
    """Return the columns of a `polars.DataFrame`."""
    if type(source).__name__ == "LazyFrame":
        raise file_error(type_name(source), "is not computed yet. Pass its collect().")
    columns = [
        (series.name, _values(series, getattr(series.dtype, "time_zone", None), series.to_list))
        for series in source.get_columns()
    ]
    return array_table(type_name(source), columns)


def _values(column: Any, zone: Any, cells: Callable[[], list[Any]]) -> Any:
    """Return the values of a column; times with a zone keep it."""
    return np.array(cells(), dtype=object) if zone else column.to_numpy()


def arrow_table(table: Any, where: Where = "pyarrow.Table") -> Table:
    """Return the columns of a `pyarrow.Table`, and the index that pandas stored in it."""
    columns = [
        (name, _values(each, getattr(each.type, "tz", None), each.to_pylist))
        for name, each in zip(table.column_names, table.columns, strict=True)
    ]
    index = next((values for name, values in columns if name == NAMELESS[-1]), None)
    if index is not None:
        columns = [each for each in columns if each[0] != NAMELESS[-1]]
        return array_table(where, columns, nameless_index(where, index))
    metadata = (getattr(table.schema, "pandas_metadata", None) or {}).get("index_columns", [])
    span = next((each for each in metadata if isinstance(each, dict) and each.get("kind") == "range"), None)
    if span is None or span.get("name"):
        return array_table(where, columns)
    counts = np.arange(span.get("start", 0), span.get("stop", 0), span.get("step", 1))
    return array_table(where, columns, nameless_index(where, counts))


def pandas_index(where: Where, index: Any) -> IndexColumns:
    """Return the levels of a pandas index that say which epoch or recording a row is."""
    if index.nlevels > 1:
        levels = [
            (_column_name(name) or f"{INDEX} {level}", index.get_level_values(level).to_numpy())
            for level, name in enumerate(index.names)
        ]
        return IndexColumns([(name, time_cells(where, values)) for name, values in levels])
    name, kind = _column_name(index.name), index.dtype.kind
    zone = getattr(index, "tz", None)
    if name and meaning_of(name) is not None:
        return IndexColumns([(name, time_cells(where, index.to_numpy()))], zone=zone)
    if kind in "mM" or not name:
        return replace(nameless_index(where, index.to_numpy()), zone=zone)
    if kind in "iuf":
        return NO_INDEX
    return IndexColumns([(name, time_cells(where, index.to_numpy()))])


def _column_name(name: Any) -> str:
    return "" if name is None else str(name)
