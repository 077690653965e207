"""Each rule of the objective on nights small enough to reckon by hand, and ties."""

import itertools
import re

import numpy as np
import pytest

import oracle
import stageguard as sg
from nights import SCHEME, decode, one_hot, plain, random_probabilities, random_transitions
from stageguard.errors import StageGuardError


def test_short_last_bout_is_kept_and_short_first_bout_depends_on_the_ends_rule(backend):
    probabilities = one_hot([2, 0, 0, 0, 0, 0, 0, 2])
    settings = {"min_bout_seconds": {"R": 90}, "transition_weight": 0.1}
    censored = decode(probabilities, sg.Profile.from_dict(plain(ends="censored", **settings)))
    paper = decode(probabilities, sg.Profile.from_dict(plain(ends="paper", **settings)))
    assert censored.hypnogram.labels.tolist() == [2, 0, 0, 0, 0, 0, 0, 2]
    assert paper.hypnogram.labels.tolist() == [0, 0, 0, 0, 0, 0, 0, 2]


def test_a_rare_pair_replaces_a_smaller_probability_too(backend):
    rows = plain()["transitions"] | {"W": {"W": 0.9, "N": 0.0999, "R": 0.0001}}
    probabilities = one_hot([0, 0, 0, 2, 2, 2], confidence=0.9999)
    without = sg.Profile.from_dict(plain(transitions=rows))
    with_rare = sg.Profile.from_dict(plain(transitions=rows, rare=[["W", "R", 0.5]]))
    difference = decode(probabilities, with_rare).score - decode(probabilities, without).score
    assert decode(probabilities, without).hypnogram.labels.tolist() == [0, 0, 0, 2, 2, 2]
    assert difference == pytest.approx(np.log(0.5 / 0.0001), abs=1e-9)


def test_switch_probabilities_of_a_minimum_bout_follow_the_epoch_length(backend):
    mapping = plain(min_bout_seconds={"N": 60}, transition_weight=0.05)
    profile = sg.Profile.from_dict(mapping)
    at_30 = one_hot([0, 0, 0, 1, 1, 0, 0, 0])
    assert decode(at_30, profile).hypnogram.labels.tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    at_20 = decode(at_30, profile, epoch_seconds=20.0).hypnogram
    assert at_20.epoch_seconds == 20.0
    assert [length for stage, length in oracle.bouts_of(at_20.labels) if stage == 1] in ([], [3])
    # ceil(60 / 20) = 3, and a self transition of 0.9 in 30 s is 0.9 ** (2 / 3) in 20 s
    flat = decode(one_hot([0] * 8), sg.Profile.from_dict(plain()), epoch_seconds=20.0)
    assert flat.score == pytest.approx(8 * np.log(0.98) + 7 * (20 / 30) * np.log(0.9), abs=1e-9)


def test_a_bout_of_a_tabled_stage_pays_its_length_and_a_cut_one_its_survival(backend):
    mapping = plain(durations={"N": [0.0, 0.5, 0.25]})  # hazard of the tail = 0.25 / 0.5
    profile = sg.Profile.from_dict(mapping)

    def score(labels):
        result = decode(one_hot(labels, confidence=1 - 1e-7), profile)
        assert result.hypnogram.labels.tolist() == labels
        return result.score - len(labels) * np.log(1 - 1e-7)

    stays, switch, leave = np.log(0.9), np.log(0.05), np.log(0.5)
    assert score([0, 1, 1, 0]) == pytest.approx(np.log(0.5) + switch + leave, abs=1e-9)
    assert score([0, 1, 1, 1, 0]) == pytest.approx(np.log(0.25) + switch + leave, abs=1e-9)
    assert score([0, 1, 1, 1, 1, 1, 0]) == pytest.approx(np.log(0.25 * 0.25) + switch + leave, abs=1e-9)
    assert score([0, 0, 1, 1, 1]) == pytest.approx(stays + switch + np.log(0.5), abs=1e-9)
    assert score([1, 0, 0]) == pytest.approx(np.log(1.0) + leave + stays, abs=1e-9)
    assert score([1, 1, 1, 1, 1]) == pytest.approx(np.log(0.25 * 0.5), abs=1e-9)


def test_a_geometric_table_is_the_markov_chain(backend):
    rng = np.random.default_rng(8)
    names = ("W", "N", "R")
    for _ in range(5):
        rows = random_transitions(rng, names)
        mapping = plain(transitions=rows, ends="paper", stay="self")
        tables = {name: [1 - rows[name][name]] for name in names}
        probabilities = random_probabilities(rng, 80, 3)
        markov = decode(probabilities, sg.Profile.from_dict(mapping))
        tabled = decode(probabilities, sg.Profile.from_dict(mapping | {"durations": tables}))
        assert tabled.score == pytest.approx(markov.score, abs=1e-9)
        assert tabled.hypnogram.labels.tolist() == markov.hypnogram.labels.tolist()


def test_a_table_of_lengths_is_bound_to_its_epoch_length(backend):
    profile = sg.Profile.from_dict(plain(durations={"N": [0.2, 0.3]}))
    with pytest.raises(StageGuardError, match=r"durations.*30.*20"):
        decode(one_hot([0] * 8), profile, epoch_seconds=20.0)


def test_a_tabled_stage_without_exits_is_never_left_and_never_nan(backend):
    rows = plain()["transitions"] | {"W": {"W": 1.0, "N": 0.0, "R": 0.0}}
    try:
        profile = sg.Profile.from_dict(plain(transitions=rows, durations={"W": [0.2, 0.3]}))
        result = decode(one_hot([0, 0, 0, 1, 1, 1]), profile)
    except StageGuardError as error:
        assert re.search("durations|transitions", str(error))
    else:
        assert np.isfinite(result.score)
        assert all(a == b for a, b in itertools.pairwise(result.stages) if a == "W")


def test_weight_zero_without_minimum_is_argmax_even_where_switches_are_forbidden(backend):
    rows = plain()["transitions"] | {"W": {"W": 1.0, "N": 0.0, "R": 0.0}}
    probabilities = random_probabilities(np.random.default_rng(4), 50, 3)
    result = decode(probabilities, sg.Profile.from_dict(plain(transitions=rows, transition_weight=0.0)))
    assert result.hypnogram.labels.tolist() == probabilities.argmax(axis=1).tolist()
    assert result.score == pytest.approx(np.log(probabilities.max(axis=1)).sum(), abs=1e-9)
    assert not result.changed.any()


def test_a_forbidden_switch_is_never_taken(backend):
    rows = plain()["transitions"] | {"W": {"W": 0.9, "N": 0.1, "R": 0.0}}
    probabilities = one_hot([0, 0, 0, 2, 2, 2], confidence=1 - 1e-9)
    labels = decode(probabilities, sg.Profile.from_dict(plain(transitions=rows))).hypnogram.labels.tolist()
    assert (0, 2) not in list(itertools.pairwise(labels))
    assert 2 in labels


def test_full_loss_of_quality_and_a_filled_row_are_the_same_evidence(backend):
    rng = np.random.default_rng(12)
    mapping = plain(prior_exponent=0.5, prior={"W": 0.2, "N": 0.6, "R": 0.2}, transition_weight=0.4)
    probabilities = random_probabilities(rng, 30, 3)
    lost = probabilities.copy()
    lost[10:14] = np.nan
    quality = np.zeros(30)
    quality[10:14] = 1.0
    profile = sg.Profile.from_dict(mapping)
    by_quality, by_fill = decode(probabilities, profile, quality=quality), decode(lost, profile)
    assert by_quality.hypnogram.labels.tolist() == by_fill.hypnogram.labels.tolist()
    assert by_quality.score == pytest.approx(by_fill.score, abs=1e-9)
    assert by_fill.filled.tolist() == [10 <= t < 14 for t in range(30)]
    assert by_fill.argmax[10:14].tolist() == [-1] * 4
    assert not by_fill.changed[10:14].any()
    assert not by_quality.filled.any()


@pytest.mark.parametrize(("n_lost", "is_gap"), [(10, False), (11, True)])
@pytest.mark.parametrize("start", [0, 7, "end"])
def test_five_minutes_are_filled_and_more_is_a_gap(backend, n_lost, is_gap, start):
    probabilities = one_hot([0] * 10 + [1] * 20)
    start = 30 - n_lost if start == "end" else start
    probabilities[start : start + n_lost] = np.nan
    result = decode(probabilities, sg.Profile.from_dict(plain()))
    lost = np.zeros(30, dtype=bool)
    lost[start : start + n_lost] = True
    assert (result.filled == (lost & (not is_gap))).all()
    assert ((result.hypnogram.labels == -1) == (lost & is_gap)).all()
    assert (result.argmax == np.where(lost, -1, [0] * 10 + [1] * 20)).all()


def test_evidence_is_clipped_before_the_prior_and_the_quality(backend):
    mapping = plain(prior_exponent=1.0, prior={"W": 0.5, "N": 0.25, "R": 0.25})
    profile = sg.Profile.from_dict(mapping)
    result = decode(np.array([[0.0, 0.5, 0.5]]), profile, pins={0: "W"}, quality=[0.5])
    expected = 0.5 * (np.log(1e-12) - np.log(0.5)) + 0.5 * np.log(1 / 3)
    assert result.score == pytest.approx(expected, abs=1e-9)


def test_log_probabilities_with_minus_infinity_are_zero_probabilities(backend):
    rng = np.random.default_rng(13)
    probabilities = random_probabilities(rng, 40, 3)
    probabilities[rng.random(40) < 0.3, 1] = 0.0
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    assert np.isneginf(logs).any()
    profile = sg.Profile.from_dict(plain(transition_weight=0.5))
    plainly = decode(probabilities, profile)
    for options, values in (({"log": True}, logs), ({"logits": True}, logs + rng.normal(size=(40, 1)))):
        result = decode(values, profile, **options)
        assert result.hypnogram.labels.tolist() == plainly.hypnogram.labels.tolist()
        assert result.score == pytest.approx(plainly.score, abs=1e-9)


@pytest.mark.parametrize("n_stages", [2, 3, 5])
@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("ends", ["censored", "paper"])
@pytest.mark.parametrize("flip", [0.0, 2.0])
def test_no_evidence_at_all_stays_in_the_first_stage(backend, n_stages, weight, ends, flip):
    names = oracle.SCHEMES[SCHEME[n_stages]]
    mapping = plain(
        n_stages,
        transition_weight=weight,
        ends=ends,
        flip_flop={"penalty_nats": flip, "window_epochs": 3, "method": "exact"},
        min_bout_seconds={names[0]: 90, names[-1]: 60},
    )
    uniform = np.full((9, n_stages), 1 / n_stages)
    assert decode(uniform, sg.Profile.from_dict(mapping)).hypnogram.labels.tolist() == [0] * 9


def test_a_tied_epoch_prefers_to_stay(backend):
    probabilities = np.array([[0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.0, 0.0, 1.0]])
    alike = {a: dict.fromkeys("WNR", 1 / 3) for a in "WNR"}
    profile = sg.Profile.from_dict(plain(transitions=alike, transition_weight=1.0))
    labels = decode(probabilities, profile).hypnogram.labels.tolist()
    assert labels in ([1, 1, 2], [1, 2, 2])
    longer = probabilities[[0, 0, 1, 1, 1, 2, 2]]
    changes = np.count_nonzero(np.diff(decode(longer, profile).hypnogram.labels))
    assert changes == 1


def test_two_equal_stages_go_to_the_one_that_comes_first(backend):
    probabilities = np.tile([0.0, 0.5, 0.5], (6, 1))
    for weight in (0.0, 1.0):
        profile = sg.Profile.from_dict(plain(transition_weight=weight))
        assert decode(probabilities, profile).hypnogram.labels.tolist() == [1] * 6
