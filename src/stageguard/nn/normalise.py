"""From feature tables to what a network is shown: one scale for all nights, sequences of one length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard.base import checks, schema
from stageguard.base.arrays import Floats, Floats32, Ints, Mask
from stageguard.base.errors import InputError, did_you_mean
from stageguard.night.hypnogram import UNSCORED
from stageguard.nn.feature_table import FeatureTable

CLIP = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Normalised epochs that follow each other in time, from one recording."""

    features: Floats32  # (n_epochs, n_frames, n_features)
    labels: Ints  # (n_epochs,)


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Each night's own z-scores, clipped; absolute features keep their level across nights.

    Those mean the same every night, such as the clock, and are scaled as the training nights were.
    """

    absolute: tuple[str, ...] = schema.words()
    mean: tuple[float, ...] = schema.numbers()  # of the absolute features
    spread: tuple[float, ...] = schema.numbers()
    clip: float = schema.number(CLIP, positive=True)  # largest distance from 0 afterwards
    kind: str = schema.choice("night", "night")  # over what features are standardised

    def __post_init__(self) -> None:
        """Check that there is a mean and a spread for each absolute feature."""
        for name in ("mean", "spread"):
            values = getattr(self, name)
            if len(values) != len(self.absolute):
                raise InputError(
                    f"{name} has {len(values)} numbers for {len(self.absolute)} absolute features, expected "
                    "one for each."
                )
            for feature, value in zip(self.absolute, values, strict=True):
                checks.number(value, f"{name} of {feature!r}", positive=name == "spread")
        schema.check_fields(self)

    @classmethod
    def fit(
        cls, tables: Iterable[FeatureTable], absolute: Sequence[str] = (), clip: float = CLIP
    ) -> Normalisation:
        """Measure the absolute features on training recordings."""
        tables, absolute = list(tables), tuple(absolute)
        for name in absolute:
            if name not in tables[0].names:
                hint = did_you_mean(name, tables[0].names)
                raise InputError(f"absolute feature {name!r} is not among the features.{hint}")
        columns = [tables[0].names.index(name) for name in absolute]
        values = np.concatenate([table.features[table.has_signal][..., columns] for table in tables])
        mean, spread = _moments(values)
        return cls(absolute, tuple(mean.tolist()), tuple(spread.tolist()), clip)

    def __call__(self, table: FeatureTable) -> Floats32:
        """Return the table's features on the common scale; epochs without signal stay NaN."""
        mean, spread = _moments(table.features[table.has_signal])
        columns = [table.names.index(name) for name in self.absolute]
        mean[columns], spread[columns] = self.mean, self.spread
        scaled = (table.features - mean) / spread
        return np.asarray(np.clip(scaled, -self.clip, self.clip), dtype=np.float32)

    def stretches(self, tables: Iterable[FeatureTable]) -> list[Stretch]:
        """Return the unbroken stretches of recordings, each recording on the common scale."""
        made: list[Stretch] = []
        for table in tables:
            scaled = self(table)
            labels = np.full(table.n_epochs, UNSCORED) if table.labels is None else table.labels
            made += [Stretch(scaled[a:b], labels[a:b]) for a, b in table.stretches()]
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        plain: dict[str, Any] = schema.plain_table(self)
        return plain

    @classmethod
    def from_dict(cls, document: object) -> Normalisation:
        """Return what `to_dict` described."""
        return schema.read_table(cls, document, "normalisation", complete=True)


def _moments(values: Floats32) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each feature; a constant feature gets spread 1."""
    flat = values.astype(np.float64).reshape(values.shape[0] * values.shape[1], values.shape[2])
    mean, spread = flat.mean(axis=0), flat.std(axis=0)
    return mean, np.where(spread > 1e-9 * np.maximum(1.0, np.abs(mean)), spread, 1.0)


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
