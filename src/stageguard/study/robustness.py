"""The tables of robustness: effects of rules, lambda, seeds, labels and networks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stageguard.arrays import NAN
from stageguard.measures.samples import Estimate, estimate, t_quantile
from stageguard.study.comparison import (
    OVER_SUBJECTS,
    Column,
    Records,
    aside_note,
    errors_of,
    study_table,
)
from stageguard.study.derived import derived_of
from stageguard.study.store import (
    BASE,
    GUARDED,
    MAIN,
    METRICS,
    PAPER,
    PENALTY,
    TITLES,
    Results,
    values,
    variants_in,
)
from stageguard.study.table import Cell, Table

SHOWN = (BASE, *GUARDED)
ERRORS = {"tst_minutes": ("TST error (min)", 1), "rem_latency_minutes": ("REM latency error (min)", 1)}

# First cells of a row, its records, and its variant.
Group = tuple[tuple[str, ...], Records, str]


def numbers_of(results: Results, records: Records, variant: str) -> list[Estimate]:
    """Return the numbers of one row."""
    estimates = [estimate(values(records, variant, metric)) for metric in METRICS]
    return estimates + [estimate(errors_of(results, records, variant, metric)) for metric in ERRORS]


def _group_table(
    results: Results, title: str, heads: tuple[str, ...], groups: Iterator[Group], *notes: str
) -> Table:
    """Return a table with a row per group; rows and columns without numbers are left out."""
    measured = [(words, numbers_of(results, records, variant)) for words, records, variant in groups]
    columns = [*METRICS.values(), *ERRORS.values()]
    kept = [k for k in range(len(columns)) if any(numbers[k].n for _, numbers in measured)]
    rows: list[tuple[Cell, ...]] = [
        (*words, *(n[k] for k in kept)) for words, n in measured if any(each.n for each in n)
    ]
    return study_table(results, title, [*heads, *(columns[k] for k in kept)], rows, *notes)


def rare_pairs_table(results: Results) -> Table:
    """Return the published decoder with other probabilities of rare pairs, of all and of one at a time."""
    rules = {PAPER: "as published", "paper, no transitions": "no transitions"}
    prefixes = ("paper, relaxed", "paper, epsilon")
    return _rules(results, "Relaxed rare pairs (ε)", rules, prefixes)


def minimum_bouts_table(results: Results) -> Table:
    """Return the published decoder with other minimum bouts."""
    rules = {PAPER: "as published", "paper, no minimum bouts": "no minimum bouts"}
    return _rules(results, "Scaled minimum bouts", rules, ("paper, minimum",))


def _rules(results: Results, title: str, rules: Mapping[str, str], prefixes: tuple[str, ...]) -> Table:
    def groups() -> Iterator[Group]:
        for network in results.backbones:
            records = results.of(network)
            for variant in variants_in(records):
                if variant in rules:
                    yield (network, rules[variant]), records, variant
                elif variant.startswith(prefixes):
                    yield (network, variant.removeprefix("paper, ")), records, variant

    return _group_table(results, title, ("network", "rule"), groups(), OVER_SUBJECTS)


def penalty_table(results: Results) -> Table:
    """Return the effect of lambda, in training alone and with the published decoder."""
    name, seed = results.varied, results.study["seed"]

    def groups() -> Iterator[Group]:
        yield ("0", TITLES[BASE]), results.main(name, "base"), BASE
        yield ("0", TITLES[PAPER]), results.main(name, "base"), "paper, no penalty"
        penalised = results.select(backbone=name, loss="penalty", seed=seed, label_noise=0.0)
        for is_tuned, weight in sorted({(record["is_tuned"], record["weight"]) for record in penalised}):
            records = [r for r in penalised if (r["is_tuned"], r["weight"]) == (is_tuned, weight)]
            for variant in (PENALTY, PAPER):
                yield ("chosen" if is_tuned else f"{weight:g}", TITLES[variant]), records, variant

    title = f"Weight λ of the transition penalty, {name}"
    table = _group_table(
        results,
        title,
        ("λ", "stages by"),
        groups(),
        "A network that never says REM has a TVR of 0: read it beside the F1 of R. Relative recall: in "
        "percent of the rare recall at λ = 0 by the same stages.",
    )
    return _with_relative_recall(table)


def _with_relative_recall(table: Table) -> Table:
    """Return the table with the rare recall of each row in percent of that of the first row by its stages."""
    if "rare recall" not in table.columns:
        return table
    column = table.columns.index("rare recall")
    first: dict[Cell, float] = {}
    rows = []
    for row in table.rows:
        recall = row[column]
        assert isinstance(recall, Estimate)
        by = TITLES[BASE] if row[1] == TITLES[PENALTY] else row[1]  # without a decoder, λ = 0 is argmax
        reference = first.setdefault(by, recall.mean)
        relative = 100 * recall.mean / reference if reference else NAN
        rows.append((*row[: column + 1], relative, *row[column + 1 :]))
    places = [*table.decimals[: column + 1], 0, *table.decimals[column + 1 :]]
    columns = (*table.columns[: column + 1], "relative recall (%)", *table.columns[column + 1 :])
    return replace(table, columns=columns, rows=tuple(rows), decimals=tuple(places))


def seeds_table(results: Results) -> Table:
    """Return the results with other seeds of weights and order, and the spread of their means."""
    name = results.varied
    seeds = sorted({r["seed"] for r in results.select(backbone=name, label_noise=0.0)})
    records = {seed: _of_both(results, name, seed=seed, label_noise=0.0) for seed in seeds}

    def groups() -> Iterator[Group]:
        for seed in seeds:
            for variant in SHOWN:
                yield (str(seed), TITLES[variant]), records[seed], variant

    note = "The last rows: standard deviation of the seeds' means."
    table = _group_table(results, f"Seeds, {name}", ("seed", "stages by"), groups(), OVER_SUBJECTS, note)
    shown = dict.fromkeys(str(row[1]) for row in table.rows) if len(seeds) > 1 else {}
    return table.with_rows(*(_spread(table, title) for title in shown))


def _spread(table: Table, title: str) -> tuple[Cell, ...]:
    """Return a row with the standard deviation of the means of a table's rows of one title."""
    columns = zip(*(row[2:] for row in table.rows if row[1] == title), strict=True)
    means = [[cell.mean for cell in column if isinstance(cell, Estimate)] for column in columns]
    return ("SD over seeds", title, *(float(np.std(column, ddof=1)) for column in means))


def resampling_table(results: Results) -> Table:
    """Return bootstrap intervals of the means over subjects."""
    rows: list[tuple[Cell, ...]] = []
    for name in results.backbones:
        records = results.of(name)
        for variant in SHOWN:
            by_metric = [list(values(records, variant, metric).values()) for metric in MAIN]
            if by_metric[1]:
                ends = [end for numbers in by_metric for end in bootstrap_interval(numbers)]
                rows.append((name, TITLES[variant], *ends))
    heads = [
        (f"{title} {end}", n) for title, n in (METRICS[metric] for metric in MAIN) for end in ("low", "high")
    ]
    return study_table(
        results,
        "Resampled subjects",
        ("network", "stages by", *heads),
        rows,
        "95 % of means over subjects drawn with replacement (2,000 draws).",
        aside_note(results),
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
    name, seed = results.varied, results.study["seed"]

    def groups() -> Iterator[Group]:
        for noise in sorted({r["label_noise"] for r in results.select(backbone=name, seed=seed)}):
            records = _of_both(results, name, seed=seed, label_noise=noise)
            for variant in (BASE, PAPER):
                yield (f"{100 * noise:g} %", TITLES[variant]), records, variant

    note = "Stages of training and validation nights replaced at random; test nights are as scored."
    title = f"Wrong training labels, {name}"
    return _group_table(results, title, ("wrong labels", "stages by"), groups(), note)


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
    columns: list[Column] = ["network", "stages by", *((stage, 3) for stage in stages)]
    return study_table(results, "F1 by stage", columns, rows, OVER_SUBJECTS, aside_note(results))


def transitions_table(results: Results) -> Table:
    """Return the transition probabilities that each fold counted on its training subjects."""
    stages = results.records[0]["stages"]
    heads = [(f"{a}→{b}", 4) for a in stages for b in stages]
    records = results.main(results.backbones[0], "base")
    folds = {r["fold"]: [p for row in r["transitions"] for p in row] for r in records}
    rows: list[tuple[Cell, ...]] = [(f"fold {n}", *numbers) for n, numbers in sorted(folds.items())]
    matrix = np.array(list(folds.values()))
    rows.append(("largest less smallest", *(matrix.max(axis=0) - matrix.min(axis=0)).tolist()))
    title = "Transition probabilities of each fold's training subjects"
    return study_table(results, title, ("fold", *heads), rows)


def agreement_table(results: Results) -> Table:
    """Return the agreement of every two networks with each other, before and after."""
    agreements = derived_of(results)["networks"]
    shown = [v for v in SHOWN if any(each["variant"] == v and each["kappa"] for each in agreements)]
    rows: list[tuple[Cell, ...]] = []
    for pair in dict.fromkeys(tuple(each["pair"]) for each in agreements):
        by_variant = {each["variant"]: each for each in agreements if tuple(each["pair"]) == pair}
        cells = [estimate(by_variant[v][what]) for v in shown for what in ("kappa", "agreement")]
        rows.append((" and ".join(pair), *cells))
    if rows:
        means = np.array([[cell.mean for cell in row[1:] if isinstance(cell, Estimate)] for row in rows])
        rows.append(("mean over pairs", *means.mean(axis=0).tolist()))
        rows.append(
            ("SD over pairs", *(means.std(axis=0, ddof=1) if len(means) > 1 else [np.nan] * means.shape[1]))
        )
    heads = [(f"{TITLES[v]}, {what}", 3) for v in shown for what in ("κ", "equal epochs")]
    note = "Mean ± SD over recordings, of every two networks."
    title = "Agreement between networks"
    return study_table(results, title, ["pair", *heads], rows, note, aside_note(results))


def bootstrap_interval(
    values: Sequence[float], *, seed: int = 42, n_draws: int = 2000
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a mean over subjects drawn with replacement.

    Of fewer than ten subjects it is Student's t interval, and of a single one there is none.
    """
    array = np.asarray(values)
    if len(array) < 2:
        return NAN, NAN
    if len(array) < 10:
        mean, error = float(array.mean()), float(array.std(ddof=1)) / math.sqrt(len(array))
        margin = t_quantile(0.975, len(array) - 1) * error
        return mean - margin, mean + margin
    rng = np.random.default_rng(seed)
    means = array[rng.integers(0, len(array), (n_draws, len(array)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
