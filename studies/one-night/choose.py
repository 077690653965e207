"""Choose the rule for one night alone by leaving out cohorts, and stagers; lay the tables out.

    python choose.py    reads results.json and simulated.json, lays the tables out

Criterion, set before the run: errors over argmax's plus the distance of fragmentation from the experts' (the
mean absolute log of FI over the expert's FI), averaged over tasks. A rule ships if it is better than the one
before on tasks of cohorts, and of stagers, that did not choose it, and errors do not grow there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from candidates import AIMS, BOTH, KNOWN, TRIGGERS
from layout import geometric, holm, table

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
BEFORE = "before"
SHIPPED = "typical 1.75, exponent 0.5"


def criterion(task: Mapping, name: str) -> float:
    """Return errors plus the distance of fragmentation."""
    one = task["candidates"][name]
    return one["errors"] + one["fi_distance"]


def best(tasks: Iterable[Mapping], names: Sequence[str]) -> str:
    """Return the candidate of the smallest criterion; the first of equals."""
    every = list(tasks)
    return min(names, key=lambda name: float(np.mean([criterion(task, name) for task in every])))


def held_out(results: Mapping, names: Sequence[str], by: Callable[[Mapping], str]) -> dict[str, str]:
    """Return the candidate for each task that tasks of other cohorts, or stagers, choose."""
    return {
        name: best([other for other in results.values() if by(other) != by(task)], names)
        for name, task in results.items()
    }


def mean(results: Mapping, chosen: Mapping[str, str], figure: str) -> float:
    values = [results[name]["candidates"][chosen[name]][figure] for name in results]
    known = [value for value in values if value is not None]
    if figure == "rem_latency":
        return geometric(known)
    return float(np.mean(known)) if known else math.nan


def kappa(results: Mapping, chosen: Mapping[str, str]) -> tuple[int, int, float]:
    """Return on how many tasks κ is better and worse by Holm, and the worst change."""
    own = {name: task["candidates"][chosen[name]] for name, task in results.items()}
    adjusted = holm({name: one["p"] for name, one in own.items()})
    sure = [own[name]["kappa"] for name in own if adjusted[name] < 0.05]
    return sum(k > 0 for k in sure), sum(k < 0 for k in sure), min(one["kappa"] for one in own.values())


def row(results: Mapping, words: str, chosen: Mapping[str, str]) -> list[str]:
    better, worse, least = kappa(results, chosen)
    figures = [mean(results, chosen, one) for one in ("errors", "fi_distance", "rem_latency")]
    spread = mean(results, chosen, "fi_spread")
    cells = ["" if math.isnan(figure) else f"{figure:.3f}" for figure in figures]
    return [words, f"{len(results)}", *cells, f"{spread:.2f}", f"{better} / {worse}", f"{least:+.4f}"]


HEADER = (
    *("rule", "tasks", "errors", "FI distance", "REM latency's"),
    *("spread of ln FI", "κ better / worse, Holm", "worst κ"),
)


def same(results: Mapping, name: str) -> dict[str, str]:
    return dict.fromkeys(results, name)


def by_cross_validation(results: Mapping, names: Sequence[str]) -> list[list[str]]:
    """Return rows: before, the best of all, and what others choose for a cohort and a stager left out."""
    winner = best(results.values(), names)
    rows = [
        row(results, "before", same(results, BEFORE)),
        row(results, f"best of all: {winner}", same(results, winner)),
    ]
    for words, by in (("cohort", lambda t: t["cohort"]), ("stager", lambda t: t["stager"])):
        chosen = held_out(results, names, by)
        picks = sorted(set(chosen.values()), key=lambda pick: -list(chosen.values()).count(pick))
        rows.append(row(results, f"{words} left out ({'; '.join(picks)})", chosen))
    return rows


def part(results: Mapping, **facts: object) -> dict:
    return {name: task for name, task in results.items() if all(task[key] == facts[key] for key in facts)}


def trigger_tables(results: Mapping) -> list[str]:
    parts = []
    for n_stages in (5, 3, 2):
        own, names = part(results, n_stages=n_stages), (BEFORE, *TRIGGERS)
        rows = [row(own, name, same(own, name)) for name in (*names, SHIPPED, *BOTH)]
        rows += by_cross_validation(own, names)[2:]
        for cohort in sorted({task["cohort"] for task in own.values()}):
            few = part(own, cohort=cohort)
            rows += [row(few, f"{cohort}: {name}", same(few, name)) for name in (BEFORE, "act above 2")]
        parts += [f"### {n_stages} stages\n", table(HEADER, rows)]
    return parts


def aim_tables(results: Mapping) -> list[str]:
    rows = by_cross_validation(results, (BEFORE, *AIMS))
    rows += [row(results, name, same(results, name)) for name in (*AIMS, KNOWN)]
    groups = []
    for group in ("flickering", "good", "neither"):
        few = part(results, group=group)
        groups += [row(few, f"{group}: {name}", same(few, name)) for name in (BEFORE, SHIPPED, KNOWN)]
    return [table(HEADER, rows), "By kind of stager:\n", table(HEADER, groups)]


def counts(results: Mapping, what: str) -> dict[str, dict[str, int]]:
    """Return the counts of all tasks together."""
    total: dict[str, dict[str, int]] = {}
    for task in results.values():
        for minutes, count in task[what].items():
            own = total.setdefault(minutes, dict.fromkeys(count, 0))
            for key, n in count.items():
                own[key] += n
    return total


def rem_tables(results: Mapping) -> list[str]:
    bouts = [
        [f"{minutes} min or more", f"{one['nights']}", f"{one['removed']}", f"{one['scored']}"]
        for minutes, one in counts(results, "first_rem").items()
    ]
    expected = [
        [f"{minutes} min or more", f"{one['nights']}", f"{one['scored']}"]
        for minutes, one in counts(results, "expected_rem").items()
    ]
    return [
        table(
            ["first bout of REM in argmax", "smoothed nights", "removed whole", "of them scored REM"], bouts
        ),
        "REM that the probabilities expect in 10 min before the first decoded REM, 40 min or more after "
        "sleep onset:\n",
        table(["expected REM", "smoothed nights", "of them scored REM"], expected),
    ]


def main() -> None:
    results = json.loads((HERE / "results.json").read_text("utf-8"))
    parts = [
        "# One night alone\n",
        "Written by `choose.py` from `results.json` and `simulated.json`. Errors are over argmax's, as are "
        "those of REM latency (geometric mean); tasks count alike.\n",
        "## How much of its own difference a night keeps\n",
        *aim_tables(results),
        "## From where on a night is smoothed\n",
        *trigger_tables(results),
        "## The first REM\n",
        *rem_tables(results),
    ]
    if (simulated := HERE / "simulated.json").exists():
        parts += [
            "## Simulated nights, staged by YASA\n",
            simulated_table(json.loads(simulated.read_text("utf-8"))),
        ]
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "results.md").write_text("\n".join(parts), "utf-8")


def simulated_table(nights: Mapping[str, Mapping]) -> str:
    """One row a rule: fragmentation and REM latency against the truth."""
    rows = []
    for rule in next(iter(nights.values()))["rules"]:
        own = [night["rules"][rule] for night in nights.values()]
        truth = [night["truth"] for night in nights.values()]
        pairs = list(zip(own, truth, strict=True))
        index = np.array([one["fi"] for one in own])
        late = np.nanmean([abs(one["rem_latency"] - true["rem_latency"]) for one, true in pairs])
        r = np.corrcoef(index, [true["fi"] for true in truth])[0, 1]
        off = float(np.mean([abs(one["fi"] - true["fi"]) for one, true in pairs]))
        cells = [f"{index.min():.3f} to {index.max():.3f}", f"{r:.2f}", f"{off:.4f}", f"{late:.1f}"]
        rows.append([rule, *cells, f"{np.mean([one['kappa'] for one in own]):.3f}"])
    true = [night["truth"]["fi"] for night in nights.values()]
    header = [f"rule (true FI {min(true):.3f} to {max(true):.3f})", "FI", "r with the truth", "error of FI"]
    return table([*header, "error of REM latency, min", "κ"], rows)


if __name__ == "__main__":
    main()
