"""Signals of epochs, against filters of SciPy over a whole channel, and recordings of other nights."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal as scipy_signal

import stageguard as sg
from messages import naming
from recording_files import START, Channel, channel, write_edf
from stageguard.errors import FileFormatError, InputError
from stageguard.review.montage import Filters, Lane
from stageguard.review.signals import RecordingSignals, lowest_and_highest

N_EPOCHS = 20
SECONDS = N_EPOCHS * 30
RATE = 64
UNFILTERED = Filters()


def night(n_epochs=N_EPOCHS, **described):
    return sg.Hypnogram(np.zeros(n_epochs, dtype=int), "aasm5", 30.0, **described)


def shown(signals, first, count, name="EEG C4-M1", filters=UNFILTERED):
    """The window of one channel."""
    lane = Lane(name, None, None, filters.low, filters.high, filters.notch)
    (channel,) = signals.window(first, count, [lane]).channels
    return channel


def values_of(signals, first, count, name="EEG C4-M1", filters=UNFILTERED):
    return shown(signals, first, count, name, filters).values


def sine(label, hertz, seconds=SECONDS):
    at = np.arange(round(seconds * RATE)) / RATE
    return Channel(label, np.round(500 * np.sin(2 * np.pi * hertz * at)).astype("<i2"), RATE)


def test_a_window_holds_the_samples_of_its_epochs(tmp_path):
    eeg = channel("EEG C4-M1", SECONDS, RATE)
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [eeg]), night())
    expected = eeg.values[3 * 30 * RATE : 5 * 30 * RATE]
    np.testing.assert_allclose(values_of(signals, 3, 2), expected, rtol=1e-6)


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
    got = values_of(signals, 8, 2, filters=filters)
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
    assert shown(signals, 0, 1, "EMG chin").scale == shown(signals, 13, 1, "EMG chin").scale
    middle, scale = shown(signals, 0, 1, "EMG chin").scale
    assert 190 * unit < scale < 210 * unit
    assert abs(middle) < 5 * unit
    assert shown(signals, 0, 1).scale.scale > 0  # a flat channel can be drawn


def test_a_channel_that_is_no_voltage_is_drawn_around_its_median(tmp_path):
    oxygen = Channel("SaO2", np.full(SECONDS, 960, dtype="<i2"), 1, unit="%")
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [sine("EEG C4-M1", 5), oxygen]), night())
    assert shown(signals, 0, 1, "SaO2").scale.middle == pytest.approx(oxygen.values[0], rel=1e-6)


def test_what_is_no_voltage_is_not_filtered(tmp_path):
    oxygen = channel("SaO2", SECONDS, 1, unit="%")
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [sine("EEG C4-M1", 5), oxygen]), night())
    got = values_of(signals, 0, 20, "SaO2", Filters(0.5, 20.0))
    np.testing.assert_allclose(got, oxygen.values, rtol=1e-6)


def test_electrodes_recorded_apart_are_shown_against_the_other_mastoid(tmp_path):
    parts = [channel(name, SECONDS, RATE) for name in ("EEG C4", "M1", "M2")]
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", parts), night())
    (lane,) = signals.montages[0].channels
    assert (lane.plus, lane.minus, lane.name) == ("EEG C4", "M1", "EEG C4-M1")
    got = signals.window(0, 1, [Lane("EEG C4", "M1")]).channels[0].values
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
    got = values_of(RecordingSignals(path, later), 0, 1)
    np.testing.assert_allclose(got, eeg.values[90 * RATE : 120 * RATE], rtol=1e-6)
    moved = RecordingSignals(
        write_edf(tmp_path / "b.edf", [channel("EEG C4-M1", SECONDS + 45, RATE)]), night(offset_seconds=45.0)
    )
    assert moved.window(0, 1, [Lane("EEG C4-M1")]).seconds == (45.0, 75.0)


def test_where_the_recording_has_ended_there_is_nothing(tmp_path):
    path = write_edf(tmp_path / "a.edf", [channel("EEG C4-M1", SECONDS - 60, RATE)])
    got = values_of(RecordingSignals(path, night(start=START)), 17, 3, filters=Filters(0.5))
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


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), min_size=1, max_size=300), st.integers(1, 300))
def test_reduced_samples_keep_the_extremes_of_each_column(samples, columns):
    columns = min(columns, len(samples))
    low, high = lowest_and_highest(np.array(samples), columns).reshape(-1, 2).T
    for column, piece in enumerate(
        np.split(np.array(samples), np.arange(1, columns) * len(samples) // columns)
    ):
        present = piece[~np.isnan(piece)]
        if len(present):
            assert (low[column], high[column]) == (present.min(), present.max())
        else:
            assert np.isnan(low[column]) and np.isnan(high[column])


def test_a_long_window_is_reduced_to_what_a_screen_shows(tmp_path):
    eeg, oxygen = channel("EEG C4-M1", SECONDS, RATE), channel("SaO2", SECONDS, 1, unit="%")
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", [eeg, oxygen]), night())
    voltage, slow = signals.window(5, 10, [Lane("EEG C4-M1"), Lane("SaO2")], columns=600).channels
    piece = eeg.values[5 * 30 * RATE : 15 * 30 * RATE].reshape(600, -1)
    np.testing.assert_allclose(voltage.values[::2], piece.min(axis=1), rtol=1e-6)
    np.testing.assert_allclose(voltage.values[1::2], piece.max(axis=1), rtol=1e-6)
    assert (voltage.rate_hz, voltage.is_reduced) == (4.0, True)
    assert (slow.rate_hz, slow.is_reduced, len(slow.values)) == (1.0, False, 300)


def test_each_channel_has_its_own_filters(tmp_path):
    tones = [sine("EEG C4-M1", 2.0), sine("EEG O2-M1", 2.0)]
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", tones), night())
    low, kept = Lane("EEG C4-M1", high_pass_hz=8.0), Lane("EEG O2-M1", low_pass_hz=20.0)
    removed, same = (each.values for each in signals.window(4, 1, [low, kept]).channels)
    assert np.abs(removed).max() < 0.05 * np.abs(same).max()
    np.testing.assert_allclose(same, tones[1].values[4 * 30 * RATE : 5 * 30 * RATE], atol=2.0)


@pytest.mark.parametrize(
    ("lane", "words"),
    [
        (Lane("EEG C4", "SaO2"), ("cannot be subtracted", "rate")),
        (Lane("EEG C4", "Resp"), ("cannot be subtracted", "unit")),
        (Lane("EEG C4", "EEG X"), ("there is no channel", "EEG X")),
    ],
)
def test_channels_that_are_not_alike_have_no_difference(tmp_path, lane, words):
    parts = [
        channel("EEG C4", SECONDS, RATE),
        channel("SaO2", SECONDS, 1, unit="%"),
        channel("Resp", SECONDS, RATE, unit="mmHg"),
    ]
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", parts), night())
    with pytest.raises(InputError, match=naming(*words)):
        signals.window(0, 1, [lane])


def test_usual_filters_are_those_of_the_kind_of_channel(tmp_path):
    parts = [channel(name, SECONDS, 256) for name in ("EEG C4-M1", "EOG E1-M2", "EMG chin", "ECG")]
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", parts), night())
    found = {lane.plus: (lane.high_pass_hz, lane.low_pass_hz) for lane in signals.montages[0].channels}
    assert found == {
        "EEG C4-M1": (0.3, 35.0),
        "EOG E1-M2": (0.3, 35.0),
        "EMG chin": (10.0, 100.0),
        "ECG": (0.3, 70.0),
    }


def test_a_window_reads_its_own_part_of_the_file(tmp_path, monkeypatch):
    parts = [channel(name, SECONDS, RATE) for name in ("EEG C4-M1", "EOG E1-M2")]
    signals = RecordingSignals(write_edf(tmp_path / "a.edf", parts), night())
    lanes = [Lane("EEG C4-M1", high_pass_hz=0.3), Lane("EOG E1-M2")]
    signals.window(0, 1, lanes)  # which also reads pieces all over the night, for the scale
    read = []
    fromfile = np.fromfile
    monkeypatch.setattr(
        np, "fromfile", lambda *given, **named: read.append(fromfile(*given, **named)) or read[-1]
    )
    signals.window(10, 1, lanes)
    samples = sum(map(len, read))
    assert 0 < samples <= 2 * RATE * (30 + 2 * 10 + 30 + 2)  # both channels lie in each record
