"""Heartbeats of a recording and the intervals between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats, Mask
from stageguard.base.errors import InputError
from stageguard.base.extras import library
from stageguard.base.units import quantity_of
from stageguard.night.recording import Recording, Series, Signal
from stageguard.signals.windows import read_samples, runs, steady_signal, timed_values, vertex

PLAUSIBLE_SECONDS = (0.3, 2.0)  # 200 and 30 beats per minute
BLOCK_SECONDS, OVERLAP_SECONDS = 300.0, 15.0  # an artefact upsets the detector for one block only
LEAST_SECONDS = 5.0  # the detector learns its thresholds in the first two
REFRACTORY_SECONDS = 0.2
PEAK_REACH_SECONDS = 0.06  # how far the top of an R wave may be from where the detector puts the beat
LEAST_FIRST_HEIGHT = 0.4  # of the usual height
FLAT_SECONDS = 2.0  # an ECG that does not change at all for so long is not connected
PATCH_SECONDS = 0.1  # shorter holes are bridged
LEAST_RATE_HZ = 61.0  # the detector looks at 5 to 30 Hz
LOCAL_BEATS = 11


@dataclass(frozen=True, slots=True)
class Beats:
    """Heartbeats in order of time."""

    times: Floats  # (n,) seconds since the recording's start
    intervals: Floats  # (n,) seconds since the beat before; NaN where the signal was interrupted between them

    @property
    def is_plausible(self) -> Mask:
        """Whether each interval is that of a heart rate from 30 to 200 beats per minute."""
        low, high = PLAUSIBLE_SECONDS
        return np.asarray((self.intervals >= low) & (self.intervals <= high))

    def normal(self, tolerance: float) -> Mask:
        """Whether each interval is plausible and near its neighbours, as those of normal beats are.

        Near is a share of the median of the 11 plausible intervals around. An ectopic beat makes one interval
        too short and one too long.
        """
        kept = np.flatnonzero(self.is_plausible)
        normal = np.zeros(len(self.times), dtype=np.bool_)
        if len(kept):
            intervals = self.intervals[kept]
            usual = _running_median(intervals, LOCAL_BEATS)
            normal[kept] = np.abs(intervals - usual) <= tolerance * usual
        return normal


def has_beats(recording: Recording) -> bool:
    """Whether a recording has beats or an ECG to find them in."""
    return "beats" in recording.signals or "ecg" in recording.signals


def find_beats(recording: Recording) -> Beats:
    """Return a recording's heartbeats: those it brings, else found in its ECG.

    An ECG is searched by `sleepecg` (Pan and Tompkins 1985, modified) in blocks that overlap, so that memory
    does not grow with the recording.
    """
    if "beats" in recording.signals:
        return _given(recording, recording.signals["beats"])
    if "ecg" not in recording.signals:
        known = ", ".join(recording.signals) or "none"
        raise InputError(
            f"recording {recording.id!r} has neither channel 'ecg' nor 'beats'; it has: {known}. Map one "
            "with channels={'ecg': NAME} or --channel ecg=NAME."
        )
    signal = steady_signal(recording, "ecg")
    if signal.unit and quantity_of(signal.unit) not in (None, "voltage"):
        raise InputError(
            f"channel 'ecg' ({signal.name}) is in {signal.unit!r}, expected a voltage such as 'mV'. Map "
            "another one with --channel ecg=NAME, or correct its unit."
        )
    if signal.rate_hz < LEAST_RATE_HZ:
        raise InputError(
            f"channel 'ecg' ({signal.name}) has {signal.rate_hz:g} samples per second, expected more than "
            f"{LEAST_RATE_HZ:g} to find heartbeats. Map a faster one, or beat times as 'beats'."
        )
    times, lost = _detected(signal)
    return Beats(times, _intervals(times, lost))


def _given(recording: Recording, channel: Signal | Series) -> Beats:
    """Return beats whose times, and perhaps intervals, a recording brings."""
    if not isinstance(channel, Series):
        raise InputError(
            f"channel 'beats' of recording {recording.id!r} is sampled at a steady rate, expected the times "
            "of beats. Map an ECG as 'ecg' instead."
        )
    _, intervals = timed_values(channel, "s", "channel 'beats'")
    known = np.isfinite(intervals) & (intervals > 0)
    steps = np.append(np.nan, np.diff(channel.times))
    intervals = np.where(known, intervals, steps)
    if abs(intervals[0] - channel.times[0]) < 1e-3:
        intervals[0] = np.nan  # counted from the recording's start, where no beat was
    usual = float(np.nanmedian(intervals)) if np.isfinite(intervals).any() else 0.0
    if not PLAUSIBLE_SECONDS[0] <= usual <= PLAUSIBLE_SECONDS[1]:
        raise InputError(
            f"channel 'beats' of recording {recording.id!r} has an interval of {usual:.3g} s in the median, "
            "expected 0.3 to 2 s. Say its unit, for example 'ms', or map another."
        )
    return Beats(channel.times, intervals)


def _intervals(times: Floats, lost: list[tuple[float, float]]) -> Floats:
    """Return the time from each beat to the one before, NaN where a lost stretch lies between."""
    intervals = np.append(np.nan, np.diff(times)) if len(times) else np.zeros(0)
    for first, end in lost:
        after = int(np.searchsorted(times, (first + end) / 2))
        if after < len(times):
            intervals[after] = np.nan
    return intervals


def _detected(signal: Signal) -> tuple[Floats, list[tuple[float, float]]]:
    """Return times of beats, and stretches of time without a signal."""
    sleepecg = library("sleepecg", "heartbeats from an ECG")
    beats: list[Floats] = []
    lost: list[tuple[float, float]] = []
    block, overlap = (round(seconds * signal.rate_hz) for seconds in (BLOCK_SECONDS, OVERLAP_SECONDS))
    for first in range(0, signal.n_samples, block):
        end = min(first + block, signal.n_samples)
        begin, stop = max(first - overlap, 0), min(end + overlap, signal.n_samples)
        samples = read_samples(signal, begin, stop)
        usable = _usable(samples, signal.rate_hz)
        for a, b in zip(*runs(~usable), strict=True):
            a, b = max(a + begin, first), min(b + begin, end)
            if a < b:
                lost.append((a / signal.rate_hz, b / signal.rate_hz))
        for a, b in zip(*runs(usable), strict=True):
            if b - a < LEAST_SECONDS * signal.rate_hz:
                continue
            piece = np.ascontiguousarray(samples[a:b])
            peaks = np.asarray(sleepecg.detect_heartbeats(piece, signal.rate_hz))
            peaks = (_refined(piece, peaks, signal.rate_hz) + (a + begin)) / signal.rate_hz
            beats.append(peaks[(peaks >= first / signal.rate_hz) & (peaks < end / signal.rate_hz)])
    times = np.sort(np.concatenate(beats)) if beats else np.zeros(0)
    # where two blocks meet, a beat may be seen by both
    times = times[np.append(np.inf, np.diff(times)) >= REFRACTORY_SECONDS] if len(times) else times
    return times, lost


def _usable(samples: Floats, rate_hz: float) -> Mask:
    """Bridge short holes in place, and tell which samples are a signal: not missing, not a long flat line."""
    there = np.isfinite(samples)
    if not there.all() and there.any():
        for a, b in zip(*runs(~there), strict=True):
            if a > 0 and b < len(samples) and b - a <= PATCH_SECONDS * rate_hz:
                samples[a:b] = np.linspace(samples[a - 1], samples[b], b - a + 2)[1:-1]
                there[a:b] = True
    usable = there.copy()
    same = np.append(False, samples[1:] == samples[:-1])
    for a, b in zip(*runs(same), strict=True):
        if b - a + 1 >= FLAT_SECONDS * rate_hz:
            usable[a - 1 : b] = False
    return usable


def _refined(samples: Floats, peaks: npt.NDArray[np.integer], rate_hz: float) -> Floats:
    """Return where the R waves near the beats found are highest, to a fraction of a sample.

    Whether they point up or down is decided for all of them together, so that no beat is taken at R and the
    next at S. A first beat far lower than the others is none: the detector must find one within a second.
    """
    reach = max(round(PEAK_REACH_SECONDS * rate_hz), 1)
    inner = np.clip(peaks, reach + 1, len(samples) - reach - 2)
    if not len(peaks):
        return np.zeros(0)
    around = samples[inner[:, None] + np.arange(-reach - 1, reach + 2)]
    around = around - np.median(around, axis=1, keepdims=True)
    up, down = around.max(axis=1), -around.min(axis=1)
    around, height = (around, up) if np.median(up) >= np.median(down) else (-around, down)
    row = np.arange(len(inner))
    top = around[:, 1:-1].argmax(axis=1) + 1
    left, centre, right = (around[row, top + step] for step in (-1, 0, 1))
    shift = vertex(left, centre, right, (centre >= left) & (centre >= right))
    refined = inner - reach - 1 + top + shift
    return np.asarray(refined[1:] if height[0] < LEAST_FIRST_HEIGHT * np.median(height) else refined)


def _running_median(values: Floats, length: int) -> Floats:
    """Return the median of the values around each; at the ends of the first and of the last of them."""
    length = min(length, len(values) - (len(values) + 1) % 2)
    half = length // 2
    windows = np.lib.stride_tricks.sliding_window_view(values, length)
    middle = np.median(windows, axis=1)
    return np.pad(middle, (half, len(values) - len(middle) - half), mode="edge")
