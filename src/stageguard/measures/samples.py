"""Samples of numbers: means, paired tests, bias and limits of agreement, differences between groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import NAN, Floats
from stageguard.errors import InputError
from stageguard.lazy import library

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
WIDTH = 1.96  # standard deviations from the bias to a limit: 95 of 100 differences where they are normal
METHOD_OF_TABLE = (
    f"Bias is the mean difference from the expert; the limits of agreement are {WIDTH:g} standard deviations "
    "(n - 1) on either side, between which 95 % of the differences lie where they are normal. Each night "
    "counts once, whoever slept it, on the epochs that its expert scored."
)
METHOD_OF_GROUPS = (
    "Difference of means with Welch's t interval (variances may differ). Cohen's d with the pooled standard "
    "deviation, its interval from the noncentral t distribution (normal values, equal variances). Nights of "
    "one subject, where subjects are named, are averaged first; otherwise each night counts as a person. "
    "Nothing is corrected for the number of comparisons."
)


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


def mean_of(values: Floats, axis: int = -1) -> Floats:
    """Return means along an axis, NaN left out; NaN of nothing."""
    exists = ~np.isnan(values)
    n, total = exists.sum(axis=axis), np.where(exists, values, 0.0).sum(axis=axis)
    return np.asarray(np.where(n > 0, total / np.maximum(n, 1), NAN))


def estimate(values: Mapping[str, float], p: float = NAN, effect: float = NAN) -> Estimate:
    """Return mean and standard deviation over subjects."""
    numbers = np.array(list(values.values()))
    if not len(numbers):
        return Estimate(NAN)
    sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else NAN
    return Estimate(float(numbers.mean()), sd, len(numbers), p, effect)


def paired(reference: Mapping[str, float], values: Mapping[str, float], n_tests: int = 1) -> Estimate:
    """Compare with a reference, subject by subject: two-sided Wilcoxon signed-rank, Bonferroni-corrected.

    Subjects missing on either side are left out; differences of 0 are dropped, as ``wilcox`` does.
    """
    both = [name for name in values if name in reference]
    if not both:
        return estimate(values)
    difference = np.array([values[name] - reference[name] for name in both])
    difference = difference[difference != 0]
    if not len(difference):
        return estimate(values, 1.0, 0.0)
    stats = library("scipy.stats", "the Wilcoxon test", None)
    ranks = stats.rankdata(np.abs(difference))
    effect = float((ranks * np.sign(difference)).sum() / ranks.sum())  # how one-sided the differences are
    return estimate(values, min(1.0, n_tests * float(stats.wilcoxon(difference).pvalue)), effect)


def improvement_percent(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """Return the decrease of the mean error in percent, over subjects that have both; below 0 it grew."""
    both = [name for name in before if name in after]
    old, new = (float(np.mean([each[name] for name in both])) if both else 0.0 for each in (before, after))
    return 100 * (1 - new / old) if old else NAN


@dataclass(frozen=True, slots=True, eq=False)
class BlandAltman:
    """Differences between two measurements of the same nights; NaN where there are too few."""

    means: Floats = field(repr=False)  # of the two, for each pair without NaN
    differences: Floats = field(repr=False)  # measured minus reference
    bias: float
    sd: float = NAN  # of the differences (n - 1)
    low: float = NAN  # limits of agreement
    high: float = NAN
    bias_low: float = NAN  # 95 % interval of the bias
    bias_high: float = NAN
    limit_margin: float = NAN  # half width of the 95 % interval of either limit

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.differences)


def bland_altman(measured: npt.ArrayLike, reference: npt.ArrayLike) -> BlandAltman:
    """Compare two measurements (n_nights,) of the same nights; pairs with a NaN are left out."""
    first, second = (np.asarray(values, dtype=np.float64) for values in (measured, reference))
    if first.ndim != 1 or first.shape != second.shape:
        raise InputError(f"got shapes {first.shape} and {second.shape}, expected one number per night.")
    exists = np.isfinite(first) & np.isfinite(second)
    first, second = first[exists], second[exists]
    means, differences, n = (first + second) / 2, first - second, len(first)
    bias = float(differences.mean()) if n else NAN
    if n < 2:
        return BlandAltman(means, differences, bias)
    sd, t = float(differences.std(ddof=1)), t_quantile(0.975, n - 1)
    reach, margin = WIDTH * sd, t * sd / math.sqrt(n)
    # the variance of a limit is that of the bias plus that of the spread
    of_limit = t * sd * math.sqrt(1 / n + WIDTH**2 / (2 * (n - 1)))
    ends = (bias - reach, bias + reach, bias - margin, bias + margin)
    return BlandAltman(means, differences, bias, sd, *ends, of_limit)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two independent samples compared; NaN fields have their reason in `reason`."""

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


def compare_samples(first: Floats, second: Floats, *, level: float = 0.95) -> Difference:
    """Compare the means of two independent samples, NaN left out, with intervals of this coverage."""
    level = checks.number(level, "level", low=0.5, high=0.9999)
    first, second = (values[~np.isnan(values)] for values in (first, second))
    n, m = len(first), len(second)
    mean_first, mean_second = (float(v.mean()) if len(v) else NAN for v in (first, second))
    sd_first, sd_second = (float(v.std(ddof=1)) if len(v) > 1 else NAN for v in (first, second))
    difference = mean_first - mean_second
    means = Difference(n, m, mean_first, mean_second, sd_first, sd_second, difference)
    if min(n, m) < 2:
        return replace(means, reason=f"{n} and {m} values, an interval needs two in each")
    error_first, error_second = sd_first**2 / n, sd_second**2 / m
    error = error_first + error_second
    if error == 0.0:
        return replace(means, reason="no value differs from its group's mean")
    # Welch and Satterthwaite: the groups may differ in spread
    freedom = error**2 / (error_first**2 / (n - 1) + error_second**2 / (m - 1))
    margin = t_quantile(0.5 + level / 2, freedom) * math.sqrt(error)
    pooled = math.sqrt(((n - 1) * sd_first**2 + (m - 1) * sd_second**2) / (n + m - 2))
    # d over this scale is a t with a noncentrality, whose limits are known
    d, scale = difference / pooled, math.sqrt(1 / n + 1 / m)
    low, high = (scale * end for end in noncentrality_limits(d / scale, n + m - 2, level))
    return replace(means, low=difference - margin, high=difference + margin, d=d, d_low=low, d_high=high)


# The t distribution, since SciPy is optional and its limits of the noncentrality have seven digits.
_LOG_NEGLIGIBLE = 40.0  # e^-40 of the peak is below rounding


def t_cdf(t: float, freedom: float, noncentrality: float = 0.0) -> float:
    """Return the probability that a t variable is at most `t`."""
    # T = (Z + delta) / U: the normal probability, averaged over the chi variable U
    scales, weights = _scale_distribution(freedom)
    arguments = (noncentrality - t * scales) * math.sqrt(0.5)
    return float(0.5 * np.dot(weights, [math.erfc(argument) for argument in arguments.tolist()]))


@lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the value that a central t variable stays below with this probability."""
    if probability < 0.5:
        return -t_quantile(1.0 - probability, freedom)
    return _root(lambda t: t_cdf(t, freedom) - probability, 0.0, 1.0)


def noncentrality_limits(t: float, freedom: float, level: float) -> tuple[float, float]:
    """Return the lowest and the highest noncentrality for which an observed `t` is still expected."""
    tail = (1.0 - level) / 2.0

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
    for _ in range(200):
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
