"""Objects of higher layers and public names, imported by name when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """Return an object of this package by ``"module:object"``, as in ``"guard.decode:decode"``."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"stageguard.{module}"), attribute)


def public_names(package: str, public: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Return the ``__getattr__`` of a package and its public names, each imported when it is first used.

    `public` maps modules to their public names, separated by spaces.
    """
    homes = {name: module for module, names in public.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = load(f"{homes[name]}:{name}")
        setattr(sys.modules[package], name, value)
        return value

    return find, sorted(homes)


class ShownInNotebooks:
    """A result that a notebook shows as a table, which `report.notebook` makes."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        html_of: Callable[[object], str] = load("report.notebook:html_of")
        return html_of(self)
