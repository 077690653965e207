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
from stageguard.formats.tables.probabilities import choose_columns, density_of_table, stage_of
from stageguard.formats.tables.table import (
    DECODED_COLUMNS,
    NAMELESS,
    NO_INDEX,
    IndexColumns,
    Table,
    time_cells,
)
from stageguard.formats.tables.times import INDEX, meaning_of, nameless_index
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
    where, dims = type_name(source), list(source.dims)
    if type(source).__name__ == "Dataset":
        frame = source.to_dataframe()
    elif source.ndim != 2:
        raise file_error(where, f"has shape {source.shape}, expected two dimensions: epochs and stages.")
    else:
        frame, names = source.to_pandas(), options.stages or ()
        has_stages = [sum(stage_of(str(name)) is not None for name in axis[:200]) > 1 for axis in frame.axes]
        if has_stages[0] or (not any(has_stages) and frame.shape[0] == len(names) != frame.shape[1]):
            frame, dims = frame.T, dims[::-1]
        if not any(has_stages):
            if len(names) != frame.shape[1]:
                example = "stages=['W', 'N1', 'N2', 'N3', 'R']"
                problem = (
                    f"names no stages for its {frame.shape[1]} columns. Name them, for example {example}."
                )
                raise file_error(where, problem)
            frame.columns = list(names)
    if dims[0] not in source.coords:
        frame.index.name = None
    raw = density_of_frame(replace(pandas_table(frame), path=where), options)
    seconds = source.attrs.get("epoch_seconds")
    if raw.epoch_seconds is not None or isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return raw
    return replace(raw, epoch_seconds=float(seconds))


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
