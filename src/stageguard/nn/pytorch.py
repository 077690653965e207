"""PyTorch for the modules of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from stageguard.extras import library

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
