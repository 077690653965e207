"""The doubtful epochs on which a statistic of a night hinges.

A latency is read off one epoch. If that epoch, or one that would come before it, is doubtful, the number may
be off by an hour: somebody should look at it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import path_marginals
from stageguard.measures.grade import TABLE_EPOCH_SECONDS, expert_errors
from stageguard.measures.statistics import AASM, StatisticsOptions

HINGING = ("tst_minutes", "sol_minutes", "waso_minutes", "rem_latency_minutes", "rem_latency_bout_minutes")
MOST_EPOCHS = 5
# Our choice: the next stage is at least a third as probable as the one that is shown. On 25 nights of DOD-H
# (votes of 20 networks) SOL was wrong by 43 min on the nights this marks and by 5 on the others, WASO by 63
# and 26, REM latency by 48 and 22.
LEAST_ODDS = 1.0 / 3.0


def hinges_of(decoding: Decoding, options: StatisticsOptions = AASM) -> dict[str, tuple[int, int]]:
    """Return the first and last of the fewest doubtful epochs that move a statistic, by statistic.

    It moves if up to five doubtful epochs in a row of five, each with its next most probable stage, change it
    by more than one expert differs from another, or make it appear or vanish.
    """
    scheme, labels = decoding.profile.scheme, decoding.hypnogram.labels
    tables = expert_errors(scheme.name) if decoding.epoch_seconds == TABLE_EPOCH_SECONDS else ()
    if not tables or decoding.profile.species != "human":
        return {}
    known = [key for key in HINGING if all(key in table.errors for table in tables)]
    limits = {key: float(np.mean([table.errors[key] for table in tables])) for key in known}
    epochs = np.arange(len(labels))
    others = np.nan_to_num(path_marginals(decoding))
    shown = others[epochs, labels]
    others[epochs, labels] = -1.0
    second = others.argmax(axis=1).astype(np.int8)
    # no statistic here tells one stage of NREM from another
    own = [index for index in (scheme.wake_index, scheme.rem_index) if index is not None]
    matters = np.isin(labels, own) | np.isin(second, own)
    doubtful = np.flatnonzero((labels >= 0) & (others.max(axis=1) >= LEAST_ODDS * shown) & matters)
    was = options.measure(decoding)
    found: dict[str, tuple[float, tuple[int, int]]] = {}
    for first in doubtful.tolist():
        flipped = labels.copy()
        cost = 0.0
        for epoch in doubtful[(doubtful >= first) & (doubtful < first + MOST_EPOCHS)].tolist():
            flipped[epoch] = second[epoch]
            cost += math.log(shown[epoch] / others[epoch].max())
            now = options.measure(replace(decoding.hypnogram, labels=flipped))
            for key, limit in limits.items():
                before, after = getattr(was, key), getattr(now, key)
                moves = math.isnan(before) != math.isnan(after) or abs(after - before) > limit
                if moves and (key not in found or cost < found[key][0]):
                    found[key] = cost, (first, epoch)
    return {key: place for key, (_, place) in found.items()}
