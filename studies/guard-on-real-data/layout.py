"""Lay the study's results out as tables. Measures nothing anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from judging import OF_MICE, STATISTICS
from scipy.stats import binomtest, wilcoxon

METHODS = ("majority of 3", "HMM", "paper", "shipped", "band", "match", "fitted")
GROUPS = {
    "context-free stagers": ("per-epoch",),
    "votes of networks": ("votes",),
    "context-free and votes": ("per-epoch", "votes"),
    "networks": ("network",),
}


def statistics_of(task: Mapping) -> tuple[str, ...]:
    """Return what studies of these sleepers report."""
    return OF_MICE if task["cohort"] == "mouse" else STATISTICS


def values(task: Mapping, method: str, name: str) -> dict[str, float]:
    """Return a measure by subject."""
    place = task["columns"].index(name)
    rows = (row for row in task["rows"] if row[0] == method)
    return {row[1]: math.nan if row[place] is None else row[place] for row in rows}


def paired(task: Mapping, method: str, name: str) -> np.ndarray:
    """Return method less argmax, by subject, where both exist."""
    own, before = values(task, method, name), values(task, "argmax", name)
    both = [own[s] - before[s] for s in own if not math.isnan(own[s] - before[s])]
    return np.array(both)


def p_value(differences: np.ndarray) -> float:
    if len(differences) < 5 or not np.any(np.abs(differences) > 1e-12):
        return 1.0
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
    own, before = values(task, method, f"error {name}"), values(task, "argmax", f"error {name}")
    both = [s for s in own if not math.isnan(own[s] - before[s])]
    total = sum(before[s] for s in both)
    return sum(own[s] for s in both) / total if total > 0 else math.nan


def error_ratio(task: Mapping, method: str, names: Iterable[str] | None = None) -> float:
    """Return the mean over statistics of this method's mean absolute error over argmax's."""
    ratios = [ratio(task, method, name) for name in names or statistics_of(task)]
    return float(np.nanmean(ratios))


def single_errors(task: Mapping, method: str) -> tuple[list[str], list[str]]:
    """Return statistics whose error is significantly smaller, and larger, than argmax's (uncorrected)."""
    better, worse = [], []
    for name in statistics_of(task):
        differences = paired(task, method, f"error {name}")
        if p_value(differences) < 0.05:
            (better if differences.mean() < 0 else worse).append(name)
    return better, worse


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " --: |" * (len(head) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def per_task(held: Mapping) -> str:
    rows = []
    for name, task in held.items():
        n_subjects = len(values(task, "argmax", "kappa"))
        rows.append(
            [name, f"{n_subjects}", f"{mean(task, 'argmax', 'fi_expert'):.3f}"]
            + [
                f"{mean(task, m, 'kappa'):.3f}" + _star(paired(task, m, "kappa"))
                for m in ("argmax", *METHODS)
            ]
        )
    return table(["task", "subjects", "expert FI", "argmax", *METHODS], rows)


def _star(differences: np.ndarray) -> str:
    if p_value(differences) >= 0.05:
        return ""
    return " ↑" if differences.mean() > 0 else " ↓"


def measures(held: Mapping, method: str) -> str:
    rows = []
    for name, task in held.items():
        better, worse = single_errors(task, method)
        rows.append(
            [
                name,
                *(f"{mean(task, m, 'accuracy'):.3f}" for m in ("argmax", method)),
                *(f"{mean(task, m, 'macro_f1'):.3f}" for m in ("argmax", method)),
                *(f"{mean(task, m, 'fi'):.3f}" for m in ("argmax", method)),
                *(_number(mean(task, m, "tvr_percent"), 2) for m in ("argmax", method)),
                *(f"{100 * mean(task, m, 'fi_in_band'):.0f}" for m in ("argmax", method)),
                f"{error_ratio(task, method):.2f}",
                f"{len(better)} / {len(worse)}",
            ]
        )
    header = ["task", "accuracy", "→", "macro F1", "→", "FI", "→", "TVR %", "→", "% in band", "→"]
    return table([*header, "errors", "better / worse"], rows)


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def errors(held: Mapping, names: tuple[str, ...]) -> str:
    rows = []
    for task_name, task in held.items():
        if statistics_of(task) != names:
            continue
        for method in ("argmax", "paper", "band", "fitted"):
            cells = [_number(mean(task, method, f"error {one}"), 1) for one in names]
            stars = [
                "" if method == "argmax" else _star(-paired(task, method, f"error {one}")) for one in names
            ]
            cells = [cell + star for cell, star in zip(cells, stars, strict=True)]
            rows.append([task_name if method == "argmax" else "", method, *cells])
    return table(["task", "method", *(one.replace("_", " ") for one in names)], rows)


def figures(chosen: Mapping, method: str) -> dict[str, float]:
    """Return what the bars are about, of one method over some tasks."""
    gains = {name: paired(task, method, "kappa") for name, task in chosen.items()}
    p_values = {name: p_value(d) for name, d in gains.items()}
    adjusted = holm(p_values)
    ratios = [error_ratio(task, method) for task in chosen.values()]
    singles = [single_errors(task, method) for task in chosen.values()]
    accuracy = [paired(task, method, "accuracy") for task in chosen.values()]
    return {
        "tasks": len(chosen),
        "kappa median": float(np.median([d.mean() for d in gains.values()])),
        "kappa worst": min(d.mean() for d in gains.values()),
        "up": sum(p_values[n] < 0.05 and d.mean() > 0 for n, d in gains.items()),
        "down": sum(p_values[n] < 0.05 and d.mean() < 0 for n, d in gains.items()),
        "harmed": sum(adjusted[n] < 0.05 and d.mean() < -0.005 for n, d in gains.items()),
        "ratio": float(np.mean(ratios)),
        "ratio worst": max(ratios),
        "ratio of the seven": float(np.mean([error_ratio(t, method, STATISTICS) for t in chosen.values()])),
        "better": sum(len(better) for better, _ in singles),
        "worse": sum(len(worse) for _, worse in singles),
        "in band": float(np.median([mean(task, method, "fi_in_band") for task in chosen.values()])),
        "accuracy down": sum(p_value(d) < 0.05 and d.mean() < 0 for d in accuracy),
    }


def of_group(held: Mapping, group: str) -> dict:
    if group == "all":
        return dict(held)
    return {name: task for name, task in held.items() if task["kind"] in GROUPS[group]}


def summary(held: Mapping) -> str:
    rows = []
    for group in GROUPS:
        chosen = of_group(held, group)
        for method in METHODS if chosen else ():
            found = figures(chosen, method)
            rows.append(
                [
                    f"{group}: {method}",
                    f"{found['tasks']}",
                    f"{found['kappa median']:+.3f}",
                    f"{found['kappa worst']:+.3f}",
                    f"{found['up']} / {found['down']}",
                    f"{found['harmed']}",
                    f"{found['ratio']:.2f} ({found['ratio worst']:.2f})",
                    f"{found['better']} / {found['worse']}",
                    f"{100 * found['in band']:.0f}",
                    f"{found['accuracy down']}",
                ]
            )
    header = [
        *("method", "tasks", "κ, median change", "worst", "up / down", "harmed", "errors, mean (worst)"),
        *("single errors better / worse", "% nights in band, median", "accuracy down"),
    ]
    return table(header, rows)


def by_task_p(task: Mapping) -> float:
    """Return the p of a binomial test against 90 %, statistics of one night counting as one.

    The intervals of a night stand and fall together: a test over all of them would take each for a night.
    """
    n_in, n_all = (sum(count[k] for count in task["coverage"].values()) for k in range(2))
    n = round(n_all / len(task["coverage"]))
    return float(binomtest(round(n * n_in / n_all), n, 0.9).pvalue)


def covered(held: Mapping) -> str:
    rows, n_in, n_all = [], 0, 0
    for name, task in held.items():
        each = task["coverage"]
        if not each:
            continue
        inside, n = (sum(count[k] for count in each.values()) for k in range(2))
        n_in, n_all = n_in + inside, n_all + n
        p_values = {one: binomtest(*count, 0.9).pvalue for one, count in each.items()}
        worst = min(p_values, key=p_values.__getitem__)
        shown = f"{worst}: {100 * each[worst][0] / each[worst][1]:.0f} % of {each[worst][1]}"
        rows.append(
            [
                name,
                f"{100 * inside / n:.0f} %",
                f"{n}",
                f"{by_task_p(task):.3f}",
                f"{shown}, p {p_values[worst]:.3f}",
            ]
        )
    if not rows:
        return "No intervals yet.\n"
    rows += [
        [name, "none", "0", "", "too few scored recordings"] for name, t in held.items() if not t["coverage"]
    ]
    rows.append(["**all**", f"**{100 * n_in / n_all:.1f} %**", f"{n_all}", "", ""])
    return table(["task", "covered", "intervals", "p of the task", "statistic furthest off"], rows)


def transferred(pairs: Mapping) -> str:
    """Lay out profiles used on another cohort than they were fitted on."""
    rows = []
    gains = {name: np.array(pair["kappa"]) for name, pair in pairs.items()}
    p_values = {name: p_value(d) for name, d in gains.items()}
    adjusted = holm(p_values)
    for name, pair in pairs.items():
        d = gains[name]
        mark = _star(d)
        rows.append([name, f"{len(d)}", f"{d.mean():+.3f}{mark}", f"{pair['ratio']:.2f}", pair["did"]])
    down = sum(p_values[n] < 0.05 and d.mean() < 0 for n, d in gains.items())
    up = sum(p_values[n] < 0.05 and d.mean() > 0 for n, d in gains.items())
    harmed = sum(adjusted[n] < 0.05 and d.mean() < -0.005 for n, d in gains.items())
    ratios = [pair["ratio"] for pair in pairs.values()]
    head = (
        f"{len(pairs)} pairs: κ up on {up}, down on {down} (uncorrected), harmed {harmed}; errors "
        f"{np.mean(ratios):.2f} of argmax's (worst {max(ratios):.2f}).\n"
    )
    return head + "\n" + table(["fitted on → used on", "subjects", "κ change", "errors", "it does"], rows)


def chosen_words(held: Mapping) -> str:
    return "\n".join(f"- {name}: {' / '.join(dict.fromkeys(task['chosen']))}" for name, task in held.items())


def write_tables(held: Mapping, pairs: Mapping, goals: str, path: Path) -> None:
    parts = [
        "# The guard on real nights\n",
        INTRODUCTION,
        "## Goals set beforehand\n",
        GOALS,
        goals,
        "## Summary\n",
        summary(held),
        "## Kappa\n",
        "Mean over subjects; ↑ ↓ significantly better or worse than argmax (paired Wilcoxon, uncorrected).\n",
        per_task(held),
        "## `fitted`, before and after\n",
        measures(held, "fitted"),
        "## `band`, before and after\n",
        measures(held, "band"),
        "## `paper`, before and after\n",
        measures(held, "paper"),
        "## Errors of what studies report\n",
        "Mean absolute error over subjects, in minutes, percent and counts; ↑ significantly smaller error.\n",
        errors(held, STATISTICS),
        errors(held, OF_MICE),
        "## Conformal intervals\n",
        "Nominal 90 %, on subjects not used to fit.\n",
        covered(held),
        "## On another cohort\n",
        ELSEWHERE,
        transferred(pairs) if pairs else "Not run yet.\n",
        "## What `fit` chose\n",
        chosen_words(held) + "\n",
    ]
    path.write_text("\n".join(parts))


GOALS = """Bold: missed. "chosen on" are the tasks the rule of `fit` was chosen on, the networks those it was
not. Goals for `band`'s single errors and for the gain in κ were set for context-free stagers.
"""

ELSEWHERE = """A profile fitted on all nights of one task is used on another cohort's, with `cohort=`.
Stage shares and biases are left out; where the same rule without them did not keep argmax's κ, it is argmax.
"""

INTRODUCTION = """Written by `run.py`; every figure follows from `results.json` and `transfer.json`.

Every method's parameters come from training subjects, in four folds. Boosting (scikit-learn, 60 rounds)
stages single epochs; its training nights are staged by an inner split, so that nothing a guard learns from
has seen a test subject. The networks are those of `../training`: the nights their guards learn from were
staged by networks that had seen the test subjects. Votes are those of networks trained elsewhere; for DOD-H
the truth is the consensus of five scorers. `shipped` is the built-in profile as it is; `HMM`, `paper` and
`band` take transitions and target from the training nights' scorings, and nothing from the stager; `match` is
the rule of fragmentation first described, `fitted` is `sg.fit` on training nights.

Errors: mean absolute error over argmax's, averaged over TST, SE, SOL, REM latency, WASO, awakenings and
bouts; for mice, recorded around the clock, over minutes and bouts of W, N and R. Sleep or REM that never
comes counts as coming at the end of the recording. "harmed": κ down by more than .005 with Holm's p < .05.
Nights in band: FI within the factor that two experts of a night differ by (1.97, 2.25, 2.00 for 3, 5, 2
stages). FI, bouts and awakenings are no independent evidence for rules steered by FI; for `fitted` TST, SE,
WASO and the other errors are not either, since they count in its choice: κ is. κ and the errors are partly
bought with accuracy: see the last column.
"""
