"""Tables of `stats`: one night, a row for each, means, errors against experts and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan

import numpy as np

from stageguard.arrays import NAN, Floats
from stageguard.cli.terminal import one_line
from stageguard.formats.cohort_files import Cohort, Facts, scoring_names
from stageguard.measures.cohort import (
    ARCHITECTURE,
    ERRORS_METHOD,
    STEERED_LIKE,
    CohortTable,
    GroupDifference,
    MeasuredScorings,
)
from stageguard.measures.samples import METHOD_OF_GROUPS, METHOD_OF_TABLE, Estimate, bland_altman, estimate
from stageguard.measures.validity import Indicator, Validity
from stageguard.night.quantities import EARLY_WORDS, Quantity, steered_words
from stageguard.report.summary import shown, shown_rows, titled
from stageguard.report.table import Cell, Column, Table, numbers, words
from stageguard.report.words import accuracy_words

SUFFIXES = {".tsv": "tsv", ".md": "md", ".tex": "tex"}  # of a table for a paper
PLACE_STYLE = {"below": "yellow", "inside": "green", "above": "yellow"}


def validity_of_night(night: MeasuredScorings) -> Validity | None:
    """Return how the final scoring of a night compares with experts'; None without a profile."""
    found = (night.measures[name].validity for name in ("after", "before") if name in night.measures)
    return next(found, None)


def column_titles(cohort: CohortTable) -> dict[str, str]:
    """Return the headings of the columns of a cohort."""
    after = "guarded" if "before" in cohort.values else "scored"
    return {"before": "stager", "after": after, "delta": "change", "expert": "expert"}


def early_words(rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return what the word early means, if a cell has it."""
    return [EARLY_WORDS] if any(str(cell).partition(" early")[1] for row in rows for cell in row) else []


def night_table(cohort: Cohort) -> Table:
    """Return the measures of a single night, with the range of experts beside those that have one."""
    (night,), measures = cohort.nights, cohort.compared
    validity = validity_of_night(night)
    ranges = {} if validity is None else validity.measured
    names = measures.columns_of(measures.names[0])
    columns = [*words(""), *numbers(*(column_titles(measures)[name] for name in names))]
    columns += words("expert range", "") if ranges else ()
    rows: list[tuple[Cell, ...]] = []
    for quantity in shown_rows(measures):
        values = measures.columns_of(quantity.key)
        cells: tuple[Cell, ...] = tuple(_night_cell(quantity, float(values[k][0]), k) for k in names)
        if ranges:
            cells += _range(ranges.get(quantity.key), quantity.decimals)
        rows.append(
            (titled(quantity, quantity.short_heading, measures), *cells, *_accuracy(cohort, quantity))
        )
    return Table([*columns, *_accuracy_column(cohort)], rows, notes=early_words([row[1:] for row in rows]))


def _night_cell(quantity: Quantity, value: float, column: str) -> str:
    if column == "delta" and not isnan(value):
        return f"{value:+.{quantity.decimals}f}"
    early = " early" * (column != "delta" and quantity.is_early(value))
    return shown(value, quantity.decimals) + early


def _range(indicator: Indicator | None, decimals: int) -> tuple[Cell, Cell]:
    """Return the cells of an expert range, and of where the night lies."""
    if indicator is None or indicator.place == "no band":
        return "", ""
    band = f"{indicator.low:.{decimals}f} to {indicator.high:.{decimals}f}"
    return band, (indicator.place, PLACE_STYLE[indicator.place])


def nights_table(cohort: CohortTable, facts: Sequence[Facts]) -> Table:
    """Return one row per night or sleep: the main quantities, and how far decoding changed them."""
    rows = [quantity for quantity in shown_rows(cohort) if "night row" in quantity.shown]
    are_sleeps = any(each.start for each in facts)
    cells = [
        (
            *((night, each.start or "", each.end or "") if are_sleeps else (night,)),
            *(_changed_cell(cohort, quantity, number) for quantity in rows),
        )
        for number, (night, each) in enumerate(zip(cohort.night_ids, facts, strict=True))
    ]
    titles = numbers(*(titled(quantity, quantity.short_heading, cohort) for quantity in rows))
    hint = "All columns: --output cohort.tsv"
    if {"before", "after"} <= cohort.values.keys():
        where = ", both counted in the guarded sleep" * are_sleeps
        hint = f"In brackets: the change by decoding{where}. {hint}"
    heads = words("sleep", "start", "end") if are_sleeps else words("night")
    return Table([*heads, *titles], cells, notes=[*early_words([row[1:] for row in cells]), hint])


def _changed_cell(cohort: CohortTable, quantity: Quantity, number: int) -> str:
    values = {name: float(column[number]) for name, column in cohort.columns_of(quantity.key).items()}
    scorings = (values.get(name, NAN) for name in ("after", "before", "expert"))
    text = _night_cell(quantity, next((value for value in scorings if not isnan(value)), NAN), "after")
    delta = values.get("delta", NAN)
    return text if isnan(delta) else f"{text} ({delta:+.{quantity.decimals}f})"


def means_table(cohort: Cohort) -> Table:
    """Return a row per quantity: the mean of each scoring, and the median of the final one."""
    table = cohort.compared
    scorings = [name for name in ("after", "before", "expert") if name in table.values]
    titles = column_titles(table)
    rows: list[tuple[Cell, ...]] = []
    digits = []
    for quantity in shown_rows(table):
        means = [_estimate(table.of(quantity.key, name)) for name in scorings]
        if any(each.n for each in means):
            final = table.of(quantity.key, scorings[0])
            digits.append(max(1, quantity.decimals))
            spread = _median(final[~np.isnan(final)], digits[-1])
            cells: list[Cell] = [_counts(means), means[0], spread, *means[1:], *_accuracy(cohort, quantity)]
            rows.append((titled(quantity, quantity.short_heading, table), *cells))
    heads = [titles[scorings[0]], "median [IQR]", *(titles[name] for name in scorings[1:])]
    columns = [*words(""), *numbers("nights", *heads), *_accuracy_column(cohort)]
    return Table(columns, rows, f"Mean ± SD over {len(table.night_ids)} nights", row_digits=digits)


def _median(known: Floats, digits: int) -> str:
    if not len(known):
        return "n/a"
    low, median, high = np.percentile(known, (25, 50, 75))
    return f"{median:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def _estimate(values: Floats) -> Estimate:
    return estimate({str(i): value for i, value in enumerate(values[~np.isnan(values)].tolist())})


def _counts(means: Sequence[Estimate]) -> str:
    """Return of how many nights the means are."""
    counts = sorted({each.n for each in means} - {0})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"


def _accuracy(cohort: Cohort, quantity: Quantity) -> tuple[str, ...]:
    """Return the cell of a statistic's grade; none without a card."""
    return () if cohort.card is None else (accuracy_words(cohort.card, quantity.key),)


def _accuracy_column(cohort: Cohort) -> tuple[Column, ...]:
    return () if cohort.card is None else words("accuracy (grade card)")


def errors_table(cohort: Cohort) -> Table:
    """Return one row per quantity: its error against the expert, and whether decoding reduced it.

    There is no column of p where nothing was tested.
    """
    errors = cohort.errors
    has_before = any(row.before.n for row in errors)
    has_p = has_before and any(not isnan(row.after.p) for row in errors)
    rows: list[tuple[Cell, ...]] = []
    for row in errors:
        cells: tuple[Cell, ...] = (_spread(row.after),)
        if has_before:
            gain = row.improvement_percent
            cells = _spread(row.before), *cells, "n/a" if isnan(gain) else f"{gain:+.1f}"
        if has_p:
            cells += ("<0.0001" if row.after.p < 0.0001 else shown(row.after.p, 4),)
        title = titled(STEERED_LIKE[row.quantity], ARCHITECTURE[row.quantity], cohort.table)
        rows.append((title, row.n_subjects, *cells))
    titles = (
        ("stager", "guarded", "improvement (%)", *(("p",) if has_p else ())) if has_before else ("scored",)
    )
    title = f"Mean absolute error against the expert, mean ± SD over {max(row.n_subjects for row in errors)}"
    return Table([*words(""), *numbers("n", *titles)], rows, f"{title} subjects", [ERRORS_METHOD])


def _spread(found: Estimate) -> str:
    if isnan(found.mean):
        return "n/a"
    return f"{found.mean:.2f}" if isnan(found.sd) else f"{found.mean:.2f} ± {found.sd:.2f}"


def group_tables(cohort: CohortTable, differences: Sequence[GroupDifference]) -> Iterator[Table]:
    """Yield one table per pair of groups."""
    names = scoring_names(cohort.values)
    for first, second in dict.fromkeys((row.first, row.second) for row in differences):
        found: dict[str, list[GroupDifference]] = {}
        for row in differences:
            if (row.first, row.second) == (first, second) and row.result.n_first + row.result.n_second:
                found.setdefault(row.measure, []).append(row)
        every = [row.result for each in found.values() for row in each]
        sizes = max(each.n_first for each in every), max(each.n_second for each in every)
        rows = [
            (
                titled(quantity, quantity.short_heading, cohort) if row is found[quantity.key][0] else "",
                *(names[row.scoring], *_difference_cells(row, max(1, quantity.decimals), sizes)),
            )
            for quantity in shown_rows(cohort)
            for row in found.get(quantity.key, ())
        ]
        title = one_line(f"{first} (n = {sizes[0]}) minus {second} (n = {sizes[1]})")
        heads = numbers(first, second, "difference [95 % CI]", "Cohen's d [95 % CI]")
        yield Table([*words("", "stages"), *heads], rows, title, [METHOD_OF_GROUPS])


def _difference_cells(found: GroupDifference, decimals: int, sizes: tuple[int, int]) -> list[str]:
    result = found.result

    def sample(mean: float, sd: float, n: int, size: int) -> str:
        text = shown(mean, decimals) if isnan(sd) else f"{mean:.{decimals}f} ± {sd:.{decimals}f}"
        return text if n == size else f"{text} (n = {n})"

    def interval(value: float, low: float, high: float, places: int) -> str:
        text = shown(value, places)
        return text if isnan(low) else f"{text} [{low:.{places}f}, {high:.{places}f}]"

    return [
        sample(result.mean_first, result.sd_first, result.n_first, sizes[0]),
        sample(result.mean_second, result.sd_second, result.n_second, sizes[1]),
        interval(result.difference, result.low, result.high, decimals),
        interval(result.d, result.d_low, result.d_high, 2),
    ]


def paper_table(cohort: Cohort, notes: Sequence[str]) -> Table:
    """Return a row per quantity: means of each scoring and, with experts, bias and limits of agreement."""
    table = cohort.compared
    scorings = [name for name in ("before", "after") if name in table.values]
    has_before = "before" in table.values
    titles = {"before": "before", "after": "after" if has_before else "scored", "delta": "change"}
    columns = ["nights", *(titles.get(name, name) for name in table.columns_of(table.names[0]))]
    has_expert = "expert" in table.values
    for name in scorings if has_expert else ():
        columns += [f"{what} {titles[name]}" for what in ("bias", "lower limit", "upper limit")]
    rows: list[tuple[Cell, ...]] = []
    digits = []
    for quantity in shown_rows(table):
        means = [_estimate(values) for values in table.columns_of(quantity.key).values()]
        if not any(each.n for each in means):
            continue
        cells: list[Cell] = [_counts(means), *means]
        for name in scorings if has_expert else ():
            found = bland_altman(table.of(quantity.key, name), table.of(quantity.key, "expert"))
            cells += [found.bias, found.low, found.high]
        rows.append((titled(quantity, quantity.short_heading, table), *cells, *_accuracy(cohort, quantity)))
        digits.append(max(1, quantity.decimals))
    steered = [f"{steered_words(table.n_steered)}."] if table.n_steered else []
    return Table(
        [*numbers("", *columns), *_accuracy_column(cohort)],
        rows,
        f"Sleep statistics of {len(table.night_ids)} nights, mean ± standard deviation",
        notes=[*([METHOD_OF_TABLE] if has_expert else []), *steered, *(f"{note}." for note in notes)],
        row_digits=digits,
    )


def judged(nights: Sequence[MeasuredScorings]) -> Mapping[str, bool | None]:
    """Return whether nights look like expert scoring, of those with a profile."""
    found = {night.night_id: validity_of_night(night) for night in nights}
    return {name: each.looks_like_experts for name, each in found.items() if each is not None}
