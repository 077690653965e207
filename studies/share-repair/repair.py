"""Judge `tune` with and without its repair of stage shares, on stagers trained on too few people and others.

    STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python repair.py            every stager that is not done yet
    STAGEGUARD_DATA=... STAGEGUARD_CACHE=... python repair.py --tables   lay the tables out anew

The range of shares, like REM's clock, is counted without the cohort whose nights are judged. Nothing is
chosen here: the script judges the rule as it ships.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "studies" / HERE.name
sys.path.insert(0, str(HERE.parent / "guard-on-real-data"))

import cohorts  # noqa: E402
import layout  # noqa: E402
from cohorts import FeatureNight  # noqa: E402
from judging import STATISTICS, judge  # noqa: E402
from kept import keep, read  # noqa: E402
from methods import clock_of, decode, shares_without  # noqa: E402
from stagers import CACHE, SEED, fitted_boosting, staged_by  # noqa: E402
from tasks import PSG, WATCH, Task, TaskNight, feature_task, tasks, tasks_in_the_box  # noqa: E402

import stageguard as sg  # noqa: E402

RESULTS = HERE / "results.json"
N_PEOPLE, N_DRAWS = (2, 4), 3
N_BATCHES, BATCH = 4, 10  # people drawn from a usual stager's nights
FEATURES = {  # cohort, what the stager sees, profile by number of stages
    "EEG": ("sleep-edf", partial(cohorts.sleep_edf, "strong"), PSG),
    "respiration and EMG": ("sleep-edf", partial(cohorts.sleep_edf, "weak"), PSG),
    "watch": ("sleep-accel", cohorts.sleep_accel, WATCH),
    "heartbeat": ("slpdb", cohorts.slpdb, {3: WATCH[3]}),
}


def logistic(x: np.ndarray, y: np.ndarray):
    from sklearn.linear_model import LogisticRegression

    return _on_filled(LogisticRegression(max_iter=300)).fit(x, y)


def trees(x: np.ndarray, y: np.ndarray):
    from sklearn.ensemble import ExtraTreesClassifier

    return _on_filled(ExtraTreesClassifier(100, random_state=SEED)).fit(x, y)


def _on_filled(model):
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(SimpleImputer(), StandardScaler(), model)


CLASSIFIERS = {"boosting": fitted_boosting, "logistic regression": logistic, "extra trees": trees}


def stagers_of_few() -> Iterator[tuple[Task, list[TaskNight]]]:
    """Every stager that was trained on a few people, with the nights of all others."""
    for features, (cohort, nights_of, bases) in FEATURES.items():
        nights = list(nights_of())
        for classifier in CLASSIFIERS:
            for n_people in N_PEOPLE:
                for draw in range(N_DRAWS):
                    name = f"{features}, {classifier} on {n_people} people, draw {draw + 1}"
                    rows = staged_by_few(name, nights, classifier, n_people, draw)
                    for n_stages, base in bases.items():
                        yield feature_task(name, cohort, nights, rows, n_stages, base)


def staged_by_few(
    name: str, nights: Sequence[FeatureNight], classifier: str, n_people: int, draw: int
) -> dict[str, np.ndarray]:
    """Return five stages of the nights of people that the stager has not seen; from the cache if there."""
    path = CACHE / f"few {name}.npz"
    if not path.exists():
        people = sorted({night.subject for night in nights})
        order = np.random.default_rng([n_people, draw]).permutation(people)
        seen = set(order[:n_people].tolist())
        training = [night for night in nights if night.subject in seen]
        x = np.concatenate([night.features[night.labels >= 0] for night in training])
        y = np.concatenate([night.labels[night.labels >= 0] for night in training])
        model = CLASSIFIERS[classifier](x, y)
        rows = {n.name: staged_by(model, n).astype(np.float32) for n in nights if n.subject not in seen}
        np.savez_compressed(path.with_suffix(".part.npz"), **rows)
        path.with_suffix(".part.npz").rename(path)
    with np.load(path) as held:
        return {key: held[key].astype(float) for key in held.files}


def compare(task: Task, nights: Sequence[TaskNight], shares: Mapping | None = None) -> dict:
    """Tune with and without the repair, and judge both where there is one."""
    shares = shares_without(task) if shares is None else shares
    shipped = sg.Profile.load(task.base).replace(clock=clock_of(task), shares=shares)
    densities = [night.probabilities for night in nights]
    about = {"epoch_seconds": task.epoch_seconds, "stager": task.stager}
    people = [night.subject for night in nights]
    tuned = sg.tune(densities, shipped, subjects=people, **about)
    found = {"outcome": tuned.provenance["shares"], "n_people": len(set(people))}
    if tuned.share_repair is None:
        return found
    plain = sg.tune(densities, shipped.replace(shares=None), **about)
    before, after = (_judged(task, nights, profile) for profile in (plain, tuned))
    gains = np.array([after[who]["kappa"] - before[who]["kappa"] for who in before])
    record = tuned.to_dict()["shares"]["repair"]
    return found | {
        **{key: list(record[key].values()) for key in ("before", "low", "high", "after")},
        "biases": list(tuned.calibration.biases),
        "kappa": round(float(np.mean([one["kappa"] for one in before.values()])), 4),
        "gain": round(float(gains.mean()), 5),
        "p": float(f"{layout.p_value(gains):.3g}"),
        "errors": round(_error_ratio(before, after), 4),
    }


def _judged(task: Task, nights: Sequence[TaskNight], profile: sg.Profile) -> dict[str, dict[str, float]]:
    """Return kappa and absolute errors by person."""
    by_person: dict[str, list[dict[str, float]]] = {}
    shipped = sg.Profile.load(task.base)
    decoded = decode(profile, task, nights, stager=task.stager)
    for night, scored in zip(nights, decoded, strict=True):
        values = judge(scored, night.labels, task.scheme, task.epoch_seconds, shipped)
        by_person.setdefault(night.subject, []).append(values)
    names = ("kappa", *(f"error {name}" for name in STATISTICS))
    return {
        who: {name: float(np.mean([one[name] for one in own])) for name in names}
        for who, own in by_person.items()
        if not any(np.isnan(one["kappa"]) for one in own)
    }


def _error_ratio(before: Mapping[str, dict], after: Mapping[str, dict]) -> float:
    """Return the mean over statistics of the mean absolute error with the repair over that without."""
    ratios = []
    for name in STATISTICS:
        pairs = [(before[who][f"error {name}"], after[who][f"error {name}"]) for who in before]
        known = np.array([pair for pair in pairs if not np.isnan(pair).any()])
        if len(known) and known[:, 0].sum() > 0:
            ratios.append(known[:, 1].sum() / known[:, 0].sum())
    return float(np.mean(ratios))


def usual() -> Iterator[tuple[Task, list[TaskNight]]]:
    """Every stager of `../guard-on-real-data` that gives probabilities, and batches of ten of its people."""
    for task in (*tasks(), *tasks_in_the_box()):
        yield task, [night for fold in task.folds() for night in fold.test]


def run() -> None:
    """Judge what is not done yet."""
    done = read(RESULTS)
    for task, nights in stagers_of_few():
        if task.name not in done:
            keep(RESULTS, {task.name: {"group": "few people"} | compare(task, nights)})
            print(task.name, flush=True)
        name = f"{task.name}, as shipped"
        if task.cohort == "slpdb" and name not in done:  # the people most unlike those of the other cohorts
            shares = sg.Profile.load(task.base).to_dict()["shares"]
            keep(RESULTS, {name: {"group": SHIPPED} | compare(task, nights, shares)})
    for task, nights in usual():
        if task.cohort == "mouse":
            continue  # the profile of mice has no range of shares
        if task.name not in done:
            keep(RESULTS, {task.name: {"group": "usual"} | compare(task, nights)})
            print(task.name, flush=True)
        people = sorted({night.subject for night in nights})
        for batch in range(N_BATCHES):
            name = f"{task.name}, batch {batch + 1}"
            if name not in done:
                drawn = set(np.random.default_rng([batch, SEED]).permutation(people)[:BATCH].tolist())
                own = [night for night in nights if night.subject in drawn]
                keep(RESULTS, {name: {"group": "batches of ten people"} | compare(task, own)})


SHIPPED = "heartbeat, its cohort counted, too"
GROUPS = ("few people", SHIPPED, "usual", "batches of ten people")
COLUMNS = ("stagers", "repaired", "κ up / down", "by Holm", "κ, mean", "worst", "errors, mean", "worst")


def tables() -> None:
    """Write the summary into the README, and every repaired stager into a page of its own."""
    held = read(RESULTS)
    two = {name: one for name, one in held.items() if ", 2 stages" in name}
    rows = []
    for group in GROUPS:
        own = {name: one for name, one in held.items() if one["group"] == group and name not in two}
        parts = {f"**{group}**": own}
        if group == "few people":
            parts |= {word: {n: one for n, one in own.items() if f", {word} on" in n} for word in CLASSIFIERS}
            parts |= {word: {n: one for n, one in own.items() if f", {word}, " in n} for word in FEATURES}
        rows += [[name, *_figures(part)] for name, part in parts.items()]
    for group in dict.fromkeys(one["group"] for one in two.values()):
        own = {name: one for name, one in two.items() if one["group"] == group}
        rows.append([f"two stages, {group}", *_figures(own)])
    text = (HERE / "README.md").read_text("utf-8")
    before, _, after = text.partition(BEGIN)
    after = after.partition(END)[2]
    summary = layout.table(["", *COLUMNS], rows)
    (HERE / "README.md").write_text(f"{before}{BEGIN}\n{summary}{END}{after}", "utf-8")
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "results.md").write_text(_every(held), "utf-8")


BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def _figures(part: Mapping[str, dict]) -> list[str]:
    repaired = [one for one in part.values() if one["outcome"] == "repaired"]
    adjusted = layout.holm({name: one.get("p", 1.0) for name, one in part.items()})
    sure = [one["gain"] for name, one in part.items() if adjusted[name] < 0.05]
    gains, errors = [one["gain"] for one in repaired], [one["errors"] for one in repaired]
    if not repaired:
        return [f"{len(part)}", "0", *("",) * (len(COLUMNS) - 2)]
    return [
        f"{len(part)}",
        f"{len(repaired)}",
        f"{sum(g > 0 for g in gains)} / {sum(g < 0 for g in gains)}",
        f"{sum(g > 0 for g in sure)} / {sum(g < 0 for g in sure)}",
        f"{np.mean(gains):+.3f}",
        f"{min(gains):+.3f}",
        f"{layout.geometric(errors):.3f}",
        f"{max(errors):.2f}",
    ]


def _every(held: Mapping[str, dict]) -> str:
    rows = []
    for name, one in held.items():
        if one["outcome"] == "repaired":
            shares = "; ".join(
                f"{100 * b:.0f} → {100 * a:.0f} ({100 * low:.0f}–{100 * high:.0f})"
                for b, a, low, high in zip(one["before"], one["after"], one["low"], one["high"], strict=True)
            )
            nats = " ".join(f"{bias:+.2f}" for bias in one["biases"])
            figures = [
                f"{one['kappa']:.3f}",
                f"{one['gain']:+.3f}",
                f"{one['p']:.2g}",
                f"{one['errors']:.2f}",
            ]
            rows.append([name, str(one["n_people"]), shares, nats, *figures])
    header = ["stager", "people", "shares, % (experts)", "biases, nats", "κ", "gained", "p", "errors"]
    outcomes = [one["outcome"] for one in held.values()]
    counts = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in sorted(set(outcomes)))
    return (
        "# Every repaired stager\n\nWritten by `repair.py`. Shares, ranges and biases are in the order of "
        f"the stages. Outcomes of all: {counts}.\n\n" + layout.table(header, rows)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="lay the tables out anew, run nothing")
    if not parser.parse_args().tables:
        run()
    tables()
