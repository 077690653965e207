"""Errors in units of an expert's: ratios with confidence limits, verdicts, and how many people show one.

An error of .74 is .74 times that of one expert; for a stager that could be exchanged for an expert it is 1.
Two readings must agree: the ratio of the mean errors, which a few bad nights decide, and the ratio on a
typical night, which they hardly touch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from stageguard.arrays import NAN, Floats
from stageguard.measures.samples import t_quantile
from stageguard.schema import read_toml

Verdict = Literal["as an expert", "worse", "not shown"]

CONFIDENCE = 0.90
LIMIT = 1.25  # our choice: a stager with up to this many times an expert's error passes for one
LEAST_SCORERS = 3  # with two, one odd expert decides
LEAST_PEOPLE = 25  # with 10 people, 3 % of stagers with 1.5 times the error pass; with 25, 1 %
MOST_PEOPLE = 10_000  # nobody scores more
# Added to errors before their log is taken: a minute, a count or a quarter of a percent is no difference.
SMALL = {"min": 1.0, "": 1.0, "%": 0.25}

TABLE_FILE = Path(__file__).with_name("expert-errors.toml")
TABLE_EPOCH_SECONDS = 30.0  # of the nights behind the table


@dataclass(frozen=True, slots=True)
class Ratio:
    """An error in units of an expert's, with its 90 % confidence limits; the upper one may be infinite."""

    value: float
    low: float = NAN
    high: float = NAN


def ratio_of_means(stager: Floats, expert: Floats, confidence: float = CONFIDENCE) -> Ratio:
    """Return sum(stager) / sum(expert) over people (n,), with Fieller's limits; NaN limits of one person.

    They are those r for which mean(stager - r * expert) differs from 0 by at most t standard errors. If the
    experts' mean is not surely above 0, any ratio is possible.
    """
    n, a, e = len(stager), float(stager.mean()), float(expert.mean())
    value = a / e if e > 0 else (math.inf if a > 0 else NAN)
    if n < 2:
        return Ratio(value)
    t = t_quantile(0.5 + confidence / 2, n - 1)
    covariance = np.cov(stager, expert) * t * t / n
    # the limits solve square * r^2 - 2 * mixed * r + constant = 0
    square, mixed, constant = e * e - covariance[1, 1], a * e - covariance[0, 1], a * a - covariance[0, 0]
    if square <= 0:
        return Ratio(value, 0.0, math.inf)
    root = math.sqrt(max(mixed * mixed - square * constant, 0.0))
    return Ratio(value, max((mixed - root) / square, 0.0), (mixed + root) / square)


def typical_ratio(logs: Floats, confidence: float = CONFIDENCE) -> Ratio:
    """Return the ratio of a typical night from people's mean log ratios (n,), with limits by t."""
    n, mean = len(logs), float(logs.mean())
    if n < 2:
        return Ratio(math.exp(mean))
    margin = t_quantile(0.5 + confidence / 2, n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    return Ratio(math.exp(mean), math.exp(mean - margin), math.exp(mean + margin))


def verdict_of(mean: Ratio, typical: Ratio) -> Verdict:
    """Return the verdict of both readings: worse by either one, as an expert only by both."""
    if mean.low > 1 or typical.low > 1:
        return "worse"
    return "as an expert" if mean.high <= LIMIT and typical.high <= LIMIT else "not shown"


def people_needed(stager: Floats, expert: Floats, logs: Floats) -> int | None:
    """Return how many people would show that a stager is as an expert, if means and spreads stay as they are.

    None if no number would. Standard errors fall with the root of the number; that of the ratio of means is
    taken by the delta method.
    """
    n, a, e, typical = len(stager), float(stager.mean()), float(expert.mean()), float(logs.mean())
    if n < 2 or a <= 0 or e <= 0 or max(a / e, math.exp(typical)) >= LIMIT:
        return None
    spreads = float((stager / a - expert / e).std(ddof=1)), float(logs.std(ddof=1))
    room = math.log(LIMIT * e / a), math.log(LIMIT) - typical

    def is_enough(people: int) -> bool:
        t = t_quantile(0.5 + CONFIDENCE / 2, people - 1) / math.sqrt(people)
        return t * spreads[0] <= room[0] and t * spreads[1] <= room[1]

    low, high = max(n, LEAST_PEOPLE - 1), MOST_PEOPLE
    if not is_enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class ExpertErrors:
    """Mean absolute differences between two experts on a cohort's nights, by statistic."""

    cohort: str
    people: str
    errors: Mapping[str, float]


@cache
def expert_errors(scheme: str) -> tuple[ExpertErrors, ...]:
    """Return how far two experts are apart in a scheme, cohort by cohort; nothing of an unknown scheme.

    The table is for nights in epochs of `TABLE_EPOCH_SECONDS`.
    """
    document = read_toml(TABLE_FILE, "table")
    return tuple(
        ExpertErrors(cohort["name"], cohort["people"], cohort["errors"][scheme])
        for cohort in document["cohorts"]
        if scheme in cohort["errors"]
    )
