"""Estimates from probabilities: expected minutes, and REM latency where REM is scarce.

Counting labels underestimates stages that are seldom the likeliest; sums of their probabilities do not. If a
stager hardly shows REM, there is no first REM to read off its hypnogram, but there is in its posterior under
the clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from stageguard.base.arrays import NAN, Floats, Labels, Mask
from stageguard.base.errors import InputError
from stageguard.guard.decode import under_full_clock
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import path_draws, path_marginals
from stageguard.measures.bouts import stage_counts
from stageguard.measures.statistics import (
    FIRST_REM_SECONDS,
    Convention,
    StatisticsOptions,
)
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.quantities import EARLY_REM_MINUTES
from stageguard.night.stages import StageScheme
from stageguard.night.timing import Moment, lights_window
from stageguard.profile.parts import (
    DEFAULT_OF_MINUTES,
    ESTIMATORS,
    OF_MINUTES,
    REM_LATENCY,
    TST,
    estimators_of,
)
from stageguard.profile.rules.target import YIELDING_WEIGHT

FIRST_EPOCH = "first REM epoch"  # REM latency on the path

# Our choice, on the nights of studies/guard-on-real-data: with less REM than this in the stager's sleep, the
# posterior comes nearer to the experts' REM latency than a path; with more REM, a path comes nearer.
LITTLE_REM = 0.08
EXPECTED_REM_SECONDS = 180.0
N_DRAWS = 25


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected minutes of every stage, and of sleep (NaN if no stage is wake)."""

    stage_minutes: Mapping[str, float]
    tst_minutes: float

    @classmethod
    def of(cls, minutes: Sequence[float], scheme: StageScheme) -> Expected:
        """Return the minutes of each stage, in the scheme's order, and of sleep."""
        wake = scheme.wake_index
        asleep = NAN if wake is None else sum([*minutes[:wake], *minutes[wake + 1 :]])
        return cls(dict(zip(scheme.names, minutes, strict=True)), asleep)

    @property
    def minutes(self) -> dict[str, float]:
        """Minutes by the keys of `stageguard.night.quantities`."""
        stages = {f"expected_minutes_{stage}": each for stage, each in self.stage_minutes.items()}
        return {"expected_tst_minutes": self.tst_minutes} | stages

    def values(self, wake: str | None) -> dict[str, float]:
        """Return minutes, and shares of expected sleep, by the keys of `stageguard.night.quantities`."""
        # no share of no sleep
        tst = self.tst_minutes or NAN
        return self.minutes | {
            f"expected_percent_{stage}": 100.0 * each / tst
            for stage, each in self.stage_minutes.items()
            if stage != wake
        }


def sums_of(night: Decoding, posterior: Floats, chosen: slice | Mask) -> dict[str, Expected]:
    """Return minutes over some epochs by each estimator: counted on the stages, or as sums."""
    scheme = night.profile.scheme
    sums = {
        "path": stage_counts(night.hypnogram.labels[chosen], scheme.n_stages).astype(np.float64),
        "probabilities": _column_sums(night.night.probabilities[chosen]),
        "posterior": _column_sums(posterior[chosen]),
    }
    seconds = night.epoch_seconds
    return {way: Expected.of((sums[way] * seconds / 60.0).tolist(), scheme) for way in OF_MINUTES}


def _column_sums(probabilities: Floats) -> Floats:
    """Return the sums over the epochs that have probabilities."""
    sums: Floats = np.ones(len(probabilities)) @ probabilities  # several times faster than sum(axis=0)
    if math.isnan(sums[0]):  # a row is NaN throughout
        sums = probabilities[~np.isnan(probabilities).any(axis=1)].sum(axis=0)
    return sums


@dataclass(frozen=True, slots=True)
class Estimates:
    """What a night's probabilities add to its hypnogram, which does not change.

    Attributes
    ----------
    before, after : Expected
        Sums of the stager's probabilities, and of the posterior at the strength the night was decoded with.
    best : Expected
        Minutes by the estimators that the profile names, by default those of the posterior.
    estimators : mapping of str to str
        The estimator of each of them: ``path``, ``probabilities`` or ``posterior``.
    rem_latency_minutes : float
        The best estimate of REM latency for this night; NaN if there is none.
    rem_latency_estimator : str
        Its estimator, in the words of `stageguard.profile.parts`: the one that the profile names. By
        default, with a clock, it is the first lasting REM bout of the night decoded under the full clock
        (weight 1, no bound for long bouts) or, if the stager shows REM in less than 8 % of its sleep, the
        time when its posterior expects 3 min of REM; without a clock, the first lasting REM bout. If none of
        these exists, it is the first REM epoch.
    early_rem_kept_minutes : float
        Minutes from sleep onset to REM in the hypnogram that this estimate passes over, if within 15 min;
        else NaN.
    first_epoch, stop_epoch : int
        Epochs between which the night was measured.
    """

    before: Expected
    after: Expected
    best: Expected
    estimators: Mapping[str, str]
    wake: str | None
    rem_latency_minutes: float
    rem_latency_estimator: str
    early_rem_kept_minutes: float
    first_epoch: int
    stop_epoch: int

    def values(self, scoring: Literal["before", "after"]) -> dict[str, float]:
        """Return the numbers of one scoring by the keys of `stageguard.night.quantities`."""
        if scoring == "before":
            return self.before.values(self.wake)
        return self.best.values(self.wake) | {"rem_latency_estimate_minutes": self.rem_latency_minutes}

    @property
    def others(self) -> dict[str, str]:
        """The stages, or ``TST``, that are not sums of the posterior, and their estimator in words."""
        return {
            "TST" if name == TST else name.removeprefix("minutes_"): ESTIMATORS[estimator]
            for name, estimator in self.estimators.items()
            if estimator != DEFAULT_OF_MINUTES
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, as `from_dict` takes them."""
        sums = {"before": self.before, "after": self.after, "best": self.best}
        return {
            "window": [self.first_epoch, self.stop_epoch],
            "expected_minutes": {name: dict(each.stage_minutes) for name, each in sums.items()},
            "expected_tst_minutes": {name: each.tst_minutes for name, each in sums.items()},
            "estimators": dict(self.estimators),
            "wake": self.wake,
            "rem_latency_minutes": self.rem_latency_minutes,
            "rem_latency_estimator": self.rem_latency_estimator,
            "early_rem_kept_minutes": self.early_rem_kept_minutes,
        }

    @classmethod
    def from_dict(cls, recorded: Mapping[str, Any]) -> Estimates:
        """Return the estimates that `to_dict` wrote; NaN may have become None."""

        def number(value: float | None) -> float:
            return NAN if value is None else float(value)

        minutes, tst = recorded["expected_minutes"], recorded["expected_tst_minutes"]
        before, after, best = (
            Expected({stage: number(each) for stage, each in minutes[name].items()}, number(tst[name]))
            for name in ("before", "after", "best" if "best" in minutes else "after")
        )
        latency, estimator = number(recorded["rem_latency_minutes"]), recorded["rem_latency_estimator"]
        kept, window = number(recorded.get("early_rem_kept_minutes")), recorded["window"]
        chosen, wake = recorded.get("estimators", {}), recorded["wake"]
        return cls(before, after, best, chosen, wake, latency, estimator, kept, *window)


def estimates(
    night: Decoding,
    *,
    convention: Convention = "aasm",
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    min_first_rem_seconds: float = FIRST_REM_SECONDS,
    seed: int = 0,
) -> Estimates:
    """Return the expected minutes of every stage, and the best estimate of REM latency.

    Takes about as long as decoding the night once more.

    Parameters
    ----------
    night : Decoding
        A decoded night.
    convention, lights_off, lights_on, min_first_rem_seconds
        As in `stageguard.sleep_statistics`.
    seed : int
        Seed of the 25 draws behind a median.

    Returns
    -------
    Estimates
        Sums of probabilities before and after decoding, and REM latency with the name of its estimator.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.simulate_night("human-psg-5", seed=1)
    >>> found = sg.estimates(sg.decode(night.density, "human-psg-5"))
    >>> round(found.best.stage_minutes["R"]), found.rem_latency_minutes
    (96, 67.5)
    """
    if not isinstance(night, Decoding):
        raise InputError(f"the night is a {type(night).__name__}, expected what decode() returned.")
    options = StatisticsOptions(convention, lights_off, lights_on, min_first_rem_seconds)
    return estimates_of(night, options, seed)


def estimates_of(night: Decoding, options: StatisticsOptions, seed: int = 0) -> Estimates:
    """Return the estimates of a decoded night; see `estimates`."""
    window = lights_window(night.hypnogram, *options.lights)
    sums = sums_of(night, path_marginals(night), slice(*window))
    scheme = night.profile.scheme
    named = night.profile.estimators
    strict = under_full_clock(night)
    estimator = named.get(REM_LATENCY) or default_of_rem_latency(night, slice(*window))
    latency = rem_latency_of(night, strict, options, estimator, seed)
    latency_estimator = FIRST_EPOCH if estimator == "path" else ESTIMATORS[estimator]
    if math.isnan(latency):  # any REM on the path is better than no latency at all
        latency = rem_latency_of(night, strict, options, "path", seed)
        latency_estimator = FIRST_EPOCH
    chosen = {name: named.get(name, DEFAULT_OF_MINUTES) for name in estimators_of(scheme)}
    chosen.pop(REM_LATENCY, None)
    minutes = {stage: sums[chosen[f"minutes_{stage}"]].stage_minutes[stage] for stage in scheme.names}
    return Estimates(
        before=sums["probabilities"],
        after=sums["posterior"],
        best=Expected(minutes, sums[chosen[TST]].tst_minutes),
        estimators=chosen,
        wake=scheme.wake,
        rem_latency_minutes=latency,
        rem_latency_estimator=latency_estimator,
        early_rem_kept_minutes=_early_rem_kept(night, options, latency),
        first_epoch=window[0],
        stop_epoch=window[1],
    )


def rem_latency_of(
    night: Decoding, strict: Decoding, options: StatisticsOptions, estimator: str, seed: int
) -> float:
    """Return REM latency by one estimator, or NaN. `strict` is the night decoded under the full clock."""
    if estimator == "draws":
        return _median_of_draws(night, options, seed)
    if estimator == "expected":
        return _expected_rem_latency(night, strict, options)
    shown = night.hypnogram
    if estimator == "clock":
        shown = replace(shown, labels=_labels_under(strict, night))
    statistics = options.measure(shown)
    return statistics.rem_latency_minutes if estimator == "path" else statistics.rem_latency_bout_minutes


def _early_rem_kept(night: Decoding, options: StatisticsOptions, latency: float) -> float:
    """Return minutes from sleep onset to early REM that the estimate passes over; NaN without it."""
    if math.isnan(latency) or latency < EARLY_REM_MINUTES:
        return NAN
    shown = options.measure(night.hypnogram).rem_latency_minutes
    since_onset = replace(options, convention="aasm").measure(night.hypnogram).rem_latency_minutes
    # the estimate is later than the hypnogram's early REM: somebody should look at that REM
    is_passed_over = since_onset < EARLY_REM_MINUTES <= since_onset + latency - shown
    return since_onset if is_passed_over else NAN


def default_of_rem_latency(night: Decoding, chosen: slice | Mask) -> str:
    """Return the estimator of REM latency for a profile that names none, by the stager's own stages."""
    if night.night.clock is None:
        return "bout"
    scheme = night.profile.scheme
    counts = stage_counts(night.argmax[chosen], scheme.n_stages).tolist()
    n_asleep = sum(counts) - (0 if scheme.wake_index is None else counts[scheme.wake_index])
    # without REM in the scheme there is no REM to be short of
    n_rem = n_asleep if scheme.rem_index is None else counts[scheme.rem_index]
    return "expected" if n_rem < LITTLE_REM * n_asleep else "clock"


def _labels_under(strict: Decoding, night: Decoding) -> Labels:
    """Return the labels under the full clock, unscored where the night is."""
    labels = night.hypnogram.labels
    return np.where(labels == UNSCORED, labels, strict.hypnogram.labels)


def _expected_rem_latency(night: Decoding, strict: Decoding, options: StatisticsOptions) -> float:
    """Return the latency of 3 min of REM that end when the posterior under the full clock expects them."""
    scheme = strict.profile.scheme
    rem, labels = scheme.rem_index, _labels_under(strict, night)
    if rem is None:
        return NAN
    first, stop = lights_window(night.hypnogram, *options.lights)
    # epochs without probabilities promise no REM
    expected = np.nan_to_num(path_marginals(strict)[first:stop, rem])
    expected[labels[first:stop] == UNSCORED] = 0.0
    n_epochs = EXPECTED_REM_SECONDS / strict.epoch_seconds
    reached = np.flatnonzero(expected.cumsum() >= n_epochs)
    asleep = np.flatnonzero((labels != UNSCORED) & (labels != scheme.wake_index))
    if len(reached) == 0 or len(asleep) == 0:
        return NAN
    # the minutes end where the sum is reached, and cannot begin before sleep does
    begin = max(first + int(reached[0]) + 1 - math.ceil(n_epochs), int(asleep[0]))
    nrem = (i for i in range(scheme.n_stages) if i not in (scheme.wake_index, rem))
    labels[labels == rem] = next(nrem, UNSCORED)  # one epoch of REM is left; sleep onset does not move
    labels[begin] = rem
    return options.measure(replace(night.hypnogram, labels=labels)).rem_latency_minutes


def _median_of_draws(night: Decoding, options: StatisticsOptions, seed: int) -> float:
    """Return the median over draws; a draw without REM is later than any other, and such a median is NaN."""
    if night.strength.transition_weight < YIELDING_WEIGHT:  # epochs drawn almost singly have REM anywhere
        strength = replace(
            night.strength, rule="fixed", step="fixed", transition_weight=YIELDING_WEIGHT, prior_exponent=0.0
        )
        night = replace(night, strength=strength, setting=strength.setting(night.profile, night.night))
    drawn = (
        options.measure(replace(night.hypnogram, labels=labels)).rem_latency_minutes
        for labels in path_draws(night, n=N_DRAWS, seed=seed)
    )
    median = float(np.median([math.inf if math.isnan(minutes) else minutes for minutes in drawn]))
    return median if math.isfinite(median) else NAN
