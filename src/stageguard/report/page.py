"""Pages from templates: all text is escaped, nothing is undefined, what cannot be printed is left out."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from stageguard.base.files import read_text
from stageguard.guard.explain import in_bouts
from stageguard.report import numbers
from stageguard.report.svg import printable

if TYPE_CHECKING:
    import jinja2


@cache
def templates() -> jinja2.Environment:
    """Return the templates of every page; what they fill in is escaped and printable."""
    import jinja2

    folder = Path(__file__).with_name("templates")
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: read_text(folder / name, "text")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # pictures are clean
    )
    written = (
        numbers.arrowed,
        numbers.difference,
        numbers.duration,
        numbers.shown,
        numbers.time_of,
        in_bouts,
    )
    made.globals["infinity"] = math.inf
    made.filters |= {write.__name__: write for write in written}
    return made
