"""Slow rhythms such as breathing: separate their band, find their rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stageguard.base.arrays import Floats, Ints
from stageguard.signals.windows import low_pass_taps, vertex

FINER = 4  # spectral lines between those that the window tells apart
LEAST_PRESENT = 0.5  # of a window, for a rate to be told


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The strongest rhythm of each window; NaN where less than half of the window is there."""

    rate_hz: Floats
    amplitude: Floats  # half its range, if it were a sine: the square root of twice the power in the band
    # share of the band's power at this frequency: near 1 for a clock, near 0.2 for noise
    concentration: Floats


def band_pass(values: Floats, rate_hz: float, band: tuple[float, float], seconds: float) -> Floats:
    """Return what of a series without NaN lies within a band in Hz, whose edges are halved, without delay.

    The filter lasts so many seconds; its edges are about 3.3 over that wide.
    """
    n_taps = min(round(seconds * rate_hz), 2 * len(values) - 3) | 1
    taps = low_pass_taps(band[1] / rate_hz, n_taps) - low_pass_taps(band[0] / rate_hz, n_taps)
    padded = np.pad(values, n_taps // 2, mode="reflect", reflect_type="odd")
    n_fft = 1 << (max(16_384, 4 * n_taps) - 1).bit_length()
    step = n_fft - n_taps + 1
    spectrum = np.fft.rfft(taps, n_fft)
    filtered = np.empty(len(values))
    for first in range(0, len(values), step):  # by pieces, each the part that needs no padding of its own
        piece = np.fft.irfft(np.fft.rfft(padded[first : first + n_fft], n_fft) * spectrum, n_fft)
        filtered[first : first + step] = piece[n_taps - 1 :][: len(values) - first]
    return filtered


def strongest_rhythm(windows: Floats, rate_hz: float, band: tuple[float, float]) -> Rhythm:
    """Return the strongest rhythm within a band in Hz of windows (n, n_samples); NaN is nothing to go by."""
    present = np.isfinite(windows)
    share = present.mean(axis=1)
    usable = share >= LEAST_PRESENT
    filled = np.where(present, windows, 0.0)
    n_samples = windows.shape[1]
    n_fft = FINER * n_samples
    power = np.abs(np.fft.rfft(filled * np.hanning(n_samples), n_fft)) ** 2
    spacing = rate_hz / n_fft
    first, end = int(np.ceil(band[0] / spacing)), int(band[1] / spacing) + 1
    inside = power[:, first:end]
    line = _highest_peaks(inside)
    rate = (first + line + _vertex(power, first + line)) * spacing
    reach = 2 * FINER  # half the width of the Hann window's main lobe
    columns = np.arange(inside.shape[1])
    near = np.abs(columns - line[:, None]) <= reach
    with np.errstate(invalid="ignore", divide="ignore"):
        concentration = (inside * near).sum(axis=1) / inside.sum(axis=1)
        amplitude = np.sqrt(2 * (filled**2).sum(axis=1) / present.sum(axis=1))
    blank = ~usable | (inside.sum(axis=1) <= 0)
    return Rhythm(*(np.where(blank, np.nan, column) for column in (rate, amplitude, concentration)))


def _highest_peaks(power: Floats) -> Ints:
    """Return the place of the highest line that is above both of its neighbours, else of the highest."""
    rises = power[:, 1:-1] > power[:, :-2]
    falls = power[:, 1:-1] >= power[:, 2:]
    peaks = np.where(rises & falls, power[:, 1:-1], -1.0)
    inner = peaks.argmax(axis=1)
    has_peak = peaks[np.arange(len(power)), inner] > 0
    return np.asarray(np.where(has_peak, inner + 1, power.argmax(axis=1)), dtype=np.int64)


def _vertex(power: Floats, line: Ints) -> Floats:
    """Return how far beside a line the parabola through it and its neighbours has its vertex."""
    rows = np.arange(len(power))
    line = np.clip(line, 1, power.shape[1] - 2)
    before, at, after = (np.log(np.maximum(power[rows, line + step], 1e-300)) for step in (-1, 0, 1))
    return np.clip(vertex(before, at, after), -0.5, 0.5)
