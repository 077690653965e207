"""First half of a job: fit the stager of a fold, and keep the probabilities of nights it has not seen."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np

from stageguard.base import schema
from stageguard.base.extras import library
from stageguard.base.records import dataclass
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.pytorch import torch
from stageguard.nn.tables import fingerprint
from stageguard.profile.profile import Profile
from stageguard.study.boosting import BOOSTING_OPTIONS
from stageguard.study.config import StudyConfig
from stageguard.study.jobs import FoldTask, Job, sides_of
from stageguard.study.nights import StudyNight
from stageguard.study.splits import check_leaks
from stageguard.study.stagers import FLIP_FLOP_NATS, PENALTY_WEIGHTS, Stager, fit_stager

SHARED = "shared"  # folder of states that several jobs begin with
TEST, VALIDATION = "test", "validation"
TIMED = 5  # forward passes, of which the shortest counts


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What is kept of a stager: facts in JSON types, and a Parquet table of probabilities per epoch."""

    facts: dict[str, Any]
    table: bytes


def identity(config: StudyConfig, tables: str, job: Job) -> str:
    """Return a SHA-256 of all that a prediction follows from; `tables` is the fingerprint of the nights.

    How predictions are guarded is no part of it, so that they serve any guard.
    """
    paper = Profile.load(config.guard.paper)
    about: dict[str, Any] = {
        "job": asdict(job),
        "nights": tables,
        "split": schema.plain_table(config.split),
        "seed": config.seed,
        "rare": [(pair.source, pair.target) for pair in paper.rare] if job.loss == "penalty" else [],
    }
    if job.backbone in config.stagers:
        about["options"] = {"share": config.training.get("validation_share"), **BOOSTING_OPTIONS}
    else:
        options = config.options(job.backbone, job.loss, seed=job.seed, weight=job.weight).to_dict()
        about["options"] = {key: value for key, value in options.items() if key != "profile"}
        if job.loss == "semi-markov":
            about["profile"] = Profile.load(config.guard.base).sha256
    if config.split.tuning_subject is not None:
        about["chosen from"] = [PENALTY_WEIGHTS, FLIP_FLOP_NATS, paper.sha256]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def predict_fold(task: FoldTask) -> Prediction:
    """Fit a job's stager and predict. Apart from times, the same job gives the same wherever it runs."""
    config, cohort = task.read()
    fold, training, test = sides_of(config, cohort, task.job)
    check_leaks(fold, training, test, {})
    tuning = [night for night in cohort.nights if night.subject == config.split.tuning_subject]
    with _one_thread():
        began = time.process_time()
        stager = fit_stager(config, task.job, training, tuning, shared=task.cohort.parent / SHARED)
        seconds = time.process_time() - began
        nights = {TEST: test, VALIDATION: list(stager.validation)}
        densities = {part: stager.densities(some) for part, some in nights.items()}
        facts = asdict(task.job) | {
            "key": task.job.key,
            "identity": identity(config, fingerprint(night.table for night in cohort.nights), task.job),
            "test": list(fold.test),
            "training_subjects": list(fold.training),
            "validation_subjects": sorted({night.subject for night in stager.validation}),
            "chosen": dict(stager.chosen),
            **stager.about,
            "costs": {
                "training_seconds": round(seconds, 3),
                "forward_seconds": _forward_seconds(stager, test[0]),
                "peak_memory_mb": round(peak_memory_mb(), 1),
            },
        }
    return Prediction(facts, _parquet(nights, densities))


def _forward_seconds(stager: Stager, night: StudyNight) -> float:
    """Return the processor time of the stager for one night, the best of several."""
    durations = []
    for _ in range(TIMED):
        began = time.process_time()
        stager.density(night.table)
        durations.append(time.process_time() - began)
    return round(min(durations), 6)


def _parquet(
    nights: Mapping[str, Sequence[StudyNight]], densities: Mapping[str, Sequence[Hypnodensity]]
) -> bytes:
    arrow = library("pyarrow", "predictions of a study", "study")
    parquet = library("pyarrow.parquet", "predictions of a study", "study")
    pairs = [
        (part, night.recording, density)
        for part, some in nights.items()
        for night, density in zip(some, densities[part], strict=True)
    ]
    lengths = [density.n_epochs for _, _, density in pairs]
    rows = np.concatenate([density.probabilities for _, _, density in pairs]).astype(np.float32)
    columns: dict[str, Any] = {
        "part": arrow.array(np.repeat([part for part, _, _ in pairs], lengths)).dictionary_encode(),
        "recording": arrow.array(np.repeat([name for _, name, _ in pairs], lengths)).dictionary_encode(),
        "epoch": np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]),
    }
    columns |= {f"p_{stage}": rows[:, k] for k, stage in enumerate(pairs[0][2].scheme.names)}
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
