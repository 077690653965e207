"""Sleep-Accel: Apple Watch acceleration, heart rate and steps with sleep stages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.datasets import Entry, dataset_error
from stageguard.files import is_synthetic, local_file, open_text
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording, Series, Signal
from stageguard.night.stages import AASM5, WNR3, WS2, StageScheme

EPOCH_SECONDS = 30.0
CODES = {0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "N3", 5: "R"}  # 4 is stage 4 of the older rules
SCHEMES: dict[str, StageScheme] = {scheme.name: scheme for scheme in (AASM5, WNR3, WS2)}

# Ending of the file -> folder, role, number of columns after the time, unit.
_RAW = {
    "_acceleration.txt": ("motion", "acceleration", 3, "g"),
    "_heartrate.txt": ("heart_rate", "heart_rate", 1, "bpm"),
    "_steps.txt": ("steps", "steps", 1, "counts"),
}
_LABELS = "_labeled_sleep.txt"


def find(folder: Path, *, scheme: str = "aasm5", whole: bool = False) -> Iterator[Entry]:
    """Find the subjects in a folder.

    The days before the night have negative times. Data after the last scored epoch is kept only with
    ``whole``.
    """
    checks.choice(scheme, "scheme", SCHEMES)
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.rglob("*.txt")):
        subject, mark, ending = path.name.partition("_")
        if mark + ending in (*_RAW, _LABELS):
            found.setdefault(subject, {}).setdefault(mark + ending, path)
    for subject in sorted(found, key=lambda name: (len(name), name)):
        paths = found[subject]
        missing = [f"{part[0]}/{subject}{ending}" for ending, part in _RAW.items() if ending not in paths]
        missing += [] if _LABELS in paths else [f"labels/{subject}{_LABELS}"]
        reader = partial(_read, subject, paths, SCHEMES[scheme], whole)
        yield Entry(subject, subject, tuple(paths.values()), reader, tuple(missing))


def _read(subject: str, files: dict[str, Path], scheme: StageScheme, whole: bool) -> Recording:
    scoring, offset = (None, 0.0) if _LABELS not in files else _scoring(files[_LABELS], scheme)
    end = np.inf if whole or scoring is None else scoring.n_epochs * EPOCH_SECONDS
    signals: dict[str, Signal | Series] = {}
    for ending, (_, role, n_columns, unit) in _RAW.items():
        if ending not in files:
            continue
        rows = _numbers(files[ending], 1 + n_columns)
        rows[:, 0] -= offset
        rows = _sort_rows(rows[rows[:, 0] < end])
        if not len(rows):
            raise dataset_error(files[ending], f"has nothing before the night's end at {end:g} s.")
        values = rows[:, 1:] if n_columns > 1 else rows[:, 1]
        signals[role] = Series(files[ending].name, rows[:, 0], values, unit)
    return Recording(
        subject,
        subject,
        signals,
        {} if scoring is None else {"expert": scoring},
        is_synthetic=is_synthetic(next(iter(files.values()))),
        source="Sleep-Accel",
    )


def _scoring(path: Path, scheme: StageScheme) -> tuple[Hypnogram, float]:
    """Return the scoring, and the offset of its epochs from the night's start in seconds.

    Epochs that the file leaves out are unscored.
    """
    rows = _sort_rows(_numbers(path, 2))
    rows = rows[rows[:, 0] > -EPOCH_SECONDS / 2]
    if not len(rows):
        raise dataset_error(path, "has no epoch after the night's start.")
    offset = float(rows[0, 0] % EPOCH_SECONDS)
    offset = 0.0 if min(offset, EPOCH_SECONDS - offset) < 0.5 else offset
    places = (rows[:, 0] - offset) / EPOCH_SECONDS
    epochs, codes = np.rint(places).astype(np.int64), rows[:, 1]
    is_odd = (np.abs(places - epochs) > 0.05) | (np.diff(epochs, prepend=-1) < 1)
    for row in np.flatnonzero(is_odd | ~np.isin(codes, (UNSCORED, *CODES)))[:1]:
        found = f"has stage {codes[row]:g} at {rows[row, 0]:g} s"
        raise dataset_error(path, f"{found}, expected -1, 0, 1, 2, 3, 4 or 5 every 30 s.")
    labels = np.full(int(epochs[-1]) + 1, UNSCORED, dtype=np.int8)
    labels[epochs] = [AASM5.index(CODES[code]) if code in CODES else UNSCORED for code in codes]
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer="expert").merge(scheme), offset


def _sort_rows(rows: Floats) -> Floats:
    """Sort rows by time and drop repeated ones: the watch sent some rows late or twice."""
    rows = rows[np.isfinite(rows).all(axis=1)]
    if (np.diff(rows[:, 0]) < 0).any():
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
    is_repeated = np.zeros(len(rows), dtype=bool)
    is_repeated[1:] = (rows[1:] == rows[:-1]).all(axis=1)
    return rows[~is_repeated]


def _numbers(path: Path, n_columns: int) -> Floats:
    """Return the numbers of a text file, separated by blanks or commas."""
    with open_text(path, encoding="ascii", errors="replace") as file:
        first = next((line for line in file if line.strip()), "")
    rows, why = np.empty((0, 0)), ""
    try:
        if first:
            mark = "," if "," in first else None
            rows = np.loadtxt(local_file(path), delimiter=mark, ndmin=2, comments=None)
    except ValueError as error:
        why = f" ({' '.join(str(error).split())})"
    if rows.shape[1] != n_columns:
        expected = f"expected {n_columns} columns of numbers{why}"
        raise dataset_error(path, f"begins with {first[:40]!r}, {expected}. Is it complete?")
    return rows
