"""The tasks of the study: probabilities of unseen nights and what experts scored. Decodes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cohorts
import numpy as np
from cohorts import FeatureNight, VoteNight
from label_nights import ACCUSLEEP, mice_by, people
from stagers import CACHE, N_FOLDS, parts, staged_by_sleepecg, staged_folds

from stageguard.night.stages import AASM5, SCHEMES, WNR3, StageScheme
from stageguard.profile.stagers import KNOWN_STAGERS

NETWORKS = ("accusleep", "attnsleep", "deepsleepnet", "seqsleepnet", "sleeptransformer", "usleep")
LABS = ("lab_1", "lab_2", "lab_3")


@dataclass(frozen=True)
class TaskNight:
    """One night of a task; rows of NaN and labels of -1 where epochs are missing."""

    name: str
    subject: str
    probabilities: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class TaskFold:
    """Nights to learn from and nights to be judged on, of different subjects."""

    train: list[TaskNight]
    test: list[TaskNight]


@dataclass(frozen=True)
class Task:
    """One stager on one cohort in one scheme."""

    name: str
    cohort: str
    kind: str  # "per-epoch", "votes", "published", "network", "in the box" or "labels"
    scheme: StageScheme
    epoch_seconds: float
    trained: str | None
    base: str  # shipped profile it starts from
    paper: str | None  # the paper's profile for it
    folds: Callable[[], list[TaskFold]]

    @property
    def stager(self) -> str:
        """What stages the nights, whatever the cohort."""
        return self.name.partition(", ")[2].removesuffix(f", {self.scheme.n_stages} stages")


TITLES = {"sleep-accel": "Sleep-Accel", "sleep-edf": "Sleep-EDF", "slpdb": "slpdb"}
PSG = {3: "human-psg-3", 5: "human-psg-5"}
WATCH = {3: "human-cardiorespiratory-3", 2: "human-actigraphy-2"}
PAPER = {5: None, 3: "kdd2026-cardiorespiratory", 2: "kdd2026-actigraphy"}


def tasks() -> Iterator[Task]:
    """Every task, the quick ones first; networks where their probabilities are in the cache."""
    yield from _boosting("sleep-accel", "boosting", "sleep-accel", cohorts.sleep_accel, WATCH)
    yield from _boosting("slpdb", "HRV boosting", "slpdb", cohorts.slpdb, {3: WATCH[3]})
    for kind, features in (("strong", "EEG"), ("weak", "respiration and EMG")):
        nights = partial(cohorts.sleep_edf, kind)
        yield from _boosting("sleep-edf", f"{features} boosting", f"sleep-edf-{kind}", nights, PSG)
    yield from _dod_h()
    yield from _mice()
    yield from _trained_networks("sleep-edf", PSG[3])
    yield from _trained_networks("sleep-accel", WATCH[3])


def _boosting(
    cohort: str,
    stager: str,
    cached_as: str,
    nights: Callable[[], Iterable[FeatureNight]],
    bases: Mapping[int, str],  # by number of stages
) -> Iterator[Task]:
    for n, base in bases.items():
        yield Task(
            name=f"{TITLES[cohort]}, {stager}, {n} stages",
            cohort=cohort,
            kind="per-epoch",
            scheme=_scheme(n),
            epoch_seconds=30.0,
            trained="natural",
            base=base,
            paper=PAPER[n],
            folds=lambda n=n: _staged(cached_as, list(nights()), _scheme(n)),
        )


def tasks_in_the_box() -> Iterator[Task]:
    """Tasks added after the goals were set: SleepECG's network as published.

    It is decoded as the table of known stagers says, and once more as if nobody knew how it was trained.
    """
    known = KNOWN_STAGERS["sleepecg"]
    for stager, trained in (("SleepECG", known.trained), ("SleepECG as if unknown", None)):
        yield Task(
            name=f"slpdb, {stager}, 3 stages",
            cohort="slpdb",
            kind="in the box",
            scheme=WNR3,
            epoch_seconds=known.epoch_seconds,
            trained=trained,
            base=known.profile,
            paper=PAPER[3],
            folds=_slpdb_by_sleepecg,
        )


def _slpdb_by_sleepecg() -> list[TaskFold]:
    nights = list(cohorts.slpdb_beats())
    rows = staged_by_sleepecg("slpdb", nights)
    merged_labels = AASM5.merge_map(WNR3)
    return _voted(
        [
            VoteNight(
                night.name,
                night.subject,
                rows[night.name],
                np.where(night.labels < 0, -1, merged_labels[np.maximum(night.labels, 0)]),
            )
            for night in nights
        ],
        WNR3,
        WNR3,
    )


def tasks_of_labels() -> Iterator[Task]:
    """Tasks added after the goals were set: networks that give labels alone, by typical confusions.

    The shares that stand for a night's labels were counted on other networks, and on other nights of DOD-H or
    in other laboratories.
    """
    for n, base in PSG.items():
        for network in cohorts.PUBLISHED:
            yield Task(
                name=f"DOD-H, labels of {network}, {n} stages",
                cohort="dod-h",
                kind="labels",
                scheme=_scheme(n),
                epoch_seconds=30.0,
                trained=None,
                base=base,
                paper=PAPER[n],
                folds=lambda n=n, network=network: _by_shares(people(network, _scheme(n)), _scheme(n)),
            )
    for lab in LABS:
        for network in ACCUSLEEP:
            yield Task(
                name=f"Mice of {lab.replace('_', ' ')}, labels of {network}, 3 stages",
                cohort="mouse",
                kind="labels",
                scheme=WNR3,
                epoch_seconds=4.0,
                trained=None,
                base="mouse-eeg-emg-3",
                paper="kdd2026-mouse-eeg-emg",
                folds=lambda lab=lab, network=network: _by_shares(mice_by(network, lab, LABS), WNR3),
            )


def _by_shares(nights: Sequence[VoteNight], scheme: StageScheme) -> list[TaskFold]:
    return _voted(nights, scheme, scheme)


def _dod_h() -> Iterator[Task]:
    for n, base in PSG.items():
        yield Task(
            name=f"DOD-H, votes of 20 networks, {n} stages",
            cohort="dod-h",
            kind="votes",
            scheme=_scheme(n),
            epoch_seconds=30.0,
            trained=None,
            base=base,
            paper=PAPER[n],
            folds=lambda n=n: _voted(list(cohorts.dod_h()), AASM5, _scheme(n)),
        )
    for network in cohorts.PUBLISHED:
        yield Task(
            name=f"DOD-H, {network}, 5 stages",
            cohort="dod-h",
            kind="published",
            scheme=AASM5,
            epoch_seconds=30.0,
            trained=None,
            base=PSG[5],
            paper=PAPER[5],
            folds=lambda network=network: _published(list(cohorts.dod_h(network))),
        )


def _mice() -> Iterator[Task]:
    for lab in LABS:
        yield Task(
            name=f"Mice of {lab.replace('_', ' ')}, votes of 6 networks",
            cohort="mouse",
            kind="votes",
            scheme=_scheme(3),
            epoch_seconds=4.0,
            trained=None,
            base="mouse-eeg-emg-3",
            paper="kdd2026-mouse-eeg-emg",
            folds=lambda lab=lab: _voted(list(cohorts.mouse(lab)), _scheme(3), _scheme(3)),
        )


def _trained_networks(cohort: str, base: str) -> Iterator[Task]:
    for network in NETWORKS:
        files = [_network_file(cohort, network, fold) for fold in range(N_FOLDS)]
        if all(file.exists() for file in files):
            yield Task(
                name=f"{TITLES[cohort]}, {network}, 3 stages",
                cohort=cohort,
                kind="network",
                scheme=_scheme(3),
                epoch_seconds=30.0,
                trained="natural",
                base=base,
                paper=PAPER[3],
                folds=lambda files=files: _networks(cohort, files),
            )


def _scheme(n_stages: int) -> StageScheme:
    return next(scheme for scheme in SCHEMES.values() if scheme.n_stages == n_stages)


def merged(probabilities: np.ndarray, labels: np.ndarray, own: StageScheme, scheme: StageScheme):
    """Sum probabilities, and rename labels, into a coarser scheme."""
    if own == scheme:
        return probabilities, labels
    targets = own.merge_map(scheme)
    rows = np.zeros((len(probabilities), scheme.n_stages))
    for stage, target in enumerate(targets):
        rows[:, target] += probabilities[:, stage]
    return rows, np.where(labels < 0, -1, targets[np.maximum(labels, 0)])


def _night(
    name: str, subject: str, rows: np.ndarray, labels: np.ndarray, own: StageScheme, scheme: StageScheme
) -> TaskNight:
    rows, labels = merged(rows, labels, own, scheme)
    return TaskNight(name, subject, rows, labels)


def feature_task(
    stager: str,
    cohort: str,
    nights: Sequence[FeatureNight],
    rows: Mapping[str, np.ndarray],  # five stages, by night
    n_stages: int,
    base: str,
) -> tuple[Task, list[TaskNight]]:
    """Return a task of a stager that was trained elsewhere on features, and its nights."""
    scheme, by_name = _scheme(n_stages), {night.name: night for night in nights}
    made = [
        _night(key, by_name[key].subject, own, by_name[key].labels, AASM5, scheme)
        for key, own in rows.items()
    ]
    task = Task(
        name=f"{TITLES[cohort]}, {stager}, {n_stages} stages",
        cohort=cohort,
        kind="per-epoch",
        scheme=scheme,
        epoch_seconds=30.0,
        trained="natural",
        base=base,
        paper=PAPER[n_stages],
        folds=lambda: [TaskFold([], made)],
    )
    return task, made


def _staged(name: str, nights: Sequence[FeatureNight], scheme: StageScheme) -> list[TaskFold]:
    by_name = {night.name: night for night in nights}
    folds = []
    for fold in staged_folds(name, nights):
        made = [
            [
                _night(key, by_name[key].subject, rows, by_name[key].labels, AASM5, scheme)
                for key, rows in part.items()
            ]
            for part in (fold.train, fold.test)
        ]
        folds.append(TaskFold(*made))
    return folds


def _voted(nights: Sequence[VoteNight], own: StageScheme, scheme: StageScheme) -> list[TaskFold]:
    """Fold nights whose networks saw none of them."""
    made = [_night(n.name, n.subject, n.probabilities, n.labels, own, scheme) for n in nights]
    return [
        TaskFold([n for n in made if n.subject not in held], [n for n in made if n.subject in held])
        for held in parts([n.subject for n in made], N_FOLDS)
    ]


def _published(nights: Sequence[VoteNight]) -> list[TaskFold]:
    """Fold nights of a network that gives labels alone, softened by its confusions on training nights."""
    folds = []
    for fold in _voted(nights, AASM5, AASM5):
        train = [_soften(n, [other for other in fold.train if other is not n]) for n in fold.train]
        folds.append(TaskFold(train, [_soften(n, fold.train) for n in fold.test]))
    return folds


def _soften(night: TaskNight, others: Sequence[TaskNight]) -> TaskNight:
    """Replace each label by what experts scored where other nights had it; the label stays the likeliest."""
    n_stages = night.probabilities.shape[1]
    confusion = np.full((n_stages, n_stages), 0.5)
    for other in others:
        both = ~np.isnan(other.probabilities[:, 0]) & (other.labels >= 0)
        np.add.at(confusion, (other.probabilities[both].argmax(axis=1), other.labels[both]), 1)
    np.fill_diagonal(confusion, np.maximum(confusion.diagonal(), 1.001 * confusion.max(axis=1)))
    confusion /= confusion.sum(axis=1, keepdims=True)
    return replace(night, probabilities=night.probabilities @ confusion)


def _network_file(cohort: str, network: str, fold: int) -> Path:
    return CACHE / f"{cohort} {network} penalty 0 seed 42 fold {fold}.npz"


def _networks(cohort: str, files: Sequence[Path]) -> list[TaskFold]:
    """Fold nights as the networks' study did: each night was staged by a network that had not seen it.

    The networks of the other folds have seen the subjects of this one, so the probabilities a guard learns
    from are, other than for boosting, not blind to the test subjects.
    """
    from networks import tables_of

    tables = {table.recording: table for table in tables_of(cohort)}
    by_fold: list[list[TaskNight]] = []
    for file in files:
        with np.load(file) as archive:
            by_fold.append([_on_axis(tables[name], archive[name]) for name in archive.files])
    return [
        TaskFold([n for k, part in enumerate(by_fold) for n in part if k != fold], by_fold[fold])
        for fold in range(len(files))
    ]


def _on_axis(table, rows: np.ndarray) -> TaskNight:
    place = table.epochs - table.epochs[0]
    whole, labels = np.full((place[-1] + 1, rows.shape[1]), np.nan), np.full(place[-1] + 1, -1)
    whole[place], labels[place] = rows, table.labels
    return TaskNight(table.recording, str(table.subject), whole, labels)
