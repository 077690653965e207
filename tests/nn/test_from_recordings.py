"""From recordings to hypnograms: simulate a cohort, train on it, stage it, all from the command line."""

from __future__ import annotations

import json
from datetime import datetime

import numpy as np
import pytest

import stageguard as sg
from messages import naming
from stageguard.cli import main
from stageguard.errors import InputError
from stageguard.night.recording import Recording, Signal
from stageguard.night.stages import AASM5, WNR3
from stageguard.nn.data import table_of
from stageguard.signals.features import Recipe

CONFIG = """
data = "cohort"
dataset = "sleep-accel"
recipe = "actigraphy"
output = "model"
backbone = "accusleep"
profile = "human-actigraphy-2"
network = { width = 0.125, window_epochs = 3 }
penalty_weight = 0.0
steps = 6
batch_size = 2
sequence_epochs = 20
evaluate_every = 3
device = "cpu"
"""


def breathing(n_epochs: int = 8, **changes) -> Recording:
    """A sleeper in front of a radar."""
    t = np.arange(n_epochs * 30 * 20) / 20.0
    phase = np.sin(2 * np.pi * 0.25 * t) + 0.01 * np.sin(2 * np.pi * 1.1 * t)
    fields = {
        "id": "night",
        "subject": "anna",
        "signals": {"radar_phase": Signal("phase", phase, 20.0, "rad")},
        "start": datetime(2020, 1, 1, 23),
    }
    return Recording(**(fields | changes))


def scoring(labels, scheme=AASM5, epoch_seconds=30.0):
    return sg.Hypnogram(np.array(labels, dtype=np.int8), scheme, epoch_seconds)


@pytest.fixture(scope="module")
def recipe():
    pytest.importorskip("scipy")
    return Recipe.load("bioradar")


def test_a_recording_becomes_a_table_with_merged_stages(recipe):
    recording = breathing(scorings={"expert": scoring([0, 1, 2, 3, 4, -1])})
    table = table_of(recording, recipe, scheme=WNR3)
    assert (table.recording, table.subject) == ("night", "anna")
    assert table.labels.tolist() == [0, 1, 1, 1, 2, -1, -1, -1]  # epochs nobody scored are unscored
    assert Recipe.from_dict(table.recipe) == recipe
    assert table.start == datetime(2020, 1, 1, 23)


def test_without_a_scheme_or_a_scoring_there_are_no_labels(recipe):
    scored = breathing(scorings={"expert": scoring([0] * 8)})
    assert table_of(scored, recipe).labels is None
    assert table_of(breathing(), recipe, scheme=WNR3).labels is None


def test_a_scoring_of_another_epoch_length_is_refused(recipe):
    recording = breathing(scorings={"expert": scoring([0] * 12, epoch_seconds=20.0)})
    with pytest.raises(InputError, match=naming("20 s", "30 s", "epoch_seconds")):
        table_of(recording, recipe, scheme=WNR3)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A simulated cohort and a network trained on it."""
    pytest.importorskip("scipy")
    folder = tmp_path_factory.mktemp("recordings")
    said = ("--modality", "actigraphy", "--subjects", "3", "--hours", "1.5", "--seed", "1")
    for arguments in (("simulate", *said, "-o", folder / "cohort"), ("train", folder / "config.toml")):
        (folder / "config.toml").write_text(CONFIG)
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        assert not stopped.value.code
    return folder


def test_the_recipe_travels_with_the_network(place):
    card = json.loads((place / "model" / "model.json").read_text())
    assert card["features"]["recipe"] == "actigraphy"
    assert Recipe.from_dict(card["features"]["recipe_document"]) == Recipe.load("actigraphy")


def test_stage_goes_from_recordings_to_hypnograms(place, run, tmp_path):
    ran = run(
        "stage",
        "--stager",
        place / "model",
        place / "cohort",
        "--dataset",
        "sleep-accel",
        "-o",
        tmp_path,
        "--json",
    )
    assert ran.code == 0, ran.err
    assert [report["ok"] for report in ran.lines] == [True] * 3
    assert any("signal quality (graded): " in note for note in ran.lines[0]["notes"])
    assert "synthetic recording" in ran.lines[0]["notes"]
    assert len(list(tmp_path.glob("*.hypnogram.tsv"))) == 3
    for written in tmp_path.glob("*.hypnogram.tsv"):
        assert run("verify", written).code == 0


@pytest.mark.slow
def test_quality_reaches_the_decoder(place, run, tmp_path):
    said = ("stage", "--stager", place / "model", place / "cohort", "--dataset", "sleep-accel")
    run(*said, "-o", tmp_path / "with")
    run(*said, "-o", tmp_path / "without", "--quality", "none")
    first = next((tmp_path / "with").glob("*.hypnogram.tsv"))
    assert "quality" in first.read_text().splitlines()[0]
    assert "quality" not in (tmp_path / "without" / first.name).read_text().splitlines()[0]
