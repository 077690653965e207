"""Breathing from belts around chest and belly: rate, depth, regularity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from stageguard.arrays import Floats, Ints, Mask
from stageguard.documents import Range
from stageguard.errors import InputError
from stageguard.lazy import library
from stageguard.night.recording import EpochGrid, Recording
from stageguard.signals import windows
from stageguard.signals.windows import LEAST_SHARE, Band, Columns, Use, cumulative, vertex

LEAST_RATE_HZ = 4.0
WORK_RATE_HZ = 8.0
FLAT_SECONDS = 10.0  # a belt whose signal is constant for this long is not connected
LEAST_BREATHS = 3
BREATH_SECONDS = (1.0, 15.0)
LONGEST_LAG_SECONDS = 12  # of the autocorrelation
LEAST_PROMINENCE = 0.7  # of a breath, over the usual size of the signal around it
LEAST_DEPTH = 0.05  # of a breath, over the usual depth of the recording


@dataclass(frozen=True, slots=True)
class Breathing:
    """How breathing is measured."""

    # "if present": the channels that were recorded; "always": all channels; "never": none
    use: Use = "if present"
    channels: tuple[Literal["thorax", "abdomen", "airflow"], ...] = ("thorax", "abdomen")
    window_seconds: Annotated[float, Range(20, 3600)] = 90.0  # around each epoch
    band: Band = (0.08, 0.8)

    def __post_init__(self) -> None:
        """Check that a belt at the lowest rate can hold the band."""
        if not 0 < self.band[0] < self.band[1] <= LEAST_RATE_HZ / 2.5:
            most = LEAST_RATE_HZ / 2.5
            raise InputError(f"band is {list(self.band)}, expected frequencies above 0, up to {most:g} Hz.")


@dataclass(frozen=True, slots=True)
class Belt:
    """A belt's signal within the band of breathing, at a low rate."""

    values: Floats  # (n,) filtered; interpolated where nothing was recorded
    is_there: Mask  # (n,) whether the sample was recorded
    rate_hz: float

    def share(self, first: Floats, end: Floats) -> Floats:
        """Return the share of each window that was recorded."""
        total = cumulative(self.is_there)
        last = len(self.values)
        a, b = (np.clip(np.rint(at * self.rate_hz).astype(np.int64), 0, last) for at in (first, end))
        return np.asarray((total[b] - total[a]) / np.maximum((end - first) * self.rate_hz, 1.0))

    def starts(self, first: Floats, n: int) -> Ints:
        """Return the first sample of windows of n samples, moved inside at the recording's end."""
        return np.clip(np.rint(first * self.rate_hz).astype(np.int64), 0, len(self.values) - n)


def read_belt(recording: Recording, role: str, band: tuple[float, float]) -> Belt:
    """Return a belt's signal within the band of breathing."""
    signal = windows.steady_signal(recording, role, least_rate_hz=LEAST_RATE_HZ)
    filters = library("scipy.signal", "breathing from a belt")
    values, rate_hz = windows.decimate(signal, WORK_RATE_HZ)
    is_there = np.isfinite(values)
    span = float(np.ptp(values[is_there])) if is_there.any() else 0.0
    is_there &= ~windows.flat_samples(np.abs(np.diff(values)) <= 1e-9 * span, FLAT_SECONDS * rate_hz)
    if not is_there.any():
        return Belt(np.zeros(len(values)), is_there, rate_hz)
    samples = np.arange(len(values))
    values = np.interp(samples, samples[is_there], values[is_there])
    sections = filters.butter(2, band, "bandpass", fs=rate_hz, output="sos")
    pad = min(len(values) - 1, round(30 * rate_hz))
    filtered = filters.sosfiltfilt(sections, values - values.mean(), padlen=pad)
    return Belt(np.asarray(filtered), is_there, rate_hz)


def find_breaths(belt: Belt) -> tuple[Floats, Floats, Floats]:
    """Return times of breaths, seconds to the next, and depths; NaN before a gap or a long pause.

    Breaths are peaks that stand out from the signal's size in the minute around them.
    """
    find_peaks = library("scipy.signal", "breathing from a belt").find_peaks
    weight, squares = cumulative(belt.is_there), cumulative(np.where(belt.is_there, belt.values**2, 0.0))
    sample, n = np.arange(len(belt.values)), round(60 * belt.rate_hz)
    a, b = np.maximum(sample - n // 2, 0), np.minimum(sample + n // 2 + 1, len(belt.values))
    usual = np.sqrt(np.maximum(squares[b] - squares[a], 0.0) / np.maximum(weight[b] - weight[a], 1.0))
    peaks, properties = find_peaks(belt.values, distance=BREATH_SECONDS[0] * belt.rate_hz, prominence=0.0)
    stands_out = properties["prominences"] > LEAST_PROMINENCE * usual[peaks]
    peaks = peaks[stands_out & (usual[peaks] > 0) & belt.is_there[peaks]]
    if len(peaks) < 2:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    beside = vertex(belt.values[peaks - 1], belt.values[peaks], belt.values[peaks + 1])
    times = (peaks + beside) / belt.rate_hz
    intervals = np.append(np.diff(times), np.nan)
    depths = belt.values[peaks] - np.minimum.reduceat(belt.values, peaks)
    lost = cumulative(~belt.is_there)
    odd = np.append(lost[peaks[1:]] > lost[peaks[:-1]], True) | (depths < LEAST_DEPTH * np.median(depths))
    odd |= ~((intervals >= BREATH_SECONDS[0]) & (intervals <= BREATH_SECONDS[1]))
    return times, np.where(odd, np.nan, intervals), np.where(odd, np.nan, depths)


def breathing_features(belts: Mapping[str, Belt], epochs: EpochGrid, options: Breathing) -> Columns:
    """Return features of breathing by name, for each belt, and the correlation of chest and belly."""
    first, end = windows.window_edges(epochs, options.window_seconds)
    columns: Columns = {}
    for role, belt in belts.items():
        measured = _breath_measures(belt, first, end)
        measured["regularity"] = _regularity(belt, first, end)
        share = belt.share(first, end)
        for name, column in measured.items():
            columns[f"{role}_{name}"] = np.where(share >= LEAST_SHARE, column, np.nan)
    if {"thorax", "abdomen"} <= set(belts):
        columns["thorax_abdomen_correlation"] = _together(belts["thorax"], belts["abdomen"], first, end)
    return columns


def _breath_measures(belt: Belt, first: Floats, end: Floats) -> Columns:
    names = ("rate_per_min", "rate_sd_per_min", "depth_log", "depth_cv")
    columns = {name: np.full(len(first), np.nan) for name in names}
    breaths = find_breaths(belt)
    times, intervals, depths = (column[np.isfinite(breaths[1])] for column in breaths)
    a, b = np.searchsorted(times, first), np.searchsorted(times, end)
    usual = float(np.median(depths)) if len(depths) else 1.0
    for window in np.flatnonzero(b - a >= LEAST_BREATHS):
        some, deep = intervals[a[window] : b[window]], depths[a[window] : b[window]]
        columns["rate_per_min"][window] = 60.0 / np.median(some)
        columns["rate_sd_per_min"][window] = (60.0 / some).std()
        columns["depth_log"][window] = np.log(np.median(deep) / usual)
        columns["depth_cv"][window] = deep.std() / deep.mean()
    return columns


def _regularity(belt: Belt, first: Floats, end: Floats) -> Floats:
    """Return the highest peak of the autocorrelation within the possible intervals between breaths."""
    column = np.full(len(first), np.nan)
    n = min(round((end[0] - first[0]) * belt.rate_hz), len(belt.values))
    low = round(BREATH_SECONDS[0] * belt.rate_hz)
    high = min(round(LONGEST_LAG_SECONDS * belt.rate_hz), n // 2)
    if high <= low + 2:
        return column
    for chosen, samples in windows.blocks_of_windows(belt.starts(first, n), n):
        parts = belt.values[samples]
        spectra = np.abs(np.fft.rfft(parts - parts.mean(axis=1, keepdims=True), 2 * n, axis=1)) ** 2
        sums = np.fft.irfft(spectra, axis=1)[:, : high + 1]
        size = np.where(sums[:, :1] > 0, sums[:, :1], np.nan)
        alike = sums / size * (n / (n - np.arange(high + 1)))
        inner = alike[:, 1:-1]
        is_peak = (inner >= alike[:, :-2]) & (inner >= alike[:, 2:])
        is_peak[:, : low - 1] = False
        best = np.where(is_peak, inner, 0.0).max(axis=1)
        column[chosen] = np.where(np.isfinite(size[:, 0]), np.clip(best, 0.0, 1.0), np.nan)
    return column


def _together(thorax: Belt, abdomen: Belt, first: Floats, end: Floats) -> Floats:
    """Return the correlation of chest and belly in windows; -1 if they move in opposite directions."""
    seconds = np.arange(len(thorax.values)) / thorax.rate_hz
    belly_seconds = np.arange(len(abdomen.values)) / abdomen.rate_hz
    belly = np.interp(seconds, belly_seconds, abdomen.values)
    is_there = thorax.is_there & (np.interp(seconds, belly_seconds, abdomen.is_there.astype(float)) > 0.5)
    n = min(round((end[0] - first[0]) * thorax.rate_hz), len(seconds))
    column = np.full(len(first), np.nan)
    for chosen, samples in windows.blocks_of_windows(thorax.starts(first, n), n):
        weight = is_there[samples].astype(np.float64)
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
        chest, other = thorax.values[samples], belly[samples]
        chest = chest - (weight * chest).sum(axis=1, keepdims=True) / total
        other = other - (weight * other).sum(axis=1, keepdims=True) / total
        size = np.sqrt((weight * chest**2).sum(axis=1) * (weight * other**2).sum(axis=1))
        value = np.divide((weight * chest * other).sum(axis=1), size, out=np.zeros(len(size)), where=size > 0)
        column[chosen] = np.where(weight.mean(axis=1) >= LEAST_SHARE, value, np.nan)
    return column
