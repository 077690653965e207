"""The input of networks: feature tables of recordings, splits by subject, scaling, and windows of epochs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stageguard.arrays import CLIP, Floats, Floats32, Ints, Mask
from stageguard.checks import MISSING_WORDS
from stageguard.datasets import Entry, entries
from stageguard.documents import Positive
from stageguard.errors import FileFormatError, InputError, StageGuardError, did_you_mean, fault_text
from stageguard.files import faults_named, open_file, read_cell
from stageguard.formats.tables.delimited import read_delimited
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.recording import Recording
from stageguard.night.stages import AASM5, StageScheme
from stageguard.signals.features import Features, Recipe, features

SUFFIXES = (".csv", ".tsv", ".npz")
# Files that `stage` and `decode` write, which must not be read as feature tables.
OUTPUTS = (".hypnodensity.csv", ".hypnogram.tsv", ".changes.tsv", "cohort.tsv", "failures.tsv")
ABOUT = ("subject", "epoch", "stage", "epoch_seconds", "recipe")  # columns, or arrays, that are no features
NO_STAGE = MISSING_WORDS | {"?", "unscored", "-1", "movement", "artifact"}


def read_features(
    path: Path, scheme: StageScheme | None = None, *, only: Sequence[str] | None = None
) -> Features:
    """Read one recording's features, all or `only` those of the names, with its stages in a scheme.

    A CSV or TSV has a header and one row per epoch; the columns `subject`, `epoch` and `stage` are not
    features. An `.npz` has `features` (epochs, features) or (epochs, frames, features), `names`, and
    optionally `subject`, `epoch`, `stage`, `epoch_seconds` and `recipe` (as JSON).
    """
    path = Path(path)
    read = _read_archive if path.suffix.lower() == ".npz" else _read_text
    try:
        names, values, about = read(path, only)
        return _table(path.stem, names, values, about, scheme)
    except InputError as error:
        raise FileFormatError(f"{path.name}: {str(error).removeprefix(f'{path.stem}: ')}") from None


_Content = tuple[Sequence[str], npt.NDArray[Any], Mapping[str, npt.NDArray[Any]]]


def _read_text(path: Path, only: Sequence[str] | None) -> _Content:
    table = read_delimited(path, expected="a header with feature names, then one row per epoch")
    header = [name.casefold() if name.casefold() in ABOUT[:3] else name for name in table.header]
    cells = dict(zip(header, zip(*table.rows, strict=True), strict=True)) if table.rows else {}
    if not cells or len(cells) != len(header):
        problem = "names a column twice" if cells else "has no rows"
        raise InputError(f"{problem}, expected a header with feature names, then one row per epoch.")
    about = {name: np.array([read_cell(c) for c in cells.pop(name)]) for name in ABOUT[:3] if name in cells}
    names = tuple(cells) if only is None else tuple(only)
    check_names(names, tuple(cells))
    columns = [[_number(c, name, table.lines[k]) for k, c in enumerate(cells[name])] for name in names]
    return names, np.array(columns).T, about


def _number(cell: str, name: str, line: int) -> float:
    try:
        return float("nan") if cell.casefold() in MISSING_WORDS else float(cell)
    except ValueError:
        raise InputError(f"line {line}: feature {name!r} is {cell[:40]!r}, expected a number.") from None


def _read_archive(path: Path, only: Sequence[str] | None) -> _Content:
    try:
        with open_file(path) as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in ("features", "names", *ABOUT) if name in archive}
    except (StageGuardError, OSError):
        raise
    except Exception as error:  # NumPy raises almost any error for damaged files
        raise InputError(f"is no .npz archive, or is damaged ({fault_text(error)}).") from None
    if not {"features", "names"} <= arrays.keys() or arrays["names"].ndim != 1:
        listed = ", ".join(arrays) or "none of these"
        raise InputError(f"has {listed}, expected the arrays 'features' and 'names', one name per feature.")
    values, names = arrays.pop("features"), tuple(arrays.pop("names").astype(str).tolist())
    if only is not None and values.ndim > 1 and values.shape[-1] == len(names):
        check_names(only, names)
        names, values = tuple(only), values[..., [names.index(name) for name in only]]
    return names, values, arrays


def check_names(wanted: Sequence[str], given: Sequence[str]) -> None:
    """Refuse features that lack one of the wanted names."""
    for name in wanted:
        if name not in given:
            raise InputError(
                f"has no feature {name!r}, one of the {len(wanted)} that this network takes."
                f"{did_you_mean(name, given)}"
            )


def _table(
    name: str,
    names: Sequence[str],
    values: npt.NDArray[Any],
    about: Mapping[str, npt.NDArray[Any]],
    scheme: StageScheme | None,
) -> Features:
    subjects = {str(subject).strip() for subject in np.ravel(about.get("subject", ())).astype(str)} - {""}
    if len(subjects) > 1:
        raise InputError(f"holds {len(subjects)} subjects ({', '.join(sorted(subjects)[:3])}), expected one.")
    labels = epochs = seconds = recipe = None
    try:
        if scheme is not None and "stage" in about:
            stages = np.ravel(about["stage"]).astype(str)
            known = {stage: _stage_label(stage, scheme) for stage in np.unique(stages).tolist()}
            labels = np.array([known[stage] for stage in stages.tolist()], dtype=np.int64)
        if "epoch" in about:
            numbers = about["epoch"].astype(np.float64)
            if (numbers % 1 != 0).any():
                raise InputError("epoch has a value that is missing or is no whole number.")
            epochs = numbers.astype(np.int64)
        if "epoch_seconds" in about:
            seconds = float(about["epoch_seconds"])
        if "recipe" in about:
            recipe = json.loads(str(about["recipe"]))
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"epoch, epoch_seconds or recipe cannot be read ({error}).") from None
    scheme = None if labels is None else scheme
    return Features(
        name, next(iter(subjects), None), values, tuple(names), epochs, labels, scheme, seconds, recipe
    )


def _stage_label(text: str, scheme: StageScheme) -> int:
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


def feature_files(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """Return the files of a folder with these endings, sorted by name; output files are left out."""
    named = [(path, path.name.lower()) for path in sorted(folder.iterdir())]
    return [path for path, name in named if name.endswith(tuple(suffixes)) and not name.endswith(OUTPUTS)]


def read_folder(folder: Path, scheme: StageScheme) -> list[Features]:
    """Read every feature table of a folder, in order of name; all must have the same features."""
    files = feature_files(Path(folder)) if Path(folder).is_dir() else []
    if not files:
        raise InputError(f"{folder} holds no feature table, expected files named {', '.join(SUFFIXES)}.")
    tables = [read_features(path, scheme) for path in files]
    check_together(tables)
    return tables


def table_of(
    recording: Recording,
    recipe: Recipe,
    scheme: StageScheme | None = None,
    epoch_seconds: float | None = None,
) -> Features:
    """Return the features of a recording, with the experts' stages (or their consensus) in a scheme."""
    table = features(recording, recipe, epoch_seconds=epoch_seconds)
    if scheme is None or not recording.scorings:
        return table
    nights = list(recording.scorings.values())
    for night in nights:
        if abs(night.epoch_seconds - (table.epoch_seconds or 0.0)) > 1e-6:
            lengths = f"{night.epoch_seconds:g} s and features have {table.epoch_seconds:g} s"
            found = f"{recording.id}: is scored in epochs of {lengths}"
            raise InputError(f"{found}, expected the same epoch_seconds.")
    try:
        scored = (nights[0] if len(nights) == 1 else consensus(nights)).merge(scheme)
    except InputError as error:
        raise InputError(f"{recording.id}: {error}") from None
    labels = np.full(table.n_epochs, UNSCORED, dtype=np.int64)
    n_both = min(table.n_epochs, scored.n_epochs)
    labels[:n_both] = scored.labels[:n_both]
    return replace(table, labels=labels, scheme=scheme)


def dataset_tables(
    name: str,
    folder: Path,
    recipe: Recipe,
    scheme: StageScheme,
    *,
    epoch_seconds: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[Entry, Features | Exception]]:
    """Yield the table of each recording of a dataset, or the error for one that cannot be learned from.

    `options` are those of the dataset's reader.
    """
    entry: Entry | None = None
    for entry in entries(name, folder, **(options or {})):
        try:
            with faults_named(entry.id):
                table = table_of(entry.read(), recipe, scheme=scheme, epoch_seconds=epoch_seconds)
            if table.labels is None:
                raise InputError(f"{entry.id}: has no scoring, so nothing can be learned from it.")
        except (StageGuardError, OSError) as error:
            if isinstance(error, ImportError):
                raise
            yield entry, error
        else:
            yield entry, table
    if entry is None:
        raise FileFormatError(f"{folder}: holds no recording of {name}. See: stageguard doctor --data {name}")


# ---- recordings together


def check_together(tables: Sequence[Features]) -> None:
    """Refuse tables that cannot train one network: different features, epochs or stages, or no subject."""
    if not tables:
        raise InputError("there is no recording to train on, expected at least two, of different subjects.")
    first = tables[0]
    for table in tables:
        where = table.recording
        if table.subject is None:
            raise InputError(f"{where}: has no subject, expected a column 'subject'.")
        if table.labels is None or (table.labels < 0).all():
            raise InputError(f"{where}: has no scored epoch, expected a column 'stage' with stages.")
        for what, own, others in (
            ("stages", table.scheme, first.scheme),
            ("features", table.names, first.names),
            ("frames per epoch", table.values.shape[1], first.values.shape[1]),
            ("recipe", table.recipe, first.recipe),
        ):
            if own != others:
                raise InputError(f"{where}: its {what} differ from those of {first.recording}.")
    epoch_length(tables)


def epoch_length(tables: Sequence[Features], asked: float | None = None) -> float | None:
    """Return the epoch length in seconds of the options (`asked`), else of the tables; all must agree."""
    seconds = asked
    for table in tables:
        if None not in (table.epoch_seconds, seconds) and table.epoch_seconds != seconds:
            found = f"{table.recording}: has epochs of {table.epoch_seconds:g} s"
            raise InputError(f"{found}, expected {seconds:g} s as in the options or the other tables.")
        seconds = seconds or table.epoch_seconds
    return seconds


def take_subjects(
    tables: Sequence[Features], named: Sequence[str], what: str
) -> tuple[list[Features], list[Features]]:
    """Return the recordings of all other subjects, and those of the named subjects."""
    subjects = {str(table.subject) for table in tables}
    for name in named:
        if name not in subjects:
            hint = did_you_mean(name, subjects)
            raise InputError(f"{what} names {name!r}, of whom there is no recording.{hint}")
    others = [table for table in tables if table.subject not in named]
    if not others:
        raise InputError(f"{what} names every subject, expected others to train on.")
    return others, [table for table in tables if table.subject in named]


def split_subjects(
    tables: Sequence[Features], share: float, seed: int
) -> tuple[list[Features], list[Features]]:
    """Split recordings into training and validation; all recordings of a subject are on one side."""
    subjects = sorted({str(table.subject) for table in tables})
    if len(subjects) < 2:
        raise InputError(f"there is one subject ({', '.join(subjects)}), expected at least 2: one validates.")
    n_validating = min(max(1, round(share * len(subjects))), len(subjects) - 1)
    validating = np.random.default_rng(seed).permutation(subjects)[:n_validating].tolist()
    return take_subjects(tables, validating, "validation")


def fingerprint(tables: Iterable[Features]) -> str:
    """Return a SHA-256 of all training data, so that a run is resumed only with the same data."""
    digest = hashlib.sha256()
    for table in tables:
        scheme = None if table.scheme is None else table.scheme.names
        about = (table.recording, table.subject, table.names, scheme, table.epoch_seconds, table.recipe)
        digest.update(json.dumps(about, sort_keys=True, default=str).encode())
        for array in (table.values, table.epochs, table.labels):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def count_labels(tables: Iterable[Features], scheme: StageScheme) -> Ints:
    """Return the number of epochs with a signal per stage; a stage without any is an error."""
    counts = np.zeros(scheme.n_stages, dtype=np.int64)
    for table in tables:
        assert table.labels is not None
        counts += np.bincount(table.labels[table.has_signal & (table.labels >= 0)], minlength=scheme.n_stages)
    if (counts == 0).any():
        absent = scheme.names[int(np.argmin(counts))]
        raise InputError(f"stage {absent} does not occur in the training recordings: it cannot be learned.")
    return counts


# ---- one scale


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Normalised consecutive epochs of one recording."""

    values: Floats32  # (n_epochs, n_frames, n_features)
    labels: Ints  # (n_epochs,)


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Clipped z-scores of each night; absolute features keep their level across nights.

    Absolute features, such as the clock, mean the same every night. They are scaled by the training nights.
    """

    absolute: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()  # of the absolute features
    spread: tuple[Positive, ...] = ()
    clip: Positive = 5.0  # largest scaled value, positive or negative
    # unit over which features are standardised; "none" leaves them as their recipe made them
    kind: Literal["night", "none"] = "night"

    def __post_init__(self) -> None:
        """Check that there is a mean and a spread for each absolute feature."""
        if not len(self.absolute) == len(self.mean) == len(self.spread):
            raise InputError("absolute, mean and spread differ in length, expected one of each per feature.")

    @classmethod
    def fit(cls, tables: Iterable[Features], absolute: Sequence[str] = ()) -> Normalisation:
        """Measure mean and spread of the absolute features on training recordings."""
        tables, absolute = list(tables), tuple(absolute)
        for name in absolute:
            if name not in tables[0].names:
                hint = did_you_mean(name, tables[0].names)
                raise InputError(f"absolute feature {name!r} is not among the features.{hint}")
        columns = [tables[0].names.index(name) for name in absolute]
        mean, spread = _moments(np.concatenate([t.values[t.has_signal][..., columns] for t in tables]))
        return cls(absolute, tuple(mean.tolist()), tuple(spread.tolist()))

    def __call__(self, table: Features) -> Floats32:
        """Return the table's features on the common scale; epochs without signal stay NaN."""
        if self.kind == "none":
            return np.asarray(table.values, dtype=np.float32)
        mean, spread = _moments(table.values[table.has_signal])
        columns = [table.names.index(name) for name in self.absolute]
        mean[columns], spread[columns] = self.mean, self.spread
        scaled = (table.values - mean) / spread
        return np.asarray(np.clip(scaled, -self.clip, self.clip), dtype=np.float32)

    def stretches(self, tables: Iterable[Features]) -> list[Stretch]:
        """Return the unbroken stretches of recordings, on the common scale."""
        made: list[Stretch] = []
        for table in tables:
            scaled = self(table)
            labels = np.full(table.n_epochs, UNSCORED) if table.labels is None else table.labels
            made += [Stretch(scaled[a:b], labels[a:b]) for a, b in table.stretches()]
        return made


def _moments(values: Floats32) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each feature; a constant feature gets spread 1."""
    flat = values.astype(np.float64).reshape(values.shape[0] * values.shape[1], values.shape[2])
    mean, spread = flat.mean(axis=0), flat.std(axis=0)
    return mean, np.where(spread > 1e-9 * np.maximum(1.0, np.abs(mean)), spread, 1.0)


# ---- windows: sequences to train on, and a night staged piece by piece


def cut_windows(n_epochs: int, length: int, offset: int = 0) -> list[int]:
    """Return the first epochs of windows that cover a stretch; only a short stretch is not filled."""
    if n_epochs <= length:
        return [0]
    starts = np.clip(np.arange(offset - length, n_epochs, length), 0, n_epochs - length)
    return [int(start) for start in np.unique(starts)]


def round_of_batches(
    stretches: Sequence[Stretch], length: int, batch_size: int, seed: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """Return one pass over all stretches, cut at random offsets and shuffled: batches of (stretch, start)."""
    rng = np.random.default_rng(list(seed))
    windows = [
        (index, start)
        for index, stretch in enumerate(stretches)
        for start in cut_windows(len(stretch.labels), length, int(rng.integers(length)))
    ]
    windows = [w for w in windows if (stretches[w[0]].labels[w[1] : w[1] + length] >= 0).any()]
    # batches of nearly equal size: a last batch of a single sequence would upset batch normalisation
    parts = np.array_split(rng.permutation(len(windows)), -(-len(windows) // batch_size))
    return [[windows[i] for i in part] for part in parts]


def make_batch(
    stretches: Sequence[Stretch], windows: Sequence[tuple[int, int]], length: int
) -> tuple[Floats32, Ints, Mask]:
    """Return features and labels of windows, padded at the end, and which epochs are scored."""
    shape = (len(windows), length, *stretches[0].values.shape[1:])
    values = np.zeros(shape, dtype=np.float32)
    labels = np.full(shape[:2], UNSCORED, dtype=np.int64)
    for row, (index, start) in enumerate(windows):
        stretch = stretches[index]
        n_here = min(length, len(stretch.labels) - start)
        values[row, :n_here] = stretch.values[start : start + n_here]
        labels[row, :n_here] = stretch.labels[start : start + n_here]
    return values, labels, labels >= 0


WINDOWS_AT_A_TIME = 64


def window_starts(n_epochs: int, length: int) -> list[int]:
    """Return the first epochs of windows that overlap by half; the last window ends with the recording."""
    if n_epochs <= length:
        return [0]
    return [*range(0, n_epochs - length, max(1, length // 2)), n_epochs - length]


def stage_windows(
    night: npt.NDArray[Any], length: int | None, run: Callable[[npt.NDArray[Any]], Floats]
) -> Floats:
    """Return stage probabilities (n_epochs, n_stages) of one unbroken stretch (n_epochs, ...).

    `run` maps windows (n, epochs, ...) to probabilities (n, epochs, n_stages). Windows of `length` epochs
    overlap by half and are averaged, since attention trained on 100 epochs fails on a whole night; a shorter
    stretch is padded with zeros. With None the whole stretch is one window.
    """
    if length is None:
        whole: Floats = run(night[None])[0]
        return whole
    n_epochs, starts = len(night), window_starts(len(night), length)
    if n_epochs < length:
        night = np.concatenate([night, np.zeros((length - n_epochs, *night.shape[1:]), dtype=night.dtype)])
    total: Floats | None = None
    for k in range(0, len(starts), WINDOWS_AT_A_TIME):
        some = starts[k : k + WINDOWS_AT_A_TIME]
        windows = run(np.stack([night[start : start + length] for start in some]))
        if total is None:
            total = np.zeros((len(night), windows.shape[-1]))
        for start, window in zip(some, windows, strict=True):
            total[start : start + length] += window
    assert total is not None
    total = total[:n_epochs]
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def soften(probabilities: Floats, temperature: float) -> Floats:
    """Return probabilities to the power 1/temperature, with rows that sum to 1 again."""
    logs = np.log(np.maximum(probabilities, CLIP)) / temperature
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
