"""Laboratory nights as the NSRR has SHHS: EDF, scorings in XML, and a table of covariates."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.files import SYNTHETIC_WORD
from stageguard.base.version import __version__
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Signal
from stageguard.synthetic.body import APNOEA, HYPOPNOEA
from stageguard.synthetic.events import Event, Simulated
from stageguard.synthetic.layouts import write_edf

FIRST_ID = 900_000  # the study's own ids end at 205804
STAGES = {
    "W": "Wake|0",
    "N1": "Stage 1 sleep|1",
    "N2": "Stage 2 sleep|2",
    "N3": "Stage 3 sleep|3",
    "R": "REM sleep|5",
}
CONCEPTS = {APNOEA: "Obstructive apnea|Obstructive Apnea", HYPOPNOEA: "Hypopnea|Hypopnea"}
# Role -> unit and range in the file. Belts and airflow have no unit in SHHS.
CHANNELS = {
    "spo2": ("%", (0.0, 100.0)),
    "heart_rate": ("bpm", (0.0, 250.0)),
    "ecg": ("mV", (-1.25, 1.25)),
    "thorax": ("", (-1.0, 1.0)),
    "abdomen": ("", (-1.0, 1.0)),
    "airflow": ("", (-1.0, 1.0)),
}
TABLE = "datasets/shhs1-dataset-0.0.0-synthetic.csv"
SEXES = {"M": "1", "F": "2"}
READ_OPTIONS = ""
FILE_LIST = {
    "edf": """polysomnography/edfs/shhs1/shhs1-900NNN.edf     SaO2, H.R., ECG, belts, airflow, as in SHHS
polysomnography/annotations-events-nsrr/shhs1/shhs1-900NNN-nsrr.xml     stages and apnoeas
datasets/shhs1-dataset-0.0.0-synthetic.csv      age, sex, BMI, AHI""",
}


def name_of(number: int, layout: str) -> str:
    """Return a subject's id of six digits, none of the study's own."""
    return f"{FIRST_ID + number}"


def write(made: Simulated, folder: Path, layout: str) -> None:
    """Write one recording and its scoring."""
    stem = f"shhs1-{made.recording.subject}"
    edfs = folder / "polysomnography" / "edfs" / "shhs1"
    scorings = folder / "polysomnography" / "annotations-events-nsrr" / "shhs1"
    for subfolder in (edfs, scorings):
        subfolder.mkdir(parents=True, exist_ok=True)
    _write_edf(edfs / f"{stem}.edf", made)
    text = nsrr_xml(made.night.hypnogram, made.events)
    (scorings / f"{stem}-nsrr.xml").write_text(text, encoding="utf-8")


def finish(subjects: Sequence[Any], folder: Path, layout: str) -> None:
    """Write the table of covariates, of those columns that StageGuard reads."""
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


def nsrr_xml(night: Hypnogram, events: Sequence[Event]) -> str:
    """Return stages and respiratory events as the NSRR annotates them."""
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


def _write_edf(path: Path, made: Simulated) -> None:
    import edfio

    signals = []
    for role, (unit, (low, high)) in CHANNELS.items():
        signal = made.recording.signals[role]
        assert isinstance(signal, Signal)
        values: Floats = signal.read() / (1000.0 if signal.unit == "uV" else 1.0)
        signals.append(
            edfio.EdfSignal(
                np.clip(values, low, high),
                signal.rate_hz,
                label=signal.name,
                transducer_type=SYNTHETIC_WORD,
                physical_dimension=unit,
                physical_range=(low, high),
            )
        )
    sex = made.recording.covariates.get("sex")
    write_edf(path, made.recording, signals, "M" if sex == "M" else "F" if sex == "F" else "X")
