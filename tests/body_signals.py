"""Signals of a wrist, a heart and a chest with known content, for tests of quality and features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stageguard.night.recording import Recording, Series, Signal
from stageguard.signals.features import Recipe

Floats = npt.NDArray[np.float64]


def recording(**signals: Signal | Series) -> Recording:
    return Recording("night", "somebody", signals)


def unscaled(name: str, **changes: object) -> Recipe:
    return Recipe.load(name).replace(scaling={"method": "none"}, **changes)


def wrist(seconds: int, rate_hz: float, seed: int = 0, moves: float = 0.3) -> Floats:
    """Acceleration in g: gravity on z, sensor noise, and some movements of a few seconds at 0.5 to 2 Hz."""
    rng = np.random.default_rng(seed)
    n = round(seconds * rate_hz)
    axes = np.array([0.1, -0.2, 0.97]) + rng.normal(0, 0.004, (n, 3))
    for first in rng.integers(0, n, round(moves * seconds / 5)):
        length = min(round(rng.uniform(2, 8) * rate_hz), n - first)
        t = np.arange(length) / rate_hz
        wave = rng.uniform(0.1, 1.0) * np.sin(2 * np.pi * rng.uniform(0.5, 2) * t)
        axes[first : first + length] += wave[:, None] * rng.normal(0, 1, 3)
    return axes


def steady_beats(seconds: float, mean: float = 0.9, depth: float = 0.0, hz: float = 0.25) -> Floats:
    """Beat times whose intervals are modulated by a sine: mean + depth sin(2 pi hz t)."""
    times = [0.4]
    while times[-1] < seconds - 2 * mean:
        times.append(times[-1] + mean + depth * np.sin(2 * np.pi * hz * times[-1]))
    return np.array(times)


def beat_series(times: Floats) -> Series:
    return Series("beats", times, np.diff(times, prepend=2 * times[0] - times[1]), "s")


def ecg(times: Floats, seconds: float, rate_hz: float, noise: float = 0.02, seed: int = 0) -> Floats:
    """A narrow R wave at each time, a broad T wave after it, and noise."""
    rng = np.random.default_rng(seed)
    n = round(seconds * rate_hz)
    made = rng.normal(0, noise, n)
    for time in times:
        first, end = (int(np.clip((time + d) * rate_hz, 0, n)) for d in (-0.1, 0.6))
        t = np.arange(first, end) / rate_hz - time
        made[first:end] += np.exp(-0.5 * (t / 0.012) ** 2) + 0.2 * np.exp(-0.5 * ((t - 0.25) / 0.05) ** 2)
    return made


def breathing(seconds: float, rate_hz: float, hz: float = 0.25) -> Floats:
    return np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)
