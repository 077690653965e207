"""What is imported when it is first used: libraries of extras, objects of higher layers, public names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from stageguard.errors import MissingExtraError


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


def to_install(extra: str) -> str:
    """Return the command that adds an extra.

    pip keeps the installed stageguard, whether from a clone or from a release, and fetches only the libraries
    of the extra. Double quotes work in every shell, also on Windows.
    """
    return f'pip install "stageguard[{extra}]"'


def library(name: str, what: str, extra: str | None = "recordings") -> Any:
    """Return a module ("scipy.signal") that `what` ("heartbeats from an ECG") needs, or say how to get it.

    `extra` is the extra that installs the module; None for a library that is in no extra.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        command = f"pip install {package}" if extra is None else to_install(extra)
        raise MissingExtraError(f"{what} needs {package!r}. Install with: {command}") from None
