"""Sleep statistics of a night if one stretch had other stages, for many stretches and many such answers.

Arrays (n_stretches, n) have a row per stretch and a column per night or answer. All of them come from sums
and next epochs over whole nights, so that no corrected night is ever made.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stageguard.arrays import NAN, Floats, Indices, Labels, Mask
from stageguard.measures.statistics import MINUTES_OF_STAGE
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme

Counts = npt.NDArray[np.int32]


def corrected_statistics(
    nights: Labels, others: Labels, pieces: Indices, scheme: StageScheme, epoch_seconds: float
) -> dict[str, Floats]:
    """Return each statistic (n_stretches, n) of nights (n, n_epochs) whose stretch has the stages of others.

    Either of `nights` and `others` may have one row for all. `pieces` are first epochs and ends
    (n_stretches, 2) within time in bed, which all labels cover. Sleep or REM that never comes counts as
    coming at the end. They equal those of `sleep_statistics` in nights without unscored epochs.
    """
    minutes, n = np.float64(epoch_seconds / 60.0), nights.shape[1]
    old, new = np.ascontiguousarray(nights.T), np.ascontiguousarray(others.T)  # (n_epochs, n)
    night = _Corrections(pieces[:, 0], pieces[:, 1], n)
    found: dict[str, Floats] = {
        MINUTES_OF_STAGE.of(stage).key: night.count(old == index, new == index) * minutes
        for index, stage in enumerate(scheme.names)
    }
    if scheme.wake_index is None:
        return found
    awake = old == scheme.wake_index, new == scheme.wake_index
    asleep = (old != UNSCORED) & ~awake[0], (new != UNSCORED) & ~awake[1]
    tst, onset, last = night.count(*asleep), night.earliest(*asleep), night.latest(*asleep)
    n_lost = np.count_nonzero(nights[0][_inside(asleep[0][:, 0])] == UNSCORED)  # alike in all
    has_sleep = tst > 0
    found["tst_minutes"] = tst * minutes
    found["se_percent"] = tst * np.float64(100.0 / n)
    found["sol_minutes"] = onset * minutes
    found["waso_minutes"] = np.where(has_sleep, minutes * (last - onset + 1 - tst - n_lost), NAN)
    # every wake bout begins after sleep but the first, if the night begins awake; the last may be final
    n_bouts = night.count_beginnings(*awake)
    found["awakenings"] = np.where(has_sleep, n_bouts - (onset > 0) - (last < n - 1), NAN)
    if scheme.rem_index is not None:
        rem = night.earliest(old == scheme.rem_index, new == scheme.rem_index)
        found["rem_latency_minutes"] = minutes * np.where(rem < n, rem - onset, n)
    return found


def _inside(asleep: Mask) -> slice:
    """Return the sleep period."""
    epochs = np.flatnonzero(asleep)
    return slice(int(epochs[0]), int(epochs[-1]) + 1) if len(epochs) else slice(0, 0)


class _Corrections:
    """Stretches [first, end) of nights: `old` (n_epochs, n) outside, `new` (n_epochs, n) inside."""

    def __init__(self, first: Indices, end: Indices, n_epochs: int) -> None:
        self.first, self.end, self.n_epochs = first, end, n_epochs

    def count(self, old: Mask, new: Mask) -> Counts:
        """Return the number of epochs of a kind."""
        inside_new, inside_old = _sums(new), _sums(old)
        change = inside_new[self.end] - inside_new[self.first] - inside_old[self.end] + inside_old[self.first]
        counts: Counts = inside_old[-1] + change
        return counts

    def count_beginnings(self, old: Mask, new: Mask) -> Counts:
        """Return the number of bouts of a kind."""
        begins_old, begins_new = _sums(_beginnings(old)), _sums(_beginnings(new))
        first, end = self.first, self.end
        outside = begins_old[-1] - begins_old[np.minimum(end + 1, self.n_epochs)] + begins_old[first]
        inside = begins_new[end] - begins_new[np.minimum(first + 1, end)]
        at_first = new[first] & ~np.where(first[:, None] > 0, old[first - 1], False)
        after = np.minimum(end, self.n_epochs - 1)
        at_end = np.where(end[:, None] < self.n_epochs, old[after] & ~new[end - 1], False)
        counts: Counts = outside + inside + at_first + at_end
        return counts

    def earliest(self, old: Mask, new: Mask) -> Counts:
        """Return the first epoch of a kind; `n_epochs` if there is none."""
        n, outside, inside = self.n_epochs, _next(old), _next(new)
        before = np.where(outside[0] < self.first[:, None], outside[0], n)
        within = np.where(inside[self.first] < self.end[:, None], inside[self.first], n)
        return np.minimum(np.minimum(before, within), outside[self.end])

    def latest(self, old: Mask, new: Mask) -> Counts:
        """Return the last epoch of a kind; -1 if there is none."""
        mirrored = _Corrections(self.n_epochs - self.end, self.n_epochs - self.first, self.n_epochs)
        return self.n_epochs - 1 - mirrored.earliest(old[::-1], new[::-1])


def _sums(flags: Mask) -> Counts:
    """Return how many are set before each epoch, and in all (n_epochs + 1, n)."""
    sums = np.zeros((len(flags) + 1, flags.shape[1]), dtype=np.int32)
    np.cumsum(flags, axis=0, out=sums[1:])
    return sums


def _next(flags: Mask) -> Counts:
    """Return the next epoch that is set, from each epoch on (n_epochs + 1, n); n_epochs if there is none."""
    n = len(flags)
    places = np.full((n + 1, flags.shape[1]), n, dtype=np.int32)
    places[:-1] = np.where(flags, np.arange(n, dtype=np.int32)[:, None], n)
    return np.minimum.accumulate(places[::-1], axis=0)[::-1]


def _beginnings(flags: Mask) -> Mask:
    begins = flags.copy()
    begins[1:] &= ~flags[:-1]
    return begins
