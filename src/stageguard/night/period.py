"""Sleep periods: the one that a night's rules are about, and all sleeps of a longer recording.

A period runs from the first to the last lasting sleep, without a margin. An epoch of sleep begins lasting
sleep if at least 6 of the 10 minutes that begin with it are asleep, and ends it if so are 6 of the 10 that
end with it. Whatever is not scored as sleep counts as not asleep: wake, unscored epochs, and the time before
and after the recording. Lasting sleep more than three hours from the rest is another sleep (two hours in a
recording of days); a night's period is that of the longest, or of all its sleep if none of it lasts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import Labels, Mask
from stageguard.errors import InputError
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.timing import Moment, Night, lights_window, require_night

WINDOW_MINUTES = 10.0  # chosen on expert nights and flickering stagers: see docs/method.md
ASLEEP_MINUTES = 6.0
APART_MINUTES = 180.0  # without lasting sleep, between two sleeps of a day; no expert night is parted by it
DAYS_APART_MINUTES = 120.0  # our choice: an hour awake in bed does not part a night, a morning does

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


def find_sleeps(night: Night, lights: Sequence[tuple[Moment, Moment]] = ()) -> list[Period]:
    """Return the first epoch of each sleep, and the epoch after its last one, in order.

    What lies beyond two hours of a sleep does not change it: the same stretch alone is found as it is.

    Parameters
    ----------
    night : Hypnogram or Hypnodensity
        A recording of a person, of any length; of probabilities, the most probable stages count.
    lights : sequence of (lights off, lights on)
        Times in bed: seconds since the beginning of the recording, or times. Each with a scored epoch is a
        sleep, and sleep outside of them is looked for as in a recording without lights.

    Raises
    ------
    InputError
        The scheme has no wake stage, or lights are outside the recording or overlap.

    Examples
    --------
    >>> import stageguard as sg
    >>> day = sg.Hypnogram([0] * 60 + [1] * 900 + [0] * 240 + [1] * 40 + [0] * 9, "ws2", 30)
    >>> sg.find_sleeps(day)
    [(60, 960), (1200, 1240)]
    """
    require_night(night)
    wake = night.scheme.wake_index
    if wake is None:
        raise InputError(f"no stage of scheme {night.scheme.name!r} is wake, expected one.")
    labels = night.labels if isinstance(night, Hypnogram) else night.argmax
    asleep = (labels != UNSCORED) & (labels != wake)
    pairs: Sequence[Any] = lights
    if any(np.shape(pair) != (2,) for pair in pairs):
        raise InputError(f"lights are {checks.shown(lights)}, expected pairs of lights off and lights on.")
    in_bed = sorted(lights_window(night, off, on) for off, on in lights)
    for (_, end), (first, _) in pairwise(in_bed):
        if first < end:
            raise InputError(f"lights go off at epoch {first + 1} before they go on.")
    sleeps = [(first, end) for first, end in in_bed if (labels[first:end] != UNSCORED).any()]
    edges = [0, *np.ravel(in_bed).astype(int).tolist(), len(labels)]
    for begin, stop in zip(edges[::2], edges[1::2], strict=True):
        found = lasting_sleeps(asleep[begin:stop], night.epoch_seconds, DAYS_APART_MINUTES)
        sleeps += [(begin + first, begin + end) for first, end in found]
    return sorted(sleeps)


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
