"""Features and quality of wrist actigraphy: activity, a watch's heart rate, time, and wear detection."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Mask
from stageguard.documents import NotNegative, Positive, Range
from stageguard.errors import InputError
from stageguard.lazy import library
from stageguard.night.recording import EpochGrid, Recording, Series, Signal
from stageguard.signals import windows
from stageguard.signals.features import Recipe
from stageguard.signals.heart import RateFeature, heart_rate_features, read_heart_rate
from stageguard.signals.quality import Assessed, Stretches, from_flags, from_stretches
from stageguard.signals.windows import LEAST_SHARE, Clock, Columns, Extracted, Use, cumulative, runs
from stageguard.units import to_unit

AXES = ("x", "y", "z")
BLOCK_SECONDS = 1800
WARM_UP_SECONDS = 60  # the slowest pole of the ActiGraph filter falls below 1e-9 in 19 s
LEAST_RATE_HZ = 10.0  # counts need the movements below 3 Hz
MOST_G = 3.0  # a wrist at rest feels 1 g; a larger median means another unit

ACTIGRAPH_RATES = range(30, 101, 10)  # that the ActiGraph procedure brings to 30 Hz

# Neishabouri et al. (2022): input and output coefficients of the band-pass filter at 30 Hz, followed by a
# gain, a dead band and a ceiling.
ACTIGRAPH_INPUT = (
    *(-0.009341062898525, -0.02547028965936, -0.004235264826105, 0.04415241545642),
    *(0.03649371834776, -0.01189396193474, -0.02291739062315, -0.00678816386231),
)
ACTIGRAPH_OUTPUT = (
    *(1.0, -3.63367395910957, 5.03689812757486, -3.09612247819666),
    *(0.50620507633883, 0.32421701566682, -0.15685485875559, 0.0194913020589),
)
ACTIGRAPH_GAIN = (3.0 / 4096.0) / (2.6 / 256.0) * 237.5
ACTIGRAPH_DEAD_BAND, ACTIGRAPH_CEILING = 4, 128


@dataclass(frozen=True, slots=True)
class Acceleration:
    """Three axes of acceleration."""

    times: Floats  # (n,) seconds since the recording's start
    values: Floats  # (n, 3) in g, finite
    rate_hz: float  # usual number of samples per second
    has_data: Mask  # (seconds,) whether each second holds at least half of the usual samples

    def on_grid(self, first: float, end: float, rate_hz: float) -> Floats:
        """Return acceleration at even times from ``first`` to ``end``, interpolated between samples."""
        times = first + np.arange(round((end - first) * rate_hz)) / rate_hz
        a, b = np.searchsorted(self.times, (first, end))
        part = slice(max(int(a) - 1, 0), int(b) + 1)
        axes = self.values[part].T
        return np.stack([np.interp(times, self.times[part], axis) for axis in axes], axis=1)


def find_acceleration(recording: Recording) -> Acceleration | None:
    """Return a recording's raw acceleration, or None; implausible acceleration is an error."""
    series = recording.signals.get("acceleration")
    axes = [recording.signals.get(f"acceleration_{axis}") for axis in AXES]
    if series is None and not any(axes):
        return None
    signals = [axis for axis in axes if isinstance(axis, Signal)]
    what = f"acceleration of recording {recording.id!r}"
    if isinstance(series, Series) and series.values.shape[1:] == (3,):
        times, values, unit, end = series.times, series.values, series.unit, series.seconds
        rate_hz = 1.0 / max(float(np.median(np.diff(times))), 1e-6) if len(times) > 1 else 0.0
    elif len(signals) == 3 and len({(one.rate_hz, one.n_samples, one.unit) for one in signals}) == 1:
        values = np.stack([one.read() for one in signals], axis=1)
        rate_hz, unit, end = signals[0].rate_hz, signals[0].unit, signals[0].seconds
        times = np.arange(len(values)) / rate_hz
    else:
        wanted = "a series 'acceleration' of three columns, or signals acceleration_x, _y and _z"
        raise InputError(f"{what} is not complete: expected {wanted} of one rate, length and unit.")
    if rate_hz < 0.99 * LEAST_RATE_HZ:  # 0.99 because time stamps are rounded
        raise InputError(f"{what} has {rate_hz:.3g} samples per second, expected at least {LEAST_RATE_HZ:g}.")
    values = to_unit(values, unit or "g", "g", what="acceleration")
    keep = np.isfinite(values).all(axis=1)
    times, values = times[keep], values[keep]
    seconds = max(int(np.ceil(end)), 0)
    inside = times[(times >= 0) & (times < seconds)].astype(np.int64)
    has_data = np.bincount(inside, minlength=seconds) >= rate_hz / 2
    if not has_data.any():
        raise InputError(f"{what} has no second with samples after the recording's start.")
    size = float(np.median(np.linalg.norm(values, axis=1)))
    if size > MOST_G:
        raise InputError(f"{what} is {size:.3g} g in the median, expected about 1 (gravity). Check its unit.")
    return Acceleration(times, values, rate_hz, has_data)


def actigraph_counts(acceleration: Acceleration) -> Floats:
    """Return ActiGraph counts (Neishabouri et al. 2022) of each axis and second, 0 without data."""
    grid_hz = min(ACTIGRAPH_RATES, key=lambda rate: abs(rate - acceleration.rate_hz))
    has_data = acceleration.has_data
    counts = np.zeros((len(has_data), 3))
    for first in range(0, len(has_data), BLOCK_SECONDS):
        end, begin = min(first + BLOCK_SECONDS, len(has_data)), max(first - WARM_UP_SECONDS, 0)
        if has_data[first:end].any():
            values = acceleration.on_grid(begin, end, grid_hz)
            counts[first:end] = _counts_of_seconds(values, grid_hz)[first - begin :]
    counts[~has_data] = 0.0
    return counts


def _counts_of_seconds(values: Floats, rate_hz: int) -> Floats:
    """Return the counts of each axis in every whole second of acceleration, shape (seconds, 3)."""
    filters = library("scipy.signal", "activity counts from raw acceleration")
    up, down = Fraction(30, rate_hz).as_integer_ratio()
    if up > 1:  # ActiGraph's resampling: insert zeros, smooth, decimate
        filled = np.zeros((up * len(values), 3))
        filled[::up] = values
        gain = np.pi / (np.pi + 2 * up) * up
        pole = (np.pi - 2 * up) / (np.pi + 2 * up)
        values = filters.lfilter([gain, gain], [1.0, pole], filled, axis=0)
    rounded = np.round(values[::down], 3)
    settled = filters.lfilter_zi(ACTIGRAPH_INPUT, ACTIGRAPH_OUTPUT)[:, None] * rounded[0]
    filtered, _ = filters.lfilter(ACTIGRAPH_INPUT, ACTIGRAPH_OUTPUT, rounded, axis=0, zi=settled)
    sizes = np.abs(ACTIGRAPH_GAIN * filtered)
    sizes[sizes < ACTIGRAPH_DEAD_BAND] = 0.0
    steps = np.floor(np.minimum(sizes, ACTIGRAPH_CEILING))
    seconds = len(steps) // 30
    tenths = np.floor(steps[: 30 * seconds].reshape(seconds, 10, 3, -1).sum(axis=2) / 3)
    return np.asarray(tenths.sum(axis=1), dtype=np.float64)


def stillness(acceleration: Acceleration, window_seconds: int) -> tuple[Floats, Mask]:
    """Return the standard deviation of each axis in g in successive windows, and which windows have data."""
    grid_hz = max(float(round(min(acceleration.rate_hz, 100.0))), 1.0)
    n_windows = len(acceleration.has_data) // window_seconds
    seconds = n_windows * window_seconds
    parts = acceleration.on_grid(0, seconds, grid_hz).reshape(n_windows, -1, 3)
    known = acceleration.has_data[:seconds].reshape(n_windows, window_seconds).mean(axis=1)
    return parts.std(axis=1), np.asarray(known >= LEAST_SHARE)


@dataclass(frozen=True, slots=True)
class ActivityCounts:
    """Activity counts in contiguous bins."""

    edges: Floats  # (n_bins + 1,) seconds since the recording's start, increasing
    counts: Floats  # (n_bins, n_axes), 0 where there is no data
    has_data: Mask  # (n_bins,) whether the sensor recorded anything

    def between(self, first: npt.ArrayLike, end: npt.ArrayLike) -> Floats:
        """Return the counts between times in seconds, the length of their vector; NaN with few data."""
        begin, stop = np.asarray(first, dtype=np.float64), np.asarray(end, dtype=np.float64)

        def inside(total: Floats) -> Floats:
            return np.asarray(np.interp(stop, self.edges, total) - np.interp(begin, self.edges, total))

        seconds = inside(cumulative(np.where(self.has_data, np.diff(self.edges), 0.0)))
        squares = sum(np.maximum(inside(cumulative(axis)), 0.0) ** 2 for axis in self.counts.T)
        length = stop - begin
        known = seconds >= np.maximum(LEAST_SHARE * length, 1e-9) - 1e-9
        # a stretch with data in part of it is scaled to its whole length
        scale = np.divide(length, seconds, out=np.full(begin.shape, np.nan), where=known)
        return np.asarray(np.sqrt(squares) * scale)

    def per_epoch(self, epochs: EpochGrid) -> Floats:
        """Return the counts of each epoch, NaN where they are not known."""
        return self.between(epochs.edges[:-1], epochs.edges[1:])


def find_counts(recording: Recording, axis: str = "vector") -> ActivityCounts:
    """Return a recording's activity counts: its channel 'counts', else computed from its acceleration."""
    acceleration = None if "counts" in recording.signals else find_acceleration(recording)
    if acceleration is not None:
        counts = actigraph_counts(acceleration)
        counts = counts if axis == "vector" else counts[:, [AXES.index(axis)]]
        return ActivityCounts(np.arange(len(counts) + 1.0), counts, acceleration.has_data)
    channel = windows.steady_signal(recording, "counts", quantity="count")
    values = channel.read()
    has_data = np.isfinite(values) & (values >= 0)  # negative counts are a device's code for none
    if not has_data.any():
        raise InputError(f"channel 'counts' of recording {recording.id!r} has no number that is 0 or above.")
    edges = np.arange(len(values) + 1) / channel.rate_hz
    return ActivityCounts(edges, np.where(has_data, values, 0.0)[:, None], has_data)


MINUTES = np.arange(-5, 6)  # offsets from the epoch: Sadeh's window of 11 min
SADEH_LOW, SADEH_HIGH = 50.0, 100.0
COLE_KRIPKE_WEIGHTS = np.array([106.0, 54.0, 58.0, 76.0, 230.0, 74.0, 67.0])  # from 4 min before to 2 after
STILL_LIMIT_MINUTES = 60.0
GAUSSIAN_SECONDS, GAUSSIAN_MARGIN_SECONDS = 50.0, 285.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActigraphyRecipe(Recipe):
    """A recipe for actigraphy."""

    counts: Literal["actigraph"] = "actigraph"  # of raw acceleration; a device's own are used unchanged
    axis: Literal["vector", "x", "y", "z"] = "vector"  # of the ActiGraph counts
    # of features of activity
    groups: Annotated[
        tuple[Literal["epoch", "windows", "sadeh", "cole-kripke", "still", "gaussian"], ...], Range(low=1)
    ] = ("epoch", "windows", "sadeh", "cole-kripke", "still", "gaussian")
    # window lengths of the group "windows"
    windows_minutes: tuple[Annotated[float, Range(0.5, 1440)], ...] = (5.0, 15.0, 60.0)
    # limit on the counts in Sadeh's and Cole and Kripke's indices, as in ActiLife; 0 for no limit
    cap_counts_per_minute: NotNegative = 300.0
    # counts are divided by it before Cole and Kripke's weights, as in ActiLife
    cole_kripke_divisor: Positive = 100.0
    heart_rate: Use = "if present"
    heart_rate_features: Annotated[tuple[RateFeature, ...], Range(low=1)] = ("mean", "spread", "change")
    clock: Clock = field(default_factory=Clock)


RECIPE = ActigraphyRecipe


def extract(recording: Recording, epochs: EpochGrid, recipe: ActigraphyRecipe) -> Extracted:
    """Return features (n_epochs, 1, n_features) and their names; NaN in epochs without counts."""
    counts = find_counts(recording, recipe.axis)
    columns = activity_features(counts, epochs, recipe)
    if windows.is_wanted(recipe.heart_rate, "heart_rate" in recording.signals):
        columns |= heart_rate_features(recording, epochs, recipe.heart_rate_features)
    columns |= windows.clock_features(epochs, recipe.clock, recording.id)
    return windows.assemble(columns, np.isfinite(counts.per_epoch(epochs)), recording)


def activity_features(counts: ActivityCounts, epochs: EpochGrid, recipe: ActigraphyRecipe) -> Columns:
    """Return the features of activity, by name, in the order of the recipe's groups."""
    per_minute = counts.per_epoch(epochs) * (60.0 / epochs.epoch_seconds)
    middle = (epochs.edges[:-1] + epochs.edges[1:]) / 2
    around = middle[:, None] + 60.0 * MINUTES  # (n_epochs, 11): middle of each minute
    minutes = counts.between(around - 30.0, around + 30.0)
    if recipe.cap_counts_per_minute:
        minutes = np.minimum(minutes, recipe.cap_counts_per_minute)
    columns: Columns = {}
    for group in recipe.groups:
        if group == "epoch":
            columns["activity_log"] = np.log1p(per_minute)
        elif group == "windows":
            for length in recipe.windows_minutes:
                columns |= window_statistics(per_minute, epochs, length)
        elif group == "sadeh":
            columns |= sadeh(minutes)
        elif group == "cole-kripke":
            columns["cole_kripke_index"] = cole_kripke(minutes, recipe.cole_kripke_divisor)
        elif group == "still":
            columns |= still_times(per_minute, epochs.epoch_seconds)
        else:
            columns["activity_gaussian"] = gaussian_activity(counts, middle)
    return columns


def window_statistics(per_minute: Floats, epochs: EpochGrid, minutes: float) -> Columns:
    """Return log mean, spread of the log, and share of epochs without movement, in windows around epochs."""
    first, end = windows.window_edges(epochs, 60.0 * minutes)
    middle = (epochs.edges[:-1] + epochs.edges[1:]) / 2
    a, b = np.searchsorted(middle, first), np.searchsorted(middle, end)
    known = np.isfinite(per_minute)
    value = np.where(known, per_minute, 0.0)
    logs = np.log1p(value)
    logs = np.where(known, logs - (float(logs[known].mean()) if known.any() else 0.0), 0.0)

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
    """Return the terms and the index of Sadeh et al. (1994), 0 or above in sleep, from (n_epochs, 11)."""
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
    return {
        "sadeh_mean": mean,
        "sadeh_moderate": moderate,
        "sadeh_sd": spread,
        "sadeh_log": log,
        "sadeh_index": 7.601 - 0.065 * mean - 1.08 * moderate - 0.056 * spread - 0.703 * log,
    }


def cole_kripke(minutes: Floats, divisor: float) -> Floats:
    """Return the index of Cole, Kripke et al. (1992), below 1 in sleep, from minutes (n_epochs, 11)."""
    seven = minutes[:, (MINUTES >= -4) & (MINUTES <= 2)] / divisor
    known = np.isfinite(seven)
    weight = (known * COLE_KRIPKE_WEIGHTS).sum(axis=1)
    total = (np.where(known, seven, 0.0) * COLE_KRIPKE_WEIGHTS).sum(axis=1)
    # the weights of missing minutes are spread over the others
    scale = COLE_KRIPKE_WEIGHTS.sum() / np.where(weight > 0, weight, np.nan)
    return np.asarray(0.001 * total * scale)


def still_times(per_minute: Floats, epoch_seconds: float) -> Columns:
    """Return the log of 1 plus the minutes without movement just before and just after each epoch."""
    moving = ~(per_minute == 0)  # True for NaN as well
    epoch = np.arange(len(moving))
    last = np.maximum.accumulate(np.where(moving, epoch, -1))
    following = np.minimum.accumulate(np.where(moving, epoch, len(moving))[::-1])[::-1]
    before = epoch - 1 - np.append(-1, last[:-1])
    after = np.append(following[1:], len(moving)) - 1 - epoch
    return {
        f"still_{name}_log_min": np.log1p(np.minimum(n * (epoch_seconds / 60.0), STILL_LIMIT_MINUTES))
        for name, n in (("before", before), ("after", after))
    }


def gaussian_activity(counts: ActivityCounts, middle: Floats) -> Floats:
    """Return counts per 15 s around times, weighted by a Gaussian of 50 s (Walch et al. 2019)."""
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

# Minutes without movement after which the device counts as not worn. The stillest of 31 sleepers in
# Sleep-Accel had no count for 92 min.
STILL_COUNTS_MINUTES = 120.0
STILL_ACCELERATION_MINUTES = 90.0
SURE_MINUTES = 15.0  # the limit if the pulse is lost as well

STILL_G = 0.013  # standard deviation of each axis (van Hees et al. 2011)
STILL_WINDOW_SECONDS = 10
USUAL_PULSE_SECONDS = 60.0  # a device that usually finds a pulse this often is not worn when it finds none


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch.

    "kdd2026" marks three or more epochs in a row with zero counts: half of a healthy sleeper's night.
    "graded" is the share in which nothing was recorded, the device was not worn, or its count was stuck.
    """
    counts = find_counts(recording)
    if rules == "kdd2026":  # an epoch without counts is lost too, and interrupts a run of zeros
        each = counts.per_epoch(epochs)
        zero = windows.long_runs(each == 0, PAPER_ZERO_EPOCHS)
        return from_flags({"counts: zero": zero, "counts: missing": np.isnan(each)})
    edges = counts.edges
    first, end = runs(~counts.has_data)
    missing = np.append(edges[first], edges[-1]), np.append(edges[end], max(epochs.edges[-1], edges[-1]))
    moving = (counts.counts > 0).any(axis=1) & counts.has_data
    same = (counts.counts[1:] == counts.counts[:-1]).all(axis=1) & moving[1:] & moving[:-1]
    first, end = runs(same)
    long = (edges[end + 1] - edges[first] >= STUCK_SECONDS) & (end - first + 1 >= STUCK_BINS)
    stuck = edges[first[long]], edges[end[long] + 1]
    stretches: Stretches = {"counts: missing": missing, "counts: stuck": stuck}
    return from_stretches(stretches | _removals(recording, counts), epochs.edges)


def _removals(recording: Recording, counts: ActivityCounts) -> Stretches:
    """Return stretches without movement and pulse: a sleeper has both now and then, a table neither."""
    acceleration = find_acceleration(recording)
    if acceleration is None:
        edges, least_minutes = counts.edges, STILL_COUNTS_MINUTES
        still = counts.has_data & (counts.counts == 0).all(axis=1)
    else:
        spread, has_data = stillness(acceleration, STILL_WINDOW_SECONDS)
        edges, least_minutes = np.arange(len(spread) + 1.0) * STILL_WINDOW_SECONDS, STILL_ACCELERATION_MINUTES
        still = has_data & (spread < STILL_G).all(axis=1)
    pulses = read_heart_rate(recording)[0] if "heart_rate" in recording.signals else np.zeros(0)
    if len(pulses) > 1 and float(np.median(np.diff(pulses))) <= USUAL_PULSE_SECONDS:
        reason, least_minutes = "device: still, no pulse", SURE_MINUTES
    else:
        reason = "device: still too long"
    off = [np.zeros((0, 2))]
    for first, end in zip(*runs(still), strict=True):
        inside = pulses[(pulses >= edges[first]) & (pulses < edges[end])]
        cuts = np.concatenate([[edges[first]], inside, [edges[end]]])
        off.append(np.stack([cuts[:-1], cuts[1:]], axis=1)[np.diff(cuts) >= 60.0 * least_minutes])
    pairs = np.concatenate(off)
    return {reason: (pairs[:, 0], pairs[:, 1])}
