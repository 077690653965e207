"""Use fitted profiles on stagers and cohorts they were not fitted on, and write what that does.

    STAGEGUARD_DATA=... python transfer.py              every pair of tasks that has a fitted profile
    STAGEGUARD_DATA=... python transfer.py --part 1/2   every other task: start it twice to use two cores

The profile of each fold, fitted by `run.py`, decodes the same fold of every other task with its stages. Where
both tasks are of one cohort their folds hold the same people, so nobody is on both sides.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from fitted import coverage, fitted_file
from judging import OF_MICE, STATISTICS, judge
from kept import keep, read
from methods import argmax, decode, default
from tasks import Task, TaskFold, TaskNight, tasks

import stageguard as sg

RESULTS = Path(__file__).parent / "transfer.json"
N_FOLDS = 4


def main() -> None:
    """Decode every task with the profiles of all others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", help="which of how many equal parts of the tasks, as 1/2")
    part, n_parts = map(int, parser.parse_args().part.split("/"))
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    usable = [task for task in tasks() if fitted_file(task, N_FOLDS - 1).exists()]
    for task in usable[part - 1 :: n_parts]:
        others = [one for one in usable if one.scheme == task.scheme and one.name != task.name]
        others = [one for one in others if one.epoch_seconds == task.epoch_seconds]
        missing = [one for one in others if pair_name(one, task) not in read(RESULTS)]
        if not missing:
            continue
        began, folds = time.perf_counter(), task.folds()
        before = [measures(task, fold.test, argmax(fold.test)) for fold in folds]
        for other in missing:
            keep(RESULTS, {pair_name(other, task): use(other, task, folds, before)})
        print(f"{task.name}: {len(missing)} pairs, {time.perf_counter() - began:.0f} s", flush=True)


def pair_name(fitted_on: Task, used_on: Task) -> str:
    return f"{fitted_on.name} → {used_on.name}"


def use(other: Task, task: Task, folds: Sequence[TaskFold], before: Sequence[list[dict]]) -> dict:
    """Decode a task with the profiles of another: cohort and stager said, unsaid, or wrongly said.

    Beside them, the default: the base profile that they were fitted from, each night by itself.
    Said wrongly, nights pass for the profile's own: what its intervals cover then is why they are withheld.
    """
    words = {"cohort": task.cohort, "stager": task.stager}
    said = {"said": words, "unsaid": dict.fromkeys(words)}
    after: dict[str, list[list[dict]]] = {how: [] for how in (*said, "default")}
    base = default(other, ())
    n_shown = n_inside = 0  # intervals where the nights pass for the profile's own
    for number, fold in enumerate(folds):
        fitted = sg.Profile.from_dict(json.loads(fitted_file(other, number).read_text("utf-8")))
        for how, names in said.items():
            after[how].append(measures(task, fold.test, decode(fitted, task, fold.test, **names)))
        after["default"].append(measures(task, fold.test, decode(base, task, fold.test)))
        for _, is_inside in coverage(task, fitted, fold.test, other.cohort, other.stager):
            n_shown += is_inside is not None
            n_inside += bool(is_inside)
    result = {how: compare(before, found, task) for how, found in after.items()}
    intervals = {"shown": n_shown, "inside": n_inside}
    return result | {"same_cohort": task.cohort == other.cohort, "intervals": intervals}


def measures(task: Task, nights: Sequence[TaskNight], decoded: Sequence[np.ndarray]) -> list[dict]:
    """Return what each night measures, with its subject."""
    base = sg.Profile.load(task.base)
    return [
        {"subject": night.subject} | judge(stages, night.labels, task.scheme, task.epoch_seconds, base)
        for night, stages in zip(nights, decoded, strict=True)
    ]


def compare(before: Sequence[Sequence[Mapping]], after: Sequence[Sequence[Mapping]], task: Task) -> dict:
    """Return changes of kappa by subject, and the mean error over argmax's."""
    names = STATISTICS if task.cohort != "mouse" else OF_MICE
    pairs = [pair for two in zip(before, after, strict=True) for pair in zip(*two, strict=True)]
    by_subject: dict[str, list[tuple[Mapping, Mapping]]] = {}
    for pair in pairs:
        by_subject.setdefault(pair[0]["subject"], []).append(pair)

    def means(name: str) -> np.ndarray:  # (n_subjects, 2) argmax and profile, of those who have both
        rows = [np.mean([[a[name], b[name]] for a, b in two], axis=0) for two in by_subject.values()]
        return np.array([row for row in rows if not np.isnan(row).any()]).reshape(-1, 2)

    totals = [means(f"error {name}").sum(axis=0) for name in names]
    ratios = [after / before for before, after in totals if before > 0]
    kappa = means("kappa")
    return {
        "kappa": [round(float(d), 5) for d in kappa[:, 1] - kappa[:, 0]],
        "ratio": round(float(np.mean(ratios)), 4),
    }


if __name__ == "__main__":
    main()
