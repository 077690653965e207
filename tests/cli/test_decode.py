"""`stageguard decode`: outputs, tables, failures."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from fnmatch import fnmatch

import numpy as np
import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions
from stageguard.report.words import done_words


@pytest.fixture
def night(tmp_path):
    return write_night(tmp_path / "night.csv")


def labels(path):
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    return [int(line[lines[0].index("label")]) for line in lines[1:]]


def test_one_file_is_decoded_beside_itself_and_summarised(run, night, tmp_path):
    ran = run("decode", night, "--profile", "human-psg-5")
    assert (ran.code, ran.err) == (0, "")
    expected = sg.decode(sg.read_density(night), "human-psg-5")
    assert labels(tmp_path / "night.hypnogram.tsv") == expected.hypnogram.labels.tolist()
    assert "night.csv · human-psg-5 · 240 epochs of 30 s (2.0 h)" in ran.out
    before = np.mean(np.diff(expected.argmax[slice(*expected.period)]) != 0)
    n_changed = int(expected.changed.sum())
    assert n_changed > 0
    done = f"Smoothed: {n_changed} epochs ({n_changed / 2.4:.1f} %) changed; fragmentation {before:.3f} →"
    assert done in " ".join(ran.out.split())
    assert done_words(expected) in " ".join(ran.out.split())
    assert mentions(ran.out, "long", "30 s", "assumed")
    assert "how the stager was trained is not said" not in ran.out  # the advice says so where it matters
    assert str(tmp_path / "night.hypnogram.json") in ran.out.replace("\n", "")
    assert mentions(ran.out, "trained", "any clinical decision")


def test_json_is_pure_and_complete(run, night, tmp_path):
    ran = run("decode", night, "-p", "human-psg-5", "--json", "-o", tmp_path / "out", "--svg")
    (report,) = ran.lines
    assert report["ok"] is True
    assert report["n_epochs"] == 240
    assert set(report["outputs"]) == {"tsv", "json", "svg"}
    assert (tmp_path / "out" / "night.hypnogram.svg").read_text().startswith("<svg")
    fi = report["indicators"]["fragmentation_index"]
    assert fi["before_place"] == "above"
    assert fi["expert_low"] < fi["expert_high"]
    assert report["indicators"]["tst_minutes"]["before"] > 0


def test_options_reach_the_decoder(run, night, tmp_path):
    np.save(tmp_path / "beta.npy", np.r_[np.ones(200), np.zeros(40)])
    ran = run(
        "decode", night, "-p", "human-psg-3", "--quality", tmp_path / "beta.npy", "--pins", "6=R,7=REM",
        "--pins", "8=R", "--trained", "natural", "--cohort", "narcolepsy", "--epoch-seconds", "20", "--json",
    )  # fmt: skip
    (report,) = ran.lines
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        expected = sg.decode(
            sg.read_density(night, epoch_seconds=20), "human-psg-3", quality=np.load(tmp_path / "beta.npy"),
            pins={5: "R", 6: "R", 7: "R"}, trained="natural", cohort="narcolepsy",
        )  # fmt: skip
    assert labels(tmp_path / "night.hypnogram.tsv") == expected.hypnogram.labels.tolist()
    assert any("narcolepsy" in warning for warning in report["warnings"])
    assert report["epoch_seconds"] == 20
    options = json.loads((tmp_path / "night.hypnogram.json").read_text())["stageguard"]["options"]
    assert options["pins"] == {"5": "R", "6": "REM", "7": "R"}
    assert (options["trained"], options["quality"], options["epoch_seconds"]) == ("natural", True, 20)


@pytest.mark.parametrize("jobs", [1, 2])
def test_one_bad_file_is_one_row_and_the_others_go_on(run, night, tmp_path, jobs):
    (tmp_path / "zero.csv").write_bytes(b"")
    other = write_night(tmp_path / "[other].csv", seed=2)
    ran = run("decode", night, tmp_path / "zero.csv", tmp_path / "gone.csv", other, "-p", "human-psg-5",
              "--jobs", jobs, "-o", tmp_path / "out")  # fmt: skip
    assert ran.code == 3
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names[:-1] == [
        "[other].hypnogram.json", "[other].hypnogram.tsv", "cohort.tsv", "failures.tsv",
        "methods.md", "night.hypnogram.json", "night.hypnogram.tsv",
    ]  # fmt: skip
    assert fnmatch(names[-1], "profile-*.toml")
    assert "[other]" in ran.out.replace("\n", "")
    assert "zero.csv" not in ran.out
    assert "2 of 4 files failed" in ran.err
    assert mentions(ran.err, "0 bytes", "completely")
    assert mentions(ran.err, "file or directory")


def test_two_files_never_share_an_output(run, night, tmp_path):
    twin = write_night(tmp_path / "night.tsv", seed=2)
    ran = run("decode", night, twin, "-p", "human-psg-5", "--overwrite", "--json")
    assert ran.code == 3
    assert [report["ok"] for report in ran.lines] == [True, False]
    assert mentions(ran.lines[1]["error"], "night.tsv", "same output as")


def test_existing_outputs_need_overwrite(run, night, tmp_path):
    assert run("decode", night, "-p", "human-psg-5").code == 0
    line = error_line(run("decode", night, "-p", "human-psg-3"))
    assert mentions(
        line, "night.csv", "night.hypnogram.tsv", "exists", "already", "human-psg-5", "--overwrite"
    )
    assert run("decode", night, "-p", "human-psg-3", "--overwrite").code == 0
    assert set(labels(tmp_path / "night.hypnogram.tsv")) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-p", "human-psg5"], ("unknown profile 'human-psg5', expected",)),
        (
            ["-p", "human-psg-5", "--cohort", "newborn"],
            ("night.csv", "'human-psg-5'", "'newborn'"),
        ),
        (
            ["-p", "human-psg-5", "--pins", "999=R"],
            ("night.csv", 998, 240),
        ),
        (
            ["-p", "human-psg-5", "--pins", "x=R"],
            ("'x'", "120=R"),
        ),
        (["-p", "human-psg-5", "--pins", "5="], ("'5'", "120=R")),
        (["-p", "human-psg-5", "--pins", "5=R,5=W"], (5, "'R'", "'W'")),
        (["-p", "human-psg-5", "--pins", ""], ("''", "120=R")),
        (["-p", "human-psg-5", "--pins", "nowhere.tsv"], ("'nowhere.tsv'",)),
        (["-p", "human-psg-5", "--quality", "nowhere.npy"], ("nowhere.npy", "file or directory")),
        (["-p", "human-psg-5", "--stages", "W,X,N2,N3,R"], ("night.csv", "column", "'X'")),
    ],
)
def test_bad_options_are_one_line(run, night, arguments, expected):
    assert mentions(error_line(run("decode", night, *arguments)), *expected)


def test_output_must_be_a_folder(run, night, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    line = error_line(run("decode", night, "-p", "human-psg-5", "-o", tmp_path / "notes.txt" / "out"))
    assert mentions(line, "notes.txt", "expected a folder")
    line = error_line(run("decode", night, "-p", "human-psg-5", "-o", night))  # the name of a cohort's table
    assert mentions(line, "same file")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["-p", "human-psg-5", "--trained", "often"],
            ("--trained",),
        ),
        (["-p", "human-psg-5", "--logits", "--log"], ("--logits", "--log")),
        (["-p", "human-psg-5", "second.csv", "--pins", "1=R"], ("--quality", "--pins")),
        (["-p", "human-psg-5", "--jobs", "-1"], ("--jobs",)),
        (
            ["-p", "human-psg-5", "--epoch-seconds", "0"],
            ("--epoch-seconds",),
        ),
        (
            ["-p", "human-psg-5", "--epoch-seconds=-30"],
            ("--epoch-seconds",),
        ),
        (
            ["-p", "human-psg-5", "--epoch-seconds", "nan"],
            ("--epoch-seconds",),
        ),
        (
            ["-p", "human-psg-5", "--epoch-seconds", "3601"],
            ("--epoch-seconds",),
        ),
    ],
)
def test_wrong_usage_exits_2(run, night, arguments, expected):
    ran = run("decode", night, *arguments)
    assert ran.code == 2
    assert mentions(ran.err, *expected)


@pytest.fixture
def own_profile(tmp_path):
    stages = ("AW", "QW", "NR", "REMS")
    profile = sg.Profile.from_dict(
        {
            "name": "own",
            "stages": list(stages),
            "wake": "AW",
            "rem": "REMS",
            "epoch_seconds": 4.0,
            "transition_weight": 1.0,
            "transitions": {a: {b: 0.97 if a == b else 0.01 for b in stages} for a in stages},
        }
    )
    profile.save(tmp_path / "own.toml")
    (tmp_path / "mouse.csv").write_text("AW,QW,REMS,NR\n" + "0.7,0.1,0.1,0.1\n" * 9 + "0.1,0.1,0.1,0.7\n" * 9)
    return tmp_path / "own.toml"


@pytest.mark.parametrize("command", ["decode", "stats", "report"])
def test_a_profile_with_stages_of_its_own_reads_them_without_being_told(run, own_profile, tmp_path, command):
    ran = run(command, tmp_path / "mouse.csv", "-p", own_profile, "--json")
    assert (ran.code, ran.err) == (0, "")
    if command == "decode":
        names = (tmp_path / "mouse.hypnogram.tsv").read_text().splitlines()
        assert [line.split("\t")[2] for line in names[1:]] == ["AW"] * 9 + ["NR"] * 9


def start_long_run(night, folder, jobs):
    """A decode of many files, of which some are written and most are not; also returns how many there are."""
    files = [folder / f"night-{i}.csv" for i in range(6_000)]
    for file in files:
        os.link(night, file)
    process = subprocess.Popen(
        [sys.executable, "-m", "stageguard.cli", "decode", *map(str, files), "-p", "human-psg-5",
         "--jobs", jobs, "-o", str(folder / "out")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any((folder / "out").glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    return process


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(("kind", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_stopped_run_says_what_it_wrote_and_leaves_no_process(night, tmp_path, kind, code, jobs):
    process = start_long_run(night, tmp_path, jobs)
    process.send_signal(signal.Signals[kind])
    # workers hold the pipes open: this returns only when they have ended too
    _, err = process.communicate(timeout=30)
    n_written = len(list((tmp_path / "out").glob("*.json")))
    assert 0 < n_written < 6_000
    told = re.fullmatch(r"stageguard: stopped: ([\d,]+) nights? done\. [^\n]*\n", err)
    assert told is not None, err
    assert int(told[1].replace(",", "")) <= n_written, "workers may have written more than they reported"
    assert process.returncode == code
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(".tmp")]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_workers_end_when_their_parent_is_killed(night, tmp_path):
    process = start_long_run(night, tmp_path, "2")
    process.kill()
    process.communicate(timeout=30)
    assert 0 < len(list((tmp_path / "out").glob("*.json"))) < 6_000
