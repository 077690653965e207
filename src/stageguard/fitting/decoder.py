"""Decode the nights of a fit under many candidates: calibrated once, and solved once per trial."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stageguard.base.arrays import CLIP, Floats, Labels
from stageguard.fitting.material import FitNight
from stageguard.guard import inputs
from stageguard.guard.evidence import Night
from stageguard.guard.search import run_searches
from stageguard.guard.solver import Job, Path, Solver, Trial
from stageguard.profile.profile import Profile


class Tempered:
    """Nights at one temperature, ready to be decoded with any stage biases."""

    def __init__(self, nights: Sequence[FitNight], temperature: float, bare: Profile) -> None:
        matrices = [night.logs for night in nights if night.logs is not None]
        self.bare = bare  # a profile without a calibration of its own, at the nights' epoch length
        self.edges = np.cumsum([0, *map(len, matrices)]).tolist()
        logs = np.concatenate(matrices)
        logs /= temperature
        self.weights = np.exp(logs, out=logs)  # (n_epochs of all, n_stages)
        self._unbiased: list[Night] | None = None  # cache: most candidates decode these

    def nights(self, biases: Sequence[float] | None = None) -> list[Night]:
        """Return the nights with biases in nats, renormalised and clipped."""
        if biases is not None:
            # a product with a diagonal matrix takes half as long as broadcasting along rows
            return self._checked(self.weights @ np.diag(np.exp(biases)))
        if self._unbiased is None:
            self._unbiased = self._checked(self.weights)
        return self._unbiased

    def _checked(self, weights: Floats) -> list[Night]:
        rows = weights / (weights @ np.ones(weights.shape[1]))[:, None]
        np.maximum(rows, CLIP, out=rows)
        seconds = self.bare.epoch_seconds
        given = [inputs.NightInput(rows[start:stop], seconds) for start, stop in pairwise(self.edges)]
        nights = inputs.check_nights(given, self.bare, is_batch=True, wants_paths=False)
        for each, night in zip(given, nights, strict=True):
            inputs.set_period(each, self.bare, night)
        return nights


class KeepingSolver(Solver):
    """A solver for profiles that differ only in strength; it solves no night twice under one trial."""

    def solve(self, jobs: Sequence[Job]) -> list[Path]:
        """Return the best path of every job, in order."""
        late = [job for job in jobs if (self, job.trial) not in job.night.paths]
        if late:
            for (night, trial), path in zip(late, super().solve(late), strict=True):
                night.paths[self, trial] = path
        return [night.paths[self, trial] for night, trial in jobs]


def decode_prepared(profile: Profile, solver: Solver, nights: Sequence[Night]) -> list[Labels]:
    """Return each night's labels under a profile, -1 in gaps."""
    return [path.labels for _, path, _ in run_searches(profile, solver, nights, natural=False)]


def decode_weights(solver: Solver, nights: Sequence[Night], weights: Sequence[float]) -> list[list[Labels]]:
    """Return the labels of every night at each of several fixed transition weights."""
    # one night's weights follow each other: kernels solve several of them at once
    paths = solver.solve([Job(night, Trial(weight)) for night in nights for weight in weights])
    return [[path.labels for path in paths[i :: len(weights)]] for i in range(len(weights))]


def decode_biased(
    profile: Profile, solver: Solver, tempered: Tempered, biases: Sequence[float]
) -> list[Labels]:
    """Return each night's labels with stage biases in nats."""
    given = tuple(biases) if any(biases) else None
    if profile.transition_weight is None or not solver.is_free(Trial(profile.transition_weight)):
        return decode_prepared(profile, solver, tempered.nights(given))
    # if every epoch is decided by itself, biased evidence need not be renormalised first
    paths = solver.solve([Job(night, Trial(0.0, given)) for night in tempered.nights()])
    return [path.labels for path in paths]
