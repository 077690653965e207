"""Differences between groups of nights: Welch intervals and Cohen's d, without tests of significance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, Floats
from stageguard.errors import InputError
from stageguard.measures.cohort import CohortTable
from stageguard.night.quantities import quantity_of

METHOD = (
    "Difference of means with Welch's t interval (variances may differ). Cohen's d with the pooled standard "
    "deviation, its interval from the noncentral t distribution (normal values, equal variances). Nights of "
    "one subject, where subjects are named, are averaged first; otherwise each night counts as a person. "
    "Nothing is corrected for the number of comparisons."
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two samples compared; NaN fields have their reason in `reason`."""

    n_first: int  # values, NaN left out
    n_second: int
    mean_first: float
    mean_second: float
    sd_first: float
    sd_second: float
    difference: float  # first minus second; then Welch's interval
    low: float = NAN
    high: float = NAN
    d: float = NAN  # Cohen's d; then its noncentral t interval
    d_low: float = NAN
    d_high: float = NAN
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """One measure compared between two groups, in one scoring."""

    measure: str
    scoring: str
    first: str
    second: str
    result: Difference
    is_steered: bool = False  # whether the profile steered it on some nights


def compare_samples(first: Floats, second: Floats, *, confidence: float = 0.95) -> Difference:
    """Compare the means of two independent samples, NaN left out, with intervals of this coverage."""
    confidence = checks.number(confidence, "confidence", low=0.5, high=0.9999)
    first, second = (values[~np.isnan(values)] for values in (first, second))
    n, m = len(first), len(second)
    mean_first, mean_second = (float(v.mean()) if len(v) else NAN for v in (first, second))
    sd_first, sd_second = (float(v.std(ddof=1)) if len(v) > 1 else NAN for v in (first, second))
    difference = mean_first - mean_second
    means = Difference(n, m, mean_first, mean_second, sd_first, sd_second, difference)
    # one value has no spread, so that its mean has no known error
    if min(n, m) < 2:
        return replace(means, reason=f"{n} and {m} values, an interval needs two in each")
    error_first, error_second = sd_first**2 / n, sd_second**2 / m
    error = error_first + error_second
    if error == 0.0:
        return replace(means, reason="no value differs from its group's mean")
    # Welch and Satterthwaite: the groups may differ in spread
    freedom = error**2 / (error_first**2 / (n - 1) + error_second**2 / (m - 1))
    margin = t_quantile(0.5 + confidence / 2, freedom) * math.sqrt(error)
    pooled = math.sqrt(((n - 1) * sd_first**2 + (m - 1) * sd_second**2) / (n + m - 2))
    # d over this scale is a t with a noncentrality, whose limits are known
    d, scale = difference / pooled, math.sqrt(1 / n + 1 / m)
    low, high = noncentrality_limits(d / scale, n + m - 2, confidence)
    return replace(
        means,
        low=difference - margin,
        high=difference + margin,
        d=d,
        d_low=low * scale,
        d_high=high * scale,
    )


def group_differences(
    table: CohortTable,
    groups: Mapping[str, str],
    *,
    subjects: Mapping[str, str] | None = None,
    confidence: float = 0.95,
) -> tuple[GroupDifference, ...]:
    """Compare each pair of groups in every measure and scoring: the group named first minus the second.

    `groups` and `subjects` are by night. Nights without a group are left out; nights of one subject are
    averaged, since they are not independent.
    """
    levels = levels_of(table.night_ids, groups)
    rows = {name: row for row, name in enumerate(table.night_ids) if name in groups}
    units = subjects_of(rows, groups, subjects or {})
    differences = []
    for first, second in combinations(levels, 2):
        for name in table.names:
            for scoring in table.values:
                column = table.of(name, scoring)
                samples = [subject_means(column, units[level]) for level in (first, second)]
                result = compare_samples(*samples, confidence=confidence)
                is_steered = scoring == "after" and table.is_steered(quantity_of(name))
                differences.append(GroupDifference(name, scoring, first, second, result, is_steered))
    return tuple(differences)


def levels_of(night_ids: Iterable[str], groups: Mapping[str, str]) -> list[str]:
    """Return the groups of these nights in the order they are named; refuse fewer than two."""
    nights = list(night_ids)
    present = {groups[name] for name in nights if name in groups}
    levels = [level for level in dict.fromkeys(groups.values()) if level in present]
    if len(levels) < 2:
        which = f"all are in {levels[0]!r}" if levels else "none has a group"
        raise InputError(f"of {len(nights)} nights {which}, expected two groups or more.")
    return levels


def subjects_of(
    rows: Mapping[str, int], groups: Mapping[str, str], subjects: Mapping[str, str]
) -> dict[str, list[list[int]]]:
    """Return, by group, the rows of each of its subjects."""
    by_group: dict[str, dict[str, list[int]]] = {}
    group_of: dict[str, str] = {}
    for name, row in rows.items():
        # a night without a subject counts as a person; the prefix keeps it apart from a subject so named
        if name not in subjects:
            by_group.setdefault(groups[name], {})[f"night {name}"] = [row]
            continue
        subject, group = f"subject {subjects[name]}", groups[name]
        if group_of.setdefault(subject, group) != group:
            raise InputError(
                f"{subject!r} is in the groups {group_of[subject]!r} and {group!r}, "
                "expected one group per subject."
            )
        by_group.setdefault(group, {}).setdefault(subject, []).append(row)
    return {group: list(rows_of.values()) for group, rows_of in by_group.items()}


def subject_means(column: Floats, units: list[list[int]]) -> Floats:
    """Return the mean of each subject's nights, NaN left out."""
    if all(len(rows) == 1 for rows in units):
        return column[[rows[0] for rows in units]]
    existing = [column[rows][~np.isnan(column[rows])] for rows in units]
    return np.array([values.mean() if len(values) else NAN for values in existing])


_MOST_STEPS = 200
_LOG_NEGLIGIBLE = 40.0  # e^-40 of the peak is below rounding
_SQRT_HALF = math.sqrt(0.5)


def t_cdf(t: float, freedom: float, noncentrality: float = 0.0) -> float:
    """Return the probability that a t variable is at most `t`."""
    # T = (Z + delta) / U: the normal probability, averaged over the chi variable U
    scales, weights = _scale_distribution(freedom)
    arguments = (noncentrality - t * scales) * _SQRT_HALF
    normal = [math.erfc(argument) for argument in arguments.tolist()]
    return float(0.5 * np.dot(weights, normal))


@lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the value that a central t variable stays below with this probability."""
    if probability < 0.5:
        return -t_quantile(1.0 - probability, freedom)
    return _root(lambda t: t_cdf(t, freedom) - probability, 0.0, 1.0)


def noncentrality_limits(t: float, freedom: float, confidence: float) -> tuple[float, float]:
    """Return the lowest and the highest noncentrality for which an observed `t` is still expected."""
    tail = (1.0 - confidence) / 2.0

    def limit(level: float) -> float:  # the cdf falls as delta grows
        return _root(lambda delta: level - t_cdf(t, freedom, delta), t, t + 1.0)

    return limit(1.0 - tail), limit(tail)


@lru_cache(maxsize=64)
def _scale_distribution(freedom: float) -> tuple[Floats, Floats]:
    """Return values of U, a chi variable over the root of `freedom`, and their weights, which sum to 1."""
    spread = math.sqrt(_LOG_NEGLIGIBLE / freedom)
    n_points = 1024 if freedom < 10.0 else 384  # few degrees of freedom have a long tail towards 0
    log_u = np.linspace(-_LOG_NEGLIGIBLE / freedom - spread, spread, n_points)
    log_density = freedom * (log_u - 0.5 * np.expm1(2.0 * log_u))  # of log U, 0 at its peak
    weights = np.exp(log_density)
    return np.exp(log_u), weights / weights.sum()


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a rising function by the Illinois method; the bracket grows until it holds one."""
    step = high - low
    while (at_high := rising(high)) < 0.0:
        low, step = high, 2.0 * step
        high += step
    while (at_low := rising(low)) > 0.0:
        high, at_high, step = low, at_low, 2.0 * step
        low -= step
    for _ in range(_MOST_STEPS):
        if abs(at_high) < 1e-15 or abs(high - low) <= 1e-12 * max(1.0, abs(high)):
            break
        new = high - at_high * (high - low) / (at_high - at_low)
        at_new = rising(new)
        if at_new * at_high < 0.0:
            low, at_low = high, at_high
        else:
            at_low *= 0.5  # the same end was kept twice: trust it less
        high, at_high = new, at_new
    return high
