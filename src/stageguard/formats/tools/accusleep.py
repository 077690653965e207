"""Read labels of AccuSleep (MAT-files) and AccuSleePy (CSV); write the CSV.

A MAT-file of level 5 (MATLAB 5 to 7) is a chain of elements: type, number of bytes, data. It is read here,
because scipy 1.17 ends in a segmentation fault on some of the damaged files that the tests make.

AccuSleePy may write a confidence beside a label. It is the sigmoid of the largest logit and no distribution.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.errors import StageGuardError
from stageguard.files import damaged_file, file_error, read_file
from stageguard.formats.density import MOST_EPOCHS, check_usual, listed
from stageguard.formats.file_format import NAMES, STAGES_ALONE, Contents, FileFormat
from stageguard.formats.hdf5 import opened_hdf5, values_of
from stageguard.formats.hypnogram import NUMBERINGS, numbered_stages
from stageguard.formats.night import FileOptions, Night, RawHypnogram
from stageguard.formats.sniffing import begins_with, has_columns, read_head
from stageguard.formats.tables.delimited import read_rows
from stageguard.formats.write import stage_words

EPOCH_SECONDS = 2.5  # AccuSleep's default, which files do not tell
COLUMN = "brain_state"
DIGITS = {"R": "1", "W": "2", "N": "3", "?": "-1"}
HEADER_BYTES = 128
MOST_BYTES = 256 * 2**20  # of one unpacked element
MATRIX, COMPRESSED, COMPLEX = 14, 15, 0x0800
# Types of data, and classes of matrices that hold numbers.
DATA_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMBER_CLASSES = range(6, 16)


def read_csv(path: Path, options: FileOptions) -> RawHypnogram:
    """Read a column `brain_state`: 1 REM, 2 Wake, 3 NREM, -1 undefined."""
    table = read_rows(path, (COLUMN,))
    return _stages(path, table.seconds(COLUMN).tolist(), options, what="line", first=table.lines[0])


def write_csv(night: Night, path: Path) -> Contents:
    """Write the column `brain_state` as AccuSleePy reads it."""
    words = stage_words(night.from_recording_start(), {"wnr3": {}}, "AccuSleePy")
    return {path: "\n".join([COLUMN, *(DIGITS[word] for word in words)]) + "\n"}


def read_mat(path: Path, options: FileOptions) -> RawHypnogram:
    """Read a vector `labels` of a MAT-file, version 5 to 7, or 7.3 (through h5py)."""
    try:
        values = np.ravel(_labels(path))
    except (StageGuardError, MemoryError):
        raise
    except Exception as error:  # a damaged file makes the libraries raise almost anything
        raise damaged_file(path, error) from None
    if not 0 < len(values) <= MOST_EPOCHS or values.dtype.kind not in "iuf":
        raise file_error(path, f"'labels' holds {len(values):,} {values.dtype} values, expected numbers.")
    return _stages(path, values.tolist(), options, what="epoch", first=0)


def _labels(path: Path) -> npt.NDArray[Any]:
    if read_head(path).startswith(b"MATLAB 7.3"):
        with opened_hdf5(path, f"reading {path.name}", extra="formats") as file:
            _refuse_without_labels(path, {name: file[name].shape for name in file if name == "labels"})
            return values_of(path, file["labels"])
    return _vector(path, read_file(path), "labels")


def _vector(path: Path, data: bytes, name: str) -> npt.NDArray[Any]:
    """Return the numbers of a variable; any error that is not of a file tells that it is damaged."""
    order = {b"IM": "<", b"MI": ">"}[data[126:128]]
    names: dict[str, tuple[int, ...]] = {}
    for kind, body in _elements(data[HEADER_BYTES:], order):
        if kind == COMPRESSED:
            machine = zlib.decompressobj()
            unpacked = machine.decompress(body, MOST_BYTES)
            if machine.unconsumed_tail or not machine.eof:
                raise ValueError("its compressed data are cut, or too large")
            kind, body = next(_elements(unpacked, order))
        if kind != MATRIX:
            continue
        (_, flags), (_, sizes), (_, text), *values = islice(_elements(body, order), 4)
        own = text.rstrip(b"\x00").decode("latin-1")
        names[own] = tuple(np.frombuffer(sizes, f"{order}i4").tolist())
        if own == name:
            break
    _refuse_without_labels(path, names)
    (flag,), ((number_kind, cells),) = struct.unpack_from(f"{order}I", flags), values
    is_vector = math.prod(names[name]) == max(names[name])
    if flag & 0xFF not in NUMBER_CLASSES or flag & COMPLEX or not is_vector:
        raise file_error(path, f"{name!r} of shape {names[name]} holds no plain numbers, expected a vector.")
    numbers = np.frombuffer(cells, order + DATA_TYPES[number_kind])
    if len(numbers) != max(names[name]):
        raise ValueError(f"{name!r} has {len(numbers):,} numbers, its header says {max(names[name]):,}")
    return numbers


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield kind and data of each element; short elements have their data in the tag."""
    at = 0
    while at < len(data):
        kind, n_bytes = struct.unpack_from(f"{order}2I", data, at)
        begin, end = at + 8, at + 8 + n_bytes
        at = end if kind == COMPRESSED else end + -n_bytes % 8
        if kind >> 16:
            kind, n_bytes = kind & 0xFFFF, kind >> 16
            begin, end, at = begin - 4, begin - 4 + n_bytes, begin
        if end > len(data) or end > at:
            raise ValueError("an element ends after its data")
        yield kind, data[begin:end]


def _refuse_without_labels(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    if "labels" not in shapes:
        raise file_error(path, f"holds {listed([*shapes]) or 'nothing'}, expected a variable 'labels'.")
    if math.prod(shapes["labels"]) > MOST_EPOCHS:
        raise file_error(path, f"'labels' has more than {MOST_EPOCHS:,} values. Is it damaged?")


def _stages(path: Path, codes: list[float], options: FileOptions, *, what: str, first: int) -> RawHypnogram:
    seconds = options.epoch_seconds
    notes: tuple[str, ...] = ("labels are read as 1 REM, 2 Wake, 3 NREM: AccuSleep's own numbers",)
    if seconds is None:
        check_usual(path, EPOCH_SECONDS, options.default_epoch_seconds, "AccuSleep")
        notes += (f"the file does not say how long an epoch is: AccuSleep's {EPOCH_SECONDS:g} s assumed",)
    raw = numbered_stages(path, codes, NUMBERINGS["accusleep"], what=what, first=first)
    return replace(raw, epoch_seconds=seconds or EPOCH_SECONDS, notes=notes)


FORMATS = (
    FileFormat(
        "accusleepy-csv",
        "labels of AccuSleePy",
        (".csv",),
        has_columns(COLUMN),
        stages=read_csv,
        write=write_csv,
        loses=(NAMES, *STAGES_ALONE),
    ),
    FileFormat(
        "accusleep-mat",
        "AccuSleep labels (.mat)",
        (".mat",),
        begins_with(b"MATLAB "),
        stages=read_mat,
        loses=STAGES_ALONE,
    ),
)
