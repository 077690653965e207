"""Synthetic polysomnograms: EEG, EOG, chin EMG and ECG whose waves follow the stages, with belts and oxygen.

They show that software runs, not how well it works: these waves are what the authors of stagers looked for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stageguard.arrays import Floats, Floats32
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Series, Signal
from stageguard.synthetic.body import (
    BREATH_HZ,
    FLOW_LEFT,
    Breath,
    SignalEvent,
    breathe,
    drift,
    ecg_of,
    moments,
    peak,
    scatter_events,
    shaped_noise,
)
from stageguard.synthetic.signals import Simulated, simulate_heart_and_breathing, simulated
from stageguard.synthetic.sleepers import SimulatedSleep, Sleeper, stream

RATE_HZ = 125.0  # of EEG, EOG and chin; SHHS has 125, and 50 for the eyes
ECG_HZ = 250.0  # as in the second visit of SHHS; slower ones blur the intervals between beats
EEG_HOP = 125  # samples: spectra change every second
ROLL_HOP = 500  # rolling eyes take seconds

STAGES = ("W", "N1", "N2", "N3", "R")
# Amplitudes in uV (root mean square) in W, N1, N2, N3, R. Which waves mark a stage is from the AASM manual
# (Iber et al. 2007); levels are our choice, set so that a stager trained on people errs as it does on people.
EEG_PARTS = {
    "background": (8.0, 8.5, 10.0, 12.0, 7.5),
    "delta": (3.0, 5.0, 8.5, 14.0, 5.0),
    "theta": (3.0, 6.0, 5.0, 4.5, 5.0),
    "fast": (3.8, 2.2, 1.8, 1.5, 2.1),
    "alpha": (11.0, 3.8, 2.5, 2.0, 3.0),
    "slow": (0.0, 0.0, 3.5, 22.0, 0.0),
}
CHIN = (11.0, 6.5, 5.5, 5.0, 2.2)
ROLLING_EYES = (10.0, 45.0, 4.0, 0.0, 0.0)
# Number per minute.
SPINDLES = (0.0, 0.3, 4.0, 1.8, 0.0)
K_COMPLEXES = (0.0, 0.1, 1.6, 0.6, 0.0)
SACCADES = (2.0, 0.0, 0.0, 0.0, 2.5)  # bursts of one to five
AROUSALS = (0.0, 0.3, 0.15, 0.033, 0.15)
BLINKS = 14.0  # with open eyes
OPEN_EYES = 0.35  # a drift above it opens the eyes of somebody awake, a third of the time
# Beats per minute above those of N2, and the swings of the interval between beats, in ms: with breath, with
# blood pressure, and from minute to minute.
FASTER = (9.0, 2.0, 0.0, 0.0, 5.0)
BREATH_SWING = (6.0, 9.0, 11.0, 11.0, 3.0)
PRESSURE_SWING = (10.0, 10.0, 9.0, 6.0, 12.0)
SLOW_SWING = (40.0, 20.0, 10.0, 6.0, 28.0)

# Which stages an epoch resembles beside its own. REM resembles N1, not N2: spindles never appear in it.
NEIGHBOURS = {
    "W": {"N1": 1.0},
    "N1": {"W": 0.25, "N2": 0.75},
    "N2": {"N1": 0.7, "N3": 0.3},
    "N3": {"N2": 1.0},
    "R": {"N1": 0.8, "W": 0.2},
}
RESEMBLANCE = 0.22  # typical share of the neighbour
BOUNDARY_SECONDS = 6.0  # by which stages change earlier or later than at the boundary of epochs
LABELS = {"eeg": "EEG C4-A1", "eeg_2": "EEG C3-A2", "eog": "EOG(L)", "eog_2": "EOG(R)", "emg": "EMG"}
EVENTS = (  # kind, channel, number per hour, shortest and longest duration in seconds
    ("movement artefact", "eeg", 0.8, (3, 15)),
    ("sensor loss", "eeg", 0.03, (30, 300)),
    ("sensor loss", "eog", 0.03, (30, 300)),
    ("sensor loss", "emg", 0.05, (30, 300)),
)


def simulate_polysomnogram(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return a night recorded at a sleep laboratory, with apnoeas that end in arousals."""
    truth, who, n_samples = night.hypnogram, sleeper.number, round(night.seconds * RATE_HZ)
    breathing = simulate_heart_and_breathing(night, sleeper, seed, name)
    apnoeas = [event for event in breathing.events if event.kind in FLOW_LEFT]
    looks = _looks(stream(seed, "psg looks", who), truth)
    eyelids = drift(stream(seed, "psg eyelids", who), len(looks), 60)
    is_open = ((eyelids > OPEN_EYES) & (looks[:, 0] > 0.5)).astype(np.float64)
    aroused = _arousals(stream(seed, "psg arousals", who), looks, apnoeas)
    c4, c3 = _eeg(stream(seed, "psg eeg", who), looks, is_open, aroused, n_samples)
    rng = stream(seed, "psg eyes", who)
    eyes = _eyes(rng, looks, is_open, n_samples)
    channels = {
        "eeg": c4,
        "eeg_2": c3,
        "eog": eyes + 0.35 * c4 + rng.normal(0, 2.5, n_samples),
        "eog_2": -eyes + 0.35 * c3 + rng.normal(0, 2.5, n_samples),
        "emg": _chin(stream(seed, "psg chin", who), looks, aroused, n_samples),
    }
    events = scatter_events(stream(seed, "psg events", who), night.seconds, EVENTS)
    rng = stream(seed, "psg artefacts", who)
    for event in events:
        _disturb(rng, event, channels)
    rng = stream(seed, "psg heart", who)
    breath = breathe(rng, looks[:: round(truth.epoch_seconds)], truth.epoch_seconds, apnoeas)
    ecg = ecg_of(rng, _beats(rng, looks, breath), breath, ECG_HZ, round(night.seconds * ECG_HZ))
    signals: dict[str, Signal | Series] = {
        role: Signal(LABELS[role], values.astype(np.float32), RATE_HZ, "uV")
        for role, values in channels.items()
    }
    others = ("spo2", "heart_rate", "ecg", "thorax", "abdomen", "airflow")
    signals |= {role: breathing.recording.signals[role] for role in others}
    signals["ecg"] = Signal("ECG", 1000 * ecg, ECG_HZ, "uV")
    kept = [event for event in breathing.events if event.channel != "ecg"]
    return simulated(name, signals, night, sleeper, events + kept)


def _looks(rng: np.random.Generator, night: Hypnogram) -> Floats:
    """Return how much every second looks like each stage, as shares (n_seconds, 5).

    Every epoch resembles a neighbouring stage a little, some epochs much. Stages change some seconds before
    or after the boundary of epochs, and take five seconds for it.
    """
    labels, seconds = night.labels, round(night.epoch_seconds)
    n_epochs = len(labels)
    strength = np.abs(0.7 * drift(rng, n_epochs, 4) + 0.7 * rng.standard_normal(n_epochs))
    share = np.minimum(RESEMBLANCE * strength, 0.8)
    chance = np.array([[NEIGHBOURS[stage].get(other, 0.0) for other in STAGES] for stage in STAGES])
    other = (rng.random(n_epochs)[:, None] > np.cumsum(chance[labels], axis=1)).sum(axis=1)
    epochs = np.zeros((n_epochs, len(STAGES)))
    epochs[np.arange(n_epochs), labels] = 1 - share
    epochs[np.arange(n_epochs), other] += share
    looks = np.repeat(epochs, seconds, axis=0)
    for epoch in np.flatnonzero(np.diff(labels)) + 1:
        boundary, shift = epoch * seconds, round(rng.normal(0, BOUNDARY_SECONDS))
        looks[boundary : boundary + shift] = epochs[epoch - 1]  # nothing if the change is early
        looks[max(0, boundary + min(shift, 0)) : boundary] = epochs[epoch]  # nothing if it is late
    return np.stack([_smooth(column, 5) for column in looks.T], axis=1)


def _smooth(values: Floats, width: int) -> Floats:
    padded = np.pad(values, width // 2, mode="edge")
    return np.convolve(padded, np.full(width, 1 / width), mode="valid")


def _arousals(rng: np.random.Generator, looks: Floats, apnoeas: list[SignalEvent]) -> Floats:
    """Return 1 in the seconds of an arousal, 0 elsewhere."""
    aroused = np.zeros(len(looks))
    begins = [*_moments(rng, looks, AROUSALS), *(event.end_seconds for event in apnoeas)]
    for begin, seconds in zip(begins, rng.uniform(3, 12, len(begins)), strict=True):
        aroused[int(begin) : int(begin + seconds)] = 1
    return aroused


def _moments(rng: np.random.Generator, looks: Floats, per_minute: tuple[float, ...]) -> list[float]:
    """Return random times in seconds at a rate that follows the stages."""
    seconds = np.flatnonzero(rng.random(len(looks)) < looks @ np.array(per_minute) / 60)
    return [float(moment) for moment in seconds + rng.random(len(seconds))]


def _eeg_shapes(lines: Floats) -> Floats:
    """Return the shapes of the power densities of `EEG_PARTS` (n_parts, n_frequencies)."""
    high_pass = 1 / (1 + (0.3 / np.maximum(lines, 1e-3)) ** 4)
    background = high_pass / np.maximum(lines, 0.5) ** 1.9
    delta = high_pass * (lines > 0.5) * np.where(lines < 4, 1, peak(lines, 4, 0.7))
    fast = np.where(lines > 14, 1, peak(lines, 14, 1.5)) / np.maximum(lines, 5) ** 0.5
    parts = [background, delta, peak(lines, 6, 1.0), fast, peak(lines, 10, 0.8), peak(lines, 0.9, 0.28)]
    return np.stack(parts)


def _noise(
    rng: np.random.Generator,
    power: Floats,
    shapes: Callable[[Floats], Floats],
    n_samples: int,
    hop: int = EEG_HOP,
) -> Floats32:
    """Return noise of powers (n_hops, n_parts) whose densities have these shapes and variance 1."""
    lines = np.fft.rfftfreq(2 * hop, 1 / RATE_HZ).astype(np.float64)
    densities = np.atleast_2d(shapes(lines))
    templates = densities / (densities.sum(axis=1, keepdims=True) * lines[1])
    return shaped_noise(rng, power, templates, RATE_HZ, hop, n_samples)


def _eeg(
    rng: np.random.Generator, looks: Floats, is_open: Floats, aroused: Floats, n_samples: int
) -> tuple[Floats, Floats]:
    """Return C4 and C3 in uV: most of it common to both, the rest of either's own."""
    n_seconds, n_parts = len(looks), len(EEG_PARTS)
    amplitude = looks @ np.array(list(EEG_PARTS.values())).T * np.exp(rng.normal(0, 0.12, n_parts))
    slow, fast = (np.stack([drift(rng, n_seconds, m) for _ in EEG_PARTS], axis=1) for m in (600, 20))
    amplitude *= np.exp(0.12 * slow + 0.15 * fast)
    part = dict(zip(EEG_PARTS, amplitude.T, strict=True))  # views: what follows changes amplitude
    part["alpha"] *= 1 - 0.75 * is_open
    part["alpha"] += 7 * aroused
    part["fast"] += 2 * aroused
    part["slow"] *= 1 - 0.8 * aroused
    power = np.append(amplitude, amplitude[-1:], axis=0) ** 2
    common = _noise(rng, 0.85 * power, _eeg_shapes, n_samples).astype(np.float64)
    spindle_hz = rng.normal(13.2, 0.4)
    calm = looks * (1 - aroused[:, None])
    for begin in _moments(rng, calm, SPINDLES):
        time = np.arange(0, rng.uniform(0.5, 1.4), 1 / RATE_HZ)
        wave = np.sin(2 * np.pi * (spindle_hz + rng.normal(0, 0.3)) * time + rng.uniform(0, 6))
        _add(common, begin, rng.uniform(12, 28) * wave * np.sin(np.pi * time / time[-1]))
    time = np.arange(0, 1.1, 1 / RATE_HZ)
    k_complex = 0.6 * peak(time, 0.62, 0.16) - 0.7 * peak(time, 0.3, 0.09)
    for begin in _moments(rng, calm, K_COMPLEXES):
        _add(common, begin, rng.uniform(60, 130) * k_complex)
    c4, c3 = (common + _noise(rng, 0.15 * power, _eeg_shapes, n_samples) for _ in range(2))
    return c4, c3


def _add(values: Floats, begin: float, wave: Floats) -> None:
    """Add a wave at a time in seconds; what passes the end is lost."""
    first = int(begin * RATE_HZ)
    target = values[first : first + len(wave)]
    target += wave[: len(target)]


def _eyes(rng: np.random.Generator, looks: Floats, is_open: Floats, n_samples: int) -> Floats:
    """Return the movement of the eyes in uV at the left eye: rolling, saccades and blinks."""
    amplitude = looks @ np.array(ROLLING_EYES) * (1 - 0.7 * is_open)
    power = np.append(amplitude, amplitude[-1])[:: round(ROLL_HOP / RATE_HZ), None] ** 2
    rolling = _noise(rng, power, lambda lines: peak(lines, 0.35, 0.12), n_samples, ROLL_HOP)
    eyes = rolling.astype(np.float64)
    fall = np.exp(-np.arange(0, 2.5, 1 / RATE_HZ))  # an amplifier that blocks direct current
    for begin in _moments(rng, looks, SACCADES):
        gaps = rng.uniform(0.2, 0.9, rng.integers(1, 6))
        for later in np.cumsum(gaps) - gaps[0]:
            _add(eyes, begin + later, rng.uniform(30, 130) * rng.choice([-1, 1]) * fall)
    blink = np.sin(np.linspace(0, np.pi, round(0.35 * RATE_HZ))) ** 2
    for begin in _moments(rng, is_open[:, None], (BLINKS,)):
        _add(eyes, begin, rng.uniform(70, 180) * blink)
    return eyes


def _chin(rng: np.random.Generator, looks: Floats, aroused: Floats, n_samples: int) -> Floats:
    amplitude = looks @ np.array(CHIN) * np.exp(rng.normal(0, 0.12) + 0.25 * drift(rng, len(looks), 30))
    amplitude *= 1 + 1.5 * aroused
    power = np.append(amplitude, amplitude[-1])[:, None] ** 2
    tone = _noise(rng, power, lambda lines: 1 / (1 + (12 / np.maximum(lines, 1e-3)) ** 4), n_samples)
    return tone + rng.normal(0, 0.6, n_samples)


def _disturb(rng: np.random.Generator, event: SignalEvent, channels: dict[str, Floats]) -> None:
    """Put an artefact into a channel; a movement is seen in all of them."""
    target = channels[event.channel]
    samples = event.samples(RATE_HZ, len(target))
    if event.kind == "sensor loss":
        target[samples] = 0.0
        return
    n = samples.stop - samples.start
    fade = np.sin(np.pi * (np.arange(n) + 0.5) / max(n, 1))
    for values in channels.values():
        turn = 2 * np.pi * rng.uniform(0.5, 2) * np.arange(n) / RATE_HZ + rng.uniform(0, 6)
        values[samples] += rng.uniform(80, 250) * np.sin(turn) * fade + 20 * rng.standard_normal(n) * fade


def _beats(rng: np.random.Generator, looks: Floats, breath: Breath) -> Floats:
    """Return the times of heartbeats in seconds."""
    seconds, times = moments(len(looks), 1.0), moments(len(breath.phase), BREATH_HZ)

    def at_stage(table: tuple[float, ...]) -> Floats:
        return np.interp(times, seconds, _smooth(looks @ np.array(table), 9))

    rate = rng.normal(60, 5) + at_stage(FASTER) + np.interp(times, seconds, drift(rng, len(seconds), 1200))
    turn = np.cumsum(np.interp(times, seconds, 0.095 + 0.015 * drift(rng, len(seconds), 15))) / BREATH_HZ
    swing = at_stage(BREATH_SWING) * breath.wave + at_stage(PRESSURE_SWING) * np.sin(2 * np.pi * turn)
    interval = 60 / rate + np.sqrt(2) * swing / 1000
    interval += at_stage(SLOW_SWING) * np.interp(times, seconds, drift(rng, len(seconds), 20)) / 1000
    beats = np.cumsum(1 / np.clip(interval, 0.4, 1.8)) / BREATH_HZ
    return np.asarray(np.interp(np.arange(1, int(beats[-1]) + 1), beats, times))
