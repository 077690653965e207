"""Made-up polysomnograms show the waves of each stage, and YASA, which never saw them, stages them."""

from __future__ import annotations

import numpy as np
import pytest

from stageguard.night.recording import Signal
from stageguard.synthetic import simulate_recording
from stageguard.synthetic.polysomnography import (
    CHANNELS,
    EEG_PARTS,
    NEIGHBOURS,
    RATE_HZ,
    STAGES,
    eeg_templates,
)

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


def test_a_recording_has_the_channels_of_a_laboratory(night):
    signals = night.recording.signals
    assert tuple(signals) == tuple(CHANNELS)
    assert signals["ecg"].rate_hz == 250 and signals["eeg"].unit == "uV"
    (truth,) = night.recording.scorings.values()
    assert night.recording.is_synthetic and truth.scheme.n_stages == 5


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


def test_the_eyes_move_against_each_other(night):
    left, right = rows(night, "eog"), rows(night, "eog_2")
    drowsy = night.night.hypnogram.labels == STAGES.index("N1")
    assert np.corrcoef(left[drowsy].ravel(), right[drowsy].ravel())[0, 1] < -0.5


def test_the_two_derivations_are_alike_but_not_the_same(night):
    correlation = np.corrcoef(rows(night, "eeg").ravel(), rows(night, "eeg_2").ravel())[0, 1]
    assert 0.7 < correlation < 0.98


def test_every_part_of_the_eeg_has_unit_variance():
    frequencies = np.linspace(0, RATE_HZ / 2, 126)
    assert eeg_templates(frequencies).sum(axis=1) * frequencies[1] == pytest.approx(np.ones(len(EEG_PARTS)))


def test_neighbours_of_a_stage_sum_to_one_and_rem_never_resembles_n2():
    assert all(sum(shares.values()) == pytest.approx(1) for shares in NEIGHBOURS.values())
    assert "N2" not in NEIGHBOURS["R"]


def test_the_same_seed_gives_the_same_signals():
    first, again = (simulate_recording("polysomnography", 1, seed=3, hours=0.2).recording for _ in range(2))
    other = simulate_recording("polysomnography", 1, seed=4, hours=0.2).recording
    assert all(np.array_equal(first.signals[role].read(), again.signals[role].read()) for role in CHANNELS)
    assert not np.array_equal(first.signals["eeg"].read(), other.signals["eeg"].read())


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
