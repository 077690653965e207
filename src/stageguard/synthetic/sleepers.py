"""Synthetic people and mice, and how they sleep: bouts from the fitted profiles, clocks, nights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from stageguard.arrays import Floats
from stageguard.documents import read_toml
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, WNR3, StageScheme
from stageguard.profile.profile import Profile
from stageguard.synthetic.chain import N_PHASES, BoutLaw, ChainClock, calibrate_law, draw, lift_matrix
from stageguard.synthetic.noise import stream

# Groups and their sizes among 25 people, as in the paper's sample of SHHS (table 'Subpopulation analysis').
AGE_GROUPS = {"40-55": (40, 55, 8), "55-70": (55, 70, 10), "70+": (70, 86, 7)}
OSA_GROUPS = {"none": (0.3, 4.9, 12), "mild": (5.0, 14.9, 8), "moderate/severe": (15.0, 55.0, 5)}

# Share of the full effect (below) that each group has.
AGE_STEP = {"40-55": 0.0, "55-70": 0.5, "70+": 1.0}
OSA_STEP = {"none": 0.0, "mild": 0.4, "moderate/severe": 1.0}

# Full effects: logarithms of the factors on a sleeper's gates and stretches (see `chain.Clock`). They are our
# choice, set so that the group differences come near those that the paper's experts found.
OSA_EFFECT = {"gate W": 0.26, "stretch W": 0.24, "gate N1": 0.30, "gate N3": -0.35, "gate R": -0.10}
AGE_EFFECT = {"gate W": 0.10, "stretch W": 0.10, "gate N3": -0.55, "gate N1": 0.15, "early R": 0.40}

# Statistics whose differences between groups are known; studies/simulator/shifts.py measures and writes them.
SHIFTS_FILE = Path(__file__).with_name("known-shifts.toml")
SHIFTED = ("tst_minutes", "waso_minutes", "se_percent", "rem_latency_minutes", "n3_minutes")

# Spread between sleepers: standard deviations of the logarithms.
HUMAN_SPREAD = {
    "gate W": 0.16,
    "stretch W": 0.16,
    "gate N1": 0.12,
    "gate N3": 0.20,
    "gate R": 0.12,
    "early R": 0.2,
}
MOUSE_SPREAD = {"gate W": 0.15, "stretch W": 0.15, "gate R": 0.15, "stretch N": 0.08}

Covariates = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A synthetic person or mouse."""

    number: int  # from 1
    covariates: Covariates  # age, sex, AHI, groups; for mice sex and weight
    factors: Mapping[str, float] = field(default_factory=dict)  # on the gates and stretches of the clock


@cache
def known_shifts(modality: str) -> Mapping[str, Mapping[str, float]]:
    """Return the mean differences of groups from sleepers aged 40-55 without apnoea.

    Group, such as "osa mild" or "age 70+" -> statistic -> minutes or percent. They hold for nights of 8 h
    from lights off to lights on, with the other covariate at its reference. Empty for mice, whose covariates
    have no effect on sleep.
    """
    shifts: dict[str, dict[str, dict[str, float]]] = read_toml(SHIFTS_FILE, "known shifts")
    return shifts.get(modality, {})


def draw_adult(
    seed: int, number: int, *, age_group: str | None = None, osa_group: str | None = None
) -> Sleeper:
    """Return an adult of the named groups, by default those whose turn it is.

    A subject is the same in a cohort of any size.
    """
    rng = stream(seed, "people", number)
    turn = _groups(number)
    age_group, osa_group = age_group or turn[0], osa_group or turn[1]
    low, high, _ = AGE_GROUPS[age_group]
    least, most, _ = OSA_GROUPS[osa_group]
    age = float(rng.integers(low, high))
    ahi = round(float(np.exp(rng.uniform(np.log(least), np.log(most)))), 1)
    sex = "F" if rng.random() < 0.5 else "M"
    log_factors = {name: float(rng.normal(0, sd)) for name, sd in HUMAN_SPREAD.items()}
    for name, effect in OSA_EFFECT.items():
        log_factors[name] += OSA_STEP[osa_group] * effect
    for name, effect in AGE_EFFECT.items():
        log_factors[name] += AGE_STEP[age_group] * effect
    bmi = round(float(np.clip(rng.normal(26.5 + 3.5 * OSA_STEP[osa_group], 3), 18, 50)), 1)
    groups = {"age_group": age_group, "osa": osa_group}
    covariates: Covariates = {"age": age, "sex": sex, "ahi": ahi, **groups, "bmi": bmi}
    return Sleeper(number, covariates, {name: float(np.exp(value)) for name, value in log_factors.items()})


def draw_infant(seed: int, number: int) -> Sleeper:
    """Return an infant of up to three months."""
    rng = stream(seed, "people", number)
    weeks = float(rng.integers(1, 13))
    sex = "F" if rng.random() < 0.5 else "M"
    covariates: Covariates = {"age_weeks": weeks, "age": round(weeks / 52.18, 3), "sex": sex}
    return Sleeper(number, covariates, _spread(rng, HUMAN_SPREAD))


def draw_mouse(seed: int, number: int) -> Sleeper:
    """Return a mouse. Its covariates have no effect on its sleep."""
    rng = stream(seed, "people", number)
    sex = "F" if rng.random() < 0.5 else "M"
    weight = round(float(rng.normal(22 if sex == "F" else 27, 2)), 1)
    return Sleeper(number, {"sex": sex, "weight_g": weight}, _spread(rng, MOUSE_SPREAD))


def _spread(rng: np.random.Generator, deviations: Mapping[str, float]) -> dict[str, float]:
    return {name: float(np.exp(rng.normal(0, sd))) for name, sd in deviations.items()}


def _groups(number: int) -> tuple[str, str]:
    """Return age and OSA group of the n-th sleeper: the pair most behind its share, with its margins.

    The first few sleepers therefore differ already, and after 25 the groups have the paper's sizes and are
    uncorrelated.
    """
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
ONSET_REM_MINUTES = 20.0  # end of the early gate into REM, from the first cycle's beginning
NO_FACTORS: Mapping[str, float] = MappingProxyType({})
ONSET_STRETCH = 4.0  # on bouts of Wake before the first cycle: falling asleep takes longer than falling back


@dataclass(frozen=True, slots=True)
class Cycles:
    """The cycles of a night: lengths, gates, stretches. The last value of a tuple holds for later cycles."""

    minutes: float  # mean length of a cycle
    spread_minutes: float  # standard deviation of the length
    deep: tuple[float, ...]  # height of the gate into N3
    rem: tuple[float, ...]  # height of the gate into REM
    deep_stretch: tuple[float, ...]  # factor on the mean bouts of N3
    rem_stretch: tuple[float, ...]  # factor on the mean bouts of REM
    deep_centre: float = 0.38  # where in a cycle, from 0 to 1, the gate into N3 is most open
    rem_centre: float = 0.87
    onset_rem: float = 0.0  # height of an early gate into REM, up to `ONSET_REM_MINUTES`


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sleeper."""

    scheme: StageScheme  # in which the hypnogram is drawn
    epoch_seconds: float
    law: BoutLaw  # bouts before any clock
    cycles: Cycles | None  # of a night; None for mice, whose clock is the light

    @property
    def begin(self) -> Floats:
        """Distribution at the start of a night: a long bout of Wake."""
        start = np.zeros(N_PHASES * self.scheme.n_stages)
        start[self.scheme.n_stages] = 1.0
        return start


# Heights and centres are our choice: deep sleep early, REM late and longer from cycle to cycle.
ADULT_CYCLES = Cycles(
    90,
    12,
    (2.0, 1.4, 0.7, 0.3, 0.2),
    (0.9, 1.1, 1.3, 1.5, 1.6),
    (1.5, 1.2, 0.8, 0.5, 0.4),
    (0.5, 0.9, 1.1, 1.3, 1.4),
)
# Narcolepsy: REM may come first (within 15 minutes of sleep onset in half the nights of people with type 1,
# Andlauer et al. 2013, JAMA Neurol 70:891-902), and is spread more evenly. Amounts are our choice.
NARCOLEPSY_CYCLES = Cycles(
    90,
    20,
    (1.6, 1.2, 0.7, 0.3, 0.2),
    (1.3, 1.3, 1.3, 1.5, 1.6),
    (1.2, 1.0, 0.8, 0.5, 0.4),
    (1.0,),
    onset_rem=0.09,
)
# Newborns: cycles of about 50 to 60 minutes that begin with active sleep, which takes half of sleep
# (Grigg-Damberger 2016, J Clin Sleep Med 12:429-445). Active sleep is written as REM, quiet sleep as N2.
INFANT_CYCLES = Cycles(55, 7, (0.2,), (1.6,), (1.0,), (1.0,), 0.70, 0.25)
INFANT_TRANSITIONS = {  # of W, quiet (N2) and active sleep (R) per 30 s; our choice within that description
    "W": {"W": 0.90, "N2": 0.015, "R": 0.085},
    "N2": {"W": 0.016, "N2": 0.955, "R": 0.029},
    "R": {"W": 0.022, "N2": 0.028, "R": 0.95},
}
INFANT_ONE_EPOCH = {"W": 0.25, "N2": 0.05, "R": 0.08}
# Factors on the hazards of transitions in narcolepsy; our choice.
NARCOLEPSY_EXITS = {("W", "R"): 10.0, ("N1", "R"): 3.0, ("N2", "R"): 1.3, ("R", "W"): 1.6}
NARCOLEPSY_EXITS |= {(source, "W"): 1.7 for source in ("N1", "N2", "N3")}
NARCOLEPTIC_MOUSE_EXITS = {("W", "R"): 60.0, ("N", "W"): 1.5, ("W", "N"): 1.3}  # as in orexin-deficient mice


@cache
def kind_of(profile_name: str, variant: str = "adult") -> Kind:
    """Return sleepers whose mean transitions over a night, or a mouse's day, are those of a profile."""
    profile = Profile.load(profile_name)
    if profile.scheme == WNR3 and profile.species == "mouse":
        kind = _calibrate_kind(WNR3, profile.epoch_seconds, _matrix(profile), _one_epoch(profile), None)
        return _urge_transitions(kind, NARCOLEPTIC_MOUSE_EXITS, None) if variant == "narcolepsy" else kind
    if variant == "infant":
        return _calibrate_kind(AASM5, profile.epoch_seconds, *_infant_bouts(), INFANT_CYCLES)
    fine = Profile.load(FINE_PROFILE)
    target = lift_matrix(_matrix(fine), _matrix(profile), AASM5.merge_map(profile.scheme).astype(np.intp))
    kind = _calibrate_kind(AASM5, profile.epoch_seconds, target, _one_epoch(fine), ADULT_CYCLES)
    return _urge_transitions(kind, NARCOLEPSY_EXITS, NARCOLEPSY_CYCLES) if variant == "narcolepsy" else kind


def _calibrate_kind(
    scheme: StageScheme, epoch_seconds: float, target: Floats, one_epoch: Floats, cycles: Cycles | None
) -> Kind:
    """Return sleepers whose transitions are `target` over the nominal night, or over a day without cycles."""
    kind = Kind(scheme, epoch_seconds, BoutLaw(one_epoch, one_epoch, target), cycles)
    if cycles is None:
        return replace(kind, law=calibrate_law(target, one_epoch, day_clock(kind, 24, 0.0)))
    clock = night_clock(kind, None, NIGHT_HOURS)
    return replace(kind, law=calibrate_law(target, one_epoch, clock, kind.begin))


def night_clock(
    kind: Kind, rng: np.random.Generator | None, hours: float, factors: Mapping[str, float] = NO_FACTORS
) -> ChainClock:
    """Return the clock of one night, with random cycles or (without a generator) cycles of mean length."""
    cycles = kind.cycles
    assert cycles is not None
    slot_epochs = max(1, round(300 / kind.epoch_seconds))
    n_slots = max(1, int(np.ceil(hours * 3600 / kind.epoch_seconds / slot_epochs)))
    middles = (np.arange(n_slots) + 0.5) * slot_epochs * kind.epoch_seconds / 60 - ONSET_MINUTES
    number, moment = _cycle_of(middles, cycles, rng)
    gate = np.ones((n_slots, AASM5.n_stages))
    stretch = np.ones_like(gate)
    deep, rem = AASM5.index("N3"), AASM5.index("R")
    onset = cycles.onset_rem * (middles < ONSET_REM_MINUTES)
    early = np.where(number <= 0, factors.get("early R", 1.0), 1.0)
    stretch[number < 0, AASM5.index("W")] = ONSET_STRETCH
    gate[:, deep] = 0.10 + _values_by_cycle(cycles.deep, number) * _bump(moment, cycles.deep_centre, 0.20)
    gate[:, rem] = (
        0.02 + onset + _values_by_cycle(cycles.rem, number) * _bump(moment, cycles.rem_centre, 0.11)
    ) * early
    stretch[:, deep] = _values_by_cycle(cycles.deep_stretch, number)
    stretch[:, rem] = _values_by_cycle(cycles.rem_stretch, number) * (
        0.4 + onset + _bump(moment, cycles.rem_centre, 0.14)
    )
    return _clock(kind, gate, stretch, slot_epochs, factors)


def day_clock(
    kind: Kind, hours: float, start_hour: float, factors: Mapping[str, float] = NO_FACTORS
) -> ChainClock:
    """Return the clock of mice under lights that go on at hour 0 and off at hour 12."""
    slot_epochs = max(1, round(900 / kind.epoch_seconds))
    n_slots = max(1, int(np.ceil(hours * 3600 / kind.epoch_seconds / slot_epochs)))
    hour = start_hour + (np.arange(n_slots) + 0.5) * slot_epochs * kind.epoch_seconds / 3600
    light = 1 / (1 + np.exp(-8 * np.sin(2 * np.pi * hour / 24)))  # 1 by day, 0 by night, with smooth changes
    gate = np.ones((n_slots, kind.scheme.n_stages))
    stretch = np.ones_like(gate)
    wake, nrem, rem = (kind.scheme.index(name) for name in ("W", "N", "R"))
    gate[:, rem] = 0.6 + 0.6 * light
    gate[:, wake] = 1.25 - 0.35 * light
    stretch[:, wake] = 2.4 - 1.8 * light
    stretch[:, nrem] = 0.85 + 0.3 * light
    return _clock(kind, gate, stretch, slot_epochs, factors)


def _clock(
    kind: Kind, gate: Floats, stretch: Floats, slot_epochs: int, factors: Mapping[str, float]
) -> ChainClock:
    """Return a clock with the sleeper's factors on gates and stretches."""
    names = kind.scheme.names
    gate_factors = np.array([factors.get(f"gate {name}", 1.0) for name in names])
    stretch_factors = np.array([factors.get(f"stretch {name}", 1.0) for name in names])
    return ChainClock(gate * gate_factors, stretch * stretch_factors, slot_epochs)


def _cycle_of(minutes: Floats, cycles: Cycles, rng: np.random.Generator | None) -> tuple[Floats, Floats]:
    """Return the cycle of each time, -1 before the first, and the position in the cycle, from 0 to 1."""
    n_cycles = max(2, int(np.ceil(max(float(minutes[-1]), 0.0) / cycles.minutes * 2)) + 2)
    lengths = np.full(n_cycles, cycles.minutes)
    if rng is not None:
        lengths = np.clip(
            rng.normal(cycles.minutes, cycles.spread_minutes, n_cycles), 0.6 * cycles.minutes, None
        )
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    number = np.searchsorted(edges, minutes, side="right") - 1
    inside = np.clip(number, 0, n_cycles - 1)
    moment = np.where(number < 0, 0.0, (minutes - edges[inside]) / lengths[inside])
    return number.astype(np.float64), moment


def _values_by_cycle(values: tuple[float, ...], number: Floats) -> Floats:
    return np.asarray(np.array(values)[np.clip(number, 0, len(values) - 1).astype(int)])


def _bump(moment: Floats, centre: float, width: float) -> Floats:
    return np.asarray(np.exp(-0.5 * ((moment - centre) / width) ** 2))


def _infant_bouts() -> tuple[Floats, Floats]:
    """Return the transitions of infants, and the share of one-epoch bouts per stage."""
    target, one_epoch = np.eye(AASM5.n_stages), np.zeros(AASM5.n_stages)
    for source, row in INFANT_TRANSITIONS.items():
        one_epoch[AASM5.index(source)] = INFANT_ONE_EPOCH[source]
        for goal, chance in row.items():
            target[AASM5.index(source), AASM5.index(goal)] = chance
    for unused in ("N1", "N3"):  # never entered
        target[AASM5.index(unused)] = target[AASM5.index("N2")]
        target[AASM5.index(unused), AASM5.index(unused)] = 0.0
    return target, one_epoch


def _urge_transitions(kind: Kind, factors: Mapping[tuple[str, str], float], cycles: Cycles | None) -> Kind:
    """Return sleepers with factors on the hazards of some transitions; hazards compete with each other."""
    law, pull = kind.law, kind.law.exits.copy()
    for (source, goal), factor in factors.items():
        pull[kind.scheme.index(source), kind.scheme.index(goal)] *= factor
    total = pull.sum(axis=1)
    urged = BoutLaw(law.brief_share, law.long_leave * total, pull / total[:, None])
    return replace(kind, law=urged, cycles=cycles)


def _matrix(profile: Profile) -> Floats:
    matrix = np.array(profile.transitions)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _one_epoch(profile: Profile) -> Floats:
    """Return the share of one-epoch bouts in the middle of the experts' range."""
    bands = [profile.bands[f"one_epoch_bouts_percent_{name}"] for name in profile.scheme.names]
    return np.array([(band.low + band.high) / 200 for band in bands])


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
    rng = stream(seed, "hypnogram", sleeper.number)
    n_epochs = max(1, int(hours * 3600 / kind.epoch_seconds))
    evening, morning = (
        _wakeful_epochs(rng, minutes, n_epochs, kind.epoch_seconds) for minutes in awake_minutes
    )
    n_dark = n_epochs - evening - morning
    clock = night_clock(kind, rng, n_dark * kind.epoch_seconds / 3600, sleeper.factors)
    labels = np.full(n_epochs, kind.scheme.wake_index, dtype=np.int8)
    labels[evening : evening + n_dark] = draw(rng, kind.law, clock, n_dark, kind.begin)
    lights_off_hour = LIGHTS_OFF_HOUR + float(np.clip(rng.normal(0, 0.6), -1.5, 1.5))
    start = DATE + timedelta(seconds=round(lights_off_hour * 3600) - evening * kind.epoch_seconds)
    hypnogram = Hypnogram(labels, kind.scheme, kind.epoch_seconds, start, SCORER)
    return SimulatedSleep(hypnogram, evening * kind.epoch_seconds, (evening + n_dark) * kind.epoch_seconds)


def draw_day(
    kind: Kind, sleeper: Sleeper, seed: int, hours: float, *, start_hour: float = 0.0
) -> SimulatedSleep:
    """Return some hours of a mouse; `start_hour` counts from lights on."""
    rng = stream(seed, "hypnogram", sleeper.number)
    n_epochs = max(1, int(hours * 3600 / kind.epoch_seconds))
    clock = day_clock(kind, hours, start_hour, sleeper.factors)
    labels = draw(rng, kind.law, clock, n_epochs, kind.begin)
    start = DATE + timedelta(hours=LIGHTS_ON_PHASE + start_hour)
    return SimulatedSleep(Hypnogram(labels, kind.scheme, kind.epoch_seconds, start, SCORER))


def _wakeful_epochs(rng: np.random.Generator, minutes: float, n_epochs: int, epoch_seconds: float) -> int:
    drawn = rng.gamma(6.0, minutes / 6.0) * 60 / epoch_seconds if minutes else 0.0
    return int(min(drawn, LARGEST_WAKEFUL_SHARE * n_epochs))
