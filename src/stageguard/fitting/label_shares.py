"""What experts say where a stager that gives labels alone says each stage, counted on other people's nights.

Nothing that a night is decoded by was counted on the same person: the shares that stand for the labels of a
held-out night are those of the training nights, and those of a training night are of the other groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from stageguard.arrays import Floats
from stageguard.fitting.material import FitNight, Material

_LEAD = 1.001  # a label stays the likeliest stage of its row, however often it is wrong
_DIGITS = 6


def count_shares(nights: Iterable[FitNight], n_stages: int) -> Floats:
    """Return rows of experts' stages by stage said; 1 is added to every count, so that no share is 0."""
    counts = np.ones((n_stages, n_stages))
    for night in nights:
        assert night.said is not None
        for scoring in night.scorings:
            both = (night.said >= 0) & (scoring >= 0)
            np.add.at(counts, (night.said[both], scoring[both]), 1.0)
    others = counts - np.diag(counts.diagonal())
    np.fill_diagonal(counts, np.maximum(counts.diagonal(), _LEAD * others.max(axis=1)))
    shares: Floats = np.round(counts / counts.sum(axis=1, keepdims=True), _DIGITS)
    return shares


def across_groups(material: Material) -> Material:
    """Return nights of labels with rows of shares, those of each group counted on the other groups."""
    if not material.is_of_labels:
        return material
    n_stages, rows = material.scheme.n_stages, dict[str, Floats]()
    for group in material.groups:
        others = [night for night in material.nights if night.group != group]
        rows[group] = count_shares(others or material.nights, n_stages)
    return replace(material, nights=tuple(_with_rows(night, rows[night.group]) for night in material.nights))


def of_training(train: Material, held_out: Material) -> tuple[Material, Material]:
    """Return both sides of a split with rows of shares that only the training nights were counted for."""
    if not train.is_of_labels:
        return train, held_out
    shares = count_shares(train.nights, train.scheme.n_stages)
    nights = tuple(_with_rows(night, shares) for night in held_out.nights)
    return across_groups(train), replace(held_out, nights=nights)


def _with_rows(night: FitNight, shares: Floats) -> FitNight:
    assert night.said is not None
    unknown = np.full((1, len(shares)), np.nan)  # the label of unscored epochs, -1, finds the last row
    matrix = np.concatenate((shares, unknown))[night.said]
    return replace(night, matrix=matrix, logs=np.log(matrix))
