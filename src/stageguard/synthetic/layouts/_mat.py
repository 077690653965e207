"""Write one numeric vector as a MAT-file of version 5, without scipy. Reads nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

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
