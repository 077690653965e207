"""Labels of one epoch length told in another. Reads no files."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stageguard import _checks
from stageguard.errors import InputError
from stageguard.hypnogram import UNSCORED

Labels = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float64]

_TIE = 1e-9  # of an epoch: shares that differ by less are the same


def reepoch(labels: npt.ArrayLike, epoch_seconds: float, wanted_seconds: float) -> Labels:
    """Return labels for epochs of another length.

    An epoch gets the stage that holds for most of it. Where two hold equally long it keeps the stage of the
    epoch before it if that is one of them, else takes the one that comes first. It is unscored when less than
    half of it was scored. A rest at the end that is shorter than an epoch is dropped.

    Parameters
    ----------
    labels : array of int (n_epochs,)
        Places in a scheme; -1 where unscored.
    epoch_seconds, wanted_seconds : float
        Length of the epochs given, and of those wanted.

    Returns
    -------
    array of int8
    """
    given = np.asarray(labels)
    old, new = _checks.epoch_seconds(epoch_seconds), _checks.epoch_seconds(wanted_seconds)
    if old == new:
        return given.astype(np.int8)
    n_new = int(len(given) * old / new + _TIE)
    if n_new < 1:
        raise InputError(
            f"{len(given)} labels of {old:g} s last {len(given) * old:g} s, expected one epoch of {new:g} s."
        )
    edges = np.arange(n_new + 1, dtype=np.float64) * new
    stages = np.unique(given[given != UNSCORED])
    if not len(stages):
        return np.full(n_new, UNSCORED, dtype=np.int8)
    # share[k, t]: seconds of new epoch t that stage k holds, from the time it has held until each edge
    share = np.stack([np.diff(_held(given == stage, old, edges)) for stage in stages])
    best = share.max(axis=0)
    result = np.where(share.sum(axis=0) >= new * (0.5 - _TIE), stages[share.argmax(axis=0)], UNSCORED)
    is_tied = (share >= best - new * _TIE).sum(axis=0) > 1
    for epoch in np.flatnonzero(is_tied & (result != UNSCORED)):
        tied = stages[share[:, epoch] >= best[epoch] - new * _TIE]
        first = int(edges[epoch] / old + _TIE)
        inside = given[first : int(np.ceil(edges[epoch + 1] / old - _TIE))]
        stays = epoch and result[epoch - 1] in tied
        result[epoch] = result[epoch - 1] if stays else next(label for label in inside if label in tied)
    return result.astype(np.int8)


def _held(is_stage: npt.NDArray[np.bool_], old: float, edges: Floats) -> Floats:
    """Seconds a stage has held until each edge."""
    until = np.concatenate([[0.0], np.cumsum(is_stage) * old])
    held: Floats = np.interp(edges, np.arange(len(until)) * old, until)
    return held
