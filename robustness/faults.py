"""Kill what writes, at random, and go on: in the end there is what an undisturbed run leaves.

`faults.py [CASE ...]`. Each case is run once undisturbed, then killed at random moments, its whole process
group by SIGKILL, and started again until it ends by itself. Both folders must hold the same files with the
same bytes, but for moments and durations, and no temporary file. Then: a full disk, an output that cannot
be written, an input that vanishes, and two processes on one output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import stageguard as sg

STUDY = str(Path(__file__).parents[1] / "studies" / "mouse-sim.toml")
# What differs between two runs that do the same: when, and how long.
MOMENTS = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
COSTS = ("seconds", "peak_memory", "begun", "ended", "when", "created")
GUARD = ("-p", "human-psg-5", "-o")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "stageguard.cli", *map(str, arguments)]


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder to its end."""
    return subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, check=False)


def start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """Start a command in a process group of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*arguments), cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


# what is decoded, fitted and trained on


def nights(folder: Path, n: int, hours: float = 1) -> None:
    """Write nights and their experts, each to a file, and all nights to a table and to a dataset."""
    for name in ("nights", "experts", "out"):
        (folder / name).mkdir(parents=True)
    tables = []
    for seed in range(n):
        night = sg.simulate_night("human-psg-5", hours=hours, seed=seed)
        night.density.save(folder / "nights" / f"n{seed:03d}.csv")
        night.expert.save(folder / "experts" / f"n{seed:03d}.txt")
        frame = night.density.to_frame().assign(id=f"n{seed:03d}")
        tables.append(pa.Table.from_pandas(frame, preserve_index=False))
    pq.write_table(pa.concat_tables(tables), folder / "all.parquet")
    for site in range(0, n, 12):
        (folder / "data" / f"site={site}").mkdir(parents=True)
        part = pa.concat_tables(tables[site : site + 12])
        pq.write_table(part, folder / "data" / f"site={site}" / "part-0.parquet")


def features(folder: Path) -> None:
    """Write a small cohort of actigraphy, and how to train on it."""
    folder.mkdir(parents=True)
    run(folder, "simulate", "--modality", "actigraphy", "--subjects", 4, "--hours", 2, "-o", "cohort")
    (folder / "config.toml").write_text(
        "data = 'cohort'\ndataset = 'sleep-accel'\nrecipe = 'actigraphy'\noutput = 'model'\n"
        "backbone = 'accusleep'\nprofile = 'human-actigraphy-2'\npenalty_weight = 0.0\nsteps = 60\n"
        "evaluate_every = 5\n"
    )


class Case(NamedTuple):
    """A command that writes into a folder `out`, what it needs beside it, and how often it is killed."""

    prepare: Callable[[Path], None]
    arguments: tuple[object, ...]
    n_kills: int = 8
    unlike: tuple[str, ...] = ()  # files that tell how long things took


CASES = {
    "decode": Case(
        lambda folder: nights(folder, 400, 0.25), ("decode", "nights", *GUARD, "out", "--jobs", 2), 15
    ),
    "table": Case(
        lambda folder: nights(folder, 400, 2), ("decode", "all.parquet", *GUARD, "out/all.csv", "--jobs", 2)
    ),
    "dataset": Case(
        lambda folder: nights(folder, 480, 2),
        ("decode", "data", "--explain", *GUARD, "out/data", "--jobs", 2),
    ),
    "fit": Case(
        lambda folder: nights(folder, 8, 4),
        ("fit", "nights", "--expert", "experts", "-b", "human-psg-5", "-o", "out/lab.toml"),
    ),
    "train": Case(features, ("train", "config.toml", "--small", "-o", "out"), unlike=("log.jsonl",)),
    "study": Case(
        lambda folder: folder.mkdir(parents=True),
        ("study", "run", STUDY, "--smoke", "--jobs", 2, "-o", "out"),
        unlike=("costs", "report.md"),
    ),
}


# kills


def without_costs(value: object) -> object:
    if isinstance(value, dict):
        return {k: without_costs(v) for k, v in value.items() if not any(cost in k for cost in COSTS)}
    return [without_costs(item) for item in value] if isinstance(value, list) else value


def without_moments(path: Path) -> bytes:
    """Return what a file says, but for when and how long."""
    if path.suffix == ".parquet":
        return repr(without_costs(pq.read_table(path).to_pylist())).encode()
    if path.suffix not in {".json", ".jsonl", ".tsv", ".csv", ".md", ".toml", ".html", ".txt"}:
        return path.read_bytes()
    text = path.read_text()
    if path.suffix in {".json", ".jsonl"}:
        lines = text.splitlines() if path.suffix == ".jsonl" else [text]
        text = "\n".join(json.dumps(without_costs(json.loads(line))) for line in lines)
    return MOMENTS.sub("MOMENT", text).encode()


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in (folder / "out").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): without_moments(path) for path in files}


def differences(undisturbed: Path, other: Path, unlike: tuple[str, ...] = ()) -> list[str]:
    """Say in which files two runs differ."""
    expected, found = tree(undisturbed), tree(other)
    lines = [f"left behind: {name}" for name in found.keys() - expected.keys()]
    lines += [f"missing: {name}" for name in expected.keys() - found.keys()]
    same = [name for name in expected.keys() & found.keys() if not any(part in name for part in unlike)]
    return lines + [f"differs: {name}" for name in sorted(same) if expected[name] != found[name]]


def kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def try_case(name: str, scratch: Path, rng: random.Random) -> list[str]:
    """Kill at random moments of a run, and return what went wrong; a kill after its end is repeated."""
    case, whole, cut = CASES[name], scratch / name / "undisturbed", scratch / name / "killed"
    case.prepare(whole)
    shutil.copytree(whole, cut)
    begun = time.monotonic()
    ran = run(whole, *case.arguments)
    seconds = min(time.monotonic() - begun, 60)
    if ran.returncode:
        return [f"{name}: the undisturbed run failed: {ran.stderr[-500:]}"]
    n_hits = 0
    for _ in range(3 * case.n_kills):
        if n_hits == case.n_kills:
            break
        process = start(cut, *case.arguments)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(0.2, seconds))
        is_running = process.poll() is None
        kill(process)
        n_hits += is_running
        if not is_running:  # done before the kill: from the beginning
            shutil.rmtree(cut)
            case.prepare(cut)
    last = run(cut, *case.arguments)
    if last.returncode and "exist" not in last.stderr:
        return [f"{name}: the last run failed: {last.stderr[-500:]}"]
    wrong = differences(whole, cut, case.unlike)
    hits = f"{n_hits} of {case.n_kills} kills hit a run of {seconds:.0f} s"
    print(f"{name:12}{hits}: {'; '.join(wrong[:5]) or 'as undisturbed'}", flush=True)
    return [f"{name}: {line}" for line in wrong]


def try_review(scratch: Path, rng: random.Random, n_kills: int = 8, n_actions: int = 40) -> list[str]:
    """Kill a review server between and during actions; what was answered is there after the restart."""
    import httpx

    folder, server, url, answered = scratch / "review", None, "", 0
    nights(folder, 1, 2)
    moments = set(rng.sample(range(n_actions), n_kills))
    try:
        for k in range(n_actions):
            if server is None:
                server = start(folder, "review", "nights/n000.csv", *GUARD[:2], "--scorer", "a", "--no-open")
                assert server.stdout is not None
                url = next(word for line in server.stdout for word in line.split() if word.startswith("http"))
            base, _, token = url.partition("/#token=")
            with httpx.Client(timeout=60, headers={"X-StageGuard-Token": token}) as client:
                revision = client.get(f"{base}/api/nights/0").json()["revision"]
                if revision not in (answered, answered + 1):  # the last may have come through unanswered
                    return [f"review: revision {revision} after {answered} answers"]
                action = {"do": "set", "first": 3 * k, "last": 3 * k, "stage": k % 5, "why": ""}
                if k in moments:
                    killer = threading.Timer(rng.uniform(0, 0.05), server.kill)
                    killer.start()
                answered = revision
                with contextlib.suppress(httpx.TransportError):
                    body = {"revision": revision, "action": action}
                    answered += client.post(f"{base}/api/nights/0/actions", json=body).status_code == 200
            if k in moments:
                killer.join()
                kill(server)
                server = None
    finally:
        if server is not None:
            kill(server)
    left = sorted(path.name for path in (folder / "nights").iterdir())
    wrong = [] if left == ["n000.a.review.jsonl", "n000.csv"] else [f"review: left behind: {left}"]
    print(f"{'review':12}{n_kills} kills in {n_actions} actions: {wrong or 'nothing lost'}", flush=True)
    return wrong


# disks


@contextlib.contextmanager
def disk(folder: Path, options: str) -> Iterator[bool]:
    """Mount a small disk in memory, and tell whether that is allowed here."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", folder], check=False)


def try_disks(scratch: Path) -> list[str]:
    """Fill a disk, write to a sealed one, remove inputs, and let two runs write the same."""
    many, wrong = scratch / "many", list[str]()
    nights(many, 60, 2)
    assert run(many, "decode", "nights", *GUARD, "out").returncode == 0
    expected = tree(many)
    for what, source, output in (("files", "nights", ""), ("table", "all.parquet", "all.csv")):
        with disk(scratch / f"full-{what}", "size=256k") as is_mounted:
            if not is_mounted:
                print("disks       not tried: mounting is not allowed here")
                break
            out = scratch / f"full-{what}" / "out"
            ran = run(many, "decode", source, *GUARD, out / output)
            wrong += [f"full disk: exit code {ran.returncode}"] * (ran.returncode not in (1, 3))
            wrong += ["full disk: a traceback"] * ("Traceback" in ran.stderr)
            for path in out.glob("*.hypnogram.tsv"):
                wrong += [f"full disk: {path.name} is cut"] * (
                    path.read_bytes() != expected[f"out/{path.name}"]
                )
            wrong += [f"full disk: left behind: {path}" for path in out.rglob("*.tmp*")]
            subprocess.run(["mount", "-o", "remount,size=64m", out.parent], check=True)
            ran = run(many, "decode", source, *GUARD, out / output)  # with space, it goes on
            wrong += [f"full disk: {ran.stderr[-300:]}"] * ran.returncode
            if what == "files":
                wrong += [
                    f"full disk: {line}"
                    for line in differences(many, out.parent, ("cohort", "methods", "gram.json"))
                ]
    with disk(scratch / "sealed", "ro") as is_mounted:
        ran = run(many, "decode", "nights/n000.csv", *GUARD, scratch / "sealed" / "out")
        is_line = ran.returncode == 1 and ran.stderr.count("\n") == 1 and "Traceback" not in ran.stderr
        wrong += [f"read-only: {ran.stderr[-300:]}"] * (is_mounted and not is_line)
    wrong += try_vanishing(many, scratch / "vanishing") + try_two(many, scratch / "two")
    print(
        f"{'disks':12}{'; '.join(wrong[:5]) or 'full, sealed, emptied and shared: nothing lost'}", flush=True
    )
    return wrong


def try_vanishing(many: Path, folder: Path) -> list[str]:
    """Remove inputs while they are decoded: failures by name, the others whole."""
    shutil.copytree(many / "nights", folder / "nights")
    process = start(folder, "decode", "nights", *GUARD, "out")
    while not list((folder / "out").glob("*.hypnogram.tsv")) and process.poll() is None:
        time.sleep(0.01)
    for path in sorted((folder / "nights").iterdir())[-10:]:
        path.unlink()
    _, said = process.communicate()
    done = len(list((folder / "out").glob("*.hypnogram.tsv")))
    is_said = "Traceback" not in said and process.returncode == (3 if done < 60 else 0)
    return [] if is_said else [f"vanishing: exit code {process.returncode}, {done} of 60 done: {said[-300:]}"]


def try_two(many: Path, folder: Path) -> list[str]:
    """Let two processes write into one folder at the same time."""
    shutil.copytree(many / "nights", folder / "nights")
    both = [start(folder, "decode", "nights", *GUARD, "out") for _ in range(2)]
    wrong = ["two: a traceback" for process in both if "Traceback" in process.communicate()[1]]
    run(folder, "decode", "nights", *GUARD, "out")
    return wrong + [f"two: {line}" for line in differences(many, folder)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}, review, disks; all without")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments of the kills")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    print(f"seed {given.seed}")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in given.cases or [*CASES, "review", "disks"]:
            if case in CASES:
                wrong += try_case(case, Path(scratch), rng)
            else:
                wrong += try_review(Path(scratch), rng) if case == "review" else try_disks(Path(scratch))
    print("\n".join(wrong) or "nothing was lost")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
