"""The table of `stats` for a paper: mean ± standard deviation, bias and limits of agreement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from click import UsageError

from stageguard.base.arrays import Floats
from stageguard.cli.cohort_tables import column_titles
from stageguard.formats.cohort_files import Cohort
from stageguard.measures.bland_altman import METHOD_OF_TABLE, bland_altman
from stageguard.measures.cohort import CohortTable
from stageguard.measures.paired import Estimate, estimate
from stageguard.measures.summary import shown_rows, titled
from stageguard.night.quantities import steered_words
from stageguard.study.rendering import Cell, Table

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
    rows, decimals = [], []
    for quantity in shown_rows(table):
        row = list(_row(table, quantity.key, scorings))
        if any(isinstance(cell, Estimate) and cell.n for cell in row):
            rows.append((titled(quantity, quantity.short_heading, table), *row))
            decimals.append(max(1, quantity.decimals))
    compared = [METHOD_OF_TABLE] if "expert" in table.values else []
    steered = [f"{steered_words(table.n_steered)}."] if table.n_steered else []
    remarks = [f"{note}." for note in notes]
    return Table(
        "statistics",
        f"Sleep statistics of {len(table.night_ids)} nights, mean ± standard deviation",
        tuple(columns),
        tuple(rows),
        notes=tuple(filter(None, [cohort.taught, *compared, *steered, *remarks])),
        row_decimals=tuple(decimals),
    )


def _row(table: CohortTable, key: str, scorings: list[str]) -> Iterator[Cell]:
    means = [_mean(values) for values in table.columns_of(key).values()]
    counts = sorted({each.n for each in means} - {0})
    yield " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "0"
    yield from means
    if "expert" in table.values:
        for name in scorings:
            found = bland_altman(table.of(key, name), table.of(key, "expert"))
            yield from (found.bias, found.low, found.high)


def _mean(values: Floats) -> Estimate:
    known = values[~np.isnan(values)].tolist()
    return estimate({str(i): value for i, value in enumerate(known)})
