"""The errors on nights held out from a fit, by statistic, as a profile keeps them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class HeldOutErrors:
    """The errors on nights that were decoded by a fit without their subject, as a profile keeps them.

    Attributes
    ----------
    min_first_rem_seconds : float
        How long a REM bout has to be for REM latency to end with it.
    errors : mapping
        Sorted errors by statistic.
    coverage, model_coverage : mapping
        How often conformal intervals, and those from posterior draws, cover the expert, by statistic.
    """

    n_nights: int
    n_subjects: int
    min_first_rem_seconds: float
    errors: Mapping[str, list[float]]
    coverage: Mapping[str, float]
    model_coverage: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the key `intervals` of a profile."""
        document = {
            "n_nights": self.n_nights,
            "n_subjects": self.n_subjects,
            "min_first_rem_seconds": self.min_first_rem_seconds,
            "level_of_coverage": DEFAULT_LEVEL,
            "errors": self.errors,
            "coverage": self.coverage,
        }
        return document | ({"model_coverage": self.model_coverage} if self.model_coverage else {})


def held_out_errors(held_out: HeldOut, *, aside: bool, min_first_rem_seconds: float) -> HeldOutErrors:
    """Compare nights with their experts.

    `aside` takes the errors of argmax, for a profile that returns it. Epochs that the expert left unscored
    count for neither.
    """
    material = held_out.nights
    experts = [
        Hypnogram(night.truth, material.scheme, material.epoch_seconds, night.start)
        for night in material.nights
    ]
    labels = held_out.argmax if aside else held_out.labels
    outputs = [_like(expert, decoded) for expert, decoded in zip(experts, labels, strict=True)]
    table = errors(experts, outputs, min_first_rem_seconds=min_first_rem_seconds)
    groups = [night.group for night in material.nights]
    kept = {name: sorted(_known(values)) for name, values in table.items()}
    judged = {name: coverage(values, groups) for name, values in table.items()}
    return HeldOutErrors(
        n_nights=len(material.nights),
        n_subjects=len(material.subjects),
        min_first_rem_seconds=min_first_rem_seconds,
        errors={name: values for name, values in kept.items() if values},
        coverage={name: round(k / n, _DECIMALS) for name, (k, n) in judged.items() if n},
        model_coverage=_model_coverage(
            held_out, experts, aside=aside, min_first_rem_seconds=min_first_rem_seconds
        ),
    )


def _like(expert: Hypnogram, labels: Any) -> Hypnogram:
    """Return an output on the epochs the expert scored."""
    kept = np.where(expert.labels == UNSCORED, UNSCORED, labels).astype(np.int8)
    return Hypnogram(kept, expert.scheme, expert.epoch_seconds, expert.start)


def _known(values: Sequence[float]) -> list[float]:
    return [round(value, _DECIMALS) + 0.0 for value in values if not math.isnan(value)]


def _model_coverage(
    held_out: HeldOut, experts: Sequence[Hypnogram], *, aside: bool, min_first_rem_seconds: float
) -> dict[str, float]:
    """Return how often intervals from posterior draws cover the expert, by statistic."""
    hits: dict[str, list[bool]] = {}
    for night, expert, profile in zip(held_out.nights.nights, experts, held_out.profiles, strict=True):
        assert night.matrix is not None
        night_profile = _stepping_aside(profile) if aside else profile
        density = Hypnodensity(night.matrix, expert.scheme, expert.epoch_seconds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # that much is changed is what a fit may find
            (result,) = decode([density], night_profile)
        drawn = intervals(
            result,
            method="model",
            n=MODEL_DRAWS,
            seed=night.number,
            min_first_rem_seconds=min_first_rem_seconds,
        )
        wanted = reported(sleep_statistics(expert, min_first_rem_seconds=min_first_rem_seconds))
        for name, interval in drawn.items():
            if not interval.reason and not math.isnan(wanted[name]):
                hits.setdefault(name, []).append(interval.low <= wanted[name] <= interval.high)
    return {name: round(float(np.mean(values)), _DECIMALS) for name, values in hits.items()}


def _stepping_aside(profile: Profile) -> Profile:
    """Return the profile of argmax: no rules, and no biases, so that the likeliest stage stays the same."""
    temperature = {"temperature": profile.calibration.temperature}
    plain = profile.replace(calibration=temperature, transition_weight=0.0, min_bout_seconds=None)
    return plain.replace(durations=None, prior_exponent=None)
