"""Which epochs of actigraphy can be trusted: by the paper's rule, or by whether the device was worn."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording
from stageguard.signals.activity import Counts, find_acceleration, find_counts, stillness
from stageguard.signals.heart_rate import read_heart_rate
from stageguard.signals.quality.rules import Assessed, Stretches, from_epochs, from_stretches, runs_of
from stageguard.signals.windows import runs, timed_values

PAPER_ZERO_EPOCHS = 3
STUCK_SECONDS = 600.0  # one and the same count for so long is a stuck sensor
STUCK_BINS = 10

# Minutes without any movement after which nobody is taken to wear the device, where nothing else is known.
# Of 31 people asleep in Sleep-Accel the stillest had no count for 92 min on end.
STILL_COUNTS_MINUTES = 120.0
STILL_ACCELERATION_MINUTES = 90.0
SURE_MINUTES = 15.0  # where a thermometer shows it cooling, or a pulse is lost

STILL_G = 0.013  # standard deviation of each axis (van Hees et al. 2011)
STILL_WINDOW_SECONDS = 10
COLD_DEGREES = 26.0  # colder than skin ever is under a cover (Zhou et al. 2015)
WARM_DEGREES = 30.0
FALL_DEGREES = 3.0
USUAL_PULSE_MINUTES = 1.0  # a device that finds a pulse so often as a rule, and then none at all, is off

COLD, PULSELESS, TOO_LONG = "device: still and cold", "device: still, no pulse", "device: still too long"
REASONS = (COLD, PULSELESS, TOO_LONG)


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch.

    "kdd2026" marks three or more epochs in a row without a count, as the paper does; that is half of a
    healthy sleeper's night. "graded" marks the share of the epoch in which nothing was recorded, the device
    was not worn, or its number was stuck; temperature and heart rate help to tell a device on a table from a
    quiet sleeper.
    """
    counts = find_counts(recording)
    if rules == "kdd2026":
        return _paper(counts, epochs)
    stretches: Stretches = {"counts: missing": _missing(counts, epochs), "counts: stuck": _stuck(counts)}
    return from_stretches(stretches | _removals(recording, counts), epochs.edges)


def _paper(counts: Counts, epochs: EpochGrid) -> Assessed:
    """Mark zero counts for three epochs or more; an epoch without counts is lost too, and ends a row."""
    each = counts.per_epoch(epochs)
    return from_epochs(
        {"counts: zero": runs_of(each == 0, PAPER_ZERO_EPOCHS), "counts: missing": np.isnan(each)}
    )


def _missing(counts: Counts, epochs: EpochGrid) -> tuple[Floats, Floats]:
    """Return stretches without data, before the first count and after the last included."""
    first, end = runs(~counts.has_data)
    starts = np.concatenate([[min(0.0, counts.edges[0])], counts.edges[first], [counts.edges[-1]]])
    ends = np.concatenate([[counts.edges[0]], counts.edges[end], [max(epochs.edges[-1], counts.edges[-1])]])
    return starts, ends


def _stuck(counts: Counts) -> tuple[Floats, Floats]:
    """Return stretches in which the device gave one and the same number, which is not 0."""
    moving = (counts.counts > 0).any(axis=1) & counts.has_data
    same = (counts.counts[1:] == counts.counts[:-1]).all(axis=1) & moving[1:] & moving[:-1]
    first, end = runs(same)
    starts, ends = counts.edges[first], counts.edges[end + 1]
    keep = (ends - starts >= STUCK_SECONDS) & (end - first + 1 >= STUCK_BINS)
    return starts[keep], ends[keep]


def _removals(recording: Recording, counts: Counts) -> Stretches:
    """Return when the device was off, from all the recording has.

    Every movement ends a stretch, and so does every pulse: sleepers have both now and then, tables neither. A
    stretch counts when it is longer than any sleeper lies still, when the device cools down in it, or when
    the device finds no pulse although it finds one every minute elsewhere; never while it stays warm.
    """
    starts, ends, least_minutes = _still_stretches(recording, counts)
    temperature = _temperature(recording)
    pulses = read_heart_rate(recording)[0] if "heart_rate" in recording.signals else np.zeros(0)
    finds_pulses = len(pulses) > 1 and float(np.median(np.diff(pulses))) <= 60.0 * USUAL_PULSE_MINUTES
    off: dict[str, list[tuple[float, float]]] = {reason: [] for reason in REASONS}
    for first, end in _without_pulses(starts, ends, pulses):
        warmth = _warmth(temperature, first, end)
        if warmth == "cold":
            off[COLD].append((first, end))
        elif warmth != "warm" and finds_pulses:
            off[PULSELESS].append((first, end))
        elif warmth != "warm" and end - first >= 60.0 * least_minutes:
            off[TOO_LONG].append((first, end))
    pairs = {reason: np.reshape(stretches, (-1, 2)) for reason, stretches in off.items()}
    return {reason: (pair[:, 0], pair[:, 1]) for reason, pair in pairs.items()}


def _without_pulses(starts: Floats, ends: Floats, pulses: Floats) -> list[tuple[float, float]]:
    """Return the parts of stretches between pulses, those of a quarter of an hour or more."""
    parts: list[tuple[float, float]] = []
    for first, end in zip(starts, ends, strict=True):
        inside = pulses[np.searchsorted(pulses, first) : np.searchsorted(pulses, end)]
        cuts = np.concatenate([[first], inside, [end]])
        long = np.flatnonzero(np.diff(cuts) >= 60.0 * SURE_MINUTES)
        parts += zip(cuts[long].tolist(), cuts[long + 1].tolist(), strict=True)
    return parts


def _still_stretches(recording: Recording, counts: Counts) -> tuple[Floats, Floats, float]:
    """Return starts and ends of stretches without movement, and the minutes beyond which one is suspect."""
    acceleration = find_acceleration(recording)
    if acceleration is not None:
        spread, has_data = stillness(acceleration, STILL_WINDOW_SECONDS)
        first, end = runs(has_data & (spread < STILL_G).all(axis=1))
        seconds = np.arange(len(spread) + 1, dtype=np.float64) * STILL_WINDOW_SECONDS
        return seconds[first], seconds[end], STILL_ACCELERATION_MINUTES
    first, end = runs(counts.has_data & (counts.counts == 0).all(axis=1))
    return counts.edges[first], counts.edges[end], STILL_COUNTS_MINUTES


def _temperature(recording: Recording) -> tuple[Floats, Floats] | None:
    """Return times and degrees Celsius, where the recording has them."""
    if "temperature" not in recording.signals:
        return None
    times, values = timed_values(recording.signals["temperature"], "degC", "channel 'temperature'")
    keep = np.isfinite(values)
    return times[keep], values[keep]


def _warmth(temperature: tuple[Floats, Floats] | None, first: float, end: float) -> str:
    """Return "cold", "warm", or "" where the thermometer does not tell.

    Cold: below 26 degrees at the end, or fallen by 3 degrees to below 30. Warm: 30 or more at the end.
    """
    last = _median(temperature, end - 300.0, end)
    before = _median(temperature, first - 600.0, first + 60.0)
    if np.isnan(last):
        return ""
    if last < COLD_DEGREES or (last < WARM_DEGREES and before - last >= FALL_DEGREES):
        return "cold"
    return "warm" if last >= WARM_DEGREES else ""


def _median(temperature: tuple[Floats, Floats] | None, first: float, end: float) -> float:
    if temperature is None:
        return float("nan")
    times, values = temperature
    some = values[np.searchsorted(times, first) : np.searchsorted(times, end)]
    return float(np.median(some)) if len(some) else float("nan")
