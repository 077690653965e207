"""Which epochs of heart and breathing to trust, by the paper's rule or by the bad share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats, Mask
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording
from stageguard.signals.beats import find_beats, has_beats
from stageguard.signals.breathing import Belt, Breathing, read_belt
from stageguard.signals.heart_rate import PLAUSIBLE_BPM, raw_heart_rate
from stageguard.signals.quality.rules import Assessed, from_epochs, named
from stageguard.signals.windows import covered_share, runs

BELTS = ("thorax", "abdomen")
MISSING_SECONDS = 5.0  # no heartbeat, or no belt, for so long is a missing segment
LEAST_OVERLAP_SECONDS = 1.0  # of such a segment with an epoch that it spoils
ECTOPIC_TOLERANCE = 0.2
IRREGULAR_SHARE = 0.5  # of an epoch whose intervals jump about
REGULAR_SHARE = 0.1  # a heart with more of its intervals out of step is not a regular one
BELT_WEIGHT = 0.5  # of what is known, when there is no breathing

HEART_RATE = f"heart rate: outside {PLAUSIBLE_BPM[0]:g}-{PLAUSIBLE_BPM[1]:g} bpm"


@dataclass(frozen=True, slots=True)
class Heart:
    """Stretches of time with a heart rate, in order and never overlapping; between them there is none."""

    starts: Floats  # (n,) seconds
    ends: Floats  # (n,)
    bpm: Floats  # (n,)
    is_odd: Mask  # (n,) whether an interval between beats is far from its neighbours

    @property
    def is_implausible(self) -> Mask:
        """Whether each rate is outside 30-200 bpm."""
        return np.asarray((self.bpm < PLAUSIBLE_BPM[0]) | (self.bpm > PLAUSIBLE_BPM[1]))

    def missing(self, end: float) -> tuple[Floats, Floats]:
        """Return the stretches of 5 s or more without a heart rate, from the recording's start to its end."""
        starts, ends = np.append(0.0, self.ends), np.append(self.starts, end)
        keep = ends - starts >= MISSING_SECONDS
        return starts[keep], ends[keep]


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch, from beats or heart rates, and the belts that are there.

    "kdd2026" marks an epoch whose heart rate is outside 30-200 bpm, or in which a segment of 5 s or more of
    the heart or of a belt is missing. "graded" takes the share of the epoch without a plausible heartbeat,
    or half of the share without breathing, whichever is more.
    """
    heart = _from_beats(recording) if has_beats(recording) else _from_rates(recording)
    present = [role for role in BELTS if role in recording.signals]
    belts = {role: read_belt(recording, role, Breathing().band) for role in present}
    return _paper(heart, belts, epochs) if rules == "kdd2026" else _graded(heart, belts, epochs)


def _paper(heart: Heart, belts: Mapping[str, Belt], epochs: EpochGrid) -> Assessed:
    """Judge the epoch's mean rate, and segments that are missing; an epoch is clean or lost."""
    edges = epochs.edges
    seconds, beats = _within(heart, edges)
    rate = np.divide(beats, seconds, out=np.full(epochs.n_epochs, np.nan), where=seconds > 1e-6)
    least = min(LEAST_OVERLAP_SECONDS / epochs.epoch_seconds, 1.0)
    flags = {
        HEART_RATE: (rate < PLAUSIBLE_BPM[0]) | (rate > PLAUSIBLE_BPM[1]),
        "heart: missing": np.isnan(rate) | (covered_share(edges, *heart.missing(edges[-1])) >= least),
    }
    for role, belt in belts.items():
        lost = _belt_missing(belt, edges[-1], MISSING_SECONDS)
        flags[f"{role}: missing"] = covered_share(edges, *lost) >= least
    return from_epochs(flags)


def _graded(heart: Heart, belts: Mapping[str, Belt], epochs: EpochGrid) -> Assessed:
    """Take the share without a plausible beat, or half of that without breathing."""
    edges = epochs.edges
    odd = heart.is_implausible
    shares = {
        HEART_RATE: covered_share(edges, heart.starts[odd], heart.ends[odd]),
        "heart: missing": covered_share(edges, *_gaps(heart, edges[-1])),
        "heart: irregular": _irregular(heart, edges),
    }
    known = shares[HEART_RATE] + shares["heart: missing"]
    shares["heart: irregular"] = np.minimum(shares["heart: irregular"], np.maximum(1.0 - known, 0.0))
    beta = known + shares["heart: irregular"]
    if belts:
        lost = {
            f"{role}: missing": covered_share(edges, *_belt_missing(belt, edges[-1], 0.0))
            for role, belt in belts.items()
        }
        beta = np.maximum(beta, BELT_WEIGHT * np.mean(list(lost.values()), axis=0))
        shares |= lost
    return named(beta, shares)


def _within(heart: Heart, edges: Floats) -> tuple[Floats, Floats]:
    """Return the seconds of each epoch that have a heart rate, and the beats in them, times 60."""
    points = np.stack([heart.starts, heart.ends], axis=1).ravel()
    if not len(points):
        return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    length = heart.ends - heart.starts

    def inside(weight: Floats) -> Floats:
        total = np.cumsum(length * weight)
        values = np.stack([total - length * weight, total], axis=1).ravel()
        return np.asarray(np.diff(np.interp(edges, points, values)))

    return inside(np.ones(len(length))), inside(heart.bpm)


def _gaps(heart: Heart, end: float) -> tuple[Floats, Floats]:
    """Return all stretches without a heart rate; none where the start and the end cut an interval short."""
    starts, ends = np.append(0.0, heart.ends), np.append(heart.starts, end)
    keep = ends - starts > 1e-6
    keep[[0, -1]] &= (ends - starts)[[0, -1]] >= 60.0 / PLAUSIBLE_BPM[0]
    return starts[keep], ends[keep]


def _irregular(heart: Heart, edges: Floats) -> Floats:
    """Return the share of odd intervals in epochs full of them, if the heart is a regular one elsewhere."""
    odd = heart.is_odd & ~heart.is_implausible
    share = covered_share(edges, heart.starts[odd], heart.ends[odd])
    if not len(odd) or odd.mean() > REGULAR_SHARE:
        return np.zeros(len(share))
    return np.where(share > IRREGULAR_SHARE, share, 0.0)


def _belt_missing(belt: Belt, end: float, least_seconds: float) -> tuple[Floats, Floats]:
    """Return the stretches without a belt's signal, up to the end of the epochs."""
    first, stop = runs(~belt.is_there)
    length = len(belt.is_there) / belt.rate_hz
    starts = np.append(first / belt.rate_hz, min(length, end))
    ends = np.append(stop / belt.rate_hz, end)
    keep = (ends - starts >= least_seconds) & (ends - starts > 1.5 / belt.rate_hz)
    return starts[keep], ends[keep]


def _from_beats(recording: Recording) -> Heart:
    """Return each interval between beats as a heart rate; those of 5 s or more are no intervals."""
    beats = find_beats(recording)
    odd = ~beats.normal(ECTOPIC_TOLERANCE)
    keep = np.isfinite(beats.intervals) & (beats.intervals > 0) & (beats.intervals < MISSING_SECONDS)
    ends, intervals = beats.times[keep], beats.intervals[keep]
    starts = np.maximum(ends - intervals, np.append(-np.inf, ends[:-1]))
    return Heart(np.minimum(starts, ends), ends, 60.0 / intervals, odd[keep])


def _from_rates(recording: Recording) -> Heart:
    """Return each rate of a monitor or watch, which holds until the next one or for the usual time."""
    if "heart_rate" not in recording.signals:
        raise InputError(
            f"recording {recording.id!r} has no channel 'ecg', 'beats' or 'heart_rate'; it has: "
            f"{', '.join(recording.signals) or 'none'}. Map one, for example with --channel ecg=NAME."
        )
    times, rate = raw_heart_rate(recording)
    known = np.isfinite(rate) & (rate > 0)  # a sensor that finds no pulse says 0
    step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    following = np.append(times[1:], times[-1] + step)
    ends = np.where(following - times > max(3 * step, MISSING_SECONDS), times + step, following)
    return Heart(times[known], ends[known], rate[known], np.zeros(int(known.sum()), dtype=np.bool_))
