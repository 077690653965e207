"""Fit the temperature, and the stage biases, of a stager's probabilities to scored epochs. Chooses nothing.

Both maximise the likelihood of the experts' stages (Guo et al. 2017; biases as in vector scaling with one
common temperature). Likelihood does not tell whether biases help: that is left to cross-validated kappa.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stageguard._profile_parts import Calibration
from stageguard.evidence import CLIP, Floats

Labels = npt.NDArray[np.int8]

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.2, 10.0
MOST_EPOCHS = 50_000  # as many are taken, evenly spread, from larger sets: more change no digit that matters
BIAS_RIDGE = 10.0  # nats per squared nat: negligible beside a scored night, decisive for an absent stage
_MOST_STEPS = 50
_SMALL_STEP = 1e-8
_LEAST_LOG = -700.0  # what stands for log 0: its exponential is a zero


class ScoredEpochs:
    """Log-probabilities and expert stages of the epochs that have both."""

    def __init__(self, matrices: Sequence[Floats], truths: Sequence[Labels]) -> None:
        chosen = [_scored(matrix, truth) for matrix, truth in zip(matrices, truths, strict=True)]
        probabilities = np.concatenate([rows for rows, _ in chosen])
        stages = np.concatenate([stages for _, stages in chosen]).astype(np.intp)
        stride = max(1, -(-len(stages) // MOST_EPOCHS))
        probabilities, stages = probabilities[::stride], stages[::stride]
        at_truth = probabilities[np.arange(len(stages)), stages]
        # An epoch whose true stage has probability 0 costs the same at every temperature.
        possible = at_truth > CLIP
        self.n_impossible, self.n_epochs = int(np.count_nonzero(~possible)), len(stages)
        with np.errstate(divide="ignore"):  # (n_stages, n_epochs): sums over stages are several times faster
            self.logs = np.maximum(np.log(np.maximum(probabilities[possible].T, 0.0, order="C")), _LEAST_LOG)
        self.stages = stages[possible]
        self.inverse_temperature = _inverse_temperature(self.logs, self.stages)

    @property
    def impossible_share(self) -> float:
        """Share of scored epochs whose true stage was given probability 0."""
        return self.n_impossible / self.n_epochs if self.n_epochs else 0.0


def fit_temperature(epochs: ScoredEpochs) -> Calibration:
    """Return the temperature under which the experts' stages are most likely."""
    return Calibration(1.0 / epochs.inverse_temperature)


def fit_biases(epochs: ScoredEpochs) -> Calibration:
    """Return temperature and one bias per stage, together the most likely; they sum to 0."""
    n_stages, n_epochs = epochs.logs.shape
    if not n_epochs:
        return Calibration(1.0, (0.0,) * n_stages)
    one_hot = (epochs.stages == np.arange(n_stages)[:, None]).astype(np.float64)
    found = np.zeros(n_stages + 1)  # biases, then the inverse temperature
    found[-1] = epochs.inverse_temperature
    loss = _loss(epochs.logs, epochs.stages, found)
    for _ in range(_MOST_STEPS):
        step = _newton_step(epochs.logs, one_hot, found)
        scale = 1.0
        while True:
            tried = found - scale * step
            tried[-1] = np.clip(tried[-1], 1.0 / HIGHEST_TEMPERATURE, 1.0 / LOWEST_TEMPERATURE)
            own = _loss(epochs.logs, epochs.stages, tried)
            if own <= loss or scale < 1e-4:
                break
            scale /= 2.0
        if own > loss:
            break
        converged = np.abs(tried - found).max() < _SMALL_STEP
        found, loss = tried, own
        if converged:
            break
    biases = found[:-1] - found[:-1].mean()
    return Calibration(float(1.0 / found[-1]), tuple(biases.tolist()))


def _scored(matrix: Floats, truth: Labels) -> tuple[Floats, Labels]:
    both = (truth >= 0) & ~np.isnan(matrix[:, 0])
    return matrix[both], truth[both]


def _inverse_temperature(logs: Floats, stages: npt.NDArray[np.intp]) -> float:
    """Find the one number by Newton's method, within bounds; the loss is convex in it."""
    low, high = 1.0 / HIGHEST_TEMPERATURE, 1.0 / LOWEST_TEMPERATURE
    if not len(stages):
        return 1.0
    at_truth = logs[stages, np.arange(len(stages))]
    found = 1.0
    for _ in range(_MOST_STEPS):
        p = _softmax(found * logs)
        mean = (p * logs).sum(axis=0)
        slope = float((mean - at_truth).sum())
        curvature = float((p * (logs - mean) ** 2).sum())
        # where the slope leads out of the bracket, halving it is safe
        low, high = (found, high) if slope < 0 else (low, found)
        tried = found - slope / curvature if curvature > 0 else np.nan
        if not low < tried < high:
            tried = (low + high) / 2.0
        if abs(tried - found) < _SMALL_STEP:
            return float(tried)
        found = tried
    return float(found)


def _newton_step(logs: Floats, one_hot: Floats, at: Floats) -> Floats:
    """Return the Newton step for biases and inverse temperature."""
    p = _softmax(at[-1] * logs + at[:-1, None])  # (n_stages, n_epochs)
    weighted = p * logs
    mean = weighted.sum(axis=0)
    n_stages = len(logs)
    gradient = np.empty(n_stages + 1)
    gradient[:-1] = (p - one_hot).sum(axis=1) + BIAS_RIDGE * at[:-1]
    gradient[-1] = mean.sum() - (one_hot * logs).sum()
    hessian = np.empty((n_stages + 1, n_stages + 1))
    hessian[:-1, :-1] = np.diag(p.sum(axis=1) + BIAS_RIDGE) - p @ p.T
    hessian[:-1, -1] = hessian[-1, :-1] = weighted.sum(axis=1) - p @ mean
    hessian[-1, -1] = (weighted * logs).sum() - (mean * mean).sum() + 1e-9
    return np.asarray(np.linalg.solve(hessian, gradient))


def _loss(logs: Floats, stages: npt.NDArray[np.intp], at: Floats) -> float:
    scores = at[-1] * logs + at[:-1, None]
    top = scores.max(axis=0)
    total = np.log(np.exp(scores - top).sum(axis=0)) + top
    own = scores[stages, np.arange(len(stages))]
    return float((total - own).sum() + 0.5 * BIAS_RIDGE * (at[:-1] ** 2).sum())


def _softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))
