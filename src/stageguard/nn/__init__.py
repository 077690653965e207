"""Train networks under a profile, with PyTorch: losses, backbones, and a wrapper for any network of yours.

Needs the extra: ``pip install 'stageguard[torch]'``. torch itself is imported when a name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stageguard.nn.backbones import build_backbone as build_backbone
    from stageguard.nn.losses import LossParts as LossParts
    from stageguard.nn.losses import StageGuardLoss as StageGuardLoss
    from stageguard.nn.losses import TransitionPenalty as TransitionPenalty
    from stageguard.nn.semi_markov import SemiMarkovLoss as SemiMarkovLoss
    from stageguard.nn.semi_markov import SemiMarkovParts as SemiMarkovParts
    from stageguard.nn.wrapper import Guarded as Guarded

# Public name -> the module it lives in, imported when the name is first used.
_HOMES = {
    "Guarded": "wrapper",
    "LossParts": "losses",
    "SemiMarkovLoss": "semi_markov",
    "SemiMarkovParts": "semi_markov",
    "StageGuardLoss": "losses",
    "TransitionPenalty": "losses",
    "build_backbone": "backbones",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stageguard.nn' has no attribute {name!r}")
    value = getattr(import_module(f"stageguard.nn.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
