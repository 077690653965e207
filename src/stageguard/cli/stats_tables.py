"""Tables of `stats`: nights, means, errors and groups on the terminal, and the table for a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from click import UsageError

from stageguard.arrays import NAN, Floats
from stageguard.cli.outcomes import first_few, length_words, placed, print_verdict
from stageguard.cli.terminal import Console, Piece, count, one_line
from stageguard.formats.cohort_files import Cohort, Facts, scoring_names
from stageguard.measures.cohort import (
    ARCHITECTURE,
    ERRORS_METHOD,
    STEERED_LIKE,
    CohortTable,
    GroupDifference,
    MeasuredScorings,
)
from stageguard.measures.grade import GradeCard
from stageguard.measures.samples import METHOD_OF_GROUPS, METHOD_OF_TABLE, Estimate, bland_altman, estimate
from stageguard.measures.validity import Indicator, Validity
from stageguard.night.quantities import EARLY_WORDS, Quantity, quantity_of, steered_words
from stageguard.report.summary import shown, shown_rows, titled
from stageguard.report.table import Cell, Table, numbers
from stageguard.report.words import accuracy_words, looking_like_experts


def column_titles(cohort: CohortTable) -> dict[str, str]:
    """Return the headings of the columns of a cohort: before, after or scored, change, expert."""
    after = "after" if "before" in cohort.values else "scored"
    return {"before": "before", "after": after, "delta": "change", "expert": "expert"}


def validity_of_night(night: MeasuredScorings) -> Validity | None:
    """Return how the final scoring of a night compares with experts'; None without a profile."""
    found = (night.measures[name].validity for name in ("after", "before") if name in night.measures)
    return next(found, None)


def print_judged(nights: Mapping[str, Validity | None], out: Console) -> None:
    """Print how many nights look like expert scoring, and which do not."""
    judged = {name: each.looks_like_experts for name, each in nights.items() if each is not None}
    if judged:
        out.print(looking_like_experts(list(judged.values())), style="bold")
        unlike = [name for name, looks in judged.items() if looks is False]
        out.list("Unlike expert scoring", [", ".join(first_few(unlike, "night"))] if unlike else [])


def print_one(cohort: Cohort, out: Console) -> None:
    """Print every measure of a single night, and the range of experts beside those that have one."""
    (night,), (facts,), measures = cohort.nights, cohort.facts, cohort.compared
    out.print(f"{one_line(night.night_id)}: {length_words(facts.n_epochs, facts.epoch_seconds)}")
    validity = validity_of_night(night)
    if validity is not None:
        print_verdict(validity.verdict, out, looks_like_experts=validity.looks_like_experts)
    ranges = {} if validity is None else validity.measured
    titles = [column_titles(measures)[name] for name in measures.columns_of(measures.names[0])]
    rows = []
    for name in measures.names:
        quantity, columns = quantity_of(name), measures.columns_of(name)
        numbers = (_flagged(quantity, float(values[0]), key) for key, values in columns.items())
        title = titled(quantity, quantity.title, measures)
        experts = _range(ranges.get(name), quantity.decimals) if ranges else ()
        rows.append((title, *numbers, quantity.unit, *experts, *_mark(cohort.card, name)))
    heads = ("expert range", "") if ranges else ()
    out.table(("", *(f">{title}" for title in titles), "unit", *heads, *_mark_title(cohort.card)), rows)
    _print_early(measures, out)
    if facts.epochs_changed is not None:
        out.print(f"{count(facts.epochs_changed, 'epoch')} changed.")
    if validity is not None:
        rare = [f"{pair} {n}" for pair, n in validity.rare_pairs.items() if n]
        short = [f"{stage} {n}" for stage, n in validity.bouts_below_minimum.items() if n]
        out.list("Uncommon transitions", [", ".join(rare)] if rare else [])
        out.list("Bouts below the profile's minimum", [", ".join(short)] if short else [])
    reasons = dict.fromkeys(
        text for each in night.compared.measures.values() for text in each.reasons.values()
    )
    out.list("Why n/a", reasons)


def _range(indicator: Indicator | None, decimals: int) -> tuple[Piece, Piece]:
    """Return the cells of an expert range, and of where the night lies."""
    if indicator is None or indicator.place == "no band":
        return "", ""
    band = f"{indicator.low:.{decimals}f} to {indicator.high:.{decimals}f}"
    return band, placed(indicator.place, indicator.place)


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


def print_nights(cohort: CohortTable, facts: Sequence[Facts], out: Console) -> None:
    """Print one row per night or sleep: the main quantities, and how far decoding changed them."""
    rows = [quantity for quantity in shown_rows(cohort) if "night row" in quantity.shown]
    are_sleeps = any(each.start for each in facts)
    cells = [
        (
            *((night, each.start or "", each.end or "") if are_sleeps else (night,)),
            *(_night_cell(cohort, quantity, number) for quantity in rows),
        )
        for number, (night, each) in enumerate(zip(cohort.night_ids, facts, strict=True))
    ]
    titles = (f">{titled(quantity, quantity.short_heading, cohort)}" for quantity in rows)
    out.table((*(("sleep", "start", "end") if are_sleeps else ("night",)), *titles), cells)
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


def print_means(cohort: CohortTable, card: GradeCard | None, out: Console) -> None:
    """Print one row per quantity: its mean and standard deviation over the nights."""
    out.heading(f"Mean ± standard deviation over {len(cohort.night_ids)} nights")
    rows = shown_rows(cohort)
    known = [
        column
        for column in cohort.columns_of(cohort.names[0])
        if any(_n_known(cohort.columns_of(quantity.key)[column]) for quantity in rows)
    ]
    titles = [column_titles(cohort)[column] for column in known]
    cells = []
    for quantity in rows:
        columns = {name: values for name, values in cohort.columns_of(quantity.key).items() if name in known}
        counts = {_n_known(values) for values in columns.values()} - {0}
        if counts:
            n_nights = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
            decimals = max(1, quantity.decimals)
            means = [_mean(values, decimals, column) for column, values in columns.items()]
            title = titled(quantity, quantity.short_heading, cohort)
            cells.append((title, n_nights, *means, *_mark(card, quantity.key)))
    out.table(("", ">nights", *(f">{title}" for title in titles), *_mark_title(card)), cells)


def _mark(card: GradeCard | None, key: str) -> tuple[str, ...]:
    """Return the cell of a statistic's grade; none without a card."""
    return () if card is None else (accuracy_words(card, key),)


def _mark_title(card: GradeCard | None) -> tuple[str, ...]:
    return () if card is None else ("accuracy (grade card)",)


def print_errors(cohort: Cohort, out: Console) -> None:
    """Print one row per quantity: its error against the expert, and whether decoding reduced it.

    There is no column of p where nothing was tested.
    """
    errors = cohort.errors
    n_subjects = max(row.n_subjects for row in errors)
    out.heading(f"Mean absolute error against the expert ({count(n_subjects, 'subject')})")
    has_before = any(row.before.n for row in errors)
    has_p = any(not isnan(row.after.p) for row in errors)
    titles = ("before", "after", "improvement (%)", *(("p",) if has_p else ())) if has_before else ("scored",)
    rows = []
    for row in errors:
        cells = [_spread(row.after)]
        if has_before:
            gain = "n/a" if isnan(row.improvement_percent) else f"{row.improvement_percent:+.1f}"
            cells = [_spread(row.before), *cells, gain]
            cells += [_p(row.after.p)] if has_p else []
        title = titled(STEERED_LIKE[row.quantity], ARCHITECTURE[row.quantity], cohort.table)
        rows.append((title, row.n_subjects, *cells))
    out.table(("", ">n", *(f">{title}" for title in titles)), rows)
    out.list("Method", [ERRORS_METHOD])


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else shown(p, 4)


def _spread(found: Estimate) -> str:
    if isnan(found.mean):
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


TITLE_WIDTH = 22  # of a quantity, so that a row fits 110 characters


def print_groups(cohort: CohortTable, differences: Sequence[GroupDifference], out: Console) -> None:
    """Print one table per pair of groups."""
    names = scoring_names(cohort.values)
    for first, second in dict.fromkeys((row.first, row.second) for row in differences):
        of_pair = [d for d in differences if (d.first, d.second) == (first, second)]
        sizes = max(d.result.n_first for d in of_pair), max(d.result.n_second for d in of_pair)
        out.heading(one_line(f"{first} (n = {sizes[0]}) minus {second} (n = {sizes[1]})"))
        shown_lines: list[list[str]] = []
        for quantity in shown_rows(cohort):
            rows = [
                [names[row.scoring], *_difference_cells(row, max(1, quantity.decimals), sizes)]
                for row in of_pair
                if row.measure == quantity.key and row.result.n_first + row.result.n_second
            ]
            lines = wrap(titled(quantity, quantity.short_heading, cohort), TITLE_WIDTH)
            lines += [""] * (len(rows) - len(lines))
            for number, cells in enumerate(rows):  # a long title goes on beside the next row
                last = number == len(rows) - 1
                shown_lines.append([" ".join(lines[number:]) if last else lines[number], *cells])
        intervals = (">difference [95 % CI]", ">Cohen's d [95 % CI]")
        out.table(("", "stages", f">{first}", f">{second}", *intervals), shown_lines)
    out.list("Method", [METHOD_OF_GROUPS])


def _difference_cells(found: GroupDifference, decimals: int, sizes: tuple[int, int]) -> list[str]:
    result = found.result

    def sample(mean: float, sd: float, n: int, size: int) -> str:
        text = shown(mean, decimals) if isnan(sd) else f"{mean:.{decimals}f} ± {sd:.{decimals}f}"
        return text if n == size else f"{text} (n = {n})"

    return [
        sample(result.mean_first, result.sd_first, result.n_first, sizes[0]),
        sample(result.mean_second, result.sd_second, result.n_second, sizes[1]),
        _interval(result.difference, result.low, result.high, decimals),
        _interval(result.d, result.d_low, result.d_high, 2),
    ]


def _interval(value: float, low: float, high: float, places: int) -> str:
    text = shown(value, places)
    return text if isnan(low) else f"{text} [{low:.{places}f}, {high:.{places}f}]"


SUFFIXES = {".tsv": "tsv", ".md": "md", ".tex": "tex"}


def check_suffix(path: Path) -> None:
    """Refuse a name whose suffix does not say the format."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--table is {str(path)!r}, expected a name that ends in {', '.join(SUFFIXES)}.")


def paper_text(cohort: Cohort, path: Path, notes: list[str]) -> str:
    """Return the table in the format that the suffix of its file says."""
    return paper_table(cohort, notes).text(SUFFIXES[path.suffix.lower()])


def paper_table(cohort: Cohort, notes: list[str]) -> Table:
    """Return a row per quantity: means of each scoring and, with experts, bias and limits of agreement."""
    table = cohort.compared
    scorings = [name for name in ("before", "after") if name in table.values]
    titles = column_titles(table)
    columns = ["", "nights", *(titles[name] for name in table.columns_of(table.names[0]))]
    if "expert" in table.values:
        for name in scorings:
            columns += [f"bias {titles[name]}", f"lower limit {titles[name]}", f"upper limit {titles[name]}"]
    columns += _mark_title(cohort.card)
    rows, decimals = [], []
    for quantity in shown_rows(table):
        row = [*_paper_row(table, quantity.key, scorings), *_mark(cohort.card, quantity.key)]
        if any(isinstance(cell, Estimate) and cell.n for cell in row):
            rows.append((titled(quantity, quantity.short_heading, table), *row))
            decimals.append(max(1, quantity.decimals))
    compared = [METHOD_OF_TABLE] if "expert" in table.values else []
    steered = [f"{steered_words(table.n_steered)}."] if table.n_steered else []
    remarks = [f"{note}." for note in notes]
    return Table(
        numbers(*columns),
        rows,
        f"Sleep statistics of {len(table.night_ids)} nights, mean ± standard deviation",
        notes=[*compared, *steered, *remarks],
        row_digits=decimals,
    )


def _paper_row(table: CohortTable, key: str, scorings: list[str]) -> Iterator[Cell]:
    means = [_estimate(values) for values in table.columns_of(key).values()]
    counts = sorted({each.n for each in means} - {0})
    yield " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"
    yield from means
    if "expert" in table.values:
        for name in scorings:
            found = bland_altman(table.of(key, name), table.of(key, "expert"))
            yield from (found.bias, found.low, found.high)


def _estimate(values: Floats) -> Estimate:
    known = values[~np.isnan(values)].tolist()
    return estimate({str(i): value for i, value in enumerate(known)})
