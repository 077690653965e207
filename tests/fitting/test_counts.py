"""What fitting counts on expert scorings, against counts by hand and hazards known beforehand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stageguard.fitting import counts as c
from stageguard.night.stages import WNR3


def labels_of(text):
    places = {"W": 0, "N": 1, "R": 2, "?": -1}
    return np.array([places[letter] for letter in text], dtype=np.int8)


def counts_of(*texts):
    nights = tuple(c.count_night([labels_of(text)], [0], 3) for text in texts)
    return c.CohortCounts(nights, WNR3)


def night_of(rng, hazards, n_epochs=1200):
    """A night whose bouts end with a chance given per epoch of their age; stages follow in a circle."""
    labels, stage, age = [], 0, 0
    for _ in range(n_epochs):
        age += 1
        labels.append(stage)
        hazard = hazards[stage]
        if rng.random() < hazard[min(age, len(hazard)) - 1]:
            stage, age = (stage + 1) % 3, 0
    return np.array(labels, dtype=np.int8)


def simulated(hazards, n_nights=20, seed=0):
    rng = np.random.default_rng(seed)
    nights = tuple(c.count_night([night_of(rng, hazards)], [0], 3) for _ in range(n_nights))
    return c.CohortCounts(nights, WNR3)


def test_pairs_shares_and_fragmentation_by_hand():
    counts = counts_of("WWNN?NRR", "WNNN")
    assert counts.pairs.tolist() == [[1, 2, 0], [0, 3, 1], [0, 0, 1]]
    assert counts.stage_epochs.tolist() == [3, 6, 2]
    assert counts.fragmentation_index == pytest.approx(np.mean([2 / 5, 1 / 3]))
    assert counts.shares() == pytest.approx(np.array([4, 7, 3]) / 14)


def test_bouts_with_a_known_beginning_by_hand():
    stage, length, complete, _ = counts_of("WWNNNR?NNW").bouts
    # W begins with the recording; R is cut by the gap; N after the gap has no known beginning
    assert stage.tolist() == [1, 2, 0]
    assert length.tolist() == [3, 1, 1]
    assert complete.tolist() == [True, False, False]
    assert counts_of("WWNNNR?NNW").n_complete_bouts() == {"W": 0, "N": 1, "R": 0}


def test_scorers_of_a_night_share_its_weight():
    night = c.count_night([labels_of("WWNN"), labels_of("WNNN")], [0, 1], 3)
    assert night.pairs.tolist() == [[0.5, 1, 0], [0, 1.5, 0], [0, 0, 0]]
    assert night.fragmentation_index == pytest.approx(1 / 3)


def test_transitions_are_smoothed_towards_the_base_and_forbid_nothing():
    base = np.array([[0.9, 0.1, 0.0], [0.05, 0.9, 0.05], [0.1, 0.0, 0.9]])
    nothing = counts_of("W").transitions(base)
    assert nothing.sum(axis=1) == pytest.approx(1.0)
    assert nothing == pytest.approx(0.95 * base + 0.05 / 3)
    much = simulated([[0.1], [0.05], [0.2]])
    found = much.transitions(base)
    assert found.diagonal() == pytest.approx([0.9, 0.95, 0.8], abs=0.01)
    assert (found > 0).all()
    assert found[0, 2] < 1e-3  # never seen


@pytest.mark.parametrize("hazard", [0.02, 0.1, 0.4])
def test_a_constant_hazard_is_found_although_bouts_are_cut(hazard):
    counts = simulated([[hazard], [hazard], [hazard]], n_nights=40)
    (found,) = counts.constant_hazard(0)
    assert found == pytest.approx(hazard, rel=0.08)
    table = counts.duration_table(0)
    expected = hazard * (1 - hazard) ** np.arange(len(table))
    assert np.abs(np.array(table) - expected).max() < 0.35 * hazard
    assert sum(table) <= 1


def test_the_last_epoch_of_a_cut_bout_tells_nothing():
    length, complete = np.array([3, 2]), np.array([True, False])
    # one end in three tries of the first bout and one of the second, and half an end in one try more
    assert c._constant_hazard(length, complete) == pytest.approx(1.5 / (3 + 1 + 1))


def test_a_table_of_lengths_finds_a_hazard_that_changes_with_age():
    rising = [0.02, 0.02, 0.02, 0.3, 0.3, 0.3, 0.3]
    counts = simulated([rising, [0.1], [0.1]], n_nights=60)
    table = np.array(counts.duration_table(0))
    hazard = table / (1 - np.concatenate([[0], np.cumsum(table)[:-1]]))
    assert hazard[:3] == pytest.approx(0.02, abs=0.02)
    assert hazard[3:8] == pytest.approx(0.3, abs=0.06)


def test_tables_are_supported_only_where_they_foretell_other_subjects():
    rising = [0.02, 0.02, 0.02, 0.3]
    folds = [
        (simulated([rising, [0.1], [0.1]], seed=2 * i), simulated([rising, [0.1], [0.1]], 5, seed=2 * i + 1))
        for i in range(5)
    ]
    assert c.supported_durations(folds, WNR3) == ("W",)
    few = [(counts_of("WWNNRW"), counts_of("WNNRRW")) for _ in range(3)]
    assert c.supported_durations(few, WNR3) == ()


def test_log_likelihood_sums_to_one_over_all_lengths():
    counts = counts_of("WWNNNRWNRRW")
    hazard = np.array([0.3, 0.2, 0.25])
    every = np.arange(1, 400)
    whole = [c._log_likelihood(hazard, np.array([n]), np.array([True])) for n in every]
    assert np.exp(whole).sum() == pytest.approx(1.0)
    cut = c._log_likelihood(hazard, np.array([3]), np.array([False]))
    assert np.exp(cut) == pytest.approx(np.exp(whole)[2:].sum())
    total, n = counts.log_likelihood(hazard, 1)
    lengths = [3, 1]
    assert n == 2
    assert total == pytest.approx(sum(whole[k - 1] for k in lengths))


def test_a_long_bout_of_a_stage_that_never_lasts_has_a_likelihood():
    """Where what is left of a table is lost in rounding."""
    short = np.full(20, 0.9)
    assert c._log_likelihood(short, np.array([40]), np.array([True])) == pytest.approx(
        39 * np.log(0.1) + np.log(0.9)
    )


def test_a_minimum_is_proposed_where_experts_keep_to_it():
    three_or_more = [0.0, 0.0, 0.3]
    counts = simulated([three_or_more, [0.3], [0.0, 0.3]])
    assert counts.minimum_epochs() == {"W": 3, "R": 2}
    assert counts_of("WWWNNNRRRW").minimum_epochs() == {}  # too few bouts


def test_a_minimum_must_hold_for_every_scorer():
    rng = np.random.default_rng(0)
    careful = [night_of(rng, [[0.0, 0.3], [0.2], [0.2]]) for _ in range(20)]
    hasty = [night_of(rng, [[0.3], [0.2], [0.2]]) for _ in range(2)]
    alone = tuple(c.count_night([night], [0], 3) for night in [*careful, *hasty])
    assert c.CohortCounts(alone, WNR3).minimum_epochs() == {"W": 2}
    told_apart = tuple(
        c.count_night([night], [who], 3)
        for who, night in itertools.chain(((0, n) for n in careful), ((1, n) for n in hasty))
    )
    assert c.CohortCounts(told_apart, WNR3).minimum_epochs() == {}


def test_a_pair_is_rare_only_with_enough_exits():
    many = simulated([[0.1], [0.1], [0.1]])  # W to N to R to W, never the other way round
    rare = many.rare_pairs()
    assert {(a, b) for a, b, *_ in rare} == {("W", "R"), ("N", "W"), ("R", "N")}
    assert all(n == 0 and exits >= 100 for *_, n, exits in rare)
    assert counts_of("WNRWNRWNR").rare_pairs() == ()


def test_the_bound_on_a_rare_share_is_wilsons():
    from scipy.stats import binomtest

    for found, of in ((0, 100), (3, 250), (40, 1000)):
        expected = binomtest(found, of).proportion_ci(method="wilson").high
        assert c._upper_bound(found, of) == pytest.approx(expected, rel=1e-4)
