"""The kernels in plain NumPy: the readable specification, the fallback, and the oracle of the compiled ones.

Arguments, results and the rule for ties: see `stageguard.guard.kernels`. Scores are logarithms throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stageguard.base.arrays import CLIP, ROUNDING, SUM_TOLERANCE, Floats, Ints, Ints32, Labels, Mask
from stageguard.guard.kernels.reference_stream import Stream as Stream
from stageguard.guard.kernels.reference_sums import draw as draw
from stageguard.guard.kernels.reference_sums import draw_automaton as draw_automaton
from stageguard.guard.kernels.reference_sums import draw_each as draw_each
from stageguard.guard.kernels.reference_sums import forward_backward as forward_backward
from stageguard.guard.kernels.reference_sums import smooth as smooth
from stageguard.guard.kernels.reference_sums import smooth_automaton as smooth_automaton

Outcome = tuple[Labels, float]  # labels, score in nats
Result = tuple[Labels, Floats, Ints]

NAME = "reference"
LONGEST_MINIMUM = 1_000_000
MOST_STAGES = 127


def argmax(pieces: Sequence[Floats], weight: Floats, n_threads: int = 1) -> tuple[Labels, Ints, Mask]:
    """Return labels, stage changes and whether some row is not a distribution, per piece."""
    labels = [np.argmax(p * w, axis=1).astype(np.int8) for p, w in zip(pieces, weight, strict=True)]
    bad = [
        not (np.all(np.abs(p.sum(axis=1) - 1.0) <= SUM_TOLERANCE) and np.all(p >= -ROUNDING)) for p in pieces
    ]
    return np.concatenate(labels), _count_switches(labels), np.array(bad)


def structured(
    pieces: Sequence[Floats],
    products: bool,
    table: Ints32,
    weight: Floats,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    n_threads: int = 1,
) -> Result:
    """Viterbi for minimum bouts and a transition matrix.

    With `products`, pieces, weight, stay and change are probabilities; otherwise all are logarithms.
    """
    n_stages = len(minimum)

    def decode_piece(i: int) -> Outcome:
        evidence, log_stay, log_change = (
            pieces[i],
            stay[table[i]],
            change[table[i]].reshape(n_stages, n_stages),
        )
        if products:
            rows = evidence / evidence.sum(axis=1, keepdims=True)
            evidence = np.log(np.maximum(rows, CLIP)) + np.log(weight[i])
            log_stay, log_change = np.log(log_stay), np.log(log_change)
        return _viterbi_bouts(evidence, log_stay, log_change, minimum, censored)

    return _collect(pieces, decode_piece)


def _viterbi_bouts(
    evidence: Floats, stay: Floats, change: Floats, minimum: Ints32, censored: bool
) -> Outcome:
    n_epochs, n_stages = evidence.shape
    depth = int(minimum.max())
    change = change.copy()
    np.fill_diagonal(change, -np.inf)
    young = np.full((n_stages, depth + 1), -np.inf)  # [stage, age] for ages 1 .. minimum - 1
    mature = np.full((n_epochs, n_stages), -np.inf)  # best path whose bout has reached its minimum
    stayed = np.zeros((n_epochs, n_stages), dtype=bool)
    origin = np.zeros((n_epochs, n_stages), dtype=np.int64)  # the stage left by a bout that begins here
    for s in range(n_stages):
        if censored or minimum[s] == 1:
            mature[0, s] = evidence[0, s]
        else:
            young[s, 1] = evidence[0, s]
    for t in range(1, n_epochs):
        leaving = mature[t - 1][:, None] + change  # (from, to)
        origin[t] = leaving.argmax(axis=0)
        enter = leaving.max(axis=0)  # (n_stages,) best path whose bout begins at t
        for s in range(n_stages):
            m = minimum[s]
            fresh = enter[s] if m == 1 else young[s, m - 1] + stay[s]
            old = mature[t - 1, s] + stay[s]
            stayed[t, s] = old >= fresh
            mature[t, s] = max(old, fresh) + evidence[t, s]
            if m > 1:
                young[s, 2:m] = young[s, 1 : m - 1] + stay[s] + evidence[t, s]
                young[s, 1] = enter[s] + evidence[t, s]

    best, s, age = -np.inf, 0, 0  # age 0 = mature
    for stage in range(n_stages):
        if mature[-1, stage] > best:
            best, s, age = mature[-1, stage], stage, 0
        for a in range(minimum[stage] - 1, 0, -1):  # the recording's end may cut the last bout short
            if young[stage, a] > best:
                best, s, age = young[stage, a], stage, a
    if best == -np.inf:
        return np.zeros(n_epochs, dtype=np.int8), -np.inf

    def began(t: int, s: int) -> int:
        while t > 0 and stayed[t, s]:
            t -= 1
        return max(0, t - int(minimum[s]) + 1)

    def previous(start: int, s: int) -> tuple[int, int]:
        before = int(origin[start, s])
        return before, began(start - 1, before)

    start = n_epochs - age if age else began(n_epochs - 1, s)
    return _lay_bouts(n_epochs, s, start, previous), float(best)


def greedy(
    pieces: Sequence[Floats],
    table: Ints32,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    penalty_nats: float,
    window_epochs: int,
    n_threads: int = 1,
) -> Result:
    """Viterbi with the paper's greedy flip-flop: the penalty is read off each survivor's own past."""
    n_stages = len(minimum)

    def decode_piece(i: int) -> Outcome:
        switch = change[table[i]].reshape(n_stages, n_stages)
        return _viterbi_greedy(
            pieces[i], stay[table[i]], switch, minimum, censored, penalty_nats, window_epochs
        )

    return _collect(pieces, decode_piece)


def _viterbi_greedy(
    evidence: Floats,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    penalty_nats: float,
    window_epochs: int,
) -> Outcome:
    n_epochs, n_stages = evidence.shape
    # Beyond this age a bout fills the whole window: older bouts of a stage are interchangeable.
    depth = max(int(minimum.max()), window_epochs)
    # survivors[stage][age] = (score, labels so far); ages 1 .. depth, depth standing for "or older"
    survivors: list[dict[int, tuple[float, list[int]]]] = [
        {depth if censored else 1: (float(evidence[0, s]), [s])} for s in range(n_stages)
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


def automaton(
    pieces: Sequence[Floats],
    table: Ints32,
    stage: Ints32,
    first: Ints32,
    source: Ints32,
    weight: Floats,
    initial: Floats,
    final_weight: Floats,
    n_threads: int = 1,
) -> Result:
    """Viterbi on an automaton: states with a stage, weighted edges grouped by the state they lead to."""
    n_states = len(stage)

    def decode_piece(i: int) -> Outcome:
        evidence, row = pieces[i][:, stage], table[i]  # (n_epochs, n_states)
        came_by = np.zeros((len(evidence), n_states), dtype=np.int64)  # edge into each state
        score = initial[row] + evidence[0]  # (n_states,)
        for t in range(1, len(evidence)):
            arriving = score[source] + weight[row]  # (n_edges,)
            score = np.full(n_states, -np.inf)
            for j in range(n_states):
                if first[j] < first[j + 1]:
                    came_by[t, j] = first[j] + int(np.argmax(arriving[first[j] : first[j + 1]]))
                    score[j] = arriving[came_by[t, j]] + evidence[t, j]
        total = score + final_weight[row]
        state = int(np.argmax(total))
        best = float(total[state])
        labels = np.empty(len(evidence), dtype=np.int8)
        for t in range(len(evidence) - 1, -1, -1):
            labels[t] = stage[state]
            if t > 0:
                state = int(source[came_by[t, state]])
        return labels, best

    return _collect(pieces, decode_piece)


def keep_greedy(
    pieces: Sequence[Floats], labels: Labels, regions: Ints, table: Ints32, *rules: Any
) -> tuple[Floats, Floats]:
    """Return the pieces' scores, and the score with each region pinned to its labels; see `greedy`."""
    return _keep(pieces, labels, regions, table, lambda *pinned: greedy(*pinned, *rules)[1])


def keep_automaton(
    pieces: Sequence[Floats], labels: Labels, regions: Ints, table: Ints32, *rules: Any
) -> tuple[Floats, Floats]:
    """Return the pieces' scores, and the score with each region pinned to its labels; see `automaton`."""
    return _keep(pieces, labels, regions, table, lambda *pinned: automaton(*pinned, *rules)[1])


def _keep(
    pieces: Sequence[Floats],
    labels: Labels,
    regions: Ints,
    table: Ints32,
    score: Callable[[Sequence[Floats], Ints32], Floats],
) -> tuple[Floats, Floats]:
    offset = np.cumsum([0, *map(len, pieces)])
    kept = []
    for piece, first, end in regions.tolist():
        pinned = pieces[piece].copy()
        here, choice = np.arange(first, end), labels[offset[piece] + first : offset[piece] + end]
        pinned[first:end] = -np.inf
        pinned[here, choice] = pieces[piece][here, choice]
        kept.append(score([pinned], table[[piece]])[0])
    return score(pieces, table), np.array(kept)


def _lay_bouts(n_epochs: int, s: int, start: int, previous: Callable[[int, int], tuple[int, int]]) -> Labels:
    labels = np.empty(n_epochs, dtype=np.int8)
    end = n_epochs
    while True:
        labels[start:end] = s
        if start == 0:
            return labels
        end = start
        s, start = previous(start, s)


def _collect(pieces: Sequence[Floats], decode_piece: Callable[[int], Outcome]) -> Result:
    with np.errstate(invalid="ignore", divide="ignore"):  # -inf scores are the forbidden paths
        outcomes = [decode_piece(i) for i in range(len(pieces))]
    labels = [labels for labels, _ in outcomes]
    return np.concatenate(labels), np.array([score for _, score in outcomes]), _count_switches(labels)


def _count_switches(labels: Sequence[Labels]) -> Ints:
    return np.array([np.count_nonzero(np.diff(y)) for y in labels], dtype=np.int64)
