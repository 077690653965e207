"""The sleeps in recordings of days."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg

W, S, GAP = 0, 1, sg.UNSCORED
HOUR = 120  # epochs of 30 s


def recording(*parts: tuple[int, int]) -> sg.Hypnogram:
    labels = np.repeat([stage for stage, _ in parts], [n for _, n in parts])
    return sg.Hypnogram(labels, "ws2", 30, datetime(2024, 1, 1, 12))


@pytest.mark.parametrize(("between", "n_sleeps"), [(2 * HOUR, 2), (2 * HOUR - 1, 1)])
@pytest.mark.parametrize("state", [W, GAP])
def test_two_hours_without_sleep_part_two_sleeps(between, n_sleeps, state):
    found = sg.find_sleeps(recording((W, 9), (S, 3 * HOUR), (state, between), (S, HOUR), (W, 9)))
    assert len(found) == n_sleeps
    assert (found[0][0], found[-1][1]) == (9, 9 + 4 * HOUR + between)


def test_single_epochs_of_sleep_by_day_are_no_sleep_and_bridge_nothing():
    day = recording((S, HOUR), *[(W, 20), (S, 1)] * 40, (W, 20), (S, HOUR))
    assert sg.find_sleeps(day) == [(0, HOUR), (day.n_epochs - HOUR, day.n_epochs)]


def test_a_recording_without_sleep_has_no_sleeps():
    assert sg.find_sleeps(recording((W, 50), (GAP, 50))) == []


def test_lights_bound_a_sleep_and_leave_naps_outside():
    day = recording((W, HOUR), (S, 30), (W, 5 * HOUR), (S, 8 * HOUR), (W, HOUR))
    off, on = (6 * HOUR) * 30.0, (15 * HOUR) * 30.0
    assert sg.find_sleeps(day, [(off, on)]) == [(HOUR, HOUR + 30), (6 * HOUR, 15 * HOUR)]


def test_lights_around_nothing_scored_are_no_sleep():
    assert sg.find_sleeps(recording((W, HOUR), (GAP, HOUR)), [(HOUR * 30.0, 2 * HOUR * 30.0)]) == []


@pytest.mark.parametrize("lights", [[(0.0, 600.0), (300.0, 900.0)], [(0.0,)], ["22:00"]])
def test_lights_that_overlap_or_are_no_pairs_are_refused(lights):
    with pytest.raises(sg.InputError, match="lights"):
        sg.find_sleeps(recording((W, HOUR)), lights)


def test_a_scheme_without_wake_is_refused():
    scheme = sg.StageScheme("own", ("A", "B"))
    with pytest.raises(sg.InputError, match="wake"):
        sg.find_sleeps(sg.Hypnogram([0, 1], scheme, 30))


def by_hand(labels: list[int]) -> list[tuple[int, int]]:
    """Sleeps from the words of the definition, epoch by epoch."""
    n, lasting = len(labels), []
    for i, label in enumerate(labels):
        ahead = sum(labels[j] == S for j in range(i, min(i + 20, n)))
        behind = sum(labels[j] == S for j in range(max(i - 19, 0), i + 1))
        if label == S and max(ahead, behind) >= 12:
            lasting.append(i)
    sleeps: list[tuple[int, int]] = []
    for i in lasting:
        if sleeps and i - sleeps[-1][1] < 2 * HOUR:
            sleeps[-1] = (sleeps[-1][0], i + 1)
        else:
            sleeps.append((i, i + 1))
    return sleeps


STRETCHES = st.lists(st.tuples(st.sampled_from([W, S, GAP]), st.integers(1, 260)), min_size=1, max_size=12)


@given(STRETCHES)
def test_sleeps_are_those_of_the_definition(parts):
    night = recording(*parts)
    assert sg.find_sleeps(night) == by_hand(night.labels.tolist())


@given(STRETCHES)
def test_each_sleep_alone_is_found_as_it_is(parts):
    night = recording(*parts)
    for first, end in sg.find_sleeps(night):
        alone = sg.Hypnogram(night.labels[first:end], "ws2", 30)
        assert sg.find_sleeps(alone) == [(0, end - first)]
