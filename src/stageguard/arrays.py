"""Array types by what they hold, and the numbers that several layers must agree on."""

from __future__ import annotations

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
