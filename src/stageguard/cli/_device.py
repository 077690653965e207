"""Where networks compute, as `train` and `predict` take it. Declares it only."""

from __future__ import annotations

from enum import StrEnum


class Device(StrEnum):
    """The devices torch is asked for."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
