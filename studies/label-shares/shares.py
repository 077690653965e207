"""Count what experts say where a stager says each stage, and judge the guard on labels alone.

    STAGEGUARD_DATA=... python shares.py    needs scikit-learn; writes results.json and README.md's table

A stager's label becomes a row of shares, counted on other stagers and other nights; then the guard as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "guard-on-real-data"))

import cohorts  # noqa: E402
import layout  # noqa: E402
import methods  # noqa: E402
from label_nights import LabelNight, count, dod_h, mice, rows_of  # noqa: E402
from run import by_subject, judged  # noqa: E402
from stagers import staged_folds  # noqa: E402
from tasks import LABS, Task, TaskNight  # noqa: E402

import stageguard as sg  # noqa: E402
from stageguard.night.stages import AASM5  # noqa: E402


def boosting(cohort: str, nights: Iterable[cohorts.FeatureNight]) -> list[LabelNight]:
    """Return what boosting says of nights it has not seen, one epoch at a time."""
    by_name = {night.name: night for night in nights}
    found = []
    for fold in staged_folds(cohort, list(by_name.values())):
        for name, rows in fold.test.items():
            said = np.where(np.isnan(rows[:, 0]), -1, np.nan_to_num(rows).argmax(axis=1))
            truth = by_name[name].labels
            found.append(LabelNight(f"{cohort} boosting", name, by_name[name].subject, said, (truth,), truth))
    return found


def judge(
    nights: Sequence[LabelNight], shares_for: Callable[[LabelNight], np.ndarray], task: Task
) -> dict[str, dict[str, float]]:
    """Return the figures of every stager: shares that do not know the night or its stager, then the guard."""
    profile = sg.Profile.load(task.base).replace(clock=methods.clock_of(task))
    figures = {}
    for stager in sorted({night.stager for night in nights}):
        softened = [
            TaskNight(night.night, night.subject, rows_of(night.said, shares_for(night)), night.truth)
            for night in nights
            if night.stager == stager
        ]
        rows = list(judged(task, "argmax", softened, methods.argmax(softened)))
        rows += judged(task, "guard", softened, methods.decode(profile, task, softened))
        columns, table = by_subject(rows)
        figures[stager] = figures_of({"cohort": task.cohort, "columns": columns, "rows": table})
        print(task.name, stager, figures[stager], flush=True)
    return figures


def figures_of(judged_task: Mapping) -> dict[str, float]:
    """Return kappa, and errors over those of the labels themselves."""
    gains = layout.paired(judged_task, "guard", "kappa")
    better, worse = layout.single_errors(judged_task, "guard")
    values = {
        "subjects": len(gains),
        "kappa": layout.mean(judged_task, "argmax", "kappa"),
        "kappa gain": gains.mean(),
        "kappa p": layout.p_value(gains),
        "errors": layout.error_ratio(judged_task, "guard"),
        "better": len(better),
        "worse": len(worse),
    }
    if layout.is_human(judged_task):
        values["rem latency"] = layout.ratio(judged_task, "guard", "rem_latency_minutes")
    known = {name: float(value) for name, value in values.items() if not np.isnan(value)}
    return {name: round(value, 4) for name, value in known.items()}


def task_of(cohort: str, base: str, epoch_seconds: float = 30.0) -> Task:
    """Return what the measures need to know of labels on a cohort."""
    scheme = sg.Profile.load(base).scheme
    return Task(
        name=f"{cohort}, {base}",
        cohort=cohort,
        kind="labels",
        scheme=scheme,
        epoch_seconds=epoch_seconds,
        trained=None,
        base=base,
        paper=None,
        folds=list,
    )


def people(base: str, *, each: bool) -> dict:
    """Count and judge the published networks: shares of the other five networks on the other nights."""
    task = task_of("dod-h", base)
    nights = [night.merged(AASM5, task.scheme) for night in dod_h(each=each)]
    n_stages = task.scheme.n_stages

    def shares_for(night: LabelNight) -> np.ndarray:
        others = (one for one in nights if one.stager != night.stager and one.night != night.night)
        return count(others, n_stages)

    return entry(task, count(nights, n_stages), {"dod-h": judge(nights, shares_for, task)})


def mouse() -> dict:
    """Count and judge AccuSleep's networks: shares of the other five networks in the other laboratories."""
    task = task_of("mouse", "mouse-eeg-emg-3", 4.0)
    labs = {lab: mice(lab) for lab in LABS}

    @cache
    def shares(stager: str, lab: str) -> np.ndarray:
        others = (one for key, nights in labs.items() if key != lab for one in nights if one.stager != stager)
        return count(others, 3)

    judged_labs = {
        lab: judge(nights, lambda night, lab=lab: shares(night.stager, lab), task)
        for lab, nights in labs.items()
    }
    everything = [night for nights in labs.values() for night in nights]
    return entry(task, count(everything, 3), judged_labs)


def watches(base: str, names: Sequence[str]) -> dict:
    """Count and judge boosting on what a watch or the heart gives: shares of the other people."""
    scheme = sg.Profile.load(base).scheme
    read = {"sleep-accel": cohorts.sleep_accel, "slpdb": cohorts.slpdb}
    found, counted = {}, []
    for cohort in names:
        task = task_of(cohort, base)
        nights = [night.merged(AASM5, scheme) for night in boosting(cohort, read[cohort]())]
        counted += nights

        def shares_for(night: LabelNight, nights: list[LabelNight] = nights) -> np.ndarray:
            return count((one for one in nights if one.subject != night.subject), scheme.n_stages)

        found[cohort] = judge(nights, shares_for, task)
    return entry(task, count(counted, scheme.n_stages), found)


def entry(task: Task, shares: np.ndarray, figures: Mapping[str, dict]) -> dict:
    """Return what is kept: the shares by stage said, and figures by cohort and stager."""
    names = task.scheme.names
    rounded = [[round(float(share), 4) for share in row] for row in shares]
    for stage, row in enumerate(rounded):
        row[stage] = round(row[stage] + 1.0 - sum(row), 4)
    table = {said: dict(zip(names, row, strict=True)) for said, row in zip(names, rounded, strict=True)}
    return {"shares": table, "figures": dict(figures)}


def main() -> None:
    results = {
        "human-psg-5": people("human-psg-5", each=True),
        "human-psg-5, consensus": people("human-psg-5", each=False),
        "human-psg-3": people("human-psg-3", each=True),
        "human-psg-3, consensus": people("human-psg-3", each=False),
        "human-actigraphy-2": people("human-actigraphy-2", each=True),
        "human-actigraphy-2, watch": watches("human-actigraphy-2", ("sleep-accel",)),
        "human-cardiorespiratory-3": watches("human-cardiorespiratory-3", ("sleep-accel", "slpdb")),
        "mouse-eeg-emg-3": mouse(),
    }
    (HERE / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    text = (HERE / "README.md").read_text("utf-8")
    before, _, after = text.partition(BEGIN)
    after = after.partition(END)[2]
    (HERE / "README.md").write_text(f"{before}{BEGIN}\n{summary(results)}{END}{after}", "utf-8")


BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def summary(results: Mapping[str, dict]) -> str:
    """Return one row per profile and cohort."""
    rows = []
    for name, held in results.items():
        for cohort, by_stager in held["figures"].items():
            stagers = list(by_stager.values())
            up, down = (
                sum(one["kappa p"] < 0.05 and sign * one["kappa gain"] > 0 for one in stagers)
                for sign in (1, -1)
            )
            latency = layout.geometric([one["rem latency"] for one in stagers if "rem latency" in one])
            gains = [one["kappa gain"] for one in stagers]
            rows.append(
                [
                    f"`{name}`, {cohort.replace('_', ' ')}",
                    f"{len(stagers)}",
                    f"{np.mean([one['errors'] for one in stagers]):.3f}",
                    f"{max(one['errors'] for one in stagers):.2f}",
                    "" if np.isnan(latency) else f"{latency:.2f}",
                    f"{up} / {down}",
                    f"{np.median(gains):+.4f} ({min(gains):+.4f})",
                    f"{sum(one['better'] for one in stagers):g} / {sum(one['worse'] for one in stagers):g}",
                ]
            )
    header = ["shares of, nights", "stagers", "errors", "worst", "REM latency"]
    return layout.table([*header, "κ up / down", "κ, median (worst)", "single errors better / worse"], rows)


if __name__ == "__main__":
    main()
