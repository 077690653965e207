"""Synthetic mouse EEG and EMG whose spectra follow the stages; files as in AccuSleep and AccuSleePy."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Floats32, Ints
from stageguard.errors import MissingExtraError
from stageguard.extras import to_install
from stageguard.files import SYNTHETIC_WORD
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Signal
from stageguard.synthetic.events import (
    SignalEvent,
    Simulated,
    scatter_events,
    signal_of,
    simulated_recording,
    write_rows,
)
from stageguard.synthetic.noise import Scatter, appearances, levels, shaped_noise, stream
from stageguard.synthetic.sleepers import SimulatedSleep, Sleeper

RATE_HZ = 512.0
EEG_HOP = 512  # samples: spectra change every second
EMG_HOP = 128

# Power of each part of the EEG in dB re 1 uV2/Hz at its peak, by stage: slow waves in NREM, theta in REM and
# active wake. Shapes are from Franken et al. 1998 (Am J Physiol 275:R1127); levels are our choice.
EEG_PARTS = {
    "background": ({"W": 13.0, "N": 14.0, "R": 12.0}, Scatter(1.5, 0.8, 1.0)),
    "delta": ({"W": 15.0, "N": 26.0, "R": 12.0}, Scatter(1.5, 1.0, 2.0)),
    "theta": ({"W": 16.0, "N": 13.0, "R": 23.0}, Scatter(1.5, 1.0, 2.2)),
    "sigma": ({"W": 2.0, "N": 11.0, "R": 4.0}, Scatter(1.5, 0.8, 1.5)),
    "gamma": ({"W": -6.0, "N": -10.0, "R": -7.0}, Scatter(1.5, 0.8, 1.0)),
}
EMG_TONE = {"W": 5.0, "N": -5.0, "R": -9.0}
EMG_SCATTER = Scatter(3.0, 1.0, 2.0)

# Chance that an epoch looks like another stage: quiet wake, brief arousals, NREM that turns into REM,
# twitches in REM. Set so that staging is as hard as in the paper (studies/simulator).
ALIKE = {
    "W": {"N": 0.030, "R": 0.055},
    "N": {"W": 0.020, "R": 0.062},
    "R": {"W": 0.080, "N": 0.100},
}

EVENTS = (  # kind, channel, number per hour, shortest and longest duration in seconds
    ("movement artefact", "eeg", 1.0, (2, 10)),
    ("electrode pop", "eeg", 0.6, (0.5, 2)),
    ("muscle artefact", "eeg", 0.5, (2, 8)),
    ("sensor loss", "eeg", 0.06, (20, 240)),
    ("sensor loss", "emg", 0.06, (20, 240)),
)
MAINS_HZ = 60.0
MAINS_CHANCE = 0.15  # that an animal's leads pick up mains hum


def simulate(night: SimulatedSleep, sleeper: Sleeper, seed: int, name: str) -> Simulated:
    """Return the recording of a mouse, signals in uV at 512 Hz."""
    truth, who = night.hypnogram, sleeper.number
    n_samples = round(night.seconds * RATE_HZ)
    looks = appearances(stream(seed, "looks", who), truth, ALIKE)
    eeg = _eeg(stream(seed, "eeg", who), looks, truth.epoch_seconds, n_samples)
    emg = _emg(stream(seed, "emg", who), looks, truth.epoch_seconds, n_samples)
    events = scatter_events(stream(seed, "events", who), night.seconds, EVENTS)
    rng = stream(seed, "artefacts", who)
    if rng.random() < MAINS_CHANCE:
        time = np.arange(n_samples, dtype=np.float64) / RATE_HZ
        hum = rng.uniform(4, 12) * np.sin(2 * np.pi * MAINS_HZ * time + rng.uniform(0, 6))
        eeg += hum.astype(np.float32)
    for event in events:
        _disturb(rng, event, eeg, emg)
    signals = {"eeg": Signal("EEG", eeg, RATE_HZ, "uV"), "emg": Signal("EMG", emg, RATE_HZ, "uV")}
    return simulated_recording(name, signals, night, sleeper, events)


def eeg_templates(frequencies: Floats) -> Floats:
    """Return power densities of `EEG_PARTS`, each 1 at its peak: (n_parts, n_frequencies)."""
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
    parts = [levels(rng, looks, *part, epoch_seconds) for part in EEG_PARTS.values()]
    decibels = np.stack(parts, axis=1)
    frequencies = np.asarray(np.fft.rfftfreq(2 * EEG_HOP, 1 / RATE_HZ), dtype=np.float64)
    power = _per_hop(10 ** (decibels / 10), epoch_seconds, EEG_HOP, n_samples)
    return shaped_noise(rng, power, eeg_templates(frequencies), RATE_HZ, EEG_HOP, n_samples)


def _emg(rng: np.random.Generator, looks: Floats, epoch_seconds: float, n_samples: int) -> Floats32:
    decibels = levels(rng, looks, EMG_TONE, EMG_SCATTER, epoch_seconds)
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
    """Return, for each hop, the values of the epoch in which it begins."""
    times = np.arange(-(-n_samples // hop) + 1) * hop / RATE_HZ
    epochs = np.minimum((times / epoch_seconds + 1e-9).astype(np.int64), len(values) - 1)
    return np.asarray(values[epochs])


def _disturb(rng: np.random.Generator, event: SignalEvent, eeg: Floats32, emg: Floats32) -> None:
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


LABEL_SECONDS = 2.5
CODES = {"R": 1, "W": 2, "N": 3}
HEADER = f"{SYNTHETIC_WORD} recording, simulated by stageguard; no animal was recorded. In uV."
HALF_DAY_HOURS = 12.0
ROW_GROUP = 1 << 20
READ_OPTIONS = " --dataset-option unit=uV"
FOLDER = "MouseNN_synthetic/Day1_light_cycle/"
FILE_LIST = {
    "mat": f"""{FOLDER}
    EEG.mat, EMG.mat    512 Hz, in uV, as in AccuSleep
    labels.mat          one code per 2.5 s: 1 REM, 2 Wake, 3 NREM""",
    "parquet": f"""{FOLDER}
    recording.parquet   columns eeg and emg, 512 Hz, in uV, as in AccuSleePy
    labels.csv          brain_state per 2.5 s: 1 REM, 2 Wake, 3 NREM""",
    "csv": f"""{FOLDER}
    recording.csv       columns eeg and emg, 512 Hz, in uV, as in AccuSleePy
    labels.csv          brain_state per 2.5 s: 1 REM, 2 Wake, 3 NREM""",
}


def name_of(number: int, layout: str) -> str:
    """Return the name of an animal's folder."""
    return f"Mouse{number:02d}_synthetic"


def write(simulated: Simulated, folder: Path, layout: str) -> None:
    """Write one recording into ``MouseNN_synthetic/Day1_light_cycle``."""
    hours = simulated.recording.seconds / 3600
    folder = (
        folder / simulated.recording.subject / ("Day1_light_cycle" if hours <= HALF_DAY_HOURS else "Day1")
    )
    folder.mkdir(parents=True)
    columns = {role: np.asarray(signal_of(simulated, role).samples, np.float32) for role in ("eeg", "emg")}
    codes = label_codes(simulated.night.hypnogram)
    if layout == "mat":
        for role, samples in columns.items():
            write_mat(folder / f"{role.upper()}.mat", role.upper(), samples)
        write_mat(folder / "labels.mat", "labels", codes.astype(np.float64))
        return
    if layout == "parquet":
        _write_parquet(folder / "recording.parquet", columns)
    else:
        table = np.column_stack(list(columns.values()))
        write_rows(folder / "recording.csv", table, "%.3f,%.3f", header=",".join(columns) + "\n")
    text = "\n".join(["brain_state", *map(str, codes.tolist())])
    (folder / "labels.csv").write_text(text + "\n", encoding="ascii", newline="\n")


def label_codes(night: Hypnogram) -> Ints:
    """Return a code per 2.5 s: the stage at its middle. Epochs of 4 s can be restored from these codes."""
    codes = np.array([CODES[name] for name in night.scheme.names])
    middles = (np.arange(int(night.n_epochs * night.epoch_seconds / LABEL_SECONDS)) + 0.5) * LABEL_SECONDS
    return np.asarray(codes[night.labels[(middles / night.epoch_seconds).astype(np.int64)]], dtype=np.int64)


def _write_parquet(path: Path, columns: dict[str, Floats32]) -> None:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"writing Parquet needs 'pyarrow'. Install with: {to_install('recordings')}; or use --layout mat."
        ) from None
    table = pyarrow.table(columns, metadata={"synthetic": HEADER})
    parquet.write_table(table, path, row_group_size=ROW_GROUP)


INT8, INT32, UINT32, SINGLE, DOUBLE, MATRIX = 1, 5, 6, 7, 9, 14  # element types
CLASSES = {np.dtype(np.float32): (7, SINGLE), np.dtype(np.float64): (6, DOUBLE)}  # array class, element type
HEADER_BYTES = 116  # of text at the beginning of a file, which MATLAB shows


def write_mat(path: Path, name: str, values: npt.NDArray[np.floating]) -> None:
    """Write values (n,) of float32 or float64 as a MATLAB row vector."""
    kind, element = CLASSES[values.dtype]
    flags = struct.pack("<IIII", UINT32, 8, kind, 0)
    dimensions = struct.pack("<IIii", INT32, 8, 1, len(values))
    letters = name.encode("ascii")
    named = struct.pack("<II", INT8, len(letters)) + letters.ljust(-(-len(letters) // 8) * 8, b"\0")
    body = flags + dimensions + named + struct.pack("<II", element, values.nbytes)
    rest = -values.nbytes % 8
    text = f"MATLAB 5.0 MAT-file, {HEADER}".encode("ascii").ljust(HEADER_BYTES)[:HEADER_BYTES]
    with path.open("xb") as file:
        file.write(text + bytes(8) + struct.pack("<H2s", 0x0100, b"IM"))
        file.write(struct.pack("<II", MATRIX, len(body) + values.nbytes + rest) + body)
        np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tofile(file)
        file.write(bytes(rest))
