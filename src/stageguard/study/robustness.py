"""The tables of robustness: effects of rules, lambda, seeds, labels and networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from stageguard.measures.paired import Estimate, estimate
from stageguard.study.derived import derived_of
from stageguard.study.names import BASE, CALIBRATED, PAPER, PENALTY, TITLES
from stageguard.study.rendering import Cell, Table
from stageguard.study.statistics import bootstrap_interval
from stageguard.study.store import Results, values, variants_in
from stageguard.study.tables import (
    Records,
    ablation_table,
    architecture_table,
    bland_altman_table,
    consolidated_table,
    cost_table,
    errors_of,
    experts_table,
    groups_of,
    guards_table,
    main_table,
    notes_of,
    scorers_table,
    subgroup_table,
)

SHOWN = (BASE, PAPER, CALIBRATED)
METRICS = {
    "tvr_percent": ("TVR (%)", 2),
    "fi": ("FI", 3),
    "accuracy": ("accuracy", 3),
    "kappa": ("κ", 3),
    "rare_recall": ("rare recall", 3),
    "f1_R": ("F1 of R", 3),
}
ERRORS = {"tst_minutes": ("TST error (min)", 1), "rem_latency_minutes": ("REM latency error (min)", 1)}
OVER_SUBJECTS = "Mean ± SD over subjects."

# First cells of a row, its records, and its variant.
Group = tuple[tuple[str, ...], Records, str]


def numbers_of(results: Results, records: Records, variant: str) -> list[Estimate]:
    """Return the numbers of one row."""
    estimates = [estimate(values(records, variant, metric)) for metric in METRICS]
    return estimates + [estimate(errors_of(results, records, variant, metric)) for metric in ERRORS]


def _measured(
    results: Results, name: str, title: str, heads: tuple[str, ...], groups: Iterator[Group], *notes: str
) -> Table:
    """Return a table with a row per group; rows and columns without numbers are left out."""
    measured = [(words, numbers_of(results, records, variant)) for words, records, variant in groups]
    columns = [*METRICS.values(), *ERRORS.values()]
    kept = [k for k in range(len(columns)) if any(numbers[k].n for _, numbers in measured)]
    return Table(
        name,
        f"{title}: {results.study['title']}",
        (*heads, *(columns[k][0] for k in kept)),
        tuple((*words, *(n[k] for k in kept)) for words, n in measured if any(each.n for each in n)),
        (*[0] * len(heads), *(columns[k][1] for k in kept)),
        notes_of(results, *notes),
    )


def rules_table(results: Results) -> Table:
    """Return the published decoder with other probabilities of rare pairs and other minimum bouts."""

    def groups() -> Iterator[Group]:
        for name in results.backbones:
            records = results.of(name)
            for variant in variants_in(records):
                if variant == PAPER:
                    yield (name, "as published"), records, variant
                elif variant.startswith(("paper, epsilon", "paper, minimum", "paper, relaxed")):
                    yield (name, variant.removeprefix("paper, ")), records, variant
                elif variant == "paper, no transitions":
                    yield (name, "no transitions"), records, variant

    title = "Relaxed rare pairs (ε) and scaled minimum bouts"
    return _measured(results, "rules", title, ("network", "rule"), groups(), OVER_SUBJECTS)


def _varied(results: Results) -> str:
    return str(results.study["robustness"].get("backbone") or results.study["backbones"][0])


def penalty_table(results: Results) -> Table:
    """Return the effect of lambda, in training alone and with the published decoder."""
    name, seed = _varied(results), results.study["seed"]

    def groups() -> Iterator[Group]:
        yield ("0", TITLES[BASE]), results.main(name, "base"), BASE
        yield ("0", TITLES[PAPER]), results.main(name, "base"), "paper, no penalty"
        penalised = results.select(backbone=name, loss="penalty", seed=seed, label_noise=0.0)
        for weight in sorted({record["weight"] for record in penalised}):
            records = [record for record in penalised if record["weight"] == weight]
            for variant in (PENALTY, PAPER):
                yield (f"{weight:g}", TITLES[variant]), records, variant

    title = f"Weight λ of the transition penalty, {name}"
    note = "A network that never says REM has a TVR of 0: read it beside the F1 of R."
    return _measured(results, "penalty", title, ("λ", "stages by"), groups(), note)


def seeds_table(results: Results) -> Table:
    """Return the results with other seeds of weights and order, and the spread of their means."""
    name = _varied(results)
    seeds = sorted({r["seed"] for r in results.select(backbone=name, label_noise=0.0)})
    records = {seed: _of_both(results, name, seed=seed, label_noise=0.0) for seed in seeds}

    def groups() -> Iterator[Group]:
        for seed in seeds:
            for variant in SHOWN:
                yield (str(seed), TITLES[variant]), records[seed], variant

    note = "The last rows: standard deviation of the seeds' means."
    table = _measured(
        results, "seeds", f"Seeds, {name}", ("seed", "stages by"), groups(), OVER_SUBJECTS, note
    )
    return table.with_rows(*(_spread(table, TITLES[variant]) for variant in SHOWN if len(seeds) > 1))


def _spread(table: Table, title: str) -> tuple[Cell, ...]:
    """Return a row with the standard deviation of the means of a table's rows of one title."""
    columns = zip(*(row[2:] for row in table.rows if row[1] == title), strict=True)
    means = [[cell.mean for cell in column if isinstance(cell, Estimate)] for column in columns]
    return ("SD over seeds", title, *(float(np.std(column, ddof=1)) for column in means))


def resampling_table(results: Results) -> Table:
    """Return bootstrap intervals of the means over subjects."""
    metrics = ("tvr_percent", "fi", "accuracy", "kappa")
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        for variant in SHOWN:
            by_metric = [list(values(records, variant, metric).values()) for metric in metrics]
            if by_metric[1]:
                ends = [end for numbers in by_metric for end in bootstrap_interval(numbers)]
                rows.append((name, TITLES[variant], *ends))
    heads = [f"{METRICS[metric][0]} {end}" for metric in metrics for end in ("low", "high")]
    return Table(
        "resampling",
        f"Resampled subjects: {results.study['title']}",
        ("network", "stages by", *heads),
        tuple(rows),
        (0, 0, 2, 2, *[3] * 6),
        notes_of(results, "95 % of means over subjects drawn with replacement (2,000 draws)."),
    )


def _of_both(results: Results, name: str, **wanted: Any) -> list[Mapping[str, Any]]:
    """Return records of the base network and of the penalised one at the study's lambda."""
    weight = results.study["guard"]["penalty_weight"]
    return [
        *results.select(backbone=name, loss="base", **wanted),
        *results.select(backbone=name, loss="penalty", weight=weight, **wanted),
    ]


def noise_table(results: Results) -> Table:
    """Return the effect of wrong training labels."""
    name, seed = _varied(results), results.study["seed"]

    def groups() -> Iterator[Group]:
        for noise in sorted({r["label_noise"] for r in results.select(backbone=name, seed=seed)}):
            records = _of_both(results, name, seed=seed, label_noise=noise)
            for variant in (BASE, PAPER):
                yield (f"{100 * noise:g} %", TITLES[variant]), records, variant

    note = "Stages of training and validation nights replaced at random; test nights are as scored."
    title = f"Wrong training labels, {name}"
    return _measured(results, "label-noise", title, ("wrong labels", "stages by"), groups(), note)


def populations_table(results: Results) -> Table:
    """Return the main numbers by subgroup."""

    def groups() -> Iterator[Group]:
        for covariate in results.study["robustness"]["subgroups"]:
            group_of = groups_of(results, covariate)
            for level in sorted(set(group_of.values())):
                for name in results.backbones:
                    inside = [
                        {**r, "rows": [row for row in r["rows"] if group_of.get(row["subject"]) == level]}
                        for r in results.of(name)
                    ]
                    for variant in SHOWN:
                        yield (f"{covariate}: {level}", name, TITLES[variant]), inside, variant

    heads = ("subjects", "network", "stages by")
    return _measured(results, "populations", "Subpopulations", heads, groups(), OVER_SUBJECTS)


def f1_table(results: Results) -> Table:
    """Return the F1 of every stage."""
    rows: list[tuple[Cell, ...]] = []
    stages = results.records[0]["stages"]
    for name in results.backbones:
        records = results.of(name)
        present = set(variants_in(records))
        for variant in [v for v in SHOWN if v in present]:
            numbers = [estimate(values(records, variant, f"f1_{stage}")) for stage in stages]
            rows.append((name, TITLES[variant], *numbers))
    return Table(
        "f1",
        f"F1 by stage: {results.study['title']}",
        ("network", "stages by", *stages),
        tuple(rows),
        notes=notes_of(results, OVER_SUBJECTS),
    )


def transitions_table(results: Results) -> Table:
    """Return the transition probabilities that each fold counted on its training subjects."""
    stages = results.records[0]["stages"]
    heads = tuple(f"{a}→{b}" for a in stages for b in stages)
    records = results.main(results.backbones[0], "base")
    folds = {r["fold"]: [p for row in r["transitions"] for p in row] for r in records}
    rows: list[tuple[Cell, ...]] = [(f"fold {n}", *numbers) for n, numbers in sorted(folds.items())]
    matrix = np.array(list(folds.values()))
    rows.append(("largest less smallest", *(matrix.max(axis=0) - matrix.min(axis=0)).tolist()))
    return Table(
        "transitions",
        f"Transition probabilities of each fold's training subjects: {results.study['title']}",
        ("fold", *heads),
        tuple(rows),
        (0, *[4] * len(heads)),
        notes_of(results),
    )


def agreement_table(results: Results) -> Table:
    """Return the agreement of every two networks with each other, before and after."""
    agreements = derived_of(results)["networks"]
    rows: list[tuple[Cell, ...]] = []
    for pair in dict.fromkeys(tuple(each["pair"]) for each in agreements):
        by_variant = {each["variant"]: each for each in agreements if tuple(each["pair"]) == pair}
        cells = [estimate(by_variant[v][what]) for v in SHOWN for what in ("kappa", "agreement")]
        rows.append((" and ".join(pair), *cells))
    if rows:
        means = np.array([[cell.mean for cell in row[1:] if isinstance(cell, Estimate)] for row in rows])
        rows.append(("mean over pairs", *means.mean(axis=0).tolist()))
        rows.append(
            ("SD over pairs", *(means.std(axis=0, ddof=1) if len(means) > 1 else [np.nan] * means.shape[1]))
        )
    heads = [f"{TITLES[v]}, {what}" for v in SHOWN for what in ("κ", "equal epochs")]
    return Table(
        "networks",
        f"Agreement between networks: {results.study['title']}",
        ("pair", *heads),
        tuple(rows),
        notes=notes_of(results, "Mean ± SD over recordings, of every two networks."),
    )


# All tables by name, in the order of the report.
TABLES: Mapping[str, Callable[[Results], Table]] = {
    "main": main_table,
    "architecture": architecture_table,
    "architecture-pairs": consolidated_table,
    "subgroups": subgroup_table,
    "ablations": ablation_table,
    "guards": guards_table,
    "experts": experts_table,
    "scorers": scorers_table,
    "bland-altman": bland_altman_table,
    "rules": rules_table,
    "penalty": penalty_table,
    "seeds": seeds_table,
    "resampling": resampling_table,
    "label-noise": noise_table,
    "populations": populations_table,
    "networks": agreement_table,
    "f1": f1_table,
    "transitions": transitions_table,
    "costs": cost_table,
}
