"""Decoding against every path there is, and against the decoder of others."""

import itertools
from functools import cache

import numpy as np
import pytest

import oracle
import stageguard as sg
from nights import SCHEME, as_row, decode, plain, random_mapping, random_probabilities, random_transitions
from peers import hmm_of_likelihoods
from stageguard.errors import PinError, StageGuardError

N_EPOCHS = {2: 12, 3: 9, 5: 7}


def random_night(rng, n_stages, mapping, *, epoch):
    """Probabilities with lost rows, lost cells, and the options of one `decode` call."""
    names = oracle.SCHEMES[SCHEME[n_stages]]
    n = N_EPOCHS[n_stages]
    probabilities = random_probabilities(rng, n, n_stages)
    for t in range(n):
        if rng.random() < 0.15:
            probabilities[t, rng.integers(n_stages)] = 0.0
            probabilities[t] /= probabilities[t].sum()
    if rng.random() < 0.4:  # at 120 s two lost epochs are filled, three are a gap
        start, length = rng.integers(0, n), rng.integers(1, 5)
        probabilities[start : start + length] = np.nan
    lost = np.isnan(probabilities).any(axis=1)
    options = {}
    if epoch != mapping["epoch_seconds"]:
        options["epoch_seconds"] = epoch
    if rng.random() < 0.4:
        options["quality"] = rng.choice([0.0, 0.25, 0.9, 1.0], size=n)
    if rng.random() < 0.4:
        inside = np.flatnonzero(~lost)  # every segment keeps some evidence, no cut is within a lost run
        if len(inside):
            cuts = {int(t) for t in rng.choice(inside, size=2) if t > inside[0]}
            options["segments"] = [0, *sorted(cuts)]
    if rng.random() < 0.4:
        _, _, gap = oracle.parts_of(probabilities, epoch)
        where = rng.choice(np.flatnonzero(~gap), size=2)
        options["pins"] = {int(t): str(rng.choice(names)) for t in where}
    return probabilities, options


@cache
def random_case(n_stages, ends, stay, flip, durations, minimum, seed):
    rng = np.random.default_rng([n_stages, *map(ord, ends[:1] + stay[:1]), flip, durations, minimum, seed])
    base = float(rng.choice([30.0, 120.0]))
    epoch = float(rng.choice([20.0, 120.0])) if rng.random() < 0.25 and not durations else base
    mapping = random_mapping(
        rng, n_stages, ends=ends, stay=stay, flip=flip, durations=durations, minimum=minimum, epoch=base
    )
    probabilities, options = random_night(rng, n_stages, mapping, epoch=epoch)
    rules = oracle.rules_of(mapping, epoch)
    evidence = oracle.evidence_of(probabilities, mapping, options.get("quality"), options.get("pins"))
    parts, filled, gap = oracle.parts_of(probabilities, epoch, options.get("segments"))
    truth = oracle.best_path_by_enumeration(evidence, rules, parts) if parts else (-np.inf, None, 0.0)
    return mapping, probabilities, options, evidence, rules, parts, filled, gap, truth


COMBINATIONS = list(
    itertools.product(
        (2, 3, 5), ("censored", "paper"), ("self", "free"), (False, True), (False, True), (False, True)
    )
)


@pytest.mark.parametrize(("n_stages", "ends", "stay", "flip", "durations", "minimum"), COMBINATIONS)
def test_decode_finds_the_best_of_all_paths(backend, n_stages, ends, stay, flip, durations, minimum):
    n_decoded = 0
    for seed in range(6):
        case = random_case(n_stages, ends, stay, flip, durations, minimum, seed)
        mapping, probabilities, options, evidence, rules, parts, filled, gap, truth = case
        profile = sg.Profile.from_dict(mapping)
        best, labels, margin = truth
        if best == -np.inf:
            with pytest.raises(PinError if "pins" in options else StageGuardError):
                decode(probabilities, profile, **options)
            continue
        n_decoded += 1
        result = decode(probabilities, profile, **options)
        path = result.hypnogram.labels
        assert ((path == -1) == gap).all(), (seed, mapping, options)
        unpinned = [t for t in range(len(path)) if t not in options.get("pins", {})]
        assert result.filled[unpinned].tolist() == filled[unpinned].tolist()
        rescored = oracle.score_path(evidence, path, rules, parts)
        assert rescored == pytest.approx(best, abs=1e-9), (seed, mapping)
        assert result.score == pytest.approx(best, abs=1e-9), (seed, mapping)
        if margin > 1e-9:
            assert path.tolist() == labels.tolist(), (seed, mapping, options)
    assert n_decoded >= 2


def test_oracles_agree_with_one_another():
    rng = np.random.default_rng(3)
    n_best = 0
    for combination in COMBINATIONS:
        for seed in range(1):
            _, _, _, evidence, rules, parts, _, _, (best, _, _) = random_case(*combination, seed)
            for a, b in parts:
                paths = oracle.all_paths(rules.n_stages, b - a)
                scores = oracle.score_all(evidence[a:b], rules)
                for i in rng.choice(len(paths), size=min(20, len(paths)), replace=False):
                    one = oracle.score_part(evidence[a:b], paths[i], rules)
                    assert one == pytest.approx(scores[i], abs=1e-9)
            if best > -np.inf:
                n_best += 1
                by_memory = sum(oracle.best_score_by_memory(evidence[a:b], rules) for a, b in parts)
                assert by_memory == pytest.approx(best, abs=1e-9)
    assert n_best > 80


@pytest.mark.parametrize("seed", range(24))
def test_decode_finds_the_best_path_of_longer_nights(backend, seed):
    rng = np.random.default_rng([77, seed])
    flip, durations = bool(seed % 2), bool(seed // 2 % 2)
    n_stages = 2 if flip and durations else int(rng.choice([2, 3]))
    n_epochs = 25 if flip else 60
    mapping = random_mapping(
        rng,
        n_stages,
        ends="paper" if seed % 3 else "censored",
        stay="free" if seed % 5 else "self",
        flip=flip,
        durations=durations,
        minimum=seed % 7 > 0,
    )
    if durations:
        mapping["durations"] = {"W": [0.1, 0.2, 0.1, 0.05]}
    mapping["transition_weight"] = 0.3
    course = np.arange(n_epochs) // 5 % n_stages  # something to switch to, every five epochs
    weights = np.exp(3.0 * (np.arange(n_stages) == course[:, None]) + rng.normal(size=(n_epochs, n_stages)))
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    rules, evidence = oracle.rules_of(mapping), oracle.evidence_of(probabilities, mapping)
    result = decode(probabilities, sg.Profile.from_dict(mapping))
    best = oracle.best_score_by_memory(evidence, rules)
    assert result.score == pytest.approx(best, abs=1e-9)
    assert oracle.score_path(evidence, result.hypnogram.labels, rules) == pytest.approx(best, abs=1e-9)
    assert len(oracle.bouts_of(result.hypnogram.labels)) > 1


@pytest.mark.parametrize("seed", range(16))
def test_extreme_evidence_and_transitions_lose_no_precision(backend, seed):
    rng = np.random.default_rng([88, seed])
    n_stages = (2, 3, 5)[seed % 3]
    names = oracle.SCHEMES[SCHEME[n_stages]]
    mapping = random_mapping(
        rng,
        n_stages,
        ends=("paper", "censored")[seed % 2],
        stay=("self", "free")[seed // 2 % 2],
        flip=False,
        durations=False,
        minimum=False,
    )
    mapping["min_bout_seconds"] = as_row(names, rng.choice([30, 60, 90, 240], size=n_stages))
    mapping["rare"] = [[names[0], names[1], 10.0 ** -float(rng.choice([3, 30, 290]))]]
    mapping["transition_weight"] = float(rng.choice([0.3, 1.0, 1.5]))
    probabilities = random_probabilities(rng, 70, n_stages, sharpness=float(rng.choice([5, 20, 60])))
    certain = rng.random(70) < 0.3
    probabilities[certain] = np.eye(n_stages)[rng.integers(n_stages, size=certain.sum())]
    rules, evidence = oracle.rules_of(mapping), oracle.evidence_of(probabilities, mapping)
    result = decode(probabilities, sg.Profile.from_dict(mapping))
    best = oracle.best_score_by_memory(evidence, rules)
    assert result.score == pytest.approx(best, rel=1e-12, abs=1e-9)
    rescored = oracle.score_path(evidence, result.hypnogram.labels, rules)
    assert rescored == pytest.approx(best, rel=1e-12, abs=1e-9)
    assert best < -20


@pytest.mark.parametrize("n_stages", [4, 6, 7, 8, 9, 12])
@pytest.mark.parametrize("flip", [0.0, 1.5])
def test_any_number_of_stages_is_decoded_exactly(backend, n_stages, flip):
    rng = np.random.default_rng([60, n_stages])
    names = [f"stage {i}" for i in range(n_stages)]
    mapping = {
        "name": "many",
        "stages": names,
        "epoch_seconds": 30.0,
        "transitions": random_transitions(rng, names),
        "min_bout_seconds": {names[0]: 90.0, names[-1]: 60.0},
        "flip_flop": {"penalty_nats": flip, "window_epochs": 2, "method": "exact"},
        "transition_weight": 0.5,
    }
    probabilities = random_probabilities(rng, 20, n_stages, sharpness=2.5)
    rules, evidence = oracle.rules_of(mapping), oracle.evidence_of(probabilities, mapping)
    result = decode(probabilities, sg.Profile.from_dict(mapping))
    best = oracle.best_score_by_memory(evidence, rules)
    assert result.score == pytest.approx(best, abs=1e-9)
    assert oracle.score_path(evidence, result.hypnogram.labels, rules) == pytest.approx(best, abs=1e-9)
    assert len(oracle.bouts_of(result.hypnogram.labels)) > 2


def test_a_plain_chain_equals_hmmlearn(backend):
    rng = np.random.default_rng(50)
    for n_stages in (2, 3, 5):
        names = oracle.SCHEMES[SCHEME[n_stages]]
        rows = random_transitions(rng, names)
        probabilities = random_probabilities(rng, 120, n_stages)
        model = hmm_of_likelihoods(n_stages)
        model.startprob_ = np.full(n_stages, 1 / n_stages)
        model.transmat_ = np.array([[rows[a][b] for b in names] for a in names])
        score, states = model.decode(np.log(probabilities))
        result = decode(probabilities, sg.Profile.from_dict(plain(n_stages, transitions=rows)))
        assert result.hypnogram.labels.tolist() == states.tolist()
        assert result.score == pytest.approx(score + np.log(n_stages), abs=1e-8)
