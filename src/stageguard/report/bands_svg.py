"""Indicators against the experts' bands as one SVG: below, inside or above by place, shape and word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stageguard.report.numbers import decimals_for, shown
from stageguard.report.svg import GREY, INK, PALE, document, rect, shortened, text_at

SHORT_UNITS = {
    "per adjacent scored pair": "per pair of epochs",
    "% of adjacent scored pairs": "% of pairs",
    "% of complete bouts": "% of bouts",
}
WIDTH, ROW, TOP = 980.0, 26.0, 46.0
BAND_LEFT, BAND_RIGHT, REACH = 372.0, 552.0, 104.0  # where every band is drawn, and the room beside it
VALUES = (704.0, 772.0, 868.0)  # right edges of the columns before, after and band
BAND_FILL = "#CFE0D4"
NO_VALUE = "no value"


@dataclass(frozen=True, slots=True)
class BandRow:
    """One indicator to draw; places are below, inside, above or empty."""

    name: str
    unit: str
    low: float
    high: float
    before: float
    after: float
    before_place: str
    after_place: str
    expert: float = math.nan


def bands_svg(rows: Sequence[BandRow], *, expert_name: str | None = None) -> str:
    """Draw one row per indicator: every band the same bar, values where they lie relative to it.

    Parameters
    ----------
    rows : sequence of BandRow
        The indicators that have a band.
    expert_name : str, optional
        What to call the scoring compared with; None when there is none.
    """
    height = TOP + ROW * len(rows) + 40
    parts = [*_columns(height - 40), *_headings(expert_name)]
    for number, row in enumerate(rows):
        parts += _row(row, TOP + ROW * (number + 0.5))
    parts += _legend(height - 12, expert_name)
    return document(
        "Validity indicators against the bands of expert scorings",
        _description(rows),
        parts,
        (WIDTH, height),
        inline="bands",
    )


def place_of(value: float, low: float, high: float) -> float:
    """Return where a value is drawn: within the band to scale, outside it ever more squeezed."""
    width = high - low
    if low <= value <= high:
        share = (value - low) / width if width else 0.5
        return BAND_LEFT + share * (BAND_RIGHT - BAND_LEFT)
    scale = width or abs(high) or 1.0
    beyond = (value - high if value > high else low - value) / scale
    reach = 8 + (REACH - 16) * beyond / (1 + beyond)
    return BAND_RIGHT + reach if value > high else BAND_LEFT - reach


def _columns(bottom: float) -> Iterator[str]:
    """Draw the three zones as one pale field with the band in the middle."""
    yield rect(BAND_LEFT, TOP - 4, BAND_RIGHT - BAND_LEFT, bottom - TOP + 4, "#F1F6F2")
    for x in (BAND_LEFT, BAND_RIGHT):
        yield f'<path d="M{x:.1f} {TOP - 4:.1f}V{bottom:.1f}" stroke="{GREY}" stroke-width="0.8"/>'


def _headings(expert_name: str | None) -> Iterator[str]:
    style = {"font_size": 12, "font_weight": 600}
    yield text_at(BAND_LEFT - 8, 20, "◂ below", text_anchor="end", **style)
    yield text_at((BAND_LEFT + BAND_RIGHT) / 2, 20, "inside the expert band", text_anchor="middle", **style)
    yield text_at(BAND_RIGHT + 8, 20, "above ▸", **style)
    titles = ("before", "after", "band")
    for x, title in zip(VALUES, titles, strict=True):
        yield text_at(x, 20, title, text_anchor="end", **style)
    yield text_at(WIDTH, 20, "before → after", text_anchor="end", **style)
    yield text_at(BAND_LEFT, 36, "low", font_size=10.5, fill=GREY, text_anchor="middle")
    yield text_at(BAND_RIGHT, 36, "high", font_size=10.5, fill=GREY, text_anchor="middle")


def _row(row: BandRow, y: float) -> Iterator[str]:
    yield f'<path d="M0 {y + ROW / 2:.1f}H{WIDTH:.0f}" stroke="{PALE}" stroke-width="1"/>'
    yield text_at(0, y + 4, shortened(row.name, 28), font_size=12.5)
    unit = shortened(SHORT_UNITS.get(row.unit, row.unit), 18)
    yield text_at(BAND_LEFT - REACH - 4, y + 4, unit, font_size=10.5, fill=GREY, text_anchor="end")
    yield rect(BAND_LEFT, y - 6, BAND_RIGHT - BAND_LEFT, 12, BAND_FILL)
    yield from _marks(row, y)
    decimals = decimals_for((row.low, row.high, row.before, row.after))
    values = (shown(row.before, decimals), shown(row.after, decimals))
    band = f"{shown(row.low, decimals)} to {shown(row.high, decimals)}"
    for x, text, place in zip(VALUES, (*values, band), (row.before_place, row.after_place, ""), strict=True):
        weight = {"font_weight": 600} if place in ("below", "above") else {}
        yield text_at(x, y + 4, text, font_size=12, text_anchor="end", **weight)
    style = {"font_weight": "600"} if row.after_place in ("below", "above") else {"fill": GREY}
    yield text_at(WIDTH, y + 4, _verdict(row), font_size=11.5, text_anchor="end", **style)


def _verdict(row: BandRow) -> str:
    before, after = row.before_place or NO_VALUE, row.after_place or NO_VALUE
    return before if before == after else f"{before} → {after}"


def _marks(row: BandRow, y: float) -> Iterator[str]:
    """Draw the expert as a cross, before as a ring, after as a diamond, joined by a line."""
    if math.isfinite(row.before) and math.isfinite(row.after):
        here, there = place_of(row.before, row.low, row.high), place_of(row.after, row.low, row.high)
        yield f'<path d="M{here:.1f} {y:.1f}H{there:.1f}" stroke="{INK}" stroke-width="1.2"/>'
    if math.isfinite(row.expert):
        yield expert_mark(place_of(row.expert, row.low, row.high), y)
    if math.isfinite(row.before):
        yield before_mark(place_of(row.before, row.low, row.high), y)
    if math.isfinite(row.after):
        yield after_mark(place_of(row.after, row.low, row.high), y)


def before_mark(x: float, y: float) -> str:
    """Return a ring."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="#FFFFFF" stroke="{INK}" stroke-width="1.6"/>'


def after_mark(x: float, y: float) -> str:
    """Return a filled diamond."""
    return f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" fill="{INK}"/>'


def expert_mark(x: float, y: float) -> str:
    """Return a cross."""
    path = f"M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9"
    return f'<path d="{path}" stroke="#BB5566" stroke-width="2.2" fill="none"/>'


def _legend(y: float, expert_name: str | None) -> Iterator[str]:
    style = {"font_size": 12}
    yield before_mark(7, y - 4)
    yield text_at(18, y, "before: the stager's own", **style)
    yield after_mark(178, y - 4)
    yield text_at(190, y, "after: decoded", **style)
    if expert_name is not None:
        yield expert_mark(300, y - 4)
        yield text_at(312, y, expert_name, **style)
    note = "Every band is drawn equally wide; distances outside it are squeezed."
    yield text_at(WIDTH, y, note, text_anchor="end", font_size=11, fill=GREY)


def _description(rows: Sequence[BandRow]) -> str:
    return " ".join(
        f"{row.name}: before {row.before_place or NO_VALUE}, after {row.after_place or NO_VALUE}."
        for row in rows
    )
