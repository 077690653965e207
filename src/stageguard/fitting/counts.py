"""CohortCounts of experts' scorings: transitions, stage shares, bouts and their lengths.

A pair is two adjacent scored epochs. A bout is complete if a scored epoch of another stage is on either side.
A bout that begins so, but is cut by the end or a gap, lasts at least its length. On a night with several
scorers, each counts in full for bouts, and by its share for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stageguard.arrays import Floats, Ints, Labels, Mask
from stageguard.guard.evidence import fragmentation_index
from stageguard.measures.bouts import bouts_of, pair_counts
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.period import Period
from stageguard.night.stages import StageScheme

# Rows of the base profile count as this many epochs, a twentieth of them spread evenly, so that a switch
# which nobody happened to score is rare and not forbidden.
BASE_EPOCHS = 20.0
EVEN_SHARE = 0.05
BASE_SHARE_EPOCHS = 1.0  # keeps the share of a stage that never occurs above 0

# First lengths, in epochs, of the stretches within which the hazard is taken as constant.
HAZARD_STEPS = (1, 2, 3, 4, 5, 7, 9, 12, 16, 21)
HAZARD_PRIOR_BOUTS = 5.0  # number of bouts that the constant hazard counts for in each stretch
FEWEST_BOUTS = 30  # below it neither a minimum nor a table of lengths is proposed
SHORTER_ALLOWED = 0.10  # of complete bouts may be shorter than a proposed minimum
LONGEST_MINIMUM_EPOCHS = 8
FEWEST_EXITS = 100  # below it no switch of a stage is called rare
RARE_SHARE = 0.02  # of the exits of a stage, at most, with 95 % confidence


class BoutLengths(NamedTuple):
    """Bouts with a known beginning; arrays of shape (n_bouts,)."""

    stage: Labels
    epochs: Ints
    is_complete: Mask
    scorer: Ints

    @classmethod
    def joined(cls, parts: Sequence[BoutLengths]) -> BoutLengths:
        """Return the bouts of several nights or scorers."""
        columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return cls(*columns)

    def where(self, mask: Mask) -> BoutLengths:
        """Return some of the bouts."""
        columns: list[Any] = [column[mask] for column in self]
        return BoutLengths(*columns)

    def of_stage(self, label: int) -> BoutLengths:
        """Return the bouts of one stage."""
        return self.where(self.stage == label)


@dataclass(frozen=True, slots=True, eq=False)
class ScoringCounts:
    """The counts of one night's scorings."""

    pairs: Floats  # (n_stages, n_stages) adjacent epochs, mean over scorers
    stage_epochs: Floats  # (n_stages,) mean over scorers
    fragmentation_index: float  # mean over scorers, NaN without pairs
    bouts: BoutLengths  # of all scorers


def count_night(
    scorings: Sequence[Labels], scorers: Sequence[int], n_stages: int, periods: Sequence[Period] | None = None
) -> ScoringCounts:
    """Count one night; `scorers` are the numbers of who made each scoring.

    Fragmentation is that of `periods`, by default of the recording.
    """
    pairs = np.array([pair_counts(labels, n_stages) for labels in scorings], dtype=np.float64)
    periods = periods or [(0, len(labels)) for labels in scorings]
    indices = np.array([fragmentation_index(*each) for each in zip(scorings, zip(periods), strict=True)])
    exists = ~np.isnan(indices)
    epochs = [np.bincount(labels[labels >= 0], minlength=n_stages) for labels in scorings]
    return ScoringCounts(
        pairs=pairs.mean(axis=0),
        stage_epochs=np.mean(epochs, axis=0),
        fragmentation_index=float(indices[exists].mean()) if exists.any() else np.nan,
        bouts=BoutLengths.joined(
            [_known_bouts(labels, scorer) for labels, scorer in zip(scorings, scorers, strict=True)]
        ),
    )


def _known_bouts(labels: Labels, scorer: int) -> BoutLengths:
    """Return the bouts of a scoring that begin after a scored epoch."""
    bouts = bouts_of(labels)
    begins = np.zeros(len(bouts.stages), dtype=bool)
    begins[1:] = (bouts.stages[:-1] != UNSCORED) & (bouts.stages[1:] != UNSCORED)
    scorers = np.full(len(begins), scorer, dtype=np.int64)
    return BoutLengths(bouts.stages, bouts.lengths.astype(np.int64), bouts.complete, scorers).where(begins)


@dataclass(frozen=True, eq=False)
class CohortCounts:
    """The counts of several nights together."""

    nights: tuple[ScoringCounts, ...]
    scheme: StageScheme

    @cached_property
    def pairs(self) -> Floats:
        """Adjacent epochs (from, to), stays included."""
        return np.asarray(np.sum([night.pairs for night in self.nights], axis=0))

    @cached_property
    def stage_epochs(self) -> Floats:
        """Scored epochs per stage."""
        return np.asarray(np.sum([night.stage_epochs for night in self.nights], axis=0))

    @property
    def fragmentation_index(self) -> float:
        """Plain mean over nights."""
        indices = [night.fragmentation_index for night in self.nights]
        indices = [value for value in indices if not np.isnan(value)]
        return float(np.mean(indices)) if indices else np.nan

    @cached_property
    def bouts(self) -> BoutLengths:
        """All bouts with a known beginning."""
        return BoutLengths.joined([night.bouts for night in self.nights])

    def n_complete_bouts(self) -> Mapping[str, int]:
        """Complete bouts per stage."""
        complete = self.bouts.where(self.bouts.is_complete)
        n_bouts = np.bincount(complete.stage, minlength=self.scheme.n_stages).tolist()
        return dict(zip(self.scheme.names, n_bouts, strict=True))

    def transitions(self, base: Floats) -> Floats:
        """Return transition probabilities, smoothed towards those of a base profile."""
        n_stages = len(base)
        # the even share keeps a switch possible that neither the nights nor the base profile have seen
        prior = (1.0 - EVEN_SHARE) * base / base.sum(axis=1, keepdims=True) + EVEN_SHARE / n_stages
        smoothed = self.pairs + BASE_EPOCHS * prior
        return np.asarray(smoothed / smoothed.sum(axis=1, keepdims=True))

    def shares(self) -> Floats:
        """Return the share of each stage among scored epochs, all above 0."""
        smoothed = self.stage_epochs + BASE_SHARE_EPOCHS
        return np.asarray(smoothed / smoothed.sum())

    def minimum_epochs(self) -> dict[str, int]:
        """Return the minimum bouts that experts keep to: at most a tenth of a stage's bouts are shorter.

        With several scorers, this holds for each who scored enough bouts of the stage.
        """
        complete = self.bouts.where(self.bouts.is_complete)
        minima = {}
        for label, name in enumerate(self.scheme.names):
            bouts = complete.of_stage(label)
            if len(bouts.stage) < FEWEST_BOUTS:
                continue
            # experts differ in how short a bout they score, and the minimum must suit the keenest
            by_scorer = [bouts.epochs[bouts.scorer == scorer] for scorer in np.unique(bouts.scorer)]
            habits = [bouts.epochs, *(lengths for lengths in by_scorer if len(lengths) >= FEWEST_BOUTS)]
            minimum = 1
            while minimum < LONGEST_MINIMUM_EPOCHS and all(
                np.mean(lengths <= minimum) <= SHORTER_ALLOWED for lengths in habits
            ):
                minimum += 1
            if minimum > 1:
                minima[name] = minimum
        return minima

    def rare_pairs(self) -> tuple[tuple[str, str, int, int], ...]:
        """Return switches (from, to, count, exits) that are surely below 2 % of the exits of their stage."""
        names, rare = self.scheme.names, []
        for i, source in enumerate(names):
            exits = self.pairs[i].sum() - self.pairs[i, i]
            if exits < FEWEST_EXITS:
                continue
            for j, target in enumerate(names):
                if i != j and _upper_bound(self.pairs[i, j], exits) <= RARE_SHARE:
                    rare.append((source, target, round(float(self.pairs[i, j])), round(float(exits))))
        return tuple(rare)

    def duration_table(self, label: int) -> tuple[float, ...]:
        """Return probabilities of a bout of 1, 2, ... epochs; longer bouts keep the last hazard."""
        hazard = self.hazards(label)
        survival = np.concatenate([[1.0], np.cumprod(1.0 - hazard[:-1])])
        return tuple((survival * hazard).tolist())

    def hazards(self, label: int) -> Floats:
        """Return the chance that a bout ends after its 1st, 2nd, ... epoch, constant within each stretch."""
        bouts = self.bouts.of_stage(label)
        return _hazards(bouts.epochs, bouts.is_complete)

    def constant_hazard(self, label: int) -> Floats:
        """Return the same chance for every epoch, as in a Markov chain."""
        bouts = self.bouts.of_stage(label)
        return np.array([_constant_hazard(bouts.epochs, bouts.is_complete)])

    def log_likelihood(self, hazard: Floats, label: int) -> tuple[float, int]:
        """Return the log-likelihood of a stage's bouts, cut ones by their survival, and their number."""
        bouts = self.bouts.of_stage(label)
        return _log_likelihood(hazard, bouts.epochs, bouts.is_complete), len(bouts.stage)


def supported_durations(
    folds: Sequence[tuple[CohortCounts, CohortCounts]], scheme: StageScheme
) -> tuple[str, ...]:
    """Return the stages whose bout lengths a table predicts better than a constant hazard.

    They are judged on nights of other subjects than the table was counted on: the gain in log-likelihood must
    exceed its standard error over the folds.
    """
    supported = []
    for label, name in enumerate(scheme.names):
        gains, n_bouts = [], 0
        for train, test in folds:
            with_table, n = test.log_likelihood(train.hazards(label), label)
            gains.append(with_table - test.log_likelihood(train.constant_hazard(label), label)[0])
            n_bouts += n
        error = float(np.std(gains, ddof=1) * np.sqrt(len(gains))) if len(gains) > 1 else np.inf
        if n_bouts >= FEWEST_BOUTS and sum(gains) > error:
            supported.append(name)
    return tuple(supported)


def _constant_hazard(length: Ints, complete: Mask) -> float:
    """Return the chance that a bout ends after any one epoch; one half without bouts."""
    n_ends, n_epochs = float(np.count_nonzero(complete)), float(_ended_or_not(length, complete).sum())
    return (n_ends + 0.5) / (n_epochs + 1.0)


def _hazards(length: Ints, complete: Mask) -> Floats:
    constant = _constant_hazard(length, complete)
    first, after = np.array(HAZARD_STEPS), np.array([*HAZARD_STEPS[1:], np.iinfo(np.int64).max])
    tested = _ended_or_not(length, complete)[:, None]
    at_risk = np.clip(tested, first - 1, after - 1) - (first - 1)  # (n_bouts, n_stretches) epochs in each
    stretch = np.searchsorted(first, length[complete], side="right") - 1
    n_ends = np.bincount(stretch, minlength=len(first))
    hazard = (n_ends + HAZARD_PRIOR_BOUTS) / (at_risk.sum(axis=0) + HAZARD_PRIOR_BOUTS / constant)
    return np.repeat(hazard, np.diff(first, append=first[-1] + 1))


def _ended_or_not(length: Ints, complete: Mask) -> Ints:
    """Return after how many epochs of each bout it is known whether it ended: all but a cut bout's last."""
    return np.asarray(length - ~complete)


def _log_likelihood(hazard: Floats, length: Ints, complete: Mask) -> float:
    longest = int(length.max(initial=1))
    hazard = np.concatenate([hazard, np.full(max(0, longest - len(hazard)), hazard[-1])])
    survived = np.concatenate([[0.0], np.cumsum(np.log1p(-hazard))])  # log P(length > d), from d = 0
    ends = survived[length - 1] + np.log(hazard[length - 1])
    return float(np.where(complete, ends, survived[length - 1]).sum())


def _upper_bound(n_found: float, n_all: float, z: float = 1.96) -> float:
    """Return the upper end of Wilson's 95 % interval of a share."""
    share = n_found / n_all
    centre = share + z * z / (2 * n_all)
    spread = z * np.sqrt(share * (1 - share) / n_all + z * z / (4 * n_all * n_all))
    return float((centre + spread) / (1 + z * z / n_all))
