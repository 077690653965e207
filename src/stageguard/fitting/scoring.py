"""Scores of decoded nights against their experts, night by night and averaged by subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from stageguard.arrays import Floats, Labels, Mask, count_true
from stageguard.fitting.endpoints import SleepEndpoints
from stageguard.fitting.material import FitNight
from stageguard.measures.agreement import cohen_kappas


class OutputScore(NamedTuple):  # a dataclass takes three times as long to make, and fits make many
    """How one decoded night compares with its expert; NaN where a number does not exist."""

    kappa: float
    accuracy: float
    fi: float
    fi_expert: float
    errors: tuple[float, ...] = ()  # of the statistics that studies report

    @property
    def fi_distance(self) -> float:
        """Distance of its fragmentation index from the expert's."""
        return abs(self.fi - self.fi_expert)


def score_night(night: FitNight, outputs: Sequence[Labels], endpoints: SleepEndpoints) -> list[OutputScore]:
    """Compare outputs with a night's expert over the epochs both scored; of several experts, their consensus.

    Fragmentation is that of the expert's sleep period, if the profile measures it; the expert's is counted
    over the same pairs of epochs, and is the mean over experts.
    """
    labels = np.array(outputs)  # (n_outputs, n_epochs)
    both = (night.truth >= 0) & (labels >= 0)
    n_stages = endpoints.scheme.n_stages
    # one count for all outputs: each has cells of its own
    first_cells = np.arange(len(labels), dtype=np.int32)[:, None] * n_stages**2
    cells = (first_cells + (night.truth * np.int32(n_stages) + labels))[both]
    confusions = np.bincount(cells, minlength=len(labels) * n_stages**2).reshape(-1, n_stages, n_stages)
    n_both = count_true(both)
    n_right = np.trace(confusions, axis1=1, axis2=2)
    pairs = both[:, 1:] & both[:, :-1]
    first, stop = night.expert_period
    pairs[:, :first] = pairs[:, max(first, stop - 1) :] = False
    fi = _fragmentation(labels, pairs)
    fi_expert = np.mean(
        [_fragmentation(scoring[None], pairs & _pairs(scoring)) for scoring in night.scorings], axis=0
    )
    errors = endpoints.errors(night.truth, labels, both)
    with np.errstate(invalid="ignore"):
        accuracy = n_right / n_both
    columns = (cohen_kappas(confusions).tolist(), accuracy.tolist(), fi.tolist(), fi_expert.tolist())
    return [
        OutputScore(*row, tuple(steps))
        for row, steps in zip(zip(*columns, strict=True), errors.tolist(), strict=True)
    ]


def _pairs(scoring: Labels) -> Mask:
    return np.asarray((scoring[1:] >= 0) & (scoring[:-1] >= 0))


def _fragmentation(labels: Labels, pairs: Mask) -> Floats:
    changes = count_true((labels[:, 1:] != labels[:, :-1]) & pairs)
    with np.errstate(invalid="ignore"):
        return np.asarray(changes / count_true(pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Scores of several candidates on the same nights, argmax first."""

    kappa: Floats  # (n_candidates, n_nights)
    accuracy: Floats
    fi: Floats
    fi_distance: Floats
    error: Floats  # of the statistics that studies report, as a multiple of argmax's mean

    @classmethod
    def of(cls, rows: Sequence[Sequence[OutputScore]]) -> Scores:
        """Arrange scores, one row per candidate."""
        names = ("kappa", "accuracy", "fi", "fi_distance")
        plain = {name: np.array([[getattr(score, name) for score in row] for row in rows]) for name in names}
        errors = np.array([[score.errors for score in row] for row in rows])
        return cls(**plain, error=_relative(errors))

    def of_nights(self, order: Sequence[int]) -> Scores:
        """Return the scores of some nights, or of all in another order."""
        return Scores(*(getattr(self, f.name)[:, order] for f in fields(self)))


def _relative(errors: Floats) -> Floats:
    """Return the mean error over statistics of every candidate and night; argmax's mean over nights is 1.

    Argmax's mean counts as one step at least, so that errors still cost if argmax is right to the epoch. A
    night whose expert has none of the statistics counts as 1.
    """
    # what the expert's night has, all candidates have
    exists = ~np.isnan(errors[0])  # (n_nights, n_statistics)
    means = np.where(exists, errors[0], 0.0).sum(axis=0) / np.maximum(exists.sum(axis=0), 1)
    shares = np.where(exists, errors, 0.0) / np.maximum(means, 1.0)
    n_existing = exists.sum(axis=1)
    return np.asarray(np.where(n_existing > 0, shares.sum(axis=2) / np.maximum(n_existing, 1), 1.0))


def by_subject(values: Floats, subjects: Sequence[str]) -> Floats:
    """Return means over each subject's nights, (n_candidates, n_subjects); NaN where none is known."""
    belongs = _belongs(tuple(subjects))
    exists = ~np.isnan(values)
    n_existing = exists @ belongs
    sums = np.where(exists, values, 0.0) @ belongs
    return np.asarray(np.where(n_existing > 0, sums / np.maximum(n_existing, 1), np.nan))


@lru_cache(maxsize=4)
def _belongs(subjects: tuple[str, ...]) -> Floats:
    """Return 1 where a night (row) is of a subject (column)."""
    names = dict.fromkeys(subjects)
    return np.array([[subject == name for name in names] for subject in subjects], dtype=np.float64)


def mean_over_subjects(values: Floats, subjects: Sequence[str]) -> Floats:
    """Return the mean over subjects of each candidate, over the subjects known for all of them.

    Kappa does not exist where expert and output show one and the same stage throughout; such a night must
    not count for one candidate only.
    """
    shared = np.where(np.isnan(values).any(axis=0), np.nan, values)
    means = by_subject(shared, subjects)
    exists = ~np.isnan(means).any(axis=0)
    if not exists.any():
        return np.full(len(values), np.nan)
    return np.asarray(means[:, exists].mean(axis=1))


def paired_error(first: Floats, second: Floats, subjects: Sequence[str]) -> tuple[float, float]:
    """Return the mean difference over subjects, first minus second, and its standard error."""
    return paired_errors(first[None], second, subjects)[0]


def paired_errors(rows: Floats, second: Floats, subjects: Sequence[str]) -> list[tuple[float, float]]:
    """Return the mean difference over subjects, and its standard error, of each candidate to `second`."""
    # people are the unit: nights of one person go up and down together
    differences = by_subject(rows - second, subjects)
    exists = ~np.isnan(differences)
    if exists.all():
        means, errors = _means_and_errors(differences)
        return list(zip(means.tolist(), errors.tolist(), strict=True))
    pairs = [_means_and_errors(row[mask]) for row, mask in zip(differences, exists, strict=True)]
    return [(float(mean), float(error)) for mean, error in pairs]


def _means_and_errors(values: Floats) -> tuple[Floats, Floats]:
    """Return means over the last axis and their standard errors: NaN for no value, infinite for one."""
    n = values.shape[-1]
    if n > 1:
        return values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(n)
    unknown = np.full(values.shape[:-1], np.nan)
    return (values.sum(axis=-1), np.full(values.shape[:-1], np.inf)) if n else (unknown, unknown)
