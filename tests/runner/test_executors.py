"""A real Dask scheduler with two workers on loopback: the same results, also when one of them is killed."""

from __future__ import annotations

import os
import signal
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from cli_runner import Runner, write_night
from messages import naming
from stageguard.errors import InputError
from stageguard.runner import pool
from stageguard.runner.pool import CHUNKS_AHEAD, Cluster, ClusterError, executor_for, run_all
from stageguard.synthetic.night import simulate_night

distributed = pytest.importorskip("distributed")
TCP = pytest.importorskip("distributed.comm.tcp").TCP
pytestmark = pytest.mark.filterwarnings("ignore")


def slow_square(number: int) -> int:
    time.sleep(0.2)
    return number * number


def kill_once(task: tuple[int, str]) -> int:
    """Kill the process at work the first time it gets to number 3."""
    number, marker = task
    if number == 3 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return slow_square(number)


@pytest.fixture(scope="module")
def address():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, host="127.0.0.1"
        ) as cluster:
            yield cluster.scheduler_address


def test_a_killed_worker_changes_nothing(address, tmp_path):
    tasks = [(number, str(tmp_path / "killed")) for number in range(8)]
    with executor_for(Cluster(address)) as executor:
        found = list(run_all(kill_once, tasks, executor=executor))
    assert (tmp_path / "killed").exists()
    assert found == [number * number for number in range(8)]


def test_a_task_that_never_returns_is_an_error(address):
    with (
        executor_for(Cluster(address, task_minutes=0.005)) as executor,
        pytest.raises(ClusterError, match="no result within"),
    ):
        list(run_all(time.sleep, [3.0], executor=executor))


def test_a_worker_that_joins_late_with_another_version_is_an_error(address, monkeypatch):
    with executor_for(Cluster(address)) as executor:
        monkeypatch.setattr(pool, "__version__", "9.9")  # as if theirs were another from now on
        with pytest.raises(ClusterError, match=r"has stageguard \S+, expected 9.9"):
            list(run_all(slow_square, [1, 2], executor=executor))


def test_a_cluster_that_starts_workers_on_demand_is_waited_for(monkeypatch):
    monkeypatch.setattr(pool, "CONNECT_SECONDS", 0.5)
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50, "host": "127.0.0.1"}
    with distributed.LocalCluster(n_workers=0, **options) as cluster:
        with (
            pytest.raises(ClusterError, match=naming("no worker after", "--wait-for-workers")),
            executor_for(Cluster(cluster.scheduler_address)),
        ):
            pass
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        with executor_for(Cluster(cluster.scheduler_address, wait_minutes=1)) as executor:
            assert list(run_all(slow_square, [1, 2, 3], executor=executor)) == [1, 4, 9]


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_gets_chunks_in_order_and_stays_open(kind, tmp_path):
    with kind(2) as executor, executor_for(Cluster(executor)) as there:
        assert list(run_all(process_of, range(40), executor=there))[39][0] == 39
        assert executor.submit(abs, -1).result() == 1


def test_an_executor_whose_process_is_killed_is_one_line():
    with (
        ProcessPoolExecutor(1) as executor,
        pytest.raises(ClusterError, match="a process at work ended"),
    ):
        list(run_all(os._exit, [3], executor=executor))


@pytest.mark.parametrize("scheduler", ["nowhere", 3, object()])
def test_what_is_no_scheduler_is_refused(scheduler):
    with pytest.raises(InputError, match="expected an address"), executor_for(Cluster(scheduler)):
        pass


def test_a_scheduler_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(pool, "CONNECT_SECONDS", 0.5)
    with (
        pytest.raises(ClusterError, match=naming("no scheduler answers")),
        executor_for(Cluster("tcp://127.0.0.1:9")),
    ):
        pass


def test_files_and_tables_decoded_on_a_cluster_are_those_decoded_here(address, tmp_path, capsys):
    run, folder = Runner(capsys), tmp_path / "nights"
    folder.mkdir()
    lines, rng = ["id,W,N1,N2,N3,R"], np.random.default_rng(1)
    for name in ("a", "b"):
        rows = [",".join(map(repr, row)) for row in rng.dirichlet(np.full(5, 0.4), 60).tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["W,N1,N2,N3,R", *rows]) + "\n")
        lines += [f"{name},{row}" for row in rows]
    table = tmp_path / "all.csv"
    table.write_text("\n".join(lines) + "\n")
    for where, more in (("here", ()), ("there", ("--scheduler", address))):
        for source, name in ((folder, ""), (table, "out.csv")):
            output = tmp_path / where / name
            assert run("decode", source, "-p", "human-psg-5", "-o", output, *more).code == 0
    for name in ("a.hypnogram.tsv", "b.hypnogram.tsv", "out.csv", "out.csv.nights.tsv"):
        here, there = (tmp_path / where / name for where in ("here", "there"))
        assert here.read_bytes() == there.read_bytes()


def test_a_network_changed_in_mid_run_stages_nothing_more(tmp_path):
    pytest.importorskip("torch")
    from stageguard.runner.stage_files import NamedStager

    (tmp_path / "model.json").write_text("{}")
    named = NamedStager.of(str(tmp_path))
    (tmp_path / "model.json").write_text("[]")
    with pytest.raises(InputError, match=naming("another", "network than at")):
        named.load()


def test_a_profile_fitted_on_a_cluster_is_that_fitted_here(address, tmp_path, capsys):
    run = Runner(capsys)
    for folder in ("nights", "experts"):
        (tmp_path / folder).mkdir()
    for seed in range(4):
        write_night(tmp_path / "nights" / f"n{seed}.csv", "human-psg-3", hours=1, seed=seed)
        stages = simulate_night("human-psg-3", hours=1, seed=seed).expert.stages
        (tmp_path / "experts" / f"n{seed}.txt").write_text("\n".join(stages.tolist()) + "\n")
    written = []
    for where, more in (("here", ()), ("there", ("--scheduler", address))):
        output = tmp_path / where / "lab.toml"
        output.parent.mkdir()
        said = ("--expert", tmp_path / "experts", "--base", "human-psg-3", "-o", output)
        ran = run("fit", tmp_path / "nights", *said, *more)
        assert ran.code == 0, ran.err
        written.append((output.read_bytes(), ran.out.replace(str(output), "")))
    assert written[0] == written[1]


def process_of(block: int) -> tuple[int, int]:
    return block, os.getpid()


def test_items_are_made_while_processes_work_and_only_a_few_ahead():
    made = []

    def blocks():
        for number in range(40):
            made.append(number)
            yield number

    results = run_all(process_of, blocks(), 2)
    assert next(results)[0] == 0
    assert len(made) <= 2 * CHUNKS_AHEAD
    found = list(results)
    assert [block for block, _ in found] == list(range(1, 40))
    assert os.getpid() not in {process for _, process in found}
