"""Tables of groups that `stats` prints: differences, and estimates from scored and unscored nights."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from textwrap import wrap

from stageguard.cli.console import Console, Table
from stageguard.cli.terminal import (
    one_line,
    print_heading,
    print_list,
)
from stageguard.formats.cohort_files import scoring_names
from stageguard.measures.cohort import CohortTable
from stageguard.measures.groups import METHOD, GroupDifference
from stageguard.measures.prediction_powered import METHOD as POWERED_METHOD
from stageguard.measures.prediction_powered import CohortEstimate
from stageguard.measures.summary import shown, shown_rows, titled

TITLE_WIDTH = 22  # of a quantity, so that a row fits 110 characters


def print_groups(cohort: CohortTable, differences: Sequence[GroupDifference], out: Console) -> None:
    """Print one table per pair of groups."""
    names = scoring_names(cohort.values)
    for first, second in dict.fromkeys((row.first, row.second) for row in differences):
        of_pair = [d for d in differences if (d.first, d.second) == (first, second)]
        sizes = max(d.result.n_first for d in of_pair), max(d.result.n_second for d in of_pair)
        print_heading(out, one_line(f"{first} (n = {sizes[0]}) minus {second} (n = {sizes[1]})"))
        titles = (one_line(first), one_line(second), "difference [95 % CI]", "Cohen's d [95 % CI]")
        made = Table("", "stages", *titles, right=titles)
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
                made.add_row(" ".join(lines[number:]) if last else lines[number], *cells)
        out.print(made)
    print_list(out, "Method", [METHOD])


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


def print_estimates(cohort: CohortTable, estimates: Sequence[CohortEstimate], out: Console) -> None:
    """Print one table per group, pair of groups or covariate."""
    reasons: dict[str, list[str]] = {}
    for title in dict.fromkeys(item.title for item in estimates):
        by_measure = {item.measure: item for item in estimates if item.title == title}
        result = next(iter(by_measure.values())).result
        people = f"{result.n_scored} scored by experts, {result.n_unscored} not"
        print_heading(out, one_line(f"{title} ({people})"))
        if all(isnan(item.result.scored_estimate) for item in by_measure.values()):
            out.print(f"{result.reason[:1].upper()}{result.reason[1:]}.")
            continue
        titles = ("estimate [95 % CI]", "scored alone [95 % CI]", "width", "λ")
        made = Table("", *titles, right=titles)
        for quantity in shown_rows(cohort):
            estimate = by_measure[quantity.key]
            result, places = estimate.result, 2 if estimate.covariate else max(1, quantity.decimals)
            if isnan(result.scored_estimate):
                continue
            made.add_row(
                titled(quantity, quantity.short_heading, cohort),
                _interval(result.estimate, result.low, result.high, places),
                _interval(result.scored_estimate, result.scored_low, result.scored_high, places),
                shown(result.width_ratio, 2),
                f"{result.weight:.2f}",
            )
            if result.reason:
                where = one_line(f"{quantity.short_heading} ({title})")
                reasons.setdefault(result.reason, []).append(where)
        out.print(made)
    print_list(out, "Why", [f"{reason}: {', '.join(names)}" for reason, names in reasons.items()])
    print_list(out, "Method", [POWERED_METHOD])


def _interval(value: float, low: float, high: float, places: int) -> str:
    text = shown(value, places)
    return text if isnan(low) else f"{text} [{low:.{places}f}, {high:.{places}f}]"
