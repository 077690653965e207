"""How each kind of sleeper sleeps: bouts from the fitted profiles, clocks, and the nights drawn by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from types import MappingProxyType

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, WNR3, StageScheme
from stageguard.profile.profile import Profile
from stageguard.synthetic.chain import N_PHASES, BoutLaw, Clock, calibrated, draw, lifted
from stageguard.synthetic.noise import stream
from stageguard.synthetic.people import Sleeper

FINE_PROFILE = "human-psg-5"
NIGHT_HOURS = 8.0  # a night whose transitions, counted from its beginning to its end, are the profile's
ONSET_MINUTES = 10.0  # from lights off to the first cycle of the nominal night
ONSET_REM_MINUTES = 20.0  # from the first cycle's beginning
NO_FACTORS: Mapping[str, float] = MappingProxyType({})
ONSET_STRETCH = 4.0  # on bouts of Wake in these minutes: falling asleep takes longer than falling back


@dataclass(frozen=True, slots=True)
class Cycles:
    """The cycles of a night: how long, and what each opens the way to; later ones are like the last."""

    minutes: float  # mean length of a cycle
    spread_minutes: float  # its standard deviation from cycle to cycle
    deep: tuple[float, ...]  # height of the gate into N3
    rem: tuple[float, ...]  # height of the gate into REM
    deep_stretch: tuple[float, ...]  # factor on the mean bouts of N3
    rem_stretch: tuple[float, ...]  # factor on the mean bouts of REM
    deep_centre: float = 0.38  # where in a cycle, from 0 to 1, the gate into N3 is most open
    rem_centre: float = 0.87
    onset_rem: float = 0.0  # height of a gate into REM in the first half hour, before any cycle comes to it


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sleeper."""

    scheme: StageScheme  # the hypnogram is drawn in
    epoch_seconds: float
    law: BoutLaw  # bouts before any clock
    cycles: Cycles | None  # of a night; None for mice, whose clock is the light

    @property
    def begin(self) -> Floats:
        """Where a night begins: in a long bout of Wake."""
        start = np.zeros(N_PHASES * self.scheme.n_stages)
        start[self.scheme.n_stages] = 1.0
        return start


# Heights and places are our choice: deep sleep early, REM late and longer from cycle to cycle.
ADULT_CYCLES = Cycles(
    90,
    12,
    (2.0, 1.4, 0.7, 0.3, 0.2),
    (0.9, 1.1, 1.3, 1.5, 1.6),
    (1.5, 1.2, 0.8, 0.5, 0.4),
    (0.5, 0.9, 1.1, 1.3, 1.4),
)
# Narcolepsy: REM may open a night (within 15 minutes of sleep onset in half the nights of people with type 1,
# Andlauer et al. 2013, JAMA Neurol 70:891-902), and opens more evenly through it. Amounts are our choice.
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
# Factors on the hazards of going from one stage to another in narcolepsy; our choice.
NARCOLEPSY_EXITS = {("W", "R"): 10.0, ("N1", "R"): 3.0, ("N2", "R"): 1.3, ("R", "W"): 1.6}
NARCOLEPSY_EXITS |= {(source, "W"): 1.7 for source in ("N1", "N2", "N3")}
NARCOLEPTIC_MOUSE_EXITS = {("W", "R"): 60.0, ("N", "W"): 1.5, ("W", "N"): 1.3}  # as in orexin-deficient mice


@cache
def kind_of(profile_name: str, variant: str = "adult") -> Kind:
    """Return the kind of sleeper that a fitted profile describes, adult, narcoleptic or (no mouse) infant.

    The profile's transitions are met on average over a night (people) or a day (mice).
    """
    profile = Profile.load(profile_name)
    if profile.scheme == WNR3 and profile.species == "mouse":
        kind = _calibrated(WNR3, profile.epoch_seconds, _matrix(profile), _one_epoch(profile), None)
        return _urged(kind, NARCOLEPTIC_MOUSE_EXITS, None) if variant == "narcolepsy" else kind
    if variant == "infant":
        return _calibrated(AASM5, profile.epoch_seconds, *_infant_bouts(), INFANT_CYCLES)
    fine = Profile.load(FINE_PROFILE)
    target = lifted(_matrix(fine), _matrix(profile), AASM5.merge_map(profile.scheme).astype(np.intp))
    kind = _calibrated(AASM5, profile.epoch_seconds, target, _one_epoch(fine), ADULT_CYCLES)
    return _urged(kind, NARCOLEPSY_EXITS, NARCOLEPSY_CYCLES) if variant == "narcolepsy" else kind


def _calibrated(
    scheme: StageScheme, epoch_seconds: float, target: Floats, one_epoch: Floats, cycles: Cycles | None
) -> Kind:
    """Return sleepers whose transitions are `target` over the nominal night, or over a day without cycles."""
    kind = Kind(scheme, epoch_seconds, BoutLaw(one_epoch, one_epoch, target), cycles)
    if cycles is None:
        return replace(kind, law=calibrated(target, one_epoch, day_clock(kind, 24, 0.0)))
    clock = night_clock(kind, None, NIGHT_HOURS)
    return replace(kind, law=calibrated(target, one_epoch, clock, kind.begin))


def night_clock(
    kind: Kind, rng: np.random.Generator | None, hours: float, factors: Mapping[str, float] = NO_FACTORS
) -> Clock:
    """Return the clock of one night, its cycles drawn or (without a generator) all of the mean length."""
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
    gate[:, deep] = 0.10 + _by_cycle(cycles.deep, number) * _bump(moment, cycles.deep_centre, 0.20)
    gate[:, rem] = (
        0.02 + onset + _by_cycle(cycles.rem, number) * _bump(moment, cycles.rem_centre, 0.11)
    ) * early
    stretch[:, deep] = _by_cycle(cycles.deep_stretch, number)
    stretch[:, rem] = _by_cycle(cycles.rem_stretch, number) * (
        0.4 + onset + _bump(moment, cycles.rem_centre, 0.14)
    )
    return _clock(kind, gate, stretch, slot_epochs, factors)


def day_clock(
    kind: Kind, hours: float, start_hour: float, factors: Mapping[str, float] = NO_FACTORS
) -> Clock:
    """Return the clock of mice under lights that go on at hour 0 and off at hour 12."""
    slot_epochs = max(1, round(900 / kind.epoch_seconds))
    n_slots = max(1, int(np.ceil(hours * 3600 / kind.epoch_seconds / slot_epochs)))
    hour = start_hour + (np.arange(n_slots) + 0.5) * slot_epochs * kind.epoch_seconds / 3600
    light = 1 / (1 + np.exp(-8 * np.sin(2 * np.pi * hour / 24)))  # 1 by day, 0 by night, half an hour between
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
) -> Clock:
    """Return the clock of a sleeper, whose own gates and stretches come on top."""
    names = kind.scheme.names
    gate_factors = np.array([factors.get(f"gate {name}", 1.0) for name in names])
    stretch_factors = np.array([factors.get(f"stretch {name}", 1.0) for name in names])
    return Clock(gate * gate_factors, stretch * stretch_factors, slot_epochs)


def _cycle_of(minutes: Floats, cycles: Cycles, rng: np.random.Generator | None) -> tuple[Floats, Floats]:
    """Return the number of each moment's cycle, -1 before the first, and the moment in it, from 0 to 1."""
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


def _by_cycle(values: tuple[float, ...], number: Floats) -> Floats:
    return np.asarray(np.array(values)[np.clip(number, 0, len(values) - 1).astype(int)])


def _bump(moment: Floats, centre: float, width: float) -> Floats:
    return np.asarray(np.exp(-0.5 * ((moment - centre) / width) ** 2))


def _infant_bouts() -> tuple[Floats, Floats]:
    """Return transitions of infants and their shares of one-epoch bouts."""
    target, one_epoch = np.eye(AASM5.n_stages), np.zeros(AASM5.n_stages)
    for source, row in INFANT_TRANSITIONS.items():
        one_epoch[AASM5.index(source)] = INFANT_ONE_EPOCH[source]
        for goal, chance in row.items():
            target[AASM5.index(source), AASM5.index(goal)] = chance
    for unused in ("N1", "N3"):  # never entered
        target[AASM5.index(unused)] = target[AASM5.index("N2")]
        target[AASM5.index(unused), AASM5.index(unused)] = 0.0
    return target, one_epoch


def _urged(kind: Kind, factors: Mapping[tuple[str, str], float], cycles: Cycles | None) -> Kind:
    """Return sleepers with some ways multiplied, each as a hazard that competes with the others."""
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
LARGEST_WAKEFUL_SHARE = 0.15  # of a short recording, before lights off and after lights on each


@dataclass(frozen=True, slots=True)
class Night:
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
) -> Night:
    """Return a night of somebody; `awake_minutes` are means, before lights off and after lights on."""
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
    return Night(hypnogram, evening * kind.epoch_seconds, (evening + n_dark) * kind.epoch_seconds)


def draw_day(kind: Kind, sleeper: Sleeper, seed: int, hours: float, *, start_hour: float = 0.0) -> Night:
    """Return a stretch of a mouse's life; `start_hour` is counted from the moment the lights go on."""
    rng = stream(seed, "hypnogram", sleeper.number)
    n_epochs = max(1, int(hours * 3600 / kind.epoch_seconds))
    clock = day_clock(kind, hours, start_hour, sleeper.factors)
    labels = draw(rng, kind.law, clock, n_epochs, kind.begin)
    start = DATE + timedelta(hours=LIGHTS_ON_PHASE + start_hour)
    return Night(Hypnogram(labels, kind.scheme, kind.epoch_seconds, start, SCORER))


def _wakeful_epochs(rng: np.random.Generator, minutes: float, n_epochs: int, epoch_seconds: float) -> int:
    drawn = rng.gamma(6.0, minutes / 6.0) * 60 / epoch_seconds if minutes else 0.0
    return int(min(drawn, LARGEST_WAKEFUL_SHARE * n_epochs))
