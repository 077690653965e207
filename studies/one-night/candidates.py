"""Rules for one night alone, tried on every stager of people at hand.

    STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python candidates.py    writes results.json; minutes

A rule is the shipped profile's with other values of ``act_above``, ``typical`` and ``exponent``. Nights and
judging are those of ``../guard-on-real-data``, and every stager is also judged in wake and sleep alone.
Mice have another rule, and are left out.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "guard-on-real-data"))

import judging  # noqa: E402
import layout  # noqa: E402
import methods  # noqa: E402
import run  # noqa: E402
import tasks as real  # noqa: E402
from first_rem import first_bouts, windows  # noqa: E402

import stageguard as sg  # noqa: E402
from stageguard.night.stages import WS2  # noqa: E402

BEFORE = {"act_above": 1.5}
TRIGGERS = {f"act above {above:g}": {"act_above": above} for above in (1.75, 2.0, 2.5)}
# how much of a night's own difference is kept; the square root is what `tune` keeps
AIMS = {
    f"typical {typical:g}, exponent {exponent:g}": {**BEFORE, "typical": typical, "exponent": exponent}
    for exponent in (0.25, 0.5)
    for typical in (1.5, 1.75, 2.0, 2.25, 2.5)
}
BOTH = {f"act above {above:g}, typical 1.75": {"act_above": above, "typical": 1.75} for above in (1.75, 2.0)}
CANDIDATES = {"before": BEFORE, **TRIGGERS, **AIMS, **BOTH}
KNOWN = "the stager's own median, exponent 0.5"  # as if a table of stagers knew it
FLICKERS_ABOVE = 1.5


def people() -> Iterator[real.Task]:
    """Yield the tasks of people, and each of their stagers once more in two stages."""
    every = [task for task in (*real.tasks(), *real.tasks_of_labels()) if task.cohort != "mouse"]
    yield from every
    has_two = {(task.cohort, task.stager) for task in every if task.scheme.n_stages == 2}
    for task in every:
        if task.scheme.n_stages == 3 and (task.cohort, task.stager) not in has_two:
            yield in_two_stages(task)


def in_two_stages(task: real.Task) -> real.Task:
    """Return a task with all sleep in one stage."""

    def folds() -> list[real.TaskFold]:
        merged = []
        for fold in task.folds():
            test = []
            for night in fold.test:
                rows, labels = real.merged(night.probabilities, night.labels, task.scheme, WS2)
                test.append(replace(night, probabilities=rows, labels=labels))
            merged.append(real.TaskFold([], test))
        return merged

    name = task.name.replace("3 stages", "2 stages")
    return replace(task, name=name, scheme=WS2, base=real.WATCH[2], paper=real.PAPER[2], folds=folds)


def family(task: real.Task) -> str:
    """Return the stager, whether it gives probabilities or labels alone."""
    return task.stager.removeprefix("labels of ").lower()


def judged(task: real.Task, method: str, nights: Sequence, scored: Sequence) -> Iterator[dict]:
    """Yield a row per night, with the distance of its fragmentation from the expert's."""
    for row in run.judged(task, method, nights, scored):
        is_known = row["fi"] > 0 and row["fi_expert"] > 0
        yield row | {"fi_distance": abs(math.log(row["fi"] / row["fi_expert"])) if is_known else math.nan}


def run_task(task: real.Task) -> dict:
    """Return the rows of all candidates, and what became of the first REM under the rule before."""
    nights = [night for fold in task.folds() for night in fold.test]
    shipped = sg.Profile.load(task.base).replace(clock=methods.clock_of(task))
    rule = {"rule": "target", "fi_target": shipped.strength.fi_target}
    times = methods.stager_fi(task, nights) / rule["fi_target"]
    own = times if times > FLICKERS_ABOVE else 2.0  # a stager that does not flicker has no such median
    rows = list(judged(task, "argmax", nights, methods.argmax(nights)))
    for name, values in {**CANDIDATES, KNOWN: {**BEFORE, "typical": own}}.items():
        profile = shipped.replace(strength=rule | values)
        decoded = methods.decode(profile, task, nights, cohort=task.cohort, stager=task.stager)
        rows += judged(task, name, nights, decoded)
    columns, table = run.by_subject(rows)
    before = shipped.replace(strength=rule | BEFORE)
    return {
        "cohort": task.cohort,
        "stager": family(task),
        "kind": task.kind,
        "n_stages": task.scheme.n_stages,
        "stager_fi": round(times * rule["fi_target"], 4),
        "fi_target": rule["fi_target"],
        "columns": columns,
        "rows": table,
        "first_rem": first_bouts(task, before, nights),
        "expected_rem": windows(task, before, nights),
    }


def summary(task: Mapping) -> dict:
    """Return what is kept of a task: its kind, and each candidate's figures."""
    figures = {}
    for method in (*CANDIDATES, KNOWN):
        gains = layout.paired(task, method, "kappa")
        figures[method] = {
            "errors": layout.error_ratio(task, method),
            "fi_distance": layout.mean(task, method, "fi_distance"),
            "kappa": float(gains.mean()),
            "p": layout.p_value(gains),
            "rem_latency": layout.ratio(task, method, "rem_latency_minutes"),
            "fi_spread": spread(task, method),
        }
    kept = {key: task[key] for key in ("cohort", "stager", "kind", "n_stages", "first_rem", "expected_rem")}
    group = next(name for name in ("flickering", "good", "neither") if layout.GROUPS[name](task))
    expert = {"fi_distance": layout.mean(task, "argmax", "fi_distance"), "fi_spread": spread(task, "expert")}
    return kept | {"group": group, "argmax": expert, "candidates": figures}


def spread(task: Mapping, method: str) -> float:
    """Return the standard deviation of the log of the index over subjects."""
    name = "fi_expert" if method == "expert" else "fi"
    values = layout.values(task, "argmax" if method == "expert" else method, name).values()
    return float(np.std([math.log(value) for value in values if value > 0]))


def main() -> None:
    judging._flagged = lambda night, profile: (
        math.nan
    )  # the joint score takes half of the time, and is not used
    results = {}
    for task in people():
        results[task.name] = summary(run_task(task))
        print(task.name, flush=True)
    write_lines(HERE / "results.json", rounded(results))


def write_lines(path: Path, results: Mapping) -> None:
    """Write one task, or night, a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in results.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.4g}")
    return value


if __name__ == "__main__":
    main()
