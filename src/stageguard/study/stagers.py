"""Stagers of one fold: networks, gradient boosting, and published stages with their usual errors.

Each learns from the training subjects but some, and gives probabilities of any night of the study.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.arrays import Floats, Floats32
from stageguard.lazy import library
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.data import Normalisation, split_subjects
from stageguard.nn.options import TrainingOptions
from stageguard.nn.training import train
from stageguard.signals.features import Features
from stageguard.study.config import BASE, BOOSTING, Job, StudyConfig
from stageguard.study.nights import StudyNight
from stageguard.study.store import PAPER
from stageguard.study.variants import Variant, learn, measure

FLIP_FLOP_NATS = (1.0, 2.0, 4.0)  # values of gamma to choose from on the tuning subject
PENALTY_WEIGHTS = (0.1, 0.25, 0.5, 1.0, 2.0)  # values of lambda, likewise; from the paper
HALF_WINDOWS = (2, 7)  # epochs on either side over which features are averaged: 2.5 and 7.5 min at 30 s
BOOSTING_OPTIONS = {"max_iter": 100}


@dataclass(frozen=True, slots=True, eq=False)
class Stager:
    """A stager that has learned, and what is to be remembered of it."""

    density: Callable[[Features], Hypnodensity]
    validation: Sequence[StudyNight]  # nights of training subjects that it has not learned from
    # facts in JSON types, also lambda and gamma chosen
    about: Mapping[str, Any] = field(default_factory=dict)


def fit_stager(
    config: StudyConfig,
    job: Job,
    training: Sequence[StudyNight],
    tuning: Sequence[StudyNight] = (),
    *,
    shared: Path | None = None,
) -> Stager:
    """Fit the stager of a job; with a tuning subject, one per lambda, of which the best for them is kept."""
    if not job.is_tuned:
        return _fit_once(config, job, training, shared)
    pairs = learn(config, training).paper.tvr_pairs
    best: tuple[float, Stager] | None = None
    for weight in PENALTY_WEIGHTS:
        network = _fit_once(config, replace(job, penalty_weight=weight), training, shared)
        densities = [network.density(night.table) for night in tuning]
        for nats in FLIP_FLOP_NATS:
            variant = Variant(PAPER, learn(config.with_gamma(nats), training).paper, uses_quality=True)
            staged = zip(tuning, variant.apply(densities, tuning, job.backbone), strict=True)
            kappa = float(np.mean([measure(n.expert(), labels, pairs)["kappa"] for n, labels in staged]))
            if best is None or kappa > best[0]:
                chosen = {"chosen_weight": weight, "chosen_nats": nats}
                best = kappa, replace(network, about={**network.about, **chosen})
    assert best is not None
    return best[1]


def _fit_once(config: StudyConfig, job: Job, training: Sequence[StudyNight], shared: Path | None) -> Stager:
    tables = [_with_wrong_labels(night.table, job) for night in training]
    if job.backbone in config.stagers:
        share = float(config.training.get("validation_share", 0.2))
        learning, kept = split_subjects(tables, share, job.seed)
        fit = _boosted_probabilities if job.backbone == BOOSTING else _published_probabilities
        density: Callable[[Features], Hypnodensity] = partial(_density, fit(learning, job))
        about: dict[str, Any] = {}
    else:
        options = config.options(job.backbone, seed=job.seed, weight=job.penalty_weight)
        kept = split_subjects(tables, options.validation_share, options.seed)[1]
        density, about = _fit_network(tables, options, job, shared)
    validation = {table.recording for table in kept}
    return Stager(density, [night for night in training if night.recording in validation], about)


def _fit_network(
    tables: Sequence[Features], options: TrainingOptions, job: Job, shared: Path | None
) -> tuple[Callable[[Features], Hypnodensity], dict[str, Any]]:
    moments = [time.process_time()]
    state = None
    if shared is not None and options.penalty_after:  # the first steps of the networks of every lambda
        state = shared / replace(job, loss=BASE, penalty_weight=0.0, is_tuned=False).key
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        model = train(
            tables, options, place, report=lambda _: moments.append(time.process_time()), shared=state
        )
    about = {
        "n_parameters": sum(p.numel() for p in model.network.parameters()),
        **{key: model.card.training[key] for key in ("best_step", "best_kappa")},
        "steps": model.card.training["stopped_at"],
        # the shortest says what a step costs: what else a machine does can only make it longer
        "step_seconds": round(float(np.diff(moments).min()), 6),
    }
    return model.density, about


def _density(probabilities: Callable[[Features], Floats], table: Features) -> Hypnodensity:
    """Return the probabilities of a table's epochs as those of the recording from the first to the last."""
    assert table.epochs is not None and table.scheme is not None and table.epoch_seconds is not None
    index = table.epochs - table.epochs[0]
    rows = np.full((int(index[-1]) + 1, table.scheme.n_stages), np.nan)
    rows[index] = probabilities(table)
    seconds, offset = table.epoch_seconds, table.epoch_seconds * int(table.epochs[0])
    return Hypnodensity(rows, table.scheme, seconds, source=table.recording, offset_seconds=offset)


def _published_probabilities(tables: Sequence[Features], job: Job) -> Callable[[Features], Floats]:
    """Return the probabilities of stages that a published stager gave: what experts say where it says so.

    The share of each expert's stage by the stager's stage is counted on training subjects, and each count
    begins at 1.
    """
    scheme = tables[0].scheme
    assert scheme is not None
    column = tables[0].names.index(job.backbone)
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
    rng = np.random.default_rng([job.seed, job.fold, *table.recording.encode()])
    hit = (rng.random(table.n_epochs) < job.label_noise) & (table.labels >= 0)
    shifts = rng.integers(1, table.scheme.n_stages, table.n_epochs)
    labels = np.where(hit, (table.labels + shifts) % table.scheme.n_stages, table.labels)
    return replace(table, labels=labels)


def _boosted_probabilities(tables: Sequence[Features], job: Job) -> Callable[[Features], Floats]:
    """Return the probabilities of a classifier of epochs, which the same seed gives again."""
    ensemble = library("sklearn.ensemble", "gradient boosting", "study")
    normalisation = Normalisation.fit(tables, tables[0].absolute)
    scheme = tables[0].scheme
    assert scheme is not None
    labels = np.concatenate([table.labels for table in tables if table.labels is not None])
    columns = np.concatenate([_with_means(table, normalisation) for table in tables])
    classifier = ensemble.HistGradientBoostingClassifier(**BOOSTING_OPTIONS, random_state=job.seed)
    classifier.fit(columns[labels >= 0], labels[labels >= 0])

    def probabilities(table: Features) -> Floats:
        rows = np.zeros((table.n_epochs, scheme.n_stages))
        rows[:, classifier.classes_] = classifier.predict_proba(_with_means(table, normalisation))
        return rows

    return probabilities


def _with_means(table: Features, normalisation: Normalisation) -> Floats32:
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
