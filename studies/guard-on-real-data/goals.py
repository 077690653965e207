"""The goals, set before the run, and which of them are met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layout import figures, of_group, table

WITHOUT_LABELS = ("clock + target", "clock + tune")
WITH_LABELS = ("fit", "fit + clock")  # on 15 scored nights or more


@dataclass(frozen=True)
class Goal:
    """A figure of `layout.figures` over a group of tasks, and the bar it is held to."""

    words: str
    group: str
    figure: str
    bar: float
    at_least: bool
    methods: tuple[str, ...] = WITHOUT_LABELS

    def is_met(self, value: float) -> bool:
        """Whether a figure, as printed, keeps to the bar."""
        value = round(value, 3)
        return value >= self.bar if self.at_least else value <= self.bar


GOALS = (
    Goal("share of human tasks whose κ is significantly better", "human", "up share", 0.5, True),
    Goal("tasks whose κ is significantly worse, Holm", "all", "down by Holm", 0, False),
    Goal("worst change of κ on a task", "all", "kappa worst", -0.005, True),
    Goal("errors over argmax's", "all", "ratio", 0.85, False),
    Goal("errors, good stagers", "good", "ratio", 0.95, False),
    Goal("errors, flickering stagers", "flickering", "ratio", 0.78, False),
    Goal("single errors significantly worse", "all", "worse", 3, False),
    Goal("nights in two experts' band of FI", "all", "in band", 0.85, True),
    Goal("REM latency's error, good stagers", "good", "rem latency", 0.6, False),
    Goal("tasks whose κ is significantly worse, Holm", "all", "down by Holm", 0, False, WITH_LABELS),
    Goal("worst change of κ on a task", "all", "kappa worst", -0.005, True, WITH_LABELS),
    Goal("errors, good stagers", "good", "ratio", 0.93, False, WITH_LABELS),
    Goal("errors, flickering stagers", "flickering", "ratio", 0.75, False, WITH_LABELS),
)


def goals_table(held: Mapping) -> str:
    """One row a goal and method; bold where it is missed."""
    rows = []
    for goal in GOALS:
        for method in goal.methods:
            tasks = of_group(held, goal.group, method)
            if not tasks:
                continue
            value = figures(tasks, method)[goal.figure]
            shown = f"{value:.0f}" if float(goal.bar).is_integer() else f"{value:.3f}"
            bar = f"{'≥' if goal.at_least else '≤'} {goal.bar:g}"
            met = goal.is_met(value)
            rows.append([f"`{method}`: {goal.words}", f"{len(tasks)}", bar, shown if met else f"**{shown}**"])
    return table(["goal", "tasks", "bar", "found"], rows)
