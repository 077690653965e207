"""Which epochs of a radar recording can be trusted, by the paper's thresholds or by the share that is bad."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording, Signal
from stageguard.signals.quality.rules import (
    Assessed,
    from_epochs,
    from_segments,
    measure_segments,
    runs_of,
    worst,
)
from stageguard.signals.radar_phase import phase_seen, radar_channels

PAPER_Z = 5.0
PAPER_DROPOUT_EPOCHS = 2
SEGMENT_SECONDS = 5.0  # about a breath
GRADED_Z, GRADED_TIMES = 5.0, 10.0  # robust deviations of the log range, and times the usual range; both
FLAT = 0.001  # of the usual range


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch: the worst of I and Q, or of the phase where that was recorded."""
    judge = _paper if rules == "kdd2026" else _graded
    channels = radar_channels(recording)
    if "radar_phase" in channels:
        channels["radar_phase"] = phase_seen(channels["radar_phase"], _unwrapped)
    return worst([judge(signal, epochs, role) for role, signal in channels.items()])


def _paper(signal: Signal, epochs: EpochGrid, role: str) -> Assessed:
    """Peak-to-peak amplitude beyond 5 deviations of this recording, or two epochs without a signal."""
    segments = measure_segments(signal, epochs, 1, spectra=False)
    return from_epochs(
        {
            f"{role}: dropout": runs_of(segments.lost(), PAPER_DROPOUT_EPOCHS),
            f"{role}: amplitude": segments.is_extreme(PAPER_Z),
        }
    )


def _graded(signal: Signal, epochs: EpochGrid, role: str) -> Assessed:
    """Share of the epoch that is missing, flat, clipped or too large, in pieces of 5 s."""
    per_epoch = max(1, round(epochs.epoch_seconds / SEGMENT_SECONDS))
    segments = measure_segments(signal, epochs, per_epoch, spectra=False)
    missing, flat = segments.missing_and_flat(FLAT)
    sound = ~missing & ~flat
    clipped = segments.clipped & sound & (role != "radar_phase")  # an angle has no limits to hit
    large = segments.is_large(GRADED_Z, GRADED_TIMES)
    return from_segments(
        {
            f"{role}: missing": missing,
            f"{role}: flat": flat,
            f"{role}: clipped": clipped,
            f"{role}: amplitude": large & sound & ~clipped,
        }
    )


def _unwrapped(angles: Floats) -> Floats:
    """Return angles without the jumps of a full turn, passing over those that are missing."""
    present = np.isfinite(angles)
    angles[present] = np.unwrap(angles[present])
    return angles
