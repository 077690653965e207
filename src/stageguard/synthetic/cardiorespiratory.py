"""Synthetic ECG, belts, airflow and oxygen saturation of a night, following stages and apnoeas.

Files as in SHHS at the NSRR: EDF, scorings in XML, and a table of covariates.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from stageguard.arrays import Floats, Floats32
from stageguard.files import SYNTHETIC_WORD
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Signal
from stageguard.synthetic.body import APNOEA, HYPOPNOEA, Breath, body_of, ecg_of
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

ECG_HZ = 125.0  # this and the other rates are those of the first visit of SHHS
BELT_HZ = 10.0
CLIP_MV = 1.25  # limit of the amplifier of SHHS

# Share of a stage's epochs that look like another stage: calm wake, restless NREM, quiet REM. Set so that
# staging is as hard as in the paper (studies/simulator).
ALIKE = {
    "W": {"N2": 0.08, "R": 0.06},
    "N1": {"W": 0.08, "R": 0.08},
    "N2": {"W": 0.04, "R": 0.06},
    "N3": {"W": 0.02, "R": 0.02},
    "R": {"W": 0.07, "N2": 0.11},
}


class ShhsChannel(NamedTuple):
    """A channel as in SHHS."""

    label: str
    rate_hz: float
    unit: str  # belts and airflow have none
    limits: tuple[float, float]  # in the unit of the file, which has mV instead of uV


CHANNELS = {  # by role, in the order of the file
    "spo2": ShhsChannel("SaO2", 1.0, "%", (0.0, 100.0)),
    "heart_rate": ShhsChannel("H.R.", 1.0, "bpm", (0.0, 250.0)),
    "ecg": ShhsChannel("ECG", ECG_HZ, "uV", (-CLIP_MV, CLIP_MV)),
    "thorax": ShhsChannel("THOR RES", BELT_HZ, "", (-1.0, 1.0)),
    "abdomen": ShhsChannel("ABDO RES", BELT_HZ, "", (-1.0, 1.0)),
    "airflow": ShhsChannel("NEW AIR", BELT_HZ, "", (-1.0, 1.0)),
}
EVENTS = (  # kind, channel, number per hour, shortest and longest duration in seconds
    ("sensor loss", "ecg", 0.12, (20, 300)),
    ("clipping", "ecg", 0.15, (5, 40)),
    ("sensor loss", "thorax", 0.08, (30, 400)),
    ("sensor loss", "abdomen", 0.08, (30, 400)),
    ("sensor loss", "spo2", 0.15, (20, 200)),
)
DESATURATION = {APNOEA: (4.0, 9.0), HYPOPNOEA: (2.5, 5.5)}  # percent
DELAY_SECONDS = 18.0  # from the lung to the finger


def simulate(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return a night recorded at a sleep laboratory, without EEG."""
    seconds, who = night.seconds, sleeper.number
    body = body_of(night.hypnogram, sleeper, seed, ALIKE)
    ecg = ecg_of(stream(seed, "ecg", who), body.beats, body.breath, ECG_HZ, round(seconds * ECG_HZ))
    channels = {"ecg": ecg, **_belts(stream(seed, "belts", who), body.breath, body.move)}
    channels["spo2"] = _saturation(stream(seed, "spo2", who), body.apnoeas, int(seconds))
    rate = 60 / np.maximum(np.diff(body.beats), 0.25)
    per_second = np.interp(np.arange(int(seconds)) + 0.5, body.beats[1:], rate)
    channels["heart_rate"] = np.rint(per_second).astype(np.float32)
    events = scatter_events(stream(seed, "events", who), seconds, EVENTS)
    for event in events:
        values = channels[event.channel]
        samples = event.samples(CHANNELS[event.channel].rate_hz, len(values))
        if event.kind == "clipping":
            values[samples] = np.clip(6 * values[samples], -CLIP_MV, CLIP_MV)
        else:
            values[samples] = 0.0
    channels["ecg"] = 1000 * ecg
    signals = {}
    for role, values in channels.items():
        label, rate_hz, unit, _ = CHANNELS[role]
        signals[role] = Signal(label, values, rate_hz, unit)
    return simulated_recording(name, signals, night, sleeper, events + body.apnoeas)


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


def _saturation(rng: np.random.Generator, apnoeas: list[SignalEvent], n_seconds: int) -> Floats32:
    times = np.arange(n_seconds)
    level = rng.uniform(94.5, 97.5) + 0.4 * drift(rng, n_seconds, 600)
    for event in apnoeas:
        low, high = DESATURATION[event.kind]
        bottom = event.end_seconds + DELAY_SECONDS
        fall = np.clip((times - event.start_seconds - DELAY_SECONDS) / event.seconds, 0, 1)
        level -= rng.uniform(low, high) * fall * np.exp(-np.clip(times - bottom, 0, None) / 12)
    return np.asarray(np.clip(np.rint(level + rng.normal(0, 0.2, n_seconds)), 60, 100), dtype=np.float32)


FIRST_ID = 900_000  # the ids of SHHS end at 205804
STAGES = {
    "W": "Wake|0",
    "N1": "Stage 1 sleep|1",
    "N2": "Stage 2 sleep|2",
    "N3": "Stage 3 sleep|3",
    "R": "REM sleep|5",
}
CONCEPTS = {APNOEA: "Obstructive apnea|Obstructive Apnea", HYPOPNOEA: "Hypopnea|Hypopnea"}
TABLE = "datasets/shhs1-dataset-0.0.0-synthetic.csv"
SEXES = {"M": "1", "F": "2"}
READ_OPTIONS = ""
FILE_LIST = {
    "edf": """polysomnography/edfs/shhs1/shhs1-900NNN.edf     SaO2, H.R., ECG, belts, airflow, as in SHHS
polysomnography/annotations-events-nsrr/shhs1/shhs1-900NNN-nsrr.xml     stages and apnoeas
datasets/shhs1-dataset-0.0.0-synthetic.csv      age, sex, BMI, AHI""",
}


def name_of(number: int, layout: str) -> str:
    """Return a subject's id of six digits, which is no id of SHHS."""
    return f"{FIRST_ID + number}"


def write(simulated: Simulated, folder: Path, layout: str) -> None:
    """Write one recording and its scoring."""
    write_channels(simulated, folder, CHANNELS)


def write_channels(simulated: Simulated, folder: Path, channels: Mapping[str, ShhsChannel]) -> None:
    """Write some channels of a recording, and its scoring."""
    stem = f"shhs1-{simulated.recording.subject}"
    edfs = folder / "polysomnography" / "edfs" / "shhs1"
    scorings = folder / "polysomnography" / "annotations-events-nsrr" / "shhs1"
    for subfolder in (edfs, scorings):
        subfolder.mkdir(parents=True, exist_ok=True)
    signals = [edf_signal(signal_of(simulated, role), c.label, c.limits) for role, c in channels.items()]
    sex = simulated.recording.covariates.get("sex")
    letter: Literal["M", "F", "X"] = "M" if sex == "M" else "F" if sex == "F" else "X"
    write_edf(edfs / f"{stem}.edf", simulated.recording, signals, letter)
    text = nsrr_xml(simulated.night.hypnogram, simulated.events)
    (scorings / f"{stem}-nsrr.xml").write_text(text, encoding="utf-8", newline="\n")


def finish(subjects: Sequence[Any], folder: Path, layout: str) -> None:
    """Write the table of covariates, with the columns that StageGuard reads."""
    (folder / "datasets").mkdir()
    with (folder / TABLE).open("x", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["nsrrid", "visitnumber", "age_s1", "gender", "bmi_s1", "ahi_a0h3a", "synthetic"])
        for subject in subjects:
            covariates = subject.covariates
            sex = SEXES.get(str(covariates.get("sex")), "")
            facts = (covariates.get(name, "") for name in ("age", "bmi", "ahi"))
            age, bmi, ahi = (f"{fact:g}" if isinstance(fact, float) else "" for fact in facts)
            table.writerow([subject.subject, 1, age, sex, bmi, ahi, 1])


def nsrr_xml(night: Hypnogram, events: Sequence[SignalEvent]) -> str:
    """Return stages and respiratory events in the NSRR's XML format."""
    seconds = night.n_epochs * night.epoch_seconds
    start = night.start or datetime(2000, 1, 1)
    clock = start.strftime("%d.%m.%y %H.%M.%S")
    lines = [
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>',
        f"<!-- {SYNTHETIC_WORD}: simulated by stageguard {__version__}; nobody slept this night. -->",
        "<PSGAnnotation>",
        "<SoftwareVersion>Compumedics</SoftwareVersion>",
        f"<EpochLength>{night.epoch_seconds:g}</EpochLength>",
        "<ScoredEvents>",
        _event("", "Recording Start Time", 0, seconds, f"<ClockTime>{clock}</ClockTime>"),
    ]
    for event in events:
        if event.kind in CONCEPTS:
            location = "<SignalLocation>ABDO RES</SignalLocation>"
            kind = "Respiratory|Respiratory"
            lines.append(_event(kind, CONCEPTS[event.kind], event.start_seconds, event.seconds, location))
    edges = np.flatnonzero(np.diff(night.labels)) + 1
    for first, end in zip([0, *edges.tolist()], [*edges.tolist(), night.n_epochs], strict=True):
        stage = STAGES[night.scheme.names[night.labels[first]]]
        begin, length = first * night.epoch_seconds, (end - first) * night.epoch_seconds
        lines.append(_event("Stages|Stages", stage, begin, length))
    return "\n".join([*lines, "</ScoredEvents>", "</PSGAnnotation>", ""])


def _event(kind: str, concept: str, start: float, seconds: float, more: str = "") -> str:
    return (
        f"<ScoredEvent><EventType>{escape(kind)}</EventType><EventConcept>{escape(concept)}</EventConcept>"
        f"<Start>{start:.1f}</Start><Duration>{seconds:.1f}</Duration>{more}</ScoredEvent>"
    )
