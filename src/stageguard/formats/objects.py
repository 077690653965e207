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
import numpy.typing as npt

from stageguard.checks import array_of, array_of_tensor, type_name
from stageguard.errors import InputError, did_you_mean, fault_text
from stageguard.files import file_error
from stageguard.formats.density import DensityFile, listed, pool, settle_epoch_seconds
from stageguard.formats.file_format import EPOCH_LENGTH, NUMBERS_ALONE, PROBABILITIES, START, Kind
from stageguard.formats.hypnogram import NUMBERINGS, names_of
from stageguard.formats.night import (
    FileOptions,
    RawDensity,
    RawHypnogram,
    Reader,
    of_both,
    of_probabilities,
    of_stages,
)
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
from stageguard.formats.tables.timing import RowTimes, read_timing
from stageguard.formats.tools import yasa
from stageguard.formats.tools.accusleep import ACCUSLEEPY, spread
from stageguard.formats.tools.arrays import FIVE, array_density
from stageguard.formats.tools.luna import from_stage_rows
from stageguard.formats.tools.mne import stages_of_mne
from stageguard.formats.tools.text import from_table, read_numbered_table
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, UNSCORED_NAME, WNR3, canonical_name
from stageguard.profile.stagers import stager_of_format

NUMBERS = "numbers-"


def is_a(package: str, *classes: str) -> Callable[[Any], bool]:
    """Return the test for objects of these classes or their subclasses."""
    return lambda source: any(
        base.__module__.partition(".")[0] == package and base.__name__ in classes
        for base in type(source).__mro__
    )


def read_hypnogram_object(source: Any, options: FileOptions) -> tuple[Path, RawHypnogram]:
    """Return the name of an object for messages, and its stages; it may be a hypnogram or a decoding."""
    path = Path(type_name(source))
    night = source if isinstance(source, Hypnogram) else getattr(source, "hypnogram", None)
    if isinstance(night, Hypnogram):
        _refuse_format(path, options)
        return path, _stages_of_night(night)
    kind = next((kind for kind in OBJECTS if kind.does("hypnogram") and kind.is_it(source)), None)
    read = None if kind is None else kind.reader.read(source, options).stages
    return path, _stages_of_sequence(source, options) if read is None else read()


def _stages_of_night(night: Hypnogram) -> RawHypnogram:
    return RawHypnogram(
        tuple(night.stages.tolist()),
        epoch_seconds=night.epoch_seconds,
        start=night.start,
        scheme=night.scheme,
        offset_seconds=night.offset_seconds,
        scorer=night.scorer,
    )


def _stages_of_yasa(source: Any, options: FileOptions) -> RawHypnogram:
    path = Path(type_name(source))
    _refuse_format(path, options)
    return yasa.stages_of_document(path, yasa.document_of(source))


def _stages_of_mne(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages in annotations of MNE, alone or in a `Raw`."""
    path = Path(type_name(source))
    numbering = _numbering_of(options)
    if numbering is None:
        _refuse_format(path, options)
    if is_a("mne", "Annotations")(source):
        return stages_of_mne(path, source, options, numbering)
    return stages_of_mne(path, source.annotations, options, numbering, source)


def _stages_of_sleepecg(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages of a `SleepRecord`; its start is dropped, because it has no date."""
    path = Path(type_name(source))
    _refuse_format(path, options)
    if source.sleep_stages is None or not len(source.sleep_stages):
        raise file_error(path, "has no sleep_stages.")
    codes = np.asarray(source.sleep_stages, dtype=np.float64).tolist()
    stages = names_of(path, codes, NUMBERINGS["sleepecg"].codes, what="epoch", first=0)
    seconds = source.sleep_stage_duration
    clock = getattr(source, "recording_start_time", None)
    note = f"recording_start_time {clock:%H:%M:%S} has no date: no start time is kept" if clock else ""
    return RawHypnogram(
        stages,
        epoch_seconds=None if seconds is None else float(seconds),
        scheme=AASM5,
        notes=(note,) if note else (),
        scorer=source.id or None,
    )


def _stages_of_frame(frame: Table, options: FileOptions) -> RawHypnogram:
    """Return the stages of a table: of lunapi, or with a column of stages."""
    path = Path(frame.path)
    table = stage_table(path, frame)
    numbering = _numbering_of(options)
    if numbering is not None:
        return in_zone(read_numbered_table(path, table, numbering, options), table.index)
    _refuse_format(path, options)
    header = set(table.header)
    if header >= {"e", "stage", "start_sec"}:
        return from_stage_rows(path, table, options)
    if "brain_state" in header:
        codes = table.seconds("brain_state").tolist()
        stages = names_of(path, codes, NUMBERINGS["accusleep"].codes, what="row", first=0)
        return RawHypnogram(stages, scheme=WNR3)
    return in_zone(from_table(path, table, options), table.index)


def _stages_of_sequence(source: Any, options: FileOptions) -> RawHypnogram:
    """Return the stages of a list, an array or a `Series`, timed by a pandas index if it holds times."""
    path = Path(type_name(source))
    if is_a("pandas", "Series")(source):
        index = pandas_index(str(path), source.index)
        raw = _stages_of_values(path, source.to_numpy().tolist(), options)
        if not index.columns:
            return replace(raw, notes=raw.notes + index.notes)
        stages = np.array(raw.stages, dtype=object)
        frame = array_table(str(path), [("stage", stages)], index)
        timed = _stages_of_frame(frame, replace(options, format=None))
        return replace(timed, scheme=raw.scheme)
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
    if any(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    ):  # masked numbers come as None
        values = [math.nan if value is None else value for value in values]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        numbering = _numbering_of(options)
        if numbering is not None:
            stages = names_of(path, values, NUMBERINGS[numbering].codes, what="epoch", first=0)
            return RawHypnogram(stages, scheme=NUMBERINGS[numbering].scheme)
        fitting = [name for name, each in NUMBERINGS.items() if set(values) <= set(each.codes)]
        known = [p for each in fitting or NUMBERINGS for p in (" or ", f"format={NUMBERS + each!r}")]
        numbers = "holds numbers, and tools number stages differently. Say whose they are: "
        raise file_error(path, numbers, *known[1:], ".")
    if all(isinstance(value, str) or _is_missing(value) for value in values):
        names = (value if isinstance(value, str) else UNSCORED_NAME for value in values)
        return RawHypnogram(tuple(names))
    kinds = ", ".join(sorted({type(value).__name__ for value in values})[:4])
    raise file_error(path, f"holds {kinds}, expected names of stages.")


def _is_missing(value: object) -> bool:
    """Whether a value is None, a NaN or a missing value of pandas."""
    is_nan = isinstance(value, Real) and bool(value != value)
    return is_nan or value is None or type(value).__name__ in ("NAType", "NaTType")


def _numbering_of(options: FileOptions) -> str | None:
    """Return the numbering of stages that the caller named, or None."""
    name = (options.format or "").removeprefix(NUMBERS)
    return name if name in NUMBERINGS else None


def _refuse_format(source: Path | str, options: FileOptions) -> None:
    if options.format is not None:
        argument = f"format={options.format!r}"
        raise InputError(f"{source}: says itself what it is, got {argument}. Leave it out.")


def _is_tuple_of(length: int) -> Callable[[Any], bool]:
    return lambda source: isinstance(source, tuple) and len(source) == length


def density_of_torch(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities or logits of a `torch.Tensor`, on any device and of any precision."""
    try:
        values = array_of_tensor(source)
    except (RuntimeError, TypeError) as error:  # a tensor without numbers, or of a type that NumPy lacks
        name = type_name(source)
        raise file_error(
            name, f"has no numbers to read ({fault_text(error)}), expected a plain tensor."
        ) from None
    return array_density(type_name(source), values, options)


def density_of_array(source: Any, options: FileOptions) -> RawDensity:
    """Return the probabilities or logits of an array, or of anything that NumPy converts to one."""
    where = type_name(source)
    return array_density(where, array_of(source, f"{where}: probabilities", "read_hypnogram"), options)


def density_of_gssc(source: tuple[Any, Any, Any], options: FileOptions) -> RawDensity:
    """Return the probabilities from GSSC's `EEGInfer.mne_infer`: stages, times and probabilities."""
    where = type_name(source)
    stages, times, probabilities = (array_of(part, where, "read_hypnogram") for part in source)
    if stages.ndim != 1 or probabilities.ndim != 2 or probabilities.shape != (len(stages), len(FIVE)):
        raise file_error(
            where,
            f"has parts of shapes {', '.join(str(np.shape(part)) for part in source)}, expected GSSC's "
            "stages, times and probabilities (epochs, 5). Pass the array of probabilities alone.",
        )
    if options.format not in (None, "gssc"):
        raise file_error(where, "is read as GSSC's, got ", f"format={options.format!r}", ". Leave it out.")
    if stages.dtype.kind not in "iu" or not np.array_equal(probabilities.argmax(axis=1), stages):
        raise file_error(
            where,
            "has stages that are not the most probable columns, so it is not GSSC's (stages, times, "
            "probabilities). Pass the array of probabilities alone, with stages.",
        )
    raw = array_density(where, probabilities, replace(options, format="gssc"))
    if times.shape != stages.shape or times.dtype.kind not in "fiu":  # GSSC may return too few times
        return raw
    timing = read_timing(where, RowTimes(times.astype(np.float64)), None, given=options.epoch_seconds)
    return replace(
        raw,
        epoch_seconds=timing.epoch_seconds,
        places=timing.places,
        offset_seconds=timing.offset_seconds,
        notes=raw.notes + timing.notes,
    )


def density_of_pair(source: tuple[Any, Any], options: FileOptions) -> RawDensity:
    """Read a classifier's (probabilities, classes), or AccuSleePy's (labels, confidences) if named so."""
    where = type_name(source)
    values, classes = (array_of(part, where, "read_hypnogram") for part in source)
    if values.ndim == 1 and values.shape == classes.shape:
        return _labels_and_confidences(where, values, classes, options)
    if values.ndim != 2 or classes.ndim != 1:
        raise file_error(
            where,
            f"has parts of shapes {values.shape} and {classes.shape}, expected probabilities (epochs, "
            "classes) and the names of the classes.",
        )
    if len(classes) != values.shape[1]:
        raise file_error(
            where, f"has {values.shape[1]} columns and {len(classes)} classes. Expected as many."
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
        hint = did_you_mean(unknown, FIVE)
        raise file_error(
            where, f"has the class {unknown[:40]!r}, which is no stage.{hint} Name them with stages."
        )
    return RawDensity(values, tuple(names))


def _labels_and_confidences(
    where: str, labels: npt.NDArray[Any], confidences: npt.NDArray[Any], options: FileOptions
) -> RawDensity:
    if options.format != ACCUSLEEPY.format:
        raise file_error(
            where,
            "has one label and one number per epoch, which is not a distribution over the stages. "
            "Expected probabilities (epochs, classes). AccuSleePy's labels and confidences need ",
            f"format={ACCUSLEEPY.format!r}",
            ".",
        )
    if confidences.dtype.kind not in "fiu":
        raise file_error(where, f"has confidences of type {confidences.dtype}, expected numbers.")
    words = [str(label) for label in labels.tolist()]
    return spread(where, words, confidences.astype(np.float64), options, ACCUSLEEPY, None)


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of object in memory, like `FileFormat` for files."""

    name: str
    title: str
    is_it: Callable[[Any], bool]  # the first kind that returns True is used
    reader: Reader
    loses: tuple[str, ...] = ()
    takes_format: bool = False  # for a density, `format` may name the tool that ordered the columns

    def does(self, kind: Kind) -> bool:
        """Whether the object can be read as this kind; none is written."""
        return kind in self.reader.parts


def _of_frame(table_of: Callable[[Any], Table]) -> Reader:
    """Return the reader of a data frame, given the function that makes a table of it."""
    return of_both(
        lambda source, options: _stages_of_frame(table_of(source), options),
        lambda source, options: density_of_frame(table_of(source), options),
    )


OBJECTS: tuple[ObjectKind, ...] = (
    ObjectKind(
        "yasa",
        "yasa.Hypnogram (0.7 and later)",
        is_a("yasa", "Hypnogram"),
        of_both(_stages_of_yasa, yasa.density_of_yasa),
    ),
    ObjectKind(
        "mne",
        "mne.Annotations, or a Raw with them",
        is_a("mne", "Annotations", "BaseRaw"),
        of_stages(_stages_of_mne),
        loses=(PROBABILITIES,),
    ),
    ObjectKind(
        "sleepecg",
        "sleepecg.SleepRecord",
        is_a("sleepecg", "SleepRecord"),
        of_stages(_stages_of_sleepecg),
        loses=(PROBABILITIES,),
    ),
    ObjectKind(
        "pandas",
        "pandas.DataFrame, among them YASA's predict_proba and lunapi's POPS tables",
        is_a("pandas", "DataFrame"),
        _of_frame(pandas_table),
        loses=("start time, unless its index holds times",),
    ),
    ObjectKind(
        "polars",
        "polars.DataFrame",
        is_a("polars", "DataFrame", "LazyFrame"),
        _of_frame(polars_table),
        loses=(START,),
    ),
    ObjectKind(
        "pyarrow",
        "pyarrow.Table",
        is_a("pyarrow", "Table"),
        of_probabilities(lambda source, options: density_of_frame(arrow_table(source), options)),
        loses=(START,),
    ),
    ObjectKind(
        "xarray",
        "xarray.DataArray or Dataset",
        is_a("xarray", "DataArray", "Dataset"),
        of_probabilities(density_of_xarray),
    ),
    ObjectKind(
        "torch",
        "torch.Tensor, among them logits of braindecode and PhysioEx",
        is_a("torch", "Tensor"),
        of_probabilities(density_of_torch),
        loses=NUMBERS_ALONE,
        takes_format=True,
    ),
    ObjectKind(
        "columns",
        "a dict of columns",
        lambda source: isinstance(source, Mapping),
        of_probabilities(density_of_mapping),
        loses=(START,),
    ),
    ObjectKind(
        "gssc",
        "(stages, times, probabilities) of GSSC",
        _is_tuple_of(3),
        of_probabilities(density_of_gssc),
        loses=(START,),
        takes_format=True,
    ),
    ObjectKind(
        "sklearn",
        "(predict_proba(X), classes_) of scikit-learn, LightGBM or skorch",
        _is_tuple_of(2),
        of_probabilities(density_of_pair),
        loses=(EPOCH_LENGTH, START),
        takes_format=True,
    ),
    ObjectKind(
        "numpy",
        "an array of numbers (NumPy, SleepECG, U-Sleep, hmmlearn, JAX, TensorFlow, nested lists)",
        lambda source: isinstance(source, np.ndarray | list) or hasattr(source, "__array__"),
        of_both(_stages_of_sequence, density_of_array),
        loses=NUMBERS_ALONE,
        takes_format=True,
    ),
)


def raw_density(source: Any, options: FileOptions) -> RawDensity:
    """Return the stage probabilities in an object."""
    kind = next((each for each in OBJECTS if each.is_it(source)), None)
    if kind is None or not kind.does("density"):
        hint = "" if kind is None else " It is read by read_hypnogram."
        known = "; ".join(each.title for each in OBJECTS if each.does("density"))
        raise InputError(f"{type_name(source)} is not read as probabilities.{hint} Known: a path; {known}.")
    if not kind.takes_format:
        _refuse_format(type_name(source), options)
    probabilities = kind.reader.read(source, options).probabilities
    assert probabilities is not None
    return replace(probabilities(), stager=stager_of_format(options.format or kind.name))


def pass_density(density: Hypnodensity, options: FileOptions) -> DensityFile:
    """Return a hypnodensity as it is, or pooled; refuse options that contradict it."""
    name = type_name(density)
    if options.format is not None or options.logits or options.log or options.stages is not None:
        raise InputError(
            f"{name}: knows its stages and holds probabilities. Leave out format, stages, logits and log."
        )
    try:
        settle_epoch_seconds(name, options.epoch_seconds, density.epoch_seconds)
        if options.pool_to_seconds is None:
            return DensityFile(density)
        pooled, notes = pool(density, options.pool_to_seconds)
        return DensityFile(replace(pooled, source=density.source), notes)
    except ValueError as error:
        raise InputError(str(error)) from None
