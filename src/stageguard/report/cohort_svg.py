"""Shared by the pictures of a cohort: a linear axis with round ticks, and a colour per scoring."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.colours import PAGE, STAGES
from stageguard.report.numbers import shown
from stageguard.report.svg import document, text_at

INK, GREY, LINE, BAND = (PAGE[name].light for name in ("ink", "grey", "line", "band"))
# Colours of before, after and the expert; pages replace them by dark shades on dark screens.
SHADES = {"before": PAGE["riser"].light, "after": PAGE["accent"].light, "expert": STAGES["R"].light}
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)  # distances of ticks, times a power of ten
TAILS = (0.5, 99.5)  # an axis for many values ends at these percentiles
FEW = 200  # an axis for up to this many values shows all of them


@dataclass(frozen=True, slots=True)
class Axis:
    """Numbers from `low` to `high`, drawn from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """Return the position of a number; numbers beyond an end are at the end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, most: int = 4) -> tuple[list[float], int]:
        """Return round numbers on the axis, and the decimals they need."""
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in ROUND if power * factor >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        decimals += round(step * 10**decimals, 9) % 1 != 0
        return [number * step for number in range(first, last + 1)], decimals

    def holds(self, values: Floats) -> Floats:
        """Return the values that are on the axis."""
        return values[(values >= self.low) & (values <= self.high)]


def axis_for(values: Iterable[Floats], start: float, stop: float, *more: float) -> Axis:
    """Return an axis that shows nearly all of ``values``, and all of ``more``."""
    pooled = np.concatenate([np.empty(0), *(np.asarray(each, dtype=np.float64) for each in values)])
    pooled = pooled[np.isfinite(pooled)]
    ends = [each for each in more if math.isfinite(each)]
    if len(pooled):
        ends += np.percentile(pooled, (0, 100) if len(pooled) <= FEW else TAILS).tolist()
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    margin = 0.04 * (high - low) or max(abs(low), 1.0) * 0.1
    return Axis(0.0 if 0 <= low < margin else low - margin, high + margin, start, stop)


def bottom_axis(axis: Axis, y: float, top: float) -> Iterator[str]:
    """Draw an axis with ticks below a picture, and faint lines up to its top."""
    values, decimals = axis.ticks()
    lines = "".join(f"M{axis.at(value):.1f} {top:.1f}V{y:.1f}" for value in values)
    yield f'<path d="{lines}" stroke="{LINE}"/>'
    yield f'<path d="M{axis.start:.1f} {y:.1f}H{axis.stop:.1f}" stroke="{GREY}"/>'
    for value in values:
        label = shown(value, decimals)
        yield text_at(axis.at(value), y + 13, label, font_size=11, text_anchor="middle", fill=GREY)


def picture(name: str, title: str, description: str, parts: list[str], size: tuple[float, float]) -> str:
    """Return a picture that scales with the page; `name` must be unique on the page."""
    return document(title, description, parts, size, inline=name)
