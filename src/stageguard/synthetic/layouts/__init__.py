"""Simulated recordings in the native layouts of the datasets they imitate.

Each module offers ``name_of(number, layout)``, the subject's name; ``write(made, folder, layout)`` for one
recording; ``finish(subjects, folder, layout)`` for the tables that a cohort has once; ``FILE_LIST``, what a
README says of the files of each layout; and ``READ_OPTIONS``, what `stageguard features` needs to read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from stageguard.base.files import SYNTHETIC_WORD
from stageguard.base.version import __version__
from stageguard.night.recording import Recording

if TYPE_CHECKING:
    import edfio

ROWS = 1 << 16  # formatted at once


def write_rows(path: Path, rows: npt.NDArray[np.floating], row_format: str, *, header: str = "") -> None:
    """Write a table, each row by a format such as ``"%.5f,%d"``."""
    with path.open("x", encoding="ascii", newline="\n") as file:
        file.write(header)
        for first in range(0, len(rows), ROWS):
            some = rows[first : first + ROWS]
            file.write((f"{row_format}\n" * len(some)) % tuple(some.ravel().tolist()))


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
