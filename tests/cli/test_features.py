"""`stageguard features`: what it writes is what `sg.features` computes, with stages and subject."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from dataset_files import accusleep_session, sleepbrl_record
from made_recordings import N_EPOCHS, write_psg
from messages import mentions
from stageguard.documents import toml_text
from stageguard.signals.features import Recipe, recipes


@pytest.fixture
def run(capsys):
    return Runner(capsys)


def test_it_writes_what_the_library_computes(run, tmp_path):
    path = write_psg(tmp_path / "night.edf")
    ran = run("features", path, "-r", "human-eeg-emg", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "Recipe human-eeg-emg" in ran.out
    made = sg.features(sg.read_recording(path), "human-eeg-emg")
    with np.load(tmp_path / "out" / "night.npz") as held:
        assert held["features"].tobytes() == made.values.tobytes()
        assert held["names"].tolist() == list(made.names)
        assert held["stage"].tolist() == ["W"] * N_EPOCHS
        assert str(held["subject"]) == made.subject
    assert np.isnan(made.values[4:6]).all()


def test_it_reports_in_json(run, tmp_path):
    ran = run(
        "features", write_psg(tmp_path / "night.edf"), "-r", "human-eeg-emg", "-o", tmp_path / "o", "--json"
    )
    (report,) = ran.json
    assert (report["n_epochs"], report["n_frames"], report["n_features"]) == (N_EPOCHS, 10, 23)
    assert (report["n_without_signal"], report["n_scored"]) == (2, N_EPOCHS)
    assert report["recipe"]["sha256"] == Recipe.load("human-eeg-emg").sha256
    assert report["scaling"] == "robust"


def test_a_recipe_of_ones_own(run, tmp_path):
    own = Recipe.load("human-eeg-emg").replace(name="own", spectrogram={"bins": [[1.0, 4.0, 1.0]]})
    (tmp_path / "own.toml").write_text(toml_text(own.to_dict()))
    path = write_psg(tmp_path / "night.edf")
    ran = run("features", path, "-r", tmp_path / "own.toml", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    with np.load(tmp_path / "out" / "night.npz") as held:
        assert held["names"].tolist() == ["eeg_1-2hz", "eeg_2-3hz", "eeg_3-4hz", "emg_10-45hz_power"]


def test_it_never_overwrites_unless_told(run, tmp_path):
    path = write_psg(tmp_path / "night.edf")
    arguments = ["features", path, "-r", "human-eeg-emg", "-o", tmp_path / "out"]
    run(*arguments)
    assert mentions(error_line(run(*arguments)), "night.npz", "--overwrite")
    assert run(*arguments, "--overwrite").code == 0


def test_one_bad_file_is_a_row_and_not_the_end(run, tmp_path):
    good = write_psg(tmp_path / "good.edf")
    other = write_psg(tmp_path / "other.edf", labels=("EEG C4-M1", "Pulse"))
    ran = run("features", other, good, good, "-r", "human-eeg-emg", "-o", tmp_path / "out")
    assert ran.code == 1
    assert "2 of 3 files failed" in ran.err
    assert "no channel 'emg'" in ran.err
    assert mentions(ran.err, "same output as")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.npz"]


def test_a_dataset_becomes_a_folder_to_train_on(run, tmp_path):
    for mouse in ("Mouse01", "Mouse02"):
        accusleep_session(
            tmp_path / "data" / mouse / "Day1", "mat7", labels=np.repeat([2, 3, 1], 24), rate_hz=128
        )
    ran = run(
        "features",
        tmp_path / "data",
        "--dataset",
        "accusleep",
        "-r",
        "mouse-eeg-emg",
        "-o",
        tmp_path / "out",
        "--dataset-option",
        "rate_hz=128",
    )
    assert ran.code == 0, ran.err
    assert "Wrote 2 feature tables" in ran.out
    from stageguard.nn.data import read_folder

    tables = read_folder(tmp_path / "out", sg.StageScheme.named("wnr3"))
    assert {table.epoch_seconds for table in tables} == {4.0}
    assert len({table.subject for table in tables}) == 2
    assert all(set(table.labels) >= {0, 1, 2} for table in tables)


def test_radar_of_a_dataset(run, tmp_path):
    sleepbrl_record(tmp_path / "data", "sbj01", "WWW11122233RRR")
    ran = run(
        "features",
        tmp_path / "data",
        "--dataset",
        "sleepbrl",
        "-r",
        "bioradar",
        "-o",
        tmp_path / "out",
        "--json",
    )
    assert ran.code == 0, ran.err
    assert ran.json[0]["features"][0] == "breathing_rate_per_min"


def test_several_scorers_are_merged_unless_one_is_named(run, tmp_path, monkeypatch):
    from stageguard.cli import recordings

    night = sg.read_recording(write_psg(tmp_path / "night.edf"))
    scheme = sg.StageScheme.named("wnr3")
    scorers = {
        name: sg.Hypnogram(np.full(N_EPOCHS, label, dtype=np.int8), scheme, 30.0)
        for name, label in (("a", 0), ("b", 1), ("c", 1))
    }
    panel = sg.Recording(night.id, night.subject, night.signals, scorers)
    monkeypatch.setattr(recordings.RecordingOptions, "_read_file", lambda *_: (panel, ()))
    arguments = ["features", tmp_path / "night.edf", "-r", "human-eeg-emg", "--json"]
    merged = run(*arguments, "-o", tmp_path / "1").json[0]
    assert mentions(" ".join(merged["notes"]), "stages", "consensus", 3)
    with np.load(tmp_path / "1" / "night.npz") as held:
        assert set(held["stage"].tolist()) == {"N"}
    run(*arguments, "-o", tmp_path / "2", "--scorer", "a")
    with np.load(tmp_path / "2" / "night.npz") as held:
        assert set(held["stage"].tolist()) == {"W"}
    assert mentions(error_line(run(*arguments, "-o", tmp_path / "3", "--scorer", "d")), "'d'")


def test_a_scoring_of_another_length_is_left_out_and_said(run, tmp_path):
    path = write_psg(tmp_path / "night.edf")
    ran = run("features", path, "-r", "human-eeg-emg", "-o", tmp_path / "o", "--epoch-seconds", 10, "--json")
    assert ran.json[0]["n_scored"] == 0
    assert mentions(" ".join(ran.json[0]["notes"]), "left", "30 s")


def test_the_recipes_are_listed(run):
    ran = run("features", "--recipes")
    assert ran.code == 0
    assert all(name in ran.out for name in recipes())


def test_an_unknown_recipe_is_told_apart(run, tmp_path):
    line = error_line(run("features", tmp_path / "x.edf", "-r", "mouse-eeg-emq", "-o", tmp_path))
    assert "Did you mean 'mouse-eeg-emg'" in line
