"""Shared steps of feature extraction: windows on signals, resampling, power spectra, runs, time features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import Floats, Floats32, Ints, Mask
from stageguard.errors import InputError
from stageguard.lazy import library
from stageguard.night.recording import EpochGrid, Recording, Series, Signal
from stageguard.units import quantity_of, to_unit

Columns = dict[str, Floats]  # features by name, each (n_epochs,)
Extracted = tuple[Floats32, tuple[str, ...]]  # features (n_epochs, n_frames, n_features) and their names
Taper = Literal["multitaper", "hann"]
Use = Literal["if present", "always", "never"]  # of a channel

BLOCK_SAMPLES = 2**20  # samples processed at a time: 8 MB
BLOCK_WINDOWS = 256  # windows processed at a time, which keeps their samples in few megabytes
MAD_TO_SD = 1.4826  # standard deviations in a median absolute deviation of a normal distribution
LEAST_SHARE = 0.5  # of an epoch or a window that must have been recorded, so that something is measured in it
LOW_POINT_HOURS = 5.0  # when the body's drive to be awake is lowest: the cosines' minimum


def ordered(value: tuple[float, float], where: str) -> tuple[float, float]:
    """Return two frequencies of a recipe, the lower first."""
    if not 0 <= value[0] < value[1]:
        raise InputError(f"{where} is {checks.shown(list(value))}, expected [lower, upper] in Hz.")
    return value


Band = Annotated[tuple[float, float], ordered]  # Hz


def window_starts(
    signal: Signal, epochs: EpochGrid, per_epoch: int, seconds: float | None = None
) -> tuple[Ints, int]:
    """Return first samples (n_epochs, per_epoch) and length of parts of epochs, or of windows around them."""
    step, rate = epochs.epoch_seconds / per_epoch, signal.rate_hz
    parts = np.arange(epochs.n_epochs * per_epoch)
    if seconds is None:
        n_samples = max(1, int(step * rate + 1e-6))
        starts = np.rint(parts * step * rate).astype(np.int64)
    else:
        n_samples = max(2, round(seconds * rate))
        starts = np.rint((parts + 0.5) * step * rate - n_samples / 2).astype(np.int64)
        last = round(epochs.n_epochs * epochs.epoch_seconds * rate) - n_samples
        starts = np.clip(starts, 0, max(0, last))
    return starts.reshape(epochs.n_epochs, per_epoch), n_samples


def read_windows(
    signal: Signal, starts: Ints, n_samples: int, unit: str | None = None
) -> Iterator[tuple[slice, Floats]]:
    """Yield slices of epochs and the samples of their windows (n_epochs, per_epoch, n_samples)."""
    step = max(1, BLOCK_SAMPLES // (starts.shape[1] * n_samples))
    for first in range(0, len(starts), step):
        some = starts[first : first + step]
        begin, end = int(some.min()), int(some.max()) + n_samples
        samples = read_samples(signal, begin, end, unit)
        views = np.lib.stride_tricks.sliding_window_view(samples, n_samples)
        yield slice(first, first + len(some)), views[(some - begin).ravel()].reshape(*some.shape, n_samples)


def read_samples(signal: Signal, first: int, end: int, unit: str | None = None) -> Floats:
    """Return samples in ``unit``; those that are infinite, or before or after the signal, are NaN."""
    begin = min(max(first, 0), signal.n_samples)
    known = signal.read(begin, min(max(end, begin), signal.n_samples))
    if unit is not None and signal.unit:
        known = to_unit(known, signal.unit, unit, what=f"channel {signal.name!r}")
    samples = np.full(end - first, np.nan)
    samples[begin - first : begin - first + len(known)] = np.where(np.isfinite(known), known, np.nan)
    return samples


def steady_signal(
    recording: Recording, role: str, *, quantity: str = "", least_rate_hz: float = 0.0
) -> Signal:
    """Return the channel of a role, which must have a steady rate; a unit must be one of the quantity."""
    channel = recording.channel(role)
    if not isinstance(channel, Signal):
        problem = "has uneven times, expected a steady rate"
    elif quantity and channel.unit and quantity_of(channel.unit) != quantity:
        problem = f"is in {channel.unit!r}, expected a unit of {quantity}"
    elif channel.rate_hz < least_rate_hz:
        problem = f"has {channel.rate_hz:g} samples per second, expected at least {least_rate_hz:g}"
    else:
        return channel
    where = f"channel {role!r} ({channel.name}) of recording {recording.id!r}"
    raise InputError(f"{where} {problem}. Map another one with --channel {role}=NAME.")


def is_wanted(use: Use, is_there: bool) -> bool:
    """Whether to measure something that was recorded or not."""
    return use == "always" or (use == "if present" and is_there)


def timed_values(recording: Recording, role: str, unit: str) -> tuple[Floats, Floats]:
    """Return times in seconds and the values of a channel's first column, converted if it has a unit."""
    channel = recording.channel(role)
    if isinstance(channel, Series):
        times, values = channel.times, channel.values.reshape(len(channel.times), -1)[:, 0]
    else:
        times, values = np.arange(channel.n_samples) / channel.rate_hz, channel.read()
    return times, to_unit(values, channel.unit or unit, unit, what=f"channel {role!r}")


def decimate(signal: Signal, rate_hz: float) -> tuple[Floats, float]:
    """Return a signal at its rate divided by a whole number, at least ``rate_hz``, and that rate."""
    samples = read_samples(signal, 0, signal.n_samples)
    factor = max(1, int(signal.rate_hz / rate_hz + 1e-9))
    if factor == 1:
        return samples, signal.rate_hz
    filters = library("scipy.signal", "a lower sampling rate")
    taps = filters.firwin(20 * factor + 1, 0.8 / factor)  # ends at 0.8 of the new Nyquist frequency

    def weigh(values: Floats) -> Floats:
        return np.asarray(filters.upfirdn(taps, values, down=factor)[10 : 10 - (-len(values) // factor)])

    present = np.isfinite(samples)
    weights = weigh(present.astype(np.float64))
    made = weigh(np.where(present, samples, 0.0)) / np.where(weights > 0.5, weights, np.nan)
    return made, signal.rate_hz / factor


def window_edges(epochs: EpochGrid, seconds: float) -> tuple[Floats, Floats]:
    """Return start and end of a window around each epoch's middle, moved inside at the recording's ends."""
    edges = epochs.edges
    length = min(max(seconds, epochs.epoch_seconds), float(edges[-1]))
    first = np.clip((edges[:-1] + edges[1:]) / 2 - length / 2, 0.0, edges[-1] - length)
    return first, first + length


def covered_seconds(edges: Floats, starts: Floats, ends: Floats, weight: Floats | float = 1.0) -> Floats:
    """Return the seconds of each epoch in stretches of time, which may overlap if they weigh the same."""
    if not len(starts):
        return np.zeros(len(edges) - 1)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    starts = np.maximum(starts, np.append(-np.inf, ends[:-1]))  # overlaps count once
    ends = np.maximum(starts, ends)
    points = np.stack([starts, ends], axis=1).ravel()
    inside = cumulative((ends - starts) * weight)
    return np.diff(np.interp(edges, points, np.stack([inside[:-1], inside[1:]], axis=1).ravel()))


def covered_share(edges: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return the share of each epoch in stretches of time, which may overlap."""
    return np.clip(covered_seconds(edges, starts, ends) / np.diff(edges), 0.0, 1.0)


def runs(flags: Mask) -> tuple[Ints, Ints]:
    """Return first and end (exclusive) of each run of True."""
    steps = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)


def long_runs(flags: Mask, least: float) -> Mask:
    """Return the flags that are in a run of at least ``least``."""
    kept = np.zeros(len(flags), dtype=np.bool_)
    for a, b in zip(*runs(flags), strict=True):
        kept[a:b] = b - a >= least
    return kept


def flat_samples(same: Mask, least: float) -> Mask:
    """Return which samples are in a stretch of ``least`` equal ones or more; ``same`` compares neighbours."""
    kept = long_runs(same, least - 1)
    return np.asarray(np.append(kept, False) | np.append(False, kept))


def cumulative(values: npt.NDArray[np.generic]) -> Floats:
    """Return the sums of the first 0, 1, ... values: the sum of a slice is a difference of two of them."""
    return np.append(0.0, np.cumsum(values, dtype=np.float64))


def blocks_of_windows(starts: Ints, n_samples: int) -> Iterator[tuple[slice, Ints]]:
    """Yield slices of windows, and the samples (n_windows, n_samples) of these windows."""
    for first in range(0, len(starts), BLOCK_WINDOWS):
        samples = starts[first : first + BLOCK_WINDOWS, None] + np.arange(n_samples)
        yield slice(first, first + len(samples)), samples


def vertex(left: Floats, centre: Floats, right: Floats, where: Mask | bool = True) -> Floats:
    """Return the offset of a parabola's maximum from the middle of three even samples; 0 without one."""
    bend = left - 2 * centre + right
    return np.divide(0.5 * (left - right), bend, out=np.zeros(bend.shape), where=(bend < 0) & where)


def assemble(columns: Mapping[str, Floats], known: Mask, recording: Recording) -> Extracted:
    """Return features (n_epochs, 1, n_features) and names: NaN where not known, else interpolated."""
    rows = np.flatnonzero(known)
    if not len(rows):
        raise InputError(f"recording {recording.id!r} has no epoch with a usable signal. Check its channels.")
    values = np.full((len(known), 1, len(columns)), np.nan, dtype=np.float32)
    for index, (name, column) in enumerate(columns.items()):
        there = np.flatnonzero(np.isfinite(column))
        if not len(there):
            raise InputError(f"recording {recording.id!r}: no epoch has feature {name!r}. Check its channel.")
        values[rows, 0, index] = np.interp(rows, there, column[there])
    return values, tuple(columns)


def tapers(kind: Taper, n_samples: int, time_bandwidth: float = 2.0, n_tapers: int = 3) -> Floats32:
    """Return tapers (n_tapers, n_samples), each of energy 1: one Hann window, or Slepian sequences."""
    if kind == "hann":
        made = np.hanning(n_samples + 1)[None, :-1]  # periodic
    else:
        windows = library("scipy.signal.windows", "a multitaper spectrogram")
        made = np.asarray(windows.dpss(n_samples, time_bandwidth, n_tapers))
    return np.asarray(made / np.sqrt((made**2).sum(axis=1, keepdims=True)), dtype=np.float32)


def power_spectra(
    windows: Floats, rate_hz: float, using: Floats32, end: int | None = None
) -> tuple[Floats32, Floats]:
    """Return power densities (..., n_frequencies) of windows minus their mean, and each one's missing share.

    Noise keeps its level where samples are missing. A window of equal samples is missing as a whole.
    """
    n_samples, present = windows.shape[-1], np.isfinite(windows)
    n_present = present.sum(axis=-1)
    mean = np.where(present, windows, 0.0).sum(axis=-1) / np.maximum(n_present, 1)
    centred = np.where(present, windows - mean[..., None], 0.0).astype(np.float32)
    low, high = np.fmin.reduce(windows, axis=-1), np.fmax.reduce(windows, axis=-1)
    is_flat = (low == high) | np.isnan(low)
    centred[is_flat] = 0.0
    lost = np.where(is_flat, 1.0, 1.0 - n_present / n_samples)
    n_frequencies = n_samples // 2 + 1
    end = n_frequencies if end is None else min(end, n_frequencies)
    power = np.zeros((*windows.shape[:-1], end), dtype=np.float32)
    for taper in using:
        spectrum = np.fft.rfft(centred * taper)[..., :end]
        power += spectrum.real**2 + spectrum.imag**2
    power *= np.float32(2.0 / (rate_hz * len(using)))
    power[..., 0] /= 2
    if end == n_frequencies and n_samples % 2 == 0:
        power[..., -1] /= 2
    partial = (lost > 0) & (lost < 1)
    power[partial] /= (present[partial] @ (using**2).mean(axis=0))[:, None]
    return power, lost


def bin_matrix(lines: Floats, edges: Sequence[tuple[float, float]], what: str) -> Floats32:
    """Return the matrix (n_lines, n_bins) that averages lines into bins, without their upper edges."""
    spacing = lines[1]
    matrix = np.zeros((len(lines), len(edges)), dtype=np.float32)
    for column, (low, high) in enumerate(edges):
        if high > lines[-1] + spacing:
            rate = 2 * lines[-1]
            raise InputError(f"{what} is sampled at {rate:g} Hz, too slowly for {low:g} to {high:g} Hz.")
        inside = (lines >= low - 1e-6 * spacing) & (lines < high - 1e-6 * spacing) & (lines > 0)
        if not inside.any():
            resolved = f"a window of {1 / spacing:g} s tells {spacing:g} Hz apart"
            raise InputError(f"no spectral line of {what} falls into {low:g} to {high:g} Hz: {resolved}.")
        matrix[inside, column] = 1.0 / inside.sum()
    return matrix


@dataclass(frozen=True, slots=True)
class Clock:
    """Which features of time to add."""

    elapsed: bool = True  # hours since the start, and their cosine as in Walch et al. (2019)
    time_of_day: Use = "if present"  # its cosine and sine, if the recording's start is known


def clock_features(epochs: EpochGrid, options: Clock, recording: str) -> Columns:
    """Return features of time at the start of the epochs, by name."""
    hours = epochs.edges[:-1] / 3600.0
    per_hour = 2 * np.pi / 24.0
    columns: Columns = {}
    if options.elapsed:
        columns["hours"] = hours
        columns["elapsed_cosine"] = -np.cos((hours - LOW_POINT_HOURS) * per_hour)
    start = epochs.start
    if options.time_of_day == "always" and start is None:
        raise InputError(f"recording {recording!r} does not say when it began, which clock features need.")
    if options.time_of_day != "never" and start is not None:
        hour_of_day = start.hour + start.minute / 60 + (start.second + start.microsecond / 1e6) / 3600
        angle = (hour_of_day + hours - LOW_POINT_HOURS) * per_hour
        columns["clock_cosine"], columns["clock_sine"] = -np.cos(angle), -np.sin(angle)
    return columns
