"""The clock: what the time since sleep onset says about each stage, added to the evidence of a night.

Experts score hardly any REM in the first half hour of sleep and most of it towards morning. A profile's
`clock` holds that as curves; where they begin, sleep onset, is read off a night decoded without them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from stageguard.base.arrays import Floats, Labels
from stageguard.base.records import dataclass
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Clock

MOST_PASSES = 3  # decodings with the clock, until sleep onset stays where it was read


@dataclass(frozen=True, slots=True, eq=False)
class NightClock:
    """The clock of one night.

    Attributes
    ----------
    onsets : tuple of int
        Epochs the time is counted from: the first of sleep, and of sleep after a wake that restarts it.
    factors : array, shape (up to n_epochs, n_stages)
        What multiplies the likelihoods of the first epochs, up to the last horizon. Before the first onset,
        stages of sleep that are rarer than usual at onset count as there: an epoch of them would itself be
        the onset. None before lights off; bounded where the stager's bout of the stage is long.
    unbounded : array of the same shape
        The same without that bound.
    weight : float
        How much the curves count.
    """

    onsets: tuple[int, ...]
    factors: Floats
    n_epochs: int
    unbounded: Floats
    weight: float

    @property
    def nats(self) -> Floats:
        """What is added to the evidence, (n_epochs, n_stages); 0 beyond the horizon."""
        return self._logs(self.factors)

    @property
    def log_shares(self) -> Floats:
        """Log of the experts' share of each stage at that time against its share of the whole night."""
        return self._logs(self.unbounded) / self.weight

    def _logs(self, factors: Floats) -> Floats:
        logs = np.zeros((self.n_epochs, factors.shape[1]))
        np.log(factors, out=logs[: len(factors)])
        return logs

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


def sleep_onsets(
    labels: Labels,
    scheme: StageScheme,
    clock: Clock,
    epoch_seconds: float,
    start: int = 0,
    stop: int | None = None,
) -> tuple[int, ...]:
    """Return the first epoch of sleep, and of sleep after each unbroken wake that restarts the clock.

    Only epochs from `start`, lights off, to `stop` are looked at: what comes after is of another time.
    """
    labels = labels[:stop]
    asleep = start + ((labels[start:] >= 0) & (labels[start:] != scheme.wake_index)).nonzero()[0]
    if len(asleep) == 0:
        return ()
    restart_epochs = clock.restart_wake_minutes * 60.0 / epoch_seconds
    onsets = [int(asleep[0])]
    if asleep[-1] - asleep[0] + 1 - len(asleep) < restart_epochs:  # not that much wake in all
        return (onsets[0],)
    for i in (asleep[1:] - asleep[:-1] > restart_epochs).nonzero()[0].tolist():
        between = labels[asleep[i] + 1 : asleep[i + 1]]
        if np.all(between == scheme.wake_index):
            onsets.append(int(asleep[i + 1]))
    return tuple(onsets)


def night_clock(
    clock: Clock,
    rows: Floats,
    onsets: tuple[int, ...],
    argmax: Labels,
    wake: int,
    start: int = 0,
    stop: int | None = None,
) -> NightClock:
    """Return the clock of a night that counts from these epochs; `rows` are its factors from onset on."""
    last = len(argmax) if stop is None else stop
    factors = np.ones((min(last, onsets[-1] + len(rows)), rows.shape[1]))
    factors[start : onsets[0]] = np.minimum(rows[0], 1.0)
    factors[start : onsets[0], wake] = 1.0
    for onset, end in pairwise((*onsets, last)):
        n_timed = min(end - onset, len(rows))
        factors[onset : onset + n_timed] = rows[:n_timed]
    bounded = factors if clock.bout_nats == np.inf else _spare_bouts(factors, argmax, clock.bout_nats)
    return NightClock(onsets, bounded, len(argmax), factors, clock.weight)


def _spare_bouts(factors: Floats, argmax: Labels, bout_nats: float) -> Floats:
    """Return the factors, bounded for each stage that the stager scored by how long its bout lasts."""
    spared = factors
    for stage in (factors.min(axis=0) < 1.0).nonzero()[0].tolist():
        is_stage = argmax == stage
        if not is_stage[: len(factors)].any():
            continue
        edges = np.concatenate(([0], (is_stage[1:] != is_stage[:-1]).nonzero()[0] + 1, [len(argmax)]))
        lengths = edges[1:] - edges[:-1]
        least = np.where(is_stage, np.repeat(np.exp(-bout_nats / lengths), lengths), 0.0)
        spared = spared.copy()
        np.maximum(spared[:, stage], least[: len(factors)], out=spared[:, stage])
    return spared
