"""Review real nights by several orders of looking, answered as the experts scored; writes results.json.

python measure.py [STAGER ...]    every night of these stagers, or of all; nights that are there already stay
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "posterior"))

import looks

import stageguard as sg
from nights import Staged, eeg_stagers
from stageguard.measures.intervals import why_withheld
from stageguard.review import targets as t

HERE = Path(__file__).parent
CACHE = HERE / ".cache"

BUDGETS = (0, 10, 20, 40)
STAGERS = {  # and every which night is taken
    "Sleep-EDF, EEG boosting": 4,
    "Sleep-EDF, EEG boosting with context": 4,
    "DOD-H, votes of 20 networks of another cohort": 2,
    "DOD-H, votes of six networks": 2,
    "DOD-H, labels of DeepSleepNet": 2,
}
# Tolerances at which a review with one target stops, and those of a review with all four.
STOPS = {"tst_minutes": (10, 20), "sol_minutes": (5, 10), "waso_minutes": (10, 20)}
STOPS |= {"rem_latency_minutes": (5, 15)}
TOGETHER = {"tst_minutes": 20.0, "sol_minutes": 10.0, "waso_minutes": 20.0, "rem_latency_minutes": 15.0}


def measured(name: str, rows, expert, seed: int) -> dict:
    """Return everything about one night."""
    units = t.default_units(sg.Profile.load(looks.PROFILE).scheme, 30.0)

    def desk() -> looks.Desk:
        return looks.open_desk(name, rows, expert)

    first = desk()
    truth = looks.true_numbers(first)
    value = partial(looks.by_value, units=units)
    others = {"queue": looks.by_queue, "confidence": looks.by_confidence, "chance": looks.by_chance}
    found: dict = {
        "withheld": bool(why_withheld(first.result.decoding)),
        "kappa": {"nothing": looks.kappa(first.truth, first.result.labels)},
        "errors": {},
        "stops": {},
    }
    for order, by in ({"value": value} | others).items():
        found["errors"][order] = _errors(looks.review(desk(), by, seed, intervals=False), truth)
        if order != "chance":
            found["kappa"][order] = looks.kappa_after(desk(), by, seed)
    found["kappa"]["epochs by confidence"] = looks.kappa_after(desk(), looks.by_single_epochs, seed)
    for key in looks.SINGLE:
        by = partial(looks.by_value, units={key: units[key]})
        run = looks.review(desk(), by, seed, intervals=True)
        found["errors"][f"value of {key}"] = _errors(run, truth)
        for tolerance in STOPS[key]:
            found["stops"][f"{t.short_name(key)}={tolerance}"] = _stop(run, truth, {key: tolerance})
    run = looks.review(desk(), partial(looks.by_value, units=TOGETHER), seed, intervals=True)
    found["stops"]["together"] = _stop(run, truth, TOGETHER)
    covered = {
        key: [run[n]["intervals"][key][0] <= truth[key] <= run[n]["intervals"][key][1] for n in BUDGETS]
        for key in TOGETHER
    }
    widths = {
        key: [run[n]["intervals"][key][1] - run[n]["intervals"][key][0] for n in BUDGETS] for key in TOGETHER
    }
    return found | {"covered": covered, "widths": widths}


def _errors(run: list[dict], truth: Mapping[str, float]) -> dict:
    """Return absolute errors, keys and epochs after each budget of looks."""
    return {
        "errors": {
            key: [round(abs(run[n]["numbers"][key] - truth[key]), 3) for n in BUDGETS] for key in truth
        },
        "keys": [run[n]["keys"] for n in BUDGETS],
        "epochs": [run[n]["epochs"] for n in BUDGETS],
    }


def _stop(run: list[dict], truth: Mapping[str, float], targets: Mapping[str, float]) -> dict | None:
    """Return when a review stops, and whether its promise holds; None if it does not within the looks."""
    for n_looks, row in enumerate(run):
        numbers, intervals = row["numbers"], row["intervals"]
        if all(
            numbers[key] - target <= intervals[key][0] and intervals[key][1] <= numbers[key] + target
            for key, target in targets.items()
        ):
            errors = {key: round(abs(numbers[key] - truth[key]), 3) for key in targets}
            holds = {key: errors[key] <= target for key, target in targets.items()}
            return {
                "looks": n_looks,
                "epochs": row["epochs"],
                "keys": row["keys"],
                "errors": errors,
                "holds": holds,
            }
    return None


def main(asked: list[str]) -> None:
    path = HERE / "results.json"
    staged: dict[str, Staged] = {f"{one.cohort}, {one.stager}": one for one in eeg_stagers()}
    for stager in asked or STAGERS:
        own = staged[stager].nights[:: STAGERS[stager]]
        part = _part(stager)
        rows = json.loads(part.read_text("utf-8")) if part.exists() else []
        for number, (name, _, probabilities, expert) in enumerate(own):
            if number >= len(rows):
                rows.append(measured(name, probabilities, expert, number))
                part.write_text(json.dumps(rows), "utf-8")
                print(stager, number, flush=True)
    write(path)


def _part(stager: str) -> Path:
    CACHE.mkdir(exist_ok=True)
    return CACHE / f"{stager}.json"


def write(path: Path) -> None:
    """Put the parts together."""
    parts = {stager: _part(stager) for stager in STAGERS}
    held = {stager: json.loads(part.read_text("utf-8")) for stager, part in parts.items() if part.exists()}
    lines = []
    for stager, nights in held.items():
        rows = ",\n".join(json.dumps(night, separators=(",", ":")) for night in nights)
        lines.append(f"{json.dumps(stager)}: [\n{rows}]")
    path.write_text("{" + ",\n".join(lines) + "}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
