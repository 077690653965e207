"""Hypnograms that are other libraries' objects, read without importing those libraries.

Objects are known by the module and the name of their class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.errors import Argument, InputError, Message
from stageguard.base.files import file_error
from stageguard.formats.hypnogram import HypnogramOptions, RawHypnogram
from stageguard.formats.stage_codes import NUMBERINGS, names_of
from stageguard.formats.tables.delimited import TextTable
from stageguard.formats.tables.frame_columns import (
    Columns,
    IndexColumns,
    cell_text,
    index_columns,
    pandas_columns,
    polars_columns,
    time_cells,
)
from stageguard.formats.tools.luna import from_stage_rows
from stageguard.formats.tools.mne import GSSC, stages_of_mne
from stageguard.formats.tools.numbers import read_numbered_table
from stageguard.formats.tools.text import from_table
from stageguard.formats.tools.yasa import COLUMNS, from_events, stages_of_yasa
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, UNSCORED_NAME, WNR3

NUMBERS = "numbers-"
SLEEPECG_SECONDS = 30.0


def read_object(source: Any, options: HypnogramOptions) -> tuple[Path, RawHypnogram]:
    """Return what to call an object, and its stages.

    Parameters
    ----------
    source : object
        A hypnogram of this package or of YASA, a decoding, annotations of MNE or a recording with them, a
        `SleepRecord` of SleepECG, a table of pandas or polars (also of lunapi), or a sequence of stages.
    options : HypnogramOptions
        What the caller said; a sequence of numbers needs a format such as "numbers-yasa".
    """
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__}
    root = type(source).__module__.partition(".")[0]
    path = Path(f"{root}.{type(source).__name__}" if root != "builtins" else type(source).__name__)
    if isinstance(source, Hypnogram) or isinstance(getattr(source, "hypnogram", None), Hypnogram):
        _refuse_format(path, options)
        return path, _own(source if isinstance(source, Hypnogram) else source.hypnogram)
    if ("yasa", "Hypnogram") in kinds:
        _refuse_format(path, options)
        return path, stages_of_yasa(path, source)
    if ("mne", "Annotations") in kinds:
        return path, _mne(path, source, options, source)
    if ("mne", "BaseRaw") in kinds:
        return path, _mne(path, source.annotations, options, source)
    if ("sleepecg", "SleepRecord") in kinds:
        _refuse_format(path, options)
        return path, _sleepecg(path, source)
    if ("pandas", "DataFrame") in kinds:
        return path, _frame(path, pandas_columns(source), options, index_columns(str(path), source.index))
    if ("polars", "DataFrame") in kinds:
        return path, _frame(path, polars_columns(source), options)
    if ("pandas", "Series") in kinds:
        return path, _series(path, source, options)
    if ("polars", "Series") in kinds:
        return path, _sequence(path, source.to_list(), options)
    if isinstance(source, np.ndarray):
        if source.ndim != 1:
            raise file_error(path, f"has the shape {source.shape}, expected one stage per epoch.")
        return path, _sequence(path, source.tolist(), options)
    if isinstance(source, Sequence) and not isinstance(source, bytes | bytearray | memoryview):
        return path, _sequence(path, list(source), options)
    raise InputError(
        f"a hypnogram cannot be read from {path.name}. Expected a path, stage names, or an object of YASA, "
        "MNE, SleepECG, lunapi, pandas or polars."
    )


def _own(night: Hypnogram) -> RawHypnogram:
    stages = tuple(night.stages.tolist())
    return RawHypnogram(
        stages, tuple(range(len(stages))), night.epoch_seconds, night.start, scheme=night.scheme,
        offset_seconds=night.offset_seconds, has_clock=night.start is not None, scorer=night.scorer,
    )  # fmt: skip


def _mne(path: Path, annotations: Any, options: HypnogramOptions, source: Any) -> RawHypnogram:
    """Stages of annotations of MNE, alone or of a `Raw`."""
    numbering = GSSC if options.format == "gssc-fif" else _numbering(options)
    if numbering is None:
        _refuse_format(path, options)
    raw = None if source is annotations else source
    return stages_of_mne(path, annotations, options, numbering, raw)


def _sleepecg(path: Path, source: Any) -> RawHypnogram:
    if source.sleep_stages is None or not len(source.sleep_stages):
        raise file_error(path, "has no sleep_stages.")
    codes = np.asarray(source.sleep_stages, dtype=np.float64).tolist()
    stages = names_of(path, codes, NUMBERINGS["sleepecg"].codes, what="epoch", first=0)
    seconds = source.sleep_stage_duration
    return RawHypnogram(
        stages,
        tuple(range(len(stages))),
        epoch_seconds=None if seconds is None else float(seconds),
        scheme=AASM5,
        notes=_clock_note(source),
        scorer=source.id or None,
    )


def _clock_note(source: Any) -> tuple[str, ...]:
    """Say when a record began, where it tells a time of day: without a date that is no start."""
    clock = getattr(source, "recording_start_time", None)
    if clock is None:
        return ()
    return (f"recording_start_time {clock:%H:%M:%S} has no date: no start time is kept",)


def _frame(
    path: Path, columns: Columns, options: HypnogramOptions, index: IndexColumns | None = None
) -> RawHypnogram:
    """Stages of a table: of lunapi, of YASA's events, or with a column of stages."""
    index = index or IndexColumns()
    named = [(name, values) for name, values in columns]
    header = tuple(name.casefold() for name, _ in named)
    taken = {*header}
    named = [each for each in index.columns if each[0].casefold() not in taken] + named
    header = tuple(name.casefold() for name, _ in named)
    rows = list(zip(*(_texts(path, name, values) for name, values in named), strict=True))
    if not rows:
        raise file_error(path, "has no rows. Expected one per epoch.")
    table = TextTable(path, header, rows, range(len(rows)), notes=index.notes)
    numbering = _numbering(options)
    if numbering is not None:
        raw = read_numbered_table(path, table, numbering, options, index.meanings)
    else:
        _refuse_format(path, options)
        raw = _named_frame(path, table, options, index)
    return _in_zone(raw, index)


def _named_frame(
    path: Path, table: TextTable, options: HypnogramOptions, index: IndexColumns
) -> RawHypnogram:
    header = table.header
    if {"e", "stage", "start_sec"} <= set(header):
        return from_stage_rows(path, table, options)
    if set(COLUMNS) <= set(header):
        return from_events(path, table, options)
    if "brain_state" in header:
        codes = table.seconds("brain_state").tolist()
        stages = names_of(path, codes, NUMBERINGS["accusleep"].codes, what="row", first=0)
        return RawHypnogram(stages, tuple(table.lines), scheme=WNR3)
    return from_table(path, table, options, index.meanings)


def _in_zone(raw: RawHypnogram, index: IndexColumns) -> RawHypnogram:
    if raw.start is None or raw.start.tzinfo is None or index.zone is None:
        return raw
    return replace(raw, start=raw.start.astimezone(index.zone))


def _texts(path: Path, name: str, values: Any) -> list[str]:
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        return [cell_text(cell) for cell in time_cells(path, name, array)]
    return [cell_text(cell) for cell in array.tolist()]


def _series(path: Path, source: Any, options: HypnogramOptions) -> RawHypnogram:
    """Stages of a `pandas.Series`; an index of times says when they are."""
    index = index_columns(str(path), source.index)
    raw = _sequence(path, source.to_numpy().tolist(), options)
    if not index.columns:
        return replace(raw, notes=raw.notes + index.notes)
    stages = np.array(raw.stages, dtype=object)
    plain = replace(options, format=None)
    return replace(_frame(path, [("stage", stages)], plain, index), scheme=raw.scheme)


def _numbering(options: HypnogramOptions) -> str | None:
    """Return whose numbers the caller says stages are, or None."""
    name = (options.format or "").removeprefix(NUMBERS)
    return name if options.format is not None and name in NUMBERINGS else None


def _refuse_format(path: Path, options: HypnogramOptions) -> None:
    if options.format is not None:
        given = Argument("format", options.format)
        raise InputError(Message(f"{path.name}: says itself what it is, got ", given, ". Leave it out."))


def _sequence(path: Path, values: list[Any], options: HypnogramOptions) -> RawHypnogram:
    if not values:
        raise file_error(path, "is empty, expected one stage per epoch.")
    places = tuple(range(len(values)))
    values = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
    if all(isinstance(value, str) for value in values):
        return RawHypnogram(tuple(values), places)
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    numbering = _numbering(options)
    if numbers and numbering is not None:
        stages = names_of(path, values, NUMBERINGS[numbering].codes, what="epoch", first=0)
        return RawHypnogram(stages, places, scheme=NUMBERINGS[numbering].scheme)
    if numbers:
        fitting = [name for name, each in NUMBERINGS.items() if set(values) <= set(each.codes)]
        known = [p for each in fitting or NUMBERINGS for p in (" or ", Argument("format", NUMBERS + each))]
        raise file_error(
            path,
            Message(
                "holds numbers, and tools number stages differently. Say whose they are: ", *known[1:], "."
            ),
        )
    if all(value is None or isinstance(value, str) or value != value for value in values):
        return RawHypnogram(
            tuple(value if isinstance(value, str) else UNSCORED_NAME for value in values), places
        )
    kinds = ", ".join(sorted({type(value).__name__ for value in values})[:4])
    raise file_error(path, f"holds {kinds}, expected names of stages.")
