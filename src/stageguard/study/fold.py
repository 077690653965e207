"""One job: fit the stager of a fold, keep its probabilities of nights it has not seen, guard and measure.

The two halves are apart, so that a change of guards trains nothing again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stageguard import schema
from stageguard.arrays import Labels, Mask
from stageguard.documents import plain
from stageguard.errors import StageGuardError, fault_text
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.nn.pytorch import torch
from stageguard.profile.profile import Profile
from stageguard.study.config import StudyConfig
from stageguard.study.jobs import FoldTask, Job, LeakError, check_leaks, sides_of
from stageguard.study.nights import StudyCohort, StudyNight
from stageguard.study.stagers import BOOSTING_OPTIONS, FLIP_FLOP_NATS, PENALTY_WEIGHTS, fit_stager
from stageguard.study.store import (
    EXPERT,
    MAJORITY_CLASS,
    SHARED,
    columns_as_parquet,
    read_columns,
    read_prediction,
)
from stageguard.study.variants import Learned, calibrate, learn, measure, measure_panel, variants_of

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


def prediction_identity(config: StudyConfig, tables: str, job: Job) -> str:
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
        options = plain(config.options(job.backbone, seed=job.seed, weight=job.weight), defaults=True)
        about["options"] = {key: value for key, value in options.items() if key != "profile"}
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
            "identity": prediction_identity(config, cohort.fingerprint, task.job),
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


CALIBRATION_SUBJECTS = 2  # with fewer, cross-validation is impossible and there is no calibrated guard


def judge_fold(
    config: StudyConfig, cohort: StudyCohort, job: Job, prediction: Prediction
) -> tuple[dict[str, Any], bytes]:
    """Guard the test nights of a job and measure them; return the record, and a table of stages per epoch."""
    fold, training, test = sides_of(config, cohort, job)
    facts, densities = prediction.facts, prediction.densities(cohort)
    tested = [densities[TEST][night.recording] for night in test]
    config = config.with_gamma(facts["chosen"].get("flip_flop_nats"))
    learned = learn(config, training)
    if job.loss == "base" and not job.label_noise:
        learned = _calibrate(config, learned, job, cohort, densities[VALIDATION])
    check_leaks(
        fold,
        training,
        test,
        {
            "the stager": facts["training_subjects"],
            "the transition matrix": learned.subjects,
            "the calibration": learned.calibrated_on,
        },
    )
    labels, decode_seconds = {}, {}
    for variant in variants_of(job.loss, config, learned):
        labels[variant.name] = variant.apply(tested, test, job.backbone)
        decode_seconds[variant.name] = shortest_seconds(
            lambda variant=variant: variant.apply(tested[:1], test[:1], job.backbone)  # type: ignore[misc]
        )
    left_out = ("training_subjects", "validation_subjects")
    record = {name: value for name, value in facts.items() if name not in left_out} | {
        "n_training_subjects": len(fold.training),
        "identity": judgement_identity(config, facts["identity"]),
        "rows": list(_rows(test, tested, labels, learned, job)),
        "covariates": {night.subject: dict(night.covariates) for night in test},
        "transitions": [list(row) for row in learned.paper.transitions],
        "stages": list(config.scheme.names),
        "epoch_seconds": training[0].table.epoch_seconds,
        "calibrated_by": _rule_of(learned.calibrated),
        "costs": facts["costs"] | {"decode_seconds": decode_seconds},
    }
    return record, _stages_of(test, tested, labels)


def judgement_identity(config: StudyConfig, prediction: str) -> str:
    """Return a SHA-256 of all that a record follows from, given the identity of the prediction."""
    robust = config.robustness
    about = {
        "prediction": prediction,
        "guard": schema.plain_table(config.guard),
        "rules": [list(robust.rare_probabilities), list(robust.minimum_scales)],
    }
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _calibrate(
    config: StudyConfig,
    learned: Learned,
    job: Job,
    cohort: StudyCohort,
    densities: Mapping[str, Hypnodensity],
) -> Learned:
    nights = [night for night in cohort.nights if night.recording in densities]
    if len({night.subject for night in nights}) < CALIBRATION_SUBJECTS:
        return learned
    rows = [densities[night.recording] for night in nights]
    return calibrate(learned, rows, nights, name=config.name, stager=job.backbone)


def _rows(
    test: Sequence[StudyNight],
    densities: Sequence[Hypnodensity],
    labels: Mapping[str, Sequence[Labels]],
    learned: Learned,
    job: Job,
) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each night under each variant."""
    for number, night in enumerate(test):
        expert, panel = night.expert(), night.panel()
        argmax = densities[number].argmax
        for name, staged in _with_references(labels, expert.labels, learned, number, job):
            row = measure(expert, staged, learned.paper.tvr_pairs)
            row |= measure_panel(panel, None if name == EXPERT else staged)
            row["changed_percent"] = 100 * float(np.mean((staged != argmax)[expert.labels >= 0]))
            yield {"recording": night.recording, "subject": night.subject, "variant": name} | _round(row)


def _with_references(
    labels: Mapping[str, Sequence[Labels]], expert: Labels, learned: Learned, number: int, job: Job
) -> Iterator[tuple[str, Labels]]:
    """Yield the stages of one night by variant.

    The job of the base loss also yields the expert's stages, and the most frequent stage in every epoch.
    """
    if job.loss == "base":
        common = np.argmax(list(learned.shares.values()))
        yield EXPERT, expert
        yield MAJORITY_CLASS, np.where(expert < 0, expert, np.int8(common))
    for name, nights in labels.items():
        yield name, nights[number]


def _round(row: Mapping[str, float]) -> dict[str, float | None]:
    """Return numbers for JSON, with six digits; NaN becomes null."""
    return {key: None if np.isnan(value) else float(f"{value:.6g}") for key, value in row.items()}


def _rule_of(fitted: Profile | None) -> str | None:
    """Return the name of the rule that the calibrated profile chose."""
    if fitted is None:
        return None
    chosen = fitted.provenance.get("chosen") or fitted.provenance.get("choice")
    return str(chosen) if chosen is not None else fitted.name


def _stages_of(
    nights: Sequence[StudyNight],
    densities: Sequence[Hypnodensity],
    labels: Mapping[str, Sequence[Labels]],
) -> bytes:
    """Return a row per epoch with the expert's stage, probabilities and the stages of every variant."""
    names = [np.repeat(n.recording, d.n_epochs) for n, d in zip(nights, densities, strict=True)]
    rows = np.concatenate([density.probabilities for density in densities]).astype(np.float32)
    columns: dict[str, Any] = {
        "recording": np.concatenate(names),
        "epoch": np.concatenate([np.arange(d.n_epochs, dtype=np.int32) for d in densities]),
        "expert": np.concatenate([night.expert().labels for night in nights]),
    }
    columns |= {f"p_{stage}": rows[:, k] for k, stage in enumerate(densities[0].scheme.names)}
    columns |= {name: np.concatenate(list(each)) for name, each in labels.items()}
    return columns_as_parquet(columns)


@dataclass(frozen=True, slots=True, eq=False)
class FoldResult:
    """The result of a job; a prediction that was stored already is None."""

    prediction: Prediction | None
    record: dict[str, Any]
    stages: bytes | None  # None if guarding failed, as the record then says


def run_fold(task: FoldTask) -> FoldResult:
    """Do one job. Apart from times, the same job gives the same numbers wherever it runs."""
    config, cohort = task.read()
    wanted = prediction_identity(config, cohort.fingerprint, task.job)
    stored = read_prediction(task.folder, task.job.key)
    if stored is not None and stored[0]["identity"] != wanted:
        stored = None
    prediction = predict_fold(task) if stored is None else Prediction(*stored)
    made = prediction if stored is None else None
    try:
        record, stages = judge_fold(config, cohort, task.job, prediction)
    except LeakError:
        raise
    except Exception as error:  # the prediction, which took longer, is kept
        text = str(error) if isinstance(error, StageGuardError) else fault_text(error)
        return FoldResult(made, failure_record(task.job, f"{task.job.key}: {text}"), None)
    return FoldResult(made, record, stages)


def failure_record(job: Job, error: str) -> dict[str, Any]:
    """Return the record of a job that failed."""
    return asdict(job) | {"key": job.key, "error": error}
