"""Lay the study's results out as tables, and the figures behind its goals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from judging import OF_MICE, STATISTICS
from scipy.stats import binomtest, wilcoxon

UNSCORED = ("band", "clock", "target", "tune", "clock + target", "clock + tune")
SCORED = ("paper", "fit")
METHODS = (*UNSCORED, *SCORED)
ACT_ABOVE = 1.5  # a stager flickers whose median night is this much above the experts' fragmentation
GOOD_KAPPA = 0.6


def is_flickering(task: Mapping) -> bool:
    return task["stager_fi"] > ACT_ABOVE * task["fi_target"]


def is_human(task: Mapping) -> bool:
    return task["cohort"] != "mouse"


def is_in_the_box(task: Mapping) -> bool:
    """Whether a stager is one that the package runs; its tasks came after the goals, and have own tables."""
    return task["kind"] == "in the box"


def is_of_labels(task: Mapping) -> bool:
    """Whether a stager gives labels alone; these tasks came after the goals, too."""
    return task["kind"] == "labels"


def is_added(task: Mapping) -> bool:
    """Whether a task came after the goals, and counts in no summary."""
    return is_in_the_box(task) or is_of_labels(task)


def is_good(task: Mapping) -> bool:
    """Whether a stager of people agrees well with experts and does not flicker."""
    return is_human(task) and not is_flickering(task) and mean(task, "argmax", "kappa") >= GOOD_KAPPA


GROUPS = {
    "all": lambda task: True,
    "human": is_human,
    "good": is_good,
    "flickering": is_flickering,
    "neither": lambda task: not is_good(task) and not is_flickering(task),
}


def of_group(held: Mapping, group: str, method: str | None = None) -> dict:
    """Return a group's tasks, those that a method was run on."""
    return {
        name: task
        for name, task in held.items()
        if GROUPS[group](task) and (method is None or has_method(task, method))
    }


def has_method(task: Mapping, method: str) -> bool:
    return any(row[0] == method for row in task["rows"])


def statistics_of(task: Mapping) -> tuple[str, ...]:
    """Return what studies of these sleepers report."""
    return STATISTICS if is_human(task) else OF_MICE


def values(task: Mapping, method: str, name: str) -> dict[str, float]:
    """Return a measure by subject."""
    column = task["columns"].index(name)
    rows = (row for row in task["rows"] if row[0] == method)
    return {row[1]: math.nan if row[column] is None else row[column] for row in rows}


def paired(task: Mapping, method: str, name: str) -> np.ndarray:
    """Return method less argmax, by subject, where both exist."""
    after, before = values(task, method, name), values(task, "argmax", name)
    return np.array([after[s] - before[s] for s in after if not math.isnan(after[s] - before[s])])


def p_value(differences: np.ndarray) -> float:
    if len(differences) < 5 or not np.any(np.abs(differences) > 1e-12):
        return 1.0
    return _wilcoxon_p(tuple(differences.tolist()))


@cache  # the same differences are asked for in every group of tasks
def _wilcoxon_p(differences: tuple[float, ...]) -> float:
    return float(wilcoxon(differences).pvalue)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's adjusted p-values."""
    adjusted, largest = {}, 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, p * (len(p_values) - rank)))
        adjusted[name] = largest
    return adjusted


def mean(task: Mapping, method: str, name: str) -> float:
    known = [v for v in values(task, method, name).values() if not math.isnan(v)]
    return float(np.mean(known)) if known else math.nan


def ratio(task: Mapping, method: str, name: str) -> float:
    """Return the mean absolute error over argmax's, over subjects who have both."""
    after, before = values(task, method, f"error {name}"), values(task, "argmax", f"error {name}")
    both = [s for s in after if not math.isnan(after[s] - before[s])]
    total = sum(before[s] for s in both)
    return sum(after[s] for s in both) / total if total > 0 else math.nan


def error_ratio(task: Mapping, method: str) -> float:
    """Return the mean over statistics of this method's mean absolute error over argmax's."""
    return float(np.nanmean([ratio(task, method, name) for name in statistics_of(task)]))


def n_far(task: Mapping, method: str) -> int:
    """Return the number of nights whose REM latency is wrong by more than 30 min."""
    nights, far = (values(task, method, name) for name in ("nights", "rem_latency_far"))
    return round(sum(nights[subject] * far[subject] for subject in far))


def far_words(before: int, after: int) -> str:
    """Return such nights of argmax and of a method; none where REM latency is not asked for."""
    return f"{before} → {after}" if before or after else ""


def geometric(ratios: Iterable[float]) -> float:
    """Return the geometric mean of those that are known."""
    known = [value for value in ratios if value > 0]
    return float(np.exp(np.mean(np.log(known)))) if known else math.nan


def single_errors(task: Mapping, method: str) -> tuple[list[str], list[str]]:
    """Return statistics whose error is significantly smaller, and larger, than argmax's (uncorrected)."""
    better, worse = [], []
    for name in statistics_of(task):
        differences = paired(task, method, f"error {name}")
        if p_value(differences) < 0.05:
            (better if differences.mean() < 0 else worse).append(name)
    return better, worse


def figures(tasks: Mapping, method: str) -> dict[str, Any]:
    """Return what the goals are about, of one method over some tasks."""
    gains = {name: paired(task, method, "kappa") for name, task in tasks.items()}
    p_values = {name: p_value(d) for name, d in gains.items()}
    adjusted = holm(p_values)
    up = {name for name, d in gains.items() if d.mean() > 0}
    ratios = [error_ratio(task, method) for task in tasks.values()]
    singles = [single_errors(task, method) for task in tasks.values()]
    humans = [task for task in tasks.values() if is_human(task)]
    flagged = [value for task in tasks.values() if not math.isnan(value := mean(task, method, "flagged"))]
    n_up = sum(p_values[name] < 0.05 for name in up)
    far_of_argmax, far = (sum(n_far(task, one) for task in humans) for one in ("argmax", method))
    return {
        "tasks": len(tasks),
        "kappa median": float(np.median([d.mean() for d in gains.values()])),
        "kappa worst": min(d.mean() for d in gains.values()),
        "up": n_up,
        "up share": n_up / len(tasks),
        "down": sum(p_values[name] < 0.05 for name in gains.keys() - up),
        "up by Holm": sum(adjusted[name] < 0.05 for name in up),
        "down by Holm": sum(adjusted[name] < 0.05 for name in gains.keys() - up),
        "ratio": float(np.mean(ratios)),
        "ratio worst": max(ratios),
        "above tune": max(
            error_ratio(task, method) - error_ratio(task, "clock + tune") for task in tasks.values()
        ),
        "rem latency": geometric([ratio(task, method, "rem_latency_minutes") for task in humans]),
        "rem far": far / far_of_argmax if far_of_argmax else math.nan,
        "rem far words": far_words(far_of_argmax, far),
        "better": sum(len(better) for better, _ in singles),
        "worse": sum(len(worse) for _, worse in singles),
        "in band": float(np.median([mean(task, method, "fi_in_band") for task in tasks.values()])),
        "flagged": float(np.mean(flagged)) if flagged else math.nan,
        "accuracy down": sum(
            p_value(d := paired(task, method, "accuracy")) < 0.05 and d.mean() < 0 for task in tasks.values()
        ),
    }


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " --: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


SUMMARY = {  # header to cell, of the figures of some tasks
    "κ, median (worst)": lambda one: f"{one['kappa median']:+.3f} ({one['kappa worst']:+.3f})",
    "tasks up / down": lambda one: f"{one['up']} / {one['down']}",
    "by Holm": lambda one: f"{one['up by Holm']} / {one['down by Holm']}",
    "errors (worst)": lambda one: f"{one['ratio']:.2f} ({one['ratio worst']:.2f})",
    "single errors better / worse": lambda one: f"{one['better']} / {one['worse']}",
    "REM latency's": lambda one: _number(one["rem latency"], 2),
    "nights > 30 min": lambda one: one["rem far words"],
    "nights in band": lambda one: f"{100 * one['in band']:.0f} %",
    "not like experts": lambda one: "" if math.isnan(one["flagged"]) else f"{100 * one['flagged']:.0f} %",
    "accuracy down": lambda one: f"{one['accuracy down']}",
}


def summary(
    held: Mapping, groups: Iterable[str], methods: Iterable[str], columns: Iterable[str] = SUMMARY
) -> str:
    """One row a group and method, with some or all of the columns."""
    rows = []
    for group in groups:
        for method in methods:
            if tasks := of_group(held, group, method):
                one = figures(tasks, method)
                cells = [SUMMARY[column](one) for column in columns]
                rows.append([f"{group} ({one['tasks']}): `{method}`", *cells])
    return table(["stagers (tasks): method", *columns], rows)


def per_task(held: Mapping) -> str:
    """κ of every method."""
    rows = []
    for name, task in held.items():
        n_subjects = len(values(task, "argmax", "kappa"))
        cells = [
            f"{mean(task, m, 'kappa'):.3f}" + _star(paired(task, m, "kappa")) if has_method(task, m) else ""
            for m in ("argmax", *METHODS)
        ]
        rows.append([name, f"{n_subjects}", _group_of(task), *cells])
    return table(["task", "subjects", "stager", "argmax", *METHODS], rows)


def _group_of(task: Mapping) -> str:
    return "flickering" if is_flickering(task) else "good" if is_good(task) else "neither"


def _star(differences: np.ndarray) -> str:
    if p_value(differences) >= 0.05:
        return ""
    return " ↑" if differences.mean() > 0 else " ↓"


def measures(held: Mapping, method: str) -> str:
    """Before and after, task by task."""
    rows = []
    for name, task in of_group(held, "all", method).items():
        better, worse = single_errors(task, method)
        rows.append(
            [
                name,
                f"{mean(task, 'argmax', 'fi_expert'):.3f}",
                *(f"{mean(task, m, 'fi'):.3f}" for m in ("argmax", method)),
                *(_number(mean(task, m, "tvr_percent"), 2) for m in ("argmax", method)),
                *(f"{mean(task, m, 'accuracy'):.3f}" for m in ("argmax", method)),
                *(f"{mean(task, m, 'macro_f1'):.3f}" for m in ("argmax", method)),
                *(f"{100 * mean(task, m, 'fi_in_band'):.0f}" for m in ("argmax", method)),
                f"{error_ratio(task, method):.2f}",
                f"{len(better)} / {len(worse)}",
            ]
        )
    header = [
        "task",
        "expert FI",
        "FI",
        "→",
        "TVR %",
        "→",
        "accuracy",
        "→",
        "macro F1",
        "→",
        "% in band",
        "→",
    ]
    return table([*header, "errors", "better / worse"], rows)


def single_tasks(tasks: Mapping, methods: Iterable[str]) -> str:
    """One row a task and method, for tasks that are in no summary."""
    rows = []
    for name, task in tasks.items():
        for method in methods:
            better, worse = single_errors(task, method)
            kappas, accuracies = (
                [mean(task, one, measure) for one in ("argmax", method)] for measure in ("kappa", "accuracy")
            )
            rows.append(
                [
                    f"{name}: `{method}`",
                    f"{kappas[0]:.3f} → {kappas[1]:.3f}",
                    f"{p_value(paired(task, method, 'kappa')):.2f}",
                    f"{accuracies[0]:.3f} → {accuracies[1]:.3f}" + _star(paired(task, method, "accuracy")),
                    f"{error_ratio(task, method):.2f}",
                    f"{len(better)} / {len(worse)}",
                    _number(ratio(task, method, "rem_latency_minutes"), 2),
                    far_words(n_far(task, "argmax"), n_far(task, method)),
                    f"{100 * mean(task, method, 'fi_in_band'):.0f} %",
                ]
            )
    header = ["task: method", "κ", "p", "accuracy", "errors", "single errors better / worse"]
    return table([*header, "REM latency's", "nights > 30 min", "nights in band"], rows)


def label_tasks(tasks: Mapping, methods: Iterable[str] = ()) -> str:
    """One row a cohort and method, the shipped rule first, for stagers that give labels alone."""
    groups: dict[str, dict] = {}
    for name, task in tasks.items():
        cohort, _, stages = name.partition(", labels of ")
        groups.setdefault(f"{cohort}, {stages.rpartition(', ')[2]}", {})[name] = task
    rows = []
    for group, own in groups.items():
        shipped = "clock + target" if all(map(is_human, own.values())) else "band"
        for method in (shipped, *methods):
            if not all(has_method(task, method) for task in own.values()):
                continue
            found = figures(own, method)
            rows.append([f"{group} ({len(own)}): `{method}`", *(cell(found) for cell in SUMMARY.values())])
    return table(["labels of (networks): method", *SUMMARY], rows)


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def errors(held: Mapping, names: tuple[str, ...]) -> str:
    """Mean absolute errors of the statistics, task by task."""
    rows = []
    for task_name, task in held.items():
        if statistics_of(task) != names:
            continue
        for method in ("argmax", "paper", "band", "clock + target", "clock + tune", "fit"):
            if not has_method(task, method):
                continue
            cells = [
                _number(mean(task, method, f"error {one}"), 1) + _star(-paired(task, method, f"error {one}"))
                for one in names
            ]
            rows.append([task_name if method == "argmax" else "", method, *cells])
    return table(["task", "method", *(one.replace("_", " ") for one in names)], rows)


def by_task_p(task: Mapping) -> float:
    """Return the p of a binomial test against 90 %, statistics of one night counting as one.

    The intervals of a night stand and fall together: a test over all of them would take each for a night.
    """
    n_in, n_all = (sum(count[k] for count in task["coverage"].values()) for k in range(2))
    n = round(n_all / len(task["coverage"]))
    return float(binomtest(round(n * n_in / n_all), n, 0.9).pvalue)


def covered(held: Mapping) -> str:
    """How often intervals hold the expert's value."""
    rows, n_in, n_all = [], 0, 0
    for name, task in held.items():
        counts = task.get("coverage")
        if not counts:
            continue
        inside, n = (sum(count[k] for count in counts.values()) for k in range(2))
        n_in, n_all = n_in + inside, n_all + n
        p_values = {one: binomtest(*count, 0.9).pvalue for one, count in counts.items()}
        worst = min(p_values, key=p_values.__getitem__)
        shown = f"{worst}: {100 * counts[worst][0] / counts[worst][1]:.0f} % of {counts[worst][1]}"
        cells = [f"{100 * inside / n:.0f} %", f"{n}", f"{by_task_p(task):.3f}"]
        rows.append([name, *cells, f"{shown}, p {p_values[worst]:.3f}"])
    if not rows:
        return "No intervals yet.\n"
    rows.append(["**all**", f"**{100 * n_in / n_all:.1f} %**", f"{n_all}", "", ""])
    return table(["task", "covered", "intervals", "p of the task", "statistic furthest off"], rows)


def chosen_words(held: Mapping) -> str:
    return "\n".join(
        f"- {name}: {' / '.join(dict.fromkeys(task['chosen']))}"
        for name, task in held.items()
        if "chosen" in task
    )


def gaps(held: Mapping) -> str:
    """Say on which tasks scored nights have not been used."""
    without = [name for name, task in held.items() if not has_method(task, "fit")]
    return f"Neither `paper` nor `fit` was run on: {'; '.join(without)}.\n" if without else ""


def write_tables(held: Mapping, goals: str, elsewhere: Iterable[str], path: Path) -> None:
    """Write the page of all tables; `elsewhere` are those of `elsewhere.py`."""
    parts = [
        "# The guard on real nights\n",
        INTRODUCTION,
        gaps(held),
        "## Goals set beforehand\n",
        "Bold: missed. The goals stand in `goals.py`.\n",
        goals,
        "## Summary\n",
        summary(held, GROUPS, METHODS),
        "## Kappa\n",
        "Mean over subjects; ↑ ↓ significantly better or worse than argmax (paired Wilcoxon, uncorrected).\n",
        per_task(held),
    ]
    for method in ("clock + target", "clock + tune", "fit", "paper"):
        parts += [f"## `{method}`, before and after\n", measures(held, method)]
    parts += [
        "## Errors of what studies report\n",
        "Mean absolute error over subjects, in minutes, percent and counts; ↑ significantly smaller error.\n",
        errors(held, STATISTICS),
        errors(held, OF_MICE),
        "## Conformal intervals\n",
        "Nominal 90 %, of `fit`, on subjects not used to fit.\n",
        covered(held),
        *elsewhere,
        "## What `fit` chose\n",
        chosen_words(held) + "\n",
    ]
    path.write_text("\n".join(parts), "utf-8")


INTRODUCTION = """Written by `run.py`; every figure follows from `results.json`, `transfer.json`,
`learning.json` and, for the experts' own nights, `../expert-scorings/results.json`.

Without labels: `band` is the rule of the mouse profile, `clock` REM's curve on argmax alone, `target` what
one night is judged by, `tune` (`sg.tune`) what all nights of the stager say; the human profiles ship
`clock + target`. The clock's curve is counted without the task's own cohort. Transitions and the experts'
fragmentation are the shipped profile's, and the cohort may be among those they were counted on.
With labels, in four folds: `paper` has the paper's rules with transitions of the training nights, `fit` is
`sg.fit` on the shipped profile.

Stagers: boosting (scikit-learn, 60 rounds) stages single epochs; its training nights are staged by an inner
split, so that nothing a guard learns from has seen a test subject. Votes are those of networks trained
elsewhere; for DOD-H the truth is the consensus of five scorers. The six published networks of DOD-H give
labels alone: each is replaced by what experts scored where the training nights have that label, the label
staying the likeliest. So their probabilities are alike wherever the label is, and know the scorers. The
networks on Sleep-EDF and Sleep-Accel are the small ones of `networks.py`.

A stager flickers if its median night is more than 1.5 times as fragmented as its profile aims at; good are
human stagers that do not, with κ of .6 or more. Every statistic is counted on the hypnogram. Errors: mean
absolute error over argmax's, averaged over TST, SE, SOL, REM latency, WASO, awakenings and bouts; for mice,
recorded around the clock, over minutes and bouts of W, N and R. Sleep or REM that never comes counts as
coming at the end of the recording. REM latency's: geometric mean over human tasks. Nights > 30 min: nights
whose REM latency is wrong by more than 30 min, of argmax → of the method. Nights in band: FI within
the factor that two experts of a night differ by (1.97, 2.25, 2.00 for 3, 5, 2 stages), median over tasks. Not
like experts: nights above the threshold of the joint score, mean over tasks. FI, bouts and awakenings are no
independent evidence for rules steered by FI; for `fit`, TST, SE, WASO and the other errors are not either,
since they count in its choice: κ is.
"""
