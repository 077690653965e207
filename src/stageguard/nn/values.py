"""Checks of single options that networks and training share."""

from __future__ import annotations

from stageguard.base import checks
from stageguard.base.errors import InputError


def whole(value: object, where: str, *, low: int = 1, high: int | None = None) -> int:
    """Return a whole number from ``low`` to ``high``; 20.0 is one, too."""
    number = checks.number(value, where)
    if number != int(number):
        raise InputError(f"{where} is {checks.shown(value)}, expected a whole number.")
    if number < low or (high is not None and number > high):
        wanted = f"at least {low:,}" if high is None else f"a number from {low:,} to {high:,}"
        raise InputError(f"{where} is {checks.shown(value)}, expected {wanted}.")
    return int(number)


def flag(value: object, where: str) -> bool:
    """Return True or False; a text or a number is neither."""
    if not isinstance(value, bool):
        raise InputError(f"{where} is {checks.shown(value)}, expected true or false.")
    return value
