"""The statistics of many drawn nights at once, and how well a score tells wrong epochs from right ones."""

from __future__ import annotations

import numpy as np

from stageguard.measures.statistics import FIRST_REM_SECONDS
from stageguard.night.stages import StageScheme


def statistics(labels: np.ndarray, scheme: StageScheme, epoch_seconds: float = 30.0) -> dict[str, np.ndarray]:
    """Return the statistics that get intervals of nights (n, n_epochs), by the AASM's definitions.

    Sleep or REM that never comes is infinitely late. They equal those of `stageguard.sleep_statistics`.
    """
    minutes, n_epochs = epoch_seconds / 60.0, labels.shape[1]
    is_wake, is_scored = labels == scheme.wake_index, labels >= 0
    asleep = is_scored & ~is_wake
    first, last = _first(asleep), n_epochs - 1 - _first(asleep[:, ::-1])
    has_sleep = asleep.any(axis=1)
    place = np.arange(n_epochs)
    inside = (place >= first[:, None]) & (place <= last[:, None]) & has_sleep[:, None]
    wake_inside = is_wake & inside
    begins = wake_inside.copy()
    begins[:, 1:] &= labels[:, 1:] != labels[:, :-1]
    values = {
        "tst_minutes": asleep.sum(axis=1) * minutes,
        "sol_minutes": np.where(has_sleep, first * minutes, np.inf),
        "waso_minutes": wake_inside.sum(axis=1) * minutes,
        "awakenings": begins.sum(axis=1).astype(float),
    }
    values["se_percent"] = 100.0 * values["tst_minutes"] / (n_epochs * minutes)
    if scheme.rem_index is not None:
        is_rem = labels == scheme.rem_index
        rem = np.where(is_rem.any(axis=1), _first(is_rem), np.inf)
        onset = np.where(has_sleep, first, 0)
        values["rem_latency_minutes"] = (rem - onset) * minutes
        n_lasting = round(FIRST_REM_SECONDS / epoch_seconds)
        counts = np.cumsum(np.pad(is_rem, ((0, 0), (1, 0))), axis=1)
        lasts = counts[:, n_lasting:] - counts[:, :-n_lasting] == n_lasting
        lasting = np.where(lasts.any(axis=1), _first(lasts), np.inf)
        values["rem_latency_bout_minutes"] = (lasting - onset) * minutes
    changes = np.ones(labels.shape, dtype=bool)
    changes[:, 1:] = labels[:, 1:] != labels[:, :-1]
    for index, stage in enumerate(scheme.names):
        values[f"minutes_{stage}"] = (labels == index).sum(axis=1) * minutes
        values[f"bouts_{stage}"] = ((labels == index) & changes).sum(axis=1).astype(float)
    return values


def _first(flags: np.ndarray) -> np.ndarray:
    return flags.argmax(axis=1)


def auroc(scores: np.ndarray, is_wrong: np.ndarray) -> float:
    """Return the chance that a wrong epoch scores above a right one; NaN if all are the same."""
    n_wrong = int(is_wrong.sum())
    if n_wrong in (0, len(is_wrong)):
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # of ties, the mean
    total = ranks[is_wrong].sum() - n_wrong * (n_wrong + 1) / 2
    return float(total / (n_wrong * (len(is_wrong) - n_wrong)))
