"""Heart-rate variability against closed forms, sleepecg, scipy and plain loops; on real intervals too."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from body_signals import beat_series, recording, steady_beats
from stageguard.night.recording import EpochGrid, Series
from stageguard.signals.heart import (
    DFA_BEATS,
    Heart,
    Normal,
    dfa_exponent,
    find_beats,
    hrv_features,
    sample_entropy,
    time_measures,
)

scipy_signal = pytest.importorskip("scipy.signal")
interpolate = pytest.importorskip("scipy.interpolate")
norm = pytest.importorskip("scipy.stats").norm
feature_extraction = pytest.importorskip("sleepecg.feature_extraction")


def random_intervals(n, seed=0):
    rng = np.random.default_rng(seed)
    return (
        0.9
        + 0.04 * np.sin(np.arange(n) / 1.6)
        + 0.05 * np.cumsum(rng.normal(0, 0.02, n))
        + rng.normal(0, 0.01, n)
    )


def night_of(intervals):
    times = 0.3 + np.cumsum(intervals)
    return find_beats(recording(beats=Series("rr", times, intervals, "s")))


def test_time_measures_by_hand():
    ms = np.array([800.0, 860.0, 840.0, 900.0])
    found = time_measures(ms, np.diff(ms))
    assert found["nn_mean_ms"] == 850
    assert found["nn_sd_ms"] == pytest.approx(np.sqrt((50**2 + 10**2 + 10**2 + 50**2) / 3))
    assert found["rmssd_ms"] == pytest.approx(np.sqrt((60**2 + 20**2 + 60**2) / 3))
    assert found["pnn50"] == pytest.approx(2 / 3)
    assert found["pnn20"] == pytest.approx(2 / 3)  # a step of exactly 20 ms is not above 20
    assert found["nn_iqr_ms"] == pytest.approx(870 - 830)


def test_window_measures_are_those_of_sleepecg():
    intervals = random_intervals(2200)
    beats = night_of(intervals)
    epochs = EpochGrid(60, 30)
    found = hrv_features(beats, epochs, Heart(ectopic_tolerance=1.0))
    inside = slice(10, 50)  # windows that are not moved
    middles = epochs.edges[:-1][inside] + 15
    ours = Normal.of(beats, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        theirs = feature_extraction._hrv_timedomain_features(ours.ms / 1000, ours.times, middles, 150, 150)
    names = feature_extraction._FEATURE_GROUPS["hrv-time"]
    same = {
        "nn_mean_ms": ("meanNN", 1000),
        "nn_sd_ms": ("SDNN", 1000),
        "nn_iqr_ms": ("iqrNN", 1000),
        "rmssd_ms": ("RMSSD", 1000),
        "pnn20": ("pNN20", None),
        "heart_rate_sd_bpm": ("stdHR", 1),
        "sd1_ms": ("SD1", 1000),
        "sd2_ms": ("SD2", 1000),
        "sd1_sd2_ratio": ("SD1_SD2_ratio", 1),
    }
    n = np.array([np.sum((ours.times >= m - 150) & (ours.times < m + 150)) for m in middles])
    padded = n.max() - 1  # sleepecg takes shares of the longest window, padding included
    for own, (other, factor) in same.items():
        expected = theirs[:, names.index(other)]
        expected = expected * (padded / (n - 1) if factor is None else factor)
        np.testing.assert_allclose(found[own][inside], expected, rtol=1e-9, err_msg=own)


@pytest.mark.parametrize(("hz", "band"), [(0.25, "hf"), (0.1, "lf"), (0.02, "vlf")])
def test_a_sine_has_half_its_amplitude_squared_in_its_band(hz, band):
    beats = find_beats(recording(beats=beat_series(steady_beats(900, mean=0.6, depth=0.03, hz=hz))))
    found = hrv_features(beats, EpochGrid(29, 30), Heart())
    power = {name: np.exp(found[f"{name}_log_ms2"]) for name in ("vlf", "lf", "hf")}
    np.testing.assert_allclose(power[band], 30**2 / 2, rtol=0.06)  # what lies between beats is a guess
    for other in set(power) - {band}:
        assert power[other].max() < 0.02 * power[band].min()
    if band == "hf":
        np.testing.assert_allclose(found["hf_peak_hz"], 0.25, atol=0.001)
        assert found["hf_peak_share"].min() > 0.98
        assert found["lf_share"].max() < 0.01
        assert found["lf_hf_log_ratio"].max() < -4


def test_spectra_are_those_of_scipy():
    beats = night_of(random_intervals(1500, seed=3))
    epochs = EpochGrid(40, 30)
    normal = Normal.of(beats, 1.0)
    grid = np.arange(0, 1200.01, 0.25)
    series = interpolate.CubicSpline(normal.times, normal.ms)(grid)
    found = hrv_features(beats, epochs, Heart(ectopic_tolerance=1.0))
    for at in (12, 20, 28):
        first = round((30 * at + 15 - 150) * 4)
        lines, density = scipy_signal.periodogram(
            series[first : first + 1200], 4.0, window="hann", detrend="linear"
        )
        for name, (low, high) in {"vlf": (0.0033, 0.04), "lf": (0.04, 0.15), "hf": (0.15, 0.4)}.items():
            power = density[(lines > low) & (lines <= high)].sum() * lines[1]
            assert np.exp(found[f"{name}_log_ms2"][at]) == pytest.approx(power, rel=1e-9)


def entropy_by_counting(values, m, r):
    """Pairs of different runs that agree, counted one by one."""
    n = len(values)

    def pairs(length):
        total = 0
        for i in range(n - m):
            for j in range(n - m):
                if i != j and max(abs(values[i + k] - values[j + k]) for k in range(length)) <= r:
                    total += 1
        return total

    return -np.log(pairs(m + 1) / pairs(m))


def test_sample_entropy_is_counted_right():
    values = 1000 * random_intervals(60, seed=5)
    r = 0.2 * values.std(ddof=1)
    assert sample_entropy(values, 2, r) == pytest.approx(entropy_by_counting(values, 2, r), abs=1e-12)


def dfa_by_fitting(values, sizes):
    profile = np.cumsum(values - np.mean(values))
    rest = []
    for size in sizes:
        whole = len(profile) // size
        squares = []
        for piece in (profile[: whole * size], profile[len(profile) - whole * size :]):
            for box in piece.reshape(whole, size):
                line = np.polyval(np.polyfit(np.arange(size), box, 1), np.arange(size))
                squares.append(np.mean((box - line) ** 2))
        rest.append(np.sqrt(np.mean(squares)))
    return np.polyfit(np.log(sizes), np.log(rest), 1)[0]


def test_scaling_exponent_is_the_slope_of_the_fluctuations():
    values = 1000 * random_intervals(300, seed=7)
    assert dfa_exponent(values, DFA_BEATS) == pytest.approx(dfa_by_fitting(values, DFA_BEATS), rel=1e-9)
