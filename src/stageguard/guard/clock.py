"""The clock: evidence for each stage from the time since sleep onset.

Experts score hardly any REM in the first half hour of sleep and most of it towards morning. A profile's
`clock` holds this as curves. They begin at sleep onset, which is read off the night decoded without them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from stageguard.arrays import Floats, Labels
from stageguard.guard import kernels
from stageguard.night.period import runs
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Clock

MOST_PASSES = 3  # decodings with the clock, which end when sleep onset no longer moves
NOTABLE_MINUTES = 3.0  # of a bout that are removed, from which a person should look at it


class ClockRules(NamedTuple):
    """A profile's clock at one epoch length."""

    rows: Floats  # (n_rows, n_stages) factors of the likelihoods, a row per epoch since onset
    wake: int
    restart_epochs: float  # of unbroken wake, after which the clock restarts
    spare_epochs: float  # shortest bout of the stager that the clock leaves alone
    weight: float
    held_back: tuple[int, ...]  # stages that the clock makes less likely at some time

    @classmethod
    def of(cls, clock: Clock, scheme: StageScheme, epoch_seconds: float) -> ClockRules:
        """Return the rules of a clock; its scheme must have a wake stage."""
        assert scheme.wake_index is not None
        rows = np.exp(curve_rows(clock, scheme, epoch_seconds))
        epochs_per_minute = 60.0 / epoch_seconds
        restart_epochs = clock.restart_wake_minutes * epochs_per_minute
        spare_epochs = clock.spare_minutes * epochs_per_minute
        held_back = tuple(np.flatnonzero((rows < 1.0).any(axis=0)).tolist())
        return cls(rows, scheme.wake_index, restart_epochs, spare_epochs, clock.weight, held_back)

    @property
    def spread_nats(self) -> float:
        """The most that the clock can move one stage against another."""
        return float(np.ptp(np.log(self.rows)))


class Bout(NamedTuple):
    """A bout of one stage, single epochs of other stages included."""

    stage: int
    start: int
    stop: int


def bridged_bouts(labels: Labels, stages: Sequence[int], n_epochs: int) -> list[Bout]:
    """Return the bouts of stages that begin in the first epochs; a single other epoch does not end one."""
    bouts = []
    for stage in stages:
        if not (labels[:n_epochs] == stage).any():  # the common case, and ten times as fast
            continue
        is_stage = labels == stage
        bridged = is_stage.copy()
        bridged[1:-1] |= is_stage[:-2] & is_stage[2:]
        for start, stop in runs(bridged):
            if start < n_epochs:
                bouts.append(Bout(stage, start, stop))
    return bouts


@dataclass(slots=True, eq=False)
class NightClock:
    """The clock of one night: factors of the likelihoods, from the first epoch to the end of the last curve.

    Shortly before the first onset, stages of sleep that are rarer than usual at onset have their factor of
    then, since an epoch of them would itself be the onset. Before lights off all factors are 1.
    """

    onsets: tuple[int, ...]  # epochs from which time is counted: of sleep, also after a wake that restarts it
    rules: ClockRules
    own: Labels  # the stager's own choice, calibrated if the profile says so
    start: int  # where it begins to run: lights off
    stop: int  # from where on the time is unknown
    released: tuple[Bout, ...] = ()  # where it gave way, not to leave other stages in the middle of a bout
    by_time: Floats = field(init=False)  # (…, n_stages) factors as the time alone gives them
    factors: Floats = field(init=False)  # as used: not below 1 in the stager's long bouts, and where released
    bouts: list[Bout] = field(init=False)  # of the stager in stages that are held back; on most nights none

    def __post_init__(self) -> None:
        """Compute the factors."""
        rules = self.rules
        # what lies farther from onset than a wake that restarts the clock is of another sleep
        first = max(self.start, self.onsets[0] - math.ceil(rules.restart_epochs))
        self.by_time = kernels.active.clock_factors(rules.rows, rules.wake, self.onsets, first, self.stop)
        self.bouts = bridged_bouts(self.own, rules.held_back, len(self.by_time))
        least = rules.spare_epochs - 1e-9
        self.factors = self.by_time.copy() if self.bouts or self.released else self.by_time
        for bout in (*self.bouts, *self.released):
            stage, begin, end = bout
            if end - begin >= least or bout in self.released:
                self.factors[begin:end, stage] = np.maximum(self.factors[begin:end, stage], 1.0)

    @property
    def nats(self) -> Floats:
        """Nats added to the evidence, (n_epochs, n_stages); 0 beyond the curves."""
        return self._logs(self.factors)

    @property
    def log_shares(self) -> Floats:
        """Log of the experts' share of each stage at that time relative to its share of the whole night."""
        return self._logs(self.by_time) / self.rules.weight

    def _logs(self, factors: Floats) -> Floats:
        logs = np.zeros((len(self.own), factors.shape[1]))
        np.log(factors, out=logs[: len(factors)])
        return logs

    def in_full(self) -> NightClock:
        """Return the clock at weight 1."""
        rules = self.rules
        full = rules._replace(rows=rules.rows ** (1.0 / rules.weight), weight=1.0)
        return NightClock(self.onsets, full, self.own, self.start, self.stop)

    def with_released(self, holes: Sequence[Bout]) -> NightClock:
        """Return the clock that also gives way there."""
        return replace(self, released=(*self.released, *holes))

    def epochs_since_onset(self, epoch: int) -> int | None:
        """Return how many epochs after the last onset an epoch is, None before the first."""
        before = [onset for onset in self.onsets if onset <= epoch]
        return epoch - before[-1] if before else None

    def losses(self, labels: Labels, epoch_seconds: float) -> tuple[list[Bout], tuple[RemovedBout, ...]]:
        """Return holes that the clock left in bouts of the stager, and bouts of which it took three minutes.

        A hole is from the first to the last epoch that a path kept of a bout whose middle it lost. The clock
        has to give way there: wake in the middle of REM is more wrong than REM.
        """
        minutes, holes, removed = epoch_seconds / 60.0, [], []
        for stage, start, stop in self.bouts:
            is_kept = labels[start:stop] == stage
            is_lost = (self.own[start:stop] == stage) & ~is_kept
            n_lost = int(np.count_nonzero(is_lost))
            if not n_lost:
                continue
            kept = np.flatnonzero(is_kept)
            if len(kept):
                first, end = int(kept[0]), int(kept[-1]) + 1
                is_held = self.factors[start + first : start + end, stage] < 1.0
                if (is_held & is_lost[first:end][: len(is_held)]).any():
                    holes.append(Bout(stage, start + first, start + end))
            if (self.by_time[start:stop, stage] < 1.0).any() and n_lost * minutes >= NOTABLE_MINUTES - 1e-9:
                since = self.epochs_since_onset(start)
                after = math.nan if since is None else since * minutes
                removed.append(RemovedBout(start, stop - start, n_lost, (stop - start) * minutes, after))
        return holes, tuple(removed)


@dataclass(frozen=True, slots=True)
class RemovedBout:
    """A bout of the stager, of early REM in the shipped profiles, that was held back and lost."""

    first_epoch: int
    n_epochs: int  # single epochs of other stages included
    n_removed: int  # epochs of the stage that have another one in the output
    minutes: float  # its length
    minutes_since_onset: float  # when it begins, from the onset that the clock counts from; NaN before it

    def to_dict(self) -> dict[str, Any]:
        """Return plain types by name."""
        return asdict(self)


def curve_rows(clock: Clock, scheme: StageScheme, epoch_seconds: float) -> Floats:
    """Return the weighted nats per stage of each epoch since onset, up to the horizon."""
    minutes = np.arange(0.0, clock.horizon_minutes, epoch_seconds / 60.0)
    rows = np.zeros((len(minutes), scheme.n_stages))
    for stage, curve in clock.curves.items():
        knots = clock.step_minutes * np.arange(len(curve))
        rows[:, scheme.index(stage)] = clock.weight * np.interp(minutes, knots, curve)
    return rows
