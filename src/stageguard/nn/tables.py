"""Features of many recordings: checks, splits by subject, normalisation, and sequences for a network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stageguard import checks, schema
from stageguard.arrays import Floats, Floats32, Ints, Mask
from stageguard.errors import InputError, did_you_mean
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.stages import StageScheme
from stageguard.signals.features import Features


def check_together(tables: Sequence[Features]) -> None:
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
        if table.names != first.names or table.values.shape[1] != first.values.shape[1]:
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


def epoch_length(tables: Sequence[Features], asked_seconds: float | None = None) -> float | None:
    """Return the epoch length of the options (`asked_seconds`), else of the tables; all must agree."""
    timed = [table for table in tables if table.epoch_seconds is not None]
    for table in timed:
        other, seconds = "epoch_seconds", asked_seconds
        if asked_seconds is None:
            other, seconds = timed[0].recording, timed[0].epoch_seconds
        if table.epoch_seconds != seconds:
            raise InputError(
                f"{table.recording}: has epochs of {table.epoch_seconds:g} s and {other} {seconds:g} s. "
                "Compute all features by one recipe."
            )
    return timed[0].epoch_seconds if asked_seconds is None and timed else asked_seconds


def take_subjects(
    tables: Sequence[Features], named: Sequence[str], what: str
) -> tuple[list[Features], list[Features]]:
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
    tables: Sequence[Features], share: float, seed: int
) -> tuple[list[Features], list[Features]]:
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


def fingerprint(tables: Iterable[Features]) -> str:
    """Return a SHA-256 of all training data, so that a run is resumed only with the same data."""
    digest = hashlib.sha256()
    for table in tables:
        scheme = None if table.scheme is None else table.scheme.names
        about = (table.recording, table.subject, table.names, scheme, table.epoch_seconds, table.recipe)
        digest.update(json.dumps(about, sort_keys=True, default=str).encode())
        for array in (table.values, table.epochs, table.labels):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def count_labels(tables: Iterable[Features], scheme: StageScheme) -> Ints:
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

    values: Floats32  # (n_epochs, n_frames, n_features)
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
    # unit over which features are standardised; "none" leaves them as their recipe made them
    kind: str = schema.choice("night", "night", "none")

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
        cls, tables: Iterable[Features], absolute: Sequence[str] = (), clip: float = CLIP
    ) -> Normalisation:
        """Measure mean and spread of the absolute features on training recordings."""
        tables, absolute = list(tables), tuple(absolute)
        for name in absolute:
            if name not in tables[0].names:
                hint = did_you_mean(name, tables[0].names)
                raise InputError(f"absolute feature {name!r} is not among the features.{hint}")
        columns = [tables[0].names.index(name) for name in absolute]
        values = np.concatenate([table.values[table.has_signal][..., columns] for table in tables])
        mean, spread = _moments(values)
        return cls(absolute, tuple(mean.tolist()), tuple(spread.tolist()), clip)

    def __call__(self, table: Features) -> Floats32:
        """Return the table's features on the common scale; epochs without signal stay NaN."""
        if self.kind == "none":
            return np.asarray(table.values, dtype=np.float32)
        mean, spread = _moments(table.values[table.has_signal])
        columns = [table.names.index(name) for name in self.absolute]
        mean[columns], spread[columns] = self.mean, self.spread
        scaled = (table.values - mean) / spread
        return np.asarray(np.clip(scaled, -self.clip, self.clip), dtype=np.float32)

    def stretches(self, tables: Iterable[Features]) -> list[Stretch]:
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
    shape = (len(windows), length, *stretches[0].values.shape[1:])
    features = np.zeros(shape, dtype=np.float32)
    labels = np.full(shape[:2], UNSCORED, dtype=np.int64)
    for row, (index, start) in enumerate(windows):
        stretch = stretches[index]
        n_here = min(length, len(stretch.labels) - start)
        features[row, :n_here] = stretch.values[start : start + n_here]
        labels[row, :n_here] = stretch.labels[start : start + n_here]
    return features, labels, labels >= 0
