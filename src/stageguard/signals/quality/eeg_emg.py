"""Which epochs of EEG and EMG can be trusted, by the paper's thresholds or by the share that is bad."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from stageguard.base.errors import InputError, StageGuardWarning
from stageguard.base.units import quantity_of
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording, Signal
from stageguard.signals.quality.rules import (
    Assessed,
    Segments,
    from_epochs,
    from_segments,
    measure_segments,
    worst,
)
from stageguard.signals.windows import steady_signal

PAPER_Z = 3.0
PAPER_HIGH_SHARE = 0.5
SEGMENT_SECONDS = 1.0
SEGMENT_SAMPLES = 8  # at least: some files keep an EMG as one number a second
HUM_SHARE = 0.5
PLAUSIBLE_UV = (0.5, 20_000.0)  # peak to peak within a second, from a quiet channel to a mouse's EMG


@dataclass(frozen=True, slots=True)
class Limits:
    """What the graded rules allow a channel."""

    z: float  # too large: a range beyond so many robust deviations of the log range,
    times: float  # and beyond so many times the usual range
    flat: float  # a segment is flat when its range is below this share of the usual one
    has_high: bool  # whether power above 45 Hz speaks against it


# A tense muscle is up to a hundred times louder than a slack one, all above 20 Hz: wake, no artefact.
EEG = Limits(z=4.0, times=3.0, flat=0.02, has_high=True)
EMG = Limits(z=6.0, times=100.0, flat=0.001, has_high=False)


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch: the worst of the EEG channel and, where there is one, the EMG."""
    judge = _paper if rules == "kdd2026" else _graded
    parts = []
    for role, limits in (("eeg", EEG), ("emg", EMG)):
        if role == "eeg" or role in recording.signals:
            signal = steady_signal(recording, role)
            if signal.unit and quantity_of(signal.unit) != "voltage":
                raise InputError(
                    f"channel {role!r} ({signal.name}) is in {signal.unit!r}, expected a voltage such as "
                    f"'uV'. Map another one with --channel {role}=NAME, or correct its unit."
                )
            parts.append(judge(signal, epochs, role, limits))
    return worst(parts)


def _paper(signal: Signal, epochs: EpochGrid, role: str, limits: Limits) -> Assessed:
    """Peak-to-peak amplitude beyond 3 deviations of this recording, or too much power above 45 Hz."""
    segments = measure_segments(signal, epochs, 1, spectra=limits.has_high, unit="uV")
    _warn_unit(segments, epochs, signal, role)
    flags = {f"{role}: no signal": segments.lost(), f"{role}: amplitude": segments.is_extreme(PAPER_Z)}
    if limits.has_high:
        flags[f"{role}: high-frequency power"] = (segments.high + segments.hum)[:, 0] > PAPER_HIGH_SHARE
    return from_epochs(flags)


def _graded(signal: Signal, epochs: EpochGrid, role: str, limits: Limits) -> Assessed:
    """Share of the epoch's seconds that are missing, flat, clipped, too large, or hum."""
    length = max(SEGMENT_SECONDS, SEGMENT_SAMPLES / signal.rate_hz)
    per_epoch = max(1, round(epochs.epoch_seconds / length))
    segments = measure_segments(signal, epochs, per_epoch, spectra=True, unit="uV")
    _warn_unit(segments, epochs, signal, role)
    missing, flat = segments.missing_and_flat(limits.flat)
    flags = {
        f"{role}: missing": missing,
        f"{role}: flat": flat,
        f"{role}: clipped": segments.clipped & ~missing,
        f"{role}: amplitude": segments.is_large(limits.z, limits.times) & ~segments.clipped,
        f"{role}: mains hum": segments.hum > HUM_SHARE,
    }
    if limits.has_high:
        flags[f"{role}: high-frequency power"] = segments.high > PAPER_HIGH_SHARE
    for name, flag in flags.items():
        if not name.endswith(("missing", "flat")):
            flag &= ~missing & ~flat
    return from_segments(flags)


def _warn_unit(segments: Segments, epochs: EpochGrid, signal: Signal, role: str) -> None:
    """Warn when a voltage is so small or so large that its unit must be another one."""
    usual, (low, high) = segments.usual_range, PLAUSIBLE_UV
    if not signal.unit or not np.isfinite(usual) or low <= usual <= high:
        return
    warnings.warn(
        f"channel {role!r} ({signal.name}) is said to be in {signal.unit}, but usually spans {usual:.3g} uV, "
        f"expected {low:g} to {high:,.0f} uV. Check the unit; the quality of epochs does not depend on it.",
        StageGuardWarning,
        stacklevel=6,
    )
