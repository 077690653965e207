"""Nights brought together: epoch lengths, schemes, common epochs, and one density of several."""

from __future__ import annotations

import itertools
import warnings
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.measures.validity import expert_bands
from stageguard.night.stages import AASM5, WLDR4, WNR3, WS2

START = datetime(2024, 5, 1, 22, 30)
LENGTHS = (2.5, 4.0, 5.0, 15.0, 20.0, 30.0)


def night(labels, seconds=30.0, start=None, scheme=AASM5):
    return sg.Hypnogram(np.array(labels, dtype=np.int8), scheme, seconds, start)


def density(rows, seconds=30.0, start=None, scheme=WNR3, source=None):
    return sg.Hypnodensity(np.array(rows, dtype=float), scheme, seconds, start, source)


def one_hot(labels, n_stages=5):
    rows = np.full((len(labels), n_stages), np.nan)
    for place, label in enumerate(labels):
        if label >= 0:
            rows[place] = np.eye(n_stages)[label]
    return rows


# ---- schemes


def test_five_stages_become_four_three_and_two():
    labels = night([0, 1, 2, 3, 4, -1])
    assert labels.merge("wldr4").stages.tolist() == ["W", "Light", "Light", "Deep", "R", "?"]
    assert labels.merge(WLDR4).merge(WNR3).labels.tolist() == [0, 1, 1, 1, 2, -1]
    assert labels.merge(WNR3).merge(WS2).labels.tolist() == [0, 1, 1, 1, 1, -1]
    rows = [[0.1, 0.2, 0.3, 0.15, 0.25]]
    merged = density(rows, scheme=AASM5).merge("wldr4")
    np.testing.assert_allclose(merged.probabilities, [[0.1, 0.5, 0.15, 0.25]])
    with pytest.raises(InputError, match="cannot merge scheme 'wnr3' into 'wldr4'"):
        night([0, 1, 2], scheme=WNR3).merge("wldr4")


# ---- epoch lengths


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(LENGTHS, 2)))
def test_every_pair_of_lengths_keeps_a_night_of_long_bouts(old, new):
    """Bouts of an hour: whatever the epochs, every epoch inside a bout is of its stage."""
    n_old = int(3600 * 5 / old)
    at = (np.arange(n_old) * old // 3600).astype(int)
    rows = one_hot(at)
    for result in (night(at, old).reepoch(new), density(rows, old, scheme=AASM5).reepoch(new)):
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
    with pytest.raises(InputError, match=naming("2 epochs", "10 s", "20 s", "30 s")), \
            warnings.catch_warnings():  # fmt: skip
        warnings.simplefilter("ignore")
        night([0, 0], 10).reepoch(30)
    same = night([0, 1], 30)
    assert same.reepoch(30) is same


# ---- the same epochs


def test_starts_tell_which_epochs_belong_together():
    scored = night([0, 1, 2, 3, 4, 0], start=START)
    rows = one_hot([2, 3, 4, 0, 1])
    probable = density(rows, start=START + timedelta(seconds=60), scheme=AASM5)
    with pytest.warns(StageGuardWarning) as caught:
        aligned = sg.align(scored, probable)
    assert aligned.nights[0].labels.tolist() == aligned.nights[1].argmax.tolist() == [2, 3, 4, 0]
    assert {each.start for each in aligned.nights} == {START + timedelta(seconds=60)}
    assert aligned.notes == (
        "night 1: the first 2 epochs left out",
        "night 2: the last 1 epoch left out",
    )
    assert str(caught[0].message) == "; ".join(aligned.notes) + "."


def test_without_starts_nights_begin_together_and_it_is_told():
    with pytest.warns(StageGuardWarning, match=naming("taken to begin", "together", 1)):
        aligned = sg.align(night([0, 1, 2], start=START), night([0, 1]))
    assert [each.n_epochs for each in aligned.nights] == [2, 2]
    equal = sg.align(night([0, 1]), night([1, 1]))  # nothing to tell: warnings are errors here
    assert equal.notes == ()


def test_the_first_nights_epochs_can_be_kept():
    late = night([3, 3, 3], start=START + timedelta(seconds=30))
    with pytest.warns(StageGuardWarning):
        aligned = sg.align(night([0, 1, 2], start=START), late, keep="first")
    assert aligned.nights[1].labels.tolist() == [-1, 3, 3]
    assert each_mentions(aligned.notes, (2, "first", 1, "unscored"), (2, "last", 1))
    with pytest.warns(StageGuardWarning):
        padded = sg.align(night([0, 1, 2]), density([[1, 0, 0]]), keep="first").nights[1]
    assert np.isnan(padded.probabilities).tolist() == [[False] * 3, [True] * 3, [True] * 3]


def test_lights_cut_both_ends():
    one, two = night([0, 0, 1, 2, 3, 4], start=START), night([0, 1, 1, 2, 3, 4], start=START)
    with pytest.warns(StageGuardWarning, match=naming("2 epochs", 1, "left")):
        aligned = sg.align(one, two, lights_off=45.0, lights_on=START + timedelta(seconds=150))
    assert aligned.nights[0].labels.tolist() == [1, 2, 3]
    assert aligned.nights[0].start == START + timedelta(seconds=60)
    with pytest.raises(InputError, match=naming("no epoch lies", "lights")):
        sg.align(one, night([0, 0]), lights_off=120.0)
    with pytest.raises(InputError, match="lights_off is the time"):
        sg.align(night([0]), night([0]), lights_off=START)


@pytest.mark.parametrize(
    ("nights", "options", "expected"),
    [
        ([night([0])], {}, (1, "night to align")),
        ([night([0]), [0]], {}, (0, "or a Hypnodensity")),
        (
            [night([0]), night([0], 20)],
            {},
            ("20 s", "30 s", "epoch_seconds"),
        ),
        (
            [night([0, 1], start=START), night([0, 1], start=START + timedelta(seconds=12))],
            {},
            (2, "12 s", "12 s", "30 s"),
        ),
        (
            [night([0], start=START), night([0], start=START + timedelta(hours=1))],
            {},
            (0, 0, 120, 120),
        ),
        ([night([0]), night([0])], {"keep": "all"}, ("'all'", "'common'", "'first'")),
    ],
)
def test_what_cannot_be_aligned(nights, options, expected):
    with pytest.raises(InputError, match=naming(*expected)):
        sg.align(*nights, **options)


def test_small_differences_of_clocks_are_one():
    late = START + timedelta(seconds=60.4)
    with pytest.warns(StageGuardWarning):
        aligned = sg.align(night([0, 1, 2], start=START), night([2, 3, 4], start=late))
    assert aligned.nights[0].labels.tolist() == [2]


def test_lengths_are_brought_to_one_first():
    aligned = sg.align(night([0, 0, 2, 2], 15), night([0, 2], 30), epoch_seconds=30)
    assert [each.labels.tolist() for each in aligned.nights] == [[0, 2], [0, 2]]


# ---- one density of several


def test_mean_and_log_pool_by_hand():
    one, two = density([[0.8, 0.1, 0.1]], source="a"), density([[0.2, 0.6, 0.2]], source="b")
    mean = sg.combine([one, two])
    np.testing.assert_allclose(mean.probabilities, [[0.5, 0.35, 0.15]])
    assert mentions(mean.source, "mean of a")
    root = np.sqrt([0.16, 0.06, 0.02])
    np.testing.assert_allclose(sg.combine([one, two], method="log-pool").probabilities, [root / root.sum()])
    weighted = sg.combine([one, two], weights=[3, 1]).probabilities
    np.testing.assert_allclose(weighted, [[0.65, 0.225, 0.125]])
    np.testing.assert_allclose(sg.combine([one, two], weights=[1, 0]).probabilities, one.probabilities)
    only = sg.combine([one, two], method="log-pool", weights=[0, 2]).probabilities
    np.testing.assert_allclose(only, two.probabilities)


@pytest.mark.parametrize("method", ["mean", "log-pool"])
def test_an_epoch_without_evidence_is_that_of_the_others(method):
    gap = [np.nan] * 3
    pooled = sg.combine(
        [density([[0.8, 0.1, 0.1], gap, gap]), density([gap, [0.2, 0.6, 0.2], gap])], method=method
    )
    np.testing.assert_allclose(pooled.probabilities, [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], gap])


def test_log_pool_survives_stages_excluded_by_all():
    pooled = sg.combine([density([[1, 0, 0]]), density([[0, 1, 0]])], method="log-pool").probabilities
    np.testing.assert_allclose(pooled, [[0.5, 0.5, 0]], atol=1e-5)


@pytest.mark.parametrize(
    ("parts", "options", "expected"),
    [
        ([], {}, ("densities to combine",)),
        ([density([[1, 0, 0]]), night([0])], {}, ("night 2 is", "expected a Hypnodensity")),
        (
            [density([[1, 0, 0]]), density([[1, 0]], scheme=WS2)],
            {},
            (2, "scheme", "ws2"),
        ),
        (
            [density([[1, 0, 0]]), density([[1, 0, 0]], 15)],
            {},
            (2, "length", "15.0"),
        ),
        (
            [density([[1, 0, 0]]), density([[1, 0, 0]] * 2)],
            {},
            (2, "number", 2),
        ),
        (
            [density([[1, 0, 0]], start=START), density([[1, 0, 0]], start=START + timedelta(seconds=30))],
            {},
            ("night 2 has the start",),
        ),
        ([density([[1, 0, 0]])], {"weights": [1, 2]}, (2, 1, "densities")),
        ([density([[1, 0, 0]])], {"weights": [0]}, ("all weights are 0",)),
        ([density([[1, 0, 0]])], {"weights": [-1]}, ("a weight is -1",)),
        ([density([[1, 0, 0]])], {"method": "product"}, ("method", "'product'", "'mean'", "'log-pool'")),
    ],
)
def test_what_cannot_be_combined(parts, options, expected):
    with pytest.raises(InputError, match=naming(*expected)):
        sg.combine(parts, **options)


def test_an_endless_iterable_is_refused_at_once():
    night = sg.Hypnodensity(np.tile([0.8, 0.1, 0.1], (10, 1)), "wnr3", 30.0)
    with pytest.raises(InputError, match=naming("densities", "repeat", "densities")):
        sg.combine(itertools.repeat(night))
    with pytest.raises(InputError, match=naming("repeat", "list")):
        expert_bands(itertools.repeat(night), "mouse-eeg-emg-3")
