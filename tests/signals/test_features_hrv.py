"""Heart-rate variability against closed forms, sleepecg, scipy and plain loops; on real intervals too."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from body_signals import beat_series, recording, steady_beats
from messages import naming
from stageguard.errors import InputError
from stageguard.night.recording import EpochGrid, Series
from stageguard.signals.features import Recipe
from stageguard.signals.heart import (
    DFA_BEATS,
    Heart,
    Normal,
    dfa_exponent,
    find_beats,
    frequency_measures,
    hrv_features,
    nonlinear_measures,
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


# -- the time domain


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


def test_the_epochs_own_heart_rate():
    intervals = np.where(np.arange(200) < 100, 0.6, 0.5)
    beats = night_of(intervals)  # 100 bpm for a minute, then 120
    found = hrv_features(beats, EpochGrid(3, 30), Heart(groups=("epoch",)))
    np.testing.assert_allclose(found["heart_rate_bpm"], [100, 100, 120], rtol=0.01)
    np.testing.assert_allclose(found["heart_rate_range_bpm"][:2], [0, 0], atol=1e-6)


def test_ectopic_beats_do_not_raise_rmssd():
    times = steady_beats(600, mean=0.9, depth=0.02)
    clean = hrv_features(find_beats(recording(beats=beat_series(times))), EpochGrid(19, 30), Heart())
    early = times.copy()
    early[50::40] -= 0.35
    found = hrv_features(find_beats(recording(beats=beat_series(early))), EpochGrid(19, 30), Heart())
    np.testing.assert_allclose(found["rmssd_ms"], clean["rmssd_ms"], rtol=0.03)
    counted = hrv_features(
        find_beats(recording(beats=beat_series(early))), EpochGrid(19, 30), Heart(ectopic_tolerance=1.0)
    )
    assert counted["rmssd_ms"].min() > 3 * clean["rmssd_ms"].max()


# -- the frequency domain


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


def test_powers_are_near_those_of_sleepecg():
    rng = np.random.default_rng(4)
    place = np.arange(2200)
    waves = np.sin(place / 1.6) + 0.7 * np.sin(place / 0.7) + rng.normal(0, 0.1, 2200)
    beats = night_of(0.9 + 0.03 * (1 + 0.8 * np.sin(place / 400)) * waves)
    epochs = EpochGrid(60, 30)
    found = hrv_features(beats, epochs, Heart())
    normal = Normal.of(beats, 0.2)
    theirs = feature_extraction._hrv_frequencydomain_features(
        normal.ms / 1000, normal.times, epochs.edges[10:50] + 15, 150, 150, 4, 0
    )
    # straight lines between beats, as sleepecg draws them, lose some of what is fast
    for own, other, low, high in (("lf", 2, 0.9, 1.25), ("hf", 4, 1.0, 2.0)):
        ratio = np.exp(found[f"{own}_log_ms2"][10:50]) / (theirs[:, other] * 1e6)
        assert low < np.median(ratio) < high
        assert np.corrcoef(found[f"{own}_log_ms2"][10:50], np.log(theirs[:, other]))[0, 1] > 0.95


def test_noise_has_its_share_of_power_in_each_band():
    """White noise of 20 ms at a mean of 0.7 s spreads evenly up to 1 / 1.4 Hz."""
    intervals = 0.7 + np.random.default_rng(11).normal(0, 0.02, 8000)
    found = hrv_features(night_of(intervals), EpochGrid(180, 30), Heart(ectopic_tolerance=1.0))
    for band, width in {"lf": 0.11, "hf": 0.25}.items():
        assert np.exp(found[f"{band}_log_ms2"]).mean() == pytest.approx(400 * width * 1.4, rel=0.12)


def test_a_gap_in_the_beats_does_not_count():
    times = steady_beats(900, mean=0.6, depth=0.03)
    kept = times[(times < 400) | (times > 460)]
    beats = find_beats(recording(beats=Series("t", kept, np.full(len(kept), np.nan))))
    found = hrv_features(beats, EpochGrid(29, 30), Heart())
    np.testing.assert_allclose(np.exp(found["hf_log_ms2"]), 450, rtol=0.1)
    np.testing.assert_allclose(found["nn_mean_ms"], 600, rtol=0.01)


def test_too_few_beats_are_no_numbers():
    times = steady_beats(900)
    kept = times[(times < 200) | (times > 700)]
    beats = find_beats(recording(beats=Series("t", kept, np.full(len(kept), np.nan))))
    found = hrv_features(beats, EpochGrid(29, 30), Heart())
    in_gap = slice(13, 17)
    for name, values in found.items():
        assert np.isnan(values[in_gap]).all(), name
        assert np.isfinite(values[[0, 1, -1]]).all(), name


def test_bands_beyond_half_the_rate_are_refused():
    with pytest.raises(InputError, match=naming("heart.bands.hf", "0.6 Hz", "resample_hz", "0.5")):
        Heart(resample_hz=1.0, bands={"hf": (0.15, 0.6)})
    with pytest.raises(InputError, match=r"heart.groups is 'times', expected .*Did you mean 'time'\?"):
        Recipe.load("cardiorespiratory").replace(heart={"groups": ["times"]})


def test_bands_of_ones_own():
    beats = find_beats(recording(beats=beat_series(steady_beats(600, mean=0.6, depth=0.03, hz=0.3))))
    normal = Normal.of(beats, 0.2)
    found = frequency_measures(normal, np.array([0.0]), np.array([300.0]), 4.0, {"breath": (0.2, 0.5)})
    assert list(found) == ["breath_log_ms2"]
    assert np.exp(found["breath_log_ms2"][0]) == pytest.approx(450, rel=0.1)


# -- non-linear measures


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


def test_sample_entropy_of_order_and_of_noise():
    rng = np.random.default_rng(6)
    noise = rng.normal(0, 1, 800)
    order = np.tile([1.0, 2.0, 4.0, 3.0], 200)
    assert sample_entropy(order, 2, 0.2 * order.std()) < 0.1
    # two draws of a normal are within 0.2 of each other with this chance
    chance = 2 * norm.cdf(0.2 / np.sqrt(2)) - 1
    assert sample_entropy(noise, 2, 0.2) == pytest.approx(-np.log(chance), abs=0.15)
    assert sample_entropy(np.full(50, 900.0), 2, 0.0) == 0


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


def test_scaling_exponent_of_noise_and_of_its_sum():
    rng = np.random.default_rng(8)
    noise = rng.normal(0, 1, 20_000)
    sizes = np.arange(16, 65, 8)
    assert dfa_exponent(noise, sizes) == pytest.approx(0.5, abs=0.04)
    assert dfa_exponent(np.cumsum(noise), sizes) == pytest.approx(1.5, abs=0.06)
    assert dfa_exponent(np.full(100, 900.0), DFA_BEATS) == 0


def test_poincare_widths_of_alternating_beats():
    ms = np.tile([800.0, 900.0], 100)
    found = nonlinear_measures(ms, np.diff(ms))
    assert found["sd1_ms"] == pytest.approx(100 / np.sqrt(2), rel=0.01)
    assert found["sd2_ms"] == pytest.approx(0, abs=6)


def test_a_heart_like_a_clock_has_numbers_too():
    found = hrv_features(
        find_beats(recording(beats=beat_series(steady_beats(600)))), EpochGrid(19, 30), Heart()
    )
    for name, values in found.items():
        assert np.isfinite(values).all(), name
    assert found["rmssd_ms"].max() < 1e-6
    assert found["dfa_alpha1"].max() == 0


# -- real intervals


def test_real_intervals_have_plausible_variability(data_dir):
    medians = []
    with np.load(data_dir / "slpdb" / "slpdb_rr_stages.npz") as nights:
        names = ["slp01a", "slp02b", "slp67x"]
        for name in names:
            times, intervals = nights[f"{name}_t_beat"], nights[f"{name}_rr"]
            beats = find_beats(recording(beats=Series(name, times, intervals, "s")))
            epochs = EpochGrid(int(times[-1] // 30), 30)
            found = hrv_features(beats, epochs, Heart())
            medians.append({key: np.nanmedian(values) for key, values in found.items()})
            normal = Normal.of(beats, 0.2)
            assert len(normal.ms) > 0.9 * len(times)
    assert len(medians) == 3
    for night in medians:
        assert 50 < night["heart_rate_bpm"] < 110
        assert 20 < night["nn_sd_ms"] < 120
        assert 8 < night["rmssd_ms"] < 100
        assert 0.4 < night["dfa_alpha1"] < 1.6
        assert 0.3 < night["sample_entropy"] < 2.5
        assert 0.15 <= night["hf_peak_hz"] < 0.4
