"""Whole days: sleeps, their kinds and days, and what is told over days."""

from __future__ import annotations

from datetime import date, datetime
from math import isnan
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stageguard as sg
from stageguard.measures.days import DAY_QUANTITIES, sleep_regularity

W, S, GAP = 0, 1, sg.UNSCORED
HOUR = 120
NOON = datetime(2024, 1, 1, 12)


def hypnogram(*parts: tuple[int, int], start: datetime | None = NOON) -> sg.Hypnogram:
    return sg.Hypnogram(np.repeat([stage for stage, _ in parts], [n for _, n in parts]), "ws2", 30, start)


def flickering(n_epochs: int, seed: int, asleep: float) -> np.ndarray:
    """Probabilities of five stages in bouts with noise; wake first with probability 1 - asleep."""
    rng = np.random.default_rng(seed)
    bouts = rng.integers(5, 60, n_epochs)
    stages = np.where(rng.random(n_epochs) < asleep, rng.integers(1, 5, n_epochs), 0)
    path = np.repeat(stages, bouts)[:n_epochs]
    noisy = np.where(rng.random(n_epochs) < 0.1, rng.integers(0, 5, n_epochs), path)
    rows = rng.dirichlet(np.ones(5), n_epochs) * 0.5
    rows[np.arange(n_epochs), noisy] += 0.5
    return rows


AWAKE = np.array([[0.9, 0.05, 0.02, 0.01, 0.02]])


def padding(kind: str, n_epochs: int, seed: int) -> np.ndarray:
    """Epochs beyond two hours of a sleep: of any kind."""
    if kind == "wake":
        return np.repeat(AWAKE, n_epochs, axis=0)
    if kind == "non-wear":
        return np.full((n_epochs, 5), np.nan)
    if kind == "noise":
        return np.random.default_rng(seed).dirichlet(np.ones(5), n_epochs)
    return flickering(n_epochs, seed + 1, asleep=0.9)


PADS = st.tuples(
    st.sampled_from(["wake", "non-wear"]),  # two hours beside the sleep
    st.sampled_from(["wake", "non-wear", "noise", "night"]),  # and beyond them
    st.integers(1, 4 * HOUR),
)


@pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")  # noise is changed a lot
@given(st.integers(0, 10**6), PADS, PADS)
@settings(max_examples=15, deadline=None)
def test_what_lies_beyond_two_hours_changes_nothing_inside_a_sleep(seed, before, after):
    stretch = flickering(4 * HOUR, seed, asleep=0.9)
    night = sg.Hypnodensity(stretch, "aasm5", 30, NOON)
    first, end = sg.find_sleeps(night)[0]
    alone = sg.decode(sg.Hypnodensity(stretch[first:end], "aasm5", 30), "human-psg-5")
    quiet = {kind: padding(kind, 2 * HOUR, seed) for kind in ("wake", "non-wear")}
    parts = [
        *(padding(before[1], before[2], seed), quiet[before[0]]),
        *(stretch[first:end], quiet[after[0]], padding(after[1], after[2], seed + 7)),
    ]
    begin = len(parts[0]) + len(parts[1])
    found = sg.days(sg.Hypnodensity(np.vstack(parts), "aasm5", 30, NOON), "human-psg-5")
    same = [sleep for sleep in found.sleeps if sleep.first == begin]
    assert len(same) == 1
    assert same[0].end - same[0].first == end - first
    assert np.array_equal(same[0].hypnogram.labels, alone.hypnogram.labels)
    assert same[0].decoding.strength == alone.strength
    assert same[0].statistics.to_dict() == pytest.approx(sg.sleep_statistics(alone).to_dict(), nan_ok=True)


def week(start: datetime = NOON) -> sg.Hypnogram:
    day = [(W, 11 * HOUR), (S, 4 * HOUR), (W, 20), (S, 4 * HOUR - 20), (W, 5 * HOUR)]
    return hypnogram(*day * 7, start=start)


def test_a_week_gives_seven_main_sleeps():
    found = sg.days(week())
    assert [sleep.kind for sleep in found.sleeps] == ["main"] * 7
    assert [sleep.date for sleep in found.sleeps] == [date(2024, 1, day) for day in range(1, 8)]
    assert found.n_days == 7
    assert found.mean["tst_minutes"] == 470
    assert found.mean["waso_minutes"] == 10
    assert found.mean["onset_hours"] == 11
    assert found.mean["mid_sleep_hours"] == 15
    assert found.sd["mid_sleep_hours"] == 0
    assert found.sri == 100


@pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")
def test_a_density_of_a_week_is_guarded_sleep_by_sleep():
    awake = np.repeat(AWAKE, 8 * HOUR, axis=0)
    rows = np.vstack([part for seed in range(7) for part in (awake, flickering(8 * HOUR, seed, 0.95), awake)])
    density = sg.Hypnodensity(rows, "aasm5", 30, NOON)
    found = sg.days(density, "human-psg-5")
    assert [sleep.kind for sleep in found.sleeps] == ["main"] * 7
    assert all(sleep.decoding.profile.name == "human-psg-5" for sleep in found.sleeps)
    assert any(sleep.decoding.changed.any() for sleep in found.sleeps)
    for sleep in found.sleeps:
        inside = found.hypnogram.labels[sleep.first : sleep.end]
        assert np.array_equal(inside, sleep.hypnogram.labels)


def test_the_longest_sleep_of_a_day_is_main_and_the_others_are_naps():
    found = sg.days(hypnogram((W, 2 * HOUR), (S, HOUR), (W, 8 * HOUR), (S, 6 * HOUR), (W, 7 * HOUR)))
    assert [sleep.kind for sleep in found.sleeps] == ["nap", "main"]
    assert found.days[0].main.statistics.tst_minutes == 360
    assert found.mean["nap_minutes"] == 60
    assert found.mean["day_tst_minutes"] == 420


def test_a_morning_sleep_belongs_to_the_day_of_the_noon_before():
    found = sg.days(hypnogram((S, 5 * HOUR), (W, 20 * HOUR), start=datetime(2024, 1, 2, 6)))
    assert found.sleeps[0].date == date(2024, 1, 1)
    assert found.sleeps[0].middle == datetime(2024, 1, 2, 8, 30)


def test_a_day_with_more_than_half_of_it_missing_does_not_count():
    parts = [(W, 11 * HOUR), (GAP, HOUR), (S, 8 * HOUR), (GAP, 4 * HOUR)]
    rest = [(GAP, 11 * HOUR + 120), (S, 8 * HOUR), (GAP, 5 * HOUR - 120)]
    found = sg.days(hypnogram(*parts, *rest))
    assert [day.counts for day in found.days] == [True, False]
    assert found.days[1].missing_percent == pytest.approx(100 * 16 / 24)
    assert found.days[1].main is not None
    assert found.n_days == 1
    assert isnan(found.sd["tst_minutes"])


def test_missing_epochs_are_neither_sleep_nor_wake():
    found = sg.days(hypnogram((W, 10 * HOUR), (GAP, 2 * HOUR), (S, 6 * HOUR), (W, 6 * HOUR)))
    labels = found.hypnogram.labels
    assert (labels[10 * HOUR : 12 * HOUR] == GAP).all()
    assert found.sleeps[0].statistics.tst_minutes == 360


def test_a_lost_signal_is_missing_even_where_the_stager_saw_sleep():
    rows = np.tile([0.1, 0.9], (12 * HOUR, 1))
    lost = np.zeros(len(rows))
    lost[4 * HOUR : 8 * HOUR] = 1
    found = sg.days(sg.Hypnodensity(rows, "ws2", 30, NOON), "human-actigraphy-2", quality=lost)
    assert [(sleep.first, sleep.end) for sleep in found.sleeps] == [(0, 4 * HOUR), (8 * HOUR, 12 * HOUR)]
    assert (found.hypnogram.labels[4 * HOUR : 8 * HOUR] == GAP).all()


@pytest.mark.parametrize(
    ("day", "hours"), [(datetime(2024, 3, 30, 12), 23), (datetime(2024, 10, 26, 12), 25)]
)
def test_a_day_on_which_the_clock_changes_is_shorter_or_longer(day, hours):
    start = day.replace(tzinfo=ZoneInfo("Europe/Berlin"))
    found = sg.days(hypnogram((W, 11 * HOUR), (S, 8 * HOUR), (W, (hours - 19) * HOUR), start=start))
    assert len(found.days) == 1
    assert found.days[0].missing_percent == pytest.approx(0)
    assert found.sleeps[0].onset.hour == 23
    assert found.sleeps[0].offset.hour == 7 + (24 - hours)
    assert found.mean["offset_hours"] == 19 + (24 - hours)


def test_a_timezone_turns_utc_into_local_days():
    utc = hypnogram((S, 8 * HOUR), (W, 16 * HOUR), start=datetime(2024, 7, 2, 4, tzinfo=ZoneInfo("UTC")))
    assert sg.days(utc).sleeps[0].onset.hour == 4
    there = sg.days(utc, timezone="America/New_York")
    assert there.sleeps[0].onset.hour == 0
    assert there.sleeps[0].date == date(2024, 7, 1)
    with pytest.raises(sg.InputError, match="Nowhere"):
        sg.days(utc, timezone="Nowhere/At_all")


def regularity_by_hand(days: list[list[int]]) -> float:
    """The sum of Phillips et al. 2017, day by day and epoch by epoch."""
    n_same = n_pairs = 0
    for one in range(len(days) - 1):
        for epoch in range(len(days[one])):
            now, next_day = days[one][epoch], days[one + 1][epoch]
            if now >= 0 and next_day >= 0:
                n_pairs += 1
                n_same += now == next_day
    return -100 + 200 * n_same / n_pairs if n_pairs else float("nan")


@given(st.integers(2, 5), st.integers(0, 10**6))
def test_regularity_is_that_of_two_plain_loops(n_days, seed):
    days = np.random.default_rng(seed).integers(-1, 2, (n_days, 24))
    expected = regularity_by_hand(days.tolist())
    assert sleep_regularity(days.ravel(), 3600) == pytest.approx(expected, nan_ok=True)


def test_regularity_of_opposite_days_is_lowest_and_of_one_day_unknown():
    day = [1] * 8 + [0] * 16
    assert sleep_regularity(day + [1 - state for state in day], 3600) == -100
    assert isnan(sleep_regularity(day, 3600))


def test_mice_are_left_to_the_commands_that_measure_them():
    rows = np.tile([0.1, 0.8, 0.1], (900, 1))
    with pytest.raises(sg.InputError, match="mouse"):
        sg.days(sg.Hypnodensity(rows, "wnr3", 4, NOON), "mouse-eeg-emg-3")


@pytest.mark.parametrize("start", [None, NOON])
def test_days_need_a_start_and_probabilities_a_profile(start):
    with pytest.raises(sg.InputError, match="start" if start is None else "profile"):
        sg.days(sg.Hypnodensity([[0.5, 0.5]], "ws2", 30, start))


def test_rows_have_every_quantity():
    frame = sg.days(week()).to_frame()
    assert {quantity.key for quantity in DAY_QUANTITIES} <= set(frame.columns)
    assert frame["counts"].tolist() == [True] * 7
    record = sg.days(week()).to_dict()
    assert record["over_days"]["n_days"] == len(record["sleeps"]) == 7


def scored_week() -> sg.Hypnogram:
    """Three days of five stages, with the same night of flickering labels each."""
    day = flickering(8 * HOUR, 3, 0.95).argmax(axis=1)
    awake = np.zeros(8 * HOUR, dtype=int)
    return sg.Hypnogram(
        np.concatenate([part for _ in range(3) for part in (awake, day, awake)]), "aasm5", 30, NOON
    )


@pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")
def test_labels_with_a_profile_are_guarded_as_decode_guards_them():
    night = scored_week()
    found = sg.days(night, "human-psg-5")
    assert [sleep.kind for sleep in found.sleeps] == ["main"] * 3
    for sleep in found.sleeps:
        alone = sg.decode(sg.Hypnogram(night.labels[sleep.first : sleep.end], "aasm5", 30), "human-psg-5")
        assert np.array_equal(sleep.hypnogram.labels, alone.hypnogram.labels)
    assert all(sleep.decoding is None for sleep in sg.days(night).sleeps)


def test_labels_are_refused_by_a_profile_without_typical_confusions():
    with pytest.raises(sg.InputError, match="human-actigraphy-2"):
        sg.days(week(), "human-actigraphy-2")
