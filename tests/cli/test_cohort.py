"""`stageguard decode` of a cohort: resumed, its failures in a table, no more kept than a row per night."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stageguard as sg
from cli_runner import write_night
from messages import mentions
from nights import decode as decode_quietly

PROFILE = "human-psg-5"
HEADER = (
    "id\tfile\tn_epochs\tn_changed\trule\tstep\ttransition_weight\tfi_before\tfi_after"
    "\tjoint_before\tjoint_after\tjoint_threshold"
    "\tearly_rem_removed\tlook_at"
)


@pytest.fixture
def nights(tmp_path):
    (tmp_path / "nights").mkdir()
    for seed in (1, 2, 3):
        write_night(tmp_path / "nights" / f"n{seed}.csv", hours=1, seed=seed)
    return tmp_path / "nights"


@pytest.fixture
def decode(run, nights, tmp_path):
    """Decode the folder of nights into `out`."""
    return lambda *more: run("decode", nights, "-p", PROFILE, "-o", tmp_path / "out", *more)


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.hypnogram.*")}


def rows(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def errors(ran):
    return [report["error"] for report in ran.lines if not report["ok"]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_second_call_skips_what_was_decoded(decode, nights, tmp_path, jobs):
    ran = decode("--jobs", jobs)
    assert ran.code == 0, ran.err
    assert "3 nights: 3 decoded." in ran.out
    before = times(tmp_path / "out")
    assert len(before) == 6
    write_night(nights / "n10.csv", hours=1, seed=10)
    ran = decode("--jobs", jobs)
    assert (ran.code, ran.err) == (0, "")
    assert "4 nights: 3 done before, 1 decoded." in ran.out
    after = times(tmp_path / "out")
    assert {name: after[name] for name in before} == before
    assert "n10.hypnogram.tsv" in after


def another_profile(nights):
    path = nights.parent / "own.toml"
    sg.Profile.load(PROFILE).replace(transition_weight=0.3, strength=None).save(path)
    return ("-p", path)


def other_nights(nights):
    for path in nights.iterdir():
        write_night(path, hours=1, seed=9)
    return ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda nights: ("--trained", "natural"), ("other options", "trained")),
        (lambda nights: ("--epoch-seconds", "20"), ("other options", "epoch_seconds")),
        (another_profile, ("another", "the profile")),
        (other_nights, ("has changed since",)),
    ],
)
def test_what_another_call_wrote_is_kept_unless_overwritten(decode, nights, tmp_path, change, expected):
    decode()
    before = times(tmp_path / "out")
    more = change(nights)
    found = errors(decode(*more, "--json"))
    assert len(found) == 3 and all("overwrite" in line for line in found)
    assert all(word in line for line in found for word in expected)
    assert times(tmp_path / "out") == before
    assert decode(*more, "--overwrite").code == 0
    assert all(moment > before[name] for name, moment in times(tmp_path / "out").items())
    assert "3 done before" in decode(*more).out


@pytest.mark.parametrize("suffix", ["hypnogram.tsv", "hypnogram.json", "hypnogram.svg", "changes.tsv"])
@pytest.mark.parametrize("how", ["gone", "empty", "cut"])
def test_half_an_output_is_completed_but_no_changed_file_is_replaced(decode, tmp_path, suffix, how):
    name = f"n2.{suffix}"
    options = ("--svg", "--explain")
    decode(*options)
    assert "3 done before" in decode(*options).out
    out = tmp_path / "out"
    whole = {path.name: path.read_bytes() for path in out.glob("n2.*")}
    (out / name).write_bytes(whole[name][:-40] if how == "cut" else b"")
    if how == "gone":
        (out / name).unlink()
    ran = decode(*options)
    if how == "cut" and suffix != "hypnogram.json":  # it may be an edited one
        assert ran.code == 3 and (out / name).read_bytes() == whole[name][:-40]
        return
    assert ran.code == 0, ran.err
    assert "3 nights: 2 done before, 1 decoded." in ran.out
    assert {path.name: path.read_bytes() for path in out.glob("n2.*")} == whole


@pytest.mark.parametrize("record", [None, b"", b'{"stageguard": {"la', b'{"mine": 1}'])
def test_a_table_or_record_that_this_run_does_not_give_is_kept(decode, tmp_path, record):
    decode()
    table, sidecar = (tmp_path / "out" / f"n2.hypnogram.{suffix}" for suffix in ("tsv", "json"))
    table.write_text(table.read_text() + "a remark\n")
    sidecar.unlink() if record is None else sidecar.write_bytes(record)
    kept = table.read_bytes()
    ran = decode("--json")
    assert ran.code == 3 and len(errors(ran)) == 1
    assert table.read_bytes() == kept
    assert (sidecar.read_bytes() if sidecar.exists() else None) == record


def test_failures_are_rows_of_a_table_until_there_are_none(decode, nights, tmp_path):
    (nights / "n4.csv").write_bytes(b"")
    (nights / "n5.csv").write_text("W,N1,N2,N3,R\n0.2,0.2,0.2,0.2,0.9\n1,0,0,0,0\n")
    ran = decode()
    assert ran.code == 3
    assert "5 nights: 3 decoded, 2 failed." in ran.out
    table = rows(tmp_path / "out" / "failures.tsv")
    assert table[0] == ["id", "file", "error", "stageguard"]
    assert [row[:2] for row in table[1:]] == [[f"n{i}", str(nights / f"n{i}.csv")] for i in (4, 5)]
    assert mentions(table[1][2], "n4.csv", "0 bytes", "completely")
    (nights / "n4.csv").unlink()
    assert decode().code == 3
    assert len(rows(tmp_path / "out" / "failures.tsv")) == 2
    (nights / "n5.csv").unlink()
    assert decode().code == 0
    assert not (tmp_path / "out" / "failures.tsv").exists()


def test_the_cohort_has_a_row_for_each_night_also_when_resumed(decode, nights, tmp_path):
    decode()
    first = (tmp_path / "out" / "cohort.tsv").read_text()
    table = rows(tmp_path / "out" / "cohort.tsv")
    assert "\t".join(table[0]) == HEADER
    told = dict(zip(table[0], table[2], strict=True))
    assert told["early_rem_removed"].isdigit()
    night = decode_quietly(sg.read_density(nights / "n2.csv"), PROFILE)
    assert table[2][0] == "n2"
    assert table[2][2:4] == ["120", str(int(night.changed.sum()))]
    assert table[2][4:6] == [night.strength.rule, night.strength.step]
    assert [float(cell) for cell in table[2][6:9]] == pytest.approx(
        [night.strength.transition_weight, night.strength.fi_before, night.strength.fi_after], rel=1e-5
    )
    assert table[2][9:12] == ["n/a"] * 3  # an hour is too short
    decode()
    assert (tmp_path / "out" / "cohort.tsv").read_text() == first


def test_a_row_says_whether_the_night_looks_like_experts_also_when_resumed(run, tmp_path):
    (tmp_path / "nights").mkdir()
    for seed in (1, 2):
        write_night(tmp_path / "nights" / f"n{seed}.csv", hours=3, seed=seed)
    arguments = ("decode", tmp_path / "nights", "-p", PROFILE, "-o", tmp_path / "out")
    ran = run(*arguments)
    densities = [sg.read_density(tmp_path / "nights" / f"n{i}.csv") for i in (1, 2)]
    expected = [sg.validity(decode_quietly(density, PROFILE)) for density in densities]
    n_alike = sum(bool(found.looks_like_experts) for found in expected)
    assert f"{n_alike} of 2 nights look{'s' * (n_alike == 1)} like expert scoring." in ran.out
    table = rows(tmp_path / "out" / "cohort.tsv")
    for row, found in zip(table[1:], expected, strict=True):
        after = [found.joint.value, found.joint.high]
        assert [float(cell) for cell in row[10:12]] == pytest.approx(after, rel=1e-5)
        assert float(row[9]) > float(row[10])
    (tmp_path / "out" / "cohort.tsv").unlink()
    assert "2 done before" in run(*arguments).out
    assert rows(tmp_path / "out" / "cohort.tsv") == table


def test_rows_of_other_nights_in_the_folder_stay(run, decode, nights, tmp_path):
    decode()
    other = write_night(tmp_path / "other.csv", hours=1, seed=9)
    twin = write_night(tmp_path / "twin.csv", hours=1, seed=8)
    (tmp_path / "out" / "n1.hypnogram.json").unlink()
    assert run("decode", other, twin, "-p", PROFILE, "-o", tmp_path / "out").code == 0
    assert [row[0] for row in rows(tmp_path / "out" / "cohort.tsv")[1:]] == ["n2", "n3", "other", "twin"]


def test_tables_of_others_are_left_alone(decode, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cohort.tsv").write_text("id\tmine\n")
    ran = decode()
    assert ran.code == 0
    assert mentions(ran.out, "cohort.tsv", "was left as")
    assert (tmp_path / "out" / "cohort.tsv").read_text() == "id\tmine\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(("jobs", "kind"), [("1", "SIGINT"), ("2", "SIGINT"), ("2", "SIGKILL")])
def test_an_interrupted_run_goes_on(run, nights, tmp_path, jobs, kind):
    for seed in range(300):
        os.link(nights / "n1.csv", nights / f"m{seed}.csv")
    out = tmp_path / "out"
    arguments = ["decode", str(nights), "-p", PROFILE, "-o", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "stageguard.cli", *arguments, "--jobs", jobs],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not any(out.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(getattr(signal, kind))
    process.communicate(timeout=30)
    n_before = len(list(out.glob("*.json")))
    assert 0 < n_before < 303
    ran = run(*arguments)
    assert ran.code == 0, ran.err
    found = re.search(r"303 nights: (?:(\d+) done before, )?(\d+) decoded\.", ran.out)
    assert found, ran.out
    assert int(found[1] or 0) + int(found[2]) == 303
    assert abs(int(found[1] or 0) - n_before) <= 2  # a table whose sidecar was not there yet, of each worker
    assert len(rows(out / "cohort.tsv")) == 304


def mark(place: Path) -> str:
    place.touch()
    return place.name
