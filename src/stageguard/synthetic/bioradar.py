"""Synthetic radar: I and Q of a sleeper's breathing, heartbeat and movement.

Files: npz with a mapping file, or EDF with WFDB annotations as in PhysioNet's SLEEPBRL.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Floats32
from stageguard.documents import toml_text
from stageguard.files import SYNTHETIC_WORD
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Signal
from stageguard.synthetic.body import BREATH_HZ, Body, body_of, turn_seconds
from stageguard.synthetic.events import (
    SignalEvent,
    Simulated,
    edf_signal,
    scatter_events,
    signal_of,
    simulated_recording,
    write_edf,
)
from stageguard.synthetic.noise import drift, moments, stream
from stageguard.synthetic.sleepers import SimulatedSleep, Sleeper
from stageguard.version import __version__

RATE_HZ = 50.0
CARRIER_HZ = 3.8e9  # middle of the band of SLEEPBRL's radar
LIGHT_SPEED = 299_792_458.0
CHEST_MM = (4.0, 8.0)  # range of the chest wall's motion in a breath
PULSE_MM = (0.20, 0.45)  # in a heartbeat
MOVE_MM_PER_G = 60.0  # motion of the body per size of the movement at the wrist
POSTURE_MM = 30.0  # a turn in bed

# Share of a stage's epochs that look like another stage. The radar sees breath and movement from afar, so
# staging is the hardest of the four modalities. Set to be as hard as in the paper (studies/simulator).
ALIKE = {
    "W": {"N2": 0.15, "R": 0.11},
    "N1": {"W": 0.12, "R": 0.13},
    "N2": {"W": 0.06, "R": 0.115},
    "N3": {"W": 0.033, "R": 0.052},
    "R": {"W": 0.095, "N2": 0.17},
}

LOSSES = (("sensor loss", "", 0.12, (30, 300)),)
BURSTS = (("interference", "", 0.15, (5, 40)),)


def simulate(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return a night recorded by a radar."""
    who = sleeper.number
    body = body_of(night.hypnogram, sleeper, seed, ALIKE)
    rng = stream(seed, "radar", who)
    i, q = _echo(rng, _way(rng, body, round(night.seconds * RATE_HZ)))
    events = scatter_events(stream(seed, "events", who), night.seconds, LOSSES)
    events += scatter_events(stream(seed, "bursts", who), night.seconds, BURSTS)
    for event in events:
        _disturb(stream(seed, f"noise {event.start_seconds}", who), event, i, q)
    signals = {"radar_i": Signal("radar_i", i, RATE_HZ), "radar_q": Signal("radar_q", q, RATE_HZ)}
    return simulated_recording(name, signals, night, sleeper, events + body.apnoeas)


def _way(rng: np.random.Generator, body: Body, n: int) -> Floats:
    """Return the displacement of the body's surface in mm."""
    breath, beats, move = body.breath, body.beats, body.move
    times = moments(n, RATE_HZ)
    slow_times = moments(len(breath.phase), BREATH_HZ)
    chest = rng.uniform(*CHEST_MM) / 2 * breath.depth * breath.effort * breath.wave
    way = np.interp(times, slow_times, chest)
    pulse = np.interp(times, beats, np.arange(len(beats)))
    way += rng.uniform(*PULSE_MM) / 2 * np.sin(2 * np.pi * pulse)
    moving = np.interp(times, np.arange(len(move)) + 0.5, move)
    way += MOVE_MM_PER_G * moving * drift(rng, n, 0.5 * RATE_HZ)
    shift = np.zeros(n)
    for at in turn_seconds(move):  # a turn takes two seconds
        first = min(round(at * RATE_HZ), n - 1)
        length = min(round(2 * RATE_HZ), n - first)
        step = rng.normal(0, POSTURE_MM)
        shift[first : first + length] += step * np.linspace(0, 1, length)
        shift[first + length :] += step
    return np.asarray(way + shift)


def _echo(rng: np.random.Generator, way: Floats) -> tuple[Floats32, Floats32]:
    """Return I and Q of a direct-conversion receiver: an arc around the echo of the room, plus noise."""
    phase = 4 * np.pi * CARRIER_HZ / LIGHT_SPEED * way / 1000 + rng.uniform(0, 2 * np.pi)
    size = rng.uniform(0.6, 1.2)
    room = rng.normal(0, 1.0, 2)
    noise = rng.normal(0, 0.012, (2, len(way)))
    i, q = size * np.cos(phase) + room[0] + noise[0], size * np.sin(phase) + room[1] + noise[1]
    return i.astype(np.float32), q.astype(np.float32)


def _disturb(rng: np.random.Generator, event: SignalEvent, i: Floats32, q: Floats32) -> None:
    samples = event.samples(RATE_HZ, len(i))
    for signal in (i, q):
        if event.kind == "sensor loss":
            signal[samples] = 0.0
        else:
            signal[samples] += rng.normal(0, 6.0, samples.stop - samples.start).astype(np.float32)


CODES = {"W": "W", "N1": "1", "N2": "2", "N3": "3", "R": "R"}
CHANNELS = {"S1": "radar_i", "S2": "radar_q"}
FIRST_NUMBER = 900  # PhysioNet's records end at sbj32
RANGE = (-32.768, 32.767)
READ_OPTIONS = ""
FILE_LIST = {
    "npz": """synthetic-NNN.npz    radar_i, radar_q at 50 Hz; stages per 30 s
recordings.toml      subjects, starts and covariates""",
    "edf": """sbj9NN.edf, sbj9NN.edf.atr    I/Q pair 1 (S1, S2) and stages, as in SLEEPBRL
subjects-synthetic.csv        age, sex, BMI, AHI""",
}
NOTE, SKIP, AUX = 22, 59, 63  # codes of WFDB annotations


def name_of(number: int, layout: str) -> str:
    """Return a subject's name."""
    return f"sbj{FIRST_NUMBER + number}" if layout == "edf" else f"synthetic-{number:03d}"


def write(simulated: Simulated, folder: Path, layout: str) -> None:
    """Write one recording."""
    folder.mkdir(parents=True, exist_ok=True)
    if layout == "edf":
        path = folder / f"{simulated.recording.subject}.edf"
        signals = [edf_signal(signal_of(simulated, role), label, RANGE) for label, role in CHANNELS.items()]
        write_edf(path, simulated.recording, signals)
        path.with_name(f"{path.name}.atr").write_bytes(stage_annotations(simulated.night.hypnogram))
        return
    night = simulated.night.hypnogram
    with (folder / f"{simulated.recording.subject}.npz").open("xb") as file:
        np.savez(
            file,
            allow_pickle=False,
            **{role: np.asarray(signal_of(simulated, role).samples) for role in CHANNELS.values()},
            rate_hz=np.float64(RATE_HZ),
            subject=np.array(simulated.recording.subject),
            stages=night.stages.astype("U2"),
            epoch_seconds=np.float64(night.epoch_seconds),
            synthetic=np.array(True),
        )


def finish(subjects: Sequence[Any], folder: Path, layout: str) -> None:
    """Write the table of subjects, or the mapping file."""
    if layout == "edf":
        (folder / "subjects-synthetic.csv").write_text(_table(subjects), encoding="utf-8", newline="\n")
        return
    lines = [
        f"# {SYNTHETIC_WORD}: simulated by stageguard {__version__}; nobody slept these nights.",
        "epoch_seconds = 30",
        'scheme = "wnr3"  # as in the paper; the files hold W, N1, N2, N3, R',
    ]
    for subject in subjects:
        lines += ["", "[[recordings]]", f'file = "{subject.subject}.npz"', f'subject = "{subject.subject}"']
        lines += [f"start = {subject.start.isoformat()}"] if subject.start is not None else []
        lines += ["", "[recordings.covariates]", toml_text(subject.covariates).rstrip()]
    (folder / "recordings.toml").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _table(subjects: Sequence[Any]) -> str:
    names = [name for name in ("age", "sex", "bmi", "ahi") if any(name in s.covariates for s in subjects)]
    rows = [["Subject", *names, "synthetic"]]
    for subject in subjects:
        facts = (str(subject.covariates.get(name, "")) for name in names)
        rows.append([subject.subject, *facts, "1"])
    return "".join(",".join(row) + "\n" for row in rows)


def stage_annotations(night: Hypnogram) -> bytes:
    """Return stages as WFDB annotations in MIT format: one note per epoch, with the stage as its text."""
    made, before = bytearray(), 0
    for epoch, label in enumerate(night.labels.tolist()):
        sample = round(epoch * night.epoch_seconds * RATE_HZ)
        step = sample - before
        if step > 0x3FF:
            made += struct.pack("<HHH", SKIP << 10, step >> 16, step & 0xFFFF)
            step = 0
        text = CODES[night.scheme.names[label]].encode("ascii")
        made += struct.pack("<HH", NOTE << 10 | step, AUX << 10 | len(text)) + text + bytes(len(text) % 2)
        before = sample
    return bytes(made + b"\0\0")
