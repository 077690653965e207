"""A cohort in one Parquet file, decoded to another, beside reading and writing it with pyarrow.

Both in this process, taking turns, in processor time; then the command on one core and on two, by the clock.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import Row, report
from bench_cohort import N_EPOCHS, PROFILE, make

import stageguard as sg
from stageguard.runner.decode_one import DecodeOptions
from stageguard.runner.decode_table import TableTask, table_source
from stageguard.runner.manifest import decode_source
from stageguard.synthetic.night import simulate_night

N_SOURCES = 100  # different nights
N_ROUNDS = 2
N_FILES = (600, 3_000)  # nights as single files; what starting processes takes counts more with fewer
ROW_GROUP = 100_000
FIXED_WEIGHT = 0.3


def make_table(path: Path, n_nights: int) -> None:
    """Write nights below each other, in single precision as stagers have them."""
    sources = [
        simulate_night(PROFILE, hours=N_EPOCHS / 120, seed=seed).density
        for seed in range(min(n_nights, N_SOURCES))
    ]
    schema = pa.schema([("id", pa.string()), *((name, pa.float32()) for name in sources[0].scheme.names)])
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for first in range(0, n_nights, ROW_GROUP // N_EPOCHS):
            numbers = range(first, min(first + ROW_GROUP // N_EPOCHS, n_nights))
            columns = np.concatenate([sources[i % len(sources)].probabilities for i in numbers]).T
            ids = np.repeat([f"night{i:05d}" for i in numbers], N_EPOCHS)
            arrays = [pa.array(ids), *(pa.array(column.astype(np.float32)) for column in columns)]
            file.write_table(pa.table(arrays, schema=schema))


def read_and_write(source: Path, output: Path) -> None:
    """Copy a table with pyarrow on one thread."""
    pq.write_table(pq.read_table(source, use_threads=False), output, compression="zstd")


def seconds_by_turns(source: Path, folder: Path, profiles: dict[str, sg.Profile]) -> dict[str, float]:
    """Return the least processor time of a copy, and of decoding with each profile."""
    best = dict.fromkeys(["copy", *profiles], float("inf"))
    for _ in range(N_ROUNDS):
        for name in best:
            began = time.process_time()
            if name == "copy":
                read_and_write(source, folder / "copy.parquet")
            else:
                output = folder / "out.parquet"
                task = TableTask(source, output, profiles[name], DecodeOptions(), overwrite=True)
                assert not decode_source(table_source(task)).failures
            best[name] = min(best[name], time.process_time() - began)
    return best


def wall(source: Path, output: Path, jobs: int) -> float:
    """Return the seconds that the command takes in so many processes on as many cores."""
    cores = sorted(os.sched_getaffinity(0))[:jobs]
    command = [
        sys.executable,
        "-m",
        "stageguard.cli",
        "decode",
        str(source),
        "-p",
        PROFILE,
        "-o",
        str(output),
    ]
    began = time.perf_counter()
    subprocess.run(
        [*command, "--jobs", str(jobs)],
        check=True,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    return time.perf_counter() - began


def best_wall(source: Path, output: Path, jobs: int) -> float:
    """Return the shortest of several runs."""
    outputs = [output.with_stem(f"{output.stem}{jobs}-{i}") for i in range(N_ROUNDS)]
    return min(wall(source, one, jobs) for one in outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=6000, help="how many")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="leave out what only a machine that is free can show: two cores",
    )
    asked = parser.parse_args()
    n_nights = asked.nights
    profile = sg.Profile.load(PROFILE)
    profiles = {
        "fixed weight": profile.replace(strength=None, transition_weight=FIXED_WEIGHT),
        "by rule": profile,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, source = folder / "few.parquet", folder / "cohort.parquet"
        make_table(few, 10)
        make_table(source, n_nights)
        seconds_by_turns(few, folder, profiles)  # imports, and what is prepared once
        took = seconds_by_turns(source, folder, profiles)
        faster: dict[str, float] = {}
        if not asked.busy:
            table = [best_wall(source, folder / "jobs.parquet", jobs) for jobs in (1, 2)]
            faster = {f"{n_nights:,} nights": table[0] / table[1]}
            for n_files in sorted({min(n, n_nights) for n in N_FILES}):
                nights = folder / f"nights{n_files}"
                make(nights, n_files)
                files = [best_wall(nights, folder / f"files{n_files}", jobs) for jobs in (1, 2)]
                faster |= {f"{n_files:,} single files": files[0] / files[1]}
    what = f"{n_nights:,} nights"
    rows = [Row(f"{what}: read and written with pyarrow", 1e3 * took["copy"] / n_nights, "ms a night")]
    for name in profiles:
        rows += [
            Row(f"{what}, {name}: decoded", 1e3 * took[name] / n_nights, "ms a night"),
            Row(f"{what}, {name}: compared with pyarrow", took[name] / took["copy"], "× its time", 2.0),
        ]
    rows += [
        Row(f"{name}: two cores", ratio, "× as fast as one, by the clock", 1.8, "more")
        for name, ratio in faster.items()
    ]
    report("table", f"A cohort of {n_nights:,} nights × {N_EPOCHS:,} epochs in one table", rows)


if __name__ == "__main__":
    main()
