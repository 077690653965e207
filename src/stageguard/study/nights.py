"""The nights of a study: read from a simulated, public or own cohort, stored in one file, and split.

A fold says whom it trains and tests, and nothing may leak from one side to the other.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Ints
from stageguard.datasets import entries
from stageguard.datasets.slpdb import subject_of
from stageguard.errors import InputError, MissingFileError, StageGuardError
from stageguard.files import faults_named, open_file
from stageguard.lazy import library
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording, Series
from stageguard.night.stages import AASM5, SCHEMES, StageScheme
from stageguard.nn.data import check_together, fingerprint, read_folder, table_of
from stageguard.signals.features import Features, Recipe
from stageguard.signals.modalities import modality_of
from stageguard.signals.quality import signal_quality
from stageguard.study.config import CohortSource, Split
from stageguard.synthetic.cohort import simulate_recording


@dataclass(frozen=True, slots=True, eq=False)
class StudyNight:
    """One recording: features, the expert's stages, signal quality and covariates."""

    table: Features
    quality: Floats | None = field(default=None, repr=False)  # beta by the paper's thresholds, per row
    covariates: Mapping[str, float | str] = field(default_factory=dict)  # of the subject
    scorings: Mapping[str, Ints] = field(default_factory=dict, repr=False)  # by scorer, if several; per row

    @property
    def recording(self) -> str:
        """Name of the recording."""
        return self.table.recording

    @property
    def subject(self) -> str:
        """Subject of the recording."""
        return str(self.table.subject)

    def expert(self) -> Hypnogram:
        """Return the expert's stages from the first row to the last; gaps are unscored."""
        assert self.table.labels is not None
        return self._hypnogram(self.table.labels)

    def panel(self) -> list[Hypnogram]:
        """Return every scorer's stages, if the night has several scorers."""
        return [replace(self._hypnogram(rows), scorer=name) for name, rows in self.scorings.items()]

    def beta(self) -> Floats | None:
        """Return how much of each epoch from the first to the last is lost; 0 in gaps."""
        return None if self.quality is None else self._over_epochs(self.quality, 0.0)

    def _hypnogram(self, rows: Ints) -> Hypnogram:
        table = self.table
        assert table.scheme is not None and table.epochs is not None and table.epoch_seconds is not None
        labels = self._over_epochs(rows.astype(np.int8), -1)
        offset = table.epoch_seconds * int(table.epochs[0])
        return Hypnogram(labels, table.scheme, table.epoch_seconds, offset_seconds=offset)

    def _over_epochs(self, rows: Any, missing: float) -> Any:
        """Return a value per epoch from the first row's to the last row's."""
        assert self.table.epochs is not None
        index = self.table.epochs - self.table.epochs[0]
        values = np.full(int(index[-1]) + 1, missing, dtype=rows.dtype)
        values[index] = rows
        return values


@dataclass(frozen=True, slots=True, eq=False)
class StudyCohort:
    """All nights of a study."""

    nights: tuple[StudyNight, ...]
    is_synthetic: bool = False

    @property
    def epoch_seconds(self) -> float:
        """Epoch length of all nights."""
        return float(self.nights[0].table.epoch_seconds or 0.0)

    @property
    def fingerprint(self) -> str:
        """Hash of all feature tables."""
        return fingerprint(night.table for night in self.nights)

    @property
    def subjects(self) -> list[str]:
        """All subjects, sorted by name."""
        return sorted({night.subject for night in self.nights})


def night_of(
    recording: Recording, recipe: Recipe, scheme: StageScheme, epoch_seconds: float | None = None
) -> StudyNight:
    """Return a recording's night: features by a recipe, quality by the paper's thresholds."""
    table = table_of(recording, recipe, scheme=scheme, epoch_seconds=epoch_seconds)
    assert table.epochs is not None
    judged = signal_quality(recording, recipe.modality, epoch_seconds=table.epoch_seconds, rules="kdd2026")
    beta = np.zeros(table.n_epochs)
    n_both = min(table.n_epochs, judged.n_epochs)
    beta[:n_both] = judged.beta[:n_both]
    scorings = {}
    for name, scored in recording.scorings.items() if len(recording.scorings) > 1 else ():
        labels = np.append(scored.merge(scheme).labels, np.int8(-1))
        scorings[name] = labels[np.minimum(table.epochs, len(labels) - 1)].astype(np.int64)
    return StudyNight(table, beta, dict(recording.covariates), scorings)


def cohort_bytes(cohort: StudyCohort) -> bytes:
    """Return all nights as the content of one file, from which `cohort_of` restores them."""
    first = cohort.nights[0].table
    assert first.scheme is not None
    arrays: dict[str, Any] = {}
    nights = []
    for number, night in enumerate(cohort.nights):
        facts = {"recording": night.recording, "subject": night.subject, "scorers": list(night.scorings)}
        nights.append(facts | {"covariates": dict(night.covariates)})
        stored: dict[str, Any] = {
            "features": night.table.values,
            "epochs": night.table.epochs,
            "labels": night.table.labels,
        }
        stored |= {"quality": night.quality, "scorings": list(night.scorings.values())}
        arrays |= {f"{name}_{number}": values for name, values in stored.items() if values is not None}
    about = {"synthetic": cohort.is_synthetic, "scheme": first.scheme.name, "names": first.names}
    about |= {"epoch_seconds": first.epoch_seconds, "recipe": first.recipe, "nights": nights}
    buffer = io.BytesIO()
    plain = json.dumps(about, default=lambda v: v.item() if isinstance(v, np.generic) else dict(v))
    np.savez(buffer, about=np.array(plain), **arrays)
    return buffer.getvalue()


def cohort_of(content: bytes, name: str) -> StudyCohort:
    """Return the cohort that `cohort_bytes` wrote; an error calls the file by its name."""
    nights = []
    with faults_named(name), np.load(io.BytesIO(content)) as archive:
        about = json.loads(str(archive["about"]))
        for number, facts in enumerate(about["nights"]):
            values, epochs, labels = (archive[f"{n}_{number}"] for n in ("features", "epochs", "labels"))
            who, scheme = (facts["recording"], facts["subject"]), SCHEMES[about["scheme"]]
            names, seconds = tuple(about["names"]), about["epoch_seconds"]
            table = Features(*who, values, names, epochs, labels, scheme, seconds, about["recipe"])
            key = f"quality_{number}"
            quality = archive[key] if key in archive.files else None
            scorings = dict(zip(facts["scorers"], archive[f"scorings_{number}"], strict=True))
            nights.append(StudyNight(table, quality, facts["covariates"], scorings))
    return StudyCohort(tuple(nights), about["synthetic"])


class LeakError(StageGuardError, ValueError):
    """Data of a test subject was used in training."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Subjects of one fold; nobody is in both groups."""

    number: int
    training: tuple[str, ...]
    test: tuple[str, ...]

    def sides(self, nights: Sequence[StudyNight]) -> tuple[list[StudyNight], list[StudyNight]]:
        """Return the training and the test nights."""
        training, test = ([n for n in nights if n.subject in side] for side in (self.training, self.test))
        return training, test


def make_folds(subjects: Sequence[str], split: Split, seed: int) -> tuple[Fold, ...]:
    """Return the folds: each subject is tested once, except the tuning subject."""
    names = sorted(set(subjects))
    tuning = split.tuning_subject
    if tuning is not None:
        if tuning not in names:
            raise InputError(f"tuning_subject is {tuning!r}, expected one of {', '.join(names[:5])}, ...")
        names.remove(tuning)
    if split.kind == "k-fold":
        n_folds = split.folds or 0
        if n_folds > len(names):
            raise InputError(f"split has {n_folds} folds for {len(names)} subjects. Use fewer folds.")
        order = np.random.default_rng(seed).permutation(names).tolist()
        tested = [tuple(sorted(part.tolist())) for part in np.array_split(order, n_folds)]
    else:
        tested = [(name,) for name in names[: split.folds]]
    if len(names) < 2 + len(tested[0]):
        n_left = len(names) - len(tested[0])
        raise InputError(f"a fold leaves {n_left} subjects to train on, expected 2 or more.")
    return tuple(Fold(k, tuple(n for n in names if n not in part), part) for k, part in enumerate(tested))


def check_leaks(
    fold: Fold,
    training: Sequence[StudyNight],
    test: Sequence[StudyNight],
    learned: Mapping[str, Iterable[str]],
) -> None:
    """Raise an error if a subject, a recording or something learned is on both sides of the split.

    `learned` has the subjects from whom each thing was learned, by its name. A recording is also recognised
    under another name, by its features.
    """
    for what in ("subject", "recording"):
        of_training, of_test = ({getattr(night, what) for night in nights} for nights in (training, test))
        if crossing := sorted(of_training & of_test):
            raise LeakError(f"fold {fold.number}: {what} {crossing[0]!r} is trained on and tested.")
    by_content = {night.table.values.tobytes(): night.recording for night in training}
    for night in test:
        if (same := by_content.get(night.table.values.tobytes())) is not None:
            both = f"test recording {night.recording!r} is training recording {same!r}"
            raise LeakError(f"fold {fold.number}: {both} under another name.")
    for what, subjects in learned.items():
        if crossing := sorted(set(subjects) - set(fold.training)):
            who = f"{crossing[0]!r}, who is not a training subject"
            raise LeakError(f"fold {fold.number}: {what} was learned on {who}.")


EPOCH_SECONDS = 30.0
ACCEL_NAMES = ("hours", "activity_count", "heart_rate_variability", "clock_cosine", "circadian")
EDF_ABOUT = ("subject_id", "night_id", "age", "sex", "epoch_idx", "t0_sec", "stage")
EDF_STAGES = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "REM": 4}
# stages of Rechtschaffen and Kales by code, as AASM stages; 6 is movement, and -1 unscored
RK_STAGES = np.array([0, 1, 2, 3, 3, 4, -1, -1], dtype=np.int8)
# networks whose stages come with DOD-H
DOD_NETWORKS = ("SimpleNet", "DeepSleepNet", "SeqSleepNet", "Chambon", "MixedNeuralNetwork", "Tsinalis")


def read_cohort(source: CohortSource) -> StudyCohort:
    """Return the nights of a configuration."""
    scheme = SCHEMES[source.scheme]
    is_synthetic = source.source == "simulated"
    if source.source in PUBLIC:
        file, read = PUBLIC[source.source]
        nights = list(read(_public_file(source, file), scheme))
    elif source.source == "features":
        nights = [StudyNight(table) for table in read_folder(Path(str(source.folder)), scheme)]
    elif is_synthetic:
        nights = list(_simulate_nights(source, scheme))
    else:
        recipe = Recipe.load(str(source.recipe))
        found = entries(str(source.dataset), str(source.folder), **source.dataset_options)
        recordings = [one for entry in found if (one := entry.read()).scorings]
        nights = [night_of(one, recipe, scheme) for one in recordings]
        is_synthetic = any(one.is_synthetic for one in recordings)
    kept = sorted({night.subject for night in nights})[: source.subjects]
    nights = [night for night in nights if night.subject in kept]
    check_together([night.table for night in nights])
    return StudyCohort(tuple(nights), is_synthetic)


def _simulate_nights(source: CohortSource, scheme: StageScheme) -> Iterator[StudyNight]:
    modality = modality_of(source.modality)
    recipe = Recipe.load(source.recipe or modality.recipe)
    for number in range(1, (source.subjects or 0) + 1):
        made = simulate_recording(modality.name, number, seed=source.seed, hours=source.hours)
        yield night_of(made.recording, recipe, scheme, modality.epoch_seconds)


def _public_file(source: CohortSource, file: str) -> Path:
    """Return the file of a public cohort, in the configuration's folder or in STAGEGUARD_DATA."""
    path = Path(source.folder or os.environ.get("STAGEGUARD_DATA", "."), file)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file. Set STAGEGUARD_DATA to the folder with {file}.")
    return path


def _sleep_accel(path: Path, scheme: StageScheme) -> Iterator[StudyNight]:
    """Yield 31 subjects, one night each, with five features per epoch from a watch."""
    recipe = {"name": "sleep-accel", "absolute": ["hours", "clock_cosine", "circadian"]}
    with open_file(path) as file, np.load(file) as archive:
        for subject in archive.files:
            rows = archive[subject]
            epochs = np.rint(rows[:, 0] * 3600 / EPOCH_SECONDS).astype(np.int64)
            stages = epochs, RK_STAGES[rows[:, 5].astype(np.int64)]
            yield StudyNight(_table((subject, subject), rows[:, :5], ACCEL_NAMES, stages, scheme, recipe))


def _sleep_edf(path: Path, scheme: StageScheme) -> Iterator[StudyNight]:
    """Yield the nights of 26 subjects, mostly two each, with 80 features per epoch."""
    parquet = library("pyarrow.parquet", "the Sleep-EDF features", "study")
    with open_file(path) as file:
        columns = parquet.read_table(file).to_pydict()
    names = tuple(name for name in columns if name not in EDF_ABOUT)
    values = np.array([columns[name] for name in names], dtype=np.float32).T
    nights = np.array([f"{s}-{n}" for s, n in zip(columns["subject_id"], columns["night_id"], strict=True)])
    epochs = np.array(columns["epoch_idx"], dtype=np.int64)
    labels = np.array([EDF_STAGES.get(stage, -1) for stage in columns["stage"]], dtype=np.int8)
    for name in np.unique(nights).tolist():
        rows = np.flatnonzero(nights == name)
        rows = rows[np.argsort(epochs[rows], kind="stable")]
        age, sex, subject = (columns[key][rows[0]] for key in ("age", "sex", "subject_id"))
        stages = epochs[rows], labels[rows]
        table = _table((name, str(subject)), values[rows], names, stages, scheme, {"name": "sleep-edf"})
        yield StudyNight(table, covariates={"age": float(age), "sex": str(sex)})


def _slpdb(path: Path, scheme: StageScheme) -> Iterator[StudyNight]:
    """Yield 18 recordings of 16 men, most with apnoea, with features of their heartbeats."""
    recipe = Recipe.load("cardiorespiratory")
    with open_file(path) as file, np.load(file) as archive:
        for name in sorted(key.removesuffix("_stage") for key in archive.files if key.endswith("_stage")):
            beats = Series("beats", archive[f"{name}_t_beat"], archive[f"{name}_rr"], "s")
            scored = Hypnogram(RK_STAGES[archive[f"{name}_stage"].astype(np.int64)], AASM5, EPOCH_SECONDS)
            recording = Recording(name, subject_of(name), {"beats": beats}, {"expert": scored})
            yield night_of(recording, recipe, scheme)


def _dod_h(path: Path, scheme: StageScheme) -> Iterator[StudyNight]:
    """Yield 25 nights with five scorers; the features are the stages by six networks trained elsewhere."""
    merge_map = np.append(AASM5.merge_map(scheme), -1)
    with open_file(path) as file, np.load(file) as archive:
        for name in dict.fromkeys(key.split("/")[0] for key in archive.files):
            scored = archive[f"{name}/scorers"].astype(np.int8)
            staged = [archive[f"{name}/{network}"] for network in DOD_NETWORKS]
            n = min(scored.shape[1], *(len(row) for row in staged))
            features = np.stack([merge_map[row[:n]] for row in staged], axis=1)
            panel = [Hypnogram(row, AASM5, EPOCH_SECONDS).merge(scheme) for row in scored]
            stages = np.arange(n), consensus(panel).labels[:n]
            table = _table((name, name), features, DOD_NETWORKS, stages, scheme, {"name": "dod-h"}, scheme)
            rows = {f"scorer {k}": one.labels[:n].astype(np.int64) for k, one in enumerate(panel, 1)}
            yield StudyNight(table, scorings=rows)


def _table(
    who: tuple[str, str],  # recording and subject
    features: Any,
    names: tuple[str, ...],
    stages: tuple[Ints, Any],  # epoch indices, and labels
    scheme: StageScheme,
    recipe: Mapping[str, Any],
    labelled_in: StageScheme = AASM5,
) -> Features:
    merged = Hypnogram(stages[1], labelled_in, EPOCH_SECONDS).merge(scheme).labels.astype(np.int64)
    values = features.astype(np.float32)
    return Features(*who, values, names, stages[0], merged, scheme, EPOCH_SECONDS, recipe)


# Public cohorts: the file below the data folder, and how it is read in a scheme.
PUBLIC: Mapping[str, tuple[str, Callable[[Path, StageScheme], Iterator[StudyNight]]]] = {
    "sleep-accel": ("sleep-accel/sleep_accel_walch_features.npz", _sleep_accel),
    "sleep-edf": ("sleep-edfx/sleep_edfx_cassette_26.parquet", _sleep_edf),
    "slpdb": ("slpdb/slpdb_rr_stages.npz", _slpdb),
    "dod-h": ("dod-h/dod_h.npz", _dod_h),
}
