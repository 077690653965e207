"""ECG, belts, airflow and oxygen saturation of a night, following stages and apnoeas."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats, Floats32
from stageguard.night.recording import Series, Signal
from stageguard.synthetic.body import APNOEA, HYPOPNOEA, Breath, body_of, ecg_of
from stageguard.synthetic.events import Event, Simulated, scatter_events, simulated
from stageguard.synthetic.hypnograms import Night
from stageguard.synthetic.noise import drift, moments, stream
from stageguard.synthetic.people import Sleeper

ECG_HZ = 125.0  # as in the first visit of SHHS, like the rates below
BELT_HZ = 10.0
SLOW_HZ = 1.0

# Share of a stage's epochs that look like another stage: calm wake, restless NREM, quiet REM. Set so that
# staging is as hard as in the paper (studies/simulator).
ALIKE = {
    "W": {"N2": 0.08, "R": 0.06},
    "N1": {"W": 0.08, "R": 0.08},
    "N2": {"W": 0.04, "R": 0.06},
    "N3": {"W": 0.02, "R": 0.02},
    "R": {"W": 0.07, "N2": 0.11},
}
LINGER = 0.15

DESATURATION = {APNOEA: (4.0, 9.0), HYPOPNOEA: (2.5, 5.5)}  # percent
DELAY_SECONDS = 18.0  # from the lung to the finger
CLIP_MV = 1.25  # where the amplifier of SHHS ends


def simulate(night: Night, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return the night of somebody at a sleep laboratory, without EEG."""
    truth = night.hypnogram
    seconds = truth.n_epochs * truth.epoch_seconds
    body = body_of(truth, sleeper, seed, ALIKE, LINGER)
    rng = stream(seed, "ecg", sleeper.number)
    ecg = ecg_of(rng, body.beats, body.breath, ECG_HZ, round(seconds * ECG_HZ))
    slow = _belts(stream(seed, "belts", sleeper.number), body.breath, body.move)
    slow["spo2"] = _saturation(stream(seed, "spo2", sleeper.number), body.apnoeas, int(seconds))
    slow["heart_rate"] = _rate(body.beats, int(seconds))
    events = _events(stream(seed, "events", sleeper.number), seconds)
    for event in events:
        _disturb(event, ecg, slow)
    signals = {"ecg": Signal("ECG", 1000 * ecg, ECG_HZ, "uV"), **_signals(slow)}
    return simulated(name, signals, night, sleeper, events + body.apnoeas)


def _belts(rng: np.random.Generator, breath: Breath, move: Floats) -> dict[str, Floats32]:
    n = len(breath.phase)
    times = moments(n, BELT_HZ)
    moving = np.interp(times, np.arange(len(move)) + 0.5, move)
    jolt = 12 * moving * drift(rng, n, 8)
    belly = breath.depth * breath.effort * breath.wave
    chest = belly * (1 - 1.7 * breath.paradox)
    made = {
        "thorax": rng.uniform(0.15, 0.35) * (chest + jolt),
        "abdomen": rng.uniform(0.15, 0.35) * (belly + 0.8 * jolt),
        "airflow": rng.uniform(0.2, 0.4) * breath.flow * breath.depth * np.gradient(breath.wave) * 4,
    }
    drifts = {role: 0.03 * drift(rng, n, 600 * BELT_HZ) for role in ("thorax", "abdomen")}
    return {
        role: (values + drifts.get(role, 0.0) + rng.normal(0, 0.012, n)).astype(np.float32)
        for role, values in made.items()
    }


def _saturation(rng: np.random.Generator, apnoeas: list[Event], n_seconds: int) -> Floats32:
    times = np.arange(n_seconds)
    level = rng.uniform(94.5, 97.5) + 0.4 * drift(rng, n_seconds, 600)
    for event in apnoeas:
        low, high = DESATURATION[event.kind]
        bottom = event.end_seconds + DELAY_SECONDS
        fall = np.clip((times - event.start_seconds - DELAY_SECONDS) / event.seconds, 0, 1)
        level -= rng.uniform(low, high) * fall * np.exp(-np.clip(times - bottom, 0, None) / 12)
    return np.asarray(np.clip(np.rint(level + rng.normal(0, 0.2, n_seconds)), 60, 100), dtype=np.float32)


def _rate(beats: Floats, n_seconds: int) -> Floats32:
    rate = 60 / np.maximum(np.diff(beats), 0.25)
    return np.asarray(np.rint(np.interp(np.arange(n_seconds) + 0.5, beats[1:], rate)), dtype=np.float32)


def _signals(slow: dict[str, Floats32]) -> dict[str, Signal | Series]:
    names = {
        "thorax": "THOR RES",
        "abdomen": "ABDO RES",
        "airflow": "NEW AIR",
        "spo2": "SaO2",
        "heart_rate": "H.R.",
    }
    units = {"spo2": "%", "heart_rate": "bpm"}
    rates = {role: SLOW_HZ if role in units else BELT_HZ for role in slow}
    return {role: Signal(names[role], slow[role], rates[role], units.get(role, "")) for role in slow}


def _events(rng: np.random.Generator, seconds: float) -> list[Event]:
    events = scatter_events(rng, "sensor loss", "ecg", seconds, 0.12, (20, 300))
    events += scatter_events(rng, "clipping", "ecg", seconds, 0.15, (5, 40))
    events += scatter_events(rng, "sensor loss", "thorax", seconds, 0.08, (30, 400))
    events += scatter_events(rng, "sensor loss", "abdomen", seconds, 0.08, (30, 400))
    events += scatter_events(rng, "sensor loss", "spo2", seconds, 0.15, (20, 200))
    return events


def _disturb(event: Event, ecg: Floats32, slow: dict[str, Floats32]) -> None:
    if event.kind == "clipping":
        samples = event.samples(ECG_HZ, len(ecg))
        ecg[samples] = np.clip(6 * ecg[samples], -CLIP_MV, CLIP_MV)
    elif event.channel == "ecg":
        ecg[event.samples(ECG_HZ, len(ecg))] = 0.0
    else:
        rate_hz = SLOW_HZ if event.channel == "spo2" else BELT_HZ
        target = slow[event.channel]
        target[event.samples(rate_hz, len(target))] = 0.0
