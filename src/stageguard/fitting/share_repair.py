"""Stage biases that bring a stager's stage shares, where experts' scorings show none such, to their range.

A stager that was trained on a few people, or on people unlike these, gives too much of one stage. Its own
probabilities tell which epochs are the least certain ones, and these go first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Labels
from stageguard.guard.evidence import Night, StagerFeatures, features_of, fragmentation_index
from stageguard.profile.expert_shares import ShareRepair
from stageguard.profile.profile import Profile

LEAST_SHARPNESS = 0.7  # mean highest probability: with less, stages are too uncertain to be moved by biases
LEAST_HOURS = 5.0  # median over nights: in shorter ones, REM is missing that experts score later
LARGEST_BIAS_NATS = 1.0
STEP = 0.3  # of the log ratio of shares, per round
LEAST_MOVE_NATS = 1e-3  # of a round that goes on
MOST_ROUNDS = 100
NO_SHARE = 0.001  # added to shares, which may be 0
_DIGITS = 4

LogRows = npt.NDArray[np.float32]  # half the memory of float64, for thousands of nights
Outcome = Literal[
    "repaired", "in range", "unsure", "short nights", "named cohort", "labels alone", "lifted", "no range"
]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredNight:
    """What `tune` needs of a night: its features and, if shares can be repaired, its evidence."""

    features: StagerFeatures
    log_rows: LogRows | None = None  # (n_epochs, n_stages) of the epochs measured; NaN without evidence
    epoch_ratio: float = 1.0  # of the night's epoch length to the profile's
    is_of_labels: bool = False  # it has labels alone, and every epoch of a stage is as certain
    is_lifted: bool = False  # the stager's training is natural, and the rule lifts rare stages for that

    @classmethod
    def of(cls, night: Night, profile: Profile) -> MeasuredNight:
        """Return what is needed of a night that is read under a profile."""
        ratio = night.epoch_seconds / profile.epoch_seconds
        features, is_of_labels = features_of(night, ratio), night.from_labels is not None
        rule = profile.strength
        is_lifted = rule is not None and rule.asks_training and night.options.trained == "natural"
        if profile.shares is None or is_of_labels or is_lifted:
            return cls(features, None, ratio, is_of_labels, is_lifted)
        measured = slice(*night.period) if night.period[0] < night.period[1] else slice(None)
        return cls(features, night.calibrated()[measured].astype(np.float32), ratio)

    @property
    def n_profile_epochs(self) -> float:
        """How many epochs of the profile's length were measured."""
        return 0.0 if self.log_rows is None else len(self.log_rows) * self.epoch_ratio

    def fragmentation_index(self, biases: Floats) -> float:
        """Return the index of the stages that biases lead to, at the profile's epoch length."""
        assert self.log_rows is not None
        labels = _choices(self.log_rows, biases)
        return min(fragmentation_index(labels, ((0, len(labels)),)) / self.epoch_ratio, 1.0)


class Repair(NamedTuple):
    """Whether shares are repaired, the reason if they are not, and otherwise how."""

    outcome: Outcome
    record: ShareRepair | None = None
    biases: tuple[float, ...] | None = None  # nats per stage


def repair_shares(
    nights: Sequence[MeasuredNight],
    profile: Profile,
    groups: Sequence[Hashable] | None = None,
    cohort: str | None = None,
) -> Repair:
    """Find the biases that bring the shares of the stages to the nearest edge of the experts' range.

    The shares are means over people, `groups` says whose each night is; without it, each is of another
    person. A cohort that the profile has a caution for, or that is not the profile's, may have shares
    of its own, and nothing is repaired. A stager trained on natural class frequencies gives rare stages too
    seldom, which the rule mends night by night: both together lift too much.
    """
    if profile.shares is None:
        return Repair("no range")
    is_own = cohort is None or profile.is_for(profile.stager, cohort)
    if not is_own or (cohort is not None and profile.caution_for(cohort) is not None):
        return Repair("named cohort")
    if any(night.is_of_labels for night in nights):
        return Repair("labels alone")
    if any(night.is_lifted for night in nights):
        return Repair("lifted")
    hours = np.median([night.n_profile_epochs for night in nights]) * profile.epoch_seconds / 3600
    if hours < LEAST_HOURS:
        return Repair("short nights")
    weights, n_people = _weights(nights, groups)
    before = _Shares(nights, weights)
    ranges = profile.shares.ranges(n_people)
    low, high = (np.round([stage[edge] for stage in ranges], _DIGITS) for edge in (0, 1))
    shares = before.of(np.zeros(len(low)))
    if np.array_equal(shares, shares.clip(low, high)):
        return Repair("in range")
    if float(weights @ [night.features.sharpness for night in nights]) < LEAST_SHARPNESS:
        return Repair("unsure")
    biases = _biases(before, low, high)
    if not biases.any():  # the shares are outside by less than a round moves
        return Repair("in range")
    columns = (shares, low, high, before.of(biases))
    record = ShareRepair(n_people, *(tuple(np.round(values, _DIGITS).tolist()) for values in columns))
    return Repair("repaired", record, tuple(biases.tolist()))


def _weights(nights: Sequence[MeasuredNight], groups: Sequence[Hashable] | None) -> tuple[Floats, int]:
    """Return the weight of each night, so that every person has the same, and the number of people."""
    whose = range(len(nights)) if groups is None else groups
    sizes: dict[Hashable, int] = {}
    for group in whose:
        sizes[group] = sizes.get(group, 0) + 1
    return np.array([1 / (sizes[group] * len(sizes)) for group in whose]), len(sizes)


class _Shares:
    """The shares of the stages under any biases."""

    def __init__(self, nights: Sequence[MeasuredNight], weights: Floats) -> None:
        kept = [night.log_rows for night in nights if night.log_rows is not None]
        rows = [own[~np.isnan(own[:, 0])] for own in kept]
        self.rows = np.concatenate(rows)  # (n_known, n_stages)
        self.weights = np.concatenate(
            [np.full(len(own), weight / len(own)) for own, weight in zip(rows, weights, strict=True)]
        )

    def of(self, biases: Floats) -> Floats:
        """Return the share of each stage, as a mean over people."""
        labels = (self.rows + biases.astype(np.float32)).argmax(axis=1)
        shares: Floats = np.bincount(labels, weights=self.weights, minlength=len(biases)).astype(np.float64)
        return shares


def _biases(shares: _Shares, low: Floats, high: Floats) -> Floats:
    """Return the biases in nats, rounded, after as many rounds as move them."""
    biases = np.zeros(len(low))
    for _ in range(MOST_ROUNDS):
        now = shares.of(biases)
        step = STEP * np.log((now.clip(low, high) + NO_SHARE) / (now + NO_SHARE))
        moved = (biases + step).clip(-LARGEST_BIAS_NATS, LARGEST_BIAS_NATS)
        if np.abs(moved - biases).max() < LEAST_MOVE_NATS:
            break
        biases = moved
    return np.round(biases, _DIGITS)


def _choices(log_rows: LogRows, biases: Floats) -> Labels:
    known = ~np.isnan(log_rows[:, 0])
    return np.where(known, (log_rows + biases.astype(np.float32)).argmax(axis=1), -1).astype(np.int8)
