"""Features and quality of radar: breathing, heartbeat and body movement from the phase of the echo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Mask
from stageguard.documents import Range
from stageguard.errors import InputError, warn
from stageguard.lazy import library
from stageguard.night.recording import EpochGrid, Recording, Signal
from stageguard.signals import windows
from stageguard.signals.features import Recipe
from stageguard.signals.quality import Assessed, from_flags, measure_segments, worst
from stageguard.signals.windows import LEAST_SHARE, Band, Columns, Extracted, cumulative

Points = npt.NDArray[np.complex128]  # I + 1j Q

CENTRE_SECONDS = 300.0  # a circle is fitted to each stretch of this length
FLAT_SECONDS = 2.0  # a constant signal for this long is no echo
FINER = 4  # zero padding: this many spectral lines per line that the window resolves
LONGEST_STILL_MINUTES = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RadarRecipe(Recipe):
    """A recipe for radar."""

    rate_hz: Annotated[float, Range(4, 1000)] = 25.0  # lowest rate at which the phase is processed
    demodulation: Literal["auto"] = "auto"  # of I and Q; see `radar_phase`
    breathing_band: Band = (0.1, 0.6)
    heart_band: Band = (0.8, 2.2)
    # rates are measured in a window of this length around the epoch's middle
    window_seconds: Annotated[float, Range(20, 600)] = 60.0
    # a second counts as movement when the phase runs this many times faster than usual
    movement_times: Annotated[float, Range(1.5, 100)] = 4.0
    # windows of the features of variability and movement
    variability_minutes: Annotated[float, Range(1, 60)] = 5.0
    movement_minutes: Annotated[float, Range(1, 120)] = 10.0


RECIPE = RadarRecipe


class Phase(NamedTuple):
    """Phase at a steady rate."""

    values: Floats  # (n,) unwrapped, in rad; constant while nothing is recorded
    is_present: Mask  # (n,) whether anything was recorded
    rate_hz: float


class Rhythm(NamedTuple):
    """The strongest rhythm of each window; NaN where less than half of the window is present."""

    rate_hz: Floats
    amplitude: Floats  # of a sine with the same power: the square root of twice the power in the band
    # share of the band's power at this frequency: near 1 for a steady rhythm, near 0.2 for noise
    concentration: Floats


def radar_channels(recording: Recording) -> dict[str, Signal]:
    """Return "radar_i" and "radar_q"; a recorded "radar_phase" counts as its cosine and sine."""
    if "radar_phase" in recording.signals:
        phase = windows.steady_signal(recording, "radar_phase", quantity="angle")
        angles = windows.read_samples(phase, 0, phase.n_samples, "rad")
        parts = {"radar_i": np.cos(angles), "radar_q": np.sin(angles)}
        return {role: Signal(role, part, phase.rate_hz) for role, part in parts.items()}
    for role in ("radar_i", "radar_q"):
        recording.channel("radar_phase", role)  # the error names both ways
    pair = {role: windows.steady_signal(recording, role) for role in ("radar_i", "radar_q")}
    i_hz, q_hz = (signal.rate_hz for signal in pair.values())
    if i_hz != q_hz:
        raise InputError(f"'radar_i' has {i_hz:g} Hz and 'radar_q' {q_hz:g} Hz, expected one rate for both.")
    return pair


def radar_phase(recording: Recording, rate_hz: float) -> Phase:
    """Return the angle of I and Q about the circle on which they move, at ``rate_hz`` or above."""
    (real, rate), (imaginary, _) = (
        windows.decimate(signal, rate_hz) for signal in radar_channels(recording).values()
    )
    n_both = min(len(real), len(imaginary))
    points = real[:n_both] + 1j * imaginary[:n_both]
    present = np.isfinite(points)
    size = max(np.abs(part[present]).max(initial=0.0) for part in (points.real, points.imag))
    same = (np.abs(np.diff(points.real)) <= 1e-9 * size) & (np.abs(np.diff(points.imag)) <= 1e-9 * size)
    present &= ~windows.flat_samples(same, FLAT_SECONDS * rate)  # it does not change, not even by noise
    if np.count_nonzero(present) < FLAT_SECONDS * rate:
        raise InputError(f"the radar of recording {recording.id!r} is flat or missing throughout.")
    points[~present] = 0.0
    is_given = "radar_phase" in recording.signals
    centres = np.zeros(n_both, dtype=np.complex128) if is_given else _centres(points, present, rate)
    if centres is None:
        warn(
            f"recording {recording.id!r}: no circle fits I and Q, so the phase is the way along their main "
            "axis: rates hold, amplitudes are relative."
        )
        steps = _linear_steps(points, present, rate)
    else:
        turned = points - centres
        steps = np.append(0.0, np.angle(turned[1:] * np.conj(turned[:-1])))
    both = present & np.append(False, present[:-1])
    return Phase(np.cumsum(np.where(both, steps, 0.0)), present, rate)


def fit_circle(points: Points) -> complex | None:
    """Return the centre of the circle nearest to points (Taubin 1991); None if they do not bend enough."""
    mean = complex(points.mean())
    x, y = (points - mean).real, (points - mean).imag
    square = x**2 + y**2
    size = np.sqrt(square.mean())
    if size <= 0:
        return None
    scaled = (square - size**2) / (2 * size)
    vector = np.linalg.svd(np.stack([scaled, x, y], axis=1), full_matrices=False)[2][2]
    bend = vector[0] / (2 * size)
    if abs(bend) < 1e-12 / size:  # a straight line
        return None
    centre_x, centre_y = -vector[1:] / (2 * bend)
    radius = np.sqrt(vector[1] ** 2 + vector[2] ** 2 + 4 * bend**2 * size**2) / abs(2 * bend)
    residual = np.sqrt(np.mean((np.hypot(x - centre_x, y - centre_y) - radius) ** 2))
    angles = np.unwrap(np.arctan2(y - centre_y, x - centre_x))
    arc = min(float(np.subtract(*np.percentile(angles, [95, 5]))), 2 * np.pi)
    height = radius * (1 - np.cos(arc / 2))  # of the arc over its chord
    is_sound = residual < 0.2 * radius and height > 3 * residual
    return mean + complex(centre_x, centre_y) if is_sound else None


def _centres(points: Points, present: Mask, rate: float) -> Points | None:
    """Return the circle's centre at every sample, from stretches with a sound circle; None without any."""
    length = round(CENTRE_SECONDS * rate)
    middles, centres = [], []
    for first in range(0, len(points), length):
        chosen = np.flatnonzero(present[first : first + length]) + first
        centre = fit_circle(points[chosen]) if len(chosen) >= 10 * rate else None
        if centre is not None:
            middles.append(float(chosen.mean()))
            centres.append(centre)
    return np.asarray(np.interp(np.arange(len(points)), middles, centres)) if centres else None


def _linear_steps(points: Points, present: Mask, rate: float) -> Floats:
    """Return the steps along each stretch's main axis, in units of the mean distance from the origin."""
    length = max(2, round(CENTRE_SECONDS * rate))
    steps, made = np.append(0.0, np.diff(points)), np.zeros(len(points))
    before = np.array([1.0, 0.0])
    for first in range(0, len(points), length):
        chosen = slice(first, first + length)
        echoes = points[chosen][present[chosen]]
        if len(echoes) < 3:
            continue
        axis = np.linalg.eigh(np.cov(echoes.real, echoes.imag))[1][:, 1]
        before = axis if axis @ before >= 0 else -axis  # same direction as in the stretch before
        made[chosen] = steps[chosen].real * before[0] + steps[chosen].imag * before[1]
    return np.asarray(made / np.abs(points[present]).mean())


def extract(recording: Recording, epochs: EpochGrid, recipe: RadarRecipe) -> Extracted:
    """Return features (n_epochs, 1, n_features) and their names; NaN in epochs mostly without an echo."""
    phase = radar_phase(recording, recipe.rate_hz)
    if phase.rate_hz < 2 * recipe.heart_band[1]:
        found = f"the phase of recording {recording.id!r} has {phase.rate_hz:g} Hz"
        raise InputError(f"{found}, too slow for a heart_band to {recipe.heart_band[1]:g} Hz.")
    moving, rms = find_movement(phase, recipe.movement_times)
    still = ~np.repeat(moving, round(phase.rate_hz))
    still = np.pad(still, (0, len(phase.values) - len(still)), constant_values=True)
    usable = still & phase.is_present
    breath, pulse = (
        _rhythms(np.where(usable, part, np.nan), phase.rate_hz, epochs, recipe, band, recording.id)
        for part, band in zip(
            separate(phase, still, recipe), (recipe.breathing_band, recipe.heart_band), strict=True
        )
    )
    second = round(phase.rate_hz) / phase.rate_hz
    index, speed = _per_epoch(moving.astype(np.float64), epochs, second), _per_epoch(rms**2, epochs, second)
    around = recipe.variability_minutes * 60 / epochs.epoch_seconds
    usual_amplitude = np.maximum(_rolling_mean(breath.amplitude, around), 1e-12)
    columns: Columns = {
        "breathing_rate_per_min": 60 * breath.rate_hz,
        "breathing_amplitude_rad": breath.amplitude,  # half the range of the phase from breath to breath
        "breathing_concentration": breath.concentration,
        "breathing_rate_sd_per_min": _rolling_sd(60 * breath.rate_hz, around),  # REM is irregular
        "breathing_amplitude_cv": _rolling_sd(breath.amplitude, around) / usual_amplitude,
        "heart_rate_per_min": 60 * pulse.rate_hz,
        "heart_amplitude_rad": pulse.amplitude,
        "heart_concentration": pulse.concentration,
        "body_movement_index": index,  # share of the epoch's seconds with movement
        "movement_speed_db": 10 * np.log10(np.maximum(speed, 1e-12)),  # root mean square in rad/s
        "movement_around": _rolling_mean(index, recipe.movement_minutes * 60 / epochs.epoch_seconds),
        "minutes_since_movement": _minutes_since(moving, epochs, second),
    }
    values = np.stack(list(columns.values()), axis=1)[:, None, :]
    present = _per_epoch(phase.is_present.astype(np.float64), epochs, 1 / phase.rate_hz)
    values[present < LEAST_SHARE] = np.nan
    return values.astype(np.float32), tuple(columns)


def separate(phase: Phase, still: Mask, recipe: RadarRecipe) -> tuple[Floats, Floats]:
    """Return breathing and heartbeat in rad; changes of phase during movement are left out."""
    steps = np.diff(phase.values, prepend=phase.values[0])
    calm = np.cumsum(np.where(still & phase.is_present, steps, 0.0))
    calm -= calm.mean()
    low, high = recipe.breathing_band
    # a little wider than the band searched for the rate, so that a rhythm at its edge keeps its amplitude
    breathing = _band_pass(calm, phase.rate_hz, (0.8 * low, 1.2 * high), seconds=4 / low)
    return breathing, _band_pass(calm, phase.rate_hz, recipe.heart_band, seconds=8.0)


def _band_pass(values: Floats, rate_hz: float, band: tuple[float, float], seconds: float) -> Floats:
    """Return the part of a series within a band in Hz, by a filter of some seconds without delay."""
    n_taps = min(round(seconds * rate_hz), 2 * len(values) - 3) | 1
    filters = library("scipy.signal", "features of radar")
    low, high = (filters.firwin(n_taps, edge, fs=rate_hz) for edge in band)
    padded = np.pad(values, n_taps // 2, mode="reflect", reflect_type="odd")
    return np.asarray(filters.oaconvolve(padded, high - low, mode="valid"))


def find_movement(phase: Phase, times: float) -> tuple[Mask, Floats]:
    """Return per second whether the body moved, and the root mean square speed in rad/s, NaN if unknown."""
    per_second = round(phase.rate_hz)
    n_seconds = len(phase.values) // per_second
    speed = np.gradient(phase.values) * phase.rate_hz
    speed = np.where(phase.is_present, speed, np.nan)[: n_seconds * per_second].reshape(n_seconds, per_second)
    n_known = np.isfinite(speed).sum(axis=1)
    mean_square = np.nansum(speed**2, axis=1) / np.maximum(n_known, 1)
    rms = np.where(n_known >= per_second / 2, np.sqrt(mean_square), np.nan)
    known = rms[np.isfinite(rms)]
    return rms > times * (float(np.median(known)) if len(known) else np.nan), rms


def _rhythms(
    series: Floats,
    rate_hz: float,
    epochs: EpochGrid,
    recipe: RadarRecipe,
    band: tuple[float, float],
    name: str,
) -> Rhythm:
    """Return the rhythm around each epoch, interpolated over epochs with too much movement."""
    n_samples = round(min(recipe.window_seconds, len(series) / rate_hz) * rate_hz)
    middles = (np.arange(epochs.n_epochs) + 0.5) * epochs.epoch_seconds * rate_hz
    starts = np.clip(np.rint(middles - n_samples / 2), 0, len(series) - n_samples).astype(np.int64)
    blocks = windows.blocks_of_windows(starts, n_samples)
    parts = [_strongest_rhythm(series[at], rate_hz, band) for _, at in blocks]
    whole = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    known = np.flatnonzero(np.isfinite(whole[0]))
    if not len(known):
        still = recipe.window_seconds / 2
        raise InputError(f"the radar of recording {name!r} is never still for {still:g} s.")
    everywhere = np.arange(epochs.n_epochs)
    return Rhythm(*(np.interp(everywhere, known, column[known]) for column in whole))


def _strongest_rhythm(parts: Floats, rate_hz: float, band: tuple[float, float]) -> Rhythm:
    """Return the strongest rhythm within a band in Hz of windows (n, n_samples)."""
    present = np.isfinite(parts)
    filled = np.where(present, parts, 0.0)
    n_samples, rows = parts.shape[1], np.arange(len(parts))
    power = np.abs(np.fft.rfft(filled * np.hanning(n_samples), FINER * n_samples)) ** 2
    spacing = rate_hz / (FINER * n_samples)
    first, end = int(np.ceil(band[0] / spacing)), int(band[1] / spacing) + 1
    inside = power[:, first:end]
    # the highest line that is above both of its neighbours, else the highest line
    is_peak = (inside[:, 1:-1] > inside[:, :-2]) & (inside[:, 1:-1] >= inside[:, 2:])
    peaks = np.where(is_peak, inside[:, 1:-1], -1.0)
    line = np.where(peaks.max(axis=1) > 0, peaks.argmax(axis=1) + 1, inside.argmax(axis=1))
    at = np.clip(first + line, 1, power.shape[1] - 2)
    beside = (np.log(np.maximum(power[rows, at + step], 1e-300)) for step in (-1, 0, 1))
    rate = (first + line + np.clip(windows.vertex(*beside), -0.5, 0.5)) * spacing
    # half the width of the Hann window's main lobe
    near = np.abs(np.arange(inside.shape[1]) - line[:, None]) <= 2 * FINER
    usable = (present.mean(axis=1) >= LEAST_SHARE) & (inside.sum(axis=1) > 0)
    total = np.where(usable, inside.sum(axis=1), np.nan)
    amplitude = np.sqrt(2 * (filled**2).sum(axis=1) / np.maximum(present.sum(axis=1), 1))
    nothing = total * 0  # NaN where there is no rhythm
    return Rhythm(rate + nothing, amplitude + nothing, (inside * near).sum(axis=1) / total)


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
    sums = cumulative(values)
    epochs = np.arange(len(values))
    first, end = np.maximum(epochs - reach, 0), np.minimum(epochs + reach + 1, len(values))
    return np.asarray((sums[end] - sums[first]) / (end - first))


def _rolling_sd(values: Floats, width: float) -> Floats:
    centred = values - values.mean()  # keeps the difference of squares accurate
    variance = _rolling_mean(centred**2, width) - _rolling_mean(centred, width) ** 2
    return np.sqrt(np.maximum(variance, 0.0))


def _minutes_since(moving: Mask, epochs: EpochGrid, second: float) -> Floats:
    """Return the time from the last movement to each epoch's end, at most half an hour."""
    moments = np.append(-np.inf, (np.flatnonzero(moving) + 1) * second)
    last = np.searchsorted(moments, epochs.edges[1:] + 1e-6, side="right") - 1
    return np.asarray(np.minimum((epochs.edges[1:] - moments[last]) / 60, LONGEST_STILL_MINUTES))


PAPER_Z = 5.0
PAPER_DROPOUT_EPOCHS = 2
SEGMENT_SECONDS = 5.0  # about a breath
LIMITS = (5.0, 10.0, 0.001)  # of the graded rules, see `Segments.flags`


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch: the worse of I and Q.

    The paper's rules mark amplitudes beyond 5 deviations of this recording, and two or more epochs without a
    signal. "graded" is the share of segments of 5 s that are missing, flat, clipped or too large.
    """
    parts = []
    for role, signal in radar_channels(recording).items():
        per_epoch = 1 if rules == "kdd2026" else max(1, round(epochs.epoch_seconds / SEGMENT_SECONDS))
        segments = measure_segments(signal, epochs, per_epoch, spectra=False)
        if rules == "kdd2026":
            flags = {
                f"{role}: dropout": windows.long_runs(segments.lost(), PAPER_DROPOUT_EPOCHS),
                f"{role}: amplitude": segments.is_extreme(PAPER_Z),
            }
        else:
            flags = segments.flags(role, *LIMITS)
        parts.append(from_flags(flags))
    return worst(parts)
