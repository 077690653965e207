"""Breathing from belts and oxygen saturation: rates, depths and dips that were put there."""

from __future__ import annotations

import numpy as np
import pytest

from body_signals import breathing, recording
from stageguard.errors import InputError
from stageguard.night.recording import EpochGrid, Series, Signal
from stageguard.signals.breathing import (
    Breathing,
    breathing_channels,
    breathing_features,
    find_breaths,
    read_belt,
)
from stageguard.signals.cardiorespiratory import Oxygen, desaturations, oxygen_features, read_oxygen
from stageguard.signals.features import Recipe

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


def test_breaths_are_where_the_sine_is_highest():
    belt = read_belt(recording(thorax=Signal("T", breathing(300, 20.0), 20.0)), "thorax", BAND)
    found = find_breaths(belt)
    expected = 1.0 + 4.0 * np.arange(75)
    np.testing.assert_allclose(found.times[2:-2], expected[2:-2], atol=0.02)
    np.testing.assert_allclose(found.depths[5:-5], 2.0, rtol=0.02)


def test_a_change_of_rate_is_seen_where_it_is():
    fast = np.concatenate([breathing(300, 10.0, 0.2), breathing(300, 10.0, 0.35)])
    found = belt_features(EpochGrid(20, 30), abdomen=Signal("A", fast, 10.0))["abdomen_rate_per_min"]
    np.testing.assert_allclose(found[:8], 12, atol=0.3)
    np.testing.assert_allclose(found[12:], 21, atol=0.3)


def test_half_the_depth_is_minus_log_two():
    depth = np.where(np.arange(9000) < 6000, 1.0, 0.5)
    found = belt_features(EpochGrid(30, 30), thorax=Signal("T", depth * breathing(900, 10.0), 10.0))
    np.testing.assert_allclose(found["thorax_depth_log"][3:17], 0, atol=0.03)
    np.testing.assert_allclose(found["thorax_depth_log"][23:], -np.log(2), atol=0.03)


def test_irregular_breathing_is_less_regular():
    rng = np.random.default_rng(0)
    phase = np.cumsum(2 * np.pi * (0.25 + 0.08 * np.repeat(rng.normal(0, 1, 300), 20)) / 10)
    wild = np.sin(phase) * np.repeat(rng.uniform(0.5, 1.5, 300), 20)
    found = belt_features(EpochGrid(20, 30), thorax=Signal("T", wild, 10.0))
    assert found["thorax_regularity"].mean() < 0.7
    assert found["thorax_rate_sd_per_min"].mean() > 2
    assert found["thorax_depth_cv"].mean() > 0.15


@pytest.mark.parametrize("factor", [1e-6, 1e6, -1.0])
def test_scale_and_sign_of_a_belt_do_not_matter(factor):
    rng = np.random.default_rng(1)
    noisy = breathing(600, 10.0) * np.repeat(rng.uniform(0.8, 1.2, 60), 100) + rng.normal(0, 0.05, 6000)
    one = belt_features(EpochGrid(20, 30), thorax=Signal("T", noisy, 10.0))
    other = belt_features(EpochGrid(20, 30), thorax=Signal("T", factor * noisy + 3 * factor, 10.0))
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, atol=0.3 if factor < 0 else 1e-6, err_msg=name)


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
    intervals = find_breaths(belt).intervals
    assert np.nanmax(intervals) < 6


def test_no_interval_crosses_a_short_hole():
    values = breathing(300, 10.0)
    values[1000:1090] = np.nan  # 9 s, in which a slow breath would fit
    found = find_breaths(read_belt(recording(thorax=Signal("T", values, 10.0)), "thorax", BAND))
    last = int(np.flatnonzero(found.times < 100)[-1])
    assert found.times[last + 1] > 108
    assert np.isnan(found.intervals[last]) and np.isnan(found.depths[last])
    assert np.isfinite(found.intervals[last + 1])


def test_noise_is_not_regular_breathing():
    rng = np.random.default_rng(2)
    found = belt_features(EpochGrid(20, 30), thorax=Signal("T", rng.normal(0, 1, 6000), 10.0))
    assert found["thorax_regularity"].mean() < 0.6


def test_which_channels_are_measured():
    night = recording(thorax=Signal("T", breathing(60, 10.0), 10.0))
    assert breathing_channels(night, Breathing()) == ("thorax",)
    assert breathing_channels(night, Breathing(use="never")) == ()
    assert breathing_channels(night, Breathing(use="always")) == ("thorax", "abdomen")


def test_what_is_no_belt_is_said():
    with pytest.raises(InputError, match=r"'thorax' .* has 1 samples .* at least 4"):
        read_belt(recording(thorax=Signal("T", np.zeros(100), 1.0)), "thorax", BAND)
    with pytest.raises(InputError, match=r"'thorax' .* has uneven times"):
        read_belt(recording(thorax=Series("T", np.arange(9.0), np.zeros(9))), "thorax", BAND)
    with pytest.raises(InputError, match=r"breathing.channels is 'chest', expected 'thorax' or"):
        Recipe.load("cardiorespiratory").replace(breathing={"channels": ["chest"]})
    with pytest.raises(InputError, match=r"breathing.band is \[0.1, 3.0\], expected frequencies above 0"):
        Recipe.load("cardiorespiratory").replace(breathing={"band": [0.1, 3.0]})


# -- oxygen saturation


def saturation(values, rate_hz=1.0, unit="%"):
    return read_oxygen(recording(spo2=Signal("SpO2", np.asarray(values, dtype=float), rate_hz, unit)))


def test_level_and_dips_of_saturation():
    values = np.full(1200, 96.0)
    values[600:630] = 90.0
    values[[600, 630]] = np.nan  # the steps themselves
    found = oxygen_features(saturation(values), EpochGrid(40, 30), Oxygen())
    np.testing.assert_allclose(found["spo2_percent"][[0, 20, 39]], [96, 90, 96])
    np.testing.assert_allclose(found["spo2_min_percent"][[0, 16, 20, 24, 39]], [96, 90, 90, 90, 96])
    assert found["spo2_sd_percent"][20] == pytest.approx(6 * np.sqrt(0.1 * 0.9), rel=0.05)
    assert found["spo2_sd_percent"][0] == 0


def test_a_dip_every_minute_is_sixty_desaturations_an_hour():
    seconds = np.arange(3600)
    values = 97.0 - 5.0 * np.clip(1 - np.abs(seconds % 60 - 30) / 15, 0, 1)
    found = oxygen_features(saturation(values), EpochGrid(120, 30), Oxygen())
    np.testing.assert_allclose(found["desaturations_per_hour"][10:], 60)
    shallow = oxygen_features(saturation(97 - (97 - values) / 2), EpochGrid(120, 30), Oxygen())
    np.testing.assert_allclose(shallow["desaturations_per_hour"], 0)


def test_a_dip_must_last_ten_seconds():
    values = np.full(600, 97.0)
    values[200:209] = 93.5
    values[400:411] = 93.5
    assert desaturations(values, 3.0).tolist() == [400]


def test_a_probe_that_is_off_is_missing_not_low():
    values = np.full(600, 97.0)
    values[100:200] = 0.0
    values[300:310] = np.nan
    values[400] = 60.0
    seconds = saturation(values)
    assert np.isnan(seconds[100:200]).all()
    assert np.nanmin(seconds) == 97
    found = oxygen_features(seconds, EpochGrid(20, 30), Oxygen())
    assert np.isnan(found["spo2_percent"][[4, 5]]).all()
    assert np.nanmax(found["desaturations_per_hour"]) == 0


def test_saturation_at_any_rate_and_as_a_fraction():
    fast = np.repeat(90 + np.arange(8.0), 160)
    np.testing.assert_allclose(saturation(fast, 16.0)[5::10], 90 + np.arange(8.0))
    np.testing.assert_allclose(saturation(np.full(30, 0.97), unit="fraction"), 97)
    uneven = Series("oximeter", np.arange(0, 30, 3.0), np.full(10, 95.0), "%")
    np.testing.assert_allclose(read_oxygen(recording(spo2=uneven))[::3], 95)
