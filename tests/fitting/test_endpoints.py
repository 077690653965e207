"""What studies report, and biases that meet the experts' stage totals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import stageguard as sg
from stageguard.fitting.candidates import Candidate, Recipe, calibration_of, scope_of
from stageguard.fitting.document import _stepping_aside
from stageguard.fitting.endpoints import Endpoints
from stageguard.fitting.material import read_material
from stageguard.fitting.scoring import decode_prepared, prepare
from stageguard.guard.inputs import GuardOptions
from stageguard.night.stages import AASM5, WNR3, WS2, StageScheme
from stageguard.profile.parts import Calibration


@given(arrays(np.int8, st.integers(1, 60), elements=st.integers(-1, 4)))
def test_the_seven_of_a_night_are_those_of_sleep_statistics(labels):
    night = Endpoints(AASM5, 30.0, "night")
    found = dict(zip(night.names, night.of(labels), strict=True))
    wanted = sg.sleep_statistics(sg.Hypnogram(labels, AASM5, 30.0))
    assert found.pop("bouts") == sum(wanted.bouts.values())
    np.testing.assert_equal(found, {name: float(getattr(wanted, name)) for name in found})


@given(arrays(np.int8, st.integers(1, 60), elements=st.integers(-1, 2)))
def test_those_of_a_day_are_minutes_and_bouts_of_every_stage(labels):
    day = Endpoints(WNR3, 4.0, "day")
    wanted = sg.sleep_statistics(sg.Hypnogram(labels, WNR3, 4.0))
    found = dict(zip(day.names, day.of(labels), strict=True))
    for stage in "WNR":
        assert found[f"minutes_{stage}"] == pytest.approx(wanted.stage_minutes[stage])
        assert found[f"bouts_{stage}"] == wanted.bouts[stage]


def test_short_epochs_long_recordings_and_unknown_wake_are_days():
    assert Endpoints.suited(AASM5, 30.0, [960, 1200]).kind == "night"
    assert Endpoints.suited(AASM5, 30.0, [960, 2400]).kind == "day"
    assert Endpoints.suited(WNR3, 4.0, [3600]).kind == "day"
    assert Endpoints.suited(WNR3, 4.0, [3600], "night").kind == "night"
    assert Endpoints.suited(StageScheme.custom(["A", "B"]), 30.0, [960]).kind == "day"


def test_errors_are_over_the_epochs_both_scored():
    expert = np.array([0, 0, 1, 1, -1, 1], np.int8)
    labels = np.array([0, 1, 1, 1, 1, -1], np.int8)
    day = Endpoints(WS2, 60.0, "day")
    both = (expert >= 0) & (labels >= 0)
    # both: W W S S against W S S S
    assert day.errors(0, expert, labels, both) == (1.0, 1.0, 0.0, 0.0)


def test_sleep_and_rem_that_never_come_count_as_coming_at_the_end():
    expert = np.repeat(np.array([0, 1, 2], np.int8), (4, 10, 6))
    night, both = Endpoints(WNR3, 30.0, "night"), np.ones(20, bool)
    without_rem = dict(zip(night.names, night.errors(0, expert, np.minimum(expert, 1), both), strict=True))
    assert without_rem["rem_latency_minutes"] == 10  # epochs: after 20 of them instead of 10
    awake = dict(zip(night.names, night.errors(0, expert, np.zeros_like(expert), both), strict=True))
    assert (awake["sol_minutes"], awake["tst_minutes"], awake["waso_minutes"]) == (16, 16, 0)
    nobody = dict(zip(night.names, night.errors(1, np.zeros_like(expert), expert, both), strict=True))
    assert np.isnan(nobody["rem_latency_minutes"])  # the expert's night has none to be compared with


def test_without_wake_or_rem_there_are_no_totals_to_meet():
    scheme = StageScheme.custom(["A", "B"])
    base = sg.Profile.from_dict(
        {
            "name": "x",
            "stages": ["A", "B"],
            "epoch_seconds": 30.0,
            "transition_weight": 1.0,
            "transitions": {"A": {"A": 0.9, "B": 0.1}, "B": {"A": 0.1, "B": 0.9}},
        }
    )
    truth = [np.repeat(np.tile([0, 1], 10), 5 + i).astype(np.int8) for i in range(6)]
    nights = [np.where(own[:, None] == [0, 1], 0.8, 0.2) for own in truth]
    experts = [sg.Hypnogram(own, scheme, 30.0) for own in truth]
    material = read_material(nights, experts, base, options=GuardOptions(epoch_seconds=30.0))
    scope = scope_of(material, material.counts(), biases=False, durations=False)
    assert scope.totals == ()
    assert {one.totals for one in scope.candidates()} == {0.0}


def skewed(n_nights: int, seed: int = 0):
    """Nights of a stager that shows too much wake and too little REM, and what experts scored."""
    rng = np.random.default_rng(seed)
    nights, experts = [], []
    for _ in range(n_nights):
        truth = np.repeat(rng.choice(3, 60, p=(0.2, 0.6, 0.2)), rng.integers(5, 15, 60)).astype(np.int8)
        scores = rng.normal(size=(len(truth), 3))
        scores[np.arange(len(truth)), truth] += 1.5
        scores += (1.0, 0.0, -1.0)
        nights.append(np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))
        experts.append(sg.Hypnogram(truth, WNR3, 30.0))
    return nights, experts


@pytest.mark.parametrize("rule", ["argmax", "band", "match"])
def test_outputs_show_as_much_of_each_stage_as_the_experts(rule):
    nights, experts = skewed(8)
    base = sg.Profile.load("human-psg-3")
    material = read_material(nights, experts, base, options=GuardOptions(epoch_seconds=30.0))
    recipe = Recipe(base, 30.0)
    learned = recipe.learn(material, totals=(rule,))

    def shares(calibration: Calibration) -> np.ndarray:
        ready = prepare(material.nights, calibration, recipe.bare)
        decoded = np.concatenate(decode_prepared(recipe.profile(Candidate(rule), learned), ready))
        return np.bincount(decoded, minlength=3) / len(decoded)

    truth = np.concatenate([night.truth for night in material.nights])
    wanted = np.bincount(truth, minlength=3) / len(truth)
    before = shares(learned.temperature)
    after = shares(calibration_of(Candidate(rule, totals=1.0), learned))
    half = shares(calibration_of(Candidate(rule, totals=0.5), learned))
    assert np.abs(np.log(before / wanted)).max() > 0.2
    assert np.abs(np.log(after / wanted)).max() < 0.05
    assert before[2] < half[2] < after[2]


def test_all_of_nrem_is_shifted_alike():
    nights, experts = skewed(4)
    split = [np.column_stack([p[:, 0], p[:, [1]] * (0.2, 0.5, 0.3), p[:, 2]]) for p in nights]
    fine = [sg.Hypnogram(np.array([0, 2, 4])[e.labels].astype(np.int8), AASM5, 30.0) for e in experts]
    base = sg.Profile.load("human-psg-5")
    with pytest.warns(sg.StageGuardWarning, match="occurs in none"):
        material = read_material(split, fine, base, options=GuardOptions(epoch_seconds=30.0))
    biases = Recipe(base, 30.0).learn(material, totals=("argmax",)).totals["argmax"]
    assert biases[1] == biases[2] == biases[3]
    assert biases[0] < biases[4]
    assert sum(biases) == pytest.approx(0.0)


def test_a_profile_that_steps_aside_shifts_no_stage():
    biased = sg.Profile.load("human-psg-3").replace(
        calibration={"temperature": 2.0, "biases": {"W": 0.5, "N": -0.5, "R": 0.0}}
    )
    aside = _stepping_aside(biased)
    night = np.array([[0.3, 0.4, 0.3], [0.2, 0.5, 0.3], [0.36, 0.34, 0.3]])
    assert sg.decode(night, aside).hypnogram.labels.tolist() == [1, 1, 0]
    assert aside.calibration.temperature == 2.0
