"""Many feature tables as one training set: do they fit together, who is kept aside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import numpy as np

from stageguard.base.arrays import Ints
from stageguard.base.errors import InputError
from stageguard.night.stages import StageScheme
from stageguard.nn.feature_table import FeatureTable


def check_together(tables: Sequence[FeatureTable]) -> None:
    """Refuse tables that cannot train one network: other features, epochs or stages, or no subject."""
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
    """Return the seconds of an epoch that the options said, or that the tables know; all must agree."""
    knowing = [table for table in tables if table.epoch_seconds is not None]
    for table in knowing:
        if said is not None and table.epoch_seconds != said:
            raise InputError(
                f"{table.recording}: has epochs of {table.epoch_seconds:g} s, but epoch_seconds is {said:g}. "
                "Leave it out, or compute the features anew."
            )
        if table.epoch_seconds != knowing[0].epoch_seconds:
            raise InputError(
                f"{table.recording}: has epochs of {table.epoch_seconds:g} s and {knowing[0].recording} of "
                f"{knowing[0].epoch_seconds:g} s. Compute them all by one recipe."
            )
    return knowing[0].epoch_seconds if said is None and knowing else said


def absolute_features(table: FeatureTable) -> tuple[str, ...]:
    """Return the features whose level means the same in every recording, by the table's recipe."""
    patterns = () if table.recipe is None else table.recipe.get("absolute", ())
    return tuple(name for name in table.names if any(fnmatchcase(name, pattern) for pattern in patterns))


def split_subjects(
    tables: Sequence[FeatureTable], share: float, seed: int
) -> tuple[list[FeatureTable], list[FeatureTable]]:
    """Split recordings into training and validation, each subject wholly on one side."""
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
    """Return a SHA-256 of all that training sees, so that it resumes on the same data only."""
    digest = hashlib.sha256()
    for table in tables:
        scheme = None if table.scheme is None else table.scheme.names
        about = (table.recording, table.subject, table.names, scheme, table.epoch_seconds, table.recipe)
        digest.update(json.dumps(about, sort_keys=True, default=str).encode())
        for array in (table.features, table.epochs, table.labels):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def count_labels(tables: Iterable[FeatureTable], scheme: StageScheme) -> Ints:
    """Return how many epochs with a signal each stage has; a stage without any is an error."""
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
