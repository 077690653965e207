"""Lay scorings over a recording, which is cut where their epochs begin: no stage is shifted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import FileFormatError, StageGuardWarning
from stageguard.formats.recordings.raw import crop
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.recording import Recording

SLACK_SECONDS = 0.01  # a recording that ends this short of an epoch's end still holds the epoch
SNAP = 0.01  # of an epoch: clocks of two files are rounded to seconds


@dataclass(frozen=True, slots=True)
class Scoring:
    """A hypnogram and when it begins, in seconds since the recording's start (negative: before it)."""

    hypnogram: Hypnogram
    begins: float = 0.0


def lay_over(
    recording: Recording, scorings: Mapping[str, Scoring], *, trailing: bool = False
) -> tuple[Recording, tuple[str, ...]]:
    """Return the recording with these scorings by scorer, and what was done to make them fit.

    `trailing` is for datasets known for scored epochs beyond the recording's end; else a warning counts them.
    """
    cuts = {name: _cut(scoring) for name, scoring in scorings.items()}
    if len({round(cut, 3) for cut in cuts.values()}) > 1:
        shown = ", ".join(f"{name} {cut:g} s" for name, cut in cuts.items())
        raise FileFormatError(
            f"{recording.id}: its scorings begin at different places within an epoch ({shown}). Give one."
        )
    cut = next(iter(cuts.values()), 0.0)
    notes: tuple[str, ...] = ()
    if cut:
        recording = cropped(recording, cut, recording.seconds)
        notes = (f"its epochs begin {cut:g} s after the recording: the signals before that are left out",)
    fitted = {}
    for name, scoring in scorings.items():
        fitted[name] = fit(scoring.hypnogram, recording, scoring.begins - cut, trailing=trailing)
    return replace(recording, scorings=fitted), notes


def fit(night: Hypnogram, recording: Recording, begins: float = 0.0, *, trailing: bool = False) -> Hypnogram:
    """Return a hypnogram with exactly the recording's epochs; those it does not have are unscored."""
    n_epochs = int((recording.seconds + SLACK_SECONDS) // night.epoch_seconds)
    if n_epochs < 1:
        raise FileFormatError(
            f"{recording.id}: lasts {recording.seconds:g} s, expected at least one scored epoch of "
            f"{night.epoch_seconds:g} s."
        )
    shift = round(begins / night.epoch_seconds)
    labels = np.full(n_epochs, UNSCORED, dtype=np.int8)
    first, end = max(shift, 0), min(shift + night.n_epochs, n_epochs)
    if first < end:
        labels[first:end] = night.labels[first - shift : end - shift]
    n_scored = int((night.labels != UNSCORED).sum())
    n_lost = n_scored - int((labels != UNSCORED).sum())
    if n_scored and n_lost == n_scored:
        raise FileFormatError(
            f"{recording.id}: none of the {n_scored:,} scored epochs lies within the recording of "
            f"{recording.seconds:,.0f} s. Does the scoring belong to it?"
        )
    if n_lost > 1 and not trailing:
        text = (
            f"{recording.id}: {n_lost:,} of {n_scored:,} scored epochs lie outside the recording of "
            f"{recording.seconds:,.0f} s and are left out. Does the scoring belong to it?"
        )
        warnings.warn(StageGuardWarning(text), stacklevel=3)
    return Hypnogram(labels, night.scheme, night.epoch_seconds, recording.start, night.scorer)


def begins_after(night: Hypnogram, recording: Recording) -> float | None:
    """Seconds from the start of a recording to that of its scoring, by their clocks; None if they are apart.

    Where a clock is missing, both begin together. Files of one night may carry different dates, since dates
    are often removed: then their times of day count, if they agree to within an epoch.
    """
    scored, recorded = night.start, recording.start
    if scored is None or recorded is None or (scored.tzinfo is None) != (recorded.tzinfo is None):
        return 0.0
    shift = (scored - recorded).total_seconds()
    if -night.n_epochs * night.epoch_seconds < shift < recording.seconds:
        return shift
    of_day = (shift + DAY_SECONDS / 2) % DAY_SECONDS - DAY_SECONDS / 2
    return of_day if abs(of_day) <= max(1.0, night.epoch_seconds) else None


def cropped(recording: Recording, first_seconds: float, end_seconds: float) -> Recording:
    """Return the part of a recording between two times; scorings are cut at the epochs nearest to them."""
    parts = {role: crop(signal, first_seconds, end_seconds) for role, signal in recording.signals.items()}
    start = None if recording.start is None else recording.start + timedelta(seconds=first_seconds)
    scorings = {}
    for name, night in recording.scorings.items():
        first, end = (round(at / night.epoch_seconds) for at in (first_seconds, end_seconds))
        scorings[name] = Hypnogram(
            night.labels[max(first, 0) : end], night.scheme, night.epoch_seconds, start, night.scorer
        )
    lights_off, lights_on = recording.lights_off_seconds, recording.lights_on_seconds
    return replace(
        recording,
        signals={role: part for role, part in parts.items() if part is not None},
        start=start,
        scorings=scorings,
        lights_off_seconds=None if lights_off is None else lights_off - first_seconds,
        lights_on_seconds=None if lights_on is None else lights_on - first_seconds,
    )


def _cut(scoring: Scoring) -> float:
    """Seconds from the recording's start to the first boundary between epochs."""
    epoch = scoring.hypnogram.epoch_seconds
    cut = scoring.begins % epoch
    return 0.0 if min(cut, epoch - cut) <= SNAP * epoch else cut
