"""Mouse recordings as AccuSleep has them: MAT-files, or AccuSleePy's table, with labels of 2.5 s."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats32, Ints
from stageguard.base.errors import MissingExtraError
from stageguard.base.files import SYNTHETIC_WORD
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.recording import Signal
from stageguard.synthetic.events import Simulated
from stageguard.synthetic.layouts import write_rows

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


def write(made: Simulated, folder: Path, layout: str) -> None:
    """Write one recording into ``MouseNN_synthetic/Day1_light_cycle``."""
    hours = made.recording.seconds / 3600
    folder = folder / made.recording.subject / ("Day1_light_cycle" if hours <= HALF_DAY_HOURS else "Day1")
    folder.mkdir(parents=True)
    signals = {role: made.recording.signals[role] for role in ("eeg", "emg")}
    columns = {
        role: np.asarray(signal.samples, np.float32)
        for role, signal in signals.items()
        if isinstance(signal, Signal)
    }
    codes = label_codes(made.night.hypnogram)
    if layout == "mat":
        for role, samples in columns.items():
            write_mat(folder / f"{role.upper()}.mat", role.upper(), samples, header=HEADER)
        write_mat(folder / "labels.mat", "labels", codes.astype(np.float64), header=HEADER)
        return
    if layout == "parquet":
        _write_parquet(folder / "recording.parquet", columns)
    else:
        table = np.column_stack(list(columns.values()))
        write_rows(folder / "recording.csv", table, "%.3f,%.3f", header=",".join(columns) + "\n")
    text = "\n".join(["brain_state", *map(str, codes.tolist())])
    (folder / "labels.csv").write_text(text + "\n", encoding="ascii")


def finish(subjects: Sequence[Any], folder: Path, layout: str) -> None:
    """Write nothing: the dataset has no tables of its own."""


def label_codes(night: Hypnogram) -> Ints:
    """Return codes of every 2.5 s: the stage in its middle, from which epochs of 4 s come back unchanged."""
    codes = np.array([CODES[name] for name in night.scheme.names])
    middles = (np.arange(int(night.n_epochs * night.epoch_seconds / LABEL_SECONDS)) + 0.5) * LABEL_SECONDS
    return np.asarray(codes[night.labels[(middles / night.epoch_seconds).astype(np.int64)]], dtype=np.int64)


def _write_parquet(path: Path, columns: dict[str, Floats32]) -> None:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise MissingExtraError(
            "writing Parquet needs 'pyarrow'. Install with: pip install 'stageguard[recordings]'; or use "
            "--layout mat."
        ) from None
    table = pyarrow.table(columns, metadata={"synthetic": HEADER})
    parquet.write_table(table, path, row_group_size=ROW_GROUP)


INT8, INT32, UINT32, SINGLE, DOUBLE, MATRIX = 1, 5, 6, 7, 9, 14  # element types
CLASSES = {np.dtype(np.float32): (7, SINGLE), np.dtype(np.float64): (6, DOUBLE)}  # array class, element type
HEADER_BYTES = 116


def write_mat(path: Path, name: str, values: npt.NDArray[np.floating], *, header: str) -> None:
    """Write a row vector.

    Parameters
    ----------
    name : str
        Of the variable.
    values : array (n,) of float32 or float64
        What it holds.
    header : str
        Text the file begins with, up to 116 letters; MATLAB shows it.
    """
    kind, element = CLASSES[values.dtype]
    flags = struct.pack("<IIII", UINT32, 8, kind, 0)
    dimensions = struct.pack("<IIii", INT32, 8, 1, len(values))
    letters = name.encode("ascii")
    named = struct.pack("<II", INT8, len(letters)) + letters.ljust(-(-len(letters) // 8) * 8, b"\0")
    body = flags + dimensions + named + struct.pack("<II", element, values.nbytes)
    rest = -values.nbytes % 8
    text = f"MATLAB 5.0 MAT-file, {header}".encode("ascii").ljust(HEADER_BYTES)[:HEADER_BYTES]
    with path.open("xb") as file:
        file.write(text + bytes(8) + struct.pack("<H2s", 0x0100, b"IM"))
        file.write(struct.pack("<II", MATRIX, len(body) + values.nbytes + rest) + body)
        np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tofile(file)
        file.write(bytes(rest))
