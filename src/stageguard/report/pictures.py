"""Pictures of numbers: indicators in their expert bands, statistics against experts, groups compared.

Below, inside or above a band is told by position, shape and word.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import NamedTuple

import numpy as np

from stageguard.arrays import Floats
from stageguard.measures.cohort import CohortTable, GroupDifference, group_differences
from stageguard.measures.samples import BlandAltman, Difference, bland_altman
from stageguard.measures.validity import band_at, place_in
from stageguard.night.colours import PAGE
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.quantities import JOINT, Quantity, indicators_of, quantity_of
from stageguard.night.stages import StageScheme
from stageguard.profile.profile import Profile
from stageguard.report.numbers import ABSENT, count, decimals_for, number_text
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

# Of one night

BAND_SIZE = (200.0, 16.0)
BAND_LEFT, BAND_RIGHT, REACH = 64.0, 136.0, 62.0  # edges of every band, and the space on either side
OUTSIDE = ("below", "above")


@dataclass(frozen=True, slots=True)
class BandRow:
    """One indicator before and after; a place is "below", "inside", "above" or ""."""

    name: str
    unit: str
    low: float
    high: float
    before: float
    after: float
    before_place: str
    after_place: str
    expert: float = math.nan
    key: str = ""

    @property
    def has_band(self) -> bool:
        """Whether there is a range of expert scorings."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def decimals(self) -> int:
        """Number of decimals in a table."""
        values = (self.low, self.high) if self.has_band else (self.before, self.after, self.expert)
        return decimals_for(values)


def band_svg(row: BandRow) -> str:
    """Draw an indicator relative to its band: the expert as a cross, before as a ring, after as a diamond.

    All bands are equally wide, and distances outside are squeezed.
    """
    height = BAND_SIZE[1]
    values, y = {"expert": row.expert, "before": row.before, "after": row.after}, height / 2
    at = {name: place_of(x, row.low, row.high) for name, x in values.items() if math.isfinite(x)}
    parts = [rect(BAND_LEFT, 0, BAND_RIGHT - BAND_LEFT, height, BAND)]
    if at.keys() >= {"before", "after"}:
        path = f"M{at['before']:.1f} {y:.1f}H{at['after']:.1f}"
        parts.append(f'<path d="{path}" stroke="{INK}" stroke-width="1.2"/>')
    if (x := at.get("expert")) is not None:
        path = f"M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9"
        parts.append(f'<path d="{path}" stroke="{SHADES["expert"]}" stroke-width="2.2" fill="none"/>')
    if (x := at.get("before")) is not None:
        ring = f'fill="{PAGE["paper"].light}" stroke="{INK}" stroke-width="1.6"'
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {ring}/>')
    if (x := at.get("after")) is not None:
        parts.append(f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" fill="{INK}"/>')
    places = f"stager {row.before_place or 'no value'}, guarded {row.after_place or 'no value'}"
    return document(row.name, places, parts, BAND_SIZE, inline=f"band-{row.key}")


def place_of(value: float, low: float, high: float) -> float:
    """Return the position of a value: to scale inside the band, squeezed outside."""
    width = high - low
    if low <= value <= high:
        share = (value - low) / width if width else 0.5
        return BAND_LEFT + share * (BAND_RIGHT - BAND_LEFT)
    scale = width or abs(high) or 1.0
    beyond = (value - high if value > high else low - value) / scale
    reach = 8 + (REACH - 16) * beyond / (1 + beyond)
    return BAND_RIGHT + reach if value > high else BAND_LEFT - reach


# Of many nights

# Indicators in their bands: histograms above each other
SPREAD_WIDTH, SPREAD_LEFT, SPREAD_TOP, SPREAD_ROW, BINS = 300.0, 56.0, 6.0, 28.0, 44
MOST_SCALES = 4  # profiles and epoch lengths whose bands are drawn

# Forest plots
FOREST_WIDTH, LANE = 240.0, 11.0
LARGEST_D = 3.0  # largest end of the axis; intervals may extend beyond it
MOST_PAIRS = 6  # of groups; `stats --by` lists all

CALLED = {"before": "stager", "after": "guarded", "expert": "expert"}  # scorings, as people see them
FEWEST_FOR_LIMITS = 10  # nights or people below which limits of agreement are not shown


def final_scoring(scorings: Container[str]) -> str:
    """Return the final of some scorings: the decoded one, or the only one."""
    return next((name for name in ("after", "before") if name in scorings), "expert")


@dataclass(frozen=True, slots=True)
class BandScale:
    """The bands and the threshold for nights of one profile and one epoch length."""

    profile: str  # "" if unknown
    sha256: str
    stages: StageScheme
    epoch_seconds: float
    bands: tuple[tuple[str, float, float], ...] = ()  # indicator, low, high
    threshold: float | None = None  # of the joint score

    @classmethod
    def of(cls, profile: Profile | None, night: Hypnogram) -> BandScale:
        """Return the scale of a night."""
        seconds = night.epoch_seconds
        if profile is None:
            return cls("", "", night.scheme, seconds)
        bands = (
            (key, *band_at(quantity, profile, seconds))
            for key, quantity in indicators_of(profile.scheme.names).items()
        )
        with_limits = tuple(band for band in bands if not isnan(band[1]))
        threshold = None if profile.joint is None else profile.joint.threshold
        return cls(profile.name, profile.sha256, night.scheme, seconds, with_limits, threshold)


class Spread(NamedTuple):
    """One indicator of many nights: shares inside and outside the band, and the picture."""

    label: str
    band: str
    shares: tuple[str, ...]  # of each scoring, as text
    svg: str


def spreads_of(tables: Mapping[BandScale, CohortTable]) -> dict[str, list[Spread]]:
    """Return the indicators with a band by heading, for each of the most frequent scales."""
    frequent = sorted(tables.items(), key=lambda item: -len(item[1].night_ids))[:MOST_SCALES]
    found: dict[str, list[Spread]] = {}
    for number, (scale, table) in enumerate(frequent):
        joint = () if scale.threshold is None else ((JOINT.key, 0.0, scale.threshold),)
        heading = (
            f"{scale.profile}, epochs of {scale.epoch_seconds:g} s: {count(len(table.night_ids), 'night')}"
        )
        if bands := (*joint, *scale.bands):
            found[heading] = [_spread(table, number, quantity_of(key), low, high) for key, low, high in bands]
    return found


def _spread(table: CohortTable, scale_number: int, quantity: Quantity, low: float, high: float) -> Spread:
    key, columns, shares = quantity.key, {}, []
    for name in table.values if key in table.names else ():
        values = table.of(key, name)
        if len(known := values[~np.isnan(values)]):
            columns[name] = known
            places: Counter[str] = Counter(place_in(value, low, high) for value in known.tolist())
            words = [f"{100 * places[p] / len(known):.0f} % {p}" for p in ("inside", *OUTSIDE) if places[p]]
            shares.append(f"{CALLED[name]} {', '.join(words)}")
    unit = "" if quantity.unit == "count" else f" {quantity.unit}"
    ends = [number_text(end, quantity.decimals) for end in (low, high)]
    band = f"under {ends[1]}{unit}" if quantity is JOINT else f"{' to '.join(ends)}{unit}"
    description = f"Expert band {band}. {'; '.join(shares) or 'No night has it'}."
    label = quantity.label or quantity.title
    parts, size = _histograms(columns, low, high)
    svg = document(label, description, parts, size, inline=f"spread-{scale_number}-{key}")
    return Spread(label, band, tuple(shares), svg)


def _histograms(
    columns: Mapping[str, Floats], low: float, high: float
) -> tuple[list[str], tuple[float, float]]:
    """Draw a histogram of each scoring above a common axis, over the band; the end bars hold all beyond."""
    axis = axis_for(columns.values(), SPREAD_LEFT, SPREAD_WIDTH - 8, low, high)
    bottom = SPREAD_TOP + SPREAD_ROW * max(1, len(columns))
    band = rect(axis.at(low), SPREAD_TOP, axis.at(high) - axis.at(low), bottom - SPREAD_TOP, BAND)
    parts = [band, *bottom_axis(axis, bottom, SPREAD_TOP)]
    width = (axis.stop - axis.start) / BINS
    for number, (name, values) in enumerate(columns.items(), 1):
        y = SPREAD_TOP + SPREAD_ROW * number
        counts, _ = np.histogram(np.clip(values, axis.low, axis.high), BINS, (axis.low, axis.high))
        heights = np.maximum((SPREAD_ROW - 5) * counts / counts.max(), counts > 0)
        path = "".join(
            f"M{axis.start + width * place:.1f} {y:.1f}v{-height:.1f}h{width - 0.4:.1f}V{y:.1f}z"
            for place, height in enumerate(heights.tolist())
            if height
        )
        parts.append(f'<path d="{path}" fill="{SHADES[name]}"/>')
        parts.append(text_at(0, y - 3, CALLED[name], font_size=11.5, fill=GREY))
    return parts, (SPREAD_WIDTH, bottom + 18)


def agreement_rows(table: CohortTable) -> list[tuple[str, list[str]]]:
    """Return bias, limits and number of nights against the experts, before and after, by statistic.

    Indicators have their own pictures; figures of the agreement are drawn by `stageguard.plot_bland_altman`.
    """
    if "expert" not in table.values:
        return []
    indicators = {JOINT.key, *indicators_of(())}
    rows = []
    for quantity in (row for row in shown_rows(table) if row.key not in indicators):
        expert, cells = table.of(quantity.key, "expert"), []
        for scoring in ("before", "after"):
            if scoring in table.values:
                cells += bias_cells(bland_altman(table.of(quantity.key, scoring), expert), quantity)
        if any(cell != ABSENT for cell in cells[::3]):
            rows.append((titled(quantity, quantity.short_heading, table), cells))
    return rows


def bias_cells(pair: BlandAltman, quantity: Quantity) -> list[str]:
    """Return bias with its 95 % interval, limits of agreement unless too few, and the number of pairs."""
    decimals = max(1, quantity.decimals)
    bias, low, high, bias_low, bias_high = (
        number_text(value, decimals)
        for value in (pair.bias, pair.low, pair.high, pair.bias_low, pair.bias_high)
    )
    if pair.n < 2:
        return [ABSENT, ABSENT, str(pair.n)]
    limits = f"{low} to {high}" if pair.n >= FEWEST_FOR_LIMITS else ABSENT
    return [f"{bias} ({bias_low} to {bias_high})", limits, f"{pair.n:,}"]


class ForestRow(NamedTuple):
    """One measure in two groups."""

    label: str
    means: tuple[str, str]  # of the final scoring
    difference: str
    effect: str
    svg: str


class Forest(NamedTuple):
    """Two groups, compared in every measure."""

    first: str
    second: str
    sizes: tuple[int, int]
    scoring: str  # whose numbers are in the table
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
    ends = [abs(end) for result in results for end in (result.d_low, result.d_high) if not isnan(end)]
    reach = min(LARGEST_D, max([0.5, *ends]))
    axis = ValueAxis(-reach, reach, 8.0, FOREST_WIDTH - 8.0)
    final, rows = final_scoring(table.values), []
    for quantity in quantities:
        by_scoring = {each.scoring: each.result for each in differences if each.measure == quantity.key}
        if not any(each.n_first + each.n_second for each in by_scoring.values()):
            continue
        result, decimals = by_scoring[final], max(1, quantity.decimals)
        effects = {name: _interval(each.d, each.d_low, each.d_high, 2) for name, each in by_scoring.items()}
        words = "; ".join(f"{CALLED[name]} {effect}" for name, effect in effects.items())
        size = (FOREST_WIDTH, LANE * len(by_scoring) + 4)
        lanes, name = [*_forest_lanes(by_scoring, axis)], f"forest-{number}-{quantity.key}"
        row = ForestRow(
            titled(quantity, quantity.short_heading, table),
            (number_text(result.mean_first, decimals), number_text(result.mean_second, decimals)),
            _interval(result.difference, result.low, result.high, decimals),
            effects[final],
            document(f"{quantity.title}: Cohen's d", words, lanes, size, inline=name),
        )
        rows.append(row)
    sizes = max(result.n_first for result in results), max(result.n_second for result in results)
    values, decimals = axis.ticks()
    style = {"font_size": 11, "text_anchor": "middle", "fill": GREY}
    ticks = [text_at(axis.at(value), 13, number_text(value, decimals), **style) for value in values]
    axis_svg = document("Scale of Cohen's d", "", ticks, (FOREST_WIDTH, 18), inline=f"forest-{number}")
    return Forest(differences[0].first, differences[0].second, sizes, CALLED[final], axis_svg, tuple(rows))


def _interval(value: float, low: float, high: float, decimals: int) -> str:
    if isnan(value):
        return ABSENT
    ends = "" if isnan(low) else f" [{number_text(low, decimals)}, {number_text(high, decimals)}]"
    return f"{number_text(value, decimals)}{ends}"


def _forest_lanes(by_scoring: Mapping[str, Difference], axis: ValueAxis) -> Iterator[str]:
    """Draw one interval per scoring, below each other, with a line at no difference."""
    height = LANE * len(by_scoring) + 4
    yield f'<path d="M{axis.at(0):.1f} 0V{height:.1f}" stroke="{GREY}"/>'
    ticks = "".join(f"M{axis.at(value):.1f} 0v{height:.1f}" for value in axis.ticks()[0] if value)
    yield f'<path d="{ticks}" stroke="{PALE}"/>'
    for number, (scoring, result) in enumerate(by_scoring.items()):
        y, colour = LANE * (number + 0.5) + 2, SHADES[scoring]
        if not isnan(result.d_low):
            path = f"M{axis.at(result.d_low):.1f} {y:.1f}H{axis.at(result.d_high):.1f}"
            yield f'<path d="{path}" stroke="{colour}" stroke-width="2"/>'
        if not isnan(result.d):
            dot = 'stroke-width="8" stroke-linecap="round"'
            yield f'<path d="M{axis.at(result.d):.1f} {y:.1f}h0" stroke="{colour}" {dot}/>'
