"""Activity counts and features of actigraphy: each against its published formula, and on real nights."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

import stageguard as sg
from body_signals import recording, unscaled, wrist
from stageguard.night.recording import EpochGrid, Recording, Series, Signal
from stageguard.signals import actigraphy
from stageguard.signals.actigraphy import (
    actigraph_counts,
    cole_kripke,
    find_acceleration,
    find_counts,
    gaussian_activity,
    sadeh,
    window_statistics,
)
from stageguard.signals.heart import heart_rate_features
from stageguard.signals.windows import Clock, clock_features

pytest.importorskip("scipy")


@pytest.fixture
def get_counts():
    """The independent implementation, which installs on Python 3.11 and 3.12 only."""
    return pytest.importorskip("agcounts.extract").get_counts


def three_signals(axes, rate_hz, unit="g"):
    return {f"acceleration_{name}": Signal(name, axes[:, i], rate_hz, unit) for i, name in enumerate("xyz")}


@pytest.mark.parametrize("rate_hz", actigraphy.ACTIGRAPH_RATES)
def test_counts_are_those_of_agcounts(rate_hz, get_counts, monkeypatch):
    monkeypatch.setattr(actigraphy, "BLOCK_SECONDS", 100)
    axes = wrist(450, rate_hz)
    counts = actigraph_counts(find_acceleration(recording(**three_signals(axes, rate_hz))))
    expected = get_counts(axes, rate_hz, 1)
    assert expected.sum() > 1000
    # agcounts lets the last sample leak into the first
    np.testing.assert_array_equal(counts[1:], expected[1:])


def test_counts_of_an_epoch_are_those_of_agcounts_for_that_epoch(get_counts):
    axes = wrist(600, 30)
    found = find_counts(recording(**three_signals(axes, 30)), axis="x")
    expected = get_counts(axes, 30, 30)[:, 0]
    np.testing.assert_array_equal(found.per_epoch(EpochGrid(20, 30)), expected)
    vector = find_counts(recording(**three_signals(axes, 30)))
    lengths = np.linalg.norm(get_counts(axes, 30, 30), axis=1)
    np.testing.assert_allclose(vector.per_epoch(EpochGrid(20, 30)), lengths)


def test_a_gap_has_no_counts_and_does_not_make_any():
    axes = wrist(300, 50, moves=0)
    times = np.arange(len(axes)) / 50
    axes[times > 200] += [0.5, 0.5, -0.6]  # the arm lies elsewhere after the gap
    keep = (times < 100) | (times >= 200)
    found = find_counts(recording(acceleration=Series("watch", times[keep], axes[keep], "g")))
    assert not found.has_data[100:200].any()
    assert found.has_data[:100].all() and found.has_data[200:].all()
    per_epoch = found.per_epoch(EpochGrid(10, 30))
    assert np.isnan(per_epoch[4:6]).all()  # 100 to 120 of 90 to 120 is missing
    assert np.isnan(per_epoch[3])
    assert per_epoch[:3].sum() == 0 and per_epoch[7:].sum() == 0


def test_given_counts_come_first_and_are_summed_over_any_epoch():
    minutes = np.array([10.0, 0.0, 40.0, 20.0])
    given = recording(counts=Signal("ZCM", minutes, 1 / 60, "counts"), **three_signals(wrist(240, 30), 30))
    found = find_counts(given)
    np.testing.assert_allclose(found.per_epoch(EpochGrid(4, 60)), minutes)
    np.testing.assert_allclose(found.per_epoch(EpochGrid(2, 120)), [10, 60])
    np.testing.assert_allclose(found.per_epoch(EpochGrid(8, 30)), [5, 5, 0, 0, 20, 20, 10, 10])


def counts_signal(values, seconds=60.0):
    return Signal("counts", np.asarray(values, dtype=float), 1 / seconds, "counts")


def column(features, name):
    return features.values[:, 0, features.names.index(name)]


def test_sadeh_is_the_published_sum():
    rng = np.random.default_rng(0)
    minutes = np.round(rng.exponential(60, (40, 11)))
    found = sadeh(minutes)
    for row, values in enumerate(minutes):
        mean = sum(values) / 11
        moderate = sum(1 for value in values if 50 <= value < 100)
        spread = np.std(values[:6], ddof=1)
        log = np.log(values[5] + 1)
        index = 7.601 - 0.065 * mean - 1.08 * moderate - 0.056 * spread - 0.703 * log
        got = [found[f"sadeh_{name}"][row] for name in ("mean", "moderate", "sd", "log", "index")]
        np.testing.assert_allclose(got, [mean, moderate, spread, log, index])


def test_cole_kripke_is_the_published_sum():
    rng = np.random.default_rng(1)
    minutes = rng.exponential(80, (30, 11))
    expected = [
        0.001 * (106 * a + 54 * b + 58 * c + 76 * d + 230 * e + 74 * f + 67 * g)
        for a, b, c, d, e, f, g in minutes[:, 1:8] / 100
    ]
    np.testing.assert_allclose(cole_kripke(minutes, 100.0), expected)


def test_window_statistics_are_those_of_the_epochs_around():
    rng = np.random.default_rng(3)
    per_minute = np.where(rng.random(50) < 0.4, 0.0, rng.exponential(30, 50))
    per_minute[20] = np.nan
    found = window_statistics(per_minute, EpochGrid(50, 30), 5.0)
    for at in (4, 18, 25, 40):
        middle = 30 * at + 15
        inside = [i for i in range(50) if middle - 150 <= 30 * i + 15 < middle + 150]
        if at == 4:
            inside = list(range(10))  # the window is moved inside the recording
        around = per_minute[inside]
        around = around[np.isfinite(around)]
        np.testing.assert_allclose(found["activity_mean_5min"][at], np.log1p(around.mean()))
        np.testing.assert_allclose(found["activity_sd_5min"][at], np.log1p(around).std())
        np.testing.assert_allclose(found["activity_zero_5min"][at], (around == 0).mean())


def test_gaussian_activity_is_walchs_weighted_sum():
    rng = np.random.default_rng(4)
    values = rng.exponential(20, 120)  # every 15 s
    counts = find_counts(recording(counts=counts_signal(values, 15)))
    middle = np.array([615.0, 900.0])
    seconds = np.arange(0, 1786)
    each = np.interp(seconds, 15.0 * np.arange(120), values)
    for at, found in zip(middle, gaussian_activity(counts, middle), strict=True):
        window = each[(seconds > at - 300) & (seconds < at + 300)]
        weights = np.exp(-0.5 * ((np.arange(len(window)) - len(window) // 2) / 50) ** 2)
        assert found == pytest.approx(window @ weights / weights.sum())


def walch_by_the_book(times, values, first_epochs):
    """As described for the published features: interpolate, filter, normalise, spread in the window."""
    seconds = np.arange(times[0], times[-1], 1)
    rate = np.interp(seconds, times, values)
    rate = rate - rate.mean()
    kernel = np.array(
        [
            np.exp(-0.5 * ((i - 142) / 120) ** 2) - 0.75 * np.exp(-0.5 * ((i - 142) / 600) ** 2)
            for i in range(285)
        ]
    )
    padded = np.concatenate([rate[:142][::-1], rate, rate[-142:][::-1]])
    filtered = np.convolve(padded, kernel, "valid")
    filtered /= np.percentile(np.abs(filtered), 90)
    return [np.std(filtered[(seconds >= t - 285) & (seconds < t + 30 + 285)]) for t in first_epochs]


def test_heart_rate_change_is_walchs_feature():
    rng = np.random.default_rng(5)
    times = np.cumsum(rng.uniform(3, 7, 1400))
    times = times[times < 6000] - times[0]
    values = 60 + 5 * np.sin(times / 300) + rng.normal(0, 2, len(times))
    epochs = EpochGrid(int(times[-1] // 30) + 1, 30)
    night = recording(heart_rate=Series("hr", times, values, "bpm"))
    found = heart_rate_features(night, epochs, ("mean", "spread", "change"))
    expected = walch_by_the_book(times, values, epochs.edges[:-1])
    np.testing.assert_allclose(found["heart_rate_change"], expected, rtol=1e-9)


def test_clock_is_lowest_at_five_and_the_proxy_five_hours_in():
    start = datetime(2024, 1, 1, 22, 0)
    found = clock_features(EpochGrid(960, 30, start), Clock(), "night")
    assert int(found["clock_cosine"].argmin()) == 7 * 120
    assert int(found["elapsed_cosine"].argmin()) == 5 * 120
    assert found["elapsed_cosine"][0] == pytest.approx(-0.258819, abs=1e-6)
    np.testing.assert_allclose(found["clock_cosine"] ** 2 + found["clock_sine"] ** 2, 1)
    assert found["hours"][-1] == pytest.approx(8 - 1 / 120)


def sleep_accel_nights(data_dir):
    with np.load(data_dir / "sleep-accel" / "sleep_accel_walch_features.npz") as nights:
        for name in nights.files:
            rows = nights[name]
            epochs = np.rint(rows[:, 0] * 120).astype(int)
            values = np.full((epochs[-1] + 1, rows.shape[1]), np.nan)
            values[epochs] = rows
            yield name, values


def test_time_features_are_those_published_with_sleep_accel(data_dir):
    for _, rows in sleep_accel_nights(data_dir):
        found = clock_features(EpochGrid(len(rows), 30), Clock(), "night")
        known = np.isfinite(rows[:, 0])
        np.testing.assert_allclose(found["hours"][known], rows[known, 0], atol=1e-5)
        np.testing.assert_allclose(found["elapsed_cosine"][known], rows[known, 3], atol=1e-5)


def test_real_nights_of_counts_give_features_that_tell_sleep_from_wake(data_dir):
    higher = []
    for name, rows in sleep_accel_nights(data_dir):
        night = Recording(name, name, {"counts": counts_signal(rows[:, 1], 30)})
        made = sg.features(night, unscaled("actigraphy"))
        np.testing.assert_array_equal(made.has_signal, np.isfinite(rows[:, 1]))
        wake, asleep = rows[:, 5] == 0, rows[:, 5] > 0
        if wake.sum() > 10:
            index = column(made, "sadeh_index")
            higher.append(
                np.mean(index[asleep][:, None] > index[wake])
                + 0.5 * np.mean(index[asleep][:, None] == index[wake])
            )
    assert len(higher) > 25
    assert np.median(higher) > 0.7
