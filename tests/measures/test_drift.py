"""Drift of new nights from a grade card: the statistic by plain loops, its false alarms, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import stageguard as sg
from small import refusal
from stageguard.errors import InputError
from stageguard.measures.drift import (
    BATCH_NIGHTS,
    FEWEST_PEOPLE,
    RATE,
    by_person,
    compare,
    feature_keys,
    feature_rows,
)
from stageguard.night.stages import AASM5, WNR3

PROFILE = "human-psg-5"


def night(seed, blur=0.0):
    """A decoded night and its expert; `blur` mixes every row with its neighbours in the scheme."""
    made = sg.simulate_night(PROFILE, hours=1, seed=seed)
    rows = made.density.probabilities
    rows = (1 - blur) * rows + blur * np.roll(rows, 1, axis=1)
    return sg.decode(sg.Hypnodensity(rows, AASM5, 30.0), PROFILE), made.expert


def nights(seeds, blur=0.0):
    return [night(seed, blur)[0] for seed in seeds]


@pytest.fixture(scope="module")
def card():
    graded, experts = zip(*map(night, range(12)), strict=True)
    return sg.grade(experts, graded)


def alarms(card, batch):
    return compare(card, batch).is_outside


def test_features_have_a_name_each(card):
    keys = feature_keys(AASM5)
    rows = feature_rows([each.features for each in card.nights])
    assert rows.shape == (12, len(keys)) == (12, 1 + 5 + 5 + 10)
    features = card.nights[3].features
    by_name = dict(zip(keys, rows[3], strict=True))
    assert by_name["share", ("N2",)] == features.shares[2]
    assert by_name["confidence", ("R",)] == pytest.approx(features.confidences[4], nan_ok=True)
    assert by_name["overlap", ("N1", "N3")] == features.overlaps[1, 3]


def test_of_all_exchanges_those_with_the_largest_difference_alarm():
    """Of 9 people, every choice of 4 can be a batch: the farthest of the 126 alarm, 6 or so.

    Of one feature, its difference and the distance of all features are the same.
    """
    rows = np.random.default_rng(3).normal(size=(9, 1))
    largest, is_alarm = [], []
    for members in combinations(range(9), 4):
        others = [i for i in range(9) if i not in members]
        batch, card = rows[list(members)], rows[others]
        within = np.sqrt((4 * batch.var(axis=0) + 5 * card.var(axis=0)) / 9)
        largest.append(float((np.abs(batch.mean(axis=0) - card.mean(axis=0)) / within).max()))
        found = compare(card, batch)
        is_alarm.append(found.is_alarm)
        assert found.is_alarm == found.is_outside.any() == (found.distance > found.limit * (1 + 1e-9))
    farthest = np.argsort(largest)[-sum(is_alarm) :]
    assert 4 <= sum(is_alarm) <= 8  # RATE of them is 6.3, and each limit is of drawn exchanges
    assert all(is_alarm[i] for i in farthest[2:])


@pytest.mark.parametrize("n_card", [10, 25])
def test_batches_without_a_change_alarm_in_one_of_twenty(n_card):
    rng = np.random.default_rng(n_card)
    n_draws = 300
    root = rng.normal(size=(6, 6))  # features that correlate, with heavy tails
    n_alarms = sum(
        compare(rng.standard_t(3, (n_card, 6)) @ root, rng.standard_t(3, (BATCH_NIGHTS, 6)) @ root).is_alarm
        for _ in range(n_draws)
    )
    assert 0.02 <= n_alarms / n_draws <= 0.085  # RATE within three standard errors


def test_a_shift_of_one_feature_is_found_and_named():
    rng = np.random.default_rng(0)
    found = [
        alarms(rng.normal(size=(25, 8)), rng.normal(size=(BATCH_NIGHTS, 8)) + 2 * np.eye(8)[5])
        for _ in range(20)
    ]
    assert np.mean([each[5] for each in found]) >= 0.9
    assert np.mean([np.delete(each, 5).any() for each in found]) <= 0.2


def test_features_that_move_against_their_correlation_alarm_together():
    rng = np.random.default_rng(2)
    common = rng.normal(size=(35, 1))
    rows = common + 0.3 * rng.normal(size=(35, 2))
    rows[25:, 0] += 0.7
    rows[25:, 1] -= 0.7
    found = compare(rows[:25], rows[25:])
    assert not found.is_outside.any()
    assert found.distance > found.limit and found.is_alarm


def test_nights_of_one_person_are_one_row():
    rows = np.array([[1.0, np.nan], [3.0, 4.0], [5.0, np.nan]])
    means = by_person(rows, ["b", "b", "a"])
    assert means[0].tolist() == pytest.approx([5.0, np.nan], nan_ok=True)
    assert means[1].tolist() == [2.0, 4.0]
    first = by_person(rows, ["b", "b", "a"], most=1)
    assert first[1].tolist() == pytest.approx([1.0, np.nan], nan_ok=True)


def test_the_card_averages_no_more_nights_of_a_person_than_the_batch():
    graded, experts = zip(*map(night, range(20)), strict=True)
    twice = sg.grade(experts, graded, people=[f"p{number // 2}" for number in range(20)])
    index = [each.features.fragmentation_index for each in twice.nights]
    for people, expected in (("abcd", index[::2]), ("aabb", (np.array(index[::2]) + index[1::2]) / 2)):
        (batch,) = sg.drift(nights(range(20, 24)), twice, people=list(people)).batches
        found = next(each for each in batch.features if each.key == "fragmentation_index")
        assert sorted(found.card_values) == pytest.approx(sorted(expected))


def test_what_nobody_has_never_alarms():
    card, batch = np.ones((12, 3)), np.ones((5, 3))
    card[:, 1] = batch[:, 1] = np.nan
    found = compare(card, batch)
    assert found.card.tolist() == found.batch.tolist() == [1.0, 0.0, 1.0]
    assert found.room.tolist() == [0.0] * 3
    assert (found.distance, found.is_alarm) == (0.0, False)


def test_rounding_never_alarms():
    """Confidence of a stager that gives labels alone is one number, up to the order of a sum."""
    rng = np.random.default_rng(0)
    card, batch = 0.7 + 1e-15 * rng.random((25, 3)), 0.7 - 1e-14 * rng.random((10, 3))
    assert not compare(card, batch).is_alarm


def test_new_nights_of_the_same_stager_stay_within(card):
    found = sg.drift(nights(range(20, 30)), card)
    assert not found.has_drifted
    assert (found.rate, found.n_card_people, found.card_sha256) == (RATE, 12, card.sha256)
    assert [batch.n_people for batch in found.batches] == [10]
    assert found.batches[0].can_alarm


def test_blurred_probabilities_drift_in_their_batch_alone(card):
    found = sg.drift([*nights(range(20, 30)), *nights(range(30, 40), blur=0.12)], card)
    assert [batch.has_drifted for batch in found.batches] == [False, True]
    first = found.batches[1].features[0]
    assert first.key in ("confidence", "overlap")
    assert first.is_outside and first.ratio == max(each.ratio for each in found.batches[1].features)
    assert not first.low <= first.batch <= first.high
    assert len(first.night_values) == 10 and len(first.card_values) == 12


def test_batches_are_of_ten_nights_and_people_count_once(card):
    decoded = nights(range(20, 23))
    found = sg.drift(decoded * 4, card, people=["a", "b", "c"] * 4, ids=[f"n{i}" for i in range(12)])
    assert [batch.nights for batch in found.batches] == [
        tuple(f"n{i}" for i in range(10)),
        ("n10", "n11"),
    ]
    assert [batch.n_people for batch in found.batches] == [3, 2]


def test_one_night_is_too_few_for_a_card_of_twelve(card):
    (batch,) = sg.drift(nights([50], blur=0.12), card).batches
    assert (batch.can_alarm, batch.has_drifted) == (False, False)


def test_it_is_the_same_again_and_plain_json(card):
    first, again = (sg.drift(nights(range(20, 24)), card).to_dict() for _ in range(2))
    assert first == again
    assert json.loads(json.dumps(first, allow_nan=False))["batches"][0]["features"][0]["key"]


def test_a_card_from_its_file_compares_alike(card, tmp_path):
    card.save(tmp_path / "card.json")
    decoded = nights(range(20, 30))
    again = sg.drift(decoded, sg.GradeCard.load(tmp_path / "card.json"))
    assert again.to_dict() == sg.drift(decoded, card).to_dict()


def labels(seed, flips=0.1):
    """Stages of a stager that gives labels alone, and an expert's."""
    expert = sg.simulate_night(PROFILE, hours=1, seed=seed).expert
    rng = np.random.default_rng(seed)
    is_wrong = rng.random(expert.n_epochs) < flips
    own = np.where(is_wrong, rng.integers(0, 5, expert.n_epochs), expert.labels).astype(np.int8)
    return sg.Hypnogram(own, AASM5, 30.0), expert


def test_nights_of_labels_are_compared_with_a_card_of_labels():
    graded, experts = zip(*map(labels, range(100, 112)), strict=True)
    card = sg.grade(experts, graded)
    flickering = sg.drift([labels(seed, flips=0.5)[0] for seed in range(30, 40)], card)
    assert not sg.drift([labels(seed)[0] for seed in range(30, 40)], card).has_drifted
    assert "fragmentation_index" in {each.key for each in flickering.batches[0].outside}
    unscored = sg.Hypnogram(np.full(9, -1, dtype=np.int8), AASM5, 30.0)
    with pytest.raises(InputError) as error:
        sg.drift([unscored], card)
    refusal(error, "night 1")


def other_card(card, **facts):
    return sg.GradeCard(card.nights, card.scorers, replace(card.facts, **facts))


def test_a_card_of_another_stager_is_refused(card):
    decoded = sg.decode(night(1)[0].density, PROFILE, stager="mine")
    with pytest.raises(InputError) as error:
        sg.drift([decoded], other_card(card, stager="another"))
    refusal(error, "night 1", "'mine'", "'another'")
    assert sg.drift([decoded] * 2, card).batches  # the card does not say whose it is


def test_a_card_of_another_profile_is_refused(card):
    with pytest.raises(InputError) as error:
        sg.drift(nights([1]), other_card(card, profile="p", profile_sha256="0" * 64))
    refusal(error, "night 1", "'p'")


def test_a_card_of_other_stages_is_refused(card):
    with pytest.raises(InputError) as error:
        sg.drift([sg.decode(night(1)[0].density.merge(WNR3), "human-psg-3")], card)
    refusal(error, "W, N, R", "W, N1, N2, N3, R")


def test_a_card_without_probabilities_is_refused(card):
    bare = tuple(replace(each, features=None) for each in card.nights)
    with pytest.raises(InputError) as error:
        sg.drift(nights([1]), sg.GradeCard(bare, card.scorers, card.facts))
    refusal(error, "probabilities")


def test_a_card_of_few_people_is_refused(card):
    few = sg.GradeCard(card.nights[: FEWEST_PEOPLE - 1], card.scorers, card.facts)
    with pytest.raises(InputError) as error:
        sg.drift(nights([1]), few)
    refusal(error, f"{FEWEST_PEOPLE - 1} people")


@pytest.mark.parametrize(
    ("decoded", "more", "said"),
    [
        ([], {}, "nights"),
        ("night", {}, "nights"),
        (None, {}, "nights"),
        ([night(1)[1]], {}, "not decoded"),
        ([3], {}, "night 1"),
        (nights([1]), {"people": []}, "people"),
        (nights([1]), {"ids": ["a", "b"]}, "ids"),
        (nights([1]), {"people": [None]}, "people"),
    ],
)
def test_what_are_no_decoded_nights_is_one_line(card, decoded, more, said):
    with pytest.raises(InputError) as error:
        sg.drift(decoded, card, **more)
    refusal(error, said)


def test_what_is_no_card_is_refused():
    with pytest.raises(InputError) as error:
        sg.drift(nights([1]), {"grades": {}})
    refusal(error, "GradeCard")


@pytest.mark.parametrize("wrong", ["card.json", {}, 3])
def test_reports_refuse_what_is_no_card(wrong):
    decoded = night(1)[0]
    for report, nights_of in ((sg.night_report, decoded), (sg.cohort_report, {"a": decoded})):
        with pytest.raises(InputError) as error:
            report(nights_of, grade=wrong)
        refusal(error, "grade", "GradeCard")


def test_pages_in_python_are_marked_or_refused(card):
    decoded = nights([1])[0]
    assert sg.night_report(decoded, grade=card).count(">no verdict<") > 5
    assert "<small>no verdict</small>" in sg.cohort_report({"a": decoded}, grade=card)
    foreign = other_card(card, profile="p", profile_sha256="0" * 64)
    with pytest.raises(InputError) as error:
        sg.night_report(decoded, grade=foreign)
    refusal(error, "'p'")
    with pytest.raises(InputError) as error:  # of no night a row is left
        sg.cohort_report({"a": decoded}, grade=foreign)
    refusal(error, "'p'")


def test_limits_do_not_widen_with_the_distance_of_a_batch():
    rng = np.random.default_rng(5)
    card, batch = rng.normal(size=(25, 4)), rng.normal(size=(BATCH_NIGHTS, 4))
    near, far = (compare(card, batch + shift).room for shift in (0.0, 50.0))
    assert (far < 1.1 * near).all()


def test_what_is_constant_in_batch_and_card_and_differs_alarms():
    card, batch = np.zeros((25, 2)), np.zeros((BATCH_NIGHTS, 2))
    batch[:, 1] = 0.1
    assert alarms(card, batch).tolist() == [False, True]
