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
from stageguard.signals.breathing import Breathing, breathing_channels, breathing_features, read_belt
from stageguard.signals.clock import Clock, clock_features
from stageguard.signals.features.recipe import Recipe
from stageguard.signals.hrv import Heart, hrv_features
from stageguard.signals.oxygen import Oxygen, oxygen_features, read_oxygen
from stageguard.signals.windows import assemble, covered_share, is_wanted

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
