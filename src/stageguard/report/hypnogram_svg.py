"""A night before and after decoding as SVG: a file, or a picture for a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stageguard.guard.decoding import without_clock
from stageguard.measures.bouts import hypnogram_before
from stageguard.night.colours import top_down
from stageguard.report.axis import Axis, Frame
from stageguard.report.lanes import MARKS, draw_mark
from stageguard.report.night_panels import NightPicture, Panel, draw_night
from stageguard.report.numbers import count
from stageguard.report.svg import GAP, GREY, colour_of, document, rect, shortened, text_at

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding
    from stageguard.night.hypnogram import Hypnogram

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
) -> tuple[str, NightPicture]:
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


def night_picture(decoding: Decoding, expert: Hypnogram | None) -> NightPicture:
    """Return the data of a picture: the expert's panel first, then before and after.

    Where the clock removed early REM that a person should look at, the night without it is shown, too.
    """
    night = decoding.hypnogram
    panels = [
        Panel("Before", _details(hypnogram_before(decoding), expert), decoding.argmax, night.scheme),
        Panel("After", _details(night, expert), night.labels, night.scheme),
    ]
    if decoding.removed_bouts:
        untimed = replace(night, labels=without_clock(decoding))
        panels.insert(1, Panel("No clock", _details(untimed, expert), untimed.labels, night.scheme))
    if expert is not None:
        name = expert_name(expert).capitalize()
        panels.insert(0, Panel(name, _details(expert), expert.labels, expert.scheme))
    return NightPicture(night.scheme, tuple(panels), decoding.changed, decoding.density.probabilities)


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


def _legend(picture: NightPicture, frame: Frame, y: float) -> Iterator[str]:
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


def axis_of(decoding: Decoding, frame: Frame = PAGE_FRAME) -> Axis:
    """Return the time axis of a whole night."""
    night = decoding.hypnogram
    return Axis(frame, 0, night.n_epochs, night.epoch_seconds, night.start, night.offset_seconds)


def _subtitle(decoding: Decoding) -> str:
    n_changed, n_scored = int(np.count_nonzero(decoding.changed)), int(np.count_nonzero(decoding.argmax >= 0))
    share = 100 * n_changed / n_scored if n_scored else 0.0
    changed = f"{n_changed:,} of {n_scored:,} scored epochs changed ({share:.1f} %)"
    return f"Profile {decoding.profile.name} · {changed}"
