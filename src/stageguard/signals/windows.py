"""Shared steps of feature extraction: reading windows, resampling, power spectra, runs, clock features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from stageguard import schema
from stageguard.arrays import Floats, Floats32, Ints, Mask
from stageguard.errors import InputError
from stageguard.extras import library
from stageguard.night.recording import EpochGrid, Recording, Series, Signal
from stageguard.units import quantity_of, to_unit

Columns = dict[str, Floats]  # features by name, each (n_epochs,)
Extracted = tuple[Floats32, tuple[str, ...]]  # features (n_epochs, n_frames, n_features) and their names

BLOCK_SAMPLES = 2**20  # samples processed at a time: 8 MB
BLOCK_WINDOWS = 256  # windows processed at a time, which keeps their samples in few megabytes
MAD_TO_SD = 1.4826  # standard deviations in a median absolute deviation of a normal distribution
IF_PRESENT = ("if present", "always", "never")
LEAST_SHARE = 0.5  # of an epoch or a window that must have been recorded, so that something is measured in it


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of one length on a signal, `per_epoch` of them in each epoch, in order of time."""

    starts: Ints  # (n_epochs, per_epoch) first samples; windows beyond the recording's ends are moved inside
    n_samples: int  # of each window

    @classmethod
    def centred(cls, signal: Signal, epochs: EpochGrid, per_epoch: int, seconds: float) -> Windows:
        """Return windows around the middles of equal parts of each epoch; longer ones overlap."""
        n_samples = max(2, round(seconds * signal.rate_hz))
        step = epochs.epoch_seconds / per_epoch
        middles = (np.arange(epochs.n_epochs * per_epoch) + 0.5) * step
        starts = np.rint(middles * signal.rate_hz - n_samples / 2).astype(np.int64)
        last = round(epochs.n_epochs * epochs.epoch_seconds * signal.rate_hz) - n_samples
        starts = np.clip(starts, 0, max(0, last))
        return cls(starts.reshape(epochs.n_epochs, per_epoch), n_samples)

    @classmethod
    def parts(cls, signal: Signal, epochs: EpochGrid, per_epoch: int) -> Windows:
        """Return equal parts of each epoch, side by side."""
        step = epochs.epoch_seconds / per_epoch
        begins = np.arange(epochs.n_epochs * per_epoch) * step
        starts = np.rint(begins * signal.rate_hz).astype(np.int64)
        n_samples = max(1, int(step * signal.rate_hz + 1e-6))
        return cls(starts.reshape(epochs.n_epochs, per_epoch), n_samples)

    def read(self, signal: Signal, unit: str | None = None) -> Iterator[tuple[slice, Floats]]:
        """Yield slices of epochs, and a copy of their windows' samples (n_epochs, per_epoch, n_samples).

        Infinite samples, and samples beyond the signal's end, become NaN. A signal without a unit is not
        converted.
        """
        n_epochs, per_epoch = self.starts.shape
        step = max(1, BLOCK_SAMPLES // (per_epoch * self.n_samples))
        for first in range(0, n_epochs, step):
            chosen = slice(first, min(first + step, n_epochs))
            starts = self.starts[chosen]
            begin, end = int(starts.min()), int(starts.max()) + self.n_samples
            samples = read_samples(signal, begin, end, unit)
            views = np.lib.stride_tricks.sliding_window_view(samples, self.n_samples)
            yield chosen, views[(starts - begin).ravel()].reshape(*starts.shape, self.n_samples)


def read_samples(signal: Signal, first: int, end: int, unit: str | None = None) -> Floats:
    """Return samples ``first`` to ``end``, NaN where missing; converted to ``unit`` if the signal has one."""
    known = signal.read(min(first, signal.n_samples), min(end, signal.n_samples))
    if unit is not None and signal.unit:
        known = to_unit(known, signal.unit, unit, what=f"channel {signal.name!r}")
    samples = np.full(end - first, np.nan)
    samples[: len(known)] = known
    if not np.isfinite(known).all():
        samples[~np.isfinite(samples)] = np.nan
    return samples


def interpolated(samples: Floats) -> Floats:
    """Return samples with missing ones interpolated linearly, or 0 if all are missing."""
    present = np.isfinite(samples)
    if present.all() or not present.any():
        return np.asarray(np.where(present, samples, 0.0))
    places = np.arange(len(samples))
    return np.asarray(np.interp(places, places[present], samples[present]))


def steady_signal(
    recording: Recording, role: str, *, quantity: str = "", least_rate_hz: float = 0.0
) -> Signal:
    """Return the channel of a role, which must be sampled at a steady rate.

    A channel that has a unit must measure `quantity` ("voltage"), if that is given.
    """
    channel = recording.channel(role)
    if not isinstance(channel, Signal):
        problem = "has uneven times, expected a steady rate"
    elif quantity and channel.unit and quantity_of(channel.unit) != quantity:
        problem = f"is in {channel.unit!r}, expected a unit of {quantity}"
    elif channel.rate_hz < least_rate_hz:
        problem = f"has {channel.rate_hz:g} samples per second, expected at least {least_rate_hz:g}"
    else:
        return channel
    raise InputError(
        f"channel {role!r} ({channel.name}) of recording {recording.id!r} {problem}. Correct it, or map "
        f"another one with --channel {role}=NAME."
    )


def is_wanted(use: str, is_there: bool) -> bool:
    """Whether to measure something whose option is one of `IF_PRESENT`."""
    return use == "always" or (use == "if present" and is_there)


def timed_values(channel: Signal | Series, unit: str, what: str) -> tuple[Floats, Floats]:
    """Return times in seconds and values of a channel's first column, in ``unit``.

    The values of a channel without a unit are returned unchanged.
    """
    if isinstance(channel, Series):
        times, values = channel.times, channel.values.reshape(len(channel.times), -1)[:, 0]
    else:
        values = channel.read()
        times = np.arange(len(values)) / channel.rate_hz
    return times, to_unit(values, channel.unit or unit, unit, what=what)


def decimate(signal: Signal, rate_hz: float, unit: str | None = None) -> tuple[Floats, float]:
    """Return a signal at a lower rate, read piece by piece, and the new rate.

    The new rate is the signal's rate divided by a whole number, and at least ``rate_hz``. A windowed-sinc
    low-pass at 0.8 of the new Nyquist frequency comes first. Missing samples are left out; where their weight
    is more than half, the result is NaN.
    """
    factor = max(1, int(signal.rate_hz / rate_hz + 1e-9))
    if factor == 1:
        return read_samples(signal, 0, signal.n_samples, unit), signal.rate_hz
    taps = low_pass_taps(0.4 / factor, 20 * factor + 1)
    reach = len(taps) // 2
    n_out = -(-signal.n_samples // factor)
    step = max(1, BLOCK_SAMPLES // len(taps))
    made = np.empty(n_out)
    for first in range(0, n_out, step):
        end = min(first + step, n_out)
        begin, stop = first * factor - reach, (end - 1) * factor + reach + 1
        samples = np.full(stop - begin, np.nan)
        samples[max(0, -begin) :] = read_samples(signal, max(0, begin), stop, unit)
        made[first:end] = _weight_windows(samples, taps, factor)
    return made, signal.rate_hz / factor


def low_pass_taps(cutoff: float, n_taps: int) -> Floats:
    """Return the taps of a Hamming-windowed sinc, an odd number with sum 1; cutoff in cycles per sample."""
    n_taps |= 1
    offsets = np.arange(n_taps) - n_taps // 2
    taps = np.sinc(2 * cutoff * offsets) * np.hamming(n_taps)
    return np.asarray(taps / taps.sum())


def _weight_windows(samples: Floats, taps: Floats, factor: int) -> Floats:
    """Return every factor-th weighted mean of the present samples; NaN where at least half are missing."""
    present = np.isfinite(samples)
    views = np.lib.stride_tricks.sliding_window_view
    if present.all():
        return np.asarray(np.ascontiguousarray(views(samples, len(taps))[::factor]) @ taps)
    filled = np.where(present, samples, 0.0)
    sums = np.ascontiguousarray(views(filled, len(taps))[::factor]) @ taps
    weights = np.ascontiguousarray(views(present.astype(np.float64), len(taps))[::factor]) @ taps
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weights > 0.5, sums / weights, np.nan)


def window_edges(epochs: EpochGrid, seconds: float) -> tuple[Floats, Floats]:
    """Return start and end of a window around each epoch's middle, moved inside at the recording's ends."""
    edges = epochs.edges
    length = min(max(seconds, epochs.epoch_seconds), float(edges[-1]))
    middle = (edges[:-1] + edges[1:]) / 2
    first = np.clip(middle - length / 2, 0.0, edges[-1] - length)
    return first, first + length


def covered_share(edges: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return the share of each epoch inside stretches of time in seconds, which may overlap."""
    if not len(starts):
        return np.zeros(len(edges) - 1)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    starts = np.maximum(starts, np.append(-np.inf, ends[:-1]))  # overlaps count once
    ends = np.maximum(starts, ends)
    points = np.stack([starts, ends], axis=1).ravel()
    inside = cumulative(ends - starts)
    values = np.stack([inside[:-1], inside[1:]], axis=1).ravel()
    seconds = np.diff(np.interp(edges, points, values))
    return np.asarray(np.clip(seconds / np.diff(edges), 0.0, 1.0))


def runs(flags: Mask) -> tuple[Ints, Ints]:
    """Return first and end (exclusive) of each run of True."""
    steps = np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8))
    return np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)


def long_runs(flags: Mask, least: float) -> Mask:
    """Return the flags that are in a run of at least ``least``."""
    first, end = runs(flags)
    kept = np.zeros(len(flags), dtype=np.bool_)
    for a, b in zip(first, end, strict=True):
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


def assemble(columns: Mapping[str, Floats], known: Mask, what: str) -> Extracted:
    """Return columns of features as an array (n_epochs, 1, n_features), and their names.

    An epoch without a signal (``known`` is False) is NaN throughout. In all others, missing values are
    interpolated from the epochs that have them.
    """
    rows = np.flatnonzero(known)
    if not len(rows):
        raise InputError(f"{what}: no epoch has a usable signal. Check the channels, their times and units.")
    values = np.full((len(known), 1, len(columns)), np.nan, dtype=np.float32)
    for index, (name, column) in enumerate(columns.items()):
        there = np.flatnonzero(np.isfinite(column))
        if not len(there):
            raise InputError(
                f"{what}: feature {name!r} could not be computed in any epoch. Check its channel, or leave "
                "it out of the recipe."
            )
        values[rows, 0, index] = np.interp(rows, there, column[there])
    return values, tuple(columns)


Taper = Literal["multitaper", "hann"]


@lru_cache(maxsize=32)
def tapers(kind: Taper, n_samples: int, time_bandwidth: float = 2.0, n_tapers: int = 3) -> Floats32:
    """Return tapers (n_tapers, n_samples), each of energy 1: one Hann window, or Slepian sequences.

    Slepian sequences give several independent estimates of the same spectrum, which are averaged.
    ``time_bandwidth`` is half their bandwidth times the length of the window.
    """
    if kind == "hann":
        made = np.hanning(n_samples + 1)[None, :-1]  # periodic
    else:
        windows = library(
            "scipy.signal.windows", 'a multitaper spectrogram (a recipe with taper = "hann" does not)'
        )
        made = np.asarray(windows.dpss(n_samples, time_bandwidth, n_tapers))
    made = made / np.sqrt((made**2).sum(axis=1, keepdims=True))
    kept: Floats32 = made.astype(np.float32)
    kept.flags.writeable = False
    return kept


def frequencies(n_samples: int, rate_hz: float) -> Floats:
    """Return the frequencies of a spectrum in Hz, from 0 to half the rate."""
    return np.asarray(np.fft.rfftfreq(n_samples, 1 / rate_hz), dtype=np.float64)


def power_spectra(
    windows: Floats, rate_hz: float, using: Floats32, end: int | None = None
) -> tuple[Floats32, Floats]:
    """Return one-sided power densities (..., n_frequencies) of windows, and the missing share of each window.

    The mean is subtracted first. Missing samples (NaN) then count as 0, and the power is divided by the
    remaining share of the taper's energy, so that noise keeps its level. A window without samples, or with
    equal samples only, has no power and is missing as a whole. With ``end``, only the first ``end``
    frequencies are kept.
    """
    lost, centred = _centre(windows)
    n_frequencies = windows.shape[-1] // 2 + 1
    end = n_frequencies if end is None else min(end, n_frequencies)
    power = np.zeros((*windows.shape[:-1], end), dtype=np.float32)
    for taper in using:
        spectrum = np.fft.rfft(centred * taper)[..., :end]
        power += spectrum.real**2 + spectrum.imag**2
    power *= np.float32(2.0 / (rate_hz * len(using)))
    power[..., 0] /= 2
    if end == n_frequencies and windows.shape[-1] % 2 == 0:
        power[..., -1] /= 2
    partial = (lost > 0) & (lost < 1)
    if partial.any():
        energy = (using**2).mean(axis=0)
        power[partial] /= (np.isfinite(windows[partial]) @ energy)[:, None]
    return power, lost


def _centre(windows: Floats) -> tuple[Floats, Floats32]:
    """Return the share of missing samples per window, and the windows minus their mean, 0 where missing."""
    total = windows.sum(axis=-1)
    if np.isfinite(total).all():
        lost = np.zeros(windows.shape[:-1])
        centred = (windows - (total / windows.shape[-1])[..., None]).astype(np.float32)
    else:
        present = np.isfinite(windows)
        n_present = present.sum(axis=-1)
        lost = 1.0 - n_present / windows.shape[-1]
        mean = np.where(present, windows, 0.0).sum(axis=-1) / np.maximum(n_present, 1)
        centred = np.where(present, windows - mean[..., None], 0.0).astype(np.float32)
    low, high = np.fmin.reduce(windows, axis=-1), np.fmax.reduce(windows, axis=-1)
    flat = (low == high) | np.isnan(low)  # all present samples are equal, or all are missing
    lost[flat] = 1.0
    centred[flat] = 0.0
    return lost, centred


def bin_matrix(lines: Floats, edges: Sequence[tuple[float, float]], what: str) -> Floats32:
    """Return the matrix (n_lines, n_bins) that averages evenly spaced spectral lines into bins.

    A line on a bin's lower edge belongs to the bin, a line on its upper edge does not. 0 Hz is in no bin.
    """
    spacing = lines[1]
    matrix = np.zeros((len(lines), len(edges)), dtype=np.float32)
    for column, (low, high) in enumerate(edges):
        if high > lines[-1] + spacing:
            raise InputError(
                f"{what} is sampled at {2 * lines[-1]:g} Hz, too slowly for {low:g} to {high:g} Hz. Map "
                "another channel, or use a recipe with lower frequencies or without this channel."
            )
        inside = (lines >= low - 1e-6 * spacing) & (lines < high - 1e-6 * spacing) & (lines > 0)
        if not inside.any():
            raise InputError(
                f"no spectral line of {what} falls into {low:g} to {high:g} Hz: a window of {1 / spacing:g} "
                f"s tells {spacing:g} Hz apart. Widen the bins, or lengthen the windows."
            )
        matrix[inside, column] = 1.0 / inside.sum()
    return matrix


LOW_POINT_HOURS = 5.0  # when the body's drive to be awake is lowest


@dataclass(frozen=True, slots=True)
class ClockFeatures:
    """Which features of time to add."""

    elapsed: bool = schema.flag(True)  # hours since the start, and their cosine as in Walch et al. (2019)
    # cosine and sine of the time of day, if the recording's start is known
    time_of_day: str = schema.choice("if present", *IF_PRESENT)


def clock_features(epochs: EpochGrid, options: ClockFeatures, recording: str) -> Columns:
    """Return features of time by name, each at the start of the epochs.

    ``elapsed_cosine`` is Walch's clock proxy: -cos(2 pi (t - 5 h) / 24 h) with t from the first epoch.
    In ``clock_cosine``, t is the time of day: it is lowest at 5 o'clock. ``clock_sine`` is the same wave six
    hours later, lowest at 11 o'clock.
    """
    hours = epochs.edges[:-1] / 3600.0
    columns: Columns = {}
    if options.elapsed:
        columns["hours"] = hours
        columns["elapsed_cosine"] = -np.cos(_angle(hours))
    start = epochs.start
    if options.time_of_day == "always" and start is None:
        raise InputError(
            f"recording {recording!r} does not say when it began, expected a date and time for the clock "
            "features. Give it, or set clock.time_of_day = 'never' in the recipe."
        )
    if options.time_of_day != "never" and start is not None:
        hour_of_day = start.hour + start.minute / 60 + (start.second + start.microsecond / 1e6) / 3600
        angle = _angle(hour_of_day + hours)
        columns["clock_cosine"] = -np.cos(angle)
        columns["clock_sine"] = -np.sin(angle)
    return columns


def _angle(hours: Floats) -> Floats:
    return np.asarray((hours - LOW_POINT_HOURS) * (2 * np.pi / 24.0))
