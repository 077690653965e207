"""Run a network over whole recordings in windows of its training length, and score its probabilities."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from stageguard.arrays import CLIP, Floats, Floats32, Ints
from stageguard.errors import StageGuardWarning
from stageguard.guard.decode import decode
from stageguard.measures.agreement import cohen_kappa
from stageguard.nn.pytorch import Tensor, nn, torch
from stageguard.nn.tables import Normalisation
from stageguard.nn.windows import average_windows, soften, stretch_by_stretch
from stageguard.profile.profile import Profile
from stageguard.signals.features import Features


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


def window_probabilities(network: Callable[[Tensor], Tensor], night: Tensor, *, length: int | None) -> Floats:
    """Return stage probabilities (n_epochs, n_stages) of one unbroken stretch (n_epochs, ...).

    The network maps (batch, epochs, ...) to logits. It sees windows of `length` epochs, whose probabilities
    are averaged; a shorter stretch is padded with zeros. With None the network sees the whole stretch at
    once, in any layout that it takes.
    """
    if length is None:
        rows: Floats = network(night[None])[0].double().softmax(-1).cpu().numpy()
        return rows
    n_epochs = len(night)
    if n_epochs < length:
        night = torch.cat([night, night.new_zeros(length - n_epochs, *night.shape[1:])])

    def run(starts: Sequence[int]) -> Floats:
        logits = network(torch.stack([night[start : start + length] for start in starts]))
        windows: Floats = logits.double().softmax(-1).cpu().numpy()
        return windows

    return average_windows(n_epochs, length, run)


def stretch_probabilities(network: nn.Module, features: Floats32, *, length: int | None) -> Floats:
    """Return stage probabilities of normalised features (n_epochs, n_frames, n_features)."""
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    with evaluating(network):
        return window_probabilities(network, torch.from_numpy(features).to(device), length=length)


def table_probabilities(
    network: nn.Module,
    table: Features,
    normalisation: Normalisation,
    n_stages: int,
    *,
    length: int | None,
) -> Floats:
    """Return stage probabilities per row of a table; NaN in epochs without a signal."""
    run = partial(stretch_probabilities, network, length=length)
    return stretch_by_stretch(run, table, normalisation, n_stages)


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


@dataclass(frozen=True, slots=True)
class ValidationScore:
    """Agreement of a network with the expert, over all scored epochs of all recordings."""

    kappa: float
    accuracy: float
    log_loss: float


def score_probabilities(probabilities: Floats, labels: Ints, chosen: Ints | None = None) -> ValidationScore:
    """Score the epochs that have both an expert's stage and probabilities.

    `chosen` replaces the most probable stages. If only one stage occurs on both sides, kappa is 0.
    """
    keep = (labels >= 0) & ~np.isnan(probabilities[:, 0])
    p, y = probabilities[keep], labels[keep]
    if not len(y):
        return ValidationScore(-1.0, 0.0, float("inf"))
    confusion = np.zeros((p.shape[1], p.shape[1]), dtype=np.int64)
    np.add.at(confusion, (y, p.argmax(axis=1) if chosen is None else chosen[keep]), 1)
    loss = float(-np.log(np.maximum(p[np.arange(len(y)), y], CLIP)).mean())
    kappa = cohen_kappa(confusion)
    return ValidationScore(0.0 if np.isnan(kappa) else kappa, float(np.trace(confusion) / len(y)), loss)


@dataclass(frozen=True, slots=True)
class Validation:
    """Validation recordings, and how a network is run on them."""

    tables: Sequence[Features]
    normalisation: Normalisation
    n_stages: int
    length: int | None
    # scores the decoded stages: a network trained with the semi-Markov likelihood relies on the transitions,
    # so that its most probable stages alone say little
    decoder: Profile | None = None
    epoch_seconds: float | None = None

    def score(self, network: nn.Module) -> ValidationScore:
        """Score a network at its current weights."""
        probabilities = self._probabilities(network)
        return score_probabilities(probabilities, self._labels(), self._decode_windows(probabilities))

    def temperature(self, network: nn.Module, stage_weights: Tensor) -> float:
        """Return the network's best temperature, with stages weighted as in training."""
        weights = stage_weights.cpu().numpy().astype(np.float64)
        return best_temperature(self._probabilities(network), self._labels(), weights)

    def _probabilities(self, network: nn.Module) -> Floats:
        scale, n, length = self.normalisation, self.n_stages, self.length
        return np.concatenate(
            [table_probabilities(network, table, scale, n, length=length) for table in self.tables]
        )

    def _decode_windows(self, probabilities: Floats) -> Ints | None:
        if self.decoder is None:
            return None
        nights = np.split(probabilities, np.cumsum([table.n_epochs for table in self.tables])[:-1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)  # early in training these are expected
            starts = [[first for first, _ in table.stretches()][1:] for table in self.tables]
            decoded = decode(nights, self.decoder, segments=starts, epoch_seconds=self.epoch_seconds)
        return np.concatenate([night.hypnogram.labels for night in decoded]).astype(np.int64)

    def _labels(self) -> Ints:
        return np.concatenate([table.labels for table in self.tables if table.labels is not None])
