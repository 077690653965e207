"""What a reader finds in a recording's file, before the roles of channels are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from stageguard.base.errors import InputError
from stageguard.night.recording import Samples, Series, Signal

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
class Excerpt:
    """Samples ``first`` to ``end`` (exclusive) of a channel, which are not copied."""

    samples: Samples
    first: int
    end: int

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.end - self.first

    def __getitem__(self, where: slice) -> npt.NDArray[np.generic]:
        """Return the samples of a slice with step 1."""
        first, end = bounds(where, len(self))
        return self.samples[self.first + first : self.first + end]


def bounds(where: slice, length: int) -> tuple[int, int]:
    """Return first and end of a slice with step 1, clipped to the length; refuse any other slice."""
    if not isinstance(where, slice):
        raise InputError(f"samples are read by slices such as [0:1000], got [{where!r}].")
    first, end, step = where.indices(length)
    if step != 1:
        raise InputError(f"samples are read with step 1, got {step}. Thin out the array that comes back.")
    return first, max(first, end)


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
    return Signal(signal.name, Excerpt(signal.samples, first, end), signal.rate_hz, signal.unit)
