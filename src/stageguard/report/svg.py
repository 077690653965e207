"""Pieces of SVG: safe text, rectangles, runs, the axis of a time and of a number, and the document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Indices
from stageguard.night.colours import PAGE, STAGES, stage_shade
from stageguard.night.hypnogram import later
from stageguard.night.stages import StageScheme
from stageguard.report.numbers import duration, number_text

INK, GREY, PALE, GAP, PANEL, BAND = (
    PAGE[name].light for name in ("ink", "grey", "line", "gap", "panel", "band")
)
FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def printable(text: str) -> str:
    """Replace characters that a document cannot contain or show: control, surrogate, direction-changing."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def safe(text: str) -> str:
    """Escape markup, and replace control characters, which XML does not allow."""
    return escape(printable(text), quote=True)


def shorten(text: str, length: int) -> str:
    """Cut a text to a length."""
    return text if len(text) <= length else text[: length - 1] + "…"


def text_at(x: float, y: float, text: str, **style: Any) -> str:
    """Return a text element; ``style`` has SVG attributes, with _ for -."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{_attributes(style)}>{safe(text)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, **style: Any) -> str:
    """Return a filled rectangle."""
    size = f'width="{width:.2f}" height="{height:.1f}"'
    return f'<rect x="{x:.2f}" y="{y:.1f}" {size} fill="{fill}"{_attributes(style)}/>'


def _attributes(style: Mapping[str, Any]) -> str:
    return "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())


def runs(values: npt.NDArray[Any]) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of each run of equal values."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    for start, end in pairwise([0, *edges.tolist(), len(values)]):
        yield start, end, values[start]


def document(
    title: str,
    description: str,
    parts: Sequence[str],
    size: tuple[float, float],
    *,
    inline: str | None = None,
) -> str:
    """Return an SVG document of escaped parts; title and description are for screen readers.

    `inline` is the prefix of ids in a picture that scales with an HTML page; None makes a file.
    """
    width, height = (f"{length:.0f}" for length in size)
    if inline is None:
        opening = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ids = ("", "")
    else:
        # a stage in the name may hold quotes or spaces
        name = "".join(c if c.isalnum() or c in "-_" else f".{ord(c):x}" for c in inline)
        opening = f'width="100%" aria-labelledby="{name}-title {name}-desc"'
        ids = (f' id="{name}-title"', f' id="{name}-desc"')
    return (
        f'<svg {opening} viewBox="0 0 {width} {height}" role="img" font-family="{FONT}" fill="{INK}">\n'
        f"<title{ids[0]}>{safe(title)}</title>\n<desc{ids[1]}>{safe(description)}</desc>\n"
        + ('<rect width="100%" height="100%" fill="#FFFFFF"/>\n' if inline is None else "")
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def colour_of(scheme: StageScheme, stage: int) -> str:
    """Return the colour of a stage on white; pages replace it on dark screens."""
    return stage_shade(scheme, stage).light


DAY = 86400
STEPS = (60, 300, 900, 1800, 3600, 7200, 14400, 28800)  # seconds between ticks
UNITS = {"days": DAY, "hours": 3600, "minutes": 60}
MAX_TICKS = 13
MOST_BINS = 320
BIN_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, DAY)
MOST_EPOCHS_DRAWN = 2_000  # one by one: 16 h of 30 s, 2 h of 4 s; longer recordings are drawn in bins


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Stretches of a recording of equal length, except the last."""

    edges: Indices  # (n_bins + 1,), in epochs

    @classmethod
    def of(cls, n_epochs: int, width: int) -> Bins:
        """Return bins of so many epochs."""
        return cls(np.append(np.arange(0, n_epochs, width), n_epochs))

    @property
    def width(self) -> int:
        """Epochs in a bin."""
        return int(self.edges[1])

    def sums(self, values: npt.NDArray[Any]) -> Floats:
        """Return the sum of the epochs of each bin."""
        sums: Floats = np.add.reduceat(values, self.edges[:-1], axis=0, dtype=np.float64)
        return sums

    def means(self, values: npt.NDArray[Any]) -> Floats:
        """Return the mean of the epochs of each bin."""
        means: Floats = self.sums(values) / np.diff(self.edges).reshape(-1, *[1] * (values.ndim - 1))
        return means

    def counts(self, epochs: Floats) -> Floats:
        """Return the number of moments in each bin."""
        return np.histogram(epochs, self.edges)[0].astype(np.float64)


@dataclass(frozen=True, slots=True)
class Frame:
    """The area a night is drawn on: width, left and right margins of the plot, and the left edge of names."""

    width: float
    left: float
    right: float
    name_left: float = 0.0

    @property
    def plot(self) -> float:
        """Width of the plot itself."""
        return self.width - self.left - self.right


@dataclass(frozen=True, slots=True)
class EpochAxis:
    """The time of a night across the plot."""

    frame: Frame
    n_epochs: int
    epoch_seconds: float
    start: datetime | None
    offset_seconds: float = 0.0  # of the night's first epoch in its recording
    most_epochs: int = MOST_EPOCHS_DRAWN

    def x(self, epoch: float) -> float:
        """Return the horizontal position of an epoch's beginning."""
        return self.frame.left + self.frame.plot * epoch / self.n_epochs

    @property
    def seconds(self) -> float:
        """Length of the night."""
        return self.n_epochs * self.epoch_seconds

    @property
    def bins(self) -> Bins | None:
        """Bins of a round length for a night that is too long to draw epoch by epoch, else None."""
        if self.n_epochs <= self.most_epochs:
            return None
        lengths = (*BIN_SECONDS, *range(DAY, DAY * (2 + int(self.seconds / DAY / MOST_BINS)), DAY))
        seconds = next(each for each in lengths if self.seconds / each <= MOST_BINS)
        return Bins.of(self.n_epochs, max(1, round(seconds / self.epoch_seconds)))

    @property
    def bin_words(self) -> str:
        """Length of a bin."""
        return "" if self.bins is None else duration(self.bins.width * self.epoch_seconds)

    @property
    def step(self) -> int:
        """Seconds between two ticks."""
        n_days = max(1, math.ceil(self.seconds / DAY / MAX_TICKS))
        return next((step for step in STEPS if self.seconds / step <= MAX_TICKS), DAY * n_days)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield position and text of each tick; on round clock times if the start is known."""
        clock = self.offset_seconds
        if self.start is not None:
            clock = self.start.hour * 3600 + self.start.minute * 60 + self.start.second
        for seconds in np.arange(-clock % self.step, self.seconds + 1e-6, self.step).tolist():
            yield self.x(seconds / self.epoch_seconds), self.time_text(seconds)

    def time_text(self, seconds: float) -> str:
        """Return seconds since the night's start as clock time, else as time since the recording's start."""
        if self.start is not None:
            clock = later(self.start, seconds)
            return f"{clock:%m-%d}" if self.step >= DAY else f"{clock:%H:%M}"
        return f"{(seconds + self.offset_seconds) / UNITS[self.unit]:g}"

    @property
    def unit(self) -> str:
        """Unit of the axis."""
        if self.start is not None:
            return "date" if self.step >= DAY else "clock time"
        return next(unit for unit, seconds in UNITS.items() if 2 * self.step >= seconds)


def draw_axis(axis: EpochAxis, top: float, y: float) -> Iterator[str]:
    """Draw the axis at `y`, with a faint line up to `top` at each tick."""
    left, plot = axis.frame.left, axis.frame.plot
    yield f'<path d="M{left:.1f} {y:.1f}h{plot:.1f}" stroke="{INK}" stroke-width="1"/>'
    for x, text in axis.ticks():
        yield f'<path d="M{x:.1f} {top:.1f}V{y:.1f}" stroke="{INK}" stroke-width="0.6" opacity="0.12"/>'
        yield f'<path d="M{x:.1f} {y:.1f}v5" stroke="{INK}" stroke-width="1"/>'
        yield text_at(x, y + 19, text, font_size=12, text_anchor="middle")
    yield text_at(axis.frame.name_left, y + 19, axis.unit, font_size=12, fill=GREY)


# Colours of before, after and the expert; pages replace them by dark shades on dark screens.
SHADES = {"before": PAGE["riser"].light, "after": PAGE["accent"].light, "expert": STAGES["R"].light}
ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)  # distances of ticks, times a power of ten
TAILS = (0.5, 99.5)  # an axis for many values ends at these percentiles
FEW = 200  # an axis for up to this many values shows all of them


@dataclass(frozen=True, slots=True)
class ValueAxis:
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


def axis_for(values: Iterable[Floats], start: float, stop: float, *more: float) -> ValueAxis:
    """Return an axis that shows nearly all of ``values``, and all of ``more``."""
    pooled = np.concatenate([np.empty(0), *(np.asarray(each, dtype=np.float64) for each in values)])
    pooled = pooled[np.isfinite(pooled)]
    ends = [each for each in more if math.isfinite(each)]
    if len(pooled):
        ends += np.percentile(pooled, (0, 100) if len(pooled) <= FEW else TAILS).tolist()
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    margin = 0.04 * (high - low) or max(abs(low), 1.0) * 0.1
    return ValueAxis(0.0 if 0 <= low < margin else low - margin, high + margin, start, stop)


def bottom_axis(axis: ValueAxis, y: float, top: float) -> Iterator[str]:
    """Draw an axis with ticks below a picture, and faint lines up to its top."""
    values, decimals = axis.ticks()
    lines = "".join(f"M{axis.at(value):.1f} {top:.1f}V{y:.1f}" for value in values)
    yield f'<path d="{lines}" stroke="{PALE}"/>'
    yield f'<path d="M{axis.start:.1f} {y:.1f}H{axis.stop:.1f}" stroke="{GREY}"/>'
    for value in values:
        label = number_text(value, decimals)
        yield text_at(axis.at(value), y + 13, label, font_size=11, text_anchor="middle", fill=GREY)
