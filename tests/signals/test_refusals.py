"""What features, recipes and quality refuse, in one line that says what was found and what was expected."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import stageguard as sg
from body_signals import breathing, ecg, recording, steady_beats, wrist
from messages import naming
from stageguard.errors import MissingExtraError
from stageguard.night.recording import Series, Signal
from stageguard.signals.features import Recipe
from stageguard.signals.quality import SignalQuality

NOISE = np.random.default_rng(0).normal(0, 20, 6000)
EEG = Signal("E", NOISE, 100.0, "uV")
COUNTS = Signal("counts", np.arange(20.0), 1 / 30, "counts")
BELT = Signal("T", breathing(300, 10.0), 10.0)
PHASE = Signal("P", NOISE, 4.0, "rad")
BEATS = steady_beats(300)


def axes(values, rate_hz, unit="g"):
    return {f"acceleration_{name}": Signal(name, values[:, i], rate_hz, unit) for i, name in enumerate("xyz")}


def quality(modality, **signals):
    return lambda: sg.signal_quality(recording(**signals), modality, epoch_seconds=30)


def features(recipe, epoch_seconds=None, **signals):
    return lambda: sg.features(recording(**signals), recipe, epoch_seconds=epoch_seconds)


def changed(name, **changes):
    return lambda: Recipe.load(name).replace(**changes)


def table(values, **fields):
    return lambda: sg.Features("night", "x", np.array(values, dtype=float), ("a", "b"), **fields)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        # recordings
        (quality("eeg-emq", eeg=EEG), "modality is 'eeg-emq', expected 'eeg-emg' or ... mean 'eeg-emg'"),
        (
            quality("eeg-emg", eeg=Signal("X", NOISE, 100.0, "g")),
            "'eeg' (X) ... 'g' ... voltage ... eeg=NAME",
        ),
        (quality("eeg-emg", eeg=Series("X", np.arange(99.0), NOISE[:99])), "'eeg' ... uneven times"),
        (quality("eeg-emg", emg=EEG), "no channel 'eeg'; it has: emg"),
        (quality("actigraphy", eeg=EEG), "no channel 'counts'; it has: eeg"),
        (quality("cardiorespiratory", thorax=BELT), "'beats' or 'ecg'; it has: thorax"),
        (quality("bioradar", radar_i=EEG), "'radar_phase' or 'radar_q'; it has: radar_i"),
        (quality("bioradar", radar_phase=EEG), "'radar_phase' (E) ... 'uV' ... angle"),
        (quality("bioradar", radar_i=BELT, radar_q=EEG), "'radar_i' has 10 Hz and 'radar_q' 100 Hz"),
        (features("human-eeg-emg", eeg=EEG), "no channel 'emg'; it has: eeg"),
        (features("human-eeg", eeg=Signal("E", 0 * NOISE, 100.0)), "'eeg' ... flat or missing"),
        (features("human-eeg-emg", eeg=EEG, emg=Signal("M", NOISE, 40.0)), "'emg' (M) ... 40 Hz"),
        (features("raw-100", eeg=Signal("E", NOISE, 40.0)), "'eeg' (E) ... 40 Hz ... too slowly for 100 Hz"),
        (features("raw-100", 2.505, eeg=EEG), "2.505 s ... no whole number of samples at 100 Hz"),
        (features("actigraphy", acceleration_x=EEG), "not complete ... three columns"),
        (features("actigraphy", acceleration=Series("a", np.arange(99.0), np.ones(99))), "not complete"),
        (features("actigraphy", **axes(wrist(60, 5), 5)), "5 samples per second, expected at least 10"),
        (features("actigraphy", **axes(9.8 * wrist(60, 30), 30)), "expected about 1 (gravity)"),
        (features("actigraphy", **axes(wrist(60, 30), 30, "uV")), "'uV' (voltage), expected 'g'"),
        (features("actigraphy", counts=EEG), "'counts' ... 'uV' ... expected a unit of count"),
        (features("actigraphy", counts=Signal("c", -np.ones(5), 1 / 30)), "no number that is 0 or above"),
        (
            features("actigraphy", counts=COUNTS, heart_rate=Signal("h", np.eye(1, 601)[0] * 60, 1.0)),
            "has 1 plausible values, which cover 0 s",
        ),
        (features("cardiorespiratory", eeg=EEG), "no channel 'beats' or 'ecg'; it has: eeg"),
        (features("heartbeats", ecg=Signal("E", NOISE, 50.0)), "'ecg' (E) ... 50 samples ... at least 61"),
        (features("heartbeats", ecg=Signal("E", NOISE, 125.0, "bpm")), "'ecg' (E) ... 'bpm' ... voltage"),
        (features("heartbeats", ecg=Signal("E", 0 * NOISE, 128.0)), "'night' ... no epoch with a usable"),
        (
            features("heartbeats", beats=Series("rr", BEATS, np.full(len(BEATS), 900.0))),
            "900 s in the median, expected 0.3 to 2 s",
        ),
        (
            features("cardiorespiratory", beats=Series("b", BEATS, np.diff(BEATS, prepend=0)), thorax=COUNTS),
            "'thorax' (counts) ... 0.0333333 samples per second, expected at least 4",
        ),
        (features("bioradar", radar_phase=Signal("P", 0 * NOISE, 50.0, "rad")), "flat or missing"),
        (features("bioradar", radar_phase=PHASE), "has 4 Hz, too slow for a heart_band to 2.2 Hz"),
        (lambda: sg.signal_quality(recording(eeg=EEG), "eeg-emg"), "no scoring, expected epoch_seconds"),
        (lambda: sg.signal_quality(recording(eeg=EEG), "eeg-emg", rules="grade"), "Did you mean 'graded'"),
        (lambda: sg.features(recording(eeg=EEG), "mouse-eeg"), "'mouse-eeg' ... mean 'mouse-eeg-emg'"),
        # recipes
        (lambda: Recipe.from_dict({"name": "x"}), "key 'modality' is missing"),
        (lambda: Recipe.from_dict({"modality": "bioradar", "epoch_seconds": 30}), "key 'name' is missing"),
        (lambda: Recipe.load("no-such.toml"), "no-such.toml ... no such file"),
        (changed("human-eeg", spectrogram={"bins": [[1, 10]]}), "spectrogram.bins[0] is ... 3 values"),
        (changed("human-eeg", spectrogram={"bins": [[1, 10, 4]]}), "bins[0] is ... whole widths"),
        (changed("human-eeg", spectrogram={"bins": [[0, 30, 1e-9]]}), "bins[0] is ... of 1 to 10,000"),
        (changed("human-eeg", spectrogram={"n_tapers": 9}), "spectrogram: n_tapers is 9"),
        (changed("human-eeg", emg={"band": [50, 20]}), "emg.band is [50.0, 20.0] ... lower, upper"),
        (changed("actigraphy", groups=["sadhe"]), "groups[0] is 'sadhe' ... Did you mean 'sadeh'"),
        (changed("heartbeats", heart={"bands": {"hf": [0.15, 3]}}), "heart: bands.hf reaches 3 Hz"),
        (changed("cardiorespiratory", breathing={"band": [0.1, 3.0]}), "breathing: band is [0.1, 3.0]"),
        # results
        (table([[1, 2, 3]]), "night: 2 different feature names for 3 features"),
        (table([[1, 2], [3, np.nan]]), "feature 'b' is nan in epoch 1"),
        (table([[1, 2], [3, 4]], epochs=[4, 4]), "epoch indices are not 2 increasing whole numbers"),
        (table([[1, 2], [3, 4]], labels=[0, 1]), "labels but no scheme"),
        (lambda: SignalQuality(np.array([0.0, 1.5]), ("", "a"), 30.0, "eeg-emg", "graded"), "from 0"),
        (lambda: SignalQuality(np.array([0.0, 1.0]), ("", ""), 30.0, "eeg-emg", "graded"), "reason"),
    ],
)
def test_it_is_refused_in_one_line(call, message):
    with pytest.raises(sg.StageGuardError, match=naming(*message.split(" ... "))) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sleepecg", None)
    night = recording(ecg=Signal("E", ecg(BEATS, 300, 128.0), 128.0))
    with pytest.raises(MissingExtraError, match=r"an ECG needs 'sleepecg'. Install with: pip"):
        sg.features(night, "heartbeats")
