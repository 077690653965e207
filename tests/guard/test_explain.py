"""What a decoding changed and why: complete in epochs and nats, and right about the rule that decided."""

import math
import warnings
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

import oracle
import stageguard as sg
from messages import naming
from nights import decode, random_mapping, random_probabilities
from small import mapping_of, profile_of
from stageguard.errors import InputError, StageGuardWarning
from stageguard.guard.explain import PathScorer, explain
from stageguard.guard.solver import solver_for
from stageguard.night.period import runs

CASES = [
    {"ends": "censored", "stay": "self", "flip": None, "durations": False, "minimum": False},
    {"ends": "paper", "stay": "free", "flip": None, "durations": False, "minimum": True},
    {"ends": "censored", "stay": "self", "flip": "exact", "durations": False, "minimum": True},
    {"ends": "paper", "stay": "self", "flip": None, "durations": True, "minimum": False},
    {"ends": "censored", "stay": "free", "flip": "exact", "durations": True, "minimum": False},
]


def random_night(case, seed, n_epochs=7):
    """A night that decoding changes, with the rules it was decoded under."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        mapping = random_mapping(rng, 3, **case)
        probabilities = random_probabilities(rng, n_epochs, 3, 1.0)
        result = decode(probabilities, sg.Profile.from_dict(mapping))
        if result.changed.any():
            return mapping, probabilities, result
    raise AssertionError("no night was changed")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(6))
def test_changes_account_for_every_epoch_and_nat(case, seed):
    mapping, probabilities, result = random_night(case, seed)
    changes = explain(result)
    labels = result.argmax.copy()
    names = result.profile.scheme.names
    for change in changes:
        here = slice(change.first_epoch, change.first_epoch + change.n_epochs)
        assert change.before == tuple(names[s] for s in labels[here])
        labels[here] = [names.index(name) for name in change.after]
    assert np.array_equal(labels, result.hypnogram.labels)

    rules = oracle.rules_of(mapping | {"min_bout_seconds": {}})
    evidence = oracle.evidence_of(probabilities, mapping)
    before = oracle.score_path(evidence, result.argmax, rules)
    after = oracle.score_path(evidence, result.hypnogram.labels, rules)
    gained = sum(change.prior_nats - change.evidence_nats for change in changes)
    if before == -math.inf:
        assert gained > 900
    else:
        assert gained == pytest.approx(after - before, abs=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(6))
def test_the_counterfactual_is_the_best_path_that_keeps_the_original(case, seed):
    mapping, probabilities, result = random_night(case, seed)
    names = result.profile.scheme.names
    for change in explain(result):
        pins = {change.first_epoch + i: name for i, name in enumerate(change.before)}
        evidence = oracle.evidence_of(probabilities, mapping, pins=pins)
        best, _, _ = oracle.best_path_by_enumeration(evidence, oracle.rules_of(mapping))
        assert change.counterfactual_score == pytest.approx(best, abs=1e-9)
        assert change.margin_nats >= -1e-9
        assert set(change.before) <= set(names)


def rule_of(result):
    (change,) = explain(result)
    return change.rule


def short_wake(p_wake=0.6):
    """One epoch of wake amid NREM, by a stager in little doubt."""
    rows = np.tile([0.05, 0.9, 0.05], (9, 1))
    rows[4] = [p_wake, 0.95 - p_wake, 0.05]
    return rows


def explained_one_by_one(result):
    """Margins and gains of each change by definition: a decoding of the whole night for every one."""
    setting = result.setting
    solver, night = solver_for(result.profile, result.epoch_seconds), result.night
    score = PathScorer(result.profile, result.epoch_seconds, setting.transition_weight)
    hybrid = np.where(result.changed, night.argmax, result.hypnogram.labels)
    kept, gained = [], []
    for start, stop in night.spans:
        for first, end in runs(result.changed[start:stop]):
            first, end = start + first, start + end
            known = night.evidence(setting.stage_nats)
            pins = {t: int(night.argmax[t]) for t in range(first, end)}
            own = replace(night, quality=None, filled=None, clock=None, pins=pins, _logs=known)
            kept.append(solver.path(own, setting._replace(stage_nats=None), may_fail=True).score)
            before = score(hybrid[start:stop])
            hybrid[first:end] = result.hypnogram.labels[first:end]
            gained.append(0.0 if setting.is_free else score(hybrid[start:stop]) - before)
    return kept, gained


def assert_explained_as_one_by_one(result):
    changes = explain(result)
    assert len(changes) > 3
    kept, gained = explained_one_by_one(result)
    assert [change.counterfactual_score for change in changes] == pytest.approx(kept, abs=1e-6)
    assert [change.prior_nats for change in changes] == pytest.approx(gained, abs=1e-6)


@pytest.mark.parametrize("case", [*CASES, CASES[1] | {"flip": "greedy"}, CASES[0] | {"flip": "greedy"}])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.usefixtures("backend")
def test_changes_explained_together_are_as_explained_one_by_one(case, seed):
    for own in range(seed, 100, 10):
        _, probabilities, result = random_night(case, own, n_epochs=40)
        if len(explain(result)) > 3:
            break
    pins, quality = {5: 1, 30: 2}, np.random.default_rng(seed).uniform(size=40)
    probabilities[20:23] = np.nan
    for known in ({}, {"pins": pins}, {"quality": quality}):
        assert_explained_as_one_by_one(decode(probabilities, result.profile, **known))


@pytest.mark.parametrize("name", sg.profiles())
def test_a_long_night_is_explained_as_one_by_one_under_every_profile(name):
    profile = sg.Profile.load(name)
    rng = np.random.default_rng(1)
    n_stages = profile.scheme.n_stages
    stages = np.repeat(rng.integers(n_stages, size=100), 12)
    odds = rng.gamma(np.where(np.eye(n_stages)[stages] > 0, 3.0, 0.6))
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    probabilities[500:540] = np.nan  # cut out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        assert_explained_as_one_by_one(sg.decode(probabilities, profile))


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"transition_weight": 1.0}, "transition"),
        ({"transition_weight": 0.01, "min_bout_seconds": {"W": 90}}, "minimum bout"),
        ({"transition_weight": 0.01, "flip_flop": {"penalty_nats": 2.0}}, "flip-flop"),
        ({"transition_weight": 1.0, "min_bout_seconds": {"W": 90}}, "transition"),  # the first of two
        (
            {"transition_weight": 0.01, "prior_exponent": 0.5, "prior": {"W": 0.8, "N": 0.1, "R": 0.1}},
            "prior",
        ),
    ],
)  # fmt: skip
def test_a_change_is_named_after_the_rule_that_makes_it(rules, named):
    assert rule_of(decode(short_wake(), profile_of(**rules))) == named


def test_a_change_that_faded_evidence_allows_is_of_quality():
    quality = np.zeros(9)
    quality[4] = 0.95
    profile = profile_of(transition_weight=0.1)
    assert not decode(short_wake(), profile).changed.any()
    result = decode(short_wake(), profile, quality=quality)
    assert rule_of(result) == "quality"
    (change,) = explain(result)
    assert change.evidence_nats == pytest.approx(0.05 * math.log(0.6 / 0.35))


def test_a_pinned_epoch_is_of_its_pin():
    result = decode(short_wake(), profile_of(transition_weight=0.0), pins={4: "R"})
    (change,) = explain(result)
    assert (change.rule, change.after, change.counterfactual_score) == ("pin", ("R",), -math.inf)


def test_a_neighbour_drawn_along_by_a_pin_is_of_the_pin():
    rows = np.array([[0.9, 0.08, 0.02]] * 4 + [[0.52, 0.02, 0.46]] + [[0.9, 0.08, 0.02]] * 4)
    profile = profile_of(transition_weight=0.1, min_bout_seconds={"R": 60})
    result = decode(rows, profile, pins={3: "R"})
    assert result.stages[3:5].tolist() == ["R", "R"]
    assert rule_of(result) == "pin"


def test_lifted_minority_stages_are_of_the_prior():
    rng = np.random.default_rng(3)
    rows = np.tile([0.04, 0.9, 0.06], (120, 1)) + rng.uniform(0, 0.02, (120, 3))
    rows[60:70] = [0.05, 0.5, 0.45]
    rows /= rows.sum(axis=1, keepdims=True)
    result = decode(rows, sg.Profile.load("human-psg-3").replace(clock=None), trained="natural")
    assert result.strength.step == "raised"
    assert {change.rule for change in explain(result)} == {"prior"}


def test_an_untouched_night_has_no_changes():
    result = decode(short_wake(), profile_of(transition_weight=0.0))
    assert explain(result) == ()


def test_changes_beside_gaps_and_bridged_epochs_add_up_too():
    rows = np.vstack(
        [short_wake(), np.full((15, 3), np.nan), short_wake(), np.full((2, 3), np.nan), short_wake()]
    )
    mapping = mapping_of(transition_weight=1.0)
    result = decode(rows, sg.Profile.from_dict(mapping))
    changes = explain(result)
    assert [change.first_epoch for change in changes] == [4, 28, 39]
    parts, _, _ = oracle.parts_of(rows, 30.0)
    evidence, rules = oracle.evidence_of(rows, mapping), oracle.rules_of(mapping)
    labels = np.where(result.changed, result.argmax, result.hypnogram.labels)
    before = oracle.score_path(evidence, labels, rules, parts)
    gained = sum(change.prior_nats - change.evidence_nats for change in changes)
    assert gained == pytest.approx(result.score - before, abs=1e-9)


@pytest.mark.parametrize("cuts", [(0, 3), (0, 2, 3, 4)])
def test_a_change_across_a_cut_of_the_recording_is_one_on_either_side(cuts):
    rows = {"W": {"W": 0.95, "S": 0.05}, "S": {"W": 0.05, "S": 0.95}}
    mapping = {"name": "x", "scheme": "ws2", "epoch_seconds": 30.0, "transitions": rows}
    night = np.array([[0.9, 0.1]] * 2 + [[0.4, 0.6]] * 2 + [[0.9, 0.1]] * 2)
    result = decode(night, sg.Profile.from_dict(mapping), segments=list(cuts))
    changes = explain(result)
    parts = list(zip(cuts, [*cuts[1:], 6], strict=True))
    for change in changes:
        end = change.first_epoch + change.n_epochs
        assert any(low <= change.first_epoch and end <= high for low, high in parts)
    evidence, rules = oracle.evidence_of(night, mapping), oracle.rules_of(mapping)
    before = oracle.score_path(evidence, result.argmax, rules, parts)
    gained = sum(change.prior_nats - change.evidence_nats for change in changes)
    assert gained == pytest.approx(result.score - before, abs=1e-9)
    assert (len(changes), gained) == ((2, pytest.approx(5.08, abs=0.01)) if len(cuts) == 2 else (0, 0.0))


def test_a_change_knows_its_time():
    density = sg.Hypnodensity(short_wake(), sg.StageScheme.named("wnr3"), 30.0, datetime(2020, 1, 2, 23, 59))
    (change,) = explain(decode(density, profile_of(transition_weight=1.0)))
    assert change.clock == datetime(2020, 1, 3, 0, 1)
    assert change.probability_before == pytest.approx(0.6)
    assert change.probability_after == pytest.approx(0.35)


def test_the_greedy_pass_is_explained_by_its_own_kind():
    profile = sg.Profile.load("kdd2026-cardiorespiratory")
    rows = np.tile([0.1, 0.8, 0.1], (30, 1))
    rows[10] = [0.6, 0.3, 0.1]
    (change,) = explain(decode(rows, profile))
    assert change.rule in ("transition", "minimum bout", "flip-flop")
    assert change.margin_nats > 0


@pytest.mark.parametrize("night", [None, [1], "night.csv"], ids=repr)
def test_what_is_no_decoding_is_refused_in_one_line(night):
    with pytest.raises(InputError, match=naming("night", type(night).__name__, "decode")):
        sg.explain(night)
