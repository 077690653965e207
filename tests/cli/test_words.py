"""What commands print: whole words on narrow terminals, options in place of Python, names of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cli_runner import Runner, error_line, write_night
from messages import mentions
from stageguard.cli.app import SHORT_HELP
from stageguard.cli.terminal import Console
from stageguard.files import read_cell, write_cell

PROFILE = "human-psg-5"


@pytest.fixture
def run(capsys):
    return Runner(capsys)


@pytest.fixture
def nights(tmp_path):
    return [write_night(tmp_path / f"n{seed}.csv", hours=1, seed=seed) for seed in (1, 2)]


@pytest.mark.parametrize("width", [1, 20, 45, 80])
def test_a_narrow_terminal_breaks_no_word_and_loses_no_column(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [
        ("night.csv", "-0.204 above", "fragmentation_index, transitions_per_hour"),
        ("x" * 100, 1, ""),  # no terminal has room for it
    ]
    Console().table(("file", ">value", "which"), rows)
    printed = capsys.readouterr().out
    for word in ("file", "night.csv", "-0.204 above", "fragmentation_index,", "transitions_per_hour"):
        assert word in printed


def test_the_statistics_say_which_night_a_note_is_about(run, nights, tmp_path):
    (tmp_path / "n3.txt").write_text("W\nN1\nN2\nR\n" * 30)
    (tmp_path / "n4.txt").write_text("W\nN2\nR\nN3\n" * 30)
    path = tmp_path / "list.tsv"
    path.write_text("id\tscoring\tlights_off\nn3\tn3.txt\t0\nn4\tn4.txt\tn/a\n")
    notes = run("stats", path, "--json").cohort["notes"]
    about = [note for note in notes if note.startswith("TIB")]
    assert about and all(note.endswith((": n3", ": n4")) for note in about)


def test_names_that_look_like_arguments_are_printed_as_they_are(run, tmp_path):
    night = tmp_path / "run_format=a" / "night logits=True.csv"
    night.parent.mkdir()
    write_night(night, hours=1, seed=1)
    ran = run("decode", night, "-p", PROFILE)
    assert f"Wrote: {night.with_suffix('')}" in " ".join(ran.out.split()).replace(".hypnogram.tsv", "")
    assert run("decode", night, "-p", PROFILE, "--json").lines[0]["file"] == str(night)
    (tmp_path / "run_format=a" / "bad.csv").write_text("W,N1\n0.1,x\n")
    assert "run_--format" not in run("decode", tmp_path / "run_format=a" / "bad.csv", "-p", PROFILE).err


def test_errors_about_several_files_name_them(run, nights, tmp_path):
    longer = write_night(tmp_path / "long.csv", hours=1.5, seed=3)
    line = error_line(run("convert", "--average", nights[0], longer, "-o", tmp_path / "out.csv"))
    assert mentions(line, "long.csv", 180, "n1.csv", 120)
    for name, n_epochs in (("a.txt", 30), ("b.txt", 29)):
        (tmp_path / name).write_text("W\nN1\n" * n_epochs)
    line = error_line(run("compare", tmp_path / "a.txt", tmp_path / "b.txt", "--consensus", tmp_path / "o"))
    assert mentions(line, 58, 60)
    (tmp_path / "c.txt").write_text("W\nN9\n")
    assert error_line(
        run("compare", tmp_path / "a.txt", tmp_path / "c.txt", "--consensus", tmp_path / "o")
    ).startswith("c.txt: line 2")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("format=a  b", "format=a  b"),
        ("a\tb\nc\udcff", r"a\x09b\x0ac\udcff"),
        ('=HYPERLINK("x")', '\'=HYPERLINK("x")'),
        ("-1+1", "'-1+1"),
        ("@x", "'@x"),
        ("'+x", "''+x"),
        ("'quoted'", "'quoted'"),
        (r"C:\new\x41", r"C:\new\x5cx41"),
    ],
)
def test_cells_are_no_formulas_and_come_back(text, cell):
    assert write_cell(text) == cell
    assert read_cell(cell) == text


def test_nights_named_like_formulas_are_kept_apart_from_spreadsheets_and_found_again(run, tmp_path):
    night = write_night(tmp_path / "=1+1.csv", hours=1, seed=1)
    other = write_night(tmp_path / "b.csv", hours=1, seed=2)
    out = tmp_path / "out"
    assert run("decode", tmp_path / "*.csv", "-p", PROFILE, "-o", out).code == 0
    ids = [line.split("\t")[0] for line in (out / "cohort.tsv").read_text().splitlines()[1:]]
    assert sorted(ids) == ["'=1+1", "b"]
    assert (
        run("decode", other, "-p", PROFILE, "-o", out, "--overwrite", "--list", _list_of(tmp_path)).code == 0
    )
    again = [line.split("\t")[0] for line in (out / "cohort.tsv").read_text().splitlines()[1:]]
    assert sorted(again) == ids  # the row of the first run is still known by its name
    groups = tmp_path / "groups.tsv"
    groups.write_text("id\tgroup\n'=1+1\tx\nb\ty\n")
    found = run("stats", night, other, "--by", groups, "--json").nights
    assert [row["group"] for row in found] == ["x", "y"]


def _list_of(folder):
    path = folder / "list.tsv"
    path.write_text("id\tprobabilities\nb\tb.csv\n")
    return path


def test_what_decode_wrote_is_read_under_any_name(run, nights, tmp_path):
    assert run("decode", nights[0], "-p", PROFILE).code == 0
    expert = tmp_path / "expert.tsv"
    expert.write_bytes((tmp_path / "n1.hypnogram.tsv").read_bytes())
    (report,) = run("compare", expert, tmp_path / "n1.hypnogram.tsv", "--json").lines
    assert report["ok"], report
    assert run("stats", expert, "--json").nights[0]["n_epochs"] == 120
    assert mentions(error_line(run("decode", expert, "-p", PROFILE)), "expert.tsv", "output of decode")


@pytest.mark.parametrize("is_overwritten", [False, True])
def test_what_decode_wrote_is_said_to_be_a_hypnogram(run, nights, tmp_path, is_overwritten):
    assert run("decode", nights[0], "-p", PROFILE).code == 0
    path = tmp_path / "n1.hypnogram.tsv"
    before = path.read_bytes()
    line = error_line(run("decode", path, "-p", PROFILE, *(("--overwrite",) * is_overwritten)))
    assert mentions(line, "n1.hypnogram.tsv", "output of decode")
    assert path.read_bytes() == before


def test_of_very_many_files_not_all_are_listed(run, nights, tmp_path):
    text = nights[0].read_text()
    (tmp_path / "many").mkdir()
    for number in range(45):
        (tmp_path / "many" / f"m{number}.csv").write_text(text)
    ran = run("convert", tmp_path / "many", "--to", "text", "-o", tmp_path / "out")
    assert ran.code == 0
    assert mentions(ran.out, 5, "--json")
    assert ran.out.count("m3") < ran.out.count("m") and "m44.csv" not in ran.out
    ran = run("convert", "--average", tmp_path / "many", "-o", tmp_path / "all.csv")
    assert "Mean of 45 files" in ran.out


@pytest.mark.parametrize("command", sorted(SHORT_HELP.keys() - {"profiles"}))
def test_help_speaks_no_python(run, command):
    ran = run(command, "--help")
    assert ran.code == 0
    assert "list[" not in ran.out and "<Path>" not in ran.out and "<path>" not in ran.out


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_terminal_with_few_letters_is_no_error(nights, tmp_path, options):
    expected = tmp_path / "nüt.csv"
    nights[0].rename(expected)
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    ran = subprocess.run(
        [sys.executable, "-m", "stageguard.cli", "stats", str(expected), str(nights[1]), *options],
        capture_output=True, env=environment, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    if options:
        assert json.loads(ran.stdout.splitlines()[0])["id"] == "nüt"
    else:
        assert "Mean \\xb1 SD over 2 nights" in ran.stdout
