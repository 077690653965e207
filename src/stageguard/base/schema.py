"""Declare the options of a recipe with their checks, and read them from a table. Computes no feature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields, is_dataclass
from math import inf
from numbers import Integral
from types import MappingProxyType
from typing import Any, TypeVar

from stageguard.base import checks
from stageguard.base.errors import InputError, did_you_mean

Table = TypeVar("Table")
Check = Callable[[object, str], Any]


def number(default: float, *, low: float = -inf, high: float = inf, positive: bool = False) -> Any:
    """Declare a number within a range."""
    return _option(
        default,
        lambda value, where: checks.number(value, where, low=low, high=high, positive=positive),
    )


def whole(default: int, *, low: int = 0, high: int = 1_000_000) -> Any:
    """Declare a whole number within a range."""
    return _option(default, lambda value, where: _whole(value, where, low, high))


def flag(default: bool) -> Any:
    """Declare true or false."""
    return _option(default, _flag)


def choice(default: str, *options: str) -> Any:
    """Declare one of some words."""
    return _option(default, lambda value, where: checks.choice(value, where, options))


def words(*default: str) -> Any:
    """Declare a list of words, such as roles of channels."""
    return _option(default, text_list)


def numbers(*default: float, low: float = -inf, high: float = inf) -> Any:
    """Declare a list of numbers within a range."""

    def check(value: object, where: str) -> tuple[float, ...]:
        return _list(
            value,
            where,
            lambda item, at: checks.number(item, at, low=low, high=high),
        )

    return _option(default, check)


def band(low: float, high: float) -> Any:
    """Declare two frequencies in Hz, the lower first."""
    return _option((low, high), _band)


def runs(*default: tuple[float, float, float]) -> Any:
    """Declare runs of bins of one width in Hz: lower end, upper end, width."""
    return _option(default, lambda value, where: _list(value, where, _run))


def bands(default: Mapping[str, tuple[float, float]]) -> Any:
    """Declare named pairs of frequencies in Hz."""
    kept = MappingProxyType(dict(default))
    return field(default_factory=lambda: kept, metadata={"check": _bands})


def shares(default: Mapping[str, float]) -> Any:
    """Declare named shares of a whole; they are used relative to their sum."""
    kept = MappingProxyType(dict(default))
    return field(default_factory=lambda: kept, metadata={"check": _shares})


def table(of: type) -> Any:
    """Declare a table of options of its own, declared by another dataclass."""
    return field(default_factory=of, metadata={"check": lambda value, where: read_options(of, value, where)})


def read_options(of: type[Table], given: object, where: str = "") -> Table:
    """Return a dataclass declared with these options from a mapping; any wrong key or value is an error.

    Parameters
    ----------
    of : type
        A dataclass whose fields were made by the functions above.
    given : mapping
        Options by name; those left out keep their default.
    where : str
        Name of the table, for messages.
    """
    assert is_dataclass(of)
    if not isinstance(given, Mapping):
        raise InputError(f"{where or 'a recipe'} is {checks.shown(given)}, expected a table of options.")
    known = {item.name: item for item in fields(of)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in known:
            advice = did_you_mean(str(key), known) or f" Known: {', '.join(known)}."
            raise InputError(f"unknown key {key!r} in {where or 'a recipe'}.{advice}")
        values[key] = known[key].metadata["check"](value, f"{where}.{key}" if where else str(key))
    return of(**values)


def plain_options(settings: object) -> Any:
    """Return options as TOML types, those left at their default included."""
    if is_dataclass(settings):
        return {item.name: plain_options(getattr(settings, item.name)) for item in fields(settings)}
    if isinstance(settings, Mapping):
        return {str(key): plain_options(value) for key, value in settings.items()}
    if isinstance(settings, tuple | list):
        return [plain_options(value) for value in settings]
    return settings


def text_list(value: object, where: str) -> tuple[str, ...]:
    """Return a list of words as a tuple."""
    return _list(value, where, _text)


def _option(default: Any, check: Check) -> Any:
    return field(default=default, metadata={"check": check})


def _whole(value: object, where: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise InputError(f"{where} is {checks.shown(value)}, expected a whole number from {low} to {high}.")
    return int(value)


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{where} is {checks.shown(value)}, expected true or false.")
    return value


def _text(value: object, where: str) -> str:
    return checks.text(value, where, empty=False)


def _list(value: object, where: str, check: Check) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"{where} is {checks.shown(value)}, expected a list.")
    return tuple(check(item, f"{where}[{place}]") for place, item in enumerate(value))


def _band(value: object, where: str) -> tuple[float, float]:
    pair = _list(value, where, lambda item, at: checks.number(item, at, low=0))
    if len(pair) != 2 or not pair[0] < pair[1]:
        raise InputError(f"{where} is {checks.shown(value)}, expected [lower, upper] in Hz.")
    return pair[0], pair[1]


def _run(value: object, where: str) -> tuple[float, float, float]:
    triple = _list(value, where, lambda item, at: checks.number(item, at, low=0))
    low, high, width = triple if len(triple) == 3 else (0.0, 0.0, 0.0)
    n_bins = (high - low) / width if width else 0.0
    if n_bins < 1 - 1e-6 or abs(n_bins - round(n_bins)) > 1e-6:
        raise InputError(
            f"{where} is {checks.shown(value)}, expected [lower, upper, width] in Hz, of whole widths."
        )
    return low, high, width


def _bands(value: object, where: str) -> Mapping[str, tuple[float, float]]:
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"{where} is {checks.shown(value)}, expected a table of name = [lower, upper].")
    return MappingProxyType({str(key): _band(pair, f"{where}.{key}") for key, pair in value.items()})


def _shares(value: object, where: str) -> Mapping[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise InputError(f"{where} is {checks.shown(value)}, expected a table of stage = share.")
    return MappingProxyType(
        {str(key): checks.number(share, f"{where}.{key}", positive=True) for key, share in value.items()}
    )
