"""Your own radar recordings in npz, HDF5 or EDF, by a mapping file or by standard names."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.datasets import Entry
from stageguard.datasets.samples import (
    dataset_error,
    hdf5_file,
    hdf5_samples,
    spool_samples,
)
from stageguard.documents import EpochSeconds, Positive, Range, Text, read_fields, read_toml
from stageguard.errors import FileFormatError, InputError, did_you_mean
from stageguard.files import is_synthetic, local_file
from stageguard.formats.hdf5 import MOST_BYTES, values_of
from stageguard.formats.hypnogram import UNSCORED_WORDS
from stageguard.formats.read import read_hypnogram
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.recordings.raw import Array, map_samples, scale_samples
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Samples, Series, Signal
from stageguard.night.stages import AASM5, WNR3, WS2, StageScheme, as_scheme, canonical_name
from stageguard.units import scale_to

SUFFIXES = (".npz", ".h5", ".hdf5", ".edf")


@dataclass(frozen=True, slots=True)
class _NpzFile:
    """Arrays of an npz file; the interface is that of the other file classes."""

    path: Path

    def names(self) -> tuple[str, ...]:
        try:
            with self._archive() as archive:
                return tuple(name.removesuffix(".npy") for name in archive.namelist())
        except zipfile.BadZipFile:
            raise dataset_error(self.path, "is no npz archive, or was not written completely.") from None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array; refuse one of Python objects, or larger than it can be."""
        with self._archive() as archive, archive.open(f"{name}.npy") as file:
            version = np.lib.format.read_magic(file)
            is_first = version == (1, 0)
            formats = np.lib.format
            read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
            shape, _, dtype = read(file)
            most = min(MOST_BYTES, archive.getinfo(f"{name}.npy").file_size)
        if dtype.hasobject:
            raise dataset_error(self.path, "holds Python objects, expected arrays of numbers or texts.")
        if math.prod(shape) * dtype.itemsize > most:
            raise dataset_error(self.path, f"array {name!r} promises more than {most:,} bytes.")
        return shape

    def row(self, name: str, column: int | None, part: str | None) -> Samples:
        """Return one row of samples: a column of a matrix, the real or imaginary part of complex numbers."""
        shape = self.shape(name)
        axis = time_axis(shape)

        def load() -> Iterator[Array]:
            values = np.asarray(self.small(name))
            yield _numbers(values if values.ndim == 1 else values.take(column or 0, axis=1 - axis), part)

        return spool_samples(shape[axis], load, self.path)

    def small(self, name: str) -> npt.NDArray[Any] | None:
        """Return an array, or None if the file has none of this name."""
        if name not in self.names():
            return None
        self.shape(name)
        with np.load(local_file(self.path), allow_pickle=False) as archive:
            return np.asarray(archive[name])

    def fact(self, name: str, fact: str) -> Any:
        """Return a fact of a channel, such as its rate: ``<name>_<fact>``, else ``<fact>`` of the file."""
        values = self.small(f"{name}_{fact}")
        values = self.small(fact) if values is None else values
        return None if values is None else values.item()

    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(local_file(self.path))


def time_axis(shape: tuple[int, ...]) -> int:
    """Return the axis of time: the first, except for one or two rows of many samples."""
    return 1 if len(shape) == 2 and shape[0] <= 2 < shape[1] else 0


def _numbers(values: Array, part: str | None) -> Array:
    if values.dtype.kind != "c":
        return values
    return np.ascontiguousarray(values.imag if part == "imag" else values.real)


@dataclass(frozen=True, slots=True)
class _Hdf5File:
    """Datasets of an HDF5 file; facts are attributes of the file or of a dataset, or datasets."""

    path: Path

    def names(self) -> tuple[str, ...]:
        names: list[str] = []
        with hdf5_file(self.path) as file:
            file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        return tuple(names)

    def shape(self, name: str) -> tuple[int, ...]:
        with hdf5_file(self.path) as file:
            return tuple(int(n) for n in file[name].shape)

    def row(self, name: str, column: int | None, part: str | None) -> Samples:
        shape = self.shape(name)
        axis = time_axis(shape)
        index = tuple(None if i == axis else column or 0 for i in range(len(shape)))
        row = hdf5_samples(self.path, name, shape[axis], index)
        return map_samples(partial(_numbers, part=part), row)

    def small(self, name: str) -> npt.NDArray[Any] | None:
        with hdf5_file(self.path) as file:
            if name in file.attrs:
                return np.asarray(file.attrs[name])
            if name not in file:
                return None
            values = values_of(self.path, file[name])
        is_text = values.dtype.kind == "O"
        return np.array([_decode(v) for v in values.ravel()]).reshape(values.shape) if is_text else values

    def fact(self, name: str, fact: str) -> Any:
        with hdf5_file(self.path) as file:
            if name in file and fact in file[name].attrs:
                return _decode(file[name].attrs[fact])
        value = self.small(fact)
        return None if value is None else _decode(value.item())


def _decode(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class _EdfFile:
    """Channels of an EDF file, which contains rate and unit."""

    path: Path
    signals: dict[str, Signal] = field(repr=False)
    start: datetime | None = None
    subject: str | None = None

    def names(self) -> tuple[str, ...]:
        return tuple(self.signals)

    def shape(self, name: str) -> tuple[int, ...]:
        return (self.signals[name].n_samples,)

    def row(self, name: str, column: int | None, part: str | None) -> Samples:
        return self.signals[name].samples

    def small(self, name: str) -> npt.NDArray[Any] | None:
        return np.asarray(self.subject) if name == "subject" and self.subject else None

    def fact(self, name: str, fact: str) -> Any:
        signal = self.signals[name]
        return {"rate_hz": signal.rate_hz, "unit": signal.unit}.get(fact)


MAPPING = "recordings.toml"
EPOCH_SECONDS = 30.0

# Standard names of arrays, used without a mapping: role -> (name, column, part); the first match counts.
Part = Literal["real", "imag"]
_STANDARD: dict[str, tuple[tuple[str, int | None, Part | None], ...]] = {
    "radar_i": (("radar_i", None, None), ("radar_iq", 0, "real")),
    "radar_q": (("radar_q", None, None), ("radar_iq", 1, "imag")),
    "radar_phase": (("radar_phase", None, None),),
}
_UNITS = {"radar_phase": "rad"}


RadarFile = _NpzFile | _Hdf5File | _EdfFile


def open_radar_file(path: Path) -> RadarFile:
    """Open a file; its suffix decides the kind."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _NpzFile(path)
    if suffix in (".h5", ".hdf5"):
        return _Hdf5File(path)
    if suffix == ".edf":
        raw = read_edf_recording(path)
        signals = {name: signal for name, signal in raw.signals.items() if isinstance(signal, Signal)}
        return _EdfFile(path, signals, raw.start, raw.subject)
    raise dataset_error(path, f"is of no kind that is read here, expected {', '.join(SUFFIXES)}.")


@dataclass(frozen=True, slots=True)
class ChannelSource:
    """Where a role's samples are; the file itself must contain a fact that is None."""

    name: Text
    rate_hz: Positive | None = None
    unit: str | None = None
    column: Annotated[int, Range(low=0)] | None = None
    part: Part | None = None

    @classmethod
    def read_document(cls, value: object, where: str) -> ChannelSource:
        """Return a channel from its table; a text stands for a channel with that name."""
        return cls(value) if isinstance(value, str) else read_fields(cls, value, where)


@dataclass(frozen=True, slots=True)
class ScoringArray:
    """A scoring that is an array in the recording's file."""

    name: Text


def _scheme(value: object, where: str) -> StageScheme:
    return as_scheme(checks.text(value, where))


@dataclass(frozen=True, slots=True)
class RecordingTable:
    """A table [[recordings]] of a mapping file; it inherits missing keys from the top of the file."""

    file: Text
    subject: Text | None = None
    id: Text | None = None
    scoring: str | ScoringArray | None = None
    start: datetime | None = None
    channels: Mapping[str, ChannelSource] | None = None
    stages: Mapping[str, str] | None = None
    covariates: Mapping[str, Any] | None = None
    epoch_seconds: EpochSeconds | None = None


@dataclass(frozen=True, slots=True)
class MappingFile:
    """A mapping file."""

    recordings: tuple[RecordingTable, ...] = ()
    epoch_seconds: EpochSeconds | None = None
    scheme: Annotated[Any, _scheme] = None
    channels: Mapping[str, ChannelSource] | None = None
    stages: Mapping[str, str] | None = None
    covariates: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Mapped:
    """One recording as described by the mapping file, before its file is opened."""

    folder: Path
    table: RecordingTable  # with what the top of the mapping file says about all recordings
    scheme: StageScheme | None = None

    @property
    def path(self) -> Path:
        """The recording's file."""
        return self.folder / self.table.file

    @property
    def id(self) -> str:
        """Name of the recording: by default its file's."""
        return self.table.id or self.path.stem

    @property
    def scoring_file(self) -> Path | None:
        """The file of the scoring, if it is not an array in the recording's file."""
        return self.folder / self.table.scoring if isinstance(self.table.scoring, str) else None


def find_mapped(folder: Path, mapping: Path) -> Iterator[Entry]:
    """Yield the recordings a mapping file lists, in its order."""
    seen: set[str] = set()
    for mapped in _parse(mapping, folder):
        if mapped.id in seen:
            raise dataset_error(mapping, f"names two recordings {mapped.id!r}. Give each an id of its own.")
        seen.add(mapped.id)
        files = tuple(path for path in (mapped.path, mapped.scoring_file) if path is not None)
        missing = tuple(
            path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
            for path in files
            if not path.is_file()
        )
        assert mapped.table.subject is not None
        yield Entry(mapped.id, mapped.table.subject, files, partial(read_mapped, mapped), missing)


def find_standard(folder: Path, files: list[Path]) -> Iterator[Entry]:
    """Yield files whose arrays have the standard names; without a subject, the file's name is the subject."""
    for path in files:
        name = "_".join(path.relative_to(folder).with_suffix("").parts)
        mapped = Mapped(folder, RecordingTable(path.relative_to(folder).as_posix(), id=name))
        try:
            subject = _subject(open_radar_file(path), mapped)
        except (FileFormatError, OSError):
            subject = name  # reading the entry raises the error again
        yield Entry(name, subject, (path,), partial(read_mapped, mapped))


def read_mapped(mapped: Mapped) -> Recording:
    """Read one recording; its samples stay in the file."""
    file = open_radar_file(mapped.path)
    table = mapped.table
    channels = table.channels or _standard_channels(file)
    signals: dict[str, Signal | Series] = {
        role: _signal(file, role, channel) for role, channel in channels.items()
    }
    epoch_seconds = table.epoch_seconds or EPOCH_SECONDS
    stated = file.small("epoch_seconds") if table.epoch_seconds is None else None
    if stated is not None:
        epoch_seconds = checks.number(stated.item(), "epoch_seconds", positive=True)
    signals |= _features(file, epoch_seconds)
    if not signals:
        raise dataset_error(
            mapped.path,
            f"has none of {', '.join(_STANDARD)}, features; it has: {', '.join(file.names()) or 'nothing'}. "
            f"Map its names in {MAPPING}.",
        )
    scoring = _scoring(file, mapped, epoch_seconds)
    return Recording(
        mapped.id,
        _subject(file, mapped),
        signals,
        {} if scoring is None else {"expert": scoring},
        start=table.start or getattr(file, "start", None),
        covariates=table.covariates or {},
        is_synthetic=is_synthetic(mapped.path),
        source="radar container",
    )


def _subject(file: RadarFile, mapped: Mapped) -> str:
    stated = file.small("subject") if mapped.table.subject is None else None
    return str(stated.item()) if stated is not None else mapped.table.subject or mapped.id


def _standard_channels(file: RadarFile) -> dict[str, ChannelSource]:
    present = set(file.names())
    channels = {}
    for role, known in _STANDARD.items():
        for name, column, part in [each for each in known if each[0] in present][:1]:
            is_matrix = len(file.shape(name)) > 1
            channels[role] = ChannelSource(name, column=column if is_matrix else None, part=part)
    return channels


def _signal(file: RadarFile, role: str, channel: ChannelSource) -> Signal:
    names = file.names()
    if channel.name not in names:
        raise dataset_error(
            file.path,
            f"has no {channel.name!r} for {role}; it has: {', '.join(names)}."
            f"{did_you_mean(channel.name, names)}",
        )
    shape = file.shape(channel.name)
    n_columns = 1 if len(shape) < 2 else shape[1 - time_axis(shape)]
    is_unclear = n_columns > 1 and channel.column is None
    if len(shape) not in (1, 2) or is_unclear or (channel.column or 0) >= n_columns:
        raise dataset_error(
            file.path, f"{channel.name} has shape {shape}. Give the column of {role} in {MAPPING}."
        )
    rate = channel.rate_hz if channel.rate_hz is not None else file.fact(channel.name, "rate_hz")
    if rate is None:
        raise dataset_error(
            file.path, f"does not say the rate of {channel.name}. Give rate_hz, in it or in {MAPPING}."
        )
    unit = str(channel.unit if channel.unit is not None else file.fact(channel.name, "unit") or "")
    samples = file.row(channel.name, channel.column, channel.part)
    wanted = _UNITS.get(role)
    if wanted and unit and unit != wanted:
        samples = scale_samples(samples, scale_to(unit, wanted, what=role)[0])
    return Signal(channel.name, samples, float(rate), wanted or unit)


def _features(file: RadarFile, epoch_seconds: float) -> dict[str, Signal | Series]:
    """Return the file's features, each as a signal with one value per epoch; NaN where missing."""
    values = file.small("features")
    if values is None:
        return {}
    if values.ndim != 2 or values.dtype.kind not in "iuf" or not values.size:
        raise dataset_error(
            file.path, f"features have shape {values.shape}, expected numbers (epochs, features)."
        )
    stated, n_features = file.small("feature_names"), values.shape[1]
    numbered = [f"feature_{i + 1}" for i in range(n_features)]
    names = numbered if stated is None else [str(name) for name in stated.ravel()]
    if len(names) != n_features or len(set(names)) < n_features:
        raise dataset_error(
            file.path, f"has {n_features} features and {len(set(names))} different names for them."
        )
    columns = zip(names, values.astype(np.float64).T, strict=True)
    return {name: Signal(name, column, 1 / epoch_seconds) for name, column in columns}


def _scoring(file: RadarFile, mapped: Mapped, epoch_seconds: float) -> Hypnogram | None:
    table, path = mapped.table, mapped.scoring_file
    if path is not None:
        night = read_hypnogram(path, scheme=mapped.scheme, epoch_seconds=table.epoch_seconds)
        if night.offset_seconds:
            raise dataset_error(
                path,
                f"its first epoch begins {night.offset_seconds:g} s after the recording, expected epochs "
                "from its start. Cut the recording, or correct the times.",
            )
        return replace(night, scorer="expert", assumed=())
    name = table.scoring.name if isinstance(table.scoring, ScoringArray) else "stages"
    codes = file.small(name)
    if codes is None:
        if table.scoring is not None:
            raise dataset_error(
                file.path, f"has no {name!r} for the scoring; it has: {', '.join(file.names())}."
            )
        return None
    names = [_stage(file.path, code, table.stages or {}) for code in codes.ravel().tolist()]
    scored = {name for name in names if name is not None}
    scheme = next((one for one in (WNR3, AASM5, WS2) if scored <= set(one.names)), None)
    if scheme is None:
        raise dataset_error(
            file.path, f"stages {', '.join(sorted(scored))} belong to no scheme. Correct [stages]."
        )
    labels = np.array([UNSCORED if n is None else scheme.index(n) for n in names], dtype=np.int8)
    return Hypnogram(labels, scheme, epoch_seconds, scorer="expert").merge(mapped.scheme or scheme)


def _stage(path: Path, code: Any, stages: Mapping[str, str]) -> str | None:
    """Return the name of a stage, None for unscored. A number needs an entry in [stages]."""
    text = (code.decode() if isinstance(code, bytes) else str(code)).strip().removesuffix(".0")
    named = stages.get(text, text)
    if named.lower() in UNSCORED_WORDS:
        return None
    name = canonical_name(named)
    if name is None:
        known = ", ".join(f"{key} = {value}" for key, value in stages.items()) or "none"
        raise dataset_error(
            path, f"stage {text!r} is no name, and [stages] of {MAPPING} has: {known}. Add it there."
        )
    return name


def _parse(path: Path, folder: Path) -> Iterator[Mapped]:
    try:
        document = read_fields(MappingFile, read_toml(path, "a list of recordings"))
    except InputError as error:
        raise dataset_error(path, str(error)) from None
    if not document.recordings:
        raise dataset_error(path, "lists no recording. Add [[recordings]] with file and subject.")
    for number, table in enumerate(document.recordings, start=1):
        if table.subject is None:
            raise dataset_error(
                path,
                f"recording {number} has no subject, expected a text: two nights of one person need the "
                "same.",
            )
        yield Mapped(
            folder,
            replace(
                table,
                channels=document.channels if table.channels is None else table.channels,
                stages={**(document.stages or {}), **(table.stages or {})},
                covariates={**(document.covariates or {}), **(table.covariates or {})},
                epoch_seconds=table.epoch_seconds or document.epoch_seconds,
            ),
            document.scheme,
        )


def radar_files(folder: Path) -> list[Path]:
    """Return the files below a folder that may contain radar recordings."""
    if folder.is_file():
        raise InputError(f"{folder} is a file, expected the folder it is in.")
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
