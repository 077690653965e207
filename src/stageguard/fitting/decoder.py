"""Decode the nights of a fit under many candidates: calibrated once, and solved once per setting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stageguard.arrays import CLIP, Floats, Labels
from stageguard.fitting.material import FitNight
from stageguard.guard import inputs
from stageguard.guard.decode import decode_under
from stageguard.guard.evidence import Night, Spans
from stageguard.guard.options import DEFAULTS
from stageguard.guard.solver import Path, Solver
from stageguard.profile.profile import Profile
from stageguard.profile.rules.rule import Nats, Point, Setting


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
            return self._ready_nights(self.weights @ np.diag(np.exp(biases)))
        if self._unbiased is None:
            self._unbiased = self._ready_nights(self.weights)
        return self._unbiased

    def _ready_nights(self, weights: Floats) -> list[Night]:
        rows = weights / (weights @ np.ones(weights.shape[1]))[:, None]
        np.maximum(rows, CLIP, out=rows)
        rows.flags.writeable = False  # so that nights need not be copied
        return [
            inputs.night_of(rows[start:stop], self.bare, DEFAULTS) for start, stop in pairwise(self.edges)
        ]


class KeepingSolver(Solver):
    """A solver for profiles that differ only in strength; it solves no night twice at one setting."""

    def __init__(self, profile: Profile, epoch_seconds: float) -> None:
        super().__init__(profile, epoch_seconds)
        self._points: dict[tuple[int, Spans, Nats, float], Point] = {}
        self._paths: dict[tuple[int, Spans, Setting], Path] = {}
        self._kept: dict[int, Floats] = {}  # so that no other night gets the identity of a kept one

    def curve(self, night: Night, spans: Spans, weights: Sequence[float], nats: Nats = None) -> list[Point]:
        """Return stretches of a night at several transition weights."""
        keys = [(self._identity(night), tuple(spans), nats, weight) for weight in weights]
        missing = [key for key in keys if key not in self._points]
        if missing:
            # in one call: the kernel tries several weights in hardly more time than one
            points = super().curve(night, spans, [key[-1] for key in missing], nats)
            self._points.update(zip(missing, points, strict=True))
        return [self._points[key] for key in keys]

    def try_path(self, night: Night, setting: Setting, spans: Spans | None = None) -> Path:
        """Return the best path of a night, or of some stretches of it."""
        if night.clock is not None:  # which is another one under every candidate
            return super().try_path(night, setting, spans)
        key = (self._identity(night), tuple(night.spans if spans is None else spans), setting)
        if key not in self._paths:
            self._paths[key] = super().try_path(night, setting, spans)
        return self._paths[key]

    def _identity(self, night: Night) -> int:
        self._kept[id(night.probabilities)] = night.probabilities
        return id(night.probabilities)


def decode_prepared(profile: Profile, solver: Solver, nights: Sequence[Night]) -> list[Labels]:
    """Return each night's labels under a profile, -1 in gaps."""
    return [decode_under(profile, night, solver).hypnogram.labels for night in nights]


def decode_weights(solver: Solver, nights: Sequence[Night], weights: Sequence[float]) -> list[list[Labels]]:
    """Return the labels of every night at each of several fixed transition weights."""
    return [[solver.path(night, Setting(weight)).labels for night in nights] for weight in weights]


def decode_biased(
    profile: Profile, solver: Solver, tempered: Tempered, biases: Sequence[float]
) -> list[Labels]:
    """Return each night's labels with stage biases in nats."""
    given = tuple(biases) if any(biases) else None
    if profile.transition_weight is None or not solver.is_free(Setting(profile.transition_weight)):
        return decode_prepared(profile, solver, tempered.nights(given))
    # if every epoch is decided by itself, biased evidence need not be renormalised first
    return [solver.path(night, Setting(0.0, given)).labels for night in tempered.nights()]
