"""Use profiles on cohorts they were not fitted on, and write what that does to kappa and errors.

STAGEGUARD_DATA=... python transfer.py     every pair of tasks with the same stages
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from judging import STATISTICS, judge
from methods import argmax, experts
from tasks import Task, TaskNight, tasks

import stageguard as sg

RESULTS = Path(__file__).parent / "transfer.json"


def main() -> None:
    """Fit once per task, decode every other cohort of the same stages and epoch length."""
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    chosen = [task for task in tasks() if task.kind != "network" and task.cohort != "mouse"]
    nights = {task.name: [night for fold in task.folds() for night in fold.test] for task in chosen}
    fitted = {task.name: _fit(task, nights[task.name]) for task in chosen}
    found = {}
    for first, second in permutations(chosen, 2):
        if first.scheme == second.scheme and first.cohort != second.cohort:
            found[f"{first.name} → {second.name}"] = _use(fitted[first.name], second, nights[second.name])
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(pair)}" for name, pair in found.items())
    RESULTS.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(found)} pairs")


def _fit(task: Task, nights: Sequence[TaskNight]) -> sg.Profile:
    return sg.fit(
        [night.probabilities for night in nights],
        experts(task, nights),
        base=task.base,
        groups=[night.subject for night in nights],
        cohort=task.name,
        epoch_seconds=task.epoch_seconds,
        learning_curve=False,
    )


def _use(profile: sg.Profile, task: Task, nights: Sequence[TaskNight]) -> dict:
    results = sg.decode(
        [night.probabilities for night in nights],
        profile,
        epoch_seconds=task.epoch_seconds,
        cohort=task.name,
    )
    own: dict[str, list[list[dict]]] = {}
    for night, result, before in zip(nights, results, argmax(nights), strict=True):
        after = np.where(before < 0, -1, result.hypnogram.labels)
        pair = [judge(labels, night.labels, task.scheme, task.epoch_seconds) for labels in (before, after)]
        own.setdefault(night.subject, []).append(pair)
    names = ("kappa", *(f"error {name}" for name in STATISTICS))
    means = {name: np.array([_mean(name, pairs) for pairs in own.values()]) for name in names}
    ratios = []
    for name in names[1:]:
        known = means[name][~np.isnan(means[name]).any(axis=1)]
        if len(known) and known[:, 0].sum() > 0:
            ratios.append(known[:, 1].sum() / known[:, 0].sum())
    kappa = means["kappa"][:, 1] - means["kappa"][:, 0]
    did = sorted({str(result.strength.rule) for result in results})
    return {
        "kappa": [round(float(d), 5) for d in kappa if not np.isnan(d)],
        "ratio": round(float(np.mean(ratios)), 4),
        "did": f"{profile.provenance['chosen']}; here {', '.join(did)}",
    }


def _mean(name: str, pairs: Sequence[Sequence[dict]]) -> np.ndarray:
    """Return a subject's mean over nights, by argmax and by the profile."""
    return np.mean([[one[name] for one in pair] for pair in pairs], axis=0)


if __name__ == "__main__":
    main()
