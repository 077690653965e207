"""Judge candidates by their cross-validated scores: drop those that are not surely better, and choose one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from stageguard.arrays import Floats, Mask
from stageguard.fitting.candidates import (
    FEW_SUBJECTS_GAIN,
    FEWEST_TUNED_SUBJECTS,
    STRENGTH_RULES,
    Candidate,
)
from stageguard.fitting.scoring import Scores, mean_over_subjects, paired_error, paired_errors
from stageguard.measures.samples import t_quantile

Status = Literal[
    "chosen",
    "kept",
    "no kappa to judge by",
    "agrees by chance",
    "kappa below the default",
    "accuracy below the default",
    "errors above the default",
    "gain within its error",
    "kappa not surely gained",
    "not surely better",
]
COLUMNS = ("candidate", "kappa", "accuracy", "fi", "fi_distance", "error", "criterion", "status")

# Below this kappa, stages have nothing to do with the experts': a stager that knows nothing must not be made
# to show their totals.
LEAST_KAPPA = 0.05
# Standard errors by which other rules must be better than the best plain rule: of many candidates, one is the
# best by chance.
SURELY = 2.0
# How sure a gain of kappa must be, by Student's t over subjects, if evidence is shifted between stages. Of
# 646 draws of 5 to 26 nights from the tasks of studies/guard-on-real-data, 18 lost .01 of kappa or more
# without it, all by stage totals, biases, shares or lifting; with it two did, one of them by lifting.
SURE_LEVEL = 0.975
# How sure a gain in the criterion over the default must be, by Student's t over subjects. In draws of five
# nights, candidates that gained one standard error had up to .17 more error on other people than the default.
BETTER_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Criterion:
    """How candidates are ranked and dropped: the parameters of `fit` of the same names."""

    fragmentation_weight: float = 2.0
    statistics_weight: float = 0.3
    keep_accuracy: bool = False

    def of(self, scores: Scores) -> Floats:
        """Return the criterion of every candidate on every night."""
        costs = self.fragmentation_weight * scores.fi_distance + self.statistics_weight * scores.error
        return np.asarray(scores.kappa - costs)

    def __str__(self) -> str:
        """Return the rule in words."""
        kept = "kappa and accuracy are" if self.keep_accuracy else "kappa is"
        errors = (
            f" - {self.statistics_weight:g} (errors of sleep statistics / argmax's)"
            if self.statistics_weight
            else ""
        )
        *others, last = ["argmax", "the default", *(rule.rule for rule in STRENGTH_RULES)]
        return (
            f"highest kappa - {self.fragmentation_weight:g} |FI - FI of the expert|{errors}, mean over "
            f"subjects, where cross-validated {kept} not below those of the default, which needs no scored "
            "nights, errors are not above its, and the gain over it is sure at the level "
            f"{BETTER_LEVEL:g} of Student's t; rules other than {', '.join(others)} and {last}, and stage "
            f"shares, only where they are better by {SURELY:g} standard errors, and those that shift "
            f"evidence between stages only where kappa gains at the level {SURE_LEVEL:g} of Student's t"
        )


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """One candidate's cross-validated scores, means over subjects, and what they led to."""

    candidate: Candidate
    status: Status
    kappa: float
    accuracy: float
    fi: float
    fi_distance: float
    error: float
    criterion: float

    def cells(self) -> tuple[Any, ...]:
        """Return what a table shows, in the order of COLUMNS."""
        return (self.candidate.name, *(getattr(self, name) for name in COLUMNS[1:]))


def judge(
    candidates: Sequence[Candidate],
    scores: Scores,
    subjects: Sequence[str],
    criterion: Criterion,
    default: Candidate,
) -> tuple[JudgedCandidate, ...]:
    """Drop candidates that are worse than the default, or not surely better; choose among the rest.

    The first candidate is argmax, whose errors count as 1. The best plain candidate that does not shift
    evidence is chosen, unless another one is surely better. A refined candidate must be surely better than
    the same candidate without its refinement.
    """
    values, standard = criterion.of(scores), candidates.index(default)
    columns = (scores.kappa, scores.accuracy, scores.fi, scores.fi_distance, scores.error, values)
    kappa, accuracy, fi, fi_distance, error, ranks = (mean_over_subjects(each, subjects) for each in columns)
    if error[0] > 0:
        error = error / error[0]  # so that argmax's is 1 over subjects, too
    gains = paired_errors(values, values[standard], subjects)
    statuses = [
        _compared(means, (kappa[standard], accuracy[standard], error[standard]), criterion)
        for means in zip(kappa, accuracy, error, strict=True)
    ]
    _drop_gains_by_chance(statuses, candidates, gains, len(set(subjects)))
    statuses[standard] = "kept"
    _drop_shifts_without_gain(statuses, candidates, scores.kappa, standard, subjects)
    is_simple = np.array([candidate.is_plain and not candidate.shifts for candidate in candidates])
    best = _highest(ranks, is_simple & _is_kept(statuses), standard)
    _drop_not_better_than(best, ~is_simple, statuses, candidates, scores.kappa, values, subjects)
    others = ~is_simple & _is_kept(statuses)
    statuses[_highest(ranks, others, best)] = "chosen"
    rows = zip(kappa, accuracy, fi, fi_distance, error, ranks, strict=True)
    return tuple(
        JudgedCandidate(candidate, status, *map(float, row))
        for candidate, status, row in zip(candidates, statuses, rows, strict=True)
    )


def _compared(means: Sequence[float], default: Sequence[float], criterion: Criterion) -> Status:
    """Return whether a candidate is kept, or why not, by kappa, accuracy and error of it and the default."""
    kappa, accuracy, error = means
    if np.isnan(kappa):
        return "no kappa to judge by"
    if kappa < LEAST_KAPPA:
        return "agrees by chance"
    if kappa < default[0]:
        return "kappa below the default"
    if criterion.keep_accuracy and not accuracy >= default[1]:
        return "accuracy below the default"
    if criterion.statistics_weight and error > default[2]:
        return "errors above the default"
    return "kept"


def _drop_gains_by_chance(
    statuses: list[Status],
    candidates: Sequence[Candidate],
    gains: Sequence[tuple[float, float]],
    n_subjects: int,
) -> None:
    """Drop candidates that are not surely better than the default, by gains in the criterion.

    With few subjects, those that shift evidence between stages have a bar of their own, in kappa.
    """
    for i, (gain, error) in enumerate(gains):
        is_few = candidates[i].shifts and n_subjects < FEWEST_TUNED_SUBJECTS
        n_errors = 1.0 if is_few else _sure_errors(n_subjects, BETTER_LEVEL)
        if statuses[i] == "kept" and not gain > n_errors * error:
            statuses[i] = "gain within its error"


def _drop_shifts_without_gain(
    statuses: list[Status],
    candidates: Sequence[Candidate],
    kappa: Floats,
    standard: int,
    subjects: Sequence[str],
) -> None:
    """Drop candidates that shift evidence between stages without a sure gain of kappa over the default."""
    n_subjects = len(set(subjects))
    for i, gained in enumerate(paired_errors(kappa, kappa[standard], subjects)):
        if statuses[i] == "kept" and candidates[i].shifts and not _surely_gains(*gained, n_subjects):
            statuses[i] = "kappa not surely gained"


def _drop_not_better_than(
    best: int,
    judged: Mask,
    statuses: list[Status],
    candidates: Sequence[Candidate],
    kappa: Floats,
    values: Floats,
    subjects: Sequence[str],
) -> None:
    """Drop those of the judged candidates that are not surely better than the best simple one."""
    kept = np.flatnonzero(judged & _is_kept(statuses)).tolist()
    gains = paired_errors(values[kept], values[best], subjects)
    gains_of_kappa = paired_errors(kappa[kept], kappa[best], subjects)
    for i, (gain, error), of_kappa in zip(kept, gains, gains_of_kappa, strict=True):
        candidate = candidates[i]
        if candidate.usual != candidate and candidate.usual in candidates:
            usual = candidates.index(candidate.usual)
            gain, error = paired_error(values[i], values[usual], subjects)
        is_better = gain > (1.0 if candidate.is_plain else SURELY) * error
        if candidate.shifts:
            is_better = is_better and _surely_gains(*of_kappa, len(set(subjects)))
        statuses[i] = "kept" if is_better else "not surely better"


def _surely_gains(gain: float, error: float, n_subjects: int) -> bool:
    """Whether kappa gains enough to shift evidence between stages; with few subjects, by a fixed gain."""
    if n_subjects < FEWEST_TUNED_SUBJECTS:
        return gain > error and gain >= FEW_SUBJECTS_GAIN
    return gain > _sure_errors(n_subjects, SURE_LEVEL) * error


@cache
def _sure_errors(n_subjects: int, level: float) -> float:
    return t_quantile(level, n_subjects - 1)


def _is_kept(statuses: Sequence[Status]) -> Mask:
    return np.array([status == "kept" for status in statuses])


def _highest(values: Floats, allowed: Mask, otherwise: int) -> int:
    """Return the index of the highest allowed value, in a tie the first; `otherwise` if there is none."""
    left = np.where(allowed & ~np.isnan(values), values, -np.inf)
    return int(np.argmax(left)) if np.isfinite(left).any() else otherwise
