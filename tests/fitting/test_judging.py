"""Scores of outputs against a night's expert, and the choice among candidates."""

from __future__ import annotations

import statistics
import warnings

import numpy as np
import pytest
import scipy.stats

import stageguard as sg
from stageguard.fitting.candidates import ARGMAX, DEFAULT, Candidate
from stageguard.fitting.judging import (
    KAPPA,
    Criterion,
    judge,
    mean_over_subjects,
    paired_error,
    relative_errors,
    score,
    statistics_of,
)
from stageguard.fitting.nights import read_nights
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.period import period_of
from stageguard.night.stages import WNR3, WS2

BIASED = Candidate("argmax", biases=True)
MATCH = Candidate("match")


def errors_of(expert, labels, scheme, seconds, kind):
    """Errors by statistic, of one output against one scoring."""
    stages = {"name": "x", "stages": list(scheme.names), "epoch_seconds": seconds, "transition_weight": 1.0}
    if scheme.wake is not None:
        stages |= {"wake": scheme.wake} | ({"rem": scheme.rem} if scheme.rem else {})
    even = {a: dict.fromkeys(scheme.names, 1 / scheme.n_stages) for a in scheme.names}
    base = sg.Profile.from_dict(stages | {"transitions": even})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)  # of a stage that nobody scored
        (night,) = read_nights([Hypnogram(expert, base.scheme, seconds)], None, base, kind=kind)
    found = score(night, Hypnogram(labels, base.scheme, seconds), kind)
    return dict(zip(statistics_of(kind, base.scheme), found[4:], strict=True))


def test_errors_are_in_steps_over_the_epochs_both_scored():
    expert = np.array([0, 0, 1, 1, -1, 1], np.int8)
    labels = np.array([0, 1, 1, 1, 1, -1], np.int8)
    found = errors_of(expert, labels, WS2, 60.0, "day")  # W W S S against W S S S
    assert found == {"minutes_W": 1, "minutes_S": 1, "bouts_W": 0, "bouts_S": 0}
    found = errors_of(
        np.array([0, 0, 1, 1, 0, 2, 2, -1]), np.array([0, 1, 1, 1, 1, 2, 2, 1]), WNR3, 30.0, "night"
    )
    assert found == {
        "tst_minutes": 2,
        "se_percent": 250,
        "sol_minutes": 1,
        "rem_latency_minutes": 1,
        "waso_minutes": 1,
        "awakenings": 1,
        "bouts": 1,
    }


def test_a_night_is_scored_as_agreement_and_fragmentation_say():
    rng = np.random.default_rng(4)
    truth = np.repeat(rng.choice(3, 60, p=(0.2, 0.6, 0.2)), rng.integers(5, 15, 60)).astype(np.int8)
    second = np.where(np.arange(len(truth)) % 9, truth, 1).astype(np.int8)
    second[30:40] = -1
    panel = [Hypnogram(labels, WNR3, 30.0) for labels in (truth, second)]
    (night,) = read_nights([panel], None, sg.Profile.load("human-psg-3"))
    output = np.where(rng.random(len(truth)) < 0.2, 1, truth).astype(np.int8)
    output[3:9] = -1
    kappa, accuracy, fi, distance, *_ = score(night, Hypnogram(output, WNR3, 30.0), "night")
    wanted = sg.agreement(night.expert, Hypnogram(output, WNR3, 30.0))
    assert (kappa, accuracy) == (wanted.kappa, wanted.accuracy)
    both = (night.truth >= 0) & (output >= 0)
    pairs = both[1:] & both[:-1]
    first, stop = period_of(night.truth, 0, 30.0)
    pairs &= (np.arange(len(pairs)) >= first) & (np.arange(len(pairs)) < stop - 1)
    assert fi == pytest.approx(np.mean((output[1:] != output[:-1])[pairs]))
    known = [pairs & (one[1:] >= 0) & (one[:-1] >= 0) for one in (truth, second)]
    by_expert = [np.mean((one[1:] != one[:-1])[m]) for one, m in zip((truth, second), known, strict=True)]
    assert distance == pytest.approx(abs(fi - np.mean(by_expert)))


def scores_of(*rows):
    """Scores (candidate, night, metric) of rows of nights, each kappa, accuracy, FI distance and errors."""
    return np.array([[[k, a, 0.1, d, *errors] for k, a, d, *errors in row] for row in rows], dtype=float)


def statuses(
    kappa, accuracy, distance, error, criterion=None, n_nights=4, candidates=(ARGMAX, DEFAULT, MATCH)
):
    """What becomes of candidates that are the same on every night, but for a little."""
    jitter = np.linspace(-1e-4, 1e-4, 4)
    rows = [
        [(k + (i > 1) * step, a, d, e) for step in jitter]
        for i, (k, a, d, e) in enumerate(zip(kappa, accuracy, distance, error, strict=True))
    ]
    found = judge(candidates, scores_of(*rows), [*"abcd"], criterion or Criterion(), DEFAULT)
    return [row.status for row in found]


def test_what_falls_below_the_default_is_dropped():
    same, three = (0.8, 0.8, 0.8), (10.0,) * 3
    assert statuses((0.4, 0.5, 0.6), same, (0.1,) * 3, three)[1:] == ["kept", "chosen"]
    assert statuses((0.4, 0.5, 0.49), same, (0.1, 0.1, 0.0), three)[1:] == [
        "chosen",
        "kappa below the default",
    ]
    worse = (0.8, 0.8, 0.79)
    assert statuses((0.4, 0.5, 0.6), worse, (0.1,) * 3, three)[2] == "chosen"
    strict = Criterion(keep_accuracy=True)
    assert statuses((0.4, 0.5, 0.6), worse, (0.1,) * 3, three, strict)[2] == "accuracy below the default"
    assert statuses((0.5, 0.5, 0.7), same, (0.1,) * 3, (10, 8, 8.1))[2] == "errors above the default"
    assert statuses((0.5, 0.5, 0.7), same, (0.1,) * 3, (10, 8, 7.9))[2] == "chosen"
    free = Criterion(statistics_weight=0.0)
    assert statuses((0.5, 0.5, 0.7), same, (0.1,) * 3, (10, 8, 8.1), free)[2] == "chosen"


def test_the_highest_criterion_is_chosen():
    four = (ARGMAX, DEFAULT, MATCH, BIASED)
    given = ((0.4, 0.5, 0.6, 0.61), (0.8,) * 4, (0.1, 0.1, 0.02, 0.05), (10.0, 10.0, 9.0, 9.0))
    assert statuses(*given, candidates=four)[2:] == ["chosen", "kept"]
    assert statuses(*given, Criterion(0.0), candidates=four)[2:] == ["kept", "chosen"]


@pytest.mark.parametrize("shift", [-0.001, 0.001])
def test_the_gain_must_be_sure_by_students_t(shift):
    gains = np.array([0.01, 0.05, 0.03, 0.09, 0.02])
    error = gains.std(ddof=1) / np.sqrt(5)
    gains += scipy.stats.t.ppf(0.975, 4) * error - gains.mean() + shift
    rows = [[(0.5, 0.8, 0.1, 10.0)] * 5] * 2 + [[(0.5 + gain, 0.8, 0.1, 10.0) for gain in gains]]
    found = judge([ARGMAX, DEFAULT, MATCH], scores_of(*rows), [*"abcde"], Criterion(), DEFAULT)
    assert found[2].status == ("chosen" if shift > 0 else "gain not sure")


def test_a_night_without_a_kappa_counts_for_nobody():
    nan = float("nan")
    rows = [[(nan, 1.0, 0.0), (0.5, 0.8, 0.1)], [(0.0, 0.9, 0.0), (0.6, 0.8, 0.1)]]
    assert mean_over_subjects(scores_of(*rows)[:, :, KAPPA], "ab").tolist() == [0.5, 0.6]


def test_errors_are_multiples_of_argmax_s_mean_of_a_step_at_least():
    nan = float("nan")
    errors = np.array([[[10.0, 0.0], [30.0, nan]], [[10.0, 6.0], [10.0, nan]]])
    # argmax is right about the second statistic: six steps off still cost six
    assert relative_errors(errors).tolist() == [[0.25, 1.5], [3.25, 0.5]]
    assert relative_errors(np.full((2, 2, 1), nan)).tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("unknown", [False, True])
def test_a_difference_and_its_error_are_those_of_the_subjects_known(unknown):
    rng = np.random.default_rng(1)
    first, second, subjects = rng.normal(size=9), rng.normal(size=9), list("aabbcdeff")
    if unknown:
        first[4] = np.nan  # all that subject c has
    nights = {name: [i for i, s in enumerate(subjects) if s == name] for name in "abcdef"}
    means = [statistics.fmean(first[i] - second[i] for i in each) for each in nights.values()]
    means = [value for value in means if value == value]
    mean, error = paired_error(first, second, subjects)
    assert mean == pytest.approx(statistics.fmean(means))
    assert error == pytest.approx(statistics.stdev(means) / len(means) ** 0.5)
