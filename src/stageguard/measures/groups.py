"""Differences between groups of nights: Welch intervals and Cohen's d. Reads no files, tests nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from stageguard import _checks
from stageguard.errors import InputError
from stageguard.measures.cohort import CohortTable
from stageguard.measures.student import noncentrality_limits, t_quantile

Values = npt.NDArray[np.float64]
NAN = float("nan")

METHOD = (
    "Difference of means with Welch's t interval (variances may differ). Cohen's d with the pooled standard "
    "deviation, its interval from the noncentral t distribution (normal values, equal variances). Nights of "
    "one subject, where subjects are named, are averaged first; otherwise each night counts as a person. "
    "Nothing is corrected for the number of comparisons."
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two samples compared; NaN fields have their reason in `reason`.

    Attributes
    ----------
    n_first, n_second : int
        How many values there are, NaN left out.
    difference : float
        Mean of the first minus mean of the second, with its interval `low` to `high`.
    d : float
        Cohen's d, with its interval `d_low` to `d_high`.
    """

    n_first: int
    n_second: int
    mean_first: float
    mean_second: float
    sd_first: float
    sd_second: float
    difference: float
    low: float
    high: float
    d: float
    d_low: float
    d_high: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """One measure in two groups, as one scoring has it."""

    measure: str
    scoring: str
    first: str
    second: str
    result: Difference


def compare_samples(first: Values, second: Values, *, confidence: float = 0.95) -> Difference:
    """Compare the means of two independent samples; NaN is left out.

    Parameters
    ----------
    first, second : array of float
        The values of each group.
    confidence : float
        Coverage of both intervals.

    Returns
    -------
    Difference
        Welch's interval for the difference of means, the noncentral t interval for Cohen's d.
    """
    confidence = _checks.number(confidence, "confidence", low=0.5, high=0.9999)
    first, second = (values[~np.isnan(values)] for values in (first, second))
    n, m = len(first), len(second)
    mean_first, mean_second = (float(v.mean()) if len(v) else NAN for v in (first, second))
    sd_first, sd_second = (float(v.std(ddof=1)) if len(v) > 1 else NAN for v in (first, second))
    means = (n, m, mean_first, mean_second, sd_first, sd_second, mean_first - mean_second)
    if min(n, m) < 2:
        return Difference(
            *means, NAN, NAN, NAN, NAN, NAN, f"{n} and {m} values, an interval needs two in each"
        )
    error_first, error_second = sd_first**2 / n, sd_second**2 / m
    error = error_first + error_second
    if error == 0.0:
        return Difference(*means, NAN, NAN, NAN, NAN, NAN, "no value differs from its group's mean")
    difference = mean_first - mean_second
    freedom = error**2 / (error_first**2 / (n - 1) + error_second**2 / (m - 1))
    margin = t_quantile(0.5 + confidence / 2, freedom) * math.sqrt(error)
    pooled = math.sqrt(((n - 1) * sd_first**2 + (m - 1) * sd_second**2) / (n + m - 2))
    d, scale = difference / pooled, math.sqrt(1 / n + 1 / m)
    low, high = noncentrality_limits(d / scale, n + m - 2, confidence)
    return Difference(*means, difference - margin, difference + margin, d, low * scale, high * scale)


def group_differences(
    table: CohortTable,
    groups: Mapping[str, str],
    *,
    subjects: Mapping[str, str] | None = None,
    confidence: float = 0.95,
) -> tuple[GroupDifference, ...]:
    """Compare every two groups in every measure and every scoring.

    Parameters
    ----------
    table : CohortTable
        The nights.
    groups : mapping
        Name of a night to its group; nights that are not in it are left out. The first group named is
        compared with the second, so that differences are first minus second.
    subjects : mapping, optional
        Name of a night to its subject. Nights of one subject are averaged, since they are no
        independent observations.
    confidence : float
        Coverage of the intervals.
    """
    rows = {name: row for row, name in enumerate(table.night_ids) if name in groups}
    levels = [
        level for level in dict.fromkeys(groups.values()) if any(groups[name] == level for name in rows)
    ]
    if len(levels) < 2:
        found = f"all are in {levels[0]!r}" if levels else "none has a group"
        raise InputError(f"of {len(table.night_ids)} nights {found}, expected two groups or more.")
    units = _subjects_of(rows, groups, subjects or {})
    found_differences = []
    for first, second in combinations(levels, 2):
        for name in table.names:
            for scoring in table.values:
                column = table.of(name, scoring)
                samples = [_means(column, units[level]) for level in (first, second)]
                result = compare_samples(*samples, confidence=confidence)
                found_differences.append(GroupDifference(name, scoring, first, second, result))
    return tuple(found_differences)


def _subjects_of(
    rows: Mapping[str, int], groups: Mapping[str, str], subjects: Mapping[str, str]
) -> dict[str, list[list[int]]]:
    """Return, by group, the rows of each of its subjects."""
    by_group: dict[str, dict[str, list[int]]] = {}
    group_of: dict[str, str] = {}
    for name, row in rows.items():
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
    return {group: list(own.values()) for group, own in by_group.items()}


def _means(column: Values, units: list[list[int]]) -> Values:
    """Return the mean of each subject's nights, NaN left out."""
    if all(len(rows) == 1 for rows in units):
        return column[[rows[0] for rows in units]]
    means = np.full(len(units), NAN)
    for place, rows in enumerate(units):
        known = column[rows][~np.isnan(column[rows])]
        means[place] = known.mean() if len(known) else NAN
    return means
