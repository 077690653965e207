"""The decoder's own speed and size. What people call is in bench_goals.py, peers are in bench_peers.py."""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _common import (
    FLIP_FLOP,
    HUMAN,
    MOUSE,
    Row,
    automaton_kernel,
    automaton_tables,
    nanoseconds,
    night_of,
    path_kernel,
    profile_of,
    race,
    report,
)

import stageguard as sg
from stageguard.synthetic.night import simulate_night

N_NIGHTS = 5_800
WHOLE_CALL_GOALS = {"fixed": 1.0, "band, untouched": 1.5}


def kernel_alone() -> list[Row]:
    """Compiled decoder on one contiguous array of probabilities; labels, score and switches come out."""
    runners, sizes, goals = {}, {}, {}
    for size, goal in ((MOUSE, 10.0), (HUMAN, 18.0)):
        n_epochs, minimum = size["n_epochs"], size["minimum"]
        for bouts in (minimum, (1,) * len(minimum)):
            shown = ",".join(map(str, bouts)) if max(bouts) > 1 else "none"
            name = f"kernel, T = {n_epochs:,}, K = {len(bouts)}, minimum bouts {shown}"
            runners[name] = path_kernel(profile_of(bouts), [night_of(n_epochs, len(bouts))])
            sizes[name], goals[name] = n_epochs, goal
    best = race(runners, rounds=40)
    return [Row(name, nanoseconds(s, sizes[name]), "ns/epoch", goals[name]) for name, s in best.items()]


def exact_flip_flop() -> list[Row]:
    """The generic kernel on the automaton of the exact flip-flop window, from log-probabilities."""
    rows = []
    for size, goal in ((MOUSE, 200.0), (HUMAN, 1000.0)):
        n_epochs, minimum = size["n_epochs"], size["minimum"]
        profile = profile_of(minimum, flip_flop=FLIP_FLOP)
        kernel = automaton_kernel(profile, np.log(night_of(n_epochs, len(minimum))))
        seconds = race({"": kernel}, rounds=15)[""]
        shown, n_states = ",".join(map(str, minimum)), len(automaton_tables(profile)[0])
        what = f"exact flip-flop, T = {n_epochs:,}, K = {len(minimum)}, m = {shown} ({n_states} states)"
        rows.append(Row(what, nanoseconds(seconds, n_epochs), "ns/epoch", goal))
    return rows


def whole_call() -> list[Row]:
    """`sg.decode` from a float64 array to the result object, beside one pass of NumPy over that array."""
    mouse = sg.Profile.load("mouse-eeg-emg-3")
    night = np.array(simulate_night(mouse, hours=24, seed=1).density.probabilities)
    calm = 0.1 * night + 0.9 * np.eye(3)[sg.decode(night, mouse).hypnogram.labels]
    assert len(night) == MOUSE["n_epochs"]
    assert sg.decode(calm, mouse).strength.step == "untouched"
    bouts = {"W": 8.0, "N": 12.0, "R": 8.0}
    cases = {
        "fixed, no minimum bouts": (night, mouse.replace(transition_weight=0.3)),
        "band, untouched": (calm, mouse),
        "exact flip-flop, m = 2,3,2": (
            night,
            mouse.replace(transition_weight=0.3, min_bout_seconds=bouts, flip_flop=FLIP_FLOP),
        ),
    }
    runners = {name: lambda held=arguments: sg.decode(*held) for name, arguments in cases.items()}
    best = race({**runners, "log": lambda: np.log(night), "argmax": lambda: night.argmax(1)}, rounds=40)
    yardstick = max(best.pop("log"), best.pop("argmax"))
    rows = [Row("max(np.log, argmax) of T = 21,600, K = 3", nanoseconds(yardstick, len(night)), "ns/epoch")]
    for name, seconds in best.items():
        goal = next((goal for start, goal in WHOLE_CALL_GOALS.items() if name.startswith(start)), None)
        rows.append(Row(f"sg.decode, {name}", seconds / yardstick, "× max(np.log, argmax)", goal))
    return rows


def many_nights() -> list[Row]:
    """5,800 nights in one call: the kernel on one thread, and `sg.decode` with 5,800 result objects."""
    n_epochs, minimum = HUMAN["n_epochs"], HUMAN["minimum"]
    stack = night_of(N_NIGHTS * n_epochs, len(minimum)).reshape(N_NIGHTS, n_epochs, len(minimum))
    with_bouts, without = profile_of(minimum), profile_of((1,) * len(minimum))
    runners = {
        "sum": stack.sum,
        "kernel on one thread, minimum bouts 2,2,3,3,2": path_kernel(with_bouts, stack),
        "kernel on one thread, no minimum bouts": path_kernel(without, stack),
        "sg.decode(list), human-psg-5 (target, clock)": lambda: sg.decode(list(stack), "human-psg-5"),
    }
    best = race(runners, rounds=5)
    yardstick = best.pop("sum")
    rows = [Row("array.sum() of 5,800 × 1,000 × 5", 1e3 * yardstick, "ms")]
    for name, seconds in best.items():
        goal = 8.0 if "kernel" in name else 60.0
        unit = "× array.sum()" if "kernel" in name else "× array.sum(), all threads' time"
        rows.append(Row(f"5,800 nights, {name}", seconds / yardstick, unit, goal))
    return rows


TIMED_IMPORT = "import time; t = time.process_time(); import {}; print(time.process_time() - t)"


def start_up() -> list[Row]:
    """Imports timed inside fresh interpreters, `--help` as the whole process; best of twenty turns."""
    imports = {
        "numpy": "numpy",
        "import stageguard": "stageguard",
        "import stageguard, with all that sg.decode needs": "stageguard.guard.decode",
    }
    best = dict.fromkeys([*imports, "help"], float("inf"))
    for _ in range(20):
        for name, module in imports.items():
            out = _python("-c", TIMED_IMPORT.format(module))
            best[name] = min(best[name], float(out))
        before = _children_seconds()
        assert "decode" in _python("-m", "stageguard.cli", "--help")
        best["help"] = min(best["help"], _children_seconds() - before)
    numpy = best.pop("numpy")
    rows = [Row("import numpy", 1e3 * numpy, "ms of CPU")]
    help_seconds, lazily, *whole = best.pop("help"), *best
    rows.append(Row(lazily, best[lazily] / numpy, "× import numpy", 1.5))
    rows += [Row(name, best[name] / numpy, "× import numpy") for name in whole]
    return [*rows, Row("stageguard --help", help_seconds, "s of CPU, the whole process", 0.5)]


def _python(*arguments: str) -> str:
    """Return what a fresh interpreter prints."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def memory() -> list[Row]:
    """Peak memory that one structured decode adds to its input, in fresh processes of growing size."""
    rows = []
    if not Path("/proc/self/status").exists():
        print("memory: skipped, its peak is read from Linux's /proc")
        return rows
    for minimum in (MOUSE["minimum"], HUMAN["minimum"]):
        sizes = [2**18, 2**19, 2**20, 2**21]
        extra = [_extra_bytes(n, minimum) for n in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(extra), 1)[0])
        k, shown = len(minimum), ",".join(map(str, minimum))
        what = f"extra memory of sg.decode, K = {k}, m = {shown}"
        rows.append(Row(f"{what}, T = {sizes[-1]:,}", extra[-1] / (sizes[-1] * k * 8), "× the input array"))
        rows.append(Row(f"{what}: growth with T", slope, "power of T", 1.05))
    return rows


def _extra_bytes(n_epochs: int, minimum: Sequence[int]) -> float:
    return float(_python(__file__, "--memory", str(n_epochs), *map(str, minimum)))


def print_extra_memory(n_epochs: int, minimum: Sequence[int]) -> None:
    """Decode a short night, then a long one, and print by how many bytes the second raised the peak."""
    short, profile = night_of(256, len(minimum)), profile_of(minimum)
    sg.decode(short, profile)
    night = np.empty((n_epochs, len(minimum)))  # filled in place, so that nothing larger came before
    night.reshape(-1, *short.shape)[:] = short
    before = _peak_bytes()
    sg.decode(night, profile)
    print(_peak_bytes() - before)


def _peak_bytes() -> int:
    """Peak of this program alone; getrusage's would begin at that of the process it was started from."""
    (line,) = (s for s in Path("/proc/self/status").read_text("ascii").splitlines() if s.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def main() -> None:
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    rows = [
        *kernel_alone(),
        *exact_flip_flop(),
        *whole_call(),
        *many_nights(),
        *start_up(),
        *memory(),
    ]
    report("kernel", "The decoder's own speed and size", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print_extra_memory(int(sys.argv[2]), [int(m) for m in sys.argv[3:]])
    else:
        main()
