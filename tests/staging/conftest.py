"""One short made-up polysomnogram, staged once by each stager."""

from __future__ import annotations

import os

import pytest

from stageguard.pipeline import stage
from stageguard.synthetic import simulate_recording

os.environ.setdefault("KERAS_BACKEND", "torch")  # as the stager does before it loads keras


@pytest.fixture(scope="session")
def psg():
    """An hour and a half of made-up sleep, with every channel of a laboratory."""
    return simulate_recording("polysomnography", 5, seed=11, hours=1.5).recording


@pytest.fixture(scope="session")
def by_yasa(psg):
    pytest.importorskip("yasa")
    return stage(psg, "yasa")


@pytest.fixture(scope="session")
def by_sleepecg(psg):
    pytest.importorskip("keras")
    return stage(psg, "sleepecg", covariates={"age": 48, "sex": "M"})
