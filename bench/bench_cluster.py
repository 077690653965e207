"""Two workers of a Dask cluster beside one process: files, a table, and the bytes that the scheduler moves.

Scheduler and workers are processes of this computer, one thread each, that have loaded the package. Runs take
turns, and the shortest of each counts.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
from _common import Row, report
from bench_cohort import N_EPOCHS, PROFILE, make
from bench_cohort_table import make_table

import stageguard as sg

N_WORKERS = 2
GOAL = 1.6  # times as fast as one process
MOST_MB = 1.0  # through the scheduler, per 1,000 nights of a table


class CountingProxy:
    """Passes connections on to a scheduler, and counts their bytes, both ways."""

    def __init__(self, port: int) -> None:
        self.n_bytes = 0
        self._target = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._socket.accept()
            far = socket.create_connection(("127.0.0.1", self._target))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                self.n_bytes += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cluster() -> Iterator[tuple[Any, CountingProxy]]:
    """Yield a client, and the proxy between the scheduler and everybody else."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*command, "--port", str(port), "--no-dashboard"], **quiet)]
    try:
        proxy = CountingProxy(port)
        _wait_for(port)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", proxy.address, "--nthreads", "1"]
        options = ["--no-dashboard", "--no-nanny", "--host", "127.0.0.1"]
        processes += [subprocess.Popen([*worker, *options], **quiet) for _ in range(N_WORKERS)]
        with distributed.Client(proxy.address, set_as_default=False) as client:
            client.wait_for_workers(N_WORKERS, timeout=120)
            yield client, proxy
    finally:
        for process in processes[::-1]:  # the scheduler last, or workers look for it
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit("the scheduler did not start")


def seconds(source: Path, output: Path, n_nights: int, client: Any) -> float:
    """Return how long decoding takes by the clock, in this process or on the cluster."""
    began = time.perf_counter()
    result = sg.decode_cohort(source, PROFILE, output, scheduler=client)
    took = time.perf_counter() - began
    assert result.n_decoded == n_nights, str(result)
    shutil.rmtree(output)
    for path in output.parent.glob(f"{output.name}.*"):
        path.unlink()
    return took


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=3000, help="nights in files of their own")
    parser.add_argument("--nights", type=int, default=6000, help="nights in a table")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, cluster() as (client, proxy):
        folder = Path(name)
        make(folder / "few", 40)
        make_table(folder / "few.parquet", 40)
        make(folder / "nights", asked.files)
        make_table(folder / "cohort.parquet", asked.nights)
        for few in ("few", "few.parquet"):  # what is loaded once
            for where in (client, client, None):
                seconds(folder / few, folder / "out", 40, where)
        cohorts = {
            f"{asked.files:,} files": (folder / "nights", asked.files),
            f"a table of {asked.nights:,} nights": (folder / "cohort.parquet", asked.nights),
        }
        for what, (source, n_nights) in cohorts.items():
            here, there, moved = [], [], []
            for _ in range(asked.rounds):
                here.append(seconds(source, folder / "out", n_nights, None))
                before = proxy.n_bytes
                there.append(seconds(source, folder / "out", n_nights, client))
                moved.append(proxy.n_bytes - before)
                print(f"{what}: {here[-1]:.1f} s, on the cluster {there[-1]:.1f} s, {moved[-1]:,} bytes")
            is_table = source.suffix != ""
            mb = min(moved) / 1e6 / (n_nights / 1000)
            rows += [
                Row(f"{what}: one process", min(here), "s"),
                Row(f"{what}: two workers", min(there), "s"),
                Row(f"{what}: two workers", min(here) / min(there), "× as fast as one process", GOAL, "more"),
                Row(
                    f"{what}: through the scheduler", mb, "MB per 1,000 nights", MOST_MB if is_table else None
                ),
            ]
    report("cluster", f"A cluster of two workers, nights of {N_EPOCHS:,} epochs", rows)


if __name__ == "__main__":
    main()
