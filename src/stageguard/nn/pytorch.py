"""PyTorch for the modules of this package, and how a network is run on arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from stageguard.arrays import Floats
from stageguard.lazy import library

try:
    import torch as torch
    from torch import Tensor as Tensor
    from torch import nn as nn
    from torch.nn import functional as functional
except ModuleNotFoundError:
    library("torch", "stageguard.nn", "torch")  # raises an error that says how to install it
    raise


@contextlib.contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Run a network in evaluation mode without gradients; restore the mode of each part afterwards."""
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def run_network(network: nn.Module, windows: npt.NDArray[Any]) -> Floats:
    """Return stage probabilities (n, epochs, stages) of windows (n, epochs, ...), from a network's logits."""
    parameter = next(network.parameters(), torch.zeros(()))
    x = torch.from_numpy(windows)
    with evaluating(network):
        logits = network(x.to(parameter) if x.is_floating_point() else x.to(parameter.device))
        rows: Floats = logits.double().softmax(-1).cpu().numpy()
    return rows
