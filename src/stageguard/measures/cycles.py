"""NREM-REM cycles, after Feinberg and Floyd.

A REM period is REM with interruptions of less than 15 min; the first may be of any length, later ones last
5 min or more. Cycles are divided by REM periods, and by 15 min or more of nothing but wake, N1 and unscored
epochs. A cycle begins with the first deeper sleep after a divider, and counts if it has 15 min of NREM, N1
included. The REM period that closes it belongs to it; a cycle need not have one.
"""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Labels, Mask
from stageguard.measures.bouts import runs_of, whole_epochs
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme, canonical_name

REM_INTERRUPTION_SECONDS = 15 * 60.0
DIVIDING_WAKE_SECONDS = 15 * 60.0
SHORTEST_REM_PERIOD_SECONDS = 5 * 60.0
SHORTEST_NREM_SECONDS = 15 * 60.0


def cycles_of(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> list[tuple[int, int]]:
    """Return the first epoch of each cycle's NREM, and the end of the REM, or of the sleep, that closes it.

    The scheme must have wake and REM.
    """
    is_rem = labels == scheme.rem_index
    # N1 counts as NREM within a cycle, but does not begin one
    is_nrem = (labels != UNSCORED) & (labels != scheme.wake_index) & ~is_rem
    light = [name == scheme.wake or canonical_name(name) == "N1" for name in scheme.names]
    is_light = np.array([*light, True])[labels]  # the last is found by -1, unscored
    # REM is not light either: a short REM period that does not divide may begin a cycle
    deeper = np.flatnonzero(~is_light)
    shortest_rem = whole_epochs(SHORTEST_REM_PERIOD_SECONDS, epoch_seconds)
    shortest_nrem = whole_epochs(SHORTEST_NREM_SECONDS, epoch_seconds)
    rem_periods = _rem_periods(is_rem, epoch_seconds)
    end_of_night = (len(labels), len(labels))
    dividers = [*rem_periods, *_long_light(is_light, epoch_seconds), end_of_night]
    cycles: list[tuple[int, int]] = []
    end_of_divider = 0
    for start, stop in sorted(dividers):
        is_rem_period = (start, stop) in rem_periods
        if cycles and is_rem_period and stop - start < shortest_rem:
            continue  # so short a later REM period is part of the NREM around it
        inside = deeper[(deeper >= end_of_divider) & (deeper < start)]
        if len(inside) and np.count_nonzero(is_nrem[inside[0] : start]) >= shortest_nrem:
            # the light epochs that end the night are not part of its last cycle
            end_of_sleep = int(inside[-1]) + 1 if start == len(labels) else start
            cycles.append((int(inside[0]), stop if is_rem_period else end_of_sleep))
        end_of_divider = stop
    return cycles


def _rem_periods(is_rem: Mask, epoch_seconds: float) -> list[tuple[int, int]]:
    """Return the first epoch and the end of every REM period, however long."""
    n_parting = whole_epochs(REM_INTERRUPTION_SECONDS, epoch_seconds)
    periods: list[tuple[int, int]] = []
    for start, stop in runs_of(is_rem).tolist():
        if periods and start - periods[-1][1] < n_parting:
            periods[-1] = periods[-1][0], stop
        else:
            periods.append((start, stop))
    return periods


def _long_light(is_light: Mask, epoch_seconds: float) -> list[tuple[int, int]]:
    """Return the stretches of wake, N1 and unscored epochs that divide cycles."""
    shortest = whole_epochs(DIVIDING_WAKE_SECONDS, epoch_seconds)
    return [(start, stop) for start, stop in runs_of(is_light).tolist() if stop - start >= shortest]
