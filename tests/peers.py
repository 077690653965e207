"""The tools ours are checked against, and random nights to check on. Without a tool its tests are skipped."""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

NAMES = ("W", "N1", "N2", "N3", "R")
YASA_NAMES = np.array(["WAKE", "N1", "N2", "N3", "REM", "UNS"])  # the last is found by the label -1
_luna: dict[str, Any] = {}


def peer(name: str) -> ModuleType:
    """Import a tool; in CI, where it must be installed, its absence fails the test."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {name}: `make test` installs it")


def hmm_of_likelihoods(n_stages: int) -> Any:
    """A model of hmmlearn whose observations are log-likelihoods of its states."""
    base = peer("hmmlearn.base")

    class Given(base.BaseHMM):
        def _compute_log_likelihood(self, X):
            return X

        def _check(self):
            pass

    return Given(n_components=n_stages)


def random_labels(rng: np.random.Generator, *, longest: int = 1100) -> np.ndarray:
    """A hypnogram of any five-stage kind: long or short bouts, stages missing, unscored epochs anywhere."""
    n_epochs = int(rng.integers(2, longest))
    stages = rng.choice(6, size=int(rng.integers(1, 7)), replace=False) - 1
    lengths = rng.geometric(1 / rng.choice([1.5, 5.0, 12.0, 40.0]), size=n_epochs)
    labels = np.repeat(rng.choice(stages, size=n_epochs), lengths)[:n_epochs].astype(np.int8)
    if rng.random() < 0.3:
        labels[: rng.integers(1, 300)] = 0
    if rng.random() < 0.2:
        labels[rng.integers(0, n_epochs) :] = 0
    if rng.random() < 0.2:
        labels[: rng.integers(0, 12)] = rng.integers(1, 5)
    return labels


def yasa_statistics(labels: np.ndarray, epoch_seconds: float = 30.0) -> dict[str, float]:
    yasa = peer("yasa")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        night = yasa.Hypnogram(YASA_NAMES[labels], n_stages=5, freq=f"{epoch_seconds:g}s")
        return {key: float(value) for key, value in night.sleep_statistics().items()}


def luna_statistics(
    labels: np.ndarray, options: str = ""
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Luna's HYPNO on 30-s epochs: numbers of the night, and by stage; empty where it gives none."""
    lunapi = peer("lunapi")
    if "project" not in _luna:
        _luna["project"] = lunapi.proj()
        _luna["project"].silence(True)
    night = _luna["project"].empty_inst("night", len(labels), 30, "01.01.20", "22.00.00")
    for label, name in [*enumerate(NAMES), (-1, "?")]:
        epochs = np.flatnonzero(labels == label)
        if len(epochs):
            night.insert_annot(name, [(30.0 * e, 30.0 * (e + 1)) for e in epochs.tolist()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = night.silent_proc(f"EPOCH & HYPNO {options}")
    whole, stages = tables.get("HYPNO: BL"), tables.get("HYPNO: SS")
    numbers = {} if whole is None or whole.empty else {k: as_float(v) for k, v in whole.iloc[0].items()}
    if stages is None or "SS" not in stages:
        return numbers, {}
    rows = stages.set_index("SS").to_dict("index")
    return numbers, {name: {k: as_float(v) for k, v in row.items()} for name, row in rows.items()}


def as_float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # texts become NaN
    except (TypeError, ValueError):
        return float("nan")


def same(a: float, b: float, within: float = 1e-9) -> bool:
    """Equal within rounding, or both absent."""
    return (a != a and b != b) or abs(a - b) <= within
