"""How many scored nights a fit needs: fits on few nights, judged on other people.

    STAGEGUARD_DATA=... python learning.py              every draw that is not in learning.json yet
    STAGEGUARD_DATA=... python learning.py --part 1/2   every other task: start it twice to use two cores

A draw takes a night of each person of a fold's training nights, in random order, then second nights, until
it has as many as wanted, and is judged on the fold's test nights. Each seed goes through all tasks before the
next: a run cut short has fewer draws.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
from kept import keep, read
from methods import argmax, decode, default, fit
from tasks import Task, TaskFold, TaskNight, tasks
from transfer import compare, measures

import stageguard as sg

RESULTS = Path(__file__).parent / "learning.json"
N_NIGHTS = (2, 5, 10, 15, 26)
N_SEEDS = 8


def drawn(fold: TaskFold, n_nights: int, seed: int) -> list[TaskNight]:
    """Return nights of as many people as can be, at random; none where there are fewer than wanted."""
    subjects = np.random.default_rng((seed, n_nights)).permutation(sorted({n.subject for n in fold.train}))
    of_each = [[night for night in fold.train if night.subject == subject] for subject in subjects]
    nights = [night for each in zip_longest(*of_each) for night in each if night is not None]
    return nights[:n_nights] if len(nights) >= n_nights else []


def draw(task: Task, fold: TaskFold, train: Sequence[TaskNight]) -> dict:
    """Fit on a few nights, and compare it, and what needs no scoring of them, with argmax on test nights."""
    began = time.perf_counter()
    fitted = fit(task, train)
    seconds = time.perf_counter() - began
    own = {"cohort": task.cohort, "stager": task.stager}
    before = measures(task, fold.test, argmax(fold.test))
    result = {"chosen": fitted.provenance["chosen"], "steps_aside": fitted.provenance["steps_aside"]}
    for prefix, profile in (("", fitted), ("default_", default(task, train))):
        after = measures(task, fold.test, decode(profile, task, fold.test, **own))
        found = compare([before], [after], task)
        result[f"{prefix}kappa"] = round(float(np.mean(found["kappa"])), 5)
        result[f"{prefix}ratio"] = found["ratio"]
    return result | {"seconds": round(seconds, 1)}


def main() -> None:
    """Do every draw that is not done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", help="which of how many equal parts of the tasks, as 1/2")
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--seeds", type=int, default=N_SEEDS, help="draws of each number of nights")
    said = parser.parse_args()
    part, n_parts = map(int, said.part.split("/"))
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    chosen = [task for task in tasks() if said.only in task.name][part - 1 :: n_parts]
    for seed in range(said.seeds):
        for task in chosen:
            keys = {n: f"{task.name}, {n} nights, seed {seed}" for n in N_NIGHTS}
            if all(key in read(RESULTS) for key in keys.values()):
                continue
            folds = task.folds()
            fold = folds[seed % len(folds)]
            for n_nights, key in keys.items():
                train = drawn(fold, n_nights, seed)
                if train and key not in read(RESULTS):
                    keep(RESULTS, {key: {"task": task.name, "nights": n_nights} | draw(task, fold, train)})
            print(f"{task.name}, seed {seed}", flush=True)


if __name__ == "__main__":
    main()
