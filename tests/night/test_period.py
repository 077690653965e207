"""The sleep period: from the first to the last lasting sleep, whatever lies around it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stageguard.guard import kernels
from stageguard.night.period import period_epochs, period_of, sleep_period

WAKE, SLEEP, UNSCORED = 0, 2, -1


def period_by_hand(labels, window, least):
    """Try every epoch."""
    asleep = [label > 0 for label in labels]
    begins = [t for t, here in enumerate(asleep) if here and sum(asleep[t : t + window]) >= least]
    ends = [
        t for t, here in enumerate(asleep) if here and sum(asleep[max(0, t + 1 - window) : t + 1]) >= least
    ]
    if not begins:
        begins = ends = [t for t, here in enumerate(asleep) if here]
    return (begins[0], ends[-1] + 1) if begins else (0, 0)


@given(st.lists(st.sampled_from([WAKE, SLEEP, 4, UNSCORED]), min_size=1, max_size=90), st.integers(1, 20))
def test_both_implementations_find_what_trying_every_epoch_finds(labels, window):
    labels = np.array(labels, dtype=np.int8)
    for least in {1, (window + 1) // 2, window}:
        expected = period_by_hand(labels.tolist(), window, least)
        arguments = (labels, WAKE, window, least, 0, len(labels))
        assert sleep_period(*arguments) == expected
        assert tuple(kernels.active.sleep_period(*arguments)) == expected


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
    found, least = period_epochs(seconds)
    assert found == window
    assert 1 <= least <= window
