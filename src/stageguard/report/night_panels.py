"""One stretch of a night as SVG elements: hypnograms, changes, rare events, probabilities, the time below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Labels, Mask
from stageguard.base.records import dataclass
from stageguard.night.colours import top_down
from stageguard.night.stages import StageScheme
from stageguard.report.svg import GAP, GREY, INK, PALE, colour_of, rect, runs, shortened, text_at

STEPS = (60, 300, 900, 1800, 3600, 7200, 14400, 28800)  # seconds between ticks
MAX_TICKS = 13


@dataclass(frozen=True, slots=True)
class Frame:
    """The sheet a night is drawn on: its width, the margins beside the plot, and where names begin."""

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
        """Horizontal place of an epoch's beginning."""
        return self.frame.left + self.frame.plot * (epoch - self.first) / (self.stop - self.first)

    @property
    def seconds(self) -> float:
        """Length of the stretch."""
        return (self.stop - self.first) * self.epoch_seconds

    @property
    def step(self) -> int:
        """Seconds between two ticks."""
        n_days = max(1, math.ceil(self.seconds / 86400 / MAX_TICKS))
        return next((step for step in STEPS if self.seconds / step <= MAX_TICKS), 86400 * n_days)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Horizontal place and text of each tick; full hours of the clock where it is known."""
        begin = self.first * self.epoch_seconds
        clock = begin + self.offset_seconds
        if self.start is not None:
            clock = begin + self.start.hour * 3600 + self.start.minute * 60 + self.start.second
        first = begin + (-clock % self.step)
        for seconds in np.arange(first, begin + self.seconds + 1e-6, self.step).tolist():
            yield self.x(seconds / self.epoch_seconds), self.time_text(seconds)

    def time_text(self, seconds: float) -> str:
        """Time so many seconds after the night's start, by the clock, else from the recording's start."""
        if self.start is not None:
            return (self.start + timedelta(seconds=seconds)).strftime("%H:%M")
        seconds += self.offset_seconds
        return f"{seconds / 3600:g}" if self.step >= 1800 else f"{seconds / 60:g}"

    @property
    def unit(self) -> str:
        """What the axis counts."""
        if self.start is not None:
            return "clock time"
        return "hours" if self.step >= 1800 else "minutes"


def draw_axis(axis: Axis, top: float, y: float) -> Iterator[str]:
    """Draw the axis at `y`, with a faint line up to `top` at each tick."""
    left, plot = axis.frame.left, axis.frame.plot
    yield f'<path d="M{left:.1f} {y:.1f}h{plot:.1f}" stroke="{INK}" stroke-width="1"/>'
    for x, text in axis.ticks():
        yield f'<path d="M{x:.1f} {top:.1f}V{y:.1f}" stroke="{INK}" stroke-width="0.6" opacity="0.12"/>'
        yield f'<path d="M{x:.1f} {y:.1f}v5" stroke="{INK}" stroke-width="1"/>'
        yield text_at(x, y + 19, text, font_size=12, text_anchor="middle")
    yield text_at(axis.frame.name_left, y + 19, axis.unit, font_size=12, fill=GREY)


LANE_HEIGHT = {2: 30.0, 3: 25.0}
STRIP_HEIGHT = 64.0
MAX_COLUMNS = 1400  # a strip finer than the pixels it is drawn on only makes the file heavy
MOST_EPOCHS_DRAWN = 6_000  # of a strip one by one: 6 h of 4 s, two days of 30 s
HALF_DAY = 43200.0  # s: 12 h of light and 12 h of darkness
TINT = "#FBF0D2"  # behind changed epochs
MARKS = {"kept": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", "lost": "M-3.4 -3.4l6.8 6.8m0 -6.8l-6.8 6.8",
         "new": "M-4.2 0h8.4m-4.2 -4.2v8.4"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panel:
    """A hypnogram to draw, and what is written beside it."""

    name: str
    details: tuple[str, ...]
    labels: Labels
    scheme: StageScheme


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at an epoch; `kind` is kept, lost or new."""

    epoch: int
    kind: str


@dataclass(frozen=True, slots=True)
class NightPicture:
    """All that is drawn of one night."""

    scheme: StageScheme
    panels: tuple[Panel, ...]
    changed: Mask
    probabilities: Floats
    marks: Sequence[Mark] = ()
    lights: Sequence[tuple[float, str]] = ()
    zeitgeber: float | None = None  # seconds since lights on at the first epoch

    @property
    def has_gaps(self) -> bool:
        """Whether some epoch is without a stage or without evidence."""
        unscored = any((panel.labels < 0).any() for panel in self.panels)
        return unscored or bool(np.isnan(self.probabilities).any())


def draw_night(night: NightPicture, axis: Axis, y: float) -> tuple[list[str], float]:
    """Return the elements of one stretch, and the height at which they end."""
    parts: list[str] = []
    top = y
    for panel in night.panels:
        height = LANE_HEIGHT.get(panel.scheme.n_stages, 19.0) * panel.scheme.n_stages
        tinted = night.changed if panel.name in ("Before", "After") else None
        parts += _panel(panel, axis, y, height, tinted)
        y += height + 14
        if panel.name == "Before":
            parts += _changed_lane(night.changed, axis, y - 4)
            y += 22
    if night.marks:
        parts += _marks_lane(night.marks, axis, y - 4)
        y += 22
    parts += _strip(night.probabilities, night.scheme, axis, y + 2)
    y += STRIP_HEIGHT + 12
    if night.zeitgeber is not None:
        parts += _light_cycle(night.zeitgeber, axis, y - 6)
        y += 10
    parts += draw_axis(axis, top, y)
    parts += _lights(night.lights, axis, top, y)
    return parts, y + 24


def _panel(panel: Panel, axis: Axis, y: float, height: float, changed: Mask | None) -> Iterator[str]:
    frame, order = axis.frame, top_down(panel.scheme)
    step = height / len(order)
    middle = {stage: y + step * (rank + 0.5) for rank, stage in enumerate(order)}
    yield text_at(frame.name_left, y + 15, panel.name, font_size=15, font_weight=600)
    for number, detail in enumerate(panel.details if axis.first == 0 else ()):  # they are of the whole night
        yield text_at(frame.name_left, y + 32 + 15 * number, detail, font_size=11, fill=GREY)
    if changed is not None and (tint := _blocks(changed, axis, y, height)):
        yield f'<path d="{tint}" fill="{TINT}"/>'
    for stage, line in middle.items():
        yield f'<path d="M{frame.left:.1f} {line:.1f}h{frame.plot:.1f}" stroke="{PALE}" stroke-width="1"/>'
        yield _lane_name(axis, line + 4, shortened(panel.scheme.names[stage], 9))
    yield from _bouts(panel, axis, y, height, middle)


def _bouts(panel: Panel, axis: Axis, y: float, height: float, middle: dict[int, float]) -> Iterator[str]:
    """Draw each bout as a bar in its stage's lane, joined by thin risers; unscored stretches as blocks."""
    risers: list[str] = []
    bars: dict[int, list[str]] = {stage: [] for stage in middle}
    previous = -1
    for first, end, label in _drawn_runs(panel.labels, axis):
        left, right = axis.x(first), axis.x(end)
        if label >= 0:
            bars[int(label)].append(f"M{left:.2f} {middle[int(label)]:.1f}H{right:.2f}")
            if previous >= 0:
                risers.append(f"M{left:.2f} {middle[previous]:.1f}V{middle[int(label)]:.1f}")
        else:
            yield rect(left, y, right - left, height, GAP)
        previous = int(label)
    if risers:
        width = 0.9 if len(risers) < 500 else 0.35
        yield f'<path d="{"".join(risers)}" stroke="#9AA1A9" stroke-width="{width}" fill="none"/>'
    thickness = min(9.0, 0.5 * height / len(middle))
    for stage, path in bars.items():
        if path:
            colour = colour_of(panel.scheme, stage)
            yield f'<path d="{"".join(path)}" stroke="{colour}" stroke-width="{thickness:.1f}"/>'


def _blocks(flags: Mask, axis: Axis, y: float, height: float) -> str:
    """Return a path of blocks where a flag is set, each wide enough to be seen."""
    return "".join(
        f"M{axis.x(first):.2f} {y:.1f}"
        f"H{max(axis.x(end), axis.x(first) + 0.8):.2f}"
        f"v{height:g}H{axis.x(first):.2f}z"
        for first, end, flag in _drawn_runs(flags, axis)
        if flag
    )


def _drawn_runs(values: npt.NDArray[Any], axis: Axis) -> Iterator[tuple[int, int, Any]]:
    """Yield first epoch, end and value of each run.

    Where a pixel holds many epochs, it has the commonest value, and a flag that any of them has.
    """
    here = values[axis.first : axis.stop]
    n_together = -(-len(here) // (2 * MAX_COLUMNS)) if len(here) > MOST_EPOCHS_DRAWN else 1
    if n_together > 1:
        padded = np.pad(here, (0, -len(here) % n_together), mode="edge").reshape(-1, n_together)
        if here.dtype == bool:
            here = np.logical_or.reduce(padded, axis=1)
        else:
            kinds = np.unique(here)
            here = kinds[np.argmax([(padded == kind).sum(axis=1) for kind in kinds], axis=0)]
    for start, end, value in runs(here):
        yield axis.first + start * n_together, min(axis.first + end * n_together, axis.stop), value


def _lane_name(axis: Axis, y: float, name: str) -> str:
    return text_at(axis.frame.left - 8, y, name, font_size=11.5, text_anchor="end", fill=INK)


def _changed_lane(changed: Mask, axis: Axis, y: float) -> Iterator[str]:
    yield _lane_name(axis, y + 9, "changed")
    yield rect(axis.frame.left, y, axis.frame.plot, 11, "#F6F7F8")
    if path := _blocks(changed, axis, y, 11):
        yield f'<path d="{path}" fill="{INK}"/>'


def _marks_lane(marks: Sequence[Mark], axis: Axis, y: float) -> Iterator[str]:
    yield _lane_name(axis, y + 9, "rare events")
    yield rect(axis.frame.left, y, axis.frame.plot, 11, "#F6F7F8")
    drawn: dict[tuple[int, str], Mark] = {}  # marks of a kind on the same pixel are one
    for mark in marks:
        if axis.first <= mark.epoch < axis.stop:
            drawn.setdefault((round(axis.x(mark.epoch)), mark.kind), mark)
    for mark in drawn.values():
        yield draw_mark(mark.kind, axis.x(mark.epoch), y + 5.5)


def draw_mark(kind: str, x: float, y: float) -> str:
    """Return the mark of a rare event."""
    fill = INK if kind == "kept" else "none"
    return (
        f'<path d="{MARKS[kind]}" transform="translate({x:.1f} {y:.1f})" fill="{fill}" '
        f'stroke="{INK}" stroke-width="1.4"/>'
    )


def _lights(lights: Sequence[tuple[float, str]], axis: Axis, top: float, y: float) -> Iterator[str]:
    for epoch, text in lights:
        if axis.first <= epoch <= axis.stop:
            x = axis.x(epoch)
            anchor, shift = ("start", 4) if x < axis.frame.left + axis.frame.plot / 2 else ("end", -4)
            yield (
                f'<path d="M{x:.1f} {top - 12:.1f}V{y:.1f}" stroke="{INK}" stroke-width="1.2" '
                'stroke-dasharray="5 3"/>'
            )
            yield text_at(x + shift, top - 4, text, font_size=11.5, text_anchor=anchor)


def _light_cycle(zeitgeber: float, axis: Axis, y: float) -> Iterator[str]:
    """Draw the light phase as an empty bar and the dark phase as a black one."""
    yield _lane_name(axis, y + 9, "light / dark")
    elapsed = np.arange(axis.first, axis.stop) * axis.epoch_seconds + zeitgeber
    for start, end, is_dark in runs(elapsed % (2 * HALF_DAY) >= HALF_DAY):
        left, right = axis.x(axis.first + start), axis.x(axis.first + end)
        yield rect(left, y, right - left, 10, INK if is_dark else "#FFFFFF", stroke=INK, stroke_width=1)


def _strip(probabilities: Floats, scheme: StageScheme, axis: Axis, y: float) -> Iterator[str]:
    """Stacked stage probabilities, deepest sleep at the bottom; epochs without evidence stay blank."""
    yield text_at(axis.frame.name_left, y + 15, "Probabilities", font_size=15, font_weight=600)
    yield text_at(axis.frame.name_left, y + 32, "of the stager", font_size=11, fill=GREY)
    n_columns = min(axis.stop - axis.first, MAX_COLUMNS)
    edges = np.linspace(axis.first, axis.stop, n_columns + 1).round().astype(int)
    here = probabilities[axis.first : axis.stop]
    known = ~np.isnan(here[:, 0])
    sums = np.add.reduceat(np.where(known[:, None], here, 0.0), edges[:-1] - axis.first, axis=0)
    counts = np.add.reduceat(known.astype(float), edges[:-1] - axis.first)
    shares = sums / np.maximum(counts, 1)[:, None]
    order = top_down(scheme)[::-1]
    tops = np.cumsum(shares[:, order], axis=1)
    for start, end, has_evidence in runs(counts > 0):
        if not has_evidence:
            left, right = axis.x(int(edges[start])), axis.x(int(edges[end]))
            yield rect(left, y, right - left, STRIP_HEIGHT, GAP)
            continue
        floor = np.zeros(end - start)
        for rank, stage in enumerate(order):
            roof = tops[start:end, rank]
            places = (y + STRIP_HEIGHT * (1 - floor), y + STRIP_HEIGHT * (1 - roof))
            path = _area(axis, edges[start : end + 1], *places)
            yield f'<path d="{path}" fill="{colour_of(scheme, stage)}"/>'
            floor = roof


def _area(axis: Axis, edges: npt.NDArray[Any], floor: npt.NDArray[Any], roof: npt.NDArray[Any]) -> str:
    """Return steps along the roof, then back along the floor."""
    x = [f"{axis.x(edge):.1f}" for edge in edges.tolist()]
    there = "".join(f"V{top:.1f}H{x[i + 1]}" for i, top in enumerate(roof.tolist()))
    back = "".join(f"V{floor[i]:.1f}H{x[i]}" for i in range(len(floor) - 1, -1, -1))
    return f"M{x[0]} {floor[0]:.1f}{there}{back}z"
