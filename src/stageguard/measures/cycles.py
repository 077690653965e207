"""NREM-REM cycles of a night, and stage times hour by hour, and in the light and the dark.

Cycles are those of Feinberg and Floyd. A REM period is REM with interruptions of less than 15 min; the first
may be of any length, later ones last 5 min or more. Cycles are divided by REM periods, and by 15 min or more
of nothing but wake, N1 and unscored epochs. A cycle begins with the first deeper sleep after a divider, and
counts if it has 15 min of NREM, N1 included. The REM period that closes it belongs to it; a cycle need not
have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stageguard.arrays import DAY_SECONDS, NAN, Indices, Labels, Mask
from stageguard.measures.bouts import bouts_of, runs_of, whole_epochs
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import StageScheme, canonical_name
from stageguard.night.timing import clock_seconds, time_of_day

LIGHT_PHASE_SECONDS = 43200.0  # 12 h of light and 12 h of darkness


@dataclass(frozen=True, slots=True, eq=False)
class DayPart:
    """An hour or a phase of a recording."""

    name: str  # ``light``, ``dark``, ``ZT 3`` (fourth hour after lights on), ``hour 3`` (fourth of TIB)
    n_epochs: int  # the first and the last hour may be cut short
    scored_minutes: float
    stage_minutes: Mapping[str, float]
    stage_percent: Mapping[str, float]  # of the scored time; NaN where nothing is scored
    bouts: Mapping[str, int]  # that begin in it
    mean_bout_minutes: Mapping[str, float]  # of these, wherever they end; NaN without one


def zeitgeber_seconds(hypnogram: Hypnogram, lights_on_phase: str, first: int) -> float:
    """Return how long before an epoch the lights of a 12 h : 12 h cycle went on."""
    # the cycle repeats every day, so the remainder of a day is enough
    clock = clock_seconds(lights_on_phase, "lights_on_phase")
    start = time_of_day(hypnogram.start, lights_on_phase, "lights_on_phase")
    return (start + first * hypnogram.epoch_seconds - clock) % DAY_SECONDS


def phases_of(
    labels: Labels, scheme: StageScheme, epoch_seconds: float, zeitgeber: float | None
) -> Mapping[str, DayPart]:
    """Return stage times in the light and in the dark, all days together; empty without a light cycle."""
    if zeitgeber is None:
        return {}
    elapsed = np.arange(len(labels)) * epoch_seconds + zeitgeber
    in_dark = (elapsed % DAY_SECONDS >= LIGHT_PHASE_SECONDS).astype(np.intp)
    both = _parts(labels, scheme, epoch_seconds, in_dark, ["light", "dark"])
    return {part.name: part for part in both}


def hours_of(
    labels: Labels, scheme: StageScheme, epoch_seconds: float, zeitgeber: float | None
) -> tuple[DayPart, ...]:
    """Return stage times per hour: hours after lights on, or of the recording without a light cycle."""
    elapsed = np.arange(len(labels)) * epoch_seconds + (zeitgeber or 0.0)
    hours = (elapsed // 3600.0).astype(np.intp)
    # hours are counted on without a gap, so that an unscored hour keeps its row
    numbers = range(int(hours[0]), int(hours[-1]) + 1)
    names = [f"hour {n}" if zeitgeber is None else f"ZT {n % 24}" for n in numbers]
    return tuple(_parts(labels, scheme, epoch_seconds, hours - hours[0], names))


def _parts(
    labels: Labels, scheme: StageScheme, epoch_seconds: float, part_of: Indices, names: list[str]
) -> list[DayPart]:
    """Return one part per name; `part_of` is the index of each epoch's part."""
    minutes, width = epoch_seconds / 60.0, scheme.n_stages + 1
    size, shape = len(names) * width, (len(names), width)
    bouts = bouts_of(labels)
    # a bout belongs to the part it begins in, however far it reaches into the next
    column = part_of[bouts.starts] * width + bouts.stages + 1  # column 0: unscored
    epochs = np.bincount(part_of * width + labels + 1, minlength=size).reshape(shape)
    n_bouts = np.bincount(column, minlength=size).reshape(shape)
    lengths = np.bincount(column, weights=bouts.lengths, minlength=size).reshape(shape)
    parts = []
    for name, n_epochs, n, length in zip(names, epochs, n_bouts, lengths, strict=True):
        n_scored = int(n_epochs[1:].sum())
        share = n_epochs[1:] / n_scored if n_scored else np.full(width - 1, NAN)
        # no bout begins in it: no mean, rather than 0
        mean = np.divide(length[1:], n[1:], out=np.full(width - 1, NAN), where=n[1:] > 0)
        parts.append(
            DayPart(
                name=name,
                n_epochs=int(n_epochs.sum()),
                scored_minutes=n_scored * minutes,
                stage_minutes=_by_stage(scheme, n_epochs[1:] * minutes),
                stage_percent=_by_stage(scheme, 100.0 * share),
                bouts=dict(zip(scheme.names, n[1:].tolist(), strict=True)),
                mean_bout_minutes=_by_stage(scheme, mean * minutes),
            )
        )
    return parts


def _by_stage(scheme: StageScheme, values: npt.NDArray[np.floating]) -> Mapping[str, float]:
    return dict(zip(scheme.names, values.tolist(), strict=True))


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
