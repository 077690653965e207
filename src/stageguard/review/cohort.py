"""A cohort under review: which night comes next, and whether the cohort's means are near enough.

Nights come in blocks of `BLOCK`, drawn at random once and for all by their names; within a block, the night
that lacks most comes first. Once every night of the first blocks has met its targets, these nights are a
random sample of the cohort and correct the others: with y the numbers of reviewed nights and f those before
the first look, of n of N nights,

    mean = mean(f, all) + mean(y - f, reviewed),    sd(y - f) * sqrt((1 - n / N) / n) its standard error.

That is the prediction-powered mean at lambda = 1 of a finite cohort. Reviewed numbers count as right: each is
within its target of the truth, as far as that is promised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isnan, sqrt
from typing import Any

import numpy as np

from stageguard.arrays import NAN
from stageguard.measures.samples import t_quantile
from stageguard.review.plan import Plan
from stageguard.review.targets import LEVEL, title_of, unit_of

BLOCK = 5
LEAST_REVIEWED = 10  # nights, from which the spread of corrections is known well enough


@dataclass(frozen=True, slots=True)
class CohortNight:
    """One night of a cohort: its numbers before the first look and now, and how far it is."""

    index: int
    name: str
    first: Mapping[str, float]
    now: Mapping[str, float]
    off_by: Mapping[str, float]  # how far each number may still be off
    lack: float
    is_met: bool
    n_looks: int

    @classmethod
    def of(cls, index: int, name: str, plan: Plan) -> CohortNight:
        """Return a night with its plan."""
        first, now, off_by = {}, {}, {}
        for key in plan.targets:
            reach = plan.reached[key]
            first[key], now[key] = plan.start[key].value, reach.value
            off_by[key] = max(reach.value - reach.low, reach.high - reach.value)
        return cls(index, name, first, now, off_by, plan.lack, plan.is_met, plan.n_looks)


@dataclass(frozen=True, slots=True)
class CohortMean:
    """The mean of a statistic over a cohort; NaN limits while too few nights are reviewed."""

    key: str
    estimate: float
    low: float
    high: float
    target: float

    @property
    def is_met(self) -> bool:
        """Whether the interval lies within the target of the estimate."""
        return self.high - self.estimate <= self.target  # False if it is NaN


@dataclass(frozen=True, slots=True)
class Cohort:
    """The nights of a review with targets."""

    nights: tuple[CohortNight, ...]
    targets: Mapping[str, float]

    @property
    def order(self) -> list[int]:
        """The nights' numbers, as they should be reviewed: those that are done come last."""
        by_block = [sorted(block, key=_least_lack_last) for block in blocks(self.nights)]
        nights = [night for block in by_block for night in block]
        return [night.index for night in sorted(nights, key=lambda night: night.is_met)]

    @property
    def sample(self) -> list[CohortNight]:
        """The reviewed nights that are a random sample of all: those of the first blocks that are done."""
        found: list[CohortNight] = []
        for block in blocks(self.nights):
            if not all(night.is_met for night in block):
                break
            found += block
        return found

    @property
    def n_missing(self) -> int:
        """How many more nights must be reviewed before anything can be said of the means."""
        return max(min(LEAST_REVIEWED, len(self.nights)) - len(self.sample), 0)

    @property
    def means(self) -> tuple[CohortMean, ...]:
        """The mean of each statistic that has a target."""
        sample = self.sample
        return tuple(_mean(key, target, self.nights, sample) for key, target in self.targets.items())

    @property
    def is_met(self) -> bool:
        """Whether all means are within their targets."""
        return all(mean.is_met for mean in self.means)

    @property
    def text(self) -> str:
        """The means in one line, and whether they are near enough."""
        means = ", ".join(
            amount(mean.key, mean.high - mean.estimate, f" {mean.estimate:.0f}") for mean in self.means
        )
        verdict = "All means are within their targets: you can stop here. " if self.is_met else ""
        n_done, n_looks = (sum(getattr(night, key) for night in self.nights) for key in ("is_met", "n_looks"))
        missing = f" The means are known better once {self.n_missing} more in this order have met theirs."
        return (
            f"{verdict}Mean of {len(self.nights)} nights: {means}. Targets met on {n_done} of them, after "
            f"{n_looks} looks.{missing if self.n_missing else ''}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types: the order, each night's lack, and the means in words."""
        nights = {
            str(night.index): {
                "looks": night.n_looks,
                "is_met": night.is_met,
                "lack": None if isnan(night.lack) else round(night.lack, 2),
                "left": ", ".join(amount(key, value) for key, value in night.off_by.items()),
            }
            for night in self.nights
        }
        return {"order": self.order, "nights": nights, "text": self.text, "is_met": self.is_met}


def amount(key: str, off_by: float, value: str = "") -> str:
    """Return how far a number may still be off: ``TST ± 12 min``."""
    off = "?" if isnan(off_by) else f"{off_by:.0f}{unit_of(key)}"
    return f"{title_of(key)}{value} ± {off}"


def blocks(nights: Sequence[CohortNight]) -> list[list[CohortNight]]:
    """Return the nights in random blocks, the same every time; names are as good as random once hashed."""
    shuffled = sorted(nights, key=lambda night: sha256(night.name.encode()).digest())
    return [shuffled[place : place + BLOCK] for place in range(0, len(shuffled), BLOCK)]


def _least_lack_last(night: CohortNight) -> float:
    return 0.0 if isnan(night.lack) else -night.lack


def _mean(
    key: str, target: float, nights: Sequence[CohortNight], sample: Sequence[CohortNight]
) -> CohortMean:
    first = np.array([night.first[key] for night in nights])
    n, n_all = len(sample), len(nights)
    if n < min(LEAST_REVIEWED, n_all):
        return CohortMean(key, float(first.mean()), NAN, NAN, target)
    corrections = np.array([night.now[key] - night.first[key] for night in sample])
    estimate = float(first.mean() + corrections.mean())
    margin = 0.0
    if n < n_all:
        error = float(corrections.std(ddof=1)) * sqrt((1 - n / n_all) / n)
        margin = t_quantile((1 + LEVEL) / 2, n - 1) * error
    return CohortMean(key, estimate, estimate - margin, estimate + margin, target)
