"""Heartbeats: found where they were put, whatever the scale, the rate and the holes."""

from __future__ import annotations

import numpy as np
import pytest

from body_signals import beat_series, ecg, recording, steady_beats
from messages import naming
from stageguard.errors import InputError
from stageguard.night.recording import Series, Signal
from stageguard.signals.heart import find_beats

sleepecg = pytest.importorskip("sleepecg")


def distances(found, truth):
    """Distance of each true beat to the nearest one found."""
    return np.abs(found[:, None] - truth).min(axis=0)


def varied_beats(seconds, seed=0):
    rng = np.random.default_rng(seed)
    n = int(seconds / 0.8)
    times = 0.5 + np.cumsum(0.9 + 0.05 * np.sin(np.arange(n) / 5) + rng.normal(0, 0.02, n))
    return times[times < seconds - 0.5]


@pytest.mark.parametrize("rate_hz", [100.0, 125.0, 256.0, 500.0])
def test_every_beat_is_found_to_a_few_milliseconds(rate_hz):
    truth = varied_beats(700)
    found = find_beats(recording(ecg=Signal("ECG", ecg(truth, 700, rate_hz), rate_hz, "mV")))
    assert len(found.times) == len(truth)
    assert distances(found.times, truth).max() < 0.005
    np.testing.assert_allclose(found.intervals[1:], np.diff(found.times))
    assert np.isnan(found.intervals[0])


def test_an_ecg_upside_down_has_the_same_beats():
    truth = varied_beats(300)
    signal = ecg(truth, 300, 200.0, noise=0.005)
    up = find_beats(recording(ecg=Signal("ECG", signal, 200.0))).times
    down = find_beats(recording(ecg=Signal("ECG", -signal, 200.0))).times
    np.testing.assert_allclose(up, down, atol=1e-6)


@pytest.mark.parametrize("hole", [np.nan, 0.25, np.inf])
def test_no_interval_crosses_a_hole(hole):
    truth = varied_beats(600)
    signal = ecg(truth, 600, 128.0)
    signal[128 * 200 : 128 * 260] = hole  # missing, or a flat line
    found = find_beats(recording(ecg=Signal("ECG", signal, 128.0)))
    inside = (truth > 200.3) & (truth < 259.7)
    assert distances(found.times, truth[~inside]).max() < 0.02
    assert not ((found.times > 200.2) & (found.times < 259.8)).any()
    first_after = np.searchsorted(found.times, 230)
    assert np.isnan(found.intervals[first_after])
    assert np.isfinite(np.delete(found.intervals, [0, first_after])).all()


def test_an_ectopic_beat_spoils_the_two_intervals_beside_it():
    times = steady_beats(200, mean=0.8)
    times[60] -= 0.3  # early, and a pause after it
    found = find_beats(recording(beats=beat_series(times)))
    np.testing.assert_array_equal(np.flatnonzero(~found.normal(0.2)[1:]) + 1, [60, 61])
    assert found.is_plausible[1:].all()


def test_given_beats_in_milliseconds_or_without_intervals():
    times = steady_beats(60)
    seconds = find_beats(recording(beats=beat_series(times)))
    thousand = find_beats(recording(beats=Series("rr", times, 1000 * np.diff(times, prepend=-0.5), "ms")))
    np.testing.assert_allclose(seconds.intervals[1:], thousand.intervals[1:])
    bare = find_beats(recording(beats=Series("t", times, np.full(len(times), np.nan))))
    np.testing.assert_allclose(seconds.intervals[1:], bare.intervals[1:])
    with pytest.raises(InputError, match=naming("900 s", "0.3", "2 s")):
        find_beats(recording(beats=Series("rr", times, np.full(len(times), 900.0))))
