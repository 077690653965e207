"""Cost and memory of a night as a cohort grows: partitioned Parquet of a thousand nights, up to 100,000.

A few hundred simulated nights are repeated under other names: what is decoded is not what is measured.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _common import RESULTS, Row, report
from bench_cohort import N_EPOCHS, PROFILE, Run, _adopt_orphans, decode

from stageguard.synthetic.night import simulate_night

N_SOURCES = 200  # different nights
NIGHTS_PER_GROUP = 100
NIGHTS_PER_FILE = 1_000
N_SITES = 10
MOST_MB = 1_000.0  # of any process
MOST_GROWTH = 1.1  # of the cost of a night, from the smallest cohort to the largest
WIDTH, HEIGHT, LEFT, TOP = 420, 200, 60, 40


def columns() -> list[list[pa.Array]]:
    """Return the probabilities of some row groups, in single precision as stagers have them."""
    nights = [simulate_night(PROFILE, hours=N_EPOCHS / 120, seed=seed).density for seed in range(N_SOURCES)]
    groups = [nights[i : i + NIGHTS_PER_GROUP] for i in range(0, N_SOURCES, NIGHTS_PER_GROUP)]
    stacked = [
        np.concatenate([night.probabilities for night in group]).astype(np.float32) for group in groups
    ]
    return [[pa.array(column) for column in group.T] for group in stacked]


def write(folder: Path, n_nights: int, groups: list[list[pa.Array]]) -> None:
    """Write nights as a dataset, partitioned by site."""
    names = ("id", "W", "N1", "N2", "N3", "R")
    for first in range(0, n_nights, NIGHTS_PER_FILE):
        number = first // NIGHTS_PER_FILE
        place = folder / f"site={number % N_SITES:02d}" / f"part-{number:05d}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        writer: pq.ParquetWriter | None = None
        for begin in range(first, min(first + NIGHTS_PER_FILE, n_nights), NIGHTS_PER_GROUP):
            codes = pa.array(np.repeat(np.arange(NIGHTS_PER_GROUP, dtype=np.int32), N_EPOCHS))
            ids = pa.array([f"night{begin + i:07d}" for i in range(NIGHTS_PER_GROUP)])
            stages = groups[begin // NIGHTS_PER_GROUP % len(groups)]
            table = pa.table([pa.DictionaryArray.from_arrays(codes, ids), *stages], names=names)
            writer = writer or pq.ParquetWriter(place, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None:
            writer.close()


def plot(costs: dict[int, float], memory: dict[int, float]) -> str:
    """Draw the processor time of a night, and the largest memory, against the nights as SVG."""
    panels = [("processor time of a night (ms)", costs), ("largest process (MB)", memory)]
    body = "".join(_panel(LEFT + (WIDTH + 90) * i, *panel) for i, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * (WIDTH + 90)} {HEIGHT + 90}" '
        'font-family="system-ui, sans-serif" font-size="13">'
        "<title>Cost and memory against the nights of a cohort</title>"
        f'<rect width="100%" height="100%" fill="#fff"/>{body}</svg>\n'
    )


def _panel(x0: int, title: str, values: dict[int, float]) -> str:
    sizes, top = sorted(values), 1.25 * max(values.values())
    parts = [
        f'<text x="{x0}" y="24" font-weight="600">{title}</text>',
        f'<rect x="{x0}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
        f'<text x="{x0 - 7}" y="{TOP + HEIGHT + 4}" text-anchor="end">0</text>',
    ]
    points = []
    for size in sizes:
        x = x0 + 30 + (WIDTH - 60) * np.log(size / sizes[0]) / np.log(sizes[-1] / sizes[0])
        y = TOP + HEIGHT * (1 - values[size] / top)
        points.append(f"{x:.1f},{y:.1f}")
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#0072b2"/>')
        parts.append(f'<text x="{x:.1f}" y="{y - 10:.1f}" text-anchor="middle">{values[size]:.3g}</text>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 20}" text-anchor="middle">{size:,}</text>')
    parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#0072b2" stroke-width="2"/>')
    parts.append(f'<text x="{x0 + WIDTH / 2}" y="{TOP + HEIGHT + 40}" text-anchor="middle">nights</text>')
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=10_000, help="of the largest (100000: minutes, 3 GB)")
    largest = parser.parse_args().nights
    sizes = [n for n in (1_000, 10_000, 100_000) if n <= largest]
    _adopt_orphans()
    groups, runs = columns(), dict[int, Run]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n_nights in sizes:
            write(folder / "data", n_nights, groups)
            runs[n_nights], out = decode(folder / "data", folder / "out")
            assert f"{n_nights:,} nights: {n_nights:,} decoded." in out
            print(f"{n_nights:,} nights: {runs[n_nights]}", flush=True)
            for path in (folder / "data", folder / "out"):
                shutil.rmtree(path)
            for path in folder.glob("out.*"):
                path.unlink()
    costs = {n: 1e3 * run.cpu / n for n, run in runs.items()}
    memory = {n: max(run.parent, run.worker) for n, run in runs.items()}
    rows = []
    for n_nights, run in runs.items():
        what = f"{n_nights:,} nights"
        rows += [
            Row(f"{what}, all cores", run.wall, f"s ({n_nights / run.wall:,.0f} nights/s)"),
            Row(f"{what}: processor time of a night", costs[n_nights], "ms, all processes"),
            Row(f"{what}: peak memory of the client", run.parent, "MB", MOST_MB),
            Row(f"{what}: peak memory of a worker", run.worker, "MB", MOST_MB),
        ]
    growth = costs[sizes[-1]] / costs[sizes[0]]
    unit = f"× that of {sizes[0]:,} nights"
    rows.append(Row(f"{sizes[-1]:,} nights: processor time of a night", growth, unit, MOST_GROWTH))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scale.svg").write_text(plot(costs, memory), "utf-8")
    report("scale", f"A cohort that grows, nights of {N_EPOCHS:,} epochs in partitioned Parquet", rows)


if __name__ == "__main__":
    main()
