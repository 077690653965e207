"""What commands print: whole words on narrow terminals, options in place of Python, names of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from cli_runner import error_line, write_night
from messages import mentions
from stageguard.cli.terminal import Console
from stageguard.files import read_cell, write_cell

PROFILE = "human-psg-5"


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
