"""People count epochs from 1: on the command line, in its tables and in what it prints; Python from 0."""

from __future__ import annotations

import csv

import pytest

import stageguard as sg
from cli_runner import write_night
from nights import decode

PROFILE = "human-psg-5"


@pytest.fixture
def file(tmp_path):
    return write_night(tmp_path / "night.csv")


def stages(path):
    with path.open(newline="") as opened:
        return [row["stage"] for row in csv.DictReader(opened, delimiter="\t")]


@pytest.mark.parametrize("as_table", [False, True])
def test_pins_are_typed_from_1(run, file, tmp_path, as_table):
    pins = "1=R,240=R"
    if as_table:
        (tmp_path / "pins.tsv").write_text("epoch\tstage\n1\tR\n240\tR\n")
        pins = tmp_path / "pins.tsv"
    out = tmp_path / "out"
    assert run("decode", file, "-p", PROFILE, "--pins", pins, "-o", out).code == 0
    assert stages(out / "night.hypnogram.tsv")[0] == stages(out / "night.hypnogram.tsv")[-1] == "R"
    expected = decode(sg.read_density(file), PROFILE, pins={0: "R", 239: "R"}).stages.tolist()
    assert stages(out / "night.hypnogram.tsv") == expected
    assert run("verify", out / "night.hypnogram.json").code == 0


def test_changes_are_listed_from_1_and_json_counts_from_0(run, file, tmp_path):
    ran = run("decode", file, "-p", PROFILE, "--explain", "-o", tmp_path / "out")
    changes = sg.explain(decode(sg.read_density(file), PROFILE))
    with (tmp_path / "out" / "night.changes.tsv").open(newline="") as opened:
        rows = list(csv.DictReader(opened, delimiter="\t"))
    assert [int(row["epoch"]) for row in rows] == [change.first_epoch + 1 for change in changes]
    assert "first_epoch" not in rows[0]
    listed = [line.split()[0] for line in ran.out.partition("epoch   time")[2].splitlines()[2:]]
    assert str(changes[0].first_epoch + 1) == listed[0]
    found = run(
        "decode", file, "-p", PROFILE, "--explain", "--json", "--overwrite", "-o", tmp_path / "out"
    ).lines
    assert found[0]["changes"][0]["first_epoch"] == changes[0].first_epoch
