"""How much a sleeper's body moves, second by second. Makes no signal of it."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.stages import AASM5
from stageguard.synthetic.appearance import Scatter, levels
from stageguard.synthetic.noise import held, moments

# Logarithms of the movements per minute and of their size, in g at the wrist. The order of the stages is that
# of Wilde-Frenz & Schulz 1983 (Percept Mot Skills 56:275-283), levels are our choice.
MOVES_PER_MINUTE = {"W": 1.5, "N1": -0.9, "N2": -2.6, "N3": -3.6, "R": -2.0}
MOVE_SIZE = {"W": -2.1, "N1": -2.5, "N2": -2.7, "N3": -2.9, "R": -3.0}
MOVES_SCATTER = Scatter(0.25, 0.3, 0.5)
SIZE_SCATTER = Scatter(0.15, 0.15, 0.2)

TURN_SIZE = 0.12  # a larger movement changes the posture


def movement(rng: np.random.Generator, looks: Floats, epoch_seconds: float) -> Floats:
    """Return the size of the movement in every second: bouts of some seconds, as the look has them.

    Parameters
    ----------
    looks : array (n_epochs, 5)
        Share of each AASM stage in the look of every epoch.
    """
    rate = np.exp(levels(rng, looks, MOVES_PER_MINUTE, AASM5.names, MOVES_SCATTER, epoch_seconds))
    size = np.exp(levels(rng, looks, MOVE_SIZE, AASM5.names, SIZE_SCATTER, epoch_seconds))
    n_seconds = int(np.ceil(len(looks) * epoch_seconds))
    times = moments(n_seconds, 1.0)
    begins = np.flatnonzero(rng.random(n_seconds) < held(rate, epoch_seconds, times) / 60)
    sizes = held(size, epoch_seconds, times[begins]) * np.exp(rng.normal(0, 0.5, len(begins)))
    lengths = 1 + rng.gamma(1.2, 2.0, len(begins)).astype(np.int64)
    move = np.zeros(n_seconds)
    for begin, own, length in zip(begins, sizes, lengths, strict=True):
        end = min(begin + length, n_seconds)
        move[begin:end] = np.maximum(move[begin:end], own)
    return move
