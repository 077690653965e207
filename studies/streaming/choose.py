"""Choose the weights for streams of each profile from weights.json, also with every cohort left out.

    python choose.py    writes results.json

For an unknown stager: of the weights that harm no stager that does not flicker (errors up to 1.02 of
argmax's, kappa down by .002 at most), that with the least errors over all stagers. For a stager that
flickers: the least errors over those, kappa down by .002 at most for each. A smaller weight is taken if its
errors are within .01 of the least. Cohorts count equally. Errors are those of ``../guard-on-real-data``: mean
absolute error over argmax's, averaged over statistics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
from stagers_at_hand import HERE, layout, read
from weights import RESULTS, WEIGHTS

CHOSEN = HERE / "results.json"
MOST_HARM, MOST_KAPPA_LOST = 1.02, 0.002
AS_GOOD = 0.01
Tasks = Sequence[Mapping]


def is_worse(task: Mapping, weight: float) -> bool:
    """Whether kappa is below argmax's."""
    return bool(layout.paired(task, str(weight), "kappa").mean() < -MOST_KAPPA_LOST)


def errors(tasks: Tasks, weight: float) -> float:
    """Return the geometric mean of the errors over argmax's, every cohort counted once."""
    by_cohort: dict[str, list[float]] = {}
    for task in tasks:
        by_cohort.setdefault(task["lab"], []).append(np.log(layout.error_ratio(task, str(weight))))
    return float(np.exp(np.mean([np.mean(logs) for logs in by_cohort.values()])))


def for_unknown(tasks: Tasks) -> float:
    steady = [task for task in tasks if not layout.is_flickering(task)]
    harmless = [w for w in WEIGHTS if w == 0.0 or not any(is_harmed(task, w) for task in steady)]
    return smallest_good(tasks, harmless)


def is_harmed(task: Mapping, weight: float) -> bool:
    return layout.error_ratio(task, str(weight)) > MOST_HARM or is_worse(task, weight)


def for_flickering(tasks: Tasks) -> float | None:
    flickering = [task for task in tasks if layout.is_flickering(task)]
    allowed = [w for w in WEIGHTS if not any(is_worse(task, w) for task in flickering)]
    return smallest_good(flickering, allowed) if flickering else None


def smallest_good(tasks: Tasks, weights: Sequence[float]) -> float:
    """Return the smallest weight whose errors are about the least."""
    found = {weight: errors(tasks, weight) for weight in weights}
    return next(weight for weight, error in found.items() if error <= min(found.values()) + AS_GOOD)


def left_out(tasks: Tasks, key: str) -> list[dict]:
    """Return what the others choose for each cohort, or stager, and how it does there."""
    found = []
    for name in sorted({task[key] for task in tasks}):
        others = [task for task in tasks if task[key] != name]
        held = [task for task in tasks if task[key] == name]
        if not others:
            continue
        unknown, flickering = for_unknown(others), for_flickering(others)
        steady = [task for task in held if not layout.is_flickering(task)]
        flickers = [task for task in held if layout.is_flickering(task)]
        row: dict = {"left_out": name, "unknown": unknown, "flickering": flickering}
        if steady:
            row["errors_steady"] = round(errors(steady, unknown), 4)
            row["worst_steady"] = round(max(layout.error_ratio(t, str(unknown)) for t in steady), 4)
        if flickers:
            row["errors_flickering_unknown"] = round(errors(flickers, unknown), 4)
            if flickering is not None:
                row["errors_flickering"] = round(errors(flickers, flickering), 4)
        found.append(row)
    return found


def main() -> None:
    every = read(RESULTS)
    chosen = {}
    for base in sorted({task["base"] for task in every.values()}):
        tasks = []
        for name, task in every.items():
            if task["base"] == base:
                place, _, stager = name.partition(", ")
                tasks.append(task | {"lab": place, "stager": stager.rpartition(", ")[0] or stager})
        chosen[base] = {
            "transition_weight": for_unknown(tasks),
            "flickering": for_flickering(tasks),
            "n_steady": sum(not layout.is_flickering(task) for task in tasks),
            "n_flickering": sum(layout.is_flickering(task) for task in tasks),
            "cohorts": sorted({task["lab"] for task in tasks}),
            "without_cohort": left_out(tasks, "lab"),
            "without_stager": left_out(tasks, "stager"),
        }
    CHOSEN.write_text(json.dumps(chosen, indent=1) + "\n", "utf-8")
    for base, found in chosen.items():
        print(base, found["transition_weight"], found["flickering"])


if __name__ == "__main__":
    main()
