"""The narrow lanes of a night's picture: changes, events, cycles, probabilities, quality, lights.

For long recordings, a lane shows the share or the number in each bin instead of single epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Indices, Mask
from stageguard.formats.raw_night import Event
from stageguard.night.colours import PAGE, top_down
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.report.numbers import duration
from stageguard.report.svg import (
    DAY,
    GAP,
    GREY,
    INK,
    PANEL,
    EpochAxis,
    colour_of,
    rect,
    runs,
    shortened,
    text_at,
)

MOST_EPOCHS_DRAWN = 2_000  # one by one: 16 h of 30 s, 2 h of 4 s; longer recordings are drawn in bins
MOST_BINS = 320
BIN_SECONDS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, DAY)
STRIP_HEIGHT = 64.0
LEVELS = 128  # steps of height in a stack: half a pixel each
LANE, DENSITY_LANE = 11.0, 20.0
MOST_EVENT_LANES = 6
HALF_DAY = 43200.0  # s: 12 h of light and 12 h of darkness
LIT, UNLIT = PAGE["lit"].light, PAGE["unlit"].light
MARKS = {"kept": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", "lost": "M-3.4 -3.4l6.8 6.8m0 -6.8l-6.8 6.8",
         "new": "M-4.2 0h8.4m-4.2 -4.2v8.4"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """A rare event at an epoch; `kind` is kept, lost or new."""

    epoch: int
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class EventLane:
    """Annotations of one name: the beginning and duration of each, in epochs of the night."""

    name: str
    begins: Floats
    lasts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Stretches of a long recording of equal length, except the last."""

    edges: Indices  # (n_bins + 1,)
    seconds: float

    @classmethod
    def of(cls, axis: EpochAxis, most: int = MOST_BINS) -> Bins:
        """Return bins of a round length, at most ``most``."""
        days = DAY * np.arange(1, 2 + int(axis.seconds / DAY / most))
        bin_seconds = next(
            length for length in (*BIN_SECONDS, *days.tolist()) if axis.seconds / length <= most
        )
        n_epochs = max(1, round(bin_seconds / axis.epoch_seconds))
        edges = np.append(np.arange(axis.first, axis.stop, n_epochs), axis.stop)
        return cls(edges, n_epochs * axis.epoch_seconds)

    def sums(self, values: npt.NDArray[Any]) -> Floats:
        """Return the sum of the epochs of each bin."""
        here = values[self.edges[0] : self.edges[-1]]
        sums: Floats = np.add.reduceat(here, self.edges[:-1] - self.edges[0], axis=0, dtype=np.float64)
        return sums

    def counts(self, epochs: Floats) -> Floats:
        """Return the number of moments in each bin."""
        return np.histogram(epochs, self.edges)[0].astype(np.float64)

    @property
    def words(self) -> str:
        """Length of a bin as text."""
        return duration(self.seconds)


def event_lanes(events: Sequence[Event], night: Hypnogram) -> tuple[EventLane, ...]:
    """Return lanes of the night's annotations by name, the most frequent first; the rest share a lane."""
    begins = (np.array([event.onset for event in events]) - night.offset_seconds) / night.epoch_seconds
    lasts = np.array([event.seconds or 0.0 for event in events]) / night.epoch_seconds
    touches = (begins < night.n_epochs) & (begins + lasts >= 0)
    names = [event.text.strip() or event.kind for event in events]
    common = Counter(name for name, there in zip(names, touches.tolist(), strict=True) if there).most_common()
    n_own = MOST_EVENT_LANES - (len(common) > MOST_EVENT_LANES)
    chosen = [name for name, _ in common[:n_own]]
    lanes = []
    for name in (*chosen, *(["others"] if len(common) > n_own else [])):
        is_of = [each == name if name in chosen else each not in chosen for each in names]
        picked = touches & np.array(is_of, dtype=bool)
        lanes.append(EventLane(name, begins[picked], lasts[picked]))
    return tuple(lanes)


def bins_of(axis: EpochAxis) -> Bins | None:
    """Return the bins of a stretch that is too long to draw epoch by epoch, else None."""
    return Bins.of(axis) if axis.stop - axis.first > MOST_EPOCHS_DRAWN else None


def lane_name(axis: EpochAxis, y: float, name: str) -> str:
    """Return a name left of the plot."""
    return text_at(axis.frame.left - 8, y, name, font_size=11.5, text_anchor="end", fill=INK)


def blocks(flags: Mask, axis: EpochAxis, y: float, height: float) -> str:
    """Return a path with a block for each run of flags, wide enough to be visible."""
    return "".join(
        f"M{axis.x(axis.first + first):.1f} {y:.1f}"
        f"h{max(axis.x(end) - axis.x(first), 0.8):.1f}v{height:g}"
        f"H{axis.x(axis.first + first):.1f}z"
        for first, end, flag in runs(flags[axis.first : axis.stop])
        if flag
    )


def changed_lane(changed: Mask, axis: EpochAxis, y: float) -> tuple[list[str], float]:
    """Draw changed epochs as black marks, or their share in each bin; return the parts and the height."""
    if (bins := bins_of(axis)) is not None:
        shares = bins.sums(changed) / np.diff(bins.edges)
        top = float(shares.max())
        return list(_density("changed", shares, f"to {100 * top:.0f} %", bins, axis, y)), DENSITY_LANE
    parts = [lane_name(axis, y + 9, "changed"), rect(axis.frame.left, y, axis.frame.plot, LANE, PANEL)]
    if path := blocks(changed, axis, y, LANE):
        parts.append(f'<path d="{path}" fill="{INK}"/>')
    return parts, LANE


def marks_lane(marks: Sequence[Mark], axis: EpochAxis, y: float) -> tuple[list[str], float]:
    """Draw rare events as marks, or their number in each bin; return the parts and the height."""
    if (bins := bins_of(axis)) is not None:
        counts = bins.counts(np.array([mark.epoch for mark in marks], dtype=np.float64))
        most = f"to {counts.max():.0f}"
        return list(_density("rare events", counts, most, bins, axis, y)), DENSITY_LANE
    parts = [lane_name(axis, y + 9, "rare events"), rect(axis.frame.left, y, axis.frame.plot, LANE, PANEL)]
    drawn: dict[tuple[int, str], Mark] = {}  # one mark per kind and pixel
    for mark in marks:
        if axis.first <= mark.epoch < axis.stop:
            drawn.setdefault((round(axis.x(mark.epoch)), mark.kind), mark)
    parts += [draw_mark(mark.kind, axis.x(mark.epoch), y + 5.5) for mark in drawn.values()]
    return parts, LANE


def draw_mark(kind: str, x: float, y: float) -> str:
    """Return the mark of a rare event."""
    fill = INK if kind == "kept" else "none"
    return (
        f'<path d="{MARKS[kind]}" transform="translate({x:.1f} {y:.1f})" fill="{fill}" '
        f'stroke="{INK}" stroke-width="1.4"/>'
    )


def event_lane(lane: EventLane, axis: EpochAxis, y: float) -> tuple[list[str], float]:
    """Draw annotations as blocks, or the number that begin in each bin; return the parts and the height."""
    name = shortened(lane.name, 22)
    if (bins := bins_of(axis)) is not None:
        counts = bins.counts(lane.begins)
        return list(_density(name, counts, f"to {counts.max():.0f}", bins, axis, y)), DENSITY_LANE
    parts = [lane_name(axis, y + 9, name), rect(axis.frame.left, y, axis.frame.plot, LANE, PANEL)]
    path = []
    for begins, lasts in zip(lane.begins.tolist(), lane.lasts.tolist(), strict=True):
        first, end = max(begins, axis.first), min(begins + lasts, axis.stop)
        if axis.first <= end and first < axis.stop:
            width = max(axis.x(end) - axis.x(first), 0.8)
            path.append(f"M{axis.x(first):.1f} {y + 1:.1f}h{width:.1f}v9h{-width:.1f}z")
    parts.append(f'<path d="{"".join(path)}" fill="{INK}"/>')
    return parts, LANE


def _density(name: str, values: Floats, most: str, bins: Bins, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw the value of each bin as a column; the largest is as high as the lane."""
    yield lane_name(axis, y + 9, name)
    if values.max() == 0:
        most = "none"
    per = "" if most == "none" else f" in {bins.words}"
    yield text_at(axis.frame.left - 8, y + 20, f"{most}{per}", font_size=9.5, text_anchor="end", fill=GREY)
    yield rect(axis.frame.left, y, axis.frame.plot, DENSITY_LANE, PANEL)
    roofs = values[:, None] / (values.max() or 1.0)
    yield from _stack(roofs, [INK], bins.edges, axis, y, DENSITY_LANE)


def cycles_lane(cycles: Sequence[tuple[int, int]], axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw NREM-REM cycles as brackets with their numbers."""
    yield lane_name(axis, y + 9, "cycles")
    for number, (first, stop) in enumerate(cycles, start=1):
        left, right = axis.x(first) + 1, axis.x(stop) - 1
        middle = (left + right) / 2
        path = f"M{left:.1f} {y:.1f}v5H{middle - 8:.1f}M{middle + 8:.1f} {y + 5:.1f}H{right:.1f}v-5"
        yield f'<path d="{path}" stroke="{INK}" stroke-width="1" fill="none"/>'
        yield text_at(middle, y + 9, str(number), font_size=11.5, text_anchor="middle")


def probability_strip(probabilities: Floats, scheme: StageScheme, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw stacked stage probabilities, deepest sleep at the bottom; epochs without evidence are grey."""
    yield text_at(axis.frame.name_left, y + 15, "Probabilities", font_size=15, font_weight=600)
    bins = bins_of(axis)
    source = "of the stager" if bins is None else f"mean of {bins.words}"
    yield text_at(axis.frame.name_left, y + 32, source, font_size=11, fill=GREY)
    edges = np.arange(axis.first, axis.stop + 1) if bins is None else bins.edges
    has_evidence = ~np.isnan(probabilities[:, 0])
    yield from share_strip(
        np.where(has_evidence[:, None], probabilities, 0.0), has_evidence, scheme, edges, axis, y
    )


def share_strip(
    values: npt.NDArray[Any],
    has_evidence: Mask,
    scheme: StageScheme,
    edges: Indices,
    axis: EpochAxis,
    y: float,
) -> Iterator[str]:
    """Draw the mean share of each stage between edges, stacked; grey where no epoch is known."""
    bins = Bins(edges, 0.0)
    counts = bins.sums(has_evidence)
    shares = bins.sums(values) / np.maximum(counts, 1)[:, None]
    for start, end, has_some in runs(counts > 0):
        if not has_some:
            left, right = axis.x(int(edges[start])), axis.x(int(edges[end]))
            yield rect(left, y, right - left, STRIP_HEIGHT, GAP)
    order = top_down(scheme)[::-1]
    roofs = np.cumsum(shares[:, order], axis=1)
    yield from _stack(roofs, [colour_of(scheme, stage) for stage in order], edges, axis, y, STRIP_HEIGHT)


def _stack(
    roofs: Floats, colours: Sequence[str], edges: Indices, axis: EpochAxis, y: float, height: float
) -> Iterator[str]:
    """Draw areas from the bottom up to each column of roofs (0 to 1); lower areas cover higher ones.

    Paths are in units of epochs and levels, so that a step takes few characters.
    """
    if not (roofs > 0).any():
        return
    left, width = axis.x(int(edges[0])), axis.x(int(edges[-1])) - axis.x(int(edges[0]))
    scale = f"{width / int(edges[-1] - edges[0]):.6g} {height / LEVELS:.6g}"
    yield f'<g transform="translate({left:.1f} {y:.1f}) scale({scale})">'
    levels = np.rint(LEVELS * np.clip(roofs, 0, 1)).astype(int)
    for rank in range(len(colours) - 1, -1, -1):
        steps, last = [f"M0 {LEVELS}"], 0
        for start, end, level in runs(levels[:, rank]):
            if level != last:
                steps.append(f"v{last - level}")
                last = level
            steps.append(f"h{int(edges[end] - edges[start])}")
        yield f'<path d="{"".join(steps)}V{LEVELS}z" fill="{colours[rank]}"/>'
    yield "</g>"


def quality_strip(lost: Floats, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw the lost share of the signal, from none (empty) to all (filled)."""
    yield lane_name(axis, y + 9, "signal lost")
    yield rect(axis.frame.left, y, axis.frame.plot, DENSITY_LANE, PANEL)
    bins = bins_of(axis)
    edges = np.arange(axis.first, axis.stop + 1) if bins is None else bins.edges
    means = Bins(edges, 0.0).sums(lost) / np.diff(edges)
    yield from _stack(means[:, None], [GREY], edges, axis, y, DENSITY_LANE)


def lights(moments: Sequence[tuple[float, str]], axis: EpochAxis, top: float, y: float) -> Iterator[str]:
    """Draw lights off and lights on as lines across the whole picture."""
    for epoch, text in moments:
        if axis.first <= epoch <= axis.stop:
            x = axis.x(epoch)
            anchor, shift = ("start", 4) if x < axis.frame.left + axis.frame.plot / 2 else ("end", -4)
            yield (
                f'<path d="M{x:.1f} {top - 12:.1f}V{y:.1f}" stroke="{INK}" stroke-width="1.2" '
                'stroke-dasharray="5 3"/>'
            )
            yield text_at(x + shift, top - 4, text, font_size=11.5, text_anchor=anchor)


def light_cycle(zeitgeber: float, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw the light phase as a light bar and the dark phase as a dark one."""
    yield lane_name(axis, y + 9, "light / dark")
    turns = np.arange(-(-zeitgeber // HALF_DAY), (zeitgeber + axis.stop * axis.epoch_seconds) / HALF_DAY)
    edges = [axis.first, *((turns * HALF_DAY - zeitgeber) / axis.epoch_seconds).tolist(), axis.stop]
    for first, stop in pairwise(edges):
        left, right = axis.x(max(first, axis.first)), axis.x(min(stop, axis.stop))
        if right > left:
            middle = (max(first, axis.first) + min(stop, axis.stop)) / 2 * axis.epoch_seconds
            is_dark = (middle + zeitgeber) % (2 * HALF_DAY) >= HALF_DAY
            fill = UNLIT if is_dark else LIT
            yield rect(left, y, right - left, 10, fill, stroke=GREY, stroke_width=1)
