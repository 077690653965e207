"""Signals of epochs, against filters of SciPy over a whole channel, and recordings of other nights."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta

import numpy as np
import pytest
from scipy import signal as scipy_signal

import stageguard as sg
from messages import naming
from recording_files import START, Channel, channel, write_edf
from stageguard.base.errors import FileFormatError
from stageguard.review.signals import Filters, RecordingSignals

N_EPOCHS = 20
SECONDS = N_EPOCHS * 30
RATE = 64


def night(n_epochs=N_EPOCHS, **described):
    return sg.Hypnogram(np.zeros(n_epochs, dtype=int), "aasm5", 30.0, **described)


def values_of(window, name):
    found = next(each for each in window["channels"] if each["name"] == name)
    return np.frombuffer(base64.b64decode(found["values"]), "<f4")


def sine(label, hertz, seconds=SECONDS):
    at = np.arange(round(seconds * RATE)) / RATE
    return Channel(label, np.round(500 * np.sin(2 * np.pi * hertz * at)).astype("<i2"), RATE)


def test_a_window_holds_the_samples_of_its_epochs(tmp_path):
    eeg = channel("EEG C4-M1", SECONDS, RATE)
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [eeg]), night())
    window = signals.window(3, 2, [], "", Filters())
    expected = eeg.values[3 * 30 * RATE : 5 * 30 * RATE]
    np.testing.assert_allclose(values_of(window, "EEG C4-M1"), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "filters", [Filters(0.5, 20.0), Filters(low=1.0), Filters(high=15.0), Filters(notch=16.0)]
)
def test_a_filtered_window_is_that_of_the_whole_channel_filtered(tmp_path, filters):
    eeg = channel("EEG C4-M1", SECONDS, RATE)
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [eeg]), night())
    whole = eeg.values - eeg.values.mean()
    for limit, kind in ((filters.low, "highpass"), (filters.high, "lowpass")):
        if limit is not None:
            whole = scipy_signal.sosfiltfilt(
                scipy_signal.butter(2, limit, kind, fs=RATE, output="sos"), whole
            )
    if filters.notch is not None:
        whole = scipy_signal.filtfilt(*scipy_signal.iirnotch(filters.notch, 30.0, fs=RATE), whole)
    got = values_of(signals.window(8, 2, [], "", filters), "EEG C4-M1")
    expected = whole[8 * 30 * RATE : 10 * 30 * RATE]
    if filters.low is None:
        got, expected = got - got.mean(), expected - expected.mean()
    assert np.abs(got - expected).max() < 0.02 * expected.std()


def test_the_scale_of_a_channel_is_that_of_the_whole_night(tmp_path):
    """A muscle that is quiet at first and strong in 3 of 20 epochs, with one movement beyond all bounds."""
    size = np.full(SECONDS * RATE, 10.0)
    size[12 * 30 * RATE : 15 * 30 * RATE] = 200.0
    noise = np.random.default_rng(0).uniform(-1, 1, SECONDS * RATE) * size
    noise[17 * 30 * RATE : 17 * 30 * RATE + 2 * RATE] = 3000.0
    emg = Channel("EMG chin", np.round(noise).astype("<i2"), RATE)
    flat = Channel("EEG C4-M1", np.zeros(SECONDS * RATE, dtype="<i2"), RATE)
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [emg, flat]), night())
    unit = emg.values.max() / noise.max()  # physical units in one step
    shown = {}
    for first in (0, 13):
        window = signals.window(first, 1, ["EMG chin", "EEG C4-M1"], "", Filters())
        shown[first] = {each["name"]: (each["scale"], each["middle"]) for each in window["channels"]}
    assert shown[0] == shown[13]
    scale, middle = shown[0]["EMG chin"]
    assert 190 * unit < scale < 210 * unit
    assert abs(middle) < 5 * unit
    assert shown[0]["EEG C4-M1"][0] > 0  # a flat channel can be drawn


def test_a_channel_that_is_no_voltage_is_drawn_around_its_median(tmp_path):
    oxygen = Channel("SaO2", np.full(SECONDS, 960, dtype="<i2"), 1, unit="%")
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [sine("EEG C4-M1", 5), oxygen]), night())
    (told,) = signals.window(0, 1, ["SaO2"], "", Filters())["channels"]
    assert told["middle"] == pytest.approx(oxygen.values[0], rel=1e-6)


def test_what_is_no_voltage_is_not_filtered(tmp_path):
    oxygen = channel("SaO2", SECONDS, 1, unit="%")
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [sine("EEG C4-M1", 5), oxygen]), night())
    got = values_of(signals.window(0, 20, ["SaO2"], "", Filters(0.5, 20.0)), "SaO2")
    np.testing.assert_allclose(got, oxygen.values, rtol=1e-6)


def test_electrodes_recorded_apart_are_shown_against_the_other_mastoid(tmp_path):
    parts = [channel(name, SECONDS, RATE) for name in ("EEG C4", "M1", "M2")]
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", parts), night())
    assert signals.montages["Sleep"] == ["EEG C4-M1"]
    got = values_of(signals.window(0, 1, [], "", Filters()), "EEG C4-M1")
    expected = (parts[0].values - parts[1].values)[: 30 * RATE]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-3)


def test_the_spectrogram_is_brightest_at_the_frequency_of_a_sine(tmp_path):
    seconds = SECONDS
    at = np.arange(seconds * RATE) / RATE
    hertz = np.where(at < seconds / 2, 4.0, 12.0)
    tone = Channel("EEG C4-M1", np.round(500 * np.sin(2 * np.pi * hertz * at)).astype("<i2"), RATE)
    picture = RecordingSignals(write_edf(tmp_path / "a.edf", [tone]), night()).spectrogram(None)
    values = np.frombuffer(base64.b64decode(picture["values"]), np.uint8)
    rows = values.reshape(picture["rows"], picture["columns"]).argmax(axis=0) * 0.5 + 0.5
    assert rows.tolist() == pytest.approx([4.0] * 10 + [12.0] * 10, abs=0.5)


def test_a_recording_that_begins_earlier_is_laid_under_the_night_by_its_clock(tmp_path):
    eeg = channel("EEG C4-M1", SECONDS + 300, RATE)
    path = write_edf(tmp_path / "a.edf", [eeg])
    later = night(start=START + timedelta(seconds=90))
    got = values_of(RecordingSignals(path, later).window(0, 1, [], "", Filters()), "EEG C4-M1")
    np.testing.assert_allclose(got, eeg.values[90 * RATE : 120 * RATE], rtol=1e-6)
    moved = RecordingSignals(
        write_edf(tmp_path / "b.edf", [channel("EEG C4-M1", SECONDS + 45, RATE)]), night(offset_seconds=45.0)
    )
    assert moved.window(0, 1, [], "", Filters())["seconds"] == [45.0, 75.0]


def test_where_the_recording_has_ended_there_is_nothing(tmp_path):
    path = write_edf(tmp_path / "a.edf", [channel("EEG C4-M1", SECONDS - 60, RATE)])
    got = values_of(
        RecordingSignals(path, night(start=START)).window(17, 3, [], "", Filters(0.5)), "EEG C4-M1"
    )
    assert np.isfinite(got[: 30 * RATE]).all()
    assert np.isnan(got[30 * RATE :]).all()


@pytest.mark.parametrize(
    ("seconds", "start", "words"),
    [
        (SECONDS + 3600, None, ("says", "where it lies")),
        (SECONDS, START + timedelta(days=3, hours=5), ("do not overlap",)),
        (SECONDS, START + timedelta(seconds=0.8 * SECONDS), ("covers 4 of 20 epochs",)),
    ],
)
def test_the_recording_of_another_night_is_refused(tmp_path, seconds, start: datetime | None, words):
    path = write_edf(tmp_path / "other.edf", [channel("EEG C4-M1", seconds, RATE)])
    with pytest.raises(FileFormatError, match=naming(*words)) as refused:
        RecordingSignals(path, night(start=start))
    assert str(refused.value).startswith("other.edf: ")
