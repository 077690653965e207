"""One small profile and night for the tests on what goes into `decode` and what comes out."""

import re

import numpy as np

import stageguard as sg

ROWS = {
    "W": {"W": 0.9, "N": 0.08, "R": 0.02},
    "N": {"W": 0.05, "N": 0.9, "R": 0.05},
    "R": {"W": 0.05, "N": 0.05, "R": 0.9},
}


def mapping_of(**changes):
    base = {"name": "small", "scheme": "wnr3", "epoch_seconds": 30.0, "transitions": ROWS}
    return base | {"transition_weight": 0.1} | changes


def profile_of(**changes):
    return sg.Profile.from_dict(mapping_of(**changes))


def night(n_epochs=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.integers(0, 3, size=n_epochs // 8 + 1), 8)[:n_epochs]
    off = rng.uniform(0.02, 0.1, size=(n_epochs, 3))
    weights = np.where(np.arange(3) == labels[:, None], 1.0, off)
    return weights / weights.sum(axis=1, keepdims=True)


def refusal(error, *patterns):
    """Assert that the message is one line that holds every pattern."""
    message = str(error.value)
    assert "\n" not in message
    for pattern in patterns:
        assert re.search(pattern, message), (pattern, message)
