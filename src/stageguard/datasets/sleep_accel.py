"""Sleep-Accel: Apple Watch acceleration, heart rate and steps with sleep stages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats, Ints
from stageguard.datasets import Entry
from stageguard.datasets.samples import dataset_error
from stageguard.errors import InputError
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
# Ending of a feature file of Walch et al. -> role and unit. The heart feature is a variability, not a rate.
_FEATURES = {
    "_count_feature.out": ("counts", "counts"),
    "_hr_feature.out": ("heart_rate_variability", ""),
    "_cosine_feature.out": ("clock_cosine", ""),
    "_circadian_feature.out": ("circadian", ""),
}
_TIMES, _FEATURE_LABELS = "_time_feature.out", "_psg_labels.out"
_FEATURE_FILES = (*_FEATURES, _TIMES, _FEATURE_LABELS)


def find(folder: Path, *, scheme: str = "aasm5", whole: bool = False) -> Iterator[Entry]:
    """Find the subjects in a folder: PhysioNet's text files, or the feature files of Walch et al.

    The days before the night have negative times. Data after the last scored epoch is kept only with
    ``whole``.
    """
    checks.choice(scheme, "scheme", SCHEMES)
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".txt", ".out"))
    raw = _files_by_subject(files, (*_RAW, _LABELS))
    features = _files_by_subject(files, _FEATURE_FILES)
    for subject in sorted(raw, key=lambda name: (len(name), name)):
        paths = raw[subject]
        missing = [f"{part[0]}/{subject}{ending}" for ending, part in _RAW.items() if ending not in paths]
        missing += [] if _LABELS in paths else [f"labels/{subject}{_LABELS}"]
        reader = partial(_read_raw, subject, paths, SCHEMES[scheme], whole)
        yield Entry(subject, subject, tuple(paths.values()), reader, tuple(missing))
    for subject in sorted(features.keys() - raw.keys(), key=lambda name: (len(name), name)):
        paths = features[subject]
        wanted = (ending for ending in _FEATURE_FILES if ending != "_circadian_feature.out")
        missing = [f"{subject}{ending}" for ending in wanted if ending not in paths]
        reader = partial(_read_features, subject, paths, SCHEMES[scheme])
        yield Entry(subject, subject, tuple(paths.values()), reader, tuple(missing))


def _files_by_subject(files: list[Path], endings: tuple[str, ...]) -> dict[str, dict[str, Path]]:
    paths: dict[str, dict[str, Path]] = {}
    for path in files:
        match = re.fullmatch(r"([^_]+)(_.+)", path.name)
        if match and match[2] in endings:
            paths.setdefault(match[1], {}).setdefault(match[2], path)
    return paths


def _read_raw(subject: str, files: dict[str, Path], scheme: StageScheme, whole: bool) -> Recording:
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
    return _recording(subject, signals, scoring, next(iter(files.values())))


def _recording(
    subject: str, signals: dict[str, Signal | Series], scoring: Hypnogram | None, path: Path
) -> Recording:
    return Recording(
        subject,
        subject,
        signals,
        {} if scoring is None else {"expert": scoring},
        is_synthetic=is_synthetic(path),
        source="Sleep-Accel",
    )


def _scoring(path: Path, scheme: StageScheme) -> tuple[Hypnogram, float]:
    """Return the scoring, and the offset of its epochs from the night's start in seconds."""
    rows = _sort_rows(_numbers(path, 2))
    rows = rows[rows[:, 0] > -EPOCH_SECONDS / 2]
    if not len(rows):
        raise dataset_error(path, "has no epoch after the night's start.")
    offset = float(rows[0, 0] % EPOCH_SECONDS)
    offset = 0.0 if min(offset, EPOCH_SECONDS - offset) < 0.5 else offset
    places = (rows[:, 0] - offset) / EPOCH_SECONDS
    epochs = np.rint(places).astype(np.int64)
    if (np.abs(places - epochs) > 0.05).any() or len(np.unique(epochs)) < len(epochs):
        wrong = int(np.argmax((np.abs(places - epochs) > 0.05) | (np.diff(epochs, prepend=-1) < 1)))
        raise dataset_error(path, f"has a stage at {rows[wrong, 0]:g} s, expected one every 30 s.")
    return _hypnogram(path, epochs, rows[:, 1], scheme), offset


def _hypnogram(path: Path, epochs: Ints, codes: Floats, scheme: StageScheme) -> Hypnogram:
    """Return a label per epoch; epochs that the file leaves out are unscored."""
    labels = np.full(int(epochs[-1]) + 1, UNSCORED, dtype=np.int8)
    for epoch, code in zip(epochs, codes, strict=True):
        if code == UNSCORED:
            continue
        if code not in CODES:
            raise dataset_error(
                path, f"stage {code:g} at {epoch * EPOCH_SECONDS:g} s is not one of -1, 0, 1, 2, 3, 4, 5."
            )
        labels[epoch] = AASM5.index(CODES[int(code)])
    return Hypnogram(labels, AASM5, EPOCH_SECONDS, scorer="expert").merge(scheme)


def _read_features(subject: str, files: dict[str, Path], scheme: StageScheme) -> Recording:
    """Return a recording of features by epoch; epochs that the files leave out are NaN and unscored."""
    if _TIMES not in files:
        place = next(iter(files.values())).parent
        raise InputError(
            f"{place.name}: {subject}{_TIMES} is missing. Without it nobody knows where the night has gaps."
        )
    hours = _numbers(files[_TIMES], 1)[:, 0]
    places = hours * 3600 / EPOCH_SECONDS
    epochs = np.rint(places).astype(np.int64)
    # the tolerance allows for times in hours with six decimals
    if (np.abs(places - epochs) > 0.05).any() or epochs[0] != 0 or (np.diff(epochs) < 1).any():
        raise dataset_error(files[_TIMES], "does not count hours from 0 in steps of 30 s.")
    signals: dict[str, Signal | Series] = {}
    for ending, (role, unit) in _FEATURES.items():
        if ending in files:
            values = _same_length(files[ending], epochs)
            night = np.full(int(epochs[-1]) + 1, np.nan)
            night[epochs] = values
            signals[role] = Signal(files[ending].name, night, 1 / EPOCH_SECONDS, unit)
    scoring = None
    if _FEATURE_LABELS in files:
        path = files[_FEATURE_LABELS]
        scoring = _hypnogram(path, epochs, _same_length(path, epochs), scheme)
    return _recording(subject, signals, scoring, files[_TIMES])


def _same_length(path: Path, epochs: Ints) -> Floats:
    values = _numbers(path, 1)[:, 0]
    if len(values) != len(epochs):
        raise dataset_error(path, f"has {len(values)} rows, the times have {len(epochs)}.")
    return values


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
    if not first:
        raise dataset_error(path, "is empty. Was it fetched completely?")
    try:
        rows: Floats = np.loadtxt(
            local_file(path), delimiter="," if "," in first else None, ndmin=2, comments=None
        )
    except ValueError as error:
        raise dataset_error(path, f"is not a table of numbers ({' '.join(str(error).split())}).") from None
    if rows.shape[1] != n_columns:
        raise dataset_error(
            path, f"has {rows.shape[1]} columns, expected {n_columns}; it begins with {first[:40]!r}."
        )
    return rows
