"""How epochs look, which is not always how they should: the difficulty of staging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.hypnogram import Hypnogram
from stageguard.synthetic.noise import drift

DRIFT_MINUTES = 20.0  # how long a drift remembers itself
HAZE = 0.08  # spread of the small share of other stages in every epoch
STRONG_LIKENESS = (0.75, 1.0)  # how far an epoch that looks like another stage does so


@dataclass(frozen=True, slots=True)
class Scatter:
    """How a number varies around what its stage makes it, as standard deviations."""

    subject: float  # between sleepers
    slow: float  # of a drift within a night
    fast: float  # from epoch to epoch


def appearances(
    rng: np.random.Generator,
    night: Hypnogram,
    alike: Mapping[str, Mapping[str, float]],
    *,
    linger: float = 0.15,
) -> Floats:
    """Return the share of each stage in the look of every epoch (n_epochs, n_stages).

    Real epochs resemble other stages for physiological reasons: quiet wake is still and slow, a twitch in REM
    looks like an arousal, NREM before REM has theta already. A stager without context gets these wrong.
    `alike` is the share of the epochs of one stage that look like another; with the chance `linger` the next
    epoch of the same stage goes on looking alike.
    """
    names, labels = night.scheme.names, night.labels
    n_epochs, n_stages = len(labels), len(names)
    chance = np.array([[alike.get(source, {}).get(goal, 0.0) for goal in names] for source in names])
    chance *= (1 - linger) / (1 - linger * chance.sum(axis=1, keepdims=True))  # those that linger count too
    edges = np.cumsum(chance, axis=1)  # (from, to)
    hit, again, strength = rng.random(n_epochs), rng.random(n_epochs), rng.uniform(*STRONG_LIKENESS, n_epochs)
    # n_stages: like itself
    seen = np.where(hit[:, None] < edges[labels], np.arange(n_stages), n_stages).min(axis=1)
    for epoch in range(1, n_epochs):
        if again[epoch] < linger and labels[epoch] == labels[epoch - 1] and seen[epoch - 1] < n_stages:
            seen[epoch] = seen[epoch - 1]
    is_alike = seen < n_stages
    looks = np.zeros((n_epochs, n_stages))
    rows = np.arange(n_epochs)
    share = np.where(is_alike, strength, np.minimum(np.abs(rng.normal(0, HAZE, n_epochs)), 0.45))
    other = np.where(is_alike, seen, (labels + rng.integers(1, n_stages, n_epochs)) % n_stages)
    looks[rows, labels] = 1 - share
    looks[rows, other] += share
    return looks


def levels(
    rng: np.random.Generator,
    looks: Floats,
    by_stage: Mapping[str, float],
    scatter: Scatter,
    epoch_seconds: float,
) -> Floats:
    """Return a number for every epoch: what the look makes it, the sleeper's own, a drift, and chance.

    `by_stage` has the stages in the order of the looks.
    """
    table = np.array(list(by_stage.values()))
    of_sleeper = rng.normal(0, scatter.subject)
    slow = scatter.slow * drift(rng, len(looks), DRIFT_MINUTES * 60 / epoch_seconds)
    return np.asarray(looks @ table + of_sleeper + slow + scatter.fast * rng.standard_normal(len(looks)))
