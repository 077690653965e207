"""The commands `train` and `stage`, from feature tables to hypnograms that can be verified."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cli_runner import Ran, error_line
from feature_nights import cohort, feature_table, write_csv
from messages import mentions
from stageguard.formats.read import read_density
from stageguard.nn.model import load_model
from stageguard.nn.onnx import load_onnx

CONFIG = """
data = "features"
output = "model"
backbone = "accusleep"
profile = "human-psg-3"
network = { width = 0.5, window_epochs = 3 }
penalty_weight = 0.0
absolute = ["clock"]
sequence_epochs = 20
steps = 40
batch_size = 4
learning_rate = 1e-2
evaluate_every = 10
device = "cpu"
"""


@pytest.fixture(scope="module", autouse=True)
def commands():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    for table in cohort():
        write_csv(folder / "features" / f"{table.recording}.csv", table)
    (folder / "config.toml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def model(place):
    from stageguard.night.stages import WNR3
    from stageguard.nn.data import read_folder
    from stageguard.nn.options import read_config
    from stageguard.nn.training import train as run_training

    said = read_config(place / "config.toml")
    run_training(read_folder(Path(said.data), WNR3), said.options, place / "trained")
    return place / "trained"


def test_train_writes_a_network_and_shows_the_parts_of_the_loss(run, place, tmp_path):
    ran: Ran = run("train", place / "config.toml", "--small")
    assert ran.code == 0, ran.err
    lines = ran.err.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"step {k} of 40" for k in (10, 20, 30, 40)]
    assert "cross-entropy " in lines[0] and "validation kappa " in lines[0]
    assert "Trained accusleep on 4 of 5 recordings, 4 of 5 subjects: kappa " in ran.out
    card = json.loads((place / "model" / "model.json").read_text())
    assert card["network"]["small"] is True
    again = error_line(run("train", place / "config.toml", "--small"))
    assert mentions(again, "already", "overwrite", "anew")
    pytest.importorskip("onnx")
    onnx = tmp_path / "model.onnx"
    onnx.write_text("mine")
    assert mentions(
        error_line(run("train", place / "config.toml", "-o", tmp_path / "m", "--onnx", onnx)), "model.onnx"
    )
    assert onnx.read_text() == "mine"
    said = run("train", place / "config.toml", "--small", "--overwrite", "--onnx", onnx, "--json")
    assert said.json["best_kappa"] > 0.5
    assert load_onnx(onnx).card == load_model(place / "model").card


def test_stage_writes_densities_and_hypnograms_that_verify(run, place, model, tmp_path):
    features = feature_table(70).values.copy()
    features[11] = np.nan
    night = feature_table(70, values=features, epochs=np.r_[5:65, 70:100])
    path = write_csv(tmp_path / "in" / "night70.csv", night, with_stage=False)
    ran = run("stage", "--stager", model, path, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert mentions(" ".join(ran.out.split()), "begins", 5, 0)
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    endings = ("hypnodensity.csv", "hypnogram.json", "hypnogram.tsv", "report.html", "staging.json")
    assert names == [f"night70.{ending}" for ending in endings]
    density = read_density(tmp_path / "out" / "night70.hypnodensity.csv")
    assert np.flatnonzero(np.isnan(density.probabilities[:, 0])).tolist() == [11, 60, 61, 62, 63, 64]
    sidecar = json.loads((tmp_path / "out" / "night70.hypnogram.json").read_text())["stageguard"]
    assert sidecar["options"]["trained"] == "natural"
    assert sidecar["profile"]["name"] == "human-psg-3"
    checked = run("verify", tmp_path / "out" / "night70.hypnogram.tsv")
    assert checked.code == 0, checked.out
    assert "night70.hypnogram.tsv: verified" in checked.out


@pytest.mark.parametrize(
    ("options", "is_soft"),
    [
        ((), True),
        (("--no-temperature",), False),
        (("-p", "kdd2026-cardiorespiratory"), False),
        (("-p", "kdd2026-cardiorespiratory", "--temperature"), True),
    ],
)
def test_stage_softens_but_for_the_paper_or_as_it_is_told(run, model, tmp_path, options, is_soft):
    path = write_csv(tmp_path / "a.csv", feature_table(70))
    ran = run("stage", "--stager", model, path, "-o", tmp_path / "out", *options, "--json")
    assert ran.code == 0, ran.err
    notes = ran.lines[0]["notes"]
    (staged_by,) = (note for note in notes if note.startswith("staged by"))
    assert staged_by.endswith(", no temperature") != is_soft
    assert mentions(notes, "carries no signal", "quality")
    written = read_density(tmp_path / "out" / "a.hypnodensity.csv").probabilities
    expected = load_model(model).probabilities(feature_table(70), temperature=is_soft)
    np.testing.assert_allclose(written, expected, atol=1e-5)


def test_stage_takes_a_folder_another_profile_and_goes_on_after_a_failure(run, place, model, tmp_path):
    write_csv(tmp_path / "in" / "a.csv", feature_table(70))
    write_csv(tmp_path / "in" / "b.csv", feature_table(71, names=("theta", "delta", "x", "clock")))
    ran = run(
        "stage",
        "--stager",
        model,
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "-p",
        "human-actigraphy-2",
        "--json",
    )
    assert ran.code == 3
    first, second = ran.lines
    assert first["ok"] and first["stages"] == ["W", "S"]
    assert mentions(second["error"], "b.csv", "'muscle'")
    assert not (tmp_path / "out" / "b.hypnogram.tsv").exists()
    (tmp_path / "more").mkdir()
    twin = write_csv(tmp_path / "more" / "a.csv", feature_table(70))
    ran = run("stage", "--stager", model, tmp_path / "in" / "a.csv", twin, "-o", tmp_path / "new", "--json")
    assert ran.code == 3
    first, second = ran.lines
    assert first["ok"]
    assert second["file"].endswith("more/a.csv")
    assert mentions(second["error"], "a.csv", "output", tmp_path / "in" / "a.csv")
