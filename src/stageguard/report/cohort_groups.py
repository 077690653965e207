"""Differences between groups of nights as forest plots: a row per measure, an interval per scoring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from stageguard.measures.cohort import CohortTable
from stageguard.measures.groups import GroupDifference, group_differences
from stageguard.measures.summary import shown_rows, titled
from stageguard.night.quantities import Quantity
from stageguard.report.cohort_svg import GREY, LINE, SHADES, Axis, picture
from stageguard.report.numbers import ABSENT, shown
from stageguard.report.svg import text_at

WIDTH, LANE = 240.0, 11.0
LARGEST_D = 3.0  # largest end of the axis; intervals may extend beyond it
MOST_PAIRS = 6  # of groups; `stats --by` lists all


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One measure in two groups."""

    label: str
    means: tuple[str, str]  # of the final scoring
    difference: str
    effect: str
    svg: str


@dataclass(frozen=True, slots=True)
class Forest:
    """Two groups, compared in every measure."""

    first: str
    second: str
    sizes: tuple[int, int]
    scoring: str  # whose numbers are in the table
    scorings: tuple[str, ...]
    axis_svg: str
    rows: tuple[ForestRow, ...]


def forests(
    table: CohortTable, groups: Mapping[str, str], subjects: Mapping[str, str]
) -> tuple[list[Forest], int]:
    """Return the first pairs of groups, and the number of pairs left out."""
    rows = shown_rows(table)
    chosen = [table.names.index(quantity.key) for quantity in rows]
    values = {scoring: columns[:, chosen] for scoring, columns in table.values.items()}
    small = replace(table, names=tuple(quantity.key for quantity in rows), values=values)
    differences = group_differences(small, groups, subjects=subjects)
    pairs = list(dict.fromkeys((each.first, each.second) for each in differences))
    made = []
    for number, pair in enumerate(pairs[:MOST_PAIRS]):
        of_pair = [each for each in differences if (each.first, each.second) == pair]
        made.append(_forest(number, small, rows, of_pair))
    return made, len(pairs) - len(made)


def _forest(
    number: int, table: CohortTable, rows: Sequence[Quantity], differences: Sequence[GroupDifference]
) -> Forest:
    scorings = tuple(table.values)
    final = next(name for name in ("after", "before", "expert") if name in scorings)
    ends = [end for each in differences for end in (each.result.d_low, each.result.d_high) if not isnan(end)]
    reach = min(LARGEST_D, max([0.5, *np.abs(ends).tolist()]))
    axis = Axis(-reach, reach, 8.0, WIDTH - 8.0)
    made = []
    for quantity in rows:
        by_scoring = {each.scoring: each for each in differences if each.measure == quantity.key}
        result = by_scoring[final].result
        if not any(each.result.n_first + each.result.n_second for each in by_scoring.values()):
            continue
        places = max(1, quantity.decimals)
        effect = _interval(result.d, result.d_low, result.d_high, 2)
        title = f"{quantity.title}: Cohen's d"
        name = f"forest-{number}-{quantity.key}"
        words = [
            f"{scoring} {_interval(e.result.d, e.result.d_low, e.result.d_high, 2)}"
            for scoring, e in by_scoring.items()
        ]
        drawn = picture(
            name, title, "; ".join(words), [*_lanes(by_scoring, axis)], (WIDTH, LANE * len(by_scoring) + 4)
        )
        made.append(
            ForestRow(
                titled(quantity, quantity.short_heading, table),
                (shown(result.mean_first, places), shown(result.mean_second, places)),
                _interval(result.difference, result.low, result.high, places),
                effect,
                drawn,
            )
        )
    sizes = (
        max(each.result.n_first for each in differences),
        max(each.result.n_second for each in differences),
    )
    axis_svg = picture(f"forest-{number}", "Scale of Cohen's d", "", [*_scale(axis)], (WIDTH, 18))
    first = differences[0]
    return Forest(first.first, first.second, sizes, final, scorings, axis_svg, tuple(made))


def _interval(value: float, low: float, high: float, places: int) -> str:
    if isnan(value):
        return ABSENT
    return (
        shown(value, places)
        if isnan(low)
        else f"{shown(value, places)} [{shown(low, places)}, {shown(high, places)}]"
    )


def _scale(axis: Axis) -> Iterator[str]:
    values, decimals = axis.ticks()
    for value in values:
        yield text_at(
            axis.at(value), 13, shown(value, decimals), font_size=11, text_anchor="middle", fill=GREY
        )


def _lanes(own: Mapping[str, GroupDifference], axis: Axis) -> Iterator[str]:
    """Draw one interval per scoring, below each other, with a line at no difference."""
    yield f'<path d="M{axis.at(0):.1f} 0V{LANE * len(own) + 4:.1f}" stroke="{GREY}"/>'
    ticks = "".join(
        f"M{axis.at(value):.1f} 0v{LANE * len(own) + 4:.1f}" for value in axis.ticks()[0] if value
    )
    yield f'<path d="{ticks}" stroke="{LINE}"/>'
    for number, (scoring, each) in enumerate(own.items()):
        result, y, colour = each.result, LANE * (number + 0.5) + 2, SHADES[scoring]
        if not isnan(result.d_low):
            path = f"M{axis.at(result.d_low):.1f} {y:.1f}H{axis.at(result.d_high):.1f}"
            yield f'<path d="{path}" stroke="{colour}" stroke-width="2"/>'
        if not isnan(result.d):
            dot = 'stroke-width="8" stroke-linecap="round"'
            yield f'<path d="M{axis.at(result.d):.1f} {y:.1f}h0" stroke="{colour}" {dot}/>'
