"""Synthetic actigraphy: acceleration and heart rate of a watch that follow the stages; Sleep-Accel files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stageguard.arrays import Floats, Floats32, Mask
from stageguard.night.recording import Series
from stageguard.synthetic.body import effort_of, movement, turn_seconds
from stageguard.synthetic.events import (
    SignalEvent,
    Simulated,
    scatter_events,
    simulated_recording,
    write_rows,
)
from stageguard.synthetic.noise import Scatter, appearances, at_times, drift, levels, shaped_noise, stream
from stageguard.synthetic.sleepers import LIGHTS_OFF_HOUR, SimulatedSleep, Sleeper

RATE_HZ = 50.0
HEART_RATE_SECONDS = 5.0  # between two values of a watch that measures continuously
STEPS_SECONDS = 600.0
DAYS_BEFORE = 7.0  # days of steps before the night, as in Sleep-Accel

HEART_RATE = {"W": 68.0, "N1": 64.0, "N2": 61.0, "N3": 59.0, "R": 64.0}

HEART_SCATTER = Scatter(7.0, 2.0, 2.5)

# Chance that an epoch looks like another stage: lying still awake, turning over in sleep. Set so that staging
# is as hard as in the paper (studies/simulator).
ALIKE = {
    "W": {"N2": 0.28},
    "N1": {"W": 0.08},
    "N2": {"W": 0.04},
    "N3": {"W": 0.025},
    "R": {"W": 0.05},
}

LINGER = 0.6  # high, because lying still lasts

EVENTS = (("sensor loss", "", 0.12, (20, 400)), ("device removed", "", 0.05, (600, 2400)))


def simulate(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return a night recorded by a watch: acceleration in g, heart rate in bpm, steps of the days before."""
    truth, who = night.hypnogram, sleeper.number
    looks = appearances(stream(seed, "looks", who), truth, ALIKE, linger=LINGER)
    events = scatter_events(stream(seed, "events", who), night.seconds, EVENTS)
    lost = [event for event in events if event.kind == "sensor loss"]
    removed = [event for event in events if event.kind == "device removed"]
    move = movement(stream(seed, "movement", who), looks, truth.epoch_seconds)
    for event in removed:
        move[int(event.start_seconds) : int(np.ceil(event.end_seconds))] = 0.0
    acceleration = _acceleration(stream(seed, "acceleration", who), move, night.seconds)
    heart = _heart_rate(stream(seed, "heart", who), looks, truth.epoch_seconds, move)
    signals = {
        "acceleration": _remove_spans(acceleration, lost),
        "heart_rate": _remove_spans(heart, events),
        "steps": _steps(stream(seed, "steps", who)),
    }
    return simulated_recording(name, signals, night, sleeper, events)


def _acceleration(rng: np.random.Generator, move: Floats, seconds: float) -> Series:
    n_samples = round(seconds * RATE_HZ)
    hop = int(RATE_HZ) // 2
    power = np.repeat(move**2, 2)[:, None]
    frequencies = np.fft.rfftfreq(2 * hop, 1 / RATE_HZ)
    shape = np.exp(-0.5 * ((frequencies - 1.5) / 1.0) ** 2)
    shape /= shape.sum() * frequencies[1]
    values = np.empty((n_samples, 3), dtype=np.float32)
    gravity = _posture(rng, move, n_samples)
    for axis in range(3):
        values[:, axis] = shaped_noise(rng, power, shape[None], RATE_HZ, hop, n_samples) + gravity[:, axis]
    values += rng.normal(0, 0.0025, values.shape).astype(np.float32)
    jitter = rng.normal(0, 0.0008, n_samples)
    times = np.arange(n_samples) / RATE_HZ + np.clip(jitter, -0.004, 0.004)
    return Series("acceleration", np.maximum(times, 0.0), values.astype(np.float64), "g")


def _posture(rng: np.random.Generator, move: Floats, n_samples: int) -> Floats32:
    """Return the direction of gravity, which changes only with large movements."""
    turns = turn_seconds(move)
    directions = rng.normal(0, 1, (len(turns) + 1, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    knots = np.concatenate([[0.0], *(np.array([at, at + 2.0]) for at in turns)])
    values = np.concatenate([directions[:1], *(directions[[i, i + 1]] for i in range(len(turns)))])
    times = np.arange(n_samples) / RATE_HZ
    made = np.stack([np.interp(times, knots, values[:, axis]) for axis in range(3)], axis=1)
    made /= np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 0.2)
    return np.asarray(made, dtype=np.float32)


def _heart_rate(rng: np.random.Generator, looks: Floats, epoch_seconds: float, move: Floats) -> Series:
    level = levels(rng, looks, HEART_RATE, HEART_SCATTER, epoch_seconds)
    n = int(len(looks) * epoch_seconds / HEART_RATE_SECONDS)
    times = (np.arange(n) + 0.5) * HEART_RATE_SECONDS + rng.uniform(-0.9, 0.9, n)
    effort = np.minimum(at_times(effort_of(move, 12), 1.0, times), 2.0)
    rate = at_times(level, epoch_seconds, times) + 6 * effort
    rate += 1.5 * drift(rng, n, 4) + rng.normal(0, 1.0, n)
    return Series("heart_rate", times, np.clip(np.rint(rate), 35, 190), "bpm")


def _steps(rng: np.random.Generator) -> Series:
    """Return the steps of the days before the night, counted every ten minutes; none at night."""
    times = np.arange(-DAYS_BEFORE * 86400, 0, STEPS_SECONDS)
    hour = (LIGHTS_OFF_HOUR + times / 3600) % 24
    walking = (hour > 7.5) & (hour < 22) & (rng.random(len(times)) < 0.35)
    return Series("steps", times, np.where(walking, rng.poisson(180, len(times)), 0).astype(float), "counts")


def _remove_spans(series: Series, events: list[SignalEvent]) -> Series:
    """Drop the values during events."""
    keep: Mask = np.ones(len(series.times), dtype=bool)
    for event in events:
        keep &= ~((series.times >= event.start_seconds) & (series.times < event.end_seconds))
    return Series(series.name, series.times[keep], series.values[keep], series.unit)


CODES = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "R": 5}
READ_OPTIONS = ""
FILE_LIST = {
    "txt": """motion/syntheticNNN_acceleration.txt      seconds, x, y, z in g, as in Sleep-Accel
heart_rate/syntheticNNN_heartrate.txt     seconds, beats per minute
steps/syntheticNNN_steps.txt              seconds, steps in the days before
labels/syntheticNNN_labeled_sleep.txt     seconds, stage: 0 W, 1 N1, 2 N2, 3 N3, 5 REM""",
}
FILES = {  # role -> folder, ending, format
    "acceleration": ("motion", "acceleration", "%.5f %.6f %.6f %.6f"),
    "heart_rate": ("heart_rate", "heartrate", "%.5f,%d"),
    "steps": ("steps", "steps", "%.4f,%d"),
}


def name_of(number: int, layout: str) -> str:
    """Return a subject's name, which is the prefix of the file names."""
    return f"synthetic{number:03d}"


def write(simulated: Simulated, folder: Path, layout: str) -> None:
    """Write one recording."""
    subject = simulated.recording.subject
    for role, (subfolder, ending, row_format) in FILES.items():
        series = simulated.recording.signals[role]
        assert isinstance(series, Series)
        (folder / subfolder).mkdir(parents=True, exist_ok=True)
        rows = np.column_stack([series.times, series.values])
        write_rows(folder / subfolder / f"{subject}_{ending}.txt", rows, row_format)
    night = simulated.night.hypnogram
    (folder / "labels").mkdir(exist_ok=True)
    lines = (
        f"{round(epoch * night.epoch_seconds)} {CODES[night.scheme.names[label]]}\n"
        for epoch, label in enumerate(night.labels.tolist())
    )
    (folder / "labels" / f"{subject}_labeled_sleep.txt").write_text(
        "".join(lines), encoding="ascii", newline="\n"
    )
