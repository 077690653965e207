"""Draws of whole nights: against the probability of every path, between the kernels, and from run to run."""

import collections
import itertools
import re

import numpy as np
import pytest
from test_posterior import FLIPS, both, no_way_back

import oracle
import stageguard as sg
from messages import naming
from nights import decode, one_hot, plain, random_mapping, random_probabilities
from small import refusal
from stageguard.errors import InputError, PinError, StageGuardWarning
from stageguard.guard import kernels
from stageguard.guard.kernels.reference import uniforms
from stageguard.guard.posterior import sample_like

KINDS = {
    "plain": {},
    "minimum": {"min_bout_seconds": {"N": 90.0, "R": 60.0}, "ends": "paper"},
    "cut minimum": {"min_bout_seconds": {"W": 60.0, "N": 120.0}},
    "flip-flop": {"flip_flop": {"penalty_nats": 1.5, "window_epochs": 4, "method": "exact"}},
    "lengths": {"durations": {"N": [0.2, 0.5], "R": [0.0, 0.3, 0.3]}, "ends": "paper"},
    "long minimum": {"min_bout_seconds": {"N": 300.0}},
    "free": {"transition_weight": 0.0},
}


def test_random_numbers_are_the_published_generator_s():
    # SplitMix64 from the seed 1234567, whose words are printed in many places
    words = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert list(itertools.islice(uniforms(1234567), 4)) == [(word >> 11) * 2.0**-53 for word in words]


def assert_drawn_in_proportion(drawn, chance):
    """Assert that draws (n, 6) have each path of three stages as often as its chance says."""
    n, counts = len(drawn), collections.Counter(map(tuple, drawn.tolist()))
    observed = np.array([counts.pop(tuple(path), 0) for path in oracle.all_paths(3, 6).tolist()])
    assert not counts
    assert observed[chance == 0].sum() == 0
    often = chance * n >= 5
    assert often.sum() > 10
    rest = [chance[~often].sum()] if chance[~often].any() else []
    expected = np.append(chance[often], rest) * n
    found = np.append(observed[often], [observed[~often].sum()] * len(rest))
    chi_square = ((found - expected) ** 2 / expected).sum()
    n_free = len(expected) - 1
    assert abs(chi_square - n_free) < 4 * np.sqrt(2 * n_free), (chi_square, n_free)


@pytest.mark.parametrize("kind", KINDS)
def test_every_path_is_drawn_as_often_as_it_is_probable(backend, kind):
    rng = np.random.default_rng(60)
    mapping = plain(3, **KINDS[kind])
    probabilities = random_probabilities(rng, 6, 3)
    options = {"quality": [0, 0.5, 0, 0, 1, 0], "pins": {3: "N"}}
    evidence = oracle.evidence_of(probabilities, mapping, options["quality"], options["pins"])
    scores = oracle.score_all(evidence, oracle.rules_of(mapping))
    chance = np.exp(scores - np.logaddexp.reduce(scores))
    n = 20_000 if backend == "compiled" else 2_000
    drawn = sg.sample(probabilities, sg.Profile.from_dict(mapping), n=n, seed=5, **options)
    assert_drawn_in_proportion(drawn, chance)


@pytest.mark.parametrize("kind", [*KINDS, "greedy", "band, untouched", "band, acting"])
@pytest.mark.parametrize("seed", range(3))
def test_kernels_draw_the_same_nights(kind, seed):
    rng = np.random.default_rng([61, seed])
    probabilities = random_probabilities(rng, 50, 3, sharpness=2)
    if kind == "greedy":
        profile = sg.Profile.load("kdd2026-mouse-eeg-emg")
    elif kind.startswith("band"):
        rule = {"rule": "band", "fi_target": 0.0493}
        profile = sg.Profile.load("human-psg-3").replace(clock=None, strength=rule)
        if kind == "band, untouched":
            probabilities = one_hot(np.repeat([0, 1, 2, 1, 0], 10), confidence=0.7)
        acting = decode(probabilities, profile).strength.step == "lowered"
        assert acting == (kind == "band, acting")
    else:
        profile = sg.Profile.from_dict(plain(3, **KINDS[kind]))
    if seed:
        probabilities[10:14] = np.nan
        probabilities[20:35] = np.nan
    options = {"pins": {40: "R"}} if seed == 2 else {}
    nights = both(lambda: sample_like(decode(probabilities, profile, **options), n=40, seed=seed))
    assert nights[0].dtype == np.int8
    assert np.array_equal(*nights)
    assert len(np.unique(nights[0], axis=0)) > 20
    if seed and kind != "greedy":  # fifteen epochs of 30 s are a gap
        assert np.flatnonzero((nights[0] == -1).any(axis=0)).tolist() == list(range(20, 35))


@pytest.mark.parametrize("seed", range(20))
def test_every_draw_is_a_path_the_profile_allows(backend, seed):
    rng = np.random.default_rng([62, seed])
    n_stages = int(rng.choice([2, 3, 5]))
    mapping = random_mapping(
        rng,
        n_stages,
        ends="paper" if seed % 2 else "censored",
        stay="self",
        flip=seed % 3 == 0,
        durations=seed % 4 == 0,
        minimum=True,
    )
    probabilities = random_probabilities(rng, 40, n_stages)
    probabilities[8:10] = np.nan
    pins = {5: "W", 30: oracle.stage_names(mapping)[-1]}
    profile = sg.Profile.from_dict(mapping)
    try:
        drawn = sg.sample(probabilities, profile, n=30, seed=seed, pins=pins, segments=[0, 20])
    except PinError:
        pins = {}
        drawn = sg.sample(probabilities, profile, n=30, seed=seed, segments=[0, 20])
    rules, evidence = oracle.rules_of(mapping), oracle.evidence_of(probabilities, mapping, pins=pins)
    best = decode(probabilities, profile, pins=pins, segments=[0, 20]).score
    for path in drawn:
        score = oracle.score_path(evidence, path, rules, [(0, 20), (20, 40)])
        assert -np.inf < score <= best + 1e-9


@pytest.mark.parametrize("kind", ["minimum", "flip-flop", "free"])
def test_the_same_seed_draws_the_same_nights_whatever_is_beside_them(backend, kind, monkeypatch):
    rng = np.random.default_rng(64)
    profile = sg.Profile.from_dict(plain(3, **KINDS[kind]))
    nights = [random_probabilities(rng, n, 3) for n in (30, 12, 45)]
    alone = [sg.sample(night, profile, n=20, seed=9) for night in nights]
    for n_threads in (1, 2, 7):
        monkeypatch.setattr(kernels, "threads_for", lambda n_items, n=n_threads: n)
        assert np.array_equal(sg.sample(nights[0], profile, n=20, seed=9), alone[0])
    for own, found in zip(alone, sg.sample(nights, profile, n=20, seed=9), strict=True):
        assert np.array_equal(own, found)
    assert np.array_equal(sg.sample(nights[2], profile, n=5, seed=9), alone[2][:5])
    assert not np.array_equal(sg.sample(nights[2], profile, n=20, seed=8), alone[2])
    seeds = sg.sample(nights, profile, n=20, seed=[9, 8, 9])
    assert [np.array_equal(a, b) for a, b in zip(alone, seeds, strict=True)] == [True, False, True]
    assert sg.sample([], profile, n=3) == []
    twice = sg.sample(np.tile(nights[0], (2, 1)), profile, n=20, seed=9, segments=[0, 30])
    assert np.array_equal(twice[:, :30], alone[0])
    assert not np.array_equal(twice[:, 30:], alone[0])  # stretches are drawn independently


@pytest.mark.parametrize("keys", [{}, FLIPS], ids=["structured", "automaton"])
def test_a_path_that_products_lose_is_drawn_all_the_same(backend, keys):
    probabilities = np.repeat([[1.0, 0.0], [0.0, 1.0]], [60, 200], axis=0)
    assert (sg.sample(probabilities, no_way_back(**keys), n=10) == 1).all()


def test_a_greedy_profile_is_drawn_with_the_exact_window_and_says_so(backend):
    profile = sg.Profile.load("kdd2026-mouse-eeg-emg")
    night = random_probabilities(np.random.default_rng(67), 30, 3)
    with pytest.warns(StageGuardWarning, match=naming("window is exact")) as caught:
        drawn = sg.sample(night, profile, n=5)
    assert caught[0].filename == __file__
    exact = profile.replace(flip_flop=profile.to_dict()["flip_flop"] | {"method": "exact"})
    assert np.array_equal(drawn, sg.sample(night, exact, n=5))


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"n": 0}, "n is 0, expected a whole number from 1 to 10000000"),
        ({"n": 10**12}, "n is 1000000000000"),
        ({"n": True}, "n is True"),
        ({"n": 2, "seed": -1}, "seed is -1, expected a whole number"),
        ({"n": 2, "seed": 1.5}, "seed is 1.5"),
        ({"n": 2, "seed": "1"}, "seed is '1'"),
        ({"n": 2, "seed": [1, 2, 3]}, "seed: got 3 of them for 2 nights"),
    ],
)
def test_bad_numbers_of_draws_and_seeds_are_refused(options, pattern):
    with pytest.raises(InputError) as error:
        sg.sample([[[0.5, 0.5]], [[0.4, 0.6]]], "kdd2026-actigraphy", **options)
    refusal(error, re.escape(pattern))
