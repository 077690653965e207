"""A night before and after decoding as SVG: a file, or a picture of a page with the data to zoom into it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats, Labels, Mask
from stageguard.guard.decoding import Decoding, without_clock
from stageguard.measures.bouts import bouts_of, hypnogram_before
from stageguard.night.colours import PAGE, top_down
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.report import lanes
from stageguard.report.lanes import MARKS, bins_of, draw_mark
from stageguard.report.numbers import count, duration
from stageguard.report.svg import (
    DAY,
    GAP,
    GREY,
    PALE,
    EpochAxis,
    Frame,
    colour_of,
    document,
    draw_axis,
    printable,
    rect,
    runs,
    shortened,
    text_at,
)

LANE_HEIGHT = {2: 30.0, 3: 25.0}
TINT, RISER = PAGE["tint"].light, PAGE["riser"].light


@dataclass(frozen=True, slots=True, eq=False)
class HypnogramPanel:
    """A hypnogram to draw, and the text beside it."""

    name: str
    details: tuple[str, ...]
    labels: Labels
    scheme: StageScheme


@dataclass(frozen=True, slots=True, eq=False)
class HypnogramPicture:
    """All data of a night's picture."""

    scheme: StageScheme
    panels: tuple[HypnogramPanel, ...]
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


def draw_night(night: HypnogramPicture, axis: EpochAxis, y: float) -> tuple[list[str], float]:
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


def _panel(panel: HypnogramPanel, axis: EpochAxis, y: float, changed: Mask | None) -> tuple[list[str], float]:
    frame, bins = axis.frame, lanes.bins_of(axis)
    details = panel.details if bins is None else (*panel.details, f"shares of {bins.words}")
    parts = [text_at(frame.name_left, y + 15, panel.name, font_size=15, font_weight=600)]
    parts += [
        text_at(frame.name_left, y + 32 + 15 * number, detail, font_size=11, fill=GREY)
        for number, detail in enumerate(details)
    ]
    if bins is not None:
        has_evidence = panel.labels >= 0
        shares = panel.labels[:, None] == np.arange(panel.scheme.n_stages)
        parts += lanes.share_strip(shares, has_evidence, panel.scheme, bins.edges, axis, y)
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


def _bouts(
    panel: HypnogramPanel, axis: EpochAxis, y: float, height: float, middle: dict[int, float]
) -> Iterator[str]:
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


FILE_FRAME = Frame(width=1200.0, left=186.0, right=30.0, name_left=24.0)
PAGE_FRAME = Frame(width=980.0, left=158.0, right=20.0)
SYNTHETIC = "synthetic"  # scorer of a simulated night, whose true stages are known


def hypnogram_svg(decoding: Decoding, expert: Hypnogram | None = None, title: str | None = None) -> str:
    """Return a picture of a night as SVG text: expert, before, after, changed epochs and probabilities.

    The expert's scoring must have the same length, and the same scheme or a coarser one. The default title is
    the source of the probabilities.
    """
    headline = title if title is not None else (decoding.source or "Hypnogram")
    subtitle = _subtitle(decoding)
    picture = night_picture(decoding, expert)
    axis = axis_of(decoding, FILE_FRAME)
    parts = [
        text_at(24, 36, shortened(headline, 80), font_size=22, font_weight=600),
        text_at(24, 58, subtitle, font_size=13.5, fill=GREY),
    ]
    drawn, y = draw_night(picture, axis, 84.0)
    y += 38
    review = "A trained scorer must review this before any clinical decision."
    right = FILE_FRAME.width - FILE_FRAME.right
    parts += [*drawn, *_legend(picture, FILE_FRAME, y - 12)]
    parts.append(text_at(right, y - 12, review, font_size=11, text_anchor="end", fill=GREY))
    return document(headline, subtitle, parts, (FILE_FRAME.width, y))


def page_picture(
    decoding: Decoding, expert: Hypnogram | None = None, **drawn: Any
) -> tuple[str, HypnogramPicture]:
    """Return the SVG of a night for an HTML page, and its data; `drawn` are further fields of the data."""
    picture = replace(night_picture(decoding, expert), **drawn)
    axis = axis_of(decoding)
    parts, y = draw_night(picture, axis, 16.0 if picture.lights else 4.0)
    parts += _legend(picture, PAGE_FRAME, y + 18)
    compared = f"the {expert_name(expert)}'s stages, " if expert is not None else ""
    untimed = "the stages without the clock, " if decoding.removed_bouts else ""
    shown = f"{compared}the stager's most probable stages, {untimed}the decoded stages, changed epochs and "
    description = f"From top to bottom: {shown}stage probabilities. {_subtitle(decoding)}."
    size = (PAGE_FRAME.width, y + 28)
    title = "Hypnogram before and after decoding"
    return document(title, description, parts, size, inline="hypnogram"), picture


def night_picture(decoding: Decoding, expert: Hypnogram | None) -> HypnogramPicture:
    """Return the data of a picture: the expert's panel first, then before and after.

    Where the clock removed early REM that a person should look at, the night without it is shown, too.
    """
    night = decoding.hypnogram
    panels = [
        HypnogramPanel("Before", _details(hypnogram_before(decoding), expert), decoding.argmax, night.scheme),
        HypnogramPanel("After", _details(night, expert), night.labels, night.scheme),
    ]
    if decoding.removed_bouts:
        untimed = replace(night, labels=without_clock(decoding))
        panels.insert(1, HypnogramPanel("No clock", _details(untimed, expert), untimed.labels, night.scheme))
    if expert is not None:
        name = expert_name(expert).capitalize()
        panels.insert(0, HypnogramPanel(name, _details(expert), expert.labels, expert.scheme))
    return HypnogramPicture(night.scheme, tuple(panels), decoding.changed, decoding.density.probabilities)


def _details(scoring: Hypnogram, expert: Hypnogram | None = None) -> tuple[str, ...]:
    """Return the number of stage changes of a scoring, and its agreement with the expert, as text."""
    labels = scoring.labels
    changed = (labels[1:] != labels[:-1]) & (labels[1:] >= 0) & (labels[:-1] >= 0)
    changes = count(int(np.count_nonzero(changed)), "stage change")
    if expert is None:
        return (changes,)
    labels = scoring.merge(expert.scheme).labels
    both = (labels >= 0) & (expert.labels >= 0)
    if not both.any():
        return changes, ""
    return changes, f"{100 * np.mean(labels[both] == expert.labels[both]):.1f} % as the {expert_name(expert)}"


def expert_name(expert: Hypnogram) -> str:
    """Return the name of a scoring to compare with: "truth" for a simulated night, else "expert"."""
    return "truth" if expert.scorer == SYNTHETIC else "expert"


def _legend(picture: HypnogramPicture, frame: Frame, y: float) -> Iterator[str]:
    """Draw the legend of colours and marks."""
    scheme = picture.scheme
    entries = [(scheme.names[stage], colour_of(scheme, stage)) for stage in top_down(scheme)]
    if picture.has_gaps:
        entries.append(("no evidence", GAP))
    x = frame.left
    for name, colour in entries:
        name = shortened(name, 12)
        yield rect(x, y - 10, 14, 11, colour)
        yield text_at(x + 19, y, name, font_size=12)
        x += 34 + 8.0 * len(name)
    marked = {mark.kind for mark in picture.marks}
    for kind in (kind for kind in MARKS if kind in marked):
        yield draw_mark(kind, x + 8, y - 4.5)
        yield text_at(x + 17, y, f"{kind} rare event", font_size=12)
        x += 128


def axis_of(decoding: Decoding, frame: Frame = PAGE_FRAME) -> EpochAxis:
    """Return the time axis of a whole night."""
    night = decoding.hypnogram
    return EpochAxis(frame, 0, night.n_epochs, night.epoch_seconds, night.start, night.offset_seconds)


def _subtitle(decoding: Decoding) -> str:
    n_changed, n_scored = int(np.count_nonzero(decoding.changed)), int(np.count_nonzero(decoding.argmax >= 0))
    share = 100 * n_changed / n_scored if n_scored else 0.0
    changed = f"{n_changed:,} of {n_scored:,} scored epochs changed ({share:.1f} %)"
    return f"Profile {decoding.profile.name} · {changed}"


WINDOWS = (60, 300, 600, 1800, 3600, 7200, 21600, 43200, DAY, 2 * DAY, 7 * DAY)  # seconds
FEWEST, USUAL, MOST = 20, 1_000, 3_000  # epochs in a window
MOST_COLUMNS = 100_000  # of probabilities; with more epochs, several share a column
LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)


def script_data(picture: HypnogramPicture, axis: EpochAxis) -> dict[str, Any]:
    """Return the script's data of a night: positions of epochs, and for a long recording data to zoom."""
    start = (
        None if axis.start is None else axis.start.hour * 3600 + axis.start.minute * 60 + axis.start.second
    )
    return {
        "n": axis.stop,
        "left": axis.frame.left,
        "plot": axis.frame.plot,
        "width": axis.frame.width,
        "seconds": axis.epoch_seconds,
        "offset": axis.offset_seconds if start is None else start,
        "isClock": start is not None,
        "zoom": None if bins_of(axis) is None else _zoom(picture, axis),
    }


def _zoom(picture: HypnogramPicture, axis: EpochAxis) -> dict[str, Any]:
    windows = [
        (duration(seconds), round(seconds / axis.epoch_seconds))
        for seconds in WINDOWS
        if FEWEST <= seconds / axis.epoch_seconds <= MOST
    ] or [(f"{USUAL:,} epochs", USUAL)]
    chosen = max(n for _, n in windows if n <= USUAL or (n == windows[0][1]))
    order = top_down(picture.scheme)[::-1]
    has_evidence = ~np.isnan(picture.probabilities[:, 0])
    roofs = np.cumsum(np.where(has_evidence[:, None], picture.probabilities, 0.0)[:, order], axis=1)
    return {
        "windows": windows,
        "chosen": chosen,
        "first": _most_changed(picture, chosen),
        "panels": [
            {
                "name": panel.name,
                "stages": [
                    (printable(panel.scheme.names[stage]), colour_of(panel.scheme, stage))
                    for stage in top_down(panel.scheme)
                ],
                "runs": _ranks(panel.labels, top_down(panel.scheme)),
            }
            for panel in picture.panels
        ],
        "changed": [(first, end - first) for first, end, flag in runs(picture.changed) if flag],
        "strip": {"colours": [colour_of(picture.scheme, stage) for stage in order], **_levels(roofs)},
        "quality": None if picture.quality is None else _levels(picture.quality[:, None]),
        "marks": [(mark.epoch, mark.kind) for mark in picture.marks],
        "shapes": MARKS,
        "events": [
            {
                "name": printable(lane.name),
                "spans": np.round(np.stack((lane.begins, lane.lasts), axis=1), 2).tolist(),
            }
            for lane in picture.events
        ],
    }


def _most_changed(picture: HypnogramPicture, n_epochs: int) -> int:
    """Return the beginning of the window with most changes, among adjacent windows."""
    begins = np.arange(0, len(picture.changed), n_epochs)
    return int(begins[np.add.reduceat(picture.changed, begins, dtype=np.int64).argmax()])


def _ranks(labels: Labels, order: list[int]) -> list[int]:
    """Return rank from the top (-1 where unscored) and length of each run, in one flat list."""
    bouts = bouts_of(labels)
    ranks = np.append(np.argsort(order), -1)[bouts.stages]  # index -1 (unscored) is the last
    pairs: list[int] = np.stack((ranks, bouts.lengths), axis=1).ravel().tolist()
    return pairs


def _levels(values: Floats) -> dict[str, Any]:
    """Return numbers from 0 to 1 as one letter each; of many, the means of neighbours."""
    step = math.ceil(len(values) / MOST_COLUMNS)
    edges = np.arange(0, len(values), step)
    means = np.add.reduceat(values, edges, axis=0) / np.diff(np.append(edges, len(values)))[:, None]
    letters = LETTERS[np.rint((len(LETTERS) - 1) * np.clip(means, 0, 1)).astype(int)]
    return {"step": step, "levels": letters.tobytes().decode()}
