"""Radar features: rates, amplitudes and movement of echoes whose motion is known."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from made_recordings import between, recording, signal, sine

RATE, EPOCH, N_EPOCHS = 50.0, 30.0, 40
SECONDS = N_EPOCHS * EPOCH


def motion(breathing=0.25, depth=0.4, heart=1.2, beat=0.03):
    """Phase of a sleeper at rest, in rad."""
    drift = sine(1 / 900, SECONDS, RATE, 1.5)
    return sine(breathing, SECONDS, RATE, depth) + sine(heart, SECONDS, RATE, beat) + drift


def pair(phase, *, radius=1.0, centre=(3.0, -0.5), noise=0.005, seed=0, unit=""):
    """What I and Q show of a phase when the room reflects as well."""
    rng = np.random.default_rng(seed)
    parts = np.cos(phase), np.sin(phase)
    made = [
        radius * (p + c + noise * rng.standard_normal(len(phase))) for p, c in zip(parts, centre, strict=True)
    ]
    return recording(radar_i=signal(made[0], RATE, unit), radar_q=signal(made[1], RATE, unit))


def given(phase, unit="rad"):
    return recording(radar_phase=signal(phase, RATE, unit))


def column(made, name):
    return made.values[:, 0, made.names.index(name)]


def restless(phase, epoch, seconds, speed=12.0, seed=0):
    """A phase that runs to and fro for whole seconds."""
    chosen = between(epoch, seconds, RATE, EPOCH)
    steps = np.random.default_rng(seed).choice([-1, 1], round(seconds * 2)).repeat(round(RATE / 2))
    run = np.cumsum(steps) * speed / RATE
    phase = phase.copy()
    phase[chosen] += run
    phase[chosen.stop :] += run[-1]
    return phase


@pytest.mark.parametrize("make", [pair, given])
@pytest.mark.parametrize(("hertz", "per_minute"), [(0.25, 15), (0.15, 9), (0.2521, 15.126), (0.4, 24)])
def test_a_breathing_sine_gives_its_breaths_a_minute(make, hertz, per_minute):
    made = sg.features(make(motion(hertz)), "bioradar")
    assert column(made, "breathing_rate_per_min") == pytest.approx(per_minute, abs=0.05)
    assert column(made, "breathing_rate_sd_per_min") == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("make", [pair, given])
@pytest.mark.parametrize(("hertz", "per_minute"), [(0.9, 54), (1.2, 72), (1.7, 102)])
def test_a_heartbeat_gives_its_beats_a_minute(make, hertz, per_minute):
    made = sg.features(make(motion(heart=hertz)), "bioradar")
    assert column(made, "heart_rate_per_min") == pytest.approx(per_minute, abs=0.3)


@pytest.mark.parametrize("make", [pair, given])
@pytest.mark.parametrize("depth", [0.2, 0.4, 1.2])
def test_amplitude_is_half_the_way_of_a_breath_in_rad(make, depth):
    made = sg.features(make(motion(depth=depth)), "bioradar")
    assert column(made, "breathing_amplitude_rad") == pytest.approx(depth, rel=0.04)
    assert column(made, "breathing_amplitude_cv") == pytest.approx(0, abs=0.03)


def test_body_movement_index_is_the_share_of_seconds_that_move():
    phase = restless(restless(motion(), 10, 6), 25, 30)
    index = column(sg.features(given(phase), "bioradar"), "body_movement_index")
    assert index[10] == pytest.approx(0.2, abs=0.04)
    assert index[25] == pytest.approx(1.0, abs=0.04)
    assert np.flatnonzero(index > 0.05).tolist() == [10, 25]


def test_breathing_is_found_between_movements():
    phase = restless(restless(motion(), 10, 20), 20, 25)
    rate = column(sg.features(given(phase), "bioradar"), "breathing_rate_per_min")
    assert rate == pytest.approx(15, abs=0.6)


@pytest.mark.parametrize("exponent", [-6, -3, 3, 6])
def test_scaling_changes_nothing(exponent):
    before, after = (sg.features(pair(motion(), radius=r), "bioradar").values for r in (1.0, 10.0**exponent))
    assert after == pytest.approx(before, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("turns", [0.0, 30.0])
def test_a_phase_may_be_wrapped(turns):
    phase = motion() + np.linspace(0, turns, round(SECONDS * RATE))
    values = [sg.features(given(p), "bioradar").values for p in (phase, np.angle(np.exp(1j * phase)))]
    assert values[1] == pytest.approx(values[0], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("fill", [np.nan, 2.0])
def test_an_epoch_without_an_echo_is_empty_and_its_neighbours_are_not(fill):
    night = pair(motion())
    for role in ("radar_i", "radar_q"):
        night.signals[role].samples[between(12, 60, RATE, EPOCH)] = fill
    made = sg.features(night, "bioradar")
    assert np.flatnonzero(~made.has_signal).tolist() == [12, 13]
    assert np.isnan(made.values[12:14]).all()
    assert column(made, "breathing_rate_per_min")[made.has_signal] == pytest.approx(15, abs=0.1)
    assert (column(made, "body_movement_index")[made.has_signal] < 0.05).all()
