"""Warn where the user's own code is. Decides nothing about what to warn of."""

from __future__ import annotations

import sys
import warnings

from stageguard.base.errors import StageGuardWarning


def warn(message: str) -> None:
    """Warn at the first line outside of this package and of torch, however deep the call began."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in (
        "stageguard",
        "torch",
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, StageGuardWarning, stacklevel=level)
