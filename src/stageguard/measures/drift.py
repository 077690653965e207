"""Drift: whether new, unscored nights of a stager look like the nights on its grade card.

Every ten nights are a batch. A batch and the card are compared in features of the stager's probabilities:
fragmentation, the share of each stage, the confidence in it, and how far rows waver between two stages.
Nights of one person are averaged, on the card no more of them than in the batch. A batch alarms by the
largest difference of a feature's mean from the card's, in standard deviations of people, or by the distance
of all means together (Mahalanobis', with shrunken correlations). The limits are what RATE of random exchanges
of people between batch and card exceed in either, so that a batch alarms by chance in no more than that,
whatever the features' distribution and however few people there are. It cannot tell a broken channel from
other people.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import NAN, Floats, Mask
from stageguard.errors import InputError, StageGuardError, message_of
from stageguard.measures.bouts import ScoredNight
from stageguard.measures.grade import features_of_night, texts_of
from stageguard.measures.grade_card import GradeCard, graded_as, refuse_repeated, require_card
from stageguard.night.stages import StageScheme
from stageguard.profile.fingerprint import StagerFeatures
from stageguard.values import ComparedByValue

BATCH_NIGHTS = 10
RATE = 0.05  # of batches without a change that alarm
FEWEST_PEOPLE = 10  # on the card
N_EXCHANGES = 1999  # so that RATE of them and the batch itself are a whole number
SHRINKAGE = 0.5  # of the features' correlations towards none, since people are few
_LEAST_WITHIN = 1e-6  # of the variance: batch and card may each be constant, and differ
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
    card_values: tuple[float, ...] = field(repr=False)  # by person of the card; NaN where there is none
    night_values: tuple[float, ...] = field(repr=False)  # by night of the batch

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


@dataclass(frozen=True, slots=True, eq=False)
class DriftBatch:
    """Up to ten new nights beside those of the card.

    Attributes
    ----------
    nights : tuple of str
        Their names, in the order they were passed.
    n_people : int
        How many people slept them.
    features : tuple of FeatureDrift
        Every feature, those farthest beyond their limits first.
    distance, limit : float
        How far the means of all features together are from the card's, and how far they may be.
    can_alarm : bool
        False if batch and card have too few people for any difference to be beyond the limits.
    """

    nights: tuple[str, ...]
    n_people: int
    features: tuple[FeatureDrift, ...]
    distance: float
    limit: float
    can_alarm: bool
    has_drifted: bool  # whether a feature, or all of them together, is beyond the limits

    @property
    def distance_ratio(self) -> float:
        """The distance of all features together over its limit."""
        return self.distance / self.limit if self.limit > 0 else 0.0

    @property
    def outside(self) -> tuple[FeatureDrift, ...]:
        """The features beyond their limits."""
        return tuple(feature for feature in self.features if feature.is_outside)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        names = ("nights", "n_people", "distance", "limit", "can_alarm", "has_drifted")
        features = [feature.to_dict() for feature in self.features]
        return {name: getattr(self, name) for name in names} | {"features": features}


@dataclass(frozen=True, slots=True, eq=False)
class Drift(ComparedByValue):
    """New nights of a stager beside those of its grade card, in batches of ten.

    Attributes
    ----------
    batches : tuple of DriftBatch
        In the order of the nights; the last may be smaller.
    n_card_people : int
        People on the card.
    card_sha256 : str
        Hash of the card.
    rate : float
        How often a batch without a change alarms, at most, on average over cards.
    """

    batches: tuple[DriftBatch, ...]
    n_card_people: int
    card_sha256: str
    rate: float = RATE

    @property
    def has_drifted(self) -> bool:
        """Whether any batch has drifted."""
        return any(batch.has_drifted for batch in self.batches)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        names = ("has_drifted", "rate", "n_card_people", "card_sha256")
        batches = [batch.to_dict() for batch in self.batches]
        return {name: getattr(self, name) for name in names} | {"batches": batches}


def drift(
    nights: Sequence[ScoredNight],
    card: GradeCard,
    *,
    people: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
) -> Drift:
    """Compare new, unscored nights of a stager with the nights on its grade card.

    Every ten nights are compared with the card in features of the stager's probabilities: fragmentation, and
    of each stage its share, the confidence in it and how far it overlaps with each other one. If nothing has
    changed, one batch in twenty is beyond the limits by chance.

    Parameters
    ----------
    nights : sequence of Decoding or Hypnogram
        Nights decoded with the profile of the card, or not decoded if those of the card were not, in the
        order they were recorded.
    card : GradeCard
        The card, with ten people or more.
    people : sequence of str, optional
        Who slept each night; nights of one person in a batch are averaged. Default: everybody slept once.
    ids : sequence of str, optional
        Names of the nights.

    Returns
    -------
    Drift
        The batches, and which features are beyond their limits. It does not say why: signals, stager and
        people all show in them.

    Raises
    ------
    InputError
        The nights are of another stager, profile or scheme than the card, or the card has too few people.

    Examples
    --------
    >>> import stageguard as sg
    >>> def night(seed):
    ...     made = sg.simulate_night("human-psg-5", hours=1, seed=seed)
    ...     return sg.decode(made.density, "human-psg-5"), made.expert
    >>> graded, experts = zip(*map(night, range(10)))
    >>> card = sg.grade(experts, graded)
    >>> sg.drift([night(seed)[0] for seed in range(10, 20)], card).has_drifted
    False
    """
    require_card(card, "card")
    if not isinstance(nights, list | tuple) or not nights:
        raise InputError(f"nights are {checks.shown(nights)}, expected a list of nights.")
    n = len(nights)
    names = [f"night {number}" for number in range(1, n + 1)] if ids is None else texts_of(ids, "ids", n)
    refuse_repeated(names, "nights")
    persons = names if people is None else texts_of(people, "people", n)
    measured = []
    for name, night in zip(names, nights, strict=True):
        try:
            measured.append(drift_features(night, card))
        except StageGuardError as error:
            raise type(error)(f"{name}: " + message_of(error)) from None
    return chart(names, persons, measured, card)


def drift_features(night: ScoredNight, card: GradeCard) -> StagerFeatures:
    """Return the features of one night; refuse one that the card is not about."""
    card.refuse_other(*graded_as(night))
    features = features_of_night(night)
    if features is None:
        raise InputError("it has no epoch with a stage, expected one or more.")
    return features


def check_card(card: GradeCard) -> None:
    """Refuse a card that nothing can be compared with."""
    if any(night.features is None for night in card.nights):
        raise InputError(
            "the card lacks the features of a night that drift is seen by, since its probabilities were not "
            "there or its experts scored fewer stages. Grade the nights again, with both."
        )
    if card.n_people < FEWEST_PEOPLE:
        raise InputError(
            f"the card has {card.n_people} people, expected {FEWEST_PEOPLE} or more: fewer do not show how "
            "people differ."
        )


def chart(
    names: Sequence[str], people: Sequence[str], features: Sequence[StagerFeatures], card: GradeCard
) -> Drift:
    """Compare nights, by their features, with a card, in batches."""
    check_card(card)
    graded = feature_rows([night.features for night in card.nights if night.features is not None])
    card_people = [night.person for night in card.nights]
    new_rows, keys = feature_rows(features), feature_keys(card.nights[0].scheme)
    batches = []
    for first in range(0, len(names), BATCH_NIGHTS):
        part = slice(first, first + BATCH_NIGHTS)
        rows = by_person(new_rows[part], people[part])
        # means over more nights vary less: a card of them would make single nights alarm too often
        fewest = min(Counter(people[part]).values())
        card_rows = by_person(graded, card_people, fewest)
        found = compare(card_rows, rows)
        features_of_batch = [
            FeatureDrift(key, stages, mean, new, mean - room, mean + room, by_card_person, by_night)
            for (key, stages), mean, new, room, by_card_person, by_night in zip(
                *(keys, found.card.tolist(), found.batch.tolist(), found.room.tolist()),
                *(_columns(card_rows), _columns(new_rows[part])),
                strict=True,
            )
        ]
        batches.append(
            DriftBatch(
                tuple(names[part]),
                len(rows),
                tuple(sorted(features_of_batch, key=lambda feature: -feature.ratio)),
                found.distance,
                found.limit,
                can_alarm=math.comb(len(card_rows) + len(rows), len(rows)) * RATE >= 1,
                has_drifted=found.is_alarm,
            )
        )
    return Drift(tuple(batches), card.n_people, card.sha256)


def _columns(rows: Floats) -> list[tuple[float, ...]]:
    return [tuple(column) for column in rows.T.tolist()]


@lru_cache(maxsize=2)  # batches have the same size, but for the last
def _exchanges(n_card: int, n_batch: int) -> Floats:
    """Return N_EXCHANGES random batches of all people, 1 for those in the batch: (n_exchanges, n_people)."""
    is_batch = np.arange(n_card + n_batch) >= n_card
    return np.random.default_rng(0).permuted(np.tile(is_batch, (N_EXCHANGES, 1)), axis=1).astype(np.float64)


def _within_share(away: Floats, n_card: int, n_batch: int) -> Floats:
    """Return the spread within batch and card over that of all people, if the batch's mean is `away`."""
    return np.sqrt(np.maximum(1.0 - away**2 * n_batch / n_card, _LEAST_WITHIN))


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


def by_person(rows: Floats, people: Sequence[str], most: float = math.inf) -> Floats:
    """Return the mean row of each person, (n_people, n_features); NaN where no night has a value.

    Of each person the first `most` nights count.
    """
    numbers = np.unique(people, return_inverse=True)[1]
    is_own = numbers == np.arange(numbers.max() + 1)[:, None]  # (n_people, n_nights)
    slept = (is_own & (np.cumsum(is_own, axis=1) <= most)).astype(float)
    exists = ~np.isnan(rows)
    n_values, totals = slept @ exists, slept @ np.where(exists, rows, 0.0)
    return np.where(n_values > 0, totals / np.maximum(n_values, 1), NAN)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A batch beside the card; arrays are by feature."""

    card: Floats  # means over people
    batch: Floats
    room: Floats  # how far the batch's mean may be from the card's
    distance: float  # of all features together
    limit: float  # of the distance

    @property
    def is_outside(self) -> Mask:
        """Which features are beyond their limits."""
        return np.abs(self.batch - self.card) > self.room * _SAME

    @property
    def is_alarm(self) -> bool:
        """Whether a feature, or all of them together, is beyond the limits."""
        return bool(self.is_outside.any()) or self.distance > self.limit * _SAME


def compare(card: Floats, batch: Floats) -> Comparison:
    """Compare the people of a batch with those of a card, a row each.

    What a person does not have, such as confidence in a stage that never came, is taken as the mean of the
    others, in card and batch alike.
    """
    n_card, n_batch = len(card), len(batch)
    rows = np.concatenate([card, batch])
    exists = ~np.isnan(rows)
    centre = np.where(exists, rows, 0.0).sum(axis=0) / np.maximum(exists.sum(axis=0), 1)
    rows = np.where(exists, rows - centre, 0.0)
    spread = rows.std(axis=0)
    is_constant = spread <= 1e-12 * np.maximum(np.abs(centre), 1.0)  # but for rounding
    spread[is_constant] = rows[:, is_constant] = 0.0
    scaled = np.divide(rows, spread, where=spread > 0, out=np.zeros_like(rows))
    is_batch = np.arange(len(rows)) >= n_card
    correlation = (1 - SHRINKAGE) * scaled.T @ scaled / len(rows) + SHRINKAGE * np.eye(rows.shape[1])
    root = np.linalg.cholesky(np.linalg.inv(correlation))
    away = scaled[is_batch].mean(axis=0)
    exchanged = _exchanges(n_card, n_batch) @ scaled / n_batch  # (n_exchanges, n_features)
    largest, together = np.abs(exchanged).max(axis=1), np.linalg.norm(exchanged @ root, axis=1)
    # each in units of its own limit, so that neither outweighs the other, and then one limit for either
    units = np.array([_limit(largest), _limit(together)])
    units[units == 0] = 1.0  # nothing varies
    limit, limit_together = _limit(np.maximum(largest / units[0], together / units[1])) * units
    # a shift widens the spread of all people: limits are by the spread within batch and card, which is
    # smaller by the same function of the distance for every feature, so that none passes another
    within, within_limit = (_within_share(each, n_card, n_batch) for each in (away, limit))
    room = limit * spread * len(rows) / n_card * within / within_limit
    return Comparison(
        card=centre + rows[~is_batch].mean(axis=0),
        batch=centre + rows[is_batch].mean(axis=0),
        room=room,
        distance=float(np.linalg.norm(away @ root)),
        limit=float(limit_together),
    )


def _limit(values: Floats) -> float:
    """Return what RATE of the exchanges, the batch itself among them, exceed."""
    return float(np.sort(values)[-math.floor(RATE * (N_EXCHANGES + 1))])
