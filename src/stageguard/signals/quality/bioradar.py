"""Which epochs of a radar recording can be trusted, by the paper's thresholds or by the share that is bad."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.units import to_unit
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording, Signal
from stageguard.signals.quality.reasons import Assessed, from_epochs, from_segments, runs_of, worst
from stageguard.signals.quality.segments import measure_segments
from stageguard.signals.radar_phase import radar_channels

PAPER_Z = 5.0
PAPER_DROPOUT_EPOCHS = 2
SEGMENT_SECONDS = 5.0  # about a breath
GRADED_Z, GRADED_TIMES = 5.0, 10.0  # robust deviations of the log range, and times the usual range; both
FLAT = 0.001  # of the usual range


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch: the worst of I and Q, or of the phase where that was recorded.

    Parameters
    ----------
    recording : Recording
        With "radar_phase", or "radar_i" and "radar_q".
    epochs : EpochGrid
        Which epochs.
    rules : {"kdd2026", "graded"}
        See `signal_quality`.
    """
    judge = _paper if rules == "kdd2026" else _graded
    return worst([judge(signal, epochs, role) for role, signal in _channels(recording).items()])


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


def _channels(recording: Recording) -> dict[str, Signal]:
    channels = radar_channels(recording)
    phase = channels.get("radar_phase")
    if phase is None:
        return channels
    return {"radar_phase": Signal(phase.name, _Unwrapped(phase), phase.rate_hz, "rad")}


@dataclass(frozen=True, slots=True)
class _Unwrapped:
    """Samples of a phase without the jumps of a full turn, within each slice that is read."""

    signal: Signal

    def __len__(self) -> int:
        return self.signal.n_samples

    def __getitem__(self, where: slice) -> Floats:
        values = self.signal.read(where.start, where.stop)
        if self.signal.unit:
            values = to_unit(values, self.signal.unit, "rad")
        present = np.isfinite(values)
        made = np.full(len(values), np.nan)
        made[present] = np.unwrap(values[present])
        return made
