"""Drift: whether new, unscored nights of a stager look like the nights on its grade card.

Every ten nights are a batch. A batch and the card are compared in features of the stager's probabilities:
fragmentation, the share of each stage, the confidence in it, and how far rows waver between two stages.
Nights of one person are averaged. The statistic of a batch is the largest difference of a feature's mean
from the card's, in standard deviations of people. Its limit is what RATE of random exchanges of people
between batch and card exceed, so that a batch alarms by chance in no more than that, whatever the features'
distribution and however few people there are. It cannot tell a broken channel from other people.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from stageguard.base.arrays import NAN, Floats
from stageguard.night.stages import StageScheme
from stageguard.profile.fingerprint import StagerFeatures

BATCH_NIGHTS = 10
RATE = 0.05  # of batches without a change that alarm
FEWEST_PEOPLE = 10  # on the card
N_EXCHANGES = 1999  # so that RATE of them and the batch itself are a whole number
_SAME = 1 + 1e-9  # an exchange that gives the batch itself may round differently


@dataclass(frozen=True, slots=True)
class FeatureDrift:
    """One feature of a batch beside the card's; the limits are those of the batch's mean.

    ``key`` is ``"fragmentation_index"``, or ``"share"``, ``"confidence"`` or ``"overlap"``, of ``stages``.
    """

    key: str
    stages: tuple[str, ...]
    card: float  # mean over the people of the card
    batch: float  # mean over the people of the batch
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """The difference from the card over the limit's: outside if above 1; 0 if nothing differs."""
        room = (self.high - self.low) / 2
        return abs(self.batch - self.card) / room if room > 0 else 0.0

    @property
    def is_outside(self) -> bool:
        """Whether the mean of the batch is beyond its limits."""
        return self.ratio > _SAME

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        names = ("key", "stages", "card", "batch", "low", "high", "ratio")
        return {name: getattr(self, name) for name in names} | {"is_outside": self.is_outside}


def feature_keys(scheme: StageScheme) -> list[tuple[str, tuple[str, ...]]]:
    """Return key and stages of each column of `feature_rows`."""
    singles = [(key, (name,)) for key in ("share", "confidence") for name in scheme.names]
    return [("fragmentation_index", ()), *singles, *(("overlap", p) for p in combinations(scheme.names, 2))]


def feature_rows(nights: Sequence[StagerFeatures]) -> Floats:
    """Return the features of nights, (n_nights, n_features), by `feature_keys`."""
    pairs = np.triu_indices(len(nights[0].shares), 1)
    return np.array(
        [
            [night.fragmentation_index, *night.shares, *night.confidences, *night.overlaps[pairs]]
            for night in nights
        ]
    )


def by_person(rows: Floats, people: Sequence[str]) -> Floats:
    """Return the mean row of each person, (n_people, n_features); NaN where no night has a value."""
    numbers = np.unique(people, return_inverse=True)[1]
    slept = (numbers == np.arange(numbers.max() + 1)[:, None]).astype(float)  # (n_people, n_nights)
    exists = ~np.isnan(rows)
    n_values, totals = slept @ exists, slept @ np.where(exists, rows, 0.0)
    return np.where(n_values > 0, totals / np.maximum(n_values, 1), NAN)


def compare(card: Floats, batch: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the means of card and batch and the half-width of the limits, (n_features,) each.

    Rows are people. What a person does not have, such as confidence in a stage that never came, is taken as
    the mean of the others, in card and batch alike.
    """
    n_card, n_batch = len(card), len(batch)
    rows = np.concatenate([card, batch])
    exists = ~np.isnan(rows)
    centre = np.where(exists, rows, 0.0).sum(axis=0) / np.maximum(exists.sum(axis=0), 1)
    rows = np.where(exists, rows - centre, 0.0)
    spread = rows.std(axis=0)
    spread[spread <= 1e-12 * np.maximum(np.abs(centre), 1.0)] = 0.0  # what is left of rounding
    scaled = np.divide(rows, spread, where=spread > 0, out=np.zeros_like(rows))
    is_batch = np.arange(len(rows)) >= n_card
    exchanges = np.random.default_rng(0).permuted(np.tile(is_batch, (N_EXCHANGES, 1)), axis=1)
    largest = np.abs(exchanges.astype(float) @ scaled).max(axis=1) / n_batch
    n_above = math.floor(RATE * (N_EXCHANGES + 1))
    limit = float(np.sort(largest)[-n_above])
    # a batch's mean differs from all people's by less than from the card's, since it is among all
    room = limit * spread * len(rows) / n_card
    return centre + rows[:n_card].mean(axis=0), centre + rows[n_card:].mean(axis=0), room
