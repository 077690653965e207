"""Simulated cohorts on disk: what the datasets' readers find in them is what was simulated, and says so."""

from __future__ import annotations

import hashlib
from datetime import datetime

import numpy as np
import pytest

from messages import naming
from stageguard.datasets import recordings
from stageguard.errors import InputError, OutputError, OutputExistsError
from stageguard.files import is_synthetic
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Series
from stageguard.night.stages import AASM5, WNR3
from stageguard.signals.modalities import MODALITIES
from stageguard.synthetic import Plan, simulate_cohort, simulate_recording
from stageguard.synthetic.cohort import LAYOUTS, LIMITS, WRITTEN
from stageguard.synthetic.night import simulate_night
from stageguard.synthetic.sleepers import SimulatedSleep, Sleeper

# Largest difference that writing a number makes, by role; 1e-4 for belts.
ROUNDING = {"acceleration": 1e-6, "heart_rate": 0.01, "steps": 0.5, "ecg": 0.05, "spo2": 0.01}
HOURS = 0.35


def digests(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("modality", WRITTEN)
def test_readers_read_back_what_was_simulated(modality, tmp_path):
    own = MODALITIES[modality]
    subjects = simulate_cohort(Plan(modality, 2, HOURS, 5), tmp_path / "cohort")
    found = list(recordings(own.dataset, tmp_path / "cohort"))
    assert len({recording.subject for recording in found}) == len(found) == 2
    for number, (recording, subject) in enumerate(zip(found, subjects, strict=True), start=1):
        made = simulate_recording(modality, number, seed=5, hours=HOURS)
        assert recording.is_synthetic
        (night,) = recording.scorings.values()
        truth = made.night.hypnogram
        assert night.epoch_seconds == own.epoch_seconds
        np.testing.assert_array_equal(night.labels, truth.scheme.merge_map(night.scheme)[truth.labels])
        assert set(recording.signals) == set(made.recording.signals)
        for role, signal in recording.signals.items():
            compare(signal, made.recording.signals[role], role)
        if own.dataset == "shhs":
            assert recording.start == made.recording.start
            for key in ("age", "sex", "ahi", "age_group", "osa"):
                assert recording.covariates[key] == subject.covariates[key]


def compare(found, made, role):
    if isinstance(made, Series):
        keep = made.times < found.times[-1] + 0.001
        np.testing.assert_allclose(found.times, made.times[keep], atol=1e-4)
        np.testing.assert_allclose(found.values, made.values[keep], atol=ROUNDING[role])
        return
    assert found.rate_hz == made.rate_hz
    is_voltage = made.unit == "uV" and role != "ecg"  # a microvolt of an EDF has 16 bits for a range of 1000
    # what the file's range cannot hold is cut off, as an amplifier would
    limit = LIMITS[role][1] * (1000 if made.unit == "uV" else 1) if made.rate_hz < 500 else np.inf
    clipped = np.clip(made.read(), -limit, limit)
    np.testing.assert_allclose(found.read(), clipped, atol=0.01 if is_voltage else ROUNDING.get(role, 1e-4))


@pytest.mark.parametrize("modality", WRITTEN)
def test_every_stage_and_every_switch_survives_the_files(modality, tmp_path):
    own, layout = MODALITIES[modality], LAYOUTS[modality]
    scheme = WNR3 if own.is_mouse else AASM5
    labels = np.random.default_rng(3).integers(0, scheme.n_stages, 60)
    truth = Hypnogram(labels, scheme, own.epoch_seconds, datetime(2000, 1, 1, 22))
    made = layout.simulate(SimulatedSleep(truth), Sleeper(1, {"ahi": 10.0}), 0, layout.name.format(1))
    layout.write(made, tmp_path)
    (recording,) = recordings(own.dataset, tmp_path)
    (night,) = recording.scorings.values()
    np.testing.assert_array_equal(night.labels, labels)
    assert night.scheme == scheme


@pytest.mark.parametrize("name", WRITTEN)
def test_a_cohort_depends_on_its_seed_only_and_says_that_it_is_synthetic(name, tmp_path):
    """Not on its size, its place, or on how many processes made it."""

    def backwards(task, numbers):
        made = {number: task(number) for number in reversed(numbers)}
        return [made[number] for number in numbers]

    simulate_cohort(Plan(name, 2, 0.05, 9), tmp_path / "1")
    simulate_cohort(Plan(name, 2, 0.05, 9), tmp_path / "2", run=backwards)
    first = digests(tmp_path / "1")
    assert first == digests(tmp_path / "2")
    simulate_cohort(Plan(name, 1, 0.05, 9), tmp_path / "3")
    simulate_cohort(Plan(name, 1, 0.05, 10), tmp_path / "4")
    alone, other = digests(tmp_path / "3"), digests(tmp_path / "4")
    shared = [path for path in alone if LAYOUTS[name].name.format(1) in path]
    assert shared
    assert all(alone[path] == first[path] for path in shared)
    assert any(other[path] != alone[path] for path in shared)
    for path in (tmp_path / "1").rglob("*"):
        assert is_synthetic(path)
        if path.suffix in (".edf", ".mat", ".xml", ".json"):
            assert b"SYNTHETIC" in path.read_bytes()[:2000]
    assert not is_synthetic(tmp_path)


def breaks(task, numbers):
    task(1)
    raise RuntimeError("stopped")


def test_a_folder_is_complete_or_what_it_was(tmp_path):
    folder = tmp_path / "cohort"
    with pytest.raises(RuntimeError, match="stopped"):
        simulate_cohort(Plan("actigraphy", 2, 0.05), folder, run=breaks)
    assert list(tmp_path.iterdir()) == []
    folder.mkdir()
    simulate_cohort(Plan("actigraphy", 1, 0.05), folder)  # an empty one may be used
    before = digests(folder)
    with pytest.raises(RuntimeError):
        simulate_cohort(Plan("actigraphy", 1, 0.1), folder, overwrite=True, run=breaks)
    with pytest.raises(OutputExistsError, match=r"cohort exists already\. Use overwrite=True"):
        simulate_cohort(Plan("actigraphy", 1, 0.05, 1), folder)
    assert digests(folder) == before
    simulate_cohort(Plan("actigraphy", 1, 0.05, 1), folder, overwrite=True)
    assert digests(folder) != before
    assert [path.name for path in tmp_path.iterdir()] == ["cohort"]


def test_an_earlier_simulation_is_put_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    folder = tmp_path / "cohort"
    simulate_cohort(Plan("actigraphy", 1, 0.05), folder)
    before, rename = digests(folder), type(folder).rename

    def fails(path, target):
        if ".new-" in path.name:
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(type(folder), "rename", fails)
    with pytest.raises(OutputError, match="Permission denied"):
        simulate_cohort(Plan("actigraphy", 1, 0.05, 1), folder, overwrite=True)
    assert digests(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["cohort"]


def test_files_of_others_are_never_replaced(tmp_path):
    (tmp_path / "mine.txt").write_text("dear data")
    with pytest.raises(OutputExistsError, match=naming("no simulation wrote", "alone")):
        simulate_cohort(Plan("actigraphy", 1, 0.05), tmp_path, overwrite=True)
    assert digests(tmp_path).keys() == {"mine.txt"}
    with pytest.raises(OutputError, match=naming("expected a folder")):
        simulate_cohort(Plan("actigraphy", 1, 0.05), tmp_path / "mine.txt", overwrite=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Plan("eeg", 1), ("modality is 'eeg', expected 'eeg-emg' or", "Did you mean 'eeg-emg'?")),
        (lambda: Plan("eeg-emg", 0), ("subjects", 0, 1, 999)),
        (lambda: Plan("eeg-emg", 1, 0.001), ("hours", "0.001", "0.00222222", 72)),
        (lambda: Plan("bioradar", 1, float("nan")), ("hours is nan",)),
        (lambda: Plan("bioradar", 1, 8.0, -1), ("seed", -1, 0)),
        (lambda: simulate_cohort(Plan("bioradar", 1, 1.0), "x"), ("modality is 'bioradar', expected",)),
        (lambda: simulate_night(hours=0), ("hours", 0, "number")),
        (lambda: simulate_night(hours=float("nan")), ("hours", "finite")),
        (lambda: simulate_night(sharpness=-1.0), ("sharpness", "-1.0", 0)),
    ],
)
def test_impossible_plans_are_refused(call, message):
    with pytest.raises(InputError, match=naming(*message)):
        call()
