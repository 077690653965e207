"""Nights brought together: epoch lengths, common epochs by clock or offset, and one density of several."""

from __future__ import annotations

import itertools
import warnings
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from messages import mentions, naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.night.stages import AASM5, WNR3

START = datetime(2024, 5, 1, 22, 30)
BERLIN = ZoneInfo("Europe/Berlin")
LENGTHS = (2.5, 4.0, 5.0, 15.0, 20.0, 30.0)


def night(labels, seconds=30.0, start=None):
    if isinstance(labels, int):
        labels = np.arange(labels) % 5
    return sg.Hypnogram(np.array(labels, dtype=np.int8), AASM5, seconds, start)


def density(rows, seconds=30.0, start=None, scheme=WNR3, source=None):
    return sg.Hypnodensity(np.array(rows, dtype=float), scheme, seconds, start, source)


def one_hot(labels):
    rows = np.eye(5)[labels]
    rows[np.array(labels) < 0] = np.nan
    return rows


def after(seconds):
    return START + timedelta(seconds=seconds)


# ---- epoch lengths


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(LENGTHS, 2)))
def test_every_pair_of_lengths_keeps_a_night_of_long_bouts(old, new):
    """Bouts of an hour: whatever the epochs, every epoch inside a bout is of its stage."""
    n_old = int(3600 * 5 / old)
    at = (np.arange(n_old) * old // 3600).astype(int)
    for result in (night(at, old).reepoch(new), density(one_hot(at), old, None, AASM5).reepoch(new)):
        assert (result.epoch_seconds, result.n_epochs) == (new, int(3600 * 5 / new))
        begins = np.arange(result.n_epochs) * new
        inside = (begins // 3600) == ((begins + new - 1e-6) // 3600)
        labels = result.labels if isinstance(result, sg.Hypnogram) else result.argmax
        assert inside.sum() > 500
        np.testing.assert_array_equal(labels[inside], (begins[inside] // 3600).astype(int))


@pytest.mark.parametrize(
    ("labels", "old", "new", "expected"),
    [
        ([0, 2, 2, 4], 15, 30, [0, 2]),  # a tie: the first of the epoch
        ([2, 2, 0, 2], 15, 30, [2, 2]),  # a tie: the stage before stays
        ([0, 2, 2], 20, 30, [0, 2]),
        ([0, 3], 30, 20, [0, 0, 3]),  # the middle one is half of each, and keeps the stage before
        ([0, -1, -1, -1, 2, 2], 10, 30, [-1, 2]),
        ([0, -1, 2, -1], 15, 30, [0, 2]),  # half of it is enough
        ([-1, -1], 15, 30, [-1]),
        ([0, 1], 30, 15, [0, 0, 1, 1]),
    ],
)
def test_an_epoch_gets_the_stage_that_holds_for_most_of_it(labels, old, new, expected):
    assert night(labels, old, START).reepoch(new) == night(expected, new, START)


def test_probabilities_are_averaged_over_time():
    rows = [[1, 0, 0], [0, 1, 0], [np.nan] * 3, [0, 0, 1], [np.nan] * 3, [np.nan] * 3]
    pooled = density(rows, 15).reepoch(30).probabilities
    np.testing.assert_allclose(pooled, [[0.5, 0.5, 0], [0, 0, 1], [np.nan] * 3])
    thirds = density(rows[:2] + rows[3:4], 20).reepoch(30).probabilities
    np.testing.assert_allclose(thirds, [[2 / 3, 1 / 3, 0], [0, 1 / 3, 2 / 3]])


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=80), st.sampled_from(LENGTHS))
def test_splitting_and_joining_again_changes_nothing(labels, seconds):
    whole = night(labels, 60.0)
    assert whole.reepoch(seconds).reepoch(60.0) == whole


def test_a_rest_is_told():
    with pytest.warns(StageGuardWarning, match=naming("10 s", "shorter", "30 s")):
        assert night([0, 0, 2, 2], 10).reepoch(30).n_epochs == 1
    with warnings.catch_warnings(), pytest.raises(InputError, match=naming("2 epochs", "20 s", "30 s")):
        warnings.simplefilter("ignore")
        night([0, 0], 10).reepoch(30)
    same = night([0, 1], 30)
    assert same.reepoch(30) is same


# ---- the same epochs


def test_starts_tell_which_epochs_belong_together():
    probable = density(one_hot([2, 3, 4, 0, 1]), start=after(60.4), scheme=AASM5)  # clocks differ a little
    with pytest.warns(StageGuardWarning) as caught:
        aligned = sg.align(night([0, 1, 2, 3, 4, 0], start=START), probable)
    scored, probable = aligned.nights
    assert scored.labels.tolist() == probable.argmax.tolist() == [2, 3, 4, 0]
    assert scored.start == probable.start == after(60)
    assert len(aligned.notes) == 2
    assert mentions(aligned.notes[0], "night 1", 3, 6, 6)
    assert mentions(aligned.notes[1], "night 2", 1, 4, 5)
    assert str(caught[0].message) == "; ".join(aligned.notes) + "."


def test_starts_in_two_zones_are_instants():
    there = night(10, start=START.replace(tzinfo=UTC))
    here = night(10, start=after(3660).replace(tzinfo=timezone(timedelta(hours=1))))
    with pytest.warns(StageGuardWarning):
        one, two = sg.align(there, here).nights
    assert (one.n_epochs, int(one.labels[0]), int(two.labels[0])) == (8, 2, 0)


def test_a_change_of_clocks_lies_between_two_starts():
    before = night(200, start=datetime(2024, 3, 31, 1, 30, tzinfo=BERLIN))
    spring = night(10, start=datetime(2024, 3, 31, 3, 30, tzinfo=BERLIN))  # an hour later: two was three
    with pytest.warns(StageGuardWarning):
        one, two = sg.align(before, spring).nights
    assert one.labels[:3].tolist() == [0, 1, 2]  # epoch 120
    assert one.start == two.start == spring.start
    assert one.start.astimezone(UTC) == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)


def test_a_night_without_a_start_begins_with_the_first_that_has_one():
    with pytest.warns(StageGuardWarning, match=naming("not known", "night 1, 3", "offsets")):
        aligned = sg.align(night(10), night(10, start=START), night(10), night(10, start=after(60)))
    assert [each.labels[0] for each in aligned.nights] == [2, 2, 2, 0]
    assert {each.start for each in aligned.nights} == {after(60)}
    with pytest.warns(StageGuardWarning, match=naming("not known", 2)):
        assert [each.n_epochs for each in sg.align(night(3, start=START), night(2)).nights] == [2, 2]
    aligned = sg.align(night(3), night(3, start=START))  # nothing to tell: warnings are errors here
    assert [each.start for each in aligned.nights] == [START, START]
    assert aligned.notes == ()


def test_lengths_are_brought_to_one_first():
    aligned = sg.align(night([0, 0, 2, 2], 15), night([0, 2], 30), epoch_seconds=30)
    assert [each.labels.tolist() for each in aligned.nights] == [[0, 2], [0, 2]]


# ---- one density of several


def test_mean_and_log_pool_by_hand():
    one, two = density([[0.8, 0.1, 0.1]], source="a"), density([[0.2, 0.6, 0.2]], source="b")
    mean = sg.combine([one, two])
    np.testing.assert_allclose(mean.probabilities, [[0.5, 0.35, 0.15]])
    assert mentions(mean.source, "mean of a, b")
    root = np.sqrt([0.16, 0.06, 0.02])
    np.testing.assert_allclose(sg.combine([one, two], method="log-pool").probabilities, [root / root.sum()])
    weighted = sg.combine([one, two], weights=[3, 1]).probabilities
    np.testing.assert_allclose(weighted, [[0.65, 0.225, 0.125]])
    np.testing.assert_allclose(sg.combine([one, two], weights=[1, 0]).probabilities, one.probabilities)
    only = sg.combine([one, two], method="log-pool", weights=[0, 2]).probabilities
    np.testing.assert_allclose(only, two.probabilities)


@pytest.mark.parametrize("weight", [1e308, 5e-324])
@pytest.mark.parametrize("method", ["mean", "log-pool"])
def test_weights_may_be_of_any_size(weight, method):
    pair = [density([[0.8, 0.1, 0.1]]), density([[0.2, 0.6, 0.2]])]
    pooled = sg.combine(pair, method=method, weights=[weight, weight])
    np.testing.assert_allclose(pooled.probabilities, sg.combine(pair, method=method).probabilities)


@pytest.mark.parametrize("method", ["mean", "log-pool"])
def test_an_epoch_without_evidence_is_that_of_the_others(method):
    gap = [np.nan] * 3
    pair = [density([[0.8, 0.1, 0.1], gap, gap]), density([gap, [0.2, 0.6, 0.2], gap])]
    pooled = sg.combine(pair, method=method)
    np.testing.assert_allclose(pooled.probabilities, [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], gap])


def test_log_pool_survives_stages_excluded_by_all():
    pooled = sg.combine([density([[1, 0, 0]]), density([[0, 1, 0]])], method="log-pool").probabilities
    np.testing.assert_allclose(pooled, [[0.5, 0.5, 0]], atol=1e-5)
