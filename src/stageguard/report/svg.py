"""Small pieces of SVG: safe text, rectangles, runs, and the document around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.night.colours import PAGE, stage_shade
from stageguard.night.stages import StageScheme

INK, GREY, PALE, GAP, PANEL = (PAGE[name].light for name in ("ink", "grey", "line", "gap", "panel"))
FONT = "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def printable(text: str) -> str:
    """Replace characters that a document cannot contain or show: control, surrogate, direction-changing."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def safe(text: str) -> str:
    """Escape markup, and replace control characters, which XML does not allow."""
    return escape(printable(text), quote=True)


def shortened(text: str, length: int) -> str:
    """Cut a text to a length."""
    return text if len(text) <= length else text[: length - 1] + "…"


def text_at(x: float, y: float, text: str, **style: Any) -> str:
    """Return a text element; ``style`` has SVG attributes, with _ for -."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{_attributes(style)}>{safe(text)}</text>'


def rect(x: float, y: float, width: float, height: float, fill: str, **style: Any) -> str:
    """Return a filled rectangle."""
    size = f'width="{width:.2f}" height="{height:.1f}"'
    return f'<rect x="{x:.2f}" y="{y:.1f}" {size} fill="{fill}"{_attributes(style)}/>'


def _attributes(style: Mapping[str, Any]) -> str:
    return "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())


def runs(values: npt.NDArray[Any]) -> Iterator[tuple[int, int, Any]]:
    """Yield start, end and value of each run of equal values."""
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
    """Return an SVG document of escaped parts; title and description are for screen readers.

    `inline` is the prefix of ids in a picture that scales with an HTML page; None makes a file.
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


def colour_of(scheme: StageScheme, stage: int) -> str:
    """Return the colour of a stage on white; pages replace it on dark screens."""
    return stage_shade(scheme, stage).light
