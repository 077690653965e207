"""One night of one subject: signals, scorings, facts about the sleeper, and the epochs it is cut into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError, did_you_mean
from stageguard.night.hypnogram import Hypnogram

SLOWEST_HZ, FASTEST_HZ = 1e-4, 1e9  # a sample in three hours; a billion in a second
SLACK_SECONDS = 0.01  # a recording that ends this short of an epoch's end still holds the epoch


@runtime_checkable
class Samples(Protocol):
    """Samples that may stay in a file until a slice of them is read."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def __getitem__(self, where: slice) -> npt.NDArray[np.generic]:
        """Return the samples of a slice with step 1, in the signal's unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """A channel sampled at a steady rate."""

    name: str  # of the channel in the file
    samples: Samples  # in `unit`, NaN where the sensor gave none; long ones stay in the file
    rate_hz: float
    unit: str = ""  # "uV", "V", "g", "bpm", "counts", "%", "rad", or "" if they have none

    def __post_init__(self) -> None:
        """Check the rate, and that there is one row of samples."""
        checks.text(self.name, "a signal's name")
        what = f"rate_hz of signal {self.name!r}"
        rate_hz = checks.number(self.rate_hz, what, low=SLOWEST_HZ, high=FASTEST_HZ)
        object.__setattr__(self, "rate_hz", rate_hz)
        is_list = not isinstance(self.samples, str | Mapping) and hasattr(self.samples, "__getitem__")
        shape: tuple[int, ...] = getattr(self.samples, "shape", (len(self.samples),) if is_list else ())
        if len(shape) != 1 or not shape[0]:
            found = f"{checks.shown(self.samples)} of shape {tuple(shape)}"
            raise InputError(f"samples of signal {self.name!r} are {found}, expected one row of numbers.")

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.n_samples / self.rate_hz

    def __repr__(self) -> str:
        """Return name, rate, unit and duration."""
        return f"<Signal {self.name!r}, {self.rate_hz:g} Hz, {self.unit or 'no unit'}, {self.seconds:g} s>"

    def read(self, first: int = 0, end: int | None = None) -> Floats:
        """Return samples ``first`` to ``end`` (exclusive) as float64."""
        samples = self.samples[first : self.n_samples if end is None else end]
        return _numbers(samples, f"samples of signal {self.name!r}")


def _numbers(values: Any, what: str) -> Floats:
    array = checks.array_of(values, what, "read_recording")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} are {checks.shown(values)}, expected numbers.")
    return np.asarray(array, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Measurements at uneven times: heart rates of a watch, beats, raw acceleration with timestamps."""

    name: str  # of the series in the file
    times: Floats  # (n,) seconds since the recording's start, never decreasing; may begin before it
    values: Floats  # (n,) or (n, d): one row per time
    unit: str = ""

    def __post_init__(self) -> None:
        """Check that times and values belong together."""
        checks.text(self.name, "a series' name")
        times = _numbers(self.times, f"times of series {self.name!r}")
        values = _numbers(self.values, f"values of series {self.name!r}")
        if times.ndim != 1 or values.ndim not in (1, 2) or len(values) != len(times) or not len(times):
            shapes = f"times of shape {times.shape} and values of shape {values.shape}"
            raise InputError(f"series {self.name!r} has {shapes}, expected one row of values per time.")
        if not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise InputError(f"series {self.name!r} has times that decrease or are not finite.")
        object.__setattr__(self, "times", checks.frozen_array(times, np.float64))
        object.__setattr__(self, "values", checks.frozen_array(values, np.float64))

    @property
    def seconds(self) -> float:
        """Time of the last measurement."""
        return float(self.times[-1])

    def __repr__(self) -> str:
        """Return name, number of measurements, unit and the time of the last one."""
        n_values, unit = len(self.times), self.unit or "no unit"
        return f"<Series {self.name!r}, {n_values} values, {unit}, {self.seconds:g} s>"


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One recording of one subject."""

    id: str  # unique within its dataset
    subject: str  # who was recorded: no split separates the nights of one subject
    # by role ("eeg", "emg", "ecg", "thorax", "radar_i", ...) where the reader knows it, else by name
    signals: Mapping[str, Signal | Series]
    scorings: Mapping[str, Hypnogram] = field(default_factory=dict)  # by scorer; begin with the recording
    start: datetime | None = None
    lights_off_seconds: float | None = None  # since the start
    lights_on_seconds: float | None = None
    covariates: Mapping[str, float | str] = field(default_factory=dict)  # age, sex, AHI and other facts
    is_synthetic: bool = False
    source: str | None = None  # dataset or file it comes from
    notes: tuple[str, ...] = ()  # what a reader assumed or left out, one line each

    def __post_init__(self) -> None:
        """Check that the recording has an id and a subject, and freeze the mappings."""
        checks.text(self.id, "a recording's id", empty=False)
        checks.text(self.subject, "a recording's subject", empty=False)
        kinds: dict[str, tuple[type, ...]] = {"signals": (Signal, Series), "scorings": (Hypnogram,)}
        for what in ("signals", "scorings", "covariates"):
            by_name = checks.mapping(getattr(self, what), what)
            for name, value in by_name.items():
                if not isinstance(value, kinds.get(what, object)):
                    kind = kinds[what][0].__name__
                    raise InputError(f"{what}[{name!r}] is {checks.shown(value)}, expected a {kind}.")
            object.__setattr__(self, what, MappingProxyType(dict(by_name)))

    @property
    def seconds(self) -> float:
        """Duration of the longest signal, or of the longest scoring where there are no signals."""
        ends = [signal.seconds for signal in self.signals.values()]
        return max(
            ends or [night.n_epochs * night.epoch_seconds for night in self.scorings.values()], default=0
        )

    def __repr__(self) -> str:
        """Return an overview of the recording, without reading samples."""
        return (
            f"<Recording {self.id!r} of {self.subject!r}, {self.seconds / 3600:.3g} h, "
            f"signals {' '.join(self.signals) or 'none'}, scorings {' '.join(self.scorings) or 'none'}"
            + (", synthetic>" if self.is_synthetic else ">")
        )

    @staticmethod
    def check(recording: object) -> None:
        """Refuse anything but a recording."""
        if not isinstance(recording, Recording):
            found = checks.shown(recording)
            raise InputError(f"the recording is {found}, expected what sg.read_recording(path) returns.")

    def with_channels(self, channels: Mapping[str, str]) -> Recording:
        """Return a recording whose roles have other channels, given by name or by their role before."""
        by_name = {signal.name: signal for signal in self.signals.values()} | dict(self.signals)
        signals = dict(self.signals)
        for role, name in channels.items():
            if name not in by_name:
                raise InputError(
                    f"recording {self.id!r} has no channel {name!r} for the role {role!r}; it has: "
                    f"{', '.join(by_name)}.{did_you_mean(name, by_name)}"
                )
            signals[role] = by_name[name]
        return replace(self, signals=signals)

    def channel(self, *roles: str) -> Signal | Series:
        """Return the signal of the first role that was recorded."""
        for role in roles:
            if role in self.signals:
                return self.signals[role]
        raise InputError(
            f"recording {self.id!r} has no channel {' or '.join(map(repr, roles))}; it has: "
            f"{', '.join(self.signals) or 'none'}. A channel gets a role by channels={{role: name}}."
        )


@dataclass(frozen=True, slots=True)
class EpochGrid:
    """Epochs of one length that follow each other from the recording's start."""

    n_epochs: int  # without a shorter rest at the end
    epoch_seconds: float
    start: datetime | None = None  # when the first epoch begins

    def __post_init__(self) -> None:
        """Check that there is an epoch."""
        object.__setattr__(self, "n_epochs", checks.count(self.n_epochs, "n_epochs"))
        object.__setattr__(self, "epoch_seconds", checks.epoch_seconds(self.epoch_seconds))
        checks.moment(self.start, "start")

    @classmethod
    def of(cls, recording: Recording, epoch_seconds: float | None = None) -> EpochGrid:
        """Return the whole epochs of a recording's longest signal, by default as long as in its scorings."""
        length = scored_epoch_seconds(recording) if epoch_seconds is None else epoch_seconds
        if length is None:
            raise InputError(f"recording {recording.id!r} has no scoring, expected epoch_seconds.")
        length = checks.epoch_seconds(length)
        seconds = max(map(end_seconds, recording.signals.values()), default=0.0)
        n_epochs = int((seconds + SLACK_SECONDS) // length)
        if n_epochs < 1:
            least = f"expected at least an epoch of {length:g} s"
            raise InputError(f"recording {recording.id!r} lasts {seconds:g} s, {least}.")
        return cls(n_epochs, length, recording.start)

    @property
    def edges(self) -> Floats:
        """Seconds since the start at which epochs begin, and at which the last one ends."""
        return np.asarray(np.arange(self.n_epochs + 1) * self.epoch_seconds, dtype=np.float64)


def end_seconds(signal: Signal | Series) -> float:
    """Return when a signal ends; the last measurement of a `Series` lasts as long as the median gap."""
    if isinstance(signal, Signal) or len(signal.times) < 2:
        return signal.seconds
    return signal.seconds + float(np.median(np.diff(signal.times)))


def scored_epoch_seconds(recording: Recording) -> float | None:
    """Return the epoch length of the recording's scorings; None where there are none."""
    lengths = {night.epoch_seconds for night in recording.scorings.values()}
    if len(lengths) > 1:
        listed = ", ".join(f"{length:g}" for length in sorted(lengths))
        raise InputError(f"recording {recording.id!r} has epochs of {listed} s, expected epoch_seconds.")
    return next(iter(lengths), None)
