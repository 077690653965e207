"""AccuSleep: mouse EEG and EMG with expert labels, as MAT-files or AccuSleePy tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Labels
from stageguard.datasets import Entry
from stageguard.datasets.samples import dataset_error, mat_row, table_columns
from stageguard.errors import InputError
from stageguard.files import is_synthetic
from stageguard.formats.recordings.raw import scale_samples
from stageguard.night.hypnogram import UNSCORED, Hypnogram, reepoch_labels
from stageguard.night.recording import Recording, Samples, Series, Signal
from stageguard.night.stages import WNR3
from stageguard.units import scale_to

CODES = {1: "R", 2: "W", 3: "N"}
UNDEFINED = (-1, 0, 4)  # codes for undefined: AccuSleePy's, an unused one, AccuSleep's in MATLAB

# Files of a session's folder, in lower case; a table takes precedence over MAT-files of the same session.
_SIGNAL_FILES = {"eeg.mat": "eeg", "emg.mat": "emg"}
_TABLE_FILES = ("recording.parquet", "recording.csv")
_LABEL_FILES = ("labels.mat", "labels.csv", "labels.parquet")
_MOUSE = re.compile(r"(mouse|rat|animal|subject|sub|m)[-_ ]?\d+\w*", re.IGNORECASE)
_GROUP = re.compile(r"(\d+)[-_ ]?hour[-_ ]?recordings?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Options:
    """Facts that the files do not contain."""

    epoch_seconds: float = 4.0  # of the hypnogram; 2.5 keeps the labels as they are
    label_seconds: float = 2.5
    rate_hz: float = 512.0
    unit: str = ""
    codes: Mapping[int, str] | None = None  # stages of label codes that are not `CODES`


@dataclass(frozen=True, slots=True)
class Session:
    """One folder with one recording."""

    folder: Path
    group: str
    mouse: str
    name: str
    files: Mapping[str, Path]  # lower-case name -> file

    @property
    def id(self) -> str:
        """Name of the session, independent of where the dataset's folder is."""
        return "_".join(part for part in (self.group, self.mouse, self.name) if part)

    @property
    def is_table(self) -> bool:
        """Whether the session is in AccuSleePy's format."""
        return any(name in self.files for name in _TABLE_FILES)


def find(folder: Path, *, group: str | None = None, same_mice: bool = True, **files: Any) -> Iterator[Entry]:
    """Find the sessions below a folder: the dataset, one of its groups, one mouse, or one session.

    It is not published whether Mouse01 of one group is Mouse01 of the other. By default (``same_mice``) they
    are one subject, so that a split never separates them.
    """
    options = Options(**files)
    if options.unit:
        scale_to(options.unit, "uV", what="the signal")  # refuses an unknown unit before any file is read
    sessions = _sessions(folder)
    if group is not None:
        wanted = group.lower().removesuffix("_recordings")
        kept = {key: session for key, session in sessions.items() if session.group.lower() == wanted}
        if not kept:
            there = ", ".join(sorted({session.group for session in sessions.values()} - {""})) or "none"
            raise InputError(f"{folder} has no group {group!r}; it has: {there}.")
        sessions = kept
    for key in sorted(sessions):
        session = sessions[key]
        subject = session.mouse if same_mice or not session.group else f"{session.group}_{session.mouse}"
        yield Entry(
            session.id,
            subject,
            tuple(session.files.values()),
            partial(_read, session, subject, options),
            _missing(session),
        )


def _sessions(folder: Path) -> dict[tuple[str, str, str], Session]:
    sessions: dict[tuple[str, str, str], Session] = {}
    for path, folders, names in os.walk(folder):
        folders.sort()
        files = {name.lower(): Path(path, name) for name in sorted(names)}
        known = [name for name in (*_SIGNAL_FILES, *_TABLE_FILES) if name in files]
        labels = [name for name in _LABEL_FILES if name in files]
        if not known and not labels:
            continue
        session = _session(folder, Path(path), {name: files[name] for name in (*known, *labels)})
        key = (session.group, session.mouse, session.name)
        if key not in sessions or (session.is_table and not sessions[key].is_table):
            sessions[key] = session
    return sessions


def _session(root: Path, folder: Path, files: Mapping[str, Path]) -> Session:
    """Return the session, with group, mouse and name taken from the names of the folders.

    ``root`` may be any folder of the tree. If no folder is named like a mouse, the first folder below the
    root is the mouse.
    """
    parts, top = folder.resolve().parts, len(root.resolve().parts)
    named = [i for i, part in enumerate(parts) if i >= top - 2 and _MOUSE.fullmatch(part)]
    groups = [i for i, part in enumerate(parts) if _GROUP.fullmatch(part)]
    below = max([top, *(i + 1 for i in groups)])
    at = named[-1] if named else min(below, len(parts) - 1)
    match = _GROUP.fullmatch(parts[groups[-1]]) if groups else None
    group = "" if match is None else f"{match[1]}-hour"
    return Session(folder, group, parts[at], "_".join(parts[at + 1 :]), files)


def _missing(session: Session) -> tuple[str, ...]:
    wanted = [] if session.is_table else [name for name in _SIGNAL_FILES if name not in session.files]
    missing = [name.replace("eeg", "EEG").replace("emg", "EMG") for name in wanted]
    if not any(name in session.files for name in _LABEL_FILES):
        missing.append("labels.csv" if session.is_table else "labels.mat")
    return tuple(f"{session.mouse}/{session.name}/{name}".replace("//", "/") for name in missing)


def _read(session: Session, subject: str, options: Options) -> Recording:
    signals = _signals(session, options)
    seconds = max((signal.seconds for signal in signals.values()), default=None)
    scoring = _scoring(session, options, seconds)
    covariates: dict[str, float | str] = {"species": "mouse"}
    if session.group:
        covariates["group"] = session.group
    phase = re.search(r"(light|dark)[-_ ]?cycle", session.name, re.IGNORECASE)
    if phase:
        covariates["phase"] = phase[1].lower()
    return Recording(
        session.id,
        subject,
        signals,
        {} if scoring is None else {scoring.scorer or "expert": scoring},
        covariates=covariates,
        is_synthetic=is_synthetic(session.folder),
        source="AccuSleep",
    )


def _signals(session: Session, options: Options) -> dict[str, Signal | Series]:
    table = next((session.files[name] for name in _TABLE_FILES if name in session.files), None)
    rows: dict[str, Samples] = {}
    if table is not None:
        rows = table_columns(table, tuple(_SIGNAL_FILES.values()))
        if not rows:
            raise dataset_error(table, "has neither a column 'eeg' nor 'emg'. AccuSleePy names them so.")
    else:
        for name, role in _SIGNAL_FILES.items():
            if name in session.files:
                rows[role] = mat_row(session.files[name], role.upper())
    if len({len(row) for row in rows.values()}) > 1:
        lengths = ", ".join(f"{role} {len(row):,}" for role, row in rows.items())
        raise dataset_error(
            session.folder, f"its signals differ in length ({lengths} samples), expected the same."
        )
    factor = scale_to(options.unit, "uV")[0] if options.unit else 1
    unit = "uV" if options.unit else ""
    return {
        role: Signal(role.upper(), scale_samples(row, factor), options.rate_hz, unit)
        for role, row in rows.items()
    }


def _scoring(session: Session, options: Options, seconds: float | None) -> Hypnogram | None:
    path = next((session.files[name] for name in _LABEL_FILES if name in session.files), None)
    if path is None:
        return None
    scorer = "expert"
    if path.suffix.lower() == ".mat":
        codes = mat_row(path, "labels")[0:]
    else:
        columns = table_columns(path, ("brain_state", "confidence_score"))
        if "brain_state" not in columns:
            raise dataset_error(path, "has no column 'brain_state'. AccuSleePy names it so.")
        codes = columns["brain_state"][0:]
        # AccuSleePy writes a confidence next to the epochs that it scored
        confidence = np.asarray(columns["confidence_score"][0:], float) if len(columns) > 1 else np.zeros(0)
        scorer = "AccuSleePy" if (confidence > 0).any() else scorer
    labels = _labels(path, np.asarray(codes, dtype=np.float64), options)
    labelled = len(labels) * options.label_seconds
    if seconds is not None and abs(labelled - seconds) > max(60.0, 0.01 * seconds):
        raise dataset_error(
            path,
            f"{len(labels):,} labels of {options.label_seconds:g} s last {labelled:g} s, the signals at "
            f"{options.rate_hz:g} Hz {seconds:g} s. Give label_seconds or rate_hz as they were recorded.",
        )
    stages = reepoch_labels(labels, options.label_seconds, options.epoch_seconds)
    return Hypnogram(stages, WNR3, options.epoch_seconds, scorer=scorer)


def _labels(path: Path, codes: np.ndarray[tuple[int, ...], np.dtype[np.float64]], options: Options) -> Labels:
    """Return labels of the scheme wnr3 from AccuSleep's codes."""
    names = {int(code): name for code, name in (CODES if options.codes is None else options.codes).items()}
    labels = np.full(len(codes), UNSCORED, dtype=np.int8)
    for code, name in names.items():
        labels[codes == code] = WNR3.index(name)
    known = np.isnan(codes) | np.isin(codes, (*UNDEFINED, *names))
    if not known.all():
        where = int(np.argmin(known))
        stages = ", ".join(f"{code} {name}" for code, name in names.items())
        raise dataset_error(
            path,
            f"label {codes[where]:g} at epoch {where + 1} is none of {stages}, -1 or 4. Give codes={{...}}.",
        )
    return labels
