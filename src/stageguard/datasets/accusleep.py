"""AccuSleep: mouse EEG and EMG with expert labels, as MAT-files or AccuSleePy tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stageguard.arrays import Floats
from stageguard.datasets import Entry, dataset_error, reading
from stageguard.files import is_synthetic, local_file, open_file
from stageguard.formats.hdf5 import opened_hdf5
from stageguard.lazy import library
from stageguard.night.hypnogram import UNSCORED, Hypnogram, reepoch_labels
from stageguard.night.recording import Recording, Series, Signal
from stageguard.night.stages import WNR3
from stageguard.units import scale_to

CODES = {1: "R", 2: "W", 3: "N"}
UNDEFINED = (-1, 0, 4)  # codes for undefined: AccuSleePy's, an unused one, AccuSleep's in MATLAB

# Files of a session's folder, in lower case; a table takes precedence over MAT-files of the same session.
SIGNALS = {"eeg.mat": "eeg", "emg.mat": "emg"}
TABLES = ("recording.parquet", "recording.csv")
LABELS = ("labels.mat", "labels.csv")
_MOUSE = re.compile(r"(mouse|rat|animal|subject|sub|m)[-_ ]?\d+\w*", re.IGNORECASE)
_GROUP = re.compile(r"(\d+)[-_ ]?hour[-_ ]?recordings?", re.IGNORECASE)
_HDF5 = b"\x89HDF\r\n\x1a\n"  # in the first bytes of a MAT-file of version 7.3


class Facts(NamedTuple):
    """Facts that the files do not contain."""

    epoch_seconds: float  # of the hypnogram
    label_seconds: float  # of the labels in the files
    rate_hz: float
    unit: str


class Session(NamedTuple):
    """One folder with one recording."""

    group: str
    mouse: str
    name: str
    folder: Path
    files: Mapping[str, Path]  # lower-case name -> file

    def first(self, names: tuple[str, ...]) -> Path | None:
        """Return the first of some files that is there."""
        return next((self.files[name] for name in names if name in self.files), None)


def find(
    folder: Path,
    *,
    epoch_seconds: float = 4.0,
    label_seconds: float = 2.5,
    rate_hz: float = 512.0,
    unit: str = "",
) -> Iterator[Entry]:
    """Find the sessions below a folder: the dataset, one of its groups, one mouse, or one session.

    It is not published whether Mouse01 of one group is Mouse01 of the other. They are one subject, so that a
    split never separates them.
    """
    facts = Facts(epoch_seconds, label_seconds, rate_hz, unit)
    if unit:
        scale_to(unit, "uV", what="the signal")  # refuses an unknown unit before any file is read
    sessions: dict[tuple[str, ...], Session] = {}
    for path, folders, names in os.walk(folder):
        folders.sort()
        known = {name.lower(): Path(path, name) for name in sorted(names)}
        known = {name: known[name] for name in (*SIGNALS, *TABLES, *LABELS) if name in known}
        if known:
            session = _session(folder, Path(path), known)
            kept = sessions.setdefault(session[:3], session)
            if session.first(TABLES) and not kept.first(TABLES):
                sessions[session[:3]] = session
    for key, session in sorted(sessions.items()):
        wanted = {"EEG.mat": ("eeg.mat",), "EMG.mat": ("emg.mat",), "labels.mat": LABELS}
        if session.first(TABLES):
            wanted = {"labels.csv": LABELS}
        missing = [name for name, files in wanted.items() if not session.first(files)]
        lacks = tuple("/".join(filter(None, (*key[1:], name))) for name in missing)
        name = "_".join(filter(None, key))  # independent of where the dataset's folder is
        files = tuple(session.files.values())
        yield Entry(name, session.mouse, files, partial(_read, name, session, facts), lacks)


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
    return Session(group, parts[at], "_".join(parts[at + 1 :]), folder, files)


def _read(name: str, session: Session, facts: Facts) -> Recording:
    if (table := session.first(TABLES)) is not None:
        rows = _columns(table, tuple(SIGNALS.values()))
    else:
        files = {role: session.files[name] for name, role in SIGNALS.items() if name in session.files}
        rows = {role: _vector(path, role.upper()) for role, path in files.items()}
    if len({len(row) for row in rows.values()}) > 1:
        lengths = ", ".join(f"{role} {len(row):,}" for role, row in rows.items())
        raise dataset_error(session.folder, f"its signals have {lengths} samples, expected the same.")
    factor = scale_to(facts.unit, "uV")[0] if facts.unit else 1.0
    signals: dict[str, Signal | Series] = {
        role: Signal(role.upper(), row * factor, facts.rate_hz, "uV" if facts.unit else "")
        for role, row in rows.items()
    }
    seconds = max((signal.seconds for signal in signals.values()), default=None)
    labels = session.first(LABELS)
    scoring = None if labels is None else _scoring(labels, facts, seconds)
    phase = re.search(r"(light|dark)[-_ ]?cycle", session.name, re.IGNORECASE)
    known = {"species": "mouse", "group": session.group, "phase": phase[1].lower() if phase else ""}
    return Recording(
        name,
        session.mouse,
        signals,
        {} if scoring is None else {scoring.scorer or "expert": scoring},
        covariates={key: value for key, value in known.items() if value},
        is_synthetic=is_synthetic(session.folder),
        source="AccuSleep",
    )


def _vector(path: Path, name: str) -> Floats:
    """Return a vector of a MAT-file, version 5 to 7 (through scipy) or 7.3 (through h5py)."""
    with open_file(path) as file:
        head = file.read(1024)
    with reading(f"{path.parent.name}/{path.name}"):
        if _HDF5 in head:
            with opened_hdf5(path, f"{path.name} is a MAT-file of version 7.3; reading it") as variables:
                values = np.asarray(variables[name][()]) if name in variables else None
                names = ", ".join(variables)
        elif head.startswith(b"MATLAB 5.0"):
            found = library("scipy.io", f"reading {path.name}").loadmat(local_file(path))
            values, names = found.get(name), ", ".join(key for key in found if key[0] != "_")
        else:
            raise dataset_error(path, "is no MAT-file of version 5 to 7.3. Was it written completely?")
    if values is None:
        raise dataset_error(path, f"has no variable {name!r}; it has: {names or 'none'}.")
    if not values.size or max(values.shape) != values.size or values.dtype.kind not in "iuf":
        raise dataset_error(path, f"{name} has shape {values.shape}, expected one row of numbers.")
    return values.ravel().astype(np.float64)


def _columns(path: Path, wanted: tuple[str, ...]) -> dict[str, Floats]:
    """Return those columns of a Parquet or CSV table that it has; the first must be there."""
    is_parquet = path.suffix.lower() == ".parquet"
    arrow = library("pyarrow.parquet" if is_parquet else "pyarrow.csv", f"reading {path.name}")
    with reading(f"{path.parent.name}/{path.name}"):
        table = (arrow.read_table if is_parquet else arrow.read_csv)(local_file(path))
        names = [name for name in wanted if name in table.column_names]
        columns = {name: table.column(name).to_numpy().astype(np.float64) for name in names}
    if not columns or not len(columns[names[0]]):
        raise dataset_error(path, f"has no column {wanted[0]!r} with rows. AccuSleePy names it so.")
    return columns


def _scoring(path: Path, facts: Facts, seconds: float | None) -> Hypnogram:
    """Return the labels as stages; refuse a number of labels that does not fit the signals."""
    scorer = "expert"
    if path.suffix.lower() == ".mat":
        codes = _vector(path, "labels")
    else:
        columns = _columns(path, ("brain_state", "confidence_score"))
        codes = columns["brain_state"]
        # AccuSleePy writes a confidence next to the epochs that it scored
        scorer = "AccuSleePy" if (columns.get("confidence_score", codes * 0) > 0).any() else scorer
    labels = np.full(len(codes), UNSCORED, dtype=np.int8)
    for code, name in CODES.items():
        labels[codes == code] = WNR3.index(name)
    known = np.isnan(codes) | np.isin(codes, (*UNDEFINED, *CODES))
    if not known.all():
        at = int(np.argmin(known))
        problem = f"label {codes[at]:g} at epoch {at + 1} is none of 1 R, 2 W, 3 N, -1, 0, 4."
        raise dataset_error(path, problem)
    labelled = len(labels) * facts.label_seconds
    if seconds is not None and abs(labelled - seconds) > max(60.0, 0.01 * seconds):
        found = f"{len(labels):,} labels of {facts.label_seconds:g} s last {labelled:g} s"
        signals = f"the signals at {facts.rate_hz:g} Hz {seconds:g} s"
        raise dataset_error(path, f"{found}, {signals}. Give label_seconds or rate_hz as recorded.")
    stages = reepoch_labels(labels, facts.label_seconds, facts.epoch_seconds)
    return Hypnogram(stages, WNR3, facts.epoch_seconds, scorer=scorer)
