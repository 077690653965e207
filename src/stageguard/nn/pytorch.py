"""PyTorch for the modules of this package, and warnings that point to the user's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from stageguard.base.errors import StageGuardWarning
from stageguard.base.extras import library

NEEDED_BY, EXTRA = "stageguard.nn", "torch"

try:
    import torch as torch
    from torch import Tensor as Tensor
    from torch import nn as nn
    from torch.nn import functional as functional
except ModuleNotFoundError:
    library("torch", NEEDED_BY, EXTRA)  # raises an error that says how to install it
    raise


F = TypeVar("F", bound=Callable[..., Any])


def outside_graph(method: F) -> F:
    """Mark a method that `torch.compile` leaves alone, as it needs the numbers themselves."""
    disable: Callable[[F], F] = torch.compiler.disable
    return disable(method)


def warn(message: str) -> None:
    """Warn at the nearest line outside this package and torch, however deep the call is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in (
        "stageguard",
        "torch",
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, StageGuardWarning, stacklevel=level)
