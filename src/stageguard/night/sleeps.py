"""The sleeps in a recording of a person that is longer than a night.

Where lights are known, a sleep is what lies between lights off and lights on. Elsewhere it runs from lasting
sleep to lasting sleep, as `stageguard.night.period` defines it, and ends where two hours without any follow.
Wake, non-wear and gaps all count as time without sleep; a single epoch of sleep by day is not lasting.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stageguard import checks
from stageguard.errors import InputError
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import Period, lasting_sleeps
from stageguard.night.timing import Moment, Night, lights_window, require_night

APART_MINUTES = 120.0  # our choice: an hour awake in bed does not part a night, a morning does

Lights = Sequence[tuple[Moment, Moment]]


def find_sleeps(night: Night, lights: Lights = ()) -> list[Period]:
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
    wake = night.scheme.wake
    if wake is None:
        raise InputError(f"scheme {night.scheme.name!r} does not say which stage is wake: no sleep is known.")
    labels = night.labels if isinstance(night, Hypnogram) else night.argmax
    asleep = (labels != UNSCORED) & (labels != night.scheme.names.index(wake))
    in_bed = sorted(lights_window(night, *_pair(pair)) for pair in lights)
    for (_, end), (first, _) in pairwise(in_bed):
        if first < end:
            raise InputError(f"lights go off at epoch {first + 1} before they go on.")
    sleeps = [(first, end) for first, end in in_bed if (labels[first:end] != UNSCORED).any()]
    edges = [0, *np.ravel(in_bed).astype(int).tolist(), len(labels)]
    for begin, stop in zip(edges[::2], edges[1::2], strict=True):
        found = lasting_sleeps(asleep[begin:stop], night.epoch_seconds, APART_MINUTES)
        sleeps += [(begin + first, begin + end) for first, end in found]
    return sorted(sleeps)


def _pair(pair: object) -> tuple[Moment, Moment]:
    if isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2:
        return pair[0], pair[1]
    raise InputError(f"lights hold {checks.shown(pair)}, expected pairs of lights off and lights on.")
