"""Wrist activity: raw acceleration, counts (computed from it or recorded), and stillness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Mask
from stageguard.errors import InputError
from stageguard.extras import library
from stageguard.night.recording import EpochGrid, Recording, Series, Signal
from stageguard.signals.windows import LEAST_SHARE, cumulative
from stageguard.units import known_unit, to_unit

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

TE_LINDERT_HZ = 50
TE_LINDERT_BAND_HZ = (3.0, 11.0)
TE_LINDERT_SECONDS = 15
TE_LINDERT_EDGES_G = np.linspace(0.0, 5.0, 129)

METHODS = ("actigraph", "te-lindert")


@dataclass(frozen=True, slots=True)
class Acceleration:
    """Three axes of acceleration that can be read on any even grid, stretch by stretch."""

    source: Series | tuple[Signal, ...]  # time stamped rows (n, 3), or one signal per axis
    unit: str  # "" stands for g
    rate_hz: float  # usual number of samples per second

    @property
    def seconds(self) -> int:
        """Whole seconds from the recording's start to the last sample."""
        last = self.source.seconds if isinstance(self.source, Series) else self.source[0].seconds
        return max(int(np.ceil(last)), 0)

    def read(self, first: float, end: float, rate_hz: float) -> Floats:
        """Return acceleration in g at even times from ``first`` to ``end`` (exclusive), shape (n, 3).

        Acceleration is interpolated linearly between samples and over gaps, and constant beyond the ends.
        """
        times = first + np.arange(round((end - first) * rate_hz)) / rate_hz
        stamps, values = self._stretch(first, end)
        values = to_unit(values, self.unit or "g", "g", what="acceleration")
        keep = np.isfinite(values).all(axis=1)
        if not keep.any():
            return np.zeros((len(times), 3))
        stamps, values = stamps[keep], values[keep]
        if len(stamps) == len(times) and np.abs(stamps - times).max(initial=0.0) < 1e-6:
            return values
        return np.stack([np.interp(times, stamps, values[:, axis]) for axis in range(3)], axis=1)

    def has_data(self, first: int, end: int) -> Mask:
        """Whether each whole second from ``first`` to ``end`` holds at least half of the usual samples."""
        stamps, values = self._stretch(first, end)
        stamps = stamps[np.isfinite(values).all(axis=1) & (stamps >= first) & (stamps < end)]
        n_samples = np.bincount((stamps - first).astype(np.int64), minlength=end - first)
        return np.asarray(n_samples >= self.rate_hz / 2)

    def blocks(self, margin: int = WARM_UP_SECONDS) -> Iterator[tuple[int, int, int, int]]:
        """Yield seconds ``(first, end, from, to)``: a block, and the wider stretch to read for it."""
        for first in range(0, self.seconds, BLOCK_SECONDS):
            end = min(first + BLOCK_SECONDS, self.seconds)
            yield first, end, max(first - margin, 0), min(end + margin, self.seconds)

    def _stretch(self, first: float, end: float) -> tuple[Floats, Floats]:
        """Return times and rows of a stretch, with the neighbours needed to interpolate up to its ends."""
        if isinstance(self.source, Series):
            a, b = np.searchsorted(self.source.times, (first, end))
            a, b = max(int(a) - 1, 0), min(int(b) + 1, len(self.source.times))
            return self.source.times[a:b], self.source.values[a:b]
        n_samples = self.source[0].n_samples
        a = min(max(int(np.floor(first * self.rate_hz + 1e-6)), 0), n_samples - 1)
        b = min(int(np.ceil(end * self.rate_hz - 1e-6)), n_samples)
        values = np.stack([axis.read(a, max(b, a + 1)) for axis in self.source], axis=1)
        return (a + np.arange(len(values))) / self.rate_hz, values


def find_acceleration(recording: Recording) -> Acceleration | None:
    """Return a recording's raw acceleration, or None; implausible acceleration is an error."""
    series = recording.signals.get("acceleration")
    if isinstance(series, Series):
        if series.values.ndim != 2 or series.values.shape[1] != 3:
            raise InputError(
                f"acceleration of recording {recording.id!r} has values of shape {series.values.shape}, "
                "expected three columns: x, y, z."
            )
        if len(series.times) < 2:
            raise InputError(
                f"acceleration of recording {recording.id!r} has one sample, expected many per second."
            )
        rate_hz = 1.0 / max(float(np.median(np.diff(series.times))), 1e-6)
        return _check_values(recording, Acceleration(series, series.unit, rate_hz))
    roles = [f"acceleration_{axis}" for axis in AXES]
    channels = [recording.signals.get(role) for role in roles]
    axes = tuple(channel for channel in channels if isinstance(channel, Signal))
    if not axes and series is None:
        return None
    if len(axes) != 3 or len({(axis.rate_hz, axis.n_samples, axis.unit) for axis in axes}) != 1:
        raise InputError(
            f"acceleration of recording {recording.id!r} is not complete: expected a series of three columns "
            f"'acceleration', or signals {', '.join(roles)} of one rate, length and unit. Map all three."
        )
    return _check_values(recording, Acceleration(axes, axes[0].unit, axes[0].rate_hz))


def actigraph_counts(acceleration: Acceleration) -> tuple[Floats, Mask]:
    """Return ActiGraph counts of each axis in every second (seconds, 3), and which seconds have data.

    This is the published algorithm (Neishabouri et al. 2022), computed in blocks. Counts of a longer epoch
    are the sum over its seconds; seconds without data count zero.
    """
    grid_hz = min(ACTIGRAPH_RATES, key=lambda rate: abs(rate - acceleration.rate_hz))
    counts = np.zeros((acceleration.seconds, 3))
    has_data = np.zeros(acceleration.seconds, dtype=np.bool_)
    for first, end, begin, _ in acceleration.blocks():
        has_data[first:end] = acceleration.has_data(first, end)
        if not has_data[first:end].any():
            continue
        at_30_hz = _to_30_hz(acceleration.read(begin, end, grid_hz), grid_hz)
        counts[first:end] = _counts_of_seconds(at_30_hz)[first - begin :]
    counts[~has_data] = 0.0
    return counts, has_data


def te_lindert_counts(acceleration: Acceleration) -> tuple[Floats, Mask]:
    """Return the counts of te Lindert and Van Someren (2013) in every 15 s, as Walch et al. (2019) used them.

    The third axis at 50 Hz is filtered to 3-11 Hz and digitized in 128 steps up to 5 g. The largest step of
    each second is summed over 15 s; then 18 is subtracted, the result multiplied by 3.07 and raised to at
    least 0. Counts have shape (stretches, 1) and are zero without data. The mask says whether half of the
    seconds of each stretch have data.
    """
    signal = library("scipy.signal", "activity counts from raw acceleration")
    sections = signal.butter(5, TE_LINDERT_BAND_HZ, "bandpass", fs=TE_LINDERT_HZ, output="sos")
    steps = np.zeros(acceleration.seconds)
    has_data = np.zeros(acceleration.seconds, dtype=np.bool_)
    for first, end, begin, stop in acceleration.blocks():
        has_data[first:end] = acceleration.has_data(first, end)
        z = acceleration.read(begin, stop, TE_LINDERT_HZ)[:, 2]
        if len(z) < TE_LINDERT_HZ:
            continue
        filtered = np.abs(signal.sosfiltfilt(sections, z))
        largest = filtered.reshape(-1, TE_LINDERT_HZ).max(axis=1)[first - begin : end - begin]
        steps[first:end] = np.digitize(largest, TE_LINDERT_EDGES_G)
    whole = len(steps) // TE_LINDERT_SECONDS * TE_LINDERT_SECONDS
    summed = steps[:whole].reshape(-1, TE_LINDERT_SECONDS).sum(axis=1)
    known = has_data[:whole].reshape(-1, TE_LINDERT_SECONDS).mean(axis=1) >= LEAST_SHARE
    counts = np.maximum((summed - 18.0) * 3.07, 0.0)
    return np.where(known, counts, 0.0)[:, None], np.asarray(known)


def stillness(acceleration: Acceleration, window_seconds: int) -> tuple[Floats, Mask]:
    """Return the standard deviation of each axis in g in windows that divide 1800 s, and which have data."""
    grid_hz = max(float(round(min(acceleration.rate_hz, 100.0))), 1.0)
    spread, known = [np.zeros((0, 3))], [np.zeros(0, dtype=np.bool_)]
    for first, end, _, _ in acceleration.blocks(margin=0):
        n_windows = (end - first) // window_seconds
        if not n_windows:
            continue
        stop = first + n_windows * window_seconds
        spread.append(acceleration.read(first, stop, grid_hz).reshape(n_windows, -1, 3).std(axis=1))
        seconds = acceleration.has_data(first, stop).reshape(n_windows, window_seconds)
        known.append(seconds.mean(axis=1) >= LEAST_SHARE)
    return np.concatenate(spread), np.concatenate(known)


def _to_30_hz(values: Floats, rate_hz: int) -> Floats:
    """Return acceleration at 30 Hz by ActiGraph's resampling: insert zeros, smooth, decimate."""
    up, down = Fraction(30, rate_hz).as_integer_ratio()
    if up == 1:
        return values[::down]
    signal = library("scipy.signal", "activity counts from raw acceleration")
    filled = np.zeros((up * len(values), 3))
    filled[::up] = values
    gain = np.pi / (np.pi + 2 * up) * up
    pole = (np.pi - 2 * up) / (np.pi + 2 * up)
    smooth = signal.lfilter([gain, gain], [1.0, pole], filled, axis=0)
    return np.asarray(smooth[::down], dtype=np.float64)


def _counts_of_seconds(at_30_hz: Floats) -> Floats:
    """Return the counts of each axis in every whole second of acceleration at 30 Hz, shape (seconds, 3)."""
    signal = library("scipy.signal", "activity counts from raw acceleration")
    rounded = np.round(at_30_hz, 3)
    settled = signal.lfilter_zi(ACTIGRAPH_INPUT, ACTIGRAPH_OUTPUT)[:, None] * rounded[0]
    filtered, _ = signal.lfilter(ACTIGRAPH_INPUT, ACTIGRAPH_OUTPUT, rounded, axis=0, zi=settled)
    sizes = np.abs(ACTIGRAPH_GAIN * filtered)
    sizes[sizes < ACTIGRAPH_DEAD_BAND] = 0.0
    steps = np.floor(np.minimum(sizes, ACTIGRAPH_CEILING))
    seconds = len(steps) // 30
    tenths = np.floor(steps[: 30 * seconds].reshape(seconds, 10, 3, -1).sum(axis=2) / 3)
    return np.asarray(tenths.sum(axis=1), dtype=np.float64)


def _check_values(recording: Recording, acceleration: Acceleration) -> Acceleration:
    """Refuse acceleration that is sampled too slowly, or whose unit is wrong."""
    if acceleration.rate_hz < 0.99 * LEAST_RATE_HZ:  # 0.99 because time stamps are rounded
        raise InputError(
            f"acceleration of recording {recording.id!r} has {acceleration.rate_hz:.3g} samples per second, "
            f"expected at least {LEAST_RATE_HZ:g}. Map activity counts as 'counts' instead."
        )
    stop = min(acceleration.seconds, BLOCK_SECONDS)
    size = float(np.median(np.linalg.norm(acceleration.read(0, max(stop, 1), LEAST_RATE_HZ), axis=1)))
    if size > MOST_G:
        raise InputError(
            f"acceleration of recording {recording.id!r} is {size:.3g} g in the median, expected about 1 "
            f"(gravity). Its unit is given as {acceleration.unit or 'g'!r}; correct it, perhaps to 'm/s2'."
        )
    return acceleration


@dataclass(frozen=True, slots=True)
class ActivityCounts:
    """Activity counts in contiguous bins."""

    edges: Floats  # (n_bins + 1,) seconds since the recording's start, increasing
    counts: Floats  # (n_bins, n_axes), 0 where there is no data
    has_data: Mask  # (n_bins,) whether the sensor recorded anything

    def between(self, first: npt.ArrayLike, end: npt.ArrayLike) -> Floats:
        """Return the counts between ``first`` and ``end``, arrays of the same shape in seconds.

        Counts are spread evenly over their bin. A stretch with data in part of it is scaled to its whole
        length; with data in less than half of it, it is NaN. Three axes give the length of their vector.
        """
        begin, stop = np.asarray(first, dtype=np.float64), np.asarray(end, dtype=np.float64)
        seconds = self._covered_bins(stop) - self._covered_bins(begin)
        squares = np.zeros(begin.shape)
        for axis in range(self.counts.shape[1]):
            total = cumulative(self.counts[:, axis])
            inside = np.interp(stop, self.edges, total) - np.interp(begin, self.edges, total)
            squares += np.maximum(inside, 0.0) ** 2
        length = stop - begin
        known = seconds >= np.maximum(LEAST_SHARE * length, 1e-9) - 1e-9
        scale = np.divide(length, seconds, out=np.full(begin.shape, np.nan), where=known)
        return np.asarray(np.sqrt(squares) * scale)

    def per_epoch(self, epochs: EpochGrid) -> Floats:
        """Return the counts of each epoch, NaN where they are not known."""
        return self.between(epochs.edges[:-1], epochs.edges[1:])

    def _covered_bins(self, at: Floats) -> Floats:
        """Return the number of seconds with data before each of some times."""
        seconds = cumulative(np.where(self.has_data, np.diff(self.edges), 0.0))
        return np.asarray(np.interp(at, self.edges, seconds))


def find_counts(recording: Recording, method: str = "actigraph", axis: str = "vector") -> ActivityCounts:
    """Return a recording's activity counts: its channel 'counts', else computed from its acceleration."""
    if "counts" in recording.signals:
        return _device_counts(recording, recording.signals["counts"])
    acceleration = find_acceleration(recording)
    if acceleration is None:
        recording.channel("counts")  # raises: the error lists the channels and how to map them
        raise AssertionError("unreachable")
    if method == "te-lindert":
        counts, has_data = te_lindert_counts(acceleration)
        edges = np.arange(len(counts) + 1, dtype=np.float64) * TE_LINDERT_SECONDS
    else:
        counts, has_data = actigraph_counts(acceleration)
        edges = np.arange(len(counts) + 1, dtype=np.float64)
        if axis != "vector":
            counts = counts[:, [AXES.index(axis)]]
    if not has_data.any():
        raise InputError(
            f"acceleration of recording {recording.id!r} has no second with samples after the recording's "
            "start. Check its times: they are seconds since the start."
        )
    return ActivityCounts(edges, counts, has_data)


def _device_counts(recording: Recording, channel: Signal | Series) -> ActivityCounts:
    """Return the counts that a device recorded; negative counts are its code for no data."""
    if channel.unit and known_unit(channel.unit) != "counts":
        raise InputError(
            f"channel 'counts' of recording {recording.id!r} is in {channel.unit!r}, expected counts. Map "
            "raw acceleration as 'acceleration'."
        )
    if isinstance(channel, Signal):
        values = channel.read()
        edges = np.arange(len(values) + 1) / channel.rate_hz
    else:
        edges, values = _bin_counts(recording, channel)
    has_data = np.isfinite(values) & (values >= 0)
    if not has_data.any():
        raise InputError(f"channel 'counts' of recording {recording.id!r} has no number that is 0 or above.")
    return ActivityCounts(edges, np.where(has_data, values, 0.0)[:, None], has_data)


def _bin_counts(recording: Recording, series: Series) -> tuple[Floats, Floats]:
    """Return edges and counts of a series; each value belongs to the time after its stamp.

    A bin ends at the next stamp. If that comes more than half a step late, the bin lasts one usual step and a
    bin without data follows.
    """
    values = series.values[:, 0] if series.values.ndim == 2 else series.values
    if len(values) < 2 or series.times[0] == series.times[-1]:
        raise InputError(
            f"channel 'counts' of recording {recording.id!r} has {len(values)} values at one time, expected "
            "two or more at different times."
        )
    begin = series.times
    step = float(np.median(np.diff(begin)[np.diff(begin) > 0]))
    following = np.append(begin[1:], begin[-1] + step)
    end = np.where(following - begin > 1.5 * step, begin + step, following)
    is_gap = np.append(end[:-1] < begin[1:], False)
    # each gap becomes a bin, from the end of a value to the next stamp
    edges = np.append(np.sort(np.concatenate([begin, end[is_gap]])), end[-1])
    filled = np.full(len(edges) - 1, np.nan)
    filled[np.arange(len(begin)) + np.append(0, np.cumsum(is_gap[:-1]))] = values
    return edges, filled
