"""Features of heart and breathing as a whole: which channels, which epochs, which names."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from body_signals import beat_series, breathing, ecg, recording, steady_beats, unscaled
from stageguard.night.recording import Recording, Series, Signal
from stageguard.signals.features import Recipe

pytest.importorskip("sleepecg")

SECONDS = 1200


def a_night(**more):
    times = steady_beats(SECONDS, mean=0.9, depth=0.03)
    signals = {
        "ecg": Signal("ECG", ecg(times, SECONDS, 128.0), 128.0, "mV"),
        "thorax": Signal("THOR", breathing(SECONDS, 10.0), 10.0),
        "abdomen": Signal("ABDO", breathing(SECONDS, 10.0), 10.0),
    }
    return recording(**{**signals, **more})


def column(features, name):
    return features.values[:, 0, features.names.index(name)]


def test_every_channel_gives_its_features():
    made = sg.features(a_night(), unscaled("cardiorespiratory"))
    assert made.values.shape == (40, 1, len(made.names))
    assert np.isfinite(made.values).all()
    np.testing.assert_allclose(column(made, "heart_rate_bpm"), 60 / 0.9, rtol=0.01)
    np.testing.assert_allclose(column(made, "thorax_rate_per_min"), 15, atol=0.1)
    np.testing.assert_allclose(column(made, "hf_peak_hz"), 0.25, atol=0.005)
    own = {"heart_rate_bpm", "rmssd_ms", "thorax_rate_per_min", "hf_log_ms2"}
    assert not own & set(made.absolute)
    assert {"hours", "lf_share", "dfa_alpha1", "thorax_regularity"} <= set(made.absolute)


def test_beats_come_before_the_ecg():
    other = steady_beats(SECONDS, mean=0.6)
    made = sg.features(a_night(beats=beat_series(other)), unscaled("heartbeats"))
    np.testing.assert_allclose(column(made, "nn_mean_ms"), 600, rtol=1e-6)


def test_an_epoch_with_neither_heart_nor_breathing_is_missing_and_others_are_complete():
    night = a_night()
    heart, chest, belly = (night.signals[role].read() for role in ("ecg", "thorax", "abdomen"))
    heart[128 * 300 : 128 * 600] = np.nan
    chest[10 * 450 : 10 * 900] = np.nan
    belly[10 * 450 : 10 * 900] = np.nan
    lost = recording(
        ecg=Signal("E", heart, 128.0, "mV"), thorax=Signal("T", chest, 10.0), abdomen=Signal("A", belly, 10.0)
    )
    made = sg.features(lost, unscaled("cardiorespiratory"))
    np.testing.assert_array_equal(np.flatnonzero(~made.has_signal), np.arange(15, 20))
    assert np.isfinite(made.values[made.has_signal]).all()
    np.testing.assert_allclose(column(made, "thorax_rate_per_min")[made.has_signal], 15, atol=0.2)


def test_real_intervals_of_a_night_with_a_gap(data_dir):
    with np.load(data_dir / "slpdb" / "slpdb_rr_stages.npz") as nights:
        times, intervals = nights["slp60_t_beat"], nights["slp60_rr"]
    night = Recording("slp60", "slp60", {"beats": Series("rr", times, intervals, "s")})
    made = sg.features(night, Recipe.load("heartbeats").replace(heart={"groups": ["epoch"]}))
    moments = np.arange(0, made.n_epochs * 30, 0.5) + 0.25
    following = np.searchsorted(times, moments).clip(max=len(times) - 1)
    beating = (intervals[following] >= 0.3) & (intervals[following] <= 2.0)
    expected = np.flatnonzero(beating.reshape(-1, 60).mean(axis=1) < 0.5)
    assert len(expected) == 8
    np.testing.assert_array_equal(np.flatnonzero(~made.has_signal), expected)
