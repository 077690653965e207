"""The sleep period of a night: the part of a recording that fragmentation and its rules are about.

It runs from the first to the last lasting sleep. An epoch begins lasting sleep if it is asleep and so are at
least 6 of the 10 minutes that begin with it; it ends lasting sleep if the same holds of the 10 minutes that
end with it. Whatever is not scored as sleep counts as not asleep: wake, unscored epochs, and the time before
and after the recording. A night without lasting sleep runs from its first to its last epoch of sleep, a
night without sleep has no period. No margin is added, so that time in bed awake does not count.

Lights off and lights on bound the epochs that are looked at.
"""

from __future__ import annotations

import math

import numpy as np

from stageguard.base.arrays import Labels, Mask

WINDOW_MINUTES = 10.0  # chosen on expert nights and flickering stagers: see docs/method.md
ASLEEP_MINUTES = 6.0

Period = tuple[int, int]  # first epoch, and the epoch after the last one


def period_epochs(epoch_seconds: float) -> tuple[int, int]:
    """Return how many epochs are looked at, and how many of them must be asleep."""
    window = max(1, round(WINDOW_MINUTES * 60.0 / epoch_seconds))
    return window, max(1, math.ceil(ASLEEP_MINUTES / WINDOW_MINUTES * window - 1e-9))


def sleep_period(labels: Labels, wake: int, window: int, least: int, first: int, stop: int) -> Period:
    """Return the sleep period within the epochs from `first` to `stop`; empty without sleep."""
    asleep = (labels[first:stop] >= 0) & (labels[first:stop] != wake)
    epochs = np.flatnonzero(asleep)
    if not len(epochs):
        return first, first
    n_before = np.concatenate(([0], np.cumsum(asleep)))  # (n_epochs + 1,) epochs asleep before each epoch
    n_from = n_before[np.minimum(epochs + window, len(asleep))] - n_before[epochs]
    n_until = n_before[epochs + 1] - n_before[np.maximum(epochs + 1 - window, 0)]
    begins, ends = epochs[n_from >= least], epochs[n_until >= least]
    if not len(begins):
        begins = ends = epochs
    return first + int(begins[0]), first + int(ends[-1]) + 1


def period_of(
    labels: Labels, wake: int | None, epoch_seconds: float, first: int = 0, stop: int | None = None
) -> Period:
    """Return the sleep period of a scoring between two epochs; without a wake stage, all of them."""
    end = len(labels) if stop is None else stop
    if wake is None:
        return first, end
    return sleep_period(labels, wake, *period_epochs(epoch_seconds), first, end)


def runs(mask: Mask) -> list[tuple[int, int]]:
    """Return [start, stop) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
