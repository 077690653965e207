"""Random numbers that depend on a seed and a purpose only, not on what was drawn before. Draws nothing."""

from __future__ import annotations

from zlib import crc32

import numpy as np


def stream(seed: int, purpose: str, number: int = 0) -> np.random.Generator:
    """Return the generator for one purpose and one subject.

    Two purposes never share numbers, so that a change to one signal leaves the others as they were, and a
    subject is the same in a cohort of any size, made by any number of processes.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(purpose.encode()), number)))
