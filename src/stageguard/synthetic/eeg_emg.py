"""Mouse EEG and EMG whose spectra follow the stages."""

from __future__ import annotations

import numpy as np

from stageguard.base.arrays import Floats, Floats32
from stageguard.night.recording import Signal
from stageguard.synthetic.appearance import Scatter, appearances, levels
from stageguard.synthetic.events import Event, Simulated, scatter_events, simulated
from stageguard.synthetic.hypnograms import Night
from stageguard.synthetic.noise import shaped_noise, stream
from stageguard.synthetic.people import Sleeper

RATE_HZ = 512.0
EEG_HOP = 512  # spectra change from second to second
EMG_HOP = 128

# Power of each part of the EEG in dB re 1 uV2/Hz at its peak, by stage: slow waves in NREM, theta in REM and
# active wake. Shapes after Franken et al. 1998 (Am J Physiol 275:R1127), levels are our choice.
BACKGROUND = {"W": 13.0, "N": 14.0, "R": 12.0}
DELTA = {"W": 15.0, "N": 26.0, "R": 12.0}
THETA = {"W": 16.0, "N": 13.0, "R": 23.0}
SIGMA = {"W": 2.0, "N": 11.0, "R": 4.0}
GAMMA = {"W": -6.0, "N": -10.0, "R": -7.0}
EMG_TONE = {"W": 5.0, "N": -5.0, "R": -9.0}

EEG_PARTS = (BACKGROUND, DELTA, THETA, SIGMA, GAMMA)
EEG_SCATTER = (
    Scatter(1.5, 0.8, 1.0),
    Scatter(1.5, 1.0, 2.0),
    Scatter(1.5, 1.0, 2.2),
    Scatter(1.5, 0.8, 1.5),
    Scatter(1.5, 0.8, 1.0),
)
EMG_SCATTER = Scatter(3.0, 1.0, 2.0)

# Chance that an epoch looks like one of another stage: quiet wake, brief arousals, NREM that is turning into
# REM, twitches in REM. Set so that staging is as hard as in the paper (studies/simulator).
ALIKE = {
    "W": {"N": 0.030, "R": 0.055},
    "N": {"W": 0.020, "R": 0.062},
    "R": {"W": 0.080, "N": 0.100},
}

MAINS_HZ = 60.0
MAINS_CHANCE = 0.15  # of an animal whose leads pick up the mains


def simulate(night: Night, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return the recording of a mouse, signals in uV at 512 Hz."""
    truth = night.hypnogram
    seconds = truth.n_epochs * truth.epoch_seconds
    n_samples = round(seconds * RATE_HZ)
    looks = appearances(stream(seed, "looks", sleeper.number), truth, ALIKE)
    eeg = _eeg(stream(seed, "eeg", sleeper.number), looks, truth.epoch_seconds, n_samples)
    emg = _emg(stream(seed, "emg", sleeper.number), looks, truth.epoch_seconds, n_samples)
    events = _events(stream(seed, "events", sleeper.number), seconds)
    rng = stream(seed, "artefacts", sleeper.number)
    if rng.random() < MAINS_CHANCE:
        eeg += _mains(rng, n_samples)
    for event in events:
        _disturb(rng, event, eeg, emg)
    signals = {"eeg": Signal("EEG", eeg, RATE_HZ, "uV"), "emg": Signal("EMG", emg, RATE_HZ, "uV")}
    return simulated(name, signals, night, sleeper, events)


def eeg_templates(frequencies: Floats) -> Floats:
    """Return power densities of the parts of the EEG, each 1 at its peak: (n_parts, n_frequencies)."""
    high_pass = 1 / (1 + (0.7 / np.maximum(frequencies, 1e-3)) ** 4)
    background = high_pass / (1 + (frequencies / 7) ** 1.8)
    delta = high_pass * _peak(frequencies, 2.0, 1.2)
    theta = _peak(frequencies, 7.4, 0.9)
    sigma = _peak(frequencies, 12.0, 2.0)
    gamma = high_pass * _peak(frequencies, 55.0, 18.0)
    return np.stack([background, delta, theta, sigma, gamma])


def _peak(frequencies: Floats, centre: float, width: float) -> Floats:
    return np.asarray(np.exp(-0.5 * ((frequencies - centre) / width) ** 2))


def _eeg(rng: np.random.Generator, looks: Floats, epoch_seconds: float, n_samples: int) -> Floats32:
    names = ("W", "N", "R")
    decibels = np.stack(
        [
            levels(rng, looks, part, names, scatter, epoch_seconds)
            for part, scatter in zip(EEG_PARTS, EEG_SCATTER, strict=True)
        ],
        axis=1,
    )
    frequencies = np.asarray(np.fft.rfftfreq(2 * EEG_HOP, 1 / RATE_HZ), dtype=np.float64)
    power = _per_hop(10 ** (decibels / 10), epoch_seconds, EEG_HOP, n_samples)
    return shaped_noise(rng, power, eeg_templates(frequencies), RATE_HZ, EEG_HOP, n_samples)


def _emg(rng: np.random.Generator, looks: Floats, epoch_seconds: float, n_samples: int) -> Floats32:
    decibels = levels(rng, looks, EMG_TONE, ("W", "N", "R"), EMG_SCATTER, epoch_seconds)
    power = _per_hop(10 ** (decibels[:, None] / 10), epoch_seconds, EMG_HOP, n_samples)
    restless = _per_hop(looks[:, :1], epoch_seconds, EMG_HOP, n_samples)[:, 0]
    phasic = _per_hop(looks[:, 2:], epoch_seconds, EMG_HOP, n_samples)[:, 0]
    # movement comes in bursts; REM has twitches of a quarter of a second
    bursts = rng.gamma(1.5, 1 / 1.5, len(power)) * restless + (1 - restless)
    twitches = (rng.random(len(power)) < 0.01 * phasic) * rng.uniform(5, 30, len(power))
    frequencies = np.fft.rfftfreq(2 * EMG_HOP, 1 / RATE_HZ)
    shape = 1 / (1 + (15 / np.maximum(frequencies, 1e-3)) ** 4) / (1 + (frequencies / 150) ** 4)
    return shaped_noise(rng, power * (bursts + twitches)[:, None], shape[None], RATE_HZ, EMG_HOP, n_samples)


def _per_hop(values: Floats, epoch_seconds: float, hop: int, n_samples: int) -> Floats:
    """Return the values of the epoch that each hop begins in."""
    times = np.arange(-(-n_samples // hop) + 1) * hop / RATE_HZ
    epochs = np.minimum((times / epoch_seconds + 1e-9).astype(np.int64), len(values) - 1)
    return np.asarray(values[epochs])


def _events(rng: np.random.Generator, seconds: float) -> list[Event]:
    events = scatter_events(rng, "movement artefact", "eeg", seconds, 1.0, (2, 10))
    events += scatter_events(rng, "electrode pop", "eeg", seconds, 0.6, (0.5, 2))
    events += scatter_events(rng, "muscle artefact", "eeg", seconds, 0.5, (2, 8))
    events += scatter_events(rng, "sensor loss", "eeg", seconds, 0.06, (20, 240))
    events += scatter_events(rng, "sensor loss", "emg", seconds, 0.06, (20, 240))
    return events


def _disturb(rng: np.random.Generator, event: Event, eeg: Floats32, emg: Floats32) -> None:
    target = eeg if event.channel == "eeg" else emg
    samples = event.samples(RATE_HZ, len(target))
    n = samples.stop - samples.start
    if n < 1:
        return
    if event.kind == "sensor loss":
        target[samples] = 0.0
        return
    time = np.arange(n) / RATE_HZ
    fade = np.sin(np.pi * (np.arange(n) + 0.5) / n)
    size = float(rng.uniform(8, 15)) * 40.0
    if event.kind == "movement artefact":
        wave = np.sin(2 * np.pi * rng.uniform(0.8, 3) * time + rng.uniform(0, 6)) * fade
        emg[samples] *= 3
    elif event.kind == "electrode pop":
        wave = np.exp(-time / 0.2) * rng.choice([-1.0, 1.0])
    else:
        wave = rng.standard_normal(n) * fade
    target[samples] += (size * wave).astype(np.float32)


def _mains(rng: np.random.Generator, n_samples: int) -> Floats32:
    time = np.arange(n_samples, dtype=np.float64) / RATE_HZ
    hum = rng.uniform(4, 12) * np.sin(2 * np.pi * MAINS_HZ * time + rng.uniform(0, 6))
    return np.asarray(hum, dtype=np.float32)
