"""A night before and after decoding as SVG: a file, or a picture of a page.

From top to bottom: hypnograms, then narrow lanes of changes, cycles, events, probabilities and quality.
For long recordings, a lane shows the share or the number in each bin instead of single epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Indices, Labels, Mask
from stageguard.formats.night import Event
from stageguard.guard.decode import without_clock
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import hypnogram_before
from stageguard.night.colours import PAGE, top_down
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import StageScheme
from stageguard.night.timing import Night
from stageguard.report.numbers import count
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
    rect,
    runs,
    shorten,
    text_at,
)

STRIP_HEIGHT = 64.0
LEVELS = 128  # steps of height in a stack: half a pixel each
LANE, DENSITY_LANE = 11.0, 20.0
LANE_HEIGHT = {2: 30.0, 3: 25.0}  # of a stage in a hypnogram, by their number
MOST_EVENT_LANES = 6
HALF_DAY = 43200.0  # s: 12 h of light and 12 h of darkness
LIT, UNLIT, TINT, RISER = (PAGE[name].light for name in ("lit", "unlit", "tint", "riser"))
MARKS = {"kept": "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", "lost": "m-3.4 -3.4l6.8 6.8m0 -6.8l-6.8 6.8",
         "new": "m-4.2 0h8.4m-4.2 -4.2v8.4"}  # fmt: skip
FILE_FRAME = Frame(width=1200.0, left=186.0, right=30.0, name_left=24.0)
PAGE_FRAME = Frame(width=980.0, left=158.0, right=20.0)
SYNTHETIC = "synthetic"  # scorer of a simulated night, whose true stages are known

Lane = tuple[float, Callable[[float], Iterable[str]]]  # distance to the next lane, and its parts at a height


class Mark(NamedTuple):
    """A rare event at an epoch; `kind` is kept, lost or new."""

    epoch: int
    kind: str


class EventLane(NamedTuple):
    """Annotations of one name: the beginning and duration of each, in epochs of the night."""

    name: str
    begins: npt.NDArray[Any]
    lasts: npt.NDArray[Any]


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


# What is drawn


def hypnogram_svg(decoding: Decoding, expert: Hypnogram | None = None, title: str | None = None) -> str:
    """Return a picture of a night as SVG text: expert, before, after, changed epochs and probabilities.

    The expert's scoring must have the same length, and the same scheme or a coarser one. The default title is
    the source of the probabilities.
    """
    headline = title if title is not None else (decoding.source or "Hypnogram")
    picture, subtitle = night_picture(decoding, expert), _subtitle(decoding)
    drawn, y = _draw_night(picture, axis_of(decoding.hypnogram, FILE_FRAME), 84.0)
    review = "A trained scorer must review this before any clinical decision."
    right = FILE_FRAME.width - FILE_FRAME.right
    parts = [
        text_at(24, 36, shorten(headline, 80), font_size=22, font_weight=600),
        text_at(24, 58, subtitle, font_size=13.5, fill=GREY),
        *drawn,
        *_legend(picture, FILE_FRAME, y + 26),
        text_at(right, y + 26, review, font_size=11, text_anchor="end", fill=GREY),
    ]
    return document(headline, subtitle, parts, (FILE_FRAME.width, y + 38))


def page_picture(decoding: Decoding, expert: Hypnogram | None = None, **drawn: Any) -> str:
    """Return the SVG of a night for an HTML page; `drawn` are further fields of its data."""
    picture = replace(night_picture(decoding, expert), **drawn)
    names = ", ".join(panel.name for panel in picture.panels)
    description = f"From top to bottom: {names}, changed epochs, probabilities. {_subtitle(decoding)}."
    return inline_svg(
        picture, axis_of(decoding.hypnogram), "Hypnogram before and after decoding", description
    )


def inline_svg(
    picture: HypnogramPicture, axis: EpochAxis, title: str, description: str, name: str = "hypnogram"
) -> str:
    """Return a picture that is as wide as the page around it; its ids begin with `name`."""
    parts, y = _draw_night(picture, axis, 16.0 if picture.lights else 4.0)
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
    labels = scoring.labels
    changed = (labels[1:] != labels[:-1]) & (labels[1:] >= 0) & (labels[:-1] >= 0)
    details = [count(int(np.count_nonzero(changed)), "stage change")]
    if expert is not None:
        merged = scoring.merge(expert.scheme).labels
        both = (merged >= 0) & (expert.labels >= 0)
        if both.any():
            share = 100 * np.mean(merged[both] == expert.labels[both])
            details.append(f"{share:.1f} % as the {expert_name(expert)}")
    return HypnogramPanel(name, tuple(details), labels, scoring.scheme, shows_changes)


def expert_name(expert: Hypnogram) -> str:
    """Return the name of a scoring to compare with: "truth" for a simulated night, else "expert"."""
    return "truth" if expert.scorer == SYNTHETIC else "expert"


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


def axis_of(night: Night, frame: Frame = PAGE_FRAME, most_epochs: int = MOST_EPOCHS_DRAWN) -> EpochAxis:
    """Return the time axis of a whole night, which is drawn in bins if it has more epochs than that."""
    times = night.epoch_seconds, night.start, night.offset_seconds
    return EpochAxis(frame, night.n_epochs, *times, most_epochs)


def _subtitle(decoding: Decoding) -> str:
    counts = f"{decoding.n_changed:,} of {decoding.n_scored:,} scored epochs changed"
    return f"Profile {decoding.profile.name} · {counts} ({100 * decoding.changed_share:.1f} %)"


# Drawing, lane by lane


def _draw_night(night: HypnogramPicture, axis: EpochAxis, top: float) -> tuple[list[str], float]:
    """Return the elements of a night, and the y position of their lower end."""
    parts: list[str] = []
    y = top
    for height, draw in _lanes(night, axis):
        parts += draw(y)
        y += height
    return [*parts, *draw_axis(axis, top, y), *_lights(night.lights, axis, top, y)], y + 24


def _lanes(night: HypnogramPicture, axis: EpochAxis) -> Iterator[Lane]:
    """Yield what is below each other."""
    narrow, changed = LANE if axis.bins is None else DENSITY_LANE, night.changed
    for panel in night.panels:
        n_stages = panel.scheme.n_stages
        height = LANE_HEIGHT.get(n_stages, 19.0) * n_stages if axis.bins is None else STRIP_HEIGHT
        yield height + 10, partial(_panel, panel, axis, night.changed, height)
        if panel.shows_changes and changed is not None:  # below the first such panel
            yield narrow + 11, partial(_spans, EventLane("changed", *spans_of(changed)), axis, narrow)
            changed = None
    if night.cycles:
        yield 20.0, partial(_cycles, night.cycles, axis)
    if night.marks:
        yield narrow + 11, partial(_marks, night.marks, axis, narrow)
    for lane in night.events:
        yield narrow + 11, partial(_spans, lane, axis, narrow)
    if night.probabilities is not None:
        yield STRIP_HEIGHT + 16, partial(_probabilities, night.probabilities, night.scheme, axis)
    if night.quality is not None:
        yield DENSITY_LANE + 8, partial(_quality, night.quality, axis)
    if night.zeitgeber is not None:
        yield 10.0, partial(_light_cycle, night.zeitgeber, axis)


def _panel(
    panel: HypnogramPanel, axis: EpochAxis, changed: Mask | None, height: float, y: float
) -> Iterator[str]:
    bins, scheme = axis.bins, panel.scheme
    shares = [] if bins is None else [f"shares of {axis.bin_words}"]
    yield from _heading(axis, y, panel.name, *panel.details, *shares)
    if bins is not None:
        of_stage = panel.labels[:, None] == np.arange(scheme.n_stages)
        yield from _share_strip(of_stage, panel.labels >= 0, scheme, axis, y)
        return
    step = height / scheme.n_stages
    middle = {stage: y + step * (rank + 0.5) for rank, stage in enumerate(top_down(scheme))}
    if panel.shows_changes and changed is not None and (tint := _blocks(*spans_of(changed), axis, y, height)):
        yield f'<path d="{tint}" fill="{TINT}"/>'
    for stage, line in middle.items():
        yield f'<path d="M{axis.frame.left:.1f} {line:.1f}h{axis.frame.plot:.1f}" stroke="{PALE}"/>'
        yield _lane_name(axis, line + 4, shorten(scheme.names[stage], 9))
    yield from _bouts(panel, axis, y, height, middle)


def _bouts(
    panel: HypnogramPanel, axis: EpochAxis, y: float, height: float, middle: dict[int, float]
) -> Iterator[str]:
    """Draw each bout as a bar in its stage's lane, joined by thin risers; unscored stretches as blocks."""
    risers: list[str] = []
    bars: dict[int, list[str]] = {stage: [] for stage in middle}
    previous = -1
    for first, end, label in runs(panel.labels):
        left, right, stage = axis.x(first), axis.x(end), int(label)
        if stage < 0:
            yield rect(left, y, right - left, height, GAP)
        else:
            bars[stage].append(f"M{left:.1f} {middle[stage]:.1f}H{right:.1f}")
            if previous >= 0:
                risers.append(f"M{left:.1f} {middle[previous]:.1f}V{middle[stage]:.1f}")
        previous = stage
    if risers:
        width = 0.9 if len(risers) < 500 else 0.35
        yield f'<path d="{"".join(risers)}" stroke="{RISER}" stroke-width="{width}" fill="none"/>'
    thickness = min(9.0, 0.5 * height / len(middle))
    for stage, path in bars.items():
        if path:
            colour = colour_of(panel.scheme, stage)
            yield f'<path d="{"".join(path)}" stroke="{colour}" stroke-width="{thickness:.1f}"/>'


def _heading(axis: EpochAxis, y: float, name: str, *details: str) -> Iterator[str]:
    left = axis.frame.name_left
    yield text_at(left, y + 15, name, font_size=15, font_weight=600)
    for number, detail in enumerate(details):
        yield text_at(left, y + 32 + 15 * number, detail, font_size=11, fill=GREY)


def _lane_name(axis: EpochAxis, y: float, name: str) -> str:
    """Return a name left of the plot."""
    return text_at(axis.frame.left - 8, y, shorten(name, 22), font_size=11.5, text_anchor="end", fill=INK)


def spans_of(flags: Mask) -> tuple[Indices, Indices]:
    """Return the first epoch and the length of each run of flags."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    return edges[::2], edges[1::2] - edges[::2]


def _blocks(
    begins: npt.NDArray[Any], lasts: npt.NDArray[Any], axis: EpochAxis, y: float, height: float
) -> str:
    """Return a path with a block for each span in the night, wide enough to be visible."""
    path = []
    for begin, last in zip(begins.tolist(), lasts.tolist(), strict=True):
        left, right = axis.x(max(begin, 0)), axis.x(min(begin + last, axis.n_epochs))
        path.append(f"M{left:.1f} {y:.1f}h{max(right - left, 0.8):.1f}v{height:g}H{left:.1f}z")
    return "".join(path)


def _spans(lane: EventLane, axis: EpochAxis, height: float, y: float) -> Iterator[str]:
    """Draw spans as blocks, or as columns how many begin in each bin."""
    yield from _ground(lane.name, axis, y, height)
    if (bins := axis.bins) is None:
        if path := _blocks(lane.begins, lane.lasts, axis, y, height):
            yield f'<path d="{path}" fill="{INK}"/>'
        return
    counts = bins.counts(lane.begins)
    most = f"to {counts.max():.0f} in {axis.bin_words}" if counts.any() else "none"
    yield text_at(axis.frame.left - 8, y + 20, most, font_size=9.5, text_anchor="end", fill=GREY)
    yield from _stack(counts[:, None] / max(1.0, counts.max()), [INK], axis, y, height)


def _marks(marks: Sequence[Mark], axis: EpochAxis, height: float, y: float) -> Iterator[str]:
    """Draw rare events as marks, or how many there are in each bin."""
    none = np.empty(0)
    epochs = none if axis.bins is None else np.array([mark.epoch for mark in marks])
    yield from _spans(EventLane("rare events", epochs, none), axis, height, y)
    for kind in MARKS if axis.bins is None else ():
        if places := [axis.x(mark.epoch) for mark in marks if mark.kind == kind]:
            yield _mark_path(kind, places, y + height / 2)


def _mark_path(kind: str, places: Iterable[float], y: float) -> str:
    """Return the marks of one kind of rare events."""
    path = "".join(f"M{x:.1f} {y:.1f}{MARKS[kind]}" for x in places)
    return f'<path d="{path}" fill="{INK if kind == "kept" else "none"}" stroke="{INK}" stroke-width="1.4"/>'


def _ground(name: str, axis: EpochAxis, y: float, height: float) -> Iterator[str]:
    yield _lane_name(axis, y + 9, name)
    yield rect(axis.frame.left, y, axis.frame.plot, height, PANEL)


def _cycles(cycles: Sequence[tuple[int, int]], axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw NREM-REM cycles as brackets with their numbers."""
    yield _lane_name(axis, y + 9, "cycles")
    for number, (first, stop) in enumerate(cycles, start=1):
        left, right = axis.x(first) + 1, axis.x(stop) - 1
        middle = (left + right) / 2
        path = f"M{left:.1f} {y:.1f}v5H{middle - 8:.1f}M{middle + 8:.1f} {y + 5:.1f}H{right:.1f}v-5"
        yield f'<path d="{path}" stroke="{INK}" stroke-width="1" fill="none"/>'
        yield text_at(middle, y + 9, str(number), font_size=11.5, text_anchor="middle")


def _probabilities(probabilities: Floats, scheme: StageScheme, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw stacked stage probabilities, deepest sleep at the bottom; epochs without evidence are grey."""
    source = "of the stager" if axis.bins is None else f"mean of {axis.bin_words}"
    yield from _heading(axis, y + 4, "Probabilities", source)
    has_evidence = ~np.isnan(probabilities[:, 0])
    values = np.where(has_evidence[:, None], probabilities, 0.0)
    yield from _share_strip(values, has_evidence, scheme, axis, y + 4)


def _share_strip(
    values: npt.NDArray[Any], has_evidence: Mask, scheme: StageScheme, axis: EpochAxis, y: float
) -> Iterator[str]:
    """Draw the mean share of each stage in bins, else in epochs, stacked; grey where no epoch is known."""
    bins = axis.bins or Bins.of(axis.n_epochs, 1)
    counts = bins.sums(has_evidence)
    for start, end, has_some in runs(counts > 0):
        if not has_some:
            left, right = axis.x(int(bins.edges[start])), axis.x(int(bins.edges[end]))
            yield rect(left, y, right - left, STRIP_HEIGHT, GAP)
    order = top_down(scheme)[::-1]
    roofs = np.cumsum((bins.sums(values) / np.maximum(counts, 1)[:, None])[:, order], axis=1)
    yield from _stack(roofs, [colour_of(scheme, stage) for stage in order], axis, y, STRIP_HEIGHT)


def _stack(roofs: Floats, colours: Sequence[str], axis: EpochAxis, y: float, height: float) -> Iterator[str]:
    """Draw areas from the bottom up to each bin's roofs (0 to 1); lower areas cover higher ones.

    Paths are in units of epochs and levels, so that a step takes few characters.
    """
    if not (roofs > 0).any():
        return
    edges = (axis.bins or Bins.of(axis.n_epochs, 1)).edges
    scale = f"{axis.frame.plot / axis.n_epochs:.6g} {height / LEVELS:.6g}"
    yield f'<g transform="translate({axis.frame.left:.1f} {y:.1f}) scale({scale})">'
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


def _quality(lost: Floats, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw the lost share of the signal, from none (empty) to all (filled)."""
    yield from _ground("signal lost", axis, y, DENSITY_LANE)
    bins = axis.bins or Bins.of(axis.n_epochs, 1)
    yield from _stack(bins.means(lost)[:, None], [GREY], axis, y, DENSITY_LANE)


def _light_cycle(zeitgeber: float, axis: EpochAxis, y: float) -> Iterator[str]:
    """Draw the light phase as a light bar and the dark phase as a dark one."""
    yield _lane_name(axis, y + 5, "light / dark")
    seconds = axis.epoch_seconds
    begins = np.arange(HALF_DAY - DAY - zeitgeber % DAY, axis.seconds, DAY) / seconds  # of each dark phase
    begins = begins[begins + HALF_DAY / seconds > 0]
    dark = _blocks(begins, np.full(len(begins), HALF_DAY / seconds), axis, y - 4, 10)
    yield rect(axis.frame.left, y - 4, axis.frame.plot, 10, LIT, stroke=GREY, stroke_width=1)
    yield f'<path d="{dark}" fill="{UNLIT}" stroke="{GREY}"/>'


def _lights(moments: Sequence[tuple[float, str]], axis: EpochAxis, top: float, y: float) -> Iterator[str]:
    """Draw lights off and lights on as lines across the whole picture."""
    for epoch, text in moments:
        if 0 <= epoch <= axis.n_epochs:
            x, line = axis.x(epoch), f'stroke="{INK}" stroke-width="1.2" stroke-dasharray="5 3"'
            anchor, shift = ("start", 4) if x < axis.frame.left + axis.frame.plot / 2 else ("end", -4)
            yield f'<path d="M{x:.1f} {top - 12:.1f}V{y:.1f}" {line}/>'
            yield text_at(x + shift, top - 4, text, font_size=11.5, text_anchor=anchor)


def _legend(picture: HypnogramPicture, frame: Frame, y: float) -> Iterator[str]:
    """Draw the legend of colours and marks."""
    scheme = picture.scheme
    entries = [(scheme.names[stage], colour_of(scheme, stage)) for stage in top_down(scheme)]
    known = picture.probabilities
    if any((panel.labels < 0).any() for panel in picture.panels) or (
        known is not None and np.isnan(known).any()
    ):
        entries.append(("no evidence", GAP))
    x = frame.left
    for name, colour in entries:
        name = shorten(name, 12)
        yield rect(x, y - 10, 14, 11, colour)
        yield text_at(x + 19, y, name, font_size=12)
        x += 34 + 8.0 * len(name)
    marked = {mark.kind for mark in picture.marks}
    for kind in (kind for kind in MARKS if kind in marked):
        yield _mark_path(kind, [x + 8], y - 4.5)
        yield text_at(x + 17, y, f"{kind} rare event", font_size=12)
        x += 128


def script_data(axis: EpochAxis) -> dict[str, Any]:
    """Return where a page's script finds each epoch."""
    return {"n": axis.n_epochs, "left": axis.frame.left, "plot": axis.frame.plot, "width": axis.frame.width}
