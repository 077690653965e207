"""The temperature, and the stage biases, of a stager's probabilities, fitted to scored epochs.

Both maximise the likelihood of the experts' stages (Guo et al. 2017; biases as in vector scaling with one
common temperature). Other biases bring the stages to the experts' totals of wake, NREM and REM. Whether
either helps is left to cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stageguard.arrays import CLIP, Floats, Labels
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Calibration

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.2, 10.0
MOST_EPOCHS = 50_000  # larger sets are thinned evenly to this many: more epochs change no digit that matters
BIAS_RIDGE = 10.0  # nats per squared nat: negligible beside a scored night, decisive for an absent stage
_MOST_STEPS = 50
_SMALL_STEP = 1e-6  # Newton's steps square the error: what is left is a millionth of the last digit written
_LEAST_LOG = -700.0  # stands for log 0: its exponential is practically 0


class ScoredEpochs:
    """Log-probabilities and expert stages of the epochs that have both."""

    def __init__(self, matrices: Sequence[Floats], truths: Sequence[Labels]) -> None:
        rows, stages = np.concatenate(matrices), np.concatenate(truths).astype(np.intp)
        known = (stages >= 0) & ~np.isnan(rows[:, 0])
        stride = max(1, -(-int(np.count_nonzero(known)) // MOST_EPOCHS))
        rows, stages = rows[known][::stride], stages[known][::stride]
        at_truth = rows[np.arange(len(stages)), stages]
        # an epoch whose true stage has probability 0 costs the same at every temperature
        possible = at_truth > CLIP
        self.impossible_share = float(np.mean(~possible)) if len(stages) else 0.0
        with np.errstate(divide="ignore"):  # (n_stages, n_epochs): sums over stages are several times faster
            self.logs = np.maximum(np.log(np.maximum(rows[possible].T, 0.0, order="C")), _LEAST_LOG)
        self.n_of_stage = np.bincount(stages[possible], minlength=len(self.logs)).astype(np.float64)
        self.log_at_truth = float(np.log(at_truth[possible]).sum())


def fit_calibration(epochs: ScoredEpochs, *, biases: bool, start: Calibration | None = None) -> Calibration:
    """Return the likeliest temperature, with or without a bias per stage, given the experts' stages.

    Biases sum to 0. `start` was found on mostly the same nights: Newton's search begins there.
    """
    start, (n_stages, n_epochs) = start or Calibration(), epochs.logs.shape
    at = np.array([*((biases and start.biases) or (0.0,) * n_stages), 1.0 / start.temperature])
    moves = slice(None) if biases else slice(n_stages, None)  # the inverse temperature comes last
    loss, p = _loss(epochs, at)
    for _ in range(_MOST_STEPS if n_epochs else 0):
        gradient, hessian = _derivatives(epochs, at, p)
        step = np.zeros(n_stages + 1)
        step[moves] = np.linalg.solve(hessian[moves, moves], gradient[moves])
        scale = 1.0
        while True:
            tried = at - scale * step
            tried[-1] = min(max(tried[-1], 1.0 / HIGHEST_TEMPERATURE), 1.0 / LOWEST_TEMPERATURE)
            tried_loss, tried_p = _loss(epochs, tried)
            if tried_loss <= loss or scale < 1e-4:
                break
            scale /= 2.0
        if tried_loss > loss:
            break
        moved, at, loss, p = np.abs(tried - at).max(), tried, tried_loss, tried_p
        if moved < _SMALL_STEP:
            break
    found = (at[:-1] - at[:-1].mean()).tolist()
    return Calibration(float(1.0 / at[-1]), tuple(found) if biases else None)


def _derivatives(epochs: ScoredEpochs, at: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Return gradient and Hessian for biases and inverse temperature; `p` are the probabilities of stages."""
    n_stages = len(p)
    weighted = p * epochs.logs
    mean, expected = weighted.sum(axis=0), p.sum(axis=1)
    gradient, hessian = np.empty(n_stages + 1), np.empty((n_stages + 1, n_stages + 1))
    gradient[:-1] = expected - epochs.n_of_stage + BIAS_RIDGE * at[:-1]
    gradient[-1] = mean.sum() - epochs.log_at_truth
    hessian[:-1, :-1] = np.diag(expected + BIAS_RIDGE) - p @ p.T
    hessian[:-1, -1] = hessian[-1, :-1] = weighted.sum(axis=1) - p @ mean
    hessian[-1, -1] = np.vdot(weighted, epochs.logs) - mean @ mean + 1e-9
    return gradient, hessian


def _loss(epochs: ScoredEpochs, at: Floats) -> tuple[float, Floats]:
    """Return the loss, and the probability (n_stages, n_epochs) of every stage."""
    scores = at[-1] * epochs.logs
    scores += at[:-1, None]
    top = scores.max(axis=0, initial=-np.inf)
    scores -= top
    weights = np.exp(scores, out=scores)
    sums = weights.sum(axis=0)
    at_truth = at[-1] * epochs.log_at_truth + epochs.n_of_stage @ at[:-1]
    loss = float((np.log(sums) + top).sum() - at_truth + 0.5 * BIAS_RIDGE * (at[:-1] ** 2).sum())
    return loss, np.divide(weights, sums, out=weights)


MOST_ROUNDS = 12
CLOSE = 0.02  # in the logarithm of a total: ten minutes on a night of 8 h, far below its error
FIRST_STEP = 0.7  # nats of bias per nat of a total: stages move together, so a whole step overshoots
SMALLEST_STEP, LARGEST_STEP = 0.35, 3.0  # bounds of later steps
BORROWED_EPOCHS = 50.0  # so that a stage never scored, or never shown, does not drive a bias to infinity
LARGEST_BIAS_NATS = 3.0


def totals_biases(
    matrices: Sequence[Floats], truths: Sequence[Labels], temperature: float, scheme: StageScheme
) -> tuple[float, ...]:
    """Return the bias per stage at which argmax has the experts' totals of wake, NREM and REM.

    All stages of NREM have the same bias, since a weak stager never shows N1, whatever the bias. Biases sum
    to 0.
    """
    rows, truth = np.concatenate(matrices), np.concatenate(truths)
    known = (truth >= 0) & ~np.isnan(rows[:, 0])
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(rows[known].T, 0.0)).copy() / temperature  # (n_stages, n_known)
    places = {scheme.wake: 0, scheme.rem: 1}
    group = np.array([places.get(name, 2) for name in scheme.names])
    expected = np.bincount(group[truth[known]], minlength=3)
    biases = np.zeros(len(group))
    step, before, moved = np.full(3, FIRST_STEP), np.zeros(3), np.zeros(3)
    for _ in range(MOST_ROUNDS):
        shown = np.bincount(group[(logs + biases[:, None]).argmax(axis=0)], minlength=3)
        short = np.log((expected + BORROWED_EPOCHS) / (shown + BORROWED_EPOCHS))
        if np.abs(short).max() < CLOSE:
            break
        # from the second round on the step per missing nat is what the last move gained, if that is clear
        gained = before - short
        tells = np.abs(gained) > CLOSE / 4.0
        step = np.where(tells, moved / np.where(tells, gained, 1.0), step)
        step = step.clip(SMALLEST_STEP, LARGEST_STEP)
        moved, before = step * short, short
        biases = biases + moved[group]
        biases = np.clip(biases - biases.mean(), -LARGEST_BIAS_NATS, LARGEST_BIAS_NATS)
    return tuple((biases - biases.mean()).tolist())
