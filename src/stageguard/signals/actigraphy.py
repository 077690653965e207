"""Features and quality of wrist actigraphy: activity, a watch's heart rate, time, and wear detection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stageguard import checks, schema
from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.night.recording import EpochGrid, Recording
from stageguard.signals.activity import METHODS, ActivityCounts, find_acceleration, find_counts, stillness
from stageguard.signals.heart import RATE_FEATURES, READY_MADE, heart_rate_features, read_heart_rate
from stageguard.signals.quality import Assessed, Stretches, from_flags, from_stretches
from stageguard.signals.windows import (
    IF_PRESENT,
    ClockFeatures,
    Columns,
    Extracted,
    assemble,
    clock_features,
    cumulative,
    is_wanted,
    long_runs,
    runs,
    timed_values,
    window_edges,
)

GROUPS = ("epoch", "windows", "sadeh", "cole-kripke", "still", "gaussian")
MINUTES = np.arange(-5, 6)  # offsets from the epoch: Sadeh's window of 11 min
SADEH_LOW, SADEH_HIGH = 50.0, 100.0
COLE_KRIPKE_WEIGHTS = np.array([106.0, 54.0, 58.0, 76.0, 230.0, 74.0, 67.0])  # from 4 min before to 2 after
STILL_LIMIT_MINUTES = 60.0
GAUSSIAN_SECONDS, GAUSSIAN_MARGIN_SECONDS = 50.0, 285.0


@dataclass(frozen=True, slots=True)
class ActigraphySettings:
    """Options of a recipe for actigraphy."""

    # how to compute counts from raw acceleration; a device's own counts are used unchanged
    counts: str = schema.choice("actigraph", *METHODS)
    axis: str = schema.choice("vector", "vector", "x", "y", "z")  # of the ActiGraph counts
    groups: tuple[str, ...] = schema.words(*GROUPS)  # of features of activity
    # window lengths of the group "windows"
    windows_minutes: tuple[float, ...] = schema.numbers(5.0, 15.0, 60.0, low=0.5, high=1440.0)
    # limit on the counts in Sadeh's and Cole and Kripke's indices, as in ActiLife; 0 for no limit
    cap_counts_per_minute: float = schema.number(300.0, low=0.0)
    # counts are divided by it before Cole and Kripke's weights, as in ActiLife
    cole_kripke_divisor: float = schema.number(100.0, positive=True)
    heart_rate: str = schema.choice("if present", *IF_PRESENT)
    heart_rate_features: tuple[str, ...] = schema.words(*RATE_FEATURES)
    clock: ClockFeatures = schema.table(ClockFeatures)

    def __post_init__(self) -> None:
        """Check the names of the features."""
        for key, known in (("groups", GROUPS), ("heart_rate_features", RATE_FEATURES)):
            if not getattr(self, key):
                raise InputError(f"{key} is empty, expected some of {', '.join(known)}.")
            for name in getattr(self, key):
                checks.choice(name, key, known)


SETTINGS = ActigraphySettings  # by which `features` reads this modality's recipes


def extract(recording: Recording, epochs: EpochGrid, settings: ActigraphySettings) -> Extracted:
    """Return features (n_epochs, 1, n_features) and their names; NaN in epochs without counts."""
    counts = find_counts(recording, settings.counts, settings.axis)
    columns = activity_features(counts, epochs, settings)
    if is_wanted(settings.heart_rate, not {"heart_rate", READY_MADE}.isdisjoint(recording.signals)):
        columns |= heart_rate_features(recording, epochs, settings.heart_rate_features)
    columns |= clock_features(epochs, settings.clock, recording.id)
    return assemble(columns, np.isfinite(counts.per_epoch(epochs)), f"recording {recording.id!r}")


def activity_features(counts: ActivityCounts, epochs: EpochGrid, settings: ActigraphySettings) -> Columns:
    """Return the features of activity, by name, in the order of the settings' groups."""
    per_minute = counts.per_epoch(epochs) * (60.0 / epochs.epoch_seconds)
    middle = (epochs.edges[:-1] + epochs.edges[1:]) / 2
    around = middle[:, None] + 60.0 * MINUTES  # (n_epochs, 11): middle of each minute
    minutes = counts.between(around - 30.0, around + 30.0)
    if settings.cap_counts_per_minute:
        minutes = np.minimum(minutes, settings.cap_counts_per_minute)
    columns: Columns = {}
    for group in settings.groups:
        if group == "epoch":
            columns["activity_log"] = np.log1p(per_minute)
        elif group == "windows":
            for length in settings.windows_minutes:
                columns |= window_statistics(per_minute, epochs, length)
        elif group == "sadeh":
            columns |= sadeh(minutes)
        elif group == "cole-kripke":
            columns["cole_kripke_index"] = cole_kripke(minutes, settings.cole_kripke_divisor)
        elif group == "still":
            columns |= still_times(per_minute, epochs.epoch_seconds)
        else:
            columns["activity_gaussian"] = gaussian_activity(counts, middle)
    return columns


def window_statistics(per_minute: Floats, epochs: EpochGrid, minutes: float) -> Columns:
    """Return log mean, spread of the log, and share of epochs without movement, in windows around epochs.

    A window holds the epochs whose middle lies in it. ``per_minute`` is NaN in epochs without counts.
    """
    first, end = window_edges(epochs, 60.0 * minutes)
    middle = (epochs.edges[:-1] + epochs.edges[1:]) / 2
    a, b = np.searchsorted(middle, first), np.searchsorted(middle, end)
    known = np.isfinite(per_minute)
    value = np.where(known, per_minute, 0.0)
    logs = np.log1p(value)
    centre = float(logs[known].mean()) if known.any() else 0.0
    logs = np.where(known, logs - centre, 0.0)

    def total(of: npt.NDArray[np.generic]) -> Floats:
        sums = cumulative(of)
        return np.asarray(sums[b] - sums[a])

    n = total(known)
    n = np.where(n > 0, n, np.nan)
    mean_log = total(logs) / n
    name = f"{minutes:g}min"
    return {
        f"activity_mean_{name}": np.log1p(np.maximum(total(value) / n, 0.0)),
        f"activity_sd_{name}": np.sqrt(np.maximum(total(logs**2) / n - mean_log**2, 0.0)),
        f"activity_zero_{name}": total(known & (value == 0)) / n,
    }


def sadeh(minutes: Floats) -> Columns:
    """Return the terms of Sadeh et al. (1994) and their index, which is 0 or above in sleep.

    ``minutes`` has the counts of the minutes from 5 before to 5 after each epoch (n_epochs, 11); NaN is left
    out. ``sadeh_mean`` is the mean of the 11 min, ``sadeh_moderate`` the number of minutes with 50 to 99
    counts, ``sadeh_sd`` the standard deviation of the epoch's minute and the five before it, and
    ``sadeh_log`` the log of 1 plus the count of the epoch's minute.
    """
    n = np.isfinite(minutes).sum(axis=1)
    some = np.where(n > 0, n, np.nan)
    mean = np.nansum(minutes, axis=1) / some
    moderate = ((minutes >= SADEH_LOW) & (minutes < SADEH_HIGH)).sum(axis=1) * (len(MINUTES) / some)
    past = minutes[:, MINUTES <= 0]
    n_past = np.isfinite(past).sum(axis=1)
    past_mean = np.nansum(past, axis=1) / np.where(n_past > 0, n_past, np.nan)
    squares = np.nansum((past - past_mean[:, None]) ** 2, axis=1)
    spread = np.sqrt(squares / np.where(n_past > 1, n_past - 1, np.nan))
    log = np.log1p(minutes[:, 5])
    index = 7.601 - 0.065 * mean - 1.08 * moderate - 0.056 * spread - 0.703 * log
    return {
        "sadeh_mean": mean,
        "sadeh_moderate": moderate,
        "sadeh_sd": spread,
        "sadeh_log": log,
        "sadeh_index": index,
    }


def cole_kripke(minutes: Floats, divisor: float) -> Floats:
    """Return the index of Cole, Kripke et al. (1992), which is below 1 in sleep.

    Of the 11 minutes (n_epochs, 11) it weighs those from 4 before to 2 after the epoch. The weights of
    missing minutes are spread over the others.
    """
    seven = minutes[:, (MINUTES >= -4) & (MINUTES <= 2)] / divisor
    known = np.isfinite(seven)
    weight = (known * COLE_KRIPKE_WEIGHTS).sum(axis=1)
    total = (np.where(known, seven, 0.0) * COLE_KRIPKE_WEIGHTS).sum(axis=1)
    scale = COLE_KRIPKE_WEIGHTS.sum() / np.where(weight > 0, weight, np.nan)
    return np.asarray(0.001 * total * scale)


def still_times(per_minute: Floats, epoch_seconds: float) -> Columns:
    """Return the log of 1 plus the minutes without movement just before and just after each epoch.

    At most 60 min count. The recording's ends and epochs without data count as movement.
    """
    moving = ~(per_minute == 0)  # True for NaN as well
    step = epoch_seconds / 60.0
    epoch = np.arange(len(moving))
    last = np.maximum.accumulate(np.where(moving, epoch, -1))
    following = np.minimum.accumulate(np.where(moving, epoch, len(moving))[::-1])[::-1]
    before = epoch - 1 - np.append(-1, last[:-1])
    after = np.append(following[1:], len(moving)) - 1 - epoch
    return {
        "still_before_log_min": np.log1p(np.minimum(before * step, STILL_LIMIT_MINUTES)),
        "still_after_log_min": np.log1p(np.minimum(after * step, STILL_LIMIT_MINUTES)),
    }


def gaussian_activity(counts: ActivityCounts, middle: Floats) -> Floats:
    """Return counts per 15 s around the times ``middle``, weighted by a 50 s Gaussian (Walch et al. 2019).

    Counts of successive 15 s are interpolated to every second; the weights reach 300 s to either side.
    """
    end = max(float(counts.edges[-1]), float(middle[-1]))
    starts = np.arange(0.0, end, 15.0)
    values = counts.between(starts, starts + 15.0)
    there = np.isfinite(values)
    if not there.any():
        return np.full(len(middle), np.nan)
    seconds = np.arange(0.0, end)
    each = np.interp(seconds, starts[there], values[there])
    half = int(GAUSSIAN_MARGIN_SECONDS + 15) - 1
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / GAUSSIAN_SECONDS) ** 2)
    smooth = np.convolve(each, weights)[half:-half] / np.convolve(np.ones(len(each)), weights)[half:-half]
    return np.asarray(np.interp(middle, seconds, smooth))


PAPER_ZERO_EPOCHS = 3
STUCK_SECONDS = 600.0  # the same count for this long means a stuck sensor
STUCK_BINS = 10

# Minutes without movement after which the device counts as not worn, if neither temperature nor pulse help.
# The stillest of 31 sleepers in Sleep-Accel had no count for 92 min.
STILL_COUNTS_MINUTES = 120.0
STILL_ACCELERATION_MINUTES = 90.0
SURE_MINUTES = 15.0  # the limit if a thermometer shows the device cooling, or the pulse is lost

STILL_G = 0.013  # standard deviation of each axis (van Hees et al. 2011)
STILL_WINDOW_SECONDS = 10
COLD_DEGREES = 26.0  # covered skin is never this cold (Zhou et al. 2015)
WARM_DEGREES = 30.0
FALL_DEGREES = 3.0
USUAL_PULSE_MINUTES = 1.0  # a device that usually finds a pulse this often is not worn when it finds none

COLD, PULSELESS, TOO_LONG = "device: still and cold", "device: still, no pulse", "device: still too long"
REASONS = (COLD, PULSELESS, TOO_LONG)


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch.

    "kdd2026" marks three or more epochs in a row with zero counts, as the paper does; that is half of a
    healthy sleeper's night. "graded" gives the share of the epoch in which nothing was recorded, the device
    was not worn, or its count was stuck. Temperature and heart rate help to tell a device on a table from a
    quiet sleeper.
    """
    counts = find_counts(recording)
    if rules == "kdd2026":  # an epoch without counts is lost too, and interrupts a run of zeros
        each = counts.per_epoch(epochs)
        zero = long_runs(each == 0, PAPER_ZERO_EPOCHS)
        return from_flags({"counts: zero": zero, "counts: missing": np.isnan(each)})
    stretches: Stretches = {"counts: missing": _missing(counts, epochs), "counts: stuck": _stuck(counts)}
    return from_stretches(stretches | _removals(recording, counts), epochs.edges)


def _missing(counts: ActivityCounts, epochs: EpochGrid) -> tuple[Floats, Floats]:
    """Return stretches without data, including those before the first count and after the last."""
    first, end = runs(~counts.has_data)
    starts = np.concatenate([[min(0.0, counts.edges[0])], counts.edges[first], [counts.edges[-1]]])
    ends = np.concatenate([[counts.edges[0]], counts.edges[end], [max(epochs.edges[-1], counts.edges[-1])]])
    return starts, ends


def _stuck(counts: ActivityCounts) -> tuple[Floats, Floats]:
    """Return stretches in which the device repeats the same count above 0."""
    moving = (counts.counts > 0).any(axis=1) & counts.has_data
    same = (counts.counts[1:] == counts.counts[:-1]).all(axis=1) & moving[1:] & moving[:-1]
    first, end = runs(same)
    starts, ends = counts.edges[first], counts.edges[end + 1]
    keep = (ends - starts >= STUCK_SECONDS) & (end - first + 1 >= STUCK_BINS)
    return starts[keep], ends[keep]


def _removals(recording: Recording, counts: ActivityCounts) -> Stretches:
    """Return when the device was not worn, judged by movement, temperature and pulse.

    Every movement and every pulse ends a stretch: a sleeper has both now and then, a table neither. A stretch
    counts if it is longer than any sleeper lies still, if the device cools down in it, or if the device finds
    no pulse although it usually finds one every minute. It never counts while the device stays warm.
    """
    starts, ends, least_minutes = _still_stretches(recording, counts)
    temperature = None
    if "temperature" in recording.signals:
        times, degrees = timed_values(recording.signals["temperature"], "degC", "channel 'temperature'")
        temperature = times[np.isfinite(degrees)], degrees[np.isfinite(degrees)]
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
    """Split stretches at each pulse, and return the parts of a quarter of an hour or more."""
    parts: list[tuple[float, float]] = []
    for first, end in zip(starts, ends, strict=True):
        inside = pulses[np.searchsorted(pulses, first) : np.searchsorted(pulses, end)]
        cuts = np.concatenate([[first], inside, [end]])
        long = np.flatnonzero(np.diff(cuts) >= 60.0 * SURE_MINUTES)
        parts += zip(cuts[long].tolist(), cuts[long + 1].tolist(), strict=True)
    return parts


def _still_stretches(recording: Recording, counts: ActivityCounts) -> tuple[Floats, Floats, float]:
    """Return starts and ends of stretches without movement, and the minutes after which they are suspect."""
    acceleration = find_acceleration(recording)
    if acceleration is not None:
        spread, has_data = stillness(acceleration, STILL_WINDOW_SECONDS)
        first, end = runs(has_data & (spread < STILL_G).all(axis=1))
        seconds = np.arange(len(spread) + 1, dtype=np.float64) * STILL_WINDOW_SECONDS
        return seconds[first], seconds[end], STILL_ACCELERATION_MINUTES
    first, end = runs(counts.has_data & (counts.counts == 0).all(axis=1))
    return counts.edges[first], counts.edges[end], STILL_COUNTS_MINUTES


def _warmth(temperature: tuple[Floats, Floats] | None, first: float, end: float) -> str:
    """Return "cold", "warm", or "" if the temperature does not decide.

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
