"""Compare ways to guard stagers on real nights, subject by subject, and write the tables.

    STAGEGUARD_DATA=... python run.py              every task that is not in results.json yet
    STAGEGUARD_DATA=... python run.py --only TEXT  those whose name contains a text
    STAGEGUARD_DATA=... python run.py --part 1/2   every other task: start it twice to use two cores
    STAGEGUARD_DATA=... python run.py --unscored   again what needs no scored night, and keep the rest
    python run.py --tables                         lay the tables out anew

What is learned from scored nights is learned on training subjects, in four folds. `stagers.py` makes the
probabilities first; those of the networks come from `networks.py` in the same cache.
Fitted profiles are kept there too, for `transfer.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import elsewhere
import numpy as np
from fitted import coverage, fitted_file
from goals import goals_table
from judging import judge
from kept import keep, read
from layout import SCORED, has_method, is_added, is_human, is_in_the_box, is_of_labels, write_tables
from methods import argmax, decode, stager_fi, with_labels, without_labels
from page import write_page
from tasks import Task, TaskNight, tasks, tasks_in_the_box, tasks_of_labels

import stageguard as sg

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
RESULTS = HERE / "results.json"
TRANSFER = HERE / "transfer.json"  # by transfer.py
LEARNING = HERE / "learning.json"  # by learning.py


def run_without_labels(task: Task) -> dict:
    """Return one row per subject and method that needs no scored night."""
    nights = [night for fold in task.folds() for night in fold.test]
    rows = list(judged(task, "argmax", nights, argmax(nights)))
    for name, profile in without_labels(task, nights).items():
        decoded = decode(profile, task, nights, cohort=task.cohort, stager=task.stager)
        rows += judged(task, name, nights, decoded)
    columns, table = by_subject(rows)
    return {
        "cohort": task.cohort,
        "kind": task.kind,
        "n_stages": task.scheme.n_stages,
        "base": task.base,
        "stager_fi": round(stager_fi(task, nights), 4),
        "fi_target": sg.Profile.load(task.base).strength.fi_target,
        "columns": columns,
        "rows": table,
    }


def run_with_labels(task: Task) -> dict:
    """Return rows of what training nights give, and how often intervals covered the expert's value."""
    rows, chosen = [], []
    covered: dict[str, list[int]] = {}  # intervals that hold the expert's value, and all, by statistic
    for number, fold in enumerate(task.folds()):
        profiles = with_labels(task, fold.train)
        fitted_file(task, number).write_text(json.dumps(profiles["fit"].to_dict()), "utf-8")
        chosen.append(str(profiles["fit"].provenance.get("reason", "")))
        for name, profile in profiles.items():
            decoded = decode(profile, task, fold.test, cohort=task.cohort, stager=task.stager)
            rows += judged(task, name, fold.test, decoded)
        for name, is_inside in coverage(task, profiles["fit"], fold.test, task.cohort, task.stager):
            if is_inside is not None:
                count = covered.setdefault(name, [0, 0])
                count[0] += is_inside
                count[1] += 1
    return {"rows": by_subject(rows)[1], "chosen": chosen, "coverage": covered}


def judged(
    task: Task, method: str, nights: Sequence[TaskNight], decoded: Sequence[np.ndarray]
) -> Iterator[dict]:
    """Yield a row per night."""
    base = sg.Profile.load(task.base)
    for night, stages in zip(nights, decoded, strict=True):
        values = judge(stages, night.labels, task.scheme, task.epoch_seconds, base)
        yield {"method": method, "subject": night.subject} | values


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


def run_unscored_again(chosen: Sequence[Task]) -> None:
    """Run what needs no scored night once more; what training nights gave stays."""
    for task in chosen:
        began = time.perf_counter()
        made, held = run_without_labels(task), read(RESULTS).get(task.name, {})
        if held and held["columns"] == made["columns"]:
            scored = [row for row in held["rows"] if row[0] in SCORED]
            made = held | made | {"rows": made["rows"] + scored}
        keep(RESULTS, {task.name: made})
        print(f"{task.name}, without labels: {time.perf_counter() - began:.0f} s", flush=True)


def run(chosen: Sequence[Task], again: bool) -> None:
    """Run what is not done: everything without labels first, because that takes minutes."""
    for task in chosen:
        if again or task.name not in read(RESULTS):
            began = time.perf_counter()
            keep(RESULTS, {task.name: run_without_labels(task)})
            print(f"{task.name}, without labels: {time.perf_counter() - began:.0f} s", flush=True)
    for task in chosen:
        result = read(RESULTS)[task.name]
        if not has_method(result, "fit"):
            began = time.perf_counter()
            learned = run_with_labels(task)
            unscored = [row for row in result["rows"] if row[0] not in SCORED]
            keep(RESULTS, {task.name: result | learned | {"rows": unscored + learned["rows"]}})
            print(f"{task.name}, with labels: {time.perf_counter() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--part", default="1/1", help="which of how many equal parts of the tasks, as 1/2")
    parser.add_argument("--again", action="store_true", help="also tasks that are there already")
    parser.add_argument(
        "--unscored", action="store_true", help="again what needs no scored night, that alone"
    )
    parser.add_argument("--tables", action="store_true", help="lay the tables out anew, run nothing")
    said = parser.parse_args()
    if said.tables:
        write_all()
        return
    part, n_parts = map(int, said.part.split("/"))
    every = [*tasks(), *tasks_in_the_box(), *tasks_of_labels()]
    chosen = [task for task in every if said.only in task.name][part - 1 :: n_parts]
    if said.unscored:
        run_unscored_again(chosen)
    else:
        run(chosen, said.again)
    write_all()


def write_all() -> None:
    """Lay out all that is kept so far."""
    every, pairs, draws = read(RESULTS), read(TRANSFER), read(LEARNING)
    held = in_order({name: task for name, task in every.items() if not is_added(task)})
    labelled = {name: task for name, task in every.items() if is_of_labels(task)}
    boxed = {name: task for name, task in every.items() if is_in_the_box(task)}
    BUILD.mkdir(parents=True, exist_ok=True)
    goals = goals_table(held, labelled, pairs)
    write_tables(held, goals, elsewhere.tables(held, pairs, draws, boxed, labelled), BUILD / "results.md")
    write_page(held, boxed, labelled)


def in_order(held: Mapping) -> dict:
    """Return people before mice, then by kind of stager, whichever task was done first."""
    kinds = ("per-epoch", "votes", "published", "network")
    ranks = {name: (not is_human(task), kinds.index(task["kind"]), name) for name, task in held.items()}
    return {name: held[name] for name in sorted(held, key=ranks.__getitem__)}


if __name__ == "__main__":
    main()
