"""Heartbeats whose rate and variability follow the stages, and the ECG they make. Detects no beats."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats, Floats32
from stageguard.night.stages import AASM5
from stageguard.synthetic import breath as breath_module
from stageguard.synthetic.appearance import Scatter, levels
from stageguard.synthetic.events import Event
from stageguard.synthetic.noise import drift, held, moments

# Beats per minute; swing with each breath (high frequency) and with blood pressure (low frequency), in beats
# per minute. The order of stages is that of Task Force 1996 (Circulation 93:1043) and Vaughn et al. 1995
# (Electroencephalogr Clin Neurophysiol 94:155); levels are our choice.
BEATS_PER_MINUTE = {"W": 69.0, "N1": 64.0, "N2": 61.0, "N3": 60.0, "R": 64.5}
BREATH_SWING = {"W": 1.6, "N1": 2.2, "N2": 2.8, "N3": 3.2, "R": 1.7}
SLOW_SWING = {"W": 3.4, "N1": 2.6, "N2": 1.8, "N3": 1.2, "R": 3.2}

RATE_SPREAD = Scatter(7.0, 1.8, 2.2)
BREATH_SPREAD = Scatter(0.5, 0.3, 0.4)
SLOW_SPREAD = Scatter(0.4, 0.4, 0.6)

# Waves of a heartbeat: seconds from the R peak, width in seconds, height in mV.
WAVES = (
    (-0.19, 0.025, 0.12),
    (-0.030, 0.010, -0.12),
    (0.0, 0.011, 1.10),
    (0.030, 0.011, -0.25),
    (0.26, 0.045, 0.28),
)


def beat_times(
    rng: np.random.Generator,
    looks: Floats,
    epoch_seconds: float,
    breath: breath_module.Breath,
    apnoeas: list[Event],
    move: Floats | None = None,
) -> Floats:
    """Return when the heart beats, in seconds.

    Parameters
    ----------
    looks : array (n_epochs, 5)
        Share of each AASM stage in the look of every epoch.
    breath : Breath
        Which the heart follows.
    apnoeas : list of Event
        During which it slows down, to race afterwards.
    move : array, optional
        Movement per second, which it answers.
    """
    names = AASM5.names
    n = len(breath.phase)
    times = moments(n, breath_module.RATE_HZ)
    mean = levels(rng, looks, BEATS_PER_MINUTE, names, RATE_SPREAD, epoch_seconds)
    swing = np.maximum(levels(rng, looks, BREATH_SWING, names, BREATH_SPREAD, epoch_seconds), 0.2)
    slow = np.maximum(levels(rng, looks, SLOW_SWING, names, SLOW_SPREAD, epoch_seconds), 0.3)
    rate = _eased(held(mean, epoch_seconds, times)) + held(swing, epoch_seconds, times) * breath.wave
    rate += held(slow, epoch_seconds, times) * _slow_wave(rng, times)
    for event in apnoeas:
        _add_bump(rate, times, -4.0, event.start_seconds + event.seconds / 2, event.seconds / 3)
        _add_bump(rate, times, 9.0, event.end_seconds + 4, 4.0)
    if move is not None:
        effort = np.convolve(move, np.exp(-np.arange(40) / 10), mode="full")[: len(move)]
        rate += 6 * np.minimum(np.interp(times, np.arange(len(effort)) + 0.5, effort), 2.0)
    beats = np.cumsum(np.clip(rate, 32, 185)) / 60 / breath_module.RATE_HZ
    whole = np.arange(1, int(beats[-1]) + 1)
    made = np.interp(whole, beats, times) + rng.normal(0, 0.004, len(whole))
    return np.asarray(np.sort(made[made > 0]))


def ecg(
    rng: np.random.Generator, beats: Floats, breath: breath_module.Breath, rate_hz: float, n_samples: int
) -> Floats32:
    """Return an ECG in mV: a sum of waves around every beat, on a base line that breathes."""
    made = np.zeros(n_samples + 2 * round(rate_hz), dtype=np.float32)
    reach = np.arange(round(-0.30 * rate_hz), round(0.45 * rate_hz) + 1)
    whole = np.floor(beats * rate_hz).astype(np.int64)
    offset = (
        reach[None, :] - (beats * rate_hz - whole)[:, None]
    ) / rate_hz  # seconds from each beat's R peak
    interval = np.clip(np.diff(beats, append=beats[-1] + 0.9), 0.35, 1.6)[:, None]
    waves = np.zeros_like(offset)
    for place, width, height in WAVES:
        own = place * np.sqrt(interval / 0.9) if place > 0.1 else place  # T follows the rate
        waves += height * np.exp(-0.5 * ((offset - own) / width) ** 2)
    size = rng.uniform(0.5, 0.95)
    np.add.at(made, (whole[:, None] + reach[None, :] + round(rate_hz)).ravel(), (size * waves).ravel())
    signal = made[round(rate_hz) : round(rate_hz) + n_samples]
    times = moments(n_samples, rate_hz)
    own_times = moments(len(breath.phase), breath_module.RATE_HZ)
    signal += (0.06 * np.interp(times, own_times, breath.wave)).astype(np.float32)
    signal += rng.normal(0, 0.025, n_samples).astype(np.float32)
    return signal


def _slow_wave(rng: np.random.Generator, times: Floats) -> Floats:
    """Return noise around 0.1 Hz, of variance 1."""
    n_seconds = int(np.ceil(times[-1])) + 2
    seconds = np.arange(n_seconds)
    turn = 2 * np.pi * (0.1 * seconds + 0.15 * np.cumsum(drift(rng, n_seconds, 30)) / 30)
    made = np.sin(turn) * (1 + 0.4 * drift(rng, n_seconds, 40)) + 0.5 * drift(rng, n_seconds, 25)
    return np.asarray(np.interp(times, seconds, made / made.std()))


def _eased(values: Floats) -> Floats:
    """Pass from level to level within some seconds."""
    width = round(8 * breath_module.RATE_HZ)
    padded = np.pad(values, width, mode="edge")
    sums = np.cumsum(np.insert(padded, 0, 0.0))
    smooth = (sums[width:] - sums[:-width]) / width
    first = width - width // 2
    return np.asarray(smooth[first : first + len(values)])


def _add_bump(values: Floats, times: Floats, height: float, centre: float, width: float) -> None:
    near = slice(*np.searchsorted(times, [centre - 4 * width, centre + 4 * width]))
    values[near] += height * np.exp(-0.5 * ((times[near] - centre) / width) ** 2)
