"""Targets: what to look at, what a look is worth, and when the numbers are right enough."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from stageguard.errors import InputError
from stageguard.guard.posterior import random_offsets, smooth_night, uncut
from stageguard.night.stages import AASM5, WNR3, WS2
from stageguard.review import targets as t

PROFILE = "human-psg-5"


def answers_of(hours=2.0, seed=1, pins=None, bed=None):
    night = sg.simulate_night(PROFILE, hours=hours, seed=seed)
    decoding = sg.decode(night.density, PROFILE, pins=pins)
    labels = np.array(decoding.hypnogram.labels)
    seen = np.zeros(len(labels), dtype=bool)
    seen[list(pins or {})] = True
    return night, t.Answers(decoding, labels, seen, bed or (0, len(labels)))


@given(st.data())
def test_stretches_hold_every_unseen_epoch_once_and_no_other(data):
    n = data.draw(st.integers(1, 60))
    labels = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n)), dtype=np.int8)
    sure, unseen = (
        np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool) for _ in range(2)
    )
    pieces = t.stretches(labels, sure, unseen)
    epochs = [epoch for first, end in pieces for epoch in range(first, end)]
    assert epochs == np.flatnonzero(unseen).tolist()
    for first, end in pieces:
        assert 1 <= end - first <= t.LONGEST_LOOK
        assert len(set(labels[first:end].tolist())) == len(set(sure[first:end].tolist())) == 1


def test_the_value_of_a_look_is_the_error_that_correcting_the_night_saves():
    _, answers = answers_of()
    drawn = answers.draws()
    units = {"tst_minutes": 10.0, "rem_latency_minutes": 5.0, "awakenings": 2.0}
    looks = t.looks_of(answers, drawn, units)
    assert [look.value for look in looks] == sorted((look.value for look in looks), reverse=True)
    measure = answers.statistics
    now, truth = measure(answers.labels[None]), measure(drawn)
    for look in (looks[0], looks[len(looks) // 2]):
        here = slice(look.first, look.last + 1)
        looked_at, left_out = np.repeat(answers.labels[None], len(drawn), axis=0), drawn.copy()
        looked_at[:, here], left_out[:, here] = drawn[:, here], answers.labels[here]
        first, last = measure(looked_at), measure(left_out)
        saved = {}
        for key, unit in units.items():
            as_first = np.abs(truth[key] - now[key]) - np.abs(truth[key] - first[key])
            as_last = np.abs(truth[key] - last[key])
            saved[key] = np.mean(as_first + as_last) / 2 / unit
        assert look.value == pytest.approx(sum(saved.values()) / math.sqrt(look.last - look.first + 1))
        assert look.moves == max(saved, key=saved.get)
        assert look.lowers == pytest.approx(saved[look.moves] * units[look.moves])


def test_the_second_of_two_false_epochs_of_rem_is_worth_a_look():
    """Correcting one of them alone hardly moves REM latency."""
    _, answers = answers_of()
    labels = np.full(240, 2, dtype=np.int8)
    labels[[10, 12]] = 4
    labels[200:] = 4
    drawn = np.repeat(labels[None], t.N_DRAWS, axis=0)
    drawn[::2, [10, 12]] = 2
    one = t.Answers(answers.decoding, labels, np.zeros(240, dtype=bool), (0, 240))
    looks = t.looks_of(one, drawn, {"rem_latency_minutes": 1.0})
    assert [(look.first, look.last) for look in looks] == [(10, 10), (12, 12)]


def test_nothing_outside_of_time_in_bed_and_nothing_seen_is_worth_a_look():
    _, answers = answers_of(pins={50: "N2", 51: "N2"}, bed=(20, 200))
    looks = t.looks_of(answers, answers.draws(), t.default_units(AASM5, 30.0))
    epochs = {epoch for look in looks for epoch in range(look.first, look.last + 1)}
    assert epochs and epochs <= set(range(20, 200)) - {50, 51}


def test_answers_hold_in_every_draw_even_if_the_profile_does_not_allow_them():
    _, answers = answers_of()
    labels, seen = answers.labels.copy(), answers.seen.copy()
    labels[10], seen[10] = 4, True  # not a pin of the decoding
    drawn = t.Answers(answers.decoding, labels, seen, answers.bed).draws()
    assert (drawn[:, 10] == 4).all()


def test_a_night_that_is_scored_whole_meets_any_target():
    night, _ = answers_of()
    pins = dict(enumerate(night.expert.labels.tolist()))
    _, answers = answers_of(pins=pins)
    reached = t.reach_of(answers, answers.draws(), {"tst_minutes": 0.1, "rem_latency_minutes": 0.1})
    for each in reached.values():
        assert each.low == each.high == each.value
    assert all(reached[key].is_met for key in ("tst_minutes", "rem_latency_minutes"))
    assert not t.looks_of(answers, answers.draws(), t.default_units(AASM5, 30.0))


def test_a_target_is_met_when_the_interval_lies_within_it_of_the_number():
    _, answers = answers_of()
    drawn = answers.draws()
    found = t.reach_of(answers, drawn, {})["tst_minutes"]
    assert found.low < found.value < found.high
    far = max(found.value - found.low, found.high - found.value)
    for target, is_met in ((far + 0.01, True), (far - 0.01, False)):
        assert t.reach_of(answers, drawn, {"tst_minutes": target})["tst_minutes"].is_met is is_met
    below = np.mean(answers.statistics(drawn)["tst_minutes"] < found.low)
    assert below <= (1 - t.LEVEL) / 2 + 0.01


def test_the_fit_of_offsets_to_answers_is_the_probability_of_the_answers():
    """Against single epochs: the ratio of sums over paths is the marginal at the offset."""
    _, free = answers_of()
    profile = free.decoding.profile
    offsets = random_offsets(profile, 4, seed=3)
    epoch = 100
    sums = smooth_night(profile, uncut(free.decoding), offsets)[1]
    total = np.zeros(4)
    for stage in range(5):
        pinned = uncut(free.decoding).timed(free.decoding.night.clock)
        pinned = t.copy(pinned)
        pinned.pins = {epoch: stage}
        total += np.exp(smooth_night(profile, pinned, offsets)[1] - sums)
    assert total == pytest.approx(np.ones(4))


@given(st.lists(st.floats(-1e4, 0), min_size=50, max_size=80))
def test_weights_are_flattened_until_enough_draws_carry_them(logs):
    weights = t.tempered(np.array(logs))
    assert weights.sum() == pytest.approx(1.0)
    assert 1 / (weights @ weights) >= t.LEAST_EFFECTIVE - 0.01
    order = np.argsort(logs)
    assert (np.diff(weights[order]) >= -1e-12).all()
    chosen = t.resample(weights)
    assert len(chosen) == len(logs)
    counts = np.bincount(chosen, minlength=len(logs))
    assert (np.abs(counts - len(logs) * weights) <= 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("tst=10", {"tst_minutes": 10.0}),
        ("rem_latency=5, tst=7.5", {"tst_minutes": 7.5, "rem_latency_minutes": 5.0}),
        ("N3=10,awakenings=2,se=3", {"se_percent": 3.0, "awakenings": 2.0, "stage_minutes_N3": 10.0}),
    ],
)
def test_targets_are_read_by_their_names(text, targets):
    assert t.check_targets(t.parse_targets(text), AASM5) == targets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tst",
        "tst=",
        "tst=0",
        "tst=-1",
        "tst=nan",
        "tst=inf",
        "=3",
        "tst=1e9",
        "tst=1,tst=2",
        "tst=1,,sol=2",
    ],
)
def test_what_is_no_target_is_refused(text):
    with pytest.raises(InputError):
        t.parse_targets(text)


@pytest.mark.parametrize(
    "document",
    [
        *([], "tst=1", None, {"tib": 3}, {"W": 3}, {3: 3}, {"tst": True}, {"tst": "5"}, {"tst": 0}),
        *({"tst": math.nan}, {"tst": math.inf}, {"tst": 3, "tst_minutes": 4}, {"tst": None}),
    ],
)
def test_documents_that_are_no_targets_are_refused(document):
    with pytest.raises(InputError):
        t.check_targets(document, AASM5)


def test_stages_have_what_they_can_have():
    assert "rem_latency_minutes" in t.targetable(WNR3)
    assert "rem_latency_minutes" not in t.targetable(WS2)
    assert "stage_minutes_W" not in t.targetable(AASM5)
    for scheme in (AASM5, WNR3, WS2):
        assert set(t.default_units(scheme, 30.0)) <= set(t.targetable(scheme))
        assert t.default_units(scheme, 4.0) == {}
    assert "se_percent" not in t.default_units(AASM5, 30.0)  # TST in other units
