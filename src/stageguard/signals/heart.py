"""The heart: beats of a recording and their variability around epochs, and the heart rate of a watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stageguard import checks, schema
from stageguard.arrays import Floats, Ints, Mask
from stageguard.errors import InputError
from stageguard.extras import library
from stageguard.night.recording import EpochGrid, Recording, Series, Signal
from stageguard.signals.windows import (
    IF_PRESENT,
    LEAST_SHARE,
    Columns,
    blocks_of_windows,
    cumulative,
    flat_samples,
    read_samples,
    runs,
    steady_signal,
    timed_values,
    vertex,
    window_edges,
)
from stageguard.units import quantity_of

PLAUSIBLE_BPM = (30.0, 200.0)
PLAUSIBLE_SECONDS = (60 / PLAUSIBLE_BPM[1], 60 / PLAUSIBLE_BPM[0])
BLOCK_SECONDS, OVERLAP_SECONDS = 300.0, 15.0  # an artefact upsets the detector for one block only
LEAST_SECONDS = 5.0  # the detector learns its thresholds in the first two seconds
REFRACTORY_SECONDS = 0.2
PEAK_REACH_SECONDS = 0.06  # largest distance of an R wave's peak from the detected beat
LEAST_FIRST_HEIGHT = 0.4  # of the usual height
FLAT_SECONDS = 2.0  # an ECG that is constant for this long is not connected
PATCH_SECONDS = 0.1  # gaps up to this length are interpolated
LEAST_RATE_HZ = 61.0  # the detector uses 5 to 30 Hz
LOCAL_BEATS = 11


@dataclass(frozen=True, slots=True)
class Beats:
    """Heartbeats in order of time."""

    times: Floats  # (n,) seconds since the recording's start
    intervals: Floats  # (n,) seconds since the beat before; NaN where the signal was interrupted between them

    @property
    def is_plausible(self) -> Mask:
        """Whether each interval corresponds to a heart rate from 30 to 200 beats per minute."""
        low, high = PLAUSIBLE_SECONDS
        return np.asarray((self.intervals >= low) & (self.intervals <= high))

    def normal(self, tolerance: float) -> Mask:
        """Whether each interval is plausible and near the median of the 11 plausible intervals around it.

        ``tolerance`` is the largest distance from that median, as a share of it.
        """
        kept = np.flatnonzero(self.is_plausible)
        normal = np.zeros(len(self.times), dtype=np.bool_)
        if len(kept):
            intervals = self.intervals[kept]
            usual = _running_median(intervals, LOCAL_BEATS)
            normal[kept] = np.abs(intervals - usual) <= tolerance * usual
        return normal


def has_beats(recording: Recording) -> bool:
    """Whether a recording has beats or an ECG to find them in."""
    return "beats" in recording.signals or "ecg" in recording.signals


def find_beats(recording: Recording) -> Beats:
    """Return a recording's heartbeats: its channel 'beats', else those `sleepecg` finds in its ECG."""
    channel = recording.channel("beats", "ecg")
    if "beats" in recording.signals:
        return _given_beats(recording, channel)
    # the detector needs no unit, so an unknown one is as good as none
    quantity = "voltage" if quantity_of(channel.unit) else ""
    signal = steady_signal(recording, "ecg", quantity=quantity, least_rate_hz=LEAST_RATE_HZ)
    times, lost = _detect_beats(signal)
    intervals = np.append(np.nan, np.diff(times)) if len(times) else np.zeros(0)
    for first, end in lost:  # no interval may span a lost stretch
        after = int(np.searchsorted(times, (first + end) / 2))
        if after < len(times):
            intervals[after] = np.nan
    return Beats(times, intervals)


def _given_beats(recording: Recording, channel: Signal | Series) -> Beats:
    """Return the beats of the channel 'beats'; intervals that it lacks are the steps between its times."""
    if not isinstance(channel, Series):
        raise InputError(
            f"channel 'beats' of recording {recording.id!r} is sampled at a steady rate, expected the times "
            "of beats. Map an ECG as 'ecg' instead."
        )
    _, intervals = timed_values(channel, "s", "channel 'beats'")
    known = np.isfinite(intervals) & (intervals > 0)
    steps = np.append(np.nan, np.diff(channel.times))
    intervals = np.where(known, intervals, steps)
    if abs(intervals[0] - channel.times[0]) < 1e-3:
        intervals[0] = np.nan  # measured from the recording's start, which is no beat
    usual = float(np.nanmedian(intervals)) if np.isfinite(intervals).any() else 0.0
    if not PLAUSIBLE_SECONDS[0] <= usual <= PLAUSIBLE_SECONDS[1]:
        raise InputError(
            f"channel 'beats' of recording {recording.id!r} has an interval of {usual:.3g} s in the median, "
            "expected 0.3 to 2 s. Say its unit, for example 'ms', or map another."
        )
    return Beats(channel.times, intervals)


def _detect_beats(signal: Signal) -> tuple[Floats, list[tuple[float, float]]]:
    """Return the times of beats that `sleepecg` finds block by block, and stretches without a signal."""
    sleepecg = library("sleepecg", "heartbeats from an ECG")
    beats: list[Floats] = []
    lost: list[tuple[float, float]] = []
    block, overlap = (round(seconds * signal.rate_hz) for seconds in (BLOCK_SECONDS, OVERLAP_SECONDS))
    for first in range(0, signal.n_samples, block):
        end = min(first + block, signal.n_samples)
        begin, stop = max(first - overlap, 0), min(end + overlap, signal.n_samples)
        samples = read_samples(signal, begin, stop)
        usable = _usable(samples, signal.rate_hz)
        for a, b in zip(*runs(~usable), strict=True):
            a, b = max(a + begin, first), min(b + begin, end)
            if a < b:
                lost.append((a / signal.rate_hz, b / signal.rate_hz))
        for a, b in zip(*runs(usable), strict=True):
            if b - a < LEAST_SECONDS * signal.rate_hz:
                continue
            piece = np.ascontiguousarray(samples[a:b])
            peaks = np.asarray(sleepecg.detect_heartbeats(piece, signal.rate_hz))
            peaks = (_refine_peaks(piece, peaks, signal.rate_hz) + (a + begin)) / signal.rate_hz
            beats.append(peaks[(peaks >= first / signal.rate_hz) & (peaks < end / signal.rate_hz)])
    times = np.sort(np.concatenate(beats)) if beats else np.zeros(0)
    # where two blocks meet, both may find the same beat
    times = times[np.append(np.inf, np.diff(times)) >= REFRACTORY_SECONDS] if len(times) else times
    return times, lost


def _usable(samples: Floats, rate_hz: float) -> Mask:
    """Fill short gaps in place; return which samples are a signal, not missing and not in a flat line."""
    there = np.isfinite(samples)
    if not there.all() and there.any():
        for a, b in zip(*runs(~there), strict=True):
            if a > 0 and b < len(samples) and b - a <= PATCH_SECONDS * rate_hz:
                samples[a:b] = np.linspace(samples[a - 1], samples[b], b - a + 2)[1:-1]
                there[a:b] = True
    return there & ~flat_samples(samples[1:] == samples[:-1], FLAT_SECONDS * rate_hz)


def _refine_peaks(samples: Floats, peaks: npt.NDArray[np.integer], rate_hz: float) -> Floats:
    """Return the positions of the R waves' peaks near the detected beats, to a fraction of a sample.

    Whether R waves point up or down is decided for all of them together, so that no beat is placed at R and
    the next at S. A first beat far lower than the others is dropped: the detector always reports a beat in
    its first second.
    """
    reach = max(round(PEAK_REACH_SECONDS * rate_hz), 1)
    inner = np.clip(peaks, reach + 1, len(samples) - reach - 2)
    if not len(peaks):
        return np.zeros(0)
    around = samples[inner[:, None] + np.arange(-reach - 1, reach + 2)]
    around = around - np.median(around, axis=1, keepdims=True)
    up, down = around.max(axis=1), -around.min(axis=1)
    around, height = (around, up) if np.median(up) >= np.median(down) else (-around, down)
    row = np.arange(len(inner))
    top = around[:, 1:-1].argmax(axis=1) + 1
    left, centre, right = (around[row, top + step] for step in (-1, 0, 1))
    shift = vertex(left, centre, right, (centre >= left) & (centre >= right))
    refined = inner - reach - 1 + top + shift
    return np.asarray(refined[1:] if height[0] < LEAST_FIRST_HEIGHT * np.median(height) else refined)


def _running_median(values: Floats, length: int) -> Floats:
    """Return the running median; at either end, that of the first or last full window."""
    length = min(length, len(values) - (len(values) + 1) % 2)
    half = length // 2
    windows = np.lib.stride_tricks.sliding_window_view(values, length)
    middle = np.median(windows, axis=1)
    return np.pad(middle, (half, len(values) - len(middle) - half), mode="edge")


Measures = Callable[[Floats, Floats], dict[str, float]]

GROUPS = ("epoch", "time", "frequency", "nonlinear")
BANDS = {"vlf": (0.0033, 0.04), "lf": (0.04, 0.15), "hf": (0.15, 0.4)}
LEAST_BEATS = 20
BRIDGE_SECONDS = 5.0  # a longer time without a normal beat is a gap
LEAST_POWER_MS2 = 1e-3  # keeps the logarithm finite for a heart without variability
DFA_BEATS = np.arange(4, 17)
MOST_BEATS = 1200  # of a window, for sample entropy: its cost grows with the square


@dataclass(frozen=True, slots=True)
class Heart:
    """How the heart is measured."""

    use: str = schema.choice("always", *IF_PRESENT)
    groups: tuple[str, ...] = schema.words(*GROUPS)
    window_seconds: float = schema.number(300.0, low=60.0, high=3600.0)  # around each epoch
    # an interval that differs by more than this share from the median of the 11 around it is left out
    ectopic_tolerance: float = schema.number(0.2, low=0.01, high=1.0)
    # rate to which intervals are interpolated for their spectrum
    resample_hz: float = schema.number(4.0, low=1.0, high=20.0)
    # Hz; if "lf" and "hf" are both here, their shares are features too
    bands: Mapping[str, tuple[float, float]] = schema.bands(BANDS)

    def __post_init__(self) -> None:
        """Check the names of the groups, and that the bands are below half of the rate."""
        for name in self.groups:
            checks.choice(name, "heart.groups", GROUPS)
        if not self.groups:
            raise InputError(f"heart.groups is empty, expected some of {', '.join(GROUPS)}.")
        for name, (_, high) in self.bands.items():
            if high > self.resample_hz / 2:
                raise InputError(
                    f"heart.bands.{name} reaches {high:g} Hz, expected at most half of resample_hz, "
                    f"{self.resample_hz / 2:g} Hz."
                )


@dataclass(frozen=True, slots=True)
class Normal:
    """Normal-to-normal intervals."""

    times: Floats  # (n,) when each ends, in seconds
    ms: Floats  # (n,) its length in milliseconds
    follows: Mask  # (n,) whether it directly follows the interval before, with no beat left out

    @classmethod
    def of(cls, beats: Beats, tolerance: float) -> Normal:
        """Return the intervals between normal beats."""
        keep = beats.normal(tolerance)
        keep[1:] &= np.diff(beats.times) > 0
        follows = keep & np.append(False, keep[:-1])
        return cls(beats.times[keep], 1000.0 * beats.intervals[keep], follows[keep])


def hrv_features(beats: Beats, epochs: EpochGrid, options: Heart) -> Columns:
    """Return the features of each epoch, by name; NaN where too few normal beats are around it."""
    normal = Normal.of(beats, options.ectopic_tolerance)
    first, end = window_edges(epochs, options.window_seconds)
    columns: Columns = {}
    for group in options.groups:
        if group == "epoch":
            columns |= _per_window(normal, epochs.edges[:-1], epochs.edges[1:], epoch_measures, least_beats=3)
        elif group == "time":
            columns |= _per_window(normal, first, end, time_measures)
        elif group == "frequency":
            columns |= frequency_measures(normal, first, end, options.resample_hz, options.bands)
        else:
            columns |= _per_window(normal, first, end, nonlinear_measures)
    return columns


def epoch_measures(ms: Floats, steps: Floats) -> dict[str, float]:
    """Return mean heart rate and its range within the epoch itself."""
    rate = 60_000.0 / ms
    return {"heart_rate_bpm": 60_000.0 / float(ms.mean()), "heart_rate_range_bpm": float(np.ptp(rate))}


def time_measures(ms: Floats, steps: Floats) -> dict[str, float]:
    """Return measures of the time domain (Task Force 1996); ``steps`` are between consecutive intervals."""
    low, high = np.percentile(ms, [25, 75])
    some = len(steps) > 0
    return {
        "nn_mean_ms": float(ms.mean()),
        "nn_sd_ms": float(ms.std(ddof=1)),
        "nn_iqr_ms": float(high - low),
        "rmssd_ms": float(np.sqrt(np.mean(steps**2))) if some else np.nan,
        "pnn50": float(np.mean(np.abs(steps) > 50.0)) if some else np.nan,
        "pnn20": float(np.mean(np.abs(steps) > 20.0)) if some else np.nan,
        "heart_rate_sd_bpm": float((60_000.0 / ms).std(ddof=1)),
    }


def nonlinear_measures(ms: Floats, steps: Floats) -> dict[str, float]:
    """Return the widths of the Poincare plot, sample entropy, and the short-term scaling exponent."""
    sd1 = float(steps.std(ddof=1)) / np.sqrt(2) if len(steps) > 1 else np.nan
    sd2 = float(np.sqrt(max(2 * ms.var(ddof=1) - sd1**2, 0.0)))
    ms = ms[:MOST_BEATS]
    return {
        "sd1_ms": sd1,
        "sd2_ms": sd2,
        "sd1_sd2_ratio": sd1 / sd2 if sd2 > 0 else 1.0,
        "sample_entropy": sample_entropy(ms, 2, 0.2 * float(ms.std(ddof=1))),
        "dfa_alpha1": dfa_exponent(ms, DFA_BEATS),
    }


def sample_entropy(values: Floats, length: int, tolerance: float) -> float:
    """Return sample entropy (Richman and Moorman 2000).

    This is minus the log of the chance that two runs that are alike for `length` values are alike for one
    more. Values are alike if they differ by at most the tolerance. If no two runs stay alike, one pair is
    assumed to, so that the result is finite.
    """
    n = len(values)
    if n < length + 2:
        return float("nan")
    near = np.abs(values[:, None] - values) <= tolerance + 1e-9
    m = n - length
    alike = np.ones((m, m), dtype=np.bool_)
    for step in range(length):
        alike &= near[step : step + m, step : step + m]
    longer = alike & near[length : length + m, length : length + m]
    # subtract the diagonal, where each run is compared with itself
    n_alike, n_longer = (int(np.count_nonzero(table)) - m for table in (alike, longer))
    return float(np.log(max(n_alike, 1) / max(n_longer, 1)))


def dfa_exponent(values: Floats, sizes: Ints) -> float:
    """Return the exponent by which fluctuations around a local trend grow with the size of the box.

    As in Peng et al. (1995): 0.5 for white noise, 1.5 for its cumulative sum. Boxes are cut from both ends.
    A constant series gives 0.
    """
    profile = np.cumsum(values - values.mean())
    sizes = sizes[sizes <= len(values) // 4]
    if len(sizes) < 3:
        return float("nan")
    sizes_used, growth = [], []
    for size in sizes:
        whole = len(profile) // size * size
        boxes = np.concatenate([profile[:whole], profile[len(profile) - whole :]]).reshape(-1, size)
        offset = np.arange(size) - (size - 1) / 2
        centred = boxes - boxes.mean(axis=1, keepdims=True)
        slope = centred @ offset / (offset @ offset)
        rest = (centred**2).sum() - (slope**2).sum() * (offset @ offset)
        if rest > 1e-9 * boxes.size:
            sizes_used.append(np.log(size))
            growth.append(0.5 * np.log(rest / boxes.size))
    if len(growth) < 3:
        return 0.0
    x = np.array(sizes_used) - np.mean(sizes_used)
    return float(x @ np.array(growth) / (x @ x))


def frequency_measures(
    normal: Normal, first: Floats, end: Floats, rate_hz: float, bands: Mapping[str, tuple[float, float]]
) -> Columns:
    """Return the log power of each band in windows, and the peak within "hf".

    The intervals are interpolated to an even rate by a cubic spline. Each window is detrended linearly and
    tapered (Hann). Its periodogram is summed over the bands, in ms2. Stretches without beats do not count.
    """
    lines, density = _spectra(normal, first, end, rate_hz)
    inside = {name: (lines > low) & (lines <= high) for name, (low, high) in bands.items()}
    powers = {name: density[:, where].sum(axis=1) * lines[1] for name, where in inside.items()}
    columns: Columns = {}
    for name, power in powers.items():
        columns[f"{name}_log_ms2"] = np.log(np.maximum(power, LEAST_POWER_MS2))
    if {"lf", "hf"} <= set(bands):
        both = np.maximum(powers["lf"] + powers["hf"], LEAST_POWER_MS2)
        columns["lf_share"] = powers["lf"] / both
        columns["lf_hf_log_ratio"] = columns["lf_log_ms2"] - columns["hf_log_ms2"]
    if "hf" in bands:
        columns["hf_peak_hz"], columns["hf_peak_share"] = _peak(lines[inside["hf"]], density[:, inside["hf"]])
    return columns


def _peak(lines: Floats, density: Floats) -> tuple[Floats, Floats]:
    """Return the frequency of the highest line, refined by a parabola, and the share of power next to it."""
    rows = np.arange(len(density))
    known = np.asarray(np.isfinite(density).all(axis=1))
    filled = np.where(known[:, None], density, 0.0)
    top = filled.argmax(axis=1)
    inner = np.clip(top, 1, len(lines) - 2)
    left, centre, right = (filled[rows, inner + step] for step in (-1, 0, 1))
    shift = vertex(left, centre, right, top == inner)
    beside = np.abs(np.arange(len(lines)) - top[:, None]) <= 2  # the width of a pure tone after the taper
    total = filled.sum(axis=1)
    share = np.divide((filled * beside).sum(axis=1), total, out=np.zeros(len(rows)), where=total > 0)
    peak = lines[top] + shift * (lines[1] - lines[0])
    return np.where(known, peak, np.nan), np.where(known, share, np.nan)


def _spectra(normal: Normal, first: Floats, end: Floats, rate_hz: float) -> tuple[Floats, Floats]:
    """Return frequencies and power density (n_windows, n_lines) in ms2/Hz; NaN where there are no beats."""
    n = round((end[0] - first[0]) * rate_hz)
    lines = np.asarray(np.fft.rfftfreq(n, 1.0 / rate_hz))
    density = np.full((len(first), len(lines)), np.nan)
    if len(normal.times) < LEAST_BEATS:
        return lines, density
    interpolate = library("scipy.interpolate", "heart-rate variability by frequency")
    grid = np.arange(0.0, float(end[-1]) + 0.5 / rate_hz, 1.0 / rate_hz)
    smooth = interpolate.CubicSpline(normal.times, normal.ms)
    series = np.clip(smooth(grid), normal.ms.min(), normal.ms.max())  # a spline may overshoot over a gap
    after = np.clip(np.searchsorted(normal.times, grid), 1, len(normal.times) - 1)
    gap = normal.times[after] - normal.times[after - 1]
    covered = (gap <= BRIDGE_SECONDS) & (grid >= normal.times[0]) & (grid <= normal.times[-1])
    starts = np.clip(np.rint(first * rate_hz).astype(np.int64), 0, len(grid) - n)
    for chosen, samples in blocks_of_windows(starts, n):
        density[chosen] = _periodograms(series[samples], covered[samples], rate_hz)
    return lines, density


def _periodograms(values: Floats, covered: Mask, rate_hz: float) -> Floats:
    """Return one-sided power densities of detrended rows; uncovered samples have weight 0."""
    n = values.shape[1]
    taper = np.hanning(n + 1)[:-1] * covered
    weight = covered.astype(np.float64)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
    offset = np.arange(n) - (weight * np.arange(n)).sum(axis=1, keepdims=True) / total
    centred = values - (weight * values).sum(axis=1, keepdims=True) / total
    slope = (weight * centred * offset).sum(axis=1, keepdims=True)
    slope /= np.maximum((weight * offset**2).sum(axis=1, keepdims=True), 1e-9)
    power = np.abs(np.fft.rfft(taper * (centred - slope * offset), axis=1)) ** 2
    norm = rate_hz * (taper**2).sum(axis=1, keepdims=True)
    power = 2.0 * power / np.where(norm > 0, norm, np.nan)
    power[:, 0] /= 2
    if n % 2 == 0:
        power[:, -1] /= 2
    return np.where(weight.mean(axis=1, keepdims=True) >= LEAST_SHARE, power, np.nan)


def _per_window(
    normal: Normal, first: Floats, end: Floats, measures: Measures, least_beats: int = LEAST_BEATS
) -> Columns:
    """Return the measures of the intervals in each window; NaN where there are too few intervals."""
    a, b = np.searchsorted(normal.times, first), np.searchsorted(normal.times, end)
    filled = cumulative(normal.ms / 1000.0)
    enough = (b - a >= least_beats) & (filled[b] - filled[a] >= LEAST_SHARE * (end - first))
    names = list(measures(np.linspace(800.0, 900.0, 40), np.linspace(-1.0, 1.0, 39)))
    columns = {name: np.full(len(first), np.nan) for name in names}
    steps = np.append(0.0, np.diff(normal.ms))
    for window in np.flatnonzero(enough):
        i, j = a[window], b[window]
        follows = normal.follows[i:j].copy()
        follows[0] = False  # the interval before is outside the window
        for name, value in measures(normal.ms[i:j], steps[i:j][follows]).items():
            columns[name][window] = value
    return columns


NARROW_SECONDS, WIDE_SECONDS, WIDE_WEIGHT = 120.0, 600.0, 0.75  # the difference of two Gaussians
KERNEL_SECONDS = 285
WALCH_MARGIN_SECONDS = 285.0  # of the window on either side of the epoch
SPREAD_SECONDS = 300.0
RATE_FEATURES = ("mean", "spread", "change")
READY_MADE = "heart_rate_variability"  # Walch's own feature, as the files of the dataset have it


def raw_heart_rate(recording: Recording) -> tuple[Floats, Floats]:
    """Return times and values of all heart rates of a recording, in beats per minute."""
    return timed_values(recording.channel("heart_rate"), "bpm", "channel 'heart_rate'")


def read_heart_rate(recording: Recording) -> tuple[Floats, Floats]:
    """Return times and values of the plausible heart rates of a recording, in beats per minute."""
    times, values = raw_heart_rate(recording)
    keep = (values >= PLAUSIBLE_BPM[0]) & (values <= PLAUSIBLE_BPM[1])  # a watch off the wrist records 0
    return times[keep], values[keep]


def heart_rate_features(recording: Recording, epochs: EpochGrid, names: tuple[str, ...]) -> Columns:
    """Return heart-rate features of each epoch, by name; rates outside the epochs are not used.

    ``heart_rate_bpm`` is the mean of the epoch, ``heart_rate_sd_bpm`` the standard deviation over 5 min
    around it, both of the rate interpolated to every second. ``heart_rate_change`` is Walch's: the standard
    deviation, from 285 s before the epoch to 285 s after it, of the rate filtered by a difference of two
    Gaussians (120 s less 0.75 times 600 s) and divided by the 90th percentile of its size in the recording.
    A recording with a channel "heart_rate_variability" and no heart rate has only this feature, ready-made.
    """
    if "heart_rate" not in recording.signals and READY_MADE in recording.signals:
        return {"heart_rate_change": _ready_made(recording, epochs)}
    seconds, rate = _each_second(recording, epochs)
    columns: Columns = {}
    for name in names:
        if name == "mean":
            columns["heart_rate_bpm"] = _moments(seconds, rate, epochs.edges[:-1], epochs.edges[1:])[0]
        elif name == "spread":
            columns["heart_rate_sd_bpm"] = _moments(seconds, rate, *window_edges(epochs, SPREAD_SECONDS))[1]
        else:
            first, end = epochs.edges[:-1] - WALCH_MARGIN_SECONDS, epochs.edges[1:] + WALCH_MARGIN_SECONDS
            change = walch_filtered(rate)
            size = float(np.percentile(np.abs(change), 90))
            columns["heart_rate_change"] = _moments(seconds, change / (size or 1.0), first, end)[1]
    return columns


def _each_second(recording: Recording, epochs: EpochGrid) -> tuple[Floats, Floats]:
    """Return every second of the night between the first and last heart rate, and the rate at each."""
    times, values = read_heart_rate(recording)
    first = max(float(times[0]), 0.0) if len(times) else 0.0
    last = min(float(times[-1]), float(epochs.edges[-1])) if len(times) else 0.0
    if len(times) < 2 or last - first < epochs.epoch_seconds:
        raise InputError(
            f"channel 'heart_rate' of recording {recording.id!r} has {len(times)} values from "
            f"{PLAUSIBLE_BPM[0]:g} to {PLAUSIBLE_BPM[1]:g} bpm, which cover {max(last - first, 0):.0f} s, "
            "expected most of the recording. Map another channel, or set heart_rate = 'never' in the recipe."
        )
    seconds = np.arange(first, last, 1.0)
    return seconds, np.interp(seconds, times, values)


def _ready_made(recording: Recording, epochs: EpochGrid) -> Floats:
    """Return the channel "heart_rate_variability", which has one value per epoch."""
    channel = recording.channel(READY_MADE)
    if not isinstance(channel, Signal) or abs(channel.rate_hz * epochs.epoch_seconds - 1) > 1e-6:
        raise InputError(
            f"channel {READY_MADE!r} of recording {recording.id!r} does not have one value per epoch of "
            f"{epochs.epoch_seconds:g} s. Map a heart rate as 'heart_rate' instead."
        )
    column = np.full(epochs.n_epochs, np.nan)
    values = channel.read(0, min(epochs.n_epochs, channel.n_samples))
    column[: len(values)] = values
    return column


def walch_filtered(rate: Floats) -> Floats:
    """Return a heart rate per second, minus its mean, filtered by the difference of two Gaussians."""
    offset = np.arange(KERNEL_SECONDS) - KERNEL_SECONDS // 2
    kernel = np.exp(-0.5 * (offset / NARROW_SECONDS) ** 2)
    kernel -= WIDE_WEIGHT * np.exp(-0.5 * (offset / WIDE_SECONDS) ** 2)
    padded = np.pad(rate - rate.mean(), KERNEL_SECONDS // 2, mode="symmetric")
    return np.asarray(np.convolve(padded, kernel, mode="valid"))


def _moments(times: Floats, values: Floats, first: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of values in stretches of time; NaN where there are none."""
    a, b = np.searchsorted(times, first), np.searchsorted(times, end)
    centred = values - values.mean()  # keeps the sums of squares accurate
    sums, squares = cumulative(centred), cumulative(centred**2)
    n = b - a
    known = n > 0
    mean = np.divide(sums[b] - sums[a], n, out=np.full(len(n), np.nan), where=known)
    power = np.divide(squares[b] - squares[a], n, out=np.full(len(n), np.nan), where=known)
    return mean + values.mean(), np.sqrt(np.maximum(power - mean**2, 0.0))
