"""From a recording to a guarded hypnogram: quality, features, network, guard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from stageguard.base import checks
from stageguard.base.errors import InputError
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording
from stageguard.nn.data import table_of
from stageguard.profile.profile import Profile, as_profile
from stageguard.signals.features import Features
from stageguard.signals.quality import SignalQuality, signal_quality

if TYPE_CHECKING:
    from stageguard.nn.checkpoint import TrainedModel

QualityRules = Literal["graded", "kdd2026", "none"]

NO_QUALITY = "a feature table carries no signal quality: all of its epochs are trusted alike"


@dataclass(frozen=True, slots=True)
class Staged:
    """A recording, staged by a network and guarded.

    Attributes
    ----------
    density : Hypnodensity
        The network's probabilities.
    decoding : Decoding
        The guard's hypnogram, with what it changed.
    quality : SignalQuality or None
        How far each epoch of the signal was trusted; None if signal quality was not judged.
    notes : tuple of str
        What was staged and how, as sentences for the reader.
    """

    density: Hypnodensity
    decoding: Decoding
    quality: SignalQuality | None = None
    notes: tuple[str, ...] = ()


def stage(
    recording: Recording | Features,
    model: TrainedModel | str | Path,
    profile: Profile | str | None = None,
    *,
    quality: QualityRules | None = None,
    temperature: bool | None = None,
    cohort: str | None = None,
) -> Staged:
    """Stage a recording with a trained network, and guard the stages.

    Parameters
    ----------
    recording : Recording or Features
        The recording, or a table of the features that the network was trained on.
    model : TrainedModel, str or Path
        A network, or the folder that ``stageguard train`` wrote. Needs the extra ``torch``.
    profile : Profile or str, optional
        The profile to guard with. Default: the profile the network was trained with.
    quality : {"graded", "kdd2026", "none"}, optional
        How to judge the signal of a recording. Default: "kdd2026", the paper's thresholds, with a profile
        that reproduces the paper, and "graded" with any other.
    temperature : bool, optional
        Whether to soften the network's probabilities by the temperature found in training. Default: yes,
        unless the profile reproduces the paper, which uses no temperature.
    cohort : str, optional
        Who was recorded, as in `decode`.

    Returns
    -------
    Staged
        The network's probabilities, the decoding, and the signal quality.
    """
    if isinstance(model, str | Path):
        from stageguard.nn.checkpoint import load_model  # loads torch

        model = load_model(model)
    if not hasattr(model, "card"):
        raise InputError(f"model is {checks.shown(model)}, expected the folder of a network, or a network.")
    card = model.card
    guard = as_profile(card.profile if profile is None else profile)
    if isinstance(recording, Recording):
        table, judged, notes = _features(recording, model, quality or default_rules(guard))
    else:
        table, judged, notes = recording, None, (*_first_epoch(recording), NO_QUALITY)
    if temperature is None:
        temperature = not guard.reproduces_paper
    density = model.density(table, temperature=temperature)
    beta = None if judged is None else judged.beta
    decoding = decode(density, guard, quality=beta, cohort=cohort, trained=card.trained)
    softened = f"temperature {card.temperature:.3f}" if temperature else "no temperature"
    staged_by = f"staged by {card.backbone}, trained on {card.trained} stage frequencies, {softened}"
    return Staged(density, decoding, judged, (staged_by, *notes))


def default_rules(profile: Profile) -> QualityRules:
    """Return the signal quality rules to use with a profile."""
    return "kdd2026" if profile.reproduces_paper else "graded"


def _first_epoch(table: Features) -> tuple[str, ...]:
    first = 0 if table.epochs is None else int(table.epochs[0])
    return (f"the table begins with epoch {first}, which is epoch 0 here",) if first else ()


def _features(
    recording: Recording, model: TrainedModel, rules: QualityRules
) -> tuple[Features, SignalQuality | None, tuple[str, ...]]:
    """Return the network's feature table, the signal quality (None without rules) and notes."""
    card = model.card
    recipe = card.feature_recipe(recording.id)
    table = table_of(recording, recipe, epoch_seconds=card.epoch_seconds)
    marked = ("synthetic recording",) if recording.is_synthetic else ()
    if rules == "none":
        return table, None, marked
    judged = signal_quality(recording, recipe.modality, epoch_seconds=card.epoch_seconds, rules=rules)
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in judged.counts().items()) or "none"
    n_bad = np.count_nonzero(judged.is_bad)
    note = f"signal quality ({rules}): {n_bad:,} of {judged.n_epochs:,} epochs are marked ({reasons})"
    return table, judged, (note, *marked)
