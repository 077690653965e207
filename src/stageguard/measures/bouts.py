"""Scored nights as measures take them: the period a profile measures, bouts, and adjacent pairs of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stageguard import checks
from stageguard.arrays import Indices, Ints, Labels, Mask
from stageguard.errors import InputError
from stageguard.guard.decoding import Decoding
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.period import Period
from stageguard.night.timing import Moment, lights_window
from stageguard.profile.labels import in_stages_of
from stageguard.profile.profile import Profile

ScoredNight = Decoding | Hypnogram
TOLERANCE_EPOCHS = 2  # how far off a recovered rare pair may lie


@dataclass(frozen=True, slots=True, eq=False)
class Bouts:
    """Runs of one label, in order of time; runs of unscored epochs are among them, with stage -1."""

    starts: Indices  # (n_bouts,) first epoch of each
    stages: Labels  # (n_bouts,)
    lengths: Indices  # (n_bouts,) in epochs

    @property
    def complete(self) -> Mask:
        """Bouts with a scored epoch of another stage on either side: nothing cut them short."""
        scored = self.stages != UNSCORED
        complete = np.zeros(len(scored), dtype=bool)
        # the first and the last bout touch the end of the recording, which cut them
        complete[1:-1] = scored[:-2] & scored[1:-1] & scored[2:]
        return complete


def bouts_of(labels: Labels) -> Bouts:
    """Return the runs of equal labels."""
    changes = (labels[1:] != labels[:-1]).nonzero()[0]
    edges = np.empty(len(changes) + 2, dtype=np.intp)
    edges[0], edges[-1] = 0, len(labels)
    np.add(changes, 1, out=edges[1:-1])
    starts = edges[:-1]
    return Bouts(starts, labels[starts], edges[1:] - starts)


def runs_of(mask: Mask) -> Indices:
    """Return the first epoch and the end of every run of true epochs, (n_runs, 2)."""
    padded = np.zeros(len(mask) + 2, dtype=bool)  # a run at either end begins and ends as well
    padded[1:-1] = mask
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def stage_counts(labels: Labels, n_stages: int) -> Ints:
    """Return how many epochs of each stage there are."""
    return np.bincount(labels[labels != UNSCORED], minlength=n_stages)


def pair_counts(labels: Labels, n_stages: int) -> Ints:
    """Return (from, to) counts of adjacent epochs that are both scored, stays included."""
    return contingency(labels[:-1], labels[1:], n_stages)


def contingency(first: Labels, second: Labels, n_stages: int) -> Ints:
    """Count epochs by their stage in the first (rows) and in the second (columns), where both are scored."""
    # an epoch that only one of them scored says nothing about the two
    both = (first >= 0) & (second >= 0)
    cells = first[both].astype(np.int64) * n_stages + second[both]
    return np.bincount(cells, minlength=n_stages * n_stages).reshape(n_stages, n_stages)


def whole_epochs(seconds: float, epoch_seconds: float) -> int:
    """Return the smallest number of epochs that last at least this long."""
    return math.ceil(seconds / epoch_seconds - 1e-9)  # the slack keeps 0.3 s / 0.1 s at three epochs


def hypnogram_of(night: ScoredNight) -> Hypnogram:
    """Return the stages of a scored night: a hypnogram, or that of a decoding."""
    if isinstance(night, Hypnogram):
        return night
    if isinstance(night, Decoding):
        return night.hypnogram
    raise InputError(f"the night is {checks.shown(night)}, expected a Hypnogram or a Decoding.")


def expert_of(scoring: object, what: str = "expert") -> Hypnogram:
    """Return an expert's scoring; what a stager made is refused, since then the arguments are swapped."""
    if isinstance(scoring, Hypnogram):
        return scoring
    hint = " The expert comes first: swap the two." if isinstance(scoring, Decoding | Hypnodensity) else ""
    raise InputError(f"{what} is {checks.shown(scoring)}, expected an expert's Hypnogram.{hint}")


def hypnogram_before(decoding: Decoding) -> Hypnogram:
    """Return the stager's own choice as a hypnogram, to be compared with the decoded one."""
    return replace(decoding.hypnogram, labels=decoding.argmax, scorer=decoding.source, assumed=())


def cuts_of(night: ScoredNight) -> Sequence[int]:
    """Return the first epochs of a decoding's later segments; no epochs are adjacent across such a cut."""
    if not isinstance(night, Decoding):
        return ()
    return night.night.segments


Lights = tuple[Moment | None, Moment | None]  # off, on


def period_for(night: ScoredNight, profile: Profile, lights: Lights = (None, None)) -> Period:
    """Return the epochs of a night that a profile measures; of a decoding those it was decoded by."""
    hypnogram = hypnogram_of(night)
    first, stop = lights_window(hypnogram, *lights)
    # before and after must be measured in the same epochs, so both take the stager's own sleep period
    if isinstance(night, Decoding) and night.profile.scheme == profile.scheme:
        if profile.measures_sleep_period and night.profile.measures_sleep_period and lights == (None, None):
            return night.period
        return profile.period_in(night.night.own, night.epoch_seconds, first, stop)
    scored = in_stages_of(profile, hypnogram)
    return profile.period_in(scored.labels, scored.epoch_seconds, first, stop)


def labels_in(labels: Labels, period: Period, cuts: Sequence[int]) -> Labels:
    """Return the labels of a period, with an unscored epoch in every cut between segments.

    Then no epochs are adjacent across a cut. An empty period is one unscored epoch.
    """
    first, stop = period
    if first == stop:
        return np.array([UNSCORED], dtype=np.int8)
    # indices of np.insert refer to the array before any insertion
    inside = [cut - first for cut in cuts if first < cut < stop]
    return np.insert(labels[first:stop], inside, UNSCORED) if inside else labels[first:stop]
