"""Features and quality of radar: breathing, heartbeat and body movement from the phase of the echo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from stageguard import schema
from stageguard.arrays import Floats, Ints, Mask
from stageguard.errors import InputError, warn
from stageguard.night.recording import EpochGrid, Recording, Signal
from stageguard.signals.quality import (
    Assessed,
    from_flags,
    measure_segments,
    worst,
)
from stageguard.signals.windows import (
    LEAST_SHARE,
    Columns,
    Extracted,
    blocks_of_windows,
    cumulative,
    decimate,
    flat_samples,
    long_runs,
    low_pass_taps,
    steady_signal,
    vertex,
)
from stageguard.units import to_unit

CENTRE_SECONDS = 300.0  # a circle is fitted to each stretch of this length
FLAT_SECONDS = 2.0  # a constant signal for this long is no echo


@dataclass(frozen=True, slots=True)
class Phase:
    """Phase at a steady rate."""

    values: Floats  # (n,) unwrapped, in rad; constant while nothing is recorded
    is_present: Mask  # (n,) whether anything was recorded
    rate_hz: float


@dataclass(frozen=True, slots=True)
class Circle:
    """A circle fitted to points of the I/Q plane, with the error of the fit and the height of the arc."""

    i: float
    q: float
    radius: float
    residual: float
    sagitta: float

    @property
    def is_sound(self) -> bool:
        """Whether the points show a bend that is more than noise."""
        return self.residual < 0.2 * self.radius and self.sagitta > 3 * self.residual


def radar_phase(recording: Recording, rate_hz: float, demodulation: str = "auto") -> Phase:
    """Return the phase of the echo at ``rate_hz`` or above, from "radar_phase" if recorded, else from I/Q.

    "arctangent" takes the angle about the centre of the circle on which I and Q move; reflections from
    objects at rest determine the centre. "linear" takes the distance along the main axis of I and Q, for arcs
    too short to fit a circle. Its unit is the mean distance from the origin, which is 1 rad if nothing else
    reflects. "auto" takes "arctangent" if a circle is found, else "linear" with a warning.
    """
    channels = radar_channels(recording)
    if "radar_phase" in channels:
        # as points on a circle, so that unwrapped and wrapped phases give the same result
        signal = channels["radar_phase"]
        real, rate = decimate(map_phase(signal, np.cos), rate_hz)
        imaginary, _ = decimate(map_phase(signal, np.sin), rate_hz)
        demodulation = "origin"
    else:
        (real, rate), (imaginary, _) = (decimate(signal, rate_hz) for signal in channels.values())
        n_both = min(len(real), len(imaginary))
        real, imaginary = real[:n_both], imaginary[:n_both]
    present = np.isfinite(real) & np.isfinite(imaginary) & ~_is_still(real, imaginary, rate)
    if np.count_nonzero(present) < FLAT_SECONDS * rate:
        raise InputError(
            f"the radar of recording {recording.id!r} is flat or missing throughout. Map other channels with "
            "--channel radar_i=NAME --channel radar_q=NAME."
        )
    steps = _steps(real, imaginary, present, rate, demodulation, recording.id)
    return Phase(np.cumsum(steps), present, rate)


def radar_channels(recording: Recording) -> dict[str, Signal]:
    """Return "radar_phase", or "radar_i" and "radar_q"; the error says how to map missing channels."""
    if "radar_phase" in recording.signals:
        return {"radar_phase": steady_signal(recording, "radar_phase", quantity="angle")}
    for role in ("radar_i", "radar_q"):
        recording.channel("radar_phase", role)  # the error names both ways
    pair = {role: steady_signal(recording, role) for role in ("radar_i", "radar_q")}
    rates = [signal.rate_hz for signal in pair.values()]
    if rates[0] != rates[1]:
        raise InputError(
            f"'radar_i' has {rates[0]:g} Hz and 'radar_q' {rates[1]:g} Hz, expected one rate for both. Map a "
            "pair of channels with --channel radar_i=NAME --channel radar_q=NAME."
        )
    return pair


def fit_circle(i: Floats, q: Floats) -> Circle:
    """Return the circle nearest to points by Taubin's fit (1991), which is not too small for short arcs."""
    mean_i, mean_q = i.mean(), q.mean()
    x, y = i - mean_i, q - mean_q
    square = x**2 + y**2
    mean_square = square.mean()
    if mean_square <= 0:
        return Circle(float(mean_i), float(mean_q), 0.0, 0.0, 0.0)
    scaled = (square - mean_square) / (2 * np.sqrt(mean_square))
    vector = np.linalg.svd(np.stack([scaled, x, y], axis=1), full_matrices=False)[2][2]
    bend = vector[0] / (2 * np.sqrt(mean_square))
    if abs(bend) < 1e-12 / np.sqrt(mean_square):  # a straight line
        return Circle(float(mean_i), float(mean_q), float("inf"), 0.0, 0.0)
    centre_x, centre_y = -vector[1:] / (2 * bend)
    distance = np.hypot(x - centre_x, y - centre_y)
    radius = float(np.sqrt(vector[1] ** 2 + vector[2] ** 2 + 4 * bend**2 * mean_square) / abs(2 * bend))
    residual = float(np.sqrt(np.mean((distance - radius) ** 2)))
    angles = np.unwrap(np.arctan2(y - centre_y, x - centre_x))
    arc = min(float(np.subtract(*np.percentile(angles, [95, 5]))), 2 * np.pi)
    sagitta = radius * (1 - np.cos(arc / 2))
    return Circle(float(mean_i + centre_x), float(mean_q + centre_y), radius, residual, float(sagitta))


def _steps(
    real: Floats, imaginary: Floats, present: Mask, rate: float, demodulation: str, name: str
) -> Floats:
    """Return the change of phase from sample to sample, 0 where either sample is missing."""
    both = present & np.concatenate([[False], present[:-1]])
    points = np.where(present, real + 1j * imaginary, 0.0)
    centres = _centres(real, imaginary, present, rate) if demodulation in ("auto", "arctangent") else None
    if centres is None and demodulation == "auto":
        warn(
            f"recording {name!r}: no circle fits I and Q, so the phase is the way along their main "
            "axis: rates hold, amplitudes are relative."
        )
    if demodulation == "linear" or (centres is None and demodulation == "auto"):
        return _linear_steps(points, present, both, rate)
    turned = points if centres is None else points - centres
    steps = np.angle(turned[1:] * np.conj(turned[:-1]), deg=False)
    return np.where(both, np.concatenate([[0.0], steps]), 0.0)


def _linear_steps(points: npt.NDArray[np.complex128], present: Mask, both: Mask, rate: float) -> Floats:
    """Return the steps along each stretch's main axis, in units of the mean distance from the origin."""
    length = max(2, round(CENTRE_SECONDS * rate))
    size = np.abs(points[present]).mean()
    steps = np.concatenate([[0.0], np.diff(points)])
    made = np.zeros(len(points))
    before = np.array([1.0, 0.0])
    for first in range(0, len(points), length):
        chosen = slice(first, first + length)
        echoes = points[chosen][present[chosen]]
        if len(echoes) < 3:
            continue
        spread = np.cov(echoes.real, echoes.imag)
        axis = np.linalg.eigh(spread)[1][:, 1]
        axis = axis if axis @ before >= 0 else -axis  # same direction as in the stretch before
        made[chosen] = (steps[chosen].real * axis[0] + steps[chosen].imag * axis[1]) / size
        before = axis
    return np.where(both, made, 0.0)


def _centres(
    real: Floats, imaginary: Floats, present: Mask, rate: float
) -> npt.NDArray[np.complex128] | None:
    """Return the circle's centre at every sample, from stretches with a sound circle; None without any."""
    length = round(CENTRE_SECONDS * rate)
    middles: list[float] = []
    centres: list[complex] = []
    for first in range(0, len(real), length):
        chosen = np.flatnonzero(present[first : first + length]) + first
        if len(chosen) < 10 * rate:
            continue
        circle = fit_circle(real[chosen], imaginary[chosen])
        if circle.is_sound:
            middles.append(float(chosen.mean()))
            centres.append(complex(circle.i, circle.q))
    if not centres:
        return None
    samples = np.arange(len(real))
    parts = [np.interp(samples, middles, [getattr(c, part) for c in centres]) for part in ("real", "imag")]
    return np.asarray(parts[0] + 1j * parts[1], dtype=np.complex128)


def _is_still(real: Floats, imaginary: Floats, rate: float) -> Mask:
    """Whether neither part changes, not even by noise, for at least two seconds."""
    size = max(float(np.nanmax(np.abs(part), initial=0.0)) for part in (real, imaginary))
    with np.errstate(invalid="ignore"):
        same = (np.abs(np.diff(real)) <= 1e-9 * size) & (np.abs(np.diff(imaginary)) <= 1e-9 * size)
    return flat_samples(same, FLAT_SECONDS * rate)


@dataclass(frozen=True, slots=True)
class _MappedPhase:
    """A function of a phase's samples in rad, computed when they are read; missing samples are NaN."""

    signal: Signal
    function: Callable[[Floats], Floats]

    def __len__(self) -> int:
        return self.signal.n_samples

    def __getitem__(self, where: slice) -> Floats:
        values = self.signal.read(where.start, where.stop)
        angles = to_unit(values, self.signal.unit, "rad") if self.signal.unit else values
        return np.asarray(self.function(np.where(np.isfinite(angles), angles, np.nan)))


def map_phase(signal: Signal, function: Callable[[Floats], Floats]) -> Signal:
    """Return a signal that applies a function to the angles (rad) of each slice that is read."""
    return Signal(signal.name, _MappedPhase(signal, function), signal.rate_hz, "")


FINER = 4  # zero padding: this many spectral lines per line that the window resolves


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The strongest rhythm of each window; NaN where less than half of the window is present."""

    rate_hz: Floats
    amplitude: Floats  # of a sine with the same power: the square root of twice the power in the band
    # share of the band's power at this frequency: near 1 for a steady rhythm, near 0.2 for noise
    concentration: Floats


def band_pass(values: Floats, rate_hz: float, band: tuple[float, float], seconds: float) -> Floats:
    """Return the part of a series (without NaN) within a band in Hz, without delay.

    The gain is one half at the band's edges. The filter is ``seconds`` long, and its edges are about
    3.3 / ``seconds`` Hz wide.
    """
    n_taps = min(round(seconds * rate_hz), 2 * len(values) - 3) | 1
    taps = low_pass_taps(band[1] / rate_hz, n_taps) - low_pass_taps(band[0] / rate_hz, n_taps)
    padded = np.pad(values, n_taps // 2, mode="reflect", reflect_type="odd")
    n_fft = 1 << (max(16_384, 4 * n_taps) - 1).bit_length()
    step = n_fft - n_taps + 1
    spectrum = np.fft.rfft(taps, n_fft)
    filtered = np.empty(len(values))
    for first in range(0, len(values), step):  # overlap-save: keep only the part free of wrap-around
        piece = np.fft.irfft(np.fft.rfft(padded[first : first + n_fft], n_fft) * spectrum, n_fft)
        filtered[first : first + step] = piece[n_taps - 1 :][: len(values) - first]
    return filtered


def strongest_rhythm(windows: Floats, rate_hz: float, band: tuple[float, float]) -> Rhythm:
    """Return the strongest rhythm within a band in Hz of windows (n, n_samples); NaN is a missing sample."""
    present = np.isfinite(windows)
    share = present.mean(axis=1)
    usable = share >= LEAST_SHARE
    filled = np.where(present, windows, 0.0)
    n_samples = windows.shape[1]
    n_fft = FINER * n_samples
    power = np.abs(np.fft.rfft(filled * np.hanning(n_samples), n_fft)) ** 2
    spacing = rate_hz / n_fft
    first, end = int(np.ceil(band[0] / spacing)), int(band[1] / spacing) + 1
    inside = power[:, first:end]
    line = _highest_peaks(inside)
    at = np.clip(first + line, 1, power.shape[1] - 2)
    beside = (np.log(np.maximum(power[np.arange(len(power)), at + step], 1e-300)) for step in (-1, 0, 1))
    rate = (first + line + np.clip(vertex(*beside), -0.5, 0.5)) * spacing
    reach = 2 * FINER  # half the width of the Hann window's main lobe
    columns = np.arange(inside.shape[1])
    near = np.abs(columns - line[:, None]) <= reach
    with np.errstate(invalid="ignore", divide="ignore"):
        concentration = (inside * near).sum(axis=1) / inside.sum(axis=1)
        amplitude = np.sqrt(2 * (filled**2).sum(axis=1) / present.sum(axis=1))
    blank = ~usable | (inside.sum(axis=1) <= 0)
    return Rhythm(*(np.where(blank, np.nan, column) for column in (rate, amplitude, concentration)))


def _highest_peaks(power: Floats) -> Ints:
    """Return the index of the highest line that is above both of its neighbours, else of the highest line."""
    rises = power[:, 1:-1] > power[:, :-2]
    falls = power[:, 1:-1] >= power[:, 2:]
    peaks = np.where(rises & falls, power[:, 1:-1], -1.0)
    inner = peaks.argmax(axis=1)
    has_peak = peaks[np.arange(len(power)), inner] > 0
    return np.asarray(np.where(has_peak, inner + 1, power.argmax(axis=1)), dtype=np.int64)


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


SETTINGS = BioradarSettings  # by which `features` reads this modality's recipes


def extract(recording: Recording, epochs: EpochGrid, settings: BioradarSettings) -> Extracted:
    """Return features (n_epochs, 1, n_features) and their names; NaN in epochs mostly without an echo."""
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


def _table(phase: Phase, epochs: EpochGrid, settings: BioradarSettings, name: str) -> Extracted:
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
    values[~(present >= LEAST_SHARE)] = np.nan
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
    parts = [strongest_rhythm(series[at], rate_hz, band) for _, at in blocks_of_windows(starts, n_samples)]
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
    sums = cumulative(values)
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
        channels["radar_phase"] = map_phase(channels["radar_phase"], _unwrap)
    return worst([judge(signal, epochs, role) for role, signal in channels.items()])


def _paper(signal: Signal, epochs: EpochGrid, role: str) -> Assessed:
    """Mark amplitudes beyond 5 deviations of this recording, and two or more epochs without a signal."""
    segments = measure_segments(signal, epochs, 1, spectra=False)
    return from_flags(
        {
            f"{role}: dropout": long_runs(segments.lost(), PAPER_DROPOUT_EPOCHS),
            f"{role}: amplitude": segments.is_extreme(PAPER_Z),
        }
    )


def _grade_phase(signal: Signal, epochs: EpochGrid, role: str) -> Assessed:
    """Return the share of the epoch that is missing, flat, clipped or too large, in segments of 5 s."""
    per_epoch = max(1, round(epochs.epoch_seconds / SEGMENT_SECONDS))
    segments = measure_segments(signal, epochs, per_epoch, spectra=False)
    if role == "radar_phase":  # an angle has no limits at which it could clip
        segments = replace(segments, clipped=np.zeros_like(segments.clipped))
    return from_flags(segments.flags(role, GRADED_Z, GRADED_TIMES, FLAT))


def _unwrap(angles: Floats) -> Floats:
    """Return angles without jumps of a full turn; missing angles are skipped."""
    present = np.isfinite(angles)
    angles[present] = np.unwrap(angles[present])
    return angles
