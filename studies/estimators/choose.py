"""Choose the estimator of each statistic for each kind of stager, and judge the choice where it was not made.

    STAGEGUARD_CACHE=... python choose.py    after measure.py; writes results.json and the tables of README.md

A choice is made without the cohort it is judged on; for the networks of DOD-H that give labels alone, without
the network. An error is the mean over people of the mean absolute error of their nights; errors of several
tasks are compared as ratios, by geometric means over the tasks of a cohort and then over cohorts.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stageguard.measures.estimates import COUNTED, SURE

HERE = Path(__file__).parent
CACHE = Path(os.environ["STAGEGUARD_CACHE"])
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
BOUNDS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)  # of the mean largest probability of a night
KINDS = ("labels", "own labels", "sure", "unsure")
MINUTES = ("tst_minutes", *(f"minutes_{stage}" for stage in ("W", "N1", "N2", "N3", "N", "R")))
# from the definition on: the first epoch of sleep, then longer sleep and NREM
OF_SOL = tuple(f"{what} {seconds}" for seconds in (30, 60, 90, 120, 180, 300) for what in ("sleep", "nrem"))
OF_MICE = tuple(f"bout {seconds}" for seconds in (4, 8, 12, 16, 20, 30, 60, 120))
DEFAULT_OF_SOL, DEFAULT_OF_MINUTES = "sleep 30", "posterior"  # what was reported before
TIE = 1.01  # of estimators within one percent of the best, the first one listed is chosen

Way = Callable[[Mapping], str]  # the estimator for a night


@dataclass(frozen=True)
class Task:
    """The values of one stager on one cohort."""

    name: str
    cohort: str
    stager: str
    species: str
    nights: list[dict]

    def only(self, kind: str, bound: float = SURE) -> Task:
        """Return the nights of one kind."""
        return Task(
            *(self.name, self.cohort, self.stager, self.species),
            [night for night in self.nights if kind_of(night, bound) == kind],
        )


def kind_of(night: Mapping, bound: float) -> str:
    """Return the kind as `stageguard.measures.estimates.stager_kind_of` does, with any bound."""
    labels = {"typical": "labels", "own": "own labels"}.get(night["from_labels"])
    return labels or ("sure" if night["top"] >= bound else "unsure")


def read_tasks() -> list[Task]:
    """Return all that `measure.py` kept."""
    files = sorted(CACHE.glob("estimators *.json"))
    tasks = []
    for file in files:
        found = json.loads(file.read_text("utf-8"))
        name = file.stem.removeprefix("estimators ")
        tasks.append(Task(name, found["cohort"], found["stager"], found["species"], found["nights"]))
    return tasks


def error(task: Task, statistic: str, way: Way) -> float:
    """Return the mean absolute error over people; NaN if no expert's night has the statistic."""
    by_person: dict[str, list[float]] = {}
    for night in task.nights:
        truth = night["truth"].get(statistic, math.nan)
        if not math.isnan(truth):
            by_person.setdefault(night["subject"], []).append(
                abs(value_of(night, statistic, way(night)) - truth)
            )
    return float(np.mean([np.mean(errors) for errors in by_person.values()])) if by_person else math.nan


def value_of(night: Mapping, statistic: str, way: str) -> float:
    """Return an estimate; what never comes counts as coming at the end."""
    value = night["estimates"][statistic][way]
    return night["hours"] * 60 if math.isnan(value) else value


def ratio(tasks: Iterable[Task], statistic: str, way: Way, other: Way) -> float:
    """Return the error by one estimator over that by another; NaN where there is none to compare."""
    logs: dict[str, list[float]] = {}
    for task in tasks:
        errors = error(task, statistic, way), error(task, statistic, other)
        if min(errors) > 0:
            logs.setdefault(task.cohort, []).append(math.log(errors[0] / errors[1]))
    return math.exp(np.mean([np.mean(each) for each in logs.values()])) if logs else math.nan


def best(tasks: Sequence[Task], statistic: str, ways: Sequence[str], default: str) -> str:
    """Return the estimator with the least error over some tasks; the default without any."""
    ratios = {way: ratio(tasks, statistic, lambda _, way=way: way, lambda _: default) for way in ways}
    known = {way: value for way, value in ratios.items() if not math.isnan(value)}
    return next((way for way, value in known.items() if value <= TIE * min(known.values())), default)


def left_out(tasks: Sequence[Task], kind: str) -> dict[str, tuple[list[Task], list[Task]]]:
    """Return, by what is left out, the tasks to choose on and those to judge by."""
    parts: dict[str, list[Task]] = {}
    for task in tasks:
        # the networks that give labels alone are all of one cohort
        own_cohort = kind == "own labels" or (kind == "labels" and task.cohort == "dod-h")
        parts.setdefault(task.stager if own_cohort else task.cohort, []).append(task)
    return {name: ([task for task in tasks if task not in part], part) for name, part in parts.items()}


def with_nights(tasks: Iterable[Task], statistic: str) -> list[Task]:
    """Return the tasks of five people or more that have the statistic."""
    return [
        task
        for task in tasks
        if len({night["subject"] for night in task.nights if statistic in night["truth"]}) >= 5
    ]


def cross_validate(
    tasks: Sequence[Task], kind: str, statistic: str, ways: Sequence[str], default: str
) -> dict:
    """Return the choice on all nights of a kind, each choice without some of them, and how it did there."""
    own = with_nights((task.only(kind) for task in tasks), statistic)
    # all candidates exist where the stages do: those without REM have no first NREM
    own = [task for task in own if set(ways) <= task.nights[0]["estimates"].get(statistic, {}).keys()]
    chosen, judged = {}, {}
    for name, (others, part) in left_out(own, kind).items():
        chosen[name] = best(others, statistic, ways, default)
        for task in part:
            judged[task.name] = ratio([task], statistic, lambda _, way=chosen[name]: way, lambda _: default)
    pooled = [value for value in judged.values() if not math.isnan(value)]
    return {
        "n_tasks": len(own),
        "choice": best(own, statistic, ways, default),
        "left_out": chosen,
        "judged": {name: round(value, 3) for name, value in judged.items()},
        "mean": round(math.exp(np.mean(np.log(pooled))), 3) if pooled else None,
        "worst": round(max(pooled), 3) if pooled else None,
    }


def bounds(tasks: Sequence[Task]) -> dict:
    """Choose the bound of a sure stager with its table of minutes, without a cohort, and judge both there."""
    own = [task for task in tasks if task.nights and task.nights[0]["from_labels"] is None]
    chosen, judged = {}, {}
    for name, (others, part) in left_out(own, "sure").items():
        scores = {bound: _score(others, bound, table_of(others, bound)) for bound in BOUNDS}
        bound = min(scores, key=scores.__getitem__)
        chosen[name] = bound
        judged[name] = round(_score(part, bound, table_of(others, bound)), 3)
    every = {str(bound): round(_score(own, bound, table_of(own, bound)), 3) for bound in BOUNDS}
    return {"all": every, "left_out": chosen, "judged": judged}


def table_of(tasks: Sequence[Task], bound: float) -> dict[tuple[str, str], str]:
    """Return the best estimator of each statistic for sure and unsure nights."""
    return {
        (kind, statistic): best(
            with_nights((task.only(kind, bound) for task in tasks), statistic),
            statistic,
            ("path", "posterior"),
            DEFAULT_OF_MINUTES,
        )
        for kind in ("sure", "unsure")
        for statistic in MINUTES
    }


def _score(tasks: Sequence[Task], bound: float, table: Mapping[tuple[str, str], str]) -> float:
    """Return the error over that of the posterior's sums, over all statistics."""
    logs = []
    for statistic in MINUTES:
        having = [task for task in tasks if task.nights and statistic in task.nights[0]["estimates"]]
        found = ratio(
            having,
            statistic,
            lambda night, statistic=statistic: table[kind_of(night, bound), statistic],
            lambda _: DEFAULT_OF_MINUTES,
        )
        if not math.isnan(found):
            logs.append(math.log(found))
    return math.exp(np.mean(logs)) if logs else math.nan


def reported_sol(night: Mapping) -> str:
    """Return the estimator of SOL that ships."""
    kind = kind_of(night, SURE)
    if kind in ("sure", "unsure") or "nrem 60" not in night["estimates"]["sol_minutes"]:
        return "sleep 30"
    return "nrem 60"


def reported_onset(night: Mapping) -> str:
    """Return the sleep onset that the shipped REM latency is counted from."""
    names = {"sleep 30": "onset path", "nrem 60": "onset lasting"}
    return names[reported_sol(night)]


def shipped(tasks: Sequence[Task]) -> dict:
    """Return every task's errors by what shipped before and by what ships, in minutes."""
    found = {}
    for task in tasks:
        if task.species != "human":
            continue
        rows = {"sol_minutes": (lambda _: "sleep 30", reported_sol)}
        if "rem_latency_minutes" in task.nights[0]["estimates"]:
            rows["rem_latency_minutes"] = (lambda _: "onset path", reported_onset)
        for statistic in MINUTES:
            if statistic in task.nights[0]["estimates"]:
                rows[statistic] = (
                    lambda _: DEFAULT_OF_MINUTES,
                    lambda night, statistic=statistic: (
                        "path" if statistic in COUNTED[kind_of(night, SURE)] else "posterior"
                    ),
                )
        found[task.name] = {
            "cohort": task.cohort,
            "kind": kind_of({"from_labels": task.nights[0]["from_labels"], "top": _mean_top(task)}, SURE),
            "errors": {
                name: [round(error(task, name, way), 2) for way in ways] for name, ways in rows.items()
            },
            "experts": {
                name: [round(value, 2) for way in ways if (value := expert_units(task, name, way))]
                for name, ways in rows.items()
            },
        }
    return found


def _mean_top(task: Task) -> float:
    return float(np.mean([night["top"] for night in task.nights]))


def expert_units(task: Task, statistic: str, way: Way) -> float | None:
    """Return the error over one expert's, both against the consensus of the other experts."""
    own = expert = 0.0
    for night in task.nights:
        for scorer, others in zip(night.get("experts", ()), night.get("without", ()), strict=True):
            if not math.isnan(scorer[statistic]) and not math.isnan(others[statistic]):
                own += abs(value_of(night, statistic, way(night)) - others[statistic])
                expert += abs(scorer[statistic] - others[statistic])
    return own / expert if expert else None


def mice(tasks: Sequence[Task]) -> dict:
    """Choose how long the first REM of a mouse must last, without a laboratory."""
    own = [task for task in tasks if task.species == "mouse"]
    name = "rem_latency_minutes"
    labs = {}
    for lab, (others, part) in left_out(own, "").items():
        labs[lab] = {
            "chosen": best(others, name, OF_MICE, "bout 4"),
            "errors": {
                way: round(float(np.mean([error(task, name, lambda _, way=way: way) for task in part])), 1)
                for way in OF_MICE
            },
        }
    return {"choice": best(own, name, OF_MICE, "bout 4"), "labs": labs}


def summed(tasks: Sequence[Task]) -> dict:
    """Return, for mice, the error of counted minutes over that of the posterior's sums, by what is given."""
    own = [task for task in tasks if task.species == "mouse"]
    by_kind = {"labels": [task for task in own if task.nights[0]["from_labels"]]}
    by_kind["probabilities"] = [task for task in own if task not in by_kind["labels"]]
    return {
        kind: {
            name: round(ratio(having, name, lambda _: "path", lambda _: DEFAULT_OF_MINUTES), 2)
            for name in ("tst_minutes", "minutes_N", "minutes_R")
        }
        for kind, having in by_kind.items()
    }


def an_hour_later(tasks: Sequence[Task]) -> dict:
    """Return SOL's error over that of the first epoch if everybody had lain awake for an hour more."""
    found = {}
    for way in ("sleep 60", "nrem 30", "nrem 60", "expected 1", "expected 2"):
        ratios = []
        for task in tasks:
            later = [
                {**night, "estimates": {"sol_minutes": night["later"]}}
                for night in task.nights
                if night["later"]
            ]
            moved = Task(task.name, task.cohort, task.stager, task.species, later)
            if later and way in later[0]["estimates"]["sol_minutes"]:
                ratios.append(ratio([moved], "sol_minutes", lambda _, way=way: way, lambda _: DEFAULT_OF_SOL))
        found[way] = [round(math.exp(np.mean(np.log(ratios))), 2), round(max(ratios), 2)]
    return found


def main() -> None:
    tasks = read_tasks()
    people = [task for task in tasks if task.species == "human"]
    minutes = ("posterior", "path")
    results = {
        "sol": {kind: cross_validate(people, kind, "sol_minutes", OF_SOL, DEFAULT_OF_SOL) for kind in KINDS},
        "an_hour_later": an_hour_later(people),
        "experts_moved": json.loads((CACHE / "onsets of experts.json").read_text("utf-8")),
        "minutes": {
            kind: {name: cross_validate(people, kind, name, minutes, DEFAULT_OF_MINUTES) for name in MINUTES}
            for kind in KINDS
        },
        "bound": bounds(people),
        "mice": mice(tasks) | {"counted over summed": summed(tasks)},
        "tasks": shipped(tasks),
    }
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    readme = HERE / "README.md"
    text, _, rest = readme.read_text("utf-8").partition(BEGIN)
    readme.write_text(f"{text}{BEGIN}\n{tables(results)}{END}{rest.partition(END)[2]}", "utf-8")


def tables(results: Mapping) -> str:
    """Return the tables of README.md."""
    return "\n".join(
        [
            "### Sleep onset latency\n",
            _table(
                ["kind", "tasks", "chosen", "judged elsewhere: error over the first epoch's", "worst"],
                _sol_rows(results),
            ),
            "### Minutes\n",
            _table(
                ["kind", "statistic", "tasks", "better", "judged elsewhere: error over the sum's", "worst"],
                _minutes_rows(results),
            ),
            "### Errors in units of one expert's, DOD-H, reported before → now\n",
            _table(["stager", "SOL", "REM latency", "TST", "N1", "N2", "N3", "R"], _expert_rows(results)),
            "### First REM of mice, error in minutes by its least length\n",
            _table(
                ["laboratory", "chosen without it", *(f"{way.partition(' ')[2]} s" for way in OF_MICE)],
                _mice_rows(results),
            ),
        ]
    )


def _sol_rows(results: Mapping) -> list[list[str]]:
    rows = results["sol"].items()
    return [[k, f"{r['n_tasks']}", r["choice"], f"{r['mean']}", f"{r['worst']}"] for k, r in rows]


def _minutes_rows(results: Mapping) -> list[list[str]]:
    return [
        [kind, name, f"{r['n_tasks']}", r["choice"], f"{r['mean']}", f"{r['worst']}"]
        for kind, by_name in results["minutes"].items()
        for name, r in by_name.items()
        if r["n_tasks"] and r["choice"] == "path"
    ]


def _expert_rows(results: Mapping) -> list[list[str]]:
    names = (
        "sol_minutes",
        "rem_latency_minutes",
        "tst_minutes",
        *(f"minutes_{s}" for s in ("N1", "N2", "N3", "R")),
    )
    return [
        [
            name.removeprefix("DOD-H, ").removesuffix(", 5 stages"),
            *(" → ".join(f"{x:.2f}" for x in task["experts"][n]) for n in names),
        ]
        for name, task in results["tasks"].items()
        if task["cohort"] == "dod-h" and name.endswith("5 stages")
    ]


def _mice_rows(results: Mapping) -> list[list[str]]:
    return [
        [lab, f"{r['chosen'].partition(' ')[2]} s", *(f"{r['errors'][way]}" for way in OF_MICE)]
        for lab, r in results["mice"]["labs"].items()
    ]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
