"""Estimates from scored and unscored people, their standard errors, and intervals by bootstrap or by t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from stageguard.arrays import NAN, Floats
from stageguard.measures.groups import t_quantile

MIN_SCORED = 5  # subjects per group: with fewer, one person decides
# Scored subjects, of each group, from which on resamples are studentised: with fewer, some resamples repeat
# so few people that their standard error is next to 0, and the interval has no bounds.
MIN_RESAMPLED = 10
_MOST_NUMBERS = 1_000_000  # that one array of resamples may hold

Kind = Literal["mean", "difference", "correlation"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Ends = tuple[float, float, float]  # an estimate, and its interval from low to high


class Units(NamedTuple):
    """Subjects in the order of their strata: in each group the scored ones, then the others."""

    expert: Floats  # (n_units,) NaN where unscored, or where the statistic does not exist
    scored: Floats  # (n_units,) the automatic value of the scored nights, NaN where unscored
    all: Floats  # (n_units,) the automatic value of all nights
    covariate: Floats
    sizes: tuple[int, ...]  # of the strata
    groups: tuple[str, ...] = ("",)

    def by_group(self, values: Floats) -> list[Floats]:
        """Return values of the subjects, group by group."""
        ends = np.cumsum(self.sizes)[1::2]
        return np.split(values, ends[:-1])

    @property
    def n_measured(self) -> list[int]:
        """Scored subjects of each group for whom the statistic exists."""
        return [int(np.count_nonzero(~np.isnan(each))) for each in self.by_group(self.expert)]

    @property
    def n_scored(self) -> int:
        """Subjects with a scored night."""
        return sum(self.sizes[::2])

    @property
    def n_unscored(self) -> int:
        """The other subjects."""
        return sum(self.sizes[1::2])

    def shortage(self) -> str:
        """Return which group has too few scored subjects; empty if all have enough."""
        for group, n_scored in zip(self.groups, self.sizes[::2], strict=True):
            if n_scored < MIN_SCORED:
                who = "subject is" if n_scored == 1 else "subjects are"
                where = f" in group {group!r}" if group else ""
                return f"{n_scored} {who} scored by an expert{where}, expected {MIN_SCORED} or more."
        return ""


class Fit(NamedTuple):
    """One estimate per resample, its standard error and the weight it was made with."""

    estimate: Floats
    error: Floats
    weight: Floats


def span(kind: Kind, units: Units) -> float:
    """Return how far apart estimates from these numbers can be: the highest less the lowest of each group."""
    if kind == "correlation":
        return 2.0
    groups = zip(units.by_group(units.expert), units.by_group(units.all), strict=True)
    numbers = [each[~np.isnan(each)] for each in map(np.concatenate, groups)]
    return float(sum(np.ptp(each) for each in numbers if len(each)))


def resampled_intervals(
    kind: Kind,
    both: tuple[Fit, Fit],
    units: Units,
    weight: float | None,
    confidence: float,
    n_resamples: int,
    rng: np.random.Generator,
) -> tuple[Ends, Ends]:
    """Return the studentised intervals with the automatic nights and without."""
    n_rows = max(1, _MOST_NUMBERS // max(1, len(units.all)))
    resampled = []
    for start in range(0, n_resamples, n_rows):
        drawn = _resamples(units.sizes, min(n_rows, n_resamples - start), rng)
        resampled.append(fits(kind, units, drawn, weight))
    powered, scored = (
        _interval(kind, own, [pair[which] for pair in resampled], confidence)
        for which, own in enumerate(both)
    )
    return powered, scored


def t_interval(kind: Kind, own: Fit, units: Units, confidence: float) -> Ends:
    """Return the estimate and the ends of its t interval, on its own scale."""
    estimate, error, freedom = float(own.estimate[0]), float(own.error[0]), _freedom(kind, units)
    if not (freedom >= 1.0 and error > 0.0):
        return _to_own_scale(kind, estimate, NAN, NAN)
    margin = t_quantile(0.5 + confidence / 2, freedom) * error
    return _to_own_scale(kind, estimate, estimate - margin, estimate + margin)


def _freedom(kind: Kind, units: Units) -> float:
    """Return the degrees of freedom: Welch's for a difference."""
    numbers = [each[~np.isnan(each)] for each in units.by_group(units.expert)]
    if kind == "difference":
        parts = [(float(each.var(ddof=1)) / len(each), len(each) - 1) for each in numbers if len(each) > 1]
        # Welch and Satterthwaite, as for scored nights alone
        spread = sum(variance**2 / n for variance, n in parts)
        return sum(variance for variance, _ in parts) ** 2 / spread if len(parts) == 2 and spread else 0.0
    return len(numbers[0]) - (2.0 if kind == "correlation" else 1.0)


def _resamples(sizes: Sequence[int], n: int, rng: np.random.Generator) -> Floats:
    """Draw subjects with replacement within each stratum; return how often each was drawn, (n, n_units)."""
    counts = []
    for size in sizes:
        picked = rng.integers(0, size, size=(n, size)) if size else np.empty((n, 0), dtype=np.int64)
        flat = np.bincount((picked + size * np.arange(n)[:, None]).ravel(), minlength=n * size)
        counts.append(flat.reshape(n, size))
    return np.hstack(counts).astype(np.float64)


def fits(kind: Kind, units: Units, counts: Floats, weight: float | None) -> tuple[Fit, Fit]:
    """Estimate with the automatic nights and without, in every row of counts."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        base, from_expert = _functional(kind, units.expert, units, counts)
        of_scored, from_scored = _functional(kind, units.scored, units, counts)
        of_all, from_all = _functional(kind, units.all, units, counts)
        correction, of_correction = of_all - of_scored, from_all - from_scored
        variance, covariance, spread = (
            _covariance(a, b, units.sizes, counts)
            for a, b in (
                (from_expert, from_expert),
                (from_expert, of_correction),
                (of_correction, of_correction),
            )
        )
        if weight is None:
            # the weight of least variance; below 0 or above 1 it would only fit noise
            best = np.clip(-covariance / spread, 0.0, 1.0)
            weights = np.where(np.isnan(best), 0.0, best)
        else:
            weights = np.full(len(counts), weight)
        counted = np.where(weights > 0, correction, 0.0)  # NaN of weight 0 stays out
        error = np.where(weights > 0, variance + 2 * weights * covariance + weights**2 * spread, variance)
    powered = Fit(base + weights * counted, np.sqrt(np.maximum(error, 0.0)), weights)
    return powered, Fit(base, np.sqrt(variance), np.zeros_like(weights))


def _functional(kind: Kind, values: Floats, units: Units, counts: Floats) -> tuple[Floats, Floats]:
    """Return T of the known values and each unit's influence on it, in every row of counts."""
    if kind == "correlation":
        return _correlation(values, units.covariate, counts)
    if kind == "mean":
        return _mean(values, counts)
    is_first = np.arange(len(values)) < sum(units.sizes[:2])
    first, of_first = _mean(np.where(is_first, values, NAN), counts)
    second, of_second = _mean(np.where(is_first, NAN, values), counts)
    return first - second, of_first - of_second


def _mean(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    exists = ~np.isnan(values)
    filled = np.where(exists, values, 0.0)
    n = counts @ exists.astype(np.float64)
    mean = counts @ filled / n
    return mean, exists * (filled - mean[:, None]) / n[:, None]


def _correlation(values: Floats, covariate: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return Pearson's correlation on Fisher's scale."""
    exists = ~np.isnan(values + covariate)
    n = counts @ exists.astype(np.float64)
    scores = []
    for each in (values, covariate):
        filled = np.where(exists, each, 0.0)
        centred = exists * (filled - (counts @ filled / n)[:, None])
        scores.append(centred / np.sqrt(np.einsum("ij,ij,ij->i", counts, centred, centred) / n)[:, None])
    x, y = scores
    r = np.clip(np.einsum("ij,ij,ij->i", counts, x, y) / n, -1.0, 1.0)
    # the derivative of the correlation towards each person, for its standard error
    influence = x * y - 0.5 * r[:, None] * (x**2 + y**2)
    return np.arctanh(r), influence / ((1.0 - r**2) * n)[:, None]


def _covariance(one: Floats, other: Floats, sizes: Sequence[int], counts: Floats) -> Floats:
    """Return the covariance of two sums of influences, by row, summed over the independent strata."""
    total, start = np.zeros(len(counts)), 0
    for size in sizes:
        part = slice(start, start + size)
        a, b, w = one[:, part], other[:, part], counts[:, part]
        start += size
        # one person in a stratum tells nothing about its spread
        if size > 1:
            sums = np.einsum("ij,ij->i", w, a) * np.einsum("ij,ij->i", w, b)
            total += size / (size - 1) * (np.einsum("ij,ij,ij->i", w, a, b) - sums / size)
    return total


def _interval(kind: Kind, own: Fit, resampled: Sequence[Fit], confidence: float) -> Ends:
    """Return the estimate and the ends of its studentised interval, on its own scale."""
    estimate, error = float(own.estimate[0]), float(own.error[0])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.concatenate([(fit.estimate - estimate) / fit.error for fit in resampled])
    rank = math.ceil((len(t) + 1) * (0.5 + confidence / 2) - 1e-9) - 1
    # resamples that cannot be studentised count as beyond either end: np.sort puts NaN last
    high, low = np.sort(t)[rank], -np.sort(-t)[rank]
    return _to_own_scale(kind, estimate, estimate - error * float(high), estimate - error * float(low))


def _to_own_scale(kind: Kind, estimate: float, low: float, high: float) -> Ends:
    """Return an estimate and its interval on their own scale; NaN for an interval that does not exist."""
    if kind == "correlation":
        estimate, low, high = math.tanh(estimate), math.tanh(low), math.tanh(high)
    return (estimate, low, high) if math.isfinite(high - low) else (estimate, NAN, NAN)
