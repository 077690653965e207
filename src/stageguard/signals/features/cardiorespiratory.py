"""Features of heart and breathing: variability, rate, depth, saturation around each epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Floats, Floats32, Ints
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording, Series
from stageguard.signals.beats import Beats, find_beats, has_beats
from stageguard.signals.breathing import Breathing, breathing_channels, breathing_features, read_belt
from stageguard.signals.clock import Clock, clock_features
from stageguard.signals.features.recipe import Recipe
from stageguard.signals.hrv import Heart, hrv_features
from stageguard.signals.windows import (
    IF_PRESENT,
    Columns,
    assemble,
    covered_share,
    is_wanted,
    read_samples,
    runs,
    timed_values,
    window_edges,
)

LEAST_SHARE = 0.5  # of an epoch or window in which a sensor must have given something
PLAUSIBLE_PERCENT = (50.0, 100.0)  # below, the probe is off the finger
MOST_FALL_PER_SECOND = 4.0  # a faster change is the probe, not the blood
BASELINE_SECONDS = 120
DESATURATION_SECONDS = 10
BLOCK_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Oxygen:
    """How oxygen saturation is measured."""

    use: str = schema.choice("if present", *IF_PRESENT)
    window_seconds: float = schema.number(300.0, low=60.0, high=3600.0)  # around each epoch
    # a fall below the highest value of the 2 min before that counts, when it lasts 10 s
    desaturation_percent: float = schema.number(3.0, positive=True, high=50.0)


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a recipe for heart and breathing."""

    heart: Heart = schema.table(Heart)
    breathing: Breathing = schema.table(Breathing)
    spo2: Oxygen = schema.table(Oxygen)
    clock: Clock = schema.table(Clock)


def extract(recording: Recording, epochs: EpochGrid, recipe: Recipe) -> tuple[Floats32, tuple[str, ...]]:
    """Return the features of each epoch, shape (n_epochs, 1, n_features), and their names.

    An epoch in which neither heart nor breathing was recorded is NaN throughout; in all others, what could
    not be measured is interpolated between the epochs in which it could.
    """
    settings: Settings = recipe.settings
    columns: Columns = {}
    known = np.zeros(epochs.n_epochs, dtype=np.bool_)
    if is_wanted(settings.heart.use, has_beats(recording)):
        beats = find_beats(recording)
        columns |= hrv_features(beats, epochs, settings.heart)
        known |= heart_share(beats, epochs) >= LEAST_SHARE
    roles = breathing_channels(recording, settings.breathing)
    belts = {role: read_belt(recording, role, settings.breathing.band) for role in roles}
    columns |= breathing_features(belts, epochs, settings.breathing)
    for belt in belts.values():
        known |= belt.share(epochs.edges[:-1], epochs.edges[1:]) >= LEAST_SHARE
    if not columns:
        wanted = " or ".join(("ecg", "beats", *settings.breathing.channels))
        raise InputError(
            f"recording {recording.id!r} has no channel the recipe {recipe.name!r} can use; it has: "
            f"{', '.join(recording.signals) or 'none'}. Map {wanted}, for example --channel ecg=NAME."
        )
    if is_wanted(settings.spo2.use, "spo2" in recording.signals):
        columns |= oxygen_features(read_oxygen(recording), epochs, settings.spo2)
    columns |= clock_features(epochs, settings.clock, recording.id)
    return assemble(columns, known, f"recording {recording.id!r}")


def heart_share(beats: Beats, epochs: EpochGrid) -> Floats:
    """Return the share of each epoch that lies within plausible intervals between heartbeats."""
    keep = beats.is_plausible
    ends = beats.times[keep]
    starts = np.maximum(ends - beats.intervals[keep], np.append(-np.inf, ends[:-1]))
    return covered_share(epochs.edges, starts, ends)


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
