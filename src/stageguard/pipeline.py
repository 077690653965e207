"""From a recording to a guarded hypnogram: channels, stager, signal quality, guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError, did_you_mean
from stageguard.formats.recordings.read import read_recording
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.night.combine import combine
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording
from stageguard.nn.tables import FeatureTable
from stageguard.profile.profile import Profile, as_profile
from stageguard.signals.quality import SignalQuality, signal_quality
from stageguard.staging import Stager, stager_of
from stageguard.staging.network import network_stager

if TYPE_CHECKING:
    from stageguard.nn.checkpoint import TrainedModel

QualityRules = Literal["graded", "kdd2026", "none"]

NO_QUALITY = "a feature table carries no signal quality: all of its epochs are trusted alike"
LOST = 0.999  # beta from which an epoch of one derivation gives way to the others


@dataclass(frozen=True, slots=True)
class Staged:
    """A recording, staged and guarded.

    Attributes
    ----------
    density : Hypnodensity
        The stager's probabilities; of several derivations or stagers, their mean.
    decoding : Decoding
        The guard's hypnogram, with what it changed.
    quality : SignalQuality or None
        How far each epoch of the signal was trusted; None if signal quality was not judged.
    parts : tuple of Hypnodensity
        The probabilities of each derivation or stager, if there are several.
    notes : tuple of str
        What was staged and how, as sentences for the reader.
    """

    density: Hypnodensity
    decoding: Decoding
    quality: SignalQuality | None = None
    parts: tuple[Hypnodensity, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def disagreement(self) -> Floats:
        """Share of the parts that choose another stage than their mean does, per epoch; 0 for one part."""
        if not self.parts:
            return np.zeros(self.density.n_epochs)
        return np.asarray(np.mean([part.argmax() != self.density.argmax() for part in self.parts], axis=0))


def stage(
    recording: Recording | FeatureTable | str | Path,
    stager: Stager | TrainedModel | str | Path | Sequence[Stager | TrainedModel | str | Path] = "yasa",
    profile: Profile | str | None = None,
    *,
    channels: Mapping[str, str] | Sequence[str] | None = None,
    quality: QualityRules | None = None,
    temperature: bool | None = None,
    cohort: str | None = None,
    covariates: Mapping[str, float | str] | None = None,
) -> Staged:
    """Stage a recording, and guard the stages.

    Parameters
    ----------
    recording : Recording, FeatureTable, str or Path
        The recording or its file; for a trained network also a table of its features.
    stager : str, Path, Stager or TrainedModel, or a list of these
        The name of a stager (see `stagers`), or a trained network or its folder. Several are combined: the
        mean of their probabilities is guarded.
    profile : Profile or str, optional
        The profile to guard with. Default: the one that fits the stager's stages, or that a network was
        trained with.
    channels : mapping of str to str, or sequence of str, optional
        Which channel has which role: ``{"eeg": "C4-M1"}``; or several derivations of the EEG,
        ``["C4-M1", "C3-M2"]``, which are staged one by one and combined.
    quality : {"graded", "kdd2026", "none"}, optional
        How to judge the signal of a recording. Default: "kdd2026", the paper's thresholds, with a profile
        that reproduces the paper, and "graded" with any other.
    temperature : bool, optional
        Whether to soften a network's probabilities by the temperature found in training. Default: yes,
        unless the profile reproduces the paper, which uses no temperature.
    cohort : str, optional
        Who was recorded, as in `decode`.
    covariates : mapping, optional
        What is known of the sleeper, if the recording does not say: ``{"age": 44, "sex": "M"}``.

    Returns
    -------
    Staged
        The probabilities, the decoding, and the signal quality.
    """
    several = list(stager) if isinstance(stager, Sequence) and not isinstance(stager, str) else [stager]
    if not several:
        raise InputError("got no stager, expected one or more, such as 'yasa'.")
    models = [_loaded(one) for one in several]
    guard = as_profile(_profile_of(models[0]) if profile is None else profile)
    warm = not guard.reproduces_paper if temperature is None else temperature
    chosen = [one if isinstance(one, Stager) else network_stager(one, temperature=warm) for one in models]
    trained = chosen[0].known.trained if len({one.known.trained for one in chosen}) == 1 else None
    if isinstance(recording, FeatureTable):
        return _stage_table(recording, models, guard, warm, cohort)
    nights = _derivations(recording, channels, covariates or {})
    rules = quality or default_rules(guard)
    parts, judged, notes = [], [], []
    for one in chosen:
        for night in nights:
            density = one.stage(night)
            beta = _quality(night, one, rules)
            if beta is not None and len(chosen) * len(nights) > 1:
                density = _without_lost(density, beta)
            parts.append(density)
            judged.append(beta)
            notes.append(one.describe(night))
    density = parts[0] if len(parts) == 1 else combine(parts)
    best = _best_quality(judged)
    if best is not None:
        notes.append(_quality_note(best, rules))
    if nights[0].is_synthetic:
        notes.append("synthetic recording")
    decoding = decode(
        density, guard, quality=None if best is None else best.beta, cohort=cohort, trained=trained
    )
    staged = Staged(density, decoding, best, tuple(parts) if len(parts) > 1 else (), tuple(notes))
    if not staged.parts:
        return staged
    differ = int(np.count_nonzero(staged.disagreement))
    combined = (
        f"{len(parts)} stagings were combined; they choose different stages in {differ:,} of "
        f"{density.n_epochs:,} epochs"
    )
    return replace(staged, notes=(*staged.notes, combined))


def default_rules(profile: Profile) -> QualityRules:
    """Return the signal quality rules to use with a profile."""
    return "kdd2026" if profile.reproduces_paper else "graded"


def _loaded(stager: Stager | TrainedModel | str | Path) -> Stager | TrainedModel:
    """Return a stager by name, or the network in a folder."""
    if isinstance(stager, str) and not _is_folder(stager):
        return stager_of(stager)
    if isinstance(stager, str | Path):
        from stageguard.nn.checkpoint import load_model  # loads torch

        return load_model(stager)
    if not isinstance(stager, Stager) and not hasattr(stager, "card"):
        shown = checks.shown(stager)
        raise InputError(f"stager is {shown}, expected a name such as 'yasa', or the folder of a network.")
    return stager


def _is_folder(name: str) -> bool:
    """Whether a stager is given by the folder of a network, which a name never is."""
    return "/" in name or "\\" in name or Path(name).exists()


def _profile_of(stager: Stager | TrainedModel) -> Profile | str:
    return stager.known.profile if isinstance(stager, Stager) else stager.card.profile


def _stage_table(
    table: FeatureTable,
    models: Sequence[Stager | TrainedModel],
    guard: Profile,
    warm: bool,
    cohort: str | None,
) -> Staged:
    """Stage a table of features, which only one network can take."""
    model = models[0]
    if len(models) != 1 or isinstance(model, Stager):
        raise InputError("a feature table is staged by one trained network. Give the recording instead.")
    density = model.density(table, temperature=warm)
    decoding = decode(density, guard, cohort=cohort, trained=model.card.trained)
    first = 0 if table.epochs is None else int(table.epochs[0])
    begins = (f"the table begins with epoch {first}, which is epoch 0 here",) if first else ()
    how = network_stager(model, temperature=warm).describe()
    return Staged(density, decoding, notes=(how, *begins, NO_QUALITY))


def _derivations(
    recording: Recording | str | Path,
    channels: Mapping[str, str] | Sequence[str] | None,
    covariates: Mapping[str, float | str],
) -> list[Recording]:
    """Return the recording once per derivation of the EEG that is to be staged."""
    if isinstance(channels, str):
        channels = [channels]
    if channels is None or isinstance(channels, Mapping):
        roles: list[Mapping[str, str]] = [channels or {}]
    else:
        roles = [{"eeg": derivation} for derivation in channels]
    if not roles:
        raise InputError("channels is empty, expected a channel of the EEG or more.")
    nights = []
    for mapping in roles:
        if isinstance(recording, str | Path):
            night = read_recording(recording, channels=mapping or None)
        else:
            Recording.check(recording)
            night = with_channels(recording, mapping)
        nights.append(replace(night, covariates={**night.covariates, **covariates}))
    return nights


def with_channels(recording: Recording, channels: Mapping[str, str]) -> Recording:
    """Return a recording whose roles have other channels, given by name or by their role before."""
    signals = dict(recording.signals)
    by_name = {signal.name: signal for signal in recording.signals.values()} | signals
    for role, name in channels.items():
        if name not in by_name:
            raise InputError(
                f"recording {recording.id!r} has no channel {name!r} for the role {role!r}; it has: "
                f"{', '.join(by_name)}.{did_you_mean(name, by_name)}"
            )
        signals[role] = by_name[name]
    return replace(recording, signals=signals)


def _quality(recording: Recording, stager: Stager, rules: QualityRules) -> SignalQuality | None:
    if rules == "none" or not stager.modality:
        return None
    return signal_quality(recording, stager.modality, epoch_seconds=stager.known.epoch_seconds, rules=rules)


def _without_lost(density: Hypnodensity, quality: SignalQuality) -> Hypnodensity:
    """Return a density without the rows of lost signal, so that the other parts decide there."""
    rows = density.probabilities.copy()
    lost = quality.beta[: len(rows)] >= LOST
    if lost.all():
        return density
    rows[: len(lost)][lost] = np.nan
    return density.with_rows(rows)


def _best_quality(judged: Sequence[SignalQuality | None]) -> SignalQuality | None:
    """Return, of several derivations, the quality of the best in each epoch."""
    known = [one for one in judged if one is not None]
    if len(known) < len(judged):
        return None

    def better(a: SignalQuality, b: SignalQuality) -> SignalQuality:
        first = a.beta <= b.beta
        reasons = [x if is_first else y for x, y, is_first in zip(a.reasons, b.reasons, first, strict=True)]
        return replace(a, beta=np.minimum(a.beta, b.beta), reasons=tuple(reasons))

    return reduce(better, known)


def _quality_note(judged: SignalQuality, rules: QualityRules) -> str:
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in judged.counts().items()) or "none"
    n_bad = np.count_nonzero(judged.is_bad)
    return f"signal quality ({rules}): {n_bad:,} of {judged.n_epochs:,} epochs are marked ({reasons})"
