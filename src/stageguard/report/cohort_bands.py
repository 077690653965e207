"""The indicators of many nights in their expert bands: a small picture for each indicator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.measures.cohort import CohortTable
from stageguard.measures.validity import place_in
from stageguard.night.quantities import JOINT, Quantity, quantity_of
from stageguard.report.cohort_rows import CohortRow, Scale, table_of
from stageguard.report.cohort_svg import BAND, GREY, SHADES, Axis, axis_for, bottom_axis, picture
from stageguard.report.numbers import count, shown
from stageguard.report.svg import rect, text_at

WIDTH, LEFT, TOP, ROW, BINS = 300.0, 50.0, 6.0, 28.0, 44
MOST_SCALES = 4  # profiles and epoch lengths whose bands are drawn


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
    by_scale: dict[Scale, list[CohortRow]] = {}
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


def _spread(table: CohortTable, number: int, quantity: Quantity, low: float, high: float) -> Spread:
    key = quantity.key
    columns = {name: table.of(key, name) for name in table.values} if key in table.names else {}
    known = {name: values[~np.isnan(values)] for name, values in columns.items()}
    known = {name: values for name, values in known.items() if len(values)}
    shares = tuple(_share_words(name, values, low, high) for name, values in known.items())
    decimals = quantity.decimals
    unit = "" if quantity.unit == "count" else f" {quantity.unit}"
    band = f"{shown(low, decimals)} to {shown(high, decimals)}{unit}"
    if quantity is JOINT:
        band = f"under {shown(high, decimals)} {quantity.unit}"
    name = f"spread-{number}-{key}"
    description = f"Expert band {band}. {'; '.join(shares) or 'No night has it'}."
    label = quantity.label or quantity.title
    svg = picture(name, label, description, *_drawn(known, low, high))
    return Spread(label, band, shares, svg)


def _share_words(name: str, values: Floats, low: float, high: float) -> str:
    """Return the shares of nights inside, below and above the band, as text."""
    places = [place_in(value, low, high) for value in values.tolist()]
    n, counts = len(places), {place: places.count(place) for place in ("inside", "below", "above")}
    words = [f"{100 * count / n:.0f} % {place}" for place, count in counts.items() if count]
    return f"{name} {', '.join(words)}"


def _drawn(known: Mapping[str, Floats], low: float, high: float) -> tuple[list[str], tuple[float, float]]:
    """Draw a histogram of each scoring above a common axis, over the band."""
    axis = axis_for(known.values(), LEFT, WIDTH - 8, low, high)
    bottom = TOP + ROW * max(1, len(known))
    band = rect(axis.at(low), TOP, axis.at(high) - axis.at(low), bottom - TOP, BAND)
    parts = [band, *bottom_axis(axis, bottom, TOP)]
    for number, (name, values) in enumerate(known.items(), 1):
        y = TOP + ROW * number
        parts += _bars(values, axis, y, SHADES[name])
        parts.append(text_at(0, y - 3, name, font_size=11.5, fill=GREY))
    return parts, (WIDTH, bottom + 18)


def _bars(values: Floats, axis: Axis, y: float, fill: str) -> Iterator[str]:
    """Draw a histogram; values beyond the axis count in its end bars."""
    counts, _ = np.histogram(np.clip(values, axis.low, axis.high), BINS, (axis.low, axis.high))
    width = (axis.stop - axis.start) / BINS
    heights = (ROW - 5) * counts / counts.max()
    path = "".join(
        f"M{axis.start + width * place:.1f} {y:.1f}v{-max(height, 1.0):.1f}h{width - 0.4:.1f}V{y:.1f}z"
        for place, height in enumerate(heights.tolist())
        if height
    )
    yield f'<path d="{path}" fill="{fill}"/>'
