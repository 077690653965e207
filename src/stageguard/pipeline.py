"""From a recording to a guarded hypnogram: channels, stager, signal quality, guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stageguard import checks
from stageguard.arrays import ComparedByValue, Floats
from stageguard.errors import InputError
from stageguard.formats.recordings.read import read_recording
from stageguard.guard.decode import decode
from stageguard.guard.decoding import Decoding
from stageguard.night.align import combine
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.recording import Recording
from stageguard.nn.onnx import SUFFIX, OnnxModel, load_onnx
from stageguard.profile.profile import Profile, as_profile
from stageguard.profile.stagers import Training
from stageguard.signals.features import Features
from stageguard.signals.quality import DEFAULT_RULES, SignalQuality, signal_quality
from stageguard.staging import Stager, has_folder, stager_of
from stageguard.staging.built_in import network_stager
from stageguard.storage import names_file

if TYPE_CHECKING:
    from stageguard.nn.model import TrainedModel
else:
    TrainedModel = Any  # torch is loaded when such a network stages
Network = TrainedModel | OnnxModel

QualityRules = Literal["graded", "kdd2026", "none"]
# by role; the EEG may have several, which are staged one by one
Channels = Mapping[str, str | Sequence[str]] | Sequence[str]

NO_QUALITY = "a feature table carries no signal quality: all of its epochs are trusted alike"
LOST = 0.999  # beta from which an epoch of one derivation gives way to the others


@dataclass(frozen=True, slots=True, eq=False)
class Staging(ComparedByValue):
    """Stage probabilities of a recording, before the guard."""

    density: Hypnodensity  # of the stager; of several derivations or stagers, their mean
    profile: Profile  # to guard with
    trained: Training | None  # how the stagers were trained, if that is known of all of them and the same
    quality: SignalQuality | None = None  # how far each epoch was trusted; None if it was not judged
    parts: tuple[Hypnodensity, ...] = ()  # of each derivation or stager, if several; NaN where it was lost
    notes: tuple[str, ...] = ()  # what was staged and how, as sentences for the reader

    @property
    def disagreement(self) -> Floats:
        """Share of the parts with evidence that choose another stage than their mean does, per epoch."""
        if not self.parts:
            return np.zeros(self.density.n_epochs)
        choices = np.stack([part.argmax for part in self.parts])  # (n_parts, n_epochs), -1 without evidence
        has_evidence = choices >= 0
        differ = has_evidence & (choices != self.density.argmax)
        return np.asarray(differ.sum(axis=0) / np.maximum(has_evidence.sum(axis=0), 1))


@dataclass(frozen=True, slots=True, eq=False)
class Staged(Staging):
    """A recording, staged and guarded."""

    decoding: Decoding = field(kw_only=True)  # the guard's hypnogram, with what it changed


def stage(
    recording: Recording | Features | str | Path,
    stager: Stager | Network | str | Path | Sequence[Stager | Network | str | Path] = "yasa",
    profile: Profile | str | None = None,
    *,
    channels: Channels | None = None,
    quality: QualityRules | None = None,
    temperature: bool | None = None,
    cohort: str | None = None,
    covariates: Mapping[str, float | str] | None = None,
) -> Staged:
    """Stage a recording, and guard the stages.

    Parameters
    ----------
    recording : Recording, Features, str or Path
        The recording or its file; for a trained network also a table of its features.
    stager : str, Path, Stager, TrainedModel or OnnxModel, or a list of these
        The name of a stager (see `stagers`), or a trained network: its folder, or an ONNX file. Several are
        combined: the mean of their probabilities is guarded.
    profile : Profile or str, optional
        The profile to guard with. Default: the one that fits the stager's stages, or that a network was
        trained with.
    channels : mapping, or sequence of str, optional
        Which channel has which role: ``{"eeg": "C4-M1", "eog": "E1-M2"}``; or only the EEG. Several
        derivations of it, ``["C4-M1", "C3-M2"]``, are staged one by one and combined.
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
    how: dict[str, Any] = {"channels": channels, "quality": quality, "temperature": temperature}
    staging = staging_of(recording, stager, profile, **how, covariates=covariates)
    beta = None if staging.quality is None else staging.quality.beta
    decoding = decode(staging.density, staging.profile, quality=beta, cohort=cohort, trained=staging.trained)
    return Staged(*(getattr(staging, item.name) for item in fields(Staging)), decoding=decoding)


def staging_of(
    recording: Recording | Features | str | Path,
    stager: Stager | Network | str | Path | Sequence[Stager | Network | str | Path],
    profile: Profile | str | None = None,
    *,
    channels: Channels | None = None,
    quality: QualityRules | None = None,
    temperature: bool | None = None,
    covariates: Mapping[str, float | str] | None = None,
) -> Staging:
    """Stage a recording as `stage` does, without guarding it."""
    given = list(stager) if isinstance(stager, Sequence) and not isinstance(stager, str) else [stager]
    if not given:
        raise InputError("got no stager, expected one or more, such as 'yasa'.")
    loaded = [load_stager(item) for item in given]
    guard = fitting_profile(loaded) if profile is None else as_profile(profile)
    softens = not guard.reproduces_paper if temperature is None else temperature
    if isinstance(recording, Features):
        return _stage_table(recording, loaded, guard, softens)
    runners = [
        item if isinstance(item, Stager) else network_stager(item, temperature=softens) for item in loaded
    ]
    nights = _derivations(recording, channels, covariates or {})
    rules = quality or default_rules(guard)
    runs = [(runner, night) for runner in runners for night in nights]
    notes = [runner.describe(night) for runner, night in runs]
    parts = [_merged(runner.stage(night), guard) for runner, night in runs]
    qualities = [_quality(night, runner, rules) for runner, night in runs]
    best = _best_quality(qualities)
    if best is not None:
        notes.append(_quality_note(best, rules))
        if best.beta.min() >= LOST:
            found = f"recording {nights[0].id!r} has no usable signal: {notes[-1]}"
            raise InputError(f"{found}. Choose other channels with --channel.")
    if nights[0].is_synthetic:
        notes.append("synthetic recording")
    trained = runners[0].known.trained if len({runner.known.trained for runner in runners}) == 1 else None
    if len(parts) == 1:
        return Staging(parts[0], guard, trained, best, notes=tuple(notes))
    parts = [_without_lost(part, quality) for part, quality in zip(parts, qualities, strict=True)]
    staging = Staging(combine(parts), guard, trained, best, tuple(parts), tuple(notes))
    n_disagree, n_epochs = np.count_nonzero(staging.disagreement), staging.density.n_epochs
    differ = f"they choose different stages in {n_disagree:,} of {n_epochs:,} epochs"
    return replace(staging, notes=(*notes, f"{len(parts)} stagings were combined; {differ}"))


def default_rules(profile: Profile) -> QualityRules:
    """Return the signal quality rules to use with a profile."""
    return "kdd2026" if profile.reproduces_paper else DEFAULT_RULES


def load_stager(stager: Stager | Network | str | Path, device: str = "cpu") -> Stager | Network:
    """Return a stager by name, or the network in an ONNX file, or in a folder, which runs on a device."""
    if isinstance(stager, str | Path) and is_onnx(stager):
        return load_onnx(stager)
    if isinstance(stager, str) and not is_folder(stager):
        return stager_of(stager)
    if isinstance(stager, str | Path):
        from stageguard.nn.model import load_model
        from stageguard.nn.training import pick_device  # which loads torch

        return load_model(stager, device=pick_device(device))
    if not isinstance(stager, Stager) and not hasattr(stager, "card"):
        shown = checks.shown(stager)
        raise InputError(f"stager is {shown}, expected a name such as 'yasa', a folder or an ONNX file.")
    return stager


def is_onnx(name: str | Path) -> bool:
    """Whether a stager is given by an ONNX file."""
    return Path(name).suffix.lower() == SUFFIX


def is_folder(name: str) -> bool:
    """Whether a stager is given by the folder of a network, which a name never is."""
    if has_folder(name):
        return False
    return "/" in name or "\\" in name or Path(name).exists()


def fitting_profile(stagers: Sequence[Stager | Network]) -> Profile:
    """Return the profile that fits the stager with the fewest stages, to which the others are merged."""
    known = (each.known.profile if isinstance(each, Stager) else each.card.profile for each in stagers)
    return min(map(as_profile, known), key=lambda profile: profile.scheme.n_stages)


def _stage_table(
    table: Features, stagers: Sequence[Stager | Network], guard: Profile, softens: bool
) -> Staging:
    """Stage a table of features, which only one network can take."""
    model = stagers[0]
    if len(stagers) != 1 or isinstance(model, Stager):
        raise InputError("a feature table is staged by one trained network. Give the recording instead.")
    density = model.density(table, temperature=softens)
    first = 0 if table.epochs is None else int(table.epochs[0])
    begins = (f"the table begins with epoch {first}, which is epoch 0 here",) if first else ()
    how = network_stager(model, temperature=softens).describe()
    return Staging(density, guard, model.card.trained, notes=(how, *begins, NO_QUALITY))


def _derivations(
    recording: Recording | str | Path, channels: Channels | None, covariates: Mapping[str, float | str]
) -> list[Recording]:
    """Return the recording once per derivation of the EEG that is to be staged."""
    by_role = dict(channels or {}) if isinstance(channels, Mapping | None) else {"eeg": channels}
    derivations = by_role.pop("eeg", None)
    others = {role: checks.text(label, f"the channel of {role!r}") for role, label in by_role.items()}
    mappings = [others]
    if derivations is not None:
        listed = [derivations] if isinstance(derivations, str) else list(derivations)
        mappings = [others | {"eeg": checks.text(label, "a channel of 'eeg'")} for label in listed]
    if not mappings:
        raise InputError("channels of 'eeg' are empty, expected one or more.")
    if not names_file(recording):
        Recording.check(recording)
    nights = [
        recording.with_channels(mapping) if isinstance(recording, Recording)
        else read_recording(recording, channels=mapping or None)
        for mapping in mappings
    ]  # fmt: skip
    return [replace(night, covariates={**night.covariates, **covariates}) for night in nights]


def _merged(density: Hypnodensity, profile: Profile) -> Hypnodensity:
    """Return a density in the profile's stages, if it has more of them."""
    return density.merge(profile.scheme) if density.scheme.n_stages > profile.scheme.n_stages else density


def _quality(recording: Recording, stager: Stager, rules: QualityRules) -> SignalQuality | None:
    if rules == "none" or not stager.modality:
        return None
    return signal_quality(recording, stager.modality, epoch_seconds=stager.known.epoch_seconds, rules=rules)


def _without_lost(density: Hypnodensity, quality: SignalQuality | None) -> Hypnodensity:
    """Return a density without the rows of lost signal, so that the other parts decide there."""
    if quality is None:
        return density
    rows = density.probabilities.copy()
    lost = quality.beta[: len(rows)] >= LOST
    if lost.all():
        return density
    rows[: len(lost)][lost] = np.nan
    return density.with_rows(rows)


def _best_quality(qualities: Sequence[SignalQuality | None]) -> SignalQuality | None:
    """Return, of several derivations, the quality of the best in each epoch; None if one was not judged."""
    judged = [quality for quality in qualities if quality is not None]
    if len(judged) < len(qualities):
        return None

    def better(a: SignalQuality, b: SignalQuality) -> SignalQuality:
        first = a.beta <= b.beta
        reasons = [x if is_first else y for x, y, is_first in zip(a.reasons, b.reasons, first, strict=True)]
        return replace(a, beta=np.minimum(a.beta, b.beta), reasons=tuple(reasons))

    return reduce(better, judged)


def _quality_note(judged: SignalQuality, rules: QualityRules) -> str:
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in judged.counts().items()) or "none"
    n_bad = np.count_nonzero(judged.is_bad)
    return f"signal quality ({rules}): {n_bad:,} of {judged.n_epochs:,} epochs are marked ({reasons})"
