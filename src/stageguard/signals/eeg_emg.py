"""Features and quality of EEG with EMG: log spectrogram frames with EMG power, or samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import cast

import numpy as np

from stageguard import schema
from stageguard.arrays import Floats, Floats32, Ints
from stageguard.errors import InputError, warn
from stageguard.extras import library
from stageguard.night.recording import EpochGrid, Recording, Signal
from stageguard.signals.quality import (
    Assessed,
    Segments,
    from_flags,
    measure_segments,
    worst,
)
from stageguard.signals.windows import (
    BLOCK_SAMPLES,
    Extracted,
    Taper,
    Windows,
    bin_matrix,
    frequencies,
    interpolated,
    power_spectra,
    read_samples,
    steady_signal,
    tapers,
)

Edges = list[tuple[float, float]]

SMALLEST_POWER = np.finfo(np.float32).tiny  # keeps the log finite


@dataclass(frozen=True, slots=True)
class SpectrogramFeatures:
    """Power of some channels in frequency bins, frame by frame."""

    channels: tuple[str, ...] = schema.words("eeg")  # roles; each role has its own features
    taper: str = schema.choice("multitaper", "multitaper", "hann")
    time_bandwidth: float = schema.number(2.0, low=1.0, high=20.0)  # of the multitaper's Slepian sequences
    n_tapers: int = schema.whole(3, low=1, high=40)
    frames: int = schema.whole(1, low=1, high=1000)  # per epoch
    window_seconds: float = schema.number(4.0, positive=True, high=600.0)  # around the middle of each frame
    # runs of bins: low, high, width in Hz
    bins: tuple[tuple[float, float, float], ...] = schema.runs((0.5, 30.5, 1.0))
    # an epoch has no features if a larger share of a window is missing
    max_missing: float = schema.number(0.3, low=0.0, high=0.9)

    def __post_init__(self) -> None:
        """Check that no taper leaks."""
        if self.taper == "multitaper" and self.n_tapers > 2 * self.time_bandwidth:
            raise InputError(
                f"spectrogram.n_tapers is {self.n_tapers}, expected at most 2 x time_bandwidth = "
                f"{2 * self.time_bandwidth:g}: those beyond leak."
            )

    @property
    def edges(self) -> Edges:
        """Lower and upper edge of every bin in Hz."""
        made: Edges = []
        for low, high, width in self.bins:
            n_bins = round((high - low) / width)
            made += [(low + k * width, low + (k + 1) * width) for k in range(n_bins)]
        return made


@dataclass(frozen=True, slots=True)
class BandPower:
    """Power of some channels within a band, in the spectrogram's frames."""

    channels: tuple[str, ...] = schema.words("emg")  # roles; an empty list leaves it out
    band: tuple[float, float] = schema.band(20.0, 50.0)  # Hz
    repeat: int = schema.whole(1, low=1, high=100)  # rows of an image; filters could miss a single row


@dataclass(frozen=True, slots=True)
class SampleFeatures:
    """The signals themselves at one rate, instead of spectra, for networks that learn their filters."""

    channels: tuple[str, ...] = schema.words()  # roles; an empty list means spectra
    rate_hz: float = schema.number(100.0, positive=True, high=1000.0)  # signals are resampled to this rate
    # an epoch has no features if a larger share of it is missing; smaller gaps are interpolated
    max_missing: float = schema.number(0.3, low=0.0, high=0.9)


@dataclass(frozen=True, slots=True)
class EegEmgSettings:
    """Options of a recipe for EEG and EMG."""

    spectrogram: SpectrogramFeatures = schema.table(SpectrogramFeatures)
    emg: BandPower = schema.table(BandPower)
    samples: SampleFeatures = schema.table(SampleFeatures)


SETTINGS = EegEmgSettings  # by which `features` reads this modality's recipes


def extract(recording: Recording, epochs: EpochGrid, settings: EegEmgSettings) -> Extracted:
    """Return features (n_epochs, n_frames, n_features) and their names.

    EEG features are 10 log10 of the mean power density in a bin (dB re 1 uV2/Hz), EMG features 10 log10 of
    the power within the band (dB re 1 uV2): a factor of 10 in amplitude is always 20 dB.
    """
    if settings.samples.channels:
        roles = settings.samples.channels
        parts = [_samples(steady_signal(recording, role), epochs, settings.samples, role) for role in roles]
        return _join_features(recording, roles, parts), tuple(roles)
    wanted, emg = settings.spectrogram, settings.emg
    parts = []
    names: list[str] = []
    for role in wanted.channels:
        signal = steady_signal(recording, role)
        parts.append(_frames(signal, epochs, wanted, cast(Taper, wanted.taper), wanted.edges, role))
        names += [f"{role}_{low:.6g}-{high:.6g}hz" for low, high in wanted.edges]
    low, high = emg.band
    for role in emg.channels:
        density = _frames(steady_signal(recording, role), epochs, wanted, "hann", [emg.band], role)
        power = density + np.float32(10 * np.log10(high - low))
        parts.append(np.repeat(power, emg.repeat, axis=2))
        name = f"{role}_{low:g}-{high:g}hz_power"
        names += [name] if emg.repeat == 1 else [f"{name}_{row + 1}" for row in range(emg.repeat)]
    return _join_features(recording, (*wanted.channels, *emg.channels), parts), tuple(names)


def _join_features(recording: Recording, roles: Sequence[str], parts: Sequence[Floats32]) -> Floats32:
    """Return the features of all channels side by side; an epoch that lacks one channel is NaN."""
    for role, part in zip(roles, parts, strict=True):
        if np.isnan(part).any(axis=(1, 2)).all():
            raise InputError(
                f"channel {role!r} of recording {recording.id!r} is flat or missing in every epoch. Map "
                f"another one with --channel {role}=NAME, or use a recipe without it."
            )
    values = np.concatenate(parts, axis=2)
    values[np.isnan(values).any(axis=(1, 2))] = np.nan
    if np.isnan(values[:, 0, 0]).all():
        raise InputError(f"recording {recording.id!r} has no epoch in which all channels give a signal.")
    return values


MARGIN_SECONDS = 1.0  # resampled on either side of a block as well, so that no epoch is near an edge


def _samples(signal: Signal, epochs: EpochGrid, wanted: SampleFeatures, role: str) -> Floats32:
    """Return samples in uV (n_epochs, n_samples, 1) at the recipe's rate; NaN where too many are missing."""
    length, rate = epochs.epoch_seconds, signal.rate_hz
    n_samples = round(wanted.rate_hz * length)
    if abs(n_samples - wanted.rate_hz * length) > 1e-6:
        raise InputError(
            f"samples.rate_hz is {wanted.rate_hz:g}, of which an epoch of {length:g} s holds no whole "
            "number. Choose a rate that fits."
        )
    if rate < wanted.rate_hz / 2:
        raise InputError(
            f"channel {role!r} ({signal.name}) is sampled at {rate:g} Hz, too slowly for "
            f"{wanted.rate_hz:g} Hz. Map another one with --channel {role}=NAME, or lower samples.rate_hz."
        )
    resample = library("scipy.signal", "a recipe of samples").resample_poly
    ratio = Fraction(wanted.rate_hz / rate).limit_denominator(1000)
    step = max(1, round(BLOCK_SAMPLES / (rate * length)))
    margin = round(MARGIN_SECONDS * wanted.rate_hz)
    made = np.empty((epochs.n_epochs, n_samples, 1), dtype=np.float32)
    for first in range(0, epochs.n_epochs, step):
        n_here = min(step, epochs.n_epochs - first)
        edges = np.rint((first + np.arange(n_here + 1)) * length * rate).astype(np.int64)
        begin, end = np.rint(np.array([-1, 1]) * MARGIN_SECONDS * rate).astype(int) + edges[[0, -1]]
        known = np.full(end - begin, np.nan)
        known[max(0, -begin) :] = read_samples(signal, max(0, begin), end, "uV")
        moved = resample(interpolated(known), ratio.numerator, ratio.denominator)
        block = moved[margin : margin + n_here * n_samples].reshape(n_here, n_samples)
        made[first : first + n_here, :, 0] = block
        lost = _lost_shares(known, edges - begin)
        made[first : first + n_here][lost > wanted.max_missing] = np.nan
    return made


def _lost_shares(samples: Floats, edges: Ints) -> Floats:
    """Return the share of each epoch that is missing; an epoch of equal samples is missing as a whole."""
    pieces = [samples[a:b] for a, b in pairwise(edges)]
    flat = [np.isnan(piece).all() or np.nanmin(piece) == np.nanmax(piece) for piece in pieces]
    return np.where(flat, 1.0, [float(np.isnan(piece).mean()) for piece in pieces])


def _frames(
    signal: Signal, epochs: EpochGrid, wanted: SpectrogramFeatures, taper: Taper, edges: Edges, role: str
) -> Floats32:
    """Return log power densities (n_epochs, n_frames, n_bins); NaN where too much of a window is missing."""
    windows = Windows.centred(signal, epochs, wanted.frames, wanted.window_seconds)
    lines = frequencies(windows.n_samples, signal.rate_hz)
    matrix = bin_matrix(lines, edges, f"channel {role!r} ({signal.name})")
    end = int(np.flatnonzero(matrix.any(axis=1))[-1]) + 1
    using = tapers(taper, windows.n_samples, wanted.time_bandwidth, wanted.n_tapers)
    made = np.empty((epochs.n_epochs, wanted.frames, len(edges)), dtype=np.float32)
    for chosen, samples in windows.read(signal, unit="uV"):
        power, lost = power_spectra(samples, signal.rate_hz, using, end)
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


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """Limits of the graded rules for a channel."""

    z: float  # a segment is too large beyond this many robust deviations of the log range,
    times: float  # and beyond this multiple of the usual range
    flat: float  # a segment is flat when its range is below this share of the usual one
    has_high: bool  # whether power above 45 Hz is an artefact


# A tense muscle is up to a hundred times stronger than a slack one, all above 20 Hz: wake, no artefact.
EEG = ChannelLimits(z=4.0, times=3.0, flat=0.02, has_high=True)
EMG = ChannelLimits(z=6.0, times=100.0, flat=0.001, has_high=False)


def assess(recording: Recording, epochs: EpochGrid, rules: str) -> Assessed:
    """Return beta and reasons per epoch: the worse of the EEG and, if recorded, the EMG."""
    judge = _paper if rules == "kdd2026" else _grade_channel
    parts = []
    for role, limits in (("eeg", EEG), ("emg", EMG)):
        if role == "eeg" or role in recording.signals:
            signal = steady_signal(recording, role, quantity="voltage")
            parts.append(judge(signal, epochs, role, limits))
    return worst(parts)


def _paper(signal: Signal, epochs: EpochGrid, role: str, limits: ChannelLimits) -> Assessed:
    """Mark amplitudes beyond 3 deviations of this recording, and too much power above 45 Hz."""
    segments = measure_segments(signal, epochs, 1, spectra=limits.has_high, unit="uV")
    _warn_unit(segments, signal, role)
    flags = {f"{role}: no signal": segments.lost(), f"{role}: amplitude": segments.is_extreme(PAPER_Z)}
    if limits.has_high:
        flags[f"{role}: high-frequency power"] = (segments.high + segments.hum)[:, 0] > PAPER_HIGH_SHARE
    return from_flags(flags)


def _grade_channel(signal: Signal, epochs: EpochGrid, role: str, limits: ChannelLimits) -> Assessed:
    """Return the share of the epoch's seconds that are missing, flat, clipped, too large or mains hum."""
    length = max(SEGMENT_SECONDS, SEGMENT_SAMPLES / signal.rate_hz)
    per_epoch = max(1, round(epochs.epoch_seconds / length))
    segments = measure_segments(signal, epochs, per_epoch, spectra=True, unit="uV")
    _warn_unit(segments, signal, role)
    flags = segments.flags(role, limits.z, limits.times, limits.flat)
    sound = ~(flags[f"{role}: missing"] | flags[f"{role}: flat"])
    flags[f"{role}: mains hum"] = (segments.hum > HUM_SHARE) & sound
    if limits.has_high:
        flags[f"{role}: high-frequency power"] = (segments.high > PAPER_HIGH_SHARE) & sound
    return from_flags(flags)


def _warn_unit(segments: Segments, signal: Signal, role: str) -> None:
    """Warn if a voltage is so small or so large that its unit must be wrong."""
    usual, (low, high) = segments.usual_range, PLAUSIBLE_UV
    if not signal.unit or not np.isfinite(usual) or low <= usual <= high:
        return
    warn(
        f"channel {role!r} ({signal.name}) is said to be in {signal.unit}, but usually spans {usual:.3g} uV, "
        f"expected {low:g} to {high:,.0f} uV. Check the unit; the quality of epochs does not depend on it."
    )
