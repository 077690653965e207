"""Sleep statistics of many scorings of one night at once, such as draws: as `sleep_statistics` has them."""

from __future__ import annotations

import numpy as np

from stageguard.arrays import NAN, Floats, Indices, Labels, Mask
from stageguard.measures.statistics import LONGEST_NIGHT_HOURS, MOST_UNSCORED
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.quantities import REPORTED, STAGE
from stageguard.night.stages import StageScheme

MINUTES_OF_STAGE = next(quantity for quantity in STAGE if quantity.key == "stage_minutes")


def statistics_of_many(labels: Labels, scheme: StageScheme, epoch_seconds: float) -> dict[str, Floats]:
    """Return the reported statistics and the minutes of each stage of scorings (n, n_epochs) of time in bed.

    Each is an array (n,), NaN where the statistic does not exist, by the convention ``aasm``.
    """
    n, n_epochs = labels.shape
    minutes = epoch_seconds / 60.0
    values = {quantity.key: np.full(n, NAN) for quantity in REPORTED}
    for index, stage in enumerate(scheme.names):
        values[MINUTES_OF_STAGE.of(stage).key] = (labels == index).sum(axis=1) * minutes
    if scheme.wake is None or not n_epochs:
        return values
    is_scored, is_wake = labels != UNSCORED, labels == scheme.wake_index
    asleep = is_scored & ~is_wake
    n_scored, has_sleep = is_scored.sum(axis=1), asleep.any(axis=1)
    tst = np.where(n_scored > 0, asleep.sum(axis=1) * minutes, NAN)
    first, last = _first(asleep), n_epochs - 1 - _first(asleep[:, ::-1])
    place = np.arange(n_epochs)
    wake_inside = is_wake & (place >= first[:, None]) & (place <= last[:, None])
    begins = wake_inside.copy()
    begins[:, 1:] &= ~is_wake[:, :-1]
    values["tst_minutes"] = tst
    values["waso_minutes"] = np.where(has_sleep, wake_inside.sum(axis=1) * minutes, NAN)
    values["awakenings"] = np.where(has_sleep, begins.sum(axis=1), NAN)
    if n_epochs * minutes < 60.0 * LONGEST_NIGHT_HOURS:
        is_scored_enough = n_scored >= (1.0 - MOST_UNSCORED) * n_epochs
        values["se_percent"] = np.where(is_scored_enough, 100.0 * tst / (n_epochs * minutes), NAN)
        values["sol_minutes"] = np.where(has_sleep, first * minutes, NAN)
        if scheme.rem is not None:
            is_rem = labels == scheme.rem_index
            latency = (_first(is_rem) - first) * minutes
            values["rem_latency_minutes"] = np.where(is_rem.any(axis=1), latency, NAN)
    return values


def _first(flags: Mask) -> Indices:
    """Return the first place that is set in each row; 0 where none is."""
    places: Indices = flags.argmax(axis=1)
    return places
