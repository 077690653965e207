"""AccuSleep: four file forms give the same recordings, labels change their epochs, mice keep their names."""

from __future__ import annotations

import numpy as np
import pytest

from dataset_files import accusleep_session, write_mat7
from messages import naming
from stageguard.datasets import entries, recordings
from stageguard.errors import FileFormatError

pytest.importorskip("scipy")
pytest.importorskip("h5py")
pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

LABELS = np.array([2] * 16 + [3] * 16 + [1] * 8 + [2, 3, 2, 4, 4, 4, 4, 4])  # 48 x 2.5 s = 120 s = 30 x 4 s
RATE = {"rate_hz": 8}
FORMS = ("mat7", "mat73", "parquet", "csv")


def one(folder, **options):
    (recording,) = recordings("accusleep", folder, **{**RATE, **options})
    return recording


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_recording(tmp_path, form):
    place = tmp_path / "4-hour_recordings" / "Mouse07" / "Day1"
    eeg, emg = accusleep_session(place, form, labels=LABELS)
    recording = one(tmp_path)
    assert (recording.id, recording.subject) == ("4-hour_Mouse07_Day1", "Mouse07")
    assert recording.covariates == {"species": "mouse", "group": "4-hour"}
    assert list(recording.signals) == ["eeg", "emg"]
    for role, written in (("eeg", eeg), ("emg", emg)):
        signal = recording.channel(role)
        assert (signal.rate_hz, signal.n_samples, signal.unit) == (8, 960, "")
        np.testing.assert_allclose(signal.read(), written, rtol=1e-12)
        np.testing.assert_array_equal(signal.read(95, 305), signal.read()[95:305])
        told = one(tmp_path, unit="V").channel(role)
        assert told.unit == "uV"
        np.testing.assert_allclose(told.read(), written * 1e6)
    scoring = recording.scorings["expert"]
    assert (scoring.epoch_seconds, scoring.scheme.name, scoring.n_epochs) == (4.0, "wnr3", 30)
    assert scoring.stages[:25].tolist() == ["W"] * 10 + ["N"] * 10 + ["R"] * 5
    # W 2.5 s, N 1.5 s | N 1, W 2.5, ? .5 | then undefined
    assert scoring.stages[25:].tolist() == ["W", "W", "?", "?", "?"]
    assert not recording.is_synthetic


def test_the_labels_stay_as_they_are_when_asked(tmp_path):
    accusleep_session(tmp_path / "Mouse01" / "Day1", "mat7", labels=LABELS)
    scoring = one(tmp_path, epoch_seconds=2.5).scorings["expert"]
    assert scoring.epoch_seconds == 2.5
    assert scoring.stages.tolist() == ["?RWN?"[code] for code in LABELS]


@pytest.mark.parametrize("given_folder", [".", "24-hour_recordings", "24-hour_recordings/Mouse01",
                                          "24-hour_recordings/Mouse01/Day1_dark_cycle"])  # fmt: skip
def test_names_do_not_depend_on_the_folder_given(tmp_path, given_folder):
    accusleep_session(tmp_path / "24-hour_recordings/Mouse01/Day1_dark_cycle", "mat7", labels=LABELS)
    recording = one(tmp_path / given_folder)
    assert (recording.id, recording.subject) == ("24-hour_Mouse01_Day1_dark_cycle", "Mouse01")
    assert recording.covariates["phase"] == "dark"


def test_a_mouse_of_both_groups_is_never_parted(tmp_path):
    for group in ("4-hour_recordings", "24-hour_recordings"):
        accusleep_session(tmp_path / group / "Mouse01" / "Day1", "mat7", labels=LABELS)
    found = list(entries("accusleep", tmp_path))
    assert [(entry.id, entry.subject) for entry in found] == [
        ("24-hour_Mouse01_Day1", "Mouse01"),
        ("4-hour_Mouse01_Day1", "Mouse01"),
    ]


@pytest.mark.parametrize("tables", ["a_python_format", "python_format"])
def test_the_same_session_in_two_forms_is_one_recording(tmp_path, tables):
    inner = "4-hour_recordings/Mouse01/Day1"
    accusleep_session(tmp_path / "matlab_format" / inner, "mat7", labels=LABELS)
    accusleep_session(tmp_path / tables / inner, "parquet", labels=LABELS)
    (entry,) = entries("accusleep", tmp_path)
    assert entry.files[0].name == "recording.parquet"


def test_folders_with_other_names_are_subjects_below_the_folder_given(tmp_path):
    folder = tmp_path / "mouse9" / "lab" / "data" / "own"  # whose own path says nothing of the animals
    for place in ("A/x", "A/y", "B"):
        accusleep_session(folder / place, "mat7", labels=LABELS)
    found = [(entry.id, entry.subject) for entry in entries("accusleep", folder)]
    assert found == [("A_x", "A"), ("A_y", "A"), ("B", "B")]


def test_scores_of_the_program_are_not_an_experts(tmp_path):
    place = tmp_path / "Mouse01" / "Day1"
    accusleep_session(place, "csv", labels=LABELS)
    rows = [f"{label},0.9" for label in LABELS]
    (place / "labels.csv").write_text("brain_state,confidence_score\n" + "\n".join(rows) + "\n")
    assert list(one(tmp_path).scorings) == ["AccuSleePy"]


def damage(place, kind):
    if kind == "cut":
        data = (place / "EEG.mat").read_bytes()
        (place / "EEG.mat").write_bytes(data[: len(data) // 2])
    elif kind == "text":
        (place / "EEG.mat").write_text("not found")
    elif kind == "name":
        write_mat7(place / "EEG.mat", LFP=np.zeros(960))
    elif kind == "matrix":
        from scipy.io import savemat

        savemat(place / "EEG.mat", {"EEG": np.zeros((480, 2))})
    elif kind == "length":
        write_mat7(place / "EEG.mat", EEG=np.zeros(900))
    elif kind == "code":
        write_mat7(place / "labels.mat", labels=LABELS + 5)
    elif kind == "labels":
        write_mat7(place / "labels.mat", labels=np.full(20, 2.0))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("text", ("Day1/EEG.mat", "MAT-file", 5, "7.3")),
        ("name", ("'EEG'", "LFP")),
        ("matrix", ("EEG", "(480, 2)")),
        ("length", (900, 960)),
        ("code", ("Day1/labels.mat: label 7 at epoch 1", "1 R, 2 W, 3 N")),
        ("labels", (20, "2.5 s", "50 s", "8 Hz", "120 s", "label_seconds", "rate_hz")),
        ("cut", ("Day1/EEG.mat", "Is it damaged")),
    ],
)
def test_damaged_files_are_named(tmp_path, kind, message):
    place = tmp_path / "Mouse01" / "Day1"
    accusleep_session(place, "mat7", labels=LABELS)
    if kind == "labels":
        write_mat7(place / "EEG.mat", EEG=np.zeros(960))
    damage(place, kind)
    (entry,) = entries("accusleep", tmp_path, **RATE)
    with pytest.raises((FileFormatError, OSError), match=naming(*message)):
        entry.read().channel("eeg").read()
