"""`decode --output x.tsv` or `x.json`: the one night is written to that file, with its record beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stageguard as sg
from cli_runner import Runner, error_line, write_night
from messages import mentions

PROFILE = "human-psg-5"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_night(Path("n.csv"), hours=1)
    return Runner(capsys)


def names():
    return sorted(path.name for path in Path.cwd().rglob("*") if path.is_file())


@pytest.mark.parametrize("output", ["x.tsv", "x.json", "new/x.tsv"])
def test_the_named_file_is_written_with_its_record(run, output):
    assert run("decode", "n.csv", "-p", PROFILE, "--output", output).code == 0
    stem = Path(output).with_suffix("")
    assert names() == ["n.csv", "x.json", "x.tsv"]
    record = json.loads(stem.with_suffix(".json").read_text())["stageguard"]
    assert record["hypnogram"]["file"] == "x.tsv" and record["input"]["file"] == "n.csv"
    run("decode", "n.csv", "-p", PROFILE)
    usual = Path("n.hypnogram.tsv")
    assert stem.with_suffix(".tsv").read_bytes() == usual.read_bytes()
    one, other = (sg.read_hypnogram(path) for path in (stem.with_suffix(".tsv"), usual))
    assert (one.labels.tolist(), one.epoch_seconds) == (other.labels.tolist(), other.epoch_seconds)


@pytest.mark.parametrize("output", ["x.tsv", "x.json"])
def test_every_command_takes_it_for_an_output(run, output):
    made = run("decode", "n.csv", "-p", PROFILE, "--output", output, "--json")
    assert made.json[0]["id"] == "x"
    again = run("decode", "n.csv", "-p", PROFILE, "--output", output)
    assert again.code == 0 and "nothing to do" in again.out
    assert "other options" in error_line(run("decode", "n.csv", "-p", PROFILE, "-o", output, "--stager", "s"))
    assert run("verify", output).code == 0
    assert run("report", output).code == 0 and Path("x.report.html").is_file()
    assert run("stats", "x.tsv").code == run("check", "x.tsv").code == 0
    assert "output of decode" in error_line(run("decode", "x.tsv", "-p", PROFILE))
    table = Path("x.tsv").read_text()
    Path("x.tsv").write_text(table.replace("\tN2\t", "\tN3\t", 1))
    assert run("verify", output).code == 1


def test_pictures_and_changes_are_beside_it(run):
    assert run("decode", "n.csv", "-p", PROFILE, "-o", "x.tsv", "--svg", "--explain").code == 0
    assert names() == ["n.csv", "x.changes.tsv", "x.json", "x.svg", "x.tsv"]


@pytest.mark.parametrize("output", ["x.tsv", "x.json"])
def test_one_file_is_not_for_several_nights(run, output):
    write_night(Path("m.csv"), hours=1, seed=2)
    ran = run("decode", "n.csv", "m.csv", "-p", PROFILE, "-o", output)
    assert ran.code == 2 and mentions(ran.err, 2, "expected a folder")
    assert names() == ["m.csv", "n.csv"]


def test_a_table_of_many_nights_is_still_decoded_to_a_table(run):
    lines = Path("n.csv").read_text().splitlines()
    rows = [f"{'a' if i < 60 else 'b'},{line}" for i, line in enumerate(lines[1:])]
    Path("many.csv").write_text("\n".join([f"id,{lines[0]}", *rows]) + "\n")
    assert run("decode", "many.csv", "-p", PROFILE, "-o", "all.tsv").code == 0
    assert Path("all.tsv").read_text().startswith("id\t")


@pytest.mark.parametrize("output", ["x.edf", "x.txt", "x.html", "x.xlsx", "x.npz"])
def test_a_file_of_another_kind_does_not_become_a_folder(run, output):
    ran = run("decode", "n.csv", "-p", PROFILE, "-o", output)
    assert ran.code == 2 and mentions(ran.err, "expected a folder")
    assert names() == ["n.csv"] and not Path(output).exists()


@pytest.mark.parametrize("output", ["results.2024", "v1.2", "x.tsv"])
def test_a_folder_with_a_point_in_its_name_is_a_folder(run, output):
    if output == "x.tsv":
        Path(output).mkdir()
    assert run("decode", "n.csv", "-p", PROFILE, "-o", output).code == 0
    assert (Path(output) / "n.hypnogram.tsv").is_file()


def test_a_foreign_pair_of_tables_is_no_output(run):
    """BIDS tables have a .json beside them, too."""
    Path("sub-1_events.tsv").write_text(
        "onset\tduration\ttrial_type\n0\t30\tSleep stage W\n30\t30\tSleep stage N2\n"
    )
    Path("sub-1_events.json").write_text('{"stageguard": 1}')
    assert sg.read_hypnogram("sub-1_events.tsv").n_epochs == 2
    assert mentions(error_line(run("verify", "sub-1_events.tsv")), "not an output", "decode")
