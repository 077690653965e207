"""Scored nights as measures take them: the period a profile measures, bouts, adjacent pairs, cycles, hours.

Cycles are those of Feinberg and Floyd. A REM period is REM with interruptions of less than 15 min; the first
may be of any length, later ones last 5 min or more. Cycles are divided by REM periods, and by 15 min or more
of nothing but wake, N1 and unscored epochs. A cycle begins with the first deeper sleep after a divider, and
counts if it has 15 min of NREM, N1 included. The REM period that closes it belongs to it; a cycle need not
have one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import DAY_SECONDS, NAN, Indices, Ints, Labels, Mask
from stageguard.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import Period
from stageguard.night.stages import StageScheme, canonical_name
from stageguard.night.timing import Moment, clock_seconds, lights_window, time_of_day
from stageguard.profile.profile import Profile

ScoredNight = Decoding | Hypnogram
TOLERANCE_EPOCHS = 2  # how far off a recovered rare pair may lie
LIGHT_PHASE_SECONDS = 43200.0  # 12 h of light and 12 h of darkness
DIVIDER_SECONDS = 15 * 60.0  # of wake that parts cycles, and of a pause that parts REM periods
SHORTEST_REM_SECONDS = 5 * 60.0
SHORTEST_NREM_SECONDS = 15 * 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Bouts:
    """Runs of one label, in order of time; runs of unscored epochs are among them, with stage -1."""

    starts: Indices  # (n_bouts,) first epoch of each
    stages: Labels  # (n_bouts,)
    lengths: Indices  # (n_bouts,) in epochs

    @property
    def complete(self) -> Mask:
        """Bouts with a scored epoch of another stage on either side: nothing cut them short."""
        scored = self.stages != UNSCORED
        complete = np.zeros(len(scored), dtype=bool)
        # the first and the last bout touch the end of the recording, which cut them
        complete[1:-1] = scored[:-2] & scored[1:-1] & scored[2:]
        return complete


def bouts_of(labels: Labels) -> Bouts:
    """Return the runs of equal labels."""
    changes = (labels[1:] != labels[:-1]).nonzero()[0]
    edges = np.empty(len(changes) + 2, dtype=np.intp)
    edges[0], edges[-1] = 0, len(labels)
    np.add(changes, 1, out=edges[1:-1])
    starts = edges[:-1]
    return Bouts(starts, labels[starts], edges[1:] - starts)


def runs_of(mask: Mask) -> Indices:
    """Return the first epoch and the end of every run of true epochs, (n_runs, 2)."""
    padded = np.zeros(len(mask) + 2, dtype=bool)  # a run at either end begins and ends as well
    padded[1:-1] = mask
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def stage_counts(labels: Labels, n_stages: int) -> Ints:
    """Return how many epochs of each stage there are."""
    return np.bincount(labels[labels != UNSCORED], minlength=n_stages)


def pair_counts(labels: Labels, n_stages: int) -> Ints:
    """Return (from, to) counts of adjacent epochs that are both scored, stays included."""
    return contingency(labels[:-1], labels[1:], n_stages)


def contingency(first: Labels, second: Labels, n_stages: int) -> Ints:
    """Count epochs by their stage in the first (rows) and in the second (columns), where both are scored."""
    # an epoch that only one of them scored says nothing about the two
    both = (first >= 0) & (second >= 0)
    cells = first[both].astype(np.int64) * n_stages + second[both]
    return np.bincount(cells, minlength=n_stages * n_stages).reshape(n_stages, n_stages)


def whole_epochs(seconds: float, epoch_seconds: float) -> int:
    """Return the smallest number of epochs that last at least this long."""
    return math.ceil(seconds / epoch_seconds - 1e-9)  # the slack keeps 0.3 s / 0.1 s at three epochs


def hypnogram_of(night: ScoredNight) -> Hypnogram:
    """Return the stages of a scored night: a hypnogram, or that of a decoding."""
    if isinstance(night, Hypnogram):
        return night
    if isinstance(night, Decoding):
        return night.hypnogram
    raise InputError(f"the night is {checks.shown(night)}, expected a Hypnogram or a Decoding.")


def expert_of(scoring: object, what: str = "expert") -> Hypnogram:
    """Return an expert's scoring; what a stager made is refused, since then the arguments are swapped."""
    if isinstance(scoring, Hypnogram):
        return scoring
    hint = " The expert comes first: swap the two." if isinstance(scoring, Decoding | Hypnodensity) else ""
    raise InputError(f"{what} is {checks.shown(scoring)}, expected an expert's Hypnogram.{hint}")


def hypnogram_before(decoding: Decoding) -> Hypnogram:
    """Return the stager's own choice as a hypnogram, to be compared with the decoded one."""
    return replace(decoding.hypnogram, labels=decoding.argmax, scorer=decoding.source, assumed=())


def cuts_of(night: ScoredNight) -> Sequence[int]:
    """Return the first epochs of a decoding's later segments; no epochs are adjacent across such a cut."""
    return night.night.segments if isinstance(night, Decoding) else ()


Lights = tuple[Moment | None, Moment | None]  # off, on


def period_for(night: ScoredNight, profile: Profile, lights: Lights = (None, None)) -> Period:
    """Return the epochs of a night that a profile measures; of a decoding those it was decoded by."""
    hypnogram = hypnogram_of(night)
    first, stop = lights_window(hypnogram, *lights)
    # before and after must be measured in the same epochs, so both take the stager's own sleep period
    if isinstance(night, Decoding) and night.profile.scheme == profile.scheme:
        if profile.measures_sleep_period and night.profile.measures_sleep_period and lights == (None, None):
            return night.period
        return profile.period_in(night.night.own, night.epoch_seconds, first, stop)
    scored = hypnogram.merge(profile.scheme)
    return profile.period_in(scored.labels, scored.epoch_seconds, first, stop)


def labels_in(labels: Labels, period: Period, cuts: Sequence[int]) -> Labels:
    """Return the labels of a period, with an unscored epoch in every cut between segments.

    Then no epochs are adjacent across a cut. An empty period is one unscored epoch.
    """
    first, stop = period
    if first == stop:
        return np.array([UNSCORED], dtype=np.int8)
    # indices of np.insert refer to the array before any insertion
    inside = [cut - first for cut in cuts if first < cut < stop]
    return np.insert(labels[first:stop], inside, UNSCORED) if inside else labels[first:stop]


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
    return {part.name: part for part in _parts(labels, scheme, epoch_seconds, in_dark, ["light", "dark"])}


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
    minutes, shape = epoch_seconds / 60.0, (len(names), scheme.n_stages + 1)
    bouts = bouts_of(labels)

    def counted(parts: Indices, stages: Labels, weights: Indices | None = None) -> npt.NDArray[Any]:
        cells = parts * shape[1] + stages + 1  # column 0: unscored
        return np.bincount(cells, weights, minlength=shape[0] * shape[1]).reshape(shape)

    # a bout belongs to the part it begins in, however far it reaches into the next
    begins = part_of[bouts.starts], bouts.stages
    tables = counted(part_of, labels), counted(*begins), counted(*begins, bouts.lengths)
    parts = []
    for name, n_epochs, n_bouts, length in zip(names, *tables, strict=True):
        n_scored = n_epochs[1:].sum()
        by_stage = [
            dict(zip(scheme.names, values.tolist(), strict=True))
            for values in (
                n_epochs[1:] * minutes,
                100.0 * (n_epochs[1:] / n_scored if n_scored else np.full(scheme.n_stages, NAN)),
                n_bouts[1:],
                # no bout begins in it: no mean, rather than 0
                np.where(n_bouts > 0, length / np.maximum(n_bouts, 1), NAN)[1:] * minutes,
            )
        ]
        parts.append(DayPart(name, int(n_epochs.sum()), float(n_scored * minutes), *by_stage))
    return parts


def cycles_of(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> list[tuple[int, int]]:
    """Return the first epoch of each cycle's NREM, and the end of the REM, or of the sleep, that closes it.

    The scheme must have wake and REM.
    """
    n_divider, shortest_rem, shortest_nrem = (
        whole_epochs(seconds, epoch_seconds)
        for seconds in (DIVIDER_SECONDS, SHORTEST_REM_SECONDS, SHORTEST_NREM_SECONDS)
    )
    is_rem = labels == scheme.rem_index
    # N1 counts as NREM within a cycle, but does not begin one
    is_nrem = (labels != UNSCORED) & (labels != scheme.wake_index) & ~is_rem
    light = [name == scheme.wake or canonical_name(name) == "N1" for name in scheme.names]
    is_light = np.array([*light, True])[labels]  # the last is found by -1, unscored
    # REM is not light either: a short REM period that does not divide may begin a cycle
    deeper = np.flatnonzero(~is_light)
    rem_periods: list[tuple[int, int]] = []
    for start, stop in runs_of(is_rem).tolist():
        if rem_periods and start - rem_periods[-1][1] < n_divider:
            rem_periods[-1] = rem_periods[-1][0], stop
        else:
            rem_periods.append((start, stop))
    long_light = [(start, stop) for start, stop in runs_of(is_light).tolist() if stop - start >= n_divider]
    cycles: list[tuple[int, int]] = []
    end_of_divider = 0
    for start, stop in sorted([*rem_periods, *long_light, (len(labels), len(labels))]):
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
