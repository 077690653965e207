"""Windows of a network's training length over a recording, and their mean. Without torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stageguard.arrays import CLIP, Floats, Floats32
from stageguard.nn.tables import Normalisation
from stageguard.signals.features import Features

WINDOWS_AT_A_TIME = 64


def window_starts(n_epochs: int, length: int) -> list[int]:
    """Return the first epochs of windows that overlap by half; the last window ends with the recording."""
    if n_epochs <= length:
        return [0]
    return [*range(0, n_epochs - length, max(1, length // 2)), n_epochs - length]


def average_windows(n_epochs: int, length: int, run: Callable[[Sequence[int]], Floats]) -> Floats:
    """Return the mean probabilities (n_epochs, n_stages) of windows that overlap by half.

    `run` maps the first epochs of windows to their probabilities (n_windows, length, n_stages). The reason is
    that attention trained on 100 epochs fails on a whole night.
    """
    starts = window_starts(n_epochs, length)
    total: Floats | None = None
    for k in range(0, len(starts), WINDOWS_AT_A_TIME):
        some = starts[k : k + WINDOWS_AT_A_TIME]
        windows = run(some)
        if total is None:
            total = np.zeros((max(n_epochs, length), windows.shape[-1]))
        for start, window in zip(some, windows, strict=True):
            total[start : start + length] += window
    assert total is not None
    total = total[:n_epochs]
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def stretch_by_stretch(
    run: Callable[[Floats32], Floats], table: Features, normalisation: Normalisation, n_stages: int
) -> Floats:
    """Return stage probabilities per row of a table; NaN in epochs without a signal.

    `run` maps normalised features of an unbroken stretch to its probabilities.
    """
    scaled = normalisation(table)
    result = np.full((table.n_epochs, n_stages), np.nan)
    for a, b in table.stretches():
        result[a:b] = run(scaled[a:b])
    return result


def soften(probabilities: Floats, temperature: float) -> Floats:
    """Return probabilities to the power 1/temperature, with rows that sum to 1 again."""
    logs = np.log(np.maximum(probabilities, CLIP)) / temperature
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
