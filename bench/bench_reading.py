"""Reading CSV of probabilities beside pandas' reader, the same nights, with the same numbers asserted."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from _common import Row, night_of, race, report

import stageguard as sg
from stageguard.guard.decode import decode

STAGES = ("W", "N1", "N2", "N3", "R")
N_EPOCHS, N_LONG = 1_000, 100_000  # a night; and many, to leave the cost of opening a file behind
GOAL = 40.0  # MB of CSV per second and core


def table(
    probabilities: np.ndarray, number: Callable[[float], str], *, timed: bool = True, text: bool = False
) -> str:
    """One row per epoch: onset and duration, a stage in words, and the probabilities."""
    header = [*(("onset", "duration") if timed else ()), *(("Stage",) if text else ()), *STAGES]
    rows = [",".join(header)]
    for epoch, row in enumerate(probabilities.tolist()):
        cells = [f"{30.0 * epoch}", "30.0"] if timed else []
        cells += [STAGES[int(np.argmax(row))]] if text else []
        rows.append(",".join([*cells, *map(number, row)]))
    return "\n".join(rows) + "\n"


KINDS = {
    "all digits, with onset and duration": partial(table, number=repr),
    "all digits": partial(table, number=repr, timed=False),
    "six decimals, with onset and duration": partial(table, number="{:.6f}".format),
    "six decimals, and a stage in words": partial(table, number="{:.6f}".format, timed=False, text=True),
}


def measure(path: Path, what: str, goal: float | None, rounds: int) -> list[Row]:
    """Speed of ours, and how many times pandas' time it takes, with and without exact numbers."""
    import pandas as pd

    size = path.stat().st_size / 1e6
    theirs = pd.read_csv(path, float_precision="round_trip")[list(STAGES)].to_numpy()
    np.testing.assert_array_equal(sg.read_density(path).probabilities, theirs)
    best = race(
        {
            "ours": lambda: sg.read_density(path),
            "pandas": lambda: pd.read_csv(path),
            "exact": lambda: pd.read_csv(path, float_precision="round_trip"),
        },
        rounds=rounds,
    )
    speed = size / best["ours"]
    return [
        Row(f"{what}: speed", speed, f"MB/s ({1e3 * best['ours']:.2f} ms for {size:.3f} MB)", goal, "more"),
        Row(f"{what}: compared with pandas, exact numbers", best["exact"] / best["ours"], "× as fast"),
        Row(
            f"{what}: compared with pandas, its default",
            best["pandas"] / best["ours"],
            "× as fast",
        ),
    ]


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "night.csv"
        for what, make in KINDS.items():
            path.write_text(make(night_of(N_EPOCHS, 5)))
            rows += measure(path, f"one night, {what}", GOAL, rounds=25)
        for what, make in KINDS.items():
            path.write_text(make(night_of(N_LONG, 5)))
            rows += measure(path, f"{N_LONG:,} epochs, {what}", GOAL, rounds=5)
        path.write_text(KINDS["all digits, with onset and duration"](night_of(N_EPOCHS, 5)))
        density = sg.read_density(path)
        best = race({"read": lambda: sg.read_density(path), "decode": lambda: decode(density, "human-psg-5")})
        rows.append(
            Row("reading a night, compared with decoding it", best["read"] / best["decode"], "× the time")
        )
    report("reading", "Reading CSV of probabilities, compared with pandas", rows)


if __name__ == "__main__":
    main()
