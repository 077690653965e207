"""Features and quality of heart and breathing: variability, rate, depth, oxygen saturation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stageguard import schema
from stageguard.arrays import Floats, Ints, Mask
from stageguard.errors import InputError
from stageguard.night.recording import EpochGrid, Recording, Series
from stageguard.signals.breathing import Belt, Breathing, breathing_channels, breathing_features, read_belt
from stageguard.signals.heart import (
    PLAUSIBLE_BPM,
    Beats,
    Heart,
    find_beats,
    has_beats,
    hrv_features,
    raw_heart_rate,
)
from stageguard.signals.quality import Assessed, from_flags, with_reasons
from stageguard.signals.windows import (
    IF_PRESENT,
    LEAST_SHARE,
    ClockFeatures,
    Columns,
    Extracted,
    assemble,
    clock_features,
    covered_share,
    is_wanted,
    read_samples,
    runs,
    timed_values,
    window_edges,
)

PLAUSIBLE_PERCENT = (50.0, 100.0)  # below this the probe is off the finger
MOST_FALL_PER_SECOND = 4.0  # a faster change is the probe, not the blood
BASELINE_SECONDS = 120
DESATURATION_SECONDS = 10
BLOCK_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Oxygen:
    """How oxygen saturation is measured."""

    use: str = schema.choice("if present", *IF_PRESENT)
    window_seconds: float = schema.number(300.0, low=60.0, high=3600.0)  # around each epoch
    # a desaturation is a fall by this much below the highest value of the 2 min before, for 10 s or more
    desaturation_percent: float = schema.number(3.0, positive=True, high=50.0)


@dataclass(frozen=True, slots=True)
class CardiorespiratorySettings:
    """Options of a recipe for heart and breathing."""

    heart: Heart = schema.table(Heart)
    breathing: Breathing = schema.table(Breathing)
    spo2: Oxygen = schema.table(Oxygen)
    clock: ClockFeatures = schema.table(ClockFeatures)


SETTINGS = CardiorespiratorySettings  # by which `features` reads this modality's recipes


def extract(recording: Recording, epochs: EpochGrid, settings: CardiorespiratorySettings) -> Extracted:
    """Return the features of each epoch, shape (n_epochs, 1, n_features), and their names.

    An epoch in which neither heart nor breathing was recorded is NaN throughout. In all others, a feature
    that could not be measured is interpolated from the nearest epochs that have it.
    """
    columns: Columns = {}
    known = np.zeros(epochs.n_epochs, dtype=np.bool_)
    if is_wanted(settings.heart.use, has_beats(recording)):
        beats = find_beats(recording)
        columns |= hrv_features(beats, epochs, settings.heart)
        known |= heart_share(beats, epochs) >= LEAST_SHARE
    roles = breathing_channels(recording, settings.breathing)
    belts = {role: read_belt(recording, role, settings.breathing.band) for role in roles}
    columns |= breathing_features(belts, epochs, settings.breathing)
    for belt in belts.values():
        known |= belt.share(epochs.edges[:-1], epochs.edges[1:]) >= LEAST_SHARE
    if not columns:
        recording.channel(*settings.breathing.channels, "beats", "ecg")
        raise InputError("the recipe measures neither heart nor breathing. Say use = 'if present' in it.")
    if is_wanted(settings.spo2.use, "spo2" in recording.signals):
        columns |= oxygen_features(read_oxygen(recording), epochs, settings.spo2)
    columns |= clock_features(epochs, settings.clock, recording.id)
    return assemble(columns, known, f"recording {recording.id!r}")


def heart_share(beats: Beats, epochs: EpochGrid) -> Floats:
    """Return the share of each epoch that lies within plausible intervals between heartbeats."""
    keep = beats.is_plausible
    ends = beats.times[keep]
    starts = np.maximum(ends - beats.intervals[keep], np.append(-np.inf, ends[:-1]))
    return covered_share(epochs.edges, starts, ends)


def read_oxygen(recording: Recording) -> Floats:
    """Return the saturation of each second in percent, NaN where it is implausible or not known."""
    channel = recording.channel("spo2")
    if isinstance(channel, Series):
        seconds = _means(*timed_values(channel, "%", "channel 'spo2'"))
    else:
        parts = []
        for first in range(0, int(np.ceil(channel.seconds)), BLOCK_SECONDS):
            a, b = (round(at * channel.rate_hz) for at in (first, first + BLOCK_SECONDS))
            samples = read_samples(channel, a, min(b, channel.n_samples), "%")
            parts.append(_means(np.arange(a, a + len(samples)) / channel.rate_hz - first, samples))
        seconds = np.concatenate(parts)
    jump = np.abs(np.diff(seconds, prepend=seconds[0])) > MOST_FALL_PER_SECOND
    return np.where(jump, np.nan, seconds)


def oxygen_features(seconds: Floats, epochs: EpochGrid, options: Oxygen) -> Columns:
    """Return features of saturation, by name.

    ``spo2_percent`` is the mean of the epoch. In the window around the epoch, ``spo2_min_percent`` is the
    lowest value, ``spo2_sd_percent`` the standard deviation, and ``desaturations_per_hour`` the number of
    desaturations that begin, per hour.
    """
    begins = desaturations(seconds, options.desaturation_percent)
    within = _in_windows(seconds, epochs.edges[:-1], epochs.edges[1:])
    first, end = window_edges(epochs, options.window_seconds)
    around = _in_windows(seconds, first, end)
    rate = np.searchsorted(begins, end) - np.searchsorted(begins, first)
    hours = (end - first) / 3600.0
    return {
        "spo2_percent": within["mean"],
        "spo2_min_percent": around["lowest"],
        "spo2_sd_percent": around["spread"],
        "desaturations_per_hour": np.where(np.isfinite(around["mean"]), rate / hours, np.nan),
    }


def desaturations(seconds: Floats, fall_percent: float) -> Ints:
    """Return the seconds at which saturation falls ``fall_percent`` below the maximum of the 2 min before."""
    if not len(seconds):
        return np.zeros(0, dtype=np.int64)
    known = np.where(np.isfinite(seconds), seconds, -np.inf)
    padded = np.concatenate([np.full(BASELINE_SECONDS, -np.inf), known])
    before = np.lib.stride_tricks.sliding_window_view(padded, BASELINE_SECONDS)[: len(known)].max(axis=1)
    low = np.isfinite(seconds) & (seconds <= before - fall_percent)
    starts, ends = runs(low)
    return np.asarray(starts[ends - starts >= DESATURATION_SECONDS])


def _means(times: Floats, values: Floats) -> Floats:
    """Return the mean of the plausible values of each second from 0 on."""
    low, high = PLAUSIBLE_PERCENT
    n = int(np.floor(times[-1])) + 1 if len(times) else 0
    keep = (values >= low) & (values <= high) & (times >= 0)
    second = times[keep].astype(np.int64)
    number = np.bincount(second, minlength=n)
    total = np.bincount(second, weights=values[keep], minlength=n)
    return np.asarray(np.divide(total, number, out=np.full(len(number), np.nan), where=number > 0))


def _in_windows(seconds: Floats, first: Floats, end: Floats) -> Columns:
    """Return mean, standard deviation and minimum of windows; NaN where less than half is known."""
    columns = {name: np.full(len(first), np.nan) for name in ("mean", "spread", "lowest")}
    a, b = (np.clip(np.rint(at).astype(np.int64), 0, len(seconds)) for at in (first, end))
    for window in range(len(first)):
        some = seconds[a[window] : b[window]]
        some = some[np.isfinite(some)]
        if len(some) and len(some) >= LEAST_SHARE * (end[window] - first[window]):
            columns["mean"][window] = some.mean()
            columns["spread"][window] = some.std()
            columns["lowest"][window] = some.min()
    return columns


BELTS = ("thorax", "abdomen")
MISSING_SECONDS = 5.0  # heartbeat or belt is missing if absent for this long
LEAST_OVERLAP_SECONDS = 1.0  # of a missing segment with an epoch, to mark the epoch
ECTOPIC_TOLERANCE = 0.2
IRREGULAR_SHARE = 0.5  # an epoch is irregular if more than this share of it has odd intervals
REGULAR_SHARE = 0.1  # a heart with more odd intervals than this is irregular throughout
BELT_WEIGHT = 0.5  # weight of lost breathing in beta, relative to lost heartbeats

HEART_RATE = f"heart rate: outside {PLAUSIBLE_BPM[0]:g}-{PLAUSIBLE_BPM[1]:g} bpm"


@dataclass(frozen=True, slots=True)
class HeartRates:
    """Stretches of time with a heart rate, in order and without overlap; between them it is unknown."""

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
    """Return beta and reasons per epoch, from beats or heart rates, and from the belts recorded.

    "kdd2026" marks an epoch whose heart rate is outside 30-200 bpm, or in which a segment of 5 s or more of
    the heart or of a belt is missing. "graded" takes the share of the epoch without a plausible heartbeat,
    or half of the share without breathing, whichever is larger.
    """
    heart = _from_beats(recording) if has_beats(recording) else _from_rates(recording)
    present = [role for role in BELTS if role in recording.signals]
    belts = {role: read_belt(recording, role, Breathing().band) for role in present}
    return _paper(heart, belts, epochs) if rules == "kdd2026" else _grade(heart, belts, epochs)


def _paper(heart: HeartRates, belts: Mapping[str, Belt], epochs: EpochGrid) -> Assessed:
    """Judge each epoch by its mean heart rate and by missing segments: clean or lost."""
    edges = epochs.edges
    seconds, beats = _share_within(heart, edges)
    rate = np.divide(beats, seconds, out=np.full(epochs.n_epochs, np.nan), where=seconds > 1e-6)
    least = min(LEAST_OVERLAP_SECONDS / epochs.epoch_seconds, 1.0)
    flags = {
        HEART_RATE: (rate < PLAUSIBLE_BPM[0]) | (rate > PLAUSIBLE_BPM[1]),
        "heart: missing": np.isnan(rate) | (covered_share(edges, *heart.missing(edges[-1])) >= least),
    }
    for role, belt in belts.items():
        lost = _belt_missing(belt, edges[-1], MISSING_SECONDS)
        flags[f"{role}: missing"] = covered_share(edges, *lost) >= least
    return from_flags(flags)


def _grade(heart: HeartRates, belts: Mapping[str, Belt], epochs: EpochGrid) -> Assessed:
    """Return the share without a plausible beat, or half of the share without breathing if that is larger."""
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
    return with_reasons(beta, shares)


def _share_within(heart: HeartRates, edges: Floats) -> tuple[Floats, Floats]:
    """Return the seconds of each epoch that have a heart rate, and 60 times the beats in them."""
    points = np.stack([heart.starts, heart.ends], axis=1).ravel()
    if not len(points):
        return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    length = heart.ends - heart.starts

    def inside(weight: Floats) -> Floats:
        total = np.cumsum(length * weight)
        values = np.stack([total - length * weight, total], axis=1).ravel()
        return np.asarray(np.diff(np.interp(edges, points, values)))

    return inside(np.ones(len(length))), inside(heart.bpm)


def _gaps(heart: HeartRates, end: float) -> tuple[Floats, Floats]:
    """Return all stretches without a heart rate, except short ones at the recording's start and end.

    The start and the end cut an interval between beats short, so the rest of that interval is no gap.
    """
    starts, ends = np.append(0.0, heart.ends), np.append(heart.starts, end)
    keep = ends - starts > 1e-6
    keep[[0, -1]] &= (ends - starts)[[0, -1]] >= 60.0 / PLAUSIBLE_BPM[0]
    return starts[keep], ends[keep]


def _irregular(heart: HeartRates, edges: Floats) -> Floats:
    """Return the share of odd intervals in epochs full of them; 0 if the heart is irregular all night."""
    odd = heart.is_odd & ~heart.is_implausible
    share = covered_share(edges, heart.starts[odd], heart.ends[odd])
    if not len(odd) or odd.mean() > REGULAR_SHARE:
        return np.zeros(len(share))
    return np.where(share > IRREGULAR_SHARE, share, 0.0)


def _belt_missing(belt: Belt, end: float, least_seconds: float) -> tuple[Floats, Floats]:
    """Return the stretches of ``least_seconds`` or more without a belt's signal, up to ``end``."""
    first, stop = runs(~belt.is_there)
    length = len(belt.is_there) / belt.rate_hz
    starts = np.append(first / belt.rate_hz, min(length, end))
    ends = np.append(stop / belt.rate_hz, end)
    keep = (ends - starts >= least_seconds) & (ends - starts > 1.5 / belt.rate_hz)
    return starts[keep], ends[keep]


def _from_beats(recording: Recording) -> HeartRates:
    """Return each interval between beats as a heart rate; intervals of 5 s or more are gaps."""
    beats = find_beats(recording)
    odd = ~beats.normal(ECTOPIC_TOLERANCE)
    keep = np.isfinite(beats.intervals) & (beats.intervals > 0) & (beats.intervals < MISSING_SECONDS)
    ends, intervals = beats.times[keep], beats.intervals[keep]
    starts = np.maximum(ends - intervals, np.append(-np.inf, ends[:-1]))
    return HeartRates(np.minimum(starts, ends), ends, 60.0 / intervals, odd[keep])


def _from_rates(recording: Recording) -> HeartRates:
    """Return the rates of a monitor or watch; each holds until the next, or for the usual step at a gap."""
    recording.channel("heart_rate", "beats", "ecg")  # the error names all three
    times, rate = raw_heart_rate(recording)
    known = np.isfinite(rate) & (rate > 0)  # a sensor that finds no pulse records 0
    step = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    following = np.append(times[1:], times[-1] + step)
    ends = np.where(following - times > max(3 * step, MISSING_SECONDS), times + step, following)
    return HeartRates(times[known], ends[known], rate[known], np.zeros(int(known.sum()), dtype=np.bool_))
