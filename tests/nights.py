"""Random profiles and nights for the decoding tests, and one profile that can be reckoned by hand."""

import itertools
import warnings

import numpy as np

import oracle
import stageguard as sg
from stageguard.errors import StageGuardWarning

SCHEME = {2: "ws2", 3: "wnr3", 5: "aasm5"}


def decode(probabilities, profile, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        return sg.decode(probabilities, profile, **options)


def random_probabilities(rng, n_epochs, n_stages, sharpness=1.5):
    logits = rng.normal(size=(n_epochs, n_stages)) * sharpness
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True)


def as_row(names, values):
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def random_transitions(rng, names, *, forbid=False):
    n = len(names)
    matrix = rng.dirichlet(np.ones(n), size=n) * 0.5 + np.eye(n) * 0.5
    if forbid and n > 2:
        a, b = rng.choice(n, size=2, replace=False)
        matrix[a, b] = 0.0
        matrix[a] /= matrix[a].sum()
    return {name: as_row(names, row) for name, row in zip(names, matrix, strict=True)}


def random_table(rng):
    n = int(rng.integers(1, 5))
    if rng.random() < 0.3:
        return [[1.0], [0.25, 0.75], [0.5, 0.0, 0.5], [0.125, 0.375, 0.25, 0.25]][n - 1]  # no tail
    table = rng.dirichlet(np.ones(n + 1))[:n]
    if n > 1 and rng.random() < 0.3:
        table[0] = 0.0
    return [float(p) for p in table]


def random_mapping(rng, n_stages, *, ends, stay, flip, durations, minimum, epoch=30.0):
    names = oracle.SCHEMES[SCHEME[n_stages]]
    mapping = {
        "name": "random",
        "scheme": SCHEME[n_stages],
        "epoch_seconds": epoch,
        "ends": ends,
        "stay": stay,
        "transition_weight": float(rng.choice([0.3, 1.0, 1.5])),
        "rare_probability": float(rng.choice([0.001, 0.05])),
        "transitions": random_transitions(rng, names, forbid=rng.random() < 0.25),
    }
    if rng.random() < 0.5:
        pairs = list(itertools.permutations(names, 2))
        chosen = rng.choice(len(pairs), size=min(len(pairs), 3), replace=False)
        own = [[], [0.1], [float(rng.uniform(0.2, 1))]]
        mapping["rare"] = [[*pairs[i], *own[j]] for j, i in enumerate(chosen)]
    if minimum:
        seconds = rng.choice([0.4, 1.0, 1.5, 2.0, 3.0, 4.0], size=n_stages) * epoch
        mapping["min_bout_seconds"] = as_row(names, seconds)
    if flip:
        mapping["flip_flop"] = {
            "penalty_nats": float(rng.uniform(0.3, 3)),
            "window_epochs": int(rng.integers(2, 7)),
            "method": "exact",
        }
    if durations:
        chosen = rng.choice(n_stages, size=int(rng.integers(1, n_stages + 1)), replace=False)
        mapping["durations"] = {names[i]: random_table(rng) for i in sorted(chosen)}
    if rng.random() < 0.3:
        biases = as_row(names, rng.normal(size=n_stages) * 0.7)
        mapping["calibration"] = {"temperature": float(rng.uniform(0.5, 2)), "biases": biases}
    if rng.random() < 0.3:
        mapping["prior_exponent"] = float(rng.uniform(0.1, 1))
        mapping["prior"] = as_row(names, rng.dirichlet(np.ones(n_stages) * 3))
    return mapping


def plain(n_stages=3, **changes):
    """A profile whose switches all cost the same, so that a test can count by hand."""
    names = oracle.SCHEMES[SCHEME[n_stages]]
    out = 0.1 / (n_stages - 1)
    rows = {a: {b: 0.9 if a == b else out for b in names} for a in names}
    base = {"name": "plain", "scheme": SCHEME[n_stages], "epoch_seconds": 30.0, "transitions": rows}
    return base | changes


def one_hot(labels, n_stages=3, confidence=0.98):
    off = (1 - confidence) / (n_stages - 1)
    return np.where(np.arange(n_stages) == np.asarray(labels)[:, None], confidence, off)
