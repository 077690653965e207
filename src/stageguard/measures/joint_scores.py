"""Joint scores of many nights at once.

The labels of all nights follow one another, with an unscored epoch in between, so that no epochs of two
nights are adjacent. Each score equals that of `stageguard.measures.summary.joint_scores` for its night.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from typing import NamedTuple

import numpy as np

from stageguard.base.arrays import NAN, Floats, Indices, Labels, Mask
from stageguard.guard.decoding import Decoding
from stageguard.guard.solver import run_grouped
from stageguard.measures.bouts import Bouts, bouts_of, cuts_of, stacked
from stageguard.measures.period import labels_in, period_for
from stageguard.measures.summary import JointScores
from stageguard.measures.validity import LONGEST_BOUT, SHORTEST_NIGHT_HOURS, paper_mask
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.period import Period
from stageguard.night.quantities import Quantity, indicators_of
from stageguard.profile.profile import Profile


class _Stacked(NamedTuple):
    """Labels of several nights one after the other, and their bouts."""

    labels: Labels
    begins: Indices  # (n_nights + 1,) where each night begins, and the end
    bouts: Bouts
    first_bouts: Indices  # (n_nights + 1,) first bout that begins in each night, and the number of bouts

    @classmethod
    def of(cls, nights: Iterable[Labels]) -> _Stacked:
        """Stack nights."""
        labels, begins = stacked(nights)
        bouts = bouts_of(labels)
        return cls(labels, begins, bouts, np.searchsorted(bouts.starts, begins))

    @property
    def n_nights(self) -> int:
        """Number of nights."""
        return len(self.begins) - 1

    def counts(self, chosen: Mask, weights: Indices | None = None) -> Floats:
        """Return how many bouts of each night are chosen, or the sum of their weights."""
        sums = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(chosen if weights is None else chosen * weights, out=sums[1:])
        return np.diff(sums[self.first_bouts]).astype(np.float64)


def joint_scores_of_all(decodings: Sequence[Decoding]) -> list[JointScores]:
    """Return `stageguard.measures.summary.joint_scores` of every night."""
    profiles = {id(each.profile): each.profile for each in decodings}

    def run(key: tuple[int, float], nights: list[Decoding]) -> list[JointScores]:
        profile, seconds = profiles[key[0]], key[1]
        periods = [period_for(each, profile) for each in nights]
        cuts = [cuts_of(each) for each in nights]
        scores = [
            joint_of_all(labels, profile, seconds, periods, cuts).tolist()
            for labels in ([each.argmax for each in nights], [each.hypnogram.labels for each in nights])
        ]
        threshold = NAN if profile.joint is None else profile.joint.threshold
        return [
            JointScores(before, after, NAN if isnan(after) else threshold)
            for before, after in zip(*scores, strict=True)
        ]

    if not decodings:
        return []
    return run_grouped(decodings, [(id(each.profile), each.epoch_seconds) for each in decodings], run)


def joint_of_all(
    labels: Sequence[Labels],
    profile: Profile,
    epoch_seconds: float,
    periods: Sequence[Period],
    cuts: Sequence[Sequence[int]],
) -> Floats:
    """Return the joint score of periods of labels whose segments begin at `cuts`; NaN where there is none."""
    if profile.joint is None:
        return np.full(len(labels), NAN)
    nights = _Stacked.of(map(labels_in, labels, periods, cuts))
    known, scale = indicators_of(profile.scheme.names), epoch_seconds / profile.epoch_seconds
    values = _indicators(nights, profile, epoch_seconds)
    total, n = np.zeros(nights.n_nights), np.zeros(nights.n_nights)
    for name, expert in profile.joint.indicators.items():
        rule = known[name].epoch_rule
        if scale == 1.0 or rule != "single epochs":
            value = values[name]() / (scale if rule == "per pair" else 1.0)
            exists = ~np.isnan(value)
            total += np.where(exists, ((_normal(known[name], value) - expert.centre) / expert.scale) ** 2, 0)
            n += exists
    hours = nights.counts(nights.bouts.stages != UNSCORED, nights.bouts.lengths) * epoch_seconds / 3600.0
    with np.errstate(invalid="ignore"):  # 0 / 0 where no indicator exists
        return np.where(hours < SHORTEST_NIGHT_HOURS, NAN, np.sqrt(total / n))


def _normal(quantity: Quantity, values: Floats) -> Floats:
    """Return `Quantity.normal` of each value: NumPy's own logarithm rounds differently on some processors."""
    return np.array([quantity.normal(value) for value in values.tolist()])


def _indicators(
    nights: _Stacked, profile: Profile, epoch_seconds: float
) -> Mapping[str, Callable[[], Floats]]:
    """Return functions that compute each indicator of every night, NaN where it does not exist."""
    bouts, scheme = nights.bouts, profile.scheme
    scored, per_hour = bouts.stages != UNSCORED, 3600.0 / epoch_seconds
    n_scored = nights.counts(scored, bouts.lengths)
    follows = np.append(scored[:-1] & scored[1:], False)  # whether a scored bout follows
    after = np.append(bouts.stages[1:], UNSCORED)
    n_changes = nights.counts(follows)
    n_pairs = n_changes + nights.counts(scored, bouts.lengths - 1)
    pairs = np.zeros((scheme.n_stages, scheme.n_stages), dtype=bool)
    for a, b in profile.tvr_pairs:
        pairs[scheme.index(a), scheme.index(b)] = True
    nothing = np.full(nights.n_nights, NAN)

    def rare(which: Mask | None) -> Floats:
        if which is None or not which.any():
            return nothing
        return nights.counts(follows & which[bouts.stages, after])

    def flips() -> Floats:
        complete, lengths = bouts.complete, bouts.lengths
        is_flip = complete & (lengths == 1)
        is_flip[1:-1] &= bouts.stages[:-2] == bouts.stages[2:]
        three = scored & (lengths > 2) | complete
        three[:-1] |= follows[:-1] & (lengths[:-1] + lengths[1:] > 2)
        rate = _ratio(nights.counts(is_flip), n_scored * epoch_seconds / 3600.0)
        return np.where(nights.counts(three) > 0, rate, NAN)

    return {
        "fragmentation_index": lambda: _ratio(n_changes, n_pairs),
        "transitions_per_hour": lambda: _ratio(n_changes * per_hour, n_pairs),
        "tvr_percent": lambda: _ratio(100.0 * rare(pairs), n_pairs),
        "tvr_per_change_percent": lambda: _ratio(100.0 * rare(pairs), n_changes),
        "tvr_per_hour": lambda: _ratio(per_hour * rare(pairs), n_pairs),
        "paper_tvr_percent": lambda: _ratio(100.0 * rare(paper_mask(scheme)), n_pairs),
        "flips_per_hour": flips,
        **_bout_indicators(nights, scheme.names, epoch_seconds / 60.0),
    }


def _ratio(counts: Floats, of: Floats) -> Floats:
    return np.asarray(np.divide(counts, of, out=np.full(len(of), NAN), where=of > 0))


def _bout_indicators(
    nights: _Stacked, names: Sequence[str], minutes: float
) -> Mapping[str, Callable[[], Floats]]:
    """Return functions that compute the indicators of the complete bouts of each stage."""
    bouts, complete = nights.bouts, nights.bouts.complete
    night = np.repeat(np.arange(nights.n_nights), np.diff(nights.first_bouts))
    cell = night[complete] * len(names) + bouts.stages[complete]
    ordered = np.sort(cell * LONGEST_BOUT + bouts.lengths[complete])  # by night, stage and length
    firsts = LONGEST_BOUT * np.arange(nights.n_nights * len(names) + 1)
    bounds = ordered.searchsorted(firsts)
    starts, n_bouts = bounds[:-1], np.diff(bounds).astype(np.float64)
    lengths = (ordered % LONGEST_BOUT).astype(np.float64)
    sums = np.bincount(cell, bouts.lengths[complete], len(starts))
    n_single = (ordered.searchsorted(firsts[:-1] + 1, side="right") - starts).astype(np.float64)
    half = np.diff(bounds) // 2
    last = max(len(lengths) - 1, 0)
    padded = lengths if len(lengths) else np.zeros(1)
    middle = (padded[np.minimum(starts + half, last)] + padded[np.clip(bounds[1:] + ~half, 0, last)]) / 2
    values = {
        "one_epoch_bouts_percent": 100.0 * _ratio(n_single, n_bouts),
        "mean_bout_minutes": _ratio(sums.astype(np.float64), n_bouts) * minutes,
        "median_bout_minutes": np.where(n_bouts > 0, middle * minutes, NAN),
    }

    def column(of_cells: Floats, stage: int) -> Callable[[], Floats]:
        return lambda: of_cells[stage :: len(names)]

    return {
        f"{key}_{name}": column(of_cells, stage)
        for key, of_cells in values.items()
        for stage, name in enumerate(names)
    }
