"""The nights of a study: read from a simulated, public or own cohort, and stored in one file."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Ints
from stageguard.datasets import entries
from stageguard.datasets.slpdb import subject_of
from stageguard.errors import InputError, MissingFileError
from stageguard.extras import library
from stageguard.files import faults_named, open_file, parse_json, write_together
from stageguard.measures.experts import consensus
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Recording, Series
from stageguard.night.stages import AASM5, SCHEMES, StageScheme
from stageguard.nn.data import check_together, fingerprint, read_folder, table_of
from stageguard.signals.features import Features, Recipe
from stageguard.signals.modalities import modality_of
from stageguard.signals.quality import signal_quality
from stageguard.study.config import CohortSource
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

    @property
    def index(self) -> Ints:
        """Epoch of each row, counted from the first row's epoch."""
        assert self.table.epochs is not None
        return np.asarray(self.table.epochs - self.table.epochs[0])

    def expert(self) -> Hypnogram:
        """Return the expert's stages from the first row to the last; gaps are unscored."""
        assert self.table.labels is not None
        return self._hypnogram(self.table.labels)

    def panel(self) -> list[Hypnogram]:
        """Return every scorer's stages, if the night has several scorers."""
        return [replace(self._hypnogram(rows), scorer=name) for name, rows in self.scorings.items()]

    def _hypnogram(self, rows: Ints) -> Hypnogram:
        table = self.table
        assert table.scheme is not None and table.epochs is not None and table.epoch_seconds is not None
        labels = np.full(int(self.index[-1]) + 1, -1, dtype=np.int8)
        labels[self.index] = rows
        offset = table.epoch_seconds * int(table.epochs[0])
        return Hypnogram(labels, table.scheme, table.epoch_seconds, offset_seconds=offset)

    def beta(self) -> Floats | None:
        """Return how much of each epoch from the first to the last is lost; 0 in gaps."""
        if self.quality is None:
            return None
        beta = np.zeros(int(self.index[-1]) + 1)
        beta[self.index] = self.quality
        return beta


@dataclass(frozen=True, slots=True, eq=False)
class StudyCohort:
    """All nights of a study."""

    nights: tuple[StudyNight, ...]
    is_synthetic: bool = False

    @property
    def epoch_seconds(self) -> float:
        """Epoch length of all nights."""
        seconds = self.nights[0].table.epoch_seconds
        assert seconds is not None
        return seconds

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
    judged = signal_quality(recording, recipe.modality, epoch_seconds=table.epoch_seconds, rules="kdd2026")
    beta = np.zeros(table.n_epochs)
    n_both = min(table.n_epochs, judged.n_epochs)
    beta[:n_both] = judged.beta[:n_both]
    return StudyNight(table, beta, dict(recording.covariates), _scorings(recording, table, scheme))


def _scorings(recording: Recording, table: Features, scheme: StageScheme) -> dict[str, Ints]:
    """Return each scorer's stages of the table's epochs, if the recording has several scorers."""
    if len(recording.scorings) < 2:
        return {}
    assert table.epochs is not None
    rows = {}
    for name, scored in recording.scorings.items():
        labels = scored.merge(scheme).labels
        inside = table.epochs < len(labels)
        rows[name] = np.where(inside, labels[np.minimum(table.epochs, len(labels) - 1)], -1).astype(np.int64)
    return rows


def save_cohort(cohort: StudyCohort, path: Path) -> None:
    """Write all nights into one file, from which `load_cohort` restores them."""
    first = cohort.nights[0].table
    assert first.scheme is not None
    about = {
        "synthetic": cohort.is_synthetic,
        "scheme": first.scheme.name,
        "epoch_seconds": first.epoch_seconds,
        "names": list(first.names),
        "recipe": first.recipe,
        "nights": [
            {
                "recording": night.recording,
                "subject": night.subject,
                "covariates": dict(night.covariates),
                "scorers": list(night.scorings),
            }
            for night in cohort.nights
        ],
    }
    arrays: dict[str, Any] = {"about": np.array(json.dumps(about, default=_plain))}
    for number, night in enumerate(cohort.nights):
        table = night.table
        arrays |= {f"features_{number}": table.values, f"epochs_{number}": table.epochs}
        arrays[f"labels_{number}"] = table.labels
        if night.quality is not None:
            arrays[f"quality_{number}"] = night.quality
        if night.scorings:
            arrays[f"scorings_{number}"] = np.stack(list(night.scorings.values()))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_together({path: buffer.getvalue()}, overwrite=True)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else dict(value)


def load_cohort(path: Path) -> StudyCohort:
    """Read a cohort that `save_cohort` wrote."""
    with faults_named(str(path)), open_file(path, "an array") as file, np.load(file) as archive:
        about = parse_json(str(archive["about"]))
        nights = []
        for number, facts in enumerate(about["nights"]):
            table = Features(
                facts["recording"],
                facts["subject"],
                archive[f"features_{number}"],
                tuple(about["names"]),
                archive[f"epochs_{number}"],
                archive[f"labels_{number}"],
                SCHEMES[about["scheme"]],
                about["epoch_seconds"],
                about["recipe"],
            )
            key = f"quality_{number}"
            quality = archive[key] if key in archive.files else None
            scorers = facts.get("scorers", [])
            scorings = dict(zip(scorers, archive[f"scorings_{number}"] if scorers else (), strict=True))
            nights.append(StudyNight(table, quality, facts["covariates"], scorings))
    return StudyCohort(tuple(nights), about["synthetic"])


DATA_VARIABLE = "STAGEGUARD_DATA"
EPOCH_SECONDS = 30.0
ACCEL_NAMES = ("hours", "activity_count", "heart_rate_variability", "clock_cosine", "circadian")
EDF_ABOUT = ("subject_id", "night_id", "age", "sex", "epoch_idx", "t0_sec", "stage")
EDF_STAGES = {"W": 0, "N1": 1, "N2": 2, "N3": 3, "REM": 4}
# stages of Rechtschaffen and Kales by code, as AASM stages; 6 is movement
RK_STAGES = np.array([0, 1, 2, 3, 3, 4, -1, -1])  # the last is -1, unscored
# networks whose stages come with DOD-H
DOD_NETWORKS = ("SimpleNet", "DeepSleepNet", "SeqSleepNet", "Chambon", "MixedNeuralNetwork", "Tsinalis")


def read_cohort(source: CohortSource, folder: Path) -> StudyCohort:
    """Return the nights of a configuration; its folders are relative to `folder`."""
    scheme = SCHEMES[source.scheme]
    if source.source == "simulated":
        cohort = StudyCohort(tuple(_simulate_nights(source, scheme)), is_synthetic=True)
    elif source.source in PUBLIC:
        cohort = StudyCohort(tuple(public_nights(source, folder)))
    elif source.source == "features":
        tables = read_folder(folder / str(source.folder), scheme)
        cohort = StudyCohort(tuple(StudyNight(table) for table in tables))
    else:
        cohort = _read_dataset(source, folder, scheme)
    kept = set(cohort.subjects[: source.subjects])
    cohort = replace(cohort, nights=tuple(n for n in cohort.nights if n.subject in kept))
    check_together([night.table for night in cohort.nights])
    return cohort


def _simulate_nights(source: CohortSource, scheme: StageScheme) -> Iterable[StudyNight]:
    modality = modality_of(source.modality)
    recipe = Recipe.load(source.recipe or modality.recipe)
    assert source.subjects is not None
    for number in range(1, source.subjects + 1):
        made = simulate_recording(modality.name, number, seed=source.seed, hours=source.hours)
        yield night_of(made.recording, recipe, scheme, modality.epoch_seconds)


def _read_dataset(source: CohortSource, folder: Path, scheme: StageScheme) -> StudyCohort:
    assert source.dataset is not None and source.recipe is not None
    recipe = Recipe.load(source.recipe)
    found = entries(source.dataset, folder / str(source.folder), **source.dataset_options)
    recordings = (entry.read() for entry in found)
    scored = [(one, night_of(one, recipe, scheme)) for one in recordings if one.scorings]
    return StudyCohort(tuple(night for _, night in scored), any(one.is_synthetic for one, _ in scored))


def public_nights(source: CohortSource, folder: Path) -> Iterable[StudyNight]:
    """Return the nights of a public cohort, in the configuration's folder or in STAGEGUARD_DATA."""
    cohort = PUBLIC[source.source]
    data_folder = os.environ.get(DATA_VARIABLE)
    if source.folder is None and not data_folder:
        raise InputError(
            f"cohort {source.source!r} needs {cohort.file.name}. Set {DATA_VARIABLE} to the folder that "
            f"holds {cohort.file.parent}, or name one in the study: folder = ..."
        )
    path = (folder / source.folder if source.folder else Path(str(data_folder))) / cohort.file
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file. See: stageguard data show {source.source}")
    return cohort.read(path, SCHEMES[source.scheme])


def _sleep_accel(path: Path, scheme: StageScheme) -> Iterable[StudyNight]:
    """Yield 31 subjects, one night each, with five features per epoch from a watch."""
    recipe = {"name": "sleep-accel", "absolute": ["hours", "clock_cosine", "circadian"]}
    with open_file(path, "an array") as file, np.load(file) as archive:
        for subject in archive.files:
            rows = archive[subject]
            epochs = np.rint(rows[:, 0] * 3600 / EPOCH_SECONDS).astype(np.int64)
            labels = RK_STAGES[rows[:, 5].astype(np.int64)]
            features = rows[:, :5].astype(np.float32)
            yield _feature_night((subject, subject), features, ACCEL_NAMES, (epochs, labels), scheme, recipe)


def _sleep_edf(path: Path, scheme: StageScheme) -> Iterable[StudyNight]:
    """Yield the nights of 26 subjects, mostly two each, with 80 features per epoch."""
    parquet = library("pyarrow.parquet", "the Sleep-EDF features", "study")
    with open_file(path, "an array") as file:
        columns = parquet.read_table(file).to_pydict()
    names = tuple(name for name in columns if name not in EDF_ABOUT)
    values = np.array([columns[name] for name in names], dtype=np.float32).T
    nights = np.array([f"{s}-{n}" for s, n in zip(columns["subject_id"], columns["night_id"], strict=True)])
    epochs = np.array(columns["epoch_idx"], dtype=np.int64)
    labels = np.array([EDF_STAGES.get(stage, -1) for stage in columns["stage"]], dtype=np.int64)
    for name in np.unique(nights).tolist():
        rows = np.flatnonzero(nights == name)
        rows = rows[np.argsort(epochs[rows], kind="stable")]
        who = name, str(columns["subject_id"][rows[0]])
        night = _feature_night(
            who, values[rows], names, (epochs[rows], labels[rows]), scheme, {"name": "sleep-edf"}
        )
        about: dict[str, float | str] = {
            "age": float(columns["age"][rows[0]]),
            "sex": str(columns["sex"][rows[0]]),
        }
        yield replace(night, covariates=about)


def _slpdb(path: Path, scheme: StageScheme) -> Iterable[StudyNight]:
    """Yield 18 recordings of 16 men, most with apnoea, with features of their heartbeats."""
    recipe = Recipe.load("cardiorespiratory")
    with open_file(path, "an array") as file, np.load(file) as archive:
        for name in sorted(key.removesuffix("_stage") for key in archive.files if key.endswith("_stage")):
            beats = Series("beats", archive[f"{name}_t_beat"], archive[f"{name}_rr"], "s")
            labels = RK_STAGES[archive[f"{name}_stage"].astype(np.int64)].astype(np.int8)
            scored = Hypnogram(labels, AASM5, EPOCH_SECONDS)
            recording = Recording(name, subject_of(name), {"beats": beats}, {"expert": scored})
            yield night_of(recording, recipe, scheme)


def _dod_h(path: Path, scheme: StageScheme) -> Iterable[StudyNight]:
    """Yield 25 nights with five scorers; the features are the stages by six networks trained elsewhere."""
    with open_file(path, "an array") as file, np.load(file) as archive:
        for name in dict.fromkeys(key.split("/")[0] for key in archive.files):
            scored = [
                Hypnogram(np.asarray(row, dtype=np.int8), AASM5, EPOCH_SECONDS).merge(scheme)
                for row in archive[f"{name}/scorers"]
            ]
            staged = [archive[f"{name}/{network}"] for network in DOD_NETWORKS]
            n_epochs = min(scored[0].n_epochs, *(len(row) for row in staged))
            merge_map = np.append(AASM5.merge_map(scheme), -1)
            features = np.stack([merge_map[row[:n_epochs]] for row in staged], axis=1).astype(np.float32)
            epochs = np.arange(n_epochs)
            labels = consensus(scored).labels[:n_epochs].astype(np.int64)
            table = _table((name, name), features, DOD_NETWORKS, (epochs, labels), scheme, {"name": "dod-h"})
            panel = {f"scorer {k}": s.labels[:n_epochs].astype(np.int64) for k, s in enumerate(scored, 1)}
            yield StudyNight(table, scorings=panel)


def _feature_night(
    who: tuple[str, str],
    features: Any,
    names: tuple[str, ...],
    stages: tuple[Any, Any],  # epoch indices, and labels of AASM stages
    scheme: StageScheme,
    recipe: Mapping[str, Any],
) -> StudyNight:
    epochs, labels = stages
    merged = Hypnogram(labels.astype(np.int8), AASM5, EPOCH_SECONDS).merge(scheme).labels.astype(np.int64)
    return StudyNight(_table(who, features, names, (epochs, merged), scheme, recipe))


def _table(
    who: tuple[str, str],
    features: Any,
    names: tuple[str, ...],
    stages: tuple[Ints, Ints],
    scheme: StageScheme,
    recipe: Mapping[str, Any],
) -> Features:
    return Features(*who, features, names, *stages, scheme, EPOCH_SECONDS, recipe)


@dataclass(frozen=True, slots=True)
class PublicCohort:
    """A public cohort: its file below the data folder, and how it is read in a scheme."""

    file: Path
    read: Callable[[Path, StageScheme], Iterable[StudyNight]]


PUBLIC = {
    "sleep-accel": PublicCohort(Path("sleep-accel", "sleep_accel_walch_features.npz"), _sleep_accel),
    "sleep-edf": PublicCohort(Path("sleep-edfx", "sleep_edfx_cassette_26.parquet"), _sleep_edf),
    "slpdb": PublicCohort(Path("slpdb", "slpdb_rr_stages.npz"), _slpdb),
    "dod-h": PublicCohort(Path("dod-h", "dod_h.npz"), _dod_h),
}
