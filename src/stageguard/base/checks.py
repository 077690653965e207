"""Checks of single values that all types share. Knows nothing about stages or profiles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from math import inf, isfinite
from numbers import Number, Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from stageguard.base.errors import InputError, StageGuardError, did_you_mean

Scalar = TypeVar("Scalar", bound=np.generic)


def shown(value: object) -> str:
    """Return a value as it looks in code, on one line and not too long."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def type_name(value: object) -> str:
    """Return what an object is called in messages: its package and class."""
    cls = type(value)
    package = cls.__module__.partition(".")[0]
    return cls.__name__ if package == "builtins" else f"{package}.{cls.__name__}"


def array_of(value: object, what: str, reader: str) -> npt.NDArray[Any]:
    """Return plain values as an array; refuse a table, whose names NumPy ignores, and what is no array.

    NumPy takes anything with a length for a list and asks it for its items one by one, which may never end.

    Parameters
    ----------
    value : array-like
        An array, a tensor, or nested lists of numbers or names.
    what : str
        What the values are, for the message.
    reader : str
        What reads files, tables and other tools' objects instead, for the message.
    """
    if isinstance(value, str | os.PathLike):
        raise InputError(
            f"{what} are a name ({shown(str(value))}), expected numbers. Read the file first: "
            f"sg.{reader}(path)."
        )
    if isinstance(value, Mapping) or hasattr(value, "columns") or hasattr(value, "coords"):
        raise InputError(
            f"{what} are a {type_name(value)}, which names its columns, expected a plain array. "
            f"Read it by name: sg.{reader}(...)."
        )
    _refuse_opaque(value, what, reader)
    try:
        return np.asanyarray(value)
    except ValueError:
        raise InputError(f"{what} have rows of different lengths, expected an array.") from None
    except (TypeError, RuntimeError) as error:
        raise InputError(f"{what} cannot be read as an array: {' '.join(str(error).split())}") from None


def n_dimensions(value: object) -> int | None:
    """Return how many dimensions an array, nested lists or one value have; None for other objects."""
    if isinstance(value, list | tuple):
        inner = n_dimensions(value[0]) if value else 0
        return None if inner is None else 1 + inner
    n = 0 if isinstance(value, Number | str) else getattr(value, "ndim", None)
    return n if isinstance(n, int) else None


def refuse_unordered(value: object, what: str) -> None:
    """Refuse a series of pandas whose index says that its values are not in the order of time."""
    if getattr(getattr(value, "index", None), "is_monotonic_increasing", True) is False:
        raise InputError(
            f"{what} have an index that does not increase, expected values in the order of epochs. Sort them "
            "(sort_index), or drop the index if they are in order (reset_index(drop=True))."
        )


def _refuse_opaque(value: object, what: str, reader: str) -> None:
    if isinstance(value, list | tuple):
        for each in value:
            if not isinstance(each, float):
                _refuse_opaque(each, what, reader)
    elif not isinstance(value, Number | str | None) and not hasattr(value, "__array__"):
        try:
            memoryview(value)  # type: ignore[arg-type]
        except TypeError:
            raise InputError(
                f"{what} are a {type_name(value)}, expected an array. What other tools hold is read by "
                f"sg.{reader}."
            ) from None


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
