"""Checks of single values: each returns the value, or raises an InputError that says what was expected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from math import inf, isfinite
from numbers import Integral, Number, Real
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from stageguard.errors import InputError, did_you_mean

Scalar = TypeVar("Scalar", bound=np.generic)

# How tables say that a value is missing, in lower case.
MISSING_WORDS = frozenset(("", "n/a", "na", "nan", "nat", "null", "none", ".", "<na>"))


def shown(value: object) -> str:
    """Return a value as it looks in code, on one line and not too long."""
    try:
        line = " ".join(repr(value).split())
    except Exception:  # of somebody else's class, or of a list that is nested too deeply
        line = f"<{type_name(value)}>"
    return line if len(line) <= 80 else f"{line[:77]}..."


def type_name(value: object) -> str:
    """Return an object's name for messages: its package and class."""
    cls = type(value)
    package = cls.__module__.partition(".")[0]
    return cls.__name__ if package == "builtins" else f"{package}.{cls.__name__}"


def names_columns(value: object) -> bool:
    """Whether an object is a table whose columns have names, or a `yasa.Hypnogram` with its probabilities."""
    if type(value) is np.ndarray or isinstance(value, list | tuple):
        return False
    return isinstance(value, Mapping) or any(hasattr(value, name) for name in ("columns", "coords", "proba"))


def array_of(value: object, what: str, reader: str) -> npt.NDArray[Any]:
    """Return plain values as an array; refuse tables, whose column names NumPy ignores, and other objects.

    In messages, `what` names the values, and `reader` the function that reads files and other tools' objects.
    """
    if type(value) is np.ndarray:  # the fast way, for streams that pass row after row
        return value
    if isinstance(value, str | os.PathLike):
        raise InputError(
            f"{what} are a name ({shown(str(value))}), expected numbers. Read the file first: "
            f"sg.{reader}(path)."
        )
    if isinstance(value, Mapping) or hasattr(value, "columns") or hasattr(value, "coords"):
        raise InputError(f"{what} are a {type_name(value)}, expected a plain array: see sg.{reader}(...).")
    if any(hasattr(each, "harden_mask") for each in (value if isinstance(value, list | tuple) else [value])):
        raise InputError(f"{what} are masked, expected a plain array, NaN where a value is missing.")
    if getattr(getattr(value, "index", None), "is_monotonic_increasing", True) is False:  # a pandas series
        raise InputError(f"{what} have an index that does not increase, expected epochs in order.")
    try:
        array = array_of_tensor(value) if hasattr(value, "detach") else np.asanyarray(value)
    except ValueError:
        raise InputError(f"{what} have rows of different lengths, expected an array.") from None
    except (TypeError, RuntimeError) as error:
        raise InputError(f"{what} cannot be read as an array: {' '.join(str(error).split())}") from None
    if array.ndim == 0 and array.dtype == object:
        raise InputError(f"{what} are a {type_name(value)}, expected an array: see sg.{reader}.")
    return array


def array_of_tensor(tensor: Any) -> npt.NDArray[Any]:
    """Return the values of a `torch.Tensor` of any precision, with or without gradients, from any device."""
    plain = tensor.detach().cpu().to_dense()
    values: npt.NDArray[Any] = (plain.double() if plain.is_floating_point() else plain).numpy()
    return values


def n_dimensions(value: object) -> int | None:
    """Return the number of dimensions of an array, nested lists or a single value; None for other objects."""
    if isinstance(value, list | tuple):
        inner = n_dimensions(value[0]) if value else 0
        return None if inner is None else 1 + inner
    n = 0 if isinstance(value, Number | str) else getattr(value, "ndim", None)
    return n if isinstance(n, int) else None


def number(
    value: object, where: str, *, low: float = -inf, high: float = inf, positive: bool = False
) -> float:
    """Return a finite real number within ``[low, high]`` as float; ``True`` is not a number."""
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, Real):
        raise InputError(f"{where} is {shown(value)}, expected a number.")
    try:
        result = float(value) + 0.0  # -0.0 becomes 0.0, so that equal numbers are written alike
    except OverflowError:
        result = inf
    if not isfinite(result):
        raise InputError(f"{where} is {shown(value)}, expected a finite number.")
    if positive and result <= 0:
        raise InputError(f"{where} is {shown(value)}, expected a number above 0.")
    if not low <= result <= high:
        within = f"at most {high:g}" if low == -inf else f"a number from {low:g} to {high:g}"
        within = f"at least {low:g}" if high == inf else within
        raise InputError(f"{where} is {shown(value)}, expected {within}.")
    return result


def text(value: object, where: str, *, empty: bool = True) -> str:
    """Return a string that can be written as UTF-8."""
    if not isinstance(value, str):
        raise InputError(f"{where} is {shown(value)}, expected text in quotes.")
    if not empty and not value.strip():
        raise InputError(f"{where} is empty, expected a text.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} is {shown(value)}, which cannot be written as UTF-8.") from None
    return str(value)


def choice(value: object, where: str, options: Iterable[str]) -> str:
    """Return a string that is one of the options."""
    options = tuple(options)
    if isinstance(value, str) and value in options:
        return str(value)
    listed = " or ".join(repr(option) for option in options)
    hint = did_you_mean(value, options) if isinstance(value, str) else ""
    raise InputError(f"{where} is {shown(value)}, expected {listed}.{hint}")


def whole(value: object, where: str, *, low: float = 0, high: float = inf) -> int:
    """Return a whole number within ``[low, high]``, which may be written as 20.0; ``True`` is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64)
    if not is_whole or not low <= int(cast(Integral, value)) <= high:
        span = "" if low == -inf else f" of at least {low}" if high == inf else f" from {low} to {high}"
        raise InputError(f"{where} is {shown(value)}, expected a whole number{span}.")
    return int(cast(Integral, value))


def count(value: object, where: str, *, low: int = 1, high: float = inf) -> int:
    """Return a whole number of at least 1."""
    return whole(value, where, low=low, high=high)


def flag(value: object, where: str) -> bool:
    """Return a boolean; refuse texts and numbers."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{where} is {shown(value)}, expected true or false.")
    return bool(value)


def stage_names(stages: Any) -> tuple[str, ...]:
    """Return the names of columns, which have an order."""
    is_list = isinstance(stages, Iterable) and not isinstance(stages, str | Mapping | set | Iterator)
    names: list[object] = list(stages) if is_list and not hasattr(stages, "columns") else [None]
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"stages is {shown(stages)}, expected a list of column names such as ['W', 'R'].")
    return tuple(map(str, names))


def items(value: object, where: str, check: Callable[[object, str], Any]) -> tuple[Any, ...]:
    """Return the checked items of a list; a check gets an item and its name, such as ``rare[0]``."""
    if not isinstance(value, list | tuple):
        raise InputError(f"{where} is {shown(value)}, expected a list in square brackets.")
    return tuple(check(item, f"{where}[{index}]") for index, item in enumerate(value))


def mapping(value: object, where: str, known: Iterable[str] | None = None) -> Mapping[str, Any]:
    """Return a mapping whose keys are text and, unless `known` is None, known."""
    if not isinstance(value, Mapping):
        raise InputError(f"{where} is {shown(value)}, expected a table of keys and values.")
    for key in value:
        text(key, f"a key of {where}")
    known_keys(value, where, value if known is None else known)
    return value


def known_keys(given: Iterable[str], where: str, known: Iterable[str]) -> None:
    """Refuse the first unknown key, and suggest the nearest known one."""
    known = tuple(known)
    for key in given:
        if key not in known:
            advice = did_you_mean(key, known) or f" Known: {', '.join(known)}."
            raise InputError(f"unknown key {key!r} in {where}.{advice}")


def epoch_seconds(value: object) -> float:
    """Return an epoch length in seconds."""
    return number(value, "epoch_seconds", low=0.001, high=86_400)


def moment(value: object, where: str) -> datetime | None:
    """Return a date and time, or None."""
    if value is not None and not isinstance(value, datetime):
        raise InputError(f"{where} is {shown(value)}, expected a datetime such as 2024-05-01T22:30:00.")
    return value


def frozen_array(array: npt.NDArray[Any], dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Return a read-only C-ordered array that nobody else can write to; copy only if needed."""
    flags = array.flags
    if array.dtype == dtype and flags.owndata and flags.c_contiguous and not flags.writeable:
        return array
    copy = np.array(array, dtype=dtype, order="C")
    copy.flags.writeable = False
    return copy
