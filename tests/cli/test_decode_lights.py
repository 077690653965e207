"""`decode --lights-off`, `--lights-on`: the night that the rules measure, and early REM that is gone."""

import json

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from messages import mentions


def two_nights(folder):
    """One recording of two nights, four hours each."""
    density = sg.simulate_night("human-psg-5", seed=1, hours=4).density
    rows = np.concatenate([density.probabilities, density.probabilities])
    sg.Hypnodensity(rows, density.scheme, 30.0).save(folder / "night.csv")
    return len(density.probabilities)


def test_lights_bound_the_night_and_are_recorded(tmp_path, capsys):
    run, n_epochs = Runner(capsys), two_nights(tmp_path)
    arguments = ("decode", tmp_path / "night.csv", "-p", "human-psg-5")
    assert run(*arguments, "--lights-off", 30 * n_epochs).code == 0
    record = json.loads((tmp_path / "night.hypnogram.json").read_text())["stageguard"]
    assert record["options"]["lights_off"] == 30 * n_epochs
    assert n_epochs <= record["period"][0] < record["period"][1] <= 2 * n_epochs
    assert "other options (lights_off)" in error_line(run(*arguments))
    assert run(*arguments, "--overwrite", "--lights-on", 30 * n_epochs).code == 0
    record = json.loads((tmp_path / "night.hypnogram.json").read_text())["stageguard"]
    assert record["period"][1] <= n_epochs
    assert run("verify", tmp_path / "night.hypnogram.tsv").code == 0


def test_lights_that_cannot_be_are_one_line(tmp_path, capsys):
    run = Runner(capsys)
    two_nights(tmp_path)
    arguments = ("decode", tmp_path / "night.csv", "-p", "human-psg-5")
    assert "--lights-off is 'soon'" in error_line(run(*arguments, "--lights-off", "soon"))
    line = error_line(run(*arguments, "--lights-off", 600, "--lights-on", 60))
    assert mentions(line, "least one epoch")
    assert not list(tmp_path.glob("*.tsv"))


@pytest.mark.parametrize("n_rem", [4, 10])
def test_early_rem_of_three_minutes_that_is_gone_is_printed(tmp_path, capsys, n_rem):
    labels = np.r_[np.zeros(20), np.full(300, 2), np.full(80, 4)].astype(int)
    rows = np.full((400, 5), 0.005)
    rows[np.arange(400), labels] = 0.98
    rows[38 : 38 + n_rem] = [0.02, 0.02, 0.2, 0.01, 0.75]
    sg.Hypnodensity(rows, "aasm5", 30.0).save(tmp_path / "night.csv")
    ran = Runner(capsys)("decode", tmp_path / "night.csv", "-p", "human-psg-5")
    assert ran.code == 0
    assert ("the clock removed REM" in " ".join((ran.out + ran.err).split())) == (n_rem == 10)
    record = json.loads((tmp_path / "night.hypnogram.json").read_text())["stageguard"]
    assert [bout["n_epochs"] for bout in record["removed_bouts"]] == ([10] if n_rem == 10 else [])
