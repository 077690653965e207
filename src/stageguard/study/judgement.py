"""Second half of a job: guard stored probabilities in every way, and measure the stages. Trains nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Labels
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.profile.profile import Profile
from stageguard.study.config import StudyConfig
from stageguard.study.jobs import Job, check_leaks, sides_of
from stageguard.study.measurement import measure, measure_panel
from stageguard.study.nights import StudyCohort, StudyNight
from stageguard.study.prediction import TEST, VALIDATION, Prediction, shortest_seconds
from stageguard.study.store import EXPERT, MAJORITY_CLASS, columns_as_parquet
from stageguard.study.variants import Learned, calibrate, learn, variants_of

CALIBRATION_SUBJECTS = 2  # with fewer, cross-validation is impossible and there is no calibrated guard


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """The result of a job: a record in JSON types, and a Parquet table of stages per epoch."""

    record: dict[str, Any]
    stages: bytes


def judge_fold(config: StudyConfig, cohort: StudyCohort, job: Job, prediction: Prediction) -> Judgement:
    """Guard the test nights of a job and measure the results."""
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
    trained_as = Profile.from_dict(facts["profile"]) if "profile" in facts else learned.base
    labels, decode_seconds = {}, {}
    for variant in variants_of(job.loss, config, learned, trained_as):
        labels[variant.name] = variant.apply(tested, test, job.backbone)
        decode_seconds[variant.name] = shortest_seconds(
            lambda variant=variant: variant.apply(tested[:1], test[:1], job.backbone)  # type: ignore[misc]
        )
    left_out = ("profile", "training_subjects", "validation_subjects")
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
    return Judgement(record, _stages_of(test, tested, labels))


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
        argmax = densities[number].argmax()
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
