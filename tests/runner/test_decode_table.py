"""`stageguard decode cohort.parquet -o out.parquet`: one table in, one out, equal to night by night."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stageguard as sg
from cli_runner import error_line
from messages import mentions
from nights import decode as decode_quietly
from stageguard.files import locked
from stageguard.formats import cohort as tables
from stageguard.runner import decode_table as runs
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.manifest import decode_source
from stageguard.runner.stopping import Stopped

PROFILE = "human-psg-5"
STAGES = ("W", "N1", "N2", "N3", "R")


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks and chunks, whose borders fall within nights."""
    monkeypatch.setattr(tables, "BLOCK_ROWS", 50)
    monkeypatch.setattr(tables, "CHUNK_ROWS", 50)  # less than a night


def nights_of(n: int, n_epochs: int = 60) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.dirichlet(np.full(5, 0.4), n_epochs + 7 * i) for i in range(n)]


def cohort(path: Path, nights, ids, **more) -> Path:
    """Write nights below each other; the suffix says how."""
    column = [name for name, night in zip(ids, nights, strict=True) for _ in range(len(night))]
    values = dict(zip(STAGES, np.concatenate(nights).T, strict=True))
    table = {"id": column, **values, **more}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(table), path, row_group_size=90)
        return path
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return path


def decoded(path: Path) -> dict[str, list[str]]:
    """Stages by night of an output, read without this package."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    else:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    stages: dict[str, list[str]] = {}
    for row in rows:
        stages.setdefault(row["id"], []).append(row["stage"])
    return stages


def table_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("source", ["in.parquet", "in.csv"])
@pytest.mark.parametrize("output", ["out.parquet", "out.csv"])
def test_one_table_gives_what_single_nights_give(run, tmp_path, small_blocks, source, output):
    nights, ids = nights_of(5), [f"p{i}" for i in range(5)]
    path = cohort(tmp_path / source, nights, ids)
    ran = run("decode", path, "-p", PROFILE, "-o", tmp_path / output)
    assert ran.code == 0, ran.err
    assert "5 nights: 5 decoded." in ran.out
    expected = {name: decode_quietly(night, PROFILE) for name, night in zip(ids, nights, strict=True)}
    assert decoded(tmp_path / output) == {name: each.stages.tolist() for name, each in expected.items()}
    rows = table_rows(tmp_path / f"{output}.nights.tsv")
    assert [row["id"] for row in rows] == ids
    assert [int(row["n_changed"]) for row in rows] == [each.changed.sum() for each in expected.values()]
    assert not list(tmp_path.glob(".*"))


def test_all_columns_are_those_of_the_decoding(run, tmp_path):
    (night,) = nights_of(1)
    night[20:23] = np.nan
    path = cohort(tmp_path / "in.parquet", [night], ["a"])
    assert run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet").code == 0
    rows = pq.read_table(tmp_path / "out.parquet").to_pydict()
    result = decode_quietly(night, PROFILE)
    assert rows["onset"] == [30.0 * i for i in range(len(night))]
    assert set(rows["duration"]) == {30.0}
    assert rows["label"] == result.hypnogram.labels.tolist()
    assert rows["changed"] == result.changed.tolist()
    assert rows["filled"] == result.filled.tolist()
    assert rows["argmax_stage"][20] == "?"
    chosen = night[np.arange(len(night)), result.hypnogram.labels]
    assert [value is None for value in rows["probability"]] == np.isnan(chosen).tolist()
    known = [value for value in rows["probability"] if value is not None]
    np.testing.assert_array_equal(known, chosen[~np.isnan(chosen)].astype(np.float32))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_bad_night_is_a_row_of_the_failures_and_the_others_go_on(run, tmp_path, suffix):
    nights = nights_of(3)
    nights[1][4] = [0.5, 0.5, 0.5, 0.0, 0.0]
    path = cohort(tmp_path / f"in{suffix}", nights, ["a", "b", "c"])
    ran = run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet")
    assert ran.code == 3
    assert "1 of 3 nights failed" in ran.err
    assert set(decoded(tmp_path / "out.parquet")) == {"a", "c"}
    (row,) = table_rows(tmp_path / "out.parquet.failures.tsv")
    assert row["id"] == "b"
    assert row["error"].startswith(f"in{suffix}, night b: ")
    assert "sums to 1.5" in row["error"]
    again = run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet")
    assert again.code == 3
    assert "3 nights: 2 done before, 0 decoded, 1 failed." in again.out
    assert "1 of 3 nights failed" in again.err


@pytest.mark.parametrize(
    ("ids", "written"),
    [
        ([3, 1, 2], ["3", "1", "2"]),
        ([1.0, 2.5, 3.0], ["1", "2.5", "3"]),
        (["-x", "+1", "=2+2"], ["-x", "+1", "=2+2"]),
        (["a,b", 'c"d', "e f"], ["a,b", 'c"d', "e f"]),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_ids_of_any_kind_name_the_nights(run, tmp_path, ids, written, suffix):
    path = cohort(tmp_path / f"in{suffix}", nights_of(3), ids)
    if suffix == ".csv":
        written = [str(each) for each in ids]
    for output in ("out.parquet", "out.csv"):
        assert run("decode", path, "-p", PROFILE, "-o", tmp_path / output).code == 0
    assert list(decoded(tmp_path / "out.parquet")) == written
    quoted = [f"'{name}" if name[0] in "-+=" else name for name in written]
    assert list(decoded(tmp_path / "out.csv")) == quoted
    assert [row["id"] for row in table_rows(tmp_path / "out.csv.nights.tsv")] == quoted


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"id": ["a"] * 9 + [None] + ["c"] * 9}, ("row 10 has no id", "Are cells merged")),
        ({"id": ["a"] * 9 + ["b"] + ["a"] * 9}, ("'a' begins again at row 11", "begins first at row 1")),
        ({"id": ["a"] * 9 + ["b "] + ["b"] * 9}, ("'b '",)),
        ({"id": [1.0] * 9 + [float("nan")] * 10}, ("row 10 has no id",)),
        ({"subject": ["a"] * 19}, ("'id'", "folder", "for the output", "subject")),
        ({"id": ["a"] * 19, "x": [1.0] * 19, **dict.fromkeys(STAGES)}, ("stages",)),
    ],
)
def test_a_table_that_is_none_of_nights_is_refused(run, tmp_path, suffix, columns, line):
    (values,) = nights_of(1, 19)
    columns = {**dict(zip(STAGES, values.T.tolist(), strict=True)), **columns}
    columns = {name: column for name, column in columns.items() if column is not None}
    path = tmp_path / f"in{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    ran = run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet")
    assert mentions(error_line(ran), *line)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_each_night_has_its_own_epoch_length_and_other_columns_are_named(run, tmp_path, suffix):
    nights = [night[:60] for night in nights_of(2)]
    durations = [30.0] * 60 + [20.0] * 60
    more = {"duration": durations, "onset": [30.0 * i for i in range(60)] + [20.0 * i for i in range(60)]}
    path = cohort(tmp_path / f"in{suffix}", nights, ["a", "b"], site=["x"] * 120, **more)
    ran = run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet")
    assert ran.code == 0, ran.err
    rows = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert rows["duration"] == durations
    assert rows["onset"] == more["onset"]
    assert "columns ignored: site" in ran.out


def test_the_same_call_again_has_nothing_to_do_and_another_is_refused(run, tmp_path):
    path = cohort(tmp_path / "in.parquet", nights_of(3), ["a", "b", "c"])
    call = ("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet")
    run(*call)
    before = (tmp_path / "out.parquet").stat().st_mtime_ns
    again = run(*call)
    assert again.code == 0
    assert "3 done before, 0 decoded" in again.out
    assert "other options (trained)" in error_line(run(*call, "--trained", "natural"))
    assert "the profile human-psg-5." in error_line(run(*call[:3], "human-psg-3", *call[4:]))
    assert "other options (only)." in error_line(run(*call, "--only", "a"))
    assert (tmp_path / "out.parquet").stat().st_mtime_ns == before
    cohort(path, nights_of(4), ["a", "b", "c", "d"])
    assert mentions(error_line(run(*call)), "in.parquet", "has changed since")
    assert run(*call, "--overwrite").code == 0
    assert set(decoded(tmp_path / "out.parquet")) == {"a", "b", "c", "d"}


def test_a_file_of_somebody_else_is_not_replaced(run, tmp_path):
    path = cohort(tmp_path / "in.parquet", nights_of(2), ["a", "b"])
    (tmp_path / "out.csv").write_text("mine")
    ran = run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.csv")
    assert mentions(error_line(ran), "exists already", "made")
    assert (tmp_path / "out.csv").read_text() == "mine"


def test_what_decode_wrote_is_no_input_for_it(run, tmp_path):
    path = cohort(tmp_path / "in.parquet", nights_of(2), ["a", "b"])
    for output in ("out.parquet", "out.csv"):
        run("decode", path, "-p", PROFILE, "-o", tmp_path / output)
        ran = run("decode", tmp_path / output, "-p", PROFILE, "-o", tmp_path / "again.parquet")
        assert mentions(error_line(ran), output, "probabilities")
        ran = run("convert", tmp_path / output, "-o", tmp_path / "again.edf")
        assert mentions(error_line(ran), "2 recordings by its column id")


def stopping_at(number, error, decode=runs.decode):
    """Stand in for `decode` and raise an error at one of the nights."""
    nights = count(1)
    return lambda *given, **options: decode(*given, **options) if next(nights) < number else error()


def test_a_run_that_was_stopped_goes_on_and_ends_equal(run, tmp_path, small_blocks, monkeypatch):
    path = cohort(tmp_path / "in.parquet", nights_of(6), list("abcdef"))
    call = ("decode", path, "-p", PROFILE, "--explain", "-o")
    assert run(*call, tmp_path / "whole.parquet").code == 0

    def stop():
        raise Stopped(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(runs, "decode", stopping_at(5, stop))
        with pytest.raises(Stopped, match="stopped: 4 nights done"):
            decode_source(runs.table_source(task_of(path, tmp_path / "out.parquet")))
    assert not (tmp_path / "out.parquet").exists()
    ran = run(*call, tmp_path / "out.parquet")
    assert ran.code == 0, ran.err
    assert "4 done before, 2 decoded" in ran.out
    for suffix in ("", ".nights.tsv", ".changes.tsv"):
        made, whole = (tmp_path / f"{name}.parquet{suffix}" for name in ("out", "whole"))
        assert made.read_bytes() == whole.read_bytes()
    changes = table_rows(tmp_path / "out.parquet.changes.tsv")
    assert {row["id"] for row in changes} == set("abcdef")


def test_several_processes_write_what_one_does(run, tmp_path, small_blocks):
    nights = nights_of(4)
    nights[2][3] = 7.0  # no probabilities
    table = cohort(tmp_path / "cohort.parquet", nights, "abcd")
    written = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        result = run("decode", table, "-p", PROFILE, "-o", folder / "out.parquet", "--jobs", jobs)
        assert result.code == 3, "a night failed"
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert {"out.parquet", "out.parquet.nights.tsv", "out.parquet.failures.tsv"} <= written[0].keys()
    assert written[0] == written[1]


def test_a_table_that_ends_badly_stops_several_processes_in_one_line(run, tmp_path, small_blocks):
    table = cohort(tmp_path / "cohort.parquet", nights_of(4), "abca")
    result = run("decode", table, "-p", PROFILE, "-o", tmp_path / "out.parquet", "--jobs", 2)
    assert result.code == 1
    assert "'a' begins again" in error_line(result)
    assert [each.name for each in tmp_path.iterdir()] == ["cohort.parquet"]


def task_of(path, output):
    profile = sg.Profile.load(PROFILE)
    return runs.TableTask(path, output, profile, DecodeOptions(), explain=True)


def test_two_runs_on_one_output_are_one_line(run, tmp_path):
    path = cohort(tmp_path / "in.parquet", nights_of(2), ["a", "b"])
    task = task_of(path, tmp_path / "out.parquet")
    task.parts.mkdir()
    with locked(task.parts / runs.LOCK):
        ran = run("decode", path, "-p", PROFILE, "-o", task.output)
    assert mentions(error_line(ran), "another run", "Wait for it")


def test_a_full_disk_leaves_nothing_under_the_name(run, tmp_path, monkeypatch):
    path = cohort(tmp_path / "in.parquet", nights_of(2), ["a", "b"])

    @contextmanager
    def full(*_):
        def add(*_):
            raise OSError(28, "No space left on device")

        yield add

    monkeypatch.setattr(runs, "table_writer", full)
    ran = run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet")
    assert mentions(error_line(ran), "out.parquet", "No space left")
    assert {each.name for each in tmp_path.iterdir()} == {"in.parquet", ".out.parquet.parts"}
    monkeypatch.undo()
    (tmp_path / "out.parquet").write_text("mine")  # since the run ended
    assert "exists already" in error_line(run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet"))
    assert (tmp_path / "out.parquet").read_text() == "mine"
    (tmp_path / "out.parquet").unlink()
    assert (
        "2 nights: 2 done before, 0 decoded."
        in run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet").out
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_a_killed_run_goes_on_and_no_half_table_is_ever_seen(tmp_path):
    nights = nights_of(40, 1000)
    path = cohort(tmp_path / "in.parquet", nights, [f"n{i}" for i in range(40)])
    script = (
        "import sys\nfrom stageguard.formats import cohort\ncohort.CHUNK_ROWS = 2000\n"
        "from stageguard.cli import main\nmain(sys.argv[1:])"
    )

    def start(name):
        command = [
            sys.executable,
            "-c",
            script,
            "decode",
            str(path),
            "-p",
            PROFILE,
            "-o",
            str(tmp_path / name),
        ]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    assert start("whole.parquet").wait() == 0
    parts, rng = tmp_path / ".out.parquet.parts", np.random.default_rng(3)
    n_kills = 0
    for wanted in sorted(rng.choice(18, 3, replace=False) + 1):
        process = start("out.parquet")
        while process.poll() is None and len(list(parts.glob("*.part"))) <= wanted:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        n_kills += process.wait() == -signal.SIGKILL
        if (tmp_path / "out.parquet").exists():
            assert len(decoded(tmp_path / "out.parquet")) == 40
    assert n_kills
    assert start("out.parquet").wait() == 0
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not parts.exists()


def test_json_of_a_finished_table_is_what_is_there(run, tmp_path):
    nights = nights_of(3)
    nights[1][5] = 0.5  # sums to 2.5
    path = cohort(tmp_path / "in.parquet", nights, ["a", "b", "c"])
    first, again = (
        run("decode", path, "-p", PROFILE, "-o", tmp_path / "out.parquet", "--json").lines for _ in range(2)
    )
    assert [(night["id"], night["ok"]) for night in again] == [("a", True), ("c", True), ("b", False)]
    for now, before in zip(first, again, strict=True):
        assert now.keys() == before.keys()
        assert now.get("n_changed") == before.get("n_changed")
        assert now.get("fi_after", 0) == pytest.approx(before.get("fi_after", 0), rel=1e-5)


def test_a_night_that_cannot_be_decoded_is_named_once(run, tmp_path):
    rows = ["p0,,,"] * 30 + ["p1,0.1,0.8,0.1"] * 30
    (tmp_path / "both.csv").write_text("\n".join(["id,W,N,R", *rows]) + "\n")
    run("decode", tmp_path / "both.csv", "-p", "human-psg-3", "-o", tmp_path / "out.csv")
    _, failed = (tmp_path / "out.csv.failures.tsv").read_text().splitlines()
    assert failed.split("\t")[2].startswith("both.csv, night p0: probabilities: all 30 rows are NaN")
