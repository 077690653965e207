"""The same decoding by the tools people would pick instead, asserted to find the same optimum.

Peers solve the chain that minimum bouts amount to, one state per stage and age, in two sizes: with ages up
to ten, as the published method counts them (K·D states), and with ages up to the minimum only, the smallest
chain that is exact. Each peer gets its fastest route (the compiled function beneath the public one where that
takes the model as it is), log-evidence already gathered per state, and tables and compilation done before the
clock starts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _common import HUMAN, MOUSE, Row, nanoseconds, night_of, path_kernel, profile_of, race, report

import stageguard as sg
from stageguard.guard.automaton import compile_tables

Runner = Callable[[], Any]

PUBLISHED_AGES = 10
GOALS = {"hmmlearn,": 60.0, "pytorch-crf": 2000.0}


@dataclass(frozen=True, slots=True)
class Chain:
    """A profile's minimum bouts as a chain of (stage, age) states, in nats."""

    stage: np.ndarray  # (n_states,)
    start: np.ndarray  # (n_states,) 0 where a recording may begin, else -inf
    step: np.ndarray  # (n_states, n_states) [from, to]

    def evidence(self, night: np.ndarray) -> np.ndarray:
        return np.take(np.log(night), self.stage, axis=1)  # (n_epochs, n_states), contiguous

    def score(self, evidence: np.ndarray, states: np.ndarray) -> float:
        steps = self.step[states[:-1], states[1:]].sum()
        return float(self.start[states[0]] + evidence[np.arange(len(states)), states].sum() + steps)


def chain_of(profile: sg.Profile, oldest: int = 1) -> Chain:
    """Write out the states, with ages up to the minimum or to `oldest`, the older of the two.

    A recording begins at the highest age: a bout cut by its start is as old as it needs to be.
    """
    tables = compile_tables(profile, profile.epoch_seconds)
    n_ages = np.maximum(tables.minimum_epochs, oldest)
    last = np.cumsum(n_ages) - 1
    first = last - n_ages + 1
    stage = np.repeat(np.arange(len(last)), n_ages)
    step = np.full((len(stage), len(stage)), -np.inf)
    for s, minimum in enumerate(tables.minimum_epochs):
        for state in range(first[s], last[s] + 1):
            if state - first[s] + 1 >= minimum:
                step[state, first] = tables.change[s]
            step[state, min(state + 1, last[s])] = tables.stay[s]
    start = np.full(len(stage), -np.inf)
    start[last] = 0.0
    return Chain(stage, start, step)


def dense_numpy(chain: Chain, evidence: np.ndarray) -> tuple[float, np.ndarray]:
    """Textbook Viterbi: one matrix of candidates per epoch."""
    n_epochs, n_states = evidence.shape
    back = np.empty((n_epochs, n_states), dtype=np.intp)
    arrive = np.ascontiguousarray(chain.step.T)  # [to, from]
    every, v = np.arange(n_states), chain.start + evidence[0]
    for t in range(1, n_epochs):
        candidates = arrive + v
        back[t] = candidates.argmax(axis=1)
        v = candidates[every, back[t]] + evidence[t]
    states = np.empty(n_epochs, dtype=np.intp)
    states[-1] = v.argmax()
    for t in range(n_epochs - 1, 0, -1):
        states[t - 1] = back[t, states[t]]
    return float(v.max()), states


def hmmlearn_core(chain: Chain, evidence: Callable[[], np.ndarray]) -> Runner:
    """The compiled function beneath `decode`: no checks, and rows need not sum to one."""
    from hmmlearn import _hmmc

    start, step = np.exp(chain.start), np.exp(chain.step)
    return lambda: _hmmc.viterbi(start, step, evidence())


def librosa_core(chain: Chain, evidence: np.ndarray) -> Runner:
    """The function beneath `librosa.sequence.viterbi` that numba has compiled."""
    from librosa import sequence

    lowest = np.log(np.finfo(float).tiny)  # what librosa takes the logarithm of zero to be
    order = "F" if len(chain.stage) > 20 else "C"  # whichever is faster
    step = np.asarray(np.maximum(chain.step, lowest), order=order)
    start = np.maximum(chain.start, lowest)

    def run() -> tuple[float, np.ndarray]:
        states, score = sequence._viterbi(evidence, step, start)
        return score.item(), states

    return run


def librosa_public(chain: Chain, night: np.ndarray) -> Runner:
    """`librosa.sequence.viterbi` wants rows that sum to one: the rest leads to a state that never fits."""
    from librosa import sequence

    n = len(chain.stage)
    step = np.zeros((n + 1, n + 1))
    step[:n, :n] = np.exp(chain.step)
    step[:, n] = 1.0 - step.sum(axis=1)
    start = np.append(np.exp(chain.start), 0.0)
    start /= start.sum()

    def run() -> tuple[float, np.ndarray]:
        prob = np.zeros((n + 1, len(night)))
        prob[:n] = night.T[chain.stage]
        states, score = sequence.viterbi(prob, step, p_init=start, return_logp=True)
        return score.item() + np.log(np.count_nonzero(start)), states

    return run


def pytorch_crf(chain: Chain, nights: Sequence[np.ndarray], *, plain: bool = False) -> Runner:
    """`CRF.decode` on evidence of shape (epochs, nights, states); it gives no score.

    Plain is the call of its documentation. At its fastest it keeps no gradients and is given the mask.
    """
    import torch
    from torchcrf import CRF

    torch.set_num_threads(1)
    crf = CRF(len(chain.stage)).double()
    with torch.no_grad():
        crf.start_transitions.copy_(torch.from_numpy(chain.start))
        crf.transitions.copy_(torch.from_numpy(chain.step))
        crf.end_transitions.zero_()
    emissions = torch.from_numpy(np.stack(nights, axis=1))
    mask = torch.ones(emissions.shape[:2], dtype=torch.bool)

    def run() -> list[list[int]]:
        with torch.inference_mode():
            return crf.decode(emissions, mask)

    return (lambda: crf.decode(emissions)) if plain else run


def assert_same_optimum(chain: Chain, evidence: np.ndarray, ours: sg.Decoding, peers: dict[str, Any]) -> None:
    """Every peer's states are our labels, and score what we say they score."""
    for name, found in peers.items():
        score, states = found if isinstance(found, tuple) else (None, found[0])
        states = np.asarray(states, dtype=np.intp)
        assert np.array_equal(chain.stage[states], ours.hypnogram.labels), f"{name}: another path"
        for claim in (chain.score(evidence, states), ours.score if score is None else score):
            assert np.isclose(claim, ours.score, rtol=1e-9, atol=0), f"{name}: scores {claim}"


def one_night(n_epochs: int, minimum: Sequence[int]) -> list[Row]:
    profile = profile_of(minimum)
    night = night_of(n_epochs, len(minimum))
    own = {"kernel": path_kernel(profile, [night]), "sg.decode": lambda: sg.decode(night, profile)}
    ours = own["sg.decode"]()
    ((labels, score, *_),) = own["kernel"]()
    assert np.array_equal(labels, ours.hypnogram.labels)
    assert np.isclose(score, ours.score, rtol=1e-12)
    assert ours.changed.any(), "the night needs no decoding"

    quick, slow = {}, {}
    for chain in (chain_of(profile, PUBLISHED_AGES), chain_of(profile)):
        evidence = chain.evidence(night)
        n = f"{len(chain.stage)} states"
        some = {
            f"hmmlearn, {n}": hmmlearn_core(chain, lambda held=evidence: held),
            f"librosa, {n}": librosa_core(chain, evidence),
            f"hmmlearn from the array, {n}": hmmlearn_core(chain, lambda c=chain: c.evidence(night)),
            f"librosa.sequence.viterbi from the array, {n}": librosa_public(chain, night),
        }
        more = {
            f"pytorch-crf as documented, {n}": pytorch_crf(chain, [evidence], plain=True),
            f"pytorch-crf at its fastest, {n}": pytorch_crf(chain, [evidence]),
            f"dense NumPy, {n}": lambda c=chain, held=evidence: dense_numpy(c, held),
        }
        assert_same_optimum(chain, evidence, ours, {name: run() for name, run in (some | more).items()})
        quick |= some
        slow |= more

    best = race(slow, rounds=8) | race({**own, **quick}, rounds=20)
    shape = f"T = {n_epochs:,}, K = {len(minimum)}"
    rows = [Row(f"{shape}: our {name}", nanoseconds(best[name], n_epochs), "ns/epoch") for name in own]
    for name in (*quick, *slow):
        against = "sg.decode" if "from the array" in name else "kernel"
        unit = f"× our {against} ({nanoseconds(best[name], n_epochs):,.0f} ns/epoch)"
        goal = next((goal for start, goal in GOALS.items() if name.startswith(start)), None)
        rows.append(Row(f"{shape}: {name}", best[name] / best[against], unit, goal, "more"))
    return rows


def many_nights(n_nights: int = 200) -> list[Row]:
    """pytorch-crf at its best: many nights share one batch, so that its loop over epochs is paid once."""
    n_epochs, minimum = HUMAN["n_epochs"], HUMAN["minimum"]
    profile = profile_of(minimum)
    nights = [night_of(n_epochs, len(minimum), seed) for seed in range(n_nights)]
    chain = chain_of(profile)
    evidence = [chain.evidence(night) for night in nights]
    runners = {
        "kernel": path_kernel(profile, nights),
        "sg.decode": lambda: sg.decode(nights, profile),
        "pytorch-crf": pytorch_crf(chain, evidence),
    }
    for i, (states, ours) in enumerate(zip(runners["pytorch-crf"](), runners["sg.decode"](), strict=True)):
        assert_same_optimum(chain, evidence[i], ours, {"pytorch-crf": [states]})
    best = race(runners, rounds=5)
    cost = f"({nanoseconds(best['pytorch-crf'], n_nights * n_epochs):,.0f} ns/epoch)"
    shape = f"{n_nights} nights × {n_epochs:,} × {len(minimum)}"
    return [
        Row(
            f"{shape}: pytorch-crf in one batch, {len(chain.stage)} states",
            best["pytorch-crf"] / best[name],
            f"× our {name} {cost}",
            better="more",
        )
        for name in ("kernel", "sg.decode")
    ]


def main() -> None:
    warnings.simplefilter("ignore")  # torch has something to say about pytorch-crf's mask
    rows = [row for size in (MOUSE, HUMAN) for row in one_night(size["n_epochs"], size["minimum"])]
    report("peers", "Compared with other decoders, same optimum", [*rows, *many_nights()])


if __name__ == "__main__":
    main()
