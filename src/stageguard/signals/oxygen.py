"""Oxygen saturation as features: level, dips, desaturations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Floats, Ints
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording, Series
from stageguard.signals.windows import IF_PRESENT, Columns, read_samples, runs, timed_values, window_edges

PLAUSIBLE_PERCENT = (50.0, 100.0)  # below, the probe is off the finger
MOST_FALL_PER_SECOND = 4.0  # a faster change is the probe, not the blood
BASELINE_SECONDS = 120
DESATURATION_SECONDS = 10
LEAST_SHARE = 0.5
BLOCK_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Oxygen:
    """How oxygen saturation is measured.

    Parameters
    ----------
    use : {"if present", "always", "never"}
        Whether to.
    window_seconds : float
        Length of the window around each epoch.
    desaturation_percent : float
        Fall below the highest value of the 2 min before that counts, when it lasts 10 s.
    """

    use: str = schema.choice("if present", *IF_PRESENT)
    window_seconds: float = schema.number(300.0, low=60.0, high=3600.0)
    desaturation_percent: float = schema.number(3.0, positive=True, high=50.0)


def read_oxygen(recording: Recording) -> Floats:
    """Return the saturation of each second in percent, NaN where it is implausible or not known."""
    channel = recording.channel("spo2")
    if isinstance(channel, Series):
        seconds = _means(*timed_values(channel, "%", "channel 'spo2'"))
    else:
        parts = []
        for first in range(0, int(np.ceil(channel.seconds)), BLOCK_SECONDS):
            a, b = (round(at * channel.rate_hz) for at in (first, first + BLOCK_SECONDS))
            samples = read_samples(channel, a, min(b, channel.n_samples), "%")
            parts.append(_means(np.arange(a, a + len(samples)) / channel.rate_hz - first, samples))
        seconds = np.concatenate(parts)
    jump = np.abs(np.diff(seconds, prepend=seconds[0])) > MOST_FALL_PER_SECOND
    return np.where(jump, np.nan, seconds)


def oxygen_features(seconds: Floats, epochs: EpochGrid, options: Oxygen) -> Columns:
    """Return features of saturation, by name.

    ``spo2_percent`` is the mean of the epoch; in the window around it ``spo2_min_percent`` is the lowest
    value, ``spo2_sd_percent`` the standard deviation, and ``desaturations_per_hour`` how many begin.
    """
    begins = desaturations(seconds, options.desaturation_percent)
    within = _in_windows(seconds, epochs.edges[:-1], epochs.edges[1:])
    first, end = window_edges(epochs, options.window_seconds)
    around = _in_windows(seconds, first, end)
    rate = np.searchsorted(begins, end) - np.searchsorted(begins, first)
    hours = (end - first) / 3600.0
    return {
        "spo2_percent": within["mean"],
        "spo2_min_percent": around["lowest"],
        "spo2_sd_percent": around["spread"],
        "desaturations_per_hour": np.where(np.isfinite(around["mean"]), rate / hours, np.nan),
    }


def desaturations(seconds: Floats, fall_percent: float) -> Ints:
    """Return the seconds at which saturation falls by so much below the highest of the 2 min before."""
    if not len(seconds):
        return np.zeros(0, dtype=np.int64)
    known = np.where(np.isfinite(seconds), seconds, -np.inf)
    padded = np.concatenate([np.full(BASELINE_SECONDS, -np.inf), known])
    before = np.lib.stride_tricks.sliding_window_view(padded, BASELINE_SECONDS)[: len(known)].max(axis=1)
    low = np.isfinite(seconds) & (seconds <= before - fall_percent)
    starts, ends = runs(low)
    return np.asarray(starts[ends - starts >= DESATURATION_SECONDS])


def _means(times: Floats, values: Floats) -> Floats:
    """Return the mean of the plausible values of each second from 0 on."""
    low, high = PLAUSIBLE_PERCENT
    n = int(np.floor(times[-1])) + 1 if len(times) else 0
    keep = (values >= low) & (values <= high) & (times >= 0)
    second = times[keep].astype(np.int64)
    number = np.bincount(second, minlength=n)
    total = np.bincount(second, weights=values[keep], minlength=n)
    return np.asarray(np.divide(total, number, out=np.full(len(number), np.nan), where=number > 0))


def _in_windows(seconds: Floats, first: Floats, end: Floats) -> Columns:
    """Return mean, standard deviation and lowest value of windows; NaN where less than half is known."""
    columns = {name: np.full(len(first), np.nan) for name in ("mean", "spread", "lowest")}
    a, b = (np.clip(np.rint(at).astype(np.int64), 0, len(seconds)) for at in (first, end))
    for window in range(len(first)):
        some = seconds[a[window] : b[window]]
        some = some[np.isfinite(some)]
        if len(some) and len(some) >= LEAST_SHARE * (end[window] - first[window]):
            columns["mean"][window] = some.mean()
            columns["spread"][window] = some.std()
            columns["lowest"][window] = some.min()
    return columns
