"""A profile, its cautions and its origin as rows of text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard.guard.decoding import Decoding
from stageguard.profile.profile import Profile

ACTIONS = {"warn": "warns", "refuse": "refuses"}


@dataclass(frozen=True, slots=True)
class CautionRow:
    """A cohort the profile is not made for."""

    cohort: str
    action: str
    reason: str


def caution_rows(profile: Profile) -> tuple[CautionRow, ...]:
    """Return whom the profile is not made for."""
    return tuple(
        CautionRow(caution.cohort or "any named in the sentence", ACTIONS[caution.action], caution.reason)
        for caution in profile.not_for
    )


def settings_rows(profile: Profile) -> Iterator[tuple[str, str]]:
    """Return the settings that shaped the night."""
    yield "Stages", ", ".join(profile.scheme.names)
    yield "Epoch length", f"{profile.epoch_seconds:g} s"
    rule = profile.strength
    if rule is None:
        yield "Strength", f"fixed transition weight {profile.transition_weight:g}"
    elif rule.rule == "band":
        low, high = rule.floor * rule.fi_target, rule.cap * rule.fi_target
        yield (
            "Strength",
            f"per recording, the least that brings the fragmentation index into {low:.3f} to {high:.3f} "
            f"({rule.floor:g} to {rule.cap:g} times the experts' {rule.fi_target:g})",
        )
    else:
        yield "Strength", f"per recording, nearest to the experts' fragmentation index {rule.fi_target:g}"
    minimum = ", ".join(f"{stage} {seconds:g} s" for stage, seconds in profile.min_bout_seconds.items())
    yield "Minimum bouts", minimum or "none"
    discouraged = ", ".join(f"{pair.source}→{pair.target} ({pair.probability:g})" for pair in profile.rare)
    yield "Discouraged transitions", discouraged or "none"
    yield "Transitions counted by TVR", ", ".join(f"{a}→{b}" for a, b in profile.tvr_pairs) or "none"
    flip = profile.flip_flop
    quick = f"{flip.penalty_nats:g} nats within {flip.window_epochs} epochs, {flip.method}"
    yield "Penalty on quick returns", quick if flip.penalty_nats else "none"
    if profile.calibration.temperature != 1.0 or profile.calibration.biases is not None:
        biases = profile.calibration.biases
        shown = "" if biases is None else f", biases {', '.join(f'{bias:g}' for bias in biases)} nats"
        yield "Calibration", f"temperature {profile.calibration.temperature:g}{shown}"


def provenance_rows(provenance: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Return nested provenance as flat rows of name and text."""
    for key, value in provenance.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping) and {"columns", "rows"} <= value.keys():
            size = f"Table of {len(value['rows'])} rows in the profile."
            yield name, f"{value['finding']} {size}" if "finding" in value else size
        elif isinstance(value, Mapping):
            yield from provenance_rows(value, f"{name} · ")
        elif isinstance(value, list | tuple):
            yield name, ", ".join(str(item) for item in value)
        else:
            yield name, str(value)


def version_rows(decoding: Decoding) -> Iterator[tuple[str, str]]:
    """Return versions, options and hashes: what is needed to make the night again."""
    made = decoding.provenance()
    yield "StageGuard", f"{made['stageguard']}, {made['core']} core"
    yield "NumPy, Python", f"{made['numpy']}, {made['python']}"
    for name, value in made["options"].items():
        if value is not None:
            yield name.replace("_", " "), f"{value:g}" if isinstance(value, float) else str(value)
    if decoding.source:
        yield "source", decoding.source
    yield "SHA-256 of the profile", made["profile_sha256"]
    yield "SHA-256 of the probabilities (float64)", _sha256(decoding.density.probabilities.astype("<f8"))
    yield "SHA-256 of the decoded labels (int8)", _sha256(decoding.hypnogram.labels)


def _sha256(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
