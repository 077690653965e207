"""Instructions per epoch of each kernel, counted by callgrind. Counts no cycles and no waiting for memory.

One process prepares every kernel and calls each once; another does the same and then calls one of them again
and again. The difference is that kernel's work: the interpreter's start cancels, and load does not count.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from _common import (
    FLIP_FLOP,
    HUMAN,
    MOUSE,
    RESULTS,
    Row,
    automaton_kernel,
    night_of,
    profile_of,
    report,
    structured_kernel,
)

import stageguard as sg
from stageguard import _kernels
from stageguard._solver import solver_for

N_CALLS = 10
TOLERANCE = 1.02  # a little of the interpreter's work does not cancel


def subjects() -> dict[str, tuple[Callable[[], object], int]]:
    """Return what is counted and the epochs (or calls) it is divided by."""
    found: dict[str, tuple[Callable[[], object], int]] = {}
    for minimum in (MOUSE["minimum"], HUMAN["minimum"]):
        k, n_epochs = len(minimum), 5_000
        night, shown = night_of(n_epochs, k), ",".join(map(str, minimum))
        weight, bouts = np.ones((1, k)), profile_of(minimum)
        free, flips = profile_of((1,) * k), profile_of(minimum, flip_flop=FLIP_FLOP)
        found |= {
            f"structured, K = {k}, m = {shown}": (structured_kernel(bouts, [night]), n_epochs),
            f"structured, K = {k}, no minimum": (structured_kernel(free, [night]), n_epochs),
            f"exact flip-flop, K = {k}, m = {shown}": (automaton_kernel(flips, [np.log(night)]), n_epochs),
            f"greedy flip-flop, K = {k}, m = {shown}": (_greedy(bouts, np.log(night)), n_epochs),
            f"argmax and checks, K = {k}": (
                lambda p=night, w=weight: _kernels.active.argmax([p], w, 1),
                n_epochs,
            ),
        }
    short, profile = night_of(100, 5), profile_of(HUMAN["minimum"])
    found["whole sg.decode of 100 epochs, K = 5"] = (lambda: sg.decode(short, profile), 1)
    return found


def _greedy(profile: sg.Profile, evidence: np.ndarray) -> Callable[[], object]:
    tables = solver_for(profile, profile.epoch_seconds).tables
    stay, change, table = tables.stay[None], tables.change.reshape(1, -1), np.zeros(1, dtype=np.int32)
    rules = (stay, change, tables.minimum_epochs, True, FLIP_FLOP["penalty_nats"], FLIP_FLOP["window_epochs"])
    return lambda: _kernels.active.greedy([evidence], table, *rules, 1)


def drive(chosen: str) -> None:
    """Call every subject once, and the chosen one more often."""
    known = subjects()
    for run, _ in known.values():
        run()
    if chosen:
        run = known[chosen][0]
        for _ in range(N_CALLS):
            run()


def instructions(chosen: str) -> int:
    """Return how many instructions a driver takes."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    out = subprocess.run(
        [*valgrind, sys.executable, __file__, "--drive", chosen],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    found = re.search(r"Collected : (\d+)", out.stderr)
    assert found, out.stderr
    return int(found[1])


def previous() -> dict[str, float]:
    """Return the counts of the last run that was kept."""
    path = RESULTS / "callgrind.json"
    if not path.exists():
        return {}
    return {row["what"]: row["value"] for row in json.loads(path.read_text("utf-8"))["rows"]}


def main() -> None:
    if shutil.which("valgrind") is None:
        print("bench_callgrind: skipped, it needs valgrind (on Debian and Ubuntu: apt install valgrind)")
        return
    known, before = subjects(), previous()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        base, *counts = pool.map(instructions, ["", *known])
    rows = []
    for (name, (_, n)), count in zip(known.items(), counts, strict=True):
        value = (count - base) / (N_CALLS * n)
        goal = TOLERANCE * before[name] if name in before else None
        rows.append(Row(name, value, "instructions/epoch" if n > 1 else "instructions/call", goal))
    report("callgrind", "Instructions of the kernels (the goal is the last kept run)", rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    if sys.argv[1:2] == ["--drive"]:
        drive(sys.argv[2])
    else:
        main()
