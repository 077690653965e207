"""Stagers of one fold: networks, gradient boosting, and published stages with their usual errors.

Each learns from the training subjects but some, and gives probabilities of any night of the study.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Floats32
from stageguard.extras import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.data import Normalisation, split_subjects
from stageguard.nn.training import TrainingProgress, train
from stageguard.signals.features import Features
from stageguard.study.config import BOOSTING, StudyConfig
from stageguard.study.jobs import Job
from stageguard.study.nights import StudyNight
from stageguard.study.store import PAPER
from stageguard.study.variants import Variant, learn, measure

FLIP_FLOP_NATS = (1.0, 2.0, 4.0)  # values of gamma to choose from on the tuning subject
PENALTY_WEIGHTS = (0.1, 0.25, 0.5, 1.0, 2.0)  # values of lambda, likewise; from the paper
LEAST_VALIDATION_SHARE = 0.2  # of training subjects, if the configuration says none


HALF_WINDOWS = (2, 7)  # epochs on either side over which features are averaged: 2.5 and 7.5 min at 30 s
BOOSTING_OPTIONS = {"max_iter": 100}


@dataclass(frozen=True, slots=True, eq=False)
class Stager:
    """A stager that has learned, and what is to be remembered of it."""

    density: Callable[[Features], Hypnodensity]
    validation: Sequence[StudyNight]  # nights of training subjects that it has not learned from
    chosen: Mapping[str, float] = field(default_factory=dict)  # lambda and gamma, by a tuning subject
    about: Mapping[str, Any] = field(default_factory=dict)  # facts in JSON types
    step_seconds: float | None = None  # processor time of a training step

    def densities(self, nights: Sequence[StudyNight]) -> list[Hypnodensity]:
        """Return the stage probabilities of nights."""
        return [self.density(night.table) for night in nights]


def fit_stager(
    config: StudyConfig,
    job: Job,
    training: Sequence[StudyNight],
    tuning: Sequence[StudyNight] = (),
    *,
    shared: Path | None = None,
) -> Stager:
    """Fit the stager of a job; with a tuning subject, one per lambda, of which the best for them is kept."""
    if job.backbone in config.stagers:
        return _fit_without_network(config, job, training)
    if not job.is_tuned:
        return _fit_network(config, job, training, shared)
    pairs = learn(config, training).paper.tvr_pairs
    best: tuple[float, Stager] | None = None
    for weight in PENALTY_WEIGHTS:
        network = _fit_network(config, replace(job, weight=weight), training, shared)
        densities = network.densities(tuning)
        for nats in FLIP_FLOP_NATS:
            variant = Variant(PAPER, learn(config.with_gamma(nats), training).paper, uses_quality=True)
            labels = variant.apply(densities, tuning, job.backbone)
            kappa = np.mean(
                [measure(n.expert(), y, pairs)["kappa"] for n, y in zip(tuning, labels, strict=True)]
            )
            if best is None or kappa > best[0]:
                chosen = {"penalty_weight": weight, "flip_flop_nats": nats}
                best = float(kappa), replace(network, chosen=chosen)
    assert best is not None
    return best[1]


def _fit_network(
    config: StudyConfig, job: Job, training: Sequence[StudyNight], shared: Path | None
) -> Stager:
    options = config.options(job.backbone, seed=job.seed, weight=job.weight)
    tables = [_with_wrong_labels(night.table, job) for night in training]
    clock = _StepClock()
    state = None if shared is None or not options.penalty_after else shared / job.state
    with tempfile.TemporaryDirectory() as folder:
        model = train(tables, options, Path(folder) / "model", report=clock, shared=state)
    card = model.card
    about = {
        "temperature": card.temperature,
        "n_parameters": sum(p.numel() for p in model.network.parameters()),
        **{key: card.training[key] for key in ("best_step", "best_kappa")},
        "steps": card.training["stopped_at"],
    }
    validation = _validation(training, tables, options.validation_share, options.seed)
    return Stager(model.density, validation, {}, about, round(clock.shortest, 6))


class _StepClock:
    """Measure the processor time of training steps, of which the shortest says what a step costs."""

    def __init__(self) -> None:
        self.last = time.process_time()
        self.shortest = float("inf")

    def __call__(self, progress: TrainingProgress) -> None:
        now = time.process_time()
        self.shortest = min(self.shortest, now - self.last)
        self.last = now


def _validation(
    training: Sequence[StudyNight], tables: Sequence[Features], share: float, seed: int
) -> list[StudyNight]:
    kept = {table.recording for table in split_subjects(tables, share, seed)[1]}
    return [night for night in training if night.recording in kept]


def _fit_without_network(config: StudyConfig, job: Job, training: Sequence[StudyNight]) -> Stager:
    share = float(config.training.get("validation_share", LEAST_VALIDATION_SHARE))
    tables = [_with_wrong_labels(night.table, job) for night in training]
    learning = split_subjects(tables, share, job.seed)[0]
    probabilities: Callable[[Features], Floats]
    if job.backbone == BOOSTING:
        probabilities = fit_boosting(learning, job.seed).probabilities
    else:
        probabilities = _published_probabilities(learning, job.backbone)

    def density(table: Features) -> Hypnodensity:
        assert table.epochs is not None and table.scheme is not None and table.epoch_seconds is not None
        index = table.epochs - table.epochs[0]
        rows = np.full((int(index[-1]) + 1, table.scheme.n_stages), np.nan)
        rows[index] = probabilities(table)
        offset = table.epoch_seconds * int(table.epochs[0])
        return Hypnodensity(
            rows, table.scheme, table.epoch_seconds, source=table.recording, offset_seconds=offset
        )

    return Stager(density, _validation(training, tables, share, job.seed))


def _published_probabilities(tables: Sequence[Features], name: str) -> Callable[[Features], Floats]:
    """Return the probabilities of stages that a published stager gave: what experts say where it says so.

    The share of each expert's stage by the stager's stage is counted on training subjects, and each count
    begins at 1.
    """
    scheme = tables[0].scheme
    assert scheme is not None
    column = tables[0].names.index(name)
    counts = np.ones((scheme.n_stages, scheme.n_stages))
    for table in tables:
        assert table.labels is not None
        said = table.values[:, 0, column].astype(np.int64)
        both = (said >= 0) & (table.labels >= 0)
        np.add.at(counts, (said[both], table.labels[both]), 1)
    shares = np.vstack([counts / counts.sum(axis=1, keepdims=True), np.full(scheme.n_stages, np.nan)])
    return lambda table: shares[table.values[:, 0, column].astype(np.int64)]


def _with_wrong_labels(table: Features, job: Job) -> Features:
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


@dataclass(frozen=True, slots=True, eq=False)
class Boosting:
    """A fitted classifier and the scale of its features."""

    classifier: Any
    normalisation: Normalisation
    n_stages: int

    def probabilities(self, table: Features) -> Floats:
        """Return probabilities (n_rows, n_stages) of a table's rows."""
        rows = np.zeros((table.n_epochs, self.n_stages))
        rows[:, self.classifier.classes_] = self.classifier.predict_proba(_columns(table, self.normalisation))
        return rows


def fit_boosting(tables: Sequence[Features], seed: int) -> Boosting:
    """Fit the classifier on the scored epochs of tables; the same seed gives the same classifier."""
    ensemble = library("sklearn.ensemble", "gradient boosting", "study")
    normalisation = Normalisation.fit(tables, tables[0].absolute)
    assert tables[0].scheme is not None
    labels = np.concatenate([table.labels for table in tables if table.labels is not None])
    columns = np.concatenate([_columns(table, normalisation) for table in tables])
    classifier = ensemble.HistGradientBoostingClassifier(**BOOSTING_OPTIONS, random_state=seed)
    classifier.fit(columns[labels >= 0], labels[labels >= 0])
    return Boosting(classifier, normalisation, tables[0].scheme.n_stages)


def _columns(table: Features, normalisation: Normalisation) -> Floats32:
    """Return an epoch's features, and their means over the epochs around it; gaps of a recording are NaN."""
    assert table.epochs is not None
    scaled = normalisation(table).reshape(table.n_epochs, -1)
    place = table.epochs - table.epochs[0]
    on_axis = np.full((int(place[-1]) + 1, scaled.shape[1]), np.nan, dtype=np.float32)
    on_axis[place] = scaled
    return np.hstack([scaled, *(_moving_mean(on_axis, half)[place] for half in HALF_WINDOWS)])


def _moving_mean(values: Floats32, half: int) -> Floats32:
    """Return the mean of each column over a centred window, of the values that are there."""
    known = np.isfinite(values)
    sums, counts = (
        np.cumsum(np.pad(each, ((half + 1, half), (0, 0))), axis=0, dtype=np.float64)
        for each in (np.where(known, values, 0.0), known)
    )
    totals, n_known = (each[2 * half + 1 :] - each[: -(2 * half + 1)] for each in (sums, counts))
    means = np.divide(totals, n_known, out=np.full(totals.shape, np.nan), where=n_known > 0)
    return np.asarray(means, dtype=np.float32)
