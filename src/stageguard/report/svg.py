"""Small pieces of SVG: safe text, paths, runs, the document around them, and the colours of stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.night.stages import StageScheme, canonical_name

INK, GREY, PALE, GAP = "#22262B", "#626972", "#E4E7EA", "#E9EBEE"
FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def printable(text: str) -> str:
    """Replace what a document cannot hold or show: control, surrogate and direction-changing characters."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def safe(text: str) -> str:
    """Escape markup, and drop the control characters XML cannot hold."""
    return escape(printable(text), quote=True)


def shortened(text: str, length: int) -> str:
    """Cut a text that is too long for its place."""
    return text if len(text) <= length else text[: length - 1] + "…"


def text_at(x: float, y: float, text: str, **style: Any) -> str:
    """Return a text element; style is SVG attributes, with _ for -."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{_attributes(style)}>{safe(text)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, **style: Any) -> str:
    """Return a filled rectangle."""
    size = f'width="{width:.2f}" height="{height:.1f}"'
    return f'<rect x="{x:.2f}" y="{y:.1f}" {size} fill="{fill}"{_attributes(style)}/>'


def _attributes(style: Mapping[str, Any]) -> str:
    return "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())


def runs(values: npt.NDArray[Any]) -> Iterator[tuple[int, int, Any]]:
    """Start, end and value of each run of equal values."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    for start, end in pairwise([0, *edges.tolist(), len(values)]):
        yield start, end, values[start]


def document(
    title: str,
    description: str,
    parts: Sequence[str],
    size: tuple[float, float],
    *,
    inline: str | None = None,
) -> str:
    """Return the picture around its parts, which are escaped already; a screen reader says the other texts.

    `inline` is the prefix of the ids of a picture that scales with an HTML page; without, it is a file.
    """
    width, height = (f"{length:.0f}" for length in size)
    if inline is None:
        opening = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ids = ("", "")
    else:
        opening = f'width="100%" aria-labelledby="{inline}-title {inline}-desc"'
        ids = (f' id="{inline}-title"', f' id="{inline}-desc"')
    return (
        f'<svg {opening} viewBox="0 0 {width} {height}" role="img" font-family="{FONT}" fill="{INK}">\n'
        f"<title{ids[0]}>{safe(title)}</title>\n<desc{ids[1]}>{safe(description)}</desc>\n"
        + ('<rect width="100%" height="100%" fill="#FFFFFF"/>\n' if inline is None else "")
        + "\n".join(parts)
        + "\n</svg>\n"
    )


# Tol's high-contrast set (ochre, rose, blue) with lighter blues for lighter sleep: told apart by
# colour-blind readers and in grey, where depth of sleep reads as darkness.
COLOURS = {"W": "#DDAA33", "R": "#BB5566", "N1": "#9CCBEA", "N2": "#4A90C2", "N3": "#004488", "N": "#2F76B0",
           "S": "#2F76B0"}  # fmt: skip
SPARE_COLOURS = ("#66A182", "#8A6FB0", "#7F7F7F", "#B07AA1", "#59A14F")
TOP_DOWN = ("W", "R", "S", "N", "N1", "N2", "N3")


def top_down(scheme: StageScheme) -> list[int]:
    """Stages from top to bottom: wake, REM, then ever deeper sleep; unknown names keep their order below."""
    rank_of = {name: rank for rank, name in enumerate(TOP_DOWN)}
    return sorted(
        range(scheme.n_stages),
        key=lambda i: rank_of.get(canonical_name(scheme.names[i]) or "", len(rank_of) + i),
    )


def colour_of(scheme: StageScheme, stage: int) -> str:
    """Colour of a stage; stages without a known name get a spare one."""
    known = COLOURS.get(canonical_name(scheme.names[stage]) or "")
    return known or SPARE_COLOURS[stage % len(SPARE_COLOURS)]
