"""The errors on nights held out from a fit, by statistic, as a profile keeps them. Makes no interval."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from stageguard.base.errors import StageGuardWarning
from stageguard.fitting.cross_validation import HeldOut
from stageguard.guard.decode import decode
from stageguard.measures.intervals import DEFAULT_LEVEL, coverage, errors, intervals, reported
from stageguard.measures.statistics import sleep_statistics
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.profile.profile import Profile

MODEL_DRAWS = 100
_DECIMALS = 3  # of minutes, percent and counts


def held_out_errors(found: HeldOut, *, aside: bool, min_first_rem_seconds: float) -> dict[str, Any]:
    """Return what a profile keeps of the errors on nights that were decoded by a fit without their subject.

    `aside` takes the errors of argmax, for a profile that returns it. Epochs that the expert left unscored
    count for neither.
    """
    material = found.nights
    experts = [
        Hypnogram(night.truth, material.scheme, material.epoch_seconds, night.start)
        for night in material.nights
    ]
    labels = found.argmax if aside else found.labels
    outputs = [_like(expert, own) for expert, own in zip(experts, labels, strict=True)]
    table = errors(experts, outputs, min_first_rem_seconds=min_first_rem_seconds)
    groups = [night.group for night in material.nights]
    kept = {name: sorted(_known(values)) for name, values in table.items()}
    judged = {name: coverage(values, groups) for name, values in table.items()}
    result: dict[str, Any] = {
        "n_nights": len(material.nights),
        "n_subjects": len(material.subjects),
        "min_first_rem_seconds": min_first_rem_seconds,
        "level_of_coverage": DEFAULT_LEVEL,
        "errors": {name: values for name, values in kept.items() if values},
        "coverage": {name: round(k / n, _DECIMALS) for name, (k, n) in judged.items() if n},
    }
    drawn = _model_coverage(found, experts, aside=aside, min_first_rem_seconds=min_first_rem_seconds)
    return result | ({"model_coverage": drawn} if drawn else {})


def _like(expert: Hypnogram, labels: Any) -> Hypnogram:
    """Return an output on the epochs the expert scored."""
    kept = np.where(expert.labels == UNSCORED, UNSCORED, labels).astype(np.int8)
    return Hypnogram(kept, expert.scheme, expert.epoch_seconds, expert.start)


def _known(values: Sequence[float]) -> list[float]:
    return [round(value, _DECIMALS) + 0.0 for value in values if not math.isnan(value)]


def _model_coverage(
    found: HeldOut, experts: Sequence[Hypnogram], *, aside: bool, min_first_rem_seconds: float
) -> dict[str, float]:
    """Return how often intervals from posterior draws cover the expert, by statistic."""
    hits: dict[str, list[bool]] = {}
    for night, expert, profile in zip(found.nights.nights, experts, found.profiles, strict=True):
        assert night.matrix is not None
        own = _stepping_aside(profile) if aside else profile
        density = Hypnodensity(night.matrix, expert.scheme, expert.epoch_seconds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # that much is changed is what a fit may find
            (result,) = decode([density], own)
        drawn = intervals(
            result,
            method="model",
            n=MODEL_DRAWS,
            seed=night.number,
            min_first_rem_seconds=min_first_rem_seconds,
        )
        wanted = reported(sleep_statistics(expert, min_first_rem_seconds=min_first_rem_seconds))
        for name, one in drawn.items():
            if not one.reason and not math.isnan(wanted[name]):
                hits.setdefault(name, []).append(one.low <= wanted[name] <= one.high)
    return {name: round(float(np.mean(values)), _DECIMALS) for name, values in hits.items()}


def _stepping_aside(profile: Profile) -> Profile:
    """Return the profile of argmax: no rules, and no biases, so that the likeliest stage stays the same."""
    temperature = {"temperature": profile.calibration.temperature}
    plain = profile.replace(calibration=temperature, transition_weight=0.0, min_bout_seconds=None)
    return plain.replace(durations=None, prior_exponent=None)
