"""Recordings as the feature tables a network learns from. Reads no files and trains nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Ints
from stageguard.base.errors import FileFormatError, InputError, StageGuardError
from stageguard.base.files import faults_named
from stageguard.datasets import Entry, entries
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording
from stageguard.night.stages import StageScheme
from stageguard.nn.feature_table import FeatureTable
from stageguard.signals.features import Recipe, features


def table_of(
    recording: Recording,
    recipe: Recipe,
    *,
    scheme: StageScheme | None = None,
    epoch_seconds: float | None = None,
) -> FeatureTable:
    """Return the features of a recording, with its expert stages where a scheme is asked for.

    Parameters
    ----------
    recording : Recording
        With the channels the recipe needs.
    recipe : Recipe
        How to compute them.
    scheme : StageScheme, optional
        The stages wanted; finer ones are merged. Several scorers are merged by their soft agreement.
    epoch_seconds : float, optional
        Length of an epoch; the recipe's by default. Scorings must have it.

    Returns
    -------
    FeatureTable
        From the first epoch of the recording to its last. Epochs the scoring does not reach are unscored.
    """
    made = features(recording, recipe, epoch_seconds=epoch_seconds)
    labels = None if scheme is None else _labels(recording, scheme, made.epoch_seconds, made.n_epochs)
    return FeatureTable(
        recording.id,
        recording.subject,
        made.values,
        made.names,
        labels=labels,
        scheme=scheme if labels is not None else None,
        epoch_seconds=made.epoch_seconds,
        recipe=made.recipe.to_dict(),
        start=recording.start,
    )


def _labels(recording: Recording, scheme: StageScheme, epoch_seconds: float, n_epochs: int) -> Ints | None:
    if not recording.scorings:
        return None
    nights = [_fitting(recording, night, epoch_seconds) for night in recording.scorings.values()]
    try:
        scored = (nights[0] if len(nights) == 1 else consensus(nights)).merge(scheme)
    except InputError as error:
        raise InputError(f"{recording.id}: {error}") from None
    labels = np.full(n_epochs, UNSCORED, dtype=np.int64)
    n_both = min(n_epochs, scored.n_epochs)
    labels[:n_both] = scored.labels[:n_both]
    return labels


def _fitting(recording: Recording, night: Hypnogram, epoch_seconds: float) -> Hypnogram:
    if abs(night.epoch_seconds - epoch_seconds) > 1e-6:
        raise InputError(
            f"{recording.id}: is scored in epochs of {night.epoch_seconds:g} s and features have "
            f"{epoch_seconds:g} s. Set epoch_seconds to {night.epoch_seconds:g}."
        )
    return night


def dataset_tables(
    name: str,
    folder: Path,
    recipe: Recipe,
    scheme: StageScheme,
    *,
    epoch_seconds: float | None = None,
    on_recording: Callable[[Entry, Exception | None], None] | None = None,
) -> list[FeatureTable]:
    """Return the feature tables of a dataset's scored recordings, computed one recording at a time.

    Parameters
    ----------
    name, folder : str, Path
        Which dataset, and where its local copy is.
    recipe, scheme, epoch_seconds
        As in `table_of`.
    on_recording : callable, optional
        Told of every recording that was read, or with the error that kept it out.
    """
    tables, n_found = [], 0
    for entry in entries(name, folder):
        n_found += 1
        failure: Exception | None = None
        try:
            with faults_named(entry.id):
                table = table_of(entry.read(), recipe, scheme=scheme, epoch_seconds=epoch_seconds)
            if table.labels is None:
                raise InputError(f"{entry.id}: has no scoring, so nothing can be learned from it.")
            tables.append(table)
        except (StageGuardError, OSError) as error:
            if isinstance(error, ImportError) or on_recording is None:
                raise
            failure = error
        if on_recording is not None:
            on_recording(entry, failure)
    if not n_found:
        raise FileFormatError(f"{folder}: holds no recording of {name}. See: stageguard data show {name}")
    return tables
