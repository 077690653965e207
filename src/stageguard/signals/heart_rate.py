"""Heart rate of a watch as features, by the recipe of Walch et al. 2019."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import InputError
from stageguard.night.recording import EpochGrid, Recording, Signal
from stageguard.signals.windows import Columns, timed_values, window_edges

PLAUSIBLE_BPM = (30.0, 200.0)
NARROW_SECONDS, WIDE_SECONDS, WIDE_WEIGHT = 120.0, 600.0, 0.75  # the difference of two Gaussians
KERNEL_SECONDS = 285
WALCH_MARGIN_SECONDS = 285.0  # of the window on either side of the epoch
SPREAD_SECONDS = 300.0
FEATURES = ("mean", "spread", "change")
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
    sums = np.append(0.0, np.cumsum(centred))
    squares = np.append(0.0, np.cumsum(centred**2))
    n = b - a
    known = n > 0
    mean = np.divide(sums[b] - sums[a], n, out=np.full(len(n), np.nan), where=known)
    power = np.divide(squares[b] - squares[a], n, out=np.full(len(n), np.nan), where=known)
    return mean + values.mean(), np.sqrt(np.maximum(power - mean**2, 0.0))
