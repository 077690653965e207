"""Numbers that tables need from the stages of epochs, computed once: joint scores, agreement of networks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from stageguard.arrays import NAN, Labels
from stageguard.errors import MissingFileError
from stageguard.files import file_error, load_json, write_together
from stageguard.measures.agreement import cohen_kappa
from stageguard.measures.bouts import contingency
from stageguard.measures.validity import validity
from stageguard.night.hypnogram import Hypnogram
from stageguard.profile.profile import Profile
from stageguard.study.store import BASE, CALIBRATED, DERIVED, EXPERT, PAPER, RELEASED, Results, read_stages

Nights = Mapping[str, Mapping[str, Any]]
NOTHING: Mapping[str, Any] = {"joint": {}, "joint_threshold": None, "networks": [], "changed": {}}
# variants for which networks are compared with each other
COMPARED = (BASE, PAPER, "paper, no penalty", RELEASED, CALIBRATED)
# Prefixes of columns that are no stages.
ABOUT = ("epoch", "p_")


def staged_nights(results: Results, backbone: str) -> dict[str, dict[str, Any]]:
    """Return the columns of all variants of a backbone, by recording."""
    merged: dict[str, dict[str, Any]] = {}
    for record in results.of(backbone):
        columns = read_stages(results.folder, record["key"])
        recordings = np.asarray(columns["recording"])
        for name in np.unique(recordings):
            rows = recordings == name
            kept = {k: v[rows] for k, v in columns.items() if k != "recording"}
            night = merged.setdefault(str(name), {})
            if record["loss"] != "base":  # keep only the base network's probabilities
                kept = {k: v for k, v in kept.items() if not k.startswith("p_")}
            night |= kept
    return merged


def derived_of(results: Results) -> Mapping[str, Any]:
    """Return the derived numbers that the study stored, else derive them; empty without stages."""
    path = results.folder / DERIVED
    if path.is_file():
        stored: Mapping[str, Any] = load_json(path)
        if not _is_derived(stored):
            raise file_error(path, "was edited or damaged. Remove it, and run the study again.")
        return stored
    try:
        return derive(results)
    except MissingFileError:
        return NOTHING


def _is_derived(document: Any) -> bool:
    """Whether a document has the form of what `derive` returns."""
    if not isinstance(document, dict) or document.keys() != NOTHING.keys():
        return False
    return (
        _has_numbers(document["joint"], 3)
        and _has_numbers(document["changed"], 3)
        and isinstance(document["joint_threshold"], float | int | None)
        and isinstance(document["networks"], list)
        and all(
            isinstance(each, dict)
            and isinstance(each.get("variant"), str)
            and isinstance(each.get("pair"), list)
            and all(_has_numbers(each.get(name), 1) for name in ("kappa", "agreement"))
            for each in document["networks"]
        )
    )


def _has_numbers(value: Any, depth: int) -> bool:
    """Whether tables within tables, this many deep, hold nothing but numbers."""
    if not depth:
        return isinstance(value, float | int)
    return isinstance(value, dict) and all(_has_numbers(each, depth - 1) for each in value.values())


def derive(results: Results) -> dict[str, Any]:
    """Return joint scores and changed epochs by network, variant and recording, and agreement of networks.

    The joint score is that of the profile from which the calibrated guard starts. Changed epochs differ from
    the published method. Both are counted over the epochs that the expert scored. Agreement (kappa, and the
    share of equal epochs) is by recording.
    """
    nights = {name: staged_nights(results, name) for name in results.backbones}
    profile = Profile.load(results.study["guard"]["base"])
    seconds = results.records[0]["epoch_seconds"] if results.records else profile.epoch_seconds
    return {
        "joint": {name: _joint_scores(found, profile, seconds) for name, found in nights.items()},
        "joint_threshold": profile.joint.threshold if profile.joint is not None else None,
        "networks": [
            {
                "pair": [first, second],
                "variant": variant,
                **_network_agreement(nights[first], nights[second], variant),
            }
            for first, second in combinations(nights, 2)
            for variant in COMPARED
        ],
        "changed": {name: _count_changes(found) for name, found in nights.items()},
    }


def write_derived(results: Results) -> None:
    """Derive the numbers again from the stages of a finished study."""
    path = results.folder / DERIVED
    path.unlink(missing_ok=True)
    write_together({path: derived_text(results)}, overwrite=True)


def derived_text(results: Results) -> str:
    """Return the content of the file of derived numbers."""
    return json.dumps(derived_of(results), allow_nan=False) + "\n"


def _joint_scores(nights: Nights, profile: Profile, epoch_seconds: float) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for recording, columns in sorted(nights.items()):
        for variant in (name for name in columns if not name.startswith(ABOUT)):
            labels = np.where(columns[EXPERT] < 0, -1, columns[variant]).astype(np.int8)
            scored = Hypnogram(labels, profile.scheme, epoch_seconds)
            score = validity(scored, profile).joint.value
            if not np.isnan(score):
                scores.setdefault(variant, {})[recording] = float(f"{score:.6g}")
    return scores


def _count_changes(nights: Nights) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for recording, columns in sorted(nights.items()):
        for variant in (name for name in columns if PAPER in columns and not name.startswith(ABOUT)):
            is_other = (columns[variant] != columns[PAPER]) & (columns[EXPERT] >= 0)
            counts.setdefault(variant, {})[recording] = int(np.count_nonzero(is_other))
    return counts


def _network_agreement(first: Nights, second: Nights, variant: str) -> dict[str, dict[str, float]]:
    both = [r for r in sorted(first.keys() & second.keys()) if variant in first[r] and variant in second[r]]
    compared = {r: _agreement_of(first[r][variant], second[r][variant]) for r in both}
    return {
        "kappa": {r: float(f"{kappa:.6g}") for r, (kappa, _) in compared.items() if not np.isnan(kappa)},
        "agreement": {r: float(f"{share:.6g}") for r, (_, share) in compared.items()},
    }


def _agreement_of(first: Labels, second: Labels) -> tuple[float, float]:
    """Return Cohen's kappa of two scorings, and the share of equal epochs, over epochs scored in both."""
    counted = contingency(first, second, int(max(first.max(), second.max())) + 1)
    n_both = int(counted.sum())
    return cohen_kappa(counted), float(np.trace(counted)) / n_both if n_both else NAN
