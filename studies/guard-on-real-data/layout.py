"""Lay the study's results out as tables and a picture. Measures nothing anew."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from judging import STATISTICS
from scipy.stats import binomtest, wilcoxon

METHODS = ("majority of 3", "HMM", "paper", "band", "fitted")
SHORT = {"per-epoch": "context-free", "votes": "votes", "network": "network"}


def values(task: Mapping, method: str, name: str) -> dict[str, float]:
    """Return a measure by subject."""
    rows = (row for row in task["rows"] if row["method"] == method)
    return {row["subject"]: math.nan if row[name] is None else row[name] for row in rows}


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


def error_ratio(task: Mapping, method: str) -> float:
    """Return the mean over statistics of this method's mean absolute error over argmax's."""
    ratios = []
    for name in STATISTICS:
        own, before = mean(task, method, f"error {name}"), mean(task, "argmax", f"error {name}")
        if before > 0 and not math.isnan(own):
            ratios.append(own / before)
    return float(np.mean(ratios))


def single_errors(task: Mapping, method: str) -> tuple[int, int]:
    """Count statistics whose error is significantly smaller, and larger, than argmax's (uncorrected)."""
    better = worse = 0
    for name in STATISTICS:
        differences = paired(task, method, f"error {name}")
        if p_value(differences) < 0.05:
            better += bool(differences.mean() < 0)
            worse += bool(differences.mean() > 0)
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
                f"{better} / {worse}",
            ]
        )
    header = ["task", "accuracy", "→", "macro F1", "→", "FI", "→", "TVR %", "→", "% in band", "→"]
    return table([*header, "errors", "better / worse"], rows)


def _number(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def errors(held: Mapping) -> str:
    rows = []
    for name, task in held.items():
        for method in ("argmax", "paper", "band", "fitted"):
            cells = [_number(mean(task, method, f"error {one}"), 1) for one in STATISTICS]
            stars = [
                "" if method == "argmax" else _star(-paired(task, method, f"error {one}"))
                for one in STATISTICS
            ]
            cells = [cell + star for cell, star in zip(cells, stars, strict=True)]
            rows.append([name if method == "argmax" else "", method, *cells])
    return table(["task", "method", *(one.replace("_", " ") for one in STATISTICS)], rows)


def summary(held: Mapping) -> str:
    kinds = {"context-free stagers and votes": ("per-epoch", "votes"), "networks": ("network",)}
    rows = []
    for title, kind in kinds.items():
        chosen = {name: task for name, task in held.items() if task["kind"] in kind}
        if not chosen:
            continue
        for method in METHODS:
            gains = {name: paired(task, method, "kappa") for name, task in chosen.items()}
            p_values = {name: p_value(d) for name, d in gains.items()}
            adjusted = holm(p_values)
            up = sum(p_values[n] < 0.05 and d.mean() > 0 for n, d in gains.items())
            down = sum(p_values[n] < 0.05 and d.mean() < 0 for n, d in gains.items())
            harmed = sum(adjusted[n] < 0.05 and d.mean() < -0.005 for n, d in gains.items())
            ratios = [error_ratio(task, method) for task in chosen.values()]
            singles = [single_errors(task, method) for task in chosen.values()]
            in_band = [mean(task, method, "fi_in_band") for task in chosen.values()]
            accuracy = [paired(task, method, "accuracy") for task in chosen.values()]
            worse_accuracy = sum(p_value(d) < 0.05 and d.mean() < 0 for d in accuracy)
            rows.append(
                [
                    f"{title}: {method}",
                    f"{len(chosen)}",
                    f"{np.median([d.mean() for d in gains.values()]):+.3f}",
                    f"{min(d.mean() for d in gains.values()):+.3f}",
                    f"{up} / {down}",
                    f"{harmed}",
                    f"{np.mean(ratios):.2f} ({max(ratios):.2f})",
                    f"{sum(b for b, _ in singles)} / {sum(w for _, w in singles)}",
                    f"{100 * np.median(in_band):.0f}",
                    f"{worse_accuracy}",
                ]
            )
    header = [
        *("method", "tasks", "κ, median change", "worst", "up / down", "harmed", "errors, mean (worst)"),
        *("single errors better / worse", "% nights in band, median", "accuracy down"),
    ]
    return table(header, rows)


def covered(held: Mapping) -> str:
    rows, n_in, n_all = [], 0, 0
    for name, task in held.items():
        found = [row["inside"] for row in task["coverage"]]
        if not found:
            continue
        n_in, n_all = n_in + sum(found), n_all + len(found)
        statistics = sorted({row["statistic"] for row in task["coverage"]})
        each = {s: [r["inside"] for r in task["coverage"] if r["statistic"] == s] for s in statistics}
        worst = min(binomtest(sum(own), len(own), 0.9).pvalue for own in each.values())
        shown = f"{100 * sum(found) / len(found):.0f} %"
        rows.append([name, shown, f"{len(found)}", f"{worst:.3f}"])
    if not rows:
        return "No intervals yet.\n"
    rows.append(["**all**", f"**{100 * n_in / n_all:.1f} %**", f"{n_all}", ""])
    return table(["task", "covered", "intervals", "smallest p of a statistic"], rows)


def chosen_words(held: Mapping) -> str:
    return "\n".join(f"- {name}: {' / '.join(dict.fromkeys(task['chosen']))}" for name, task in held.items())


def write_tables(held: Mapping, path: Path) -> None:
    parts = [
        "# The guard on real nights\n",
        INTRODUCTION,
        "## Summary\n",
        summary(held),
        "## Kappa\n",
        "Mean over subjects; ↑ ↓ significantly better or worse than argmax (paired Wilcoxon, uncorrected).\n",
        per_task(held),
        "## `fitted`, before and after\n",
        measures(held, "fitted"),
        "## `band`, before and after\n",
        measures(held, "band"),
        "## Errors of what studies report\n",
        "Mean absolute error over subjects, in minutes, percent and counts; ↑ significantly smaller error.\n",
        errors(held),
        "## Conformal intervals\n",
        "Nominal 90 %, on subjects not used to fit.\n",
        covered(held),
        "## What `fit` chose\n",
        chosen_words(held) + "\n",
    ]
    path.write_text("\n".join(parts))


INTRODUCTION = """Written by `run.py`; every figure follows from `results.json`.

Every method's parameters come from training subjects, in four folds. Boosting (scikit-learn, 60 rounds)
stages single epochs; its training nights are staged by an inner split, so that nothing a guard learns from
has seen a test subject. The networks are those of `../training`: the nights their guards learn from were
staged by networks that had seen the test subjects. Votes are those of networks trained elsewhere; for DOD-H
the truth is the consensus of five scorers. `HMM`, `paper` and `band` take transitions and target from the
training nights' scorings alone, `fitted` is `sg.fit` on training nights. Errors: ratio of mean absolute
errors to argmax's, averaged over TST, SE, SOL, REM latency, WASO, awakenings and bouts. "harmed": κ down by
more than .005 with Holm's p < .05. Nights in band: FI within the factor that two experts of one night differ
by (1.97, 2.25, 2.00 for 3, 5, 2 stages). FI, bouts and awakenings are no independent evidence for rules
steered by FI; κ, TST, SE, WASO and REM latency are.
"""
