"""Feature tables, one per recording: read from files, or computed from recordings by a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Ints
from stageguard.checks import MISSING_WORDS
from stageguard.datasets import Entry, entries
from stageguard.errors import FileFormatError, InputError, StageGuardError
from stageguard.files import faults_named, open_file, parse_json, read_cell
from stageguard.formats.tables.delimited import read_delimited
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.recording import Recording
from stageguard.night.stages import AASM5, StageScheme
from stageguard.nn.tables import check_together
from stageguard.signals.features import Features, Recipe, features

Choice = Callable[[Sequence[str]], Sequence[int]]

SUFFIXES = (".csv", ".tsv", ".npz")
# Output files of `predict` and `decode`, which must not be read as feature tables.
OUTPUT_SUFFIXES = (".hypnodensity.csv", ".hypnogram.tsv", ".changes.tsv")
OUTPUT_TABLES = ("cohort.tsv", "failures.tsv")
ABOUT_COLUMNS = ("subject", "epoch", "stage")
ABOUT_ARRAYS = (*ABOUT_COLUMNS, "labels", "epoch_seconds", "recipe")
NO_STAGE = MISSING_WORDS | {"?", "unscored", "-1", "movement", "artifact"}
LARGEST_INDEX = 2**53  # larger whole numbers are not exact as a float


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a file, unchecked."""

    names: Sequence[str]
    values: npt.NDArray[Any]
    about: Mapping[str, Any]  # subject, epoch, stage, ...
    lines: Sequence[int] = field(default=())  # line of each epoch in a text file

    def where(self, row: int) -> str:
        """Return the position of an epoch in the file, for an error message."""
        return f"line {self.lines[row]}" if self.lines else f"row {row}"


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


def read_features(path: Path, scheme: StageScheme | None = None, *, choose: Choice | None = None) -> Features:
    """Read one recording's features, all or those that `choose` selects, with its stages in a scheme.

    A CSV or TSV has a header and one row per epoch; the columns `subject`, `epoch` and `stage` are not
    features. An `.npz` has `features` (epochs, features) or (epochs, frames, features), `names`, and
    optionally `subject`, `epoch`, and `stage` (names) or `labels` (indices).
    """
    path = Path(path)
    try:
        read = _read_archive if path.suffix.lower() == ".npz" else _read_text
        return _table(path, read(path, choose), scheme)
    except InputError as error:
        raise FileFormatError(f"{path.name}: {str(error).removeprefix(f'{path.stem}: ')}") from None


def _read_text(path: Path, choose: Choice | None) -> _Content:
    table = read_delimited(path, kind="text", expected="a header with feature names, then one row per epoch")
    header, rows = table.header, table.rows
    if not rows:
        raise InputError("has no rows. Expected a header with feature names, then one row per epoch.")
    about_columns = _about_columns(header)
    columns = [i for i in range(len(header)) if i not in about_columns.values()]
    names = [header[i] for i in columns]
    if choose is not None:
        columns = [columns[i] for i in choose(names)]
    values = np.empty((len(rows), len(columns)))
    for k, row in enumerate(rows):
        for j, i in enumerate(columns):
            values[k, j] = _cell(row[i], k, header[i])
    about = {name: [read_cell(row[i]) for row in rows] for name, i in about_columns.items()}
    return _Content([header[i] for i in columns], values, about, table.lines)


def _about_columns(header: Sequence[str]) -> dict[str, int]:
    """Return the indices of the columns that are not features, ignoring case."""
    columns: dict[str, int] = {}
    for i, name in enumerate(header):
        key = name.casefold()
        if key not in ABOUT_COLUMNS:
            continue
        if key in columns:
            raise InputError(f"has two columns {header[columns[key]]!r} and {name!r}. Keep one of them.")
        columns[key] = i
    return columns


def _cell(text: str, epoch: int, name: str) -> float:
    try:
        return float("nan") if text.casefold() in MISSING_WORDS else float(text)
    except ValueError:
        raise InputError(f"feature {name!r} is {text[:40]!r} in epoch {epoch}, expected a number.") from None


def _read_archive(path: Path, choose: Choice | None) -> _Content:
    arrays = _unpack(path)
    values, listed = arrays["features"], arrays["names"]
    if listed.ndim != 1:
        raise InputError(f"array 'names' has shape {listed.shape}, expected a list of names.")
    names = _texts(listed)
    if choose is not None and values.ndim in (2, 3) and values.shape[-1] == len(names):
        kept = list(choose(names))
        names, values = [names[i] for i in kept], values[..., kept]
    n_epochs = len(values) if values.ndim else 0
    about: dict[str, Any] = {name: arrays[name] for name in ABOUT_ARRAYS if name in arrays}
    for name in ABOUT_COLUMNS:
        if name not in about or about[name].shape == (n_epochs,):
            continue
        if name != "subject" or about[name].size != 1 or about[name].ndim > 1:
            wanted = "one for each of its" if name != "subject" else "one name, or one for each of its"
            raise InputError(
                f"array {name!r} has shape {about[name].shape}, expected {wanted} {n_epochs} epochs."
            )
        about[name] = np.broadcast_to(about[name], (n_epochs,))
    return _Content(names, values, about)


def _unpack(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the known arrays of an archive; features and names are required."""
    try:
        with open_file(path, "an array") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError("is a single array, expected an .npz archive with 'features' and 'names'.")
            missing = [name for name in ("features", "names") if name not in archive]
            if missing:
                listed = ", ".join(archive.files) or "none"
                raise InputError(f"has no array {' or '.join(missing)}; it has {listed}.")
            return {name: archive[name] for name in ("features", "names", *ABOUT_ARRAYS) if name in archive}
    except (InputError, OSError):
        raise
    except Exception as error:  # NumPy raises almost any error for damaged files
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InputError(f"is damaged or cut short ({reason}). Save it again.") from None


def _texts(values: Any) -> list[str]:
    """Return entries as text; bytes are decoded as UTF-8."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [entry.decode("utf-8", "replace") if isinstance(entry, bytes) else str(entry) for entry in listed]


def _table(path: Path, content: _Content, scheme: StageScheme | None) -> Features:
    about = content.about
    subjects = {subject.strip() for subject in _texts(about.get("subject", ()))} - {""}
    if len(subjects) > 1:
        raise InputError(
            f"holds {len(subjects)} subjects ({', '.join(sorted(subjects)[:3])}). Write one file each."
        )
    labels = None if scheme is None else _labels(content, scheme)
    return Features(
        path.stem,
        next(iter(subjects), None),
        content.values,
        tuple(content.names),
        _epochs(content) if "epoch" in about else None,
        labels,
        None if labels is None else scheme,
        _seconds(about["epoch_seconds"]) if "epoch_seconds" in about else None,
        _recipe(about["recipe"]) if "recipe" in about else None,
    )


def _labels(content: _Content, scheme: StageScheme) -> Ints | None:
    """Return the stages, which a file has by name, by index, or both if they agree."""
    indices: Ints | None = content.about.get("labels")
    if "stage" not in content.about:
        return indices
    known: dict[str, int] = {}
    for row, stage in enumerate(_texts(content.about["stage"])):
        if stage not in known:
            try:
                known[stage] = stage_label(stage, scheme)
            except InputError as error:
                raise InputError(f"{content.where(row)}: {error}") from None
    labels = np.array([known[stage] for stage in _texts(content.about["stage"])], dtype=np.int64)
    if indices is not None and not np.array_equal(indices, labels):
        raise InputError("arrays 'stage' and 'labels' contradict each other. Keep one of them.")
    return labels


def _epochs(content: _Content) -> Ints:
    cells = np.asarray(content.about["epoch"])
    try:
        numbers = cells.astype(np.float64) if cells.dtype.kind in "iufUS" else np.full(len(cells), np.nan)
    except ValueError:
        numbers = np.array([_number_or_nan(text) for text in _texts(cells)])
    wrong = ~(np.abs(numbers) <= LARGEST_INDEX) | (numbers != np.rint(numbers))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{content.where(row)}: epoch is {_texts(cells)[row][:40]}, expected a whole number."
        )
    return numbers.astype(np.int64)


def _number_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _seconds(array: npt.NDArray[Any]) -> float:
    if array.size != 1 or array.dtype.kind not in "iuf":
        raise InputError(
            f"array 'epoch_seconds' has shape {array.shape} of {array.dtype}, expected one number of seconds."
        )
    return float(array.item())


def _recipe(array: npt.NDArray[Any]) -> Mapping[str, Any]:
    """Return the recipe that an archive contains as JSON."""
    try:
        document = parse_json(str(array))
    except (ValueError, RecursionError) as error:
        raise InputError(f"array 'recipe' is not JSON ({error}).") from None
    if not isinstance(document, Mapping) or not isinstance(document.get("name"), str):
        raise InputError(f"array 'recipe' holds {checks.shown(document)}, expected a recipe with its name.")
    return document


def feature_files(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """Return the files of a folder with these endings, sorted by name; output files are left out."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().endswith(tuple(suffixes))
        and not path.name.lower().endswith(OUTPUT_SUFFIXES)
        and path.name not in OUTPUT_TABLES
    )


def read_folder(folder: Path, scheme: StageScheme) -> list[Features]:
    """Read every feature table of a folder, in order of name; all must have the same features."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder. Expected one with a feature table per recording.")
    files = feature_files(folder)
    if not files:
        raise InputError(f"{folder} holds no feature table. Expected files named {', '.join(SUFFIXES)}.")
    tables = [read_features(path, scheme) for path in files]
    check_together(tables)
    return tables


def table_of(
    recording: Recording,
    recipe: Recipe,
    *,
    scheme: StageScheme | None = None,
    epoch_seconds: float | None = None,
) -> Features:
    """Return the features of a recording, with the experts' stages (or their consensus) in a scheme."""
    table = features(recording, recipe, epoch_seconds=epoch_seconds)
    if scheme is None or not recording.scorings:
        return table
    return replace(table, labels=_expert_labels(recording, scheme, table), scheme=scheme)


def _expert_labels(recording: Recording, scheme: StageScheme, table: Features) -> Ints:
    nights = list(recording.scorings.values())
    for night in nights:
        if abs(night.epoch_seconds - (table.epoch_seconds or 0.0)) > 1e-6:
            raise InputError(
                f"{recording.id}: is scored in epochs of {night.epoch_seconds:g} s and features have "
                f"{table.epoch_seconds:g} s. Set epoch_seconds to {night.epoch_seconds:g}."
            )
    try:
        scored = (nights[0] if len(nights) == 1 else consensus(nights)).merge(scheme)
    except InputError as error:
        raise InputError(f"{recording.id}: {error}") from None
    labels = np.full(table.n_epochs, UNSCORED, dtype=np.int64)
    n_both = min(table.n_epochs, scored.n_epochs)
    labels[:n_both] = scored.labels[:n_both]
    return labels


def dataset_tables(
    name: str,
    folder: Path,
    recipe: Recipe,
    scheme: StageScheme,
    *,
    epoch_seconds: float | None = None,
    options: Mapping[str, Any] | None = None,
    on_recording: Callable[[Entry, Exception | None], None] | None = None,
) -> list[Features]:
    """Return the tables of a dataset's scored recordings; `options` are those of the dataset's reader.

    `on_recording` is called for each recording with its entry and its error, or None. Without it, an error is
    raised.
    """
    tables, n_found = [], 0
    for entry in entries(name, folder, **(options or {})):
        n_found += 1
        failure: Exception | None = None
        try:
            with faults_named(entry.id):
                table = table_of(entry.read(), recipe, scheme=scheme, epoch_seconds=epoch_seconds)
            if table.labels is None:
                raise InputError(f"{entry.id}: has no scoring, so nothing can be learned from it.")
            tables.append(table)
        except (StageGuardError, OSError) as error:
            if isinstance(error, ImportError) or on_recording is None:
                raise
            failure = error
        if on_recording is not None:
            on_recording(entry, failure)
    if not n_found:
        raise FileFormatError(f"{folder}: holds no recording of {name}. See: stageguard data show {name}")
    return tables
