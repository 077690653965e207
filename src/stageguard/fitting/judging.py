"""Scores of decoded nights against their experts, and the choice among candidates by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stageguard.arrays import Floats
from stageguard.fitting.candidates import Candidate
from stageguard.fitting.nights import FitNight, Kind
from stageguard.guard.night import fragmentation_index
from stageguard.measures.agreement import agreement
from stageguard.measures.samples import t_quantile
from stageguard.measures.statistics import sleep_statistics
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.quantities import ALL_BOUTS, REPORTED, REPORTED_OF_STAGE
from stageguard.night.stages import StageScheme

Status = Literal[
    "chosen",
    "kept",
    "no kappa to judge by",
    "agrees by chance",
    "kappa below the default",
    "accuracy below the default",
    "errors above the default",
    "gain not sure",
]
# Columns of an array of scores; the errors of the statistics that studies report follow.
KAPPA, ACCURACY, FI, FI_DISTANCE, ERRORS = 0, 1, 2, 3, slice(4, None)

# Below this kappa, stages have nothing to do with the experts': a stager that knows nothing must not be made
# to show their totals.
LEAST_KAPPA = 0.05
# How sure the gain in the criterion over the default must be, by Student's t over subjects.
SURE_LEVEL = 0.975
ONE_PERCENT_STEP = 0.1  # one step of a percentage; a step of minutes is an epoch, of counts one


def statistics_of(kind: Kind, scheme: StageScheme) -> tuple[str, ...]:
    """Return the names of the statistics that studies report of a night, or of a day."""
    if kind == "night":
        return tuple(quantity.key for quantity in (*REPORTED, ALL_BOUTS))
    return tuple(f"{each.reported_key}_{stage}" for each in REPORTED_OF_STAGE for stage in scheme.names)


def score(night: FitNight, output: Hypnogram, kind: Kind) -> list[float]:
    """Compare an output with a night's expert over the epochs both scored; of several, their consensus.

    Fragmentation is that of the expert's sleep period, if the profile measures it; the expert's is counted
    over the same pairs of epochs, and is the mean over experts. NaN where a number does not exist.
    """
    both = (night.truth >= 0) & (output.labels >= 0)
    agreed = agreement(night.expert, output)
    labels = np.where(both, output.labels, np.int8(UNSCORED))
    fi, *of_experts = (
        fragmentation_index(np.where(both, each, np.int8(UNSCORED)), (night.period,))
        for each in (output.labels, *(scoring.labels for scoring in night.experts))
    )
    about = (output.scheme, output.epoch_seconds)
    truth = Hypnogram(np.where(both, night.truth, np.int8(UNSCORED)), *about)
    errors = _errors(truth, Hypnogram(labels, *about), kind)
    return [agreed.kappa, agreed.accuracy, fi, abs(fi - float(np.mean(of_experts))), *errors]


def _errors(expert: Hypnogram, output: Hypnogram, kind: Kind) -> list[float]:
    """Return the errors of the statistics in steps: epochs of minutes, counts, tenths of a percent.

    They are NaN if the expert's night has no such statistic. If only the output has none, sleep or REM that
    never comes counts as coming at the end, and anything else as 0.
    """
    minutes, found = output.epoch_seconds / 60.0, []
    theirs, own = sleep_statistics(expert), sleep_statistics(output)
    if kind == "night":
        found = [(each, getattr(theirs, each.key), getattr(own, each.key)) for each in REPORTED]
        found += [(ALL_BOUTS, sum(theirs.bouts.values()), sum(own.bouts.values()))]
    else:
        for each in REPORTED_OF_STAGE:
            of_stages = getattr(theirs, each.key), getattr(own, each.key)
            found += [(each, of_stages[0][stage], of_stages[1][stage]) for stage in output.scheme.names]
    step_of, end = {"min": minutes, "%": ONE_PERCENT_STEP}, output.n_epochs * minutes
    return [
        abs((quantity.is_latency * end if np.isnan(shown) else shown) - expected)
        / step_of.get(quantity.short_unit, 1.0)
        for quantity, expected, shown in found
    ]


def relative_errors(errors: Floats) -> Floats:
    """Return the mean error over statistics of every candidate and night; argmax's mean over nights is 1.

    `errors` are (n_candidates, n_nights, n_statistics), argmax first, whose mean counts as one step at least,
    so that errors still cost if argmax is right to the epoch. A night whose expert has none of the statistics
    counts as 1.
    """
    exists = ~np.isnan(errors[0])  # what the expert's night has, all candidates have
    means = np.where(exists, errors[0], 0.0).sum(axis=0) / np.maximum(exists.sum(axis=0), 1)
    shares = np.where(exists, errors, 0.0) / np.maximum(means, 1.0)
    n_existing = exists.sum(axis=1)
    return np.asarray(np.where(n_existing > 0, shares.sum(axis=2) / np.maximum(n_existing, 1), 1.0))


@dataclass(frozen=True, slots=True)
class Criterion:
    """How candidates are ranked and dropped: the parameters of `fit` of the same names."""

    fragmentation_weight: float = 2.0
    statistics_weight: float = 0.3
    keep_accuracy: bool = False

    def of(self, scores: Floats) -> Floats:
        """Return the criterion of every candidate on every night; argmax comes first."""
        errors = self.statistics_weight * relative_errors(scores[:, :, ERRORS])
        costs = self.fragmentation_weight * scores[:, :, FI_DISTANCE] + errors
        return np.asarray(scores[:, :, KAPPA] - costs)

    def __str__(self) -> str:
        """Return the rule in words."""
        kept = "kappa and accuracy are" if self.keep_accuracy else "kappa is"
        weighed = f" - {self.statistics_weight:g} (errors of sleep statistics / argmax's)"
        return (
            f"highest kappa - {self.fragmentation_weight:g} |FI - FI of the expert|"
            f"{weighed * bool(self.statistics_weight)}, mean over subjects, where cross-validated {kept} not "
            "below the default's, errors are not above its, and the gain over it is sure at the level "
            f"{SURE_LEVEL:g} of Student's t"
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


COLUMNS = ("candidate", "kappa", "accuracy", "fi", "fi_distance", "error", "criterion", "status")


def judge(
    candidates: Sequence[Candidate],
    scores: Floats,
    subjects: Sequence[str],
    criterion: Criterion,
    default: Candidate,
) -> tuple[JudgedCandidate, ...]:
    """Drop candidates that are worse than the default, or not surely better; choose the best of the rest.

    `scores` are (n_candidates, n_nights, n_metrics). The first candidate is argmax, whose errors count as 1.
    """
    values, standard = criterion.of(scores), candidates.index(default)
    columns = (*np.moveaxis(scores[:, :, :4], 2, 0), relative_errors(scores[:, :, ERRORS]), values)
    kappa, accuracy, fi, distance, error, rank = (mean_over_subjects(each, subjects) for each in columns)
    if error[0] > 0:
        error = error / error[0]  # so that argmax's is 1 over subjects, too
    statuses: list[Status] = []
    for i in range(len(candidates)):
        gain, spread = paired_error(values[i], values[standard], subjects)
        sure_gain = t_quantile(SURE_LEVEL, max(1, len(set(subjects)) - 1)) * spread
        reasons: dict[Status, Any] = {
            "no kappa to judge by": np.isnan(kappa[i]),
            "agrees by chance": kappa[i] < LEAST_KAPPA,
            "kappa below the default": kappa[i] < kappa[standard],
            "accuracy below the default": criterion.keep_accuracy and not accuracy[i] >= accuracy[standard],
            "errors above the default": criterion.statistics_weight and error[i] > error[standard],
            "gain not sure": not gain > sure_gain,
        }
        statuses.append(next((status for status, holds in reasons.items() if holds), "kept"))
    kept = [i for i, status in enumerate(statuses) if status == "kept"]
    statuses[standard] = "kept"
    statuses[max(kept, key=lambda i: rank[i], default=standard)] = "chosen"
    rows = zip(kappa, accuracy, fi, distance, error, rank, strict=True)
    return tuple(
        JudgedCandidate(candidate, status, *map(float, row))
        for candidate, status, row in zip(candidates, statuses, rows, strict=True)
    )


def mean_over_subjects(values: Floats, subjects: Sequence[str]) -> Floats:
    """Return the mean over subjects of each candidate, over the nights known for all candidates.

    Kappa does not exist where expert and output show one and the same stage throughout; such a night must
    not count for one candidate only.
    """
    means = _by_subject(np.where(np.isnan(values).any(axis=0), np.nan, values), subjects)
    exists = ~np.isnan(means).any(axis=0)
    return np.asarray(means[:, exists].mean(axis=1) if exists.any() else np.full(len(values), np.nan))


def paired_error(first: Floats, second: Floats, subjects: Sequence[str]) -> tuple[float, float]:
    """Return the mean difference over subjects, first minus second, and its standard error."""
    # people are the unit: nights of one person go up and down together
    (differences,) = _by_subject((first - second)[None], subjects)
    known = differences[~np.isnan(differences)]
    if len(known) < 2:
        return float(known.sum() if len(known) else np.nan), float(np.inf if len(known) else np.nan)
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known)))


def _by_subject(values: Floats, subjects: Sequence[str]) -> Floats:
    """Return means over each subject's nights, (n_candidates, n_subjects); NaN where none is known."""
    names = list(dict.fromkeys(subjects))
    belongs = np.array([[subject == name for name in names] for subject in subjects], dtype=np.float64)
    exists = ~np.isnan(values)
    n_existing = exists @ belongs
    sums = np.where(exists, values, 0.0) @ belongs
    return np.asarray(np.where(n_existing > 0, sums / np.maximum(n_existing, 1), np.nan))
