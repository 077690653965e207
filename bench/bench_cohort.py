"""`stageguard decode` of a folder of nights, twice, beside pandas' reader and YASA's statistics of them.

Says how long, how busy the cores were, how much memory it took and how that grows with the number of nights.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _common import Row, report

import stageguard as sg
from stageguard.synthetic.night import simulate_night

N_EPOCHS = 1_000
PROFILE = "human-psg-5"
STAGES = ("W", "N1", "N2", "N3", "R")
N_SOURCES = 200  # different nights; more would only take longer to make up
N_BESIDE = 1_000  # nights for the peers, whose time per night does not depend on how many there are
PR_SET_CHILD_SUBREAPER = 36  # of Linux
YASA_NAMES = np.array(["WAKE", "N1", "N2", "N3", "REM"])


@dataclass(frozen=True, slots=True)
class Run:
    """What one call of the command took."""

    wall: float
    cpu: float  # seconds of all processes together
    parent: float  # peak memory in MB
    worker: float  # of the largest worker
    wanted: float  # share of the workers' time in which they ran, or could have run on a free core


class Watched:
    """What was last seen of a process."""

    def __init__(self) -> None:
        self.began = self.last = time.perf_counter()
        self.peak = self.ran = self.ready = 0.0

    def look(self, place: Path) -> None:
        """Read its peak memory (MB), and how long it ran and stood ready to run (seconds)."""
        lines = (place / "status").read_text().splitlines()
        found = next((line.split()[1] for line in lines if line.startswith("VmHWM")), "0")
        ran, waited, _ = (place / "schedstat").read_text().split()
        self.peak = max(self.peak, float(found) / 1e3)
        self.ran, self.ready, self.last = int(ran) / 1e9, int(waited) / 1e9, time.perf_counter()


def make(folder: Path, n_nights: int) -> float:
    """Write nights as CSV, and return how many MB they are."""
    texts = []
    for seed in range(min(n_nights, N_SOURCES)):
        density = simulate_night(PROFILE, hours=N_EPOCHS / 120, seed=seed).density
        rows = [
            f"{30.0 * i},30.0,{','.join(map(repr, row))}"
            for i, row in enumerate(density.probabilities.tolist())
        ]
        texts.append("\n".join([f"onset,duration,{','.join(STAGES)}", *rows, ""]).encode())
    folder.mkdir()
    for i in range(n_nights):
        (folder / f"night{i}.csv").write_bytes(texts[i % len(texts)])
    return sum(len(texts[i % len(texts)]) for i in range(n_nights)) / 1e6


def decode(nights: Path, output: Path) -> tuple[Run, str]:
    """Run the command on all cores, and watch it."""
    command = [
        sys.executable,
        "-m",
        "stageguard.cli",
        "decode",
        str(nights),
        "-p",
        PROFILE,
        "-o",
        str(output),
    ]
    before, began = _cpu(), time.perf_counter()
    process = subprocess.Popen([*command, "--jobs", "0"], stdout=subprocess.PIPE, text=True)
    seen: dict[int, Watched] = {}
    watch = threading.Thread(target=_watch, args=(process, seen))
    watch.start()
    out, _ = process.communicate()
    wall = time.perf_counter() - began
    watch.join()
    _wait_for_orphans()
    assert process.returncode == 0, out
    parent = seen.pop(process.pid, Watched())
    most = max((one.ran for one in seen.values()), default=0.0)
    workers = [one for one in seen.values() if one.ran > most / 5]  # the others only keep the books
    wanted = sum(one.ran + one.ready for one in workers) / sum(one.last - one.began for one in workers)
    return Run(wall, _cpu() - before, parent.peak, max(one.peak for one in workers), wanted), out


def _adopt_orphans() -> None:
    """Let processes whose parent has ended become children of this one, so that their time is counted."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(process: subprocess.Popen[str], seen: dict[int, Watched]) -> None:
    """Look at a process and its descendants as long as it runs."""
    while process.poll() is None:
        with contextlib.suppress(OSError, ValueError):  # gone in between
            for pid in _family(process.pid):
                seen.setdefault(pid, Watched()).look(Path(f"/proc/{pid}"))
        time.sleep(0.05)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from _family(int(child))


def beside(files: list[Path]) -> dict[str, float]:
    """Return processor seconds per night of two readers, YASA's statistics, and hashing."""
    import hashlib

    import pandas as pd
    import yasa

    labels = [sg.read_density(file).argmax for file in files]
    runners = {
        "pandas": lambda: [pd.read_csv(file) for file in files],
        "ours": lambda: [sg.read_density(file) for file in files],
        "YASA": lambda: [yasa.Hypnogram(YASA_NAMES[own], n_stages=5).sleep_statistics() for own in labels],
        "hash": lambda: [hashlib.sha256(file.read_bytes()).digest() for file in files],
    }
    theirs = pd.read_csv(files[0], float_precision="round_trip")[list(STAGES)].to_numpy()
    np.testing.assert_array_equal(sg.read_density(files[0]).probabilities, theirs)
    found = {}
    for name, run in runners.items():
        best = float("inf")
        for _ in range(2):
            began = time.process_time()
            run()
            best = min(best, time.process_time() - began)
        found[name] = best / len(files)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=300, help="how many (6000: the full one, minutes)")
    n_nights = parser.parse_args().nights
    n_cores = os.cpu_count() or 1
    _adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_few = max(n_nights // 10, 1)
        make(folder / "few", n_few)
        size = make(folder / "nights", n_nights)
        few, _ = decode(folder / "few", folder / "few-out")
        first, out = decode(folder / "nights", folder / "out")
        assert f"{n_nights:,} nights: {n_nights:,} decoded." in out
        again, out = decode(folder / "nights", folder / "out")
        assert f"{n_nights:,} nights: {n_nights:,} done before, 0 decoded." in out
        their = beside(sorted((folder / "nights").iterdir())[:N_BESIDE])
    each = first.cpu / n_nights
    what = f"{n_nights:,} nights"
    rows = [
        Row(f"{what}, decoded and written", first.wall, f"s ({n_nights / first.wall:,.0f} nights/s)"),
        Row(f"{what}: cores that were busy", first.cpu / first.wall, f"of {n_cores}"),
        Row(
            f"{what}: workers that ran or could have run",
            first.wanted,
            "of their time (1: no waiting for files)",
        ),
        Row(f"{what}: CSV in, hypnograms out", size / first.cpu, f"MB/s and core (of {size:,.0f} MB)"),
        Row(f"{what}: processor time of a night", 1e3 * each, "ms"),
        Row(f"{what}: peak memory of the parent", first.parent, "MB"),
        Row(f"{what}: peak memory of a worker", first.worker, "MB"),
        Row(f"{what}: peak memory of the parent", first.parent / few.parent, f"× that of {n_few:,} nights"),
        Row(
            f"{what}: processor time of one more night",
            1e3 * (first.cpu - few.cpu) / (n_nights - n_few),
            f"ms, from {n_few:,} to {n_nights:,} nights",
        ),
        Row("the same command again", again.wall, f"s ({n_nights / again.wall:,.0f} nights/s)"),
        Row("the same command again", first.wall / again.wall, "× as fast as the first"),
        Row("hashing the file of a night", 100 * their["hash"] / each, "% of the night's processor time"),
        Row("a whole night, compared with pandas.read_csv", each / their["pandas"], "× its time", 3.0),
        Row("a whole night, compared with sg.read_density", each / their["ours"], "× its time"),
        Row("a whole night, compared with YASA's statistics", each / their["YASA"], "× its time"),
    ]
    report("cohort", f"Decoding a folder of {n_nights:,} nights × {N_EPOCHS:,} epochs", rows)


if __name__ == "__main__":
    main()
