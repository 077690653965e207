"""Small datasets in their native layouts, as their authors publish them."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_mat73(path: Path, **variables: np.ndarray) -> None:
    """A MAT-file of version 7.3 as MATLAB writes it: HDF5 behind 512 bytes of its own, columns as rows."""
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in variables.items():
            data = np.atleast_2d(values).reshape(1, -1)
            made = file.create_dataset(
                name, data=data, chunks=(1, min(4096, data.shape[1])), compression="gzip"
            )
            made.attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64, HDF5 schema 1.00 .".ljust(124) + b"\0\x02IM")


def write_mat7(path: Path, **variables: np.ndarray) -> None:
    """A compressed MAT-file of version 7, vectors as columns."""
    from scipy.io import savemat

    columns = {name: np.reshape(values, (-1, 1)) for name, values in variables.items()}
    savemat(path, columns, do_compression=True)


def accusleep_session(
    folder: Path, form: str, *, labels: np.ndarray, rate_hz: int = 8, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Write EEG, EMG and labels of 2.5 s into a session's folder, and return the signals."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    n_samples = round(len(labels) * 2.5 * rate_hz)
    eeg, emg = rng.normal(0, 1e-4, n_samples), rng.normal(0, 2e-5, n_samples)
    if form in ("mat7", "mat73"):
        write = write_mat7 if form == "mat7" else write_mat73
        write(folder / "EEG.mat", EEG=eeg)
        write(folder / "EMG.mat", EMG=emg)
        write(folder / "labels.mat", labels=labels.astype(np.float64))
    else:
        import pandas as pd

        table = pd.DataFrame({"eeg": eeg, "emg": emg})
        if form == "parquet":
            table.to_parquet(folder / "recording.parquet", row_group_size=max(100, n_samples // 40))
        else:
            table.to_csv(folder / "recording.csv", index=False)
        pd.DataFrame({"brain_state": labels}).to_csv(folder / "labels.csv", index=False)
    return eeg, emg


def sleep_accel_subject(
    folder: Path, subject: str, stages: list[int], *, seed: int = 0
) -> dict[str, np.ndarray]:
    """Write PhysioNet's four text files of a subject; the motion has a repeated and a late row."""
    rng = np.random.default_rng(seed)
    seconds = len(stages) * 30
    motion = np.column_stack([np.arange(-5, seconds + 5, 0.5), rng.normal(0, 0.01, ((seconds + 10) * 2, 3))])
    sent = np.vstack([motion[:4], motion[3:4], motion[5:6], motion[4:5], motion[6:]])
    heart = np.column_stack(
        [np.arange(-300.5, seconds, 5.0), rng.integers(50, 70, -(-(seconds * 2 + 601) // 10))]
    )
    steps = np.array([[-1200.0, 40.0], [-600.0, 0.0], [0.0, 3.0]])
    for part in ("motion", "heart_rate", "steps", "labels"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    np.savetxt(folder / "motion" / f"{subject}_acceleration.txt", sent, fmt="%.6f")
    np.savetxt(folder / "heart_rate" / f"{subject}_heartrate.txt", heart, fmt="%.5f", delimiter=",")
    np.savetxt(folder / "steps" / f"{subject}_steps.txt", steps, fmt="%.4f", delimiter=",")
    labels = np.column_stack([np.arange(len(stages)) * 30, stages])
    np.savetxt(folder / "labels" / f"{subject}_labeled_sleep.txt", labels, fmt="%d")
    return {"motion": motion, "heart_rate": heart, "steps": steps}


def write_annotations(path: Path, marks: list[tuple[int, str]], *, note: str = "") -> None:
    """A WFDB annotation file: kind 22 (a note) with a text at each sample."""
    words = bytearray()

    def add(kind: int, value: int) -> None:
        words.extend((kind << 10 | value).to_bytes(2, "little"))

    def add_text(text: str) -> None:
        add(63, len(text))
        words.extend(text.encode() + b"\0" * (len(text) % 2))

    if note:
        add(22, 0)
        add_text(note)
    before = 0
    for sample, text in marks:
        step, before = sample - before, sample
        if step > 1023:
            add(59, 0)
            words.extend((step >> 16).to_bytes(2, "little") + (step & 0xFFFF).to_bytes(2, "little"))
            step = 0
        add(22, step)
        add_text(text)
    path.write_bytes(bytes(words) + b"\0\0")


def sleepbrl_record(folder: Path, name: str, stages: str, *, rate_hz: int = 50, seed: int = 0) -> np.ndarray:
    """Write a record of PhysioNet's: 16 radar channels, one stage per 30 s; return the channels (16, n)."""
    from edfio import Edf, EdfSignal

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    radar = rng.normal(0, 1, (16, len(stages) * 30 * rate_hz)).clip(-3, 3)
    signals = [
        EdfSignal(row, rate_hz, label=f"S{i + 1}", physical_dimension="", physical_range=(-3, 3))
        for i, row in enumerate(radar)
    ]
    Edf(signals).write(folder / f"{name}.edf")
    marks = [(i * 30 * rate_hz, stage) for i, stage in enumerate(stages)]
    write_annotations(folder / f"{name}.edf.atr", marks)
    return radar
