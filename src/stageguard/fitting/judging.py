"""Judge candidates by their cross-validated scores: drop those that are not surely better, and choose one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from stageguard.base.arrays import Floats, Mask
from stageguard.fitting.candidates import (
    FEW_SUBJECTS_GAIN,
    FEWEST_TUNED_SUBJECTS,
    STRENGTH_RULES,
    Candidate,
)
from stageguard.fitting.scoring import Scores, mean_over_subjects, paired_error, paired_errors
from stageguard.measures.groups import t_quantile

Status = Literal[
    "chosen",
    "kept",
    "no kappa to judge by",
    "agrees by chance",
    "kappa below argmax",
    "accuracy below argmax",
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
        *others, last = ["argmax", *(rule.rule for rule in STRENGTH_RULES)]
        return (
            f"highest kappa - {self.fragmentation_weight:g} |FI - FI of the expert|{errors}, mean over "
            f"subjects, where cross-validated {kept} not below argmax's and the gain over argmax exceeds its "
            f"standard error; rules other than {', '.join(others)} and {last}, and stage shares, only where "
            f"they are better by {SURELY:g} standard errors, and those that shift evidence between stages "
            f"only where kappa gains at the level {SURE_LEVEL:g} of Student's t"
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
    candidates: Sequence[Candidate], scores: Scores, subjects: Sequence[str], criterion: Criterion
) -> tuple[JudgedCandidate, ...]:
    """Drop candidates that are worse than argmax, the first one, or not surely better; choose among the rest.

    The best plain candidate that does not shift evidence is chosen, unless another one is surely better. A
    refined candidate must be surely better than the same candidate without its refinement.
    """
    values = criterion.of(scores)
    columns = (scores.kappa, scores.accuracy, scores.fi, scores.fi_distance, scores.error, values)
    kappa, accuracy, fi, fi_distance, error, ranks = (mean_over_subjects(each, subjects) for each in columns)
    if error[0] > 0:
        error = error / error[0]  # so that argmax's is 1 over subjects, too
    statuses = _compared_with_argmax(kappa, accuracy, values, subjects, criterion)
    _drop_shifts_without_gain(statuses, candidates, scores.kappa, subjects)
    is_simple = np.array([candidate.is_plain and not candidate.shifts for candidate in candidates])
    best = _highest(ranks, is_simple & _is_kept(statuses))
    _drop_not_better_than(best, ~is_simple, statuses, candidates, scores.kappa, values, subjects)
    others = ~is_simple & _is_kept(statuses)
    statuses[_highest(ranks, others) if others.any() else best] = "chosen"
    means = zip(kappa, accuracy, fi, fi_distance, error, ranks, strict=True)
    return tuple(
        JudgedCandidate(candidate, status, *map(float, row))
        for candidate, status, row in zip(candidates, statuses, means, strict=True)
    )


def _compared_with_argmax(
    kappa: Floats, accuracy: Floats, values: Floats, subjects: Sequence[str], criterion: Criterion
) -> list[Status]:
    """Return for each candidate whether it is kept, or why not."""
    statuses: list[Status] = ["kept"]
    gains = paired_errors(values[1:], values[0], subjects)
    for i, (gain, error) in enumerate(gains, start=1):
        if np.isnan(kappa[i]):
            statuses.append("no kappa to judge by")
        elif kappa[i] < LEAST_KAPPA:
            statuses.append("agrees by chance")
        elif kappa[i] < kappa[0]:
            statuses.append("kappa below argmax")
        elif criterion.keep_accuracy and not accuracy[i] >= accuracy[0]:
            statuses.append("accuracy below argmax")
        else:
            statuses.append("kept" if gain > error else "gain within its error")
    return statuses


def _drop_shifts_without_gain(
    statuses: list[Status], candidates: Sequence[Candidate], kappa: Floats, subjects: Sequence[str]
) -> None:
    """Drop candidates that shift evidence between stages without a sure gain of kappa over argmax."""
    n_subjects = len(set(subjects))
    for i, gained in enumerate(paired_errors(kappa, kappa[0], subjects)):
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
    return gain > _sure_errors(n_subjects) * error


@cache
def _sure_errors(n_subjects: int) -> float:
    return t_quantile(SURE_LEVEL, n_subjects - 1)


def _is_kept(statuses: Sequence[Status]) -> Mask:
    return np.array([status == "kept" for status in statuses])


def _highest(values: Floats, allowed: Mask) -> int:
    """Return the index of the highest allowed value, in a tie the first; 0 if there is none."""
    left = np.where(allowed & ~np.isnan(values), values, -np.inf)
    return int(np.argmax(left)) if np.isfinite(left).any() else 0
