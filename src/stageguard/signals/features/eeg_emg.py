"""Log spectrogram frames of EEG with EMG band power appended, per epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from stageguard.base import schema
from stageguard.base.arrays import Floats32
from stageguard.base.errors import InputError
from stageguard.night.epochs import EpochGrid
from stageguard.night.recording import Recording, Signal
from stageguard.signals.features.recipe import Recipe
from stageguard.signals.spectra import Taper, bin_matrix, frequencies, power_spectra, tapers
from stageguard.signals.windows import Windows, steady_signal

Edges = list[tuple[float, float]]

SMALLEST_POWER = np.finfo(np.float32).tiny  # the log of nothing has no place in a table


@dataclass(frozen=True, slots=True)
class Spectrogram:
    """Power of some channels in frequency bins, frame by frame."""

    channels: tuple[str, ...] = schema.words("eeg")  # roles, each with features of its own
    taper: str = schema.choice("multitaper", "multitaper", "hann")
    time_bandwidth: float = schema.number(2.0, low=1.0, high=20.0)  # of the multitaper's Slepian sequences
    n_tapers: int = schema.whole(3, low=1, high=40)
    frames: int = schema.whole(1, low=1, high=1000)  # per epoch
    window_seconds: float = schema.number(4.0, positive=True, high=600.0)  # around the middle of each frame
    # runs of bins: low, high, width in Hz
    bins: tuple[tuple[float, float, float], ...] = schema.runs((0.5, 30.5, 1.0))
    # share of a window; with more missing the epoch has no features
    max_missing: float = schema.number(0.3, low=0.0, high=0.9)

    def __post_init__(self) -> None:
        """Check that there are no more tapers than are of use."""
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


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a recipe for EEG and EMG."""

    spectrogram: Spectrogram = schema.table(Spectrogram)
    emg: BandPower = schema.table(BandPower)


def extract(recording: Recording, epochs: EpochGrid, recipe: Recipe) -> tuple[Floats32, tuple[str, ...]]:
    """Return features (n_epochs, n_frames, n_features) and their names.

    EEG features are 10 log10 of the mean power density in a bin (dB re 1 uV2/Hz), EMG features 10 log10 of
    the power within the band (dB re 1 uV2), so that a factor of 10 in amplitude is 20 wherever it occurs.
    """
    settings = cast(Settings, recipe.settings)
    wanted, emg = settings.spectrogram, settings.emg
    parts: list[Floats32] = []
    names: list[str] = []
    for role in wanted.channels:
        signal = steady_signal(recording, role)
        parts.append(_frames(signal, epochs, wanted, cast(Taper, wanted.taper), wanted.edges, role))
        names += [f"{role}_{low:.6g}-{high:.6g}hz" for low, high in wanted.edges]
    low, high = emg.band
    for role in emg.channels:
        density = _frames(steady_signal(recording, role), epochs, wanted, "hann", [emg.band], role)
        parts.append(density + np.float32(10 * np.log10(high - low)))
        names.append(f"{role}_{low:g}-{high:g}hz_power")
    _check_any(recording, [*wanted.channels, *emg.channels], parts)
    values = np.concatenate(parts, axis=2)
    values[np.isnan(values).any(axis=(1, 2))] = np.nan
    if np.isnan(values[:, 0, 0]).all():
        raise InputError(f"recording {recording.id!r} has no epoch in which all channels give a signal.")
    return values, tuple(names)


def _frames(
    signal: Signal, epochs: EpochGrid, wanted: Spectrogram, taper: Taper, edges: Edges, role: str
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


def _check_any(recording: Recording, roles: list[str], parts: list[Floats32]) -> None:
    """Refuse a channel that gives nothing from beginning to end."""
    for role, part in zip(roles, parts, strict=True):
        if np.isnan(part).any(axis=(1, 2)).all():
            raise InputError(
                f"channel {role!r} of recording {recording.id!r} is flat or missing in every epoch. Map "
                f"another one with --channel {role}=NAME, or use a recipe without it."
            )
