"""Made-up signals follow the stages, and what happens to them is where the truth says."""

from __future__ import annotations

import numpy as np
import pytest

from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Series
from stageguard.night.stages import AASM5
from stageguard.synthetic import body, simulate_recording
from stageguard.synthetic.body import shaped_noise
from stageguard.synthetic.signals import simulate_heart_and_breathing
from stageguard.synthetic.sleepers import SimulatedSleep, Sleeper


@pytest.fixture(scope="module")
def made():
    """Recordings that are long enough for every stage."""
    hours = {"eeg-emg": 3.0, "actigraphy": 5.0}
    return {name: simulate_recording(name, 2, seed=11, hours=own) for name, own in hours.items()}


def clean_epochs(one, channel=""):
    """Epochs that no event touches."""
    night = one.night.hypnogram
    clean = np.ones(night.n_epochs, dtype=bool)
    for event in one.events:
        if event.channel in (channel, "") or not channel:
            first = int(event.start_seconds // night.epoch_seconds)
            clean[first : int(event.end_seconds // night.epoch_seconds) + 2] = False
    return clean


def by_epoch(signal, night):
    return signal.read().reshape(night.n_epochs, -1)


def band_power(rows, rate_hz, low, high):
    spectra = np.abs(np.fft.rfft(rows * np.hanning(rows.shape[1]), axis=1)) ** 2
    lines = np.fft.rfftfreq(rows.shape[1], 1 / rate_hz)
    return spectra[:, (lines >= low) & (lines < high)].sum(axis=1)


def stage_medians(values, one, channel=""):
    night, clean = one.night.hypnogram, clean_epochs(one, channel)
    return {
        name: float(np.median(values[clean & (night.labels == stage)]))
        for stage, name in enumerate(night.scheme.names)
        if (clean & (night.labels == stage)).sum() >= 5
    }


def test_shaped_noise_has_the_spectrum_asked_for():
    rate, hop, n = 128.0, 128, 128 * 2000
    lines = np.fft.rfftfreq(2 * hop, 1 / rate)
    templates = np.stack([np.exp(-0.5 * ((lines - 10) / 2) ** 2), np.exp(-0.5 * ((lines - 40) / 2) ** 2)])
    power = np.zeros((2001, 2))
    power[:1000, 0], power[1000:, 1] = 4.0, 1.0
    noise = shaped_noise(np.random.default_rng(0), power, templates, rate, hop, n)
    first, second = noise[: n // 2 - hop], noise[n // 2 + hop :]
    total = templates.sum(axis=1) * lines[1]  # integral of the density
    assert np.var(first) == pytest.approx(4 * total[0], rel=0.05)
    assert np.var(second) == pytest.approx(total[1], rel=0.05)
    rows = first[: len(first) // 256 * 256].reshape(-1, 256)
    assert band_power(rows, rate, 6, 14).sum() > 50 * band_power(rows, rate, 30, 50).sum()


@pytest.mark.slow
def test_eeg_and_emg_spectra_follow_the_stages(made):
    one = made["eeg-emg"]
    night, signals = one.night.hypnogram, one.recording.signals
    eeg, emg = (by_epoch(signals[role], night) for role in ("eeg", "emg"))
    delta = stage_medians(band_power(eeg, 512, 0.7, 4), one)
    theta = stage_medians(band_power(eeg, 512, 6, 9) / band_power(eeg, 512, 0.7, 4), one)
    tone = stage_medians(band_power(emg, 512, 20, 50), one)
    assert delta["N"] > 4 * delta["W"]
    assert delta["N"] > 4 * delta["R"]
    assert theta["R"] > 3 * theta["W"] > 9 * theta["N"]
    assert tone["W"] > 4 * tone["N"] > 6 * tone["R"]


def test_acceleration_and_heart_rate_follow_the_stages(made):
    one = made["actigraphy"]
    night, signals = one.night.hypnogram, one.recording.signals
    motion, heart = signals["acceleration"], signals["heart_rate"]
    assert isinstance(motion, Series) and motion.values.shape[1] == 3
    size = np.linalg.norm(motion.values, axis=1)
    assert np.median(size) == pytest.approx(1, abs=0.02)  # gravity
    epoch = np.clip((motion.times // 30).astype(int), 0, night.n_epochs - 1)
    changes = np.abs(np.diff(motion.values, axis=0)).sum(axis=1)
    activity = np.bincount(epoch[1:], changes, night.n_epochs) / np.maximum(np.bincount(epoch[1:]), 1)
    clean = clean_epochs(one)
    moved = activity > 1.5 * np.percentile(activity[clean], 20)  # more than the sensor's noise
    share = {name: moved[clean & (night.labels == stage)].mean() for stage, name in enumerate(AASM5.names)}
    assert share["W"] > 0.5
    assert share["N2"] < 0.25
    assert share["N3"] < share["W"] / 4
    beats = np.bincount(
        np.clip((heart.times // 30).astype(int), 0, night.n_epochs - 1), heart.values.ravel(), night.n_epochs
    )
    n_beats = np.bincount(
        np.clip((heart.times // 30).astype(int), 0, night.n_epochs - 1), minlength=night.n_epochs
    )
    rate = stage_medians(beats / np.maximum(n_beats, 1), one)
    assert rate["W"] > rate["N2"] + 4


def test_an_apnoea_stops_the_airflow_and_lowers_the_saturation():
    night = SimulatedSleep(Hypnogram(np.full(240, 2), AASM5, 30.0))
    one = simulate_heart_and_breathing(night, Sleeper(1, {"ahi": 25.0}), 3, "x")
    apnoeas = [event for event in one.events if event.kind == body.APNOEA]
    assert len(apnoeas) > 5
    flow, oxygen = one.recording.signals["airflow"].read(), one.recording.signals["spo2"].read()
    usual = flow.std()
    for event in apnoeas:
        inside = flow[round((event.start_seconds + 2) * 10) : round((event.end_seconds - 2) * 10)]
        assert inside.std() < 0.35 * usual
    lost = [event for event in one.events if event.kind == "sensor loss" and event.channel == "spo2"]
    bottoms = [int(event.end_seconds + 18) for event in apnoeas]
    bottoms = [
        at
        for at in bottoms
        if at < len(oxygen) - 1 and not any(e.start_seconds - 60 < at < e.end_seconds + 60 for e in lost)
    ]
    assert np.mean([oxygen[at] for at in bottoms]) < np.median(oxygen) - 2.5
