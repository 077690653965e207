"""Power spectra of many short windows: tapers, missing samples, bins."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from stageguard.base.arrays import Floats, Floats32
from stageguard.base.errors import InputError
from stageguard.base.extras import library

Taper = Literal["multitaper", "hann"]


@lru_cache(maxsize=32)
def tapers(kind: Taper, n_samples: int, time_bandwidth: float = 2.0, n_tapers: int = 3) -> Floats32:
    """Return tapers (n_tapers, n_samples), each of energy 1: one Hann window, or Slepian sequences.

    These average over several independent looks at the same window. ``time_bandwidth`` is half their
    bandwidth times the length of the window.
    """
    if kind == "hann":
        made = np.hanning(n_samples + 1)[None, :-1]  # periodic
    else:
        windows = library(
            "scipy.signal.windows", 'a multitaper spectrogram (a recipe with taper = "hann" does not)'
        )
        made = np.asarray(windows.dpss(n_samples, time_bandwidth, n_tapers))
    made = made / np.sqrt((made**2).sum(axis=1, keepdims=True))
    kept: Floats32 = made.astype(np.float32)
    kept.flags.writeable = False
    return kept


def frequencies(n_samples: int, rate_hz: float) -> Floats:
    """Return the frequencies of a spectrum in Hz, from 0 to half the rate."""
    return np.asarray(np.fft.rfftfreq(n_samples, 1 / rate_hz), dtype=np.float64)


def power_spectra(
    windows: Floats, rate_hz: float, using: Floats32, end: int | None = None
) -> tuple[Floats32, Floats]:
    """Return one-sided power densities (..., n_frequencies) of windows, and the share that each is missing.

    The mean is taken off first. Missing samples (NaN) count as 0 afterwards, and the power is divided by the
    share of the taper's energy that is left, so that noise keeps its level. A window without a sample has no
    power; one whose samples are all the same is missing as a whole. Windows may be overwritten; with ``end``
    only the first so many frequencies are kept.
    """
    lost, centred = _centred(windows)
    n_frequencies = windows.shape[-1] // 2 + 1
    end = n_frequencies if end is None else min(end, n_frequencies)
    power = np.zeros((*windows.shape[:-1], end), dtype=np.float32)
    for taper in using:
        spectrum = np.fft.rfft(centred * taper)[..., :end]
        power += spectrum.real**2 + spectrum.imag**2
    power *= np.float32(2.0 / (rate_hz * len(using)))
    power[..., 0] /= 2
    if end == n_frequencies and windows.shape[-1] % 2 == 0:
        power[..., -1] /= 2
    partial = (lost > 0) & (lost < 1)
    if partial.any():
        energy = (using**2).mean(axis=0)
        power[partial] /= (np.isfinite(windows[partial]) @ energy)[:, None]
    return power, lost


def _centred(windows: Floats) -> tuple[Floats, Floats32]:
    """Return the share of missing samples per window, and windows about 0 with nothing for the missing."""
    total = windows.sum(axis=-1)
    if np.isfinite(total).all():
        lost = np.zeros(windows.shape[:-1])
        centred = (windows - (total / windows.shape[-1])[..., None]).astype(np.float32)
    else:
        present = np.isfinite(windows)
        n_present = present.sum(axis=-1)
        lost = 1.0 - n_present / windows.shape[-1]
        mean = np.where(present, windows, 0.0).sum(axis=-1) / np.maximum(n_present, 1)
        centred = np.where(present, windows - mean[..., None], 0.0).astype(np.float32)
    low, high = np.fmin.reduce(windows, axis=-1), np.fmax.reduce(windows, axis=-1)
    flat = (low == high) | np.isnan(low)  # all samples there are one and the same, or there are none
    lost[flat] = 1.0
    centred[flat] = 0.0
    return lost, centred


def bin_matrix(lines: Floats, edges: Sequence[tuple[float, float]], what: str) -> Floats32:
    """Return the matrix (n_lines, n_bins) that averages evenly spaced spectral lines into bins.

    A line on the lower edge of a bin belongs to it, one on the upper does not. 0 Hz belongs to none.
    """
    spacing = lines[1]
    matrix = np.zeros((len(lines), len(edges)), dtype=np.float32)
    for column, (low, high) in enumerate(edges):
        if high > lines[-1] + spacing:
            raise InputError(
                f"{what} is sampled at {2 * lines[-1]:g} Hz, too slowly for {low:g} to {high:g} Hz. Map "
                "another channel, or use a recipe with lower frequencies or without this channel."
            )
        inside = (lines >= low - 1e-6 * spacing) & (lines < high - 1e-6 * spacing) & (lines > 0)
        if not inside.any():
            raise InputError(
                f"no spectral line of {what} falls into {low:g} to {high:g} Hz: a window of {1 / spacing:g} "
                f"s tells {spacing:g} Hz apart. Widen the bins, or lengthen the windows."
            )
        matrix[inside, column] = 1.0 / inside.sum()
    return matrix
