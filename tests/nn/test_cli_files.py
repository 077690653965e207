"""What `train` and `stage` take from files and leave as files, and what they print on the way."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from cli_runner import Runner, error_line
from feature_nights import cohort, feature_table, options, write_csv
from messages import each_mentions, mentions
from stageguard.documents import toml_text
from stageguard.nn.model import load_model
from stageguard.nn.training import train
from stageguard.profile.profile import Profile
from stageguard.signals.features import Recipe

CONFIG = """
data = "features"
output = "model"
backbone = "accusleep"
profile = "human-psg-3"
network = { small = true, width = 0.25, window_epochs = 3 }
penalty_weight = 0.0
sequence_epochs = 20
steps = 6
evaluate_every = 3
batch_size = 4
device = "cpu"
"""


@pytest.fixture
def run(capsys) -> Runner:
    torch.set_num_threads(1)
    return Runner(capsys)


@pytest.fixture
def place(tmp_path):
    for table in cohort(3):
        write_csv(tmp_path / "features" / f"{table.recording}.csv", table)
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("files") / "model"
    train(cohort(), options(steps=2, evaluate_every=2), folder)
    return folder


def test_the_line_of_an_evaluation_has_the_means_of_the_log(run, place):
    ran = run("train", place / "config.toml")
    assert ran.code == 0, ran.err
    log = [json.loads(line) for line in (place / "model" / "log.jsonl").read_text().splitlines()]
    for line, entry in zip(ran.err.splitlines(), log[1:], strict=True):
        shown = f"step {entry['step']} of 6: loss {entry['training']['loss']:.3f}  cross-entropy"
        assert line.startswith(shown)
    assert log[0]["options"]["learning_rate"] == 3e-3  # of the small recipe, said nowhere else


def test_a_warning_says_what_can_be_done_in_a_configuration(run, place):
    (place / "config.toml").write_text(CONFIG.replace("penalty_weight = 0.0\n", ""))
    said = run("train", place / "config.toml", "--json").json["warnings"]
    assert each_mentions(said, ("'human-psg-3'", "rare", "zero"))


@pytest.mark.parametrize(
    "command", [("train", "c.toml"), ("stage", "--stager", "model", "a.csv", "-o", "out")]
)
def test_a_device_that_is_none_is_wrong_usage(run, command):
    ran = run(*command, "--device", "tpu")
    assert ran.code == 2
    assert all(word in ran.err for word in ("--device", "'tpu'", "'auto', 'cpu', 'cuda'"))


def test_an_output_that_cannot_be_written_is_said_before_anything_is_read(run, place):
    (place / "file").write_text("x")
    shutil.rmtree(place / "features")
    line = error_line(run("train", place / "config.toml", "-o", place / "file" / "m"))
    assert mentions(line, "cannot write into", place / "file" / "m")


def test_a_profile_beside_the_configuration_is_found_from_anywhere(run, place, monkeypatch):
    Profile.load("human-psg-3").replace(name="own", rare=[["W", "R"]]).save(place / "own.toml")
    (place / "config.toml").write_text(CONFIG.replace("human-psg-3", "own.toml"))
    monkeypatch.chdir("/")
    assert run("train", place / "config.toml").code == 0
    card = load_model(place / "model").card
    assert card.profile.name == "own"
    assert str(place) not in (place / "model" / "model.json").read_text()
    (place / "own.toml").unlink()
    assert "own.toml" in error_line(run("train", place / "config.toml", "--overwrite"))


def test_other_columns_than_the_networks_may_hold_anything(run, model, tmp_path):
    lines = write_csv(tmp_path / "a.csv", feature_table(70)).read_text().splitlines()
    extended = [f"{lines[0]},note,empty", *(f"{line},hello," for line in lines[1:])]
    (tmp_path / "b.csv").write_text("\n".join(extended) + "\n")
    for name in ("a", "b"):
        assert run("stage", "--stager", model, tmp_path / f"{name}.csv", "-o", tmp_path / "out").code == 0
    one, other = ((tmp_path / "out" / f"{name}.hypnodensity.csv").read_text() for name in "ab")
    assert one == other


def test_predicting_a_folder_into_itself_can_be_repeated(run, model, tmp_path):
    for seed in (70, 71):
        write_csv(tmp_path / f"night{seed}.csv", feature_table(seed))
    (tmp_path / "night70.changes.tsv").write_text("epoch\n1\n")
    for _ in range(2):
        ran = run("stage", "--stager", model, tmp_path, "-o", tmp_path, "--overwrite", "--json")
        assert ran.code == 0, ran.err
        assert [report["file"] for report in ran.json] == [
            str(tmp_path / f"night{seed}.csv") for seed in (70, 71)
        ]


def test_outputs_are_written_together_or_not_at_all(run, model, tmp_path):
    path = write_csv(tmp_path / "a.csv", feature_table(70))
    (tmp_path / "out" / "a.hypnogram.json").mkdir(parents=True)
    ran = run("stage", "--stager", model, path, "-o", tmp_path / "out", "--overwrite")
    assert mentions(error_line(ran), "is a folder")
    assert not (tmp_path / "out" / "a.hypnogram.tsv").exists()
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.hypnodensity.csv").write_text("mine")
    assert "a.hypnodensity.csv exists already. Use --overwrite" in error_line(
        run("stage", "--stager", model, path, "-o", tmp_path / "out")
    )
    assert [file.read_text() for file in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_recipe_beside_the_configuration_is_found_from_anywhere(run, place, monkeypatch):
    (place / "config.toml").write_text(f'{CONFIG}dataset = "sleepbrl"\nrecipe = "own.toml"\n')
    monkeypatch.chdir("/")
    assert str(place / "own.toml") in error_line(run("train", place / "config.toml"))
    (place / "own.toml").write_text(toml_text(Recipe.load("bioradar").replace(name="own").to_dict()))
    assert mentions(error_line(run("train", place / "config.toml")), "features", "SLEEPBRL")


def test_stage_takes_the_recordings_that_quality_takes(tmp_path):
    from stageguard.cli.commands.stage import _stageable
    from stageguard.formats.recordings.read import SUFFIXES

    for suffix in SUFFIXES:
        (tmp_path / f"night-{suffix[1:]}{suffix}").write_bytes(b"0")
    assert {path.suffix for path in _stageable(tmp_path, SUFFIXES)} == set(SUFFIXES)
