"""Raw acceleration, second by second, in blocks: activity counts, and how still it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats, Mask
from stageguard.base.errors import InputError
from stageguard.base.extras import library
from stageguard.base.units import to_unit
from stageguard.night.recording import Recording, Series, Signal

AXES = ("x", "y", "z")
BLOCK_SECONDS = 1800
WARM_UP_SECONDS = 60  # the slowest pole of the ActiGraph filter falls below 1e-9 in 19 s
LEAST_RATE_HZ = 10.0  # counts need the movements below 3 Hz
MOST_G = 3.0  # a wrist at rest feels 1 g; a larger median is another unit

# Rates that the ActiGraph procedure brings to 30 Hz, with the factors up and down.
ACTIGRAPH_RATES = {
    30: (1, 1),
    40: (3, 4),
    50: (3, 5),
    60: (1, 2),
    70: (3, 7),
    80: (3, 8),
    90: (1, 3),
    100: (3, 10),
}

TE_LINDERT_HZ = 50
TE_LINDERT_BAND_HZ = (3.0, 11.0)
TE_LINDERT_SECONDS = 15
TE_LINDERT_EDGES_G = np.linspace(0.0, 5.0, 129)


@dataclass(frozen=True, slots=True)
class Acceleration:
    """Three axes of acceleration that can be read on any even grid, a stretch at a time.

    Parameters
    ----------
    source : Series or tuple of Signal
        Time stamped rows (n, 3), or one signal per axis.
    unit : str
        Their unit; "" stands for g.
    rate_hz : float
        Usual number of samples per second.
    """

    source: Series | tuple[Signal, ...]
    unit: str
    rate_hz: float

    @property
    def seconds(self) -> int:
        """Whole seconds from the recording's start to the last sample."""
        last = self.source.seconds if isinstance(self.source, Series) else self.source[0].seconds
        return max(int(np.ceil(last)), 0)

    def read(self, first: float, end: float, rate_hz: float) -> Floats:
        """Return acceleration in g at even times from ``first`` to ``end`` (exclusive), shape (n, 3).

        Between samples and over gaps it is interpolated linearly; beyond the first and the last it stays.
        """
        times = first + np.arange(round((end - first) * rate_hz)) / rate_hz
        if isinstance(self.source, Series):
            stamps, values = _rows(self.source, first, end)
        else:
            stamps, values = _samples(self.source, first, end)
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
        if isinstance(self.source, Series):
            stamps, values = _rows(self.source, first, end)
        else:
            stamps, values = _samples(self.source, first, end)
        stamps = stamps[np.isfinite(values).all(axis=1) & (stamps >= first) & (stamps < end)]
        n_samples = np.bincount((stamps - first).astype(np.int64), minlength=end - first)
        return np.asarray(n_samples >= self.rate_hz / 2)

    def blocks(self, margin: int = WARM_UP_SECONDS) -> Iterator[tuple[int, int, int, int]]:
        """Yield seconds ``(first, end, from, to)``: a block, and what to read around it."""
        for first in range(0, self.seconds, BLOCK_SECONDS):
            end = min(first + BLOCK_SECONDS, self.seconds)
            yield first, end, max(first - margin, 0), min(end + margin, self.seconds)


def find_acceleration(recording: Recording) -> Acceleration | None:
    """Return a recording's raw acceleration, or None; what cannot be acceleration in g is an error."""
    signals = recording.signals
    if "acceleration" in signals:
        series = signals["acceleration"]
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
            return _checked(recording, Acceleration(series, series.unit, rate_hz))
    roles = [f"acceleration_{axis}" for axis in AXES]
    axes = tuple(signals[role] for role in roles if isinstance(signals.get(role), Signal))
    if not axes and "acceleration" not in signals:
        return None
    three = tuple(axis for axis in axes if isinstance(axis, Signal))
    if len(three) != 3 or len({(axis.rate_hz, axis.n_samples, axis.unit) for axis in three}) != 1:
        raise InputError(
            f"acceleration of recording {recording.id!r} is not complete: expected a series of three columns "
            f"'acceleration', or signals {', '.join(roles)} of one rate, length and unit. Map all three."
        )
    return _checked(recording, Acceleration(three, three[0].unit, three[0].rate_hz))


def actigraph_counts(acceleration: Acceleration) -> tuple[Floats, Mask]:
    """Return ActiGraph counts of each axis in every second, and which seconds have data.

    The published algorithm (Neishabouri et al. 2022) as `agcounts` has it, in blocks. Counts of a longer
    epoch are the sum of its seconds.

    Returns
    -------
    counts : array (seconds, 3)
        Zero where there is no data.
    has_data : array (seconds,)
        Whether the sensor gave samples.
    """
    agcounts = library("agcounts.extract", "activity counts from raw acceleration")
    grid_hz = min(ACTIGRAPH_RATES, key=lambda rate: abs(rate - acceleration.rate_hz))
    counts = np.zeros((acceleration.seconds, 3))
    has_data = np.zeros(acceleration.seconds, dtype=np.bool_)
    for first, end, begin, _ in acceleration.blocks():
        has_data[first:end] = acceleration.has_data(first, end)
        if not has_data[first:end].any():
            continue
        at_30_hz = _to_30_hz(acceleration.read(begin, end, grid_hz), grid_hz)
        counts[first:end] = agcounts.get_counts(at_30_hz, 30, 1)[first - begin :]
    counts[~has_data] = 0.0
    return counts, has_data


def te_lindert_counts(acceleration: Acceleration) -> tuple[Floats, Mask]:
    """Return the counts of te Lindert and Van Someren (2013) in every 15 s, as Walch et al. (2019) used them.

    The third axis at 50 Hz, filtered to 3-11 Hz, in 128 steps up to 5 g; the largest step of each second
    summed over 15 s, less 18, times 3.07, at least 0.

    Returns
    -------
    counts : array (stretches of 15 s, 1)
        Zero where there is no data.
    has_data : array (stretches of 15 s,)
        Whether the sensor gave samples in at least half of the seconds.
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
    known = has_data[:whole].reshape(-1, TE_LINDERT_SECONDS).mean(axis=1) >= 0.5
    counts = np.maximum((summed - 18.0) * 3.07, 0.0)
    return np.where(known, counts, 0.0)[:, None], np.asarray(known)


def stillness(acceleration: Acceleration, window_seconds: int) -> tuple[Floats, Floats, Mask]:
    """Return how much each axis moves in successive windows.

    Parameters
    ----------
    acceleration : Acceleration
        Of a whole recording.
    window_seconds : int
        Length of a window; a divisor of the block's 1800 s.

    Returns
    -------
    spread : array (windows, 3)
        Standard deviation of each axis in g.
    level : array (windows, 3)
        Mean of each axis in g: the posture.
    has_data : array (windows,)
        Whether the sensor gave samples in at least half of the seconds.
    """
    grid_hz = min(acceleration.rate_hz, 100.0)
    grid_hz = max(float(round(grid_hz)), 1.0)
    spread, level, known = [], [], []
    for first, end, _, _ in acceleration.blocks(margin=0):
        whole = (end - first) // window_seconds
        if not whole:
            continue
        stop = first + whole * window_seconds
        axes = acceleration.read(first, stop, grid_hz).reshape(whole, -1, 3)
        spread.append(axes.std(axis=1))
        level.append(axes.mean(axis=1))
        seconds = acceleration.has_data(first, stop).reshape(whole, window_seconds)
        known.append(seconds.mean(axis=1) >= 0.5)
    if not spread:
        return np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0, dtype=np.bool_)
    return np.concatenate(spread), np.concatenate(level), np.concatenate(known)


def _rows(series: Series, first: float, end: float) -> tuple[Floats, Floats]:
    """Return times and rows of a stretch, with the neighbours needed to interpolate up to its ends."""
    a, b = np.searchsorted(series.times, (first, end))
    a, b = max(int(a) - 1, 0), min(int(b) + 1, len(series.times))
    return series.times[a:b], series.values[a:b]


def _samples(axes: tuple[Signal, ...], first: float, end: float) -> tuple[Floats, Floats]:
    """Return times and rows of a stretch of three signals, with a neighbour at the end."""
    rate_hz, n_samples = axes[0].rate_hz, axes[0].n_samples
    a = min(max(int(np.floor(first * rate_hz + 1e-6)), 0), n_samples - 1)
    b = min(int(np.ceil(end * rate_hz - 1e-6)), n_samples)
    values = np.stack([axis.read(a, max(b, a + 1)) for axis in axes], axis=1)
    return (a + np.arange(len(values))) / rate_hz, values


def _to_30_hz(values: Floats, rate_hz: int) -> Floats:
    """Return acceleration at 30 Hz by ActiGraph's own resampling: fill with zeros, smooth by one pole, pick.

    The recurrence is the one in `agcounts`; scipy runs it some hundred times faster.
    """
    up, down = ACTIGRAPH_RATES[rate_hz]
    if up == down:
        return values
    if up == 1:
        return values[::down]
    signal = library("scipy.signal", "activity counts from raw acceleration")
    filled = np.zeros((up * len(values), 3))
    filled[::up] = values
    gain = np.pi / (np.pi + 2 * up) * up
    pole = (np.pi - 2 * up) / (np.pi + 2 * up)
    smooth = signal.lfilter([gain, gain], [1.0, pole], filled, axis=0)
    return np.asarray(smooth[::down], dtype=np.float64)


def _checked(recording: Recording, acceleration: Acceleration) -> Acceleration:
    """Refuse acceleration that is too slow, or not in the unit it is said to be in."""
    if acceleration.rate_hz < 0.99 * LEAST_RATE_HZ:  # stamps are rounded
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
