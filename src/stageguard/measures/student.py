"""Student's t distribution, central and noncentral, for confidence intervals. Knows no sleep and no groups.

A t variable with noncentrality δ is (Z + δ) / U with Z standard normal and U = sqrt(χ²(ν) / ν), so that

    P(T ≤ t) = E[Φ(t·U − δ)].

The expectation is taken over log U, whose density is smooth and falls off on both sides, by the
trapezoidal rule, which then is exact to rounding. The quantile in t and the limits in δ are its
roots.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_MOST_STEPS = 200
_LOG_NEGLIGIBLE = 40.0  # e^-40 of the peak is below rounding
_SQRT_HALF = math.sqrt(0.5)


def t_cdf(t: float, freedom: float, noncentrality: float = 0.0) -> float:
    """Probability that a t variable is at most `t`."""
    places, weights = _scale_distribution(freedom)
    arguments = (noncentrality - t * places) * _SQRT_HALF
    normal = [math.erfc(argument) for argument in arguments.tolist()]
    return float(0.5 * np.dot(weights, normal))


def t_quantile(probability: float, freedom: float) -> float:
    """Value that a central t variable stays below with this probability."""
    if probability < 0.5:
        return -t_quantile(1.0 - probability, freedom)
    return _root(lambda t: t_cdf(t, freedom) - probability, 0.0, 1.0)


def noncentrality_limits(t: float, freedom: float, confidence: float) -> tuple[float, float]:
    """Noncentralities for which an observed `t` is at the edge of what is expected, low and high."""
    tail = (1.0 - confidence) / 2.0

    def limit(level: float) -> float:
        return _root(
            lambda delta: level - t_cdf(t, freedom, delta), t, t + 1.0
        )  # the cdf falls as delta grows

    return limit(1.0 - tail), limit(tail)


@lru_cache(maxsize=64)
def _scale_distribution(freedom: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return values of U and their weights, which sum to 1."""
    spread = math.sqrt(_LOG_NEGLIGIBLE / freedom)
    n_points = 1024 if freedom < 10.0 else 384  # few degrees of freedom have a long tail towards 0
    log_u = np.linspace(-_LOG_NEGLIGIBLE / freedom - spread, spread, n_points)
    log_density = freedom * (log_u - 0.5 * np.expm1(2.0 * log_u))  # of log U, 0 at its peak
    weights = np.exp(log_density)
    return np.exp(log_u), weights / weights.sum()


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Root of a rising function by the Illinois method; the bracket grows until it holds one."""
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
