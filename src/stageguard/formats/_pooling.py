"""Join the short epochs that some stagers write into longer ones. Splits none."""

from __future__ import annotations

import dataclasses

import numpy as np

from stageguard.errors import InputError
from stageguard.hypnodensity import Hypnodensity


def pool(density: Hypnodensity, seconds: float) -> tuple[Hypnodensity, tuple[str, ...]]:
    """Mean probabilities over epochs of `seconds`, counted from the first row, and what was left out.

    Where some rows of a longer epoch have no evidence, the mean is over the others. Rows that do not fill a
    last epoch are dropped.
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
    rows = density.probabilities[: n_epochs * n_joined].reshape(n_epochs, n_joined, -1)
    known = ~np.isnan(rows[:, :, 0])
    n_known = known.sum(axis=1)
    with np.errstate(invalid="ignore"):
        pooled = np.where(known[:, :, None], rows, 0.0).sum(axis=1) / n_known[:, None]
    notes = [f"{n_joined} rows of {density.epoch_seconds:g} s averaged to one epoch of {seconds:g} s"]
    n_partly = int(np.count_nonzero((n_known > 0) & (n_known < n_joined)))
    if n_partly:
        notes.append(f"{n_partly:,} of these epochs averaged from the rows that have evidence")
    if n_left:
        notes.append(f"{n_left} row{'s' * (n_left != 1)} at the end fill no epoch: dropped")
    return dataclasses.replace(density, probabilities=pooled, epoch_seconds=float(seconds)), tuple(notes)
