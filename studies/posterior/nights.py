"""The stagers of the study: their probabilities of nights they have not seen, and what experts scored."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import stageguard as sg
from stageguard.guard.decoding import Decoding
from stageguard.night.stages import AASM5, WNR3, StageScheme

sys.path.append(str(Path(__file__).parents[1] / "guard-on-real-data"))

import cohorts
import tasks
from label_nights import count, rows_of
from label_nights import dod_h as label_nights
from stagers import CACHE, SEED, staged_folds

CONTEXT_EPOCHS = 8  # on either side, that the stager with context sees
# Which signals each profile is for; whoever has two stages has them from anything.
EEG, HEART = ("EEG boosting", "EEG boosting with context", "votes", "labels", "network"), ("heart",)
SIGNALS = {
    "human-psg-5": EEG,
    "human-psg-3": EEG,
    "human-cardiorespiratory-3": HEART,
    "human-actigraphy-2": (*EEG, *HEART),
}
UNUSABLE = ("votes of 20 networks of another cohort", "labels of Tsinalis")


@dataclass(frozen=True)
class Staged:
    """One stager on one cohort: its rows and the expert's labels by night, in its own stages."""

    stager: str
    cohort: str
    kind: str  # of SIGNALS
    scheme: StageScheme
    nights: list[tuple[str, str, np.ndarray, np.ndarray]]  # name, subject, rows, labels


@dataclass(frozen=True)
class StudyNight:
    """One decoded night, and what the expert scored of it."""

    name: str
    subject: str
    decoding: Decoding
    expert: np.ndarray  # (n_epochs,) -1 where unscored
    scorers: tuple[np.ndarray, ...] = ()  # each of several experts, where the expert is their consensus


@dataclass(frozen=True)
class StudyStager:
    """The nights of one stager on one cohort under a profile."""

    name: str
    cohort: str
    kind: str
    nights: list[StudyNight]

    @property
    def is_usable(self) -> bool:
        """Whether it stages its own cohort, and well enough; the intervals of others should be withheld."""
        return not any(name in self.name for name in UNUSABLE)


def stagers(base: str) -> Iterator[StudyStager]:
    """Decode the nights of every stager that a profile is for."""
    profile = sg.Profile.load(base)
    for staged in _all():
        if staged.kind not in SIGNALS[base] or staged.scheme.n_stages < profile.scheme.n_stages:
            continue
        nights = []
        for name, subject, rows, labels in staged.nights:
            rows, labels = tasks.merged(rows, labels, staged.scheme, profile.scheme)
            if np.isnan(rows).all() or (labels > 0).sum() < 20:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sg.StageGuardWarning)
                found = sg.decode(sg.Hypnodensity(rows, profile.scheme, 30.0), profile)
            scorers = _scorers(name, profile.scheme, len(labels)) if staged.cohort == "DOD-H" else ()
            nights.append(StudyNight(name, subject, found, labels, scorers))
        yield StudyStager(f"{staged.cohort}, {staged.stager}", staged.cohort, staged.kind, nights)


@cache
def _all() -> list[Staged]:
    """Return all stagers; those of fewer than five stages last."""
    accel = list(cohorts.sleep_accel())
    weak, heart = list(cohorts.sleep_edf("weak")), list(cohorts.slpdb())
    found = [
        *eeg_stagers(),
        _boosted("Sleep-Accel", "boosting", "heart", "sleep-accel", accel),
        _boosted("slpdb", "HRV boosting", "heart", "slpdb", heart),
        _boosted("Sleep-EDF", "respiration and EMG boosting", "heart", "sleep-edf-weak", weak),
    ]
    for task in tasks.tasks():
        if task.kind == "network":
            kind = "network" if task.cohort == "sleep-edf" else "heart"
            nights = [(n.name, n.subject, n.probabilities, n.labels) for f in task.folds() for n in f.test]
            found.append(Staged(task.stager, tasks.TITLES[task.cohort], kind, WNR3, nights))
    return found


def eeg_stagers() -> Iterator[Staged]:
    """Yield the stagers that see the EEG and give five stages."""
    strong = list(cohorts.sleep_edf("strong"))
    yield _boosted("Sleep-EDF", "EEG boosting", "EEG boosting", "sleep-edf-strong", strong)
    yield _with_context(strong)
    yield from _dod_h()


def _boosted(cohort: str, stager: str, kind: str, cached_as: str, nights: Sequence) -> Staged:
    by_name = {night.name: night for night in nights}
    rows = {name: own for fold in staged_folds(cached_as, nights) for name, own in fold.test.items()}
    listed = [(name, by_name[name].subject, own, by_name[name].labels) for name, own in rows.items()]
    return Staged(stager, cohort, kind, AASM5, listed)


def _with_context(nights: Sequence) -> Staged:
    """Return boosting on the probabilities of the epochs around, trained on other people: a good stager."""
    by_name = {night.name: night for night in nights}
    listed = []
    for number, fold in enumerate(staged_folds("sleep-edf-strong", nights)):
        path = CACHE / f"sleep-edf-context-fold{number}.npz"
        if not path.exists():
            from sklearn.ensemble import HistGradientBoostingClassifier

            x = np.concatenate(
                [_around(rows)[by_name[name].labels >= 0] for name, rows in fold.train.items()]
            )
            y = np.concatenate([by_name[name].labels[by_name[name].labels >= 0] for name in fold.train])
            model = HistGradientBoostingClassifier(max_iter=60, random_state=SEED).fit(x, y)
            staged = {}
            for name, rows in fold.test.items():
                has_signal = ~np.isnan(rows[:, 0])
                staged[name] = np.full(rows.shape, np.nan)
                staged[name][has_signal] = model.predict_proba(_around(rows)[has_signal])
            np.savez_compressed(path, **staged)
        with np.load(path) as archive:
            listed += [(n, by_name[n].subject, archive[n], by_name[n].labels) for n in archive.files]
    return Staged("EEG boosting with context", "Sleep-EDF", "EEG boosting with context", AASM5, listed)


def _around(rows: np.ndarray) -> np.ndarray:
    """Return each epoch's rows with those around it, and the time."""
    padded = np.pad(rows, ((CONTEXT_EPOCHS, CONTEXT_EPOCHS), (0, 0)), constant_values=np.nan)
    shifted = [padded[i : i + len(rows)] for i in range(2 * CONTEXT_EPOCHS + 1)]
    return np.concatenate([*shifted, np.arange(len(rows))[:, None]], axis=1)


def _dod_h() -> Iterator[Staged]:
    """Yield votes of six networks and of 20 trained elsewhere, and the labels of each of the six.

    Labels stand for what experts say where the other networks say so on the other nights.
    """
    six = label_nights(each=True)
    by_night: dict[str, list] = {}
    for night in six:
        by_night.setdefault(night.night, []).append(night)
    votes = []
    for name, own in by_night.items():
        said = np.stack([night.said for night in own])  # (n_networks, n_epochs)
        counts = np.stack([(said == stage).sum(axis=0) for stage in range(5)], axis=1).astype(float)
        sums = counts.sum(axis=1, keepdims=True)
        votes.append((name, name, np.where(sums > 0, counts / np.maximum(sums, 1), np.nan), own[0].truth))
    yield Staged("votes of six networks", "DOD-H", "votes", AASM5, votes)
    elsewhere = [(n.name, n.subject, n.probabilities, n.labels) for n in cohorts.dod_h()]
    yield Staged("votes of 20 networks of another cohort", "DOD-H", "votes", AASM5, elsewhere)
    for network in cohorts.PUBLISHED:
        listed = []
        for night in six:
            if night.stager == network:
                shares = count([o for o in six if o.stager != network and o.night != night.night], 5)
                listed.append((night.night, night.subject, rows_of(night.said, shares), night.truth))
        yield Staged(f"labels of {network}", "DOD-H", "labels", AASM5, listed)


@cache
def _panels() -> dict[str, np.ndarray]:
    with np.load(cohorts.data_folder() / "dod-h" / "dod_h.npz") as archive:
        keys = [key for key in archive.files if key.endswith("/scorers")]
        return {key.removesuffix("/scorers"): archive[key].astype(int) for key in keys}


def _scorers(name: str, scheme: StageScheme, n_epochs: int) -> tuple[np.ndarray, ...]:
    panel = _panels()[name][:, :n_epochs]
    if scheme == AASM5:
        return tuple(panel)
    return tuple(np.append(AASM5.merge_map(scheme), -1)[panel])  # -1 stays -1
