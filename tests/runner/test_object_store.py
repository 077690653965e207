"""Cohorts in an S3 of this computer: decode, go on after a kill, tables, datasets, convert and report."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import stageguard as sg
from cli_runner import error_line, write_night
from stageguard import storage
from stageguard.errors import MissingFileError, OutputError

moto = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")

PROFILE = "human-psg-5"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def server():
    """The address of an S3 that runs in a thread of this process."""
    started = moto.ThreadedMotoServer(port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    started.start()
    host, port = started.get_host_and_port()
    yield f"http://{host}:{port}"
    started.stop()


@pytest.fixture
def store(server, monkeypatch):
    """An empty bucket, and the file system it is in."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem(use_listings_cache=False)
    bucket = f"b{uuid.uuid4().hex}"
    system.mkdir(bucket)
    system.bucket = f"s3://{bucket}"
    return system


@pytest.fixture
def nights(store, tmp_path):
    for number in (1, 2, 3):
        path = write_night(tmp_path / "n.csv", hours=1, seed=number)
        store.pipe(f"{store.bucket}/nights/n {number}#%20é?.csv", path.read_bytes())
    return f"{store.bucket}/nights/"


def written(store, folder: str) -> dict[str, tuple[bytes, object]]:
    """The objects below a folder, with their content and when they were written."""
    found = store.find(f"{store.bucket}/{folder}", detail=True)
    return {name.partition("/")[2]: (store.cat(name), facts["LastModified"]) for name, facts in found.items()}


def contents(store, folder: str) -> dict[str, bytes]:
    return {name: data for name, (data, _) in written(store, folder).items()}


def test_a_folder_is_decoded_and_the_same_call_changes_nothing(store, nights, run):
    command = ("decode", nights, "-p", PROFILE, "-o", f"{store.bucket}/out/")
    assert run(*command).code == 0
    before = written(store, "out")
    assert {"out/cohort.tsv", "out/n 2#%20é?.hypnogram.tsv", "out/n 3#%20é?.hypnogram.json"} <= before.keys()
    assert len(before) == 9  # tables and sidecars, cohort, methods, profile
    time.sleep(1.1)  # S3 tells seconds
    assert run(*command).code == 0
    after = written(store, "out")
    assert {name: one for name, one in after.items() if "#" in name} == {
        name: one for name, one in before.items() if "#" in name
    }
    assert contents(store, "out") == {name: data for name, (data, _) in before.items()}


def test_outputs_in_a_store_are_those_of_a_folder(store, nights, run, tmp_path):
    for path in store.find(nights):
        (tmp_path / "nights" / Path(path).name).parent.mkdir(exist_ok=True)
        (tmp_path / "nights" / Path(path).name).write_bytes(store.cat(path))
    assert run("decode", tmp_path / "nights", "-p", PROFILE, "-o", tmp_path / "out").code == 0
    assert run("decode", nights, "-p", PROFILE, "-o", f"{store.bucket}/out", "--jobs", "2").code == 0
    here = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    there = {name.removeprefix("out/"): data for name, data in contents(store, "out").items()}
    assert here.keys() == there.keys()
    for name in here:
        if name.endswith((".hypnogram.tsv", ".hypnogram.json", ".toml")):
            assert here[name] == there[name]


def test_reports_statistics_and_conversions(store, nights, run):
    out = f"{store.bucket}/out"
    assert run("decode", nights, "-p", PROFILE, "-o", out).code == 0
    assert run("report", out, "-o", f"{store.bucket}/page.html").code == 0
    assert run("stats", out, "-o", f"{store.bucket}/stats.tsv").code == 0
    assert run("convert", out, "--to", "usleep-hyp", "-o", f"{store.bucket}/luna").code == 0
    assert run("verify", f"{out}/n 1#%20é?.hypnogram.tsv").code == 0
    assert b"<html" in store.cat(f"{store.bucket}/page.html")
    assert len(store.find(f"{store.bucket}/luna")) == 3
    assert store.cat(f"{store.bucket}/stats.tsv").count(b"\n") == 4


def test_what_is_missing_or_forbidden_is_one_line(store, nights, run, monkeypatch):
    assert "No such file" in error_line(run("decode", f"{store.bucket}/none.csv", "-p", PROFILE))
    none = f"s3://none-{uuid.uuid4().hex}"
    assert "No such file" in error_line(run("decode", f"{none}/n.csv", "-p", PROFILE))
    assert "bucket does not exist" in error_line(
        run("report", f"{nights}n 1#%20é?.csv", "-p", PROFILE, "-o", f"{none}/p.html")
    )
    assert not store.exists(none)
    with pytest.raises(OutputError, match="bucket does not exist"):
        sg.simulate_night(PROFILE, hours=1, seed=1).density.save(f"{none}/n.csv")

    async def forbidden(*_, **__):
        raise PermissionError("Forbidden")

    monkeypatch.setattr(s3fs.S3FileSystem, "_info", forbidden)
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(MissingFileError, match="Permission denied"):
        sg.read_density(f"{nights}n 1#%20é?.csv")


def test_a_store_without_credentials_or_answer_is_one_line(monkeypatch, run):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    s3fs.S3FileSystem.clear_instance_cache()
    assert "credentials" in error_line(run("decode", "s3://bucket/n.csv", "-p", PROFILE))


def decode_in_process(*arguments: str) -> subprocess.Popen[bytes]:
    code = "import sys; from stageguard.cli import main; main(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, "decode", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_killed_run_goes_on_with_the_same_call(store, tmp_path, run, jobs):
    for number in range(40):
        path = write_night(tmp_path / "n.csv", hours=1, seed=number)
        store.pipe(f"{store.bucket}/nights/n{number}.csv", path.read_bytes())
    source, out = f"{store.bucket}/nights", f"{store.bucket}/out"
    process = decode_in_process(source, "-p", PROFILE, "-o", out, "--jobs", jobs)
    deadline = time.monotonic() + 60
    while len(store.find(out)) < 6 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)  # its workers, too
    process.wait()
    half = contents(store, "out")
    assert 0 < sum(name.endswith(".json") for name in half) < 40, "killed too early or too late"
    for name, data in half.items():
        assert data, name  # no object is cut off
    assert run("decode", source, "-p", PROFILE, "-o", out).code == 0
    whole = contents(store, "out")
    assert {name: whole[name] for name in half if name.startswith("out/n")} == {
        name: data for name, data in half.items() if name.startswith("out/n")
    }
    assert run("decode", source, "-p", PROFILE, "-o", f"{store.bucket}/again").code == 0
    again = {f"out/{name.partition('/')[2]}": data for name, data in contents(store, "again").items()}
    assert {name: data for name, data in whole.items() if name.startswith("out/n")} == {
        name: data for name, data in again.items() if name.startswith("out/n")
    }


@pytest.fixture
def table(store, tmp_path, run, nights):
    """A table of many nights in the store, and the same on this computer."""
    pytest.importorskip("pyarrow")
    assert run("convert", nights, "-o", tmp_path / "all.parquet").code == 0
    store.pipe(f"{store.bucket}/all.parquet", (tmp_path / "all.parquet").read_bytes())
    return tmp_path / "all.parquet"


@pytest.mark.parametrize("output", ["out.parquet", "out.csv", "dataset"])
def test_tables_are_decoded_as_those_of_a_folder(store, table, run, tmp_path, output):
    here = ("decode", table, "-p", PROFILE, "-o", tmp_path / "here" / output)
    there = ("decode", f"{store.bucket}/all.parquet", "-p", PROFILE, "-o", f"{store.bucket}/there/{output}")
    assert run(*here).code == 0
    assert run(*there).code == 0
    files = {
        path.relative_to(tmp_path / "here").as_posix(): path.read_bytes()
        for path in (tmp_path / "here").rglob("*")
        if path.is_file()
    }
    stored = {name.removeprefix("there/"): data for name, data in contents(store, "there").items()}
    assert stored.keys() == files.keys()  # and no parts are left
    for name, data in files.items():
        if not name.endswith(".json"):  # whose paths of the input differ
            assert stored[name] == data, name
    before = written(store, "there")
    time.sleep(1.1)
    assert run(*there).code == 0
    assert written(store, "there") == before
    assert run("verify", f"{store.bucket}/there/{output}").code == 0


def test_a_large_table_is_read_in_parts(store, table, run, monkeypatch):
    monkeypatch.setattr(storage, "SMALL_BYTES", 1000)
    command = ("decode", f"{store.bucket}/all.parquet", "-p", PROFILE, "-o", f"{store.bucket}/out.parquet")
    assert run(*command).code == 0
    assert store.exists(f"{store.bucket}/out.parquet.json")


@pytest.mark.parametrize("output", ["out.parquet", "dataset"])
def test_a_table_goes_on_where_it_was(store, table, run, monkeypatch, output):
    from stageguard.runner import decode_table

    command = ("decode", f"{store.bucket}/all.parquet", "-p", PROFILE, "-o", f"{store.bucket}/{output}")

    def failing(*_: object) -> None:
        raise OSError(5, "the connection ended")

    with monkeypatch.context() as patch:
        patch.setattr(decode_table, "move_file", failing)
        patch.setattr(decode_table, "put_object", failing)
        assert "the connection ended" in error_line(run(*command))
    assert not store.exists(f"{store.bucket}/{output}.json")  # no sidecar: not complete
    ran = run(*command, "--json")
    assert ran.code == 0, ran.err
    assert store.exists(f"{store.bucket}/{output}.json")
    assert not [name for name in store.find(store.bucket) if ".parts" in name]


def test_partitions_in_a_store_are_read(store, table, run, tmp_path):
    arrow, dataset = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    from pyarrow import parquet

    read = parquet.read_table(table)
    site = arrow.array(["a" if "1" in str(name) else "b" for name in read.column("id").to_pylist()])
    dataset.write_dataset(
        read.append_column("site", site),
        tmp_path / "parts",
        format="parquet",
        partitioning=dataset.partitioning(arrow.schema([("site", arrow.string())]), flavor="hive"),
    )
    for path in (tmp_path / "parts").rglob("*.parquet"):
        store.pipe(
            f"{store.bucket}/parts/{path.relative_to(tmp_path / 'parts').as_posix()}", path.read_bytes()
        )
    assert run("decode", f"{store.bucket}/parts", "-p", PROFILE, "-o", f"{store.bucket}/out").code == 0
    names = contents(store, "out")
    assert any(name.startswith("out/site=a/") for name in names)
    assert any(name.startswith("out/site=b/") for name in names)
