"""Paired numbers of the same subjects: means, Wilcoxon's test, its effect size, the improvement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import NAN
from stageguard.base.extras import library

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over subjects, and how it compares with a reference."""

    mean: float
    sd: float = NAN
    n: int = 0
    p: float = NAN  # corrected, against the reference
    effect: float = NAN  # rank-biserial correlation: 1 if every subject is higher than in the reference

    @property
    def stars(self) -> str:
        """Marks of significance."""
        return next((stars for level, stars in STARS if self.p < level), "")


def estimate(values: Mapping[str, float]) -> Estimate:
    """Return mean and standard deviation over subjects."""
    numbers = np.array(list(values.values()))
    if not len(numbers):
        return Estimate(NAN)
    sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else NAN
    return Estimate(float(numbers.mean()), sd, len(numbers))


def paired(reference: Mapping[str, float], values: Mapping[str, float], n_tests: int = 1) -> Estimate:
    """Compare with a reference, subject by subject: two-sided Wilcoxon signed-rank, Bonferroni-corrected.

    Subjects that are missing on either side are left out of the test; differences of 0 are dropped, as
    scipy's ``wilcox`` does.
    """
    summary = estimate(values)
    # only subjects with both numbers can be compared with themselves
    subjects = [name for name in values if name in reference]
    difference = np.array([values[name] - reference[name] for name in subjects])
    difference = difference[difference != 0]
    if not len(subjects):
        return summary
    p, effect = 1.0, 0.0
    if len(difference):
        stats = library("scipy.stats", "the Wilcoxon test", None)
        p = min(1.0, n_tests * float(stats.wilcoxon(difference).pvalue))
        ranks = stats.rankdata(np.abs(difference))
        # signed ranks over all ranks: how one-sided the differences are
        effect = float((ranks * np.sign(difference)).sum() / ranks.sum())
    return Estimate(summary.mean, summary.sd, summary.n, p, effect)


def improvement_percent(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Return the decrease of the mean error in percent, over subjects that have both; below 0 it grew."""
    both = [name for name in before if name in after]
    old = float(np.mean([before[name] for name in both])) if both else 0.0
    return 100 * (1 - float(np.mean([after[name] for name in both])) / old) if old else NAN
