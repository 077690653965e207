"""Indicators against the experts' bands as SVG: below, inside or above, by position, shape and word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stageguard.night.colours import PAGE, STAGES
from stageguard.report.numbers import decimals_for, shown
from stageguard.report.svg import GREY, INK, PALE, document, rect, shortened, text_at

SHORT_UNITS = {
    "per adjacent scored pair": "per pair of epochs",
    "% of adjacent scored pairs": "% of pairs",
    "% of complete bouts": "% of bouts",
}
WIDTH, ROW, TOP = 980.0, 26.0, 46.0
BAND_LEFT, BAND_RIGHT, REACH = 372.0, 552.0, 104.0  # edges of every band, and the space on either side
VALUES = (704.0, 772.0, 868.0)  # right edges of the columns before, after and band
BAND_FILL, WASH, PAPER = (PAGE[name].light for name in ("band", "wash", "paper"))
EXPERT = STAGES["R"].light
NO_VALUE = "no value"
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
    is_verdict: bool = False  # True for the joint score

    @property
    def has_band(self) -> bool:
        """Whether there is a range of expert scorings."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def decimals(self) -> int:
        """Number of decimals in a table."""
        values = (self.low, self.high) if self.has_band else (self.before, self.after, self.expert)
        return decimals_for(values)


def bands_svg(rows: Sequence[BandRow], *, expert_name: str | None = None) -> str:
    """Draw one row per indicator with a band; all bands are equally wide, and values relative to them."""
    height = TOP + ROW * len(rows) + 40
    bottom = height - 40
    edges = f"M{BAND_LEFT:.1f} {TOP - 4:.1f}V{bottom:.1f}", f"M{BAND_RIGHT:.1f} {TOP - 4:.1f}V{bottom:.1f}"
    parts = [
        rect(BAND_LEFT, TOP - 4, BAND_RIGHT - BAND_LEFT, bottom - TOP + 4, WASH),
        *(f'<path d="{edge}" stroke="{GREY}" stroke-width="0.8"/>' for edge in edges),
        *_headings(),
    ]
    for number, row in enumerate(rows):
        parts += _row(row, TOP + ROW * (number + 0.5))
    parts += _legend(height - 12, expert_name)
    title = "Validity indicators against the bands of expert scorings"
    description = " ".join(
        f"{row.name}: before {row.before_place or NO_VALUE}, after {row.after_place or NO_VALUE}."
        for row in rows
    )
    return document(title, description, parts, (WIDTH, height), inline="bands")


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


def _headings() -> Iterator[str]:
    style = {"font_size": 12, "font_weight": 600}
    yield text_at(BAND_LEFT - 8, 20, "◂ below", text_anchor="end", **style)
    yield text_at((BAND_LEFT + BAND_RIGHT) / 2, 20, "inside the expert band", text_anchor="middle", **style)
    yield text_at(BAND_RIGHT + 8, 20, "above ▸", **style)
    for x, title in zip(VALUES, ("before", "after", "band"), strict=True):
        yield text_at(x, 20, title, text_anchor="end", **style)
    yield text_at(WIDTH, 20, "before → after", text_anchor="end", **style)
    yield text_at(BAND_LEFT, 36, "low", font_size=10.5, fill=GREY, text_anchor="middle")
    yield text_at(BAND_RIGHT, 36, "high", font_size=10.5, fill=GREY, text_anchor="middle")


def _row(row: BandRow, y: float) -> Iterator[str]:
    line = INK if row.is_verdict else PALE
    yield f'<path d="M0 {y + ROW / 2:.1f}H{WIDTH:.0f}" stroke="{line}" stroke-width="1"/>'
    bold = {"font_weight": 600} if row.is_verdict else {}
    yield text_at(0, y + 4, shortened(row.name, 28), font_size=12.5, **bold)
    unit = shortened(SHORT_UNITS.get(row.unit, row.unit), 18)
    yield text_at(BAND_LEFT - REACH - 4, y + 4, unit, font_size=10.5, fill=GREY, text_anchor="end")
    yield rect(BAND_LEFT, y - 6, BAND_RIGHT - BAND_LEFT, 12, BAND_FILL)
    yield from _marks(row, y)
    decimals = decimals_for((row.low, row.high, row.before, row.after))
    before, after, low, high = (shown(x, decimals) for x in (row.before, row.after, row.low, row.high))
    cells = ((before, row.before_place), (after, row.after_place), (f"{low} to {high}", ""))
    for x, (text, place) in zip(VALUES, cells, strict=True):
        weight = {"font_weight": 600} if place in OUTSIDE else {}
        yield text_at(x, y + 4, text, font_size=12, text_anchor="end", **weight)
    style = {"font_weight": "600"} if row.after_place in OUTSIDE else {"fill": GREY}
    places = dict.fromkeys((row.before_place or NO_VALUE, row.after_place or NO_VALUE))
    yield text_at(WIDTH, y + 4, " → ".join(places), font_size=11.5, text_anchor="end", **style)


def _marks(row: BandRow, y: float) -> Iterator[str]:
    """Draw the expert as a cross, before as a ring, after as a diamond, joined by a line."""
    values = {"expert": row.expert, "before": row.before, "after": row.after}
    drawn = {name: place_of(x, row.low, row.high) for name, x in values.items() if math.isfinite(x)}
    if drawn.keys() >= {"before", "after"}:
        path = f"M{drawn['before']:.1f} {y:.1f}H{drawn['after']:.1f}"
        yield f'<path d="{path}" stroke="{INK}" stroke-width="1.2"/>'
    for name, x in drawn.items():
        yield _mark(name, x, y)


def _mark(name: str, x: float, y: float) -> str:
    if name == "before":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{PAPER}" stroke="{INK}" stroke-width="1.6"/>'
    if name == "after":
        return f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" fill="{INK}"/>'
    path = f"M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9"
    return f'<path d="{path}" stroke="{EXPERT}" stroke-width="2.2" fill="none"/>'


def _legend(y: float, expert_name: str | None) -> Iterator[str]:
    entries = [("before", 7, 18, "before: the stager's own"), ("after", 178, 190, "after: decoded")]
    if expert_name is not None:
        entries.append(("expert", 300, 312, expert_name))
    for name, x, text_x, text in entries:
        yield _mark(name, x, y - 4)
        yield text_at(text_x, y, text, font_size=12)
    note = "Every band is drawn equally wide; distances outside it are squeezed."
    yield text_at(WIDTH, y, note, text_anchor="end", font_size=11, fill=GREY)
