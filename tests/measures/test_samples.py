"""Samples against SciPy and by hand: t, Welch, Cohen's d and its noncentral interval, limits of agreement."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from messages import mentions, naming
from stageguard.errors import InputError
from stageguard.measures.cohort import CohortTable, group_differences
from stageguard.measures.samples import (
    WIDTH,
    bland_altman,
    compare_samples,
    noncentrality_limits,
    t_cdf,
    t_quantile,
)

NAN = float("nan")


def table(scorings: dict[str, list[float]], ids=None) -> CohortTable:
    n_nights = len(next(iter(scorings.values())))
    names = tuple(ids or [f"n{i}" for i in range(n_nights)])
    values = {name: np.array(own, dtype=float)[:, None] for name, own in scorings.items()}
    return CohortTable(names, ("tst_minutes",), values)


def test_the_t_distribution_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 1.3, 2, 4.7, 11, 30.5, 250, 1e5):
        for probability in (0.55, 0.9, 0.975, 0.995, 0.9999):
            own = t_quantile(probability, freedom)
            assert own == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9)
        for noncentrality in (-2.0, 0.0, 0.7, 5.0):
            for t in (-1.5, 0.0, 1.0, 6.0):
                expected = stats.nct.cdf(t, freedom, noncentrality)
                assert t_cdf(t, freedom, noncentrality) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("t", "freedom"), [(0.0, 2), (2.1, 18), (-7.0, 40), (0.3, 2), (60.0, 98), (1000.0, 10)]
)
def test_limits_of_the_noncentrality_put_the_observed_t_in_both_tails(t, freedom):
    low, high = noncentrality_limits(t, freedom, 0.95)
    assert low < high
    assert t_cdf(t, freedom, low) == pytest.approx(0.975, abs=1e-9)
    assert t_cdf(t, freedom, high) == pytest.approx(0.025, abs=1e-9)


def test_the_interval_of_a_difference_is_scipys_welch():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    for n, m, spread in ((2, 2, 1.0), (3, 9, 4.0), (12, 11, 0.5), (200, 40, 2.0)):
        first, second = rng.normal(5, 1, n), rng.normal(4, spread, m)
        for level in (0.8, 0.95, 0.99):
            own = compare_samples(first, second, level=level)
            interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(level)
            assert (own.low, own.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
            assert own.difference == pytest.approx(first.mean() - second.mean())
        pooled = np.sqrt(((n - 1) * first.var(ddof=1) + (m - 1) * second.var(ddof=1)) / (n + m - 2))
        assert own.d == pytest.approx(own.difference / pooled)


def test_missing_values_are_left_out():
    own = compare_samples(np.array([1.0, NAN, 2.0, 3.0]), np.array([4.0, 5.0, NAN]))
    bare = compare_samples(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0]))
    assert own == bare
    assert (own.n_first, own.n_second, own.mean_first, own.sd_first) == (3, 2, 2.0, 1.0)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ([1.0, 2.0], [3.0], (2, 1, "needs")),
        ([], [3.0, 4.0], (0, 2, "needs")),
        ([1.0, 1.0], [2.0, 2.0], ("no value differs", "mean")),
    ],
)
def test_what_has_no_interval_says_why(first, second, reason):
    own = compare_samples(np.array(first), np.array(second))
    assert mentions(own.reason, *reason)
    assert np.isnan([own.low, own.high, own.d, own.d_low, own.d_high]).all()
    assert math.isnan(own.mean_first) == (not first)


def test_every_two_groups_are_compared_in_every_scoring():
    own = table({"before": [1, 2, 5, 7, 9, 8], "after": [1, 2, 4, 6, 9, 9], "expert": [1, 2, 3, 5, 9, 9]})
    groups = {"n2": "b", "n3": "b", "n0": "a", "n1": "a", "n4": "c", "n5": "c"}
    found = group_differences(own, groups)
    assert len(found) == 3 * 3
    pairs = list(dict.fromkeys((one.first, one.second) for one in found))
    assert pairs == [("b", "a"), ("b", "c"), ("a", "c")]
    first = {one.scoring: one.result.difference for one in found if (one.first, one.second) == ("b", "a")}
    assert first == {"before": 4.5, "after": 3.5, "expert": 2.5}


def test_nights_of_one_subject_count_once():
    own = table({"after": [1, 3, 4, 10, 12, 20]})
    groups = {"n0": "a", "n1": "a", "n2": "a", "n3": "b", "n4": "b", "n5": "b"}
    (found,) = group_differences(own, groups, subjects={"n0": "s1", "n1": "s1", "n3": "s2", "n4": "s2"})
    assert (found.result.n_first, found.result.n_second) == (2, 2)
    assert (found.result.mean_first, found.result.mean_second) == (3.0, 15.5)
    missing = table({"after": [1, NAN, 4, 10, 12, 20]})
    (found,) = group_differences(missing, groups, subjects={"n0": "s1", "n1": "s1"})
    assert (found.result.n_first, found.result.mean_first) == (2, 2.5)


def test_groups_that_cannot_be_compared_are_one_line():
    own = table({"after": [1, 2, 3]})
    with pytest.raises(InputError, match=naming(3, "'a'")):
        group_differences(own, {"n0": "a", "n1": "a", "elsewhere": "b"})
    with pytest.raises(InputError, match=naming(3, "has a group")):
        group_differences(own, {"elsewhere": "b"})
    with pytest.raises(InputError, match=naming("subject 's'", "'a'", "'b'")):
        group_differences(own, {"n0": "a", "n1": "b"}, subjects={"n0": "s", "n1": "s"})


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


@pytest.mark.parametrize(("values", "bias"), [([], math.nan), ([3.0], 3.0)])
def test_too_few_pairs_have_no_limits(values, bias):
    found = bland_altman(values, [0.0] * len(values))
    assert found.bias == pytest.approx(bias, nan_ok=True)
    assert math.isnan(found.low)
    assert math.isnan(found.bias_low)
