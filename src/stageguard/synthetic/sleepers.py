"""How each kind of sleeper sleeps: bouts from the fitted profiles, clocks of night and day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.stages import AASM5, WNR3, StageScheme
from stageguard.profile.profile import Profile
from stageguard.synthetic.chain import N_PHASES, BoutLaw, Clock, calibrated, lifted

FINE_PROFILE = "human-psg-5"
NIGHT_HOURS = 8.0  # a night whose transitions, counted from its beginning to its end, are the profile's
ONSET_MINUTES = 10.0  # from lights off to the first cycle of the nominal night
ONSET_REM_MINUTES = 20.0  # from the first cycle's beginning
ONSET_STRETCH = 4.0  # on bouts of Wake in these minutes: falling asleep takes longer than falling back


@dataclass(frozen=True, slots=True)
class Cycles:
    """The cycles of a night: how long, and what each opens the way to; later ones are like the last.

    Parameters
    ----------
    minutes, spread_minutes : float
        Mean length of a cycle, and its standard deviation from cycle to cycle.
    deep, rem : tuple of float
        Height of the gates into N3 and REM.
    deep_stretch, rem_stretch : tuple of float
        Factors on the mean bouts of N3 and REM.
    deep_centre, rem_centre : float
        Where in a cycle, from 0 to 1, they are most open.
    onset_rem : float
        Height of a gate into REM in the first half hour, before any cycle has come to it.
    """

    minutes: float
    spread_minutes: float
    deep: tuple[float, ...]
    rem: tuple[float, ...]
    deep_stretch: tuple[float, ...]
    rem_stretch: tuple[float, ...]
    deep_centre: float = 0.38
    rem_centre: float = 0.87
    onset_rem: float = 0.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sleeper.

    Parameters
    ----------
    name : str
        Such as "adult".
    scheme : StageScheme
        Stages the hypnogram is drawn in.
    epoch_seconds : float
        Length of an epoch.
    law : BoutLaw
        Bouts before any clock.
    cycles : Cycles or None
        Of a night; None for mice, whose clock is the light.
    """

    name: str
    scheme: StageScheme
    epoch_seconds: float
    law: BoutLaw
    cycles: Cycles | None

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
NARCOLEPSY_WAKE = 1.7  # on every way into Wake from N1, N2, N3
NARCOLEPTIC_MOUSE_EXITS = {("W", "R"): 60.0, ("N", "W"): 1.5, ("W", "N"): 1.3}  # as in orexin-deficient mice


@cache
def kind_of(profile_name: str, variant: str = "adult") -> Kind:
    """Return the kind of sleeper a modality's profile describes.

    Parameters
    ----------
    profile_name : str
        A fitted profile, such as "human-cardiorespiratory-3"; its transitions are met on average over a night
        (people) or a day (mice).
    variant : {"adult", "narcolepsy", "infant"}
        Whose sleep. Mice are adult, or narcoleptic.
    """
    profile = Profile.load(profile_name)
    if profile.scheme == WNR3 and profile.species == "mouse":
        return _mouse(profile, variant)
    if variant == "infant":
        return _infant(profile.epoch_seconds)
    fine = Profile.load(FINE_PROFILE)
    target = lifted(_matrix(fine), _matrix(profile), AASM5.merge_map(profile.scheme).astype(np.intp))
    one_epoch = _one_epoch(fine)
    kind = Kind("adult", AASM5, profile.epoch_seconds, BoutLaw(one_epoch, one_epoch, target), ADULT_CYCLES)
    law = calibrated(target, one_epoch, night_clock(kind, None, NIGHT_HOURS), kind.begin)
    if variant == "narcolepsy":
        factors = {**NARCOLEPSY_EXITS, **{(s, "W"): NARCOLEPSY_WAKE for s in ("N1", "N2", "N3")}}
        return Kind(
            "narcolepsy", AASM5, profile.epoch_seconds, _urged(law, AASM5, factors), NARCOLEPSY_CYCLES
        )
    return Kind("adult", AASM5, profile.epoch_seconds, law, ADULT_CYCLES)


def night_clock(
    kind: Kind, rng: np.random.Generator | None, hours: float, factors: Mapping[str, float] | None = None
) -> Clock:
    """Return the clock of one night, its cycles drawn or (without a generator) all of the mean length."""
    cycles = kind.cycles
    assert cycles is not None
    slot_epochs = max(1, round(300 / kind.epoch_seconds))
    n_slots = max(1, int(np.ceil(hours * 3600 / kind.epoch_seconds / slot_epochs)))
    middles = (np.arange(n_slots) + 0.5) * slot_epochs * kind.epoch_seconds / 60 - ONSET_MINUTES
    number, moment = _cycle_of(middles, cycles, rng)
    factors = factors or {}
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
    clock = Clock(gate, stretch, slot_epochs)
    return clock.scaled(*_factors(kind.scheme, factors))


def day_clock(
    kind: Kind, hours: float, start_hour: float, factors: Mapping[str, float] | None = None
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
    return Clock(gate, stretch, slot_epochs).scaled(*_factors(kind.scheme, factors or {}))


def _factors(scheme: StageScheme, factors: Mapping[str, float]) -> tuple[Floats, Floats]:
    gate = np.array([factors.get(f"gate {name}", 1.0) for name in scheme.names])
    stretch = np.array([factors.get(f"stretch {name}", 1.0) for name in scheme.names])
    return gate, stretch


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


def _mouse(profile: Profile, variant: str) -> Kind:
    target, one_epoch = _matrix(profile), _one_epoch(profile)
    kind = Kind("mouse", WNR3, profile.epoch_seconds, BoutLaw(one_epoch, one_epoch, target), None)
    law = calibrated(target, one_epoch, day_clock(kind, 24, 0.0))
    if variant == "narcolepsy":
        return Kind(
            "narcoleptic mouse", WNR3, profile.epoch_seconds, _urged(law, WNR3, NARCOLEPTIC_MOUSE_EXITS), None
        )
    return Kind("mouse", WNR3, profile.epoch_seconds, law, None)


def _infant(epoch_seconds: float) -> Kind:
    target, one_epoch = np.eye(AASM5.n_stages), np.zeros(AASM5.n_stages)
    for source, row in INFANT_TRANSITIONS.items():
        one_epoch[AASM5.index(source)] = INFANT_ONE_EPOCH[source]
        for goal, chance in row.items():
            target[AASM5.index(source), AASM5.index(goal)] = chance
    for unused in ("N1", "N3"):  # never entered
        target[AASM5.index(unused)] = target[AASM5.index("N2")]
        target[AASM5.index(unused), AASM5.index(unused)] = 0.0
    kind = Kind("infant", AASM5, epoch_seconds, BoutLaw(one_epoch, one_epoch, target), INFANT_CYCLES)
    law = calibrated(target, one_epoch, night_clock(kind, None, NIGHT_HOURS), kind.begin)
    return Kind("infant", AASM5, epoch_seconds, law, INFANT_CYCLES)


def _urged(law: BoutLaw, scheme: StageScheme, factors: Mapping[tuple[str, str], float]) -> BoutLaw:
    """Return a law with some ways multiplied, each as a hazard that competes with the others."""
    pull = law.exits.copy()
    for (source, goal), factor in factors.items():
        pull[scheme.index(source), scheme.index(goal)] *= factor
    total = pull.sum(axis=1)
    return BoutLaw(law.brief_share, law.long_leave * total, pull / total[:, None])


def _matrix(profile: Profile) -> Floats:
    matrix = np.array(profile.transitions)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def _one_epoch(profile: Profile) -> Floats:
    """Return the share of one-epoch bouts in the middle of the experts' range."""
    bands = [profile.bands[f"one_epoch_bouts_percent_{name}"] for name in profile.scheme.names]
    return np.array([(band.low + band.high) / 200 for band in bands])
