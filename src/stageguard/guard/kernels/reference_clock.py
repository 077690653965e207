"""The clock in plain NumPy: sleep onsets, and factors of the likelihoods by the time since then."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stageguard.base.arrays import Floats, Labels


def sleep_onsets(labels: Labels, wake: int, restart_epochs: float, start: int, stop: int) -> tuple[int, ...]:
    """Return the first epoch of sleep, and of sleep after each unbroken wake of `restart_epochs`."""
    # (n_asleep,) epochs
    asleep = start + np.flatnonzero((labels[start:stop] >= 0) & (labels[start:stop] != wake))
    onsets = asleep[:1].tolist()
    for before, after in pairwise(asleep.tolist()):
        between = labels[before + 1 : after]
        if len(between) >= restart_epochs and np.all(between == wake):
            onsets.append(after)
    return tuple(onsets)


def clock_factors(rows: Floats, wake: int, onsets: Sequence[int], start: int, stop: int) -> Floats:
    """Return the factors of the first epochs, up to the last row after the last onset."""
    factors = np.ones((min(stop, onsets[-1] + len(rows)), rows.shape[1]))
    # sleep before the first onset would itself be the onset, so it is as rare as there
    factors[start : onsets[0]] = np.minimum(rows[0], 1.0)
    factors[start : onsets[0], wake] = 1.0
    for onset, end in pairwise((*onsets, stop)):
        n_timed = min(end - onset, len(rows))
        factors[onset : onset + n_timed] = rows[:n_timed]
    return factors
