"""Quality of EEG and EMG: injected artefacts are found where they are, clean signals are not flagged."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from made_recordings import EPOCH, between, eeg_emg, recording, signal, sine, white
from messages import naming

N_EPOCHS = 60


def assess(samples, rules="graded", units=("uV", "uV"), epoch_seconds=EPOCH):
    night = recording(
        **{role: signal(samples[role], unit=unit) for role, unit in zip(samples, units, strict=False)}
    )
    return sg.signal_quality(night, "eeg-emg", epoch_seconds=epoch_seconds, rules=rules)


def hum(epoch, seconds, hertz=50.0, size=80.0):
    def spoil(samples):
        chosen = between(epoch, seconds)
        samples["eeg"][chosen] += sine(hertz, seconds, size=size)

    return spoil


def put(role, epoch, seconds, change):
    def spoil(samples):
        chosen = between(epoch, seconds)
        samples[role][chosen] = change(samples[role][chosen])

    return spoil


def clip_at(limit):
    return lambda x: np.clip(20 * x, -limit, limit)


# what is done, the reason it must be given, the epochs and the share of each that is bad
ARTEFACTS = {
    "lost electrode": (put("eeg", 10, 20, lambda x: 0 * x), "eeg: flat", {10: 1, 11: 1}),
    "flat but for noise": (put("eeg", 10, 10, lambda x: 1e-3 * x), "eeg: flat", {10: 1}),
    "gap": (put("eeg", 20, 5, lambda x: x + np.nan), "eeg: missing", {20: 0.5}),
    "gap over an edge": (put("eeg", 29.8, 5, lambda x: x + np.nan), "eeg: missing", {29: 0.2, 30: 0.3}),
    "infinite": (put("eeg", 20, 5, lambda x: x + np.inf), "eeg: missing", {20: 0.5}),
    "movement": (put("eeg", 30, 3, lambda x: 15 * x), "eeg: amplitude", {30: 0.3}),
    "hum of 50 Hz": (hum(40, 10), "eeg: mains hum", {40: 1}),
    "hum of 60 Hz": (hum(40, 4, 60.0), "eeg: mains hum", {40: 0.4}),
    "muscle": (
        put("eeg", 50, 6, lambda x: x + np.diff(white(len(x) + 1, 9, 26.0))),
        "eeg: high-frequency power",
        {50: 0.6},
    ),
    "EMG lost": (put("emg", 5, 10, lambda x: 0 * x + 7), "emg: flat", {5: 1}),
    "EMG gap": (put("emg", 5, 2, lambda x: x + np.nan), "emg: missing", {5: 0.2}),
    "clipped": (put("eeg", 35, 5, clip_at(150.0)), "eeg: clipped", {35: 0.5}),
}


@pytest.mark.parametrize("name", ARTEFACTS)
def test_an_artefact_is_found_where_it_is_and_as_long_as_it_is(name):
    spoil, reason, expected = ARTEFACTS[name]
    samples = eeg_emg(N_EPOCHS)
    spoil(samples)
    found = assess(samples)
    assert {epoch: round(found.beta[epoch], 6) for epoch in np.flatnonzero(found.beta)} == pytest.approx(
        expected, abs=0.101 if name == "clipped" else 1e-6
    )
    assert all(reason in found.reasons[epoch].split("; ") for epoch in expected)
    assert found.counts()[reason] == len(expected)
    assert len(found.counts()) == 1 or name.startswith(("muscle", "hum"))  # which are large as well


@pytest.mark.parametrize("seed", range(4))
def test_clean_signals_are_not_flagged(seed):
    assert not assess(eeg_emg(200, seed=seed)).is_bad.any()


def test_the_papers_rule_flags_no_more_of_a_clean_recording_than_three_deviations_imply():
    found = assess(eeg_emg(1000), rules="kdd2026")
    assert found.is_bad.mean() < 0.02
    assert set(found.counts()) <= {"eeg: amplitude", "emg: amplitude"}


def test_the_papers_amplitude_rule_is_three_deviations_of_the_recordings_epochs():
    """Amplitudes are set by hand: 99 epochs of 1 and 3 alternating, then one around the threshold."""
    amplitudes = np.where(np.arange(100) % 2, 3.0, 1.0)
    wave = sine(5.0, EPOCH) / 2  # peak to peak 1
    for outlier, is_bad in ((5.1, False), (5.3, True)):
        amplitudes[70] = outlier
        z = (outlier - amplitudes.mean()) / amplitudes.std()
        assert (z > 3) == is_bad  # the case is on the side it should be
        found = assess({"eeg": np.concatenate([a * wave for a in amplitudes])}, rules="kdd2026")
        assert np.flatnonzero(found.beta).tolist() == ([70] if is_bad else [])
        assert found.reasons[70] == ("eeg: amplitude" if is_bad else "")


@pytest.mark.parametrize(("share", "is_bad"), [(0.45, False), (0.55, True)])
def test_the_papers_frequency_rule_is_half_of_the_power_above_45_hz(share, is_bad):
    low, high = sine(10.0, 60.0), sine(47.0, 60.0)
    samples = {"eeg": np.sqrt(1 - share) * low + np.sqrt(share) * high}
    found = assess(samples, rules="kdd2026")
    assert found.is_bad.all() == found.is_bad.any() == is_bad


@pytest.mark.parametrize(("factor", "unit"), [(1e-6, "uV"), (1.0, "V")])
def test_a_unit_that_cannot_be_is_warned_of(factor, unit):
    samples = {"eeg": factor * eeg_emg(20)["eeg"]}
    with pytest.warns(sg.StageGuardWarning, match=naming("'eeg'", unit)):
        found = assess(samples, units=(unit,))
    assert not found.is_bad.any()  # and changes nothing
