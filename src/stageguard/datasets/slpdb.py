"""MIT-BIH Polysomnographic Database (slpdb) in its WFDB layout, with its annotated beats.

Each record has `.hea` and `.dat` (signals), `.ecg` (beats) and `.st` (a stage and events per 30 s).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from stageguard.datasets import Entry
from stageguard.errors import warn
from stageguard.files import file_error
from stageguard.formats.recordings.read import build_recording, lay_over
from stageguard.formats.recordings.wfdb import (
    read_wfdb_annotations,
    read_wfdb_beats,
    read_wfdb_header,
    read_wfdb_recording,
)
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording
from stageguard.night.stages import AASM5, UNSCORED_NAME

EPOCH_SECONDS = 30.0
OFF_GRID_SECONDS = 2.0  # an annotation up to this far from an epoch's start belongs to the epoch
STAGES = {"W": "W", "1": "N1", "2": "N2", "3": "N3", "4": "N3", "R": "R"}
STAGES |= {"M": UNSCORED_NAME, "MT": UNSCORED_NAME}
# Role -> pattern of a signal's description; "Resp (sum)" is the sum of both belts.
ROLES = (
    ("ecg", r"ECG"),
    ("eeg", r"EEG \(.*\)"),
    ("eog", r"EOG( \(.*\))?"),
    ("emg", r"EMG"),
    ("blood_pressure", r"BP"),
    ("airflow", r"Resp \(nasal\)"),
    ("thorax", r"Resp \((chest|sum)\)"),
    ("abdomen", r"Resp \(abdom(en|inal)\)"),
    ("spo2", r"SO2"),
    ("stroke_volume", r"SV"),
)


def subject_of(record: str) -> str:
    """Return the subject of a record: slp01a and slp01b are one person, slp02a and slp02b another."""
    match = re.fullmatch(r"(slp\d+)[ab]?x?", record)
    return record if match is None else match[1]


def find(folder: Path) -> Iterator[Entry]:
    """Yield an entry per record, in order of names."""
    headers = {path.stem: path for path in sorted(folder.rglob("slp*.hea"))}
    for record, path in headers.items():
        subject = subject_of(record)
        parts = [path.with_suffix(suffix) for suffix in (".dat", ".ecg", ".st")]
        there = tuple(part for part in parts if part.is_file())
        missing = tuple(part.name for part in parts if not part.is_file())
        yield Entry(record, subject, (path, *there), partial(read_record, path), missing)


def read_record(path: Path) -> Recording:
    """Read one record: signals, annotated beats, and stages."""
    header = read_wfdb_header(path)
    raw = read_wfdb_recording(path)
    roles: dict[str, str] = {}
    for role, pattern in ROLES:
        labels = [label for label in raw.signals if re.fullmatch(pattern, label.strip(), re.IGNORECASE)]
        roles |= {role if i == 0 else f"{role}_{i + 1}": label for i, label in enumerate(labels)}
    recording = build_recording(path, raw, subject=subject_of(path.stem), roles=roles)
    beats = path.with_suffix(".ecg")
    if beats.is_file():
        signals = {**recording.signals, "beats": read_wfdb_beats(beats, header.rate_hz)}
        recording = replace(recording, signals=signals)
    recording = replace(recording, covariates=_covariates(header.comments), source="slpdb")
    stages = path.with_suffix(".st")
    if stages.is_file():
        night = read_stages(stages, header.rate_hz)
        recording = lay_over(recording, {"expert": (night, 0.0)}, trailing=True)
    return recording


def read_stages(path: Path, rate_hz: float) -> Hypnogram:
    """Read the stages of an .st file: the first word of each annotation, for the 30 s after it."""
    annotations = read_wfdb_annotations(path)
    stages: dict[int, str] = {}
    for mark in annotations.marks:
        word = (mark.text.split() or [""])[0].upper()
        stage = STAGES.get(word)
        if stage is None:
            continue
        seconds = mark.sample / (annotations.rate_hz or rate_hz)
        epoch = round(seconds / EPOCH_SECONDS)
        if abs(seconds - epoch * EPOCH_SECONDS) > OFF_GRID_SECONDS or epoch > 10_000:
            raise file_error(path, f"has a stage at {seconds:.1f} s, expected one every {EPOCH_SECONDS:g} s.")
        if stages.setdefault(epoch, stage) != stage:
            warn(f"{path.name}: epoch {epoch} is {stages[epoch]} and {stage}: read as unscored.")
            stages[epoch] = UNSCORED_NAME
    if not stages:
        raise file_error(path, "holds no sleep stages, expected annotations such as '2' or 'W'.")
    labels = np.full(max(stages) + 1, UNSCORED, dtype=np.int8)
    for epoch, stage in stages.items():
        labels[epoch] = UNSCORED if stage == UNSCORED_NAME else AASM5.index(stage)
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer=path.name)


def _covariates(comments: Sequence[str]) -> dict[str, float | str]:
    """Return age, sex and weight from a comment such as "44 M 89 32-01-89"."""
    for comment in comments:
        if match := re.match(r"(\d{1,3})\s+([MF])(?:\s+(\d{2,3})\b)?", comment):
            facts: dict[str, float | str] = {"age": float(match[1]), "sex": match[2]}
            return facts | ({"weight_kg": float(match[3])} if match[3] else {})
    return {}
