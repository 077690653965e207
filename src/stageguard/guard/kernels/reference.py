"""The kernels in plain NumPy: the readable specification, the fallback, and the oracle of the compiled ones.

Arguments, results and the rule for ties: see `stageguard.guard.kernels`. Scores are logarithms throughout, so
that in sums nothing underflows that was not 0 as a product before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import CLIP, ROUNDING, SUM_TOLERANCE, Floats, Indices, Ints, Ints32, Labels

Spans = Sequence[tuple[int, int]]
Streams = npt.NDArray[np.uint64]  # (n_draws,)

NAME = "reference"
LONGEST_MINIMUM = 1_000_000
MOST_STAGES = 127

_IGNORING = np.errstate(invalid="ignore", divide="ignore")  # -inf scores are the forbidden paths


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

    def sums(self, rows: Floats) -> tuple[Floats, float]:
        """Return stage marginals and the log-sum of a stretch."""
        evidence, target = rows[:, self.stage], self.target  # (n_epochs, n_states), (n_edges,)
        alpha = self.forward(evidence)
        beta = np.full(evidence.shape, -np.inf)  # (n_epochs, n_states)
        beta[-1] = self.final_weight
        for t in range(len(evidence) - 1, 0, -1):
            np.logaddexp.at(beta[t - 1], self.source, self.weight + (evidence[t] + beta[t])[target])
        total = float(np.logaddexp.reduce(alpha[-1] + beta[-1]))
        # (n_epochs, n_states)
        states = np.exp(alpha + beta - total) if total > -np.inf else np.full(evidence.shape, np.nan)
        marginals = [states[:, self.stage == s].sum(axis=1) for s in range(rows.shape[1])]
        return np.stack(marginals, axis=1), total


def argmax(rows: Floats, weight: Floats, clock: Floats | None = None) -> tuple[Labels, bool]:
    """Return the likeliest stage of each epoch, and whether some row is not a distribution."""
    weighted = rows * weight  # (n_epochs, n_stages)
    if clock is not None:
        weighted[: len(clock)] = rows[: len(clock)] * (weight * clock)
    is_good = np.all(np.abs(rows.sum(axis=1) - 1.0) <= SUM_TOLERANCE) and np.all(rows >= -ROUNDING)
    return np.argmax(weighted, axis=1).astype(np.int8), not is_good


def curve(
    rows: Floats,
    spans: Spans,
    products: bool,
    weight: Floats,
    stay: Floats,
    change: Floats,
    *ends: Any,
) -> tuple[list[int], list[list[int]]]:
    """Return stage changes (-1 without a path) and epochs in each stage at every transition weight."""
    switches, counts = [], []
    for i in range(len(stay)):
        labels, score = path(rows, spans, products, weight, stay[i : i + 1], change[i : i + 1], *ends)
        parts = [labels[first:end] for first, end in spans]
        n_changes = sum(int(np.count_nonzero(np.diff(part))) for part in parts)
        switches.append(n_changes if score > -np.inf else -1)
        counts.append(np.bincount(np.concatenate(parts), minlength=rows.shape[1]).tolist())
    return switches, counts


@_IGNORING
def path(
    rows: Floats,
    spans: Spans,
    products: bool,
    weight: Floats,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    clock: Floats | None = None,
) -> tuple[Labels, float]:
    """Return the labels of the best path, -1 outside of the spans, and its score."""
    labels, total = np.full(len(rows), -1, dtype=np.int8), 0.0
    for first, end in spans:
        timed = None if clock is None else clock[first:end]
        tables = (weight, stay, change, minimum, censored)
        bouts = Bouts.of(rows[first:end], products, CLIP, *tables, timed)
        labels[first:end], score = _viterbi_bouts(bouts)
        total += score
    return labels, total


def _viterbi_bouts(b: Bouts) -> tuple[Labels, float]:
    """Return the best path under minimum bouts and a transition matrix, and its score.

    In the symbols of docs/method.md, with E[t, s] = evidence, A = change, S = stay (both times the transition
    weight already) and m_s = minimum, the best night y maximises

        sum of E[t, y_t] + sum over changes of A[y_(t-1), y_t] + sum over stays of S[y_t]

    where every complete bout of stage s lasts at least m_s epochs. V[t, s] is the best path whose bout of s
    has reached m_s epochs at t and may end, Y[s, d] the best whose bout is d < m_s epochs old:

        B[t, s]    = max over r of V[t-1, r] + A[r, s]                    a bout of s begins
        V[t, s]    = E[t, s] + max(V[t-1, s] + S[s], F[t, s])             it goes on, or has just matured:
                     F[t, s] = B[t, s] if m_s = 1, else Y[t-1, s, m_s - 1] + S[s]
        Y[t, s, 1] = E[t, s] + B[t, s]
        Y[t, s, d] = E[t, s] + Y[t-1, s, d-1] + S[s]

    Any of V[T, s] and Y[T, s, d] may be the last, since the recording's end may cut a bout.
    """
    evidence, stay, change, minimum = b.evidence, b.stay, b.change, b.minimum
    n_epochs, n_stages = evidence.shape
    young = np.full((n_stages, int(minimum.max()) + 1), -np.inf)  # Y: [stage, age] for ages 1 .. minimum - 1
    mature = np.full((n_epochs, n_stages), -np.inf)  # V
    stayed = np.zeros((n_epochs, n_stages), dtype=bool)  # whether that bout was mature an epoch before
    origin = np.zeros((n_epochs, n_stages), dtype=np.int64)  # the stage left by a bout that begins here
    for s in range(n_stages):
        if b.censored or minimum[s] == 1:  # the recording's start may have cut the first bout
            mature[0, s] = evidence[0, s]
        else:
            young[s, 1] = evidence[0, s]
    for t in range(1, n_epochs):
        leaving = mature[t - 1][:, None] + change  # (from, to)
        origin[t] = leaving.argmax(axis=0)  # of equals the earlier stage
        begin = leaving.max(axis=0)  # B: (n_stages,)
        for s in range(n_stages):
            m = minimum[s]
            fresh = begin[s] if m == 1 else young[s, m - 1] + stay[s]  # F
            old = mature[t - 1, s] + stay[s]
            stayed[t, s] = old >= fresh  # ties stay
            mature[t, s] = max(old, fresh) + evidence[t, s]
            if m > 1:
                young[s, 2:m] = young[s, 1 : m - 1] + stay[s] + evidence[t, s]
                young[s, 1] = begin[s] + evidence[t, s]

    best, s, age = -np.inf, 0, 0  # age 0 = mature
    for stage in range(n_stages):
        if mature[-1, stage] > best:
            best, s, age = mature[-1, stage], stage, 0
        for a in range(minimum[stage] - 1, 0, -1):  # of equals the older bout
            if young[stage, a] > best:
                best, s, age = young[stage, a], stage, a
    if best == -np.inf:
        return np.zeros(n_epochs, dtype=np.int8), -np.inf

    def began(t: int, s: int) -> int:
        while t > 0 and stayed[t, s]:
            t -= 1
        return max(0, t - int(minimum[s]) + 1)

    labels = np.empty(n_epochs, dtype=np.int8)
    end, start = n_epochs, n_epochs - age if age else began(n_epochs - 1, s)
    labels[start:end] = s
    while start > 0:
        s, end = int(origin[start, s]), start
        start = began(end - 1, s)
        labels[start:end] = s
    return labels, float(best)


@_IGNORING
def greedy(rows: Floats, products: bool, weight: Floats, *rules: Any) -> tuple[Labels, float]:
    """Return the path of the paper's greedy flip-flop, and its score.

    It is Viterbi as above, but a switch costs `penalty_nats` more if the stage occurs in the surviving path's
    own last `window_epochs` epochs. That path need not be the best one: hence greedy.
    """
    *bouts, penalty_nats, window_epochs = rules
    b = Bouts.of(rows, products, CLIP, weight, *bouts)
    evidence, stay, change, minimum = b.evidence, b.stay, b.change, b.minimum
    n_epochs, n_stages = evidence.shape
    # Beyond this age a bout fills the whole window: older bouts of a stage are interchangeable.
    depth = max(int(minimum.max()), window_epochs)
    # survivors[stage][age] = (score, labels so far); ages 1 .. depth, depth standing for "or older"
    survivors: list[dict[int, tuple[float, list[int]]]] = [
        {depth if b.censored else 1: (float(evidence[0, s]), [s])} for s in range(n_stages)
    ]
    for t in range(1, n_epochs):
        following: list[dict[int, tuple[float, list[int]]]] = []
        for s in range(n_stages):
            grown: dict[int, tuple[float, list[int]]] = {}
            for age in sorted(survivors[s], reverse=True):
                score, path = survivors[s][age]
                score += stay[s] + evidence[t, s]
                older = min(age + 1, depth)
                if older not in grown or score > grown[older][0]:
                    grown[older] = (float(score), [*path, s])
            best, parent = -np.inf, None
            for r in range(n_stages):
                for age in sorted(survivors[r], reverse=True):
                    score, path = survivors[r][age]
                    if r == s or (age < minimum[r]):
                        continue
                    flips = s in path[max(0, t - window_epochs) : t - 1]
                    score += change[r, s] - (penalty_nats if flips else 0.0)
                    if score > best:
                        best, parent = float(score), path
            if parent is not None:
                grown[1] = (best + float(evidence[t, s]), [*parent, s])
            following.append(grown)
        survivors = following
    best, labels = -np.inf, [0] * n_epochs
    for stage in survivors:
        for age in sorted(stage, reverse=True):
            if stage[age][0] > best:
                best, labels = stage[age]
    return np.array(labels, dtype=np.int8), best


def automaton(rows: Floats, *tables: Any) -> tuple[Labels, float]:
    """Return the best path through an automaton, and its score.

    V[t, j] = E[t, stage_j] + max over edges i -> j of V[t-1, i] + weight; of equals the first edge wins.
    """
    stage, first, source, weight, initial, final_weight = Automaton(*tables)
    evidence = rows[:, stage]  # (n_epochs, n_states)
    n_epochs, n_states = evidence.shape
    came_by = np.zeros((n_epochs, n_states), dtype=np.int64)  # edge into each state
    score = initial + evidence[0]  # (n_states,)
    for t in range(1, n_epochs):
        arriving = score[source] + weight  # (n_edges,)
        score = np.full(n_states, -np.inf)
        for j in range(n_states):
            begin, end = first[j : j + 2]
            if begin < end:
                came_by[t, j] = begin + int(np.argmax(arriving[begin:end]))
                score[j] = arriving[came_by[t, j]] + evidence[t, j]
    total = score + final_weight  # (n_states,)
    state = int(np.argmax(total))
    best = float(total[state])
    labels = np.empty(n_epochs, dtype=np.int8)
    for t in range(n_epochs - 1, 0, -1):
        labels[t] = stage[state]
        state = int(source[came_by[t, state]])
    labels[0] = stage[state]
    return labels, best


def keep_greedy(rows: Floats, labels: Labels, regions: Ints, *rules: Any) -> tuple[float, Floats]:
    """Return the score of `greedy` on log-evidence, and with each region pinned to its labels."""
    ones = np.ones(rows.shape[1])
    return _keep(rows, labels, regions, lambda pinned: greedy(pinned, False, ones, *rules)[1])


def keep_automaton(rows: Floats, labels: Labels, regions: Ints, *tables: Any) -> tuple[float, Floats]:
    """Return the score of `automaton`, and with each region pinned to its labels."""
    return _keep(rows, labels, regions, lambda pinned: automaton(pinned, *tables)[1])


def _keep(
    rows: Floats, labels: Labels, regions: Ints, score: Callable[[Floats], float]
) -> tuple[float, Floats]:
    kept = []
    for first, end in regions.tolist():
        pinned, here = rows.copy(), np.arange(first, end)  # (n_epochs, n_stages), (n_pinned,)
        pinned[first:end] = -np.inf
        pinned[here, labels[first:end]] = rows[here, labels[first:end]]
        kept.append(score(pinned))
    return score(rows), np.array(kept)


def uniforms(seed: int) -> Iterator[float]:
    """Yield numbers in [0, 1): SplitMix64, 53 bits each."""
    word, state = (1 << 64) - 1, int(seed)
    while True:
        state = (state + 0x9E3779B97F4A7C15) & word
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & word
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
        yield ((z ^ (z >> 31)) >> 11) * 2.0**-53


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


@_IGNORING
def smooth(rows: Floats, clip: float, *rules: Any) -> tuple[Floats, float, bool]:
    """Return marginals (n_epochs, n_stages) and the log-sum, for minimum bouts and a transition matrix."""
    b = Bouts.of(rows, True, clip, *rules)
    forward = _forward(b)
    after, begun = _backward(b)
    chances = np.exp(forward.mature + after - forward.total)  # (n_epochs, n_stages)
    beginning = np.exp(forward.begin + begun - forward.total)  # (n_epochs, n_stages)
    n_epochs = len(rows)
    for s, m in enumerate(b.minimum):
        for since in range(min(int(m) - 1, n_epochs)):  # too young to end
            chances[since:, s] += beginning[: n_epochs - since, s]
    # without a path, a switch may have been too costly for a double
    return chances / chances.sum(axis=1, keepdims=True), forward.total, forward.total > -np.inf


@_IGNORING
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
    b = Bouts.of(rows, True, clip, weight, stay, change, minimum, censored, clock)
    forward = _forward(b)
    if forward.total > -np.inf:
        # (n_epochs - 1, n_stages) chance that a mature bout was there an epoch before
        stays = np.exp(forward.mature[:-1] + b.stay + b.evidence[1:] - forward.mature[1:])
        for i, seed in enumerate(streams.tolist()):
            drawn[i] = _draw_bouts(b, forward, stays, uniforms(seed))
    return drawn, forward.total, forward.total > -np.inf


def draw_tables(
    rows: Floats, weight: Floats, stay: Floats, change: Floats, *rules: Any
) -> tuple[Labels, list[int]]:
    """Draw one path per stream, each with factors of the stages and a table of its own; and those lost."""
    minimum, censored, streams, _ = rules
    drawn, lost = np.empty((len(streams), len(rows)), dtype=np.int8), []
    for i in range(len(streams)):
        own = slice(i, i + 1)
        tables = weight[i], stay[own], change[own]
        drawn[own], _, is_certain = draw(rows, 0.0, *tables, minimum, censored, streams[own], 1)
        if not is_certain:
            lost.append(i)
    return drawn, lost


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


def smooth_automaton(rows: Floats, products: bool, *tables: Any) -> tuple[Floats, float, bool]:
    """Return marginals and the log-sum of log-evidence; `products` matters to the compiled twin only."""
    marginals, total = Automaton(*tables).sums(rows)
    marginals /= marginals.sum(axis=1, keepdims=True)
    return marginals, total, True


def draw_automaton(rows: Floats, products: bool, *rules: Any) -> tuple[Labels, float, bool]:
    """Draw paths of log-evidence; return labels (n_draws, n_epochs) and the log-sum."""
    *tables, streams, _ = rules
    a = Automaton(*tables)
    random = [uniforms(seed) for seed in streams.tolist()]
    alpha = a.forward(rows[:, a.stage])  # (n_epochs, n_states)
    ending = alpha[-1] + a.final_weight  # (n_states,)
    total = float(np.logaddexp.reduce(ending))
    drawn = np.zeros((len(random), len(rows)), dtype=np.int8)
    if total > -np.inf:
        chances = np.exp(ending - total)
        states = [_pick(chances, next(numbers)) for numbers in random]
        for t in range(len(rows) - 1, 0, -1):
            drawn[:, t] = a.stage[states]
            states = _draw_sources(a, alpha[t - 1], states, random)
        drawn[:, 0] = a.stage[states]
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


def sleep_onsets(labels: Labels, wake: int, restart_epochs: float, start: int, stop: int) -> tuple[int, ...]:
    """Return the first epoch of sleep, and of sleep after each unbroken wake of `restart_epochs`."""
    # (n_asleep,) epochs
    asleep = start + np.flatnonzero((labels[start:stop] >= 0) & (labels[start:stop] != wake))
    onsets = asleep[:1].tolist()
    for before, after in itertools.pairwise(asleep.tolist()):
        between = labels[before + 1 : after]
        if len(between) >= restart_epochs and np.all(between == wake):
            onsets.append(after)
    return tuple(onsets)


def clock_factors(rows: Floats, wake: int, onsets: Sequence[int], start: int, stop: int) -> Floats:
    """Return the factors of the first epochs, up to the last row after the last onset."""
    factors = np.ones((min(stop, onsets[-1] + len(rows)), rows.shape[1]))
    # sleep before the first onset would itself be the onset, so it is as rare as there
    factors[start : onsets[0]] = np.minimum(rows[0], 1.0)
    factors[start : onsets[0], wake] = 1.0
    for onset, end in itertools.pairwise((*onsets, stop)):
        n_timed = min(end - onset, len(rows))
        factors[onset : onset + n_timed] = rows[:n_timed]
    return factors


def read_numbers(cells: tuple[str, ...]) -> Floats | None:
    """Return None: numbers are left to Python's `float`."""
    return None


def read_rows(text: str, delimiter: str, width: int) -> Floats | None:
    """Return None: tables are left to Python."""
    return None
