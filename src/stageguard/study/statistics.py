"""Paired comparisons over subjects: Wilcoxon's test, its effect size, corrections and stars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stageguard.base.arrays import NAN
from stageguard.base.extras import library
from stageguard.base.records import dataclass

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over subjects, and how it compares with a reference."""

    mean: float
    sd: float = NAN
    n: int = 0
    p: float = NAN  # corrected, against the reference
    effect: float = NAN  # rank-biserial correlation: 1 where every subject is higher than in the reference

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

    Subjects that either side lacks are left out of the test; differences of 0 are dropped, as scipy's
    ``wilcox`` does.
    """
    found = estimate(values)
    subjects = [name for name in values if name in reference]
    difference = np.array([values[name] - reference[name] for name in subjects])
    difference = difference[difference != 0]
    if not len(subjects):
        return found
    p, effect = 1.0, 0.0
    if len(difference):
        stats = library("scipy.stats", "tests of significance", "study")
        p = min(1.0, n_tests * float(stats.wilcoxon(difference).pvalue))
        ranks = stats.rankdata(np.abs(difference))
        effect = float((ranks * np.sign(difference)).sum() / ranks.sum())
    return Estimate(found.mean, found.sd, found.n, p, effect)


def bland_altman(differences: Sequence[float]) -> tuple[float, float, float]:
    """Return the bias, and the lower and upper limit of agreement (1.96 standard deviations)."""
    array = np.asarray(differences)
    if len(array) < 2:
        return (float(array.mean()) if len(array) else NAN), NAN, NAN
    bias, spread = float(array.mean()), 1.96 * float(array.std(ddof=1))
    return bias, bias - spread, bias + spread


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 42, n_draws: int = 2000
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a mean over subjects drawn with replacement."""
    array = np.asarray(values)
    if not len(array):
        return NAN, NAN
    rng = np.random.default_rng(seed)
    means = array[rng.integers(0, len(array), (n_draws, len(array)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
