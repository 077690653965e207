"""One stretch of a night as SVG elements: hypnograms with changes, lanes below them, the time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats, Labels, Mask
from stageguard.night.colours import PAGE, top_down
from stageguard.night.stages import StageScheme
from stageguard.report import lanes
from stageguard.report.axis import Axis, draw_axis
from stageguard.report.svg import GAP, GREY, PALE, colour_of, rect, runs, shortened, text_at

LANE_HEIGHT = {2: 30.0, 3: 25.0}
TINT, RISER = PAGE["tint"].light, PAGE["riser"].light


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A hypnogram to draw, and the text beside it."""

    name: str
    details: tuple[str, ...]
    labels: Labels
    scheme: StageScheme


@dataclass(frozen=True, slots=True, eq=False)
class NightPicture:
    """All data of a night's picture."""

    scheme: StageScheme
    panels: tuple[Panel, ...]
    changed: Mask
    probabilities: Floats
    marks: Sequence[lanes.Mark] = ()
    events: Sequence[lanes.EventLane] = ()
    cycles: Sequence[tuple[int, int]] = ()  # first epoch and end of each cycle
    quality: Floats | None = None  # lost share of the signal, per epoch
    lights: Sequence[tuple[float, str]] = ()
    zeitgeber: float | None = None  # seconds since lights on at the first epoch

    @property
    def has_gaps(self) -> bool:
        """Whether any epoch has no stage or no evidence."""
        unscored = any((panel.labels < 0).any() for panel in self.panels)
        return unscored or bool(np.isnan(self.probabilities).any())


def draw_night(night: NightPicture, axis: Axis, y: float) -> tuple[list[str], float]:
    """Return the elements of one stretch, and the y position of their lower end."""
    parts: list[str] = []
    top = y
    for panel in night.panels:
        tinted = night.changed if panel.name in ("Before", "After") else None
        drawn, height = _panel(panel, axis, y, tinted)
        parts += drawn
        y += height + 14
        if panel.name == "Before":
            drawn, height = lanes.changed_lane(night.changed, axis, y - 4)
            parts += drawn
            y += height + 11
    if night.cycles:
        parts += lanes.cycles_lane(night.cycles, axis, y - 4)
        y += 20
    narrow = [lanes.marks_lane(night.marks, axis, y - 4)] if night.marks else []
    y += sum(height + 11 for _, height in narrow)
    for lane in night.events:
        narrow.append(lanes.event_lane(lane, axis, y - 4))
        y += narrow[-1][1] + 11
    parts += [part for drawn, _ in narrow for part in drawn]
    parts += lanes.probability_strip(night.probabilities, night.scheme, axis, y + 2)
    y += lanes.STRIP_HEIGHT + 12
    if night.quality is not None:
        parts += lanes.quality_strip(night.quality, axis, y - 2)
        y += lanes.DENSITY_LANE + 8
    if night.zeitgeber is not None:
        parts += lanes.light_cycle(night.zeitgeber, axis, y - 6)
        y += 10
    parts += draw_axis(axis, top, y)
    parts += lanes.lights(night.lights, axis, top, y)
    return parts, y + 24


def _panel(panel: Panel, axis: Axis, y: float, changed: Mask | None) -> tuple[list[str], float]:
    frame, bins = axis.frame, lanes.bins_of(axis)
    details = panel.details if bins is None else (*panel.details, f"shares of {bins.words}")
    parts = [text_at(frame.name_left, y + 15, panel.name, font_size=15, font_weight=600)]
    parts += [
        text_at(frame.name_left, y + 32 + 15 * number, detail, font_size=11, fill=GREY)
        for number, detail in enumerate(details)
    ]
    if bins is not None:
        known = panel.labels >= 0
        shares = panel.labels[:, None] == np.arange(panel.scheme.n_stages)
        parts += lanes.share_strip(shares, known, panel.scheme, bins.edges, axis, y)
        return parts, lanes.STRIP_HEIGHT
    height = LANE_HEIGHT.get(panel.scheme.n_stages, 19.0) * panel.scheme.n_stages
    step = height / panel.scheme.n_stages
    middle = {stage: y + step * (rank + 0.5) for rank, stage in enumerate(top_down(panel.scheme))}
    if changed is not None and (tint := lanes.blocks(changed, axis, y, height)):
        parts.append(f'<path d="{tint}" fill="{TINT}"/>')
    for stage, line in middle.items():
        parts.append(f'<path d="M{frame.left:.1f} {line:.1f}h{frame.plot:.1f}" stroke="{PALE}"/>')
        parts.append(lanes.lane_name(axis, line + 4, shortened(panel.scheme.names[stage], 9)))
    return [*parts, *_bouts(panel, axis, y, height, middle)], height


def _bouts(panel: Panel, axis: Axis, y: float, height: float, middle: dict[int, float]) -> Iterator[str]:
    """Draw each bout as a bar in its stage's lane, joined by thin risers; unscored stretches as blocks."""
    risers: list[str] = []
    bars: dict[int, list[str]] = {stage: [] for stage in middle}
    previous = -1
    for first, end, label in runs(panel.labels[axis.first : axis.stop]):
        left, right = axis.x(axis.first + first), axis.x(axis.first + end)
        if label >= 0:
            bars[int(label)].append(f"M{left:.1f} {middle[int(label)]:.1f}H{right:.1f}")
            if previous >= 0:
                risers.append(f"M{left:.1f} {middle[previous]:.1f}V{middle[int(label)]:.1f}")
        else:
            yield rect(left, y, right - left, height, GAP)
        previous = int(label)
    if risers:
        width = 0.9 if len(risers) < 500 else 0.35
        yield f'<path d="{"".join(risers)}" stroke="{RISER}" stroke-width="{width}" fill="none"/>'
    thickness = min(9.0, 0.5 * height / len(middle))
    for stage, path in bars.items():
        if path:
            colour = colour_of(panel.scheme, stage)
            yield f'<path d="{"".join(path)}" stroke="{colour}" stroke-width="{thickness:.1f}"/>'
