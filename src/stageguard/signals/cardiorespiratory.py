"""Features and quality of recordings of heart and breathing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.night.recording import EpochGrid, Recording
from stageguard.signals import windows
from stageguard.signals.breathing import Belt, Breathing, breathing_features, read_belt
from stageguard.signals.features import Recipe
from stageguard.signals.heart import PLAUSIBLE_BPM, Beats, Heart, find_beats, hrv_features
from stageguard.signals.quality import Assessed, from_flags, with_reasons
from stageguard.signals.windows import LEAST_SHARE, Clock, Columns, Extracted, covered_share


@dataclass(frozen=True, slots=True, kw_only=True)
class CardiorespiratoryRecipe(Recipe):
    """A recipe for heart and breathing."""

    heart: Heart = field(default_factory=Heart)
    breathing: Breathing = field(default_factory=Breathing)
    clock: Clock = field(default_factory=Clock)


RECIPE = CardiorespiratoryRecipe


def extract(recording: Recording, epochs: EpochGrid, recipe: CardiorespiratoryRecipe) -> Extracted:
    """Return features (n_epochs, 1, n_features) and their names; NaN without heart and breathing."""
    columns: Columns = {}
    known = np.zeros(epochs.n_epochs, dtype=np.bool_)
    if windows.is_wanted(recipe.heart.use, not {"beats", "ecg"}.isdisjoint(recording.signals)):
        beats = find_beats(recording)
        columns |= hrv_features(beats, epochs, recipe.heart)
        known |= heart_share(beats, epochs) >= LEAST_SHARE
    wanted = recipe.breathing
    belts: dict[str, Belt] = {
        role: read_belt(recording, role, wanted.band)
        for role in wanted.channels
        if windows.is_wanted(wanted.use, role in recording.signals)
    }
    columns |= breathing_features(belts, epochs, wanted)
    for belt in belts.values():
        known |= belt.share(epochs.edges[:-1], epochs.edges[1:]) >= LEAST_SHARE
    if not columns:
        recording.channel(*wanted.channels, "beats", "ecg")  # its error names them
        raise InputError("the recipe measures neither heart nor breathing. Say use = 'if present' in it.")
    columns |= windows.clock_features(epochs, recipe.clock, recording.id)
    return windows.assemble(columns, known, recording)


def heart_share(beats: Beats, epochs: EpochGrid) -> Floats:
    """Return the share of each epoch that lies within plausible intervals between heartbeats."""
    keep = beats.is_plausible
    ends = beats.times[keep]
    starts = np.maximum(ends - beats.intervals[keep], np.append(-np.inf, ends[:-1]))
    return covered_share(epochs.edges, starts, ends)


MISSING_SECONDS = 5.0  # heartbeat or belt is missing if absent for this long
LEAST_OVERLAP_SECONDS = 1.0  # of a missing segment with an epoch, to mark the epoch
ECTOPIC_TOLERANCE = 0.2
IRREGULAR_SHARE = 0.5  # an epoch is irregular if more than this share of it has odd intervals
REGULAR_SHARE = 0.1  # a heart with more odd intervals than this is irregular throughout
BELT_WEIGHT = 0.5  # weight of lost breathing in beta, relative to lost heartbeats
RATE = f"heart rate: outside {PLAUSIBLE_BPM[0]:g}-{PLAUSIBLE_BPM[1]:g} bpm"


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch, from beats and from the belts recorded.

    "kdd2026" marks an epoch whose mean heart rate is outside 30-200 bpm, or in which a segment of 5 s or more
    of the heart or of a belt is missing. "graded" takes the share of the epoch without a plausible heartbeat,
    or half of the share without breathing, whichever is larger. A heart that is irregular in single epochs
    only is noise there.
    """
    edges = epochs.edges
    beats = find_beats(recording)
    keep = np.isfinite(beats.intervals) & (beats.intervals > 0) & (beats.intervals < MISSING_SECONDS)
    ends, intervals = beats.times[keep], beats.intervals[keep]
    starts = np.minimum(np.maximum(ends - intervals, np.append(-np.inf, ends[:-1])), ends)
    rates = 60.0 / intervals
    gap_starts, gap_ends = np.append(0.0, ends), np.append(starts, edges[-1])
    gaps = gap_ends - gap_starts
    belts = {
        role: read_belt(recording, role, Breathing().band)
        for role in ("thorax", "abdomen")
        if role in recording.signals
    }
    if rules == "kdd2026":
        seconds, weighted = (windows.covered_seconds(edges, starts, ends, weight) for weight in (1.0, rates))
        rate = np.divide(weighted, seconds, out=np.full(epochs.n_epochs, np.nan), where=seconds > 1e-6)
        least = min(LEAST_OVERLAP_SECONDS / epochs.epoch_seconds, 1.0)
        long = gaps >= MISSING_SECONDS
        lost = covered_share(edges, gap_starts[long], gap_ends[long])
        flags = {
            RATE: (rate < PLAUSIBLE_BPM[0]) | (rate > PLAUSIBLE_BPM[1]),
            "heart: missing": np.isnan(rate) | (lost >= least),
        }
        for role, belt in belts.items():
            flags[f"{role}: missing"] = _lost_share(belt, edges, MISSING_SECONDS) >= least
        return from_flags(flags)

    wrong = (rates < PLAUSIBLE_BPM[0]) | (rates > PLAUSIBLE_BPM[1])
    odd = ~beats.normal(ECTOPIC_TOLERANCE)[keep]
    is_gap = gaps > 1e-6
    is_gap[[0, -1]] &= gaps[[0, -1]] >= 60.0 / PLAUSIBLE_BPM[0]  # shorter ones are intervals cut off
    shares = {
        RATE: covered_share(edges, starts[wrong], ends[wrong]),
        "heart: missing": covered_share(edges, gap_starts[is_gap], gap_ends[is_gap]),
    }
    lost = shares[RATE] + shares["heart: missing"]
    irregular = covered_share(edges, starts[odd & ~wrong], ends[odd & ~wrong])
    if not len(odd) or odd.mean() > REGULAR_SHARE:
        irregular[:] = 0.0
    irregular[irregular <= IRREGULAR_SHARE] = 0.0
    shares["heart: irregular"] = np.minimum(irregular, np.maximum(1.0 - lost, 0.0))
    beta = lost + shares["heart: irregular"]
    if belts:
        missing = {f"{role}: missing": _lost_share(belt, edges, 0.0) for role, belt in belts.items()}
        beta = np.maximum(beta, BELT_WEIGHT * np.mean(list(missing.values()), axis=0))
        shares |= missing
    return with_reasons(beta, shares)


def _lost_share(belt: Belt, edges: Floats, least_seconds: float) -> Floats:
    """Return the share of each epoch in stretches of ``least_seconds`` or more without a belt's signal."""
    first, stop = windows.runs(~belt.is_there)
    length = len(belt.is_there) / belt.rate_hz
    starts = np.append(first / belt.rate_hz, min(length, edges[-1]))
    ends = np.append(stop / belt.rate_hz, edges[-1])
    keep = (ends - starts >= least_seconds) & (ends - starts > 1.5 / belt.rate_hz)
    return covered_share(edges, starts[keep], ends[keep])
