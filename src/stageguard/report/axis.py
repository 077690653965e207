"""The time axis of a picture: positions of epochs, ticks and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from stageguard.report.svg import GREY, INK, text_at

DAY = 86400
STEPS = (60, 300, 900, 1800, 3600, 7200, 14400, 28800)  # seconds between ticks
UNITS = {"days": DAY, "hours": 3600, "minutes": 60}
MAX_TICKS = 13


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
class Axis:
    """A stretch of a night across the plot."""

    frame: Frame
    first: int
    stop: int
    epoch_seconds: float
    start: datetime | None
    offset_seconds: float = 0.0  # of the night's first epoch in its recording

    def x(self, epoch: float) -> float:
        """Return the horizontal position of an epoch's beginning."""
        return self.frame.left + self.frame.plot * (epoch - self.first) / (self.stop - self.first)

    @property
    def seconds(self) -> float:
        """Length of the stretch."""
        return (self.stop - self.first) * self.epoch_seconds

    @property
    def step(self) -> int:
        """Seconds between two ticks."""
        n_days = max(1, math.ceil(self.seconds / DAY / MAX_TICKS))
        return next((step for step in STEPS if self.seconds / step <= MAX_TICKS), DAY * n_days)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield position and text of each tick; on round clock times if the start is known."""
        begin = self.first * self.epoch_seconds
        clock = begin + self.offset_seconds
        if self.start is not None:
            clock = begin + self.start.hour * 3600 + self.start.minute * 60 + self.start.second
        first = begin + (-clock % self.step)
        for seconds in np.arange(first, begin + self.seconds + 1e-6, self.step).tolist():
            yield self.x(seconds / self.epoch_seconds), self.time_text(seconds)

    def time_text(self, seconds: float) -> str:
        """Return seconds since the night's start as clock time, else as time since the recording's start."""
        if self.start is not None:
            clock = self.start + timedelta(seconds=seconds)
            return f"{clock:%m-%d}" if self.step >= DAY else f"{clock:%H:%M}"
        return f"{(seconds + self.offset_seconds) / UNITS[self.unit]:g}"

    @property
    def unit(self) -> str:
        """Unit of the axis."""
        if self.start is not None:
            return "date" if self.step >= DAY else "clock time"
        return next(unit for unit, seconds in UNITS.items() if 2 * self.step >= seconds)


def draw_axis(axis: Axis, top: float, y: float) -> Iterator[str]:
    """Draw the axis at `y`, with a faint line up to `top` at each tick."""
    left, plot = axis.frame.left, axis.frame.plot
    yield f'<path d="M{left:.1f} {y:.1f}h{plot:.1f}" stroke="{INK}" stroke-width="1"/>'
    for x, text in axis.ticks():
        yield f'<path d="M{x:.1f} {top:.1f}V{y:.1f}" stroke="{INK}" stroke-width="0.6" opacity="0.12"/>'
        yield f'<path d="M{x:.1f} {y:.1f}v5" stroke="{INK}" stroke-width="1"/>'
        yield text_at(x, y + 19, text, font_size=12, text_anchor="middle")
    yield text_at(axis.frame.name_left, y + 19, axis.unit, font_size=12, fill=GREY)
