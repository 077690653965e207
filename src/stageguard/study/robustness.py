"""The tables of robustness: what changes with rules, lambda, seeds, labels and networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np

from stageguard.base.errors import MissingFileError
from stageguard.measures.paired import estimate
from stageguard.study.measuring import kappa_between
from stageguard.study.names import BASE, CALIBRATED, PAPER, PENALTY, TITLES
from stageguard.study.rendering import Cell, Table
from stageguard.study.statistics import bootstrap_interval
from stageguard.study.store import Results, read_predictions, values, variants_in
from stageguard.study.tables import (
    ablation_table,
    all_records,
    architecture_table,
    backbones_of,
    bland_altman_table,
    consolidated_table,
    cost_table,
    groups_of,
    guards_table,
    main_table,
    notes_of,
    subgroup_table,
)

METRICS = ("tvr_percent", "fi", "accuracy", "kappa", "rare_recall", "f1_R")
HEADS = ("TVR (%)", "FI", "accuracy", "κ", "rare recall", "F1 of R")
DECIMALS = (2, 3, 3, 3, 3, 3)


def rules_table(results: Results) -> Table:
    """Return the published decoder with other probabilities of rare pairs and other minimum bouts."""
    rows: list[tuple[Cell, ...]] = []
    for name in backbones_of(results):
        records = all_records(results, name)
        for variant in variants_in(records):
            if variant == PAPER or variant.startswith(("paper, epsilon", "paper, minimum")):
                title = variant.removeprefix("paper, ") if variant != PAPER else "as published"
                rows.append((name, title, *(estimate(values(records, variant, m)) for m in METRICS)))
    return Table(
        "rules",
        f"Relaxed rare pairs (ε) and scaled minimum bouts: {results.study['title']}",
        ("network", "rule", *HEADS),
        tuple(rows),
        (0, 0, *DECIMALS),
        notes_of(results, "Mean ± SD over subjects."),
    )


def _varied(results: Results) -> str:
    return str(results.study["robustness"].get("backbone") or results.study["backbones"][0])


def penalty_table(results: Results) -> Table:
    """Return what lambda changes, in training alone and with the published decoder."""
    name, seed = _varied(results), results.study["seed"]
    rows: list[tuple[Cell, ...]] = []
    base = results.main(name, "base")
    if base:
        numbers = [estimate(values(base, BASE, m)) for m in METRICS]
        rows.append(("0", TITLES[BASE], *numbers))
    penalised = results.select(backbone=name, loss="penalty", seed=seed, label_noise=0.0)
    for weight in sorted({record["weight"] for record in penalised}):
        records = [record for record in penalised if record["weight"] == weight]
        for variant in (PENALTY, PAPER):
            numbers = [estimate(values(records, variant, m)) for m in METRICS]
            rows.append((f"{weight:g}", TITLES[variant], *numbers))
    return Table(
        "penalty",
        f"Weight λ of the transition penalty, {name}: {results.study['title']}",
        ("λ", "stages by", *HEADS),
        tuple(rows),
        (0, 0, *DECIMALS),
        notes_of(results, "A network that never says REM has a TVR of 0: read it beside the F1 of R."),
    )


def seeds_table(results: Results) -> Table:
    """Return the same with other seeds, and with other subjects drawn."""
    name = _varied(results)
    rows: list[tuple[Cell, ...]] = []
    seeds = sorted({r["seed"] for r in results.select(backbone=name, label_noise=0.0)})
    for seed in seeds:
        records = _of_both(results, name, seed=seed, label_noise=0.0)
        for variant in (BASE, PAPER, CALIBRATED):
            kappas = values(records, variant, "kappa")
            if kappas:
                low, high = bootstrap_interval(list(kappas.values()))
                numbers = [estimate(values(records, variant, m)) for m in METRICS]
                rows.append((str(seed), TITLES[variant], *numbers, low, high))
    return Table(
        "seeds",
        f"Seeds and resampled subjects, {name}: {results.study['title']}",
        ("seed", "stages by", *HEADS, "κ low", "κ high"),
        tuple(rows),
        (0, 0, *DECIMALS, 3, 3),
        notes_of(
            results, "κ low and high: 95 % of means over subjects drawn with replacement (2,000 draws)."
        ),
    )


def _of_both(results: Results, name: str, **wanted: Any) -> list[Mapping[str, Any]]:
    """Return records of the base network and of the penalised one at the study's lambda."""
    weight = results.study["guard"]["penalty_weight"]
    return [
        *results.select(backbone=name, loss="base", **wanted),
        *results.select(backbone=name, loss="penalty", weight=weight, **wanted),
    ]


def noise_table(results: Results) -> Table:
    """Return what wrong training labels change."""
    name, seed = _varied(results), results.study["seed"]
    rows: list[tuple[Cell, ...]] = []
    for noise in sorted({r["label_noise"] for r in results.select(backbone=name, seed=seed)}):
        records = _of_both(results, name, seed=seed, label_noise=noise)
        for variant in (BASE, PAPER):
            numbers = [estimate(values(records, variant, m)) for m in METRICS]
            rows.append((f"{100 * noise:g} %", TITLES[variant], *numbers))
    return Table(
        "label-noise",
        f"Wrong training labels, {name}: {results.study['title']}",
        ("wrong labels", "stages by", *HEADS),
        tuple(rows),
        (0, 0, *DECIMALS),
        notes_of(
            results, "Stages of training and validation nights replaced at random; test nights are as scored."
        ),
    )


def f1_table(results: Results) -> Table:
    """Return the F1 of every stage."""
    rows: list[tuple[Cell, ...]] = []
    stages = results.records[0]["stages"]
    for name in backbones_of(results):
        records = all_records(results, name)
        present = set(variants_in(records))
        for variant in [v for v in (BASE, PAPER, CALIBRATED) if v in present]:
            numbers = [estimate(values(records, variant, f"f1_{stage}")) for stage in stages]
            rows.append((name, TITLES[variant], *numbers))
    return Table(
        "f1",
        f"F1 by stage: {results.study['title']}",
        ("network", "stages by", *stages),
        tuple(rows),
        notes=notes_of(results, "Mean ± SD over subjects."),
    )


def transitions_table(results: Results) -> Table:
    """Return the transition probabilities that each fold counted on its training subjects."""
    stages = results.records[0]["stages"]
    heads = tuple(f"{a}→{b}" for a in stages for b in stages)
    records = results.main(backbones_of(results)[0], "base")
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
    """Return how far every two networks agree with each other, before and after."""
    names = backbones_of(results)
    rows: list[tuple[Cell, ...]] = []
    by_variant = {v: {name: _labels(results, name, v) for name in names} for v in (BASE, PAPER, CALIBRATED)}
    for first, second in combinations(names, 2):
        cells: list[Cell] = []
        for labels in by_variant.values():
            a, b = labels[first], labels[second]
            cells.append(estimate({n: kappa_between(a[n], b[n]) for n in sorted(a.keys() & b.keys())}))
        rows.append((f"{first} and {second}", *cells))
    return Table(
        "networks",
        f"Agreement between networks (κ): {results.study['title']}",
        ("pair", *(TITLES[v] for v in by_variant)),
        tuple(rows),
        notes=notes_of(
            results, "Mean ± SD over recordings. Needs the predictions, which lie where the study was run."
        ),
    )


def _labels(results: Results, name: str, variant: str) -> dict[str, Any]:
    """Return a variant's stages by recording; nothing where predictions were not kept."""
    labels: dict[str, Any] = {}
    for record in all_records(results, name):
        try:
            columns = read_predictions(results.folder, record["key"])
        except MissingFileError:
            return {}
        if variant in columns:
            recordings = np.asarray(columns["recording"])
            labels |= {str(r): columns[variant][recordings == r] for r in np.unique(recordings)}
    return labels


def populations_table(results: Results) -> Table:
    """Return the main numbers by subgroup."""
    rows: list[tuple[Cell, ...]] = []
    for covariate in results.study["robustness"]["subgroups"]:
        groups = groups_of(results, covariate)
        for level in sorted(set(groups.values())):
            for name in backbones_of(results):
                records = all_records(results, name)
                for variant in (BASE, PAPER, CALIBRATED):
                    found = [values(records, variant, m) for m in METRICS]
                    inside = [{s: v for s, v in f.items() if groups.get(s) == level} for f in found]
                    if inside[1]:
                        rows.append((f"{covariate}: {level}", name, TITLES[variant], *map(estimate, inside)))
    return Table(
        "populations",
        f"Subpopulations: {results.study['title']}",
        ("subjects", "network", "stages by", *HEADS),
        tuple(rows),
        (0, 0, 0, *DECIMALS),
        notes_of(results, "Mean ± SD over subjects."),
    )


# Every table by its name, in the order of the report.
TABLES: Mapping[str, Callable[[Results], Table]] = {
    "main": main_table,
    "architecture": architecture_table,
    "architecture-pairs": consolidated_table,
    "subgroups": subgroup_table,
    "ablations": ablation_table,
    "guards": guards_table,
    "bland-altman": bland_altman_table,
    "rules": rules_table,
    "penalty": penalty_table,
    "seeds": seeds_table,
    "label-noise": noise_table,
    "populations": populations_table,
    "networks": agreement_table,
    "f1": f1_table,
    "transitions": transitions_table,
    "costs": cost_table,
}
