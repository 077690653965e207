"""Activity counts: from raw acceleration as agcounts makes them, given ones, and sums over any time."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from body_signals import recording, wrist
from messages import naming
from stageguard.errors import InputError, MissingExtraError
from stageguard.night.recording import EpochGrid, Series, Signal
from stageguard.signals import activity
from stageguard.signals.activity import (
    ActivityCounts,
    actigraph_counts,
    find_acceleration,
    find_counts,
    stillness,
    te_lindert_counts,
)

scipy_signal = pytest.importorskip("scipy.signal")


@pytest.fixture
def get_counts():
    """The independent implementation, which installs on Python 3.11 and 3.12 only."""
    return pytest.importorskip("agcounts.extract").get_counts


def three_signals(axes, rate_hz, unit="g"):
    return {f"acceleration_{name}": Signal(name, axes[:, i], rate_hz, unit) for i, name in enumerate("xyz")}


@pytest.mark.parametrize("rate_hz", activity.ACTIGRAPH_RATES)
def test_counts_are_those_of_agcounts(rate_hz, get_counts, monkeypatch):
    monkeypatch.setattr(activity, "BLOCK_SECONDS", 100)
    axes = wrist(450, rate_hz)
    counts, has_data = actigraph_counts(find_acceleration(recording(**three_signals(axes, rate_hz))))
    expected = get_counts(axes, rate_hz, 1)
    assert has_data.all()
    assert expected.sum() > 1000
    np.testing.assert_array_equal(
        counts[1:], expected[1:]
    )  # agcounts lets the last sample leak into the first


def test_counts_of_an_epoch_are_those_of_agcounts_for_that_epoch(get_counts):
    axes = wrist(600, 30)
    found = find_counts(recording(**three_signals(axes, 30)), axis="x")
    expected = get_counts(axes, 30, 30)[:, 0]
    np.testing.assert_array_equal(found.per_epoch(EpochGrid(20, 30)), expected)
    vector = find_counts(recording(**three_signals(axes, 30)))
    lengths = np.linalg.norm(get_counts(axes, 30, 30), axis=1)
    np.testing.assert_allclose(vector.per_epoch(EpochGrid(20, 30)), lengths)


def test_time_stamps_that_jitter_change_little(get_counts):
    rng = np.random.default_rng(1)
    axes = wrist(600, 50)
    times = np.sort(np.arange(len(axes)) / 50 + rng.normal(0, 0.002, len(axes)))
    series = recording(acceleration=Series("watch", times, axes, "g"))
    found = find_counts(series).per_epoch(EpochGrid(20, 30))
    expected = np.linalg.norm(get_counts(axes, 50, 30), axis=1)
    assert np.corrcoef(found, expected)[0, 1] > 0.999
    assert found.sum() == pytest.approx(expected.sum(), rel=0.02)


def test_units_are_converted_and_wrong_ones_refused():
    axes = wrist(120, 30)
    in_g = find_counts(recording(**three_signals(axes, 30)))
    in_si = find_counts(recording(**three_signals(axes * 9.80665, 30, "m/s^2")))
    np.testing.assert_allclose(in_si.counts, in_g.counts, atol=1)
    assert in_g.counts.sum() > 100
    with pytest.raises(InputError, match=r"is 9\.\d+ g in the median, expected about 1 \(gravity\)"):
        find_counts(recording(**three_signals(axes * 9.80665, 30, "g")))
    with pytest.raises(InputError, match=r"is in 'uV' \(voltage\), expected 'g'"):
        find_counts(recording(**three_signals(axes, 30, "uV")))


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


def test_missing_samples_are_a_gap_too():
    axes = wrist(120, 30)
    axes[30 * 40 : 30 * 80] = np.nan
    found = find_counts(recording(**three_signals(axes, 30)))
    np.testing.assert_array_equal(np.flatnonzero(~found.has_data), np.arange(40, 80))
    assert np.isfinite(found.counts).all()


def test_blocks_do_not_show(monkeypatch):
    axes = wrist(400, 40)
    acceleration = find_acceleration(recording(**three_signals(axes, 40)))
    whole = [
        actigraph_counts(acceleration)[0],
        te_lindert_counts(acceleration)[0],
        stillness(acceleration, 10)[0],
    ]
    monkeypatch.setattr(activity, "BLOCK_SECONDS", 90)
    parts = [
        actigraph_counts(acceleration)[0],
        te_lindert_counts(acceleration)[0],
        stillness(acceleration, 10)[0],
    ]
    for one, other in zip(whole, parts, strict=True):
        assert one.any()
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_te_lindert_counts_follow_the_published_steps():
    z = wrist(300, 50, seed=3)
    z[2000:3000, 2] += np.sin(2 * np.pi * 5 * np.arange(1000) / 50)
    found, has_data = te_lindert_counts(find_acceleration(recording(**three_signals(z, 50))))
    b, a = scipy_signal.butter(5, [3 / 25, 11 / 25], "bandpass")
    filtered = np.abs(scipy_signal.filtfilt(b, a, z[:, 2]))
    steps = np.digitize(filtered, np.linspace(0, 5, 129)).reshape(-1, 50).max(axis=1)
    expected = np.maximum((steps.reshape(-1, 15).sum(axis=1) - 18) * 3.07, 0)
    assert has_data.all() and expected.max() > 100
    np.testing.assert_allclose(found[:, 0], expected)


def test_stillness_is_the_standard_deviation():
    axes = wrist(60, 50)
    spread, has_data = stillness(find_acceleration(recording(**three_signals(axes, 50))), 20)
    np.testing.assert_allclose(spread, axes.reshape(3, 1000, 3).std(axis=1))
    assert has_data.all()


def test_given_counts_come_first_and_are_summed_over_any_epoch():
    minutes = np.array([10.0, 0.0, 40.0, 20.0])
    given = recording(counts=Signal("ZCM", minutes, 1 / 60, "counts"), **three_signals(wrist(240, 30), 30))
    found = find_counts(given)
    np.testing.assert_allclose(found.per_epoch(EpochGrid(4, 60)), minutes)
    np.testing.assert_allclose(found.per_epoch(EpochGrid(2, 120)), [10, 60])
    np.testing.assert_allclose(found.per_epoch(EpochGrid(8, 30)), [5, 5, 0, 0, 20, 20, 10, 10])


def test_given_counts_with_time_stamps_keep_their_gaps():
    times = np.array([0, 30, 60, 150, 180, 210.0])
    values = np.array([1, 2, 3, 4, -1, 6.0])
    found = find_counts(recording(counts=Series("steps", times, values, "counts")))
    per_epoch = found.per_epoch(EpochGrid(8, 30))
    np.testing.assert_allclose(per_epoch, [1, 2, 3, np.nan, np.nan, 4, np.nan, 6])


def test_a_part_with_data_stands_for_the_whole_from_one_half_on():
    counts = ActivityCounts(np.arange(31.0), np.ones((30, 1)), np.arange(30) < 20)
    counts.counts[~counts.has_data] = 0
    np.testing.assert_allclose(counts.between([0, 10, 12], [30, 30, 30]), [30, 20, np.nan])


def test_what_is_no_acceleration_is_said():
    axes = wrist(60, 30)
    with pytest.raises(InputError, match=r"no channel 'counts'; it has: heart_rate. Map one"):
        find_counts(recording(heart_rate=Signal("HR", np.full(60, 60.0), 1.0, "bpm")))
    with pytest.raises(InputError, match=naming("complete", "series of three")):
        find_counts(recording(acceleration_x=Signal("x", axes[:, 0], 30)))
    with pytest.raises(InputError, match=r"values of shape \(1800,\), expected three columns"):
        find_counts(recording(acceleration=Series("a", np.arange(1800) / 30, axes[:, 0])))
    with pytest.raises(InputError, match=naming(5, "least", 10)):
        find_counts(recording(**three_signals(axes, 5)))
    with pytest.raises(InputError, match=r"is in 'g', expected counts"):
        find_counts(recording(counts=Signal("x", axes[:, 0], 30, "g")))
    with pytest.raises(InputError, match=naming(0, "or above")):
        find_counts(recording(counts=Signal("x", np.full(5, -2.0), 1 / 30)))
    with pytest.raises(InputError, match=naming("no second with", "samples")):
        find_counts(recording(acceleration=Series("a", np.arange(1800) / 30 - 90, axes)))


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.signal", None)
    with pytest.raises(MissingExtraError, match=naming("'scipy'", "Install", "install")):
        find_counts(recording(**three_signals(wrist(60, 30), 30)))
