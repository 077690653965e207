"""Equality by value of results, which hold arrays and NaN; a class with a rule of its own keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


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
