"""The gain of a fit with fewer scored subjects, and how many subjects are enough."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stageguard.fitting.cross_validation import Choosing, Folds, HeldOut, held_out
from stageguard.fitting.judging import Criterion
from stageguard.fitting.material import Material
from stageguard.profile.rules.target import FEWEST_NIGHTS

SIZES = (2, 4, 8, 15, 30, 60, 120, 240, 480)
ENOUGH_SHARE = 0.9  # of the gain with all training subjects


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The gain on held-out subjects of a fit to some subjects: fitted minus argmax."""

    n_subjects: int
    n_nights: float  # mean over folds
    kappa_gain: float
    criterion_gain: float
    standard_error: float  # of the criterion's gain, over held-out subjects


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Gains by number of scored subjects."""

    points: tuple[CurvePoint, ...]

    @property
    def enough(self) -> CurvePoint | None:
        """The first point from which on the gain is nine tenths of the last one's; None without a gain."""
        last = self.points[-1]
        if not last.criterion_gain > 0:
            return None
        enough = last
        for point in reversed(self.points):
            # from the largest size down: a small size that is good by chance must not count
            if not point.criterion_gain >= ENOUGH_SHARE * last.criterion_gain:
                break
            enough = point
        return enough

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        enough = self.enough
        return {
            "points": [asdict(point) for point in self.points],
            "enough_subjects": None if enough is None or enough is self.points[-1] else enough.n_subjects,
            "finding": str(self),
        }

    def __str__(self) -> str:
        """Return how many scored nights are enough, in one sentence, if the points tell."""
        last, enough = self.points[-1], self.enough
        nights = f"{last.n_nights:.0f} scored nights of {last.n_subjects} subjects"
        if len(self.points) == 1:
            gains = f"gain {last.criterion_gain:+.3f}" if enough else "gain nothing"
            return f"{nights} {gains}; fewer were not tried, so that nothing is known of more."
        best = max(self.points, key=lambda point: point.criterion_gain)
        if enough is None and best.criterion_gain <= 0:
            return f"Nothing is gained with up to {nights}: more of the same will hardly help."
        if enough is None or (enough is last and best is not last):
            return (
                f"The gain goes up and down: {best.criterion_gain:+.3f} with {best.n_nights:.0f} scored "
                f"nights, {last.criterion_gain:+.3f} with {nights}. How many are enough cannot be told."
            )
        if enough is last and self.points[-2].n_nights < FEWEST_NIGHTS <= last.n_nights:
            return (
                f"The gain still grows at {nights}, but from {FEWEST_NIGHTS} nights on the stager's own "
                "fragmentation counts, which needs no scoring: whether more scored nights help is not known."
            )
        if enough is last:
            return f"The gain still grows at {nights}: more scored nights would help."
        return (
            f"About {enough.n_nights:.0f} scored nights of {enough.n_subjects} subjects are enough: they "
            f"gain {enough.criterion_gain:+.3f}, {nights} {last.criterion_gain:+.3f}."
        )


def sizes_below(n_subjects: int) -> list[int]:
    """Return the numbers of subjects to try, short of all."""
    return [size for size in SIZES if size < n_subjects]


def learning_curve(folds: Folds, whole: Material, full: HeldOut, choosing: Choosing) -> LearningCurve:
    """Fit on growing parts of each fold's training subjects; `full` is the result with all of them."""
    n_training = min(len(train.groups) for train, _ in folds)
    points = []
    for size in sizes_below(n_training):
        parts = [(_part(train, size, choosing.seed), test) for train, test in folds]
        points.append(_point(parts, held_out(parts, whole, choosing), choosing.criterion, size))
    points.append(_point(folds, full, choosing.criterion, n_training))
    return LearningCurve(tuple(points))


def _part(train: Material, size: int, seed: int) -> Material:
    """Return the nights of some groups; a smaller part lies within a larger one."""
    groups = train.groups
    # the same order at every size, so that a smaller part lies within a larger one
    order = np.random.default_rng(seed).permutation(len(groups))[:size]
    return train.of_groups(groups[i] for i in order)


def _point(parts: Folds, nights: HeldOut, criterion: Criterion, size: int) -> CurvePoint:
    n_nights = float(np.mean([len(train.nights) for train, _ in parts]))
    gain, error = nights.gain(criterion)
    return CurvePoint(size, n_nights, nights.gain()[0], gain, error)
