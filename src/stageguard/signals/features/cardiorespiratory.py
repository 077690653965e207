"""Features of heart and breathing: variability, rate, depth, saturation around each epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Floats, Floats32
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording
from stageguard.signals.beats import Beats, find_beats, has_beats
from stageguard.signals.breathing import Belt, Breathing, breathing_channels, breathing_features, read_belt
from stageguard.signals.clock import Clock, clock_features
from stageguard.signals.features.recipe import Recipe
from stageguard.signals.hrv import Heart, hrv_features
from stageguard.signals.oxygen import Oxygen, has_oxygen, oxygen_features, read_oxygen
from stageguard.signals.windows import assemble

LEAST_SHARE = 0.5  # of an epoch in which a sensor must have given something


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a recipe for heart and breathing.

    Parameters
    ----------
    heart, breathing, spo2 : table
        What is measured of each.
    clock : table
        Which features of time to add.
    """

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
    columns: dict[str, Floats] = {}
    known = np.zeros(epochs.n_epochs, dtype=np.bool_)
    if settings.heart.use == "always" or (settings.heart.use == "if present" and has_beats(recording)):
        beats = find_beats(recording)
        columns |= hrv_features(beats, epochs, settings.heart)
        known |= heart_share(beats, epochs) >= LEAST_SHARE
    roles = breathing_channels(recording, settings.breathing)
    belts = {role: read_belt(recording, role, settings.breathing.band) for role in roles}
    columns |= breathing_features(belts, epochs, settings.breathing)
    for belt in belts.values():
        known |= belt_share(belt, epochs) >= LEAST_SHARE
    if not columns:
        wanted = " or ".join(("ecg", "beats", *settings.breathing.channels))
        raise InputError(
            f"recording {recording.id!r} has no channel the recipe {recipe.name!r} can use; it has: "
            f"{', '.join(recording.signals) or 'none'}. Map {wanted}, for example --channel ecg=NAME."
        )
    if has_oxygen(recording, settings.spo2):
        columns |= oxygen_features(read_oxygen(recording), epochs, settings.spo2)
    columns |= clock_features(epochs, settings.clock, recording.id)
    return assemble(columns, known, f"recording {recording.id!r}")


def heart_share(beats: Beats, epochs: EpochGrid) -> Floats:
    """Return the share of each epoch that lies within plausible intervals between heartbeats."""
    keep = beats.is_plausible
    ends = beats.times[keep]
    starts = np.maximum(ends - beats.intervals[keep], np.append(-np.inf, ends[:-1]))
    if not len(ends):
        return np.zeros(epochs.n_epochs)
    points = np.stack([starts, ends], axis=1).ravel()
    filled = np.repeat(np.cumsum(ends - starts), 2)
    filled[::2] -= ends - starts
    seconds = np.diff(np.interp(epochs.edges, points, filled))
    return np.asarray(np.clip(seconds / epochs.epoch_seconds, 0.0, 1.0))


def belt_share(belt: Belt, epochs: EpochGrid) -> Floats:
    """Return the share of each epoch in which a belt gave something."""
    total = np.append(0, np.cumsum(belt.is_there))
    edges = np.clip(epochs.sample_edges(belt.rate_hz), 0, len(belt.is_there))
    return np.asarray(np.diff(total[edges]) / (epochs.epoch_seconds * belt.rate_hz))
