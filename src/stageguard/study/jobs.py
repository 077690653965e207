"""One fold of one network as one job: train, predict, guard in every way, measure."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.arrays import Labels
from stageguard.base.errors import MissingFileError
from stageguard.base.extras import library
from stageguard.base.records import dataclass
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.checkpoint import TrainedModel
from stageguard.nn.pytorch import torch
from stageguard.nn.tables import FeatureTable, split_subjects
from stageguard.nn.training import train
from stageguard.profile.profile import Profile
from stageguard.study.cohorts import StudyCohort, StudyNight, load_cohort
from stageguard.study.config import Loss, StudyConfig, study_of
from stageguard.study.measuring import measure, measure_panel
from stageguard.study.names import EXPERT, MAJORITY_CLASS, PAPER
from stageguard.study.splits import Fold, check_leaks, make_folds
from stageguard.study.variants import Learned, Variant, calibrate, learn, variants_of

FLIP_FLOP_NATS = (1.0, 2.0, 4.0)  # values of gamma to choose from on the tuning subject
PENALTY_WEIGHTS = (0.1, 0.25, 0.5, 1.0, 2.0)  # values of lambda, likewise; from the paper
CALIBRATION_SUBJECTS = 2  # with fewer, cross-validation is impossible and there is no calibrated guard


@dataclass(frozen=True, slots=True)
class Job:
    """One network of one fold."""

    backbone: str
    loss: Loss
    weight: float  # lambda
    seed: int
    label_noise: float  # share of training epochs with another stage than the expert's
    fold: int

    @property
    def key(self) -> str:
        """Name of the job's files."""
        noise = f"-noise{self.label_noise:g}" if self.label_noise else ""
        weight = f"{self.weight:g}" if self.loss == "penalty" else ""
        return f"{self.backbone}-{self.loss}{weight}-seed{self.seed}{noise}-fold{self.fold:02d}"


def jobs_of(config: StudyConfig, n_folds: int) -> list[Job]:
    """Return every job, fold after fold, so that an interrupted study has some results of every kind."""
    varied, robust = config.varied, config.robustness
    lam = config.guard.penalty_weight
    losses: list[tuple[Loss, float]] = [("base", 0.0)]
    if config.has_penalty:
        losses.append(("penalty", lam))
    wanted: dict[Job, None] = {}
    for fold in range(n_folds):
        jobs = [Job(b, loss, w, config.seed, 0.0, fold) for b in config.backbones for loss, w in losses]
        if config.has_penalty:
            jobs += [Job(varied, "penalty", w, config.seed, 0.0, fold) for w in robust.penalty_weights if w]
        for seed in robust.seeds:
            jobs += [Job(varied, loss, w, seed, 0.0, fold) for loss, w in losses]
        for noise in robust.label_noise:
            jobs += [Job(varied, loss, w, config.seed, noise, fold) for loss, w in losses]
        jobs += [Job(b, "semi-markov", 0.0, config.seed, 0.0, fold) for b in robust.semi_markov]
        wanted |= dict.fromkeys(jobs)
    return list(wanted)


def count_jobs(study: Mapping[str, Any], cohort: Path) -> int:
    """Return the number of jobs of a configuration's document on the nights of a file."""
    config = study_of(study)
    return len(jobs_of(config, len(make_folds(load_cohort(cohort).subjects, config.split, config.seed))))


@dataclass(frozen=True, slots=True)
class FoldTask:
    """A job with everything that a worker needs; it can be sent to other processes and machines."""

    study: Mapping[str, Any]  # the configuration's document
    cohort: Path  # the file of nights, which every worker must be able to read
    job: Job
    error: str | None = None

    @property
    def id(self) -> str:
        """Name of the job."""
        return self.job.key

    @property
    def file(self) -> str:
        """Name of the job in an error."""
        return self.job.key


@dataclass(frozen=True, slots=True, eq=False)
class FoldResult:
    """The result of a job: a record in JSON types, and a Parquet table of its predictions."""

    record: dict[str, Any]
    predictions: bytes


@lru_cache(maxsize=2)
def _nights(path: Path, modified: float) -> StudyCohort:
    return load_cohort(path)


def run_fold(task: FoldTask) -> FoldResult:
    """Do one job. Apart from times, the same job gives the same numbers wherever it runs."""
    config, job = study_of(task.study), task.job
    try:
        cohort = _nights(task.cohort, task.cohort.stat().st_mtime)
    except FileNotFoundError:
        raise MissingFileError(
            f"{task.cohort}: is not to be seen from this worker. Write the study to a folder that all share."
        ) from None
    fold = make_folds(cohort.subjects, config.split, config.seed)[job.fold]
    training, test = (fold.nights_of(cohort.nights, test=is_test) for is_test in (False, True))
    tuning = [night for night in cohort.nights if night.subject == config.split.tuning_subject]
    with _one_thread():
        network = _train(config, job, training, tuning)
        return _judge(config, job, fold, training, test, network)


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """A trained network, and how it was trained."""

    model: TrainedModel
    config: StudyConfig  # with the chosen lambda and gamma
    job: Job
    validation: Sequence[StudyNight]  # nights of training subjects on which the weights were not fitted
    seconds: float
    chosen: Mapping[str, float]

    def densities(self, nights: Sequence[StudyNight]) -> list[Hypnodensity]:
        return [self.model.density(night.table) for night in nights]


def _train(
    config: StudyConfig, job: Job, training: Sequence[StudyNight], tuning: Sequence[StudyNight]
) -> _Network:
    """Train the network; with a tuning subject, train one per lambda and keep the best for that subject."""
    if not tuning or job.loss != "penalty" or job.weight != config.guard.penalty_weight:
        return _train_one(config, job, training)
    learned = learn(config, training)
    pairs = learned.paper.tvr_pairs
    best: tuple[float, _Network] | None = None
    for weight in PENALTY_WEIGHTS:
        network = _train_one(config, replace(job, weight=weight), training)
        densities = network.densities(tuning)
        for nats in FLIP_FLOP_NATS:
            tried = replace(config, guard=replace(config.guard, flip_flop_nats=nats))
            variant = Variant(PAPER, learn(tried, training).paper, uses_quality=True)
            labels = variant.apply(densities, tuning, job.backbone)
            kappa = np.mean(
                [measure(n.expert(), y, pairs)["kappa"] for n, y in zip(tuning, labels, strict=True)]
            )
            if best is None or kappa > best[0]:
                chosen = {"penalty_weight": weight, "flip_flop_nats": nats}
                best = float(kappa), replace(network, config=tried, chosen=chosen)
    assert best is not None
    return best[1]


def _train_one(config: StudyConfig, job: Job, training: Sequence[StudyNight]) -> _Network:
    options = config.options(job.backbone, job.loss, seed=job.seed, weight=job.weight)
    tables = [_relabelled(night.table, job) for night in training]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        model = train(tables, options, Path(folder) / "model")
    seconds = time.perf_counter() - began
    kept = {table.recording for table in split_subjects(tables, options.validation_share, options.seed)[1]}
    validation = [night for night in training if night.recording in kept]
    return _Network(model, config, job, validation, seconds, {})


def _relabelled(table: FeatureTable, job: Job) -> FeatureTable:
    """Return a table with some stages replaced at random, in the same way for every network of a fold."""
    if not job.label_noise:
        return table
    assert table.labels is not None and table.scheme is not None
    seed = [job.seed, job.fold, *table.recording.encode()]
    rng = np.random.default_rng(seed)
    hit = (rng.random(table.n_epochs) < job.label_noise) & (table.labels >= 0)
    shifts = rng.integers(1, table.scheme.n_stages, table.n_epochs)
    labels = np.where(hit, (table.labels + shifts) % table.scheme.n_stages, table.labels)
    return replace(table, labels=labels)


def _judge(
    config: StudyConfig,
    job: Job,
    fold: Fold,
    training: Sequence[StudyNight],
    test: Sequence[StudyNight],
    network: _Network,
) -> FoldResult:
    """Predict the test nights, guard them in every way, and measure the results."""
    began = time.perf_counter()
    densities = network.densities(test)
    forward_seconds = time.perf_counter() - began
    learned = learn(network.config, training)
    subjects = {night.subject for night in network.validation}
    if job.loss == "base" and not job.label_noise and len(subjects) >= CALIBRATION_SUBJECTS:
        validated = network.densities(network.validation)
        learned = calibrate(learned, validated, network.validation, name=config.name, stager=job.backbone)
    check_leaks(
        fold,
        training,
        test,
        {
            "the network": learned.subjects,
            "the transition matrix": learned.subjects,
            "the calibration": learned.calibrated_on,
        },
    )
    rows, labels, decode_seconds = [], {}, {}
    for variant in variants_of(job.loss, network.config, learned, network.model.card.profile):
        began = time.perf_counter()
        labels[variant.name] = variant.apply(densities, test, job.backbone)
        decode_seconds[variant.name] = time.perf_counter() - began
    pairs = learned.paper.tvr_pairs
    for number, night in enumerate(test):
        expert = night.expert()
        about = {"recording": night.recording, "subject": night.subject}
        panel = night.panel()
        for name, predicted in _with_references(labels, expert.labels, learned, number, job):
            row = measure(expert, predicted, pairs)
            row |= measure_panel(panel, None if name == EXPERT else predicted)
            rows.append(about | {"variant": name} | _rounded(row))
    training_card = network.model.card.training
    record = asdict(job) | {
        "key": job.key,
        "test": list(fold.test),
        "n_training_subjects": len(fold.training),
        "rows": rows,
        "covariates": {night.subject: dict(night.covariates) for night in test},
        "transitions": [list(row) for row in learned.paper.transitions],
        "stages": list(config.scheme.names),
        "epoch_seconds": training[0].table.epoch_seconds,
        "chosen": dict(network.chosen),
        "calibrated_by": _rule_of(learned.calibrated),
        "temperature": network.model.card.temperature,
        "n_parameters": sum(p.numel() for p in network.model.network.parameters()),
        "steps": training_card["stopped_at"],
        "costs": {
            "training_seconds": round(network.seconds, 3),
            "forward_seconds": round(forward_seconds / len(test), 5),
            "decode_seconds": {name: round(s / len(test), 6) for name, s in decode_seconds.items()},
            "peak_memory_mb": round(peak_memory_mb(), 1),
        },
    }
    return FoldResult(record, _parquet(test, densities, labels))


def _with_references(
    labels: Mapping[str, Sequence[Labels]], expert: Labels, learned: Learned, number: int, job: Job
) -> Iterator[tuple[str, Labels]]:
    """Yield the stages of one night by variant.

    The base network's job also yields the expert's stages, and the most frequent stage in every epoch.
    """
    if job.loss == "base":
        common = np.argmax(list(learned.shares.values()))
        yield EXPERT, expert
        yield MAJORITY_CLASS, np.where(expert < 0, expert, np.int8(common))
    for name, nights in labels.items():
        yield name, nights[number]


def _rounded(row: Mapping[str, float]) -> dict[str, float | None]:
    """Return numbers for JSON, with six digits; NaN becomes null."""
    return {key: None if np.isnan(value) else float(f"{value:.6g}") for key, value in row.items()}


def _rule_of(fitted: Profile | None) -> str | None:
    """Return the name of the rule that the calibrated profile chose."""
    if fitted is None:
        return None
    chosen = fitted.provenance.get("chosen") or fitted.provenance.get("choice")
    return str(chosen) if chosen is not None else fitted.name


def _parquet(
    nights: Sequence[StudyNight],
    densities: Sequence[Hypnodensity],
    labels: Mapping[str, Sequence[Labels]],
) -> bytes:
    """Return the predictions: a row per epoch with the expert's stage, probabilities and variants."""
    arrow = library("pyarrow", "predictions of a study", "study")
    parquet = library("pyarrow.parquet", "predictions of a study", "study")
    names = [np.repeat(n.recording, d.n_epochs) for n, d in zip(nights, densities, strict=True)]
    rows = np.concatenate([density.probabilities for density in densities]).astype(np.float32)
    columns: dict[str, Any] = {
        "recording": arrow.array(np.concatenate(names)).dictionary_encode(),
        "epoch": np.concatenate([np.arange(d.n_epochs, dtype=np.int32) for d in densities]),
        "expert": np.concatenate([night.expert().labels for night in nights]),
    }
    columns |= {f"p_{stage}": rows[:, k] for k, stage in enumerate(densities[0].scheme.names)}
    columns |= {name: np.concatenate(list(each)) for name, each in labels.items()}
    buffer = io.BytesIO()
    parquet.write_table(arrow.table(columns), buffer, compression="zstd")
    return buffer.getvalue()


def peak_memory_mb() -> float:
    """Return the peak memory of this process; NaN if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread: one worker per core fills a machine, and sums are the same everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
