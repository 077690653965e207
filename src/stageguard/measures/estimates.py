"""The best estimates of a decoded night: minutes, sleep onset and REM latency, each with its estimator.

Counting the labels of an unsure stager underestimates stages that are seldom the likeliest; sums of their
probabilities do not. Where a stager gives labels alone, a single epoch of sleep is no sleep onset. If a
stager hardly shows REM, there is no first REM to read off its hypnogram, but there is in its posterior under
the clock.
Which estimator serves which stager was chosen by `studies/estimators`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.base.arrays import NAN, Floats, Labels, Mask
from stageguard.base.errors import InputError
from stageguard.base.values import ComparedByValue
from stageguard.guard.decode import under_full_clock
from stageguard.guard.decoding import Decoding
from stageguard.guard.posterior import path_draws, path_marginals
from stageguard.measures.bouts import runs_of, stage_counts, whole_epochs
from stageguard.measures.statistics import (
    FIRST_REM_SECONDS,
    Convention,
    StatisticsOptions,
)
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import EARLY_REM_MINUTES
from stageguard.night.stages import StageScheme
from stageguard.night.timing import Moment, lights_window
from stageguard.profile.parts import (
    ESTIMATORS,
    OF_MINUTES,
    REM_LATENCY,
    SOL,
    TST,
)
from stageguard.profile.profile import Profile
from stageguard.profile.rules.target import YIELDING_WEIGHT

FIRST_EPOCH = "first REM epoch"  # REM latency on the path
FIRST_SLEEP = "first epoch of sleep"  # SOL on the path

# What a night's stages were decoded from: labels that were softened by confusions typical of their kind or by
# the stager's own, or probabilities whose largest is, on average, at least so large or not.
Kind = Literal["labels", "own labels", "sure", "unsure"]
SURE = 0.85
# Statistics that are counted on the decoded stages, by kind; all others are sums of the posterior.
COUNTED: Mapping[Kind, frozenset[str]] = {
    "labels": frozenset((TST, "minutes_W", "minutes_N", "minutes_S")),
    "own labels": frozenset((TST, "minutes_W")),
    "sure": frozenset((TST, "minutes_W", "minutes_N3", "minutes_N", "minutes_R", "minutes_S")),
    "unsure": frozenset(),
}
LASTING_NREM_SECONDS = 60.0

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


@dataclass(frozen=True, slots=True, eq=False)
class Estimates(ComparedByValue):
    """The best estimates of a night; its hypnogram does not change.

    Attributes
    ----------
    before, after : Expected
        Sums of the stager's probabilities, and of the posterior at the strength the night was decoded with.
    best : Expected
        Minutes by the estimators that the profile names, else by those that suit the kind of stager.
    estimators : mapping of str to str
        The estimator of each of them: ``path``, ``probabilities`` or ``posterior``.
    stager_kind : str
        What the stager gave: ``labels``, ``own labels`` (the profile knows its confusions), or probabilities
        that are ``sure`` (their largest is .85 on average) or ``unsure``.
    sol_minutes, sol_estimator : float, str
        Sleep onset latency, and how it was read. Of labels, under a clock, sleep begins with a minute of
        NREM. All other nights are read by their first epoch of sleep.
    rem_latency_minutes : float
        The best estimate of REM latency from that sleep onset; NaN if there is none.
    rem_latency_estimator : str
        Its estimator, in the words of `stageguard.profile.parts`: the one that the profile names. By
        default, with a clock, it is the first lasting REM bout of the night decoded under the full clock
        (weight 1, no bound for long bouts) or, if the stager shows REM in less than 8 % of its sleep, the
        time when its posterior expects 3 min of REM; without a clock, the first lasting REM bout of a person
        and the first REM epoch of an animal. If none of these exists, it is the first REM epoch.
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
    stager_kind: Kind
    wake: str | None
    sol_minutes: float
    sol_estimator: str
    rem_latency_minutes: float
    rem_latency_estimator: str
    early_rem_kept_minutes: float
    first_epoch: int
    stop_epoch: int

    def values(self, scoring: Literal["before", "after"]) -> dict[str, float]:
        """Return the numbers of one scoring by the keys of `stageguard.night.quantities`."""
        if scoring == "before":
            return self.before.values(self.wake)
        latencies = {
            "sol_estimate_minutes": self.sol_minutes,
            "rem_latency_estimate_minutes": self.rem_latency_minutes,
        }
        return self.best.values(self.wake) | latencies

    @property
    def by_estimator(self) -> dict[str, list[str]]:
        """The stages, and ``TST``, by the words of their estimator."""
        names: dict[str, list[str]] = {}
        for name, estimator in self.estimators.items():
            stage = "TST" if name == TST else name.removeprefix("minutes_")
            names.setdefault(ESTIMATORS[estimator], []).append(stage)
        return names

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, as `from_dict` takes them."""
        sums = {"before": self.before, "after": self.after, "best": self.best}
        return {
            "window": [self.first_epoch, self.stop_epoch],
            "expected_minutes": {name: dict(each.stage_minutes) for name, each in sums.items()},
            "expected_tst_minutes": {name: each.tst_minutes for name, each in sums.items()},
            "estimators": dict(self.estimators),
            "stager_kind": self.stager_kind,
            "wake": self.wake,
            "sol_minutes": self.sol_minutes,
            "sol_estimator": self.sol_estimator,
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
            for name in ("before", "after", "best")
        )
        first, stop = recorded["window"]
        return cls(
            before=before,
            after=after,
            best=best,
            estimators=recorded["estimators"],
            stager_kind=recorded["stager_kind"],
            wake=recorded["wake"],
            sol_minutes=number(recorded["sol_minutes"]),
            sol_estimator=recorded["sol_estimator"],
            rem_latency_minutes=number(recorded["rem_latency_minutes"]),
            rem_latency_estimator=recorded["rem_latency_estimator"],
            early_rem_kept_minutes=number(recorded["early_rem_kept_minutes"]),
            first_epoch=first,
            stop_epoch=stop,
        )


def estimates(
    decoding: Decoding,
    *,
    convention: Convention = "aasm",
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    min_first_rem_seconds: float = FIRST_REM_SECONDS,
    seed: int = 0,
) -> Estimates:
    """Return the best estimates of minutes, sleep onset latency and REM latency.

    Takes about as long as decoding the night once more.

    Parameters
    ----------
    decoding : Decoding
        A decoded night.
    convention, lights_off, lights_on, min_first_rem_seconds
        As in `stageguard.sleep_statistics`.
    seed : int
        Seed of the 25 draws behind a median.

    Returns
    -------
    Estimates
        Minutes, SOL and REM latency, each with the name of its estimator.

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.simulate_night("human-psg-5", seed=1)
    >>> found = sg.estimates(sg.decode(night.density, "human-psg-5"))
    >>> round(found.best.stage_minutes["R"]), found.rem_latency_minutes
    (96, 67.5)
    """
    if not isinstance(decoding, Decoding):
        raise InputError(f"the night is a {type(decoding).__name__}, expected what decode() returned.")
    options = StatisticsOptions(convention, lights_off, lights_on, min_first_rem_seconds)
    return estimates_of(decoding, options, seed)


def estimates_of(night: Decoding, options: StatisticsOptions, seed: int = 0) -> Estimates:
    """Return the estimates of a decoded night; see `estimates`."""
    window = lights_window(night.hypnogram, *options.lights)
    inside = slice(*window)
    sums = sums_of(night, path_marginals(night), inside)
    scheme, named, kind = night.profile.scheme, night.profile.estimators, stager_kind_of(night)
    chosen = estimators_of_minutes(night.profile, kind)
    strict = under_full_clock(night)
    onset = sleep_onset_of(night, strict, options, named.get(SOL) or default_of_sol(night, kind))
    rem_way = named.get(REM_LATENCY) or default_of_rem_latency(night, inside)
    latency = rem_latency_of(night, strict, options, rem_way, seed, onset.epoch)
    rem_words = FIRST_EPOCH if rem_way == "path" else ESTIMATORS[rem_way]
    if math.isnan(latency):  # any REM on the path is better than no latency at all
        latency = rem_latency_of(night, strict, options, "path", seed, onset.epoch)
        rem_words = FIRST_EPOCH
    minutes = {stage: sums[chosen[f"minutes_{stage}"]].stage_minutes[stage] for stage in scheme.names}
    return Estimates(
        before=sums["probabilities"],
        after=sums["posterior"],
        best=Expected(minutes, sums[chosen[TST]].tst_minutes),
        estimators=chosen,
        stager_kind=kind,
        wake=scheme.wake,
        sol_minutes=onset.minutes,
        sol_estimator=onset.estimator,
        rem_latency_minutes=latency,
        rem_latency_estimator=rem_words,
        early_rem_kept_minutes=_early_rem_kept(night, options, onset.minutes, latency),
        first_epoch=window[0],
        stop_epoch=window[1],
    )


def stager_kind_of(night: Decoding) -> Kind:
    """Return what kind of stager a night is of, as far as the night itself tells."""
    if night.from_labels is not None:
        return "labels" if night.from_labels == "typical" else "own labels"
    largest = night.night.probabilities.max(axis=1)
    largest = largest[~np.isnan(largest)]
    # the bound was chosen on people's nights: sums serve mice better, however sure the stager is
    is_sure = night.profile.species == "human" and len(largest) > 0 and largest.mean() >= SURE
    return "sure" if is_sure else "unsure"


def estimators_of_minutes(profile: Profile, kind: Kind) -> dict[str, str]:
    """Return the estimator of TST and of the minutes of every stage."""
    names = (TST, *(f"minutes_{stage}" for stage in profile.scheme.names))
    return {name: profile.estimators.get(name) or default_of_minutes(kind, name) for name in names}


def default_of_minutes(kind: Kind, name: str) -> str:
    """Return the estimator of minutes for a profile that names none."""
    return "path" if name in COUNTED[kind] else "posterior"


def default_of_sol(night: Decoding, kind: Kind) -> str:
    """Return the estimator of SOL for a profile that names none."""
    # without a clock early REM may be the finding
    is_read = kind in ("labels", "own labels") and night.night.clock is not None
    return "lasting" if is_read and night.profile.scheme.rem is not None else "path"


class SleepOnset(NamedTuple):
    """Where sleep begins, by one estimator."""

    epoch: int  # nothing before it counts as sleep; 0 if the path decides
    minutes: float
    estimator: str  # in words


def sleep_onset_of(
    night: Decoding, strict: Decoding, options: StatisticsOptions, estimator: str
) -> SleepOnset:
    """Return sleep onset by one estimator. `strict` is the night decoded under the full clock."""
    if estimator != "path":
        first, stop = lights_window(night.hypnogram, *options.lights)
        shown = _stages_under(strict, night)
        inside = shown.labels[first:stop]
        begin = first_nrem(inside, shown.scheme, night.epoch_seconds, LASTING_NREM_SECONDS)
        if begin is not None:
            minutes = options.measure(_awake_until(first + begin, shown)).sol_minutes
            return SleepOnset(first + begin, minutes, ESTIMATORS[estimator])
    return SleepOnset(0, options.measure(night.hypnogram).sol_minutes, FIRST_SLEEP)


def first_nrem(
    labels: Labels, scheme: StageScheme, epoch_seconds: float, shortest_seconds: float
) -> int | None:
    """Return the first epoch of the first NREM of this length, or None.

    Networks call single epochs of sleep long before it begins, and take quiet wake for REM.
    """
    is_nrem = (labels != UNSCORED) & (labels != scheme.wake_index) & (labels != scheme.rem_index)
    runs = runs_of(is_nrem)  # (n_runs, 2)
    is_long = runs[:, 1] - runs[:, 0] >= whole_epochs(shortest_seconds, epoch_seconds)
    begins = runs[is_long, 0]
    return int(begins[0]) if len(begins) else None


def _awake_until(onset: int, hypnogram: Hypnogram) -> Hypnogram:
    """Return the stages with wake instead of all sleep before an epoch."""
    wake = hypnogram.scheme.wake_index
    if onset == 0 or wake is None:
        return hypnogram
    labels = hypnogram.labels.copy()
    labels[:onset][labels[:onset] != UNSCORED] = wake
    return replace(hypnogram, labels=labels)


def rem_latency_of(
    night: Decoding, strict: Decoding, options: StatisticsOptions, estimator: str, seed: int, onset: int = 0
) -> float:
    """Return REM latency by one estimator, or NaN.

    `strict` is the night decoded under the full clock; nothing before the epoch `onset` counts as sleep.
    """
    if estimator == "draws":
        return _median_of_draws(night, options, seed, onset)
    if estimator == "expected":
        return _expected_rem_latency(night, strict, options, onset)
    shown = night.hypnogram
    if estimator == "clock":
        shown = _stages_under(strict, night)
    statistics = options.measure(_awake_until(onset, shown))
    return statistics.rem_latency_minutes if estimator == "path" else statistics.rem_latency_bout_minutes


def _early_rem_kept(night: Decoding, options: StatisticsOptions, sol: float, latency: float) -> float:
    """Return minutes from sleep onset to early REM that the estimate passes over; NaN without it."""
    if math.isnan(latency):
        return NAN
    shown = options.measure(night.hypnogram)
    since_onset = replace(options, convention="aasm").measure(night.hypnogram).rem_latency_minutes
    # by YASA, SOL is a part of REM latency
    later = latency - shown.rem_latency_minutes
    later += 0.0 if options.convention == "yasa" else sol - shown.sol_minutes
    # the estimate is later than the hypnogram's early REM: somebody should look at that REM
    is_passed_over = since_onset < EARLY_REM_MINUTES <= since_onset + later
    return since_onset if is_passed_over else NAN


def default_of_rem_latency(night: Decoding, chosen: slice | Mask) -> str:
    """Return the estimator of REM latency for a profile that names none, by the stager's own stages."""
    if night.night.clock is None:
        # how long a person's first REM lasts says nothing of an animal's: of mice hardly any lasts 2 min
        return "bout" if night.profile.species == "human" else "path"
    scheme = night.profile.scheme
    counts = stage_counts(night.argmax[chosen], scheme.n_stages).tolist()
    n_asleep = sum(counts) - (0 if scheme.wake_index is None else counts[scheme.wake_index])
    # without REM in the scheme there is no REM to be short of
    n_rem = n_asleep if scheme.rem_index is None else counts[scheme.rem_index]
    return "expected" if n_rem < LITTLE_REM * n_asleep else "clock"


def _stages_under(strict: Decoding, night: Decoding) -> Hypnogram:
    """Return the stages under the full clock, unscored where the night is."""
    labels = night.hypnogram.labels
    return replace(night.hypnogram, labels=np.where(labels == UNSCORED, labels, strict.hypnogram.labels))


def _expected_rem_latency(night: Decoding, strict: Decoding, options: StatisticsOptions, onset: int) -> float:
    """Return the latency of 3 min of REM that end when the posterior under the full clock expects them."""
    scheme = strict.profile.scheme
    rem, labels = scheme.rem_index, _awake_until(onset, _stages_under(strict, night)).labels.copy()
    if rem is None:
        return NAN
    first, stop = lights_window(night.hypnogram, *options.lights)
    # epochs without probabilities promise no REM
    expected = np.nan_to_num(path_marginals(strict)[:, rem])
    expected[:onset] = 0.0
    expected[labels == UNSCORED] = 0.0
    n_epochs = EXPECTED_REM_SECONDS / strict.epoch_seconds
    reached = np.flatnonzero(expected[first:stop].cumsum() >= n_epochs)
    asleep = np.flatnonzero((labels != UNSCORED) & (labels != scheme.wake_index))
    if len(reached) == 0 or len(asleep) == 0:
        return NAN
    # the minutes end where the sum is reached, and cannot begin before sleep does
    begin = max(first + int(reached[0]) + 1 - math.ceil(n_epochs), int(asleep[0]))
    nrem = (i for i in range(scheme.n_stages) if i not in (scheme.wake_index, rem))
    labels[labels == rem] = next(nrem, UNSCORED)  # one epoch of REM is left; sleep onset does not move
    labels[begin] = rem
    return options.measure(replace(night.hypnogram, labels=labels)).rem_latency_minutes


def _median_of_draws(night: Decoding, options: StatisticsOptions, seed: int, onset: int) -> float:
    """Return the median over draws; a draw without REM is later than any other, and such a median is NaN."""
    if night.strength.transition_weight < YIELDING_WEIGHT:  # epochs drawn almost singly have REM anywhere
        strength = replace(
            night.strength, rule="fixed", step="fixed", transition_weight=YIELDING_WEIGHT, prior_exponent=0.0
        )
        night = replace(night, strength=strength, setting=strength.setting(night.profile, night.night))
    drawn = (
        options.measure(_awake_until(onset, replace(night.hypnogram, labels=labels))).rem_latency_minutes
        for labels in path_draws(night, n=N_DRAWS, seed=seed)
    )
    median = float(np.median([math.inf if math.isnan(minutes) else minutes for minutes in drawn]))
    return median if math.isfinite(median) else NAN
