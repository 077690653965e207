"""The temperature, and the stage biases, of a stager's probabilities, fitted to scored epochs.

Both maximise the likelihood of the experts' stages (Guo et al. 2017; biases as in vector scaling with one
common temperature). Likelihood does not tell whether biases help: that is left to cross-validated kappa.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stageguard.arrays import CLIP, Floats, Indices, Labels
from stageguard.fitting.decoder import KeepingSolver, Tempered, decode_biased
from stageguard.fitting.material import FitNight
from stageguard.night.stages import StageScheme
from stageguard.profile.parts import Calibration
from stageguard.profile.profile import Profile

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.2, 10.0
MOST_EPOCHS = 50_000  # larger sets are thinned evenly to this many: more epochs change no digit that matters
BIAS_RIDGE = 10.0  # nats per squared nat: negligible beside a scored night, decisive for an absent stage
_MOST_STEPS = 50
_SMALL_STEP = 1e-6  # Newton's steps square the error: what is left is a millionth of the last digit written
_LEAST_LOG = -700.0  # stands for log 0: its exponential is practically 0


class ScoredEpochs:
    """Log-probabilities and expert stages of the epochs that have both.

    The search for the temperature begins at `start`, which changes no digit that matters.
    """

    def __init__(
        self, matrices: Sequence[Floats], truths: Sequence[Labels], start: Calibration | None = None
    ) -> None:
        chosen = [_scored_rows(matrix, truth) for matrix, truth in zip(matrices, truths, strict=True)]
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
        self.n_of_stage = np.bincount(stages[possible], minlength=len(self.logs)).astype(np.float64)
        self.log_at_truth = float(np.log(at_truth[possible]).sum())
        self.inverse_temperature = _inverse_temperature(self, 1.0 / (start or Calibration()).temperature)

    @property
    def impossible_share(self) -> float:
        """Share of scored epochs whose true stage has probability 0."""
        return self.n_impossible / self.n_epochs if self.n_epochs else 0.0


def fit_temperature(epochs: ScoredEpochs) -> Calibration:
    """Return the temperature under which the experts' stages are most likely."""
    return Calibration(1.0 / epochs.inverse_temperature)


def fit_biases(epochs: ScoredEpochs, start: Calibration | None = None) -> Calibration:
    """Return the temperature and the biases per stage that are most likely together; biases sum to 0.

    The search begins at `start`, found on mostly the same nights.
    """
    n_stages, n_epochs = epochs.logs.shape
    if not n_epochs:
        return Calibration(1.0, (0.0,) * n_stages)
    start = start or fit_temperature(epochs)
    best = np.array([*(start.biases or (0.0,) * n_stages), 1.0 / start.temperature])
    loss, p = _loss(epochs, best)
    for _ in range(_MOST_STEPS):
        step = _newton_step(epochs, best, p)
        if np.abs(step).max() < _SMALL_STEP:
            best = _within_bounds(best - step)
            break
        scale = 1.0
        while True:
            tried = _within_bounds(best - scale * step)
            tried_loss, tried_p = _loss(epochs, tried)
            if tried_loss <= loss or scale < 1e-4:
                break
            scale /= 2.0
        if tried_loss > loss:
            break
        best, loss, p = tried, tried_loss, tried_p
    biases = best[:-1] - best[:-1].mean()
    return Calibration(float(1.0 / best[-1]), tuple(biases.tolist()))


def _scored_rows(matrix: Floats, truth: Labels) -> tuple[Floats, Labels]:
    both = (truth >= 0) & ~np.isnan(matrix[:, 0])
    return matrix[both], truth[both]


def _inverse_temperature(epochs: ScoredEpochs, inverse: float) -> float:
    """Find the inverse temperature by Newton's method, within bounds; the loss is convex in it."""
    low, high = 1.0 / HIGHEST_TEMPERATURE, 1.0 / LOWEST_TEMPERATURE
    logs = epochs.logs
    if not logs.size:
        return 1.0
    for _ in range(_MOST_STEPS):
        p = _softmax(inverse * logs)
        p *= logs
        mean = p.sum(axis=0)
        slope = float(mean.sum()) - epochs.log_at_truth
        curvature = float(_inner(p, logs) - _inner(mean, mean))
        # if the step leads out of the bracket, halving the bracket is safe
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        tried = inverse - slope / curvature if curvature > 0 else np.nan
        if not low < tried < high:
            tried = (low + high) / 2.0
        if abs(tried - inverse) < _SMALL_STEP:
            return float(tried)
        inverse = tried
    return float(inverse)


def _within_bounds(at: Floats) -> Floats:
    """Bring the inverse temperature, which comes last, back within its bounds, in place."""
    at[-1] = min(max(at[-1], 1.0 / HIGHEST_TEMPERATURE), 1.0 / LOWEST_TEMPERATURE)
    return at


def _newton_step(epochs: ScoredEpochs, at: Floats, p: Floats) -> Floats:
    """Return the Newton step for biases and inverse temperature; `p` are the probabilities of the stages."""
    weighted = p * epochs.logs
    mean = weighted.sum(axis=0)
    expected = p.sum(axis=1)
    n_stages = len(p)
    gradient = np.empty(n_stages + 1)
    gradient[:-1] = expected - epochs.n_of_stage + BIAS_RIDGE * at[:-1]
    gradient[-1] = mean.sum() - epochs.log_at_truth
    hessian = np.empty((n_stages + 1, n_stages + 1))
    hessian[:-1, :-1] = np.diag(expected + BIAS_RIDGE) - p @ p.T
    hessian[:-1, -1] = hessian[-1, :-1] = weighted.sum(axis=1) - p @ mean
    hessian[-1, -1] = _inner(weighted, epochs.logs) - _inner(mean, mean) + 1e-9
    return np.asarray(np.linalg.solve(hessian, gradient))


def _loss(epochs: ScoredEpochs, at: Floats) -> tuple[float, Floats]:
    """Return the loss, and the probability (n_stages, n_epochs) of every stage."""
    scores = at[-1] * epochs.logs
    scores += at[:-1, None]
    top = scores.max(axis=0)
    scores -= top
    weights = np.exp(scores, out=scores)
    sums = weights.sum(axis=0)
    at_truth = at[-1] * epochs.log_at_truth + epochs.n_of_stage @ at[:-1]
    loss = float((np.log(sums) + top).sum() - at_truth + 0.5 * BIAS_RIDGE * (at[:-1] ** 2).sum())
    return loss, np.divide(weights, sums, out=weights)


def _softmax(scores: Floats) -> Floats:
    """Turn scores into probabilities, in place."""
    scores -= scores.max(axis=0)
    weights = np.exp(scores, out=scores)
    return np.asarray(np.divide(weights, weights.sum(axis=0), out=weights))


def _inner(a: Floats, b: Floats) -> float:
    """Return the sum of products without an array of them."""
    axes = "ij"[: a.ndim]
    return float(np.einsum(f"{axes},{axes}->", a, b))


MOST_ROUNDS = 12
CLOSE = 0.02  # in the logarithm of a total: ten minutes on a night of 8 h, far below its error
FIRST_STEP = 0.7  # nats of bias per nat of a total: stages move together, so a whole step overshoots
SMALLEST_STEP, LARGEST_STEP = 0.35, 3.0  # bounds of later steps
BORROWED_EPOCHS = 50.0  # so that a stage never scored, or never shown, does not drive a bias to infinity
LARGEST_BIAS_NATS = 3.0


def totals_biases(
    nights: Sequence[FitNight], profile: Profile, solver: KeepingSolver, tempered: Tempered
) -> tuple[float, ...]:
    """Return the bias per stage at which decoded nights have the experts' totals of wake, NREM and REM.

    All stages of NREM have the same bias; biases sum to 0. `profile` and its `solver` decode evidence that is
    calibrated already.
    """
    group = _groups(profile.scheme)
    truth = np.concatenate([night.truth for night in nights])
    biases = np.zeros(len(group))
    step, before, moved = np.full(3, FIRST_STEP), np.zeros(3), np.zeros(3)
    for _ in range(MOST_ROUNDS):
        decoded = np.concatenate(decode_biased(profile, solver, tempered, biases.tolist()))
        expected, shown = _totals(truth, decoded, group)
        short = np.log((expected + BORROWED_EPOCHS) / (shown + BORROWED_EPOCHS))
        if np.abs(short).max() < CLOSE:
            break
        step = _secant(step, moved, before - short)
        moved, before = step * short, short
        biases = biases + moved[group]
        biases = np.clip(biases - biases.mean(), -LARGEST_BIAS_NATS, LARGEST_BIAS_NATS)
    return tuple((biases - biases.mean()).tolist())


def _secant(step: Floats, moved: Floats, gained: Floats) -> Floats:
    """Return the step per missing nat, from what the last move gained; the old step if that is unclear."""
    tells = np.abs(gained) > CLOSE / 4.0
    per_nat = np.where(tells, moved / np.where(tells, gained, 1.0), step)
    return np.asarray(np.clip(per_nat, SMALLEST_STEP, LARGEST_STEP))


def _groups(scheme: StageScheme) -> Indices:
    """Return 0 for wake, 1 for REM and 2 for all other stages.

    The shares of N1, N2 and N3 are left to the stager: a weak one never shows N1, whatever the bias.
    """
    groups = {scheme.wake: 0, scheme.rem: 1}
    return np.array([groups.get(name, 2) for name in scheme.names])


def _totals(truth: Labels, decoded: Labels, group: Indices) -> tuple[Floats, Floats]:
    """Return epochs by group, as experts scored and as decoded, where both are scored."""
    n = len(group)
    # a cell per pair of stages, with a row and a column for epochs that are not scored
    cells = (truth.astype(np.int64) + 1) * (n + 1) + (decoded + 1)
    pairs = np.bincount(cells, minlength=(n + 1) ** 2).reshape(n + 1, n + 1)[1:, 1:]
    of_group = (group == np.arange(3)[:, None]).astype(np.float64)  # (3, n_stages)
    return of_group @ pairs.sum(axis=1), of_group @ pairs.sum(axis=0)
