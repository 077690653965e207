"""The clock: evidence for each stage from the time since sleep onset.

Experts score hardly any REM in the first half hour of sleep and most of it towards morning. A profile's
`clock` holds this as curves. They begin at sleep onset, which is read off the night decoded without them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stageguard.base.arrays import Floats, Labels
from stageguard.base.records import dataclass
from stageguard.guard import kernels
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Clock

MOST_PASSES = 3  # decodings with the clock, which end when sleep onset no longer moves


class ClockRules(NamedTuple):
    """A profile's clock at one epoch length."""

    rows: Floats  # (n_rows, n_stages) factors of the likelihoods, a row per epoch since onset
    wake: int
    restart_epochs: float  # of unbroken wake, after which the clock restarts
    bout_nats: float
    weight: float

    @classmethod
    def of(cls, clock: Clock, scheme: StageScheme, epoch_seconds: float) -> ClockRules:
        """Return the rules of a clock; its scheme must have a wake stage."""
        assert scheme.wake_index is not None
        rows = np.exp(curve_rows(clock, scheme, epoch_seconds))
        restart_epochs = clock.restart_wake_minutes * 60.0 / epoch_seconds
        return cls(rows, scheme.wake_index, restart_epochs, clock.bout_nats, clock.weight)

    def in_full(self) -> ClockRules:
        """Return the clock at weight 1, without the bound for long bouts."""
        return self._replace(rows=self.rows ** (1.0 / self.weight), bout_nats=np.inf, weight=1.0)

    @property
    def tables(self) -> tuple[Floats, int, float, float]:
        """The clock as the argument of the kernel that finds onset and path together."""
        return self.rows, self.wake, self.restart_epochs, self.bout_nats

    @property
    def spread_nats(self) -> float:
        """The most that the clock can move one stage against another."""
        return float(np.ptp(np.log(self.rows)))

    def onsets(self, labels: Labels, start: int = 0, stop: int | None = None) -> tuple[int, ...]:
        """Return the first epoch of sleep, and of sleep after each unbroken wake that restarts the clock.

        Only epochs from `start` (lights off) to `stop` count; after `stop`, the time since onset is unknown.
        """
        last = len(labels) if stop is None else stop
        onsets: tuple[int, ...] = kernels.active.sleep_onsets(
            labels, self.wake, self.restart_epochs, start, last
        )
        return onsets


@dataclass(slots=True, eq=False)
class NightClock:
    """The clock of one night; its factors are computed on first use.

    Attributes
    ----------
    onsets : tuple of int
        Epochs from which the time is counted: the first of sleep, and of sleep after a wake that restarts it.
    rules : ClockRules
        The profile's clock.
    argmax : array of int8
        The stager's own choice, whose long bouts lose less.
    start, stop : int, int or None
        Epochs between which it runs: from lights off until the time is unknown; None is the end of the night.
    """

    onsets: tuple[int, ...]
    rules: ClockRules
    argmax: Labels
    start: int = 0
    stop: int | None = None
    _factors: Floats | None = None

    @property
    def factors(self) -> Floats:
        """Factors of the likelihoods, from the first epoch to the end of the last curve, (…, n_stages).

        Before the first onset, stages of sleep that are rarer than usual at onset have their factor there,
        since an epoch of them would itself be the onset. Before lights off all factors are 1. Factors below
        1 are bounded where the stager's bout of the stage is long.
        """
        if self._factors is None:
            self._factors = self._bounded(self.rules.bout_nats)
        return self._factors

    @property
    def unbounded(self) -> Floats:
        """`factors` without the bound for long bouts."""
        return self._bounded(np.inf)

    def _bounded(self, bout_nats: float) -> Floats:
        last = len(self.argmax) if self.stop is None else self.stop
        rules = (self.rules.rows, self.rules.wake, bout_nats)
        factors: Floats = kernels.active.clock_factors(*rules, self.onsets, self.argmax, self.start, last)
        return factors

    @property
    def weight(self) -> float:
        """Weight of the curves."""
        return self.rules.weight

    @property
    def nats(self) -> Floats:
        """Nats added to the evidence, (n_epochs, n_stages); 0 beyond the curves."""
        return self._logs(self.factors)

    @property
    def log_shares(self) -> Floats:
        """Log of the experts' share of each stage at that time relative to its share of the whole night."""
        return self._logs(self.unbounded) / self.weight

    def _logs(self, factors: Floats) -> Floats:
        logs = np.zeros((len(self.argmax), factors.shape[1]))
        np.log(factors, out=logs[: len(factors)])
        return logs

    def under(self, rules: ClockRules) -> NightClock:
        """Return the clock under other rules."""
        return NightClock(self.onsets, rules, self.argmax, self.start, self.stop)

    def epochs_since_onset(self, epoch: int) -> int | None:
        """Return how many epochs after the last onset an epoch is, None before the first."""
        before = [onset for onset in self.onsets if onset <= epoch]
        return epoch - before[-1] if before else None


def curve_rows(clock: Clock, scheme: StageScheme, epoch_seconds: float) -> Floats:
    """Return the weighted nats per stage of each epoch since onset, up to the horizon."""
    minutes = np.arange(0.0, clock.horizon_minutes, epoch_seconds / 60.0)
    rows = np.zeros((len(minutes), scheme.n_stages))
    for stage, curve in clock.curves.items():
        knots = clock.step_minutes * np.arange(len(curve))
        rows[:, scheme.index(stage)] = clock.weight * np.interp(minutes, knots, curve)
    return rows
