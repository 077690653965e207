"""Array types by what they hold, numbers that several layers must agree on, and equality of results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Indices = npt.NDArray[np.intp]
Labels = npt.NDArray[np.int8]  # stages by their index in a scheme, -1 where unscored
Mask = npt.NDArray[np.bool_]

NAN = float("nan")
DAY_SECONDS = 86_400.0
SUM_TOLERANCE = 1e-3  # how far from 1 a row of probabilities may sum; `_core/argmax.hpp` repeats it
ROUNDING = 1e-9  # how far below 0 a probability may lie
CLIP = 1e-12  # smaller probabilities are raised to this before a logarithm is taken

# Range of a product of doubles before it underflows (log 2**1022 = 708), with a margin.
PRODUCT_RANGE_NATS = 690.0


@runtime_checkable
class Array(Protocol):
    """What is an array to type checkers: NumPy's own, and torch's tensors."""

    def __array__(self) -> npt.NDArray[Any]:
        """Return the numbers."""
        ...


class ComparedByValue:
    """A dataclass, made with ``eq=False``, that equals another of its class if all fields hold the same.

    Arrays are equal by content, and NaN, which says that a number does not exist, equals NaN.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Compare the fields that take part in comparisons."""
        return _same_fields(self, other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        """Hash the fields that are texts or whole numbers: arrays, and NaN, have no hash by value."""
        values = (getattr(self, name) for name in _compared(self))
        return hash((type(self), *(value for value in values if isinstance(value, str | int))))


def same_value(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays by content, and NaN to NaN."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        is_float = all(getattr(value, "dtype", np.dtype(bool)).kind == "f" for value in (one, other))
        return np.array_equal(one, other, equal_nan=is_float)
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    if type(one) is not type(other):
        return bool(one == other)
    if is_dataclass(one) and not _has_own_rule(type(one)):
        return _same_fields(one, other)
    if isinstance(one, Mapping) and not isinstance(one, ComparedByValue):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return bool(one == other)


def _has_own_rule(kind: Any) -> bool:
    """Whether a dataclass compares by a method that was written for it."""
    return not kind.__dataclass_params__.eq and kind.__eq__ is not object.__eq__


def _same_fields(one: Any, other: Any) -> bool:
    return all(same_value(getattr(one, name), getattr(other, name)) for name in _compared(one))


def _compared(result: Any) -> list[str]:
    return [field.name for field in fields(result) if field.compare]
