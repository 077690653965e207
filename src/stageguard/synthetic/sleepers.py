"""Synthetic people and mice, and how they sleep: bouts from the fitted profiles, clocks, nights."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, reduce
from types import MappingProxyType
from zlib import crc32

import numpy as np

from stageguard.arrays import Floats, Indices, Labels
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, WNR3, StageScheme
from stageguard.profile.profile import Profile

# ---- Bouts as a Markov chain: brief or long ones per stage, with exits that a clock makes likely or not

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


# ---- People and mice

# Groups and their sizes among 25 people, as in the paper's sample of SHHS (table 'Subpopulation analysis').
AGE_GROUPS = {"40-55": (40, 55, 8), "55-70": (55, 70, 10), "70+": (70, 86, 7)}
OSA_GROUPS = {"none": (0.3, 4.9, 12), "mild": (5.0, 14.9, 8), "moderate/severe": (15.0, 55.0, 5)}

# Share of the full effect (below) that each group has.
AGE_STEP = {"40-55": 0.0, "55-70": 0.5, "70+": 1.0}
OSA_STEP = {"none": 0.0, "mild": 0.4, "moderate/severe": 1.0}

# Full effects: logarithms of the factors on a sleeper's gates and stretches (see `ChainClock`). They
# are our choice, set so that the group differences come near those that the paper's experts found; measured
# by studies/simulator/shifts.py.
OSA_EFFECT = {"gate W": 0.26, "stretch W": 0.24, "gate N1": 0.30, "gate N3": -0.35, "gate R": -0.10}
AGE_EFFECT = {"gate W": 0.10, "stretch W": 0.10, "gate N3": -0.55, "gate N1": 0.15, "early R": 0.40}

# Spread between sleepers: standard deviations of the logarithms, in the order in which they are drawn.
HUMAN_SPREAD = {
    **{"gate W": 0.16, "stretch W": 0.16, "gate N1": 0.12},
    **{"gate N3": 0.20, "gate R": 0.12, "early R": 0.2},
}
MOUSE_SPREAD = {"gate W": 0.15, "stretch W": 0.15, "gate R": 0.15, "stretch N": 0.08}


def stream(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """Return the random generator for one purpose and one subject, which shares no numbers with others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(purpose.encode()), number)))


Covariates = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A synthetic person or mouse."""

    number: int  # from 1
    covariates: Covariates  # age, sex, AHI, groups; for mice sex and weight
    factors: Mapping[str, float] = field(default_factory=dict)  # on the gates and stretches of the clock


def draw_adult(
    seed: int, number: int, *, age_group: str | None = None, osa_group: str | None = None
) -> Sleeper:
    """Return an adult of the named groups, by default those whose turn it is."""
    rng = stream(seed, "people", number)
    turn = _groups(number)
    age_group, osa_group = age_group or turn[0], osa_group or turn[1]
    low, high, _ = AGE_GROUPS[age_group]
    least, most, _ = OSA_GROUPS[osa_group]
    age = float(rng.integers(low, high))
    ahi = round(float(np.exp(rng.uniform(np.log(least), np.log(most)))), 1)
    sex = "F" if rng.random() < 0.5 else "M"
    log_factors = {name: float(rng.normal(0, sd)) for name, sd in HUMAN_SPREAD.items()}
    for effects, step in ((OSA_EFFECT, OSA_STEP[osa_group]), (AGE_EFFECT, AGE_STEP[age_group])):
        for name, effect in effects.items():
            log_factors[name] += step * effect
    bmi = round(float(np.clip(rng.normal(26.5 + 3.5 * OSA_STEP[osa_group], 3), 18, 50)), 1)
    about: Covariates = {
        "age": age,
        "sex": sex,
        "ahi": ahi,
        "age_group": age_group,
        "osa": osa_group,
        "bmi": bmi,
    }
    return Sleeper(number, about, {name: float(np.exp(value)) for name, value in log_factors.items()})


def draw_mouse(seed: int, number: int) -> Sleeper:
    """Return a mouse. Its covariates have no effect on its sleep."""
    rng = stream(seed, "people", number)
    sex = "F" if rng.random() < 0.5 else "M"
    weight = round(float(rng.normal(22 if sex == "F" else 27, 2)), 1)
    factors = {name: float(np.exp(rng.normal(0, sd))) for name, sd in MOUSE_SPREAD.items()}
    return Sleeper(number, {"sex": sex, "weight_g": weight}, factors)


def _groups(number: int) -> tuple[str, str]:
    """Return age and OSA group of the n-th sleeper: the pair most behind its share, with its margins."""
    sizes = [np.array([size for *_, size in groups.values()]) for groups in (AGE_GROUPS, OSA_GROUPS)]
    share = np.outer(*(size / size.sum() for size in sizes))  # (age, severity)
    counts = np.zeros(share.shape)
    chosen = (0, 0)
    for n in range(1, number + 1):
        missing = share * n - counts
        behind = missing + missing.sum(axis=0, keepdims=True) + missing.sum(axis=1, keepdims=True)
        chosen = divmod(int(behind.argmax()), len(OSA_GROUPS))
        counts[chosen] += 1
    return list(AGE_GROUPS)[chosen[0]], list(OSA_GROUPS)[chosen[1]]


FINE_PROFILE = "human-psg-5"
NIGHT_HOURS = 8.0  # length of the nominal night, over which transitions match the profile
ONSET_MINUTES = 10.0  # from lights off to the first cycle of the nominal night
ONSET_STRETCH = 4.0  # on bouts of Wake before the first cycle: falling asleep takes longer than falling back
CYCLE_MINUTES, CYCLE_SPREAD_MINUTES = 90.0, 12.0
# Cycle by cycle, the last holding for later ones: heights of the gates into N3 and REM, factors on their mean
# bouts. They are our choice: deep sleep early, REM late and longer from cycle to cycle.
DEEP_GATE, REM_GATE = (2.0, 1.4, 0.7, 0.3, 0.2), (0.9, 1.1, 1.3, 1.5, 1.6)
DEEP_STRETCH, REM_STRETCH = (1.5, 1.2, 0.8, 0.5, 0.4), (0.5, 0.9, 1.1, 1.3, 1.4)
DEEP_CENTRE, REM_CENTRE = 0.38, 0.87  # where in a cycle, from 0 to 1, these gates are most open
NO_FACTORS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sleeper."""

    scheme: StageScheme  # in which the hypnogram is drawn
    epoch_seconds: float
    law: BoutLaw  # bouts before any clock

    @property
    def begin(self) -> Floats:
        """Distribution at the start of a night: a long bout of Wake."""
        start = np.zeros(N_PHASES * self.scheme.n_stages)
        start[self.scheme.n_stages] = 1.0
        return start


@cache
def kind_of(profile_name: str) -> Kind:
    """Return sleepers whose mean transitions over a night, or a mouse's day, are those of a profile."""
    profile = Profile.load(profile_name)
    if profile.species == "mouse":
        target, one_epoch = _bouts_of(profile)
        kind = Kind(WNR3, profile.epoch_seconds, BoutLaw(one_epoch, one_epoch, target))
        return replace(kind, law=calibrate_law(target, one_epoch, day_clock(kind, 24)))
    fine, one_epoch = _bouts_of(Profile.load(FINE_PROFILE))
    target = lift_matrix(fine, _bouts_of(profile)[0], AASM5.merge_map(profile.scheme).astype(np.intp))
    kind = Kind(AASM5, profile.epoch_seconds, BoutLaw(one_epoch, one_epoch, target))
    clock = night_clock(kind, None, NIGHT_HOURS)
    return replace(kind, law=calibrate_law(target, one_epoch, clock, kind.begin))


def _bouts_of(profile: Profile) -> tuple[Floats, Floats]:
    """Return transitions, and the share of one-epoch bouts in the middle of the experts' range."""
    matrix = np.array(profile.transitions)
    bands = [profile.bands[f"one_epoch_bouts_percent_{name}"] for name in profile.scheme.names]
    one_epoch = np.array([(band.low + band.high) / 200 for band in bands])
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True)), one_epoch


def night_clock(
    kind: Kind, rng: np.random.Generator | None, hours: float, factors: Mapping[str, float] = NO_FACTORS
) -> ChainClock:
    """Return the clock of one night, with random cycles or (without a generator) cycles of mean length."""
    slot_epochs = max(1, round(300 / kind.epoch_seconds))
    n_slots = max(1, int(np.ceil(hours * 3600 / kind.epoch_seconds / slot_epochs)))
    minutes = (np.arange(n_slots) + 0.5) * slot_epochs * kind.epoch_seconds / 60 - ONSET_MINUTES
    n_cycles = max(2, int(np.ceil(max(float(minutes[-1]), 0.0) / CYCLE_MINUTES * 2)) + 2)
    lengths = np.full(n_cycles, CYCLE_MINUTES)
    if rng is not None:
        lengths = rng.normal(CYCLE_MINUTES, CYCLE_SPREAD_MINUTES, n_cycles).clip(0.6 * CYCLE_MINUTES, None)
    edges = np.append(0.0, np.cumsum(lengths))
    number = np.searchsorted(edges, minutes, side="right") - 1  # -1 before the first cycle
    inside = np.clip(number, 0, n_cycles - 1)
    moment = np.where(number < 0, 0.0, (minutes - edges[inside]) / lengths[inside])

    def of_cycle(values: tuple[float, ...]) -> Floats:
        return np.asarray(np.array(values)[np.clip(number, 0, len(values) - 1)])

    def bump(centre: float, width: float) -> Floats:
        return np.asarray(np.exp(-0.5 * ((moment - centre) / width) ** 2))

    gate = np.ones((n_slots, AASM5.n_stages))
    stretch = np.ones_like(gate)
    deep, rem = AASM5.index("N3"), AASM5.index("R")
    early = np.where(number <= 0, factors.get("early R", 1.0), 1.0)
    stretch[number < 0, AASM5.index("W")] = ONSET_STRETCH
    gate[:, deep] = 0.10 + of_cycle(DEEP_GATE) * bump(DEEP_CENTRE, 0.20)
    gate[:, rem] = (0.02 + of_cycle(REM_GATE) * bump(REM_CENTRE, 0.11)) * early
    stretch[:, deep] = of_cycle(DEEP_STRETCH)
    stretch[:, rem] = of_cycle(REM_STRETCH) * (0.4 + bump(REM_CENTRE, 0.14))
    return _clock(kind, gate, stretch, slot_epochs, factors)


def day_clock(kind: Kind, hours: float, factors: Mapping[str, float] = NO_FACTORS) -> ChainClock:
    """Return the clock of mice under lights that go on at hour 0 and off at hour 12."""
    slot_epochs = max(1, round(900 / kind.epoch_seconds))
    n_slots = max(1, int(np.ceil(hours * 3600 / kind.epoch_seconds / slot_epochs)))
    hour = (np.arange(n_slots) + 0.5) * slot_epochs * kind.epoch_seconds / 3600
    light = 1 / (1 + np.exp(-8 * np.sin(2 * np.pi * hour / 24)))  # 1 by day, 0 by night, with smooth changes
    one = np.ones(n_slots)
    gate = np.stack([1.25 - 0.35 * light, one, 0.6 + 0.6 * light], axis=1)  # of W, N, R
    stretch = np.stack([2.4 - 1.8 * light, 0.85 + 0.3 * light, one], axis=1)
    return _clock(kind, gate, stretch, slot_epochs, factors)


def _clock(
    kind: Kind, gate: Floats, stretch: Floats, slot_epochs: int, factors: Mapping[str, float]
) -> ChainClock:
    """Return a clock with the sleeper's factors on gates and stretches."""
    of_gate, of_stretch = (
        np.array([factors.get(f"{what} {name}", 1.0) for name in kind.scheme.names])
        for what in ("gate", "stretch")
    )
    return ChainClock(gate * of_gate, stretch * of_stretch, slot_epochs)


SCORER = "synthetic truth"
DATE = datetime(2000, 1, 1)  # of every simulated recording
LIGHTS_OFF_HOUR = 22.75  # usual hour at which people go to sleep
LIGHTS_ON_PHASE = 7.0  # hour at which a mouse's lights go on
LARGEST_WAKEFUL_SHARE = 0.15  # of a recording, before lights off and after lights on, each


@dataclass(frozen=True, slots=True)
class SimulatedSleep:
    """The truth about one recording."""

    hypnogram: Hypnogram  # with the start of the recording
    lights_off_seconds: float | None = None  # since the start; None for mice
    lights_on_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Length of the recording."""
        return self.hypnogram.n_epochs * self.hypnogram.epoch_seconds


def draw_night(
    kind: Kind, sleeper: Sleeper, seed: int, hours: float, awake_minutes: tuple[float, float] = (0.0, 0.0)
) -> SimulatedSleep:
    """Return a night; `awake_minutes` are the means before lights off and after lights on."""
    rng, seconds = stream(seed, "hypnogram", sleeper.number), kind.epoch_seconds
    n_epochs = max(1, int(hours * 3600 / seconds))
    drawn = [rng.gamma(6.0, minutes / 6.0) * 60 / seconds if minutes else 0.0 for minutes in awake_minutes]
    evening, morning = (int(min(epochs, LARGEST_WAKEFUL_SHARE * n_epochs)) for epochs in drawn)
    n_dark = n_epochs - evening - morning
    clock = night_clock(kind, rng, n_dark * seconds / 3600, sleeper.factors)
    labels = np.full(n_epochs, kind.scheme.wake_index, dtype=np.int8)
    labels[evening : evening + n_dark] = draw(rng, kind.law, clock, n_dark, kind.begin)
    lights_off_hour = LIGHTS_OFF_HOUR + float(np.clip(rng.normal(0, 0.6), -1.5, 1.5))
    start = DATE + timedelta(seconds=round(lights_off_hour * 3600) - evening * seconds)
    hypnogram = Hypnogram(labels, kind.scheme, seconds, start, SCORER)
    return SimulatedSleep(hypnogram, evening * seconds, (evening + n_dark) * seconds)


def draw_day(kind: Kind, sleeper: Sleeper, seed: int, hours: float) -> SimulatedSleep:
    """Return some hours of a mouse, from lights on."""
    rng = stream(seed, "hypnogram", sleeper.number)
    n_epochs = max(1, int(hours * 3600 / kind.epoch_seconds))
    clock = day_clock(kind, hours, sleeper.factors)
    labels = draw(rng, kind.law, clock, n_epochs, kind.begin)
    start = DATE + timedelta(hours=LIGHTS_ON_PHASE)
    return SimulatedSleep(Hypnogram(labels, kind.scheme, kind.epoch_seconds, start, SCORER))
