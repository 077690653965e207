"""Estimate cohorts from few scored and many unscored nights, and count how often that covers the truth.

STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python prediction_powered.py    prediction_powered.json and .md

The nights of a real cohort are the population: a study draws some of them with replacement, experts have
scored only a part of those, and the truth is the experts' value over the whole cohort.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from cohorts import sleep_edf_ages
from layout import table
from methods import argmax, experts
from tasks import Task, tasks

import stageguard as sg

FOLDER = Path(__file__).parent
DESIGNS = (  # what is estimated, scored nights, all nights
    ("mean", 10, 50),
    ("mean", 20, 200),
    ("difference", 20, 200),
    ("correlation", 20, 200),
)
N_STUDIES, N_RESAMPLES, SEED = 200, 299, 42
TASKS = (
    "Sleep-EDF, EEG boosting, 5 stages",
    "Sleep-EDF, respiration and EMG boosting, 5 stages",
    "DOD-H, votes of 20 networks, 5 stages",
)
STATISTICS = {
    "tst_minutes": "TST",
    "waso_minutes": "WASO",
    "rem_latency_minutes": "REM latency",
    "awakenings": "awakenings",
    "minutes_N1": "N1 minutes",
    "minutes_N2": "N2 minutes",
    "minutes_N3": "N3 minutes",
    "minutes_R": "REM minutes",
}


def statistics(scored: sg.Hypnogram) -> dict[str, float]:
    found = sg.sleep_statistics(scored)
    minutes = {f"minutes_{stage}": found.stage_minutes[stage] for stage in found.scheme.names}
    return {name: float(minutes[name] if name in minutes else getattr(found, name)) for name in STATISTICS}


def measured(task: Task) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return expert and guarded values of every night, by statistic, and what they are correlated with."""
    nights = [night for fold in task.folds() for night in fold.test]
    decoded = sg.decode([night.probabilities for night in nights], task.base, epoch_seconds=30.0)
    guarded = [
        replace(each.hypnogram, labels=np.where(before < 0, -1, each.hypnogram.labels).astype(np.int8))
        for each, before in zip(decoded, argmax(nights), strict=True)
    ]
    by_scoring = [
        np.array([list(statistics(scored).values()) for scored in scorings])
        for scorings in (experts(task, nights), guarded)
    ]
    values = {name: np.stack([each[:, k] for each in by_scoring]) for k, name in enumerate(STATISTICS)}
    if task.cohort == "sleep-edf":
        age = sleep_edf_ages()
        return values, np.array([age[night.subject] for night in nights])
    return values, np.array([len(night.labels) / 120 for night in nights])  # hours of recording


def repeat(pair: np.ndarray, kind: str, n_scored: int, n_all: int, covariate: np.ndarray) -> dict[str, float]:
    """Do many studies of one statistic, and count."""
    rng = np.random.default_rng(SEED)
    expert, automatic = pair
    is_first = np.arange(len(expert)) % 2 == 0  # two made-up groups: every other night
    known = ~np.isnan(expert)
    truth = {
        "mean": np.mean(expert[known]),
        "difference": np.mean(expert[known & is_first]) - np.mean(expert[known & ~is_first]),
        "correlation": np.corrcoef(expert[known], covariate[known])[0, 1],
    }[kind]
    covered = alone = n_done = n_fallen = 0
    ratios, weights = [], []
    for study in range(N_STUDIES):
        drawn = rng.integers(0, len(expert), n_all)
        names = [f"n{k}" for k in range(n_all)]
        options: Mapping = {}
        if kind == "difference":
            group = {name: "ab"[not is_first[k]] for name, k in zip(names, drawn, strict=True)}
            options = {"groups": dict(sorted(group.items(), key=lambda item: item[1]))}  # a minus b
        elif kind == "correlation":
            options = {"covariate": dict(zip(names, covariate[drawn].tolist(), strict=True))}
        try:
            found = sg.prediction_powered(
                dict(zip(names[:n_scored], expert[drawn[:n_scored]].tolist(), strict=True)),
                dict(zip(names, automatic[drawn].tolist(), strict=True)),
                n_resamples=N_RESAMPLES,
                seed=study,
                **options,
            )
        except sg.InputError:  # fewer than five scored in a group
            continue
        if math.isnan(found.low):
            continue
        n_done += 1
        covered += found.low <= truth <= found.high
        alone += found.scored_low <= truth <= found.scored_high
        ratios.append(found.width_ratio)
        weights.append(found.weight)
        n_fallen += found.weight == 0.0
    both = known & ~np.isnan(automatic)
    return {
        "r": round(float(np.corrcoef(expert[both], automatic[both])[0, 1]), 3),
        "bias": round(float(np.mean(automatic[both] - expert[both])), 2),
        "n": n_done,
        "covered": round(covered / n_done, 3),
        "covered_alone": round(alone / n_done, 3),
        "ratio": round(float(np.median(ratios)), 3),
        "ratio_worst": round(float(np.max(ratios)), 3),
        "weight": round(float(np.mean(weights)), 2),
        "fallen_back": round(n_fallen / n_done, 3),
    }


def main() -> None:
    """Do every study that is not done, and lay out what was found."""
    warnings.simplefilter("ignore", sg.StageGuardWarning)
    file = FOLDER / "prediction_powered.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    done = {(row["task"], row["kind"], row["scored"]) for row in rows}
    chosen = {task.name: task for task in tasks() if task.name in TASKS}
    values: dict[str, tuple[dict[str, np.ndarray], np.ndarray]] = {}
    for kind, n_scored, n_all in DESIGNS:
        for name, task in chosen.items():
            if (name, kind, n_scored) in done:
                continue
            if name not in values:
                values[name] = measured(task)
            for statistic in STATISTICS:
                of_nights, covariate = values[name]
                counts = repeat(of_nights[statistic], kind, n_scored, n_all, covariate)
                which = {"task": name, "kind": kind, "scored": n_scored, "all": n_all, "statistic": statistic}
                rows.append(which | counts)
            print(name, kind, n_scored, n_all, flush=True)
            file.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    (FOLDER / "prediction_powered.md").write_text(page(rows))


def page(rows: list[dict]) -> str:
    """Lay the counts out."""
    parts = [
        "# Few scored nights, many unscored ones\n",
        "Written by `prediction_powered.py`; every figure follows from `prediction_powered.json`.\n",
        f"{N_STUDIES} studies of each row draw nights of a real cohort with replacement; experts have scored "
        "the first of them.\nThe automatic scoring is the guard's (built-in profile) on a stager that has "
        "not seen the night.\nCovered: share of 95 % intervals that hold the experts' value over the whole "
        "cohort, and the same from scored nights alone.\nWidth: of the interval over that of scored nights "
        "alone, median (worst). The groups of a difference are every other night.\nCorrelations "
        "are with age (Sleep-EDF) and with the length of the recording (DOD-H).\nr and bias: "
        "automatic against expert, night by night.\n",
    ]
    for kind, n_scored, n_all in dict.fromkeys((row["kind"], row["scored"], row["all"]) for row in rows):
        of_kind = [row for row in rows if (row["kind"], row["scored"], row["all"]) == (kind, n_scored, n_all)]
        parts.append(f"## {kind.capitalize()}, {n_scored} scored of {n_all}\n")
        header = ("stager, statistic", "r", "bias", "covered", "scored alone", "width", "λ", "λ = 0")
        lines = [
            (
                f"{row['task'].removesuffix(', 5 stages')}: {STATISTICS[row['statistic']]}",
                f"{row['r']:.2f}",
                f"{row['bias']:+.1f}",
                f"{row['covered']:.3f}",
                f"{row['covered_alone']:.3f}",
                f"{row['ratio']:.2f} ({row['ratio_worst']:.2f})",
                f"{row['weight']:.2f}",
                f"{row['fallen_back']:.0%}",
            )
            for row in of_kind
        ]
        means = [np.mean([row[key] for row in of_kind]) for key in ("covered", "covered_alone", "ratio")]
        lines.append(("all", "", "", f"{means[0]:.3f}", f"{means[1]:.3f}", f"{means[2]:.2f}", "", ""))
        parts.append(table(header, lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
