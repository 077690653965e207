"""Run a network over whole recordings at the length it was trained on. Trains nothing, decodes nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from stageguard.nn.data import Features, FeatureTable
from stageguard.nn.normalise import Normalisation

Floats = npt.NDArray[np.float64]

WINDOWS_AT_A_TIME = 64


def window_starts(n_epochs: int, length: int, hop: int) -> list[int]:
    """Return first epochs of overlapping windows; the last one ends where the recording ends."""
    if n_epochs <= length:
        return [0]
    return [*range(0, n_epochs - length, hop), n_epochs - length]


def stretch_probabilities(
    network: nn.Module, features: Features, *, length: int | None, hop: int | None = None
) -> Floats:
    """Stage probabilities of epochs that follow each other.

    Parameters
    ----------
    network : Module
        Maps (batch, epochs, frames, features) to logits (batch, epochs, stages); run in evaluation mode.
    features : array (n_epochs, n_frames, n_features)
        Normalised features.
    length : int or None
        Epochs the network sees at a time; None shows it everything at once. Attention that was trained on
        100 epochs loses its way in a whole night.
    hop : int, optional
        Distance of the windows, by default half their length; where they overlap they are averaged.

    Returns
    -------
    array (n_epochs, n_stages)
        Rows sum to 1.
    """
    n_epochs = len(features)
    length = n_epochs if length is None else length
    starts = window_starts(n_epochs, length, hop or max(1, length // 2))
    padded = np.zeros((max(n_epochs, length), *features.shape[1:]), dtype=np.float32)
    padded[:n_epochs] = features
    total: Floats | None = None
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    was_training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            for k in range(0, len(starts), WINDOWS_AT_A_TIME):
                some = starts[k : k + WINDOWS_AT_A_TIME]
                x = torch.from_numpy(np.stack([padded[s : s + length] for s in some])).to(device)
                logits: Tensor = network(x)
                windows = torch.softmax(logits.double(), dim=-1).cpu().numpy()
                if total is None:
                    total = np.zeros((len(padded), windows.shape[-1]))
                for start, window in zip(some, windows, strict=True):
                    total[start : start + length] += window
    finally:
        network.train(was_training)
    assert total is not None
    total = total[:n_epochs]
    return np.asarray(total / total.sum(axis=1, keepdims=True))


def table_probabilities(
    network: nn.Module,
    table: FeatureTable,
    normalisation: Normalisation,
    n_stages: int,
    *,
    length: int | None,
    hop: int | None = None,
) -> Floats:
    """Stage probabilities per row of a table; NaN rows where an epoch has no signal."""
    scaled = normalisation(table)
    result = np.full((table.n_epochs, n_stages), np.nan)
    for a, b in table.stretches():
        result[a:b] = stretch_probabilities(network, scaled[a:b], length=length, hop=hop)
    return result


def soften(probabilities: Floats, temperature: float) -> Floats:
    """Return probabilities to the power 1/temperature, rows summing to 1 again."""
    logs = np.log(np.maximum(probabilities, 1e-12)) / temperature
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def best_temperature(probabilities: Floats, labels: npt.NDArray[np.int64], weights: Floats) -> float:
    """Return the temperature with the smallest weighted log-loss, between 1/4 and 4, by golden section."""
    keep = (labels >= 0) & ~np.isnan(probabilities[:, 0])
    chosen, held = labels[keep], probabilities[keep]
    if not len(chosen):
        return 1.0
    weight = weights[chosen]

    def loss(log_temperature: float) -> float:
        p = soften(held, float(np.exp(log_temperature)))[np.arange(len(chosen)), chosen]
        return float(-(weight * np.log(np.maximum(p, 1e-12))).sum() / weight.sum())

    low, high, ratio = float(np.log(0.25)), float(np.log(4.0)), (5**0.5 - 1) / 2
    while high - low > 1e-3:
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if loss(a) <= loss(b) else (a, high)
    return float(np.exp((low + high) / 2))
