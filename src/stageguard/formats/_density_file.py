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

SHORTEST_EPOCH, LONGEST_EPOCH = 0.1, 3600.0  # seconds
MOST_LISTED = 8
SILENT = "the file does not say how long an epoch is"

FloatMatrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DensityOptions:
    """What the caller says about a file, before it is opened."""

    stages: tuple[str, ...] | None = None
    epoch_seconds: float | None = None
    default_epoch_seconds: float = 30.0
    logits: bool = False
    log: bool = False
    scheme: StageScheme | None = None  # the profile's: columns with exactly its names are its stages


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
    lines: Sequence[int] | None = None  # where each row stands, as editors count, where rows are lines
    epoch_source: str = ""  # the columns that tell the epoch length
    places: npt.NDArray[np.intp] | None = None  # epoch of each row where some epochs have none
    is_told: bool = False  # the file tells the epoch length, in a way that is not read


def file_error(path: Path, message: str) -> FileFormatError:
    """One line that begins with the file's name."""
    name = path.name if path.name not in ("", "..") else path.resolve().name or str(path)
    return FileFormatError(f"{name}: {message}")


def listed(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """Names for a line of text; of very many only the first ones, and how many more there are."""
    shown = ", ".join(name[:40] for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def settle_epoch_seconds(
    path: Path, given: float | None, found: float | None, source: str = ""
) -> float | None:
    """Epoch length the caller or the file says; both must say the same, or there is an error."""
    if found is None:
        return given
    by = f"by its {source}" if source else "by the file"
    if not SHORTEST_EPOCH <= found <= LONGEST_EPOCH:
        raise file_error(
            path,
            f"an epoch lasts {found:g} s {by}, expected {SHORTEST_EPOCH:g} to {LONGEST_EPOCH:g} s. "
            "Write times in seconds.",
        )
    if given is not None and not abs(given - found) <= 1e-3 * found:
        raise file_error(
            path, f"an epoch lasts {found:g} s {by}, got epoch_seconds={given:g}. Leave it out, or correct "
            "the file."
        )  # fmt: skip
    return found


def build_density(path: Path, raw: RawDensity, options: DensityOptions) -> DensityFile:
    """Check and order a raw matrix; every complaint names the file."""
    if options.logits and options.log:
        raise InputError("logits and log exclude each other: give the one the file holds.")
    notes = list(raw.notes)
    epoch_seconds = settle_epoch_seconds(path, options.epoch_seconds, raw.epoch_seconds, raw.epoch_source)
    if raw.epoch_source and options.epoch_seconds is None:
        notes.append(f"epochs last {epoch_seconds:g} s: from the file's {raw.epoch_source}")
    if epoch_seconds is None:
        epoch_seconds = options.default_epoch_seconds
        missing = "the file's epoch length could not be read" if raw.is_told else SILENT
        notes.append(f"{missing}: {epoch_seconds:g} s assumed")
    try:
        scheme, columns = match_columns(raw.names, options.scheme)
        matrix = as_float_matrix(raw.values, len(raw.names), raw.names)
        matrix = _with_gaps(matrix[:, columns], raw.places)
        matrix = to_probabilities(matrix, scheme.names, options)
        density = Hypnodensity(matrix, scheme, epoch_seconds, start=raw.start, source=path.name)
    except InputError as error:
        raise file_error(path, _with_line(str(error), raw)) from None
    return DensityFile(density, tuple(notes))


def _with_gaps(matrix: FloatMatrix, places: npt.NDArray[np.intp] | None) -> FloatMatrix:
    """Put rows at their epochs; the epochs in between have no evidence."""
    if places is None:
        return matrix
    spread = np.full((int(places[-1]) + 1, matrix.shape[1]), np.nan)
    spread[places] = matrix
    return spread


def _with_line(message: str, raw: RawDensity) -> str:
    """Rows count from 0 like array indices; say the line of the file too."""
    lines = raw.lines
    if lines is None:
        return message

    def both(found: re.Match[str]) -> str:
        row = int(found[1]) if raw.places is None else int(np.searchsorted(raw.places, int(found[1])))
        return f"{found[0]} (line {lines[row]})" if row < len(lines) else found[0]

    return re.sub(r"\brow (\d+)", both, message, count=1)


def match_columns(
    names: Sequence[str], own: StageScheme | None = None
) -> tuple[StageScheme, npt.NDArray[np.intp]]:
    """Scheme of these names and the column of each of its stages; a custom scheme where none fits.

    `own` is a scheme that goes before all others when the names are exactly its stages.
    """
    if own is not None and sorted(names) == sorted(own.names):
        return own, np.array([list(names).index(name) for name in own.names], dtype=np.intp)
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
