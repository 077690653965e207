"""Sums over all paths, draws and the stream: their speed, beside hmmlearn's forward and backward pass.

hmmlearn gets the chain that minimum bouts amount to (see bench_peers.py), its compiled scaled passes,
likelihoods already gathered per state, and the division into marginals. Both sides are asserted to find the
same marginals and log-sum.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _common import (
    FLIP_FLOP,
    HUMAN,
    MOUSE,
    Row,
    automaton_tables,
    nanoseconds,
    night_of,
    profile_of,
    race,
    report,
)
from bench_peers import PUBLISHED_AGES, Chain, chain_of

import stageguard as sg
from stageguard.arrays import CLIP
from stageguard.guard import kernels as kernels_module
from stageguard.guard.posterior import sample_like
from stageguard.guard.solver import solver_for

N_DRAWS = 200
N_PUSHES = 5_000
PUSH_GOAL = 1_000.0  # µs, a 4,000th of the shortest epoch: a stream waits for its epochs, not for us


def smooth_kernel(profile: sg.Profile, night: np.ndarray) -> Callable[[], tuple[Any, ...]]:
    """The compiled sums alone on probabilities, one thread: (marginals, log-sum, certified)."""
    rules = _rules(profile)
    return lambda: kernels_module.active.smooth(night, *rules)


def draw_kernel(profile: sg.Profile, night: np.ndarray) -> Callable[[], tuple[Any, ...]]:
    """The compiled draws alone, one thread, the sums before them included: (labels, log-sum, certified)."""
    rules = _rules(profile)
    streams = np.random.SeedSequence(0).generate_state(N_DRAWS, np.uint64)
    return lambda: kernels_module.active.draw(night, *rules, streams, 1)


def _rules(profile: sg.Profile) -> tuple[Any, ...]:
    solver = solver_for(profile, profile.epoch_seconds)
    assert solver.sums_bouts
    return CLIP, np.ones(solver.n_stages), *solver.bouts((1.0,), products=True)


def automaton_kernels(profile: sg.Profile, night: np.ndarray) -> dict[str, Callable[[], object]]:
    """The generic sums and draws on log-evidence, one thread."""
    tables, evidence = automaton_tables(profile), np.log(night)
    streams = np.random.SeedSequence(0).generate_state(N_DRAWS, np.uint64)
    kernels = kernels_module.active
    return {
        "smooth": lambda: kernels.smooth_automaton(evidence, True, *tables),
        "draw": lambda: kernels.draw_automaton(evidence, True, *tables, streams, 1),
    }


def hmmlearn_core(chain: Chain, likelihood: np.ndarray) -> Callable[[], tuple[float, np.ndarray]]:
    """The compiled functions beneath `score_samples`: no checks, and rows need not sum to one."""
    from hmmlearn import _hmmc

    start, step = np.exp(chain.start), np.exp(chain.step)

    def run() -> tuple[float, np.ndarray]:
        log_sum, forward, scaling = _hmmc.forward_scaling(start, step, likelihood)
        marginals = forward * _hmmc.backward_scaling(start, step, likelihood, scaling)
        marginals /= marginals.sum(axis=1, keepdims=True)
        return log_sum, marginals

    return run


def assert_same_sums(chain: Chain, found: sg.Posterior, peer: tuple[float, np.ndarray]) -> None:
    log_sum, states = peer
    n_stages = found.probabilities.shape[1]
    marginals = np.stack([states[:, chain.stage == s].sum(axis=1) for s in range(n_stages)], axis=1)
    assert np.allclose(marginals, found.probabilities, rtol=0, atol=1e-9)
    assert np.isclose(log_sum, found.log_evidence, rtol=1e-9)


def one_night(n_epochs: int, minimum: Sequence[int]) -> list[Row]:
    """Kernels and whole calls on one night, and hmmlearn on its two chains, in one race."""
    k, shown = len(minimum), ",".join(map(str, minimum))
    profile, plain = profile_of(minimum), profile_of((1,) * k)
    night = night_of(n_epochs, k)
    found, result = sg.posterior(night, profile), sg.decode(night, profile)
    runners: dict[str, Callable[[], object]] = {
        f"forward–backward kernel, minimum bouts {shown}": smooth_kernel(profile, night),
        "forward–backward kernel, minimum bouts none": smooth_kernel(plain, night),
        "sg.posterior": lambda: sg.posterior(night, profile),
    }
    draws = {
        f"draw kernel, minimum bouts {shown}": draw_kernel(profile, night),
        "draw kernel, minimum bouts none": draw_kernel(plain, night),
        f"{N_DRAWS} draws of a decoded night": lambda: sample_like(result, n=N_DRAWS),
    }
    peers = {}
    for chain in (chain_of(profile, PUBLISHED_AGES), chain_of(profile)):
        peer = hmmlearn_core(chain, np.exp(chain.evidence(night)))
        assert_same_sums(chain, found, peer())
        peers[f"hmmlearn, {len(chain.stage)} states"] = peer
    best = race({**runners, **draws, **peers}, rounds=15)
    size = f"T = {n_epochs:,}, K = {k}:"
    rows = []
    for name in runners:
        goal = 30.0 if k == 3 and "kernel" in name else None
        rows.append(Row(f"{size} {name}", nanoseconds(best[name], n_epochs), "ns/epoch", goal))
    for name in draws:
        goal = 15.0 if "kernel" in name else None
        per_epoch = nanoseconds(best[name], n_epochs * N_DRAWS)
        rows.append(Row(f"{size} {name}", per_epoch, "ns/epoch and draw", goal))
    kernel = best[f"forward–backward kernel, minimum bouts {shown}"]
    for name in peers:
        unit = f"× our kernel ({nanoseconds(best[name], n_epochs):,.0f} ns/epoch)"
        rows.append(Row(f"{size} {name}", best[name] / kernel, unit, better="more"))
    return rows


def exact_flip_flop() -> list[Row]:
    """The generic kernels on the automaton of the exact flip-flop window."""
    rows = []
    for size in (MOUSE, HUMAN):
        n_epochs, minimum = size["n_epochs"], size["minimum"]
        profile = profile_of(minimum, flip_flop=FLIP_FLOP)
        best = race(automaton_kernels(profile, night_of(n_epochs, len(minimum))), rounds=5)
        n_states = len(automaton_tables(profile)[0])
        what = f"exact flip-flop, T = {n_epochs:,}, K = {len(minimum)} ({n_states} states)"
        rows.append(Row(f"{what}: forward–backward", nanoseconds(best["smooth"], n_epochs), "ns/epoch"))
        per_epoch = nanoseconds(best["draw"], n_epochs * N_DRAWS)
        rows.append(Row(f"{what}: draws", per_epoch, "ns/epoch and draw"))
    return rows


def pushes(decoder: sg.StreamingDecoder, rows: Sequence[Any]) -> Callable[[], None]:
    def run() -> None:
        push = decoder.push
        for row in rows:
            push(row)

    return run


def stream() -> list[Row]:
    """One `push` from Python, a loop over rows made beforehand."""
    runners = {}
    for size in (MOUSE, HUMAN):
        minimum = size["minimum"]
        night = night_of(N_PUSHES, len(minimum))
        bouts, flips = profile_of(minimum), profile_of(minimum, flip_flop=FLIP_FLOP)
        k = f"K = {len(minimum)}"
        arrays = list(night)
        runners[f"{k}, minimum bouts"] = pushes(sg.StreamingDecoder(bouts), arrays)
        runners[f"{k}, minimum bouts, lag 60 s"] = pushes(
            sg.StreamingDecoder(bouts, max_lag_seconds=60), arrays
        )
        runners[f"{k}, exact flip-flop"] = pushes(sg.StreamingDecoder(flips), arrays)
        runners[f"{k}, minimum bouts, rows are lists"] = pushes(sg.StreamingDecoder(bouts), night.tolist())
        runners[f"{k}, minimum bouts, rows are logits"] = pushes(
            sg.StreamingDecoder(bouts, logits=True), list(np.log(night))
        )
    arrays = list(night_of(N_PUSHES, 5))
    runners["human-psg-5, with its clock, lag 120 s"] = pushes(
        sg.StreamingDecoder("human-psg-5", max_lag_seconds=120), arrays
    )
    best = race(runners, rounds=10)
    return [Row(f"push, {name}", 1e6 * s / N_PUSHES, "µs", PUSH_GOAL) for name, s in best.items()]


def long_night() -> list[Row]:
    """A million epochs: nothing underflows, and the time is what it takes."""
    night, profile = np.tile(night_of(1_000, 3), (1_000, 1)), profile_of(MOUSE["minimum"])
    begin = time.process_time()
    found = sg.posterior(night, profile)
    seconds = time.process_time() - begin
    assert np.isfinite(found.log_evidence)
    assert np.allclose(found.probabilities.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.allclose(found.probabilities[500_000:501_000], found.probabilities[700_000:701_000], atol=1e-11)
    return [Row("T = 1,000,000, K = 3: sg.posterior", seconds, "s of CPU")]


def main() -> None:
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    rows = [row for size in (MOUSE, HUMAN) for row in one_night(size["n_epochs"], size["minimum"])]
    report(
        "posterior",
        "Sums over all paths, draws, and the stream",
        [*rows, *exact_flip_flop(), *long_night(), *stream()],
    )


if __name__ == "__main__":
    main()
