"""The sleep period, from the first to the last lasting sleep, and the sleeps in recordings of days."""

from datetime import datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stageguard as sg
from stageguard.night.period import period_epochs, period_of

WAKE, SLEEP, UNSCORED = 0, 2, -1


def period_by_hand(labels, window, least, apart):
    """Try every epoch, and every two that are neighbours among those of lasting sleep."""
    asleep = [label > 0 for label in labels]
    lasting = [
        t
        for t, here in enumerate(asleep)
        if here and max(sum(asleep[t : t + window]), sum(asleep[max(0, t + 1 - window) : t + 1])) >= least
    ]
    epochs = [t for t, here in enumerate(asleep) if here]
    if not lasting:
        return (epochs[0], epochs[-1] + 1) if epochs else (0, 0)
    sleeps = [[lasting[0]]]
    for before, after in pairwise(lasting):
        sleeps += [[]] if after - before > apart else []
        sleeps[-1].append(after)
    longest = max(sleeps, key=lambda sleep: sum(asleep[sleep[0] : sleep[-1] + 1]))
    return longest[0], longest[-1] + 1


@given(st.lists(st.sampled_from([WAKE, SLEEP, 4, UNSCORED]), min_size=1, max_size=90))
def test_the_period_is_what_trying_every_epoch_finds(labels):
    labels = np.array(labels, dtype=np.int8)
    for seconds in (30.0, 300.0, 1200.0):
        expected = period_by_hand(labels.tolist(), *period_epochs(seconds))
        assert period_of(labels, WAKE, seconds) == expected


def test_a_doze_by_day_is_not_of_the_night():
    labels = np.zeros(2600, dtype=np.int8)
    labels[1000:1900] = SLEEP
    night = period_of(labels, WAKE, 30.0)
    labels[500:520] = labels[2280:2300] = SLEEP  # ten minutes, more than three hours before and after
    assert period_of(labels, WAKE, 30.0) == night == (1000, 1900)
    labels[680:700] = SLEEP  # less than three hours before both
    assert period_of(labels, WAKE, 30.0) == (500, 1900)


@given(
    st.lists(st.sampled_from([WAKE, SLEEP, UNSCORED]), min_size=1, max_size=120),
    st.sampled_from([WAKE, UNSCORED]),
    st.integers(0, 200),
    st.integers(0, 200),
)
def test_wake_and_unscored_epochs_around_a_night_move_nothing(labels, what, n_before, n_after):
    labels = np.array(labels, dtype=np.int8)
    first, stop = period_of(labels, WAKE, 30.0)
    around = np.concatenate([np.full(n_before, what), labels, np.full(n_after, what)]).astype(np.int8)
    moved = n_before if first < stop else 0  # an empty period is nowhere
    assert period_of(around, WAKE, 30.0) == (first + moved, stop + moved)


def test_sporadic_sleep_hours_before_is_not_of_the_night():
    labels = np.zeros(1200, dtype=np.int8)
    labels[[100, 250, 1150]] = SLEEP
    labels[400:1000] = SLEEP
    assert period_of(labels, WAKE, 30.0) == (400, 1000)
    assert period_of(labels, WAKE, 30.0, 0, 700) == (400, 700)
    assert period_of(labels[:300], WAKE, 30.0) == (100, 251)  # no sleep lasts
    assert period_of(np.zeros(10, dtype=np.int8), WAKE, 30.0) == (0, 0)


@pytest.mark.parametrize(("seconds", "window"), [(30.0, 20), (20.0, 30), (60.0, 10), (900.0, 1)])
def test_minutes_are_whole_epochs_of_any_length(seconds, window):
    found, least, _ = period_epochs(seconds)
    assert found == window
    assert 1 <= least <= window


# ---- recordings of days

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
