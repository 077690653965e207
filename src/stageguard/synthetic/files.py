"""Tables of numbers and EDF files, as several of the imitated datasets have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from stageguard.base.files import SYNTHETIC_WORD
from stageguard.base.version import __version__
from stageguard.night.recording import Recording, Signal
from stageguard.synthetic.events import Simulated

if TYPE_CHECKING:
    import edfio

ROWS = 1 << 16  # formatted at once


def signal_of(made: Simulated, role: str) -> Signal:
    """Return a channel that was simulated as evenly sampled."""
    signal = made.recording.signals[role]
    assert isinstance(signal, Signal)
    return signal


def write_rows(path: Path, rows: npt.NDArray[np.floating], row_format: str, *, header: str = "") -> None:
    """Write a table, each row by a format such as ``"%.5f,%d"``."""
    with path.open("x", encoding="ascii", newline="\n") as file:
        file.write(header)
        for first in range(0, len(rows), ROWS):
            some = rows[first : first + ROWS]
            file.write((f"{row_format}\n" * len(some)) % tuple(some.ravel().tolist()))


def edf_signal(signal: Signal, label: str, limits: tuple[float, float]) -> edfio.EdfSignal:
    """Return a channel for EDF, cut off at its limits as by an amplifier; what is in uV is written in mV."""
    import edfio

    factor, unit = (1000.0, "mV") if signal.unit == "uV" else (1.0, signal.unit)
    return edfio.EdfSignal(
        np.clip(signal.read() / factor, *limits),
        signal.rate_hz,
        label=label,
        transducer_type=SYNTHETIC_WORD,
        physical_dimension=unit,
        physical_range=limits,
    )


def write_edf(
    path: Path, recording: Recording, signals: Sequence[edfio.EdfSignal], sex: Literal["F", "M", "X"] = "X"
) -> None:
    """Write signals as EDF, with a header that calls them synthetic."""
    import edfio

    start = recording.start
    edf = edfio.Edf(
        signals,
        patient=edfio.Patient(code=recording.subject, sex=sex, name=SYNTHETIC_WORD),
        recording=edfio.Recording(
            startdate=None if start is None else start.date(), equipment_code=f"stageguard_{__version__}"
        ),
        starttime=None if start is None else start.time(),
        data_record_duration=1,
    )
    edf.write(path)
