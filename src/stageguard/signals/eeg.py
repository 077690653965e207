"""Features and quality of EEG with EMG: log spectrogram frames with EMG power, or samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Annotated

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats32
from stageguard.documents import Positive, Range, Text
from stageguard.errors import InputError, warn
from stageguard.lazy import library
from stageguard.night.recording import EpochGrid, Recording, Signal
from stageguard.signals import windows
from stageguard.signals.features import Recipe
from stageguard.signals.quality import Assessed, Segments, from_flags, measure_segments, worst
from stageguard.signals.windows import Band, Extracted, Taper

SMALLEST_POWER = np.finfo(np.float32).tiny  # keeps the log finite
MOST_BINS = 10_000
MARGIN_SECONDS = 1.0  # resampled on either side of a block as well, so that no epoch is near an edge


def _run_of_bins(value: tuple[float, float, float], where: str) -> tuple[float, float, float]:
    low, high, width = value
    n_bins = (high - low) / width if width > 0 else 0.0
    if low < 0 or not 1 - 1e-6 <= n_bins <= MOST_BINS or abs(n_bins - round(n_bins)) > 1e-6:
        wanted = f"expected [lower, upper, width] in Hz, of 1 to {MOST_BINS:,} whole widths"
        raise InputError(f"{where} is {checks.shown(list(value))}, {wanted}.")
    return value


MaxMissing = Annotated[float, Range(0, 0.9)]  # an epoch has no features if a larger share is missing


@dataclass(frozen=True, slots=True)
class Spectrogram:
    """Power of some channels in frequency bins, frame by frame."""

    channels: tuple[Text, ...] = ("eeg",)  # roles; each role has its own features
    taper: Taper = "multitaper"
    time_bandwidth: Annotated[float, Range(1, 20)] = 2.0  # of the multitaper's Slepian sequences
    n_tapers: Annotated[int, Range(1, 40)] = 3
    frames: Annotated[int, Range(1, 1000)] = 1  # per epoch
    window_seconds: Annotated[float, Range(above=0, high=600)] = 4.0  # around the middle of each frame
    # runs of bins: low, high, width in Hz
    bins: tuple[Annotated[tuple[float, float, float], _run_of_bins], ...] = ((0.5, 30.5, 1.0),)
    max_missing: MaxMissing = 0.3  # of a window

    def __post_init__(self) -> None:
        """Check that no taper leaks."""
        if self.taper == "multitaper" and self.n_tapers > 2 * self.time_bandwidth:
            most = 2 * self.time_bandwidth
            raise InputError(f"n_tapers is {self.n_tapers}, expected at most 2 x time_bandwidth = {most:g}.")

    @property
    def edges(self) -> list[tuple[float, float]]:
        """Lower and upper edge of every bin in Hz."""
        return [
            (low + k * width, low + (k + 1) * width)
            for low, high, width in self.bins
            for k in range(round((high - low) / width))
        ]


@dataclass(frozen=True, slots=True)
class BandPower:
    """Power of some channels within a band, in the spectrogram's frames."""

    channels: tuple[Text, ...] = ("emg",)  # roles; an empty list leaves it out
    band: Band = (20.0, 50.0)
    repeat: Annotated[int, Range(1, 100)] = 1  # rows of an image; filters could miss a single row


@dataclass(frozen=True, slots=True)
class Samples:
    """The signals themselves at one rate, instead of spectra, for networks that learn their filters."""

    channels: tuple[Text, ...] = ()  # roles; an empty list means spectra
    rate_hz: Annotated[Positive, Range(high=1000)] = 100.0  # signals are resampled to this rate
    max_missing: MaxMissing = 0.3  # of an epoch; smaller gaps are interpolated


@dataclass(frozen=True, slots=True, kw_only=True)
class EegRecipe(Recipe):
    """A recipe for EEG and EMG."""

    spectrogram: Spectrogram = field(default_factory=Spectrogram)
    emg: BandPower = field(default_factory=BandPower)
    samples: Samples = field(default_factory=Samples)


RECIPE = EegRecipe


def extract(recording: Recording, epochs: EpochGrid, recipe: EegRecipe) -> Extracted:
    """Return features (n_epochs, n_frames, n_features) in dB, or samples in uV, and their names."""
    wanted, emg, raw = recipe.spectrogram, recipe.emg, recipe.samples
    if raw.channels:
        parts = [(role, _samples(recording, role, epochs, raw)) for role in raw.channels]
        return _join(recording, parts), raw.channels
    parts = [
        (role, _frames(recording, role, epochs, wanted, wanted.taper, wanted.edges))
        for role in wanted.channels
    ]
    names = [f"{role}_{low:.6g}-{high:.6g}hz" for role in wanted.channels for low, high in wanted.edges]
    low, high = emg.band
    for role in emg.channels:
        density = _frames(recording, role, epochs, wanted, "hann", [emg.band])
        parts.append((role, np.repeat(density + np.float32(10 * np.log10(high - low)), emg.repeat, axis=2)))
        name = f"{role}_{low:g}-{high:g}hz_power"
        names += [name] if emg.repeat == 1 else [f"{name}_{row + 1}" for row in range(emg.repeat)]
    return _join(recording, parts), tuple(names)


def _join(recording: Recording, parts: Sequence[tuple[str, Floats32]]) -> Floats32:
    """Return the features of all channels side by side; an epoch that lacks one channel is NaN."""
    for role, part in parts:
        if np.isnan(part).any(axis=(1, 2)).all():
            raise InputError(f"channel {role!r} of recording {recording.id!r} is flat or missing throughout.")
    values = np.concatenate([part for _, part in parts], axis=2)
    values[np.isnan(values).any(axis=(1, 2))] = np.nan
    if np.isnan(values[:, 0, 0]).all():
        raise InputError(f"recording {recording.id!r} has no epoch in which all channels give a signal.")
    return values


def _samples(recording: Recording, role: str, epochs: EpochGrid, wanted: Samples) -> Floats32:
    """Return samples in uV (n_epochs, n_samples, 1) at the recipe's rate; NaN where too many are missing."""
    signal = windows.steady_signal(recording, role)
    length, rate = epochs.epoch_seconds, signal.rate_hz
    n_samples = round(wanted.rate_hz * length)
    if abs(n_samples - wanted.rate_hz * length) > 1e-6:
        raise InputError(f"an epoch of {length:g} s has no whole number of samples at {wanted.rate_hz:g} Hz.")
    if rate < wanted.rate_hz / 2:
        where = f"channel {role!r} ({signal.name})"
        raise InputError(f"{where} is sampled at {rate:g} Hz, too slowly for {wanted.rate_hz:g} Hz.")
    resample = library("scipy.signal", "a recipe of samples").resample_poly
    ratio = Fraction(wanted.rate_hz / rate).limit_denominator(1000)
    step = max(1, round(windows.BLOCK_SAMPLES / (rate * length)))
    margin = round(MARGIN_SECONDS * wanted.rate_hz)
    made = np.empty((epochs.n_epochs, n_samples, 1), dtype=np.float32)
    for first in range(0, epochs.n_epochs, step):
        n_here = min(step, epochs.n_epochs - first)
        edges = np.rint((first + np.arange(n_here + 1)) * length * rate).astype(np.int64)
        begin, end = np.rint(np.array([-1, 1]) * MARGIN_SECONDS * rate).astype(int) + edges[[0, -1]]
        known = windows.read_samples(signal, begin, end, "uV")
        there = np.flatnonzero(np.isfinite(known))
        filled = np.interp(np.arange(len(known)), there, known[there]) if len(there) else np.zeros(len(known))
        moved = resample(filled, ratio.numerator, ratio.denominator)
        block = made[first : first + n_here]
        block[:, :, 0] = moved[margin : margin + n_here * n_samples].reshape(n_here, n_samples)
        for row, (a, b) in enumerate(pairwise(edges - begin)):
            present = known[a:b][np.isfinite(known[a:b])]
            if 1 - len(present) / (b - a) > wanted.max_missing or np.ptp(present) == 0:
                block[row] = np.nan
    return made


def _frames(
    recording: Recording,
    role: str,
    epochs: EpochGrid,
    wanted: Spectrogram,
    taper: Taper,
    edges: Sequence[tuple[float, float]],
) -> Floats32:
    """Return log power densities (n_epochs, n_frames, n_bins); NaN where too much of a window is missing."""
    signal = windows.steady_signal(recording, role)
    starts, n_samples = windows.window_starts(signal, epochs, wanted.frames, wanted.window_seconds)
    lines = np.fft.rfftfreq(n_samples, 1 / signal.rate_hz).astype(np.float64)
    matrix = windows.bin_matrix(lines, edges, f"channel {role!r} ({signal.name})")
    end = int(np.flatnonzero(matrix.any(axis=1))[-1]) + 1
    using = windows.tapers(taper, n_samples, wanted.time_bandwidth, wanted.n_tapers)
    made = np.empty((epochs.n_epochs, wanted.frames, len(edges)), dtype=np.float32)
    for chosen, samples in windows.read_windows(signal, starts, n_samples, "uV"):
        power, lost = windows.power_spectra(samples, signal.rate_hz, using, end)
        binned = 10 * np.log10(np.maximum(power @ matrix[:end], SMALLEST_POWER))
        binned[lost > wanted.max_missing] = np.nan
        made[chosen] = binned
    return made


PAPER_Z = 3.0
PAPER_HIGH_SHARE = 0.5
SEGMENT_SECONDS = 1.0
SEGMENT_SAMPLES = 8  # the minimum: some files store an EMG as one value per second
HUM_SHARE = 0.5
PLAUSIBLE_UV = (0.5, 20_000.0)  # peak to peak within a second, from a quiet channel to a mouse's EMG

# Limits of the graded rules by channel, see `Segments.flags`. A tense muscle is up to a hundred times
# stronger than a slack one, all above 20 Hz: wake, no artefact.
LIMITS = {"eeg": (4.0, 3.0, 0.02), "emg": (6.0, 100.0, 0.001)}


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch: the worse of the EEG and, if recorded, the EMG.

    The paper's rules mark amplitudes beyond 3 deviations of this recording, and too much power above 45 Hz in
    the EEG. "graded" is the share of the epoch's seconds that are missing, flat, clipped, too large or hum.
    """
    parts = []
    for role in ("eeg", *({"emg"} & recording.signals.keys())):
        signal = windows.steady_signal(recording, role, quantity="voltage")
        length = max(SEGMENT_SECONDS, SEGMENT_SAMPLES / signal.rate_hz)
        per_epoch = 1 if rules == "kdd2026" else max(1, round(epochs.epoch_seconds / length))
        has_spectra = role == "eeg" or rules == "graded"
        segments = measure_segments(signal, epochs, per_epoch, spectra=has_spectra, unit="uV")
        _warn_unit(segments, signal, role)
        if rules == "kdd2026":
            flags = {
                f"{role}: no signal": segments.lost(),
                f"{role}: amplitude": segments.is_extreme(PAPER_Z),
            }
            high = (segments.high + segments.hum)[:, 0] > PAPER_HIGH_SHARE
        else:
            flags = segments.flags(role, *LIMITS[role])
            sound = ~(flags[f"{role}: missing"] | flags[f"{role}: flat"])
            flags[f"{role}: mains hum"] = (segments.hum > HUM_SHARE) & sound
            high = (segments.high > PAPER_HIGH_SHARE) & sound
        if role == "eeg":
            flags["eeg: high-frequency power"] = high
        parts.append(from_flags(flags))
    return worst(parts)


def _warn_unit(segments: Segments, signal: Signal, role: str) -> None:
    """Warn if a voltage is so small or so large that its unit must be wrong."""
    usual, (low, high) = segments.usual_range, PLAUSIBLE_UV
    if signal.unit and np.isfinite(usual) and not low <= usual <= high:
        warn(
            f"channel {role!r} ({signal.name}) is said to be in {signal.unit}, but usually spans {usual:.3g} "
            f"uV, expected {low:g} to {high:,.0f} uV. The quality of epochs does not depend on the unit."
        )
