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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet

import stageguard as sg

STAGEGUARD = [sys.executable, "-m", "stageguard.cli"]
STUDIES = Path(__file__).parents[1] / "studies"
# What differs between two runs that do the same: when, and how long.
MOMENTS = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")
COSTS = ("seconds", "peak_memory", "begun", "ended", "when", "created")


@dataclass
class Case:
    """A command that writes into a folder `out`, what it needs beside it, and how often it is killed."""

    prepare: Callable[[Path], None]
    arguments: Callable[[Path], list[str]]
    n_kills: int
    input: Callable[[Path], bytes] | None = None
    unlike: tuple[str, ...] = ()  # files that tell how long things took


def nights(folder: Path, n: int, hours: float = 1) -> None:
    (folder / "nights").mkdir(parents=True)
    (folder / "experts").mkdir()
    for seed in range(n):
        night = sg.simulate_night("human-psg-5", hours=hours, seed=seed)
        night.density.save(folder / "nights" / f"n{seed:03d}.csv")
        night.expert.save(folder / "experts" / f"n{seed:03d}.txt")


def dataset(folder: Path, n_sites: int = 40, n_nights: int = 12) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for site in range(n_sites):
        nights = [sg.simulate_night("human-psg-5", hours=2, seed=seed).density for seed in range(n_nights)]
        frames = [night.to_frame().assign(id=f"s{site}n{k}") for k, night in enumerate(nights)]
        tables = [pa.Table.from_pandas(frame, preserve_index=False) for frame in frames]
        (folder / "data" / f"site={site}").mkdir(parents=True)
        pq.write_table(pa.concat_tables(tables), folder / "data" / f"site={site}" / "part-0.parquet")


def features(folder: Path) -> None:
    run(
        [
            "simulate",
            "--modality",
            "actigraphy",
            "--subjects",
            "4",
            "--hours",
            "2",
            "--seed",
            "1",
            "-o",
            folder / "cohort",
        ]
    )
    (folder / "config.toml").write_text(
        f"data = {json.dumps(str(folder / 'cohort'))}\ndataset = 'sleep-accel'\nrecipe = 'actigraphy'\n"
        "output = 'model'\nbackbone = 'accusleep'\n"
        "profile = 'human-actigraphy-2'\npenalty_weight = 0.0\nsteps = 60\nevaluate_every = 5\n"
    )


CASES = {
    "decode": Case(
        lambda folder: nights(folder, 500, 0.25),
        lambda folder: [
            "decode",
            folder / "nights",
            "-p",
            "human-psg-5",
            "-o",
            folder / "out",
            "--jobs",
            "2",
        ],
        n_kills=15,
    ),
    "dataset": Case(
        dataset,
        lambda folder: [
            *("decode", folder / "data", "-p", "human-psg-5", "--explain"),
            *("-o", folder / "out" / "decoded", "--jobs", "2"),
        ],
        n_kills=8,
    ),
    "fit": Case(
        lambda folder: nights(folder, 8, 4),
        lambda folder: [
            *("fit", folder / "nights", "--expert", folder / "experts", "-b", "human-psg-5"),
            *("-o", folder / "out" / "lab.toml"),
        ],
        n_kills=8,
    ),
    "train": Case(
        features,
        lambda folder: ["train", folder / "config.toml", "--small", "-o", folder / "out"],
        n_kills=8,
        unlike=("log.jsonl",),
    ),
    "study": Case(
        lambda folder: None,
        lambda folder: [
            "study",
            "run",
            STUDIES / "mouse-sim.toml",
            "--smoke",
            "--jobs",
            "2",
            "-o",
            folder / "out",
        ],
        n_kills=10,
        unlike=("costs", "report.md"),
    ),
}


def run(arguments: list[object], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its output is text."""
    command = [*STAGEGUARD, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def without_moments(path: Path, folder: Path) -> bytes:
    """Return what a file says, but for when and how long, and for the folder that it lies in."""
    data = path.read_bytes()
    if path.suffix == ".parquet":
        return repr(without_costs(pyarrow.parquet.read_table(path).to_pylist())).encode()
    if path.suffix not in {".json", ".jsonl", ".tsv", ".csv", ".md", ".toml", ".html", ".txt"}:
        return data
    text = data.decode().replace(str(folder), "FOLDER")
    if path.suffix in {".json", ".jsonl"}:
        lines = text.splitlines() if path.suffix == ".jsonl" else [text]
        text = "\n".join(json.dumps(without_costs(json.loads(line))) for line in lines)
    return MOMENTS.sub("MOMENT", text).encode()


def without_costs(value: object) -> object:
    if isinstance(value, dict):
        return {k: without_costs(v) for k, v in value.items() if not any(cost in k for cost in COSTS)}
    return [without_costs(item) for item in value] if isinstance(value, list) else value


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in (folder / "out").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): without_moments(path, folder) for path in files}


def differences(case: Case, undisturbed: Path, killed: Path) -> list[str]:
    """Say in which files two runs differ."""
    expected, found = tree(undisturbed), tree(killed)
    lines = [f"left behind: {name}" for name in found.keys() - expected.keys()]
    lines += [f"missing: {name}" for name in expected.keys() - found.keys()]
    same = expected.keys() & found.keys()
    lines += [
        f"differs: {name}"
        for name in sorted(same)
        if expected[name] != found[name] and not any(part in name for part in case.unlike)
    ]
    return lines


def kill_and_go_on(case: Case, folder: Path, seconds: float, rng: random.Random) -> int:
    """Kill at random moments of a run that takes so long undisturbed; returns how many kills hit.

    A kill that comes after the end is repeated, up to three tries per kill.
    """
    n_hits = 0
    for _ in range(3 * case.n_kills):
        if n_hits == case.n_kills:
            break
        process = subprocess.Popen(
            [*STAGEGUARD, *map(str, case.arguments(folder))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(rng.uniform(0.2, seconds))
        is_running = process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        n_hits += is_running
        if not is_running:  # done before the kill: from the beginning
            shutil.rmtree(folder / "out", ignore_errors=True)
            (folder / "out").mkdir() if case.arguments(folder)[0] == "fit" else None
    return n_hits


def try_case(name: str, scratch: Path, rng: random.Random) -> list[str]:
    """Return what went wrong."""
    case = CASES[name]
    folders = scratch / name / "undisturbed", scratch / name / "killed"
    folders[0].mkdir(parents=True)
    case.prepare(folders[0])
    if name == "fit":
        (folders[0] / "out").mkdir()
    shutil.copytree(folders[0], folders[1])
    config = folders[1] / "config.toml"
    if config.exists():
        config.write_text(config.read_text().replace(str(folders[0]), str(folders[1])))
    begun = time.monotonic()
    ran = run(case.arguments(folders[0]))
    seconds = time.monotonic() - begun
    if ran.returncode:
        return [f"{name}: the undisturbed run failed: {ran.stderr[-500:]}"]
    n_hits = kill_and_go_on(case, folders[1], min(seconds, 60), rng)
    last = run(case.arguments(folders[1]))
    if last.returncode and "exist" not in last.stderr:
        return [f"{name}: the last run failed: {last.stderr[-500:]}"]
    wrong = differences(case, *folders)
    hits = f"{n_hits} of {case.n_kills} kills hit a run of {seconds:.0f} s"
    print(f"{name:12}{hits}: {'; '.join(wrong[:5]) or 'as undisturbed'}", flush=True)
    return [f"{name}: {line}" for line in wrong]


def try_review(scratch: Path, rng: random.Random, n_kills: int = 8, n_actions: int = 40) -> list[str]:
    """Kill a review server between and during actions; what was answered is there after the restart."""
    import httpx

    folder = scratch / "review"
    nights(folder, 1, 2)
    command = [*STAGEGUARD, "review", folder / "nights" / "n000.csv", "-p", "human-psg-5"]
    command += ["--scorer", "a", "--no-open"]
    moments = set(rng.sample(range(n_actions), n_kills))
    server, url = None, ""
    revision = answered = 0
    try:
        for k in range(n_actions):
            if server is None:
                server = subprocess.Popen(
                    [*map(str, command), "--no-open"], stdout=subprocess.PIPE, text=True
                )
                assert server.stdout is not None
                url = next(word for line in server.stdout for word in line.split() if word.startswith("http"))
            base, _, token = url.partition("/#token=")
            with httpx.Client(timeout=60, headers={"X-StageGuard-Token": token}) as client:
                state = client.get(f"{base}/api/nights/0").json()
                if state["revision"] not in (
                    answered,
                    answered + 1,
                ):  # the last may have come through unanswered
                    return [f"review: revision {state['revision']} after {answered} answers"]
                answered = revision = state["revision"]
                action = {"do": "set", "first": 3 * k, "last": 3 * k, "stage": k % 5, "why": ""}
                if k in moments:
                    killer = threading.Timer(rng.uniform(0, 0.05), server.kill)
                    killer.start()
                with contextlib.suppress(httpx.TransportError):
                    body = {"revision": revision, "action": action}
                    answered += client.post(f"{base}/api/nights/0/actions", json=body).status_code == 200
            if k in moments:
                killer.join()
                server.wait()
                server = None
    finally:
        if server is not None:
            server.terminate()
            server.wait()
    left = sorted(path.name for path in (folder / "nights").iterdir())
    wrong = [] if left == ["n000.a.review.jsonl", "n000.csv"] else [f"review: left behind: {left}"]
    print(
        f"{'review':12}{n_kills} kills in {n_actions} actions: {'; '.join(wrong) or 'nothing lost'}",
        flush=True,
    )
    return wrong


def try_full_disk(scratch: Path) -> list[str]:
    """Write to a disk of 256 kB: one line and exit code 1, and what was written is whole."""
    disk = scratch / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True
    ).returncode:
        print("full disk   not tried: mounting is not allowed here")
        return []
    try:
        nights(scratch / "many", 60, 2)
        ran = run(["decode", scratch / "many" / "nights", "-p", "human-psg-5", "-o", disk / "out"])
        wrong = [] if ran.returncode == 1 else [f"full disk: exit code {ran.returncode}"]
        wrong += ["full disk: a traceback"] if "Traceback" in ran.stderr else []
        for table in (disk / "out").glob("*.hypnogram.tsv"):
            if sg.read_hypnogram(table).n_epochs != 240:
                wrong.append(f"full disk: {table.name} is cut")
        wrong += [
            f"full disk: left behind: {path.name}"
            for path in disk.rglob("*")
            if ".tmp" in path.name or path.name.startswith(".")
        ]
    finally:
        subprocess.run(["umount", disk], check=False)
    print(f"{'full disk':12}{'; '.join(wrong) or ran.stderr.strip().splitlines()[-1][:160]}")
    return wrong


def try_read_only(scratch: Path) -> list[str]:
    """Write where nothing can be written."""
    disk = scratch / "sealed"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", disk], capture_output=True).returncode:
        print("read-only   not tried: mounting is not allowed here")
        return []
    try:
        ran = run(
            ["decode", scratch / "many" / "nights" / "n000.csv", "-p", "human-psg-5", "-o", disk / "out"]
        )
    finally:
        subprocess.run(["umount", disk], check=False)
    is_line = ran.returncode == 1 and ran.stderr.count("\n") == 1 and "Traceback" not in ran.stderr
    print(f"{'read-only':12}{ran.stderr.strip()[:160]}")
    return [] if is_line else [f"read-only: {ran.stderr[-300:]}"]


def try_vanishing(scratch: Path) -> list[str]:
    """Remove inputs while they are decoded: failures by name, the others whole."""
    folder = scratch / "vanishing"
    shutil.copytree(scratch / "many" / "nights", folder / "nights")
    command = [*STAGEGUARD, "decode", folder / "nights", "-p", "human-psg-5", "-o", folder / "out"]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list((folder / "out").glob("*.hypnogram.tsv")) and process.poll() is None:
        time.sleep(0.01)
    for path in sorted((folder / "nights").iterdir())[-10:]:
        path.unlink()
    _, said = process.communicate()
    done = len(list((folder / "out").glob("*.hypnogram.tsv")))
    wrong = ["vanishing: a traceback"] if "Traceback" in said else []
    wrong += (
        []
        if process.returncode == (done < 60)
        else [f"vanishing: exit code {process.returncode}, {done} of 60 done"]
    )
    print(f"{'vanishing':12}{'; '.join(wrong) or f'{done} of 60 nights decoded'}")
    return wrong


def try_two(scratch: Path) -> list[str]:
    """Let two processes write into one folder at the same time."""
    folder = scratch / "two"
    shutil.copytree(scratch / "many" / "nights", folder / "nights")
    command = [*STAGEGUARD, "decode", folder / "nights", "-p", "human-psg-5", "-o", folder / "out"]
    both = [
        subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate()[1] for process in both]
    wrong = ["two: a traceback"] if any("Traceback" in text for text in said) else []
    run([*command[len(STAGEGUARD) :]])
    alone = scratch / "alone"
    shutil.copytree(scratch / "many" / "nights", alone / "nights")
    run(["decode", alone / "nights", "-p", "human-psg-5", "-o", alone / "out"])
    wrong += [f"two: {line}" for line in differences(CASES["decode"], alone, folder)]
    print(f"{'two at once':12}{'; '.join(wrong[:5]) or 'as alone'}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}, review, disks; all without")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments of the kills")
    given = parser.parse_args()
    cases = given.cases or [*CASES, "review", "disks"]
    rng = random.Random(given.seed)
    print(f"seed {given.seed}")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for case in cases:
            if case in CASES:
                wrong += try_case(case, scratch, rng)
            elif case == "review":
                wrong += try_review(scratch, rng)
            else:
                wrong += [
                    *try_full_disk(scratch),
                    *try_read_only(scratch),
                    *try_vanishing(scratch),
                    *try_two(scratch),
                ]
    print("\n".join(wrong) or "nothing was lost")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
