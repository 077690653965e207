"""Feature tables, one per recording, with stages and subject. Computes no features, cuts no sequences."""

from __future__ import annotations

import csv
import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard import _checks
from stageguard.errors import FileFormatError, InputError
from stageguard.formats.tables import DELIMITERS, read_text, split_line
from stageguard.hypnogram import UNSCORED
from stageguard.stages import AASM5, StageScheme

Features = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

SUFFIXES = (".csv", ".tsv", ".npz")
OWN_COLUMNS = ("subject", "epoch", "stage")
NO_STAGE = frozenset({"", "?", "nan", "na", "n/a", "unscored", "-1", "movement", "artifact"})
NO_NUMBER = frozenset({"", "nan", "na", "n/a"})


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Features of one recording, epoch by epoch, and its expert stages where known.

    Parameters
    ----------
    recording : str
        Name of the recording.
    subject : str or None
        Whose it is; training refuses tables without, since it must keep the nights of one person together.
    features : array (n_epochs, n_frames, n_features)
        An epoch without any signal is NaN throughout; a number missing here and there is an error.
    names : sequence of str
        Name of each feature.
    epochs : array (n_epochs,), optional
        Index of each epoch in the recording, increasing; where it jumps there is a gap.
    labels : array (n_epochs,), optional
        Index of the stage in the scheme, -1 where unscored.
    scheme : StageScheme, optional
        What the labels mean.
    epoch_seconds : float, optional
        Length of an epoch, if known.
    recipe : mapping, optional
        How the features were computed, as a recipe file says it, if known.
    start : datetime, optional
        When epoch 0 began.
    """

    recording: str
    subject: str | None
    features: Features = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    epochs: Labels | None = field(repr=False, default=None)
    labels: Labels | None = field(repr=False, default=None)
    scheme: StageScheme | None = None
    epoch_seconds: float | None = None
    recipe: Mapping[str, Any] | None = field(repr=False, default=None)
    start: datetime | None = None

    def __post_init__(self) -> None:
        """Check shapes and numbers."""
        features = np.asarray(self.features, dtype=np.float32)
        features = features[:, None, :] if features.ndim == 2 else features
        where, names = self.recording, tuple(self.names)
        if features.ndim != 3 or 0 in features.shape:
            raise InputError(
                f"{where}: features have shape {features.shape}, expected (epochs, features) or "
                "(epochs, frames, features) with at least one of each."
            )
        n_epochs, n_features = features.shape[0], features.shape[2]
        if len(names) != n_features or len(set(names)) != len(names):
            raise InputError(
                f"{where}: {len(set(names))} different feature names for {n_features} features. "
                "Give each its own."
            )
        _check_numbers(where, features, names)
        epochs = np.arange(n_epochs) if self.epochs is None else np.asarray(self.epochs)
        if epochs.shape != (n_epochs,) or epochs.dtype.kind not in "iu" or (np.diff(epochs) < 1).any():
            raise InputError(
                f"{where}: epoch indices are not {n_epochs} increasing whole numbers. Sort them."
            )
        if self.labels is not None:
            if self.scheme is None:
                raise InputError(f"{where}: has labels but no scheme to say what they mean. Give scheme.")
            object.__setattr__(self, "labels", _checked_labels(where, self.labels, n_epochs, self.scheme))
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "epochs", epochs.astype(np.int64))

    @property
    def n_epochs(self) -> int:
        """Number of epochs in the table."""
        return len(self.features)

    @property
    def has_signal(self) -> npt.NDArray[np.bool_]:
        """Whether each epoch has features at all."""
        return ~np.isnan(self.features[:, 0, 0])

    def stretches(self) -> list[tuple[int, int]]:
        """Return rows ``(first, end)`` of each stretch of epochs that follow each other and have a signal."""
        assert self.epochs is not None
        rows = np.flatnonzero(self.has_signal)
        if not len(rows):
            return []
        breaks = np.flatnonzero(np.diff(self.epochs[rows]) != 1) + 1
        return [(int(piece[0]), int(piece[-1]) + 1) for piece in np.split(rows, breaks)]


def _check_numbers(where: str, features: Features, names: Sequence[str]) -> None:
    bad = ~np.isfinite(features)
    empty = np.isnan(features).all(axis=(1, 2))
    bad[empty] = False
    if bad.any():
        row, frame, column = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{where}: feature {names[column]!r} is {features[row, frame, column]} in epoch {row}, "
            "expected a number. Fill it, or leave all features of an epoch without signal empty."
        )
    if empty.all():
        raise InputError(f"{where}: no epoch has a feature. Expected at least one epoch with a signal.")


def _checked_labels(where: str, labels: npt.ArrayLike, n_epochs: int, scheme: StageScheme) -> Labels:
    values = np.asarray(labels)
    if values.shape != (n_epochs,) or values.dtype.kind not in "iu":
        raise InputError(
            f"{where}: labels have shape {values.shape} of {values.dtype}, expected {n_epochs} whole numbers."
        )
    wrong = (values < UNSCORED) | (values >= scheme.n_stages)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{where}: label {values[row]} in epoch {row} is out of range, expected 0 to "
            f"{scheme.n_stages - 1} ({', '.join(scheme.names)}) or -1 where unscored."
        )
    return values.astype(np.int64)


def stage_label(text: str, scheme: StageScheme) -> int:
    """Return the label of a stage by name or alias; a finer AASM stage is merged into the scheme."""
    if text.strip().casefold() in NO_STAGE:
        return UNSCORED
    try:
        return scheme.index(text)
    except InputError as unknown:
        try:
            return int(AASM5.merge_map(scheme)[AASM5.index(text)])
        except InputError:
            raise unknown from None


def read_features(path: Path, scheme: StageScheme | None = None) -> FeatureTable:
    """Read one recording's features.

    A CSV or TSV has one row per epoch and a header; the columns `subject`, `epoch` and `stage` are not
    features. An `.npz` holds `features` (epochs, features) or (epochs, frames, features), `names`, and
    if wanted `subject`, `epoch`, and `stage` (names) or `labels` (indices).

    Parameters
    ----------
    path : Path
        The file; its name without suffix is the recording.
    scheme : StageScheme, optional
        Read the stages in this scheme. Without, stages are not read.
    """
    path = Path(path)
    try:
        read = _read_npz if path.suffix.lower() == ".npz" else _read_table
        return read(path, scheme)
    except InputError as error:
        raise FileFormatError(f"{path.name}: {str(error).removeprefix(f'{path.stem}: ')}") from None


def _read_table(path: Path, scheme: StageScheme | None) -> FeatureTable:
    lines = [line for line in read_text(path).split("\n") if line.strip()]
    delimiter = max(DELIMITERS, key=lines[0].count) if lines else ","
    header = [cell.strip() for cell in split_line(lines[0], delimiter)] if lines else []
    rows = list(csv.reader(lines[1:], delimiter=delimiter))
    if not rows:
        raise InputError("has no rows. Expected a header with feature names, then one row per epoch.")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"line {number} has {len(row)} cells, the header has {len(header)}.")
    own = {name: [row[header.index(name)] for row in rows] for name in OWN_COLUMNS if name in header}
    columns = [i for i, name in enumerate(header) if name not in own]
    values = np.empty((len(rows), len(columns)), dtype=np.float32)
    for k, row in enumerate(rows):
        for j, i in enumerate(columns):
            values[k, j] = _cell(row[i], k, header[i])
    return _table(path, scheme, values, [header[i] for i in columns], own)


def _cell(text: str, epoch: int, name: str) -> float:
    try:
        return float("nan") if text.strip().casefold() in NO_NUMBER else float(text)
    except ValueError:
        raise InputError(f"feature {name!r} is {text[:40]!r} in epoch {epoch}, expected a number.") from None


def _read_npz(path: Path, scheme: StageScheme | None) -> FeatureTable:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            held = {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"is not a readable .npz archive ({str(error)[:80]}).") from None
    missing = [name for name in ("features", "names") if name not in held]
    if missing:
        raise InputError(f"has no array {' or '.join(missing)}; it has {', '.join(held) or 'none'}.")
    n_epochs = len(held["features"]) if held["features"].ndim else 0
    own: dict[str, Any] = {
        name: held[name] for name in (*OWN_COLUMNS, "labels", "epoch_seconds", "recipe") if name in held
    }
    if "subject" in own:
        own["subject"] = np.broadcast_to(own["subject"], (n_epochs,)).tolist()
    return _table(path, scheme, held["features"], [str(name) for name in held["names"]], own)


def _table(
    path: Path, scheme: StageScheme | None, values: npt.ArrayLike, names: Sequence[str], own: dict[str, Any]
) -> FeatureTable:
    subjects = {str(subject).strip() for subject in own.get("subject", ())} - {""}
    if len(subjects) > 1:
        raise InputError(
            f"holds {len(subjects)} subjects ({', '.join(sorted(subjects)[:3])}). Write one file each."
        )
    labels: Labels | None = None
    if scheme is not None and "stage" in own:
        labels = np.array([stage_label(str(stage), scheme) for stage in own["stage"]], dtype=np.int64)
    elif scheme is not None and "labels" in own:
        labels = own["labels"]
    try:
        epochs = (
            None if "epoch" not in own else np.array([int(float(e)) for e in own["epoch"]], dtype=np.int64)
        )
    except ValueError as error:
        raise InputError(f"column 'epoch' is not whole numbers ({error}).") from None
    return FeatureTable(
        path.stem,
        next(iter(subjects), None),
        np.asarray(values, dtype=np.float32),
        tuple(names),
        epochs,
        labels,
        None if labels is None else scheme,
        None if "epoch_seconds" not in own else float(own["epoch_seconds"]),
        None if "recipe" not in own else _recipe(own["recipe"]),
    )


def _recipe(held: npt.NDArray[Any]) -> Mapping[str, Any]:
    """Return the recipe an archive holds as JSON."""
    try:
        document = json.loads(str(held))
    except ValueError as error:
        raise InputError(f"array 'recipe' is not JSON ({error}).") from None
    if not isinstance(document, Mapping):
        raise InputError(f"array 'recipe' holds {_checks.shown(document)}, expected a table of keys.")
    return document


def read_folder(folder: Path, scheme: StageScheme) -> list[FeatureTable]:
    """Read every feature table of a folder, in order of name; all must have the same features."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Expected one with a feature table per recording.")
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"{folder} holds no feature table. Expected files named {', '.join(SUFFIXES)}.")
    tables = [read_features(path, scheme) for path in files]
    check_together(tables)
    return tables


def check_together(tables: Sequence[FeatureTable]) -> None:
    """Refuse tables that cannot train one network: other features, frames, or stages, or no subject."""
    if not tables:
        raise InputError("there is no recording to train on. Give at least two, of different subjects.")
    first = tables[0]
    for table in tables:
        if table.subject is None:
            raise InputError(
                f"{table.recording}: does not say whose it is. Add a column 'subject', so that the nights of "
                "one person are never on both sides of a split."
            )
        if table.labels is None or (table.labels < 0).all():
            raise InputError(
                f"{table.recording}: has no scored epoch. Add a column 'stage', or leave it out."
            )
        if table.scheme != first.scheme:
            raise InputError(f"{table.recording}: its stages are not those of {first.recording}.")
        if table.names != first.names or table.features.shape[1] != first.features.shape[1]:
            odd = sorted(set(table.names) ^ set(first.names))
            detail = f"{odd[0]!r} is in one of them only" if odd else "they are in another order or framing"
            raise InputError(
                f"{table.recording}: its features are not those of {first.recording}: {detail}. "
                "Compute them all by one recipe."
            )
        if table.recipe != first.recipe:
            raise InputError(
                f"{table.recording}: its features were computed by another recipe than those of "
                f"{first.recording}. Compute them all by one recipe."
            )


def absolute_features(table: FeatureTable) -> tuple[str, ...]:
    """Return the features whose level means the same in every recording, by the table's recipe."""
    patterns = () if table.recipe is None else table.recipe.get("absolute", ())
    return tuple(name for name in table.names if any(fnmatchcase(name, one) for one in patterns))


def split_subjects(
    tables: Sequence[FeatureTable], share: float, seed: int
) -> tuple[list[FeatureTable], list[FeatureTable]]:
    """Split recordings into training and validation, each subject wholly on one side."""
    subjects = sorted({str(table.subject) for table in tables})
    if len(subjects) < 2:
        raise InputError(
            f"there is one subject ({', '.join(subjects)}), expected at least 2: one validates what the "
            "others train. Add recordings of other people."
        )
    n_held = min(max(1, round(share * len(subjects))), len(subjects) - 1)
    held = set(np.random.default_rng(seed).permutation(subjects)[:n_held].tolist())
    return (
        [table for table in tables if table.subject not in held],
        [table for table in tables if table.subject in held],
    )


def fingerprint(tables: Iterable[FeatureTable]) -> str:
    """Return a SHA-256 of all that training sees, so that it resumes on the same data only."""
    digest = hashlib.sha256()
    for table in tables:
        digest.update(f"{table.recording}\0{table.subject}\0{table.names}\0".encode())
        for array in (table.features, table.epochs, table.labels):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def count_labels(tables: Iterable[FeatureTable], scheme: StageScheme) -> Labels:
    """Return how many epochs with a signal each stage has; a stage without any is an error."""
    counts = np.zeros(scheme.n_stages, dtype=np.int64)
    n_tables = 0
    for table in tables:
        assert table.labels is not None
        seen = table.labels[table.has_signal & (table.labels >= 0)]
        counts += np.bincount(seen, minlength=scheme.n_stages)
        n_tables += 1
    if (counts == 0).any():
        absent = scheme.names[int(np.argmin(counts))]
        raise InputError(
            f"stage {absent} does not occur in the {n_tables} training recordings, so it cannot be learned. "
            "Add recordings that have it, or choose a profile without it."
        )
    return counts


def check_number(value: object, where: str, *, low: int) -> int:
    """Return a whole number of at least `low`."""
    number = _checks.number(value, where, low=low, error=InputError)
    if number != int(number):
        raise InputError(f"{where} is {_checks.shown(value)}, expected a whole number.")
    return int(number)
