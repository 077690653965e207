"""Simulated recordings in the native layouts of the datasets they imitate.

Each module offers ``name_of(number, layout)``, the subject's name; ``write(made, folder, layout)`` for one
recording; ``finish(subjects, folder, layout)`` for the tables that a cohort has once; ``FILE_LIST``, what a
README says of the files of each layout; and ``READ_OPTIONS``, what `stageguard features` needs to read them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

ROWS = 1 << 16  # formatted at once


def write_rows(path: Path, rows: npt.NDArray[np.floating], row_format: str, *, header: str = "") -> None:
    """Write a table, each row by a format such as ``"%.5f,%d"``."""
    with path.open("x", encoding="ascii", newline="\n") as file:
        file.write(header)
        for first in range(0, len(rows), ROWS):
            some = rows[first : first + ROWS]
            file.write((f"{row_format}\n" * len(some)) % tuple(some.ravel().tolist()))
