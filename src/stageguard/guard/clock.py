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

    def onsets(self, labels: Labels, start: int, stop: int) -> tuple[int, ...]:
        """Return the first epoch of sleep, and of sleep after each unbroken wake that restarts the clock.

        Only epochs from `start` to `stop` count.
        """
        onsets: tuple[int, ...] = kernels.active.sleep_onsets(
            labels, self.wake, self.restart_epochs, min(start, stop), stop
        )
        return onsets


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
        bouts += [Bout(stage, start, stop) for start, stop in runs(bridged) if start < n_epochs]
    return bouts


@dataclass(slots=True, eq=False)
class NightClock:
    """The clock of one night.

    Attributes
    ----------
    onsets : tuple of int
        Epochs from which the time is counted: the first of sleep, and of sleep after a wake that restarts it.
    rules : ClockRules
        The profile's clock.
    own : array of int8
        The stager's own choice, calibrated if the profile says so.
    start, stop : int
        Epochs between which it runs: from lights off until the time is unknown.
    released : tuple of Bout
        Where it gave way, because it would have left other stages in the middle of a bout.
    by_time, factors : array, shape (…, n_stages)
        Factors of the likelihoods, from the first epoch to the end of the last curve: as the time alone gives
        them, and as they are used. Shortly before the first onset, stages of sleep that are rarer than usual
        at onset have their factor there, since an epoch of them would itself be the onset. Before lights off
        all factors are 1. In `factors`, that of a stage is not below 1 in long bouts of the stager and where
        the clock gave way.
    bouts : list of Bout
        The stager's bouts of stages that are held back; on most nights there is none.
    """

    onsets: tuple[int, ...]
    rules: ClockRules
    own: Labels
    start: int
    stop: int
    released: tuple[Bout, ...] = ()
    by_time: Floats = field(init=False)
    factors: Floats = field(init=False)
    bouts: list[Bout] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the factors."""
        rules = self.rules
        # what lies farther from onset than a wake that restarts the clock is of another sleep
        first = max(self.start, self.onsets[0] - math.ceil(rules.restart_epochs))
        self.by_time = kernels.active.clock_factors(rules.rows, rules.wake, self.onsets, first, self.stop)
        self.bouts = bridged_bouts(self.own, rules.held_back, len(self.by_time))
        least = rules.spare_epochs - 1e-9
        spared = [bout for bout in self.bouts if bout.stop - bout.start >= least]
        self.factors = self.by_time.copy() if spared or self.released else self.by_time
        for stage, begin, end in (*spared, *self.released):
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

    def lost_bouts(self, labels: Labels) -> list[Bout]:
        """Return the stager's bouts, of stages that are held back, of which a path lost an epoch."""
        lost = []
        for bout in self.bouts:
            here = slice(bout.start, bout.stop)
            if ((self.own[here] == bout.stage) & (labels[here] != bout.stage)).any():
                lost.append(bout)
        return lost

    def holes(self, labels: Labels, lost: Sequence[Bout]) -> list[Bout]:
        """Return where a path lost the middle of a bout of the stager to the clock and kept both sides.

        Each is from the first to the last epoch that is kept of the bout. The clock has to give way there:
        wake in the middle of REM is more wrong than REM.
        """
        holes = []
        for stage, start, stop in lost:
            kept = start + np.flatnonzero(labels[start:stop] == stage)
            if len(kept):
                here = slice(int(kept[0]), int(kept[-1]) + 1)
                is_held = self.factors[here, stage] < 1.0
                is_lost = (self.own[here] == stage) & (labels[here] != stage)
                if (is_held & is_lost[: len(is_held)]).any():
                    holes.append(Bout(stage, here.start, here.stop))
        return holes

    def removed(self, labels: Labels, lost: Sequence[Bout], epoch_seconds: float) -> tuple[RemovedBout, ...]:
        """Return the bouts of the stager that the clock held back and of which a path lost three minutes."""
        minutes, found = epoch_seconds / 60.0, []
        for stage, start, stop in lost:
            own, is_stage = self.own[start:stop] == stage, labels[start:stop] == stage
            n_removed = int(np.count_nonzero(own & ~is_stage))
            is_held = (self.by_time[start:stop, stage] < 1.0).any()
            if is_held and n_removed * minutes >= NOTABLE_MINUTES - 1e-9:
                since = self.epochs_since_onset(start)
                after = math.nan if since is None else since * minutes
                found.append(RemovedBout(start, stop - start, n_removed, (stop - start) * minutes, after))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class RemovedBout:
    """A bout of the stager, of early REM in the shipped profiles, that was held back and lost.

    Attributes
    ----------
    first_epoch, n_epochs, n_removed : int
        Where the stager's bout begins, how long it is (single other epochs included), and how many of its
        epochs of that stage have another one in the output.
    minutes : float
        Its length.
    minutes_since_onset : float
        When it begins, from the sleep onset that the clock counts from; NaN before it.
    """

    first_epoch: int
    n_epochs: int
    n_removed: int
    minutes: float
    minutes_since_onset: float

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
