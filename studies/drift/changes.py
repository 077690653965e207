"""Nights of stagers as they were graded, and as they are after something broke. Charts nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "guard-on-real-data"))

import cohorts
from cohorts import FeatureNight
from stagers import CACHE, fitted_on, parts, staged_by

import stageguard as sg
from stageguard.fitting.tune import measure
from stageguard.night.stages import AASM5
from stageguard.profile.fingerprint import StagerFeatures

N_FOLDS = 8
SAME = "nothing"
Change = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Nights:
    """The nights of one stager after one change."""

    features: dict[str, StagerFeatures]  # by night
    kappa: float  # mean over nights


@dataclass(frozen=True)
class Stager:
    """One stager on one cohort; the same nights after each change."""

    name: str
    subjects: Mapping[str, str]  # by night
    after: Mapping[str, Nights]  # by change


def sleep_edf() -> Stager:
    """Boosting on two EEG channels, EOG and EMG of 26 people."""
    names = _sleep_edf_columns()
    frontal, posterior, eog, emg = (
        [i for i, name in enumerate(names) if name.startswith(start)]
        for start in ("EEG_Fpz_Cz", "EEG_Pz_Oz", "EOG", "EMG")
    )
    changes = {
        "EEG channels swapped": _swap(frontal, posterior),
        "frontal EEG and EOG swapped": _swap(frontal, eog),
        "frontal EEG lost": _set(frontal, np.nan),
        "posterior EEG lost": _set(posterior, np.nan),
        "EOG lost": _set(eog, np.nan),
        "EMG lost": _set(emg, np.nan),
        "EEG and EOG at half the gain": _gain(names, [*frontal, *posterior, *eog], 0.5),
        "EEG and EOG at 1.25 times the gain": _gain(names, [*frontal, *posterior, *eog], 1.25),
        "EMG at twice the gain": _gain(names, emg, 2.0),
    }
    return _boosting(
        "Sleep-EDF, boosting on EEG, EOG and EMG", "sleep-edf", cohorts.sleep_edf("strong"), changes
    )


def sleep_accel() -> Stager:
    """Boosting on activity and heart rate of 31 people."""
    changes = {
        "activity lost": _set([1], 0.0),
        "heart rate lost": _set([2], np.nan),
        "activity at three times the gain": _scale(1, 3.0),
        "activity at a third of the gain": _scale(1, 1 / 3),
    }
    return _boosting("Sleep-Accel, boosting on a watch", "sleep-accel", cohorts.sleep_accel(), changes)


def dod_h(network: str) -> Stager:
    """A published network that gives labels alone, of 25 people; the change is another network."""
    profile = sg.Profile.load("human-psg-5")
    after, subjects = {}, {}
    for other in (network, *(name for name in cohorts.PUBLISHED if name != network)):
        nights = list(cohorts.dod_h(other))
        subjects = {night.name: night.subject for night in nights}
        features, kappas = {}, []
        for night in nights:
            labels = np.where(
                np.isnan(night.probabilities[:, 0]), -1, np.nan_to_num(night.probabilities).argmax(1)
            )
            features[night.name] = measure(
                sg.Hypnogram(labels.astype(np.int8), AASM5, 30.0), profile
            ).features
            kappas.append(_kappa(night.labels, night.probabilities))
        after[SAME if other == network else f"{other} instead"] = Nights(features, float(np.mean(kappas)))
    return Stager(f"DOD-H, labels of {network}", subjects, after)


def _boosting(title: str, key: str, nights: Iterable[FeatureNight], changes: Mapping[str, Change]) -> Stager:
    """Stage every night, as it is and after each change, by a classifier that did not see its sleeper."""
    nights, profile = list(nights), sg.Profile.load("human-psg-5")
    path = CACHE / f"drift {key}.npz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **_staged(nights, changes))
    after = {}
    with np.load(path) as archive:
        for change in (SAME, *changes):
            rows = {night.name: archive[f"{change}/{night.name}"] for night in nights}
            features = {
                name: measure(sg.Hypnodensity(found, AASM5, 30.0), profile).features
                for name, found in rows.items()
            }
            kappas = [_kappa(night.labels, rows[night.name]) for night in nights]
            after[change] = Nights(features, float(np.mean(kappas)))
    return Stager(title, {night.name: night.subject for night in nights}, after)


def _staged(nights: Sequence[FeatureNight], changes: Mapping[str, Change]) -> dict[str, np.ndarray]:
    found = {}
    for held in parts([night.subject for night in nights], N_FOLDS):
        model = fitted_on([night for night in nights if night.subject not in held])
        for night in nights:
            if night.subject in held:
                found[f"{SAME}/{night.name}"] = staged_by(model, night)
                for change, apply in changes.items():
                    broken = apply(night.features)
                    broken[np.isnan(night.features).all(axis=1)] = np.nan
                    found[f"{change}/{night.name}"] = staged_by(model, replace(night, features=broken))
    return found


def _kappa(labels: np.ndarray, rows: np.ndarray) -> float:
    from sklearn.metrics import cohen_kappa_score

    both = (labels >= 0) & ~np.isnan(rows[:, 0])
    return float(cohen_kappa_score(labels[both], rows[both].argmax(axis=1)))


def _sleep_edf_columns() -> list[str]:
    import pyarrow.parquet

    path = cohorts.data_folder() / "sleep-edfx" / "sleep_edfx_cassette_26.parquet"
    return [
        name for name in pyarrow.parquet.read_schema(path).names if name.startswith(("EEG", "EOG", "EMG"))
    ]


def _swap(first: Sequence[int], second: Sequence[int]) -> Change:
    def apply(features: np.ndarray) -> np.ndarray:
        swapped = features.copy()
        swapped[:, first], swapped[:, second] = features[:, second], features[:, first]
        return swapped

    return apply


def _set(columns: Sequence[int], value: float) -> Change:
    def apply(features: np.ndarray) -> np.ndarray:
        lost = features.copy()
        lost[:, columns] = value
        return lost

    return apply


def _scale(column: int, factor: float) -> Change:
    def apply(features: np.ndarray) -> np.ndarray:
        scaled = features.copy()
        scaled[:, column] *= factor
        return scaled

    return apply


def _gain(names: Sequence[str], columns: Sequence[int], factor: float) -> Change:
    """Change the amplitude of a signal; ratios and frequencies stay."""

    def apply(features: np.ndarray) -> np.ndarray:
        louder = features.copy()
        for i in columns:
            if "logpow" in names[i]:
                louder[:, i] += 2 * np.log(factor)
            elif names[i].endswith("_var"):
                louder[:, i] *= factor**2
            elif names[i].endswith("_rms") or names[i].startswith("EMG"):
                louder[:, i] *= factor
        return louder

    return apply
