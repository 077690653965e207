"""Checks of single values that all types share. Knows nothing about stages or profiles."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import inf, isfinite
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from stageguard.errors import InputError, StageGuardError, did_you_mean

Scalar = TypeVar("Scalar", bound=np.generic)


def shown(value: object) -> str:
    """Return a value as it looks in code, on one line and not too long."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def number(
    value: object,
    where: str,
    *,
    low: float = -inf,
    high: float = inf,
    positive: bool = False,
    error: type[StageGuardError] = InputError,
) -> float:
    """Return a finite real number within ``[low, high]`` as float; ``True`` is not a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise error(f"{where} is {shown(value)}, expected a number.")
    try:
        result = float(value) + 0.0  # -0.0 becomes 0.0, so that equal numbers are written alike
    except OverflowError:
        result = inf
    if not isfinite(result):
        raise error(f"{where} is {shown(value)}, expected a finite number.")
    if positive and result <= 0:
        raise error(f"{where} is {shown(value)}, expected a number above 0.")
    if not low <= result <= high:
        raise error(f"{where} is {shown(value)}, expected {_range(low, high)}.")
    return result


def text(value: object, where: str, *, empty: bool = True, error: type[StageGuardError] = InputError) -> str:
    """Return a string that can be written as UTF-8."""
    if not isinstance(value, str):
        raise error(f"{where} is {shown(value)}, expected text in quotes.")
    if not empty and not value.strip():
        raise error(f"{where} is empty, expected a text.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise error(f"{where} is {shown(value)}, which cannot be written as UTF-8.") from None
    return str(value)


def choice(
    value: object, where: str, options: Iterable[str], *, error: type[StageGuardError] = InputError
) -> str:
    """Return a string that is one of the options."""
    options = tuple(options)
    if isinstance(value, str) and value in options:
        return str(value)
    listed = " or ".join(repr(option) for option in options)
    hint = did_you_mean(value, options) if isinstance(value, str) else ""
    raise error(f"{where} is {shown(value)}, expected {listed}.{hint}")


def remarks(value: object) -> tuple[str, ...]:
    """Return remarks on how something was read, as a tuple of texts."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"assumed is {shown(value)}, expected a tuple of texts.")
    return tuple(text(each, "assumed") for each in value)


def epoch_seconds(value: object) -> float:
    """Return an epoch length in seconds."""
    return number(value, "epoch_seconds", low=0.001, high=86_400)


def offset_seconds(value: object) -> float:
    """Return seconds from the beginning of a recording to a night's first epoch as float."""
    return number(value, "offset_seconds", low=0)


def start(value: object) -> None:
    """Check when a recording began."""
    if value is not None and not isinstance(value, datetime):
        raise InputError(f"start is {shown(value)}, expected a datetime or None.")


def frozen_array(array: npt.NDArray[Any], dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Return a read-only C-ordered array nobody else can write to, copying only if that is needed."""
    if (
        array.dtype == dtype
        and array.flags.owndata
        and array.flags.c_contiguous
        and not array.flags.writeable
    ):
        return array
    copy = np.array(array, dtype=dtype, order="C")
    copy.flags.writeable = False
    return copy


def _range(low: float, high: float) -> str:
    if high == inf:
        return f"at least {low:g}"
    return f"at most {high:g}" if low == -inf else f"a number from {low:g} to {high:g}"
