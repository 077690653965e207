"""Paired numbers of the same nights or subjects: Wilcoxon's test, bias and limits of agreement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stageguard.arrays import NAN, Floats
from stageguard.errors import InputError
from stageguard.extras import library
from stageguard.measures.groups import t_quantile

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


WIDTH = 1.96  # standard deviations from the bias to a limit: 95 of 100 differences where they are normal
_LIMITS = (
    f"the limits of agreement are {WIDTH:g} standard deviations (n - 1) on either side, between which 95 % "
    "of the differences lie where they are normal. Each night counts once, whoever slept it, on the epochs "
    "that its expert scored."
)
METHOD_OF_PLOTS = (
    "Difference from the expert over the mean of the two, a point for each night. Bias is the mean "
    f"difference with its 95 % t interval; {_LIMITS}"
)
METHOD_OF_TABLE = f"Bias is the mean difference from the expert; {_LIMITS}"


@dataclass(frozen=True, slots=True, eq=False)
class BlandAltman:
    """Differences between two measurements of the same nights; NaN where there are too few.

    Attributes
    ----------
    means, differences : array
        Of each pair without NaN: the mean of the two, and measured minus reference.
    bias : float
        The mean difference; `bias_low` and `bias_high` are its 95 % interval.
    sd : float
        Standard deviation (n - 1) of the differences.
    low, high : float
        Limits of agreement; `limit_margin` is the half width of the 95 % interval of either.
    """

    means: Floats = field(repr=False)
    differences: Floats = field(repr=False)
    bias: float
    sd: float = NAN
    low: float = NAN
    high: float = NAN
    bias_low: float = NAN
    bias_high: float = NAN
    limit_margin: float = NAN

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.differences)


def bland_altman(measured: npt.ArrayLike, reference: npt.ArrayLike) -> BlandAltman:
    """Compare two measurements of the same nights; pairs with a NaN are left out.

    Parameters
    ----------
    measured, reference : array of shape (n_nights,)
        One number per night, such as total sleep time after decoding, and by the expert.

    Returns
    -------
    BlandAltman
        Means and differences of the pairs, bias and limits of agreement.
    """
    first, second = (np.asarray(values, dtype=np.float64) for values in (measured, reference))
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(
            f"got values of the shapes {first.shape} and {second.shape}, expected one number of each night."
        )
    # a night counts only if both measured it
    exists = np.isfinite(first) & np.isfinite(second)
    first, second = first[exists], second[exists]
    means, differences, n = (first + second) / 2, first - second, len(first)
    bias = float(differences.mean()) if n else NAN
    if n < 2:
        return BlandAltman(means, differences, bias)
    sd, t = float(differences.std(ddof=1)), t_quantile(0.975, n - 1)
    reach, margin = WIDTH * sd, t * sd / math.sqrt(n)
    # the variance of a limit is that of the bias plus that of the spread
    limit_margin = t * sd * math.sqrt(1 / n + WIDTH**2 / (2 * (n - 1)))
    return BlandAltman(
        means=means,
        differences=differences,
        bias=bias,
        sd=sd,
        low=bias - reach,
        high=bias + reach,
        bias_low=bias - margin,
        bias_high=bias + margin,
        limit_margin=limit_margin,
    )
