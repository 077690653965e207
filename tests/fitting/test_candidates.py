"""What training nights teach, against counts by hand, and the profiles that candidates make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stageguard as sg
from nights import decode
from scored_nights import cohort
from stageguard.fitting.candidates import ARGMAX, DEFAULT, Candidate, FitBase, candidates_for, learn
from stageguard.fitting.fit import decode_by, split
from stageguard.fitting.nights import read_nights
from stageguard.guard.night import fragmentation_index, log_probabilities
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3, StageScheme

BASE = "human-psg-3"
MOUSE = "mouse-eeg-emg-3"  # whose whole recordings are measured


@pytest.fixture(scope="module")
def flickering():
    """16 nights of 8 subjects, staged epoch by epoch and overconfidently."""
    return cohort(8, 2, sharpness=2.0)


@pytest.fixture(scope="module")
def material(flickering):
    own = flickering
    return read_nights(own.hypnograms, own.densities, sg.Profile.load(BASE), subjects=own.groups)


@pytest.fixture(scope="module")
def lesson(material):
    return learn(FitBase(sg.Profile.load(BASE), 30.0), material)


def lesson_of(*panels):
    """What one or more scorings of each night teach."""
    experts = [
        [Hypnogram(["WNR".find(letter) for letter in text], WNR3, 4.0) for text in panel] for panel in panels
    ]
    base = sg.Profile.load(MOUSE)
    return learn(FitBase(base, 4.0), read_nights(experts, None, base))


@pytest.mark.filterwarnings("ignore::stageguard.errors.StageGuardWarning")
def test_pairs_shares_and_fragmentation_by_hand():
    found = lesson_of(["WWNN?NRR"], ["WNNN"])
    assert found.pairs.tolist() == [[1, 2, 0], [0, 3, 1], [0, 0, 1]]
    assert found.shares == pytest.approx(np.array([4, 7, 3]) / 14)  # 1 is added to every count
    assert found.fi == pytest.approx(np.mean([2 / 5, 1 / 3]))
    both = lesson_of(["WWNN", "WNNN"])  # scorers of a night share its weight
    assert both.pairs.tolist() == [[0.5, 1, 0], [0, 1.5, 0], [0, 0, 0]]
    assert both.fi == pytest.approx(1 / 3)


def test_transitions_are_smoothed_towards_the_base_and_forbid_nothing():
    base = np.array(sg.Profile.load(BASE).transitions)
    often = np.tile([0, 0, 1, 1, 1], 400).astype(np.int8)
    with pytest.warns(sg.StageGuardWarning, match="'R' occurs in none"):
        read = read_nights([Hypnogram(often, WNR3, 30.0)], None, sg.Profile.load(BASE))
    found = np.array(learn(FitBase(sg.Profile.load(BASE), 30.0), read).transitions)
    assert found.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert found[2] == pytest.approx(0.95 * base[2] + 0.05 / 3, rel=1e-4)
    assert found[0, 0] == pytest.approx(0.5, abs=0.02)
    assert (found > 0).all() and found[0, 2] < 2e-3


def test_a_gap_breaks_pairs_and_a_period_bounds_them():
    labels = np.array([0, 0, 1, -1, 2, 2, 0], np.int8)
    assert fragmentation_index(labels, [(0, 7)]) == 2 / 4
    assert fragmentation_index(labels, [(1, 6)]) == 1 / 2
    assert np.isnan(fragmentation_index(labels, [(3, 4)]))


def test_the_nights_decide_what_is_compared():
    assert candidates_for(16, 4, WNR3)[:2] == (ARGMAX, DEFAULT)
    assert not any(
        one.rule == "match" for one in (*candidates_for(16, 4, WNR3), *candidates_for(14, 7, WNR3))
    )
    whole = candidates_for(15, 5, WNR3)
    matches = [one for one in whole if one.rule == "match"]
    assert {(one.shares, one.rem_epochs) for one in matches} == {(0.0, 1), (0.0, 3), (0.5, 1), (0.5, 3)}
    assert all(one.shares == 0.0 for one in matches if one.totals or one.biases)
    assert len({one.name for one in whole}) == len(whole)
    without = candidates_for(15, 5, StageScheme.custom(["A", "B"]))
    assert {(one.totals, one.rem_epochs) for one in without} == {(0.0, 1)}


def test_argmax_shows_the_experts_stage_totals(flickering):
    skewed = [
        d.with_rows((rows := d.probabilities * (9.0, 1.0, 0.05)) / rows.sum(axis=1, keepdims=True))
        for d in flickering.densities
    ]
    base = sg.Profile.load(BASE)
    nights = read_nights(flickering.hypnograms, skewed, base, subjects=flickering.groups)
    own = learn(FitBase(base, 30.0), nights)

    def shares(candidate):
        labels = np.concatenate([one.hypnogram.labels for one in decode_by(own, candidate, nights, None)])
        return np.bincount(labels, minlength=3) / len(labels)

    truth = np.concatenate([night.truth for night in nights])
    expected = np.bincount(truth, minlength=3) / len(truth)
    assert np.abs(shares(ARGMAX) - expected).max() > 0.05
    assert shares(Candidate("argmax", totals=1.0)) == pytest.approx(expected, abs=0.01)
    half = shares(Candidate("argmax", totals=0.5))
    assert ((half - expected) * (shares(ARGMAX) - half) >= 0).all()


def test_a_candidate_is_calibrated_and_has_its_rule(flickering, material, lesson):
    found = lesson.profile(Candidate("match", shares=0.5, rem_epochs=3))
    assert dict(found.min_bout_seconds) == {"R": 90.0}
    assert found.prior == pytest.approx(lesson.shares, rel=1e-5) and found.prior_exponent == 0.5
    assert found.strength.fi_target == pytest.approx(lesson.fi, rel=1e-3)
    assert found.clock is None
    biased = lesson.profile(Candidate("argmax", biases=True))
    result = decode(flickering.densities[0], biased)
    wanted = log_probabilities(flickering.densities[0].probabilities, lesson.biased).argmax(axis=1)
    assert np.mean(result.hypnogram.labels != wanted) < 0.002
    plain = decode(flickering.densities[0], lesson.profile(ARGMAX)).hypnogram.labels
    assert np.array_equal(plain, flickering.densities[0].argmax)


def test_from_ten_nights_on_the_default_is_tuned_on_training_nights_alone(flickering, material):
    base = sg.Profile.load(BASE)
    for train, test in split(material, 3, seed=0):
        own = learn(FitBase(base, 30.0), train)
        tuned = sg.tune([flickering.densities[night.number] for night in train], base)
        assert own.default.strength == tuned.strength != base.strength
        for night, found in zip(test, decode_by(own, DEFAULT, test, None), strict=True):
            plain = decode(flickering.densities[night.number], tuned, stager="any")
            assert np.array_equal(found.hypnogram.labels, plain.hypnogram.labels)
    few = learn(FitBase(base, 30.0), material.of(material.subjects[:4]))
    assert few.default.strength == base.strength and few.default.clock == base.clock


def test_no_subject_is_on_both_sides_of_a_split(material):
    folds = split(material, 5, seed=3)
    held = [group for _, test in folds for group in test.subjects]
    assert sorted(held) == sorted(material.subjects)
    for train, test in folds:
        assert not set(train.subjects) & set(test.subjects)
        assert len(train) + len(test) == 16
    assert [test.subjects for _, test in split(material, 5, seed=3)] == [test.subjects for _, test in folds]
    assert [test.subjects for _, test in split(material, 5, seed=4)] != [test.subjects for _, test in folds]


def test_missing_nights_up_to_fifteen_count_as_the_base_profiles(lesson):
    base = sg.Profile.load(BASE).strength.fi_target
    assert lesson.fi_target(5) == pytest.approx((5 * lesson.fi + 10 * base) / 15, rel=1e-3)
    assert lesson.fi_target(40) == pytest.approx(lesson.fi, rel=1e-3)
    assert replace(lesson, fi=float("nan")).fi_target(5) == pytest.approx(base, rel=1e-3)
