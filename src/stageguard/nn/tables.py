"""Feature tables of recordings: checks, splits by subject, normalisation, and sequences for a network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base import checks, schema
from stageguard.base.arrays import Floats, Floats32, Ints, Mask
from stageguard.base.errors import EpochNumber, InputError, Message, did_you_mean
from stageguard.formats.tables.timing import MOST_MISSING
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Features of one recording, epoch by epoch, and the expert's stages if known.

    An epoch without a signal is NaN throughout. A single missing number is an error.
    """

    recording: str  # name of the recording
    subject: str | None  # required in training, to keep the nights of one person together
    features: Floats32 = field(repr=False)  # (n_epochs, n_frames, n_features)
    names: tuple[str, ...] = field(repr=False)  # of the features
    epochs: Ints | None = field(repr=False, default=None)  # indices in the recording, with gaps
    labels: Ints | None = field(repr=False, default=None)  # index in the scheme, -1 where unscored
    scheme: StageScheme | None = None
    epoch_seconds: float | None = None
    recipe: Mapping[str, Any] | None = field(repr=False, default=None)  # the recipe's document
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
        """Return rows ``(first, end)`` of each stretch of consecutive epochs with a signal."""
        assert self.epochs is not None
        rows = np.flatnonzero(self.has_signal)
        if not len(rows):
            return []
        breaks = np.flatnonzero(np.diff(self.epochs[rows]) != 1) + 1
        return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(rows, breaks)]


def _checked_features(where: str, given: npt.ArrayLike, names: Sequence[str]) -> Floats32:
    """Return features as (epochs, frames, features) in single precision."""
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
    with np.errstate(over="ignore"):  # too large numbers become infinite and are reported below
        features = values.astype(np.float32)
    bad = ~np.isfinite(features)
    empty = np.isnan(features).all(axis=(1, 2))
    bad[empty] = False
    if bad.any():
        row, frame, column = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            Message(
                f"{where}: feature {names[column]!r} is {values[row, frame, column]} in epoch ",
                EpochNumber(row),
                ", expected a number. Fill it, or leave all features of an epoch without signal empty.",
            )
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
            Message(
                *(
                    f"{where}: label {values[row]} in epoch ",
                    EpochNumber(row),
                    " is out of range, expected 0 to ",
                ),
                f"{scheme.n_stages - 1} ({', '.join(scheme.names)}) or -1 where unscored.",
            )
        )
    return values.astype(np.int64)


def check_together(tables: Sequence[FeatureTable]) -> None:
    """Refuse tables that cannot train one network: different features, epochs or stages, or no subject."""
    if not tables:
        raise InputError("there is no recording to train on. Give at least two, of different subjects.")
    first = tables[0]
    for table in tables:
        if table.subject is None:
            raise InputError(
                f"{table.recording}: does not say whose it is. Add a column 'subject', so that the nights of "
                "one person are never on both sides of a split."
            )
        if table.labels is None or (table.labels < 0).all():
            raise InputError(
                f"{table.recording}: has no scored epoch. Add a column 'stage', or leave it out."
            )
        if table.scheme != first.scheme:
            raise InputError(f"{table.recording}: its stages are not those of {first.recording}.")
        if table.names != first.names or table.features.shape[1] != first.features.shape[1]:
            odd = sorted(set(table.names) ^ set(first.names))
            detail = f"{odd[0]!r} is in one of them only" if odd else "they are in another order or framing"
            raise InputError(
                f"{table.recording}: its features are not those of {first.recording}: {detail}. "
                "Compute them all by one recipe."
            )
        if table.recipe != first.recipe:
            raise InputError(
                f"{table.recording}: its features were computed by another recipe than those of "
                f"{first.recording}. Compute them all by one recipe."
            )
    epoch_length(tables)


def epoch_length(tables: Sequence[FeatureTable], said: float | None = None) -> float | None:
    """Return the epoch length of the options (``said``), else of the tables; all must agree."""
    knowing = [table for table in tables if table.epoch_seconds is not None]
    for table in knowing:
        other, seconds = ("epoch_seconds", said) if said else (knowing[0].recording, knowing[0].epoch_seconds)
        if table.epoch_seconds != seconds:
            raise InputError(
                f"{table.recording}: has epochs of {table.epoch_seconds:g} s and {other} {seconds:g} s. "
                "Compute all features by one recipe."
            )
    return knowing[0].epoch_seconds if said is None and knowing else said


def absolute_features(table: FeatureTable) -> tuple[str, ...]:
    """Return the features whose level means the same in every recording, by the table's recipe."""
    patterns = () if table.recipe is None else table.recipe.get("absolute", ())
    return tuple(name for name in table.names if any(fnmatchcase(name, pattern) for pattern in patterns))


def take_subjects(
    tables: Sequence[FeatureTable], named: Sequence[str], what: str
) -> tuple[list[FeatureTable], list[FeatureTable]]:
    """Return the recordings of all other subjects, and those of the named subjects."""
    subjects = {str(table.subject) for table in tables}
    for name in named:
        if name not in subjects:
            known = ", ".join(sorted(subjects)[:5]) + (", ..." if len(subjects) > 5 else "")
            raise InputError(
                f"{what} names {name!r}, of whom there is no recording. There are: {known}."
                f"{did_you_mean(name, subjects)}"
            )
    others = [table for table in tables if table.subject not in named]
    if not others:
        raise InputError(f"{what} names every subject, expected others to train on. Leave some out.")
    return others, [table for table in tables if table.subject in named]


def split_subjects(
    tables: Sequence[FeatureTable], share: float, seed: int
) -> tuple[list[FeatureTable], list[FeatureTable]]:
    """Split recordings into training and validation; all recordings of a subject are on one side."""
    subjects = sorted({str(table.subject) for table in tables})
    if len(subjects) < 2:
        raise InputError(
            f"there is one subject ({', '.join(subjects)}), expected at least 2: one validates what the "
            "others train. Add recordings of other people."
        )
    n_validating = min(max(1, round(share * len(subjects))), len(subjects) - 1)
    validating = set(np.random.default_rng(seed).permutation(subjects)[:n_validating].tolist())
    return (
        [table for table in tables if table.subject not in validating],
        [table for table in tables if table.subject in validating],
    )


def fingerprint(tables: Iterable[FeatureTable]) -> str:
    """Return a SHA-256 of all training data, so that a run is resumed only with the same data."""
    digest = hashlib.sha256()
    for table in tables:
        scheme = None if table.scheme is None else table.scheme.names
        about = (table.recording, table.subject, table.names, scheme, table.epoch_seconds, table.recipe)
        digest.update(json.dumps(about, sort_keys=True, default=str).encode())
        for array in (table.features, table.epochs, table.labels):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def count_labels(tables: Iterable[FeatureTable], scheme: StageScheme) -> Ints:
    """Return the number of epochs with a signal per stage; a stage without any is an error."""
    counts = np.zeros(scheme.n_stages, dtype=np.int64)
    n_tables = 0
    for table in tables:
        assert table.labels is not None
        seen = table.labels[table.has_signal & (table.labels >= 0)]
        counts += np.bincount(seen, minlength=scheme.n_stages)
        n_tables += 1
    if (counts == 0).any():
        absent = scheme.names[int(np.argmin(counts))]
        raise InputError(
            f"stage {absent} does not occur in the {n_tables} training recordings, so it cannot be learned. "
            "Add recordings that have it, or choose a profile without it."
        )
    return counts


CLIP = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Normalised consecutive epochs of one recording."""

    features: Floats32  # (n_epochs, n_frames, n_features)
    labels: Ints  # (n_epochs,)


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Clipped z-scores of each night; absolute features keep their level across nights.

    Absolute features, such as the clock, mean the same every night. They are scaled by the training nights.
    """

    absolute: tuple[str, ...] = schema.words()
    mean: tuple[float, ...] = schema.numbers()  # of the absolute features
    spread: tuple[float, ...] = schema.numbers()
    clip: float = schema.number(CLIP, positive=True)  # largest scaled value, positive or negative
    kind: str = schema.choice("night", "night")  # unit over which features are standardised

    def __post_init__(self) -> None:
        """Check that there is a mean and a spread for each absolute feature."""
        schema.check_fields(self)
        for name in ("mean", "spread"):
            values = getattr(self, name)
            if len(values) != len(self.absolute):
                raise InputError(
                    f"{name} has {len(values)} numbers for {len(self.absolute)} absolute features, expected "
                    "one for each."
                )
        for feature, value in zip(self.absolute, self.spread, strict=True):
            checks.number(value, f"spread of {feature!r}", positive=True)

    @classmethod
    def fit(
        cls, tables: Iterable[FeatureTable], absolute: Sequence[str] = (), clip: float = CLIP
    ) -> Normalisation:
        """Measure mean and spread of the absolute features on training recordings."""
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
        """Return the unbroken stretches of recordings, on the common scale."""
        made: list[Stretch] = []
        for table in tables:
            scaled = self(table)
            labels = np.full(table.n_epochs, UNSCORED) if table.labels is None else table.labels
            made += [Stretch(scaled[a:b], labels[a:b]) for a, b in table.stretches()]
        return made


def _moments(values: Floats32) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each feature; a constant feature gets spread 1."""
    flat = values.astype(np.float64).reshape(values.shape[0] * values.shape[1], values.shape[2])
    mean, spread = flat.mean(axis=0), flat.std(axis=0)
    return mean, np.where(spread > 1e-9 * np.maximum(1.0, np.abs(mean)), spread, 1.0)


def cut_windows(n_epochs: int, length: int, offset: int = 0) -> list[int]:
    """Return the first epochs of windows that cover a stretch; only a short stretch is not filled."""
    if n_epochs <= length:
        return [0]
    starts = np.clip(np.arange(offset - length, n_epochs, length), 0, n_epochs - length)
    return [int(start) for start in np.unique(starts)]


def round_of_batches(
    stretches: Sequence[Stretch], length: int, batch_size: int, seed: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """Return one pass over all stretches, cut at random offsets and shuffled: batches of (stretch, start)."""
    rng = np.random.default_rng(list(seed))
    windows = [
        (index, start)
        for index, stretch in enumerate(stretches)
        for start in cut_windows(len(stretch.labels), length, int(rng.integers(length)))
    ]
    windows = [w for w in windows if (stretches[w[0]].labels[w[1] : w[1] + length] >= 0).any()]
    # batches of nearly equal size: a last batch of a single sequence would upset batch normalisation
    parts = np.array_split(rng.permutation(len(windows)), -(-len(windows) // batch_size))
    return [[windows[i] for i in part] for part in parts]


def make_batch(
    stretches: Sequence[Stretch], windows: Sequence[tuple[int, int]], length: int
) -> tuple[Floats32, Ints, Mask]:
    """Return features and labels of windows, padded at the end, and which epochs are scored."""
    shape = (len(windows), length, *stretches[0].features.shape[1:])
    features = np.zeros(shape, dtype=np.float32)
    labels = np.full(shape[:2], UNSCORED, dtype=np.int64)
    for row, (index, start) in enumerate(windows):
        stretch = stretches[index]
        n_here = min(length, len(stretch.labels) - start)
        features[row, :n_here] = stretch.features[start : start + n_here]
        labels[row, :n_here] = stretch.labels[start : start + n_here]
    return features, labels, labels >= 0
