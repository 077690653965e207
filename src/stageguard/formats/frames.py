"""Tables in memory: pandas, polars, pyarrow, xarray and dictionaries. Imports none of these libraries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.formats import luna_pops, yasa_probabilities
from stageguard.formats._density_file import DensityOptions, RawDensity, Where, file_error, listed
from stageguard.formats._table_cells import NO_EVIDENCE
from stageguard.formats._timing import TIMING_COLUMNS, FloatVector, Timing, read_timing
from stageguard.formats.objects import name_of
from stageguard.formats.tables import NIGHT_COLUMNS, choose_columns, refuse_many, stage_of

Columns = Sequence[tuple[str, Any]]  # names and arrays, in order


def density_of_pandas(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of a `pandas.DataFrame`; an index of times says when rows are."""
    columns = [
        (_column_name(name), source.iloc[:, place].to_numpy()) for place, name in enumerate(source.columns)
    ]
    index = source.index
    if index.name is not None and str(index.name).casefold() in TIMING_COLUMNS and index.nlevels == 1:
        columns.insert(0, (str(index.name), index.to_numpy()))
    times, start = None, None
    if index.nlevels == 1 and index.dtype.kind in "mM" and len(index):
        if getattr(index, "tz", None) is not None:
            start, index = index[0].to_pydatetime(warn=False), index.tz_convert("UTC").tz_localize(None)
        times = index.to_numpy()
    raw = density_of_columns(name_of(source), columns, options, times=times, what="index")
    return raw if start is None else replace(raw, start=start)


def density_of_polars(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of a `polars.DataFrame`."""
    if type(source).__name__ == "LazyFrame":
        raise file_error(name_of(source), "is not computed yet. Pass its collect().")
    return density_of_columns(
        name_of(source), [(name, source.get_column(name).to_numpy()) for name in source.columns], options
    )


def density_of_arrow(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of a `pyarrow.Table`."""
    columns = [(name, source.column(place).to_numpy()) for place, name in enumerate(source.column_names)]
    return density_of_columns(name_of(source), columns, options)


def density_of_mapping(source: Mapping[Any, Any], options: DensityOptions) -> RawDensity:
    """Probabilities of a dictionary of columns, or of the dictionary of a `yasa.Hypnogram`."""
    if source.keys() >= yasa_probabilities.KEYS:
        return yasa_probabilities.density_of_document("dict of yasa.Hypnogram", source)
    columns = [(_column_name(name), np.asarray(values)) for name, values in source.items()]
    return density_of_columns(name_of(source), columns, options)


def density_of_xarray(source: Any, options: DensityOptions) -> RawDensity:
    """Probabilities of an `xarray.DataArray` of (epochs, stages) by its coordinates, or of a `Dataset`."""
    where = name_of(source)
    if type(source).__name__ == "Dataset":
        columns = [(_column_name(name), source[name].to_numpy()) for name in source.data_vars]
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
        values = source.coords[dim].to_numpy()
        if values.dtype.kind in "mM":
            found |= {"times": values, "what": f"{dim} coordinate"}
        elif str(dim).casefold() in TIMING_COLUMNS:
            found["extra"] = [(str(dim), values)]
    return found


def density_of_columns(
    where: Where,
    columns: Columns,
    options: DensityOptions,
    *,
    times: npt.NDArray[Any] | None = None,
    what: str = "",
    seconds: float | None = None,
    extra: Columns = (),
) -> RawDensity:
    """Probabilities of named columns; onset, duration and epoch say when rows are.

    Parameters
    ----------
    where : Path or str
        For the errors.
    columns : sequence of (str, array)
        Names and values, in order.
    options : DensityOptions
        Which columns to read.
    times : array, optional
        Moments or time differences of all rows, from what is called `what`.
    seconds : float, optional
        Epoch length where the object says it.
    extra : sequence of (str, array)
        Columns that say when rows are, beside the others.
    """
    header = tuple(name for name, _ in columns)
    lengths = {len(values) if np.ndim(values) else 0 for _, values in columns}
    if len(lengths) != 1 or not lengths - {0}:
        raise file_error(where, "has no rows." if lengths <= {0} else "has columns of different lengths.")
    for name, cells in columns:
        if name.casefold() in NIGHT_COLUMNS:
            refuse_many(where, name, [str(cell) for cell in np.asarray(cells).tolist()])
    if luna_pops.is_pops(header):
        return luna_pops.density_of_pops(where, columns, options)
    places, names = choose_columns(where, header, options.stages, options.scheme)
    if len(places) < 2:
        raise file_error(
            where, f"names no stages (got: {listed(header)}). Expected columns such as W, N1, N2, N3, R."
        )
    values = np.column_stack([numbers_of(where, *columns[place]) for place in places])
    timing, taken, unused = _timing(where, [*extra, *columns], names, times, what)
    ignored = [name for place, name in enumerate(header) if place not in places and name not in taken]
    notes = (f"columns ignored: {listed(ignored)}",) if ignored else ()
    start, moments = (None, None) if times is None else _moments(where, times)
    if moments is not None and timing.epoch_seconds is None and len(moments) > 1:
        timing = read_timing(where, {"onset": moments}, None)
        timing = Timing(timing.epoch_seconds, what, timing.places, timing.notes)
    return RawDensity(
        values,
        names,
        epoch_seconds=timing.epoch_seconds if timing.epoch_seconds is not None else seconds,
        start=start,
        notes=notes + unused + timing.notes,
        epoch_source=timing.source,
        places=timing.places,
    )


def _timing(
    where: Where, columns: Columns, names: Sequence[str], times: npt.NDArray[Any] | None, what: str
) -> tuple[Timing, set[str], tuple[str, ...]]:
    """Return what the columns say about time, which of them, and which could not be used."""
    found: dict[str, FloatVector] = {}
    taken, unused = set(), []
    for name, values in columns:
        meaning = name.casefold()
        if meaning not in TIMING_COLUMNS or name in names or meaning in found:
            continue
        taken.add(name)
        try:
            numbers = numbers_of(where, name, values)
        except ValueError:
            numbers = np.array([np.nan])
        if np.isfinite(numbers).all():
            found[meaning] = numbers
        else:
            unused.append(f"the {name} column holds more than numbers: not used")
    return read_timing(where, found, None), taken, tuple(unused)


def _moments(where: Where, times: npt.NDArray[Any]) -> tuple[datetime | None, FloatVector]:
    """Return when the first row is, where that is a date, and seconds from it."""
    if np.isnat(times).any():
        raise file_error(
            where, f"row {int(np.argmax(np.isnat(times)))} has no time. Expected one for every row."
        )
    seconds = (times - times[0]) / np.timedelta64(1, "s")
    if times.dtype.kind == "m":
        return None, np.asarray(seconds, dtype=np.float64)
    whole = times[0].astype("datetime64[us]").astype(np.int64)
    start = datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=int(whole))
    return start, np.asarray(seconds, dtype=np.float64)


def numbers_of(where: Where, name: str, values: Any) -> FloatVector:
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
    if cell is None or text.casefold() in NO_EVIDENCE or text == "<NA>":
        return math.nan
    try:
        if isinstance(cell, bool) or "_" in text:
            raise ValueError
        return float(text if isinstance(cell, str | bytes) else cell)
    except (TypeError, ValueError, OverflowError):
        raise file_error(
            where, f"row {row}, column {name[:40]!r}: expected a number, got {text[:40]!r}."
        ) from None


def _column_name(name: Any) -> str:
    return name if isinstance(name, str) else "" if name is None else str(name)
