"""Self-contained pages: they include style and script, and a policy that allows only these two."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stageguard.files import read_text
from stageguard.guard.explain import in_bouts
from stageguard.night.colours import PAGE, SPARE_STAGES, STAGES, css_variables
from stageguard.report import numbers
from stageguard.report.svg import printable
from stageguard.version import __version__

if TYPE_CHECKING:
    import jinja2

FOLDER = Path(__file__).with_name("templates")
FILTERS = (
    numbers.and_list,
    numbers.by_stage,
    numbers.count,
    numbers.difference,
    numbers.duration,
    numbers.num,
    numbers.number_text,
    numbers.time_of,
    numbers.with_arrows,
    in_bouts,
)


def render_page(
    template: str,
    context: Mapping[str, Any],
    *,
    styles: str = "",
    script: str = "",
    saves_pictures: bool = False,
) -> str:
    """Return a page from a template that extends ``page.html.j2``.

    `styles` and `script` name files in the folder of the templates; ``style.css`` is on every page. Texts of
    the context are escaped and made printable. A page that saves its pictures as PNG may show images made by
    its own script; they cannot come from elsewhere.
    """
    from markupsafe import Markup

    sheets = [css_variables(), _read("style.css"), *([_read(styles)] if styles else []), dark_pictures()]
    style, code = "\n".join(sheets), _read(script) if script else ""
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(code)}; "
        f"base-uri 'none'; form-action 'none'{'; img-src data:' if saves_pictures else ''}"
    )
    page = {"style": Markup(style), "script": Markup(code), "policy": policy, "version": __version__}
    return templates().get_template(template).render({**context, **page})


def as_json(data: Any) -> str:
    """Return data as JSON for a page's script; "<" is escaped, so that it cannot end the element."""
    from markupsafe import Markup

    return Markup(json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))


def dark_pictures() -> str:
    """Return CSS rules that replace each light colour of a picture by its dark one on dark screens."""
    shades = {shade.light: shade.dark for shade in (*STAGES.values(), *SPARE_STAGES, *PAGE.values())}
    rules = (
        f'[{what}="{light}"]{{{what}:{dark}}}'
        for light, dark in shades.items()
        for what in ("fill", "stroke")
    )
    return f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}\n"


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _read(name: str) -> str:
    return read_text(FOLDER / name)


@cache
def templates() -> jinja2.Environment:
    """Return the environment of the templates."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,  # pictures are clean
    )
    environment.globals["infinity"] = math.inf
    environment.filters |= {write.__name__: write for write in FILTERS}
    return environment
