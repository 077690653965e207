"""Compare ways to guard stagers on real nights, subject by subject, and write the tables.

    STAGEGUARD_DATA=... python run.py              every task that is not in results.json yet
    STAGEGUARD_DATA=... python run.py --only TEXT  those whose name contains a text
    python run.py --tables                         lay the tables out anew

Parameters of every method are learned on training subjects, in four folds. `stagers.py` makes the
probabilities first; those of the networks come from `../training/run.py --densities` in the same cache.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
from goals import bars
from judging import judge
from layout import write_tables
from methods import learn
from page import write_page
from tasks import Task, tasks

import stageguard as sg
from stageguard.measures.intervals import intervals, reported

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
TRANSFER = HERE / "transfer.json"  # by transfer.py


def run(task: Task) -> dict:
    """Return one row per night and method, and how often intervals covered the expert's value."""
    rows, chosen = [], []
    covered: dict[str, list[int]] = {}  # intervals that hold the expert's value, and all, by statistic
    for fold in task.folds():
        methods, fitted = learn(task, fold.train)
        chosen.append(str(fitted.provenance.get("reason", "")))
        for name, method in methods.items():
            for night, labels in zip(fold.test, method(fold.test), strict=True):
                values = judge(labels, night.labels, task.scheme, task.epoch_seconds)
                rows.append({"method": name, "subject": night.subject, "night": night.name} | values)
        for name, inside in coverage(task, fitted, fold.test):
            count = covered.setdefault(name, [0, 0])
            count[0] += inside
            count[1] += 1
    columns, table = by_subject(rows)
    return {
        "cohort": task.cohort,
        "kind": task.kind,
        "n_stages": task.scheme.n_stages,
        "chosen": chosen,
        "columns": columns,
        "rows": table,
        "coverage": covered,
    }


def coverage(task: Task, fitted: sg.Profile, nights) -> list[tuple[str, bool]]:
    """Whether each statistic's 90 % interval holds what the expert's night has."""
    found = []
    if not fitted.intervals:
        return found
    for night in nights:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.StageGuardWarning)
            result = sg.decode(
                night.probabilities, fitted, epoch_seconds=task.epoch_seconds, trained=task.trained
            )
        expert = sg.Hypnogram(night.labels.astype(np.int8), task.scheme, task.epoch_seconds)
        truth = reported(sg.sleep_statistics(expert))
        for name, one in intervals(result).items():
            if not one.reason and not math.isnan(truth[name]):
                inside = bool(one.low - 1e-9 <= truth[name] <= one.high + 1e-9)
                found.append((name, inside))
    return found


def by_subject(rows: list[dict]) -> tuple[list[str], list[list]]:
    """Average the nights of a subject; neither a night's name nor a subject's is kept."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["subject"]), []).append(row)
    subjects = {subject: f"s{k:02d}" for k, subject in enumerate(sorted({key[1] for key in groups}))}
    measures = [name for name in rows[0] if name not in ("method", "subject", "night")]
    table: list[list] = []
    for (method, subject), own in groups.items():
        means = []
        for name in measures:
            known = [row[name] for row in own if not math.isnan(row[name])]
            means.append(float(f"{np.mean(known):.5g}") if known else None)
        table.append([method, subjects[subject], len(own), *means])
    return ["method", "subject", "nights", *measures], table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--again", action="store_true", help="also tasks that are there already")
    parser.add_argument("--tables", action="store_true", help="lay the tables out anew, run nothing")
    said = parser.parse_args()
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for task in () if said.tables else tasks():
        if said.only not in task.name or (task.name in held and not said.again):
            continue
        began = time.perf_counter()
        held[task.name] = run(task)
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in held.items())
        RESULTS.write_text(f"{{\n{lines}\n}}\n")
        print(f"{task.name}: {time.perf_counter() - began:.0f} s", flush=True)
    pairs = json.loads(TRANSFER.read_text()) if TRANSFER.exists() else {}
    write_tables(held, pairs, bars(held), HERE / "results.md")
    write_page(held)


if __name__ == "__main__":
    main()
