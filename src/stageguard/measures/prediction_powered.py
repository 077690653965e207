"""Means, group differences and correlations of many nights of which an expert scored only some.

The value of the scored nights is corrected by how much the stager's value of all nights differs from that of
the scored ones. With T the mean, difference or correlation, y an expert's numbers and f the stager's,

    estimate = T(y, scored) - lambda * (T(f, scored) - T(f, all)),

which is right whatever the stager's bias, as long as the scored nights are a random sample of all: then both
terms in brackets have the same expectation. Lambda makes the variance smallest, so that a poor stager counts
little. Lambda in PPI++ (Angelopoulos, Duchi & Zrnic 2023) is this one times the share of unscored nights.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN
from stageguard.errors import InputError
from stageguard.measures.cohort import CohortTable
from stageguard.measures.groups import levels_of, subject_means, subjects_of
from stageguard.measures.powered_fit import (
    KINDS,
    MIN_RESAMPLED,
    Kind,
    Units,
    fits,
    resampled_intervals,
    span,
    t_interval,
)
from stageguard.night.quantities import Quantity, quantity_of
from stageguard.values import ComparedByValue

METHOD = (
    "Prediction-powered (PPI++, Angelopoulos, Duchi & Zrnic 2023): the experts' value of the scored nights, "
    "corrected by lambda times what the automatic scoring says of all nights less what it says of the scored "
    "ones. Lambda minimises the variance, within 0 (scored nights alone) and 1. Intervals by a studentised "
    "bootstrap over subjects, where subjects are named, else over nights; where fewer than ten scored "
    "subjects of a group have the number, by Student's t; correlations on Fisher's scale. A mean and its "
    "interval are cut off at 0, and at 100 %, where no night can be. Intervals hold whatever the bias of the "
    "automatic scoring, if the scored nights were picked at random. Nothing is corrected for the number of "
    "comparisons."
)
MOST_WIDER = 1.05  # times the interval of the scored nights alone, which are taken if it is wider
N_RESAMPLES = 1999


@dataclass(frozen=True, slots=True, eq=False)
class PredictionPowered(ComparedByValue):
    """A number estimated from scored and unscored nights.

    Attributes
    ----------
    kind : str
        ``mean``, ``difference`` (first group minus second) or ``correlation`` (Pearson's).
    estimate, low, high : float
        The estimate and its interval; NaN if there is none, see `reason`.
    weight : float
        Lambda: how much the automatic nights count, from 0 to 1.
    n_scored, n_unscored : int
        Subjects of whom an expert scored a night, and the others; nights if no subjects are named.
    scored_estimate, scored_low, scored_high : float
        The same from the scored nights alone.
    reason : str
        Why there is no interval, or why the automatic nights do not count; else empty.
    """

    kind: Kind
    estimate: float
    low: float
    high: float
    weight: float
    n_scored: int
    n_unscored: int
    scored_estimate: float
    scored_low: float
    scored_high: float
    reason: str = ""

    @property
    def width_ratio(self) -> float:
        """Width of the interval, as a share of that of the scored nights alone."""
        width = self.scored_high - self.scored_low
        return (self.high - self.low) / width if width > 0 else NAN


def prediction_powered(
    expert: Mapping[str, float],
    automatic: Mapping[str, float],
    *,
    groups: Mapping[str, str] | None = None,
    covariate: Mapping[str, float] | None = None,
    subjects: Mapping[str, str] | None = None,
    weight: float | None = None,
    confidence: float = 0.95,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
) -> PredictionPowered:
    """Estimate a mean, group difference or correlation from nights of which an expert scored only some.

    The scored nights must be a random sample of all (within each group); nothing is assumed about the stager.
    Nights of one subject are averaged.

    Parameters
    ----------
    expert : mapping of str to float
        A statistic of the scored nights by an expert, by night; NaN where it does not exist.
    automatic : mapping of str to float
        The same statistic of every night, scored nights too, by the automatic scoring.
    groups : mapping of str to str, optional
        Group of each night, two in all: estimates the first group's mean minus the second's. Nights without
        a group are left out.
    covariate : mapping of str to float, optional
        Number to correlate the statistic with, by night, such as age.
    subjects : mapping of str to str, optional
        Subject of each night; a night without one counts as a subject of its own.
    weight : float, optional
        Lambda, from 0 to 1; by default the one of least variance.
    confidence : float
        Coverage of the interval, 0.5 to 0.99.
    n_resamples, seed : int
        Number of resamples of the bootstrap, and its seed.

    Returns
    -------
    PredictionPowered
        If the interval is more than 5 % wider than from the scored nights alone, these are taken instead, and
        `reason` says so.

    Examples
    --------
    >>> import stageguard as sg
    >>> automatic = {f"night {i}": 380.0 + i % 7 for i in range(40)}  # minutes of sleep
    >>> expert = {f"night {i}": 390.0 + i % 7 for i in range(15)}
    >>> found = sg.prediction_powered(expert, automatic)
    >>> round(found.estimate, 1)
    392.9
    """
    confidence = checks.number(confidence, "confidence", low=0.5, high=0.99)
    n_resamples = checks.count(n_resamples, "n_resamples", low=199, high=99_999)
    if weight is not None:
        weight = checks.number(weight, "weight", low=0, high=1)
    if groups is not None and covariate is not None:
        raise InputError("groups and a covariate are given, expected one of them.")
    by_night = {"expert": expert, "automatic": automatic, "groups": groups, "covariate": covariate}
    for name, values in (by_night | {"subjects": subjects}).items():
        if values is not None and not isinstance(values, Mapping):
            raise InputError(f"{name} is a {checks.type_name(values)}, expected a mapping by night.")
    kind: Kind = "difference" if groups is not None else "correlation" if covariate is not None else "mean"
    units = _units(expert, automatic, groups, subjects or {}, covariate)
    if problem := units.shortage():
        raise TooFewScored(problem, kind, units)
    rng = np.random.default_rng(checks.whole(seed, "seed"))
    return _estimate(kind, units, weight, confidence, n_resamples, rng)


@dataclass(frozen=True, slots=True)
class CohortEstimate:
    """One measure of a cohort: its mean, a difference of two groups, or a correlation."""

    measure: str
    first: str  # the group, or the first group of a difference; empty for all nights
    second: str
    covariate: str
    result: PredictionPowered

    @property
    def title(self) -> str:
        """What was estimated, in words."""
        if self.covariate:
            return f"correlation with {self.covariate}"
        if self.second:
            return f"{self.first} minus {self.second}"
        return self.first or "all nights"


def cohort_estimates(
    table: CohortTable,
    scored: Collection[str],
    *,
    groups: Mapping[str, str] | None = None,
    subjects: Mapping[str, str] | None = None,
    covariates: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[CohortEstimate, ...]:
    """Estimate every measure's mean, or its means by group and their differences, and correlations.

    `scored` are the nights that an expert scored. The automatic scoring is the decoded one where nights were
    decoded, else the stager's argmax.
    """
    automatic_scoring = _automatic_scoring(table)
    designs: list[tuple[str, str, str, Mapping[str, str]]]
    designs = [("", "", "", dict.fromkeys(table.night_ids, ""))]
    if groups:
        levels = levels_of(table.night_ids, groups)
        of_level = {level: {k: v for k, v in groups.items() if v == level} for level in levels}
        # pairs first, so that an error about a group names it
        designs = [(a, b, "", of_level[a] | of_level[b]) for a, b in combinations(levels, 2)]
        designs += [(level, "", "", of_level[level]) for level in levels]
    everyone = groups or dict.fromkeys(table.night_ids, "")
    designs += [("", "", name, everyone) for name in covariates or {}]
    estimates, withheld = [], list[TooFewScored]()
    for first, second, covariate, chosen in designs:
        for measure in table.names:
            automatic = dict(zip(table.night_ids, table.of(measure, automatic_scoring).tolist(), strict=True))
            expert = dict(zip(table.night_ids, table.of(measure, "expert").tolist(), strict=True))
            try:
                result = prediction_powered(
                    {name: expert[name] for name in table.night_ids if name in scored and name in chosen},
                    {name: value for name, value in automatic.items() if name in chosen},
                    groups=chosen if second else None,
                    covariate=(covariates or {})[covariate] if covariate else None,
                    subjects=subjects,
                )
            except TooFewScored as problem:
                withheld.append(problem)
                result = problem.withheld()
            if result.kind == "mean":
                result = _within_the_possible(result, quantity_of(measure))
            estimates.append(CohortEstimate(measure, first, second, covariate, result))
    # some estimates may lack people, but a table of nothing is an error
    if withheld and len(withheld) == len(estimates):
        raise withheld[0]
    return tuple(sorted(estimates, key=lambda each: KINDS.index(each.result.kind)))


def _within_the_possible(mean: PredictionPowered, quantity: Quantity) -> PredictionPowered:
    """Return a mean and its intervals within 0, and 100 for percentages: no night is beyond them."""
    most = 100.0 if quantity.short_unit == "%" else math.inf
    names = ("estimate", "low", "high", "scored_low", "scored_high")
    return replace(
        mean,
        **{
            name: value if math.isnan(value := getattr(mean, name)) else min(max(value, 0.0), most)
            for name in names
        },
    )


def _automatic_scoring(table: CohortTable) -> str:
    """Return the automatic scoring that every night has, so that one stager scored them all."""
    for scoring in ("after", "before"):
        if scoring in table.values and not np.isnan(table.values[scoring]).all(axis=1).any():
            return scoring
    raise InputError(
        "some nights are decoded and others are not, expected one automatic scoring of all nights. Decode "
        "all of them, or name their probabilities alone."
    )


class TooFewScored(InputError):
    """Too few subjects are scored for one estimate; others of the same cohort may have enough."""

    def __init__(self, problem: str, kind: Kind, units: Units) -> None:
        super().__init__(problem)
        self.problem, self.kind, self.units = problem, kind, units

    def withheld(self) -> PredictionPowered:
        """Return the estimate without a number."""
        n, nothing = (self.units.n_scored, self.units.n_unscored), (NAN, NAN, NAN)
        reason = f"withheld: {self.problem.rstrip('.')}"
        return PredictionPowered(self.kind, *nothing, 0.0, *n, *nothing, reason)


def _units(
    expert: Mapping[str, float],
    automatic: Mapping[str, float],
    groups: Mapping[str, str] | None,
    subjects: Mapping[str, str],
    covariate: Mapping[str, float] | None,
) -> Units:
    """Return one value per subject, and how many subjects each stratum has."""
    lost = [name for name in expert if name not in automatic]
    if lost:
        raise InputError(
            f"night {lost[0]!r} is scored, but has no automatic value, expected one of every scored night. "
            "Leave it out, or stage it."
        )
    everyone = dict.fromkeys(automatic, "")
    group_of = everyone if groups is None else {k: v for k, v in groups.items() if k in automatic}
    if covariate is not None:
        # a person without the covariate cannot be correlated with it
        group_of = {name: "" for name in automatic if not math.isnan(covariate.get(name, NAN))}
    levels = levels_of(automatic, group_of) if groups is not None else [""]
    if len(levels) > 2:
        raise InputError(f"there are {len(levels)} groups ({', '.join(levels)}), expected two. Pick a pair.")
    rows = {name: row for row, name in enumerate(automatic) if name in group_of}
    by_group = subjects_of(rows, group_of, subjects)
    values = np.array([float(value) for value in automatic.values()])
    is_scored = np.array([name in expert for name in automatic])
    scored = np.array([float(expert.get(name, NAN)) for name in automatic])
    covariates = np.array([float((covariate or {}).get(name, NAN)) for name in automatic])
    order: list[list[int]] = []
    sizes: list[int] = []
    for level in levels:
        parts: tuple[list[list[int]], list[list[int]]] = ([], [])
        for nights in by_group.get(level, ()):
            # one scored night makes a scored subject
            parts[not is_scored[nights].any()].append(nights)
        order += [*parts[0], *parts[1]]
        sizes += [len(part) for part in parts]
    return Units(
        subject_means(scored, order),
        subject_means(np.where(is_scored, values, NAN), order),
        subject_means(values, order),
        subject_means(covariates, order),
        tuple(sizes),
        tuple(levels),
    )


def _estimate(
    kind: Kind,
    units: Units,
    weight: float | None,
    confidence: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> PredictionPowered:
    both = fits(kind, units, np.ones((1, len(units.all))), weight)
    if min(units.n_measured) < MIN_RESAMPLED:
        powered, scored = (t_interval(kind, own, units, confidence) for own in both)
    else:
        powered, scored = resampled_intervals(kind, both, units, weight, confidence, n_resamples, rng)
    own = both[0]
    chosen, reason = float(own.weight[0]), ""
    # a little wider is chance; much wider means that the weight was badly estimated
    too_wide = not powered[2] - powered[1] <= MOST_WIDER * (scored[2] - scored[1])
    if not math.isfinite(scored[2] - scored[1]):
        powered, chosen = scored, 0.0
        reason = f"too few scored subjects have it ({sum(units.n_measured)}), or they hardly differ"
    # the correction is 0 by construction, and so is what it could add
    elif np.array_equal(units.scored, units.all, equal_nan=True):
        reason = "no night is unscored"
    elif weight is None and too_wide:
        powered, chosen = scored, 0.0
        reason = "the automatic nights would widen the interval: scored nights alone"
    elif math.isnan(powered[1]):
        reason = "too few automatic nights have it"
    elif weight is None and chosen == 0.0:
        powered = scored
        reason = "the automatic nights do not follow the scored ones: scored nights alone"
    if powered[2] - powered[1] > span(kind, units):
        wide = "the interval is wider than the numbers it is of: too few people, or one unlike the others"
        reason = f"{reason}; {wide}" if reason else wide
    return PredictionPowered(kind, *powered, chosen, units.n_scored, units.n_unscored, *scored, reason)
