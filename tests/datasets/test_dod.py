"""Dreem Open Datasets: HDF5 nights, and scorers' lists that are longer than the files."""

from __future__ import annotations

import json
from datetime import datetime

import numpy as np
import pytest

from messages import naming
from recording_files import dod_night, dod_scorers
from stageguard.datasets import entries, recordings
from stageguard.datasets.dod import place_scorers
from stageguard.errors import FileFormatError, InputError, StageGuardWarning
from stageguard.formats.recordings.roles import guess_roles

h5py = pytest.importorskip("h5py")

NAME = "072653fc-1944-4eb7-b84a-c7a5ccad16fb"


def night(n=120, seed=0):
    """Stages that stay for some epochs, as sleepers do."""
    rng = np.random.default_rng(seed)
    labels = []
    while len(labels) < n:
        labels += [int(rng.integers(0, 5))] * int(rng.integers(1, 9))
    return np.array(labels[:n], dtype=np.int8)


def panel(truth, seed=1):
    """Five scorers who agree on most epochs."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 5, (5, len(truth))).astype(np.int8)
    return np.where(rng.random((5, len(truth))) < 0.1, noise, truth).astype(np.int8)


def consensus(stack):
    return np.array([np.bincount(column + 1, minlength=6).argmax() - 1 for column in stack.T], dtype=np.int8)


def test_a_night(tmp_path):
    labels = [0, 1, 2, 3, 4, -1]
    written = dod_night(tmp_path / "dodh" / f"{NAME}.h5", labels)
    (recording,) = recordings("dod", tmp_path)
    assert (recording.id, recording.subject, recording.source) == (NAME, NAME, "DOD")
    assert {role: signal.name for role, signal in recording.signals.items()} == {
        **{"eeg": "C3_M2", "eeg_2": "F4_M1", "eeg_3": "F3_F4", "eog": "EOG1", "eog_2": "EOG2"},
        **{"ecg": "ECG", "emg": "EMG"},
    }
    eeg = recording.channel("eeg")
    assert (eeg.unit, eeg.rate_hz, eeg.n_samples) == ("uV", 250, 7500 * 6)
    np.testing.assert_array_equal(eeg.read(100, 900), written["C3_M2"][100:900])
    assert recording.scorings["consensus"].labels.tolist() == labels
    assert recording.start == datetime(2018, 6, 4, 21, 40)
    assert dict(recording.covariates) == {"study": "healthy"}


def test_scorers_of_the_files_length(tmp_path):
    stack = panel(night(12))
    dod_night(tmp_path / "h5" / f"{NAME}.h5", consensus(stack))
    dod_scorers(tmp_path / "scorers" / "dodh", NAME, stack)
    (recording,) = recordings("dod", tmp_path)
    assert list(recording.scorings) == ["consensus", *(f"scorer_{i}" for i in range(1, 6))]
    for number, labels in enumerate(stack, start=1):
        assert recording.scorings[f"scorer_{number}"].labels.tolist() == labels.tolist()


def test_scorers_somewhere_else(tmp_path):
    dod_night(tmp_path / "h5" / f"{NAME}.h5", [0, 1])
    dod_scorers(tmp_path / "evaluation", NAME, [[0, 1]])
    (recording,) = recordings("dod", tmp_path / "h5", scorers=tmp_path / "evaluation")
    assert list(recording.scorings) == ["consensus", "scorer_1"]
    with pytest.raises(InputError, match=naming("scorer_1", "scorer_2")):
        list(entries("dod", tmp_path / "h5", scorers=tmp_path / "nowhere"))


@pytest.mark.parametrize(("before", "after"), [(0, 17), (23, 0), (9, 14), (1, 0)])
def test_longer_lists_are_laid_where_they_agree(before, after):
    stack = panel(night())
    own = consensus(stack)[before : stack.shape[1] - after]
    given = {f"scorer_{i}": labels for i, labels in enumerate(stack)}
    placed = place_scorers(given, own, len(own), "night")
    assert list(placed) == list(given)
    for name, labels in given.items():
        assert placed[name].tolist() == labels[before : stack.shape[1] - after].tolist()


def test_shorter_lists_are_laid_where_they_agree():
    stack = panel(night())
    own = consensus(stack)
    given = {f"scorer_{i}": labels[20:90] for i, labels in enumerate(stack)}
    placed = place_scorers(given, own, len(own), "night")
    assert placed["scorer_2"].tolist() == [-1] * 20 + stack[2, 20:90].tolist()


@pytest.mark.parametrize("own", [night(100, seed=9), np.zeros(100, dtype=np.int8)])
def test_lists_that_fit_nowhere_are_left_out(own):
    stack = panel(night() if own.any() else np.zeros(120, dtype=np.int8))
    with pytest.warns(StageGuardWarning, match=naming("120 epochs", 100)):
        assert (
            place_scorers({f"scorer_{i}": labels for i, labels in enumerate(stack)}, own, 100, "night") == {}
        )


def test_lists_that_agree_too_seldom_are_left_out():
    stack = panel(night())
    own = consensus(stack)[10:110]
    own[::8] = (own[::8] + 1) % 5
    with pytest.warns(StageGuardWarning, match="nowhere clearly"):
        given = {f"scorer_{i}": labels for i, labels in enumerate(stack)}
        assert place_scorers(given, own, 100, "night") == {}


def test_longer_lists_without_a_hypnogram_are_left_out():
    with pytest.warns(StageGuardWarning, match="nowhere clearly"):
        assert place_scorers({"scorer_1": night(30)}, None, 20, "night") == {}


def test_without_a_description(tmp_path):
    dod_night(tmp_path / f"{NAME}.h5", None, n_epochs=2, description=False)
    (recording,) = recordings("dod", tmp_path)
    assert recording.channel("eeg").rate_hz == 250
    assert dict(recording.scorings) == {}
    assert guess_roles({"C3_M2": ("uV", 250.0)}) == {"eeg": "C3_M2"}


def test_units_of_the_description(tmp_path):
    written = dod_night(tmp_path / f"{NAME}.h5", [0, 1])
    with h5py.File(tmp_path / f"{NAME}.h5", "r+") as file:
        listed = json.loads(file.attrs["description"])
        file.attrs["description"] = json.dumps([{**item, "unit": "V", "fs": 125} for item in listed])
    (recording,) = recordings("dod", tmp_path)
    np.testing.assert_allclose(recording.channel("eeg").read(0, 9), written["C3_M2"][:9] * 1e6, rtol=1e-6)
    assert (recording.channel("eeg").unit, recording.channel("eeg").rate_hz) == ("uV", 125)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda file: file.__delitem__("signals"), ("'signals'",)),
        (lambda file: file.attrs.__setitem__("description", "no json"), (f"{NAME}.h5", "cannot be read")),
        (lambda file: file["hypnogram"].__setitem__(1, 7), (7, "epoch 2", -1, 4)),
    ],
)
def test_a_damaged_night_is_one_line(tmp_path, spoil, expected):
    dod_night(tmp_path / f"{NAME}.h5", [0, 1])
    with h5py.File(tmp_path / f"{NAME}.h5", "r+") as file:
        spoil(file)
    with pytest.raises(FileFormatError, match=naming(*expected)):
        next(recordings("dod", tmp_path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", ("cannot be read",)),
        ('{"a": 1}', ("shape ()", "number per epoch")),
        ("[0, 1.5]", ("1.5", "epoch 2", -1, 4)),
        ("[0, [1]]", ("cannot be read",)),
        ("[0, 9]", (9, "epoch 2", -1, 4)),
        ("[]", ("(0,)",)),
        ("[" * 5000, ("cannot be read",)),
    ],
)
def test_a_damaged_list_is_one_line(tmp_path, text, expected):
    dod_night(tmp_path / f"{NAME}.h5", [0, 1])
    dod_scorers(tmp_path, NAME, [[0, 1]])
    (tmp_path / "scorer_1" / f"{NAME}.json").write_text(text)
    with pytest.raises(FileFormatError, match=naming(*expected)):
        next(recordings("dod", tmp_path))


def test_real_scorers_are_found_again(data_dir):
    """Cut out of the night what lies between two epochs, and find the place again by agreement alone."""
    rng = np.random.default_rng(0)
    with np.load(data_dir / "dod-h" / "dod_h.npz") as known:
        stacks = [known[key].astype(np.int8) for key in known.files if key.endswith("/scorers")]
    assert len(stacks) == 25
    for stack in stacks:
        before, after = rng.integers(0, 150, 2)
        own = consensus(stack)[before : stack.shape[1] - after]
        placed = place_scorers(
            {f"scorer_{i}": labels for i, labels in enumerate(stack)}, own, len(own), "night"
        )
        assert [*placed.values()][4].tolist() == stack[4, before : stack.shape[1] - after].tolist()
