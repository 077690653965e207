"""Bias and limits of agreement, against SciPy and numbers made up to have them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from messages import naming
from stageguard.errors import InputError
from stageguard.measures.samples import WIDTH, bland_altman


def test_bias_and_limits_are_those_of_the_differences():
    random = np.random.default_rng(3)
    expert = random.normal(400, 60, 40)
    scored = expert + random.normal(12, 20, 40)
    found = bland_altman(scored, expert)
    t = stats.ttest_1samp(scored - expert, 0.0)
    interval = t.confidence_interval(0.95)
    assert found.bias == pytest.approx(np.mean(scored - expert))
    assert (found.bias_low, found.bias_high) == pytest.approx((interval.low, interval.high))
    sd = np.std(scored - expert, ddof=1)
    assert (found.low, found.high) == pytest.approx((found.bias - WIDTH * sd, found.bias + WIDTH * sd))
    assert found.means == pytest.approx((scored + expert) / 2)
    assert found.n == 40


def test_the_interval_of_a_limit_holds_it_as_often_as_it_says():
    random = np.random.default_rng(5)
    holds = []
    for _ in range(400):
        found = bland_altman(random.normal(0, 1, 50), np.zeros(50))
        holds.append(abs(found.high - WIDTH) <= found.limit_margin)
    assert 0.91 < np.mean(holds) < 0.98


def test_pairs_that_are_not_known_are_left_out():
    found = bland_altman([1.0, math.nan, 5.0, 2.0], [0.0, 1.0, math.nan, 4.0])
    assert found.differences.tolist() == [1.0, -2.0]
    assert found.bias == -0.5


@pytest.mark.parametrize(("values", "bias"), [([], math.nan), ([3.0], 3.0)])
def test_too_few_pairs_have_no_limits(values, bias):
    found = bland_altman(values, [0.0] * len(values))
    assert found.bias == pytest.approx(bias, nan_ok=True)
    assert math.isnan(found.low)
    assert math.isnan(found.bias_low)


def test_values_of_different_lengths_are_refused():
    with pytest.raises(InputError, match=naming("(2,)", "(3,)")):
        bland_altman([1.0, 2.0], [1.0, 2.0, 3.0])
