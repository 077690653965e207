"""Breathing from belts: rates and depths that were put there."""

from __future__ import annotations

import numpy as np
import pytest

from body_signals import breathing, recording
from stageguard.night.recording import EpochGrid, Signal
from stageguard.signals.breathing import (
    Breathing,
    breathing_features,
    find_breaths,
    read_belt,
)

pytest.importorskip("scipy")

BAND = Breathing().band


def belt_features(epochs, **signals):
    night = recording(**signals)
    belts = {role: read_belt(night, role, BAND) for role in signals}
    return breathing_features(belts, epochs, Breathing())


@pytest.mark.parametrize("rate_hz", [4.0, 10.0, 32.0, 256.0])
@pytest.mark.parametrize(("hz", "per_minute"), [(0.25, 15.0), (0.1, 6.0), (0.5, 30.0)])
def test_a_sine_of_0_25_hz_is_15_breaths_per_minute(rate_hz, hz, per_minute):
    found = belt_features(EpochGrid(10, 30), thorax=Signal("THOR", breathing(300, rate_hz, hz), rate_hz))
    np.testing.assert_allclose(found["thorax_rate_per_min"], per_minute, atol=0.1)
    np.testing.assert_allclose(found["thorax_rate_sd_per_min"], 0, atol=0.2)
    np.testing.assert_allclose(found["thorax_regularity"], 1, atol=0.02)
    np.testing.assert_allclose(found["thorax_depth_log"], 0, atol=0.05)
    np.testing.assert_allclose(found["thorax_depth_cv"], 0, atol=0.05)


def test_chest_and_belly_move_together_or_against_each_other():
    breath = breathing(300, 10.0)
    together = belt_features(
        EpochGrid(10, 30),
        thorax=Signal("T", breath, 10.0),
        abdomen=Signal("A", 3 * breathing(300, 25.0), 25.0),
    )
    np.testing.assert_allclose(together["thorax_abdomen_correlation"], 1, atol=0.02)
    against = belt_features(
        EpochGrid(10, 30), thorax=Signal("T", breath, 10.0), abdomen=Signal("A", -breath, 10.0)
    )
    np.testing.assert_allclose(against["thorax_abdomen_correlation"], -1, atol=0.02)
    aside = belt_features(
        EpochGrid(10, 30), thorax=Signal("T", breath, 10.0), abdomen=Signal("A", np.roll(breath, 10), 10.0)
    )
    np.testing.assert_allclose(aside["thorax_abdomen_correlation"], 0, atol=0.05)


@pytest.mark.parametrize("lost", [np.nan, 7.0])
def test_a_belt_that_is_off_has_no_breaths(lost):
    values = breathing(900, 32.0)
    values[32 * 300 : 32 * 600] = lost
    belt = read_belt(recording(thorax=Signal("T", values, 32.0)), "thorax", BAND)
    seconds = np.flatnonzero(~belt.is_there) / belt.rate_hz
    assert seconds[0] == pytest.approx(300, abs=3)
    assert seconds[-1] == pytest.approx(600, abs=3)
    assert len(seconds) / belt.rate_hz == pytest.approx(300, abs=6)
    found = belt_features(EpochGrid(30, 30), thorax=Signal("T", values, 32.0))
    for name, column in found.items():
        assert np.isnan(column[12:18]).all(), name
    np.testing.assert_allclose(found["thorax_rate_per_min"][[0, 5, 24, 29]], 15, atol=0.2)
    assert np.nanmax(find_breaths(belt)[1]) < 6


def test_no_interval_crosses_a_short_hole():
    values = breathing(300, 10.0)
    values[1000:1090] = np.nan  # 9 s, in which a slow breath would fit
    belt = read_belt(recording(thorax=Signal("T", values, 10.0)), "thorax", BAND)
    times, intervals, depths = find_breaths(belt)
    last = int(np.flatnonzero(times < 100)[-1])
    assert times[last + 1] > 108
    assert np.isnan(intervals[last]) and np.isnan(depths[last])
    assert np.isfinite(intervals[last + 1])
