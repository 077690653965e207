"""Hold the goals that were set beforehand against what was found. Measures nothing anew."""

from __future__ import annotations

from collections.abc import Mapping

from layout import by_task_p, figures, of_group, table

SETS = {
    "chosen on": "context-free and votes",
    "context-free": "context-free stagers",
    "networks": "networks",
    "all": "all",
}


def bars(held: Mapping) -> str:
    """Hold the goals against each set of tasks: those the rule was chosen on, and those it was not."""
    found = {
        (name, method): figures(of_group(held, group), method)
        for name, group in SETS.items()
        for method in ("band", "fitted")
    }
    goals = [
        ("fitted", "harmed", "tasks where κ falls by > .005, Holm's p < .05", "0", "{:.0f}", _at_most(0)),
        ("band", "harmed", "tasks where κ falls by > .005, Holm's p < .05", "0", "{:.0f}", _at_most(0)),
        ("fitted", "kappa median", "median κ gain", "≥ +.015", "{:+.3f}", _at_least(0.015)),
        ("fitted", "ratio", "mean ratio of errors", "≤ .82", "{:.3f}", _at_most(0.82)),
        (
            "fitted",
            "ratio of the seven",
            "the same, seven for mice too",
            "≤ .82",
            "{:.3f}",
            _at_most(0.82),
        ),
        ("fitted", "worse", "single errors significantly worse", "≤ 1", "{:.0f}", _at_most(1)),
        (
            "fitted",
            "in band",
            "nights in two experts' band of FI, median",
            "≥ .80",
            "{:.2f}",
            _at_least(0.8),
        ),
        ("band", "ratio", "mean ratio of errors", "≤ .90", "{:.3f}", _at_most(0.90)),
        ("band", "ratio of the seven", "the same, seven for mice too", "≤ .90", "{:.3f}", _at_most(0.90)),
        ("band", "worse", "single errors significantly worse", "0", "{:.0f}", _at_most(0)),
    ]
    rows = []
    for method, key, what, bar, form, holds in goals:
        cells = []
        for name in SETS:
            value = found[name, method][key]
            cells.append(form.format(value) if holds(value) else f"**{form.format(value)}**")
        rows.append([f"`{method}`: {what}", bar, *cells])
    counts = [f"{name} ({found[name, 'fitted']['tasks']} tasks)" for name in SETS]
    return table(["goal", "bar", *counts], rows + _coverage_bars(held))


def _at_most(bar: float):
    return lambda value: round(value, 3) <= bar


def _at_least(bar: float):
    return lambda value: round(value, 3) >= bar


def _coverage_bars(held: Mapping) -> list[list[str]]:
    shares, lowest = [], []
    for group in SETS.values():
        tasks = [task for task in of_group(held, group).values() if task["coverage"]]
        counts = [count for task in tasks for count in task["coverage"].values()]
        share = sum(n_in for n_in, _ in counts) / sum(n for _, n in counts)
        p = min(by_task_p(task) for task in tasks)
        shares.append(f"{share:.1%}" if 0.85 <= share <= 0.95 else f"**{share:.1%}**")
        lowest.append(f"{p:.3f}" if p >= 0.01 else f"**{p:.3f}**")
    return [
        ["conformal 90 % intervals cover, pooled", "85 to 95 %", *shares],
        ["smallest p of a task, binomial test of coverage", "≥ .01", *lowest],
    ]
