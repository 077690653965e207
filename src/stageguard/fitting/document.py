"""A fit as a profile document, with its errors on held-out nights and its evidence in the provenance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stageguard.fitting.candidates import ARGMAX, DEFAULT, Candidate
from stageguard.fitting.cross_validation import HeldOut, Selection
from stageguard.fitting.judging import COLUMNS, Criterion
from stageguard.fitting.label_shares import count_shares
from stageguard.fitting.learning_curve import LearningCurve
from stageguard.fitting.material import Material
from stageguard.fitting.training import Training
from stageguard.guard.decoding import Decoding
from stageguard.measures.intervals import DEFAULT_LEVEL, by_person, coverage, errors, intervals, reported
from stageguard.measures.statistics import FIRST_REM_SECONDS, sleep_statistics
from stageguard.measures.validity import expert_bands
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.parts import words_of, write_rows
from stageguard.profile.profile import Profile
from stageguard.version import __version__

MODEL_DRAWS = 100
_DIGITS = 4
_DECIMALS = 3  # of minutes, percent and counts
SMOOTHING = "rows of the base profile count as 20 epochs, a twentieth of them spread evenly"


@dataclass(frozen=True, slots=True)
class FitChoice:
    """The chosen candidate, and the grounds for it."""

    candidate: Candidate
    reason: str
    selection: Selection
    nested: HeldOut | None
    curve: LearningCurve | None
    criterion: Criterion

    @property
    def steps_aside(self) -> bool:
        """Whether nothing was better than the default, which the profile then is."""
        return self.candidate == self.selection.base.default


@dataclass(frozen=True, slots=True)
class FitNames:
    """The caller's names for the profile, the cohort and the stager, and the seed."""

    name: str
    cohort: str | None
    seed: int
    notes: tuple[str, ...]
    stager: str | None = None


@dataclass(frozen=True, slots=True)
class Fitted:
    """The results of a fit, from which a profile and a report are made."""

    training: Training
    names: FitNames
    choice: FitChoice | None = None  # None if only hypnograms were counted
    decoded: Sequence[Decoding] = ()  # held-out nights, each by the profile fitted without it


def fitted_document(fitted: Fitted) -> dict[str, Any]:
    """Return the document of the fitted profile."""
    training, choice = fitted.training, fitted.choice
    material, base = training.material, training.base.profile
    if choice is not None and choice.candidate.rule == DEFAULT.rule:
        return _default_document(fitted, choice)
    if choice is None:
        # the base profile's own strength, with the counted fragmentation as its aim
        profile = replace(
            training.profile(ARGMAX),
            durations=training.durations,
            strength=None if base.strength is None else base.strength.recounted(training.counted),
            transition_weight=base.transition_weight,
        )
    else:
        profile = training.whole_profile(choice.candidate)
    document = profile.to_dict() | _words(fitted) | _belongs(fitted)
    if choice is not None:
        document["intervals"] = _intervals(fitted)
    document["not_for"] = _cautions(base, fitted.names.cohort, profile)
    rare = material.counts().rare_pairs()
    index = base.scheme.names.index
    document["rare"] = [[a, b, training.transitions[index(a)][index(b)]] for a, b, *_ in rare]
    document["tvr_pairs"] = [list(pair) for pair in base.tvr_pairs or [(a, b) for a, b, *_ in rare]]
    document["bands"] = _bands(training)
    document["joint"] = base.to_dict().get("joint") if training.base.ratio == 1.0 else None  # of many cohorts
    if material.is_of_labels:
        document["labels"] = _labels(material, base)
    document["provenance"] = _provenance(fitted)
    return {key: value for key, value in document.items() if value is not None}


def _default_document(fitted: Fitted, choice: FitChoice) -> dict[str, Any]:
    """Return the document of a profile that does what is done without scored nights, and says what it is.

    Rules, clock and cautions are those of the base profile, tuned if nights are enough. Scored
    nights give its bands, and the errors from which intervals are made.
    """
    training, base = fitted.training, fitted.training.base
    profile, material = training.whole_profile(choice.candidate), training.material
    document = profile.to_dict() | _words(fitted) | _belongs(fitted)
    document["intervals"] = _intervals(fitted)
    document["bands"] = _bands(training)
    if fitted.names.cohort is not None:
        document["not_for"] = _cautions(base.profile, fitted.names.cohort, profile)
    if material.is_of_labels and material.nights[0].typical is None:
        document["labels"] = _labels(material, base.profile)
    document["provenance"] = _provenance(fitted)
    return {key: value for key, value in document.items() if value is not None}


def _labels(material: Material, base: Profile) -> dict[str, Any]:
    """Return the base profile's typical confusions with those of the stager."""
    unknown = {"refused": "only the confusions of its own stager are known."}
    inherited: dict[str, Any] = base.to_dict().get("labels", unknown)
    shares = count_shares(material.nights, material.scheme.n_stages).tolist()
    return inherited | {"own": write_rows(shares, material.scheme)}


def _words(fitted: Fitted) -> dict[str, Any]:
    """Return the name of the profile, and what it is, in words."""
    material, names, choice = fitted.training.material, fitted.names, fitted.choice
    n_nights, n_subjects = len(material.nights), len(material.subjects)
    nights = (
        f"{n_nights} scored night{'s' * (n_nights != 1)} of {n_subjects} subject{'s' * (n_subjects != 1)}"
    )
    if choice is None:
        did = "transitions, bout lengths and bands are counted, the strength is the base profile's"
        summary = f"Counted on {nights} without probabilities: {did}."
    elif choice.steps_aside:
        summary = f"Fitted to {nights}, and steps aside: it does {default_words(fitted.training)}."
    else:
        summary = f"Fitted to {nights}: {choice.candidate.name}."
    whom = f"the cohort {names.cohort!r}" if names.cohort else "the cohort it was fitted on"
    stager = "" if choice is None else ", staged by the stager it was fitted with"
    return {
        "name": names.name,
        "summary": summary,
        "intended_for": f"Nights of {whom}{stager}, at epochs of {material.epoch_seconds:g} s.",
    }


def default_words(training: Training) -> str:
    """Say what the default is."""
    name, default = training.base.profile.name, training.profile(training.base.default)
    return f"what {name} does" + (", tuned to the stager" if default is not training.base.here else "")


def _belongs(fitted: Fitted) -> dict[str, Any]:
    """Return whose the profile is, and the base that decodes nights of others."""
    names, base = fitted.names, fitted.training.base.profile
    belongs: dict[str, Any] = {"cohort": names.cohort, "stager": names.stager}
    if fitted.choice is not None:
        belongs["base"] = (base.base or base.for_nights_of(None, None)).to_dict()
    return belongs


def _cautions(base: Profile, cohort: str | None, profile: Profile) -> str | list[Any]:
    """Return the base profile's cautions by cohort; their reason is what is done to those cohorts."""
    inherited = base.to_dict().get("not_for", ())
    if isinstance(inherited, str):  # a sentence that names cohorts
        return inherited
    if cohort is not None:  # any other one is decoded by the base profile
        fitted_cohort = words_of(cohort)
        pairs = zip(inherited, base.not_for, strict=True)
        return [entry for entry, caution in pairs if not caution.concerns(fitted_cohort)]
    reason = (
        f"The profile was fitted on nights whose cohort is not said, and {_effect(profile)}. Look at the "
        "argmax too."
    )
    return [{**entry, "reason": reason} for entry in inherited]


def _effect(profile: Profile) -> str:
    """Return what a profile does to every night."""
    if profile.strength is not None:
        return profile.strength.effect
    weight = profile.transition_weight or 0.0
    rules = {
        f"the transition weight {weight:g}": weight > 0.0,
        "minimum bouts": bool(profile.min_bout_seconds),
        "the bout lengths counted there": bool(profile.durations) and weight > 0.0,
    }
    acting = " and ".join(rule for rule, acts in rules.items() if acts)
    return f"decodes every night with {acting}" if acting else "adds no rule to the evidence"


def _intervals(fitted: Fitted) -> dict[str, Any]:
    """Return the errors on held-out nights; a REM bout is lasting from the experts' minimum or 2 min on."""
    material, choice = fitted.training.material, fitted.choice
    if choice is None or choice.nested is None:
        return {}
    rem = material.scheme.rem
    shortest = 0 if rem is None else material.counts().minimum_epochs().get(rem, 0)
    # where experts keep to longer REM bouts, a shorter one is not lasting
    seconds = max(FIRST_REM_SECONDS, shortest * material.epoch_seconds)
    document = held_out_errors(choice.nested.nights, fitted.decoded, min_first_rem_seconds=seconds)
    by_draws = _model_coverage(choice.nested.nights, fitted.decoded, seconds)
    return document | ({"model_coverage": by_draws} if by_draws else {})


def held_out_errors(
    material: Material, decoded: Sequence[Decoding], *, min_first_rem_seconds: float
) -> dict[str, Any]:
    """Return the key `intervals` of a profile: errors of each person's nights, and coverage, by statistic.

    Outputs are measured as those of new nights will be, with the epochs that the expert left out. On the
    scored epochs alone errors are smaller, and intervals of TST covered .86 instead of .91 (Sleep-Accel).
    """
    table = errors(_experts(material), decoded, min_first_rem_seconds=min_first_rem_seconds)
    groups = [night.group for night in material.nights]
    rounded = {
        name: by_person([round(value, _DECIMALS) + 0.0 for value in values], groups)
        for name, values in table.items()
    }
    # by group: the errors of one person must not cover that person's nights
    judged = {name: coverage(values, groups) for name, values in table.items()}
    return {
        "n_nights": len(material.nights),
        "n_subjects": len(material.subjects),
        "min_first_rem_seconds": min_first_rem_seconds,
        "level_of_coverage": DEFAULT_LEVEL,
        # sorted, so that nobody can be followed from one statistic to the next
        "errors": {
            name: sorted(sorted(each) for each in people) for name, people in rounded.items() if people
        },
        "coverage": {name: round(k / n, _DECIMALS) for name, (k, n) in judged.items() if n},
    }


def _experts(material: Material) -> list[Hypnogram]:
    return [
        Hypnogram(night.truth, material.scheme, material.epoch_seconds, night.start)
        for night in material.nights
    ]


def _model_coverage(
    material: Material, decoded: Sequence[Decoding], min_first_rem_seconds: float
) -> dict[str, float]:
    """Return how often intervals from posterior draws cover the expert, by statistic."""
    hits: dict[str, list[bool]] = {}
    for night, expert, result in zip(material.nights, _experts(material), decoded, strict=True):
        drawn = intervals(
            result,
            method="model",
            n=MODEL_DRAWS,
            seed=night.seed,
            min_first_rem_seconds=min_first_rem_seconds,
        )
        truth = reported(sleep_statistics(expert, min_first_rem_seconds=min_first_rem_seconds))
        for name, interval in drawn.items():
            if not interval.reason and not math.isnan(truth[name]):
                hits.setdefault(name, []).append(interval.low <= truth[name] <= interval.high)
    return {name: round(float(np.mean(values)), _DECIMALS) for name, values in hits.items()}


def _bands(training: Training) -> dict[str, Any]:
    """Return the bands counted here, and the base profile's if too few nights have an indicator."""
    base = training.base.profile
    # bands are per epoch, and those of another epoch length mean something else
    kept = dict(base.bands) if training.base.ratio == 1.0 else {}
    counted = expert_bands([night.hypnograms for night in training.material.nights], base)
    return {
        name: {"low": band.low, "high": band.high, "source": band.source, "unit": band.unit}
        for name, band in (kept | dict(counted)).items()
    }


def _provenance(fitted: Fitted) -> dict[str, Any]:
    training, choice = fitted.training, fitted.choice
    material, base = training.material, training.base.profile
    counts, stages = material.counts(), base.scheme.names
    minimum = counts.minimum_epochs()
    provenance: dict[str, Any] = {
        "source": "stageguard.fit on scored nights"
        if choice is not None
        else "stageguard.fit on expert hypnograms alone",
        "base": {"name": base.name, "sha256": base.sha256},
        "stageguard": __version__,
        "seed": fitted.names.seed,
        "n_nights": len(material.nights),
        "n_subjects": len(material.subjects),
        "n_groups": len(material.groups),
        "n_scorings": sum(len(night.scorings) for night in material.nights),
        "n_scored_epochs": sum(night.n_scored for night in material.nights),
        "nights_sha256": material.sha256(),
        "mean_fragmentation_index": _plain(training.fi_mean),
        "pairs_counted_from": {
            n: round(float(v)) for n, v in zip(stages, counts.pairs.sum(axis=1), strict=True)
        },
        "complete_bouts_counted": dict(counts.n_complete_bouts()),
        "smoothing": SMOOTHING,
        "rare_pairs": [f"{a}->{b}: {n} of {exits} exits" for a, b, n, exits in counts.rare_pairs()],
        "supported_minimum_bout_seconds": {n: m * material.epoch_seconds for n, m in minimum.items()},
        "stages_with_supported_bout_lengths": list(training.base.durations),
        "notes": list(fitted.names.notes),
    }
    if choice is not None:
        provenance |= _evidence(choice, training, list(material.endpoints.names))
    return provenance


def _evidence(choice: FitChoice, training: Training, statistics: list[str]) -> dict[str, Any]:
    """Return the cross-validation behind a choice."""
    gain, error = choice.selection.biases_gain
    # biases were compared with every rule only if they gained by themselves
    used = any(row.candidate.biases for row in choice.selection.rows)
    evidence: dict[str, Any] = {
        "chosen": choice.candidate.name,
        "steps_aside": choice.steps_aside,
        "reason": choice.reason,
        "statistics": statistics,
        "criterion": str(choice.criterion),
        "calibration": {
            "temperature": _plain(training.temperature.temperature),
            "biases_kappa_gain": _plain(gain),
            "biases_kappa_gain_error": _plain(error),
            "biases": "compared with and without"
            if used
            else "left out: cross-validated kappa does not gain by more than its standard error over what is "
            "simpler",
        },
        "cross_validation": {
            "columns": list(COLUMNS),
            "rows": [[_plain(value) for value in row.cells()] for row in choice.selection.rows],
        },
    }
    if choice.nested is not None:
        evidence["nested"] = _gains(choice.nested, choice.criterion) | {
            "chosen_in_each_fold": [candidate.name for candidate in choice.nested.chosen],
        }
    if choice.curve is not None:
        curve = choice.curve.to_dict()
        columns = list(curve["points"][0])
        evidence["learning_curve"] = {
            "finding": curve["finding"],
            "columns": columns,
            "rows": [[_plain(point[column]) for column in columns] for point in curve["points"]],
        }
    return evidence


def _gains(nested: HeldOut, criterion: Criterion) -> dict[str, Any]:
    """Return the gains on nights held out, over argmax and over the default, with their standard errors."""
    gains = {
        "kappa_gain": nested.gain(),
        "criterion_gain": nested.gain(criterion),
        "kappa_gain_over_default": nested.gain(over="default"),
        "criterion_gain_over_default": nested.gain(criterion, over="default"),
    }
    table: dict[str, Any] = {}
    for name, (gain, error) in gains.items():
        table |= {name: _plain(gain), f"{name}_error": _plain(error)}
    return table


def _plain(value: Any) -> Any:
    """Return a value that TOML can hold: numbers are rounded, NaN and infinity are text."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else "n/a"
