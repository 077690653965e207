"""Pictures of a cohort: indicators in their expert bands, statistics against experts, groups compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.measures.bland_altman import BlandAltman, bland_altman
from stageguard.measures.cohort import CohortTable
from stageguard.measures.groups import GroupDifference, group_differences
from stageguard.measures.validity import place_in
from stageguard.night.quantities import JOINT, Quantity, indicators_of, quantity_of
from stageguard.report.cohort_rows import FINAL, BandScale, CohortRow, table_of
from stageguard.report.numbers import ABSENT, count, shown
from stageguard.report.summary import shown_rows, titled
from stageguard.report.svg import (
    BAND,
    GREY,
    INK,
    PALE,
    SHADES,
    ValueAxis,
    axis_for,
    bottom_axis,
    document,
    rect,
    text_at,
)

# Indicators in their bands: histograms above each other
BAND_WIDTH, BAND_LEFT, BAND_TOP, BAND_ROW, BINS = 300.0, 50.0, 6.0, 28.0, 44
MOST_SCALES = 4  # profiles and epoch lengths whose bands are drawn

# Bland-Altman plots
PLOT_WIDTH, PLOT_HEIGHT = 236.0, 178.0
PLOT_LEFT, PLOT_RIGHT, PLOT_TOP, PLOT_BOTTOM = 40.0, 222.0, 6.0, 158.0  # half a tick label is right of it
MOST_POINTS = 300  # drawn one by one; more points are drawn as counts in cells
CELLS = (44, 30)
SHADINGS = (0.18, 0.36, 0.6, 1.0)  # opacity of cells, from few points to many

# Forest plots
FOREST_WIDTH, LANE = 240.0, 11.0
LARGEST_D = 3.0  # largest end of the axis; intervals may extend beyond it
MOST_PAIRS = 6  # of groups; `stats --by` lists all


@dataclass(frozen=True, slots=True)
class Spread:
    """One indicator of many nights: shares inside and outside the band, and the picture."""

    label: str
    band: str
    shares: tuple[str, ...]  # of each scoring, as text
    svg: str


@dataclass(frozen=True, slots=True)
class ScaleSpreads:
    """The indicators of the nights of one profile and epoch length."""

    heading: str
    spreads: tuple[Spread, ...]


def spreads_of(rows: Sequence[CohortRow]) -> list[ScaleSpreads]:
    """Return the indicators with a band, for each of the most frequent scales."""
    by_scale: dict[BandScale, list[CohortRow]] = {}
    for row in rows:
        by_scale.setdefault(row.scale, []).append(row)
    scales: list[ScaleSpreads] = []
    for scale, nights in sorted(by_scale.items(), key=lambda item: -len(item[1]))[:MOST_SCALES]:
        bands = list(scale.bands)
        if scale.threshold is not None:
            bands.insert(0, (JOINT.key, 0.0, scale.threshold))
        draw = partial(_spread, table_of(nights), len(scales))
        spreads = tuple(draw(quantity_of(key), low, high) for key, low, high in bands)
        if spreads:
            heading = f"{scale.profile}, epochs of {scale.epoch_seconds:g} s: {count(len(nights), 'night')}"
            scales.append(ScaleSpreads(heading, spreads))
    return scales


def _spread(table: CohortTable, scale_number: int, quantity: Quantity, low: float, high: float) -> Spread:
    key = quantity.key
    columns = {name: table.of(key, name) for name in table.values} if key in table.names else {}
    columns = {name: values[~np.isnan(values)] for name, values in columns.items()}
    columns = {name: values for name, values in columns.items() if len(values)}
    shares = tuple(_share_words(name, values, low, high) for name, values in columns.items())
    decimals = quantity.decimals
    unit = "" if quantity.unit == "count" else f" {quantity.unit}"
    band = f"{shown(low, decimals)} to {shown(high, decimals)}{unit}"
    if quantity is JOINT:
        band = f"under {shown(high, decimals)} {quantity.unit}"
    description = f"Expert band {band}. {'; '.join(shares) or 'No night has it'}."
    label = quantity.label or quantity.title
    parts, size = _histograms(columns, low, high)
    svg = document(label, description, parts, size, inline=f"spread-{scale_number}-{key}")
    return Spread(label, band, shares, svg)


def _share_words(name: str, values: Floats, low: float, high: float) -> str:
    """Return the shares of nights inside, below and above the band, as text."""
    places = [place_in(value, low, high) for value in values.tolist()]
    n, counts = len(places), {place: places.count(place) for place in ("inside", "below", "above")}
    words = [f"{100 * count / n:.0f} % {place}" for place, count in counts.items() if count]
    return f"{name} {', '.join(words)}"


def _histograms(
    columns: Mapping[str, Floats], low: float, high: float
) -> tuple[list[str], tuple[float, float]]:
    """Draw a histogram of each scoring above a common axis, over the band."""
    axis = axis_for(columns.values(), BAND_LEFT, BAND_WIDTH - 8, low, high)
    bottom = BAND_TOP + BAND_ROW * max(1, len(columns))
    band = rect(axis.at(low), BAND_TOP, axis.at(high) - axis.at(low), bottom - BAND_TOP, BAND)
    parts = [band, *bottom_axis(axis, bottom, BAND_TOP)]
    for number, (name, values) in enumerate(columns.items(), 1):
        y = BAND_TOP + BAND_ROW * number
        parts += _bars(values, axis, y, SHADES[name])
        parts.append(text_at(0, y - 3, name, font_size=11.5, fill=GREY))
    return parts, (BAND_WIDTH, bottom + 18)


def _bars(values: Floats, axis: ValueAxis, y: float, fill: str) -> Iterator[str]:
    """Draw a histogram; values beyond the axis count in its end bars."""
    counts, _ = np.histogram(np.clip(values, axis.low, axis.high), BINS, (axis.low, axis.high))
    width = (axis.stop - axis.start) / BINS
    heights = (BAND_ROW - 5) * counts / counts.max()
    path = "".join(
        f"M{axis.start + width * place:.1f} {y:.1f}v{-max(height, 1.0):.1f}h{width - 0.4:.1f}V{y:.1f}z"
        for place, height in enumerate(heights.tolist())
        if height
    )
    yield f'<path d="{path}" fill="{fill}"/>'


@dataclass(frozen=True, slots=True)
class AgreementPlot:
    """One scoring against the experts'."""

    scoring: str
    sentence: str
    svg: str


@dataclass(frozen=True, slots=True)
class StatisticAgreement:
    """One statistic against the experts', before and after decoding."""

    label: str
    unit: str
    plots: tuple[AgreementPlot, ...]


def agreement_of_statistics(table: CohortTable) -> list[StatisticAgreement]:
    """Return the sleep statistics compared with the experts'; indicators have their own picture."""
    if "expert" not in table.values:
        return []
    indicators = {JOINT.key, *indicators_of(())}
    statistics = []
    for quantity in (row for row in shown_rows(table) if row.key not in indicators):
        expert = table.of(quantity.key, "expert")
        pairs = {
            scoring: bland_altman(table.of(quantity.key, scoring), expert)
            for scoring in ("before", "after")
            if scoring in table.values
        }
        pairs = {scoring: pair for scoring, pair in pairs.items() if pair.n > 1}
        if pairs:
            plots = tuple(_agreement_plots(quantity, pairs))
            statistics.append(StatisticAgreement(quantity.title, quantity.unit, plots))
    return statistics


def _agreement_plots(quantity: Quantity, pairs: Mapping[str, BlandAltman]) -> Iterator[AgreementPlot]:
    across = axis_for([pair.means for pair in pairs.values()], PLOT_LEFT, PLOT_RIGHT)
    limits = [limit for pair in pairs.values() for limit in (pair.low, pair.high)]
    up = axis_for([pair.differences for pair in pairs.values()], PLOT_BOTTOM, PLOT_TOP, 0.0, *limits)
    for scoring, pair in pairs.items():
        sentence = _agreement_words(quantity, pair)
        parts = [*_plot_axes(across, up), *_points(pair, across, up, SHADES[scoring]), *_limits(pair, up)]
        title = f"{quantity.title}: {scoring} minus expert"
        name = f"agreement-{quantity.key}-{scoring}"
        svg = document(title, sentence, parts, (PLOT_WIDTH, PLOT_HEIGHT), inline=name)
        yield AgreementPlot(scoring, sentence, svg)


def _agreement_words(quantity: Quantity, pair: BlandAltman) -> str:
    """Return the numbers of a plot as text."""
    bias, low, high, bias_low, bias_high = (
        shown(value, max(1, quantity.decimals))
        for value in (pair.bias, pair.low, pair.high, pair.bias_low, pair.bias_high)
    )
    return f"bias {bias} ({bias_low} to {bias_high}), limits {low} to {high}, {count(pair.n, 'night')}"


def _plot_axes(across: ValueAxis, up: ValueAxis) -> Iterator[str]:
    yield from bottom_axis(across, PLOT_BOTTOM, PLOT_TOP)
    values, decimals = up.ticks(5)
    for value in values:
        label = shown(value, decimals)
        yield text_at(PLOT_LEFT - 5, up.at(value) + 4, label, font_size=11, text_anchor="end", fill=GREY)
    yield f'<path d="M{PLOT_LEFT:.1f} {up.at(0):.1f}H{PLOT_RIGHT:.1f}" stroke="{GREY}"/>'


def _limits(pair: BlandAltman, up: ValueAxis) -> Iterator[str]:
    """Draw bias and limits of agreement across the plot."""
    bias = f"M{PLOT_LEFT:.1f} {up.at(pair.bias):.1f}H{PLOT_RIGHT:.1f}"
    yield f'<path d="{bias}" stroke="{INK}" stroke-width="1.6"/>'
    path = "".join(f"M{PLOT_LEFT:.1f} {up.at(limit):.1f}H{PLOT_RIGHT:.1f}" for limit in (pair.low, pair.high))
    yield f'<path d="{path}" stroke="{INK}" stroke-width="1.2" stroke-dasharray="5 4"/>'


def _points(pair: BlandAltman, across: ValueAxis, up: ValueAxis, colour: str) -> Iterator[str]:
    """Draw every night as a dot; for many nights, draw their number in each cell."""
    xs = np.array([across.at(value) for value in pair.means.tolist()])
    ys = np.array([up.at(value) for value in pair.differences.tolist()])
    if pair.n > MOST_POINTS:
        yield from _cells(xs, ys, colour)
        return
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))
    style = 'stroke-width="5" stroke-linecap="round" stroke-opacity="0.7"'
    yield f'<path d="{path}" stroke="{colour}" {style}/>'


def _cells(xs: Floats, ys: Floats, colour: str) -> Iterator[str]:
    area = ((PLOT_LEFT, PLOT_RIGHT), (PLOT_TOP, PLOT_BOTTOM))
    counts, x_edges, y_edges = np.histogram2d(xs, ys, CELLS, area)
    width, height = float(x_edges[1] - x_edges[0]), float(y_edges[1] - y_edges[0])
    # by the logarithm, so that single nights far from the others remain visible
    level = np.ceil(np.log1p(counts) / math.log1p(counts.max()) * len(SHADINGS)).astype(int)
    for number, opacity in enumerate(SHADINGS, 1):
        path = "".join(
            f"M{x_edges[i]:.1f} {y_edges[j]:.1f}h{width:.1f}v{height:.1f}h{-width:.1f}z"
            for i, j in np.argwhere(level == number).tolist()
        )
        if path:
            yield f'<path d="{path}" fill="{colour}" fill-opacity="{opacity:g}"/>'


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


def forests_of(
    table: CohortTable, groups: Mapping[str, str], subjects: Mapping[str, str]
) -> tuple[list[Forest], int]:
    """Return the first pairs of groups, and the number of pairs left out."""
    quantities = shown_rows(table)
    indices = [table.names.index(quantity.key) for quantity in quantities]
    values = {scoring: columns[:, indices] for scoring, columns in table.values.items()}
    table = replace(table, names=tuple(quantity.key for quantity in quantities), values=values)
    by_pair: dict[tuple[str, str], list[GroupDifference]] = {}
    for difference in group_differences(table, groups, subjects=subjects):
        by_pair.setdefault((difference.first, difference.second), []).append(difference)
    forests = [
        _forest(number, table, quantities, differences)
        for number, differences in enumerate(list(by_pair.values())[:MOST_PAIRS])
    ]
    return forests, len(by_pair) - len(forests)


def _forest(
    number: int, table: CohortTable, quantities: Sequence[Quantity], differences: Sequence[GroupDifference]
) -> Forest:
    results = [difference.result for difference in differences]
    ends = [end for result in results for end in (result.d_low, result.d_high) if not isnan(end)]
    reach = min(LARGEST_D, max([0.5, *np.abs(ends).tolist()]))
    axis = ValueAxis(-reach, reach, 8.0, FOREST_WIDTH - 8.0)
    final = next(name for name in (*FINAL, "expert") if name in table.values)
    rows = []
    for quantity in quantities:
        by_scoring = {each.scoring: each for each in differences if each.measure == quantity.key}
        if any(each.result.n_first + each.result.n_second for each in by_scoring.values()):
            label = titled(quantity, quantity.short_heading, table)
            rows.append(
                _forest_row(f"forest-{number}-{quantity.key}", label, quantity, by_scoring, final, axis)
            )
    sizes = max(result.n_first for result in results), max(result.n_second for result in results)
    ticks = [*_forest_ticks(axis)]
    axis_svg = document("Scale of Cohen's d", "", ticks, (FOREST_WIDTH, 18), inline=f"forest-{number}")
    first, second = differences[0].first, differences[0].second
    return Forest(first, second, sizes, final, tuple(table.values), axis_svg, tuple(rows))


def _forest_row(
    name: str,
    label: str,
    quantity: Quantity,
    by_scoring: Mapping[str, GroupDifference],
    final: str,
    axis: ValueAxis,
) -> ForestRow:
    result, decimals = by_scoring[final].result, max(1, quantity.decimals)
    effects = {
        scoring: _interval(each.result.d, each.result.d_low, each.result.d_high, 2)
        for scoring, each in by_scoring.items()
    }
    words = "; ".join(f"{scoring} {effect}" for scoring, effect in effects.items())
    size = (FOREST_WIDTH, LANE * len(by_scoring) + 4)
    lanes = [*_forest_lanes(by_scoring, axis)]
    return ForestRow(
        label,
        (shown(result.mean_first, decimals), shown(result.mean_second, decimals)),
        _interval(result.difference, result.low, result.high, decimals),
        effects[final],
        document(f"{quantity.title}: Cohen's d", words, lanes, size, inline=name),
    )


def _interval(value: float, low: float, high: float, decimals: int) -> str:
    if isnan(value):
        return ABSENT
    ends = "" if isnan(low) else f" [{shown(low, decimals)}, {shown(high, decimals)}]"
    return f"{shown(value, decimals)}{ends}"


def _forest_ticks(axis: ValueAxis) -> Iterator[str]:
    values, decimals = axis.ticks()
    for value in values:
        label = shown(value, decimals)
        yield text_at(axis.at(value), 13, label, font_size=11, text_anchor="middle", fill=GREY)


def _forest_lanes(by_scoring: Mapping[str, GroupDifference], axis: ValueAxis) -> Iterator[str]:
    """Draw one interval per scoring, below each other, with a line at no difference."""
    height = LANE * len(by_scoring) + 4
    yield f'<path d="M{axis.at(0):.1f} 0V{height:.1f}" stroke="{GREY}"/>'
    ticks = "".join(f"M{axis.at(value):.1f} 0v{height:.1f}" for value in axis.ticks()[0] if value)
    yield f'<path d="{ticks}" stroke="{PALE}"/>'
    for number, (scoring, difference) in enumerate(by_scoring.items()):
        result, y, colour = difference.result, LANE * (number + 0.5) + 2, SHADES[scoring]
        if not isnan(result.d_low):
            path = f"M{axis.at(result.d_low):.1f} {y:.1f}H{axis.at(result.d_high):.1f}"
            yield f'<path d="{path}" stroke="{colour}" stroke-width="2"/>'
        if not isnan(result.d):
            dot = 'stroke-width="8" stroke-linecap="round"'
            yield f'<path d="M{axis.at(result.d):.1f} {y:.1f}h0" stroke="{colour}" {dot}/>'
