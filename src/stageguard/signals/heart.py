"""The heart: beats of a recording and their variability around epochs, and the heart rate of a watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Ints, Mask
from stageguard.documents import Range
from stageguard.errors import InputError
from stageguard.lazy import library
from stageguard.night.recording import EpochGrid, Recording, Signal
from stageguard.signals import windows
from stageguard.signals.windows import LEAST_SHARE, Band, Columns, Use, cumulative, runs, vertex
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
        """Whether each interval is plausible, and within a share of the median of the 11 around it."""
        kept = np.flatnonzero(self.is_plausible)
        normal = np.zeros(len(self.times), dtype=np.bool_)
        if len(kept):
            intervals = self.intervals[kept]
            length = min(LOCAL_BEATS, len(kept) - (len(kept) + 1) % 2)
            middle = np.median(np.lib.stride_tricks.sliding_window_view(intervals, length), axis=1)
            usual = np.pad(middle, (length // 2, len(kept) - len(middle) - length // 2), mode="edge")
            normal[kept] = np.abs(intervals - usual) <= tolerance * usual
        return normal


def find_beats(recording: Recording) -> Beats:
    """Return a recording's heartbeats: its channel 'beats', else those `sleepecg` finds in its ECG."""
    channel = recording.channel("beats", "ecg")
    if "beats" in recording.signals:
        return _given_beats(recording)
    # the detector needs no unit, so an unknown one is as good as none
    quantity = "voltage" if quantity_of(channel.unit) else ""
    signal = windows.steady_signal(recording, "ecg", quantity=quantity, least_rate_hz=LEAST_RATE_HZ)
    times, lost = _detect_beats(signal)
    intervals = np.diff(times, prepend=np.nan)
    for middle in lost:  # no interval may span a lost stretch
        intervals[np.searchsorted(times, middle) :][:1] = np.nan
    return Beats(times, intervals)


def _given_beats(recording: Recording) -> Beats:
    """Return the beats of the channel 'beats'; intervals that it lacks are the steps between its times."""
    times, intervals = windows.timed_values(recording, "beats", "s")
    known = np.isfinite(intervals) & (intervals > 0)
    intervals = np.where(known, intervals, np.diff(times, prepend=np.nan))
    if abs(intervals[0] - times[0]) < 1e-3:
        intervals[0] = np.nan  # measured from the recording's start, which is no beat
    usual = float(np.nanmedian(intervals)) if np.isfinite(intervals).any() else 0.0
    if not PLAUSIBLE_SECONDS[0] <= usual <= PLAUSIBLE_SECONDS[1]:
        found = f"has an interval of {usual:.3g} s in the median, expected 0.3 to 2 s"
        raise InputError(f"channel 'beats' of recording {recording.id!r} {found}.")
    return Beats(times, intervals)


def _detect_beats(signal: Signal) -> tuple[Floats, list[float]]:
    """Return the times of beats that `sleepecg` finds, and the middles of stretches without a signal."""
    sleepecg = library("sleepecg", "heartbeats from an ECG")
    beats, lost = [np.zeros(0)], []
    block, overlap = (round(seconds * signal.rate_hz) for seconds in (BLOCK_SECONDS, OVERLAP_SECONDS))
    for first in range(0, signal.n_samples, block):
        end = min(first + block, signal.n_samples)
        begin, stop = max(first - overlap, 0), min(end + overlap, signal.n_samples)
        samples = windows.read_samples(signal, begin, stop)
        usable = _usable(samples, signal.rate_hz)
        for a, b in zip(*runs(~usable[first - begin : end - begin]), strict=True):
            lost.append(float(first + (a + b) / 2) / signal.rate_hz)
        for a, b in zip(*runs(usable), strict=True):
            if b - a < LEAST_SECONDS * signal.rate_hz:
                continue
            piece = np.ascontiguousarray(samples[a:b])
            peaks = np.asarray(sleepecg.detect_heartbeats(piece, signal.rate_hz))
            peaks = (_refine_peaks(piece, peaks, signal.rate_hz) + (a + begin)) / signal.rate_hz
            beats.append(peaks[(peaks >= first / signal.rate_hz) & (peaks < end / signal.rate_hz)])
    times = np.sort(np.concatenate(beats))
    # where two blocks meet, both may find the same beat
    return times[np.diff(times, prepend=-np.inf) >= REFRACTORY_SECONDS], lost


def _usable(samples: Floats, rate_hz: float) -> Mask:
    """Fill short gaps in place; return which samples are a signal, not missing and not in a flat line."""
    there = np.isfinite(samples)
    for a, b in zip(*runs(~there), strict=True):
        if a > 0 and b < len(samples) and b - a <= PATCH_SECONDS * rate_hz:
            samples[a:b] = np.linspace(samples[a - 1], samples[b], b - a + 2)[1:-1]
            there[a:b] = True
    return there & ~windows.flat_samples(samples[1:] == samples[:-1], FLAT_SECONDS * rate_hz)


def _refine_peaks(samples: Floats, peaks: npt.NDArray[np.integer], rate_hz: float) -> Floats:
    """Return the positions of the R waves' peaks near the detected beats, to a fraction of a sample."""
    if not len(peaks):
        return np.zeros(0)
    reach = max(round(PEAK_REACH_SECONDS * rate_hz), 1)
    inner = np.clip(peaks, reach + 1, len(samples) - reach - 2)
    around = samples[inner[:, None] + np.arange(-reach - 1, reach + 2)]
    around = around - np.median(around, axis=1, keepdims=True)
    up, down = around.max(axis=1), -around.min(axis=1)
    # decided for all beats together, so that none is placed at R and the next at S
    around, height = (around, up) if np.median(up) >= np.median(down) else (-around, down)
    row = np.arange(len(inner))
    top = around[:, 1:-1].argmax(axis=1) + 1
    left, centre, right = (around[row, top + step] for step in (-1, 0, 1))
    refined = inner - reach - 1 + top + vertex(left, centre, right, (centre >= left) & (centre >= right))
    # the detector always reports a beat in its first second
    return np.asarray(refined[1:] if height[0] < LEAST_FIRST_HEIGHT * np.median(height) else refined)


Measures = Callable[[Floats, Floats], dict[str, float]]
HeartGroup = Literal["epoch", "time", "frequency", "nonlinear"]  # of features

LEAST_BEATS = 20
BRIDGE_SECONDS = 5.0  # a longer time without a normal beat is a gap
LEAST_POWER_MS2 = 1e-3  # keeps the logarithm finite for a heart without variability
DFA_BEATS = np.arange(4, 17)
MOST_BEATS = 1200  # of a window, for sample entropy: its cost grows with the square


BANDS: Mapping[str, Band] = MappingProxyType({"vlf": (0.0033, 0.04), "lf": (0.04, 0.15), "hf": (0.15, 0.4)})


@dataclass(frozen=True, slots=True)
class Heart:
    """How the heart is measured."""

    use: Use = "always"
    groups: Annotated[tuple[HeartGroup, ...], Range(low=1)] = ("epoch", "time", "frequency", "nonlinear")
    window_seconds: Annotated[float, Range(60, 3600)] = 300.0  # around each epoch
    # an interval that differs by more than this share from the median of the 11 around it is left out
    ectopic_tolerance: Annotated[float, Range(0.01, 1)] = 0.2
    resample_hz: Annotated[float, Range(1, 20)] = 4.0  # to which intervals are interpolated for spectra
    # if "lf" and "hf" are both here, their shares are features too
    bands: Annotated[Mapping[str, Band], Range(low=1)] = field(default_factory=lambda: BANDS)

    def __post_init__(self) -> None:
        """Check that the bands are below half of the rate."""
        for name, (_, high) in self.bands.items():
            if high > self.resample_hz / 2:
                most = f"half of resample_hz, {self.resample_hz / 2:g} Hz"
                raise InputError(f"bands.{name} reaches {high:g} Hz, expected at most {most}.")


class Normal(NamedTuple):
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
    first, end = windows.window_edges(epochs, options.window_seconds)
    columns: Columns = {}
    for group in options.groups:
        if group == "epoch":
            columns |= _per_window(normal, epochs.edges[:-1], epochs.edges[1:], epoch_measures, least_beats=3)
        elif group == "frequency":
            columns |= frequency_measures(normal, first, end, options.resample_hz, options.bands)
        else:
            measures = time_measures if group == "time" else nonlinear_measures
            columns |= _per_window(normal, first, end, measures)
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
    """Return the sample entropy (Richman and Moorman 2000) of runs of some length."""
    m = len(values) - length
    near = np.abs(values[:, None] - values) <= tolerance + 1e-9
    alike = np.ones((m, m), dtype=np.bool_)
    for step in range(length):
        alike &= near[step : step + m, step : step + m]
    longer = alike & near[length : length + m, length : length + m]
    # subtract the diagonal, where each run is compared with itself
    n_alike, n_longer = (int(np.count_nonzero(table)) - m for table in (alike, longer))
    return float(np.log(max(n_alike, 1) / max(n_longer, 1)))  # finite even if no two runs stay alike


def dfa_exponent(values: Floats, sizes: Ints) -> float:
    """Return how fluctuations around a local trend grow with the box (Peng et al. 1995); 0 if constant."""
    profile = np.cumsum(values - values.mean())
    sizes = sizes[sizes <= len(values) // 4]
    if len(sizes) < 3:
        return float("nan")
    x, growth = [], []
    for size in sizes:
        whole = len(profile) // size * size
        boxes = np.concatenate([profile[:whole], profile[len(profile) - whole :]]).reshape(-1, size)
        offset = np.arange(size) - (size - 1) / 2
        centred = boxes - boxes.mean(axis=1, keepdims=True)
        slope = centred @ offset / (offset @ offset)
        rest = (centred**2).sum() - (slope**2).sum() * (offset @ offset)
        if rest > 1e-9 * boxes.size:
            x.append(np.log(size))
            growth.append(0.5 * np.log(rest / boxes.size))
    if len(growth) < 3:
        return 0.0
    centred = np.array(x) - np.mean(x)
    return float(centred @ np.array(growth) / (centred @ centred))


def frequency_measures(
    normal: Normal, first: Floats, end: Floats, rate_hz: float, bands: Mapping[str, tuple[float, float]]
) -> Columns:
    """Return the log power of each band in windows, and the peak within "hf"."""
    lines, density = _spectra(normal, first, end, rate_hz)
    inside = {name: (lines > low) & (lines <= high) for name, (low, high) in bands.items()}
    powers = {name: density[:, where].sum(axis=1) * lines[1] for name, where in inside.items()}
    columns = {
        f"{name}_log_ms2": np.log(np.maximum(power, LEAST_POWER_MS2)) for name, power in powers.items()
    }
    if {"lf", "hf"} <= set(bands):
        columns["lf_share"] = powers["lf"] / np.maximum(powers["lf"] + powers["hf"], LEAST_POWER_MS2)
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
    """Return frequencies, and power densities in ms2/Hz of a cubic spline; NaN where there are no beats."""
    n = round((end[0] - first[0]) * rate_hz)
    lines = np.fft.rfftfreq(n, 1 / rate_hz).astype(np.float64)
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
    for chosen, samples in windows.blocks_of_windows(starts, n):
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
    names = measures(np.linspace(800.0, 900.0, 40), np.linspace(-1.0, 1.0, 39))
    columns = {name: np.full(len(first), np.nan) for name in names}
    steps = np.diff(normal.ms)
    for window in np.flatnonzero(enough):
        i, j = a[window], b[window]
        inside = steps[i : j - 1][normal.follows[i + 1 : j]]
        for name, value in measures(normal.ms[i:j], inside).items():
            columns[name][window] = value
    return columns


NARROW_SECONDS, WIDE_SECONDS, WIDE_WEIGHT = 120.0, 600.0, 0.75  # the difference of two Gaussians
KERNEL_SECONDS = 285
WALCH_MARGIN_SECONDS = 285.0  # of the window on either side of the epoch
SPREAD_SECONDS = 300.0
RateFeature = Literal["mean", "spread", "change"]


def read_heart_rate(recording: Recording) -> tuple[Floats, Floats]:
    """Return times and values of the plausible heart rates of a recording, in beats per minute."""
    times, values = windows.timed_values(recording, "heart_rate", "bpm")
    keep = (values >= PLAUSIBLE_BPM[0]) & (values <= PLAUSIBLE_BPM[1])  # a watch off the wrist records 0
    return times[keep], values[keep]


def heart_rate_features(recording: Recording, epochs: EpochGrid, names: tuple[RateFeature, ...]) -> Columns:
    """Return features of the heart rate of each epoch, by name, from the rate at every second."""
    times, values = read_heart_rate(recording)
    first = max(float(times[0]), 0.0) if len(times) else 0.0
    last = min(float(times[-1]), float(epochs.edges[-1])) if len(times) else 0.0
    if len(times) < 2 or last - first < epochs.epoch_seconds:
        found = f"{len(times)} plausible values, which cover {max(last - first, 0):.0f} s"
        raise InputError(
            f"channel 'heart_rate' of recording {recording.id!r} has {found}, expected most of the recording."
        )
    seconds = np.arange(first, last, 1.0)
    rate = np.interp(seconds, times, values)
    begin, end = epochs.edges[:-1], epochs.edges[1:]
    columns: Columns = {}
    for name in names:
        if name == "mean":
            columns["heart_rate_bpm"] = _moments(seconds, rate, begin, end)[0]
        elif name == "spread":
            edges = windows.window_edges(epochs, SPREAD_SECONDS)
            columns["heart_rate_sd_bpm"] = _moments(seconds, rate, *edges)[1]
        else:  # as Walch et al. (2019)
            change = walch_filtered(rate)
            change /= float(np.percentile(np.abs(change), 90)) or 1.0
            margins = begin - WALCH_MARGIN_SECONDS, end + WALCH_MARGIN_SECONDS
            columns["heart_rate_change"] = _moments(seconds, change, *margins)[1]
    return columns


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
    n = np.where(b > a, b - a, np.nan)
    mean, power = (sums[b] - sums[a]) / n, (squares[b] - squares[a]) / n
    return mean + values.mean(), np.sqrt(np.maximum(power - mean**2, 0.0))
