"""Is a simulated cohort as hard to stage as the paper's data? Writes results.json.

For each modality a cohort of the paper's size is simulated. A gradient-boosting classifier that sees one
epoch at a time (HistGradientBoostingClassifier of scikit-learn, 100 trees, features of that epoch alone) is
trained on four fifths of the subjects and tested on the others, until each has been tested. Accuracy, TVR
({W->R, R->N} over adjacent scored pairs) and FI are those of each subject's argmax, averaged over subjects.

Classes are weighted to be equally frequent, since AccuSleep's own training (AccuSleep_train.m) oversamples
to that end; the plain classifier stands beside it, and so does one that sees the whole recipe with its
windows of minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GroupKFold

from stageguard.night.stages import SCHEMES
from stageguard.signals.features import Recipe, features
from stageguard.signals.modalities import MODALITIES
from stageguard.synthetic import simulate_recording

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
SEED = 2026
N_FOLDS, N_TREES = 5, 100
NO_CLOCK = {"elapsed": False, "time_of_day": "never"}
RARE = (("W", "R"), ("R", "N"))


@dataclass(frozen=True)
class Task:
    """A cohort and what the classifier sees of it. The paper's row is that of AccuSleep in its main table."""

    modality: str
    n_subjects: int
    hours: float
    recipe: str
    accuracy: float
    tvr: float | None
    fi: float
    changes: dict[str, Any]  # to the recipe, so that it looks at one epoch
    left_out: tuple[str, ...] = ()  # features that look further all the same
    note: str = ""
    seed: int = SEED

    @property
    def name(self) -> str:
        return f"{self.modality}, {self.hours:g} h" + ("" if self.seed == SEED else f", seed {self.seed}")


def _cardiorespiratory() -> dict[str, Any]:
    told = Recipe.load("cardiorespiratory").to_dict()
    heart, breathing = told["heart"] | {"groups": ["epoch"]}, told["breathing"] | {"window_seconds": 30}
    return {"heart": heart, "breathing": breathing, "clock": NO_CLOCK}


CONTEXT = ("breathing_rate_sd_per_min", "breathing_amplitude_cv", "movement_around", "minutes_since_movement")
ACTIGRAPHY = {"groups": ["epoch"], "heart_rate_features": ["mean"], "clock": NO_CLOCK}
RADAR = {"window_seconds": 30, "scaling": {"method": "robust", "clip": 10}}
TASKS = (
    Task("eeg-emg", 16, 4, "mouse-eeg-emg", 89.3, 8.7, 0.21, {}, note="by day"),
    Task("eeg-emg", 16, 24, "mouse-eeg-emg", 89.3, 8.7, 0.21, {}, note="as in the paper"),
    Task("actigraphy", 31, 8, "actigraphy", 84.1, None, 0.25, ACTIGRAPHY),
    Task("cardiorespiratory", 25, 8, "cardiorespiratory", 76.8, 8.1, 0.22, _cardiorespiratory()),
    Task(
        "bioradar", 32, 8, "bioradar", 68.4, 12.3, 0.28, RADAR, CONTEXT, "seen while its difficulty was set"
    ),
    Task("bioradar", 32, 8, "bioradar", 68.4, 12.3, 0.28, RADAR, CONTEXT, "not seen before", seed=2027),
)


@dataclass(frozen=True)
class Cohort:
    """Per subject: what an epoch alone shows, what the whole recipe shows, and the truth."""

    alone: list[np.ndarray]
    whole: list[np.ndarray]
    labels: list[np.ndarray]


def simulate(task: Task) -> Cohort:
    own = MODALITIES[task.modality]
    recipe = Recipe.load(task.recipe)
    alone = recipe.replace(**task.changes)
    made = Cohort([], [], [])
    for number in range(1, task.n_subjects + 1):
        one = simulate_recording(task.modality, number, seed=task.seed, hours=task.hours)
        night = one.night.hypnogram
        first = features(one.recording, alone)
        kept = [i for i, name in enumerate(first.names) if name not in task.left_out]
        rows = min(first.n_epochs, night.n_epochs)
        made.alone.append(first.values[:rows].mean(axis=1)[:, kept])
        if task.changes:
            made.whole.append(features(one.recording, recipe).values[:rows].mean(axis=1))
        merged = night.scheme.merge_map(SCHEMES[own.scheme])
        made.labels.append(merged[night.labels[:rows]].astype(np.int64))
    return made


def predict(tables: list[np.ndarray], labels: list[np.ndarray], *, balanced: bool) -> list[np.ndarray]:
    """Stage of each epoch by a classifier that has not seen the subject; -1 without a signal."""
    subject = np.repeat(np.arange(len(labels)), [len(own) for own in labels])
    x, y = np.concatenate(tables), np.concatenate(labels)
    there = np.isfinite(x).all(axis=1)
    found = np.full(len(y), -1)
    for train, test in GroupKFold(N_FOLDS).split(x, y, subject):
        train, test = train[there[train]], test[there[test]]
        model = HistGradientBoostingClassifier(
            max_iter=N_TREES,
            early_stopping=False,
            class_weight="balanced" if balanced else None,
            random_state=0,
        )
        found[test] = model.fit(x[train], y[train]).predict(x[test])
    return [found[subject == number] for number in range(len(labels))]


def measure(found: list[np.ndarray], labels: list[np.ndarray], names: tuple[str, ...]) -> dict[str, Any]:
    """Means over subjects of accuracy, kappa, TVR and FI; F1 of all epochs together."""
    rows = []
    for argmax, truth in zip(found, labels, strict=True):
        scored = argmax >= 0
        agreed, chance = np.mean(argmax[scored] == truth[scored]), 0.0
        for stage in range(len(names)):
            chance += np.mean(argmax[scored] == stage) * np.mean(truth[scored] == stage)
        rows.append((100 * agreed, (agreed - chance) / (1 - chance), *switches(argmax, names)))
    mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
    keys = ("accuracy", "kappa", "tvr", "fi")
    all_found, all_labels = np.concatenate(found), np.concatenate(labels)
    f1 = {}
    for stage, name in enumerate(names):
        hits = np.sum((all_found == stage) & (all_labels == stage))
        f1[name] = float(
            2 * hits / (np.sum(all_found == stage) + np.sum((all_labels == stage) & (all_found >= 0)))
        )
    return {
        **{key: float(value) for key, value in zip(keys, mean, strict=True)},
        **{f"{key}_sd": float(value) for key, value in zip(keys, spread, strict=True)},
        "f1": f1,
    }


def switches(stages: np.ndarray, names: tuple[str, ...]) -> tuple[float, float]:
    """TVR in percent and FI, over adjacent scored pairs."""
    before, after = stages[:-1], stages[1:]
    scored = (before >= 0) & (after >= 0)
    rare = np.zeros(len(before), dtype=bool)
    for source, goal in RARE:
        if source in names and goal in names:
            rare |= (before == names.index(source)) & (after == names.index(goal))
    return 100 * float(rare[scored].mean()), float((before != after)[scored].mean())


def run(task: Task) -> dict[str, Any]:
    began = time.perf_counter()
    cohort = simulate(task)
    names = SCHEMES[MODALITIES[task.modality].scheme].names
    labels = cohort.labels
    counts = np.bincount(np.concatenate(labels), minlength=len(names))
    result: dict[str, Any] = {
        "n_subjects": task.n_subjects,
        "hours": task.hours,
        "share_percent": dict(zip(names, (100 * counts / counts.sum()).tolist(), strict=True)),
        "majority_percent": float(100 * counts.max() / counts.sum()),
        "truth": dict(
            zip(("tvr", "fi"), np.mean([switches(own, names) for own in labels], axis=0), strict=True)
        ),
        "balanced": measure(predict(cohort.alone, labels, balanced=True), labels, names),
        "plain": measure(predict(cohort.alone, labels, balanced=False), labels, names),
    }
    if cohort.whole:
        result["whole recipe"] = measure(predict(cohort.whole, labels, balanced=True), labels, names)
    print(task.name, f"{time.perf_counter() - began:.0f} s", json.dumps(result["balanced"]), flush=True)
    return result


def is_within(task: Task, found: dict[str, Any]) -> bool:
    """Whether accuracy is within 4 points, TVR and FI within a factor of 2, of the paper's AccuSleep row."""
    near = abs(found["accuracy"] - task.accuracy) <= 4 and 0.5 <= found["fi"] / task.fi <= 2
    return near and (task.tvr is None or 0.5 <= found["tvr"] / task.tvr <= 2)


def table(results: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# How hard simulated cohorts are",
        "",
        "Written by `run.py`, whose docstring says what was done.",
        "",
    ]
    lines += ["| cohort | classifier | accuracy % | kappa | TVR % | FI | F1 | within the paper's range |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for task in TASKS:
        if task.name not in results:
            continue
        result = results[task.name]
        who = "mice" if task.modality == "eeg-emg" else "people"
        title = f"**{task.name}**, {task.n_subjects} {who}" + (f", {task.note}" if task.note else "")
        tvr = "-" if task.tvr is None else f"{task.tvr:g}"
        lines.append(
            f"| {title} | *paper: AccuSleep* | *{task.accuracy:g}* | | *{tvr}* | *{task.fi:g}* | | |"
        )
        shares = ", ".join(f"{name} {share:.0f}" for name, share in result["share_percent"].items())
        truth = result["truth"]
        true_tvr = "-" if task.tvr is None else f"{truth['tvr']:.2f}"
        majority = f"{result['majority_percent']:.1f}"
        lines.append(f"| | always the most frequent (shares %: {shares}) | {majority} | 0 | | 0 | | |")
        lines.append(f"| | the truth itself | 100 | 1 | {true_tvr} | {truth['fi']:.3f} | | |")
        told = {
            "balanced": "one epoch, balanced classes",
            "plain": "one epoch, plain",
            "whole recipe": "whole recipe, balanced classes",
        }
        for key, title in told.items():
            if key not in result:
                continue
            found = result[key]
            f1 = ", ".join(f"{name} {value:.2f}" for name, value in found["f1"].items())
            own_tvr = "-" if task.tvr is None else f"{found['tvr']:.1f} ± {found['tvr_sd']:.1f}"
            verdict = "yes" if is_within(task, found) else "no"
            lines.append(
                f"| | {title} | {found['accuracy']:.1f} ± {found['accuracy_sd']:.1f} | "
                f"{found['kappa']:.2f} | {own_tvr} | {found['fi']:.3f} ± {found['fi_sd']:.3f} | "
                f"{f1} | {verdict} |"
            )
    lines += [
        "",
        "± is the standard deviation between subjects. The range: accuracy within 4 points, TVR and FI",
    ]
    lines += [f"within a factor of 2 of the paper's row for AccuSleep. Seed {SEED} where no other is given."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modality", nargs="*", choices=[*MODALITIES, []], help="only these")
    parser.add_argument("--hours", type=float, help="only cohorts of this length")
    parser.add_argument("--seed", type=int, help="only cohorts of this seed")
    parser.add_argument("--table", action="store_true", help="only lay out again what was measured")
    wanted = parser.parse_args()
    if wanted.table:
        save()
        return
    for task in TASKS:
        if wanted.modality and task.modality not in wanted.modality:
            continue
        if wanted.hours in (None, task.hours) and wanted.seed in (None, task.seed):
            save(**{task.name: run(task)})


def save(**measured: dict[str, Any]) -> None:
    """Add to what is there by now, which another process may have written."""
    path = HERE / "results.json"
    results = json.loads(path.read_text("utf-8")) if path.exists() else {}
    results |= measured
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "results.md").write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
