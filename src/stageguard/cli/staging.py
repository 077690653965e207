"""What `predict` stages: feature tables as they are, recordings through their quality and features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError
from stageguard.formats.recordings.read import SUFFIXES as RECORDING_SUFFIXES

if TYPE_CHECKING:
    from stageguard.night.recording import Recording
    from stageguard.nn.card import ModelCard
    from stageguard.nn.feature_table import FeatureTable


@dataclass(frozen=True, slots=True)
class Input:
    """A feature table, or a recording that is read when its turn comes."""

    path: Path
    name: str
    read: Callable[[], Recording] | None = field(repr=False, default=None)  # None: a feature table


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the network and the decoder need of one input."""

    table: FeatureTable
    beta: Floats | None = None
    notes: tuple[str, ...] = ()


def find_inputs(paths: Sequence[Path], dataset: str | None, channels: Mapping[str, str]) -> list[Input]:
    """Return what there is to stage, in order; two that would share an output are an error."""
    if dataset is not None and channels:
        raise InputError(
            "--channel is for single files; a dataset knows its channels. Leave one of them out."
        )
    found = [one for path in paths for one in _inputs(path, dataset, channels)]
    seen: dict[str, Path] = {}
    for one in found:
        if one.name in seen:
            raise InputError(
                f"{one.path}: has the same output as {seen[one.name]}. Stage it into another folder."
            )
        seen[one.name] = one.path
    return found


def _inputs(path: Path, dataset: str | None, channels: Mapping[str, str]) -> list[Input]:
    from stageguard.formats.recordings.read import read_recording
    from stageguard.nn.data import SUFFIXES, feature_files

    if dataset is not None:
        from stageguard.datasets import entries

        found = [Input(entry.files[0], entry.id, entry.read) for entry in entries(dataset, path)]
        if not found:
            raise InputError(f"{path} holds no recording of {dataset}. See: stageguard data show {dataset}")
        return found
    files = [path]
    if path.is_dir():
        wanted = (*SUFFIXES, *RECORDING_SUFFIXES)
        files = feature_files(path, wanted)
        if not files:
            raise InputError(f"{path} holds nothing to stage. Expected files named {', '.join(wanted)}.")
    return [
        Input(
            file,
            file.stem,
            partial(read_recording, file, channels=channels or None)
            if file.suffix.lower() in RECORDING_SUFFIXES
            else None,
        )
        for file in files
    ]


def prepare(one: Input, card: ModelCard, rules: str) -> Prepared:
    """Return the table the network sees, and how far each epoch's signal can be trusted."""
    from stageguard.nn.data import read_features

    if one.read is None:
        table = read_features(one.path, choose=card.columns)
        assert table.epochs is not None
        first = int(table.epochs[0])
        return Prepared(
            table, notes=(f"the table begins with epoch {first}, which is epoch 0 here",) if first else ()
        )
    if card.recipe_document is None:
        raise InputError(
            f"{one.path.name}: is a recording, and this network holds no recipe for its features (they were "
            f"called {card.recipe!r}). Compute them as for training, and give the tables."
        )
    from stageguard.nn.data import table_of
    from stageguard.signals.features.recipe import Recipe
    from stageguard.signals.quality import signal_quality

    recording = one.read()
    recipe = Recipe.from_dict(card.recipe_document)
    table = table_of(recording, recipe, epoch_seconds=card.epoch_seconds)
    marked = ("synthetic recording",) if recording.is_synthetic else ()
    if rules == "none":
        return Prepared(table, notes=marked)
    named = cast(Literal["kdd2026", "graded"], rules)
    found = signal_quality(recording, recipe.modality, epoch_seconds=card.epoch_seconds, rules=named)
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in found.counts().items()) or "none"
    n_bad = np.count_nonzero(found.is_bad)
    note = f"signal quality ({rules}): {n_bad:,} of {found.n_epochs:,} epochs are marked ({reasons})"
    return Prepared(table, found.beta, (note, *marked))
