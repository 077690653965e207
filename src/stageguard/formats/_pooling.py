"""Join the short epochs that some stagers write into longer ones. Splits none."""

from __future__ import annotations

import warnings

import numpy as np

from stageguard.errors import InputError, StageGuardWarning
from stageguard.hypnodensity import Hypnodensity
from stageguard.merging import reepoch


def pool(density: Hypnodensity, seconds: float) -> tuple[Hypnodensity, tuple[str, ...]]:
    """Mean probabilities over epochs of `seconds`, counted from the first row, and what was left out.

    The rule is that of `stageguard.merging.reepoch`: where some rows of a longer epoch have no evidence, the
    mean is over the others, and an epoch with less than half of it has none. Rows that do not fill a last
    epoch are dropped.
    """
    ratio = seconds / density.epoch_seconds
    n_joined = round(ratio)
    if n_joined < 1 or abs(ratio - n_joined) > 1e-6 * n_joined:
        raise InputError(
            f"rows of {density.epoch_seconds:g} s cannot be pooled to {seconds:g} s, expected a whole "
            f"multiple such as {density.epoch_seconds * max(2, n_joined):g}. Leave it out, or correct it."
        )
    if n_joined == 1:
        return density, ()
    n_epochs, n_left = divmod(density.n_epochs, n_joined)
    if not n_epochs:
        raise InputError(
            f"{density.n_epochs} rows of {density.epoch_seconds:g} s do not fill one epoch of {seconds:g} s."
        )
    has_evidence = ~np.isnan(density.probabilities[: n_epochs * n_joined, 0])
    n_known = has_evidence.reshape(n_epochs, n_joined).sum(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)  # what is left out is a note here
        pooled = reepoch(density, seconds)
    notes = [f"{n_joined} rows of {density.epoch_seconds:g} s averaged to one epoch of {seconds:g} s"]
    is_kept = ~np.isnan(pooled.probabilities[:, 0])
    n_partly = int(np.count_nonzero(is_kept & (n_known < n_joined)))
    if n_partly:
        notes.append(f"{n_partly:,} of these epochs averaged from the rows that have evidence")
    n_sparse = int(np.count_nonzero(~is_kept & (n_known > 0)))
    if n_sparse:
        notes.append(f"{n_sparse:,} of them have evidence in less than half of their rows: left without")
    if n_left:
        notes.append(f"{n_left} row{'s' * (n_left != 1)} at the end fill no epoch: dropped")
    return pooled, tuple(notes)
