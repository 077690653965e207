"""Simulated cohorts that a stager and an expert scored, for the tests of fitting."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

import stageguard as sg
from stageguard.errors import StageGuardWarning
from stageguard.synthetic.night import simulate_night


@dataclass(frozen=True)
class Cohort:
    densities: list
    hypnograms: list
    groups: list

    def without(self, *numbers):
        kept = [i for i in range(len(self.groups)) if i not in numbers]
        return Cohort(
            *([values[i] for i in kept] for values in (self.densities, self.hypnograms, self.groups))
        )


def cohort(n_subjects=6, nights_each=1, *, base="human-psg-3", hours=3.0, seed=0, **options) -> Cohort:
    n_nights = n_subjects * nights_each
    nights = [simulate_night(base, hours=hours, seed=1000 * seed + i, **options) for i in range(n_nights)]
    groups = [f"s{i // nights_each}" for i in range(n_nights)]
    return Cohort([night.density for night in nights], [night.expert for night in nights], groups)


def certain(hypnogram: sg.Hypnogram, confidence=0.9) -> sg.Hypnodensity:
    """A stager whose argmax is the expert."""
    n = hypnogram.scheme.n_stages
    off = (1 - confidence) / (n - 1)
    rows = np.where(np.arange(n) == hypnogram.labels[:, None], confidence, off)
    return sg.Hypnodensity(rows, hypnogram.scheme, hypnogram.epoch_seconds)


def fit_report(own: Cohort, base="human-psg-3", **options):
    """Fit without warnings."""
    options = {"subjects": own.groups} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        return sg.fit_report(own.hypnograms, own.densities, base=base, **options)


def partial(hypnogram: sg.Hypnogram, seed: int, doubt=0.55) -> sg.Hypnodensity:
    """A stager that takes every third bout of NREM for REM, with less confidence than REM itself."""
    rng = np.random.default_rng(seed)
    rows = certain(hypnogram).probabilities.copy()
    bout = np.cumsum(np.diff(hypnogram.labels, prepend=-1) != 0)
    wrong = (hypnogram.labels == 1) & (rng.random(bout.max() + 1) < 1 / 3)[bout]
    rows[wrong] = (0.05, 0.95 - doubt, doubt)
    rows += rng.uniform(0, 0.02, rows.shape)
    return sg.Hypnodensity(rows / rows.sum(axis=1, keepdims=True), hypnogram.scheme, hypnogram.epoch_seconds)
