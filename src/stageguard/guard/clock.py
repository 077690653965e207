"""The clock: what the time since sleep onset says about each stage, added to the evidence of a night.

Experts score hardly any REM in the first half hour of sleep and most of it towards morning. A profile's
`clock` holds that as curves; where they begin, sleep onset, is read off a night decoded without them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stageguard.base.arrays import Floats, Labels
from stageguard.base.records import dataclass
from stageguard.guard import kernels
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Clock

MOST_PASSES = 3  # decodings with the clock, until sleep onset stays where it was read


class ClockRules(NamedTuple):
    """A profile's clock at one epoch length."""

    rows: Floats  # (n_rows, n_stages) what multiplies each stage's likelihood, epoch by epoch since onset
    wake: int
    restart_epochs: float  # of unbroken wake
    bout_nats: float
    weight: float

    @classmethod
    def of(cls, clock: Clock, scheme: StageScheme, epoch_seconds: float) -> ClockRules:
        """Return the rules of a clock, whose scheme has a wake."""
        assert scheme.wake_index is not None
        rows = np.exp(curve_rows(clock, scheme, epoch_seconds))
        restart_epochs = clock.restart_wake_minutes * 60.0 / epoch_seconds
        return cls(rows, scheme.wake_index, restart_epochs, clock.bout_nats, clock.weight)

    def in_full(self) -> ClockRules:
        """Return the clock at weight 1, sparing no bout."""
        return self._replace(rows=self.rows ** (1.0 / self.weight), bout_nats=np.inf, weight=1.0)

    @property
    def tables(self) -> tuple[Floats, int, float, float]:
        """What the kernel that finds onset and path together is told."""
        return self.rows, self.wake, self.restart_epochs, self.bout_nats

    @property
    def spread_nats(self) -> float:
        """How far apart the clock can put two stages."""
        return float(np.ptp(np.log(self.rows)))

    def onsets(self, labels: Labels, start: int = 0, stop: int | None = None) -> tuple[int, ...]:
        """Return the first epoch of sleep, and of sleep after each unbroken wake that restarts the clock.

        Only epochs from `start`, lights off, to `stop` are looked at: what comes after is of another time.
        """
        last = len(labels) if stop is None else stop
        found: tuple[int, ...] = kernels.active.sleep_onsets(
            labels, self.wake, self.restart_epochs, start, last
        )
        return found


@dataclass(slots=True, eq=False)
class NightClock:
    """The clock of one night, what it multiplies the likelihoods by made when it is asked for.

    Attributes
    ----------
    onsets : tuple of int
        Epochs the time is counted from: the first of sleep, and of sleep after a wake that restarts it.
    rules : ClockRules
        The profile's.
    argmax : array of int8
        The stager's own choice, whose long bouts lose less.
    start, stop : int, int or None
        Where it runs: from lights off, until the time is lost.
    """

    onsets: tuple[int, ...]
    rules: ClockRules
    argmax: Labels
    start: int = 0
    stop: int | None = None
    _factors: Floats | None = None

    @property
    def factors(self) -> Floats:
        """What multiplies the likelihoods of the first epochs, up to the last horizon: (…, n_stages).

        Before the first onset, stages of sleep that are rarer than usual at onset count as there: an epoch
        of them would itself be the onset. None before lights off; bounded where the stager's bout of the
        stage is long.
        """
        if self._factors is None:
            self._factors = self._bounded(self.rules.bout_nats)
        return self._factors

    @property
    def unbounded(self) -> Floats:
        """The same without that bound."""
        return self._bounded(np.inf)

    def _bounded(self, bout_nats: float) -> Floats:
        last = len(self.argmax) if self.stop is None else self.stop
        rules = (self.rules.rows, self.rules.wake, bout_nats)
        factors: Floats = kernels.active.clock_factors(*rules, self.onsets, self.argmax, self.start, last)
        return factors

    @property
    def weight(self) -> float:
        """How much the curves count."""
        return self.rules.weight

    @property
    def nats(self) -> Floats:
        """What is added to the evidence, (n_epochs, n_stages); 0 beyond the horizon."""
        return self._logs(self.factors)

    @property
    def log_shares(self) -> Floats:
        """Log of the experts' share of each stage at that time against its share of the whole night."""
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
