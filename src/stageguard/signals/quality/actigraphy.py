"""Which epochs of actigraphy can be trusted, by the paper's rule or by whether it was worn."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording
from stageguard.signals.counts import Counts, find_counts
from stageguard.signals.quality.reasons import Stretches, from_epochs, from_stretches, runs_of
from stageguard.signals.quality.wear import REASONS, find_removals
from stageguard.signals.windows import runs

PAPER_ZERO_EPOCHS = 3
STUCK_SECONDS = 600.0  # one and the same count for so long is a stuck sensor
STUCK_BINS = 10


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> tuple[Floats, tuple[str, ...]]:
    """Return beta and reasons per epoch.

    "kdd2026" marks three or more epochs in a row without a count, as the paper does; that is half of a
    healthy sleeper's night. "graded" marks the share of the epoch in which nothing was recorded, the device
    was not worn, or its number was stuck.

    Parameters
    ----------
    recording : Recording
        With "counts" or raw acceleration; "temperature" and "heart_rate" help to tell a device on a table
        from a quiet sleeper.
    epochs : EpochGrid
        Which epochs.
    rules : {"kdd2026", "graded"}
        See `signal_quality`.
    """
    counts = find_counts(recording)
    if rules == "kdd2026":
        return _paper(counts, epochs)
    removals = find_removals(recording, counts)
    stretches: Stretches = {"counts: missing": _missing(counts, epochs), "counts: stuck": _stuck(counts)}
    for reason in REASONS:
        own = [item for item in removals if item.reason == reason]
        stretches[reason] = (np.array([item.first for item in own]), np.array([item.end for item in own]))
    return from_stretches(stretches, epochs.edges)


def _paper(counts: Counts, epochs: EpochGrid) -> tuple[Floats, tuple[str, ...]]:
    """Mark zero counts for three epochs or more; an epoch without counts is lost too, and ends a row."""
    each = counts.per_epoch(epochs)
    return from_epochs(
        {"counts: zero": runs_of(each == 0, PAPER_ZERO_EPOCHS), "counts: missing": np.isnan(each)}
    )


def _missing(counts: Counts, epochs: EpochGrid) -> tuple[Floats, Floats]:
    """Return stretches without data, before the first count and after the last included."""
    first, end = runs(~counts.has_data)
    starts = np.concatenate([[min(0.0, counts.edges[0])], counts.edges[first], [counts.edges[-1]]])
    ends = np.concatenate([[counts.edges[0]], counts.edges[end], [max(epochs.edges[-1], counts.edges[-1])]])
    return starts, ends


def _stuck(counts: Counts) -> tuple[Floats, Floats]:
    """Return stretches in which the device gave one and the same number, which is not 0."""
    moving = (counts.counts > 0).any(axis=1) & counts.has_data
    same = (counts.counts[1:] == counts.counts[:-1]).all(axis=1) & moving[1:] & moving[:-1]
    first, end = runs(same)
    starts, ends = counts.edges[first], counts.edges[end + 1]
    keep = (ends - starts >= STUCK_SECONDS) & (end - first + 1 >= STUCK_BINS)
    return starts[keep], ends[keep]
