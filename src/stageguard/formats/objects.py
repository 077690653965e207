"""Read nights from objects of other libraries, recognised by package and class without importing these.

A new kind is one row of `OBJECTS`, the functions that read it, and one test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.checks import array_of, array_of_tensor, type_name
from stageguard.errors import InputError, fault_text
from stageguard.files import file_error
from stageguard.formats.density import listed, pool, settle_epoch_seconds
from stageguard.formats.file_format import EPOCH_LENGTH, NUMBERS_ALONE, Kind
from stageguard.formats.hypnogram import NUMBERINGS, names_of
from stageguard.formats.night import FileOptions, Night, RawDensity, RawHypnogram
from stageguard.formats.tables.frames import (
    array_table,
    arrow_table,
    density_of_frame,
    density_of_mapping,
    density_of_xarray,
    in_zone,
    pandas_index,
    pandas_table,
    polars_table,
    stage_table,
)
from stageguard.formats.tables.table import Table
from stageguard.formats.tools import yasa
from stageguard.formats.tools.arrays import array_density
from stageguard.formats.tools.luna import from_stage_rows
from stageguard.formats.tools.mne import stages_of_mne
from stageguard.formats.tools.text import from_table, read_numbered_table
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, UNSCORED_NAME, canonical_name
from stageguard.profile.stagers import stager_of_format

NUMBERS = "numbers-"


def is_a(package: str, *classes: str) -> Callable[[Any], bool]:
    """Return the test for objects of these classes or their subclasses."""
    return lambda source: any(
        base.__module__.partition(".")[0] == package and base.__name__ in classes
        for base in type(source).__mro__
    )


def raw_hypnogram(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages in an object; it may be a hypnogram or a decoding."""
    night = source if isinstance(source, Hypnogram) else getattr(source, "hypnogram", None)
    if isinstance(night, Hypnogram):
        _refuse_format(source, options)
        return RawHypnogram(
            tuple(night.stages.tolist()),
            epoch_seconds=night.epoch_seconds,
            start=night.start,
            scheme=night.scheme,
            offset_seconds=night.offset_seconds,
            scorer=night.scorer,
        )
    reads = (kind.stages for kind in OBJECTS if kind.stages is not None and kind.is_it(source))
    return next(reads, stages_of_sequence)(source, options)


def raw_density(source: Any, options: FileOptions) -> RawDensity:
    """Return the stage probabilities in an object."""
    kind = next((each for each in OBJECTS if each.is_it(source)), None)
    if kind is None or kind.probabilities is None:
        hint = "" if kind is None else " It is read by read_hypnogram."
        known = "; ".join(each.title for each in OBJECTS if each.probabilities is not None)
        raise InputError(f"{type_name(source)} is not read as probabilities.{hint} Known: a path; {known}.")
    if not kind.takes_format:
        _refuse_format(source, options)
    raw = kind.probabilities(source, options)
    return replace(raw, stager=stager_of_format(options.format or kind.name))


def pass_density(density: Hypnodensity, options: FileOptions) -> Night:
    """Return a hypnodensity as it is, or pooled; refuse options that contradict it."""
    name = type_name(density)
    if options.format is not None or options.logits or options.log or options.stages is not None:
        raise InputError(
            f"{name}: knows its stages and holds probabilities. Leave out format, stages, logits and log."
        )
    try:
        settle_epoch_seconds(name, options.epoch_seconds, density.epoch_seconds)
        if options.pool_to_seconds is None:
            return Night(probabilities=density)
        pooled, notes = pool(density, options.pool_to_seconds)
        return Night(probabilities=replace(pooled, source=density.source), notes=notes)
    except ValueError as error:
        raise InputError(str(error)) from None


def _numbering_of(options: FileOptions) -> str | None:
    """Return the numbering of stages that the caller named, or None."""
    name = (options.format or "").removeprefix(NUMBERS)
    return name if name in NUMBERINGS else None


def _refuse_format(source: Any, options: FileOptions) -> None:
    if options.format is not None:
        told = f"says itself what it is, got format={options.format!r}"
        raise InputError(f"{type_name(source)}: {told}. Leave it out.")


# ---- stages


def stages_of_yasa(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages of a `yasa.Hypnogram`."""
    _refuse_format(source, options)
    return yasa.stages_of_document(Path(type_name(source)), yasa.document_of(source))


def stages_of_annotations(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages in annotations of MNE, alone or in a `Raw`."""
    numbering = _numbering_of(options)
    if numbering is None:
        _refuse_format(source, options)
    raw = None if is_a("mne", "Annotations")(source) else source
    annotations = source if raw is None else raw.annotations
    return stages_of_mne(Path(type_name(source)), annotations, options, numbering, raw)


def stages_of_sleepecg(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages of a `SleepRecord`; its start is dropped, because it has no date."""
    path = Path(type_name(source))
    _refuse_format(source, options)
    if source.sleep_stages is None or not len(source.sleep_stages):
        raise file_error(path, "has no sleep_stages.")
    codes = np.asarray(source.sleep_stages, dtype=np.float64).tolist()
    seconds = source.sleep_stage_duration
    clock = getattr(source, "recording_start_time", None)
    return RawHypnogram(
        names_of(path, codes, NUMBERINGS["sleepecg"].codes, what="epoch", first=0),
        epoch_seconds=None if seconds is None else float(seconds),
        scheme=AASM5,
        notes=(f"recording_start_time {clock:%H:%M:%S} has no date: no start time is kept",) if clock else (),
        scorer=source.id or None,
    )


def stages_of_frame(frame: Table, options: FileOptions) -> RawHypnogram:
    """Return the stages of a table: of lunapi, or with a column of stages."""
    path = Path(frame.path)
    table = stage_table(path, frame)
    numbering = _numbering_of(options)
    if numbering is not None:
        return in_zone(read_numbered_table(path, table, numbering, options), table.index)
    if options.format is not None:
        raise InputError(f"{path}: says itself what it is, got format={options.format!r}. Leave it out.")
    if {*table.header} >= {"e", "stage", "start_sec"}:
        return from_stage_rows(path, table, options)
    return in_zone(from_table(path, table, options), table.index)


def stages_of_sequence(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages of a list, an array or a `Series`, timed by a pandas index if it holds times."""
    path = Path(type_name(source))
    if is_a("pandas", "Series")(source):
        index = pandas_index(str(path), source.index)
        raw = _stages_of_values(path, source.to_numpy().tolist(), options)
        if not index.columns:
            return replace(raw, notes=raw.notes + index.notes)
        frame = array_table(str(path), [("stage", np.array(raw.stages, dtype=object))], index)
        return replace(stages_of_frame(frame, replace(options, format=None)), scheme=raw.scheme)
    if is_a("polars", "Series")(source):
        return _stages_of_values(path, source.to_list(), options)
    if isinstance(source, np.ndarray):
        if source.ndim != 1:
            raise file_error(path, f"has the shape {source.shape}, expected one stage per epoch.")
        return _stages_of_values(path, source.tolist(), options)
    if isinstance(source, Sequence) and not isinstance(source, bytes | bytearray | memoryview | range):
        return _stages_of_values(path, list(source), options)
    raise InputError(
        f"a hypnogram cannot be read from {path.name}. Expected a path, stage names, or an object of YASA, "
        "MNE, SleepECG, lunapi, pandas or polars."
    )


def _stages_of_values(path: Path, values: list[Any], options: FileOptions) -> RawHypnogram:
    """Return one stage per value: names, or numbers in the numbering that the caller named."""
    if not values:
        raise file_error(path, "is empty, expected one stage per epoch.")
    values = [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
    if any(map(_is_number, values)):  # masked numbers come as None
        values = [math.nan if value is None else value for value in values]
    if all(map(_is_number, values)):
        numbering = _numbering_of(options)
        if numbering is not None:
            stages = names_of(path, values, NUMBERINGS[numbering].codes, what="epoch", first=0)
            return RawHypnogram(stages, scheme=NUMBERINGS[numbering].scheme)
        known = " or ".join(f"format={NUMBERS + each!r}" for each in NUMBERINGS)
        numbers = "holds numbers, and tools number stages differently. Say whose they are"
        raise file_error(path, f"{numbers}: {known}.")
    if all(isinstance(value, str) or _is_missing(value) for value in values):
        return RawHypnogram(tuple(each if isinstance(each, str) else UNSCORED_NAME for each in values))
    kinds = ", ".join(sorted({type(value).__name__ for value in values})[:4])
    raise file_error(path, f"holds {kinds}, expected names of stages.")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_missing(value: object) -> bool:
    """Whether a value is None, a NaN or a missing value of pandas."""
    is_nan = isinstance(value, Real) and bool(value != value)
    return is_nan or value is None or type(value).__name__ in ("NAType", "NaTType")


# ---- probabilities


def density_of_torch(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities or logits of a `torch.Tensor`, on any device and of any precision."""
    where = type_name(source)
    try:
        values = array_of_tensor(source)
    except (RuntimeError, TypeError) as error:  # a tensor without numbers, or of a type that NumPy lacks
        told = f"has no numbers to read ({fault_text(error)}), expected a plain tensor."
        raise file_error(where, told) from None
    return array_density(where, values, options)


def density_of_array(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities or logits of an array, or of anything that NumPy converts to one."""
    where = type_name(source)
    return array_density(where, array_of(source, f"{where}: probabilities", "read_hypnogram"), options)


def density_of_pair(source: tuple[Any, Any], options: FileOptions) -> RawDensity:
    """Return the probabilities of a classifier's (probabilities, classes)."""
    where = type_name(source)
    values, classes = (array_of(part, where, "read_hypnogram") for part in source)
    if values.ndim != 2 or classes.shape != values.shape[1:]:
        raise file_error(
            where,
            f"has parts of shapes {values.shape} and {classes.shape}, expected probabilities (epochs, "
            "classes) and the names of the classes.",
        )
    if options.stages is not None:
        return array_density(where, values, options)
    names = [
        name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in classes.tolist()
    ]
    if classes.dtype.kind in "biuf":
        raise file_error(
            where,
            f"has the classes {listed(names)}, and tools number stages differently. Name them with stages in "
            "this order, for example stages=['W', 'N1', 'N2', 'N3', 'R'].",
        )
    unknown = next((name for name in names if canonical_name(name) is None), None)
    if unknown is not None and options.scheme is None:
        raise file_error(
            where, f"has the class {unknown[:40]!r}, which is no stage. Name the classes with stages."
        )
    return RawDensity(values, tuple(names))


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object in memory, like `FileFormat` for files."""

    name: str
    title: str
    is_it: Callable[[Any], bool]  # the first kind that returns True is used
    stages: Callable[[Any, FileOptions], RawHypnogram] | None = None
    probabilities: Callable[[Any, FileOptions], RawDensity] | None = None
    loses: tuple[str, ...] = ()
    takes_format: bool = False  # for a density, `format` may name the tool that ordered the columns

    def does(self, kind: Kind) -> bool:
        """Whether the object can be read as this kind; none is written."""
        parts = {"density": self.probabilities, "hypnogram": self.stages, "write": None}
        return parts[kind] is not None


def _frame(name: str, title: str, is_it: Callable[[Any], bool], table: Callable[[Any], Table]) -> ObjectKind:
    """Return a kind of data frame, given the function that makes a table of it."""
    return ObjectKind(
        name,
        title,
        is_it,
        lambda source, options: stages_of_frame(table(source), options),
        lambda source, options: density_of_frame(table(source), options),
    )


OBJECTS: tuple[ObjectKind, ...] = (
    ObjectKind(
        "yasa",
        "yasa.Hypnogram (0.7 and later)",
        is_a("yasa", "Hypnogram"),
        stages_of_yasa,
        yasa.density_of_yasa,
    ),
    ObjectKind(
        "mne",
        "mne.Annotations, or a Raw with them",
        is_a("mne", "Annotations", "BaseRaw"),
        stages_of_annotations,
    ),
    ObjectKind("sleepecg", "sleepecg.SleepRecord", is_a("sleepecg", "SleepRecord"), stages_of_sleepecg),
    _frame(
        "pandas",
        "pandas.DataFrame, among them YASA's predict_proba and lunapi's POPS tables",
        is_a("pandas", "DataFrame"),
        pandas_table,
    ),
    _frame("polars", "polars.DataFrame", is_a("polars", "DataFrame", "LazyFrame"), polars_table),
    _frame("pyarrow", "pyarrow.Table", is_a("pyarrow", "Table"), arrow_table),
    ObjectKind(
        "xarray",
        "xarray.DataArray or Dataset",
        is_a("xarray", "DataArray", "Dataset"),
        probabilities=density_of_xarray,
    ),
    ObjectKind(
        "torch",
        "torch.Tensor, among them logits of braindecode and PhysioEx",
        is_a("torch", "Tensor"),
        probabilities=density_of_torch,
        loses=NUMBERS_ALONE,
        takes_format=True,
    ),
    ObjectKind(
        "columns",
        "a dict of columns",
        lambda source: isinstance(source, Mapping),
        probabilities=density_of_mapping,
    ),
    ObjectKind(
        "sklearn",
        "(predict_proba(X), classes_) of scikit-learn, LightGBM or skorch",
        lambda source: isinstance(source, tuple) and len(source) == 2,
        probabilities=density_of_pair,
        loses=(EPOCH_LENGTH,),
        takes_format=True,
    ),
    ObjectKind(
        "numpy",
        "an array of numbers (NumPy, SleepECG, U-Sleep, hmmlearn, JAX, TensorFlow, nested lists)",
        lambda source: isinstance(source, np.ndarray | list) or hasattr(source, "__array__"),
        stages_of_sequence,
        density_of_array,
        loses=NUMBERS_ALONE,
        takes_format=True,
    ),
)
