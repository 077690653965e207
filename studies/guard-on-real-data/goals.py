"""The goals, set before the run, and which of them are met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elsewhere import experts_flagged, transfer_figures
from layout import figures, of_group, table

WITHOUT_LABELS = ("clock + target", "clock + tune")
WITH_LABELS = ("fit",)  # on 15 scored nights or more


@dataclass(frozen=True)
class Goal:
    """A figure of `layout.figures` over a group of tasks, and the bar it is held to."""

    words: str
    group: str
    figure: str
    bar: float
    at_least: bool
    methods: tuple[str, ...] = WITHOUT_LABELS

    def row(self, method: str, n: int, value: float) -> list[str]:
        """Return a row of the table; bold where the figure, as printed, misses the bar."""
        is_count = float(self.bar).is_integer() and float(value).is_integer()
        shown = f"{value:.0f}" if is_count else f"{value:.3f}"
        value = round(value, 3)
        is_met = value >= self.bar if self.at_least else value <= self.bar
        bar = f"{'≥' if self.at_least else '≤'} {self.bar:g}"
        return [f"{method}: {self.words}", f"{n}", bar, shown if is_met else f"**{shown}**"]


GOALS = (
    Goal("share of human tasks whose κ is significantly better", "human", "up share", 0.5, True),
    Goal("tasks whose κ is significantly worse, Holm", "all", "down by Holm", 0, False),
    Goal("worst change of κ on a task", "all", "kappa worst", -0.005, True),
    Goal("errors over argmax's", "all", "ratio", 0.86, False),
    Goal("errors, good stagers", "good", "ratio", 0.95, False),
    Goal("errors, flickering stagers", "flickering", "ratio", 0.74, False),
    Goal("single errors significantly worse", "all", "worse", 3, False),
    Goal("nights in two experts' band of FI", "all", "in band", 0.85, True),
    Goal("REM latency's error, good stagers", "good", "rem latency", 0.6, False),
    Goal("error of the REM latency to report, good stagers", "good", "rem latency to report", 0.6, False),
    Goal("nights that do not look like expert scoring", "flickering", "flagged", 0.8, True, ("argmax",)),
    Goal("nights that do not look like expert scoring", "human", "flagged", 0.12, False),
    Goal("tasks whose κ is significantly worse, Holm", "all", "down by Holm", 0, False, WITH_LABELS),
    Goal("worst change of κ on a task", "all", "kappa worst", -0.005, True, WITH_LABELS),
    Goal("errors, good stagers", "good", "ratio", 0.93, False, WITH_LABELS),
    Goal("errors, flickering stagers", "flickering", "ratio", 0.75, False, WITH_LABELS),
    Goal("errors above those of `clock + tune`, worst task", "all", "above tune", 0.01, False, WITH_LABELS),
)


# Of profiles fitted elsewhere, over pairs of tasks; and of experts no profile has counted, the worst cohort.
ELSEWHERE = (
    Goal("pairs whose κ is significantly worse, Holm", "pairs", "down by Holm", 0, False, ("said", "unsaid")),
    Goal("worst change of κ on a pair", "pairs", "kappa worst", -0.005, True, ("said", "unsaid")),
    Goal("errors over its base's, worst pair", "pairs", "over default worst", 1.0, False, ("said", "unsaid")),
)
OF_EXPERTS = Goal("their nights that do not look like expert scoring, worst cohort", "", "", 0.12, False)


def goals_table(held: Mapping, pairs: Mapping) -> str:
    """One row a goal and method."""
    rows = []
    for goal in GOALS:
        by_method = {method: of_group(held, goal.group, method) for method in goal.methods}
        rows += [
            goal.row(f"`{method}`", len(tasks), figures(tasks, method)[goal.figure])
            for method, tasks in by_method.items()
            if tasks
        ]
    for goal in ELSEWHERE if pairs else ():
        for how in goal.methods:
            value = transfer_figures(pairs, how)[goal.figure]
            rows.append(goal.row(f"`fit` elsewhere, {how}", len(pairs), value))
    flagged = experts_flagged()
    rows.append(OF_EXPERTS.row("experts not counted", len(flagged), max(flagged)))
    return table(["goal", "tasks", "bar", "found"], rows)
