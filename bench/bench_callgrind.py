"""Instructions of each kernel, and of whole calls by part, counted by callgrind: no cycles, no waiting.

One process prepares every kernel, calls each once and is counted from then on; another does the same and then
calls one of them again and again. The difference is that kernel's work: the interpreter's end cancels, and
load does not count.
"""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _common import (
    FLIP_FLOP,
    HUMAN,
    MOUSE,
    RESULTS,
    Row,
    automaton_kernel,
    night_of,
    path_kernel,
    profile_of,
    report,
)

import stageguard as sg
from stageguard.guard import kernels
from stageguard.guard.solver import solver_for

TOLERANCE = 1.02
PARTS = {
    "compiled core": "_native",
    "NumPy": "numpy",
    "C library": r"/libc[.-]|/libm[.-]",
}  # else: interpreter
MOST_DRIFT = 500_000  # between two ends of the interpreter


class Subject(NamedTuple):
    """What is counted, how many epochs one call has, and how often it is called."""

    run: Callable[[], object]
    n_epochs: int
    n_calls: int


def subjects() -> dict[str, Subject]:
    """Return all of them; calls are many enough for what does not cancel to vanish."""
    found: dict[str, Subject] = {}
    n = 5_000
    for minimum in (MOUSE["minimum"], HUMAN["minimum"]):
        k, shown = len(minimum), ",".join(map(str, minimum))
        night, weight = night_of(n, k), np.ones(k)
        bouts, free, flips = (
            profile_of(minimum),
            profile_of((1,) * k),
            profile_of(minimum, flip_flop=FLIP_FLOP),
        )
        found |= {
            f"path, K = {k}, m = {shown}": Subject(path_kernel(bouts, [night]), n, 300),
            f"path, K = {k}, no minimum": Subject(path_kernel(free, [night]), n, 300),
            f"exact flip-flop, K = {k}, m = {shown}": Subject(automaton_kernel(flips, np.log(night)), n, 20),
            f"greedy flip-flop, K = {k}, m = {shown}": Subject(_greedy(bouts, night), n, 100),
            f"argmax and checks, K = {k}": Subject(_argmax(night, weight), n, 600),
        }
    short, profile = night_of(100, 5), profile_of(HUMAN["minimum"])
    whole, mouse = night_of(1_000, 5), night_of(n, 3)
    found["whole sg.decode of 100 epochs, K = 5"] = Subject(lambda: sg.decode(short, profile), 1, 200)
    found["whole sg.decode of 1,000 epochs, K = 5"] = Subject(lambda: sg.decode(whole, profile), 1, 200)
    chain, timed = profile_of((1,) * 5), sg.Profile.load("human-psg-5").replace(transition_weight=0.3)
    nights, paper = [whole] * 100, sg.Profile.load("kdd2026-mouse-eeg-emg")
    found["whole sg.decode of 1,000 epochs, K = 5, plain chain"] = Subject(
        lambda: sg.decode(whole, chain), 1, 200
    )
    found["whole sg.decode of 100 nights of 1,000 epochs, K = 5, plain chain"] = Subject(
        lambda: sg.decode(nights, chain), 1, 10
    )
    found["whole sg.decode of 1,000 epochs with clock, K = 5"] = Subject(
        lambda: sg.decode(whole, timed), 1, 200
    )
    found["whole sg.decode of 5,000 epochs, kdd2026-mouse-eeg-emg (greedy)"] = Subject(
        lambda: sg.decode(mouse, paper), 1, 50
    )
    found["whole sg.posterior of 1,000 epochs, K = 5"] = Subject(lambda: sg.posterior(whole, profile), 1, 100)
    found["curve, K = 3, no minimum, four weights at once"] = Subject(_four_weights(mouse), n, 100)
    return found


def _argmax(night: np.ndarray, weight: np.ndarray) -> Callable[[], object]:
    return lambda: kernels.active.argmax(night, weight)


def _four_weights(night: np.ndarray) -> Callable[[], object]:
    solver = solver_for(profile_of((1,) * night.shape[1]), 30.0)
    rules = (True, np.ones(solver.n_stages), *solver.bouts((0.03, 0.06, 0.1, 0.15), products=True))
    return lambda: kernels.active.curve(night, [(0, len(night))], *rules)


def _greedy(profile: sg.Profile, night: np.ndarray) -> Callable[[], object]:
    solver = solver_for(profile, profile.epoch_seconds)
    rules = (np.ones(solver.n_stages), *solver.bouts((1.0,), products=True))
    flip_flop = (FLIP_FLOP["penalty_nats"], FLIP_FLOP["window_epochs"])
    return lambda: kernels.active.greedy(night, True, *rules, *flip_flop)


def drive(chosen: str) -> None:
    """Call every subject once, and the chosen one more often."""
    gc.disable()  # else one process collects garbage where the other does not
    known = subjects()
    for subject in known.values():
        subject.run()
    begin = subprocess.Popen(["callgrind_control", "--instr=on", str(os.getpid())], stdout=subprocess.DEVNULL)
    while begin.poll() is None:
        time.sleep(0.05)  # valgrind listens while something runs
    if chosen:
        for _ in range(known[chosen].n_calls):
            known[chosen].run()


def instructions(chosen: str) -> Counter[str]:
    """Return how many instructions a driver takes in each of `PARTS` and in the interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counts"
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={file}"]
        subprocess.run(
            [*valgrind, sys.executable, __file__, "--drive", chosen],
            capture_output=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        return by_part(file.read_text("utf-8").splitlines())


def by_part(lines: Sequence[str]) -> Counter[str]:
    """Add up callgrind's counts of each part's own instructions, without those of what it calls."""
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    part, is_of_callee = "interpreter", False
    for line in lines:
        if line.startswith(
            ("ob=", "cob=")
        ):  # a file, named in full where it comes first; cob: of what is called
            number, _, name = line.partition("=")[2].partition(" ")
            known = names.setdefault(number, name)
            if line.startswith("cob="):
                continue
            part = next((part for part, pattern in PARTS.items() if re.search(pattern, known)), "interpreter")
        elif line.startswith("calls="):
            is_of_callee = True
        elif re.match(r"[\d+*-]", line):
            _, *costs = line.split()
            counts[part] += int(costs[0]) if costs and not is_of_callee else 0
            is_of_callee = False
    return counts


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
        base, *counts, again = pool.map(instructions, ["", *known, ""])
    if abs(again.total() - base.total()) > MOST_DRIFT:
        sys.exit("bench_callgrind: two runs that count nothing differ. Run it again.")
    rows = []
    for (name, subject), count in zip(known.items(), counts, strict=True):
        count.subtract(base)
        value = count.total() / (subject.n_calls * subject.n_epochs)
        goal = TOLERANCE * before[name] if name in before else None
        unit = "instructions/epoch" if subject.n_epochs > 1 else "instructions/call"
        rows.append(Row(name, value, unit, goal))
        if subject.n_epochs == 1:
            rows += [
                Row(f"{name}: in {part}", 100 * count[part] / count.total(), "%")
                for part in (*PARTS, "interpreter")
            ]
    report("callgrind", "Instructions of the kernels (the goal is the last kept run)", rows)


if __name__ == "__main__":
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    if sys.argv[1:2] == ["--drive"]:
        drive(sys.argv[2])
    else:
        main()
