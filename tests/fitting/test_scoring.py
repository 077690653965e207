"""Scores by subject: means over the nights known, and how sure their differences are."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from stageguard.arrays import count_true
from stageguard.fitting.scoring import paired_error, paired_errors


@pytest.mark.parametrize("unknown", [False, True])
def test_a_difference_and_its_error_are_those_of_the_subjects_known(unknown):
    rng = np.random.default_rng(1)
    rows, second = rng.normal(size=(4, 9)), rng.normal(size=9)
    subjects = list("aabbcdeff")
    if unknown:
        rows[1, 4] = np.nan  # all that subject c has
    found = paired_errors(rows, second, subjects)
    for row, (mean, error) in zip(rows, found, strict=True):
        nights = {name: [i for i, s in enumerate(subjects) if s == name] for name in "abcdef"}
        means = [statistics.fmean(row[i] - second[i] for i in each) for each in nights.values()]
        means = [value for value in means if value == value]
        assert mean == pytest.approx(statistics.fmean(means))
        assert error == pytest.approx(statistics.stdev(means) / len(means) ** 0.5)
    np.testing.assert_array_equal(paired_error(rows[0], second, subjects), found[0])


def test_one_subject_has_no_error_and_none_no_mean():
    assert paired_error(np.array([0.5, 0.7]), np.zeros(2), "aa") == (pytest.approx(0.6), np.inf)
    assert np.isnan(paired_error(np.full(2, np.nan), np.zeros(2), "ab")).all()


def test_counting_what_is_true_is_its_sum_beyond_what_small_integers_hold():
    mask = np.random.default_rng(2).random((3, 70_000)) < 0.9
    np.testing.assert_array_equal(count_true(mask), mask.sum(axis=1))
    np.testing.assert_array_equal(count_true(mask[:, ::-3]), mask[:, ::-3].sum(axis=1))
