"""PyTorch for the modules of this package, or one line that says how to get it. Computes nothing."""

from __future__ import annotations

from stageguard.nn.missing import missing

try:
    import torch as torch
    from torch import Tensor as Tensor
    from torch import nn as nn
    from torch.nn import functional as functional
except ModuleNotFoundError as error:
    raise missing(error) from None
