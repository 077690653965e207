"""`decode --lights-off`, `--lights-on`: the night that the rules measure, and early REM that is gone."""

import json

import numpy as np

import stageguard as sg
from cli_runner import Runner, error_line


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
