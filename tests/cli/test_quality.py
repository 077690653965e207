"""`stageguard quality`: what it prints, writes and refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner, error_line
from dataset_files import accusleep_session, sleepbrl_record
from made_recordings import N_EPOCHS, write_psg
from messages import mentions
from stageguard.cli.commands.quality import chart, strip
from stageguard.formats.companions import read_quality


@pytest.fixture
def run(capsys):
    return Runner(capsys)


def rows(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def test_it_draws_a_strip_chart_and_lists_the_reasons(run, tmp_path):
    ran = run("quality", write_psg(tmp_path / "night.edf"), "--rules", "graded")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "night: eeg-emg, 20 epochs of 30 s (0.2 h), rules graded"
    assert lines[2].split() == ["22:30", "··█·······"]  # ten minutes, one mark each
    assert mentions(lines, "90.0 %", "2 epochs", "0.100")
    assert any(line.split() == ["eeg:", "flat", "2", "10.0", "%", "22:32"] for line in lines)
    assert mentions(ran.out, "modality", "channels")


def test_it_writes_a_table_the_decoder_takes(run, tmp_path):
    run("quality", write_psg(tmp_path / "night.edf", gap=(4, 45)), "--rules", "graded")
    table = rows(tmp_path / "night.quality.tsv")
    assert table[0] == ["onset", "duration", "quality", "reason"]
    assert table[5] == ["120", "30", "1", "eeg: flat"]
    assert table[6] == ["150", "30", "0.5", "eeg: flat"]
    assert table[7] == ["180", "30", "0", "n/a"]
    assert len(table) == N_EPOCHS + 1
    beta = read_quality(tmp_path / "night.quality.tsv").values
    assert sg.decode(np.full((N_EPOCHS, 5), 0.2), "human-psg-5", quality=beta).hypnogram.n_epochs == N_EPOCHS
    sidecar = json.loads((tmp_path / "night.quality.json").read_text("utf-8"))
    assert set(table[0]) < set(sidecar)
    assert sidecar["stageguard"]["reasons"] == {"eeg: flat": 2}
    assert sidecar["stageguard"]["rules"] == "graded"


def test_the_papers_rules_mark_whole_epochs(run, tmp_path):
    ran = run("quality", write_psg(tmp_path / "night.edf"), "--rules", "kdd2026", "--json")
    (report,) = ran.json
    assert report["rules"] == "kdd2026"
    assert report["reasons"]["eeg: no signal"] == 2
    assert set(report["beta"]) == {0.0, 1.0}


def test_it_never_overwrites_unless_told(run, tmp_path):
    path = write_psg(tmp_path / "night.edf")
    run("quality", path)
    before = (tmp_path / "night.quality.tsv").read_text("utf-8")
    line = error_line(run("quality", path, "--rules", "kdd2026"))
    assert mentions(line, "night.quality.tsv", "--overwrite")
    assert (tmp_path / "night.quality.tsv").read_text("utf-8") == before
    assert run("quality", path, "--rules", "kdd2026", "--overwrite").code == 0
    assert (tmp_path / "night.quality.tsv").read_text("utf-8") != before


def test_one_bad_file_is_a_row_and_not_the_end(run, tmp_path):
    good = [write_psg(tmp_path / f"n{k}.edf", gap=(k, 30)) for k in range(2)]
    bad = tmp_path / "bad.edf"
    bad.write_bytes(b"not a recording")
    ran = run("quality", good[0], bad, good[1], "-o", tmp_path / "out")
    assert ran.code == 1
    assert "1 of 3 files failed" in ran.err
    assert "expected EDF" in ran.err
    assert sorted(path.name for path in (tmp_path / "out").glob("*.tsv")) == [
        "n0.quality.tsv",
        "n1.quality.tsv",
    ]
    assert "Wrote 2 tables to" in ran.out


def test_several_processes_give_the_same(run, tmp_path):
    files = [write_psg(tmp_path / f"n{k}.edf", gap=(k, 30)) for k in range(2)]
    reports = [
        run("quality", *files, "-o", tmp_path / f"{jobs}", "--jobs", jobs, "--json").json for jobs in (1, 2)
    ]
    assert [r["beta"] for r in reports[0]] == [r["beta"] for r in reports[1]]


def test_a_folder_is_its_recordings(run, tmp_path):
    (tmp_path / "in").mkdir()
    for k in range(2):
        write_psg(tmp_path / "in" / f"n{k}.edf")
    assert len(run("quality", tmp_path / "in", "--json").json) == 2
    (tmp_path / "empty").mkdir()
    assert "holds no recording. Expected files named .edf" in error_line(run("quality", tmp_path / "empty"))


def test_a_missing_channel_says_which_and_what_to_map(run, tmp_path):
    path = write_psg(tmp_path / "night.edf", labels=("A", "B"))
    line = error_line(run("quality", path, "-m", "eeg-emg"))
    assert mentions(line, "'eeg'", "A, B")
    assert "--channel eeg=NAME" in line
    ran = run("quality", path, "-m", "eeg-emg", "--channel", "eeg=A", "--channel", "emg=B", "--json")
    assert ran.json[0]["reasons"]["eeg: flat"] == 2


def test_unmapped_channels_do_not_tell_the_modality(run, tmp_path):
    line = error_line(run("quality", write_psg(tmp_path / "night.edf", labels=("A", "B"))))
    assert mentions(line, "A, B", "--modality")


def test_without_a_scoring_the_epoch_length_must_be_said(run, tmp_path):
    path = write_psg(tmp_path / "night.edf", stages="")
    assert "has no scoring, expected epoch_seconds" in error_line(run("quality", path))
    assert run("quality", path, "--epoch-seconds", 4, "--json").json[0]["n_epochs"] == 150


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--channel", "eeg"], ("eeg=C4-M1",)),
        (["--channel", "eeg=A", "--channel", "eeg=B"], ("says 'eeg' twice",)),
        (["--dataset-option", "scheme=wnr3"], ("--dataset-option needs --dataset",)),
        (["--rules", "strict"], ("strict",)),
        (["--modality", "ecg"], ("ecg",)),
        (["--dataset", "accusleep"], ("--dataset needs --output",)),
    ],
)
def test_wrong_usage_is_told_in_a_line(run, tmp_path, options, message):
    ran = run("quality", write_psg(tmp_path / "night.edf"), *options)
    assert ran.code == 2
    assert mentions(" ".join(ran.err.replace("│", " ").split()), *message)


def test_a_dataset_brings_its_modality_and_its_scorings(run, tmp_path):
    for mouse in ("Mouse01", "Mouse02"):
        labels = np.repeat([2, 3, 1], 24)
        accusleep_session(tmp_path / "data" / mouse / "Day1", "mat7", labels=labels, rate_hz=128)
    ran = run(
        "quality",
        tmp_path / "data",
        "--dataset",
        "accusleep",
        "-o",
        tmp_path / "out",
        "--json",
        "--dataset-option",
        "rate_hz=128",
    )
    assert ran.code == 0, ran.err
    assert [report["modality"] for report in ran.json] == ["eeg-emg"] * 2
    assert len({report["subject"] for report in ran.json}) == 2
    assert {report["epoch_seconds"] for report in ran.json} == {4.0}
    assert len(list((tmp_path / "out").glob("*.quality.tsv"))) == 2


def test_an_unknown_dataset_is_told_apart(run, tmp_path):
    line = error_line(run("quality", tmp_path, "--dataset", "acusleep", "-o", tmp_path))
    assert "Did you mean 'accusleep'" in line


def test_options_of_a_dataset_reach_it(run, tmp_path):
    sleepbrl_record(tmp_path / "data", "sbj01", "WWW11122233RRR")
    arguments = ["quality", tmp_path / "data", "--dataset", "sleepbrl", "-o", tmp_path / "out", "--json"]
    assert run(*arguments, "--dataset-option", "pair=2").json[0]["modality"] == "bioradar"
    assert "pair is 9" in error_line(run(*arguments, "--dataset-option", "pair=9"))


# The chart itself


def test_a_mark_is_as_high_as_the_mean():
    assert strip([0, 0, 0, 1, 0.5, 0.5, 1, 1], 4) == "·▄▄█"
    assert strip([0.001, 0], 2) == "▁·"
    assert strip([0, 1], 60) == "·█"  # never more marks than epochs


@pytest.mark.parametrize(
    ("hours", "epoch_seconds", "n_rows", "n_marks"),
    [(8, 30, 8, 60), (24, 4, 24, 60), (72, 30, 18, 60), (0.5, 30, 1, 30)],
)
def test_a_row_is_an_hour_unless_there_are_many(hours, epoch_seconds, n_rows, n_marks):
    shown = chart([0.0] * round(hours * 3600 / epoch_seconds), epoch_seconds, None)
    assert len(shown) == n_rows
    assert len(shown[0][1]) == n_marks
    assert shown[0][0] == "00h00"
