"""`stageguard decode` after mistakes and kills, and beside other runs: nothing is lost or said wrongly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stageguard as sg
from cli_runner import write_night
from messages import mentions, naming
from stageguard.cli import render
from stageguard.errors import OutputError
from stageguard.runner import decode_files, manifest
from stageguard.runner.pool import run_all
from stageguard.runner.stopping import Stopped, stoppable

PROFILE = "human-psg-5"


@pytest.fixture
def nights(tmp_path):
    (tmp_path / "nights").mkdir()
    for seed in (1, 2):
        write_night(tmp_path / "nights" / f"n{seed}.csv", hours=1, seed=seed)
    return tmp_path / "nights"


@pytest.fixture
def decode(run, nights, tmp_path):
    return lambda *options: run("decode", nights, "-p", PROFILE, "-o", tmp_path / "out", *options)


def test_a_mistaken_call_keeps_the_rows_of_nights_that_were_decoded(decode, tmp_path):
    decode()
    table = (tmp_path / "out" / "cohort.tsv").read_text()
    ran = decode("--trained", "natural")
    assert ran.code == 1 and "2 failed" in ran.out
    assert (tmp_path / "out" / "cohort.tsv").read_text() == table


def test_a_night_that_another_run_writes_in_the_meantime_is_done(run, nights, tmp_path, monkeypatch):
    arguments = ("decode", nights / "n1.csv", "-p", PROFILE, "-o", tmp_path / "out", "--json")
    write = decode_files.write_decoding

    def late(*given, **options):
        write(*given, **options)
        return write(*given, **options)

    monkeypatch.setattr(decode_files, "write_decoding", late)
    (report,) = run(*arguments).lines
    assert report["ok"], report
    assert report["done_before"] is True


def test_a_picture_can_be_asked_for_later_but_replaces_nobody_elses(decode, tmp_path):
    decode()
    mine = tmp_path / "out" / "n2.hypnogram.svg"
    mine.write_text("<svg>mine</svg>")
    ran = decode("--svg", "--json")
    assert [report["ok"] for report in ran.lines] == [True, False]
    assert (tmp_path / "out" / "n1.hypnogram.svg").read_text().startswith("<svg")
    assert mentions(ran.lines[1]["error"], "n2.hypnogram.svg", "overwrite")
    assert mine.read_text() == "<svg>mine</svg>"


def test_the_sidecar_is_moved_last(run, nights, tmp_path, monkeypatch):
    moved = []
    move = Path.replace
    monkeypatch.setattr(Path, "replace", lambda own, to: (moved.append(Path(to).name), move(own, to))[1])
    assert run("decode", nights / "n1.csv", "-p", PROFILE, "--svg", "--explain").code == 0
    assert moved[-1] == "n1.hypnogram.json"
    assert {"n1.hypnogram.svg", "n1.changes.tsv", "n1.hypnogram.tsv"} == set(moved[:-1])


def die_of_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return -number


def test_a_killed_process_ends_the_run_in_one_line():
    with pytest.raises(sg.StageGuardError, match=naming("hand", "want of memory")):
        list(run_all(die_of_seven, list(range(20)), 2))


def test_results_are_told_also_when_a_table_cannot_be_written(decode, nights, tmp_path, monkeypatch):
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OutputError(f"cannot write {path}: No space left on device.")

    (nights / "n3.csv").write_bytes(b"")
    monkeypatch.setattr(manifest, "write_text_atomic", refuse)
    ran = decode()
    assert ran.code == 3
    assert "3 nights: 2 decoded, 1 failed." in ran.out
    assert "is empty (0 bytes)" in ran.err
    for name in ("cohort.tsv", "failures.tsv"):
        assert mentions(ran.err, tmp_path / "out" / name, "space")


def test_a_line_of_json_is_whole_when_a_signal_comes_between_its_parts(capsys, monkeypatch):
    def interrupted(text: str, **_: object) -> None:
        sys.stdout.write(text)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        sys.stdout.write("\n")

    with pytest.raises(Stopped), stoppable():
        monkeypatch.setattr(render, "print", interrupted, raising=False)
        render.print_line({"n": 1})
    assert json.loads(capsys.readouterr().out) == {"n": 1}


def write_late(path: Path) -> str:
    try:
        time.sleep(0.3)
    finally:
        time.sleep(0.5)  # in hand when the end comes, and finished all the same
        path.write_text("done")
    return path.name


def test_no_worker_writes_after_the_run_was_ended(tmp_path):
    results = run_all(write_late, [tmp_path / str(i) for i in range(12)], 2)
    next(results)
    results.close()
    written = {path.name for path in tmp_path.iterdir()}
    assert written
    time.sleep(1.5)
    assert {path.name for path in tmp_path.iterdir()} == written


@pytest.mark.slow
def test_workers_that_cannot_start_are_one_line(nights, tmp_path):
    script = tmp_path / "unguarded.py"
    arguments = ["decode", str(nights), "-p", PROFILE, "-o", str(tmp_path / "out"), "--jobs", "2"]
    script.write_text(f"import sys\nfrom stageguard.cli import main\nsys.exit(main({arguments!r}))\n")
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert ran.returncode == 1
    (said,) = ran.stderr.splitlines()
    assert mentions(said, "could not start", "__main__")


@pytest.mark.parametrize("module", ["app", "terminal"])
def test_ctrl_c_while_the_command_line_is_imported_is_one_line(module):
    code = (
        "import signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'stageguard.cli.{module}':\n"
        "            sys.meta_path.remove(self)\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from stageguard.cli import main\n"
        "main(['--version'])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "stageguard: stopped\n")
