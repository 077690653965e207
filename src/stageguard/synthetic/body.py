"""A sleeper's body, as far as several signals show it: looks of epochs, movements, breathing, heartbeats.

`looks` (n_epochs, n_stages) is how much every epoch looks like each stage, see `appearances`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from stageguard.arrays import Floats, Floats32, Ints
from stageguard.night.hypnogram import Hypnogram
from stageguard.synthetic.sleepers import Sleeper, stream

LARGEST_SHARE = 0.15  # of a recording that one event may take
BLOCK_FRAMES = 1024  # frames to make at once, so that a day at 512 Hz needs no more memory than an hour


@dataclass(frozen=True, slots=True)
class SignalEvent:
    """An artefact, a loss of a sensor or an apnoea."""

    kind: str  # such as "sensor loss"
    channel: str  # role of the affected signal; "" for all signals
    start_seconds: float  # since the recording's start
    seconds: float

    @property
    def end_seconds(self) -> float:
        """End of the event, since the recording's start."""
        return self.start_seconds + self.seconds

    def samples(self, rate_hz: float, n_samples: int) -> slice:
        """Return the samples of a signal during the event."""
        first = min(n_samples, round(self.start_seconds * rate_hz))
        return slice(first, min(n_samples, round(self.end_seconds * rate_hz)))


def scatter_events(
    rng: np.random.Generator, seconds: float, kinds: Iterable[tuple[str, str, float, tuple[float, float]]]
) -> list[SignalEvent]:
    """Return events at random times; ``kinds`` are kind, channel, number per hour, range of seconds."""
    made = []
    for kind, channel, per_hour, lengths in kinds:
        for _ in range(int(rng.poisson(per_hour * seconds / 3600))):
            length = min(float(rng.uniform(*lengths)), LARGEST_SHARE * seconds)
            made.append(SignalEvent(kind, channel, float(rng.uniform(0, seconds - length)), length))
    return made


def shaped_noise(
    rng: np.random.Generator, power: Floats, templates: Floats, rate_hz: float, hop: int, n_samples: int
) -> Floats32:
    """Return noise of power densities (n_parts, hop + 1) that are weighted hop by hop (n_hops, n_parts)."""
    length = 2 * hop
    # frames of two hops overlap by half, under a window whose squares sum to one
    window = np.sin(np.pi * (np.arange(length) + 0.5) / length).astype(np.float32)
    variance = templates * rate_hz * length / 4  # of real and imaginary part each
    n_frames = -(-n_samples // hop) + 1
    made = np.zeros((n_frames + 1) * hop, dtype=np.float32)
    for first in range(0, n_frames, BLOCK_FRAMES):
        end = min(first + BLOCK_FRAMES, n_frames)
        rows = np.minimum(np.arange(first, end), len(power) - 1)
        size = np.sqrt(power[rows] @ variance).astype(np.float32)  # (frame, frequency)
        parts = rng.standard_normal((end - first, hop + 1, 2), dtype=np.float32) * size[:, :, None]
        frames = np.fft.irfft(parts[..., 0] + 1j * parts[..., 1], length, axis=1).astype(np.float32) * window
        target = made[first * hop : (end + 1) * hop].reshape(end - first + 1, hop)
        target[:-1] += frames[:, :hop]
        target[1:] += frames[:, hop:]
    return made[hop : hop + n_samples]


def peak(frequencies: Floats, centre: float, width: float) -> Floats:
    """Return a Gaussian."""
    return np.asarray(np.exp(-0.5 * ((frequencies - centre) / width) ** 2))


def drift(rng: np.random.Generator, n: int, memory: float) -> Floats:
    """Return slow noise of variance 1 whose autocorrelation falls to 1/e in `memory` steps."""
    keep = np.exp(-1 / memory)
    gain = np.sqrt(1 - keep**2)
    fresh = rng.standard_normal(n).tolist()
    return np.array(list(accumulate(fresh, lambda level, step: keep * level + gain * step)))


def moments(n: int, rate_hz: float) -> Floats:
    """Return the middles of n samples, in seconds."""
    return np.asarray((np.arange(n, dtype=np.float64) + 0.5) / rate_hz)


def at_times(values: Floats, seconds_per_value: float, times: Floats) -> Floats:
    """Return values at some times; each value holds for ``seconds_per_value``, without interpolation."""
    indices = np.clip((times / seconds_per_value).astype(np.int64), 0, len(values) - 1)
    return np.asarray(values[indices])


DRIFT_MINUTES = 20.0  # memory of a drift
HAZE = 0.08  # spread of the small share of other stages in every epoch
STRONG_LIKENESS = (0.75, 1.0)  # share of the other stage in an epoch that looks like it


class Scatter(NamedTuple):
    """Variation of a quantity around the mean of its stage, as standard deviations."""

    subject: float  # between sleepers
    slow: float  # of a drift within a night
    fast: float  # from epoch to epoch


def appearances(
    rng: np.random.Generator,
    night: Hypnogram,
    alike: Mapping[str, Mapping[str, float]],
    *,
    linger: float = 0.15,
) -> Floats:
    """Return how much every epoch looks like each stage, as shares (n_epochs, n_stages).

    `alike` is the share of a stage's epochs that look like another stage, as real ones do: quiet wake is
    still and slow. With the chance `linger`, the next epoch of the same stage looks like that stage again.
    """
    names, labels = night.scheme.names, night.labels
    n_epochs, n_stages = len(labels), len(names)
    chance = np.array([[alike.get(source, {}).get(goal, 0.0) for goal in names] for source in names])
    chance *= (1 - linger) / (1 - linger * chance.sum(axis=1, keepdims=True))  # correct for lingering epochs
    edges = np.cumsum(chance, axis=1)  # (from, to)
    hit, again, strength = rng.random(n_epochs), rng.random(n_epochs), rng.uniform(*STRONG_LIKENESS, n_epochs)
    # stage that each epoch looks like; n_stages means its own stage
    seen = np.where(hit[:, None] < edges[labels], np.arange(n_stages), n_stages).min(axis=1)
    for epoch in range(1, n_epochs):
        if again[epoch] < linger and labels[epoch] == labels[epoch - 1] and seen[epoch - 1] < n_stages:
            seen[epoch] = seen[epoch - 1]
    is_alike = seen < n_stages
    looks = np.zeros((n_epochs, n_stages))
    rows = np.arange(n_epochs)
    share = np.where(is_alike, strength, np.minimum(np.abs(rng.normal(0, HAZE, n_epochs)), 0.45))
    other = np.where(is_alike, seen, (labels + rng.integers(1, n_stages, n_epochs)) % n_stages)
    looks[rows, labels] = 1 - share
    looks[rows, other] += share
    return looks


def levels(
    rng: np.random.Generator,
    looks: Floats,
    by_stage: Mapping[str, float],
    scatter: Scatter,
    epoch_seconds: float,
) -> Floats:
    """Return a level per epoch: the mean of its look, plus effects of the sleeper, a drift and noise."""
    of_sleeper = rng.normal(0, scatter.subject)
    slow = scatter.slow * drift(rng, len(looks), DRIFT_MINUTES * 60 / epoch_seconds)
    fast = scatter.fast * rng.standard_normal(len(looks))
    return np.asarray(looks @ np.array(list(by_stage.values())) + of_sleeper + slow + fast)


# Levels by stage, each with its scatter. Logarithms of the movements per minute and of their size, in g at
# the wrist; breaths per minute, logarithms of the scatter of their length and depth, and of the depth; beats
# per minute, their swing with each breath (high frequency) and with blood pressure (low frequency). The order
# of the stages is from Wilde-Frenz & Schulz 1983 (Percept Mot Skills 56:275-283), Rostig et al. 2005 (Sleep
# 28:411-417), Douglas et al. 1982 (Thorax 37:840-844), Task Force 1996 (Circulation 93:1043), Vaughn et al.
# 1995 (Electroencephalogr Clin Neurophysiol 94:155); levels are our choice.
MOVES_PER_MINUTE = {"W": 1.5, "N1": -0.9, "N2": -2.6, "N3": -3.6, "R": -2.0}, Scatter(0.25, 0.3, 0.5)
MOVE_SIZE = {"W": -2.1, "N1": -2.5, "N2": -2.7, "N3": -2.9, "R": -3.0}, Scatter(0.15, 0.15, 0.2)
BREATHS_PER_MINUTE = {"W": 16.0, "N1": 15.2, "N2": 14.8, "N3": 15.0, "R": 15.6}, Scatter(1.8, 0.5, 0.7)
LENGTH_SCATTER = {"W": -1.6, "N1": -2.0, "N2": -2.6, "N3": -3.0, "R": -1.75}, Scatter(0.12, 0.12, 0.30)
DEPTH_SCATTER = {"W": -1.0, "N1": -1.5, "N2": -2.1, "N3": -2.5, "R": -1.3}, Scatter(0.12, 0.12, 0.30)
DEPTH = {"W": 0.05, "N1": 0.0, "N2": 0.0, "N3": 0.05, "R": -0.20}, Scatter(0.0, 0.10, 0.10)
BEATS_PER_MINUTE = {"W": 69.0, "N1": 64.0, "N2": 61.0, "N3": 60.0, "R": 64.5}, Scatter(7.0, 1.8, 2.2)
BREATH_SWING = {"W": 1.6, "N1": 2.2, "N2": 2.8, "N3": 3.2, "R": 1.7}, Scatter(0.5, 0.3, 0.4)
SLOW_SWING = {"W": 3.4, "N1": 2.6, "N2": 1.8, "N3": 1.2, "R": 3.2}, Scatter(0.4, 0.4, 0.6)

TURN_SIZE = 0.12  # a larger movement changes the posture
BREATH_HZ = 10.0
BREATH_MEMORY = 4.0  # seconds
APNOEA, HYPOPNOEA = "Obstructive apnea", "Hypopnea"
FLOW_LEFT = {APNOEA: 0.06, HYPOPNOEA: 0.45}  # remaining share of the airflow
EFFORT_LEFT = {APNOEA: 0.40, HYPOPNOEA: 0.65}  # remaining share of the movement of chest and belly
# Waves of a heartbeat: seconds from the R peak, width in seconds, height in mV.
P_AND_QRS = (-0.19, 0.025, 0.12), (-0.030, 0.010, -0.12), (0.0, 0.011, 1.10), (0.030, 0.011, -0.25)
T_WAVE = (0.26, 0.045, 0.28)


def movement(rng: np.random.Generator, looks: Floats, epoch_seconds: float) -> Floats:
    """Return the size of the movement in every second: bursts of some seconds, by stage."""
    rate = np.exp(levels(rng, looks, *MOVES_PER_MINUTE, epoch_seconds))
    size = np.exp(levels(rng, looks, *MOVE_SIZE, epoch_seconds))
    n_seconds = int(np.ceil(len(looks) * epoch_seconds))
    times = moments(n_seconds, 1.0)
    begins = np.flatnonzero(rng.random(n_seconds) < at_times(rate, epoch_seconds, times) / 60)
    sizes = at_times(size, epoch_seconds, times[begins]) * np.exp(rng.normal(0, 0.5, len(begins)))
    lengths = 1 + rng.gamma(1.2, 2.0, len(begins)).astype(np.int64)
    move = np.zeros(n_seconds)
    for begin, bout_size, length in zip(begins, sizes, lengths, strict=True):
        move[begin : begin + length] = np.maximum(move[begin : begin + length], bout_size)
    return move


def turn_seconds(move: Floats) -> Ints:
    """Return the seconds in which the posture begins to change, given the movement in every second."""
    large = np.flatnonzero(move > TURN_SIZE)
    return np.asarray(large[np.diff(large, prepend=-10) > 5])


def effort_of(move: Floats, memory: float) -> Floats:
    """Return the effort of movement in every second, which fades over ``memory`` seconds."""
    return np.convolve(move, np.exp(-np.arange(40) / memory), mode="full")[: len(move)]


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
    n_seconds = int(np.ceil(len(looks) * epoch_seconds))
    times, seconds = moments(n, BREATH_HZ), moments(n_seconds, 1.0)

    def of_look(by_stage: Mapping[str, float], scatter: Scatter) -> Floats:
        return at_times(levels(rng, looks, by_stage, scatter, epoch_seconds), epoch_seconds, seconds)

    pace, length = of_look(*BREATHS_PER_MINUTE) / 60, np.exp(of_look(*LENGTH_SCATTER))
    unevenness, level = np.exp(of_look(*DEPTH_SCATTER)), of_look(*DEPTH)
    wobble, sway = (drift(rng, n_seconds, BREATH_MEMORY) for _ in range(2))
    per_second = np.clip(pace * np.exp(length * wobble), 0.08, 0.7)
    deep = np.exp(level + unevenness * sway)
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
    if not per_epoch.any() or per_hour <= 0:
        return []
    share = per_epoch / per_epoch.sum()
    n_events = int(rng.poisson(per_hour * (np.count_nonzero(per_epoch) * night.epoch_seconds / 3600)))
    starts = np.sort((rng.choice(len(share), n_events, p=share) + rng.random(n_events)) * night.epoch_seconds)
    made: list[SignalEvent] = []
    for start in starts.tolist():
        begin = max(start, made[-1].end_seconds + 12) if made else start
        length = float(rng.uniform(12, 38))
        epoch = int((begin + length) / night.epoch_seconds)
        if epoch >= night.n_epochs or per_epoch[int(begin / night.epoch_seconds)] == 0:
            continue
        kind = APNOEA if rng.random() < 0.35 else HYPOPNOEA
        made.append(SignalEvent(kind, "airflow", begin, length))
    return made


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
    mean, swing, slow = (
        at_times(levels(rng, looks, *table, epoch_seconds), epoch_seconds, times)
        for table in (BEATS_PER_MINUTE, BREATH_SWING, SLOW_SWING)
    )
    width = round(8 * BREATH_HZ)  # steps between the mean rates take 8 s
    sums = np.cumsum(np.insert(np.pad(mean, width, mode="edge"), 0, 0.0))
    rate = ((sums[width:] - sums[:-width]) / width)[width - width // 2 :][: len(mean)]
    rate = rate + np.maximum(swing, 0.2) * breath.wave
    rate += np.maximum(slow, 0.3) * _slow_wave(rng, times)
    for event in apnoeas:
        _add_bump(rate, times, -4.0, event.start_seconds + event.seconds / 2, event.seconds / 3)
        _add_bump(rate, times, 9.0, event.end_seconds + 4, 4.0)
    effort = effort_of(move, 10)
    rate += 6 * np.minimum(np.interp(times, moments(len(effort), 1.0), effort), 2.0)
    beats = np.cumsum(np.clip(rate, 32, 185)) / 60 / BREATH_HZ
    whole = np.arange(1, int(beats[-1]) + 1)
    made = np.interp(whole, beats, times) + rng.normal(0, 0.004, len(whole))
    return np.asarray(np.sort(made[made > 0]))


def _slow_wave(rng: np.random.Generator, times: Floats) -> Floats:
    """Return noise around 0.1 Hz with variance 1."""
    n_seconds = int(np.ceil(times[-1])) + 2
    seconds = np.arange(n_seconds)
    turn = 2 * np.pi * (0.1 * seconds + 0.15 * np.cumsum(drift(rng, n_seconds, 30)) / 30)
    made = np.sin(turn) * (1 + 0.4 * drift(rng, n_seconds, 40)) + 0.5 * drift(rng, n_seconds, 25)
    return np.asarray(np.interp(times, seconds, made / made.std()))


def _add_bump(values: Floats, times: Floats, height: float, centre: float, width: float) -> None:
    near = slice(*np.searchsorted(times, [centre - 4 * width, centre + 4 * width]))
    values[near] += height * peak(times[near], centre, width)


def ecg_of(
    rng: np.random.Generator, beats: Floats, breath: Breath, rate_hz: float, n_samples: int
) -> Floats32:
    """Return an ECG in mV: a sum of waves around every beat, on a baseline that follows breathing."""
    second = round(rate_hz)
    made = np.zeros(n_samples + 2 * second, dtype=np.float32)
    reach = np.arange(round(-0.30 * rate_hz), round(0.45 * rate_hz) + 1)
    whole = np.floor(beats * rate_hz).astype(np.int64)
    offset = (reach - (beats * rate_hz - whole)[:, None]) / rate_hz  # seconds from each beat's R peak
    interval = np.clip(np.diff(beats, append=beats[-1] + 0.9), 0.35, 1.6)[:, None]
    waves = np.zeros_like(offset)
    for centre, width, height in (*P_AND_QRS, (T_WAVE[0] * np.sqrt(interval / 0.9), *T_WAVE[1:])):
        waves += height * np.exp(-0.5 * ((offset - centre) / width) ** 2)  # T follows the rate
    np.add.at(made, (whole[:, None] + reach + second).ravel(), (rng.uniform(0.5, 0.95) * waves).ravel())
    signal = made[second : second + n_samples]
    wave = np.interp(moments(n_samples, rate_hz), moments(len(breath.phase), BREATH_HZ), breath.wave)
    signal += (0.06 * wave).astype(np.float32)
    signal += rng.normal(0, 0.025, n_samples).astype(np.float32)
    return signal


class Body(NamedTuple):
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
