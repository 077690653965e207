"""What a reader finds in a recording's file, and samples that stay there until a slice of them is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.errors import InputError
from stageguard.night.recording import Samples, Series, Signal
from stageguard.units import scale_to, standard_unit

Array = npt.NDArray[Any]

LONGEST_SECONDS = 62 * 86_400.0  # a recording with gaps may span two months


@dataclass(frozen=True, slots=True)
class RawRecording:
    """Channels by their names in the file, and what the file says about the night."""

    signals: Mapping[str, Signal | Series]
    start: datetime | None = None
    subject: str | None = None  # if the file says whose recording it is
    covariates: Mapping[str, float | str] = field(default_factory=dict)
    lights_off_seconds: float | None = None
    lights_on_seconds: float | None = None
    has_scoring: bool = False  # whether the file holds sleep stages, too
    is_synthetic: bool = False  # whether its header says that it was simulated
    unreadable: Mapping[str, str] = field(default_factory=dict)  # channel -> why it is left out
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sliced:
    """Samples that a function reads, by first and end.

    A `functools.partial` of a module's function can be sent to another process.
    """

    length: int
    read: Callable[[int, int], Array] = field(repr=False)

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.length

    def __getitem__(self, where: slice) -> Array:
        """Return the samples of a slice with step 1."""
        if getattr(where, "step", 0) not in (None, 1):
            raise InputError(f"samples are read by slices with step 1 such as [0:1000], got [{where!r}].")
        first, end, _ = where.indices(self.length)
        return self.read(first, max(first, end))


def map_samples(function: Callable[..., Array], *samples: Samples) -> Samples:
    """Return samples with a function that is applied to each slice of one or more channels."""
    return Sliced(len(samples[0]), partial(_read_mapped, function, samples))


def _read_mapped(function: Callable[..., Array], samples: Sequence[Samples], first: int, end: int) -> Array:
    return function(*(np.asarray(channel[first:end]) for channel in samples))


def scale_samples(samples: Samples, factor: float, offset: float = 0.0) -> Samples:
    """Return samples times a factor, plus an offset."""
    if (factor, offset) == (1.0, 0.0):
        return samples
    return map_samples(partial(_scaled, factor=factor, offset=offset), samples)


def _scaled(values: Array, factor: float, offset: float) -> Array:
    return np.multiply(values, factor, dtype=np.float64) + offset


def subtract_samples(first: Samples, second: Samples) -> Samples:
    """Return the difference of two channels."""
    return map_samples(partial(np.subtract, dtype=np.float64), first, second)


def to_standard(unit: str, label: str) -> tuple[str, float, float]:
    """Return the unit in which such a channel is kept, and factor and offset that lead to it."""
    wanted = standard_unit(unit)
    return wanted, *scale_to(unit, wanted, what=f"channel {label!r}")


def crop(signal: Signal | Series, first_seconds: float, end_seconds: float) -> Signal | Series | None:
    """Return a channel between two times, counted from the first of them, or None if nothing is left.

    A signal is cut at the nearest sample.
    """
    if isinstance(signal, Series):
        inside = (signal.times >= first_seconds) & (signal.times < end_seconds)
        if not inside.any():
            return None
        return Series(signal.name, signal.times[inside] - first_seconds, signal.values[inside], signal.unit)
    first = min(max(round(first_seconds * signal.rate_hz), 0), signal.n_samples)
    end = min(max(round(end_seconds * signal.rate_hz), first), signal.n_samples)
    if first == end:
        return None
    if (first, end) == (0, signal.n_samples):
        return signal
    samples = Sliced(end - first, partial(_read_after, signal.samples, first))
    return Signal(signal.name, samples, signal.rate_hz, signal.unit)


def _read_after(samples: Samples, begin: int, first: int, end: int) -> Array:
    return samples[begin + first : begin + end]
