"""Refuse nights that are given twice, or that one person cannot both have slept. Reads none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from stageguard.errors import InputError

if TYPE_CHECKING:
    from stageguard.fitting.material import FitNight

SAME_NIGHT_EPOCHS = 50  # two scorings of so many epochs and several bouts do not agree throughout by chance


def refuse_overlaps(nights: Sequence[FitNight], epoch_seconds: float) -> None:
    """Refuse two nights of one subject at the same time."""
    known = [night for night in nights if night.start is not None]
    by_clock: dict[tuple[str, bool], list[FitNight]] = {}
    for night in known:
        assert night.start is not None
        by_clock.setdefault((night.subject, night.start.tzinfo is None), []).append(night)
    for (subject, is_naive), own in by_clock.items():
        ordered = sorted(own, key=lambda night: (night.start, night.number))
        for before, after in pairwise(ordered):
            assert before.start is not None and after.start is not None
            end = before.start + timedelta(seconds=len(before.truth) * epoch_seconds)
            if after.start < end - timedelta(seconds=epoch_seconds / 2):
                raise InputError(
                    f"nights {before.number} and {after.number} of subject {before.subject!r} overlap: one "
                    f"lasts until {end}, the other begins at {after.start}. Leave one out; several experts' "
                    "scorings of a night go into one list."
                )
        if is_naive:
            _refuse_by_wall_clock(own, by_clock.get((subject, False), ()), epoch_seconds)


def _refuse_by_wall_clock(naive: Sequence[FitNight], zoned: Sequence[FitNight], epoch_seconds: float) -> None:
    """Refuse nights of which only one has a time zone, if their clocks, read as they stand, overlap."""
    for one, other in product(naive, zoned):
        assert one.start is not None and other.start is not None
        begins = one.start, other.start.replace(tzinfo=None)
        ends = [
            t + timedelta(seconds=len(n.truth) * epoch_seconds)
            for t, n in zip(begins, (one, other), strict=True)
        ]
        if min(ends) - max(begins) > timedelta(seconds=epoch_seconds / 2):
            raise InputError(
                f"nights {one.number} and {other.number} of subject {one.subject!r} overlap by the clock: "
                f"one begins at {one.start} without a time zone, the other at {other.start}. Leave one out, "
                "or give both their time zone."
            )


def refuse_repeats(nights: Sequence[FitNight]) -> None:
    """Refuse a night that is given twice: it would be on both sides of a split, or count double."""
    seen: dict[bytes, int] = {}
    for night in nights:
        changes = np.count_nonzero(np.diff(night.truth))
        if len(night.truth) < SAME_NIGHT_EPOCHS or changes < 3:
            continue
        first = seen.setdefault(night.truth.tobytes(), night.number)
        if first != night.number:
            raise InputError(
                f"nights {first} and {night.number} have the same expert stages, epoch for epoch: one night "
                "given twice. Leave one out."
            )
    _refuse_same_probabilities(nights)
    _refuse_same_expert(nights)


def _refuse_same_probabilities(nights: Sequence[FitNight]) -> None:
    """Refuse nights of one stager's output, whoever scored them and however long they are."""
    seen: dict[bytes, FitNight] = {}
    for night in nights:
        if night.matrix is None or len(night.matrix) < SAME_NIGHT_EPOCHS:
            continue
        head = np.ascontiguousarray(night.matrix[:SAME_NIGHT_EPOCHS])
        if len(np.unique(head, axis=0)) < SAME_NIGHT_EPOCHS // 2:
            continue  # votes, constants: many nights may begin so
        first = seen.setdefault(head.tobytes(), night)
        if first is night:
            continue
        assert first.matrix is not None
        both = min(len(first.matrix), len(night.matrix))
        if np.array_equal(first.matrix[:both], night.matrix[:both], equal_nan=True):
            raise InputError(
                f"nights {first.number} and {night.number} have the same probabilities: one night given "
                "twice. Leave one out; several experts' scorings of a night go into one list."
            )


def _refuse_same_expert(nights: Sequence[FitNight]) -> None:
    """Refuse one expert's scorings that are given as two experts': they would count double.

    Two experts may agree throughout on a short night, not on all nights.
    """
    panels = [night.scorings for night in nights if len(night.scorings) > 1]
    changes = sum(np.count_nonzero(np.diff(panel[0])) for panel in panels)
    n_epochs = sum(len(panel[0]) for panel in panels)
    if n_epochs < SAME_NIGHT_EPOCHS or changes < 3:
        return
    for i, j in combinations(range(min(len(panel) for panel in panels)), 2):
        if all(np.array_equal(panel[i], panel[j]) for panel in panels):
            raise InputError(
                f"experts {i} and {j} have scored every night the same, epoch for epoch: one given twice. "
                "Leave one out."
            )
