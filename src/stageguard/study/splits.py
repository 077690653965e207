"""Training and test subjects of each fold, and the check that nothing leaks between them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stageguard.base.errors import InputError, StageGuardError
from stageguard.study.config import Split
from stageguard.study.nights import StudyNight


class LeakError(StageGuardError, ValueError):
    """Data of a test subject was used in training."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Subjects of one fold; nobody is in two of its groups."""

    number: int
    training: tuple[str, ...]
    test: tuple[str, ...]

    def nights_of(self, nights: Iterable[StudyNight], *, test: bool) -> list[StudyNight]:
        """Return the training or the test nights."""
        subjects = set(self.test if test else self.training)
        return [night for night in nights if night.subject in subjects]


def make_folds(subjects: Sequence[str], split: Split, seed: int) -> tuple[Fold, ...]:
    """Return the folds: each subject is tested once, except the tuning subject."""
    names = sorted(set(subjects))
    tuning = split.tuning_subject
    if tuning is not None:
        if tuning not in names:
            raise InputError(f"tuning_subject is {tuning!r}, expected one of {', '.join(names[:5])}, ...")
        names.remove(tuning)
    if split.kind == "k-fold":
        n_folds = split.folds or 0
        if n_folds > len(names):
            raise InputError(f"split has {n_folds} folds for {len(names)} subjects. Use fewer folds.")
        order = np.random.default_rng(seed).permutation(names).tolist()
        tested = [tuple(sorted(part)) for part in np.array_split(order, n_folds)]
        tested = [tuple(str(name) for name in part) for part in tested]
    else:
        tested = [(name,) for name in names[: split.folds]]
    folds = [
        Fold(number, tuple(name for name in names if name not in part), part)
        for number, part in enumerate(tested)
    ]
    if len(folds[0].training) < 2:
        raise InputError(f"a fold leaves {len(folds[0].training)} subjects to train on, expected at least 2.")
    return tuple(folds)


def check_leaks(
    fold: Fold,
    training: Sequence[StudyNight],
    test: Sequence[StudyNight],
    learned: Mapping[str, Iterable[str]],
) -> None:
    """Raise an error if a subject, a recording or something learned is on both sides of the split.

    `learned` has the subjects from whom each thing was learned, by its name. A recording is also recognised
    under another name, by its features.
    """
    for what, of_training, of_test in (
        ("subject", {n.subject for n in training}, {n.subject for n in test}),
        ("recording", {n.recording for n in training}, {n.recording for n in test}),
    ):
        if crossing := sorted(of_training & of_test):
            raise LeakError(f"fold {fold.number}: {what} {crossing[0]!r} is trained on and tested.")
    by_content = {_content(night): night.recording for night in training}
    for night in test:
        if (same := by_content.get(_content(night))) is not None:
            raise LeakError(
                f"fold {fold.number}: test recording {night.recording!r} is training recording {same!r} "
                "under another name. Remove one of them, or give them one subject."
            )
    for what, subjects in learned.items():
        if crossing := sorted(set(subjects) - set(fold.training)):
            raise LeakError(
                f"fold {fold.number}: {what} was learned on {crossing[0]!r}, who is not a training subject."
            )


def _content(night: StudyNight) -> str:
    return hashlib.sha256(night.table.features.tobytes()).hexdigest()
