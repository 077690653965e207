"""What `train` and `stage` take from files and leave as files, and what they print on the way."""

from __future__ import annotations

import shutil

import pytest
import torch

from cli_runner import Runner, error_line
from feature_nights import cohort, feature_table, options, write_csv
from messages import mentions
from stageguard.nn.training import train

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


def test_an_output_that_cannot_be_written_is_said_before_anything_is_read(run, place):
    (place / "file").write_text("x")
    shutil.rmtree(place / "features")
    line = error_line(run("train", place / "config.toml", "-o", place / "file" / "m"))
    assert mentions(line, "cannot write into", place / "file" / "m")


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
