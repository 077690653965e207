"""Sums over all paths and draws from them in plain NumPy: the twin of the compiled ones.

Scores are logarithms throughout, so that nothing can underflow: `certified` is always true here. A bout that
is too young to end has no choice, so its score is that of its beginning plus the evidence since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Indices, Ints32, Labels, Mask

Streams = npt.NDArray[np.uint64]  # (n_pieces, n_draws)


def uniforms(seed: int) -> Iterator[float]:
    """Yield numbers in [0, 1): SplitMix64, 53 bits each."""
    word, state = (1 << 64) - 1, int(seed)
    while True:
        state = (state + 0x9E3779B97F4A7C15) & word
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        yield ((z ^ (z >> 31)) >> 11) * 2.0**-53


def each(rows: npt.NDArray[Any], pieces: Sequence[Floats]) -> npt.NDArray[Any]:
    """Return a row for each piece; a single row is repeated for all."""
    return rows if len(rows) == len(pieces) else np.repeat(rows, len(pieces), axis=0)


class Bouts(NamedTuple):
    """Log-evidence of a piece, and its rules in nats."""

    evidence: Floats  # (n_epochs, n_stages)
    stay: Floats  # (n_stages,)
    change: Floats  # (n_stages, n_stages), -inf on the diagonal
    minimum: Ints32  # (n_stages,)
    censored: bool

    @classmethod
    def of_pieces(
        cls,
        pieces: Sequence[Floats],
        products: bool,
        clip: float,
        table: Ints32,
        weight: Floats,
        stay: Floats,
        change: Floats,
        minimum: Ints32,
        censored: bool,
    ) -> Iterator[Bouts]:
        """Yield each piece with its rules, as logarithms."""
        n_stages, table, weight = len(minimum), each(table, pieces), each(weight, pieces)
        for i, piece in enumerate(pieces):
            evidence, log_stay = piece, stay[table[i]]
            log_change = change[table[i]].reshape(n_stages, n_stages).copy()
            if products:
                rows = piece / piece.sum(axis=1, keepdims=True)
                evidence = np.log(np.maximum(rows, clip)) + np.log(weight[i])
                log_stay, log_change = np.log(log_stay), np.log(log_change)
            np.fill_diagonal(log_change, -np.inf)
            yield cls(evidence, log_stay, log_change, minimum, censored)

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


def smooth(pieces: Sequence[Floats], *arguments: Any) -> tuple[Floats, Floats, Mask]:
    """Return log-sums per piece and marginals per epoch, for minimum bouts and a transition matrix."""
    *rules, _ = arguments
    totals, marginals = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for b in Bouts.of_pieces(pieces, *rules):
            forward = _forward(b)
            after, begun = _backward(b)
            chances = np.exp(forward.mature + after - forward.total)  # (n_epochs, n_stages)
            beginning = np.exp(forward.begin + begun - forward.total)  # (n_epochs, n_stages)
            n_epochs = len(b.evidence)
            for s, m in enumerate(b.minimum):
                for since in range(min(int(m) - 1, n_epochs)):  # too young to end
                    chances[since:, s] += beginning[: n_epochs - since, s]
            totals.append(forward.total)
            marginals.append(chances / chances.sum(axis=1, keepdims=True))
    return np.array(totals), np.concatenate(marginals), np.ones(len(pieces), dtype=bool)


def draw(pieces: Sequence[Floats], *arguments: Any) -> tuple[Labels, Floats, Mask]:
    """Draw paths; return labels and log-sums. Arguments are those of `smooth`, then streams and threads."""
    *rules, streams, _ = arguments
    labels, totals = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for b, seeds in zip(Bouts.of_pieces(pieces, *rules), streams, strict=True):
            forward = _forward(b)
            totals.append(forward.total)
            if forward.total == -np.inf:
                labels.append(np.zeros(len(seeds) * len(b.evidence), dtype=np.int8))
                continue
            # (n_epochs - 1, n_stages) chance that a mature bout was there an epoch before
            stays = np.exp(forward.mature[:-1] + b.stay + b.evidence[1:] - forward.mature[1:])
            labels += [_draw_bouts(b, forward, stays, uniforms(seed)) for seed in seeds.tolist()]
    return np.concatenate(labels), np.array(totals), np.ones(len(pieces), dtype=bool)


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


def draw_each(pieces: Sequence[Floats], streams: Streams, n_threads: int = 1) -> Labels:
    """Draw every epoch by itself, from likelihoods: labels (n_draws, n_epochs) of each piece, flat."""
    labels = []
    for piece, seeds in zip(pieces, streams, strict=True):
        reached = np.cumsum(piece, axis=1)  # (n_epochs, n_stages)
        reached /= reached[:, -1:]
        for seed in seeds.tolist():
            aims = np.fromiter(uniforms(seed), dtype=np.float64, count=len(piece))
            labels.append((aims[:, None] >= reached[:, :-1]).sum(axis=1).astype(np.int8))
    return np.concatenate(labels)


class Automaton(NamedTuple):
    """The arrays of an automaton; weights have a row per table."""

    stage: Ints32  # (n_states,)
    first: Ints32  # (n_states + 1,)
    source: Ints32  # (n_edges,)
    weight: Floats  # (n_tables, n_edges)
    initial: Floats  # (n_tables, n_states)
    final_weight: Floats  # (n_tables, n_states)

    @property
    def target(self) -> Indices:
        """The state that each edge leads to, (n_edges,)."""
        return np.repeat(np.arange(len(self.stage)), np.diff(self.first))

    def forward(self, evidence: Floats, row: int) -> Floats:
        """Return the log-sum over all paths that lead to each state in each epoch."""
        alpha, target = np.full(evidence.shape, -np.inf), self.target  # (n_epochs, n_states), (n_edges,)
        alpha[0] = self.initial[row] + evidence[0]
        for t in range(1, len(evidence)):
            np.logaddexp.at(alpha[t], target, alpha[t - 1, self.source] + self.weight[row])
            alpha[t] += evidence[t]
        return alpha


def forward_backward(
    pieces: Sequence[Floats], table: Ints32, *arguments: Any
) -> tuple[Floats, Floats, Floats]:
    """Sum over all paths: log-partition per piece, stage marginals per epoch, expected uses of each edge."""
    *rules, want_edges, _ = arguments
    a = Automaton(*rules)
    source, target = a.source, a.target
    log_partitions, marginals = [], []
    counts = np.zeros((len(pieces), len(source)))
    for i, (piece, row) in enumerate(zip(pieces, each(table, pieces), strict=True)):
        evidence, edge_weight = piece[:, a.stage], a.weight[row]  # (n_epochs, n_states), (n_edges,)
        alpha = a.forward(evidence, row)
        beta = np.full(evidence.shape, -np.inf)  # (n_epochs, n_states)
        beta[-1] = a.final_weight[row]
        for t in range(len(evidence) - 1, 0, -1):
            np.logaddexp.at(beta[t - 1], source, edge_weight + (evidence[t] + beta[t])[target])
        total = np.logaddexp.reduce(alpha[-1] + beta[-1])
        log_partitions.append(total)
        # (n_epochs, n_states)
        states = np.exp(alpha + beta - total) if total > -np.inf else np.full(evidence.shape, np.nan)
        of_stages = [states[:, a.stage == s].sum(axis=1) for s in range(piece.shape[1])]
        marginals.append(np.stack(of_stages, axis=1))
        if want_edges and total > -np.inf:
            for t in range(1, len(evidence)):
                following = (evidence[t] + beta[t])[target]  # (n_edges,)
                counts[i] += np.exp(alpha[t - 1, source] + edge_weight + following - total)
    return np.array(log_partitions), np.concatenate(marginals), counts


def smooth_automaton(
    pieces: Sequence[Floats], products: bool, table: Ints32, *arguments: Any
) -> tuple[Floats, Floats, Mask]:
    """Return log-sums per piece and marginals per epoch; `products` matters to the compiled twin only."""
    *rules, n_threads = arguments
    totals, marginals, _ = forward_backward(pieces, table, *rules, False, n_threads)
    marginals /= marginals.sum(axis=1, keepdims=True)
    return totals, marginals, np.ones(len(pieces), dtype=bool)


def draw_automaton(
    pieces: Sequence[Floats], products: bool, table: Ints32, *arguments: Any
) -> tuple[Labels, Floats, Mask]:
    """Draw paths; return labels and log-sums. Arguments: `smooth_automaton`'s, then streams and threads."""
    *rules, streams, _ = arguments
    a = Automaton(*rules)
    labels, totals = [], []
    for piece, row, seeds in zip(pieces, each(table, pieces), streams, strict=True):
        random = [uniforms(seed) for seed in seeds.tolist()]
        alpha = a.forward(piece[:, a.stage], row)  # (n_epochs, n_states)
        ending = alpha[-1] + a.final_weight[row]  # (n_states,)
        totals.append(np.logaddexp.reduce(ending))
        drawn = np.zeros((len(random), len(piece)), dtype=np.int8)
        labels.append(drawn.reshape(-1))
        if totals[-1] == -np.inf:
            continue
        chances = np.exp(ending - totals[-1])
        states = [_pick(chances, next(numbers)) for numbers in random]
        for t in range(len(piece) - 1, 0, -1):
            drawn[:, t] = a.stage[states]
            states = _draw_sources(a, row, alpha[t - 1], states, random)
        drawn[:, 0] = a.stage[states]
    return np.concatenate(labels), np.array(totals), np.ones(len(pieces), dtype=bool)


def _draw_sources(
    a: Automaton, row: int, alpha: Floats, states: list[int], random: Sequence[Iterator[float]]
) -> list[int]:
    """Draw the state before each state; a state with one incoming edge takes no random number."""
    chances: dict[int, Floats] = {}
    for state in set(states):
        edges = slice(a.first[state], a.first[state + 1])
        ways = alpha[a.source[edges]] + a.weight[row, edges]  # (edges into the state,)
        chances[state] = np.exp(ways - np.logaddexp.reduce(ways))
    sources = []
    for state, numbers in zip(states, random, strict=True):
        edge = 0 if len(chances[state]) == 1 else _pick(chances[state], next(numbers))
        sources.append(int(a.source[a.first[state] + edge]))
    return sources
