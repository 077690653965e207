"""Write rows of numbers as text, quickly. Reads nothing."""

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
