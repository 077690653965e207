"""`stageguard data`: list, show, check and get, with what they print and how they exit."""

from __future__ import annotations

import hashlib

import pytest

from cli_runner import Runner, error_line
from dataset_files import sleep_accel_subject
from file_server import serving
from messages import mentions
from stageguard.datasets import dataset_names

STAGES = [0, 0, 1, 2, 3, 5]
PROJECT = "/files/sleep-accel/1.0.0"


@pytest.fixture
def run(capsys):
    return Runner(capsys)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """PhysioNet on this machine: two subjects, with their digests."""
    monkeypatch.setenv("no_proxy", "*")
    home = tmp_path / "physionet"
    for subject in ("46343", "759667"):
        sleep_accel_subject(home, subject, STAGES)
    files = {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*.txt")}
    sums = [f"{hashlib.sha256(data).hexdigest()} {path}\n" for path, data in sorted(files.items())]
    files["SHA256SUMS.txt"] = "".join(sums).encode()
    with serving(files={f"{PROJECT}/{path}": data for path, data in files.items()}) as served:
        monkeypatch.setattr("stageguard.datasets.local_copy.PHYSIONET", served.url)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        yield served


def test_the_list_names_every_dataset(run):
    ran = run("data", "list")
    assert ran.code == 0
    for name in dataset_names():
        assert name in ran.out
    assert run("data").out == ran.out
    rows = run("data", "list", "--json").json
    assert [row["name"] for row in rows] == list(dataset_names())
    assert {"access", "licence", "ethics", "citation", "page"} <= rows[0].keys()


def test_one_dataset_is_shown_with_its_terms(run):
    ran = run("data", "show", "sleep-accel")
    for text in (
        "31 subjects, 31 recordings",
        "open: anybody",
        "Institutional Review Board",
        "scheme: stages of",
    ):
        assert text in ran.out
    assert run("data", "show", "sleep-accel", "--json").json["n_subjects"] == 31


def test_unknown_names_are_one_line(run):
    assert "Did you mean 'sleepbrl'?" in error_line(run("data", "show", "sleepbrll"))


def test_a_dataset_is_fetched_and_checked(run, site, tmp_path):
    target = tmp_path / "copy"
    ran = run("data", "get", "sleep-accel", target)
    assert ran.code == 0
    assert "9 files fetched into" in ran.out
    assert mentions(ran.out, "Licence", "Open")
    assert "9 of 9: steps/759667_steps.txt (fetched)" in ran.err
    again = run("data", "get", "sleep-accel", target)
    assert "0 files fetched" in again.out
    assert "9 there already" in again.out
    checked = run("data", "check", "sleep-accel", target)
    assert checked.code == 0
    assert "2 recordings of 31 can be read: 2 subjects, 0.1 h, 2 with a scoring." in checked.out
    assert mentions(checked.out, 8, "compared with what")
    assert mentions(checked.out, "No problem was", "found")


def test_a_broken_copy_exits_with_1_and_a_table(run, site, tmp_path):
    target = tmp_path / "copy"
    run("data", "get", "sleep-accel", target)
    (target / "labels" / "46343_labeled_sleep.txt").write_text("0 9\n")
    ran = run("data", "check", "sleep-accel", target)
    assert ran.code == 1
    assert "1 recording of 31 can be read" in ran.out
    assert "2 problems" in ran.out
    assert "unreadable" in ran.out
    assert "changed" in ran.out
    told = run("data", "check", "sleep-accel", target, "--json", "--deep")
    assert told.code == 1
    assert [row["kind"] for row in told.json["problems"]] == ["unreadable", "changed"]
    assert (told.json["n_found"], told.json["n_readable"]) == (2, 1)
    kept = run("data", "check", "sleep-accel", target, "--no-digests", "--json").json
    assert [row["kind"] for row in kept["problems"]] == ["unreadable"]


def test_a_dropped_connection_does_not_show(run, site, tmp_path):
    site.drop_after = [10**9, 100, 5]
    ran = run("data", "get", "sleep-accel", tmp_path / "copy", "--only", "motion/*")
    assert ran.code == 0
    assert "3 files fetched" in ran.out


def test_failures_are_a_table_and_exit_with_1(run, site, tmp_path):
    del site.files[f"{PROJECT}/labels/46343_labeled_sleep.txt"]
    ran = run("data", "get", "sleep-accel", tmp_path / "copy")
    assert ran.code == 1
    assert "8 files fetched" in ran.out
    assert "1 file failed" in ran.out
    assert "404" in ran.out
    told = run("data", "get", "sleep-accel", tmp_path / "copy", "--json")
    assert told.code == 1
    assert [row["state"] for row in told.json["files"]].count("failed") == 1
    assert told.err == ""


def test_files_can_be_listed_without_fetching(run, site, tmp_path):
    ran = run("data", "get", "sleep-accel", tmp_path / "copy", "--list", "--only", "labels/*")
    assert "3 files" in ran.out
    assert "labels/46343_labeled_sleep.txt" in ran.out
    assert not (tmp_path / "copy").exists()
    rows = run("data", "get", "sleep-accel", tmp_path / "copy", "--list", "--json").json
    assert len(rows) == 9


def test_nothing_is_replaced_unless_asked(run, site, tmp_path):
    target = tmp_path / "copy"
    (target / "labels").mkdir(parents=True)
    mine = target / "labels" / "46343_labeled_sleep.txt"
    mine.write_text("mine")
    ran = run("data", "get", "sleep-accel", target)
    assert ran.code == 1
    assert "exists already" in ran.out
    assert mine.read_text() == "mine"
    assert run("data", "get", "sleep-accel", target, "--overwrite").code == 0
    assert mine.read_text() != "mine"


def test_gated_datasets_say_how_to_get_access(run, tmp_path):
    line = error_line(run("data", "get", "shhs", tmp_path))
    assert "not fetched from here. Request access" in line


def test_options_reach_the_reader(run, tmp_path):
    sleep_accel_subject(tmp_path, "46343", STAGES)
    whole = run("data", "check", "sleep-accel", tmp_path, "--option", "whole=true", "--json").json
    part = run("data", "check", "sleep-accel", tmp_path, "--json").json
    assert whole["hours"] > part["hours"]
    assert mentions(
        error_line(run("data", "check", "sleep-accel", tmp_path, "--option", "x=1")), "scheme", "whole"
    )
    wrong = run("data", "check", "sleep-accel", tmp_path, "--option", "whole")
    assert wrong.code == 2
    assert "KEY=VALUE" in wrong.err


def test_a_simulated_copy_says_so(run, tmp_path):
    sleep_accel_subject(tmp_path, "46343", STAGES)
    (tmp_path / "synthetic.json").write_text("{}")
    assert "SYNTHETIC: 1 recording made up" in run("data", "check", "sleep-accel", tmp_path).out
