"""The other commands: profiles, demo, doctor, help, and how quickly help comes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from messages import mentions
from stageguard.cli import main

COMMANDS = (
    *("decode", "stats", "compare", "report"),
    *("profiles", "verify", "demo", "doctor"),
)


def test_profiles_are_listed(run):
    listed = run("profiles")
    assert listed.code == 0
    assert all(name in listed.out for name in sg.profiles())
    entries = run("profiles", "--json").json
    assert [entry["name"] for entry in entries] == sg.profiles()
    assert entries[0]["sha256"] == sg.Profile.load(sg.profiles()[0]).sha256


@pytest.mark.parametrize("name", sg.profiles())
def test_show_tells_whom_a_profile_is_not_for(run, name):
    profile = sg.Profile.load(name)
    shown = " ".join(run("profiles", "show", name).out.split())
    assert profile.sha256[:12] in shown
    assert profile.not_for
    for caution in profile.not_for:
        assert caution.cohort in shown
    assert sg.Profile.from_dict(run("profiles", "show", name, "--json").json["definition"]) == profile


def test_show_and_path_take_own_files(run, tmp_path):
    own = tmp_path / "own.toml"
    sg.Profile.load("human-psg-3").replace(name="own").save(own)
    assert run("profiles", "show", own).out.startswith("own  sha256 ")
    assert run("profiles", "path", own).out.strip() == str(own.resolve())
    built_in = Path(run("profiles", "path", "human-psg-3", "--json").json["path"])
    assert sg.Profile.load(built_in) == sg.Profile.load("human-psg-3")


def test_demo_writes_shows_and_verifies(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run("demo")
    assert (ran.code, ran.err) == (0, "")
    assert "synthetic" in ran.out
    assert "fragmentation" in ran.out
    for row in ("True stages (%)", "TST (min)", "SE (%)", "SOL (min)", "REM latency (min)", "WASO (min)"):
        assert row in ran.out
    assert mentions(ran.out, "Look at", "stageguard-demo/synthetic-night.report.html")
    assert mentions(ran.out, "Review", "stageguard-demo/synthetic-night.hypnogram.tsv")
    folder = tmp_path / "stageguard-demo"
    assert sorted(path.name for path in folder.iterdir()) == [
        "about-this-folder.txt", "synthetic-night.csv", "synthetic-night.hypnogram.json",
        "synthetic-night.hypnogram.svg", "synthetic-night.hypnogram.tsv", "synthetic-night.report.html",
    ]  # fmt: skip
    assert run("verify", folder / "synthetic-night.hypnogram.tsv").code == 0
    report = run("demo", "--json").json
    agreement = report["agreement_with_truth_percent"]
    assert agreement["after"] > agreement["before"] + 2


def test_demo_spares_files_it_did_not_write(run, tmp_path):
    mine = tmp_path / "synthetic-night.csv"
    mine.write_text("mine")
    line = error_line(run("demo", "-o", tmp_path))
    assert mentions(line, "exists", "already", "--overwrite")
    assert mine.read_text() == "mine"
    mine.unlink()
    page = tmp_path / "synthetic-night.report.html"
    page.write_text("mine")
    for _ in range(2):  # the second time is no demo over a demo: the first one was not finished
        assert "exists already" in error_line(run("demo", "-o", tmp_path))
    assert page.read_text() == "mine"
    mine.write_text("mine")
    assert run("demo", "-o", tmp_path, "--overwrite").code == 0
    assert mine.read_text() != "mine"


def test_doctor_reports_versions_core_and_a_self_test(run, backend):
    ran = run("doctor")
    assert ran.code == 0
    assert sg.__version__ in ran.out
    assert ("compiled" if backend == "compiled" else "NumPy reference") in ran.out
    findings = {finding["name"]: finding for finding in run("doctor", "--json").json["findings"]}
    assert "960 epochs decoded in" in findings["self-test"]["state"]
    last = ran.out.splitlines()[-1]
    if backend == "reference":
        assert mentions(last, "works", "but slowly")
        assert "install a C++17 compiler" in findings["decoder"]["advice"]
        assert "--no-cache-dir" in findings["decoder"]["advice"]  # pip would install the old wheel again
    else:
        assert last == "Everything works."


def test_doctor_fails_when_something_is_missing(run, monkeypatch):
    from stageguard.cli.commands import doctor

    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "edfio" else "1.0")
    ran = run("doctor")
    assert ran.code == 1
    assert "libraries: reinstall stageguard" in ran.out


def test_version_and_help(run):
    assert run("--version").out == f"stageguard {sg.__version__}\n"
    shown = run("--help")
    assert shown.code == 0
    assert all(command in shown.out for command in COMMANDS)
    for command in COMMANDS:
        assert "--json" in run(command, "-h").out


def test_a_fault_of_ours_is_one_line_too(run, monkeypatch):
    from stageguard.cli.commands import profiles

    def broken():
        raise ZeroDivisionError("oops")

    monkeypatch.delenv("STAGEGUARD_DEBUG", raising=False)
    monkeypatch.setattr(profiles, "names", broken)
    line = error_line(run("profiles"))
    assert mentions(line, "ZeroDivisionError", "yours")
    monkeypatch.setenv("STAGEGUARD_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["profiles"])


def in_new_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(sg.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, check=True, capture_output=True, text=True
    )


def test_help_imports_no_command():
    code = (
        "import sys\nfrom stageguard.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith('stageguard.cli.commands.')])"
    )
    shown = in_new_process("-c", code).stdout
    assert shown.splitlines()[-1] == "[]"
    assert "Look:" in shown  # commands stand under headings


def test_decoding_a_night_loads_no_library_but_numpy_and_click(tmp_path):
    write_night(tmp_path / "night.csv")
    code = (
        "import sys\nold = set(sys.modules)\nfrom stageguard.cli import main\n"
        f"try:\n    main(['decode', r'{tmp_path / 'night.csv'}', '-p', 'human-psg-5', '-o', r'{tmp_path}'])\n"
        "except SystemExit:\n    pass\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - old}\n"
        "print(*(name for name in names - sys.stdlib_module_names if name[:1] != '_'))"
    )
    loaded = set(in_new_process("-c", code).stdout.splitlines()[-1].split())
    assert (tmp_path / "night.hypnogram.tsv").is_file()
    assert loaded - {"cython_runtime"} == {"stageguard", "numpy", "click"}  # of numpy.random


def small_profile(folder, **changes):
    stages = ("W", "N", "R")
    rare = {"W": {"W": 0.99998, "N": 0.00002, "R": 0.0}}
    rows = {a: {b: 0.98 if a == b else 0.01 for b in stages} for a in stages} | rare
    base = {"name": "own", "scheme": "wnr3", "epoch_seconds": 30.0, "transition_weight": 0.1}
    profile = sg.Profile.from_dict(base | {"transitions": rows} | changes)
    profile.save(folder / "own.toml")
    return folder / "own.toml"


def test_characters_that_hide_or_turn_text_are_written_as_escapes(run, tmp_path):
    path = small_profile(
        tmp_path,
        summary="safe\u202e \x1b[31mred",
        intended_for="adults\u2066",
        not_for=[{"cohort": "mice\u202e", "action": "warn", "reason": "none\u200f counted"}],
        provenance={"by": {"who\u202e": "me\x07"}},
    )
    shown = run("profiles", "show", path).out
    assert not [c for c in shown if not c.isprintable() and c != "\n"]
    for text in (
        r"safe\u202e \x1b[31mred",
        r"adults\u2066",
        r"mice\u202e",
        r"none\u200f counted",
        r"who\u202e: me\x07",
    ):
        assert text in shown
