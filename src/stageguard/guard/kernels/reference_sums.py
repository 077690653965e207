"""Sums over all paths and draws from them in plain NumPy: the twin of the compiled ones.

Scores are logarithms throughout, so that nothing underflows that was not 0 as a product before. A bout that
is too young to end has no choice, so its score is that of its beginning plus the evidence since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Indices, Ints32, Labels

Streams = npt.NDArray[np.uint64]  # (n_draws,)


def uniforms(seed: int) -> Iterator[float]:
    """Yield numbers in [0, 1): SplitMix64, 53 bits each."""
    word, state = (1 << 64) - 1, int(seed)
    while True:
        state = (state + 0x9E3779B97F4A7C15) & word
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        yield ((z ^ (z >> 31)) >> 11) * 2.0**-53


class Bouts(NamedTuple):
    """Log-evidence of a stretch, and its rules in nats."""

    evidence: Floats  # (n_epochs, n_stages)
    stay: Floats  # (n_stages,)
    change: Floats  # (n_stages, n_stages), -inf on the diagonal
    minimum: Ints32  # (n_stages,)
    censored: bool

    @classmethod
    def of(
        cls,
        rows: Floats,
        products: bool,
        clip: float,
        weight: Floats,
        stay: Floats,
        change: Floats,
        minimum: Ints32,
        censored: bool,
        clock: Floats | None = None,
    ) -> Bouts:
        """Return a stretch with its rules as logarithms; tables have one row."""
        n_stages = len(minimum)
        evidence, log_stay, log_change = rows, stay[0], change[0].reshape(n_stages, n_stages).copy()
        if products:
            shares = rows / rows.sum(axis=1, keepdims=True)
            evidence = np.log(np.maximum(shares, clip)) + np.log(weight)
            log_stay, log_change = np.log(log_stay), np.log(log_change)
            if clock is not None:
                evidence[: len(clock)] += np.log(clock[: len(evidence)])
        np.fill_diagonal(log_change, -np.inf)
        return cls(evidence, log_stay, log_change, minimum, censored)

    def stretch(self, begin: int, end: int, s: int) -> float:
        """Return the score of a bout of stage s over [begin, end): its evidence and stays."""
        stays = (end - begin - 1) * self.stay[s] if end - begin > 1 else 0.0
        return float(self.evidence[begin:end, s].sum() + stays)


class Forward(NamedTuple):
    """Log-sums over all paths that lead to a point, in nats."""

    mature: Floats  # (n_epochs, n_stages) bouts that have reached their minimum, with the epoch's evidence
    begin: Floats  # (n_epochs, n_stages) bouts that begin here, without its evidence
    last: list[tuple[int, int, float]]  # (stage, age, score) at the end; age 0 is mature
    total: float


def _forward(b: Bouts) -> Forward:
    n_epochs, n_stages = b.evidence.shape
    mature = np.full((n_epochs, n_stages), -np.inf)
    begin = np.full((n_epochs, n_stages), -np.inf)
    at_once = b.minimum == 1  # (n_stages,)
    begin[0] = np.where(at_once | (not b.censored), 0.0, -np.inf)
    mature[0] = np.where(at_once | b.censored, b.evidence[0], -np.inf)
    for t in range(1, n_epochs):
        begin[t] = np.logaddexp.reduce(mature[t - 1][:, None] + b.change, axis=0)
        mature[t] = mature[t - 1] + b.stay + b.evidence[t]
        for s, m in enumerate(b.minimum):
            if t - m + 1 >= 0:
                fresh = begin[t - m + 1, s] + b.stretch(t - m + 1, t + 1, s)
                mature[t, s] = np.logaddexp(mature[t, s], fresh)
    last = []
    for s, m in enumerate(b.minimum):
        last.append((s, 0, float(mature[-1, s])))
        last += [
            (s, age, float(begin[-age, s]) + b.stretch(n_epochs - age, n_epochs, s))
            for age in range(min(int(m) - 1, n_epochs), 0, -1)  # the recording's end may cut the last bout
        ]
    return Forward(mature, begin, last, float(np.logaddexp.reduce([score for _, _, score in last])))


def _backward(b: Bouts) -> tuple[Floats, Floats]:
    """Return log-sums over what follows a mature bout's epoch, and over a beginning bout and what follows."""
    n_epochs, n_stages = b.evidence.shape
    after = np.zeros((n_epochs, n_stages))
    begun = np.empty((n_epochs, n_stages))
    for t in range(n_epochs - 1, -1, -1):
        for s, m in enumerate(b.minimum):
            end = min(t + int(m), n_epochs)
            begun[t, s] = b.stretch(t, end, s) + (after[end - 1, s] if end == t + m else 0.0)
        if t > 0:
            leaving = np.logaddexp.reduce(b.change + begun[t], axis=1)  # (n_stages,)
            after[t - 1] = np.logaddexp(b.evidence[t] + b.stay + after[t], leaving)
    return after, begun


def smooth(
    rows: Floats,
    clip: float,
    weight: Floats,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    clock: Floats | None = None,
) -> tuple[Floats, float, bool]:
    """Return marginals (n_epochs, n_stages) and the log-sum, for minimum bouts and a transition matrix."""
    with np.errstate(divide="ignore", invalid="ignore"):
        b = Bouts.of(rows, True, clip, weight, stay, change, minimum, censored, clock)
        forward = _forward(b)
        after, begun = _backward(b)
        chances = np.exp(forward.mature + after - forward.total)  # (n_epochs, n_stages)
        beginning = np.exp(forward.begin + begun - forward.total)  # (n_epochs, n_stages)
        n_epochs = len(rows)
        for s, m in enumerate(minimum):
            for since in range(min(int(m) - 1, n_epochs)):  # too young to end
                chances[since:, s] += beginning[: n_epochs - since, s]
        # without a path, a switch may have been too costly for a double
        return chances / chances.sum(axis=1, keepdims=True), forward.total, forward.total > -np.inf


def draw(
    rows: Floats,
    clip: float,
    weight: Floats,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    streams: Streams,
    n_threads: int,
    clock: Floats | None = None,
) -> tuple[Labels, float, bool]:
    """Draw paths; return labels (n_draws, n_epochs) and the log-sum."""
    drawn = np.zeros((len(streams), len(rows)), dtype=np.int8)
    with np.errstate(divide="ignore", invalid="ignore"):
        b = Bouts.of(rows, True, clip, weight, stay, change, minimum, censored, clock)
        forward = _forward(b)
        if forward.total > -np.inf:
            # (n_epochs - 1, n_stages) chance that a mature bout was there an epoch before
            stays = np.exp(forward.mature[:-1] + b.stay + b.evidence[1:] - forward.mature[1:])
            for i, seed in enumerate(streams.tolist()):
                drawn[i] = _draw_bouts(b, forward, stays, uniforms(seed))
    return drawn, forward.total, forward.total > -np.inf


def draw_tables(
    rows: Floats,
    weight: Floats,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    streams: Streams,
    n_threads: int,
) -> tuple[Labels, list[int]]:
    """Draw one path per stream, each with factors of the stages and a table of its own; and those lost."""
    found = [
        draw(
            rows, 0.0, weight[i], stay[i : i + 1], change[i : i + 1], minimum, censored, streams[i : i + 1], 1
        )
        for i in range(len(streams))
    ]
    lost = [i for i, (_, _, is_certain) in enumerate(found) if not is_certain]
    return np.concatenate([labels for labels, _, _ in found]), lost


def _draw_bouts(b: Bouts, forward: Forward, stays: Floats, random: Iterator[float]) -> Labels:
    """Draw one path from its end to its start, bout by bout."""
    labels = np.empty(len(b.evidence), dtype=np.int8)
    chances = np.exp(np.array([score for _, _, score in forward.last]) - forward.total)  # (n_last,)
    s, age, _ = forward.last[_pick(chances, next(random))]
    end = len(labels)  # of the bout
    while True:
        start = end - age
        if age == 0:
            # One random number decides how far back a mature bout reaches: on while the chance is above it.
            aim, chance, t = next(random), 1.0, end - 1
            while t > 0:
                chance *= stays[t - 1, s]
                if not aim < chance:
                    break
                t -= 1
            start = t - int(b.minimum[s]) + 1 if t > 0 else 0
        labels[start:end] = s
        if start == 0:
            return labels
        ways = forward.mature[start - 1] + b.change[:, s]  # (n_stages,)
        s, age, end = _pick(np.exp(ways - np.logaddexp.reduce(ways)), next(random)), 0, start


def _pick(chances: Floats, aim: float) -> int:
    """Return the first index at which the cumulative chances exceed the aim; never one of chance 0."""
    reached = np.cumsum(chances)
    index = int(np.searchsorted(reached, aim, side="right"))
    return index if index < len(chances) else int(np.flatnonzero(chances)[-1])


def draw_each(rows: Floats, streams: Streams, n_threads: int) -> Labels:
    """Draw every epoch by itself, from likelihoods: labels (n_draws, n_epochs)."""
    reached = np.cumsum(rows, axis=1)  # (n_epochs, n_stages)
    reached /= reached[:, -1:]
    drawn = np.empty((len(streams), len(rows)), dtype=np.int8)
    for i, seed in enumerate(streams.tolist()):
        aims = np.fromiter(uniforms(seed), dtype=np.float64, count=len(rows))
        drawn[i] = (aims[:, None] >= reached[:, :-1]).sum(axis=1)
    return drawn


class Automaton(NamedTuple):
    """The arrays of an automaton."""

    stage: Ints32  # (n_states,)
    first: Ints32  # (n_states + 1,)
    source: Ints32  # (n_edges,)
    weight: Floats  # (n_edges,)
    initial: Floats  # (n_states,)
    final_weight: Floats  # (n_states,)

    @property
    def target(self) -> Indices:
        """The state that each edge leads to, (n_edges,)."""
        return np.repeat(np.arange(len(self.stage)), np.diff(self.first))

    def forward(self, evidence: Floats) -> Floats:
        """Return the log-sum over all paths that lead to each state in each epoch."""
        alpha, target = np.full(evidence.shape, -np.inf), self.target  # (n_epochs, n_states), (n_edges,)
        alpha[0] = self.initial + evidence[0]
        for t in range(1, len(evidence)):
            np.logaddexp.at(alpha[t], target, alpha[t - 1, self.source] + self.weight)
            alpha[t] += evidence[t]
        return alpha

    def sums(self, rows: Floats, counts: Floats | None = None) -> tuple[Floats, float]:
        """Return stage marginals and the log-sum of a stretch; add the expected uses of edges to `counts`."""
        source, target = self.source, self.target
        evidence = rows[:, self.stage]  # (n_epochs, n_states)
        alpha = self.forward(evidence)
        beta = np.full(evidence.shape, -np.inf)  # (n_epochs, n_states)
        beta[-1] = self.final_weight
        for t in range(len(evidence) - 1, 0, -1):
            np.logaddexp.at(beta[t - 1], source, self.weight + (evidence[t] + beta[t])[target])
        total = float(np.logaddexp.reduce(alpha[-1] + beta[-1]))
        # (n_epochs, n_states)
        states = np.exp(alpha + beta - total) if total > -np.inf else np.full(evidence.shape, np.nan)
        marginals = np.stack([states[:, self.stage == s].sum(axis=1) for s in range(rows.shape[1])], axis=1)
        if counts is not None and total > -np.inf:
            for t in range(1, len(evidence)):
                following = (evidence[t] + beta[t])[target]  # (n_edges,)
                counts += np.exp(alpha[t - 1, source] + self.weight + following - total)
        return marginals, total


def forward_backward(
    pieces: Sequence[Floats],
    table: Ints32,
    stage: Ints32,
    first: Ints32,
    source: Ints32,
    weight: Floats,
    initial: Floats,
    final_weight: Floats,
    want_edges: bool,
    n_threads: int,
) -> tuple[Floats, Floats, Floats]:
    """Sum over the paths of several pieces: log-sums, stage marginals, expected uses of each edge."""
    log_sums, marginals = [], []
    counts = np.zeros((len(pieces), len(source)))
    for piece, row, own in zip(pieces, table.tolist(), counts, strict=True):
        a = Automaton(stage, first, source, weight[row], initial[row], final_weight[row])
        found, total = a.sums(piece, own if want_edges else None)
        log_sums.append(total)
        marginals.append(found)
    return np.array(log_sums), np.concatenate(marginals), counts


def smooth_automaton(
    rows: Floats,
    products: bool,
    stage: Ints32,
    first: Ints32,
    source: Ints32,
    weight: Floats,
    initial: Floats,
    final_weight: Floats,
) -> tuple[Floats, float, bool]:
    """Return marginals and the log-sum of log-evidence; `products` matters to the compiled twin only."""
    marginals, total = Automaton(stage, first, source, weight, initial, final_weight).sums(rows)
    marginals /= marginals.sum(axis=1, keepdims=True)
    return marginals, total, True


def draw_automaton(
    rows: Floats,
    products: bool,
    stage: Ints32,
    first: Ints32,
    source: Ints32,
    weight: Floats,
    initial: Floats,
    final_weight: Floats,
    streams: Streams,
    n_threads: int,
) -> tuple[Labels, float, bool]:
    """Draw paths of log-evidence; return labels (n_draws, n_epochs) and the log-sum."""
    a = Automaton(stage, first, source, weight, initial, final_weight)
    random = [uniforms(seed) for seed in streams.tolist()]
    alpha = a.forward(rows[:, stage])  # (n_epochs, n_states)
    ending = alpha[-1] + final_weight  # (n_states,)
    total = float(np.logaddexp.reduce(ending))
    drawn = np.zeros((len(random), len(rows)), dtype=np.int8)
    if total > -np.inf:
        chances = np.exp(ending - total)
        states = [_pick(chances, next(numbers)) for numbers in random]
        for t in range(len(rows) - 1, 0, -1):
            drawn[:, t] = stage[states]
            states = _draw_sources(a, alpha[t - 1], states, random)
        drawn[:, 0] = stage[states]
    return drawn, total, True


def _draw_sources(
    a: Automaton, alpha: Floats, states: list[int], random: Sequence[Iterator[float]]
) -> list[int]:
    """Draw the state before each state; a state with one incoming edge takes no random number."""
    chances: dict[int, Floats] = {}
    for state in set(states):
        edges = slice(a.first[state], a.first[state + 1])
        ways = alpha[a.source[edges]] + a.weight[edges]  # (edges into the state,)
        chances[state] = np.exp(ways - np.logaddexp.reduce(ways))
    sources = []
    for state, numbers in zip(states, random, strict=True):
        edge = 0 if len(chances[state]) == 1 else _pick(chances[state], next(numbers))
        sources.append(int(a.source[a.first[state] + edge]))
    return sources
