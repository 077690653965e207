"""Read labels of AccuSleep (MAT-files) and AccuSleePy (CSV, also with confidences); write the CSV.

A MAT-file of level 5 (MATLAB 5 to 7) is a chain of elements: type, number of bytes, data. Every length is
checked against the data, so that a damaged file is just an error: scipy 1.17 ends in a segmentation fault on
one of the damaged files that the tests make.

AccuSleePy writes `brain_state,confidence_score`: digits, and the sigmoid of the largest logit. It loses the
values of the other stages, as do tables of another tool's stage and confidence, which are read here, too.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats, Indices
from stageguard.checks import MISSING_WORDS
from stageguard.errors import StageGuardError, warn
from stageguard.files import damaged_file, file_error, open_file, read_file
from stageguard.formats.density import MOST_EPOCHS, check_usual, listed
from stageguard.formats.file_format import (
    ANNOTATIONS,
    LEAD,
    NUMBERS_ALONE,
    OTHER_PROBABILITIES,
    SCORER,
    STAGES_ALONE,
    FileFormat,
    always_final,
)
from stageguard.formats.hdf5 import opened_hdf5, values_of
from stageguard.formats.hypnogram import NUMBERINGS, numbered_stages
from stageguard.formats.night import (
    FileOptions,
    RawDensity,
    RawHypnogram,
    Where,
    of_both,
    of_stages,
)
from stageguard.formats.outgoing import Content, Outgoing, stage_words
from stageguard.formats.sniffing import begins_with, first_row, has_columns
from stageguard.formats.tables.delimited import find_rows, read_rows, text_lines
from stageguard.night.stages import AASM5, SCHEMES, canonical_name

NO_LABEL = MISSING_WORDS | {"-1", "?", "art", "uns"}
EPOCH_SECONDS = 2.5  # AccuSleep's default, which files do not tell
COLUMN = "brain_state"
DIGITS = {"R": "1", "W": "2", "N": "3", "?": "-1"}
HEADER_BYTES = 128
MOST_BYTES = 256 * 2**20  # of one unpacked element
MOST_DIMENSIONS = 32
INT8, INT32, UINT32, MATRIX, COMPRESSED = 1, 5, 6, 14, 15
# Types of data, and classes of matrices that hold numbers.
DATA_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMBER_CLASSES = range(6, 16)
COMPLEX = 0x0800


def read_csv(path: Path, options: FileOptions) -> RawHypnogram:
    """Read a column `brain_state`: 1 REM, 2 Wake, 3 NREM, -1 undefined."""
    table = read_rows(path, (COLUMN,))
    codes = table.seconds(COLUMN)
    return _stages(path, codes.tolist(), options, what="line", first=table.lines[0])


def write_csv(night: Outgoing, path: Path) -> Content:
    """Write the column `brain_state` as AccuSleePy reads it."""
    words = stage_words(night.from_recording_start(), {"wnr3": {}}, "AccuSleePy")
    return Content({path: "\n".join([COLUMN, *(DIGITS[word] for word in words)]) + "\n"})


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
    with open_file(path) as file:
        head = file.read(1024)
    if head.startswith(b"MATLAB 7.3"):
        with opened_hdf5(path, f"reading {path.name}", extra="formats") as file:
            if "labels" not in file:
                names = listed(list(file)) or "nothing"
                raise file_error(path, f"holds {names}, expected a variable 'labels' of AccuSleep.")
            if file["labels"].size > MOST_EPOCHS:
                raise file_error(path, f"'labels' has {file['labels'].size:,} values. Is it damaged?")
            return values_of(path, file["labels"])
    return _read_matrix(path, "labels")


def _stages(path: Path, codes: list[float], options: FileOptions, *, what: str, first: int) -> RawHypnogram:
    seconds = options.epoch_seconds
    notes: tuple[str, ...] = ("labels are read as 1 REM, 2 Wake, 3 NREM: AccuSleep's own numbers",)
    if seconds is None:
        check_usual(path, EPOCH_SECONDS, options.default_epoch_seconds, "AccuSleep")
        notes += (f"the file does not say how long an epoch is: AccuSleep's {EPOCH_SECONDS:g} s assumed",)
    raw = numbered_stages(path, codes, NUMBERINGS["accusleep"], what=what, first=first)
    return replace(raw, epoch_seconds=seconds or EPOCH_SECONDS, notes=notes)


class _Element(NamedTuple):
    kind: int
    data: bytes


class _Matrix(NamedTuple):
    name: str
    flags: int
    shape: tuple[int, ...]
    rest: bytes  # the elements with its numbers


def _read_matrix(path: Path, name: str) -> npt.NDArray[Any]:
    """Return the matrix of this name; a file without it, or a damaged file, is an error."""
    data = read_file(path)
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None or len(data) < HEADER_BYTES:
        raise damaged_file(path, "its header is no MAT-file's of level 5")
    names = []
    at = HEADER_BYTES
    while at < len(data):
        element, at = _element(path, data, at, order)
        if element.kind == COMPRESSED:
            element = _unpack(path, element.data, order)
        if element.kind != MATRIX:
            continue
        matrix = _matrix(path, element.data, order)
        if matrix.name == name:
            return _values(path, matrix, order)
        names.append(matrix.name)
    raise file_error(path, f"holds {listed(names) or 'nothing'}, expected a variable {name!r}.")


def _element(path: Path, data: bytes, place: int, order: str) -> tuple[_Element, int]:
    """Return one element and where the next one begins; short elements have their data in the tag."""
    if place + 8 > len(data):
        raise damaged_file(path, "it ends within a tag")
    first, n_bytes = struct.unpack_from(f"{order}2I", data, place)
    if first >> 16:
        kind, n_bytes = first & 0xFFFF, first >> 16
        if n_bytes > 4:
            raise damaged_file(path, f"a short element has {n_bytes} bytes")
        return _Element(kind, data[place + 4 : place + 4 + n_bytes]), place + 8
    end = place + 8 + n_bytes
    if end > len(data):
        raise damaged_file(path, f"an element has {n_bytes:,} bytes, but {len(data) - place - 8:,} are left")
    padded = end if first == COMPRESSED else min(end + -n_bytes % 8, len(data))
    return _Element(first, data[place + 8 : end]), padded


def _unpack(path: Path, packed: bytes, order: str) -> _Element:
    machine = zlib.decompressobj()
    try:
        data = machine.decompress(packed, MOST_BYTES)
    except zlib.error as error:
        raise damaged_file(path, str(error)) from None
    if machine.unconsumed_tail:
        raise file_error(path, f"unpacks to more than {MOST_BYTES:,} bytes, expected one recording.")
    if not machine.eof:
        raise damaged_file(path, "its compressed data are cut")
    return _element(path, data, 0, order)[0]


def _matrix(path: Path, data: bytes, order: str) -> _Matrix:
    flags, position = _element(path, data, 0, order)
    dimensions, position = _element(path, data, position, order)
    name, position = _element(path, data, position, order)
    if flags.kind != UINT32 or len(flags.data) != 8 or dimensions.kind != INT32 or name.kind != INT8:
        raise damaged_file(path, "a variable does not begin with its class, size and name")
    n_dimensions = len(dimensions.data) // 4
    if len(dimensions.data) % 4 or not 2 <= n_dimensions <= MOST_DIMENSIONS:
        raise damaged_file(path, f"a variable has {len(dimensions.data)} bytes of sizes")
    shape = struct.unpack(f"{order}{n_dimensions}i", dimensions.data)
    if min(shape) < 0:
        raise damaged_file(path, f"a variable has the shape {shape}")
    text = name.data.rstrip(b"\x00").decode("latin-1")
    return _Matrix(text, struct.unpack_from(f"{order}I", flags.data)[0], shape, data[position:])


def _values(path: Path, matrix: _Matrix, order: str) -> npt.NDArray[Any]:
    if matrix.flags & 0xFF not in NUMBER_CLASSES or matrix.flags & COMPLEX:
        raise file_error(path, f"{matrix.name!r} holds no plain numbers, expected a vector of labels.")
    n_values = math.prod(matrix.shape)  # unlike NumPy's, Python's whole numbers do not overflow
    if n_values > MOST_EPOCHS:
        raise file_error(path, f"{matrix.name!r} has the shape {matrix.shape}. Is it damaged?")
    element, _ = _element(path, matrix.rest, 0, order)
    if element.kind not in DATA_TYPES:
        raise damaged_file(path, f"{matrix.name!r} has data of the unknown type {element.kind}")
    dtype = np.dtype(order + DATA_TYPES[element.kind])
    if len(element.data) != n_values * dtype.itemsize:
        raise damaged_file(path, f"{matrix.name!r} has {len(element.data):,} bytes for {n_values:,} numbers")
    values = np.frombuffer(element.data, dtype).reshape(matrix.shape, order="F")
    return values.astype(dtype.newbyteorder("="))


@dataclass(frozen=True, slots=True)
class ConfidenceTool:
    """A tool that writes a table of confidences, and what its columns and numbers mean."""

    name: str
    format: str
    label: str
    confidence: str
    digits: tuple[str, ...]  # stages of the digits from 1; empty if labels are names
    usual_seconds: float
    meaning: str


ACCUSLEEPY = ConfidenceTool(
    "AccuSleePy", "accusleepy-csv", "brain_state", "confidence_score", ("R", "W", "N"), 2.5,
    "the sigmoid of the largest logit, and belongs to the label before short bouts were replaced",
)  # fmt: skip


def read_confidences(path: Path, options: FileOptions, *, tool: ConfidenceTool) -> RawDensity:
    """Read labels and confidences from a tool's table; refuse unless the caller named the format."""
    table = find_rows(path, text_lines(path), lambda header: tool.label in header)
    if table is None:
        raise file_error(path, f"has no column {tool.label}, so it is not a table of {tool.name}.")
    if tool.confidence not in table.header:
        raise file_error(
            path,
            f"holds the labels of {tool.name} without confidence (got: {listed(table.header)}), so no "
            "probabilities. Read it with read_hypnogram.",
        )
    confidences, _ = table.numbers(table.header.index(tool.confidence))
    if options.format != tool.format:
        raise file_error(
            path,
            "holds one stage and its confidence per epoch, not a distribution over the stages: the "
            f"confidence of {tool.name} is {tool.meaning}. To decode it all the same, with the rest "
            "spread evenly, say so: ",
            f"format={tool.format!r}",
            ".",
        )
    return spread(path, table.column(tool.label), confidences, options, tool, table.lines)


def spread(
    where: Where,
    labels: Sequence[str],
    confidences: Floats,
    options: FileOptions,
    tool: ConfidenceTool,
    lines: Sequence[int] | None,
) -> RawDensity:
    """Give the label its confidence and the other stages equal parts of the rest, with a warning.

    A confidence that does not exceed an equal share does not support the label: no evidence.
    """
    names, places = _label_places(where, labels, options, tool, lines)
    n_stages = len(names)
    scored = places >= 0
    bad = scored & ~((confidences >= 0) & (confidences <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        line = f"row {row}" if lines is None else f"line {lines[row]}"
        raise file_error(where, f"{line}: the confidence is {confidences[row]:g}, expected 0 to 1.")
    known = scored & (confidences > 1 / n_stages)
    values = np.repeat(((1 - confidences) / (n_stages - 1))[:, None], n_stages, axis=1)
    values[np.flatnonzero(known), places[known]] = confidences[known]
    values[~known] = np.nan
    name = where if isinstance(where, str) else where.name
    others = f"the other {n_stages - 1} stages equal parts of the rest"
    notes = [f"not a distribution: each label got its confidence, {others}"]
    text = f"{name}: {notes[0]}. Decisions on it are weaker than they look."
    warn(text)
    n_weak = int(np.count_nonzero(scored & ~known))
    if n_weak:
        notes.append(f"{n_weak:,} with a confidence of at most 1/{n_stages}: read as without evidence")
    return RawDensity(
        values,
        names,
        notes=tuple(notes),
        lines=lines,
        usual_seconds=tool.usual_seconds,
        tool=tool.name,
        is_chosen=bool(tool.digits),
    )


def _label_places(
    where: Where,
    labels: Sequence[str],
    options: FileOptions,
    tool: ConfidenceTool,
    lines: Sequence[int] | None,
) -> tuple[tuple[str, ...], Indices]:
    """Return stage names, and the index of each label among them, -1 if undefined."""
    if tool.digits:
        names = tool.digits if options.stages is None else tuple(options.stages)
        meaning = {str(digit): digit - 1 for digit in range(1, len(names) + 1)}
        expected = ", ".join(f"{digit} {name}" for digit, name in enumerate(names, start=1))
    else:
        named = {canonical_name(label) for label in labels if label.casefold() not in NO_LABEL}
        fitting = [scheme for scheme in SCHEMES.values() if named <= set(scheme.names)]
        names = tuple(options.stages or (fitting[0] if fitting else AASM5).names)
        meaning = {str(canonical_name(name) or name): index for index, name in enumerate(names)}
        expected = ", ".join(names)
    places = np.full(len(labels), -1, dtype=np.intp)
    for row, label in enumerate(labels):
        key = label.removesuffix(".0") if tool.digits else str(canonical_name(label) or label)
        if key in meaning and key.casefold() not in NO_LABEL:
            places[row] = meaning[key]
        elif key.casefold() not in NO_LABEL:
            line = f"row {row}" if lines is None else f"line {lines[row]}"
            raise file_error(
                where,
                f"{line}: the stage is {label[:40]!r}, expected {expected}, or -1. Name others with stages.",
            )
    return names, places


FORMATS = (
    FileFormat(
        "accusleepy-csv",
        "labels and confidences of AccuSleePy",
        (".csv",),
        lambda head, path: COLUMN in first_row(head),
        sniff_hypnogram=has_columns(COLUMN),
        reader=of_both(read_csv, partial(read_confidences, tool=ACCUSLEEPY)),
        write=write_csv,
        loses=(OTHER_PROBABILITIES, *NUMBERS_ALONE, LEAD, SCORER, ANNOTATIONS),
        has_final_stages=always_final,
    ),
    FileFormat(
        "accusleep-mat",
        "AccuSleep labels (.mat)",
        (".mat",),
        begins_with(b"MATLAB "),
        reader=of_stages(read_mat),
        loses=STAGES_ALONE,
    ),
)
