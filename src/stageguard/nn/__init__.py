"""Train networks under a profile, with PyTorch: the loss, backbones, and a wrapper for your own network.

Needs the extra: ``pip install "stageguard[torch]"``. torch itself is imported when a name is first used.
"""

from __future__ import annotations

from stageguard.lazy import public_names

# Public names by module. `__init__.pyi` lists the same names for type checkers.
PUBLIC = {
    "nn.backbones": "build_backbone",
    "nn.losses": "LossParts StageGuardLoss TransitionPenalty",
    "nn.model": "TrainedModel load_model",
    "nn.onnx": "OnnxModel export_onnx load_onnx",
    "nn.wrapper": "Guarded",
}
__getattr__, __all__ = public_names(__name__, PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
