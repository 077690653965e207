"""The features of one recording, epoch by epoch, with its stages and subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import Floats32, Ints, Mask
from stageguard.base.errors import InputError
from stageguard.formats.tables.timing import MOST_MISSING
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Features of one recording, epoch by epoch, and its expert stages where known.

    An epoch without any signal is NaN throughout; a number missing here and there is an error.
    """

    recording: str  # its name
    subject: str | None  # training refuses tables without: it keeps the nights of one person together
    features: Floats32 = field(repr=False)  # (n_epochs, n_frames, n_features)
    names: tuple[str, ...] = field(repr=False)  # of the features
    epochs: Ints | None = field(repr=False, default=None)  # index of each in the recording, with gaps
    labels: Ints | None = field(repr=False, default=None)  # index in the scheme, -1 where unscored
    scheme: StageScheme | None = None
    epoch_seconds: float | None = None
    recipe: Mapping[str, Any] | None = field(repr=False, default=None)  # as a recipe file says it
    start: datetime | None = None  # of epoch 0

    def __post_init__(self) -> None:
        """Check shapes and numbers."""
        where, names = self.recording, tuple(self.names)
        features = _checked_features(where, self.features, names)
        n_epochs = len(features)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "epochs", _checked_epochs(where, self.epochs, n_epochs))
        if self.labels is not None:
            if self.scheme is None:
                raise InputError(f"{where}: has labels but no scheme to say what they mean. Give scheme.")
            object.__setattr__(self, "labels", _checked_labels(where, self.labels, n_epochs, self.scheme))
        if self.epoch_seconds is not None:
            try:
                object.__setattr__(self, "epoch_seconds", checks.epoch_seconds(self.epoch_seconds))
            except InputError as error:
                raise InputError(f"{where}: {error}") from None

    @property
    def n_epochs(self) -> int:
        """Number of epochs in the table."""
        return len(self.features)

    @property
    def has_signal(self) -> Mask:
        """Whether each epoch has features at all."""
        return ~np.isnan(self.features[:, 0, 0])

    def stretches(self) -> list[tuple[int, int]]:
        """Return rows ``(first, end)`` of each stretch of epochs that follow each other and have a signal."""
        assert self.epochs is not None
        rows = np.flatnonzero(self.has_signal)
        if not len(rows):
            return []
        breaks = np.flatnonzero(np.diff(self.epochs[rows]) != 1) + 1
        return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(rows, breaks)]


def _checked_features(where: str, given: npt.ArrayLike, names: Sequence[str]) -> Floats32:
    """Return numbers as (epochs, frames, features) in single precision."""
    values = np.asarray(given)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{where}: features are {values.dtype}, expected real numbers.")
    values = values[:, None, :] if values.ndim == 2 else values
    if values.ndim != 3 or 0 in values.shape:
        raise InputError(
            f"{where}: features have shape {values.shape}, expected (epochs, features) or "
            "(epochs, frames, features) with at least one of each."
        )
    if len(names) != values.shape[2] or len(set(names)) != len(names):
        raise InputError(
            f"{where}: {len(set(names))} different feature names for {values.shape[2]} features. "
            "Give each its own."
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is named below
        features = values.astype(np.float32)
    bad = ~np.isfinite(features)
    empty = np.isnan(features).all(axis=(1, 2))
    bad[empty] = False
    if bad.any():
        row, frame, column = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{where}: feature {names[column]!r} is {values[row, frame, column]} in epoch {row}, "
            "expected a number. Fill it, or leave all features of an epoch without signal empty."
        )
    if empty.all():
        raise InputError(f"{where}: no epoch has a feature. Expected at least one epoch with a signal.")
    return features


def _checked_epochs(where: str, given: npt.ArrayLike | None, n_epochs: int) -> Ints:
    values = np.arange(n_epochs) if given is None else np.asarray(given)
    epochs = values.astype(np.int64) if values.dtype.kind in "iu" else np.zeros(0, dtype=np.int64)
    if epochs.shape != (n_epochs,) or (np.diff(epochs) < 1).any():
        raise InputError(f"{where}: epoch indices are not {n_epochs} increasing whole numbers. Sort them.")
    n_missing = int(epochs[-1]) - int(epochs[0]) + 1 - n_epochs
    if n_missing > MOST_MISSING:
        row = int(np.argmax(np.diff(epochs))) + 1
        raise InputError(
            f"{where}: epoch {epochs[row]} comes after {epochs[row - 1]}, so that {n_missing:,} are missing; "
            f"expected at most {MOST_MISSING:,}. Are the indices right?"
        )
    return epochs


def _checked_labels(where: str, labels: npt.ArrayLike, n_epochs: int, scheme: StageScheme) -> Ints:
    values = np.asarray(labels)
    if values.shape != (n_epochs,) or values.dtype.kind not in "iu":
        raise InputError(
            f"{where}: labels have shape {values.shape} of {values.dtype}, expected {n_epochs} whole numbers."
        )
    wrong = (values < UNSCORED) | (values >= scheme.n_stages)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{where}: label {values[row]} in epoch {row} is out of range, expected 0 to "
            f"{scheme.n_stages - 1} ({', '.join(scheme.names)}) or -1 where unscored."
        )
    return values.astype(np.int64)
