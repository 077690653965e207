"""A night before and after decoding as SVG: a file, or a picture of a page with the data to zoom into it.

From top to bottom: hypnograms, then narrow lanes of changes, cycles, events, probabilities and quality.
For long recordings, a lane shows the share or the number in each bin instead of single epochs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Indices, Labels, Mask
from stageguard.formats.night import Event
from stageguard.guard.decode import without_clock
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import bouts_of, hypnogram_before
from stageguard.night.colours import PAGE, top_down
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.night.timing import Night
from stageguard.report.numbers import count, duration
from stageguard.report.svg import (
    DAY,
    GAP,
    GREY,
    INK,
    MOST_EPOCHS_DRAWN,
    PALE,
    PANEL,
    Bins,
    EpochAxis,
    Frame,
    colour_of,
    document,
    draw_axis,
    printable,
    rect,
    runs,
    shorten,
    text_at,
)

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


LANE_HEIGHT = {2: 30.0, 3: 25.0}
TINT, RISER = PAGE["tint"].light, PAGE["riser"].light


@dataclass(frozen=True, slots=True, eq=False)
class HypnogramPanel:
    """A hypnogram to draw, and the text beside it."""

    name: str
    details: tuple[str, ...]
    labels: Labels
    scheme: StageScheme
    shows_changes: bool = False  # by a tint of changed epochs


@dataclass(frozen=True, slots=True, eq=False)
class HypnogramPicture:
    """All data of a night's picture."""

    scheme: StageScheme
    panels: tuple[HypnogramPanel, ...] = ()
    changed: Mask | None = None
    probabilities: Floats | None = None
    marks: Sequence[Mark] = ()
    events: Sequence[EventLane] = ()
    cycles: Sequence[tuple[int, int]] = ()  # first epoch and end of each cycle
    quality: Floats | None = None  # lost share of the signal, per epoch
    lights: Sequence[tuple[float, str]] = ()
    zeitgeber: float | None = None  # seconds since lights on at the first epoch

    @property
    def has_gaps(self) -> bool:
        """Whether any epoch has no stage or no evidence."""
        unscored = any((panel.labels < 0).any() for panel in self.panels)
        return unscored or (self.probabilities is not None and bool(np.isnan(self.probabilities).any()))


def draw_night(night: HypnogramPicture, axis: EpochAxis, y: float) -> tuple[list[str], float]:
    """Return the elements of one stretch, and the y position of their lower end."""
    parts: list[str] = []
    top, changed = y, night.changed
    for panel in night.panels:
        drawn, height = _panel(panel, axis, y, night.changed if panel.shows_changes else None)
        parts += drawn
        y += height + 14
        if panel.shows_changes and changed is not None:  # below the first such panel
            drawn, height = changed_lane(changed, axis, y - 4)
            parts += drawn
            y += height + 11
            changed = None
    if night.cycles:
        parts += cycles_lane(night.cycles, axis, y - 4)
        y += 20
    narrow = [marks_lane(night.marks, axis, y - 4)] if night.marks else []
    y += sum(height + 11 for _, height in narrow)
    for lane in night.events:
        narrow.append(event_lane(lane, axis, y - 4))
        y += narrow[-1][1] + 11
    parts += [part for drawn, _ in narrow for part in drawn]
    if night.probabilities is not None:
        parts += probability_strip(night.probabilities, night.scheme, axis, y + 2)
        y += STRIP_HEIGHT + 12
    if night.quality is not None:
        parts += quality_strip(night.quality, axis, y - 2)
        y += DENSITY_LANE + 8
    if night.zeitgeber is not None:
        parts += light_cycle(night.zeitgeber, axis, y - 6)
        y += 10
    parts += draw_axis(axis, top, y)
    parts += lights(night.lights, axis, top, y)
    return parts, y + 24


def _panel(panel: HypnogramPanel, axis: EpochAxis, y: float, changed: Mask | None) -> tuple[list[str], float]:
    frame, bins = axis.frame, bins_of(axis)
    details = panel.details if bins is None else (*panel.details, f"shares of {_bin_words(bins, axis)}")
    parts = [text_at(frame.name_left, y + 15, panel.name, font_size=15, font_weight=600)]
    parts += [
        text_at(frame.name_left, y + 32 + 15 * number, detail, font_size=11, fill=GREY)
        for number, detail in enumerate(details)
    ]
    if bins is not None:
        has_evidence = panel.labels >= 0
        shares = panel.labels[:, None] == np.arange(panel.scheme.n_stages)
        parts += share_strip(shares, has_evidence, panel.scheme, bins, axis, y)
        return parts, STRIP_HEIGHT
    height = LANE_HEIGHT.get(panel.scheme.n_stages, 19.0) * panel.scheme.n_stages
    step = height / panel.scheme.n_stages
    middle = {stage: y + step * (rank + 0.5) for rank, stage in enumerate(top_down(panel.scheme))}
    if changed is not None and (tint := blocks(changed, axis, y, height)):
        parts.append(f'<path d="{tint}" fill="{TINT}"/>')
    for stage, line in middle.items():
        parts.append(f'<path d="M{frame.left:.1f} {line:.1f}h{frame.plot:.1f}" stroke="{PALE}"/>')
        parts.append(lane_name(axis, line + 4, shorten(panel.scheme.names[stage], 9)))
    return [*parts, *_bouts(panel, axis, y, height, middle)], height


def _bouts(
    panel: HypnogramPanel, axis: EpochAxis, y: float, height: float, middle: dict[int, float]
) -> Iterator[str]:
    """Draw each bout as a bar in its stage's lane, joined by thin risers; unscored stretches as blocks."""
    risers: list[str] = []
    bars: dict[int, list[str]] = {stage: [] for stage in middle}
    previous = -1
    for first, end, label in runs(panel.labels):
        left, right = axis.x(first), axis.x(end)
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
    """Return bins of a round length for a night that is too long to draw epoch by epoch, else None."""
    if axis.n_epochs <= axis.most_epochs:
        return None
    days = DAY * np.arange(1, 2 + int(axis.seconds / DAY / MOST_BINS))
    lengths = (*BIN_SECONDS, *days.tolist())
    bin_seconds = next(seconds for seconds in lengths if axis.seconds / seconds <= MOST_BINS)
    return Bins.of(axis.n_epochs, max(1, round(bin_seconds / axis.epoch_seconds)))


def _bin_words(bins: Bins, axis: EpochAxis) -> str:
    """Return the length of a bin."""
    return duration(bins.width * axis.epoch_seconds)


def lane_name(axis: EpochAxis, y: float, name: str) -> str:
    """Return a name left of the plot."""
    return text_at(axis.frame.left - 8, y, name, font_size=11.5, text_anchor="end", fill=INK)


def blocks(flags: Mask, axis: EpochAxis, y: float, height: float) -> str:
    """Return a path with a block for each run of flags, wide enough to be visible."""
    return "".join(
        f"M{axis.x(first):.1f} {y:.1f}"
        f"h{max(axis.x(end) - axis.x(first), 0.8):.1f}v{height:g}"
        f"H{axis.x(first):.1f}z"
        for first, end, flag in runs(flags)
        if flag
    )


def changed_lane(changed: Mask, axis: EpochAxis, y: float) -> tuple[list[str], float]:
    """Draw changed epochs as black marks, or their share in each bin; return the parts and the height."""
    if (bins := bins_of(axis)) is not None:
        shares = bins.means(changed)
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
        if 0 <= mark.epoch < axis.n_epochs:
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
    name = shorten(lane.name, 22)
    if (bins := bins_of(axis)) is not None:
        counts = bins.counts(lane.begins)
        return list(_density(name, counts, f"to {counts.max():.0f}", bins, axis, y)), DENSITY_LANE
    parts = [lane_name(axis, y + 9, name), rect(axis.frame.left, y, axis.frame.plot, LANE, PANEL)]
    path = []
    for begins, lasts in zip(lane.begins.tolist(), lane.lasts.tolist(), strict=True):
        first, end = max(begins, 0), min(begins + lasts, axis.n_epochs)
        if end >= 0 and first < axis.n_epochs:
            width = max(axis.x(end) - axis.x(first), 0.8)
            path.append(f"M{axis.x(first):.1f} {y + 1:.1f}h{width:.1f}v9h{-width:.1f}z")
    parts.append(f'<path d="{"".join(path)}" fill="{INK}"/>')
    return parts, LANE


def _density(name: str, values: Floats, most: str, bins: Bins, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw the value of each bin as a column; the largest is as high as the lane."""
    yield lane_name(axis, y + 9, name)
    if values.max() == 0:
        most = "none"
    per = "" if most == "none" else f" in {_bin_words(bins, axis)}"
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
    source = "of the stager" if bins is None else f"mean of {_bin_words(bins, axis)}"
    yield text_at(axis.frame.name_left, y + 32, source, font_size=11, fill=GREY)
    has_evidence = ~np.isnan(probabilities[:, 0])
    yield from share_strip(
        np.where(has_evidence[:, None], probabilities, 0.0), has_evidence, scheme, bins, axis, y
    )


def share_strip(
    values: npt.NDArray[Any],
    has_evidence: Mask,
    scheme: StageScheme,
    bins: Bins | None,
    axis: EpochAxis,
    y: float,
) -> Iterator[str]:
    """Draw the mean share of each stage in bins, else in epochs, stacked; grey where no epoch is known."""
    bins = bins or Bins.of(axis.n_epochs, 1)
    counts = bins.sums(has_evidence)
    shares = bins.sums(values) / np.maximum(counts, 1)[:, None]
    for start, end, has_some in runs(counts > 0):
        if not has_some:
            left, right = axis.x(int(bins.edges[start])), axis.x(int(bins.edges[end]))
            yield rect(left, y, right - left, STRIP_HEIGHT, GAP)
    order = top_down(scheme)[::-1]
    roofs = np.cumsum(shares[:, order], axis=1)
    yield from _stack(roofs, [colour_of(scheme, stage) for stage in order], bins.edges, axis, y, STRIP_HEIGHT)


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
    bins = bins_of(axis) or Bins.of(axis.n_epochs, 1)
    yield from _stack(bins.means(lost)[:, None], [GREY], bins.edges, axis, y, DENSITY_LANE)


def lights(moments: Sequence[tuple[float, str]], axis: EpochAxis, top: float, y: float) -> Iterator[str]:
    """Draw lights off and lights on as lines across the whole picture."""
    for epoch, text in moments:
        if 0 <= epoch <= axis.n_epochs:
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
    turns = np.arange(-(-zeitgeber // HALF_DAY), (zeitgeber + axis.n_epochs * axis.epoch_seconds) / HALF_DAY)
    edges = [0, *((turns * HALF_DAY - zeitgeber) / axis.epoch_seconds).tolist(), axis.n_epochs]
    for first, stop in pairwise(edges):
        left, right = axis.x(max(first, 0)), axis.x(min(stop, axis.n_epochs))
        if right > left:
            middle = (max(first, 0) + min(stop, axis.n_epochs)) / 2 * axis.epoch_seconds
            is_dark = (middle + zeitgeber) % (2 * HALF_DAY) >= HALF_DAY
            fill = UNLIT if is_dark else LIT
            yield rect(left, y, right - left, 10, fill, stroke=GREY, stroke_width=1)


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
    axis = axis_of(decoding.hypnogram, FILE_FRAME)
    parts = [
        text_at(24, 36, shorten(headline, 80), font_size=22, font_weight=600),
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
    compared = f"the {expert_name(expert)}'s stages, " if expert is not None else ""
    untimed = "the stages without the clock, " if decoding.removed_bouts else ""
    shown = f"{compared}the stager's most probable stages, {untimed}the decoded stages, changed epochs and "
    description = f"From top to bottom: {shown}stage probabilities. {_subtitle(decoding)}."
    title = "Hypnogram before and after decoding"
    return inline_svg(picture, axis_of(decoding.hypnogram), title, description), picture


def inline_svg(
    picture: HypnogramPicture, axis: EpochAxis, title: str, description: str, name: str = "hypnogram"
) -> str:
    """Return a picture that is as wide as the page around it; its ids begin with `name`."""
    parts, y = draw_night(picture, axis, 16.0 if picture.lights else 4.0)
    parts += _legend(picture, axis.frame, y + 18)
    return document(title, description, parts, (axis.frame.width, y + 28), inline=name)


def night_picture(decoding: Decoding, expert: Hypnogram | None) -> HypnogramPicture:
    """Return the data of a picture: the expert's panel first, then before and after.

    Where the clock removed early REM that a person should look at, the night without it is shown, too.
    """
    night = decoding.hypnogram
    panels = [
        panel_of("Stager", hypnogram_before(decoding), expert, shows_changes=True),
        panel_of("Guarded", night, expert, shows_changes=True),
    ]
    if decoding.removed_bouts:
        panels.insert(1, panel_of("No clock", replace(night, labels=without_clock(decoding)), expert))
    if expert is not None:
        panels.insert(0, panel_of(expert_name(expert).capitalize(), expert))
    return HypnogramPicture(night.scheme, tuple(panels), decoding.changed, decoding.density.probabilities)


def panel_of(
    name: str, scoring: Hypnogram, expert: Hypnogram | None = None, *, shows_changes: bool = False
) -> HypnogramPanel:
    """Return the panel of a scoring, with its agreement with the expert if there is one."""
    return HypnogramPanel(name, _details(scoring, expert), scoring.labels, scoring.scheme, shows_changes)


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
        name = shorten(name, 12)
        yield rect(x, y - 10, 14, 11, colour)
        yield text_at(x + 19, y, name, font_size=12)
        x += 34 + 8.0 * len(name)
    marked = {mark.kind for mark in picture.marks}
    for kind in (kind for kind in MARKS if kind in marked):
        yield draw_mark(kind, x + 8, y - 4.5)
        yield text_at(x + 17, y, f"{kind} rare event", font_size=12)
        x += 128


def axis_of(night: Night, frame: Frame = PAGE_FRAME, most_epochs: int = MOST_EPOCHS_DRAWN) -> EpochAxis:
    """Return the time axis of a whole night, which is drawn in bins if it has more epochs than that."""
    times = night.epoch_seconds, night.start, night.offset_seconds
    return EpochAxis(frame, night.n_epochs, *times, most_epochs)


def _subtitle(decoding: Decoding) -> str:
    counts = f"{decoding.n_changed:,} of {decoding.n_scored:,} scored epochs changed"
    changed = f"{counts} ({100 * decoding.changed_share:.1f} %)"
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
        "n": axis.n_epochs,
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
    assert picture.probabilities is not None and picture.changed is not None
    order = top_down(picture.scheme)[::-1]
    has_evidence = ~np.isnan(picture.probabilities[:, 0])
    roofs = np.cumsum(np.where(has_evidence[:, None], picture.probabilities, 0.0)[:, order], axis=1)
    return {
        "windows": windows,
        "chosen": chosen,
        "first": _window_of_most_changes(picture.changed, chosen),
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


def _window_of_most_changes(changed: Mask, n_epochs: int) -> int:
    """Return the beginning of the window with most changes, among adjacent windows."""
    begins = np.arange(0, len(changed), n_epochs)
    return int(begins[np.add.reduceat(changed, begins, dtype=np.int64).argmax()])


def _ranks(labels: Labels, order: list[int]) -> list[int]:
    """Return rank from the top (-1 where unscored) and length of each run, in one flat list."""
    bouts = bouts_of(labels)
    ranks = np.append(np.argsort(order), -1)[bouts.stages]  # index -1 (unscored) is the last
    pairs: list[int] = np.stack((ranks, bouts.lengths), axis=1).ravel().tolist()
    return pairs


def _levels(values: Floats) -> dict[str, Any]:
    """Return numbers from 0 to 1 as one letter each; of many, the means of neighbours."""
    step = math.ceil(len(values) / MOST_COLUMNS)
    means = Bins.of(len(values), step).means(values)
    letters = LETTERS[np.rint((len(LETTERS) - 1) * np.clip(means, 0, 1)).astype(int)]
    return {"step": step, "levels": letters.tobytes().decode()}
