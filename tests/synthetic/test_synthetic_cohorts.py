"""Simulated cohorts on disk: what the datasets' readers find in them is what was simulated, and says so."""

from __future__ import annotations

import hashlib
import json
import tomllib
from datetime import datetime

import numpy as np
import pytest

from messages import naming
from stageguard.datasets import recordings
from stageguard.errors import InputError, OutputError, OutputExistsError
from stageguard.files import is_synthetic
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Series
from stageguard.night.stages import AASM5, SCHEMES, WNR3
from stageguard.signals.modalities import MODALITIES
from stageguard.synthetic import Plan, cohort, simulate_cohort, simulate_recording
from stageguard.synthetic.cohort import module_of
from stageguard.synthetic.polysomnography import CHANNELS
from stageguard.synthetic.sleepers import SimulatedSleep, Sleeper

# Largest difference that writing a number makes, by role.
ROUNDING = {
    "eeg": 1e-3,
    "emg": 1e-3,
    "acceleration": 1e-6,
    "heart_rate": 0.01,
    "steps": 0.5,
    "ecg": 0.05,
    "spo2": 0.01,
    "thorax": 1e-4,
    "abdomen": 1e-4,
    "airflow": 1e-4,
    "radar_i": 6e-4,
    "radar_q": 6e-4,
}
LAYOUTS = [(name, layout) for name, layouts in cohort.LAYOUTS.items() for layout in layouts]
HOURS = 0.35
NEEDS = {"parquet": "pyarrow", "mat": "scipy"}


def digests(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("modality", "layout"), LAYOUTS)
def test_readers_read_back_what_was_simulated(modality, layout, tmp_path):
    if layout in NEEDS:
        pytest.importorskip(NEEDS[layout])
    own = MODALITIES[modality]
    simulate_cohort(Plan(modality, 2, HOURS, 5, layout=layout), tmp_path / "cohort")
    found = list(recordings(own.dataset, tmp_path / "cohort"))
    assert len({recording.subject for recording in found}) == len(found) == 2
    for number, recording in enumerate(found, start=1):
        made = simulate_recording(modality, number, seed=5, hours=HOURS)
        assert recording.is_synthetic
        (night,) = recording.scorings.values()
        truth = made.night.hypnogram
        assert night.epoch_seconds == own.epoch_seconds
        np.testing.assert_array_equal(night.labels, truth.scheme.merge_map(night.scheme)[truth.labels])
        assert set(recording.signals) == set(made.recording.signals)
        for role, signal in recording.signals.items():
            # a microvolt of an EDF has 16 bits for a range of 1000
            rounding = (
                0.01 if modality == "polysomnography" and role[:2] in ("ee", "eo", "em") else ROUNDING[role]
            )
            compare(signal, made.recording.signals[role], rounding)


def compare(found, made, rounding):
    if isinstance(made, Series):
        keep = made.times < found.times[-1] + 0.001
        np.testing.assert_allclose(found.times, made.times[keep], atol=1e-4)
        np.testing.assert_allclose(found.values, made.values[keep], atol=rounding)
        return
    assert found.rate_hz == made.rate_hz
    # what the file's range cannot hold is cut off, as an amplifier would
    ranges = {"ECG": 1250.0, "THOR RES": 1.0, "ABDO RES": 1.0, "NEW AIR": 1.0}
    ranges |= {channel.label: 500.0 for role, channel in CHANNELS.items() if role[:2] in ("ee", "eo", "em")}
    limit = ranges.get(made.name, np.inf)
    np.testing.assert_allclose(found.read(), np.clip(made.read(), -limit, limit), atol=rounding)


@pytest.mark.parametrize(("modality", "layout"), LAYOUTS)
def test_every_stage_and_every_switch_survives_the_files(modality, layout, tmp_path):
    if layout in NEEDS:
        pytest.importorskip(NEEDS[layout])
    own = MODALITIES[modality]
    scheme = WNR3 if own.is_mouse else AASM5
    labels = np.random.default_rng(3).integers(0, scheme.n_stages, 60)
    truth = Hypnogram(labels, scheme, own.epoch_seconds, datetime(2000, 1, 1, 22))
    name = module_of(own).name_of(1, layout)
    made = module_of(own).simulate(SimulatedSleep(truth), Sleeper(1, {"ahi": 10.0}), 0, name)
    module_of(own).write(made, tmp_path, layout)
    options = {} if own.dataset != "sleepbrl" else {"scheme": "aasm5"}
    (recording,) = recordings(own.dataset, tmp_path, **options)
    (night,) = recording.scorings.values()
    np.testing.assert_array_equal(night.labels, labels)
    assert night.scheme == scheme


def test_stages_of_the_paper_come_back(tmp_path):
    """Schemes and epochs of the paper's datasets, by the readers' own options."""
    for name, modality in MODALITIES.items():
        simulate_cohort(Plan(name, 1, 0.1), tmp_path / name)
        options = {"scheme": modality.scheme} if modality.dataset == "sleep-accel" else {}
        (recording,) = recordings(modality.dataset, tmp_path / name, **options)
        (night,) = recording.scorings.values()
        assert night.epoch_seconds == {"eeg-emg": 4.0}.get(name, 30.0)
        assert night.scheme.name == modality.scheme or modality.dataset == "shhs"  # merged later
        night.scheme.merge_map(SCHEMES[modality.scheme])


def test_covariates_are_read_back(tmp_path):
    for name in ("cardiorespiratory", "bioradar"):
        made = simulate_cohort(Plan(name, 3, 0.1, 2), tmp_path / name)
        for recording, subject in zip(
            recordings(MODALITIES[name].dataset, tmp_path / name), made, strict=True
        ):
            assert recording.subject == subject.subject
            for key in ("age", "sex", "ahi", "age_group", "osa"):
                assert recording.covariates[key] == subject.covariates[key]
            assert recording.start == subject.start


def test_every_file_of_words_says_synthetic(tmp_path):
    for name, layout in LAYOUTS:
        if layout == "parquet":
            pytest.importorskip("pyarrow")
        folder = tmp_path / f"{name}-{layout}"
        simulate_cohort(Plan(name, 1, 0.05, layout=layout), folder)
        assert (folder / "README.txt").read_text("utf-8").startswith("SYNTHETIC DATA. Nobody slept here")
        marked = json.loads((folder / "synthetic.json").read_text("utf-8"))
        assert marked["synthetic"] is True
        assert (marked["modality"], marked["layout"]) == (name, layout)
        for path in folder.rglob("*"):
            assert is_synthetic(path)
            if path.is_dir():
                continue
            names = path.relative_to(folder).as_posix()
            if path.suffix in (".edf", ".mat", ".xml", ".toml"):
                assert b"SYNTHETIC" in path.read_bytes()[:2000]
            elif path.suffix != ".atr":  # text without a header, or a container: the names say it
                assert "synthetic" in names or path.name == "README.txt"


def test_nothing_outside_a_cohort_counts_as_synthetic(tmp_path):
    simulate_cohort(Plan("bioradar", 1, 0.05), tmp_path / "a" / "cohort")
    assert not is_synthetic(tmp_path / "a")
    assert not is_synthetic(tmp_path / "a" / "other.edf")


def test_a_cohort_depends_on_its_seed_only(tmp_path):
    """Not on its size, its place, or on how many processes made it."""

    def backwards(task, numbers):
        made = {number: task(number) for number in reversed(numbers)}
        return [made[number] for number in numbers]

    for name, modality in MODALITIES.items():
        plan = Plan(name, 2, 0.05, 9)
        simulate_cohort(plan, tmp_path / f"{name}-1")
        simulate_cohort(plan, tmp_path / f"{name}-2", run=backwards)
        first = digests(tmp_path / f"{name}-1")
        assert first == digests(tmp_path / f"{name}-2")
        simulate_cohort(Plan(name, 1, 0.05, 9), tmp_path / f"{name}-3")
        alone = digests(tmp_path / f"{name}-3")
        subject = module_of(modality).name_of(1, cohort.LAYOUTS[name][0])
        shared = [path for path in alone if subject in path]
        assert shared
        assert all(alone[path] == first[path] for path in shared)
        simulate_cohort(Plan(name, 1, 0.05, 10), tmp_path / f"{name}-4")
        other = digests(tmp_path / f"{name}-4")
        assert any(other[path] != alone[path] for path in shared)


def test_a_folder_is_complete_or_not_there(tmp_path):
    def breaks(task, numbers):
        yield task(1)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        simulate_cohort(Plan("bioradar", 2, 0.05), tmp_path / "cohort", run=breaks)
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_simulation_survives_one_that_breaks(tmp_path):
    folder = tmp_path / "cohort"
    simulate_cohort(Plan("bioradar", 1, 0.05), folder)
    before = digests(folder)

    def breaks(task, numbers):
        task(1)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        simulate_cohort(Plan("bioradar", 1, 0.1), folder, overwrite=True, run=breaks)
    assert digests(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["cohort"]


def test_nothing_is_replaced_without_being_asked(tmp_path):
    folder = tmp_path / "cohort"
    folder.mkdir()
    simulate_cohort(Plan("bioradar", 1, 0.05), folder)  # an empty one may be used
    before = digests(folder)
    with pytest.raises(OutputExistsError, match=r"cohort exists already\. Use overwrite=True"):
        simulate_cohort(Plan("bioradar", 1, 0.05, 1), folder)
    assert digests(folder) == before
    simulate_cohort(Plan("bioradar", 1, 0.05, 1), folder, overwrite=True)
    assert digests(folder) != before
    assert [path.name for path in tmp_path.iterdir()] == ["cohort"]


def test_files_of_others_are_never_replaced(tmp_path):
    (tmp_path / "mine.txt").write_text("dear data")
    with pytest.raises(OutputExistsError, match=naming("no simulation wrote", "alone")):
        simulate_cohort(Plan("bioradar", 1, 0.05), tmp_path, overwrite=True)
    assert digests(tmp_path).keys() == {"mine.txt"}
    with pytest.raises(OutputError, match=naming("expected a folder")):
        simulate_cohort(Plan("bioradar", 1, 0.05), tmp_path / "mine.txt", overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("eeg", 1), ("modality is 'eeg', expected 'eeg-emg' or", "Did you mean 'eeg-emg'?")),
        (("eeg-emg", 0), ("subjects", 0, 1, 999)),
        (("eeg-emg", 1, 0.001), ("hours", "0.001", "0.00222222", 72)),
        (("bioradar", 1, float("nan")), ("hours is nan",)),
        (("bioradar", 1, 8.0, -1), ("seed", -1, 0)),
        (
            ("eeg-emg", 1, 1.0, 0, "infant"),
            ("variant", "'infant'"),
        ),
        (("bioradar", 1, 1.0, 0, "adult", "mat"), ("layout", "'mat'")),
    ],
)
def test_impossible_plans_are_refused(arguments, message):
    with pytest.raises(InputError, match=naming(*message)):
        Plan(*arguments)


@pytest.mark.parametrize("modality", ["actigraphy", "cardiorespiratory", "bioradar"])
def test_variants_are_written_and_read_back(modality, tmp_path):
    for variant in ("infant", "narcolepsy"):
        simulate_cohort(Plan(modality, 1, 0.5, variant=variant), tmp_path / variant)
        (recording,) = recordings(MODALITIES[modality].dataset, tmp_path / variant)
        assert recording.is_synthetic
        told = json.loads((tmp_path / variant / "synthetic.json").read_text("utf-8"))
        assert told["variant"] == variant
        assert f"--variant {variant}" in (tmp_path / variant / "README.txt").read_text("utf-8")


def test_the_truth_is_beside_the_data(tmp_path):
    made = simulate_cohort(Plan("cardiorespiratory", 2, 3, 4), tmp_path / "cohort")
    rows = [
        line.split("\t") for line in (tmp_path / "cohort" / "synthetic-subjects.tsv").read_text().splitlines()
    ]
    table = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    for row, subject in zip(table, made, strict=True):
        assert row["subject"] == subject.subject
        assert float(row["tst_minutes"]) == pytest.approx(subject.statistics["tst_minutes"], rel=1e-5)
        assert row["osa"] == subject.covariates["osa"]
        truth = simulate_recording("cardiorespiratory", int(subject.subject) - 900_000, seed=4, hours=3)
        asleep = np.isin(truth.night.hypnogram.labels, [AASM5.index(n) for n in ("N1", "N2", "N3", "R")])
        assert subject.statistics["tst_minutes"] == asleep.sum() / 2
    events = (tmp_path / "cohort" / "synthetic-events.tsv").read_text().splitlines()
    assert len(events) - 1 == sum(len(subject.events) for subject in made)
    known = json.loads((tmp_path / "cohort" / "synthetic.json").read_text())["group_differences"]
    assert known["osa moderate/severe"]["tst_minutes"] < -15


def test_the_mapping_of_radar_nights_is_toml(tmp_path):
    simulate_cohort(Plan("bioradar", 2, 0.05), tmp_path / "cohort")
    told = tomllib.loads((tmp_path / "cohort" / "recordings.toml").read_text("utf-8"))
    assert [entry["subject"] for entry in told["recordings"]] == ["synthetic-001", "synthetic-002"]


def test_mat_files_are_those_scipy_reads(tmp_path):
    scipy_io = pytest.importorskip("scipy.io")
    simulate_cohort(Plan("eeg-emg", 1, 0.05), tmp_path / "cohort")
    place = tmp_path / "cohort" / "Mouse01_synthetic" / "Day1_light_cycle"
    labels = scipy_io.loadmat(place / "labels.mat")
    assert b"SYNTHETIC" in labels["__header__"]
    assert labels["labels"].shape == (1, 72)
    assert set(np.unique(labels["labels"])) <= {1, 2, 3}
    eeg = scipy_io.loadmat(place / "EEG.mat")["EEG"]
    assert eeg.shape == (1, 180 * 512)
    assert eeg.dtype == np.float32


@pytest.mark.parametrize("modality", list(MODALITIES))
def test_quality_and_features_work_on_what_was_written(modality, tmp_path):
    import stageguard as sg

    for library in ("scipy", "sleepecg"):
        pytest.importorskip(library)
    own = MODALITIES[modality]
    plan = Plan(modality, 1, 0.5, 8)
    simulate_cohort(plan, tmp_path / "cohort")
    (recording,) = recordings(own.dataset, tmp_path / "cohort")
    quality = sg.signal_quality(recording, modality, rules="graded")
    recipe = MODALITIES[modality].recipe
    made = sg.features(recording, recipe)
    assert quality.n_epochs == made.n_epochs == plan.hours * 3600 / own.epoch_seconds
    assert np.mean(quality.beta < 0.5) > 0.6
    assert made.has_signal.mean() > 0.8
