"""Heart-rate variability around epochs: time, frequency and non-linear measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stageguard.base import checks, schema
from stageguard.base.arrays import Floats, Ints, Mask
from stageguard.base.errors import InputError
from stageguard.base.extras import library
from stageguard.night.epochs import EpochGrid
from stageguard.signals.beats import Beats
from stageguard.signals.windows import IF_PRESENT, Columns, vertex, window_edges

Measures = Callable[[Floats, Floats], dict[str, float]]

GROUPS = ("epoch", "time", "frequency", "nonlinear")
BANDS = {"vlf": (0.0033, 0.04), "lf": (0.04, 0.15), "hf": (0.15, 0.4)}
LEAST_BEATS = 20
LEAST_SHARE = 0.5  # of a window that normal intervals must fill
BRIDGE_SECONDS = 5.0  # a longer time without a normal beat is a gap
LEAST_POWER_MS2 = 1e-3  # a steady heart has no power at all, which has no logarithm
BLOCK_WINDOWS = 256
DFA_BEATS = np.arange(4, 17)
MOST_BEATS = 1200  # of a window, for sample entropy: its cost grows with the square


@dataclass(frozen=True, slots=True)
class Heart:
    """How the heart is measured."""

    use: str = schema.choice("always", *IF_PRESENT)
    groups: tuple[str, ...] = schema.words(*GROUPS)
    window_seconds: float = schema.number(300.0, low=60.0, high=3600.0)  # around each epoch
    # an interval further than this share from the median of the 11 around it is left out
    ectopic_tolerance: float = schema.number(0.2, low=0.01, high=1.0)
    # rate at which intervals are read for their spectrum
    resample_hz: float = schema.number(4.0, low=1.0, high=20.0)
    # Hz; shares of "lf" and "hf" where both are there
    bands: Mapping[str, tuple[float, float]] = schema.bands(BANDS)

    def __post_init__(self) -> None:
        """Check the names of the groups, and that the bands can be seen."""
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
    follows: Mask  # (n,) whether it follows the one before directly, no beat left out

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
    """Return measures of the time domain (Task Force 1996); steps are between intervals that follow."""
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
    """Return minus the log of the chance that runs alike for `length` values stay alike for one more.

    Richman and Moorman (2000). Values are alike up to the tolerance. Where no run stays alike it is as if one
    did, so that the number is finite.
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
    # each pair stands twice in the table, and each run is like itself
    n_alike, n_longer = (int(np.count_nonzero(table)) - m for table in (alike, longer))
    return float(np.log(max(n_alike, 1) / max(n_longer, 1)))


def dfa_exponent(values: Floats, sizes: Ints) -> float:
    """Return the exponent by which fluctuations around a local trend grow with the size of the box.

    Peng et al. (1995): 0.5 for noise, 1.5 for its sum. Boxes are cut from both ends. 0 for a steady series.
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
    """Return log power of the bands in windows, and where in "hf" the most of it is.

    The intervals are read at an even rate from a cubic spline; each window is freed of its linear trend,
    tapered (Hann), and its periodogram summed over the bands, in ms2. Stretches without beats do not count.
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
    series = np.clip(smooth(grid), normal.ms.min(), normal.ms.max())  # over a gap a spline may go anywhere
    after = np.clip(np.searchsorted(normal.times, grid), 1, len(normal.times) - 1)
    gap = normal.times[after] - normal.times[after - 1]
    covered = (gap <= BRIDGE_SECONDS) & (grid >= normal.times[0]) & (grid <= normal.times[-1])
    starts = np.clip(np.rint(first * rate_hz).astype(np.int64), 0, len(grid) - n)
    for a in range(0, len(starts), BLOCK_WINDOWS):
        chosen = starts[a : a + BLOCK_WINDOWS, None] + np.arange(n)
        density[a : a + BLOCK_WINDOWS] = _periodograms(series[chosen], covered[chosen], rate_hz)
    return lines, density


def _periodograms(values: Floats, covered: Mask, rate_hz: float) -> Floats:
    """Return one-sided power densities of rows without their trend; uncovered samples weigh nothing."""
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
    """Return what a function says of the intervals in each window; NaN where they are too few."""
    a, b = np.searchsorted(normal.times, first), np.searchsorted(normal.times, end)
    filled = np.append(0.0, np.cumsum(normal.ms / 1000.0))
    enough = (b - a >= least_beats) & (filled[b] - filled[a] >= LEAST_SHARE * (end - first))
    names = list(measures(np.linspace(800.0, 900.0, 40), np.linspace(-1.0, 1.0, 39)))
    columns = {name: np.full(len(first), np.nan) for name in names}
    steps = np.append(0.0, np.diff(normal.ms))
    for window in np.flatnonzero(enough):
        i, j = a[window], b[window]
        follows = normal.follows[i:j].copy()
        follows[0] = False  # its forerunner is outside
        for name, value in measures(normal.ms[i:j], steps[i:j][follows]).items():
            columns[name][window] = value
    return columns
