"""Recordings made of plain signals, for tests of quality and features."""

from __future__ import annotations

import numpy as np

import stageguard as sg
from recording_files import Channel, stage_annotations, write_edf
from stageguard.night.recording import Series

RATE = 200.0
EPOCH = 10.0


def pink(n_samples: int, seed: int = 0, size: float = 20.0) -> np.ndarray:
    """Noise whose power falls with frequency from 1 Hz on, as an EEG's does; standard deviation `size`."""
    rng = np.random.default_rng(seed)
    spectrum = np.fft.rfft(rng.standard_normal(n_samples))
    frequencies = np.fft.rfftfreq(n_samples, 1 / RATE)
    spectrum *= (frequencies > 0.3) / np.maximum(frequencies, 1.0)
    noise = np.fft.irfft(spectrum, n_samples)
    return size * noise / noise.std()


def white(n_samples: int, seed: int = 1, size: float = 5.0) -> np.ndarray:
    return size * np.random.default_rng(seed).standard_normal(n_samples)


def sine(hertz: float, seconds: float, rate: float = RATE, size: float = 1.0) -> np.ndarray:
    return size * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def signal(samples: np.ndarray, rate: float = RATE, unit: str = "uV", name: str = "X") -> sg.Signal:
    return sg.Signal(name, samples, rate, unit)


def recording(scoring: sg.Hypnogram | None = None, **signals: sg.Signal | Series) -> sg.Recording:
    return sg.Recording("night", "sleeper", signals, {} if scoring is None else {"expert": scoring})


def eeg_emg(n_epochs: int = 60, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Clean samples of both channels."""
    n_samples = round(n_epochs * EPOCH * RATE)
    return {"eeg": pink(n_samples, seed), "emg": white(n_samples, seed + 1)}


def between(epoch: float, seconds: float, rate: float = RATE, epoch_seconds: float = EPOCH) -> slice:
    """Samples from the beginning of an epoch on, for so many seconds."""
    first = round(epoch * epoch_seconds * rate)
    return slice(first, first + round(seconds * rate))


N_EPOCHS = 20  # of 30 s, in the file below


def write_psg(path, *, labels=("EEG C4-M1", "EMG chin"), gap=(4, 60), stages="W", **rest):
    """An EDF file of ten minutes, clean but for a flat EEG from an epoch on, for some seconds."""
    n_samples = round(N_EPOCHS * 30 * RATE)
    eeg, emg = 10 * pink(n_samples), 10 * white(n_samples)
    first = round(gap[0] * 30 * RATE)
    eeg[first : first + round(gap[1] * RATE)] = 0
    channels = [
        Channel(label, np.rint(x).astype("<i2"), RATE) for label, x in zip(labels, (eeg, emg), strict=True)
    ]
    annotations = stage_annotations([stages] * N_EPOCHS) if stages else None
    return write_edf(path, channels, annotations=annotations, **rest)
