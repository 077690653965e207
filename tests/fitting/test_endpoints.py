"""What studies report, and biases that meet the experts' stage totals."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from stageguard.fitting.candidates import Candidate, Scope
from stageguard.fitting.decoder import Tempered, decode_prepared
from stageguard.fitting.endpoints import SleepEndpoints
from stageguard.fitting.material import read_material
from stageguard.fitting.scoring import score_night
from stageguard.fitting.training import FitBase, train
from stageguard.guard.evidence import log_probabilities
from stageguard.guard.options import GuardOptions
from stageguard.night.period import period_of
from stageguard.night.stages import AASM5, WNR3, WS2, StageScheme
from stageguard.profile.parts import Calibration


def test_statistics_of_a_night_and_of_a_day_in_closed_form():
    labels = np.array([0, 0, 1, 1, 0, 2, 2, -1], np.int8)  # W W N N W R R and a gap
    night, day = (SleepEndpoints(WNR3, 60.0, kind) for kind in ("night", "day"))
    assert dict(zip(night.names, night.of(labels), strict=True)) == {
        "tst_minutes": 4.0,
        "se_percent": 50.0,
        "sol_minutes": 2.0,
        "rem_latency_minutes": 3.0,
        "waso_minutes": 1.0,
        "awakenings": 1.0,
        "bouts": 4.0,
    }
    found = dict(zip(day.names, day.of(labels), strict=True))
    assert [found[f"minutes_{stage}"] for stage in "WNR"] == [3.0, 2.0, 2.0]
    assert [found[f"bouts_{stage}"] for stage in "WNR"] == [2.0, 1.0, 1.0]


def test_short_epochs_long_recordings_and_unknown_wake_are_days():
    assert SleepEndpoints.for_nights(AASM5, 30.0, [960, 1200]).kind == "night"
    assert SleepEndpoints.for_nights(AASM5, 30.0, [960, 2400]).kind == "day"
    assert SleepEndpoints.for_nights(WNR3, 4.0, [3600]).kind == "day"
    assert SleepEndpoints.for_nights(WNR3, 4.0, [3600], "night").kind == "night"
    assert SleepEndpoints.for_nights(StageScheme.custom(["A", "B"]), 30.0, [960]).kind == "day"


def test_errors_are_over_the_epochs_both_scored():
    expert = np.array([0, 0, 1, 1, -1, 1], np.int8)
    labels = np.array([0, 1, 1, 1, 1, -1], np.int8)
    day = SleepEndpoints(WS2, 60.0, "day")
    both = (expert >= 0) & (labels >= 0)
    # both: W W S S against W S S S
    assert day.errors(expert, labels[None], both[None]).tolist() == [[1.0, 1.0, 0.0, 0.0]]
    # an output with another gap: both are W S S against S S S
    other = np.array([-1, 1, 1, 1, 1, -1], np.int8)
    each = np.stack([labels, other])
    errors = day.errors(expert, each, (expert >= 0) & (each >= 0))
    assert errors.tolist() == [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]


def test_sleep_and_rem_that_never_come_count_as_coming_at_the_end():
    expert = np.repeat(np.array([0, 1, 2], np.int8), (4, 10, 6))
    night = SleepEndpoints(WNR3, 30.0, "night")

    def errors(expert, labels):
        found = night.errors(expert, labels[None], np.ones((1, 20), bool))
        return dict(zip(night.names, found[0].tolist(), strict=True))

    without_rem = errors(expert, np.minimum(expert, 1))
    assert without_rem["rem_latency_minutes"] == 10  # epochs: after 20 of them instead of 10
    awake = errors(expert, np.zeros_like(expert))
    assert (awake["sol_minutes"], awake["tst_minutes"], awake["waso_minutes"]) == (16, 16, 0)
    nobody = errors(np.zeros_like(expert), expert)
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
    material = read_material(experts, nights, base, options=GuardOptions(epoch_seconds=30.0))
    scope = Scope.of(material)
    assert not scope.has_totals
    assert {one.totals for one in scope.candidates(biases=False, totals=False)} == {0.0}


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


def test_calibrated_nights_are_those_that_decoding_calibrates():
    nights, experts = skewed(3)
    nights[1][5:8] = np.nan
    nights[2][7] = (0.0, 1.0, 0.0)
    base = sg.Profile.load("human-psg-3")
    material = read_material(experts, nights, base, options=GuardOptions(epoch_seconds=30.0))
    biases = (0.7, -0.2, -0.5)
    ready = Tempered(material.nights, 1.7, FitBase(base, 30.0).bare)
    for calibration in (Calibration(1.7, biases), Calibration(1.7)):
        for night, made in zip(material.nights, ready.nights(calibration.biases), strict=True):
            wanted = np.exp(log_probabilities(night.matrix, calibration))
            np.testing.assert_allclose(made.probabilities, wanted, rtol=1e-12)


def test_outputs_are_scored_together_as_one_by_one():
    nights, experts = skewed(2, seed=4)
    others = [sg.Hypnogram(np.where(np.arange(len(e.labels)) % 9, e.labels, 1), WNR3, 30.0) for e in experts]
    unscored = np.array(experts[0].labels)
    unscored[30:40] = -1
    panels = [[sg.Hypnogram(unscored, WNR3, 30.0), others[0]], [experts[1]]]
    base = sg.Profile.load("human-psg-3")
    material = read_material(panels, nights, base, options=GuardOptions(epoch_seconds=30.0))
    for night in material.nights:
        outputs = [night.matrix.argmax(axis=1).astype(np.int8), np.array(night.scorings[0]), night.truth * 0]
        outputs[0][3:9] = -1
        for own, found in zip(outputs, score_night(night, outputs, material.endpoints), strict=True):
            expert, guarded = (sg.Hypnogram(labels, WNR3, 30.0) for labels in (night.truth, own))
            wanted = sg.agreement(expert, guarded)
            assert (found.kappa, found.accuracy) == pytest.approx(
                (wanted.kappa, wanted.accuracy), nan_ok=True
            )
            both = (night.truth >= 0) & (own >= 0)
            pairs = both[1:] & both[:-1]
            first, stop = period_of(night.truth, 0, 30.0)
            pairs &= (np.arange(len(pairs)) >= first) & (np.arange(len(pairs)) < stop - 1)
            assert found.fi == pytest.approx(np.mean((own[1:] != own[:-1])[pairs]))
            known = [pairs & (one[1:] >= 0) & (one[:-1] >= 0) for one in night.scorings]
            by_expert = [
                np.mean((one[1:] != one[:-1])[mask]) for one, mask in zip(night.scorings, known, strict=True)
            ]
            assert found.fi_expert == pytest.approx(np.mean(by_expert))


@pytest.mark.parametrize("rule", ["argmax", "band", "match"])
def test_outputs_show_as_much_of_each_stage_as_the_experts(rule):
    nights, experts = skewed(8)
    base = sg.Profile.load("human-psg-3")
    material = read_material(experts, nights, base, options=GuardOptions(epoch_seconds=30.0))
    training = train(FitBase(base, 30.0), material)
    training.fit_totals([rule])

    def shares(calibration: Calibration) -> np.ndarray:
        tempered = Tempered(material.nights, calibration.temperature, training.base.bare)
        ready = tempered.nights(calibration.biases)
        decoded = np.concatenate(decode_prepared(*training.compile(Candidate(rule)), ready))
        return np.bincount(decoded, minlength=3) / len(decoded)

    truth = np.concatenate([night.truth for night in material.nights])
    wanted = np.bincount(truth, minlength=3) / len(truth)
    before = shares(training.temperature)
    after = shares(training.calibration(Candidate(rule, totals=1.0)))
    half = shares(training.calibration(Candidate(rule, totals=0.5)))
    assert np.abs(np.log(before / wanted)).max() > 0.2
    assert np.abs(np.log(after / wanted)).max() < 0.05
    assert before[2] < half[2] < after[2]


def test_all_of_nrem_is_shifted_alike():
    nights, experts = skewed(4)
    split = [np.column_stack([p[:, 0], p[:, [1]] * (0.2, 0.5, 0.3), p[:, 2]]) for p in nights]
    fine = [sg.Hypnogram(np.array([0, 2, 4])[e.labels].astype(np.int8), AASM5, 30.0) for e in experts]
    base = sg.Profile.load("human-psg-5")
    with pytest.warns(sg.StageGuardWarning, match="occurs in none"):
        material = read_material(fine, split, base, options=GuardOptions(epoch_seconds=30.0))
    training = train(FitBase(base, 30.0), material)
    training.fit_totals(["argmax"])
    biases = training.totals["argmax"]
    assert biases[1] == biases[2] == biases[3]
    assert biases[0] < biases[4]
    assert sum(biases) == pytest.approx(0.0)
