"""Shared by all figures: axes, the time axis, and epochs gathered into columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.lazy import library
from stageguard.night.colours import PAGE
from stageguard.night.timing import Night, seconds_between
from stageguard.report.svg import Bins

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any  # matplotlib is an extra, and loaded when a figure is drawn

INCHES = 1 / 25.4  # per millimetre
FULL_WIDTH = 180 * INCHES  # two columns of a paper
COLUMN_WIDTH = 89 * INCHES
INK, GREY, GAP, LINE = (PAGE[name].light for name in ("ink", "grey", "gap", "line"))
TICK_WIDTH = 0.055  # inches of a clock time and its margin, per point of the font size
MOST_EPOCHS, MOST_COLUMNS = 3_000, 600  # more epochs than this are gathered into columns
DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 86400.0, 3600.0, 60.0


def axes_for(ax: Axes | None, width: float, height: float) -> Axes:
    """Return ``ax``, or the axes of a new pyplot figure of this size in inches."""
    axes = library("matplotlib.axes", "a plot", "plots")
    if ax is None:
        pyplot = library("matplotlib.pyplot", "a plot", "plots")
        ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    elif not isinstance(ax, axes.Axes):
        raise InputError(f"ax is {checks.shown(ax)}, expected one Axes of matplotlib.")
    return ax


def tidy(ax: Axes) -> Axes:
    """Remove the frame at the top and on the right of axes, and return them."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def steps(ax: Axes, values: Floats, edges: Floats, **style: Any) -> Any:
    """Draw values that hold from edge to edge, with gaps at NaN; return the patch, as `Axes.stairs` does.

    The limits of the axes are not updated, because matplotlib takes seconds to do so for so many corners.
    """
    patches = library("matplotlib.patches", "a plot", "plots")
    return ax.add_artist(patches.StepPatch(values, edges, **{"fill": False} | style))


def names_for(names: object, own: Sequence[str], what: str) -> list[str]:
    """Return ``names`` after checking their number, or the default names ``own``."""
    if names is None:
        return list(own)
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != len(own):
        raise InputError(
            f"names are {checks.shown(names)}, expected a list of {len(own)}, one for each {what}."
        )
    return [checks.text(name, "a name") for name in names]


def columns_of(n_epochs: int) -> Bins:
    """Return one column per epoch, or for too many epochs at most `MOST_COLUMNS`."""
    return Bins.of(n_epochs, 1 if n_epochs <= MOST_EPOCHS else -(-n_epochs // MOST_COLUMNS))


class TimeAxis:
    """The time of several scorings of one recording, by the clock if one of them has a start.

    A scoring without a start is placed by its offset relative to the first scoring that has one.
    """

    def __init__(self, nights: Sequence[Night]) -> None:
        known = next((night for night in nights if night.start is not None), None)
        zone = next((night.start.tzinfo for night in nights if night.start and night.start.tzinfo), None)
        self.start = None if known is None else _zoned(known.start, zone)
        before = 0.0 if known is None else known.offset_seconds
        began = [
            night.offset_seconds - before if self.start is None or night.start is None
            else seconds_between(self.start, _zoned(night.start, zone))
            for night in nights
        ]  # fmt: skip
        self.began = tuple(began)  # seconds since `start`, or since the beginning of the recording
        ended = [begin + n.n_epochs * n.epoch_seconds for begin, n in zip(began, nights, strict=True)]
        for number, (begin, end) in enumerate(zip(began, ended, strict=True), start=1):
            if begin >= ended[0] or end <= began[0]:
                hours = " to ".join(f"{(each - began[0]) / HOUR_SECONDS:.2f} h" for each in (begin, end))
                raise InputError(f"scoring {number} lasts from {hours} of the first, expected an overlap.")
        self.first, self.last = min(began), max(ended)
        self.seconds = self.last - self.first

    def at(self, seconds: Any) -> Any:
        """Return the positions on the axis of seconds since `start`, or since the recording's beginning."""
        if self.start is not None:
            dates = library("matplotlib.dates", "a plot", "plots")
            return dates.date2num(self.start.replace(tzinfo=None)) + np.asarray(seconds) / DAY_SECONDS
        return np.asarray(seconds) / self.unit

    @property
    def unit(self) -> float:
        """Seconds in the unit of an axis without a clock."""
        return HOUR_SECONDS if self.seconds >= HOUR_SECONDS else MINUTE_SECONDS

    def edges(self, number: int, night: Night, columns: Bins) -> Floats:
        """Return the edges of a night's columns on the axis: every start, and the end of the last."""
        edges: Floats = self.at(self.began[number] + columns.edges * night.epoch_seconds)
        return edges

    def draw(self, ax: Axes, column_seconds: float = 0.0) -> None:
        """Set limits, ticks and label of the axis; the label states the length of columns, if any."""
        ax.set_xlim(float(self.at(self.first)), float(self.at(self.last)))
        if self.start is not None:
            dates = library("matplotlib.dates", "a plot", "plots")
            width = ax.get_window_extent().width / ax.figure.dpi
            n_ticks = int(min(max(width / TICK_WIDTH / float(ax.xaxis.label.get_fontsize()), 3), 9))
            locator = dates.AutoDateLocator(tz=UTC, minticks=2, maxticks=n_ticks)
            ax.xaxis.axis_date(UTC)
            ax.xaxis.set_major_locator(locator)
            form = "%H:%M" if self.seconds > 15 * MINUTE_SECONDS else "%H:%M:%S"
            if self.seconds > 2 * DAY_SECONDS:
                form = "%d %b\n%H:%M" if self.seconds < 14 * DAY_SECONDS else "%d %b"
            ax.xaxis.set_major_formatter(dates.DateFormatter(form, tz=UTC))
        label = "Clock time" if self.start is not None else "Hours" if self.unit > 60 else "Minutes"
        if column_seconds:
            label += f" (columns of {_length(column_seconds)})"
        ax.set_xlabel(label)


def _zoned(start: datetime | None, zone: tzinfo | None) -> datetime:
    """Return a start, in the zone of another scoring if it has none."""
    assert start is not None
    return start if start.tzinfo is not None else start.replace(tzinfo=zone)


def _length(seconds: float) -> str:
    """Return a duration as text in one unit."""
    if seconds < 2 * MINUTE_SECONDS:
        return f"{seconds:g} s"
    return f"{seconds / 60:.3g} min" if seconds < 2 * HOUR_SECONDS else f"{seconds / 3600:.3g} h"
