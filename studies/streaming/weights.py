"""Every stager at hand at fixed transition weights, beside argmax and the rule of the shipped profile.

    STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python weights.py    writes weights.json

No lag limit: the whole night is decoded at once, which is what a stream without a limit gives out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from stagers_at_hand import HERE, judging, keep, methods, real, run, stagers

import stageguard as sg

RESULTS = HERE / "weights.json"
WEIGHTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
RULE = "rule"


def run_task(task: real.Task) -> dict:
    """Return one row per subject and way to decode."""
    nights = [night for fold in task.folds() for night in fold.test]
    shipped = sg.Profile.load(task.base).replace(clock=methods.clock_of(task))
    rows = list(run.judged(task, "argmax", nights, methods.argmax(nights)))
    profiles = {RULE: shipped} | {str(w): shipped.replace(transition_weight=w) for w in WEIGHTS}
    about = {"cohort": task.cohort, "stager": task.stager}
    for name, profile in profiles.items():
        rows += run.judged(task, name, nights, methods.decode(profile, task, nights, **about))
    columns, table = run.by_subject([slim(row) for row in rows])
    return {
        "cohort": task.cohort,
        "kind": task.kind,
        "n_stages": task.scheme.n_stages,
        "base": task.base,
        "stager_fi": round(methods.stager_fi(task, nights), 4),
        "fi_target": sg.Profile.load(task.base).strength.fi_target,
        "columns": columns,
        "rows": table,
    }


def slim(row: Mapping, *more: str) -> dict:
    """Return what tables and choices need of a night."""
    statistics = {f"error {name}" for name in (*judging.STATISTICS, *judging.OF_MICE)}
    kept = {"method", "subject", "kappa", "fi", *more} | statistics
    return {name: value for name, value in row.items() if name in kept}


def main() -> None:
    judging._flagged = lambda night, profile: math.nan  # the joint score is not used, and slow
    for task in stagers():
        began = time.perf_counter()
        keep(RESULTS, {task.name: run_task(task)})
        print(f"{task.name}, {task.base}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
