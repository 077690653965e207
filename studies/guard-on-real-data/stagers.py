"""Stage probabilities of nights a classifier has not seen, kept in a cache. Decodes nothing.

In every fold the classifier that stages the test subjects has seen the training subjects; the training
subjects are staged by classifiers of an inner split, so that nothing a guard learns from has seen a test
subject, and none of it is more confident than on new nights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from cohorts import BeatNight, FeatureNight

from stageguard.night.recording import Recording, Series
from stageguard.staging import stager_of

N_FOLDS, N_INNER, SEED = 4, 3, 42
CACHE = Path(os.environ.get("STAGEGUARD_CACHE", Path(__file__).parent / ".cache"))
# SleepECG asks for these, and the nights at hand do not say them: they are the same for all.
SLEEPER = {"age": 44, "sex": "M"}
START = datetime(2000, 1, 1, 23, 0)


@dataclass(frozen=True)
class Fold:
    """Probabilities by night: of the test subjects, and of the training subjects (staged unseen too)."""

    test: dict[str, np.ndarray]
    train: dict[str, np.ndarray]


def parts(subjects: Sequence[str], n_parts: int, seed: int = SEED) -> list[set[str]]:
    """Split subjects at random into parts of about one size."""
    order = np.random.default_rng(seed).permutation(sorted(set(subjects)))
    return [set(part.tolist()) for part in np.array_split(order, n_parts)]


def staged_folds(name: str, nights: Sequence[FeatureNight]) -> list[Fold]:
    """Return every fold of a cohort's nights, staged in five stages; from the cache where it is there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    folds = []
    for number, held in enumerate(parts([night.subject for night in nights], N_FOLDS)):
        path = CACHE / f"{name}-fold{number}.npz"
        if not path.exists():
            fold = _stage(nights, held)
            arrays = {f"test/{k}": v for k, v in fold.test.items()}
            arrays |= {f"train/{k}": v for k, v in fold.train.items()}
            np.savez_compressed(path.with_suffix(".part.npz"), **arrays)
            path.with_suffix(".part.npz").rename(path)
            print(f"staged {path.name}", flush=True)
        with np.load(path) as held_arrays:
            by = {
                part: {k.split("/", 1)[1]: held_arrays[k] for k in held_arrays.files if k.startswith(part)}
                for part in ("test", "train")
            }
        folds.append(Fold(**by))
    return folds


def staged_by_sleepecg(name: str, nights: Sequence[BeatNight]) -> dict[str, np.ndarray]:
    """Return W, N, R by SleepECG's published network, one row per scored epoch; from the cache if there."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"{name} sleepecg.npz"
    if not path.exists():
        arrays = {night.name: _by_sleepecg(night) for night in nights}
        np.savez_compressed(path.with_suffix(".part.npz"), **arrays)
        path.with_suffix(".part.npz").rename(path)
        print(f"staged {path.name}", flush=True)
    with np.load(path) as held:
        return {key: held[key] for key in held.files}


def _by_sleepecg(night: BeatNight) -> np.ndarray:
    beats = Series("beats", night.beats, night.rr, "s")
    recording = Recording(night.name, night.subject, {"beats": beats}, start=START, covariates=SLEEPER)
    staged = stager_of("sleepecg").stage(recording).probabilities
    rows = np.full((len(night.labels), staged.shape[1]), np.nan)
    n_epochs = min(len(rows), len(staged))
    rows[:n_epochs] = staged[:n_epochs]
    return rows


def _stage(nights: Sequence[FeatureNight], held: set[str]) -> Fold:
    training = [night for night in nights if night.subject not in held]
    outer = fitted_on(training)
    test = {night.name: staged_by(outer, night) for night in nights if night.subject in held}
    train: dict[str, np.ndarray] = {}
    for inner in parts([night.subject for night in training], N_INNER):
        model = fitted_on([night for night in training if night.subject not in inner])
        train |= {night.name: staged_by(model, night) for night in training if night.subject in inner}
    return Fold(test, train)


def fitted_on(nights: Sequence[FeatureNight]):
    """Fit the study's boosting to the scored epochs of nights."""
    x = np.concatenate([night.features[night.labels >= 0] for night in nights])
    y = np.concatenate([night.labels[night.labels >= 0] for night in nights])
    return fitted_boosting(x, y)


def fitted_boosting(x: np.ndarray, y: np.ndarray):
    """Fit the study's boosting to features and stages, one row per epoch."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=60, random_state=SEED).fit(x, y)


def staged_by(model, night: FeatureNight) -> np.ndarray:
    """Return probabilities of five stages; rows of NaN where the night has no signal."""
    has_signal = ~np.isnan(night.features).all(axis=1)
    rows = np.full((len(night.labels), 5), np.nan)
    found = np.zeros((int(has_signal.sum()), 5))
    found[:, model.classes_] = model.predict_proba(night.features[has_signal])
    rows[has_signal] = found
    return rows


if __name__ == "__main__":
    import cohorts

    staged_folds("sleep-accel", list(cohorts.sleep_accel()))
    staged_folds("slpdb", list(cohorts.slpdb()))
    staged_by_sleepecg("slpdb", list(cohorts.slpdb_beats()))
    for kind in ("weak", "strong"):
        staged_folds(f"sleep-edf-{kind}", list(cohorts.sleep_edf(kind)))
