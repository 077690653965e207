"""From a plain matrix and column names to a Hypnodensity. Knows no file format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stageguard.errors import FileFormatError, InputError
from stageguard.hypnodensity import Hypnodensity, as_float_matrix
from stageguard.stages import StageScheme, canonical_name, scheme_for

FloatMatrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DensityOptions:
    """What the caller says about a file, before it is opened."""

    stages: tuple[str, ...] | None = None
    epoch_seconds: float | None = None
    default_epoch_seconds: float = 30.0
    logits: bool = False
    log: bool = False


@dataclass(frozen=True, slots=True)
class DensityFile:
    """A file's hypnodensity, and what was assumed or left out while reading it."""

    density: Hypnodensity
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RawDensity:
    """What a format found in a file: numbers, their column names, and its remarks."""

    values: npt.ArrayLike
    names: tuple[str, ...]
    epoch_seconds: float | None = None
    start: datetime | None = None
    notes: tuple[str, ...] = field(default=())
    first_line: int | None = None  # line of row 0, as editors count, where rows are lines


def file_error(path: Path, message: str) -> FileFormatError:
    """One line that begins with the file's name."""
    return FileFormatError(f"{path.name}: {message}")


def build_density(path: Path, raw: RawDensity, options: DensityOptions) -> DensityFile:
    """Check and order a raw matrix; every complaint names the file."""
    if options.logits and options.log:
        raise InputError("logits and log exclude each other: give the one the file holds.")
    notes = list(raw.notes)
    epoch_seconds = options.epoch_seconds
    if epoch_seconds is None:
        epoch_seconds = raw.epoch_seconds
    if epoch_seconds is None:
        epoch_seconds = options.default_epoch_seconds
        notes.append(f"the file does not say how long an epoch is: {epoch_seconds:g} s assumed")
    try:
        scheme, columns = match_columns(raw.names)
        matrix = as_float_matrix(raw.values, len(raw.names), raw.names)
        matrix = to_probabilities(matrix[:, columns], scheme.names, options)
        density = Hypnodensity(matrix, scheme, epoch_seconds, start=raw.start, source=path.name)
    except InputError as error:
        raise file_error(path, _with_line(str(error), raw.first_line)) from None
    return DensityFile(density, tuple(notes))


def _with_line(message: str, first_line: int | None) -> str:
    """Rows count from 0 like array indices; say the line of the file too."""
    if first_line is None:
        return message
    return re.sub(
        r"\brow (\d+)", lambda found: f"{found[0]} (line {int(found[1]) + first_line})", message, count=1
    )


def match_columns(names: Sequence[str]) -> tuple[StageScheme, npt.NDArray[np.intp]]:
    """Scheme of these names and the column of each of its stages; a custom scheme where none fits."""
    try:
        scheme, columns = scheme_for(names)
        return scheme, np.asarray(columns, dtype=np.intp)
    except InputError:
        if all(canonical_name(name) for name in names):
            raise
    meaning = {canonical_name(name): name for name in names}
    scheme = StageScheme.custom(tuple(names), wake=meaning.get("W"), rem=meaning.get("R"))
    return scheme, np.arange(len(names), dtype=np.intp)


def to_probabilities(matrix: FloatMatrix, names: Sequence[str], options: DensityOptions) -> FloatMatrix:
    """Softmax of logits, exponential of log-probabilities, or the matrix itself."""
    if not (options.logits or options.log):
        return np.ascontiguousarray(matrix)
    kind = "logits" if options.logits else "log-probabilities"
    missing = np.isnan(matrix).all(axis=1)
    peak = matrix.max(axis=1, where=~np.isnan(matrix), initial=-np.inf)
    bad = ~missing & ~np.isfinite(peak)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"row {row} has no finite largest value ({peak[row]}), so it cannot be read as {kind}. "
            "Leave the row empty where there is no evidence."
        )
    if options.log:
        return np.exp(matrix)
    weights = np.exp(matrix - np.where(missing, 0.0, peak)[:, None])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
