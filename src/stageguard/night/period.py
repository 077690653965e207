"""The sleep period of a night: the part of a recording that fragmentation and its rules are about.

It runs from the first to the last lasting sleep. An epoch begins lasting sleep if it is asleep and so are at
least 6 of the 10 minutes that begin with it; it ends lasting sleep if the same holds of the 10 minutes that
end with it. Lasting sleep that is more than three hours from the rest is another sleep, such as a doze by
day; the period is that of the longest one. Whatever is not scored as sleep counts as not asleep: wake,
unscored epochs, and the time before and after the recording. A night without lasting sleep runs from its
first to its last epoch of sleep, a night without sleep has no period. No margin is added, so that time in bed
awake does not count.

Lights off and lights on bound the epochs that are looked at.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from stageguard.arrays import Labels, Mask

WINDOW_MINUTES = 10.0  # chosen on expert nights and flickering stagers: see docs/method.md
ASLEEP_MINUTES = 6.0
APART_MINUTES = 180.0  # without lasting sleep, between two sleeps of a day; no expert night is parted by it

Period = tuple[int, int]  # first epoch, and the epoch after the last one


@cache
def period_epochs(epoch_seconds: float, apart_minutes: float = APART_MINUTES) -> tuple[int, int, int]:
    """Return how many epochs are looked at, how many of them must be asleep, and how many part two sleeps."""
    window = max(1, round(WINDOW_MINUTES * 60.0 / epoch_seconds))
    least = max(1, math.ceil(ASLEEP_MINUTES / WINDOW_MINUTES * window - 1e-9))
    return window, least, math.ceil(apart_minutes * 60.0 / epoch_seconds - 1e-9)


def period_of(
    labels: Labels, wake: int | None, epoch_seconds: float, first: int = 0, stop: int | None = None
) -> Period:
    """Return the sleep period of a scoring between two epochs; without a wake stage, all of them."""
    end = len(labels) if stop is None else stop
    if wake is None:
        return first, end
    asleep = (labels[first:end] >= 0) & (labels[first:end] != wake)
    sleeps = lasting_sleeps(asleep, epoch_seconds, APART_MINUTES)
    if not sleeps:
        epochs = np.flatnonzero(asleep)
        return (first + int(epochs[0]), first + int(epochs[-1]) + 1) if len(epochs) else (first, first)
    n_before = np.concatenate(([0], np.cumsum(asleep)))
    begins, ends = np.array(sleeps).T
    begin, end = sleeps[int((n_before[ends] - n_before[begins]).argmax())]  # the first of equals
    return first + begin, first + end


def lasting_sleeps(asleep: Mask, epoch_seconds: float, apart_minutes: float) -> list[Period]:
    """Return stretches from lasting sleep to lasting sleep, with `apart_minutes` without any between them.

    Whether an epoch is lasting sleep depends on the ten minutes around it alone. So a stretch by itself is
    found as it is in a recording, whatever lies beyond `apart_minutes` of it.
    """
    window, least, apart = period_epochs(epoch_seconds, apart_minutes)
    epochs = np.flatnonzero(asleep)
    n_before = np.concatenate(([0], np.cumsum(asleep)))  # (n_epochs + 1,) epochs asleep before each epoch
    begins = n_before[np.minimum(epochs + window, len(asleep))] - n_before[epochs] >= least
    ends = n_before[epochs + 1] - n_before[np.maximum(epochs + 1 - window, 0)] >= least
    lasting = epochs[begins | ends]
    if not len(lasting):
        return []
    parted = np.flatnonzero(np.diff(lasting) > apart)
    firsts, lasts = lasting[np.append(0, parted + 1)], lasting[np.append(parted, -1)]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def runs(mask: Mask) -> list[tuple[int, int]]:
    """Return [start, stop) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])))).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
