"""Run a network over whole recordings at the length it was trained on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from stageguard.base.arrays import CLIP, Floats, Floats32, Ints
from stageguard.nn.feature_table import FeatureTable
from stageguard.nn.normalise import Normalisation
from stageguard.nn.pytorch import Tensor, nn, torch

WINDOWS_AT_A_TIME = 64


def window_starts(n_epochs: int, length: int) -> list[int]:
    """Return first epochs of windows that overlap by half; the last one ends where the recording ends."""
    if n_epochs <= length:
        return [0]
    return [*range(0, n_epochs - length, max(1, length // 2)), n_epochs - length]


@contextlib.contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Run a network in evaluation mode without gradients; afterwards each of its parts is in its own mode."""
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def window_probabilities(network: Callable[[Tensor], Tensor], night: Tensor, *, length: int | None) -> Floats:
    """Stage probabilities of epochs that follow each other.

    Parameters
    ----------
    network : callable
        Maps (batch, epochs, ...) to logits (batch, epochs, stages).
    night : Tensor (n_epochs, ...)
        One unbroken stretch. Without a length it may be laid out in any way the network takes.
    length : int or None
        Epochs the network sees at a time, in windows that overlap by half and are averaged; a shorter
        stretch is padded with zeros. None shows it everything at once. Attention that was trained on
        100 epochs loses its way in a whole night.

    Returns
    -------
    array (n_epochs, n_stages)
        Rows sum to 1.
    """
    if length is None:
        rows: Floats = network(night[None])[0].double().softmax(-1).cpu().numpy()
        return rows
    n_epochs = len(night)
    if n_epochs < length:
        night = torch.cat([night, night.new_zeros(length - n_epochs, *night.shape[1:])])
    starts = window_starts(n_epochs, length)
    total: Floats | None = None
    for k in range(0, len(starts), WINDOWS_AT_A_TIME):
        some = starts[k : k + WINDOWS_AT_A_TIME]
        logits = network(torch.stack([night[start : start + length] for start in some]))
        windows = logits.double().softmax(-1).cpu().numpy()
        if total is None:
            total = np.zeros((len(night), windows.shape[-1]))
        for start, window in zip(some, windows, strict=True):
            total[start : start + length] += window
    assert total is not None
    total = total[:n_epochs]
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def stretch_probabilities(network: nn.Module, features: Floats32, *, length: int | None) -> Floats:
    """Stage probabilities of normalised features (n_epochs, n_frames, n_features), in evaluation mode."""
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    with evaluating(network):
        return window_probabilities(network, torch.from_numpy(features).to(device), length=length)


def table_probabilities(
    network: nn.Module,
    table: FeatureTable,
    normalisation: Normalisation,
    n_stages: int,
    *,
    length: int | None,
) -> Floats:
    """Stage probabilities per row of a table; NaN rows where an epoch has no signal."""
    scaled = normalisation(table)
    result = np.full((table.n_epochs, n_stages), np.nan)
    for a, b in table.stretches():
        result[a:b] = stretch_probabilities(network, scaled[a:b], length=length)
    return result


def soften(probabilities: Floats, temperature: float) -> Floats:
    """Return probabilities to the power 1/temperature, rows summing to 1 again."""
    logs = np.log(np.maximum(probabilities, CLIP)) / temperature
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def best_temperature(probabilities: Floats, labels: Ints, weights: Floats) -> float:
    """Return the temperature with the smallest weighted log-loss, between 1/4 and 4, by golden section."""
    keep = (labels >= 0) & ~np.isnan(probabilities[:, 0])
    chosen, rows = labels[keep], probabilities[keep]
    if not len(chosen):
        return 1.0
    weight = weights[chosen]

    def loss(log_temperature: float) -> float:
        p = soften(rows, float(np.exp(log_temperature)))[np.arange(len(chosen)), chosen]
        return float(-(weight * np.log(np.maximum(p, CLIP))).sum() / weight.sum())

    low, high, ratio = float(np.log(0.25)), float(np.log(4.0)), (5**0.5 - 1) / 2
    while high - low > 1e-3:
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if loss(a) <= loss(b) else (a, high)
    return float(np.exp((low + high) / 2))
