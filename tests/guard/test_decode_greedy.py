"""The paper's greedy flip-flop against its equations, and the shipped profiles."""

import numpy as np
import pytest

import oracle
import stageguard as sg
from nights import decode, random_mapping, random_probabilities
from stageguard.guard.solver import solver_for


def greedy_case(seed):
    rng = np.random.default_rng([5, seed])
    mapping = random_mapping(
        rng,
        int(rng.choice([2, 3, 5])),
        ends="paper" if seed % 3 else "censored",
        stay="free" if seed % 4 else "self",
        flip=True,
        durations=False,
        minimum=True,
    )
    mapping["flip_flop"] |= {"method": "greedy", "window_epochs": int(rng.integers(2, 8))}
    mapping["transition_weight"] = float(rng.choice([0.3, 0.6]))
    n_stages = len(oracle.stage_names(mapping))
    return mapping, random_probabilities(rng, 60, n_stages, sharpness=2.5)


@pytest.mark.parametrize("seed", range(16))
def test_greedy_flip_flop_is_the_papers_forward_pass(backend, seed):
    mapping, probabilities = greedy_case(seed)
    rules, evidence = oracle.rules_of(mapping), oracle.evidence_of(probabilities, mapping)
    expected = oracle.greedy_path(evidence, rules)
    result = decode(probabilities, sg.Profile.from_dict(mapping))
    assert result.hypnogram.labels.tolist() == expected
    assert result.score == pytest.approx(oracle.score_path(evidence, expected, rules), abs=1e-9)


def test_greedy_falls_short_of_exact_somewhere_and_never_beats_it(backend):
    shortfalls = []
    for seed in range(16):
        mapping, probabilities = greedy_case(seed)
        exact = mapping | {"flip_flop": mapping["flip_flop"] | {"method": "exact"}}
        greedy = decode(probabilities, sg.Profile.from_dict(mapping))
        shortfalls.append(decode(probabilities, sg.Profile.from_dict(exact)).score - greedy.score)
    assert min(shortfalls) > -1e-9
    assert max(shortfalls) > 1e-3


def test_greedy_flip_flop_forgets_at_a_segment_boundary(backend):
    mapping, probabilities = greedy_case(1)
    profile = sg.Profile.from_dict(mapping)
    joined = decode(probabilities, profile, segments=[0, 25])
    apart = [decode(probabilities[:25], profile), decode(probabilities[25:], profile)]
    assert joined.hypnogram.labels.tolist() == [s for part in apart for s in part.hypnogram.labels]


@pytest.mark.parametrize("name", [name for name in sg.profiles() if name.startswith("kdd2026")])
def test_products_hold_the_worst_rows_of_the_papers_profiles(name):
    """Certainties that contradict each other, epoch by epoch: what any survivor can lag behind at most."""
    profile = sg.Profile.load(name)
    solver = solver_for(profile, profile.epoch_seconds)
    assert solver.is_greedy
    n_stages = profile.scheme.n_stages
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(1e-12, 1e-11, (300, n_stages))  # as small as counts, and without ties
        rows[np.arange(300), rng.integers(n_stages, size=300) if seed else np.arange(300) % n_stages] = 1.0
        by_products = decode(rows, profile)
        by_logarithms = decode(rows, profile, quality=np.r_[1e-300, np.zeros(299)])  # says nothing
        assert by_products.hypnogram.labels.tolist() == by_logarithms.hypnogram.labels.tolist()
        assert by_products.score == pytest.approx(by_logarithms.score, rel=1e-12)


@pytest.mark.parametrize("name", sg.profiles())
def test_shipped_profiles_decode_as_defined(backend, name):
    rng = np.random.default_rng(sum(map(ord, name)))
    profile = sg.Profile.load(name)
    if profile.strength is not None:
        profile = profile.replace(transition_weight=0.5, clock=None)
    mapping = profile.to_dict()
    rules = oracle.rules_of(mapping)
    logits = np.repeat(rng.normal(size=(12, rules.n_stages)) * 2, 5, axis=0)
    weights = np.exp(logits + rng.normal(size=logits.shape) * 1.5)
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    evidence = oracle.evidence_of(probabilities, mapping)
    result = decode(probabilities, profile)
    assert len(oracle.bouts_of(result.hypnogram.labels)) > 1
    if profile.flip_flop is not None and profile.flip_flop.method == "greedy":
        assert rules.flip_cost
        assert result.hypnogram.labels.tolist() == oracle.greedy_path(evidence, rules)
        best = oracle.score_path(evidence, result.hypnogram.labels, rules)
    else:
        best = oracle.best_score_by_memory(evidence, rules)
    assert result.score == pytest.approx(best, abs=1e-9)
