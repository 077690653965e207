"""Temperature and biases, against known answers and a general optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from stageguard.fitting import calibration as cal
from stageguard.guard.night import log_probabilities
from stageguard.profile.parts import Calibration


def stager(n_epochs=20_000, n_stages=4, temperature=1.0, biases=None, seed=0):
    """Probabilities that are right after the calibration asked for, and stages drawn from those."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n_epochs, n_stages))
    shown = np.exp(log_softmax(logits, axis=1))
    right = np.exp(log_probabilities(shown, Calibration(temperature, biases)))
    drawn = (right.cumsum(axis=1) > rng.random((n_epochs, 1))).argmax(axis=1)
    return shown, drawn.astype(np.int8)


def temperature_of(epochs):
    return cal.fit_calibration(epochs, biases=False)


def biases_of(epochs):
    return cal.fit_calibration(epochs, biases=True)


def epochs_of(*nights):
    return cal.ScoredEpochs([p for p, _ in nights], [y for _, y in nights])


def loss(found: Calibration, probabilities, stages):
    logs = log_probabilities(probabilities, found)
    return -logs[np.arange(len(stages)), stages].sum()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_temperature_is_found(temperature):
    night = stager(temperature=temperature)
    found = temperature_of(epochs_of(night))
    assert found.biases is None
    assert found.temperature == pytest.approx(temperature, rel=0.05)


def test_temperature_and_biases_are_found():
    biases = (1.0, -0.5, 0.25, -0.75)
    found = biases_of(epochs_of(stager(temperature=1.6, biases=biases)))
    assert found.temperature == pytest.approx(1.6, rel=0.06)
    assert found.biases == pytest.approx(biases, abs=0.1)
    assert sum(found.biases) == pytest.approx(0.0, abs=1e-9)


def test_nothing_is_more_likely():
    probabilities, stages = stager(n_epochs=3000, temperature=0.7, biases=(0.5, 0.2, -0.4, -0.3), seed=3)
    own = biases_of(epochs_of((probabilities, stages)))

    def objective(at):
        given = Calibration(1.0 / at[-1], tuple(at[:-1]))
        return loss(given, probabilities, stages) + 0.5 * cal.BIAS_RIDGE * (at[:-1] ** 2).sum()

    best = minimize(objective, np.array([0.0, 0, 0, 0, 1.0]), method="Nelder-Mead", options={"maxiter": 8000})
    at = np.array([*own.biases, 1.0 / own.temperature])
    assert objective(at) <= best.fun + 1e-3
    assert loss(own, probabilities, stages) < loss(Calibration(), probabilities, stages) - 10


def test_unscored_and_empty_epochs_do_not_count():
    probabilities, stages = stager(n_epochs=2000, temperature=2.0)
    clean = temperature_of(epochs_of((probabilities, stages)))
    with_gaps = np.concatenate([probabilities, np.full((50, 4), np.nan), np.full((50, 4), 0.25)])
    labels = np.concatenate([stages, np.zeros(50, np.int8), np.full(50, -1, np.int8)])
    assert temperature_of(epochs_of((with_gaps, labels))) == clean


def test_the_temperature_stays_within_bounds():
    n = 500
    sure_and_right = np.full((n, 3), 0.001)
    sure_and_right[:, 0] = 0.998
    right = temperature_of(epochs_of((sure_and_right, np.zeros(n, np.int8))))
    assert right.temperature == pytest.approx(cal.LOWEST_TEMPERATURE, rel=1e-2)
    rng = np.random.default_rng(0)
    noise = temperature_of(epochs_of((sure_and_right, rng.integers(0, 3, n).astype(np.int8))))
    assert noise.temperature == pytest.approx(cal.HIGHEST_TEMPERATURE, rel=1e-3)


def test_a_stage_that_never_occurs_gets_a_bias_that_stays_finite():
    probabilities, stages = stager(n_epochs=3000)
    found = biases_of(epochs_of((probabilities[stages != 3], stages[stages != 3])))
    assert found.biases[3] == min(found.biases)
    assert -10 < found.biases[3] < -1
