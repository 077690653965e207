"""The indicators of the before/after table, on hand-made hypnograms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stageguard.cli._summary import (
    Row,
    awakenings,
    fragmentation_index,
    one_epoch_bouts,
    rare_percent,
    sleep_minutes,
)


def labels(text: str) -> np.ndarray:
    """W = 0, N = 1, R = 2, ? = unscored."""
    return np.array(["WNR?".index(letter) if letter != "?" else -1 for letter in text], dtype=np.int8)


@pytest.mark.parametrize(
    ("text", "expected"), [("WWNN", 1 / 3), ("WNWN", 1), ("WWWW", 0), ("WW?NN", 0), ("WN??NW", 1)]
)
def test_fragmentation_counts_changes_between_scored_neighbours(text, expected):
    assert fragmentation_index(labels(text)) == pytest.approx(expected)


def test_fragmentation_of_one_epoch_is_unknown():
    assert math.isnan(fragmentation_index(labels("W")))


def test_rare_percent_counts_only_the_given_pairs():
    assert rare_percent(labels("WRRNW"), [(0, 2)]) == pytest.approx(25)
    assert rare_percent(labels("W?RNW"), [(0, 2)]) == 0
    assert math.isnan(rare_percent(labels("WR"), []))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("WNNWNNW", 1), ("WWNNRR", 0), ("NWNWWN", 2), ("NWWW", 0), ("NW?WN", 2), ("N?N", 0)],
)
def test_awakenings_are_wake_bouts_inside_the_sleep_period(text, expected):
    assert awakenings(labels(text), 0) == expected


def test_a_night_without_sleep_has_no_awakenings_to_count():
    assert math.isnan(awakenings(labels("WWW"), 0))


def test_unscored_epochs_are_neither_sleep_nor_wake():
    assert sleep_minutes(labels("WNNRW??"), 0, 30.0) == 1.5
    assert math.isnan(sleep_minutes(labels("??"), 0, 30.0))


@pytest.mark.parametrize(
    ("text", "expected"), [("WNWWRRNW", 2), ("WN", 0), ("NNWNN", 1), ("WNNW", 0), ("W?W", 0)]
)
def test_one_epoch_bouts_leave_out_the_ends(text, expected):
    assert one_epoch_bouts(labels(text)) == expected


def test_places_in_the_expert_range():
    row = Row("x", "X", 0.1, 0.3, 3, 0.1, 0.2)
    assert [row.place(value) for value in (0.05, 0.1, 0.2, 0.21, math.nan)] == [
        "below", "inside", "inside", "above", "",
    ]  # fmt: skip
    assert row.to_dict()["after_place"] == "above"
    assert Row("x", "X", 1.0, 2.0).to_dict() == {"before": 1.0, "after": 2.0}
