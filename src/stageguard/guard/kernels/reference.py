"""The kernels in plain NumPy: the readable specification, the fallback, and the oracle of the compiled ones.

Arguments, results and the rule for ties: see `stageguard.guard.kernels`. Scores are logarithms throughout.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from stageguard.arrays import CLIP, ROUNDING, SUM_TOLERANCE, Floats, Ints, Ints32, Labels
from stageguard.guard.kernels.reference_sums import Bouts
from stageguard.guard.kernels.reference_sums import draw as draw
from stageguard.guard.kernels.reference_sums import draw_automaton as draw_automaton
from stageguard.guard.kernels.reference_sums import draw_each as draw_each
from stageguard.guard.kernels.reference_sums import draw_tables as draw_tables
from stageguard.guard.kernels.reference_sums import forward_backward as forward_backward
from stageguard.guard.kernels.reference_sums import smooth as smooth
from stageguard.guard.kernels.reference_sums import smooth_automaton as smooth_automaton

Spans = Sequence[tuple[int, int]]

NAME = "reference"
LONGEST_MINIMUM = 1_000_000
MOST_STAGES = 127


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
    minimum: Ints32,
    censored: bool,
) -> tuple[list[int], list[list[int]]]:
    """Return stage changes (-1 without a path) and epochs in each stage at every transition weight."""
    switches, counts = [], []
    for i in range(len(stay)):
        tables = (stay[i : i + 1], change[i : i + 1], minimum, censored)
        labels, score = path(rows, spans, products, weight, *tables)
        parts = [labels[first:end] for first, end in spans]
        n_changes = sum(int(np.count_nonzero(np.diff(part))) for part in parts)
        switches.append(n_changes if score > -np.inf else -1)
        counts.append(np.bincount(np.concatenate(parts), minlength=len(minimum)).tolist())
    return switches, counts


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
    with np.errstate(invalid="ignore", divide="ignore"):  # -inf scores are the forbidden paths
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


def greedy(
    rows: Floats,
    products: bool,
    weight: Floats,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    penalty_nats: float,
    window_epochs: int,
) -> tuple[Labels, float]:
    """Return the path of the paper's greedy flip-flop, and its score.

    It is Viterbi as above, but a switch costs `penalty_nats` more if the stage occurs in the surviving path's
    own last `window_epochs` epochs. That path need not be the best one: hence greedy.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        b = Bouts.of(rows, products, CLIP, weight, stay, change, minimum, censored)
        return _viterbi_greedy(b, penalty_nats, window_epochs)


def _viterbi_greedy(b: Bouts, penalty_nats: float, window_epochs: int) -> tuple[Labels, float]:
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


def automaton(
    rows: Floats,
    stage: Ints32,
    first: Ints32,
    source: Ints32,
    weight: Floats,
    initial: Floats,
    final_weight: Floats,
) -> tuple[Labels, float]:
    """Return the best path through an automaton, and its score.

    V[t, j] = E[t, stage_j] + max over edges i -> j of V[t-1, i] + weight; of equals the first edge wins.
    """
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


def keep_greedy(
    rows: Floats,
    labels: Labels,
    regions: Ints,
    stay: Floats,
    change: Floats,
    minimum: Ints32,
    censored: bool,
    penalty_nats: float,
    window_epochs: int,
) -> tuple[float, Floats]:
    """Return the score of `greedy` on log-evidence, and with each region pinned to its labels."""
    rules = (stay, change, minimum, censored, penalty_nats, window_epochs)
    ones = np.ones(rows.shape[1])
    return _keep(rows, labels, regions, lambda pinned: greedy(pinned, False, ones, *rules)[1])


def keep_automaton(
    rows: Floats,
    labels: Labels,
    regions: Ints,
    stage: Ints32,
    first: Ints32,
    source: Ints32,
    weight: Floats,
    initial: Floats,
    final_weight: Floats,
) -> tuple[float, Floats]:
    """Return the score of `automaton`, and with each region pinned to its labels."""
    rules = (stage, first, source, weight, initial, final_weight)
    return _keep(rows, labels, regions, lambda pinned: automaton(pinned, *rules)[1])


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
