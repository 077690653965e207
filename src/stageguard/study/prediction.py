"""First half of a job: fit the stager of a fold, and keep the probabilities of nights it has not seen."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Mask
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.pytorch import torch
from stageguard.nn.tables import fingerprint
from stageguard.profile.profile import Profile
from stageguard.study.config import StudyConfig
from stageguard.study.jobs import FoldTask, Job, check_leaks, sides_of
from stageguard.study.nights import StudyCohort, StudyNight
from stageguard.study.stagers import BOOSTING_OPTIONS, FLIP_FLOP_NATS, PENALTY_WEIGHTS, fit_stager
from stageguard.study.store import SHARED, columns_as_parquet, read_columns

TEST, VALIDATION = "test", "validation"
N_TIMED = 5  # times that work is done to say how long it takes


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What is kept of a stager: facts in JSON types, and a Parquet table of probabilities per epoch."""

    facts: Mapping[str, Any]
    table: bytes

    def densities(self, cohort: StudyCohort) -> dict[str, dict[str, Hypnodensity]]:
        """Return the probabilities of recordings, of the test and of the validation subjects."""
        columns = read_columns(self.table)
        parts, recordings = columns["part"].astype(str), columns["recording"].astype(str)
        found: dict[str, dict[str, Hypnodensity]] = {TEST: {}, VALIDATION: {}}
        for night in cohort.nights:
            of_night = recordings == night.recording
            for part, nights in found.items():
                rows = of_night & (parts == part)
                if rows.any():
                    nights[night.recording] = _density(night, columns, rows)
        return found


def _density(night: StudyNight, columns: Mapping[str, Any], rows: Mask) -> Hypnodensity:
    expert = night.expert()
    probabilities = np.stack([columns[f"p_{stage}"][rows] for stage in expert.scheme.names], axis=1)
    return Hypnodensity(
        probabilities,
        expert.scheme,
        expert.epoch_seconds,
        source=night.recording,
        offset_seconds=expert.offset_seconds,
    )


def identity(config: StudyConfig, tables: str, job: Job) -> str:
    """Return a SHA-256 of all that a prediction follows from; `tables` is the fingerprint of the nights.

    How predictions are guarded is no part of it, so that they serve any guard.
    """
    paper = Profile.load(config.guard.paper)
    about: dict[str, Any] = {
        "job": {name: value for name, value in asdict(job).items() if name != "is_tuned" or value},
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
    if job.is_tuned:
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
        stager = fit_stager(config, task.job, training, tuning, shared=task.folder / SHARED)
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
                "step_seconds": stager.step_seconds,
                "forward_seconds": shortest_seconds(lambda: stager.density(test[0].table)),
                "peak_memory_mb": round(peak_memory_mb(), 1),
            },
        }
    return Prediction(facts, _rows_of(nights, densities))


def shortest_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work, the best of several times."""
    durations = []
    for _ in range(N_TIMED):
        began = time.process_time()
        work()
        durations.append(time.process_time() - began)
    return round(min(durations), 6)


def _rows_of(
    nights: Mapping[str, Sequence[StudyNight]], densities: Mapping[str, Sequence[Hypnodensity]]
) -> bytes:
    """Return the probabilities as Parquet: a row per epoch of each part's recordings."""
    pairs = [
        (part, night.recording, density)
        for part, some in nights.items()
        for night, density in zip(some, densities[part], strict=True)
    ]
    lengths = [density.n_epochs for _, _, density in pairs]
    rows = np.concatenate([density.probabilities for _, _, density in pairs]).astype(np.float32)
    columns: dict[str, Any] = {
        "part": np.repeat([part for part, _, _ in pairs], lengths),
        "recording": np.repeat([name for _, name, _ in pairs], lengths),
        "epoch": np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]),
    }
    columns |= {f"p_{stage}": rows[:, k] for k, stage in enumerate(pairs[0][2].scheme.names)}
    return columns_as_parquet(columns)


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
