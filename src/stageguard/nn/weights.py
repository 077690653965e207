"""Safetensors for the modules of this package, or one line that says how to get it. Writes nothing."""

from __future__ import annotations

from stageguard.nn.missing import missing

try:
    from safetensors import SafetensorError as SafetensorError
    from safetensors import safe_open as safe_open
    from safetensors.torch import load as load
    from safetensors.torch import save as save
except ModuleNotFoundError as error:
    raise missing(error) from None
