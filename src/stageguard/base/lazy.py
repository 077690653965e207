"""Objects by name, imported when they are first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """Return an object of this package by ``"module:object"``, as in ``"guard.decode:decode"``."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"stageguard.{module}"), attribute)
