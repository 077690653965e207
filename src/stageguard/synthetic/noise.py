"""Random generators by seed and purpose, noise, drifts, and the look of epochs (how hard staging is)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

import numpy as np

from stageguard.arrays import Floats, Floats32
from stageguard.night.hypnogram import Hypnogram


def stream(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """Return the random generator for one purpose and one subject.

    Two purposes never share random numbers, so a change to one signal leaves the others unchanged. A subject
    is the same in a cohort of any size, made by any number of processes.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(purpose.encode()), number)))


BLOCK_FRAMES = 1024  # frames to make at once, so that a day at 512 Hz needs no more memory than an hour


def shaped_noise(
    rng: np.random.Generator, power: Floats, templates: Floats, rate_hz: float, hop: int, n_samples: int
) -> Floats32:
    """Return noise whose power spectrum is a sum of templates, with new weights every `hop` samples.

    Frames of two hops with independent coefficients overlap by half, under a window whose squares sum to one.
    The expected spectrum therefore changes smoothly from frame to frame. `power` (n_hops + 1, n_templates)
    has the weights of the frame that is centred on each hop's beginning; its last row holds for later frames.
    `templates` (n_templates, hop + 1) are one-sided power densities from 0 to half the rate.
    """
    length = 2 * hop
    window = np.sin(np.pi * (np.arange(length) + 0.5) / length).astype(np.float32)
    variance = templates * rate_hz * length / 4  # of real and imaginary part each
    n_frames = -(-n_samples // hop) + 1
    made = np.zeros((n_frames + 1) * hop, dtype=np.float32)
    for first in range(0, n_frames, BLOCK_FRAMES):
        end = min(first + BLOCK_FRAMES, n_frames)
        rows = np.minimum(np.arange(first, end), len(power) - 1)
        size = np.sqrt(power[rows] @ variance).astype(np.float32)  # (frame, frequency)
        parts = rng.standard_normal((end - first, hop + 1, 2), dtype=np.float32) * size[:, :, None]
        frames = np.fft.irfft(parts[..., 0] + 1j * parts[..., 1], length, axis=1).astype(np.float32) * window
        target = made[first * hop : (end + 1) * hop].reshape(end - first + 1, hop)
        target[:-1] += frames[:, :hop]
        target[1:] += frames[:, hop:]
    return made[hop : hop + n_samples]


def drift(rng: np.random.Generator, n: int, memory: float) -> Floats:
    """Return slow noise of variance 1 whose autocorrelation falls to 1/e in `memory` steps."""
    keep = np.exp(-1 / memory) if memory > 0 else 0.0
    gain = np.sqrt(1 - keep**2)
    fresh = rng.standard_normal(n).tolist()
    return np.array(list(accumulate(fresh, lambda level, step: keep * level + gain * step)))


def moments(n: int, rate_hz: float) -> Floats:
    """Return the middles of n samples, in seconds."""
    return np.asarray((np.arange(n, dtype=np.float64) + 0.5) / rate_hz)


def at_times(values: Floats, seconds_per_value: float, times: Floats) -> Floats:
    """Return values at some times; each value holds for ``seconds_per_value``, without interpolation."""
    indices = np.clip((times / seconds_per_value).astype(np.int64), 0, len(values) - 1)
    return np.asarray(values[indices])


DRIFT_MINUTES = 20.0  # memory of a drift
HAZE = 0.08  # spread of the small share of other stages in every epoch
STRONG_LIKENESS = (0.75, 1.0)  # share of the other stage in an epoch that looks like it


@dataclass(frozen=True, slots=True)
class Scatter:
    """Variation of a quantity around the mean of its stage, as standard deviations."""

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
    """Return how much every epoch looks like each stage, as shares (n_epochs, n_stages).

    Real epochs resemble other stages for physiological reasons: quiet wake is still and slow, a twitch in REM
    looks like an arousal, NREM before REM already has theta. A stager without context gets these wrong.
    `alike` is the share of a stage's epochs that look like another stage. With the chance `linger`, the next
    epoch of the same stage looks like that other stage again.
    """
    names, labels = night.scheme.names, night.labels
    n_epochs, n_stages = len(labels), len(names)
    chance = np.array([[alike.get(source, {}).get(goal, 0.0) for goal in names] for source in names])
    chance *= (1 - linger) / (1 - linger * chance.sum(axis=1, keepdims=True))  # correct for lingering epochs
    edges = np.cumsum(chance, axis=1)  # (from, to)
    hit, again, strength = rng.random(n_epochs), rng.random(n_epochs), rng.uniform(*STRONG_LIKENESS, n_epochs)
    # stage that each epoch looks like; n_stages means its own stage
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
    """Return a level per epoch: the mean of its look, plus effects of the sleeper, a drift and noise."""
    table = np.array(list(by_stage.values()))
    of_sleeper = rng.normal(0, scatter.subject)
    slow = scatter.slow * drift(rng, len(looks), DRIFT_MINUTES * 60 / epoch_seconds)
    return np.asarray(looks @ table + of_sleeper + slow + scatter.fast * rng.standard_normal(len(looks)))
