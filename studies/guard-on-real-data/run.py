"""Compare ways to guard stagers on real nights, subject by subject, and write the tables.

    STAGEGUARD_DATA=... python run.py              every task that is not in results.json yet
    STAGEGUARD_DATA=... python run.py --only TEXT  those whose name contains a text
    python run.py --tables                         lay the tables out anew

What is learned from scored nights is learned on training subjects, in four folds. `stagers.py` makes the
probabilities first; those of the networks come from `../training/run.py --densities` in the same cache.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from goals import goals_table
from judging import judge
from layout import SCORED, has_method, write_tables
from methods import argmax, decode, experts, stager_fi, with_labels, without_labels
from page import write_page
from tasks import Task, TaskNight, tasks

import stageguard as sg
from stageguard.measures.intervals import intervals, reported

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
TRANSFER = HERE / "transfer.json"  # by transfer.py


def run_without_labels(task: Task) -> dict:
    """Return one row per subject and method that needs no scored night."""
    nights = [night for fold in task.folds() for night in fold.test]
    rows = list(judged(task, "argmax", nights, argmax(nights)))
    for name, profile in without_labels(task, nights).items():
        rows += judged(task, name, nights, decode(profile, task, nights))
    columns, table = by_subject(rows)
    return {
        "cohort": task.cohort,
        "kind": task.kind,
        "n_stages": task.scheme.n_stages,
        "stager_fi": round(stager_fi(task, nights), 4),
        "fi_target": sg.Profile.load(task.base).strength.fi_target,
        "columns": columns,
        "rows": table,
    }


def run_with_labels(task: Task) -> dict:
    """Return rows of what training nights give, and how often intervals covered the expert's value."""
    rows, chosen = [], []
    covered: dict[str, list[int]] = {}  # intervals that hold the expert's value, and all, by statistic
    for fold in task.folds():
        profiles = with_labels(task, fold.train)
        chosen.append(str(profiles["fit"].provenance.get("reason", "")))
        for name, profile in profiles.items():
            rows += judged(task, name, fold.test, decode(profile, task, fold.test))
        for name, inside in coverage(task, profiles["fit"], fold.test):
            count = covered.setdefault(name, [0, 0])
            count[0] += inside
            count[1] += 1
    return {"rows": by_subject(rows)[1], "chosen": chosen, "coverage": covered}


def judged(
    task: Task, method: str, nights: Sequence[TaskNight], decoded: Sequence[np.ndarray]
) -> Iterator[dict]:
    """Yield a row per night."""
    for night, labels in zip(nights, decoded, strict=True):
        values = judge(labels, night.labels, task.scheme, task.epoch_seconds)
        yield {"method": method, "subject": night.subject} | values


def coverage(task: Task, fitted: sg.Profile, nights: Sequence[TaskNight]) -> Iterator[tuple[str, bool]]:
    """Yield whether each statistic's 90 % interval holds what the expert's night has."""
    if not fitted.intervals:
        return
    for night, expert in zip(nights, experts(task, nights), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.StageGuardWarning)
            result = sg.decode(
                night.probabilities,
                fitted,
                epoch_seconds=task.epoch_seconds,
                trained=task.trained,
                cohort=task.cohort,
            )
        truth = reported(sg.sleep_statistics(expert))
        for name, one in intervals(result).items():
            if not one.reason and not math.isnan(truth[name]):
                yield name, bool(one.low - 1e-9 <= truth[name] <= one.high + 1e-9)


def by_subject(rows: Sequence[dict]) -> tuple[list[str], list[list]]:
    """Average the nights of a subject; neither a night's name nor a subject's is kept."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["subject"]), []).append(row)
    subjects = {subject: f"s{k:02d}" for k, subject in enumerate(sorted({key[1] for key in groups}))}
    measures = [name for name in rows[0] if name not in ("method", "subject")]
    table: list[list] = []
    for (method, subject), nights in groups.items():
        means = []
        for name in measures:
            known = [night[name] for night in nights if not math.isnan(night[name])]
            means.append(float(f"{np.mean(known):.5g}") if known else None)
        table.append([method, subjects[subject], len(nights), *means])
    return ["method", "subject", "nights", *measures], table


def write_json(path: Path, held: dict) -> None:
    """Write one line per entry."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in held.items())
    path.write_text(f"{{\n{lines}\n}}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--again", action="store_true", help="also tasks that are there already")
    parser.add_argument("--tables", action="store_true", help="lay the tables out anew, run nothing")
    said = parser.parse_args()
    held = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    chosen = [] if said.tables else [task for task in tasks() if said.only in task.name]
    for task in chosen:
        if task.name not in held or said.again:
            began = time.perf_counter()
            held[task.name] = run_without_labels(task)
            write_json(RESULTS, held)
            print(f"{task.name}, without labels: {time.perf_counter() - began:.0f} s", flush=True)
    for task in chosen:
        result = held[task.name]
        if not has_method(result, "fit + clock"):
            began = time.perf_counter()
            learned = run_with_labels(task)
            kept = [row for row in result["rows"] if row[0] not in SCORED]
            held[task.name] = result | learned | {"rows": kept + learned["rows"], "earlier_fit": False}
            write_json(RESULTS, held)
            print(f"{task.name}, with labels: {time.perf_counter() - began:.0f} s", flush=True)
    pairs = json.loads(TRANSFER.read_text()) if TRANSFER.exists() else {}
    write_tables(held, pairs, goals_table(held), HERE / "results.md")
    write_page(held)


if __name__ == "__main__":
    main()
