"""What the conformal intervals of fitted profiles cover, on people the fit has not seen.

    STAGEGUARD_DATA=... python interval_coverage.py              all that is missing, then the page
    STAGEGUARD_DATA=... python interval_coverage.py --tables     the page alone

For every task, people are drawn at random to fit on, and the nights of all others are judged; every night was
staged by a stager that had not seen it. Sleep-EDF is also split by age. Goal, set before the run: nominal
90 % are 85 to 95 % of the intervals of a task, whatever the number of people.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from cohorts import sleep_edf_ages
from fitted import coverage
from kept import keep, read
from methods import experts, fit_report
from tasks import Task, TaskNight, tasks

import stageguard as sg
from stageguard.fitting.fit import FitReport
from stageguard.measures.intervals import errors, half_width, reported
from stageguard.night.hypnogram import UNSCORED

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "interval_coverage.json"
PAGE = FOLDER.parents[1] / "build" / "studies" / FOLDER.name / "interval_coverage.md"
N_PEOPLE = (10, 15, 20, 25)
N_DRAWS = 8
LEAST_JUDGED = 4  # people
OLD = 60  # years: half of the people of Sleep-EDF are older
LEVEL = 0.9
JUDGED = ("Sleep-Accel, boosting", "Sleep-EDF, EEG boosting", "DOD-H")


def main() -> None:
    """Fit and judge what is missing, and lay the page out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="only write the page")
    if not parser.parse_args().tables:
        nights = {task: staged_nights(task) for task in tasks() if task.name.startswith(JUDGED)}
        # draw by draw, so that all tasks are as far if it is stopped
        for number in range(N_DRAWS):
            for task, own in nights.items():
                for name, people in draws(task, own, number):
                    judge_once(task, own, people, f"{task.name} | {name}")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(read(RESULTS)), "utf-8")


def staged_nights(task: Task) -> list[TaskNight]:
    """Return every night of a task as the fold that held it out has it."""
    return [night for fold in task.folds() for night in fold.test]


def judge_once(task: Task, nights: Sequence[TaskNight], people: set[str], key: str) -> None:
    """Fit and judge a draw, if that was not done."""
    if key in read(RESULTS):
        return
    began = time.perf_counter()
    keep(RESULTS, {key: judge_draw(task, nights, people)})
    print(f"{key}: {time.perf_counter() - began:.0f} s", flush=True)


def draws(task: Task, nights: Sequence[TaskNight], number: int) -> Iterator[tuple[str, set[str]]]:
    """Yield the people of each fit by its name; the same people for every task of a cohort."""
    everyone = sorted({night.subject for night in nights})
    order = np.random.default_rng(number).permutation(everyone).tolist()
    for n in N_PEOPLE:
        if n + LEAST_JUDGED <= len(everyone):
            yield f"{n} people, draw {number}", set(order[:n])
    if task.cohort == "sleep-edf":
        ages = sleep_edf_ages()
        yield f"people up to {OLD}", {one for one in everyone if ages[one] <= OLD}
        yield f"people above {OLD}", {one for one in everyone if ages[one] > OLD}


def judge_draw(task: Task, nights: Sequence[TaskNight], people: set[str]) -> dict:
    """Fit on some people, and count by statistic what intervals hold of all others."""
    train = [night for night in nights if night.subject in people]
    test = [night for night in nights if night.subject not in people]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        report = fit_report(task, train)
        inside, shown = Counter[str](), Counter[str]()
        for name, is_inside in coverage(task, report.profile, test, task.cohort, task.stager):
            shown[name] += 1
            inside[name] += bool(is_inside)
        plain = covered_before(task, report, train, test)
    return {
        "n_people": len(people),
        "shown": dict(shown),
        "inside": dict(inside),
        "before": plain,
        "written": dict(report.profile.intervals["coverage"]),
    }


def covered_before(
    task: Task, report: FitReport, train: Sequence[TaskNight], test: Sequence[TaskNight]
) -> list[int]:
    """Count what the rule before would hold, and of how many: scored epochs alone, each night by itself."""
    shortest = report.profile.intervals["min_first_rem_seconds"]
    scored, held_out = experts(task, train), report.nested
    decoded = held_out.decoded["argmax" if report.steps_aside else "fitted"]
    outputs = [
        replace(
            expert, labels=np.where(expert.labels == UNSCORED, UNSCORED, own.hypnogram.labels).astype(np.int8)
        )
        for expert, own in zip(scored, decoded, strict=True)
    ]
    past = errors(scored, outputs, min_first_rem_seconds=shortest)
    widths = {
        name: half_width([[error] for error in values if not math.isnan(error)], LEVEL)
        for name, values in past.items()
    }
    decoded = sg.decode(
        [night.probabilities for night in test],
        report.profile,
        epoch_seconds=task.epoch_seconds,
        trained=task.trained,
        cohort=task.cohort,
        stager=task.stager,
    )
    n_inside = n_shown = 0
    for output, expert in zip(decoded, experts(task, test), strict=True):
        truth, values = (
            reported(sg.sleep_statistics(each, min_first_rem_seconds=shortest)) for each in (expert, output)
        )
        for name, width in widths.items():
            if math.isfinite(width) and not math.isnan(truth[name] - values[name]):
                n_shown += 1
                n_inside += bool(abs(truth[name] - values[name]) <= width + 1e-9)
    return [n_inside, n_shown]


def page(results: dict) -> str:
    """Lay out what was covered, by task and by statistic."""
    of_draws, of_ages = defaultdict(list), defaultdict(dict)
    for key, draw in results.items():
        task, _, name = key.partition(" | ")
        if "draw" in name:
            of_draws[task].append(draw)
        else:
            of_ages[task][name] = draw
    lines = [
        "# What conformal intervals cover",
        "",
        "Written by `interval_coverage.py`. Nominal 90 %, nights of people who were not fitted on; cohort",
        f"and stager named. {N_DRAWS} draws of 10 to 25 people from each task, every night staged unseen.",
        "`before`: errors over the epochs that the expert scored, each night counted by itself. `in the",
        "profile`: what the fits themselves expected, by leaving one person out at a time. The goal, 85",
        "to 95 % of a task, was set before; four draws were looked at first, then as many again were",
        "added. Draws of one cohort are the same people for all its tasks, so that tasks are high or low",
        "together.",
        "",
        *table_of_tasks(of_draws),
        "",
        "## By statistic",
        "",
        *table_of_statistics(of_draws),
        "",
        "## When new people are not like those fitted on",
        "",
        f"Sleep-EDF, split at {OLD} years: 14 younger and 12 older people.",
        "",
        *table_of_ages(of_ages),
    ]
    return "\n".join(lines) + "\n"


def share(draws: Iterable[dict], statistic: str | None = None) -> float:
    """Return the share of intervals that held the expert's value."""
    n_inside = n_shown = 0
    for draw in draws:
        for name, n in draw["shown"].items():
            if statistic in (None, name):
                n_inside, n_shown = n_inside + draw["inside"][name], n_shown + n
    return n_inside / n_shown if n_shown else math.nan


def share_before(draws: Sequence[dict]) -> float:
    """Return the same of the rule before."""
    inside, shown = np.sum([draw["before"] for draw in draws], axis=0)
    return float(inside / shown) if shown else math.nan


def percent(value: float, decimals: int = 0) -> str:
    return "" if math.isnan(value) else f"{100 * value:.{decimals}f} %"


def table_of_tasks(of_draws: dict[str, list[dict]]) -> Iterator[str]:
    sizes = [f"{n} people" for n in N_PEOPLE]
    yield f"| task | before | covered | {' | '.join(sizes)} | TST | in the profile | draws below 85 % |"
    yield f"| --- |{' --: |' * (5 + len(sizes))}"
    for task, found in of_draws.items():
        by_size = [share(draw for draw in found if draw["n_people"] == n) for n in N_PEOPLE]
        written = np.mean([value for draw in found for value in draw["written"].values()])
        below = np.mean([share([draw]) < 0.85 for draw in found])
        cells = [*by_size, share(found, "tst_minutes"), written, below]
        shares = [percent(each, decimals=1) for each in (share_before(found), share(found))]
        yield f"| {task} | {' | '.join([*shares, *map(percent, cells)])} |"
    everything = [draw for found in of_draws.values() for draw in found]
    cells = [percent(each(everything), decimals=1) for each in (share_before, share)]
    yield f"| **all** | {' | '.join(cells)} |{' |' * (len(sizes) + 3)}"


def table_of_statistics(of_draws: dict[str, list[dict]]) -> Iterator[str]:
    everything = [draw for found in of_draws.values() for draw in found]
    yield "| statistic | covered | lowest of a task |"
    yield "| --- | --: | --- |"
    for name in dict.fromkeys(name for draw in everything for name in draw["shown"]):
        by_task = {task: share(found, name) for task, found in of_draws.items()}
        known = {task: value for task, value in by_task.items() if not math.isnan(value)}
        lowest = min(known, key=known.__getitem__)
        yield f"| {name} | {percent(share(everything, name))} | {percent(known[lowest])}, {lowest} |"


def table_of_ages(of_ages: dict[str, dict[str, dict]]) -> Iterator[str]:
    yield f"| task | fitted up to {OLD}, used above | TST | fitted above {OLD}, used on younger | TST |"
    yield "| --- | --: | --: | --: | --: |"
    for task, found in of_ages.items():
        cells = [
            value
            for name in (f"people up to {OLD}", f"people above {OLD}")
            for value in (share([found[name]]), share([found[name]], "tst_minutes"))
            if name in found
        ]
        yield f"| {task} | {' | '.join(map(percent, cells))} |"


if __name__ == "__main__":
    main()
