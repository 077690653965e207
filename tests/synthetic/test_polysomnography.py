"""Made-up polysomnograms show the waves of each stage, and YASA, which never saw them, stages them."""

from __future__ import annotations

import numpy as np
import pytest

from stageguard.night.recording import Signal
from stageguard.synthetic import simulate_recording
from stageguard.synthetic.signals import PSG_HZ as RATE_HZ
from stageguard.synthetic.signals import STAGES

EPOCH = 30


@pytest.fixture(scope="module")
def night():
    return simulate_recording("polysomnography", 5, seed=11)


def rows(night, role):
    signal = night.recording.signals[role]
    assert isinstance(signal, Signal)
    return signal.read().reshape(-1, round(EPOCH * signal.rate_hz))


def band(night, role, low, high):
    """Median power of a band by stage, in epochs without an event."""
    values = rows(night, role)
    lines = np.fft.rfftfreq(values.shape[1], 1 / RATE_HZ)
    power = (np.abs(np.fft.rfft(values, axis=1)) ** 2)[:, (lines >= low) & (lines < high)].sum(axis=1)
    labels = night.night.hypnogram.labels
    clean = np.ones(len(labels), dtype=bool)
    for event in night.events:
        clean[int(event.start_seconds / EPOCH) : int(event.end_seconds / EPOCH) + 1] = False
    return {name: np.median(power[clean & (labels == stage)]) for stage, name in enumerate(STAGES)}


def test_each_stage_has_its_waves(night):
    alpha, sigma = band(night, "eeg", 8, 11), band(night, "eeg", 12, 15)
    slow, chin, rolling = (
        band(night, "eeg", 0.5, 1.5),
        band(night, "emg", 15, 50),
        band(night, "eog", 0.2, 0.5),
    )
    assert alpha["W"] > 4 * alpha["N2"]
    assert slow["N3"] > 4 * slow["N2"] > 4 * slow["W"]
    assert sigma["N2"] > 1.5 * sigma["R"]
    assert chin["W"] > chin["N2"] > 3 * chin["R"]
    assert rolling["N1"] > 3 * rolling["N2"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 5])
@pytest.mark.filterwarnings("ignore")  # of the libraries that YASA loads
def test_yasa_stages_a_made_up_night_with_kappa_of_point_six(number):
    mne, yasa = pytest.importorskip("mne"), pytest.importorskip("yasa")
    metrics = pytest.importorskip("sklearn.metrics")
    night = simulate_recording("polysomnography", number, seed=11)
    values = np.stack([night.recording.signals[role].read() for role in ("eeg", "eog", "emg")])
    about = mne.create_info(["C4", "E1", "chin"], RATE_HZ, ["eeg", "eog", "emg"])
    raw = mne.io.RawArray(values / 1e6, about, verbose="error")
    facts = {"age": int(night.recording.covariates["age"]), "male": night.recording.covariates["sex"] == "M"}
    staged = yasa.SleepStaging(raw, eeg_name="C4", eog_name="E1", emg_name="chin", metadata=facts).predict()
    stages = staged.proba[["WAKE", "N1", "N2", "N3", "REM"]].to_numpy().argmax(axis=1)
    assert metrics.cohen_kappa_score(night.night.hypnogram.labels, stages) > 0.6
