"""Synthetic signals that follow the stages: a watch, heart and breathing, a radar, mice, polysomnograms.

`ALIKE` of each is the share of a stage's epochs that look like another stage, set so that staging is as hard
as in the paper (studies/simulator).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stageguard.arrays import Floats, Floats32
from stageguard.night.recording import Recording, Series, Signal
from stageguard.synthetic.body import (
    APNOEA,
    BREATH_HZ,
    HYPOPNOEA,
    Body,
    Scatter,
    SignalEvent,
    appearances,
    at_times,
    body_of,
    drift,
    ecg_of,
    effort_of,
    levels,
    moments,
    movement,
    peak,
    scatter_events,
    shaped_noise,
    turn_seconds,
)
from stageguard.synthetic.sleepers import LIGHTS_OFF_HOUR, SCORER, SimulatedSleep, Sleeper, stream


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated recording, and the truth about it."""

    recording: Recording  # as read from files, with the truth as its only scoring
    night: SimulatedSleep  # the truth, in the stages in which it was drawn
    events: tuple[SignalEvent, ...]  # artefacts, sensor losses and apnoeas, in order of time


def simulated(
    name: str,
    signals: Mapping[str, Signal | Series],
    night: SimulatedSleep,
    sleeper: Sleeper,
    events: list[SignalEvent],
) -> Simulated:
    """Return the recording of a sleeper with its truth."""
    recording = Recording(
        name,
        name,
        signals,
        {SCORER: night.hypnogram},
        night.hypnogram.start,
        night.lights_off_seconds,
        night.lights_on_seconds,
        sleeper.covariates,
        is_synthetic=True,
        source="synthetic",
    )
    in_order = sorted(events, key=lambda event: (event.start_seconds, event.kind, event.channel))
    return Simulated(recording, night, tuple(in_order))


WATCH_HZ = 50.0
HEART_RATE_SECONDS = 5.0  # between two values of a watch that measures continuously
STEPS_SECONDS = 600.0
DAYS_BEFORE = 7.0  # days of steps before the night, as in Sleep-Accel
WATCH_ALIKE = {  # lying still awake, turning over in sleep
    **{"W": {"N2": 0.28}, "N1": {"W": 0.08}, "N2": {"W": 0.04}},
    **{"N3": {"W": 0.025}, "R": {"W": 0.05}},
}
WATCH_LINGER = 0.6  # high, because lying still lasts
WATCH_RATE = {"W": 68.0, "N1": 64.0, "N2": 61.0, "N3": 59.0, "R": 64.0}, Scatter(7.0, 2.0, 2.5)
# kind, channel, number per hour, shortest and longest duration in seconds, as all events below
WATCH_EVENTS = (("sensor loss", "", 0.12, (20, 400)), ("device removed", "", 0.05, (600, 2400)))


def simulate_watch(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return a night recorded by a watch: acceleration in g, heart rate in bpm, steps of the days before."""
    truth, who = night.hypnogram, sleeper.number
    looks = appearances(stream(seed, "looks", who), truth, WATCH_ALIKE, linger=WATCH_LINGER)
    events = scatter_events(stream(seed, "events", who), night.seconds, WATCH_EVENTS)
    lost = [event for event in events if event.kind == "sensor loss"]
    move = movement(stream(seed, "movement", who), looks, truth.epoch_seconds)
    for event in events:
        if event.kind == "device removed":
            move[int(event.start_seconds) : int(np.ceil(event.end_seconds))] = 0.0
    acceleration = _acceleration(stream(seed, "acceleration", who), move, night.seconds)
    heart = _watch_heart_rate(stream(seed, "heart", who), looks, truth.epoch_seconds, move)
    signals = {
        "acceleration": _remove_spans(acceleration, lost),
        "heart_rate": _remove_spans(heart, events),
        "steps": _steps(stream(seed, "steps", who)),
    }
    return simulated(name, signals, night, sleeper, events)


def _acceleration(rng: np.random.Generator, move: Floats, seconds: float) -> Series:
    n_samples, hop = round(seconds * WATCH_HZ), int(WATCH_HZ) // 2
    frequencies = np.fft.rfftfreq(2 * hop, 1 / WATCH_HZ)
    shape = np.exp(-0.5 * ((frequencies - 1.5) / 1.0) ** 2)
    shape /= shape.sum() * frequencies[1]
    power, times = np.repeat(move**2, 2)[:, None], np.arange(n_samples) / WATCH_HZ
    # the direction of gravity changes only with large movements
    turns = turn_seconds(move)
    directions = rng.normal(0, 1, (len(turns) + 1, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    knots = np.append(0.0, np.repeat(turns, 2) + np.tile([0.0, 2.0], len(turns)))
    corners = np.repeat(directions, 2, axis=0)[:-1]
    gravity = np.stack([np.interp(times, knots, corners[:, axis]) for axis in range(3)], axis=1)
    gravity /= np.maximum(np.linalg.norm(gravity, axis=1, keepdims=True), 0.2)
    values = gravity.astype(np.float32)
    for axis in range(3):
        values[:, axis] += shaped_noise(rng, power, shape[None], WATCH_HZ, hop, n_samples)
    values += rng.normal(0, 0.0025, values.shape).astype(np.float32)
    times = times + np.clip(rng.normal(0, 0.0008, n_samples), -0.004, 0.004)
    return Series("acceleration", np.maximum(times, 0.0), values.astype(np.float64), "g")


def _watch_heart_rate(rng: np.random.Generator, looks: Floats, epoch_seconds: float, move: Floats) -> Series:
    level = levels(rng, looks, *WATCH_RATE, epoch_seconds)
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
    keep = np.ones(len(series.times), dtype=bool)
    for event in events:
        keep &= ~((series.times >= event.start_seconds) & (series.times < event.end_seconds))
    return Series(series.name, series.times[keep], series.values[keep], series.unit)


ECG_HZ = 125.0  # this and the other rates are those of the first visit of SHHS
CLIP_MV = 1.25  # limit of the amplifier of SHHS
LAB_ALIKE = {  # calm wake, restless NREM, quiet REM
    **{"W": {"N2": 0.08, "R": 0.06}, "N1": {"W": 0.08, "R": 0.08}, "N2": {"W": 0.04, "R": 0.06}},
    **{"N3": {"W": 0.02, "R": 0.02}, "R": {"W": 0.07, "N2": 0.11}},
}
LAB_CHANNELS = {  # role -> label and unit as in SHHS, and samples per second
    "ecg": ("ECG", "uV", ECG_HZ),
    "thorax": ("THOR RES", "", BREATH_HZ),
    "abdomen": ("ABDO RES", "", BREATH_HZ),
    "airflow": ("NEW AIR", "", BREATH_HZ),
    "spo2": ("SaO2", "%", 1.0),
    "heart_rate": ("H.R.", "bpm", 1.0),
}
LAB_EVENTS = (
    ("sensor loss", "ecg", 0.12, (20, 300)),
    ("clipping", "ecg", 0.15, (5, 40)),
    ("sensor loss", "thorax", 0.08, (30, 400)),
    ("sensor loss", "abdomen", 0.08, (30, 400)),
    ("sensor loss", "spo2", 0.15, (20, 200)),
)
DESATURATION = {APNOEA: (4.0, 9.0), HYPOPNOEA: (2.5, 5.5)}  # percent
DELAY_SECONDS = 18.0  # from the lung to the finger


def simulate_heart_and_breathing(
    night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str, *, ecg_hz: float = ECG_HZ
) -> Simulated:
    """Return a night recorded at a sleep laboratory, without EEG."""
    seconds, who = night.seconds, sleeper.number
    body = body_of(night.hypnogram, sleeper, seed, LAB_ALIKE)
    ecg = ecg_of(stream(seed, "ecg", who), body.beats, body.breath, ecg_hz, round(seconds * ecg_hz))
    channels = {"ecg": ecg, **_belts(stream(seed, "belts", who), body)}
    channels["spo2"] = _saturation(stream(seed, "spo2", who), body.apnoeas, int(seconds))
    rate = 60 / np.maximum(np.diff(body.beats), 0.25)
    per_second = np.interp(moments(int(seconds), 1.0), body.beats[1:], rate)
    channels["heart_rate"] = np.rint(per_second).astype(np.float32)
    events = scatter_events(stream(seed, "events", who), seconds, LAB_EVENTS)
    for event in events:
        values = channels[event.channel]
        samples = event.samples(len(values) / seconds, len(values))
        is_clipped = event.kind == "clipping"
        values[samples] = np.clip(6 * values[samples], -CLIP_MV, CLIP_MV) if is_clipped else 0.0
    channels["ecg"] = 1000 * ecg
    signals = {
        role: Signal(label, channels[role], ecg_hz if role == "ecg" else rate_hz, unit)
        for role, (label, unit, rate_hz) in LAB_CHANNELS.items()
    }
    return simulated(name, signals, night, sleeper, events + body.apnoeas)


def _belts(rng: np.random.Generator, body: Body) -> dict[str, Floats32]:
    breath, move, n = body.breath, body.move, len(body.breath.phase)
    moving = np.interp(moments(n, BREATH_HZ), moments(len(move), 1.0), move)
    jolt = 12 * moving * drift(rng, n, 8)
    belly = breath.depth * breath.effort * breath.wave
    chest = belly * (1 - 1.7 * breath.paradox)
    made = {
        "thorax": rng.uniform(0.15, 0.35) * (chest + jolt),
        "abdomen": rng.uniform(0.15, 0.35) * (belly + 0.8 * jolt),
        "airflow": rng.uniform(0.2, 0.4) * breath.flow * breath.depth * np.gradient(breath.wave) * 4,
    }
    drifts = {role: 0.03 * drift(rng, n, 600 * BREATH_HZ) for role in ("thorax", "abdomen")}
    return {
        role: (values + drifts.get(role, 0.0) + rng.normal(0, 0.012, n)).astype(np.float32)
        for role, values in made.items()
    }


def _saturation(rng: np.random.Generator, apnoeas: list[SignalEvent], n_seconds: int) -> Floats32:
    times = np.arange(n_seconds)
    level = rng.uniform(94.5, 97.5) + 0.4 * drift(rng, n_seconds, 600)
    for event in apnoeas:
        bottom = event.end_seconds + DELAY_SECONDS
        fall = np.clip((times - event.start_seconds - DELAY_SECONDS) / event.seconds, 0, 1)
        level -= (
            rng.uniform(*DESATURATION[event.kind]) * fall * np.exp(-np.clip(times - bottom, 0, None) / 12)
        )
    return np.asarray(np.clip(np.rint(level + rng.normal(0, 0.2, n_seconds)), 60, 100), dtype=np.float32)


RADAR_HZ = 50.0
CARRIER_HZ = 3.8e9  # middle of the band of SLEEPBRL's radar
LIGHT_SPEED = 299_792_458.0
CHEST_MM = (4.0, 8.0)  # range of the chest wall's motion in a breath
PULSE_MM = (0.20, 0.45)  # in a heartbeat
MOVE_MM_PER_G = 60.0  # motion of the body per size of the movement at the wrist
POSTURE_MM = 30.0  # a turn in bed
RADAR_ALIKE = {  # breath and movement from afar: the hardest of the modalities
    **{"W": {"N2": 0.15, "R": 0.11}, "N1": {"W": 0.12, "R": 0.13}, "N2": {"W": 0.06, "R": 0.115}},
    **{"N3": {"W": 0.033, "R": 0.052}, "R": {"W": 0.095, "N2": 0.17}},
}
LOSSES = (("sensor loss", "", 0.12, (30, 300)),)
BURSTS = (("interference", "", 0.15, (5, 40)),)


def simulate_radar(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return a night recorded by a radar: I and Q of a sleeper's breathing, heartbeat and movement."""
    who, n = sleeper.number, round(night.seconds * RADAR_HZ)
    body = body_of(night.hypnogram, sleeper, seed, RADAR_ALIKE)
    rng = stream(seed, "radar", who)
    way = _way(rng, body, n)
    # an arc around the echo of the room, plus noise
    phase = 4 * np.pi * CARRIER_HZ / LIGHT_SPEED * way / 1000 + rng.uniform(0, 2 * np.pi)
    size, room, noise = rng.uniform(0.6, 1.2), rng.normal(0, 1.0, 2), rng.normal(0, 0.012, (2, n))
    i = (size * np.cos(phase) + room[0] + noise[0]).astype(np.float32)
    q = (size * np.sin(phase) + room[1] + noise[1]).astype(np.float32)
    events = scatter_events(stream(seed, "events", who), night.seconds, LOSSES)
    events += scatter_events(stream(seed, "bursts", who), night.seconds, BURSTS)
    for event in events:
        rng, samples = stream(seed, f"noise {event.start_seconds}", who), event.samples(RADAR_HZ, n)
        for signal in (i, q):
            if event.kind == "sensor loss":
                signal[samples] = 0.0
            else:
                signal[samples] += rng.normal(0, 6.0, samples.stop - samples.start).astype(np.float32)
    signals = {"radar_i": Signal("radar_i", i, RADAR_HZ), "radar_q": Signal("radar_q", q, RADAR_HZ)}
    return simulated(name, signals, night, sleeper, events + body.apnoeas)


def _way(rng: np.random.Generator, body: Body, n: int) -> Floats:
    """Return the displacement of the body's surface in mm."""
    breath, beats, move = body.breath, body.beats, body.move
    times = moments(n, RADAR_HZ)
    chest = rng.uniform(*CHEST_MM) / 2 * breath.depth * breath.effort * breath.wave
    way = np.interp(times, moments(len(breath.phase), BREATH_HZ), chest)
    pulse = np.interp(times, beats, np.arange(len(beats)))
    way += rng.uniform(*PULSE_MM) / 2 * np.sin(2 * np.pi * pulse)
    moving = np.interp(times, moments(len(move), 1.0), move)
    way += MOVE_MM_PER_G * moving * drift(rng, n, 0.5 * RADAR_HZ)
    shift = np.zeros(n)
    for at in turn_seconds(move):  # a turn takes two seconds
        first = min(round(at * RADAR_HZ), n - 1)
        length = min(round(2 * RADAR_HZ), n - first)
        step = rng.normal(0, POSTURE_MM)
        shift[first : first + length] += step * np.linspace(0, 1, length)
        shift[first + length :] += step
    return np.asarray(way + shift)


MOUSE_HZ = 512.0
EEG_HOP, EMG_HOP = 512, 128  # samples: spectra of the EEG change every second
# Power of each part of the EEG in dB re 1 uV2/Hz at its peak, by stage: slow waves in NREM, theta in REM and
# active wake. Shapes are from Franken et al. 1998 (Am J Physiol 275:R1127); levels are our choice.
EEG_PARTS = {
    "background": ({"W": 13.0, "N": 14.0, "R": 12.0}, Scatter(1.5, 0.8, 1.0)),
    "delta": ({"W": 15.0, "N": 26.0, "R": 12.0}, Scatter(1.5, 1.0, 2.0)),
    "theta": ({"W": 16.0, "N": 13.0, "R": 23.0}, Scatter(1.5, 1.0, 2.2)),
    "sigma": ({"W": 2.0, "N": 11.0, "R": 4.0}, Scatter(1.5, 0.8, 1.5)),
    "gamma": ({"W": -6.0, "N": -10.0, "R": -7.0}, Scatter(1.5, 0.8, 1.0)),
}
EMG_TONE = {"W": 5.0, "N": -5.0, "R": -9.0}, Scatter(3.0, 1.0, 2.0)
MOUSE_ALIKE = {  # quiet wake, brief arousals, NREM that turns into REM, twitches in REM
    "W": {"N": 0.030, "R": 0.055},
    "N": {"W": 0.020, "R": 0.062},
    "R": {"W": 0.080, "N": 0.100},
}
MOUSE_EVENTS = (
    ("movement artefact", "eeg", 1.0, (2, 10)),
    ("electrode pop", "eeg", 0.6, (0.5, 2)),
    ("muscle artefact", "eeg", 0.5, (2, 8)),
    ("sensor loss", "eeg", 0.06, (20, 240)),
    ("sensor loss", "emg", 0.06, (20, 240)),
)
MAINS_HZ = 60.0
MAINS_CHANCE = 0.15  # that an animal's leads pick up mains hum


def simulate_mouse(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return the recording of a mouse, EEG and EMG in uV at 512 Hz."""
    truth, who = night.hypnogram, sleeper.number
    n_samples = round(night.seconds * MOUSE_HZ)
    looks = appearances(stream(seed, "looks", who), truth, MOUSE_ALIKE)
    eeg = _mouse_eeg(stream(seed, "eeg", who), looks, truth.epoch_seconds, n_samples)
    emg = _mouse_emg(stream(seed, "emg", who), looks, truth.epoch_seconds, n_samples)
    events = scatter_events(stream(seed, "events", who), night.seconds, MOUSE_EVENTS)
    rng = stream(seed, "artefacts", who)
    if rng.random() < MAINS_CHANCE:
        time = np.arange(n_samples, dtype=np.float64) / MOUSE_HZ
        hum = rng.uniform(4, 12) * np.sin(2 * np.pi * MAINS_HZ * time + rng.uniform(0, 6))
        eeg += hum.astype(np.float32)
    for event in events:
        _disturb(rng, event, eeg, emg)
    signals = {"eeg": Signal("EEG", eeg, MOUSE_HZ, "uV"), "emg": Signal("EMG", emg, MOUSE_HZ, "uV")}
    return simulated(name, signals, night, sleeper, events)


def _mouse_eeg(rng: np.random.Generator, looks: Floats, epoch_seconds: float, n_samples: int) -> Floats32:
    decibels = np.stack([levels(rng, looks, *part, epoch_seconds) for part in EEG_PARTS.values()], axis=1)
    lines = np.fft.rfftfreq(2 * EEG_HOP, 1 / MOUSE_HZ).astype(np.float64)
    high_pass = 1 / (1 + (0.7 / np.maximum(lines, 1e-3)) ** 4)
    background, delta = high_pass / (1 + (lines / 7) ** 1.8), high_pass * peak(lines, 2.0, 1.2)
    theta, sigma, gamma = peak(lines, 7.4, 0.9), peak(lines, 12.0, 2.0), high_pass * peak(lines, 55.0, 18.0)
    power = _per_hop(10 ** (decibels / 10), epoch_seconds, EEG_HOP, n_samples)
    templates = np.stack([background, delta, theta, sigma, gamma])
    return shaped_noise(rng, power, templates, MOUSE_HZ, EEG_HOP, n_samples)


def _mouse_emg(rng: np.random.Generator, looks: Floats, epoch_seconds: float, n_samples: int) -> Floats32:
    decibels = levels(rng, looks, *EMG_TONE, epoch_seconds)
    power = _per_hop(10 ** (decibels[:, None] / 10), epoch_seconds, EMG_HOP, n_samples)
    restless, _, phasic = _per_hop(looks, epoch_seconds, EMG_HOP, n_samples).T
    # movement comes in bursts; REM has twitches of a quarter of a second
    bursts = rng.gamma(1.5, 1 / 1.5, len(power)) * restless + (1 - restless)
    twitches = (rng.random(len(power)) < 0.01 * phasic) * rng.uniform(5, 30, len(power))
    lines = np.fft.rfftfreq(2 * EMG_HOP, 1 / MOUSE_HZ)
    shape = 1 / (1 + (15 / np.maximum(lines, 1e-3)) ** 4) / (1 + (lines / 150) ** 4)
    return shaped_noise(rng, power * (bursts + twitches)[:, None], shape[None], MOUSE_HZ, EMG_HOP, n_samples)


def _per_hop(values: Floats, epoch_seconds: float, hop: int, n_samples: int) -> Floats:
    """Return, for each hop, the values of the epoch in which it begins."""
    times = np.arange(-(-n_samples // hop) + 1) * hop / MOUSE_HZ
    epochs = np.minimum((times / epoch_seconds + 1e-9).astype(np.int64), len(values) - 1)
    return np.asarray(values[epochs])


def _disturb(rng: np.random.Generator, event: SignalEvent, eeg: Floats32, emg: Floats32) -> None:
    target = eeg if event.channel == "eeg" else emg
    samples = event.samples(MOUSE_HZ, len(target))
    n = samples.stop - samples.start
    if n < 1 or event.kind == "sensor loss":
        target[samples] = 0.0
        return
    time = np.arange(n) / MOUSE_HZ
    fade = np.sin(np.pi * (np.arange(n) + 0.5) / n)
    size = float(rng.uniform(8, 15)) * 40.0
    if event.kind == "movement artefact":
        wave = np.sin(2 * np.pi * rng.uniform(0.8, 3) * time + rng.uniform(0, 6)) * fade
        emg[samples] *= 3
    elif event.kind == "electrode pop":
        wave = np.exp(-time / 0.2) * rng.choice([-1.0, 1.0])
    else:
        wave = rng.standard_normal(n) * fade
    target[samples] += (size * wave).astype(np.float32)


# ---- Polysomnograms: they show that software runs, not how well; these waves are what stagers look for

PSG_HZ = 125.0  # of EEG, EOG and chin; SHHS has 125, and 50 for the eyes
PSG_HOP = 125  # samples: spectra change every second
ROLL_HOP = 500  # rolling eyes take seconds

STAGES = ("W", "N1", "N2", "N3", "R")
# Amplitudes in uV (root mean square) in W, N1, N2, N3, R. Which waves mark a stage is from the AASM manual
# (Iber et al. 2007); levels are our choice, set so that a stager trained on people errs as it does on people.
PSG_EEG = {
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
PSG_ALIKE = {  # REM resembles N1, not N2: spindles never appear in it
    **{"W": {"N1": 0.05}, "N1": {"W": 0.08, "N2": 0.15}, "N2": {"N1": 0.06, "N3": 0.05}},
    **{"N3": {"N2": 0.12}, "R": {"N1": 0.08, "W": 0.03}},
}
PSG_LABELS = {"eeg": "EEG C4-A1", "eeg_2": "EEG C3-A2", "eog": "EOG(L)", "eog_2": "EOG(R)", "emg": "EMG"}


def simulate_polysomnogram(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return a night recorded at a sleep laboratory."""
    truth, who, n_samples = night.hypnogram, sleeper.number, round(night.seconds * PSG_HZ)
    breathing = simulate_heart_and_breathing(night, sleeper, seed, name, ecg_hz=2 * ECG_HZ)
    looks = appearances(stream(seed, "psg looks", who), truth, PSG_ALIKE)
    looks = np.repeat(looks, round(truth.epoch_seconds), axis=0)  # of every second
    c4, c3 = _psg_eeg(stream(seed, "psg eeg", who), looks, n_samples)
    rng = stream(seed, "psg eyes", who)
    eyes = _eyes(rng, looks, n_samples)
    channels = {
        "eeg": c4,
        "eeg_2": c3,
        "eog": eyes + 0.35 * c4 + rng.normal(0, 2.5, n_samples),
        "eog_2": -eyes + 0.35 * c3 + rng.normal(0, 2.5, n_samples),
        "emg": _chin(stream(seed, "psg chin", who), looks, n_samples),
    }
    signals: dict[str, Signal | Series] = {
        role: Signal(PSG_LABELS[role], values.astype(np.float32), PSG_HZ, "uV")
        for role, values in channels.items()
    }
    others = ("spo2", "heart_rate", "ecg", "thorax", "abdomen", "airflow")
    signals |= {role: breathing.recording.signals[role] for role in others}
    return simulated(name, signals, night, sleeper, list(breathing.events))


def _moments(rng: np.random.Generator, looks: Floats, per_minute: tuple[float, ...]) -> list[float]:
    """Return random times in seconds at a rate that follows the stages."""
    seconds = np.flatnonzero(rng.random(len(looks)) < looks @ np.array(per_minute) / 60)
    return [float(moment) for moment in seconds + rng.random(len(seconds))]


def _eeg_shapes(lines: Floats) -> Floats:
    """Return the shapes of the power densities of `PSG_EEG` (n_parts, n_frequencies)."""
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
    hop: int = PSG_HOP,
) -> Floats32:
    """Return noise of powers (n_hops, n_parts) whose densities have these shapes and variance 1."""
    lines = np.fft.rfftfreq(2 * hop, 1 / PSG_HZ).astype(np.float64)
    densities = np.atleast_2d(shapes(lines))
    templates = densities / (densities.sum(axis=1, keepdims=True) * lines[1])
    return shaped_noise(rng, power, templates, PSG_HZ, hop, n_samples)


def _psg_eeg(rng: np.random.Generator, looks: Floats, n_samples: int) -> tuple[Floats, Floats]:
    """Return C4 and C3 in uV: most of it common to both, the rest of either's own."""
    n_seconds, n_parts = len(looks), len(PSG_EEG)
    amplitude = looks @ np.array(list(PSG_EEG.values())).T * np.exp(rng.normal(0, 0.12, n_parts))
    slow, fast = (np.stack([drift(rng, n_seconds, m) for _ in PSG_EEG], axis=1) for m in (600, 20))
    amplitude *= np.exp(0.12 * slow + 0.15 * fast)
    power = np.append(amplitude, amplitude[-1:], axis=0) ** 2
    common = _noise(rng, 0.85 * power, _eeg_shapes, n_samples).astype(np.float64)
    spindle_hz = rng.normal(13.2, 0.4)
    for begin in _moments(rng, looks, SPINDLES):
        time = np.arange(0, rng.uniform(0.5, 1.4), 1 / PSG_HZ)
        wave = np.sin(2 * np.pi * (spindle_hz + rng.normal(0, 0.3)) * time + rng.uniform(0, 6))
        _add(common, begin, rng.uniform(12, 28) * wave * np.sin(np.pi * time / time[-1]))
    time = np.arange(0, 1.1, 1 / PSG_HZ)
    k_complex = 0.6 * peak(time, 0.62, 0.16) - 0.7 * peak(time, 0.3, 0.09)
    for begin in _moments(rng, looks, K_COMPLEXES):
        _add(common, begin, rng.uniform(60, 130) * k_complex)
    c4, c3 = (common + _noise(rng, 0.15 * power, _eeg_shapes, n_samples) for _ in range(2))
    return c4, c3


def _add(values: Floats, begin: float, wave: Floats) -> None:
    """Add a wave at a time in seconds; what passes the end is lost."""
    first = int(begin * PSG_HZ)
    target = values[first : first + len(wave)]
    target += wave[: len(target)]


def _eyes(rng: np.random.Generator, looks: Floats, n_samples: int) -> Floats:
    """Return the movement of the eyes in uV at the left eye: rolling and saccades."""
    amplitude = looks @ np.array(ROLLING_EYES)
    power = np.append(amplitude, amplitude[-1])[:: round(ROLL_HOP / PSG_HZ), None] ** 2
    rolling = _noise(rng, power, lambda lines: peak(lines, 0.35, 0.12), n_samples, ROLL_HOP)
    eyes = rolling.astype(np.float64)
    fall = np.exp(-np.arange(0, 2.5, 1 / PSG_HZ))  # an amplifier that blocks direct current
    for begin in _moments(rng, looks, SACCADES):
        gaps = rng.uniform(0.2, 0.9, rng.integers(1, 6))
        for later in np.cumsum(gaps) - gaps[0]:
            _add(eyes, begin + later, rng.uniform(30, 130) * rng.choice([-1, 1]) * fall)
    return eyes


def _chin(rng: np.random.Generator, looks: Floats, n_samples: int) -> Floats:
    amplitude = looks @ np.array(CHIN) * np.exp(rng.normal(0, 0.12) + 0.25 * drift(rng, len(looks), 30))
    power = np.append(amplitude, amplitude[-1])[:, None] ** 2
    tone = _noise(rng, power, lambda lines: 1 / (1 + (12 / np.maximum(lines, 1e-3)) ** 4), n_samples)
    return tone + rng.normal(0, 0.6, n_samples)
