"""Bouts as a Markov chain: brief or long bouts per stage, with exits that a clock makes likely or not."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import reduce

import numpy as np

from stageguard.arrays import Floats, Indices, Labels

# A brief bout ends with this chance after each epoch. A long bout passes through two phases, so that it lasts
# at least two epochs and its length varies less than that of a memoryless bout.
BRIEF_LEAVE = 0.75
N_PHASES = 3  # of a stage: brief, long, late
SHORTEST_LONG = 2.1  # smallest mean length of long bouts, in epochs
MAX_LEAVE = 0.95
ROUNDS = 60  # of the calibration
EAGERNESS = 0.7  # share of the difference that each round removes


@dataclass(frozen=True, slots=True)
class BoutLaw:
    """Lengths of bouts and the stages that follow, before the effects of a clock or a sleeper."""

    brief_share: Floats  # (n_stages,) share of brief bouts
    long_leave: Floats  # (n_stages,) chance per epoch of leaving each phase of a long bout
    exits: Floats  # (n_stages, n_stages) chance of the next stage; rows sum to 1, the diagonal is 0


@dataclass(frozen=True, slots=True)
class ChainClock:
    """Effects of the time of night or day, slot by slot."""

    gate: Floats  # (n_slots, n_stages) multiplies the hazard of entering each stage
    stretch: Floats  # (n_slots, n_stages) multiplies the mean length of the long bouts of each stage
    slot_epochs: int  # length of a slot


def step_matrices(law: BoutLaw, clock: ChainClock) -> Floats:
    """Return the chance of each step between stages, brief, then long, then late ones (n_slots, 3 k, 3 k)."""
    k = len(law.exits)
    pull = law.exits[None] * clock.gate[:, None, :]  # (slot, from, to)
    total = pull.sum(axis=2)
    targets = pull / np.where(total > 0, total, 1)[:, :, None]
    leave = np.minimum(law.long_leave * total / clock.stretch, MAX_LEAVE)  # competing hazards
    enter = np.concatenate([law.brief_share, 1 - law.brief_share, np.zeros(k)])  # (3k,)
    into = np.concatenate([targets, targets, np.zeros_like(targets)], axis=2) * enter  # (slot, k, 3k)
    steps = np.zeros((len(clock.gate), N_PHASES * k, N_PHASES * k))
    brief, long, late = (np.arange(k) + phase * k for phase in range(N_PHASES))
    steps[:, brief, :] = BRIEF_LEAVE * into
    steps[:, brief, brief] += 1 - BRIEF_LEAVE
    steps[:, long, long] = 1 - leave
    steps[:, long, late] = leave
    steps[:, late, :] = leave[:, :, None] * into
    steps[:, late, late] += 1 - leave
    return steps


def expected_transitions(law: BoutLaw, clock: ChainClock, start: Floats | None = None) -> Floats:
    """Return the expected number of transitions between stages, from `start` or in one of many equal days."""
    steps = step_matrices(law, clock)
    within, across = _powers(steps, clock.slot_epochs)
    here = _rest(reduce(np.matmul, across)) if start is None else start
    counts, k = np.zeros(steps.shape[1:]), len(law.exits)
    for slot, matrix in enumerate(steps):
        counts += (here @ within[slot])[:, None] * matrix
        here = here @ across[slot]
    return np.asarray(counts.reshape(N_PHASES, k, N_PHASES, k).sum(axis=(0, 2)))


def calibrate_law(
    target: Floats, one_epoch: Floats, clock: ChainClock, start: Floats | None = None
) -> BoutLaw:
    """Return the law whose transitions under a clock match a matrix, with shares of bouts of one epoch.

    These are lowered where the mean length of bouts does not allow them.
    """
    off = ~np.eye(len(target), dtype=bool)
    leaving = np.where(off, target, 0.0)
    wanted_exits = leaving / leaving.sum(axis=1, keepdims=True)
    wanted_mean = 1 / leaving.sum(axis=1)
    brief_mean = 1 / BRIEF_LEAVE
    # share of brief bouts at which long bouts have their smallest mean length
    room = (wanted_mean - SHORTEST_LONG) / (brief_mean - SHORTEST_LONG)
    room = np.where(wanted_mean > SHORTEST_LONG, 1.0, room)
    brief = np.clip(np.minimum(one_epoch / BRIEF_LEAVE, room), 0, 0.9)
    long_mean = np.maximum((wanted_mean - brief * brief_mean) / (1 - brief), SHORTEST_LONG)
    law = BoutLaw(brief, 2 / long_mean, wanted_exits)
    for _ in range(ROUNDS):
        counts = expected_transitions(law, clock, start)
        bouts = counts.sum(axis=1, where=off)
        exits = np.where(counts > 0, counts / bouts[:, None], wanted_exits)
        ratio = np.divide(wanted_exits, exits, out=np.zeros_like(exits), where=off & (wanted_exits > 0))
        moved = law.exits * ratio**EAGERNESS
        mean = counts.sum(axis=1) / bouts
        leave = np.minimum(law.long_leave * (mean / wanted_mean) ** EAGERNESS, MAX_LEAVE)
        law = BoutLaw(law.brief_share, leave, moved / moved.sum(axis=1, keepdims=True))
    return law


def draw(rng: np.random.Generator, law: BoutLaw, clock: ChainClock, n_epochs: int, start: Floats) -> Labels:
    """Draw the stage of each epoch; the clock's last slot holds until the end."""
    cumulated = np.cumsum(step_matrices(law, clock), axis=2)
    cumulated[:, :, -1] = 1.0
    rows = cumulated.tolist()
    chance = rng.random(n_epochs + 1).tolist()
    begin = np.cumsum(start)
    state = min(int(np.searchsorted(begin, chance[0] * begin[-1], side="right")), len(start) - 1)
    states = []
    for epoch in range(n_epochs):
        states.append(state)
        row = rows[min(epoch // clock.slot_epochs, len(rows) - 1)][state]
        state = min(bisect_right(row, chance[epoch + 1]), len(start) - 1)
    return (np.array(states) % len(law.exits)).astype(np.int8)


def lift_matrix(fine: Floats, coarse: Floats, merge: Indices) -> Floats:
    """Return a matrix of fine stages (n, n) bent so that, merged by `merge` (n,), it equals a coarse one."""
    bent = fine.copy()
    groups = range(len(coarse))
    for _ in range(ROUNDS):
        rest = _rest(bent)
        for source in groups:
            rows = np.flatnonzero(merge == source)
            for target in (g for g in groups if g != source):
                columns = np.flatnonzero(merge == target)
                flow = rest[rows] @ bent[np.ix_(rows, columns)].sum(axis=1) / rest[rows].sum()
                if flow > 0:
                    bent[np.ix_(rows, columns)] *= coarse[source, target] / flow
            outside = np.flatnonzero(merge != source)
            inside = fine[np.ix_(rows, rows)]
            left = 1 - bent[np.ix_(rows, outside)].sum(axis=1, keepdims=True)
            bent[np.ix_(rows, rows)] = inside / inside.sum(axis=1, keepdims=True) * left
    return bent


def _powers(steps: Floats, n: int) -> tuple[Floats, Floats]:
    """Return 1 + P + ... + P^(n-1) and P^n of each matrix, by doubling."""
    total = np.zeros_like(steps)
    power = np.broadcast_to(np.eye(steps.shape[1]), steps.shape)
    for digit in f"{n:b}":
        total = total + total @ power
        power = power @ power
        if digit == "1":
            total = total + power
            power = power @ steps
    return total, power


def _rest(matrix: Floats) -> Floats:
    """Return the stationary distribution."""
    n = len(matrix)
    system = np.vstack([matrix.T - np.eye(n), np.ones(n)])
    solved = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
    return np.asarray(np.clip(solved, 0, None) / np.clip(solved, 0, None).sum())
