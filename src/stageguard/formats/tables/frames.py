"""Tables in memory: pandas, polars, pyarrow, xarray and dictionaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stageguard.base.checks import type_name
from stageguard.base.files import file_error
from stageguard.formats.density import DensityOptions, RawDensity, Where, listed
from stageguard.formats.tables.frame_columns import (
    Columns,
    IndexColumns,
    arrow_columns,
    cell_text,
    column_name,
    index_columns,
    numbers_of,
    pandas_columns,
    polars_columns,
    time_cells,
)
from stageguard.formats.tables.probabilities import choose_columns, stage_of
from stageguard.formats.tables.row_times import Meaning, meaning_of, row_times, timing_of
from stageguard.formats.tables.several import is_night_column, refuse_many
from stageguard.formats.tools import luna_posteriors, yasa


def density_of_pandas(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of a `pandas.DataFrame`; an index of times says when rows are."""
    index = index_columns(type_name(source), source.index)
    raw = density_of_columns(type_name(source), pandas_columns(source), options, index)
    if raw.start is None or raw.start.tzinfo is None or index.zone is None:
        return raw
    return replace(raw, start=raw.start.astimezone(index.zone))


def density_of_polars(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of a `polars.DataFrame`."""
    if type(source).__name__ == "LazyFrame":
        raise file_error(type_name(source), "is not computed yet. Pass its collect().")
    return density_of_columns(type_name(source), polars_columns(source), options)


def density_of_arrow(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of a `pyarrow.Table`."""
    columns, index = arrow_columns(type_name(source), source)
    return density_of_columns(type_name(source), columns, options, index)


def density_of_mapping(source: Mapping[Any, Any], options: DensityOptions) -> RawDensity:
    """Probabilities of a dictionary of columns, or of the dictionary of a `yasa.Hypnogram`."""
    if source.keys() >= yasa.KEYS:
        return yasa.density_of_document("dict of yasa.Hypnogram", source)
    columns = [(column_name(name), np.asarray(values)) for name, values in source.items()]
    return density_of_columns(type_name(source), columns, options)


def density_of_xarray(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of an `xarray.DataArray` of (epochs, stages) by its coordinates, or of a `Dataset`."""
    where = type_name(source)
    if type(source).__name__ == "Dataset":
        columns = [(column_name(name), source[name].to_numpy()) for name in source.data_vars]
        along = next(iter(source.dims), None)
        return density_of_columns(where, columns, options, **_along(source, along))
    if source.ndim != 2:
        raise file_error(where, f"has shape {source.shape}, expected two dimensions: epochs and stages.")
    stage_axis = next((axis for axis, dim in enumerate(source.dims) if _names_stages(source, dim)), None)
    if stage_axis is None:
        if options.stages is None:
            raise file_error(
                where, "names no stages in its coordinates. Say what the columns are with stages, for "
                "example stages=['W', 'N1', 'N2', 'N3', 'R']."
            )  # fmt: skip
        matching = [axis for axis in (0, 1) if source.shape[axis] == len(options.stages)]
        stage_axis, names = 1 if 1 in matching or not matching else 0, options.stages
    else:
        names = tuple(str(name) for name in source.coords[source.dims[stage_axis]].to_numpy())
    matrix = source.to_numpy() if stage_axis == 1 else source.to_numpy().T
    if matrix.shape[1] != len(names):
        raise file_error(where, f"has {matrix.shape[1]} columns, but {len(names)} stages are named.")
    columns = [(name, matrix[:, place]) for place, name in enumerate(names)]
    return density_of_columns(where, columns, options, **_along(source, source.dims[1 - stage_axis]))


def _names_stages(source: Any, dim: Any) -> bool:
    """Whether a dimension's coordinate names stages."""
    if dim not in source.coords:
        return False
    names = [str(name) for name in source.coords[dim].to_numpy()[:200]]
    return sum(stage_of(name) is not None for name in names) > 1


def _along(source: Any, dim: Any) -> dict[str, Any]:
    """Return what the coordinate along the epochs, and the attributes, say about time."""
    found: dict[str, Any] = {}
    seconds = source.attrs.get("epoch_seconds")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        found["seconds"] = float(seconds)
    if dim is not None and dim in source.coords:
        values, name = source.coords[dim].to_numpy(), f"{dim} coordinate"
        meaning = meaning_of(str(dim))
        if values.dtype.kind in "mM":
            meaning = Meaning("onset", 1.0, True)
        if meaning is not None:
            found["index"] = IndexColumns([(name, values)], {name: meaning})
    return found


def density_of_columns(
    where: Where,
    columns: Columns,
    options: DensityOptions,
    index: IndexColumns | None = None,
    *,
    seconds: float | None = None,
    fills_lead: bool = True,
) -> RawDensity:
    """Probabilities of named columns; onset, time, duration, epoch and the index say when rows are.

    Parameters
    ----------
    where : Path or str
        For the errors.
    columns : sequence of (str, array)
        Names and values, in order.
    options : DensityOptions
        Which columns to read.
    index : IndexColumns, optional
        What else says when rows are, and of which recording.
    seconds : float, optional
        Epoch length where the object says it.
    fills_lead : bool
        Whether whole epochs before the first row belong to the night.
    """
    index = index or IndexColumns()
    header = tuple(name for name, _ in columns)
    lengths = {len(values) if np.ndim(values) else 0 for _, values in columns}
    if len(lengths) != 1 or not lengths - {0}:
        raise file_error(where, "has no rows." if lengths <= {0} else "has columns of different lengths.")
    is_luna = luna_posteriors.is_pops(header)
    for name, cells in (*index.columns, *columns):
        if is_night_column(name) and not (is_luna and name.casefold() == "ch"):
            refuse_many(where, name, [cell_text(cell) for cell in np.asarray(cells).tolist()])
    if is_luna:
        return luna_posteriors.density_of_pops(where, columns, options)
    places, names = choose_columns(where, header, options.stages, options.scheme)
    if len(places) < 2:
        raise file_error(
            where, f"names no stages (got: {listed(header)}). Expected columns such as W, N1, N2, N3, R."
        )
    values = np.column_stack([numbers_of(where, *columns[place]) for place in places])
    others = [each for place, each in enumerate(columns) if place not in places]
    told = [
        (name, time_cells(where, name, cells))
        for name, cells in (*index.columns, *others)
        if name in index.meanings or meaning_of(name) is not None
    ]
    times = row_times(where, told, index.meanings)
    timing, start = timing_of(where, times, None, given=options.epoch_seconds, fills_lead=fills_lead)
    ignored = [name for name, _ in others if name not in times.used]
    notes = (f"columns ignored: {listed(ignored)}",) if ignored else ()
    return RawDensity(
        values,
        names,
        epoch_seconds=timing.epoch_seconds if timing.epoch_seconds is not None else seconds,
        start=start,
        notes=notes + index.notes + timing.notes,
        epoch_source=timing.source,
        places=timing.places,
        offset_seconds=timing.offset_seconds,
        is_told=any(name.casefold() != "epoch" for name in times.unread),
    )
