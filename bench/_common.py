"""What every bench shares: timing, nights and profiles to time, tables. Measures nothing by itself."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import stageguard as sg
from stageguard.guard import kernels
from stageguard.guard.solver import Solver, solver_for
from stageguard.profile.rules import Setting

RESULTS = Path(__file__).parent / "results"
SHORTEST_SAMPLE_SECONDS = 0.01  # well above the clock's own resolution

# The two sizes the goals are stated at: a mouse for 24 h in epochs of 4 s, and one human night.
MOUSE = {"n_epochs": 21_600, "minimum": (2, 3, 2)}
HUMAN = {"n_epochs": 1_000, "minimum": (2, 2, 3, 3, 2)}
FLIP_FLOP = {"penalty_nats": 2.0, "window_epochs": 5, "method": "exact"}


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number, and the goal it is held against if there is one."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    better: Literal["less", "more"] = "less"

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        met = self.value <= self.goal if self.better == "less" else self.value >= self.goal
        percent = 100 * abs(self.value / self.goal - 1)
        return "met" if met else f"missed by {percent:.{0 if percent >= 1 else 1}f} %"


def race(
    runners: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 25,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Return the best seconds per call of each runner; all of them run once in every round.

    Processor time by default, so that other programs on the machine count as little as they can. Runners
    take turns, so that what they do to the machine's clock and caches befalls all of them.
    """
    calls = {name: _calls_per_sample(run, clock) for name, run in runners.items()}
    best = dict.fromkeys(runners, float("inf"))
    for _ in range(rounds):
        for name, run in runners.items():
            begin = clock()
            for _ in range(calls[name]):
                run()
            best[name] = min(best[name], (clock() - begin) / calls[name])
    return best


def _calls_per_sample(run: Callable[[], object], clock: Callable[[], float]) -> int:
    run()  # whatever is prepared once, is prepared here
    begin = clock()
    run()
    return max(1, int(SHORTEST_SAMPLE_SECONDS / max(clock() - begin, 1e-7)))


def nanoseconds(seconds: float, n_epochs: int) -> float:
    return 1e9 * seconds / n_epochs


def profile_of(minimum: Sequence[int], **changes: Any) -> sg.Profile:
    """A profile with these minimum bouts in epochs: human for five stages, made up for others."""
    n = len(minimum)
    names = {3: ("W", "N", "R"), 5: ("W", "N1", "N2", "N3", "R")}.get(n, tuple(f"S{i}" for i in range(n)))
    rows = {a: {b: 0.9 if a == b else 0.1 / (n - 1) for b in names} for a in names}
    bouts = {name: 30.0 * m for name, m in zip(names, minimum, strict=True) if m > 1}
    document = {"name": f"bench-{n}", "stages": list(names), "epoch_seconds": 30.0, "transitions": rows}
    return sg.Profile.from_dict(document | {"transition_weight": 1.0, "min_bout_seconds": bouts} | changes)


def night_of(n_epochs: int, n_stages: int, seed: int = 0) -> np.ndarray:
    """Probabilities (n_epochs, n_stages) of a stager that flickers: bouts of random length seen in noise."""
    rng = np.random.default_rng(seed)
    n_bouts = n_epochs // 4 + 1
    stage = np.cumsum(rng.integers(1, n_stages, n_bouts)) % n_stages
    labels = np.repeat(stage, rng.geometric(1 / 12, n_bouts))[:n_epochs]
    labels = np.concatenate([labels, np.zeros(n_epochs - len(labels), dtype=labels.dtype)])
    logits = 3.0 * (np.arange(n_stages) == labels[:, None]) + rng.standard_normal((n_epochs, n_stages))
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True)


def path_kernel(profile: sg.Profile, nights: Sequence[np.ndarray]) -> Callable[[], list[tuple[Any, ...]]]:
    """The compiled decoder alone on probabilities, its tables made beforehand: (labels, score) per night."""
    solver: Solver = solver_for(profile, profile.epoch_seconds)
    assert solver.is_structured
    rules = (True, np.ones(solver.n_stages), *solver.bouts((1.0,), products=True))
    kernel, pairs = kernels.active.path, [(night, [(0, len(night))]) for night in nights]
    return lambda: [kernel(night, spans, *rules) for night, spans in pairs]


def automaton_kernel(profile: sg.Profile, evidence: np.ndarray) -> Callable[[], tuple[Any, ...]]:
    """The generic kernel alone on log-evidence: (labels, score)."""
    tables = automaton_tables(profile)
    return lambda: kernels.active.automaton(evidence, *tables)


def automaton_tables(profile: sg.Profile) -> tuple[np.ndarray, ...]:
    """The arrays of a profile's automaton, as kernels take them."""
    return solver_for(profile, profile.epoch_seconds).automaton_tables(Setting(1.0))


def machine() -> dict[str, Any]:
    """Describe the machine in general terms: no names, no paths."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    models = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    return {
        "processor": ", ".join(sorted(models)) or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "stageguard": sg.__version__,
        "core": kernels.active.NAME,
        "simd": getattr(kernels.active, "SIMD", "none"),
        "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
    }


def report(name: str | None, title: str, rows: Sequence[Row], **extra: Any) -> None:
    """Print the table and write it to results/<name>.json, if it has a name."""
    print(f"\n{title}\n{'=' * len(title)}")
    cells = [("", "value", "unit", "goal", "")] + [tuple(cells_of(row)) for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(5)]
    for row in cells:
        aligned = (f"{text:{side}{width}}" for text, side, width in zip(row, "<><><", widths, strict=True))
        print("  ".join(aligned).rstrip())
    sys.stdout.flush()
    if name is None:
        return
    RESULTS.mkdir(exist_ok=True)
    document = {"title": title, "machine": machine(), "rows": [asdict(row) for row in rows], **extra}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=1, default=float) + "\n", "utf-8")


def cells_of(row: Row) -> list[str]:
    """Return what, value, unit, goal and verdict as words."""
    sign = "≤" if row.better == "less" else "≥"
    goal = "" if row.goal is None else f"{sign} {row.goal:,.4g}"
    return [row.what, number(row.value), row.unit, goal, row.verdict]


def number(value: float) -> str:
    """Return three significant digits."""
    return f"{value:#.3g}" if abs(value) < 99.95 else f"{value:,.0f}"
