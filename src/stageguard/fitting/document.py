"""A fit as a profile document, with its errors on held-out nights and its evidence in the provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stageguard import documents
from stageguard.fitting.candidates import ARGMAX, DEFAULT, SMOOTHING, Candidate, Lesson
from stageguard.fitting.nights import Nights, confusion_shares
from stageguard.guard.decoding import Decoding
from stageguard.measures.intervals import DEFAULT_LEVEL, by_person, coverage, errors, intervals, reported
from stageguard.measures.statistics import FIRST_REM_SECONDS, sleep_statistics
from stageguard.measures.validity import expert_bands
from stageguard.profile.parts import words_of
from stageguard.version import __version__

MODEL_DRAWS = 100
_DIGITS = 4
_DECIMALS = 3  # of minutes, percent and counts

Names = Mapping[str, str | None]  # of the profile, the cohort and the stager, as the caller gave them


def counted_document(lesson: Lesson, nights: Nights, names: Names) -> dict[str, Any]:
    """Return the document of a profile counted on hypnograms alone: the base's strength, at their index."""
    base, strength = lesson.base.profile, lesson.base.profile.strength
    if strength is not None:
        strength = replace(strength.for_other_stager(), fi_target=lesson.fi_target(len(nights)))
    weight = base.transition_weight
    profile = replace(lesson.profile(ARGMAX), strength=strength, transition_weight=weight)
    provenance = _provenance(lesson, nights, "stageguard.fit on expert hypnograms alone")
    document = profile.to_dict() | _described(lesson, nights, names) | _inherited(lesson, names["cohort"])
    counted = f"Counted on {_amount(nights)} without probabilities: transitions and bands."
    document["summary"] = f"{counted} Its strength is the base profile's."
    document["provenance"] = provenance | {"notes": list(nights.assumed)}
    return {key: value for key, value in document.items() if value is not None}


def fitted_document(
    lesson: Lesson,
    nights: Nights,
    chosen: Candidate,
    names: Names,
    decoded: Sequence[Decoding],
    evidence: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the document of the fitted profile; `decoded` are held-out nights in the caller's order.

    If it steps aside, its rules, clock and cautions are those of the base profile, tuned if nights are
    enough. Scored nights give its bands, and the errors from which intervals are made.
    """
    base, profile = lesson.base.profile, lesson.profile(chosen)
    document = profile.to_dict() | _described(lesson, nights, names)
    if chosen == DEFAULT:
        tuned = ", tuned to the stager" if lesson.default is not lesson.base.untuned else ""
        does = f"and steps aside: it does what {base.name} does{tuned}"
        document["summary"] = f"Fitted to {_amount(nights)}, {does}."
    else:
        document["summary"] = f"Fitted to {_amount(nights)}: {chosen.name}."
    if chosen != DEFAULT or names["cohort"] is not None:
        inherited = _inherited(lesson, names["cohort"])
        document |= inherited if chosen != DEFAULT else {"not_for": inherited["not_for"]}
    is_of_labels = nights.nights[0].said is not None
    if is_of_labels and (chosen != DEFAULT or nights.nights[0].measured is None):
        unknown = {"refused": "only the confusions of its own stager are known."}
        stages = nights.scheme.names
        rows = confusion_shares(nights, len(stages)).tolist()
        own = {said: dict(zip(stages, row, strict=True)) for said, row in zip(stages, rows, strict=True)}
        document["labels"] = base.to_dict().get("labels", unknown) | {"own": own}
    document["base"] = (base.base or base.for_nights_of(None, None)).to_dict()
    document["intervals"] = held_out_errors(nights, decoded) if decoded else None
    document["provenance"] = _provenance(lesson, nights, "stageguard.fit on scored nights") | _plain(evidence)
    return {key: value for key, value in document.items() if value is not None}


def _described(lesson: Lesson, nights: Nights, names: Names) -> dict[str, Any]:
    """Return whose the profile is, and what experts show on its nights."""
    base, cohort = lesson.base.profile, names["cohort"]
    whom = f"the cohort {cohort!r}" if cohort else "the cohort it was fitted on"
    # bands are per epoch, and those of another epoch length mean something else
    kept = dict(base.bands) if lesson.base.ratio == 1.0 else {}
    bands = kept | dict(expert_bands([list(night.experts) for night in nights], base))
    return dict(names) | {
        "intended_for": f"Nights of {whom}, at epochs of {nights.epoch_seconds:g} s.",
        "bands": {name: documents.plain(band) for name, band in bands.items()},
    }


def _inherited(lesson: Lesson, cohort: str | None) -> dict[str, Any]:
    """Return what stays of the base profile, without its cautions for the cohort it was fitted to."""
    base = lesson.base.profile
    document = base.to_dict()
    cautions = document.get("not_for")
    if cohort is not None and isinstance(cautions, list | tuple):
        of_cohort = words_of(cohort)
        pairs = zip(cautions, base.not_for, strict=True)
        cautions = [entry for entry, caution in pairs if not caution.concerns(of_cohort)]
    pairs_counted = [list(pair) for pair in base.tvr_pairs]
    joint = document.get("joint") if lesson.base.ratio == 1.0 else None  # of many cohorts
    return {"not_for": cautions, "tvr_pairs": pairs_counted, "joint": joint}


def _amount(nights: Nights) -> str:
    n_nights, n_subjects = len(nights), len(nights.subjects)
    return f"{n_nights} scored night{'s' * (n_nights != 1)} of {n_subjects} subject{'s' * (n_subjects != 1)}"


def held_out_errors(nights: Nights, decoded: Sequence[Decoding]) -> dict[str, Any]:
    """Return the key `intervals` of a profile: errors of each person's nights, and coverage, by statistic.

    Outputs are measured as those of new nights will be, with the epochs that the expert left out.
    """
    in_order = sorted(nights, key=lambda night: night.number)
    subjects = [night.subject for night in in_order]
    table = errors([night.expert for night in in_order], decoded)
    rounded = {
        name: by_person([round(value, _DECIMALS) + 0.0 for value in values], subjects)
        for name, values in table.items()
    }
    # by subject: the errors of one person must not cover that person's nights
    judged = {name: coverage(values, subjects) for name, values in table.items()}
    hits: dict[str, list[bool]] = {}
    for night, result in zip(in_order, decoded, strict=True):
        drawn = intervals(result, method="model", n=MODEL_DRAWS, seed=int(night.sha256[:8], 16))
        truth = reported(sleep_statistics(night.expert))
        for name, interval in drawn.items():
            if not interval.reason and not math.isnan(truth[name]):
                hits.setdefault(name, []).append(interval.low <= truth[name] <= interval.high)
    by_draws = {name: round(float(np.mean(values)), _DECIMALS) for name, values in hits.items()}
    return {
        "n_nights": len(nights),
        "n_subjects": len(nights.subjects),
        "min_first_rem_seconds": FIRST_REM_SECONDS,
        "level_of_coverage": DEFAULT_LEVEL,
        # sorted, so that nobody can be followed from one statistic to the next
        "errors": {
            name: sorted(sorted(each) for each in people) for name, people in rounded.items() if people
        },
        "coverage": {name: round(k / n, _DECIMALS) for name, (k, n) in judged.items() if n},
        **({"model_coverage": by_draws} if by_draws else {}),
    }


def _provenance(lesson: Lesson, nights: Nights, source: str) -> dict[str, Any]:
    base = lesson.base.profile
    pairs = zip(base.scheme.names, lesson.pairs.sum(axis=1).tolist(), strict=True)
    return {
        "source": source,
        "base": {"name": base.name, "sha256": base.sha256},
        "stageguard": __version__,
        "n_nights": len(nights),
        "n_subjects": len(nights.subjects),
        "n_scorings": sum(len(night.experts) for night in nights),
        "n_scored_epochs": sum(int(np.count_nonzero(night.truth >= 0)) for night in nights),
        "nights_sha256": nights.sha256(),
        "mean_fragmentation_index": _plain(lesson.fi),
        "pairs_counted_from": {name: round(n) for name, n in pairs},
        "smoothing": SMOOTHING,
    }


def _plain(value: Any) -> Any:
    """Return a value that TOML can hold: numbers are rounded, NaN and infinity are text."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else "n/a"
