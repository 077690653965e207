"""`decode --output`: a folder, or a table for a table of nights, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_a_table_of_many_nights_is_still_decoded_to_a_table(run):
    lines = Path("n.csv").read_text().splitlines()
    rows = [f"{'a' if i < 60 else 'b'},{line}" for i, line in enumerate(lines[1:])]
    Path("many.csv").write_text("\n".join([f"id,{lines[0]}", *rows]) + "\n")
    assert run("decode", "many.csv", "-p", PROFILE, "-o", "all.tsv").code == 0
    assert Path("all.tsv").read_text().startswith("id\t")


def test_one_night_is_not_written_as_a_table(run):
    line = error_line(run("decode", "n.csv", "-p", PROFILE, "-o", "x.tsv"))
    assert mentions(line, "'id'", "folder")
    assert names() == ["n.csv"]


@pytest.mark.parametrize("output", ["x.json", "x.edf", "x.txt", "x.html", "x.xlsx", "x.npz"])
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
