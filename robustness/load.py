"""What large things cost: 1,000,000 epochs through every verb, 100,000 nights, 64 threads, 20 clients.

`load.py [-o FILE.json]` prints seconds and peak memory; results are compared with those of small runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import stageguard as sg

STAGEGUARD = [sys.executable, "-m", "stageguard.cli"]
# Runs a command and prints the seconds it took and its peak memory, children included.
WATCH = """
import json, resource, subprocess, sys, time
begun = time.monotonic()
ran = subprocess.run(sys.argv[1:], capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps([time.monotonic() - begun, peak, ran.returncode, ran.stderr[-500:]]))
"""
LONG = 1_000_000
MANY = 100_000
PROFILE = "human-psg-5"


class Failed(Exception):
    """A command that should have worked, or two results that should be alike."""


def watched(name: str, *arguments: object, codes: tuple[int, ...] = (0,)) -> dict[str, object]:
    """Run a command of ours; returns what it took."""
    command = [sys.executable, "-c", WATCH, *STAGEGUARD, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak, code, said = json.loads(ran.stdout)
    if code not in codes:
        raise Failed(f"{name}: exit code {code}: {said}")
    row = {"what": name, "seconds": round(seconds, 1), "peak_megabytes": round(peak)}
    print(f"{name:44}{row['seconds']:>8} s{row['peak_megabytes']:>8} MB", flush=True)
    return row


@contextmanager
def timed(name: str, rows: list[dict[str, object]]) -> Iterator[None]:
    begun = time.monotonic()
    yield
    rows.append({"what": name, "seconds": round(time.monotonic() - begun, 1)})
    print(f"{name:44}{rows[-1]['seconds']:>8} s", flush=True)


def long_night() -> sg.Hypnodensity:
    """A made-up night over and over, until there are a million epochs."""
    night = sg.simulate_night(PROFILE, hours=24, seed=1).density
    n_copies = -(-LONG // night.n_epochs)
    return sg.Hypnodensity(np.tile(night.probabilities, (n_copies, 1))[:LONG], night.scheme, 30.0)


def one_long_recording(folder: Path) -> list[dict[str, object]]:
    density = long_night()
    density.save(folder / "long.npz")
    argmax = density.probabilities.argmax(axis=1).astype(np.int8)
    sg.Hypnogram(argmax, density.scheme, 30.0).save(folder / "expert.txt")
    source, out = folder / "long.npz", folder / "out"
    copy = shutil.copy(source, folder / "copy.npz")
    decoded = out / "long.hypnogram.tsv"
    # `check` ends with 1 where a night is not like experts' scoring, which the argmax of two years is not
    return [
        watched("decode", "decode", source, "-p", PROFILE, "-o", out),
        watched("verify", "verify", decoded),
        watched("check", "check", decoded, "-p", PROFILE, codes=(0, 1)),
        watched("stats", "stats", source, "-p", PROFILE, "-o", folder / "stats.tsv"),
        watched("compare", "compare", folder / "expert.txt", decoded),
        watched("convert to EDF+", "convert", decoded, "-o", folder / "long.edf"),
        watched("combine", "combine", source, copy, "-o", folder / "both.npz"),
        watched("posterior", "posterior", source, "-p", PROFILE, "-o", folder / "posterior.npz"),
        watched("report", "report", source, "-p", PROFILE, "-o", folder / "long.html"),
    ]


def many_recordings(folder: Path) -> list[dict[str, object]]:
    import pyarrow as pa
    from pyarrow import parquet

    night = sg.simulate_night(PROFILE, hours=0.25, seed=1).density
    probabilities = np.tile(night.probabilities, (MANY, 1))
    columns = {name: probabilities[:, k] for k, name in enumerate(night.scheme.names)}
    ids = np.repeat([f"n{i:06d}" for i in range(MANY)], night.n_epochs)
    parquet.write_table(pa.table({"id": ids, **columns}), folder / "many.parquet", row_group_size=300_000)
    rows = [
        watched(
            f"decode {MANY:,} nights in one file",
            "decode",
            folder / "many.parquet",
            "-p",
            PROFILE,
            "-o",
            folder / "done.parquet",
        )
    ]
    one = sg.decode(night, PROFILE).hypnogram.labels
    with timed(f"sg.decode of a list of {MANY:,} nights", rows):
        results = sg.decode([night] * MANY, PROFILE)
    if any((result.hypnogram.labels != one).any() for result in results[:: MANY // 100]):
        raise Failed("a night of many is not decoded as it is alone")
    return rows


def threads(n_threads: int = 64) -> list[dict[str, object]]:
    nights = [sg.simulate_night(PROFILE, seed=seed).density for seed in range(8)]
    alone = [sg.decode(night, PROFILE).hypnogram.labels for night in nights]
    rows: list[dict[str, object]] = []
    with timed(f"{n_threads} threads, 2,000 nights", rows), ThreadPoolExecutor(n_threads) as pool:
        found = list(pool.map(lambda i: sg.decode(nights[i % 8], PROFILE).hypnogram.labels, range(2000)))
    if any((labels != alone[i % 8]).any() for i, labels in enumerate(found)):
        raise Failed("a thread decodes otherwise than alone")
    return rows


def clients(folder: Path, n_clients: int = 20, n_each: int = 10) -> list[dict[str, object]]:
    """Let many set epochs of one night at once; whoever comes too late with a revision tries again."""
    import httpx

    sg.simulate_night(PROFILE, seed=1).density.save(folder / "night.csv")
    command = [*STAGEGUARD, "review", folder / "night.csv", "-p", PROFILE, "--scorer", "all", "--no-open"]
    server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
    base, _, token = url.partition("/#token=")

    def set_epochs(number: int) -> int:
        n_late = 0
        with httpx.Client(timeout=120, headers={"X-StageGuard-Token": token}) as client:
            revision = client.get(f"{base}/api/nights/0").json()["revision"]
            for k in range(n_each):
                epoch = (number * n_each + k) * 4
                action = {"do": "set", "first": epoch, "last": epoch, "stage": 2, "why": ""}
                for _ in range(10_000):
                    body = {"revision": revision, "action": action}
                    answer = client.post(f"{base}/api/nights/0/actions", json=body)
                    said = answer.json()
                    revision = said.get("state", said)["revision"]
                    if answer.status_code == 200:
                        break
                    if answer.status_code != 409:
                        raise Failed(f"review: {answer.status_code} {answer.text[:200]}")
                    n_late += 1
        return n_late

    rows: list[dict[str, object]] = []
    try:
        what = f"review, {n_clients} clients, {n_clients * n_each} epochs"
        with timed(what, rows), ThreadPoolExecutor(n_clients) as pool:
            n_late = sum(pool.map(set_epochs, range(n_clients)))
    finally:
        server.terminate()
        server.wait()
    saved = (folder / "night.all.review.jsonl").read_text("utf-8")
    if (n_saved := saved.count('"set"')) != n_clients * n_each:
        raise Failed(f"review: {n_saved} of {n_clients * n_each} epochs are in the journal")
    rows[-1]["too_late"] = n_late
    return rows


PARTS: dict[str, Callable[[Path], list[dict[str, object]]]] = {
    "long": one_long_recording,
    "many": many_recordings,
    "threads": lambda folder: threads(),
    "clients": clients,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all without")
    parser.add_argument("-o", "--output", type=Path, help="where the figures go")
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    try:
        for part in given.parts or PARTS:
            with tempfile.TemporaryDirectory() as name:
                rows += PARTS[part](Path(name))
    except Failed as error:
        print(f"load.py: {error}", file=sys.stderr)
        return 1
    if given.output:
        given.output.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
