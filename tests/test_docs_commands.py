"""Every command in docs/commands.md runs as written."""

from __future__ import annotations

import io
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import nights
import stageguard as sg
from cli_runner import Runner, write_night
from feature_nights import cohort, feature_table, write_csv
from made_recordings import write_psg
from stageguard.cli._app import app
from stageguard.formats.outputs import write_decoding
from stageguard.simulate import simulate_night

PAGE = (Path(__file__).parents[1] / "docs" / "commands.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
PROFILE = "human-psg-5"
NEED_TORCH = ("train", "predict")
TRAINING = """
data = "scored"
output = "model"
backbone = "accusleep"
profile = "human-psg-3"
penalty_weight = 0.0
sequence_epochs = 20
steps = 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files the page speaks of."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "nights").mkdir()
    (folder / "experts").mkdir()
    rows = ["id\tgroup"]
    for seed in range(4):
        path = write_night(folder / "nights" / f"n{seed}.csv", seed=seed, hours=1)
        write_decoding(nights.decode(sg.read_density(path), PROFILE), path.with_suffix(""), source_path=path)
        expert = simulate_night(PROFILE, hours=1, seed=seed).expert
        (folder / "experts" / f"n{seed}.txt").write_text("\n".join(expert.stages.tolist()) + "\n")
        rows.append(f"n{seed}\t{'ab'[seed % 2]}")
    (folder / "groups.tsv").write_text("\n".join(rows) + "\n")
    listed = [f"n{seed}\texperts/n{seed}.txt\t300" for seed in range(4)]
    (folder / "samples.tsv").write_text("\n".join(["id\tscoring\tlights_off", *listed]) + "\n")
    write_night(folder / "night.csv", hours=2)
    write_psg(folder / "psg.edf")
    expert = simulate_night(PROFILE, hours=2, seed=1).expert
    for name, late in (("expert.txt", 0), ("expert-2.txt", 1)):
        (folder / name).write_text("\n".join(np.roll(expert.stages, late).tolist()) + "\n")
    mouse = simulate_night("mouse-eeg-emg-3", hours=2, seed=1).density
    np.savez(
        folder / "mouse.npz", probabilities=mouse.probabilities, stages=["W", "N", "R"], epoch_seconds=4.0
    )
    (folder / "config.toml").write_text(TRAINING)
    for table in cohort(3):
        write_csv(folder / "scored" / f"{table.recording}.csv", table)
    write_csv(folder / "new.csv", feature_table(9), with_stage=False)
    return folder


def test_the_page_has_an_example_of_every_command():
    shown = {shlex.split(line)[1] for line in LINES}
    commands = {command.callback.__name__ for command in app.registered_commands if command.callback}
    assert commands | {"profiles", "data"} == shown


def test_every_example_runs_as_written(folder, capsys, monkeypatch):
    """In the order of the page: later examples use what earlier ones wrote."""
    monkeypatch.chdir(folder)
    run = Runner(capsys)
    for line in LINES:
        program, *arguments = shlex.split(line)
        assert program == "stageguard"
        if arguments[0] in NEED_TORCH and find_spec("torch") is None:
            continue
        if "<" in arguments:
            *arguments, _, source = arguments
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(source).read_bytes())))
        expanded = [sorted(Path().glob(part)) if "*" in part else [part] for part in arguments]
        ran = run(*(one for several in expanded for one in several))
        assert ran.code == (1 if "--strict" in arguments else 0), (line, ran.err)
        assert ran.out
    names = {path.name for path in folder.iterdir()}
    assert {"night.hypnogram.tsv", "cohort.tsv", "cohort.json", "cohort-groups.tsv", "night.html"} <= names
    assert {"mice.tsv", "mice-hours.tsv", "consensus.tsv", "lab.toml", "stageguard-demo"} <= names
