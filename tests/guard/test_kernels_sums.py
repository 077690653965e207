"""The sum over all paths: against every path written out, and the two kernels against each other."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from stageguard.guard import kernels
from stageguard.guard.automaton import compile_automaton
from stageguard.guard.kernels import reference
from stageguard.profile.profile import Profile

NAMES = ("W", "N", "R")


def automaton_of(**keys):
    rows = {"W": (0.8, 0.15, 0.05), "N": (0.1, 0.7, 0.2), "R": (0.2, 0.2, 0.6)}
    document = {
        "name": "small",
        "scheme": "wnr3",
        "epoch_seconds": 30.0,
        "transitions": {name: dict(zip(NAMES, row, strict=True)) for name, row in rows.items()},
    }
    return compile_automaton(Profile.from_dict(document | keys))


def test_both_implementations_have_the_functions_of_the_contract():
    functions = kernels.__doc__.split("Functions\n", 1)[1].split("\n\n")[0]
    heads = [line for line in functions.splitlines() if not line.startswith(" ")]
    stated = set(re.findall(r"(\w+)\(", "\n".join(heads)))
    for module in (kernels.active, reference):
        functions = {
            name
            for name, value in vars(module).items()
            if callable(value) and name.islower() and not name.startswith("_")
        }
        assert functions - {"uniforms"} == stated
        assert {"NAME", "MOST_STAGES", "LONGEST_MINIMUM"} <= set(vars(module))


CASES = {
    "plain": {},
    "minimum": {"min_bout_seconds": {"N": 60, "R": 90}, "ends": "paper"},
    "flip-flop": {"flip_flop": {"penalty_nats": 1.5, "window_epochs": 4, "method": "exact"}},
    "lengths": {"durations": {"N": [0.2, 0.5]}},
}


def run(module, pieces, a, *, want_edges=True, n_threads=1):
    table = np.zeros(len(pieces), dtype=np.int32)
    weight = (a.scaled + a.fixed)[None]
    return module.forward_backward(
        pieces,
        table,
        a.stage,
        a.first,
        a.source,
        weight,
        a.initial[None],
        a.final[None],
        want_edges,
        n_threads,
    )


def every_path(evidence, a):
    """Log-weight, states and edges of every path of states, by brute force."""
    weight = a.scaled + a.fixed
    edges = {(int(a.source[e]), j): e for j in range(a.n_states) for e in range(a.first[j], a.first[j + 1])}
    for states in itertools.product(range(a.n_states), repeat=len(evidence)):
        score = a.initial[states[0]] + a.final[states[-1]]
        score += sum(evidence[t, a.stage[j]] for t, j in enumerate(states))
        used = [edges.get(pair) for pair in itertools.pairwise(states)]
        if None not in used and score + weight[used].sum() > -np.inf:
            yield score + weight[used].sum(), states, used


@pytest.mark.parametrize("case", CASES)
def test_sums_equal_those_over_every_path(backend, case):
    a = automaton_of(**CASES[case])
    n_epochs = 3 if a.n_states > 12 else 4
    rng = np.random.default_rng(1)
    evidence = np.log(rng.dirichlet([0.7] * 3, size=n_epochs))
    paths = list(every_path(evidence, a))
    assert len(paths) > 9
    scores = np.array([score for score, _, _ in paths])
    expected_total = np.logaddexp.reduce(scores)
    share = np.exp(scores - expected_total)
    marginals, counts = np.zeros((n_epochs, 3)), np.zeros(len(a.source))
    for p, (_, states, used) in zip(share, paths, strict=True):
        marginals[np.arange(n_epochs), a.stage[list(states)]] += p
        np.add.at(counts, used, p)
    total, found, edges = run(kernels.active, [evidence], a)
    assert total[0] == pytest.approx(expected_total, abs=1e-10)
    np.testing.assert_allclose(found, marginals, atol=1e-10)
    np.testing.assert_allclose(edges[0], counts, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_kernels_agree_on_many_pieces_at_once(backend, case):
    a = automaton_of(**CASES[case])
    rng = np.random.default_rng(2)
    pieces = [np.log(rng.dirichlet([0.5] * 3, size=n)) for n in (1, 2, 30, 7)]
    for got, wanted in zip(
        run(kernels.active, pieces, a, n_threads=2), run(reference, pieces, a), strict=True
    ):
        np.testing.assert_allclose(got, wanted, atol=1e-9)


def test_a_long_night_neither_underflows_nor_forgets(backend):
    if backend == "reference":
        pytest.skip("the reference is too slow for a long night")
    a = automaton_of()
    evidence = np.log(np.tile(np.random.default_rng(3).dirichlet([0.5] * 3, size=1000), (1500, 1)))
    total, marginals, edges = run(kernels.active, [evidence], a)
    assert np.isfinite(total[0])
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, atol=1e-9)
    assert edges.sum() == pytest.approx(len(evidence) - 1, rel=1e-9)
    # blocks are worked out again on the way back: epochs far from both ends must not see where a block began
    np.testing.assert_allclose(marginals[500_000:501_000], marginals[700_000:701_000], atol=1e-9)


def test_no_path_at_all_is_minus_infinity(backend):
    a = automaton_of(min_bout_seconds={"N": 90})
    evidence = np.log(np.full((3, 3), 1 / 3))
    evidence[1] = [-np.inf, 0.0, -np.inf]
    evidence[[0, 2], 1] = -np.inf
    assert run(kernels.active, [evidence], a)[0][0] == -np.inf
