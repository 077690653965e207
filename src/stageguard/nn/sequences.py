"""Sequences of one length, cut from whole recordings and padded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats32, Ints, Mask
from stageguard.night.hypnogram import UNSCORED


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Normalised epochs that follow each other in time, from one recording."""

    features: Floats32  # (n_epochs, n_frames, n_features)
    labels: Ints  # (n_epochs,)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Sequences of one length; `mask` is True on scored epochs and False on padding."""

    features: Floats32  # (n_sequences, length, n_frames, n_features)
    labels: Ints  # (n_sequences, length), -1 where masked
    mask: Mask  # (n_sequences, length)


def cut_windows(n_epochs: int, length: int, offset: int = 0) -> list[int]:
    """Return first epochs of windows that cover a stretch; all are whole unless the stretch is shorter."""
    if n_epochs <= length:
        return [0]
    starts = np.clip(np.arange(offset - length, n_epochs, length), 0, n_epochs - length)
    return [int(start) for start in np.unique(starts)]


def round_of_batches(
    stretches: Sequence[Stretch], length: int, batch_size: int, seed: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """Return one pass over all stretches, cut at random places and shuffled: batches of (stretch, start)."""
    rng = np.random.default_rng(list(seed))
    windows = [
        (index, start)
        for index, stretch in enumerate(stretches)
        for start in cut_windows(len(stretch.labels), length, int(rng.integers(length)))
    ]
    windows = [w for w in windows if (stretches[w[0]].labels[w[1] : w[1] + length] >= 0).any()]
    # batches of nearly one size: one left over with a single sequence would upset batch normalisation
    parts = np.array_split(rng.permutation(len(windows)), -(-len(windows) // batch_size))
    return [[windows[i] for i in part] for part in parts]


def make_batch(stretches: Sequence[Stretch], windows: Sequence[tuple[int, int]], length: int) -> Batch:
    """Stack windows, padded with zeros behind their end; padding is unscored."""
    shape = (len(windows), length, *stretches[0].features.shape[1:])
    features = np.zeros(shape, dtype=np.float32)
    labels = np.full(shape[:2], UNSCORED, dtype=np.int64)
    for row, (index, start) in enumerate(windows):
        stretch = stretches[index]
        n_here = min(length, len(stretch.labels) - start)
        features[row, :n_here] = stretch.features[start : start + n_here]
        labels[row, :n_here] = stretch.labels[start : start + n_here]
    return Batch(features, labels, labels >= 0)
