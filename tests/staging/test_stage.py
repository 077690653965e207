"""From a recording to a guarded hypnogram: stagers as their packages have them, and what goes wrong."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pytest

import stageguard as sg
from stageguard.errors import InputError
from stageguard.night.recording import Signal
from stageguard.pipeline import stage
from stageguard.profile.stagers import KNOWN_STAGERS
from stageguard.staging import Stager, stager_of, stagers

pytestmark = pytest.mark.filterwarnings("ignore")


def test_yasa_gives_the_probabilities_of_the_package(psg, by_yasa):
    mne, yasa = pytest.importorskip("mne"), pytest.importorskip("yasa")
    values = np.stack([psg.signals[role].read() for role in ("eeg", "eog", "emg")])
    raw = mne.io.RawArray(
        values / 1e6, mne.create_info(["a", "b", "c"], 125.0, ["eeg", "eog", "emg"]), verbose="error"
    )
    facts = {"age": psg.covariates["age"], "male": psg.covariates["sex"] == "M"}
    own = yasa.SleepStaging(raw, eeg_name="a", eog_name="b", emg_name="c", metadata=facts).predict().proba
    expected = own[["WAKE", "N1", "N2", "N3", "REM"]].to_numpy()
    np.testing.assert_allclose(by_yasa.density.probabilities, expected, atol=1e-12)


def test_sleepecg_gives_the_probabilities_of_the_package(psg, by_sleepecg):
    sleepecg = pytest.importorskip("sleepecg")
    ecg = psg.signals["ecg"]
    record = sleepecg.SleepRecord(
        sleep_stage_duration=30,
        recording_start_time=psg.start.time(),
        heartbeat_times=sleepecg.detect_heartbeats(ecg.read(), ecg.rate_hz) / ecg.rate_hz,
        subject_data=sleepecg.SubjectData(gender=sleepecg.Gender.MALE, age=48),
    )
    with redirect_stdout(io.StringIO()):
        own = sleepecg.stage(sleepecg.load_classifier("wrn-gru-mesa", "SleepECG"), record, return_mode="prob")
    expected = own[:, [3, 1, 2]] / own[:, 1:].sum(axis=1, keepdims=True)
    rows = by_sleepecg.density.probabilities
    np.testing.assert_allclose(rows[: len(own)], expected, atol=1e-6)
    assert np.isnan(rows[len(own) :]).all() and len(rows) == 180  # it leaves the last epoch out


def test_the_guard_behind_a_stager_is_decode_with_what_is_known_of_it(by_yasa, by_sleepecg):
    for staged, profile, trained in (
        (by_yasa, "human-psg-5", "balanced"),
        (by_sleepecg, "human-cardiorespiratory-3", "natural"),
    ):
        again = sg.decode(staged.density, profile, quality=staged.quality.beta, trained=trained)
        np.testing.assert_array_equal(staged.decoding.hypnogram.labels, again.hypnogram.labels)
        assert staged.decoding.trained == trained


def test_derivations_are_staged_one_by_one_and_combined(psg, by_yasa):
    both = stage(psg, "yasa", channels=["EEG C4-A1", "EEG C3-A2"], quality="none")
    first, second = both.parts
    np.testing.assert_allclose(first.probabilities, by_yasa.density.probabilities, atol=1e-12)
    np.testing.assert_allclose(
        both.density.probabilities, (first.probabilities + second.probabilities) / 2, atol=1e-9
    )
    differ = (first.argmax != both.density.argmax) | (second.argmax != both.density.argmax)
    np.testing.assert_array_equal(both.disagreement > 0, differ)


def test_a_lost_derivation_gives_way_to_the_other(psg, by_yasa):
    lost = psg.signals["eeg_2"].read().copy()
    lost[: 30 * 125 * 60] = 0.0  # half an hour of a lead that fell off
    signals = dict(psg.signals) | {"eeg_2": Signal("C3", lost, 125.0, "uV")}
    both = stage(replace(psg, signals=signals), "yasa", channels=["EEG C4-A1", "C3"])
    np.testing.assert_allclose(both.density.probabilities[:55], by_yasa.density.probabilities[:55], atol=1e-9)
    assert both.quality.beta[:55].max() < 1


# What goes wrong.


def fake(run, **facts):
    return Stager(KNOWN_STAGERS["gssc"], run, package="", **facts)


def density_of(recording, n_epochs, value=0.2):
    return sg.Hypnodensity(np.full((n_epochs, 5), value), "aasm5", 30.0)


def raises(recording):
    raise RuntimeError("out of\nmemory")


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (lambda recording: density_of(recording, 179), ("179", "180")),
        (lambda recording: density_of(recording, 181), ("181", "180")),
        (lambda recording: density_of(recording, 180, np.nan), ("no probabilities",)),
        (lambda recording: np.ones((180, 5)), ("ndarray", "Hypnodensity")),
        (raises, ("RuntimeError", "out of memory")),
    ],
)
def test_a_stager_that_fails_is_named_in_one_line(psg, run, told):
    with pytest.raises(InputError) as caught:
        fake(run).stage(psg)
    message = str(caught.value)
    assert "gssc" in message and psg.id in message and "\n" not in message
    assert all(part in message for part in told)


def test_yasa_says_what_it_does_without(psg, by_yasa):
    alone = replace(psg, signals={"eeg": psg.signals["eeg"]})
    assert "without eog and emg" in stager_of("yasa").describe(alone)
    assert "without" not in by_yasa.notes[0]


def test_a_flat_ecg_is_refused(psg):
    pytest.importorskip("keras")
    flat = Signal("ECG", np.zeros(250 * 5400), 250.0, "uV")
    with pytest.raises(InputError, match="flat"):
        stage(replace(psg, signals={"ecg": flat}), "sleepecg", covariates={"age": 48, "sex": "M"})


@pytest.mark.parametrize(
    ("signals", "told"),
    [
        ({"ecg": Signal("ECG", np.zeros(375), 125.0, "uV")}, "no channel 'eeg'.*ecg"),
        ({"eeg": Signal("EEG C4-A1", np.zeros(54_000), 10.0, "uV")}, "10 Hz.*80"),
        ({"eeg": Signal("EEG", np.ones(375), 125.0, "uV")}, "3 s.*30 s"),
    ],
)
def test_recordings_that_cannot_be_staged_are_refused(psg, signals, told):
    with pytest.raises(InputError, match=told):
        stage(replace(psg, signals=signals, scorings={}), "yasa")


@pytest.mark.parametrize("fact", ["age", "sex", "start"])
def test_sleepecg_asks_for_what_its_network_takes(psg, fact):
    known = {"age": 48, "sex": "M"}
    changes = {"start": None} if fact == "start" else {}
    known.pop(fact, None)
    with pytest.raises(InputError, match=f"the {fact}, which sleepecg needs"):
        stage(replace(psg, covariates={}, **changes), "sleepecg", covariates=known)


def test_unknown_stagers_are_refused_with_those_that_are_known():
    with pytest.raises(InputError, match="yasa"):
        stager_of("yassa")
    assert {"yasa", "sleepecg"} <= set(stagers())


def test_stagers_of_other_packages_are_found_and_cannot_replace_ours(monkeypatch, psg):
    import stageguard.staging as staging

    class Entry:
        def __init__(self, name, value):
            self.name, self.value, self.module, self.dist = name, value, "other.module", None

        def load(self):
            if isinstance(self.value, Exception):
                raise self.value
            return self.value

    ours = fake(lambda recording: density_of(recording, 180))
    entries = [
        Entry("theirs", ours),
        Entry("yasa", ours),
        Entry("broken", OSError("no weights")),
        Entry("odd", 3),
    ]
    monkeypatch.setattr(staging, "entry_points", lambda group: entries)
    assert stager_of("theirs") is ours and stager_of("yasa") is not ours
    assert stage(psg, "theirs").density.n_epochs == 180
    for name, told in (("broken", "no weights"), ("odd", "int")):
        with pytest.raises(InputError, match=told):
            stager_of(name)


def test_every_known_stager_names_a_profile_and_a_source():
    for known in KNOWN_STAGERS.values():
        profile = sg.Profile.load(known.profile)
        assert profile.scheme.name == known.scheme and profile.epoch_seconds == known.epoch_seconds
        assert known.trained_source
