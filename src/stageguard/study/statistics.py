"""Spreads over subjects: limits of agreement and bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stageguard.base.arrays import NAN
from stageguard.measures.groups import t_quantile
from stageguard.measures.powered_fit import MIN_RESAMPLED


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
    """Return the 95 % percentile interval of a mean over subjects drawn with replacement.

    Of fewer than `MIN_RESAMPLED` subjects it is Student's t interval, and of a single one there is none.
    """
    array = np.asarray(values)
    if len(array) < 2:
        return NAN, NAN
    if len(array) < MIN_RESAMPLED:
        mean, error = float(array.mean()), float(array.std(ddof=1)) / math.sqrt(len(array))
        margin = t_quantile(0.975, len(array) - 1) * error
        return mean - margin, mean + margin
    rng = np.random.default_rng(seed)
    means = array[rng.integers(0, len(array), (n_draws, len(array)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
