"""Tables of nights that `stats` prints: one night in full, a row per night, means and errors."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np

from stageguard.base.arrays import NAN
from stageguard.cli.console import Console, Table
from stageguard.cli.present import length_words
from stageguard.cli.terminal import (
    count,
    one_line,
    print_heading,
    print_list,
)
from stageguard.formats.cohort_files import Cohort
from stageguard.measures.architecture import ERROR_QUANTITIES, STEERED_LIKE
from stageguard.measures.cohort import CohortTable
from stageguard.measures.paired import Estimate
from stageguard.measures.summary import shown, shown_rows, titled
from stageguard.night.quantities import EARLY_WORDS, Quantity, quantity_of


def column_titles(cohort: CohortTable) -> dict[str, str]:
    """Return the headings of the columns of a cohort: before, after or scored, change, expert."""
    after = "after" if "before" in cohort.values else "scored"
    return {"before": "before", "after": after, "delta": "change", "expert": "expert"}


def print_one(cohort: Cohort, out: Console) -> None:
    """Print every measure of a single night."""
    (night,), (facts,), measures = cohort.nights, cohort.facts, cohort.compared
    out.print(f"{one_line(night.night_id)}: {length_words(facts.n_epochs, facts.epoch_seconds)}")
    titles = [column_titles(measures)[name] for name in measures.columns_of(measures.names[0])]
    made = Table("", *titles, "unit", right=tuple(titles))
    for name in measures.names:
        quantity, columns = quantity_of(name), measures.columns_of(name)
        numbers = (_flagged(quantity, float(values[0]), key) for key, values in columns.items())
        made.add_row(titled(quantity, quantity.title, measures), *numbers, quantity.unit)
    out.print(made)
    _print_early(measures, out)
    if facts.epochs_changed is not None:
        out.print(f"{count(facts.epochs_changed, 'epoch')} changed.")
    reasons = dict.fromkeys(
        text for each in night.compared.measures.values() for text in each.reasons.values()
    )
    print_list(out, "Why n/a", reasons)


def _flagged(quantity: Quantity, value: float, column: str) -> str:
    early = " early" * (column != "delta" and quantity.is_early(value))
    return _number(value, quantity.decimals, column) + early


def _print_early(cohort: CohortTable, out: Console) -> None:
    """Explain the word early if a latency is."""
    names = [name for name in cohort.names if not isnan(quantity_of(name).early_below)]
    if any(
        (values[:, cohort.names.index(name)] < quantity_of(name).early_below).any()
        for name in names
        for values in cohort.values.values()
    ):
        out.print(EARLY_WORDS)


def _number(value: float, decimals: int, column: str) -> str:
    if column == "delta" and not isnan(value):
        return f"{value:+.{decimals}f}"
    return shown(value, decimals)


def print_nights(cohort: CohortTable, out: Console) -> None:
    """Print one row per night: the main quantities, and how far decoding changed them."""
    rows = [quantity for quantity in shown_rows(cohort) if "night row" in quantity.shown]
    titles = [titled(quantity, quantity.short_heading, cohort) for quantity in rows]
    made = Table("night", *titles, right=tuple(titles))
    for number, night in enumerate(cohort.night_ids):
        made.add_row(one_line(night), *(_night_cell(cohort, quantity, number) for quantity in rows))
    out.print(made)
    _print_early(cohort, out)
    hint = "All columns: --output cohort.tsv"
    if {"before", "after"} <= cohort.values.keys():
        hint = f"After decoding where there was any, in brackets the change by it. {hint}"
    out.print(hint, style="dim")


def _night_cell(cohort: CohortTable, quantity: Quantity, number: int) -> str:
    decimals = quantity.decimals
    values = {name: float(column[number]) for name, column in cohort.columns_of(quantity.key).items()}
    final = next(
        (values[name] for name in ("after", "before", "expert") if not isnan(values.get(name, NAN))), NAN
    )
    text, delta = _flagged(quantity, final, "after"), values.get("delta", NAN)
    return text if isnan(delta) else f"{text} ({delta:+.{decimals}f})"


def print_means(cohort: CohortTable, out: Console) -> None:
    """Print one row per quantity: its mean and standard deviation over the nights."""
    print_heading(out, f"Mean ± standard deviation over {len(cohort.night_ids)} nights")
    rows = shown_rows(cohort)
    known = [
        column
        for column in cohort.columns_of(cohort.names[0])
        if any(_n_known(cohort.columns_of(quantity.key)[column]) for quantity in rows)
    ]
    titles = [column_titles(cohort)[column] for column in known]
    made = Table("", "nights", *titles, right=("nights", *titles))
    for quantity in rows:
        columns = {name: values for name, values in cohort.columns_of(quantity.key).items() if name in known}
        counts = {_n_known(values) for values in columns.values()} - {0}
        if counts:
            n_nights = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
            decimals = max(1, quantity.decimals)
            means = [_mean(values, decimals, column) for column, values in columns.items()]
            made.add_row(titled(quantity, quantity.short_heading, cohort), n_nights, *means)
    out.print(made)


def print_errors(cohort: Cohort, out: Console) -> None:
    """Print one row per quantity: its error against the expert, and whether decoding reduced it.

    There is no column of p where nothing was tested.
    """
    errors = cohort.errors
    n_subjects = max(row.n_subjects for row in errors)
    print_heading(out, f"Mean absolute error against the expert ({count(n_subjects, 'subject')})")
    has_before = any(row.before for row in errors)
    has_p = any(row.after is not None and not isnan(row.after.p) for row in errors)
    titles = ("before", "after", "improvement (%)", *(("p",) if has_p else ())) if has_before else ("scored",)
    made = Table("", "n", *titles, right=("n", *titles))
    for row in errors:
        cells = [_spread(row.after)]
        if has_before:
            gain = "n/a" if isnan(row.improvement_percent) else f"{row.improvement_percent:+.1f}"
            cells = [_spread(row.before), *cells, gain]
            cells += [_p(NAN if row.after is None else row.after.p)] if has_p else []
        title = titled(STEERED_LIKE[row.quantity], ERROR_QUANTITIES[row.quantity], cohort.table)
        made.add_row(title, str(row.n_subjects), *cells)
    out.print(made)
    print_list(out, "Method", [cohort.errors_method])


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else shown(p, 4)


def _spread(found: Estimate | None) -> str:
    if found is None or isnan(found.mean):
        return "n/a"
    return f"{found.mean:.2f}" if isnan(found.sd) else f"{found.mean:.2f} ± {found.sd:.2f}"


def _n_known(values: Any) -> int:
    return int(np.count_nonzero(~np.isnan(values)))


def _mean(values: Any, decimals: int, column: str) -> str:
    known = values[~np.isnan(values)]
    if not len(known):
        return "n/a"
    mean = _number(float(known.mean()), decimals, column)
    return mean if len(known) < 2 else f"{mean} ± {known.std(ddof=1):.{decimals}f}"
