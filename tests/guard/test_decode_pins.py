"""Pins, and pins that cannot be."""

import re

import numpy as np
import pytest

import oracle
import stageguard as sg
from nights import decode, one_hot, plain, random_probabilities
from stageguard.errors import PinError, StageGuardError


def epochs_named(error):
    return {int(number) for number in re.findall(r"(?<![\w.])\d+(?![\w.]*\w)", str(error.value))}


def test_pins_hold_against_the_evidence(backend):
    probabilities = one_hot([0] * 10)
    result = decode(probabilities, sg.Profile.from_dict(plain()), pins={4: "R", 7: "W"})
    assert result.stages[[4, 7]].tolist() == ["R", "W"]
    unpinned = decode(probabilities, sg.Profile.from_dict(plain()))
    assert unpinned.stages[4] == "W"


def test_pins_across_a_forbidden_switch_are_named(backend):
    rows = plain()["transitions"] | {"W": {"W": 0.9, "N": 0.1, "R": 0.0}}
    profile = sg.Profile.from_dict(plain(transitions=rows))
    with pytest.raises(PinError) as error:
        decode(one_hot([0] * 20), profile, pins={1: "N", 12: "W", 13: "R", 18: "W"})
    assert {12, 13} <= epochs_named(error)
    assert not {1, 18} & epochs_named(error)
    boundary = decode(one_hot([0] * 20), profile, pins={12: "W", 13: "R"}, segments=[0, 13])
    assert boundary.stages[[12, 13]].tolist() == ["W", "R"]


def test_pins_in_conflict_are_named_by_the_automaton_and_the_greedy_pass_too(backend):
    for method in ("exact", "greedy"):
        flip = {"penalty_nats": 2.0, "window_epochs": 4, "method": method}
        profile = sg.Profile.from_dict(plain(min_bout_seconds={"N": 90}, flip_flop=flip))
        with pytest.raises(PinError) as error:
            decode(one_hot([0] * 20), profile, pins={2: "W", 9: "W", 10: "N", 11: "W"})
        assert {9, 10, 11} <= epochs_named(error)
        assert 2 not in epochs_named(error)


def test_the_pins_that_are_named_are_impossible_by_themselves_and_no_fewer_are_named(backend):
    rng = np.random.default_rng(70)
    rows = plain()["transitions"] | {"N": {"W": 0.1, "N": 0.9, "R": 0.0}}
    n_conflicts = 0
    for _ in range(60):
        seconds = {name: 30.0 * int(rng.integers(1, 4)) for name in "WNR"}
        mapping = plain(
            transitions=rows, min_bout_seconds=seconds, ends=str(rng.choice(["paper", "censored"]))
        )
        epochs = rng.choice(9, size=5, replace=False)
        pins = {int(t): str(rng.choice(["W", "N", "R"])) for t in sorted(epochs)}
        probabilities = random_probabilities(rng, 9, 3)
        rules = oracle.rules_of(mapping)
        best, _, _ = oracle.best_path_by_enumeration(
            oracle.evidence_of(probabilities, mapping, pins=pins), rules
        )
        if best > -np.inf:
            decode(probabilities, sg.Profile.from_dict(mapping), pins=pins)
            continue
        n_conflicts += 1
        with pytest.raises(PinError) as error:
            decode(probabilities, sg.Profile.from_dict(mapping), pins=pins)
        named = {t: pins[t] for t in epochs_named(error)}
        alone = oracle.evidence_of(probabilities, mapping, pins=named)
        assert oracle.best_path_by_enumeration(alone, rules)[0] == -np.inf
        for dropped in (min(named), max(named)):
            fewer = {t: stage for t, stage in named.items() if t != dropped}
            rest = oracle.evidence_of(probabilities, mapping, pins=fewer)
            assert oracle.best_path_by_enumeration(rest, rules)[0] > -np.inf
    assert n_conflicts > 10


def test_a_profile_without_any_possible_path_is_refused(backend):
    mapping = plain(durations={s: [0.5, 0.5] for s in "WNR"}, min_bout_seconds=dict.fromkeys("WNR", 90))
    for pins in (None, {3: "W"}):
        with pytest.raises(StageGuardError) as error:
            decode(one_hot([0] * 8), sg.Profile.from_dict(mapping), pins=pins)
        assert not isinstance(error.value, PinError)  # no pin is to blame
