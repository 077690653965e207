"""One self-contained SVG of a night before and after decoding. Writes no files and runs no scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stageguard.stages import StageScheme, canonical_name

if TYPE_CHECKING:
    from stageguard.decoded import Decoding
    from stageguard.hypnogram import Hypnogram

# Tol's high-contrast set (ochre, rose, blue) with lighter blues for lighter sleep: told apart by
# colour-blind readers and in grey, where depth of sleep reads as darkness.
COLOURS = {"W": "#DDAA33", "R": "#BB5566", "N1": "#9CCBEA", "N2": "#4A90C2", "N3": "#004488", "N": "#2F76B0",
           "S": "#2F76B0"}  # fmt: skip
SPARE_COLOURS = ("#66A182", "#8A6FB0", "#7F7F7F", "#B07AA1", "#59A14F")
TOP_DOWN = ("W", "R", "S", "N", "N1", "N2", "N3")
INK, GREY, PALE, GAP = "#22262B", "#6B727B", "#E4E7EA", "#E9EBEE"
FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

WIDTH, LEFT, RIGHT = 1200.0, 186.0, 30.0
PLOT = WIDTH - LEFT - RIGHT
LANE_HEIGHT = {2: 30.0, 3: 25.0}
MAX_COLUMNS = 1400  # a strip finer than the pixels it is drawn on only makes the file heavy

Labels = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Axis:
    """Epochs to horizontal places."""

    n_epochs: int
    epoch_seconds: float
    start: datetime | None

    def x(self, epoch: float) -> float:
        """Horizontal place of an epoch's beginning."""
        return LEFT + PLOT * epoch / self.n_epochs


def hypnogram_svg(decoding: Decoding, expert: Hypnogram | None = None, title: str | None = None) -> str:
    """Draw a night as text: expert (if given), before, after, changed epochs and probabilities.

    Parameters
    ----------
    decoding : Decoding
        The night.
    expert : Hypnogram, optional
        A scoring to compare with, of the same scheme and length.
    title : str, optional
        Headline; by default the source of the probabilities.
    """
    hypnogram = decoding.hypnogram
    axis = Axis(hypnogram.n_epochs, hypnogram.epoch_seconds, hypnogram.start)
    scheme = hypnogram.scheme
    changed = np.asarray(decoding.changed)
    density = decoding.density
    headline = title if title is not None else (density.source or "Hypnogram")
    parts = list(_headline(headline, _subtitle(decoding)))
    y = 84.0
    panels = [("Before", decoding.argmax), ("After", hypnogram.labels)]
    if expert is not None:
        panels.insert(0, ("Truth" if expert.scorer == "synthetic" else "Expert", expert.labels))
    top = y
    for name, labels in panels:
        height = LANE_HEIGHT.get(scheme.n_stages, 19.0) * scheme.n_stages
        details = [_changes_text(labels)]
        if expert is not None and labels is not expert.labels:
            details.append(_agreement_text(labels, expert.labels, panels[0][0].lower()))
        parts += _panel(name, details, labels, scheme, axis, y, height)
        y += height + 14
        if name == "Before":
            parts += _changed_lane(changed, axis, y - 4)
            y += 22
    parts += _strip(density.probabilities, scheme, axis, y + 2, 64.0)
    y += 76
    parts += _time_axis(axis, top, y)
    height = y + 62
    parts += _legend(scheme, bool((decoding.argmax < 0).any()), height - 12)
    return _document(headline, _subtitle(decoding), parts, height)


def _document(headline: str, description: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" width="{WIDTH:.0f}" '
        f'height="{height:.0f}" role="img" font-family="{FONT}" fill="{INK}">\n'
        f"<title>{_safe(headline)}</title>\n<desc>{_safe(description)}</desc>\n"
        f'<rect width="100%" height="100%" fill="#FFFFFF"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _safe(text: str) -> str:
    """Escape markup, and drop the control characters XML cannot hold."""
    return escape("".join(c if c.isprintable() else " " for c in text), quote=True)


def _text(x: float, y: float, text: str, **style: Any) -> str:
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{_safe(text)}</text>'


def _headline(title: str, subtitle: str) -> Iterator[str]:
    yield _text(24, 36, title if len(title) <= 80 else title[:79] + "…", font_size=22, font_weight=600)
    yield _text(24, 58, subtitle, font_size=13.5, fill=GREY)


def _subtitle(decoding: Decoding) -> str:
    n_changed, n_scored = int(np.count_nonzero(decoding.changed)), int(np.count_nonzero(decoding.argmax >= 0))
    share = 100 * n_changed / n_scored if n_scored else 0.0
    changed = f"{n_changed:,} of {n_scored:,} scored epochs changed ({share:.1f} %)"
    return f"Profile {decoding.profile.name} · {changed}"


def _changes_text(labels: Labels) -> str:
    both = (labels[1:] >= 0) & (labels[:-1] >= 0)
    n_changes = int(np.count_nonzero((labels[1:] != labels[:-1]) & both))
    return f"{n_changes:,} stage change{'s' * (n_changes != 1)}"


def _agreement_text(labels: Labels, expert: Labels, name: str) -> str:
    both = (labels >= 0) & (expert >= 0)
    return f"{100 * np.mean(labels[both] == expert[both]):.1f} % as the {name}" if both.any() else ""


def _order(scheme: StageScheme) -> list[int]:
    """Stages from top to bottom: wake, REM, then ever deeper sleep; unknown names keep their order below."""
    place = {name: rank for rank, name in enumerate(TOP_DOWN)}
    return sorted(
        range(scheme.n_stages), key=lambda i: place.get(canonical_name(scheme.names[i]) or "", len(place) + i)
    )


def _colour(scheme: StageScheme, stage: int) -> str:
    known = COLOURS.get(canonical_name(scheme.names[stage]) or "")
    return known or SPARE_COLOURS[stage % len(SPARE_COLOURS)]


def _runs(values: npt.NDArray[Any]) -> Iterator[tuple[int, int, Any]]:
    """Start, end and value of each run of equal values."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    bounds = [0, *edges.tolist(), len(values)]
    for start, end in pairwise(bounds):
        yield start, end, values[start]


def _panel(
    name: str,
    details: Sequence[str],
    labels: Labels,
    scheme: StageScheme,
    axis: Axis,
    y: float,
    height: float,
) -> Iterator[str]:
    order = _order(scheme)
    step = height / len(order)
    middle = {stage: y + step * (rank + 0.5) for rank, stage in enumerate(order)}
    yield _text(24, y + 15, name, font_size=15, font_weight=600)
    for number, detail in enumerate(details):
        yield _text(24, y + 32 + 15 * number, detail, font_size=11, fill=GREY)
    for stage, line in middle.items():
        yield f'<path d="M{LEFT:.1f} {line:.1f}h{PLOT:.1f}" stroke="{PALE}" stroke-width="1"/>'
        yield _text(LEFT - 8, line + 4, scheme.names[stage], font_size=11.5, text_anchor="end", fill=INK)
    risers: list[str] = []
    bars: dict[int, list[str]] = {stage: [] for stage in order}
    previous = -1
    for start, end, label in _runs(labels):
        if label >= 0:
            bars[int(label)].append(f"M{axis.x(start):.2f} {middle[int(label)]:.1f}H{axis.x(end):.2f}")
            if previous >= 0:
                risers.append(f"M{axis.x(start):.2f} {middle[previous]:.1f}V{middle[int(label)]:.1f}")
        else:
            yield _gap(axis, start, end, y, height)
        previous = int(label)
    if risers:
        width = 0.9 if len(risers) < 500 else 0.35
        yield f'<path d="{"".join(risers)}" stroke="#9AA1A9" stroke-width="{width}" fill="none"/>'
    thickness = min(9.0, 0.5 * step)
    for stage, path in bars.items():
        if path:
            colour = _colour(scheme, stage)
            yield f'<path d="{"".join(path)}" stroke="{colour}" stroke-width="{thickness:.1f}"/>'


def _gap(axis: Axis, start: int, end: int, y: float, height: float) -> str:
    """Draw an unscored stretch as a grey block."""
    left, right = axis.x(start), axis.x(end)
    return f'<rect x="{left:.2f}" y="{y:.1f}" width="{right - left:.2f}" height="{height:.1f}" fill="{GAP}"/>'


def _changed_lane(changed: npt.NDArray[np.bool_], axis: Axis, y: float) -> Iterator[str]:
    yield _text(LEFT - 8, y + 9, "changed", font_size=11.5, text_anchor="end", fill=INK)
    yield f'<rect x="{LEFT:.1f}" y="{y:.1f}" width="{PLOT:.1f}" height="11" fill="#F6F7F8"/>'
    path = "".join(
        f"M{axis.x(start):.2f} {y:.1f}H{max(axis.x(end), axis.x(start) + 0.8):.2f}v11H{axis.x(start):.2f}z"
        for start, end, flag in _runs(changed)
        if flag
    )
    if path:
        yield f'<path d="{path}" fill="{INK}"/>'


def _strip(
    probabilities: npt.NDArray[np.float64], scheme: StageScheme, axis: Axis, y: float, height: float
) -> Iterator[str]:
    """Stacked stage probabilities, deepest sleep at the bottom; epochs without evidence stay blank."""
    yield _text(24, y + 15, "Probabilities", font_size=15, font_weight=600)
    yield _text(24, y + 32, "of the stager", font_size=11, fill=GREY)
    n_columns = min(axis.n_epochs, MAX_COLUMNS)
    edges = np.linspace(0, axis.n_epochs, n_columns + 1).round().astype(int)
    known = ~np.isnan(probabilities[:, 0])
    sums = np.add.reduceat(np.where(known[:, None], probabilities, 0.0), edges[:-1], axis=0)
    counts = np.add.reduceat(known.astype(float), edges[:-1])
    shares = sums / np.maximum(counts, 1)[:, None]
    order = _order(scheme)[::-1]
    tops = np.cumsum(shares[:, order], axis=1)
    for start, end, has_evidence in _runs(counts > 0):
        if not has_evidence:
            yield _gap(axis, int(edges[start]), int(edges[end]), y, height)
            continue
        floor = np.zeros(end - start)
        for rank, stage in enumerate(order):
            roof = tops[start:end, rank]
            path = _area(axis, edges[start : end + 1], y + height * (1 - floor), y + height * (1 - roof))
            yield f'<path d="{path}" fill="{_colour(scheme, stage)}"/>'
            floor = roof


def _area(axis: Axis, edges: npt.NDArray[Any], floor: npt.NDArray[Any], roof: npt.NDArray[Any]) -> str:
    """Return steps along the roof, then back along the floor."""
    x = [f"{axis.x(edge):.1f}" for edge in edges.tolist()]
    there = "".join(f"V{top:.1f}H{x[i + 1]}" for i, top in enumerate(roof.tolist()))
    back = "".join(f"V{floor[i]:.1f}H{x[i]}" for i in range(len(floor) - 1, -1, -1))
    return f"M{x[0]} {floor[0]:.1f}{there}{back}z"


def _time_axis(axis: Axis, top: float, y: float) -> Iterator[str]:
    seconds = axis.n_epochs * axis.epoch_seconds
    step = next((s for s in (60, 300, 900, 1800, 3600, 7200, 14400, 28800) if seconds / s <= 13), 86400)
    offset = 0.0
    if axis.start is not None:
        clock = axis.start.hour * 3600 + axis.start.minute * 60 + axis.start.second
        offset = -clock % step
    yield f'<path d="M{LEFT:.1f} {y:.1f}h{PLOT:.1f}" stroke="{INK}" stroke-width="1"/>'
    ticks = np.arange(offset, seconds + 1e-6, step)
    for tick in ticks.tolist():
        x = LEFT + PLOT * tick / seconds
        yield f'<path d="M{x:.1f} {top:.1f}V{y:.1f}" stroke="{INK}" stroke-width="0.6" opacity="0.12"/>'
        yield f'<path d="M{x:.1f} {y:.1f}v5" stroke="{INK}" stroke-width="1"/>'
        yield _text(x, y + 19, _tick_text(axis, tick, step), font_size=12, text_anchor="middle")
    unit = "clock time" if axis.start is not None else ("hours" if step >= 1800 else "minutes")
    yield _text(24, y + 19, unit, font_size=12, fill=GREY)


def _tick_text(axis: Axis, seconds: float, step: int) -> str:
    if axis.start is not None:
        return (axis.start + timedelta(seconds=seconds)).strftime("%H:%M")
    return f"{seconds / 3600:g}" if step >= 1800 else f"{seconds / 60:g}"


def _legend(scheme: StageScheme, has_gaps: bool, y: float) -> Iterator[str]:
    entries = [(scheme.names[stage], _colour(scheme, stage)) for stage in _order(scheme)]
    if has_gaps:
        entries.append(("no evidence", GAP))
    x = LEFT
    for name, colour in entries:
        yield f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="14" height="11" fill="{colour}"/>'
        yield _text(x + 19, y, name, font_size=12)
        x += 34 + 8.0 * len(name)
    yield _text(
        WIDTH - RIGHT, y, "A trained scorer must review this before any clinical decision.", font_size=11,
        text_anchor="end", fill=GREY
    )  # fmt: skip
