"""Features and quality of radar: breathing, heartbeat and body movement from the phase of the echo."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import cast

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Floats, Floats32, Mask
from stageguard.base.errors import InputError
from stageguard.night.recording import EpochGrid, Recording, Signal
from stageguard.signals.features.recipe import Recipe
from stageguard.signals.quality import (
    Assessed,
    from_epochs,
    from_segments,
    measure_segments,
    runs_of,
    worst,
)
from stageguard.signals.radar_phase import (
    LEAST_PRESENT,
    Phase,
    Rhythm,
    band_pass,
    phase_seen,
    radar_channels,
    radar_phase,
    strongest_rhythm,
)
from stageguard.signals.windows import Columns

SECOND = 1.0  # movement is detected second by second
LONGEST_STILL_MINUTES = 30.0


@dataclass(frozen=True, slots=True)
class BioradarSettings:
    """Options of a recipe for radar."""

    rate_hz: float = schema.number(25.0, low=4.0, high=1000.0)  # lowest rate at which the phase is processed
    # how I and Q become a phase; see `radar_phase`
    demodulation: str = schema.choice("auto", "auto", "arctangent", "linear")
    breathing_band: tuple[float, float] = schema.band(0.1, 0.6)  # Hz
    heart_band: tuple[float, float] = schema.band(0.8, 2.2)  # Hz
    # rates are measured in a window of this length around the epoch's middle
    window_seconds: float = schema.number(60.0, low=20.0, high=600.0)
    # a second counts as movement when the phase runs this many times faster than usual
    movement_times: float = schema.number(4.0, low=1.5, high=100.0)
    # windows of the features of variability and movement
    variability_minutes: float = schema.number(5.0, low=1.0, high=60.0)
    movement_minutes: float = schema.number(10.0, low=1.0, high=120.0)


SETTINGS = BioradarSettings  # by which `features.recipe` reads this modality's recipes


def extract(recording: Recording, epochs: EpochGrid, recipe: Recipe) -> tuple[Floats32, tuple[str, ...]]:
    """Return features (n_epochs, 1, n_features) and their names; NaN in epochs mostly without an echo."""
    settings = cast(BioradarSettings, recipe.settings)
    if settings.rate_hz < 2.5 * settings.heart_band[1]:
        raise InputError(
            f"rate_hz is {settings.rate_hz:g}, too low for a heart_band to {settings.heart_band[1]:g} Hz, "
            f"expected {2.5 * settings.heart_band[1]:g} or more."
        )
    phase = radar_phase(recording, settings.rate_hz, settings.demodulation)
    if phase.rate_hz < 2 * settings.heart_band[1]:
        raise InputError(
            f"the radar of recording {recording.id!r} has {phase.rate_hz:g} Hz, too slow for a heart_band to "
            f"{settings.heart_band[1]:g} Hz. Lower the band in the recipe."
        )
    return _table(phase, epochs, settings, recording.id)


def separate(phase: Phase, still: Mask, settings: BioradarSettings) -> tuple[Floats, Floats]:
    """Return breathing and heartbeat in rad; changes of phase during movement are left out."""
    steps = np.diff(phase.values, prepend=phase.values[0])
    calm = np.cumsum(np.where(still & phase.is_present, steps, 0.0))
    calm -= calm.mean()
    low, high = settings.breathing_band
    # a little wider than the band searched for the rate, so that a rhythm at its edge keeps its amplitude
    breathing = band_pass(calm, phase.rate_hz, (0.8 * low, 1.2 * high), seconds=4 / low)
    heart = band_pass(calm, phase.rate_hz, settings.heart_band, seconds=8.0)
    return breathing, heart


def find_movement(phase: Phase, times: float) -> tuple[Mask, Floats]:
    """Return per second whether the body moved, and the root mean square speed of the phase in rad/s.

    Movement is a speed above ``times`` the median speed of all seconds. A second without an echo has no
    movement, and its speed is NaN.
    """
    per_second = round(SECOND * phase.rate_hz)
    n_seconds = len(phase.values) // per_second
    speed = np.gradient(phase.values) * phase.rate_hz
    speed = np.where(phase.is_present, speed, np.nan)[: n_seconds * per_second].reshape(n_seconds, per_second)
    n_known = np.isfinite(speed).sum(axis=1)
    known = n_known >= per_second / 2
    squares = np.where(np.isfinite(speed), speed, 0.0) ** 2
    mean_square = squares.sum(axis=1) / np.maximum(n_known, 1)
    rms = np.where(known, np.sqrt(mean_square), np.nan)
    usual = float(np.median(rms[known])) if known.any() else np.nan
    with np.errstate(invalid="ignore"):
        return known & (rms > times * usual), rms


def _table(
    phase: Phase, epochs: EpochGrid, settings: BioradarSettings, name: str
) -> tuple[Floats32, tuple[str, ...]]:
    moving, rms = find_movement(phase, settings.movement_times)
    per_second = round(SECOND * phase.rate_hz)
    still = ~np.repeat(moving, per_second)
    still = np.pad(still, (0, len(phase.values) - len(still)), constant_values=True)
    breathing, heart = separate(phase, still, settings)
    usable = still & phase.is_present
    rhythms = [
        _rhythms(np.where(usable, part, np.nan), phase.rate_hz, epochs, settings, band, name)
        for part, band in ((breathing, settings.breathing_band), (heart, settings.heart_band))
    ]
    second = per_second / phase.rate_hz
    index, speed = _per_epoch(moving.astype(np.float64), epochs, second), _per_epoch(rms**2, epochs, second)
    breath, pulse = rhythms
    around = settings.variability_minutes * 60 / epochs.epoch_seconds
    columns: Columns = {
        "breathing_rate_per_min": 60 * breath.rate_hz,
        "breathing_amplitude_rad": breath.amplitude,  # half the range of the phase from breath to breath
        "breathing_concentration": breath.concentration,
        "breathing_rate_sd_per_min": _rolling_sd(60 * breath.rate_hz, around),  # REM is irregular
        "breathing_amplitude_cv": _rolling_sd(breath.amplitude, around)
        / np.maximum(_rolling_mean(breath.amplitude, around), 1e-12),
        "heart_rate_per_min": 60 * pulse.rate_hz,
        "heart_amplitude_rad": pulse.amplitude,
        "heart_concentration": pulse.concentration,
        "body_movement_index": index,  # share of the epoch's seconds with movement
        "movement_speed_db": 10 * np.log10(np.maximum(speed, 1e-12)),  # root mean square in rad/s
        "movement_around": _rolling_mean(index, settings.movement_minutes * 60 / epochs.epoch_seconds),
        "minutes_since_movement": _minutes_since(moving, epochs, second),
    }
    values = np.stack(list(columns.values()), axis=1)[:, None, :]
    present = _per_epoch(phase.is_present.astype(np.float64), epochs, 1 / phase.rate_hz)
    values[~(present >= LEAST_PRESENT)] = np.nan
    return values.astype(np.float32), tuple(columns)


def _rhythms(
    series: Floats,
    rate_hz: float,
    epochs: EpochGrid,
    settings: BioradarSettings,
    band: tuple[float, float],
    name: str,
) -> Rhythm:
    """Return the rhythm around each epoch, interpolated over epochs with too much movement."""
    n_samples = round(min(settings.window_seconds, len(series) / rate_hz) * rate_hz)
    middles = (np.arange(epochs.n_epochs) + 0.5) * epochs.epoch_seconds * rate_hz
    starts = np.clip(np.rint(middles - n_samples / 2), 0, len(series) - n_samples).astype(np.int64)
    views = np.lib.stride_tricks.sliding_window_view(series, n_samples)
    parts = [strongest_rhythm(views[starts[k : k + 256]], rate_hz, band) for k in range(0, len(starts), 256)]
    whole = [np.concatenate([getattr(p, item.name) for p in parts]) for item in fields(Rhythm)]
    known = np.flatnonzero(np.isfinite(whole[0]))
    if not len(known):
        raise InputError(
            f"the radar of recording {name!r} is never still for half of {settings.window_seconds:g} s. "
            "Raise movement_times in the recipe, or map other channels."
        )
    everywhere = np.arange(epochs.n_epochs)
    return Rhythm(*(np.interp(everywhere, known, column[known]) for column in whole))


def _per_epoch(values: Floats, epochs: EpochGrid, step: float) -> Floats:
    """Return the mean of evenly spaced values in each epoch; 0 in epochs without values."""
    owner = ((np.arange(len(values)) + 0.5) * step // epochs.epoch_seconds).astype(np.int64)
    kept = (owner < epochs.n_epochs) & np.isfinite(values)
    sums = np.bincount(owner[kept], values[kept], epochs.n_epochs)
    counts = np.bincount(owner[kept], minlength=epochs.n_epochs)
    return np.asarray(sums / np.maximum(counts, 1))


def _rolling_mean(values: Floats, width: float) -> Floats:
    """Return the mean over an odd number of epochs around each epoch; fewer at the ends."""
    reach = max(1, round(width)) // 2
    sums = np.concatenate([[0.0], np.cumsum(values)])
    epochs = np.arange(len(values))
    first, end = np.maximum(epochs - reach, 0), np.minimum(epochs + reach + 1, len(values))
    return np.asarray((sums[end] - sums[first]) / (end - first))


def _rolling_sd(values: Floats, width: float) -> Floats:
    centred = values - values.mean()  # keeps the difference of squares accurate
    return np.sqrt(np.maximum(_rolling_mean(centred**2, width) - _rolling_mean(centred, width) ** 2, 0.0))


def _minutes_since(moving: Mask, epochs: EpochGrid, second: float) -> Floats:
    """Return the time from the last movement to each epoch's end, at most half an hour."""
    ends = np.arange(1, epochs.n_epochs + 1) * epochs.epoch_seconds
    moments = (np.flatnonzero(moving) + 1) * second
    if not len(moments):
        return np.full(epochs.n_epochs, LONGEST_STILL_MINUTES)
    last = np.searchsorted(moments, ends + 1e-6, side="right") - 1
    since = np.where(last >= 0, ends - moments[np.maximum(last, 0)], np.inf)
    return np.minimum(since / 60, LONGEST_STILL_MINUTES)


PAPER_Z = 5.0
PAPER_DROPOUT_EPOCHS = 2
SEGMENT_SECONDS = 5.0  # about a breath
# too large: beyond both this many robust deviations of the log range and this multiple of the usual range
GRADED_Z, GRADED_TIMES = 5.0, 10.0
FLAT = 0.001  # of the usual range


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch: the worst of I and Q, or of the phase where that was recorded."""
    judge = _paper if rules == "kdd2026" else _grade_phase
    channels = radar_channels(recording)
    if "radar_phase" in channels:
        channels["radar_phase"] = phase_seen(channels["radar_phase"], _unwrap)
    return worst([judge(signal, epochs, role) for role, signal in channels.items()])


def _paper(signal: Signal, epochs: EpochGrid, role: str) -> Assessed:
    """Mark amplitudes beyond 5 deviations of this recording, and two or more epochs without a signal."""
    segments = measure_segments(signal, epochs, 1, spectra=False)
    return from_epochs(
        {
            f"{role}: dropout": runs_of(segments.lost(), PAPER_DROPOUT_EPOCHS),
            f"{role}: amplitude": segments.is_extreme(PAPER_Z),
        }
    )


def _grade_phase(signal: Signal, epochs: EpochGrid, role: str) -> Assessed:
    """Return the share of the epoch that is missing, flat, clipped or too large, in segments of 5 s."""
    per_epoch = max(1, round(epochs.epoch_seconds / SEGMENT_SECONDS))
    segments = measure_segments(signal, epochs, per_epoch, spectra=False)
    if role == "radar_phase":  # an angle has no limits at which it could clip
        segments = replace(segments, clipped=np.zeros_like(segments.clipped))
    return from_segments(segments.flags(role, GRADED_Z, GRADED_TIMES, FLAT))


def _unwrap(angles: Floats) -> Floats:
    """Return angles without jumps of a full turn; missing angles are skipped."""
    present = np.isfinite(angles)
    angles[present] = np.unwrap(angles[present])
    return angles
