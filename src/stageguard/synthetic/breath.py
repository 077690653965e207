"""Breathing: regular in deep sleep, irregular in REM and wake, with apnoeas. Makes no sensor's signal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5
from stageguard.synthetic.appearance import Scatter, levels
from stageguard.synthetic.events import Event
from stageguard.synthetic.noise import drift, held, moments

RATE_HZ = 10.0

# Breaths per minute; logarithm of how much length and depth of breaths scatter; after the order of stages in
# Rostig et al. 2005 (Sleep 28:411-417) and Douglas et al. 1982 (Thorax 37:840-844). Levels are our choice.
BREATHS_PER_MINUTE = {"W": 16.0, "N1": 15.2, "N2": 14.8, "N3": 15.0, "R": 15.6}
LENGTH_SCATTER = {"W": -1.6, "N1": -2.0, "N2": -2.6, "N3": -3.0, "R": -1.75}
DEPTH_SCATTER = {"W": -1.0, "N1": -1.5, "N2": -2.1, "N3": -2.5, "R": -1.3}
DEPTH = {"W": 0.05, "N1": 0.0, "N2": 0.0, "N3": 0.05, "R": -0.20}

PACE_SPREAD = Scatter(1.8, 0.5, 0.7)
LENGTH_SPREAD = Scatter(0.12, 0.12, 0.30)
DEPTH_SPREAD = Scatter(0.12, 0.12, 0.30)
LEVEL_SPREAD = Scatter(0.0, 0.10, 0.10)
BREATH_MEMORY = 4.0  # seconds

APNOEA = "Obstructive apnea"
HYPOPNOEA = "Hypopnea"
FLOW_LEFT = {APNOEA: 0.06, HYPOPNOEA: 0.45}  # share of the airflow
EFFORT_LEFT = {APNOEA: 0.40, HYPOPNOEA: 0.65}  # share of the movement of chest and belly


@dataclass(frozen=True, slots=True)
class Breath:
    """Breathing at 10 Hz.

    Parameters
    ----------
    phase : array (n,)
        Breaths since the beginning, in turns.
    depth : array (n,)
        Depth of the breath without any event; about 1.
    flow, effort : array (n,)
        Share of airflow and of effort that events leave.
    paradox : array (n,)
        1 where chest and belly move against each other.
    """

    phase: Floats
    depth: Floats
    flow: Floats
    effort: Floats
    paradox: Floats

    @property
    def wave(self) -> Floats:
        """Air in the lungs: faster in than out."""
        turn = 2 * np.pi * self.phase
        return np.asarray(np.sin(turn + 0.35 * np.sin(turn)))


def breathe(rng: np.random.Generator, looks: Floats, epoch_seconds: float, apnoeas: list[Event]) -> Breath:
    """Return the breathing of a night.

    Parameters
    ----------
    looks : array (n_epochs, 5)
        Share of each AASM stage in the look of every epoch.
    apnoeas : list of Event
        Apnoeas and hypopnoeas.
    """
    names = AASM5.names
    n = round(len(looks) * epoch_seconds * RATE_HZ)
    times = moments(n, RATE_HZ)
    pace = levels(rng, looks, BREATHS_PER_MINUTE, names, PACE_SPREAD, epoch_seconds) / 60
    length = np.exp(levels(rng, looks, LENGTH_SCATTER, names, LENGTH_SPREAD, epoch_seconds))
    unevenness = np.exp(levels(rng, looks, DEPTH_SCATTER, names, DEPTH_SPREAD, epoch_seconds))
    level = levels(rng, looks, DEPTH, names, LEVEL_SPREAD, epoch_seconds)
    n_seconds = int(np.ceil(len(looks) * epoch_seconds))
    wobble, sway = (drift(rng, n_seconds, BREATH_MEMORY) for _ in range(2))
    seconds = moments(n_seconds, 1.0)
    per_second = np.clip(
        held(pace, epoch_seconds, seconds) * np.exp(held(length, epoch_seconds, seconds) * wobble), 0.08, 0.7
    )
    deep = np.exp(held(level, epoch_seconds, seconds) + held(unevenness, epoch_seconds, seconds) * sway)
    phase = np.cumsum(np.interp(times, seconds, per_second)) / RATE_HZ
    flow, effort, paradox = np.ones(n), np.ones(n), np.zeros(n)
    for event in apnoeas:
        place = event.samples(RATE_HZ, n)
        flow[place], effort[place] = FLOW_LEFT[event.kind], EFFORT_LEFT[event.kind]
        paradox[place] = float(event.kind == APNOEA)
    ramp = np.ones(10) / 10  # a second to fade in and out
    flow, effort, paradox = (np.convolve(part, ramp, mode="same") for part in (flow, effort, paradox))
    return Breath(phase, np.interp(times, seconds, np.clip(deep, 0.05, 6)), flow, effort, paradox)


def apnoeas(rng: np.random.Generator, night: Hypnogram, per_hour: float) -> list[Event]:
    """Return apnoeas and hypopnoeas in sleep, so many per hour of it, more in REM and hardly any in N3."""
    weight = np.array([{"W": 0.0, "N3": 0.3, "R": 1.5}.get(name, 1.0) for name in night.scheme.names])
    per_epoch = weight[night.labels]
    hours = float(np.isin(night.labels, np.flatnonzero(weight > 0)).sum()) * night.epoch_seconds / 3600
    if not per_epoch.any() or per_hour <= 0:
        return []
    share = per_epoch / per_epoch.sum()
    n_events = int(rng.poisson(per_hour * hours))
    starts = np.sort((rng.choice(len(share), n_events, p=share) + rng.random(n_events)) * night.epoch_seconds)
    made: list[Event] = []
    for start in starts.tolist():
        begin = max(start, made[-1].end_seconds + 12) if made else start
        length = float(rng.uniform(12, 38))
        epoch = int((begin + length) / night.epoch_seconds)
        if epoch >= night.n_epochs or weight[night.labels[int(begin / night.epoch_seconds)]] == 0:
            continue
        kind = APNOEA if rng.random() < 0.35 else HYPOPNOEA
        made.append(Event(kind, "airflow", begin, length))
    return made
