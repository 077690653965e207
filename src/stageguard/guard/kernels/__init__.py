"""Choose the kernels: compiled where they can be imported, else plain NumPy. Does not compute.

`active` has functions over lists of pieces, contiguous float64 matrices of shape (n_epochs, n_stages).
`argmax`, `structured`, `greedy` and `automaton` return all labels as one flat int8 array, then arrays of one
number per piece; `keep_greedy` and `keep_automaton` score paths that are pinned in a region, a row (piece,
first, end) each; `smooth`, `smooth_automaton` and `forward_backward` sum over paths; `draw`,
`draw_automaton` and `draw_each` draw them. `Stream` takes one row at a time.
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import Any

from stageguard.base.errors import StageGuardWarning
from stageguard.guard.kernels import reference

# pip keeps the wheel that it once built without a compiler, and would install it again.
TO_COMPILE = (
    "install a C++17 compiler, then stageguard again: "
    "pip install --force-reinstall --no-cache-dir --no-deps stageguard (in a clone: . instead of stageguard)"
)
active: Any
try:
    active = import_module("stageguard.guard.kernels._core._native")
except ImportError:
    active = reference
    warnings.warn(
        "the compiled core is missing: decoding works, but takes about 100 to 500 times as long. To get it, "
        f"{TO_COMPILE}. `stageguard doctor` tells whether it worked.",
        StageGuardWarning,
        stacklevel=2,
    )


def for_stages(n_stages: int) -> Any:
    """Return kernels that take this many stages: the compiled ones know up to eight."""
    return active if n_stages <= active.MOST_STAGES else reference


def threads_for(n_pieces: int, wanted: int | None = None) -> int:
    """Return how many threads to decode pieces on: by default as many as this process has processors."""
    if n_pieces < 2 or wanted is not None:
        return min(n_pieces, wanted or 1)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(n_pieces, processors)
