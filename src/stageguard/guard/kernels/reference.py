"""The kernels in plain NumPy: the readable specification, the fallback, and the oracle of the compiled ones.

Arguments, results and the rule for ties: see `stageguard.guard.kernels`. Scores are logarithms throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stageguard.base.arrays import CLIP, ROUNDING, SUM_TOLERANCE, Floats, Ints, Ints32, Labels
from stageguard.guard.kernels.reference_clock import clock_factors as clock_factors
from stageguard.guard.kernels.reference_clock import sleep_onsets as sleep_onsets
from stageguard.guard.kernels.reference_stream import Stream as Stream
from stageguard.guard.kernels.reference_sums import Automaton, Bouts
from stageguard.guard.kernels.reference_sums import draw as draw
from stageguard.guard.kernels.reference_sums import draw_automaton as draw_automaton
from stageguard.guard.kernels.reference_sums import draw_each as draw_each
from stageguard.guard.kernels.reference_sums import each as _each
from stageguard.guard.kernels.reference_sums import forward_backward as forward_backward
from stageguard.guard.kernels.reference_sums import smooth as smooth
from stageguard.guard.kernels.reference_sums import smooth_automaton as smooth_automaton

Outcome = tuple[Labels, float]  # labels, score in nats
Result = tuple[Labels, list[float], list[int]]

NAME = "reference"
LONGEST_MINIMUM = 1_000_000
MOST_STAGES = 127
LANES = 1


def argmax(
    pieces: Sequence[Floats],
    weight: Floats,
    n_threads: int = 1,
    clock: Sequence[Floats] = (),
    rooms: Sequence[Floats | None] = (),
) -> tuple[Labels, list[int], list[bool]]:
    """Return labels, stage changes and whether some row is not a distribution, per piece."""
    pieces = _settled(pieces, rooms)
    # each (n_epochs, n_stages)
    weighted = [p * w for p, w in zip(pieces, _each(weight, pieces), strict=True)]
    for rows, factors in zip(weighted, clock, strict=False):
        rows[: len(factors)] *= factors
    labels = [np.argmax(rows, axis=1).astype(np.int8) for rows in weighted]
    bad = [
        not (np.all(np.abs(p.sum(axis=1) - 1.0) <= SUM_TOLERANCE) and np.all(p >= -ROUNDING)) for p in pieces
    ]
    return np.concatenate(labels), _count_switches(labels), bad


def _settled(pieces: Sequence[Floats], rooms: Sequence[Floats | None]) -> Sequence[Floats]:
    """Copy each piece to its room if it has one, and return the arrays to read."""
    if not rooms:
        return pieces
    for piece, room in zip(pieces, rooms, strict=True):
        if room is not None:
            room[...] = piece
    return [piece if room is None else room for piece, room in zip(pieces, rooms, strict=True)]


def check_and_decode(
    pieces: Sequence[Floats],
    *rules: Any,
    rooms: Sequence[Floats | None] = (),
) -> tuple[Labels, Labels, list[tuple[Any, ...]]]:
    """Return the labels of argmax and of the best paths, and the outcome of each piece."""
    pieces = _settled(pieces, rooms)
    own, n_own, bad = argmax(pieces, np.ones((1, pieces[0].shape[1])))
    paths, outcomes = np.zeros_like(own), []
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    for i, (piece, end) in enumerate(zip(pieces, ends, strict=True)):
        here, score, n_switches = slice(end - len(piece), end), -np.inf, 0
        if not bad[i]:
            table, weight, *others = rules
            own_rows = _each(table, pieces)[i : i + 1], _each(weight, pieces)[i : i + 1]
            arguments = ([piece], True, *own_rows, *others)
            paths[here], (score,), (n_switches,) = structured(*arguments)
        n_changed = 0 if bad[i] else int(np.count_nonzero(own[here] != paths[here]))
        outcomes.append((n_own[i], bad[i], score, n_switches, n_changed))
    return own, paths, outcomes


def structured(
    pieces: Sequence[Floats], products: bool, *arguments: Any, clock: Sequence[Floats] = ()
) -> Result:
    """Viterbi for minimum bouts and a transition matrix."""
    *rules, _ = arguments
    clock = clock or [np.empty((0, pieces[0].shape[1]))] * len(pieces)

    def timed(bouts: Bouts, rows: Floats) -> Bouts:
        added = np.zeros_like(bouts.evidence)  # (n_epochs, n_stages)
        added[: len(rows)] = np.log(rows) if products else rows
        return bouts._replace(evidence=bouts.evidence + added)

    all_bouts = Bouts.of_pieces(pieces, products, CLIP, *rules)
    return _collect(_viterbi_bouts(*timed(*each)) for each in zip(all_bouts, clock, strict=True))


def _viterbi_bouts(
    evidence: Floats, stay: Floats, change: Floats, minimum: Ints32, censored: bool
) -> Outcome:
    n_epochs, n_stages = evidence.shape
    young = np.full((n_stages, int(minimum.max()) + 1), -np.inf)  # [stage, age] for ages 1 .. minimum - 1
    mature = np.full((n_epochs, n_stages), -np.inf)  # best path whose bout has reached its minimum
    stayed = np.zeros((n_epochs, n_stages), dtype=bool)  # whether that bout was mature an epoch before
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

    labels = np.empty(n_epochs, dtype=np.int8)
    end, start = n_epochs, n_epochs - age if age else began(n_epochs - 1, s)
    labels[start:end] = s
    while start > 0:
        s, end = int(origin[start, s]), start
        start = began(end - 1, s)
        labels[start:end] = s
    return labels, float(best)


def greedy(pieces: Sequence[Floats], products: bool, *arguments: Any) -> Result:
    """Viterbi with the paper's greedy flip-flop: the penalty is read off each survivor's own past."""
    *rules, penalty_nats, window_epochs, _ = arguments
    return _collect(
        _viterbi_greedy(*bouts, penalty_nats, window_epochs)
        for bouts in Bouts.of_pieces(pieces, products, CLIP, *rules)
    )


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


def automaton(pieces: Sequence[Floats], table: Ints32, *arguments: Any) -> Result:
    """Viterbi on an automaton: states with a stage, weighted edges grouped by the state they lead to."""
    *rules, _ = arguments
    a = Automaton(*rules)
    rows = _each(table, pieces)
    return _collect(_viterbi_automaton(piece, a, row) for piece, row in zip(pieces, rows, strict=True))


def _viterbi_automaton(piece: Floats, a: Automaton, row: int) -> Outcome:
    evidence = piece[:, a.stage]  # (n_epochs, n_states)
    n_epochs, n_states = evidence.shape
    came_by = np.zeros((n_epochs, n_states), dtype=np.int64)  # edge into each state
    score = a.initial[row] + evidence[0]  # (n_states,)
    for t in range(1, n_epochs):
        arriving = score[a.source] + a.weight[row]  # (n_edges,)
        score = np.full(n_states, -np.inf)
        for j in range(n_states):
            first, end = a.first[j : j + 2]
            if first < end:
                came_by[t, j] = first + int(np.argmax(arriving[first:end]))
                score[j] = arriving[came_by[t, j]] + evidence[t, j]
    total = score + a.final_weight[row]  # (n_states,)
    state = int(np.argmax(total))
    best = float(total[state])
    labels = np.empty(n_epochs, dtype=np.int8)
    for t in range(n_epochs - 1, 0, -1):
        labels[t] = a.stage[state]
        state = int(a.source[came_by[t, state]])
    labels[0] = a.stage[state]
    return labels, best


def keep_greedy(
    pieces: Sequence[Floats], labels: Labels, regions: Ints, table: Ints32, *rules: Any
) -> tuple[Floats, Floats]:
    """Return the pieces' scores, and the score with each region pinned to its labels; see `greedy`."""
    no_weight = np.zeros((1, pieces[0].shape[1]))
    return _keep(
        *(pieces, labels, regions, table), lambda p, table: greedy(p, False, table, no_weight, *rules)[1]
    )


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
    score: Callable[[Sequence[Floats], Ints32], list[float]],
) -> tuple[Floats, Floats]:
    offset = np.cumsum([0, *map(len, pieces)])  # (n_pieces + 1,) where each piece begins in labels
    kept = []
    for piece, first, end in regions.tolist():
        pinned = pieces[piece].copy()  # (n_epochs, n_stages)
        here, choice = np.arange(first, end), labels[offset[piece] + first : offset[piece] + end]
        pinned[first:end] = -np.inf
        pinned[here, choice] = pieces[piece][here, choice]
        kept.append(score([pinned], table[[piece]])[0])
    return np.array(score(pieces, table)), np.array(kept)


def _collect(outcomes: Iterable[Outcome]) -> Result:
    with np.errstate(invalid="ignore", divide="ignore"):  # -inf scores are the forbidden paths
        labels, scores = zip(*outcomes, strict=True)
    return np.concatenate(labels), list(scores), _count_switches(labels)


def _count_switches(labels: Sequence[Labels]) -> list[int]:
    return [int(np.count_nonzero(np.diff(y))) for y in labels]


def read_numbers(cells: tuple[str, ...]) -> Floats | None:
    """Return None: numbers are left to Python's `float`."""
    return None


def read_rows(text: str, delimiter: str, width: int) -> Floats | None:
    """Return None: tables are left to Python."""
    return None
