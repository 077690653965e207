"""How results are shown in a notebook."""

from __future__ import annotations

from collections.abc import Callable

from stageguard.base.lazy import load


class ShownInNotebooks:
    """A result that a notebook shows as a table, which `report.notebook` makes."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        html_of: Callable[[object], str] = load("report.notebook:html_of")
        return html_of(self)
