"""A sleeper's body: movements, breathing with apnoeas, heartbeats and their ECG.

`looks` (n_epochs, 5) is how much every epoch looks like each AASM stage, see `appearances`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stageguard.arrays import Floats, Floats32, Ints
from stageguard.night.hypnogram import Hypnogram
from stageguard.synthetic.events import SignalEvent
from stageguard.synthetic.noise import Scatter, appearances, at_times, drift, levels, moments, stream
from stageguard.synthetic.sleepers import Sleeper

# Logarithms of the movements per minute and of their size, in g at the wrist. The order of the stages is from
# Wilde-Frenz & Schulz 1983 (Percept Mot Skills 56:275-283); levels are our choice.
MOVES_PER_MINUTE = {"W": 1.5, "N1": -0.9, "N2": -2.6, "N3": -3.6, "R": -2.0}
MOVE_SIZE = {"W": -2.1, "N1": -2.5, "N2": -2.7, "N3": -2.9, "R": -3.0}
MOVES_SCATTER = Scatter(0.25, 0.3, 0.5)
SIZE_SCATTER = Scatter(0.15, 0.15, 0.2)

TURN_SIZE = 0.12  # a larger movement changes the posture


def movement(rng: np.random.Generator, looks: Floats, epoch_seconds: float) -> Floats:
    """Return the size of the movement in every second: bursts of some seconds, by stage."""
    rate = np.exp(levels(rng, looks, MOVES_PER_MINUTE, MOVES_SCATTER, epoch_seconds))
    size = np.exp(levels(rng, looks, MOVE_SIZE, SIZE_SCATTER, epoch_seconds))
    n_seconds = int(np.ceil(len(looks) * epoch_seconds))
    times = moments(n_seconds, 1.0)
    begins = np.flatnonzero(rng.random(n_seconds) < at_times(rate, epoch_seconds, times) / 60)
    sizes = at_times(size, epoch_seconds, times[begins]) * np.exp(rng.normal(0, 0.5, len(begins)))
    lengths = 1 + rng.gamma(1.2, 2.0, len(begins)).astype(np.int64)
    move = np.zeros(n_seconds)
    for begin, bout_size, length in zip(begins, sizes, lengths, strict=True):
        end = min(begin + length, n_seconds)
        move[begin:end] = np.maximum(move[begin:end], bout_size)
    return move


def turn_seconds(move: Floats) -> Ints:
    """Return the seconds in which the posture begins to change, given the movement in every second."""
    large = np.flatnonzero(move > TURN_SIZE)
    return np.asarray(large[np.diff(large, prepend=-10) > 5])


def effort_of(move: Floats, memory: float) -> Floats:
    """Return the effort of movement in every second, which fades over ``memory`` seconds."""
    return np.convolve(move, np.exp(-np.arange(40) / memory), mode="full")[: len(move)]


BREATH_HZ = 10.0

# Breaths per minute; logarithm of the scatter of breath length and depth. The order of the stages is from
# Rostig et al. 2005 (Sleep 28:411-417) and Douglas et al. 1982 (Thorax 37:840-844); levels are our choice.
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
FLOW_LEFT = {APNOEA: 0.06, HYPOPNOEA: 0.45}  # remaining share of the airflow
EFFORT_LEFT = {APNOEA: 0.40, HYPOPNOEA: 0.65}  # remaining share of the movement of chest and belly


@dataclass(frozen=True, slots=True)
class Breath:
    """Breathing at 10 Hz, arrays (n,)."""

    phase: Floats  # number of breaths since the beginning
    depth: Floats  # of the breath without events; about 1
    flow: Floats  # share of the airflow that remains during events
    effort: Floats  # share of the effort that remains during events
    paradox: Floats  # 1 where chest and belly move in opposite directions

    @property
    def wave(self) -> Floats:
        """Volume of the lungs; breathing in is faster than out."""
        turn = 2 * np.pi * self.phase
        return np.asarray(np.sin(turn + 0.35 * np.sin(turn)))


def breathe(
    rng: np.random.Generator, looks: Floats, epoch_seconds: float, apnoeas: list[SignalEvent]
) -> Breath:
    """Return the breathing of a night with apnoeas and hypopnoeas."""
    n = round(len(looks) * epoch_seconds * BREATH_HZ)
    times = moments(n, BREATH_HZ)
    pace = levels(rng, looks, BREATHS_PER_MINUTE, PACE_SPREAD, epoch_seconds) / 60
    length = np.exp(levels(rng, looks, LENGTH_SCATTER, LENGTH_SPREAD, epoch_seconds))
    unevenness = np.exp(levels(rng, looks, DEPTH_SCATTER, DEPTH_SPREAD, epoch_seconds))
    level = levels(rng, looks, DEPTH, LEVEL_SPREAD, epoch_seconds)
    n_seconds = int(np.ceil(len(looks) * epoch_seconds))
    wobble, sway = (drift(rng, n_seconds, BREATH_MEMORY) for _ in range(2))
    seconds = moments(n_seconds, 1.0)
    per_second = np.clip(
        at_times(pace, epoch_seconds, seconds) * np.exp(at_times(length, epoch_seconds, seconds) * wobble),
        0.08,
        0.7,
    )
    deep = np.exp(
        at_times(level, epoch_seconds, seconds) + at_times(unevenness, epoch_seconds, seconds) * sway
    )
    phase = np.cumsum(np.interp(times, seconds, per_second)) / BREATH_HZ
    flow, effort, paradox = np.ones(n), np.ones(n), np.zeros(n)
    for event in apnoeas:
        samples = event.samples(BREATH_HZ, n)
        flow[samples], effort[samples] = FLOW_LEFT[event.kind], EFFORT_LEFT[event.kind]
        paradox[samples] = float(event.kind == APNOEA)
    ramp = np.ones(10) / 10  # events fade in and out within a second
    flow, effort, paradox = (np.convolve(part, ramp, mode="same") for part in (flow, effort, paradox))
    return Breath(phase, np.interp(times, seconds, np.clip(deep, 0.05, 6)), flow, effort, paradox)


def draw_apnoeas(rng: np.random.Generator, night: Hypnogram, per_hour: float) -> list[SignalEvent]:
    """Return apnoeas and hypopnoeas, ``per_hour`` of sleep; more in REM and fewer in N3."""
    weight = np.array([{"W": 0.0, "N3": 0.3, "R": 1.5}.get(name, 1.0) for name in night.scheme.names])
    per_epoch = weight[night.labels]
    hours = float(np.isin(night.labels, np.flatnonzero(weight > 0)).sum()) * night.epoch_seconds / 3600
    if not per_epoch.any() or per_hour <= 0:
        return []
    share = per_epoch / per_epoch.sum()
    n_events = int(rng.poisson(per_hour * hours))
    starts = np.sort((rng.choice(len(share), n_events, p=share) + rng.random(n_events)) * night.epoch_seconds)
    made: list[SignalEvent] = []
    for start in starts.tolist():
        begin = max(start, made[-1].end_seconds + 12) if made else start
        length = float(rng.uniform(12, 38))
        epoch = int((begin + length) / night.epoch_seconds)
        if epoch >= night.n_epochs or weight[night.labels[int(begin / night.epoch_seconds)]] == 0:
            continue
        kind = APNOEA if rng.random() < 0.35 else HYPOPNOEA
        made.append(SignalEvent(kind, "airflow", begin, length))
    return made


# Beats per minute, and their swing with each breath (high frequency) and with blood pressure (low frequency).
# The order of the stages is from Task Force 1996 (Circulation 93:1043) and Vaughn et al. 1995
# (Electroencephalogr Clin Neurophysiol 94:155); levels are our choice.
BEATS_PER_MINUTE = {"W": 69.0, "N1": 64.0, "N2": 61.0, "N3": 60.0, "R": 64.5}
BREATH_SWING = {"W": 1.6, "N1": 2.2, "N2": 2.8, "N3": 3.2, "R": 1.7}
SLOW_SWING = {"W": 3.4, "N1": 2.6, "N2": 1.8, "N3": 1.2, "R": 3.2}

RATE_SPREAD = Scatter(7.0, 1.8, 2.2)
BREATH_SPREAD = Scatter(0.5, 0.3, 0.4)
SLOW_SPREAD = Scatter(0.4, 0.4, 0.6)

# Waves of a heartbeat: seconds from the R peak, width in seconds, height in mV.
WAVES = (
    (-0.19, 0.025, 0.12),
    (-0.030, 0.010, -0.12),
    (0.0, 0.011, 1.10),
    (0.030, 0.011, -0.25),
    (0.26, 0.045, 0.28),
)


def beat_times(
    rng: np.random.Generator,
    looks: Floats,
    epoch_seconds: float,
    breath: Breath,
    apnoeas: list[SignalEvent],
    move: Floats,
) -> Floats:
    """Return the times of heartbeats in seconds; the rate follows breath, apnoeas and movement."""
    times = moments(len(breath.phase), BREATH_HZ)
    mean = levels(rng, looks, BEATS_PER_MINUTE, RATE_SPREAD, epoch_seconds)
    swing = np.maximum(levels(rng, looks, BREATH_SWING, BREATH_SPREAD, epoch_seconds), 0.2)
    slow = np.maximum(levels(rng, looks, SLOW_SWING, SLOW_SPREAD, epoch_seconds), 0.3)
    rate = _ease(at_times(mean, epoch_seconds, times)) + at_times(swing, epoch_seconds, times) * breath.wave
    rate += at_times(slow, epoch_seconds, times) * _slow_wave(rng, times)
    for event in apnoeas:
        _add_bump(rate, times, -4.0, event.start_seconds + event.seconds / 2, event.seconds / 3)
        _add_bump(rate, times, 9.0, event.end_seconds + 4, 4.0)
    effort = effort_of(move, 10)
    rate += 6 * np.minimum(np.interp(times, moments(len(effort), 1.0), effort), 2.0)
    beats = np.cumsum(np.clip(rate, 32, 185)) / 60 / BREATH_HZ
    whole = np.arange(1, int(beats[-1]) + 1)
    made = np.interp(whole, beats, times) + rng.normal(0, 0.004, len(whole))
    return np.asarray(np.sort(made[made > 0]))


def ecg_of(
    rng: np.random.Generator, beats: Floats, breath: Breath, rate_hz: float, n_samples: int
) -> Floats32:
    """Return an ECG in mV: a sum of waves around every beat, on a baseline that follows breathing."""
    made = np.zeros(n_samples + 2 * round(rate_hz), dtype=np.float32)
    reach = np.arange(round(-0.30 * rate_hz), round(0.45 * rate_hz) + 1)
    whole = np.floor(beats * rate_hz).astype(np.int64)
    offset = (reach - (beats * rate_hz - whole)[:, None]) / rate_hz  # seconds from each beat's R peak
    interval = np.clip(np.diff(beats, append=beats[-1] + 0.9), 0.35, 1.6)[:, None]
    waves = np.zeros_like(offset)
    for seconds, width, height in WAVES:
        centre = seconds * np.sqrt(interval / 0.9) if seconds > 0.1 else seconds  # T follows the rate
        waves += height * np.exp(-0.5 * ((offset - centre) / width) ** 2)
    size = rng.uniform(0.5, 0.95)
    np.add.at(made, (whole[:, None] + reach[None, :] + round(rate_hz)).ravel(), (size * waves).ravel())
    signal = made[round(rate_hz) : round(rate_hz) + n_samples]
    times = moments(n_samples, rate_hz)
    breath_times = moments(len(breath.phase), BREATH_HZ)
    signal += (0.06 * np.interp(times, breath_times, breath.wave)).astype(np.float32)
    signal += rng.normal(0, 0.025, n_samples).astype(np.float32)
    return signal


def _slow_wave(rng: np.random.Generator, times: Floats) -> Floats:
    """Return noise around 0.1 Hz with variance 1."""
    n_seconds = int(np.ceil(times[-1])) + 2
    seconds = np.arange(n_seconds)
    turn = 2 * np.pi * (0.1 * seconds + 0.15 * np.cumsum(drift(rng, n_seconds, 30)) / 30)
    made = np.sin(turn) * (1 + 0.4 * drift(rng, n_seconds, 40)) + 0.5 * drift(rng, n_seconds, 25)
    return np.asarray(np.interp(times, seconds, made / made.std()))


def _ease(values: Floats) -> Floats:
    """Smooth the steps between levels over 8 s."""
    width = round(8 * BREATH_HZ)
    padded = np.pad(values, width, mode="edge")
    sums = np.cumsum(np.insert(padded, 0, 0.0))
    smooth = (sums[width:] - sums[:-width]) / width
    first = width - width // 2
    return np.asarray(smooth[first : first + len(values)])


def _add_bump(values: Floats, times: Floats, height: float, centre: float, width: float) -> None:
    near = slice(*np.searchsorted(times, [centre - 4 * width, centre + 4 * width]))
    values[near] += height * np.exp(-0.5 * ((times[near] - centre) / width) ** 2)


@dataclass(frozen=True, slots=True)
class Body:
    """A sleeper's apnoeas, breathing, movements and heartbeats in one night."""

    apnoeas: list[SignalEvent]  # and hypopnoeas
    breath: Breath
    move: Floats  # (n_seconds,) size of the movement in every second
    beats: Floats  # (n_beats,) times of heartbeats, in seconds


def body_of(night: Hypnogram, sleeper: Sleeper, seed: int, alike: Mapping[str, Mapping[str, float]]) -> Body:
    """Return a body that follows the stages that epochs look like."""
    who, epoch_seconds = sleeper.number, night.epoch_seconds
    looks = appearances(stream(seed, "looks", who), night, alike)
    per_hour = float(sleeper.covariates.get("ahi", 0.0))
    apnoeas = draw_apnoeas(stream(seed, "apnoeas", who), night, per_hour)
    breath = breathe(stream(seed, "breath", who), looks, epoch_seconds, apnoeas)
    move = movement(stream(seed, "movement", who), looks, epoch_seconds)
    beats = beat_times(stream(seed, "heart", who), looks, epoch_seconds, breath, apnoeas, move)
    return Body(apnoeas, breath, move, beats)
