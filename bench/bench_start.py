"""What `stageguard decode night.csv` costs from start to end, beside `import numpy`, in processor time."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from _common import Row, report

import stageguard as sg

ROUNDS = 9
# Byte code is kept, as it is wherever a package is installed; whoever forbids that compiles on every start.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(command: Sequence[str]) -> float:
    """Return the processor time of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def instructions(command: Sequence[str]) -> int:
    """Return how many instructions one process takes."""
    counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    fixed = ENVIRONMENT | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(counted, capture_output=True, check=True, text=True, env=fixed)
    found = re.search(r"Collected : (\d+)", out.stderr)
    assert found is not None, out.stderr
    return int(found.group(1))


def main() -> None:
    """Let the commands take turns, and report each beside `import numpy`."""
    with TemporaryDirectory() as folder:
        night = Path(folder, "night.csv")
        sg.simulate_night("human-psg-5", hours=8, seed=1).density.save(night)
        stageguard = [sys.executable, "-m", "stageguard.cli"]
        decode = [*stageguard, "decode", str(night), "-p", "human-psg-5", "--overwrite"]
        modules = "import stageguard.cli.app, stageguard.cli.commands.decode"
        commands = {
            "import numpy": [sys.executable, "-c", "import numpy"],
            "python alone": [sys.executable, "-c", "pass"],
            "stageguard --help": [*stageguard, "--help"],
            "numpy and the modules of decode, imported": [sys.executable, "-c", modules],
            "stageguard decode night.csv": decode,
        }
        for command in commands.values():
            cpu_seconds(command)  # writes the byte code
        seconds = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                seconds[name].append(cpu_seconds(command))
        least = {name: min(found) for name, found in seconds.items()}
        base, *others = commands
        rows = [Row(base, least[base], "s of CPU")]
        for name in others:
            goal = 3.5 if name.startswith("stageguard decode") else None
            rows.append(Row(f"{name} / {base}", least[name] / least[base], "x", goal))
        if shutil.which("valgrind"):
            counts = {name: instructions(command) for name, command in commands.items()}
            rows += [
                Row(f"{name}, callgrind", count / 1e6, "million instructions")
                for name, count in counts.items()
            ]
    report("start", "Whole processes, in processor time", rows)


if __name__ == "__main__":
    main()
