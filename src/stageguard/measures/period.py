"""The epochs of a scored night that a profile measures: its sleep period, or the recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stageguard.base.arrays import Labels
from stageguard.guard.decoding import Decoding
from stageguard.measures.bouts import ScoredNight, hypnogram_of
from stageguard.night.hypnogram import UNSCORED
from stageguard.night.period import Period
from stageguard.night.timing import Moment, lights_window
from stageguard.profile.night_stages import in_stages_of
from stageguard.profile.profile import Profile

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
