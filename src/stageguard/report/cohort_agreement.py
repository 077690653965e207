"""Sleep statistics of many nights against the experts': Bland-Altman plots, before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.measures.bland_altman import BlandAltman, bland_altman
from stageguard.measures.cohort import CohortTable
from stageguard.measures.summary import shown_rows
from stageguard.night.quantities import JOINT, Quantity, indicators_of
from stageguard.report.cohort_svg import GREY, INK, SHADES, Axis, axis_for, bottom_axis, picture
from stageguard.report.numbers import count, shown
from stageguard.report.svg import text_at

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 236.0, 178.0, 40.0, 14.0, 6.0, 158.0  # RIGHT: half a tick label
MOST_POINTS = 300  # drawn one by one; more points are drawn as counts in cells
CELLS = (44, 30)
SHADINGS = (0.18, 0.36, 0.6, 1.0)  # opacity of cells, from few points to many


@dataclass(frozen=True, slots=True)
class Panel:
    """One scoring against the experts'."""

    scoring: str
    sentence: str
    svg: str


@dataclass(frozen=True, slots=True)
class Compared:
    """One statistic against the experts', before and after decoding."""

    label: str
    unit: str
    panels: tuple[Panel, ...]


def compared_statistics(table: CohortTable) -> list[Compared]:
    """Return the statistics of a cohort compared with the experts'."""
    if "expert" not in table.values:
        return []
    statistics = []
    for quantity in _statistics(table):
        expert = table.of(quantity.key, "expert")
        pairs = {
            scoring: bland_altman(table.of(quantity.key, scoring), expert)
            for scoring in ("before", "after")
            if scoring in table.values
        }
        known = {scoring: each for scoring, each in pairs.items() if each.n > 1}
        if known:
            statistics.append(Compared(quantity.title, quantity.unit, tuple(_panels(quantity, known))))
    return statistics


def _statistics(table: CohortTable) -> list[Quantity]:
    """Return the sleep statistics of a table, without indicators, which have their own picture."""
    indicators = {JOINT.key, *indicators_of(())}
    return [quantity for quantity in shown_rows(table) if quantity.key not in indicators]


def _panels(quantity: Quantity, pairs: dict[str, BlandAltman]) -> Iterator[Panel]:
    across = axis_for([each.means for each in pairs.values()], LEFT, WIDTH - RIGHT)
    limits = [limit for each in pairs.values() for limit in (each.low, each.high)]
    up = axis_for([each.differences for each in pairs.values()], BOTTOM, TOP, 0.0, *limits)
    for scoring, numbers in pairs.items():
        sentence = _sentence(quantity, numbers)
        parts = [*_frame(across, up), *_points(numbers, across, up, SHADES[scoring]), *_lines(numbers, up)]
        title = f"{quantity.title}: {scoring} minus expert"
        name = f"agreement-{quantity.key}-{scoring}"
        yield Panel(scoring, sentence, picture(name, title, sentence, parts, (WIDTH, HEIGHT)))


def _sentence(quantity: Quantity, own: BlandAltman) -> str:
    """Return the numbers of a plot as text."""
    bias, low, high, bias_low, bias_high = (
        shown(value, max(1, quantity.decimals))
        for value in (own.bias, own.low, own.high, own.bias_low, own.bias_high)
    )
    return f"bias {bias} ({bias_low} to {bias_high}), limits {low} to {high}, {count(own.n, 'night')}"


def _frame(across: Axis, up: Axis) -> Iterator[str]:
    yield from bottom_axis(across, BOTTOM, TOP)
    values, decimals = up.ticks(5)
    for value in values:
        yield text_at(
            LEFT - 5, up.at(value) + 4, shown(value, decimals), font_size=11, text_anchor="end", fill=GREY
        )
    yield f'<path d="M{LEFT:.1f} {up.at(0):.1f}H{WIDTH - RIGHT:.1f}" stroke="{GREY}"/>'


def _lines(own: BlandAltman, up: Axis) -> Iterator[str]:
    """Draw bias and limits of agreement across the plot."""
    right = WIDTH - RIGHT
    yield f'<path d="M{LEFT:.1f} {up.at(own.bias):.1f}H{right:.1f}" stroke="{INK}" stroke-width="1.6"/>'
    path = "".join(f"M{LEFT:.1f} {up.at(limit):.1f}H{right:.1f}" for limit in (own.low, own.high))
    yield f'<path d="{path}" stroke="{INK}" stroke-width="1.2" stroke-dasharray="5 4"/>'


def _points(own: BlandAltman, across: Axis, up: Axis, colour: str) -> Iterator[str]:
    """Draw every night as a dot; for many nights, draw their number in each cell."""
    xs = np.array([across.at(value) for value in own.means.tolist()])
    ys = np.array([up.at(value) for value in own.differences.tolist()])
    if own.n > MOST_POINTS:
        yield from _cells(xs, ys, colour)
        return
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))
    style = 'stroke-width="5" stroke-linecap="round" stroke-opacity="0.7"'
    yield f'<path d="{path}" stroke="{colour}" {style}/>'


def _cells(xs: Floats, ys: Floats, colour: str) -> Iterator[str]:
    counts, x_edges, y_edges = np.histogram2d(xs, ys, CELLS, ((LEFT, WIDTH - RIGHT), (TOP, BOTTOM)))
    most = counts.max()
    width, height = float(x_edges[1] - x_edges[0]), float(y_edges[1] - y_edges[0])
    level = np.ceil(np.log1p(counts) / math.log1p(most) * len(SHADINGS)).astype(int)
    for number, opacity in enumerate(SHADINGS, 1):
        path = "".join(
            f"M{x_edges[i]:.1f} {y_edges[j]:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"
            for i, j in np.argwhere(level == number).tolist()
        )
        if path:
            yield f'<path d="{path}" fill="{colour}" fill-opacity="{opacity:g}"/>'
