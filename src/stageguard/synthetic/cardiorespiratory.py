"""ECG, belts, airflow and oxygen saturation of a night, following stages and apnoeas. Writes no files."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats, Floats32
from stageguard.night.recording import Recording, Series, Signal
from stageguard.synthetic import breath as breath_module
from stageguard.synthetic import heart
from stageguard.synthetic.appearance import appearances
from stageguard.synthetic.events import Event, Simulated, in_order, scatter_events
from stageguard.synthetic.hypnograms import SCORER, Night
from stageguard.synthetic.motion import movement
from stageguard.synthetic.noise import drift, moments
from stageguard.synthetic.people import Sleeper
from stageguard.synthetic.seeds import stream

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

DESATURATION = {breath_module.APNOEA: (4.0, 9.0), breath_module.HYPOPNOEA: (2.5, 5.5)}  # percent
DELAY_SECONDS = 18.0  # from the lung to the finger
CLIP_MV = 1.25  # where the amplifier of SHHS ends


def simulate(night: Night, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return the night of somebody at a sleep laboratory, without EEG."""
    truth = night.hypnogram
    seconds = truth.n_epochs * truth.epoch_seconds
    looks = appearances(stream(seed, "looks", sleeper.number), truth, ALIKE, linger=LINGER)
    per_hour = float(sleeper.covariates.get("ahi", 0.0))
    apnoeas = breath_module.apnoeas(stream(seed, "apnoeas", sleeper.number), truth, per_hour)
    breath = breath_module.breathe(
        stream(seed, "breath", sleeper.number), looks, truth.epoch_seconds, apnoeas
    )
    move = movement(stream(seed, "movement", sleeper.number), looks, truth.epoch_seconds)
    beats = heart.beat_times(
        stream(seed, "heart", sleeper.number), looks, truth.epoch_seconds, breath, apnoeas, move
    )
    ecg = heart.ecg(stream(seed, "ecg", sleeper.number), beats, breath, ECG_HZ, round(seconds * ECG_HZ))
    slow = _belts(stream(seed, "belts", sleeper.number), breath, move)
    slow["spo2"] = _saturation(stream(seed, "spo2", sleeper.number), apnoeas, int(seconds))
    slow["heart_rate"] = _rate(beats, int(seconds))
    events = _events(stream(seed, "events", sleeper.number), seconds)
    for event in events:
        _disturb(event, ecg, slow)
    recording = Recording(
        name,
        name,
        {"ecg": Signal("ECG", 1000 * ecg, ECG_HZ, "uV"), **_signals(slow)},
        {SCORER: truth},
        truth.start,
        night.lights_off_seconds,
        night.lights_on_seconds,
        sleeper.covariates,
        is_synthetic=True,
        source="synthetic",
    )
    return Simulated(recording, night, in_order(events + apnoeas))


def _belts(rng: np.random.Generator, breath: breath_module.Breath, move: Floats) -> dict[str, Floats32]:
    n = len(breath.phase)
    times = moments(n, BELT_HZ)
    moving = np.interp(times, np.arange(len(move)) + 0.5, move)
    jolt = 12 * moving * drift(rng, n, 8)
    own = breath.depth * breath.effort * breath.wave
    chest = own * (1 - 1.7 * breath.paradox)
    made = {
        "thorax": rng.uniform(0.15, 0.35) * (chest + jolt),
        "abdomen": rng.uniform(0.15, 0.35) * (own + 0.8 * jolt),
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
        place = event.samples(ECG_HZ, len(ecg))
        ecg[place] = np.clip(6 * ecg[place], -CLIP_MV, CLIP_MV)
    elif event.channel == "ecg":
        ecg[event.samples(ECG_HZ, len(ecg))] = 0.0
    else:
        rate_hz = SLOW_HZ if event.channel == "spo2" else BELT_HZ
        target = slow[event.channel]
        target[event.samples(rate_hz, len(target))] = 0.0
