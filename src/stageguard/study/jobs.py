"""The jobs of a study, one stager of one fold each: whom a fold trains and tests, and what must not leak."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import InputError, MissingFileError, StageGuardError
from stageguard.study.config import Loss, Split, StudyConfig, study_of
from stageguard.study.nights import StudyCohort, StudyNight, load_cohort


class LeakError(StageGuardError, ValueError):
    """Data of a test subject was used in training."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Subjects of one fold; nobody is in two of its groups."""

    number: int
    training: tuple[str, ...]
    test: tuple[str, ...]

    def nights_of(self, nights: Iterable[StudyNight], *, test: bool) -> list[StudyNight]:
        """Return the training or the test nights."""
        subjects = set(self.test if test else self.training)
        return [night for night in nights if night.subject in subjects]


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
        tested = [tuple(sorted(part)) for part in np.array_split(order, n_folds)]
        tested = [tuple(str(name) for name in part) for part in tested]
    else:
        tested = [(name,) for name in names[: split.folds]]
    folds = [
        Fold(number, tuple(name for name in names if name not in part), part)
        for number, part in enumerate(tested)
    ]
    if len(folds[0].training) < 2:
        raise InputError(f"a fold leaves {len(folds[0].training)} subjects to train on, expected at least 2.")
    return tuple(folds)


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
    for what, of_training, of_test in (
        ("subject", {n.subject for n in training}, {n.subject for n in test}),
        ("recording", {n.recording for n in training}, {n.recording for n in test}),
    ):
        if crossing := sorted(of_training & of_test):
            raise LeakError(f"fold {fold.number}: {what} {crossing[0]!r} is trained on and tested.")
    by_content = {_content(night): night.recording for night in training}
    for night in test:
        if (same := by_content.get(_content(night))) is not None:
            raise LeakError(
                f"fold {fold.number}: test recording {night.recording!r} is training recording {same!r} "
                "under another name. Remove one of them, or give them one subject."
            )
    for what, subjects in learned.items():
        if crossing := sorted(set(subjects) - set(fold.training)):
            raise LeakError(
                f"fold {fold.number}: {what} was learned on {crossing[0]!r}, who is not a training subject."
            )


def _content(night: StudyNight) -> str:
    return hashlib.sha256(night.table.values.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Job:
    """One network of one fold."""

    backbone: str
    loss: Loss
    weight: float  # lambda
    seed: int
    label_noise: float  # share of training epochs with another stage than the expert's
    fold: int
    is_tuned: bool = False  # whether a subject chooses another lambda than `weight`

    @property
    def key(self) -> str:
        """Name of the job's files."""
        noise = f"-noise{self.label_noise:g}" if self.label_noise else ""
        weight = "" if self.loss != "penalty" else "-chosen" if self.is_tuned else f"{self.weight:g}"
        return f"{self.backbone}-{self.loss}{weight}-seed{self.seed}{noise}-fold{self.fold:02d}"

    @property
    def state(self) -> str:
        """Name of the state that the jobs of every lambda begin with."""
        return replace(self, loss="base", weight=0.0).key


def jobs_of(config: StudyConfig, n_folds: int) -> list[Job]:
    """Return every job: first the main comparison fold after fold, then what is varied, likewise.

    An interrupted study so has some results of every network before it varies one of them.
    """
    varied, robust, seed = config.varied, config.robustness, config.seed
    is_tuned = config.split.tuning_subject is not None
    losses: list[tuple[Loss, float]] = [("base", 0.0)]
    if config.has_penalty:
        losses.append(("penalty", config.guard.penalty_weight))
    wanted: dict[Job, None] = {}
    for fold in range(n_folds):
        wanted |= {
            Job(name, loss, w, seed, 0.0, fold, is_tuned and loss == "penalty"): None
            for loss, w in losses
            for name in config.backbones
        }
        wanted |= {Job(name, "base", 0.0, seed, 0.0, fold): None for name in config.stagers}
    for fold in range(n_folds):
        jobs = []
        if config.has_penalty:
            jobs += [Job(varied, "penalty", w, seed, 0.0, fold) for w in robust.penalty_weights if w]
        for other in robust.seeds:
            jobs += [Job(varied, loss, w, other, 0.0, fold) for loss, w in losses]
        for noise in robust.label_noise:
            jobs += [Job(varied, loss, w, seed, noise, fold) for loss, w in losses]
        wanted |= dict.fromkeys(jobs)
    return list(wanted)


@dataclass(frozen=True, slots=True)
class FoldTask:
    """A job with everything that a worker needs; it can be sent to other processes and machines."""

    study: Mapping[str, Any]  # the configuration's document
    cohort: Path  # the file of nights, which every worker must be able to read
    job: Job
    error: str | None = None

    @property
    def folder(self) -> Path:
        """Folder of the study."""
        return self.cohort.parent

    @property
    def id(self) -> str:
        """Name of the job."""
        return self.job.key

    @property
    def file(self) -> str:
        """Name of the job in an error."""
        return self.job.key

    def read(self) -> tuple[StudyConfig, StudyCohort]:
        """Return the configuration and the nights."""
        try:
            cohort = _nights(self.cohort, self.cohort.stat().st_mtime)
        except FileNotFoundError:
            raise MissingFileError(
                f"{self.cohort}: is not to be seen from this worker. Write the study to a folder that all "
                "share."
            ) from None
        return study_of(self.study), cohort


@lru_cache(maxsize=2)
def _nights(path: Path, modified: float) -> StudyCohort:
    return load_cohort(path)


def sides_of(
    config: StudyConfig, cohort: StudyCohort, job: Job
) -> tuple[Fold, list[StudyNight], list[StudyNight]]:
    """Return the fold of a job, and its training and test nights."""
    fold = make_folds(cohort.subjects, config.split, config.seed)[job.fold]
    training, test = (fold.nights_of(cohort.nights, test=is_test) for is_test in (False, True))
    return fold, training, test
