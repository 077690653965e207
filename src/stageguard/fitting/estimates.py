"""Choose the estimator of each statistic on the nights held out from the fit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import StageGuardWarning
from stageguard.fitting.cross_validation import HeldOut
from stageguard.fitting.scoring import mean_over_subjects, paired_error
from stageguard.guard.decode import decode, under_full_clock
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import path_marginals
from stageguard.measures.estimates import (
    default_of_minutes,
    default_of_rem_latency,
    default_of_sol,
    rem_latency_of,
    sleep_onset_of,
    stager_kind_of,
    sums_of,
)
from stageguard.measures.statistics import StatisticsOptions, sleep_statistics
from stageguard.night.hypnodensity import FromLabels, Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.profile.parts import (
    OF_MINUTES,
    OF_REM_LATENCY,
    OF_SOL,
    REM_LATENCY,
    SOL,
    TST,
    estimators_of,
)

DEFAULT = "default"  # the estimator if held-out nights chose none


@dataclass(frozen=True, slots=True)
class EstimatorChoice:
    """The estimator of one statistic, chosen if it is surely better than the default on held-out nights.

    Attributes
    ----------
    statistic, estimator : str
        The estimator is ``default`` if none is surely better: the one of `stageguard.measures.estimates` for
        this kind of stager.
    default_error, error : float
        Mean absolute error over subjects, in minutes, of the default and of the best of all.
    gain, gain_error : float
        By how much the best is better, and its standard error.
    """

    statistic: str
    estimator: str
    default_error: float
    error: float
    gain: float
    gain_error: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return asdict(self)


def held_out_decodings(held_out: HeldOut, *, by_default: bool) -> list[Decoding]:
    """Return every night decoded by the profile fitted without it, or by the default."""
    material, decoded = held_out.nights, []
    profiles = held_out.default_profiles if by_default else held_out.profiles
    for night, profile in zip(material.nights, profiles, strict=True):
        assert night.matrix is not None
        # the default estimators depend on what the stager gives
        from_labels: FromLabels | None = None if night.said is None else "own"
        about = (material.scheme, material.epoch_seconds)
        density = Hypnodensity(night.matrix, *about, from_labels=from_labels)
        if by_default:
            density = night.unscored(material)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # a fit may change many epochs
            decoded.append(decode(density, profile, trained=night.trained))
    return decoded


def choose_estimators(held_out: HeldOut, decoded: Sequence[Decoding]) -> tuple[EstimatorChoice, ...]:
    """Compare the estimators of every statistic with its default on held-out nights, as decoded."""
    scored = [
        Hypnogram(night.truth, held_out.nights.scheme, held_out.nights.epoch_seconds)
        for night in held_out.nights.nights
    ]
    seeds = [night.seed for night in held_out.nights.nights]
    errors = [_errors(*each) for each in zip(decoded, scored, seeds, strict=True)]
    return tuple(
        choice
        for name in estimators_of(held_out.nights.scheme)
        if (choice := _choice(name, [each[name] for each in errors], held_out.subjects)) is not None
    )


def _choice(
    name: str, errors: Sequence[Mapping[str, float]], subjects: Sequence[str]
) -> EstimatorChoice | None:
    """Return the estimator of a statistic; None if no expert's night has it."""
    ways = list(errors[0])  # the default first, so that it wins ties
    table: Floats = np.array([[each[way] for each in errors] for way in ways])
    means = mean_over_subjects(table, subjects)
    if np.isnan(means).all():
        return None
    # the default comes first, so that it wins a tie
    best = int(np.argmin(means))
    gain, error = paired_error(table[0], table[best], subjects)
    # of several estimators one is the best by chance
    chosen = ways[best] if gain > error else DEFAULT
    return EstimatorChoice(name, chosen, float(means[0]), float(means[best]), gain, error)


def _errors(night: Decoding, expert: Hypnogram, seed: int) -> dict[str, dict[str, float]]:
    """Return the absolute error of each estimator of each statistic, over the epochs the expert scored."""
    is_scored = expert.labels != UNSCORED
    statistics = sleep_statistics(expert)
    sums = sums_of(night, path_marginals(night), is_scored)
    estimates: dict[str, dict[str, float]] = {TST: {way: sums[way].tst_minutes for way in OF_MINUTES}}
    for stage in expert.scheme.names:
        estimates[f"minutes_{stage}"] = {way: sums[way].stage_minutes[stage] for way in OF_MINUTES}
    truth = {TST: statistics.tst_minutes}
    truth |= {f"minutes_{stage}": minutes for stage, minutes in statistics.stage_minutes.items()}
    kind = stager_kind_of(night)
    for name, ways in estimates.items():
        ways |= {DEFAULT: ways[default_of_minutes(kind, name)]}
    if expert.scheme.rem is not None:
        # all estimators see the epochs that the expert scored, and no others
        labels = np.where(is_scored, night.hypnogram.labels, UNSCORED).astype(np.int8)
        shown = replace(night, hypnogram=replace(night.hypnogram, labels=labels))
        end = len(labels) * night.epoch_seconds / 60.0  # what never comes counts as coming at the end
        strict, options = under_full_clock(shown), StatisticsOptions()
        onsets = {way: sleep_onset_of(shown, strict, options, way) for way in OF_SOL}
        onsets[DEFAULT] = onsets[default_of_sol(night, kind)]
        latencies = {
            way: rem_latency_of(shown, strict, options, way, seed, onsets[DEFAULT].epoch)
            for way in OF_REM_LATENCY
        }
        latencies[DEFAULT] = latencies[default_of_rem_latency(night, is_scored)]
        estimates[SOL] = {way: onset.minutes for way, onset in onsets.items()}
        estimates[REM_LATENCY] = latencies
        for name in (SOL, REM_LATENCY):
            estimates[name] = {way: end if math.isnan(x) else x for way, x in estimates[name].items()}
            truth[name] = getattr(statistics, name)
    return {
        name: {way: abs(ways[way] - truth[name]) for way in (DEFAULT, *ways)}
        for name, ways in estimates.items()
    }
