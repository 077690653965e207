"""Make a Hypnodensity from a plain matrix and column names."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stageguard.arrays import ROUNDING, SUM_TOLERANCE, Floats, Indices, Mask
from stageguard.errors import (
    InputError,
    MissingFileError,
    StageGuardWarning,
)
from stageguard.files import checked_file, file_error
from stageguard.formats.night import FileOptions, Night, RawDensity, Where
from stageguard.night.hypnodensity import (
    ROUNDED,
    Hypnodensity,
    as_float_matrix,
    explain_bad_probabilities,
    softmax,
)
from stageguard.night.stages import StageScheme, canonical_name, scheme_for
from stageguard.storage import location

SHORTEST_EPOCH, LONGEST_EPOCH = 0.1, 3600.0  # seconds
DEFAULT_EPOCH_SECONDS = 30.0
MOST_LISTED = 8
LABELS_ALONE = "labels-alone"  # code of the error for stages where probabilities are expected
NAMES_NO_STAGES = "names-no-stages"  # code of the error for a table without columns named after stages
MOST_EPOCHS = 1_000_000  # of a hypnogram: almost a year at 30 s, six weeks at 4 s


class FileRemark(str):
    """A remark that only repeats what the file says: nothing was assumed."""

    __slots__ = ()


def existing_file(source: str | os.PathLike[str]) -> Path:
    """Return the path of an existing file; anything else is an error that says what to do."""
    path = location(source)
    if "\x00" in str(path):
        raise InputError(f"the path {str(path)[:60]!r} has a NUL in it, expected the name of a file.")
    try:
        return checked_file(path)
    except IsADirectoryError:
        raise file_error(path, "is a folder, expected a file. Name the files in it.") from None
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(
            f"{path}: No such file or directory, expected a file to read. Check its name."
        ) from None
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise MissingFileError(f"{str(path)[:200]}: cannot be read ({error.strerror}).") from None


def listed(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """Return names for a line of text: the first ones, and how many more there are."""
    shown = ", ".join(name[:40] for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown


def settle_epoch_seconds(
    path: Where, given: float | None, found: float | None, source: str = ""
) -> float | None:
    """Return the epoch length from the caller or the file, or None; refuse it if they disagree."""
    if found is None:
        return given
    owner = "the file" if not isinstance(path, str) else "the object"
    by = f"by its {source}" if source else f"by {owner}"
    if not SHORTEST_EPOCH <= found <= LONGEST_EPOCH:
        raise file_error(
            path,
            f"an epoch lasts {found:g} s {by}, expected {SHORTEST_EPOCH:g} to {LONGEST_EPOCH:g} s. "
            "Write times in seconds.",
        )
    if given is not None and not abs(given - found) <= 1e-3 * found:
        raise file_error(
            path,
            f"an epoch lasts {found:g} s {by}, got epoch_seconds={float(given):g}. Leave it out, or correct "
            f"{owner}.",
        )
    return found


def build_density(path: Where, raw: RawDensity, options: FileOptions) -> Night:
    """Check and order a raw matrix; every error names the file."""
    if options.logits and options.log:
        raise InputError("logits and log exclude each other: give the one the file holds.")
    epoch_seconds, notes = _epoch_seconds(path, raw, options)
    try:
        scheme, columns = _stage_columns(raw, options)
        matrix = as_float_matrix(raw.values, len(raw.names), raw.names)
        if not np.array_equal(columns, np.arange(matrix.shape[1])):
            matrix = np.ascontiguousarray(matrix[:, columns])
        if raw.places is not None:  # the epochs between rows have no evidence
            rows, matrix = matrix, np.full((int(raw.places[-1]) + 1, matrix.shape[1]), np.nan)
            matrix[raw.places] = rows
        rounded: tuple[str, ...] = ()
        if options.normalize:
            matrix, rounded = _divide_rounded(matrix)
        matrix, assumed = to_probabilities(matrix, scheme.names, logits=options.logits, log=options.log)
        assumed = (*rounded, *assumed)
        source = path if isinstance(path, str) else path.name
        remarks = (*notes, *assumed)
        density = Hypnodensity(
            *(matrix, scheme, epoch_seconds, raw.start, raw.source or source, remarks, raw.offset_seconds),
            stager=raw.stager,
        )
        if options.pool_to_seconds is not None:
            density, pooled = pool(density, options.pool_to_seconds)
            remarks += pooled
            density = replace(density, assumed=remarks) if pooled else density
    except InputError as error:
        raise file_error(path, _add_lines(str(error), raw)) from None
    is_assumed = raw.epoch_seconds is None and options.epoch_seconds is None
    return Night(probabilities=density, notes=remarks, is_length_assumed=is_assumed)


def _epoch_seconds(path: Where, raw: RawDensity, options: FileOptions) -> tuple[float, list[str]]:
    """Return the epoch length from the caller, the file, the tool or the default, and remarks on it."""
    notes = list(raw.notes)
    owner = "the file" if not isinstance(path, str) else "the object"
    seconds = settle_epoch_seconds(path, options.epoch_seconds, raw.epoch_seconds, raw.epoch_source)
    if raw.epoch_source and options.epoch_seconds is None:
        told = f"epochs last {seconds:g} s: from {owner}'s {raw.epoch_source}"
        notes.append(FileRemark(told) if not isinstance(path, str) else told)
    if seconds is not None:
        return seconds, notes
    silent = f"{owner} does not say how long an epoch is"
    if raw.usual_seconds is not None:
        if raw.is_chosen:
            check_usual(path, raw.usual_seconds, options.default_epoch_seconds, raw.tool)
        notes.append(f"{silent}: {raw.usual_seconds:g} s assumed, as {raw.tool} usually has")
        return raw.usual_seconds, notes
    seconds = options.default_epoch_seconds or DEFAULT_EPOCH_SECONDS
    notes.append(f"{silent}: {seconds:g} s assumed")
    return seconds, notes


def check_usual(path: Where, usual: float, expected: float | None, tool: str) -> None:
    """Refuse to guess if a tool's default epoch length differs from that of the profile or night."""
    if expected is not None and abs(usual - expected) > 1e-3 * usual:
        raise file_error(
            path,
            f"does not say how long an epoch is: {usual:g} s is the default of {tool}, {expected:g} s "
            f"that of the profile or night it goes with. Say which: epoch_seconds={float(expected):g}.",
        )


def _add_lines(message: str, raw: RawDensity) -> str:
    """Add the line of the file to the rows that a message names, which count from 0 like array indices."""
    lines = raw.lines

    def with_line(found: re.Match[str]) -> str:
        row = int(found[1]) if raw.places is None else int(np.searchsorted(raw.places, int(found[1])))
        return f"{found[0]} (line {lines[row]})" if lines is not None and row < len(lines) else found[0]

    return re.sub(r"\brow (\d+)", with_line, message)


def _stage_columns(raw: RawDensity, options: FileOptions) -> tuple[StageScheme, Indices]:
    """Return scheme and columns of the stages; an error also says which columns were ignored."""
    try:
        return match_columns(raw.names, options.scheme, is_given=options.stages is not None)
    except InputError as error:
        ignored = f" Columns ignored: {listed(raw.ignored)}." if raw.ignored else ""
        raise InputError(f"{error!s}{ignored}") from None


def match_columns(
    names: Sequence[str], preferred: StageScheme | None = None, *, is_given: bool = False
) -> tuple[StageScheme, Indices]:
    """Return the scheme of these names and the column of each stage; a custom scheme if none fits.

    A `preferred` scheme is used before all others if the names are exactly its stages. Known stages that form
    no standard scheme are an error, unless the caller named them (`is_given`).
    """
    if preferred is not None and sorted(names) == sorted(preferred.names):
        return preferred, np.array([list(names).index(name) for name in preferred.names], dtype=np.intp)
    try:
        scheme, columns = scheme_for(names)
        return scheme, np.asarray(columns, dtype=np.intp)
    except InputError:
        if not is_given and all(canonical_name(name) for name in names):
            raise
    meaning = {canonical_name(name): name for name in names}
    scheme = StageScheme.custom(tuple(names), wake=meaning.get("W"), rem=meaning.get("R"))
    return scheme, np.arange(len(names), dtype=np.intp)


# Probabilities that were disturbed (by interpolation or smoothing) stay near [0, 1], and their sums near 1.
SHAKEN_VALUES = (-0.5, 1.5)
SHAKEN_SUMS = (0.5, 1.5)
EDGE = 1e-9  # rounding error of a sum of decimals


def to_probabilities(
    matrix: Floats, names: Sequence[str], *, logits: bool = False, log: bool = False
) -> tuple[Floats, tuple[str, ...]]:
    """Return a matrix as probabilities (n_epochs, n_stages), and what was assumed.

    A row of NaN is an epoch without evidence. Unless the caller says `logits` or `log`, probabilities, logits
    and log-probabilities are told apart by their values.
    """
    if logits:
        return softmax(matrix), ()
    if log:
        return _divide_by_sums(_exponential(matrix), names)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix @ np.ones(matrix.shape[1])
    if matrix.min() >= -ROUNDING and np.abs(sums - 1).max() <= SUM_TOLERANCE:
        return matrix, ()
    scored = np.asarray(~np.isnan(matrix).all(axis=1))
    if not scored.any() or np.isnan(matrix[scored]).any():
        return matrix, ()  # Hypnodensity refuses rows that are partly NaN
    if matrix[scored].min() >= -ROUNDING:
        return _divide_by_sums(matrix, names)
    return _from_negative(matrix, names, scored)


def _divide_rounded(matrix: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Divide rows by their sum if it is off 1 only by rounding; leave other rows as they are."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix.sum(axis=1)
        known = sums[~np.isnan(sums)]
        if len(known) and (np.abs(known / 100 - 1) <= ROUNDED + EDGE).all() and np.nanmin(matrix) >= 0:
            return matrix / sums[:, None], ("percentages: divided by their sums",)
        is_rounded = (np.abs(sums - 1) > SUM_TOLERANCE) & (np.abs(sums - 1) <= ROUNDED + EDGE)
    n_rows = int(is_rounded.sum())
    if not n_rows:
        return matrix, ()
    note = f"{n_rows:,} row{'s' * (n_rows != 1)} divided by the sum, which was off by up to {ROUNDED:g}"
    return matrix / np.where(is_rounded, sums, 1.0)[:, None], (note,)


def _divide_by_sums(matrix: Floats, names: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    """Divide rows by their sum if it is the same for all rows."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix.sum(axis=1)
    known = sums[~np.isnan(sums)]
    if not np.isfinite(known).all():
        raise explain_bad_probabilities(matrix, names)
    if (np.abs(known - 1) <= SUM_TOLERANCE).all():
        return matrix, ()
    off = np.nan_to_num(np.abs(sums - 1))
    if (off <= SUM_TOLERANCE + EDGE).all():  # decimals that are off by exactly the tolerance
        at_edge = off > SUM_TOLERANCE - EDGE
        n_rows = int(at_edge.sum())
        note = f"{n_rows} row{'s' * (n_rows != 1)} off by {SUM_TOLERANCE:g}: divided by the sum"
        return matrix / np.where(at_edge, sums, 1.0)[:, None], (note,)
    usual = float(np.median(known))
    varies = np.abs(known - usual) > SUM_TOLERANCE * usual
    if varies.any() and (np.abs(known - 100) <= 0.05 * matrix.shape[1] + EDGE).all():
        return matrix / sums[:, None], ("rounded percentages: divided by their sums",)
    if len(known) > 1 and usual > 0 and not varies.any():
        return matrix / sums[:, None], (f"rows sum to {usual:.6g}: divided by their sums",)
    most_vary = 2 * np.count_nonzero(varies) >= len(known)
    if len(known) < 2 or most_vary or abs(usual - 1) <= SUM_TOLERANCE:
        raise explain_bad_probabilities(matrix, names)
    row = int(np.flatnonzero(~np.isnan(sums))[np.argmax(varies)])
    raise InputError(
        f"probabilities: row {row} sums to {sums[row]:.6g} and most others to "
        f"{usual:.6g}, expected the same sum in every row. Correct the row, or "
        "set all of it to NaN (no evidence)."
    )


def _from_negative(matrix: Floats, names: Sequence[str], scored: Mask) -> tuple[Floats, tuple[str, ...]]:
    """Return probabilities from logits or log-probabilities; refuse if it is not clear which they are."""
    values = matrix[scored]
    with np.errstate(invalid="ignore", over="ignore"):
        sums = values.sum(axis=1)
        is_row_fine = (values >= -ROUNDING).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)
        adds_up = np.abs(np.exp(np.minimum(values, 1.0)).sum(axis=1) - 1) <= SUM_TOLERANCE
    if is_row_fine.any() or (np.abs(sums - 1) <= SUM_TOLERANCE).all() or np.isposinf(values).any():
        raise explain_bad_probabilities(matrix, names)
    if values.max() <= SUM_TOLERANCE:
        if adds_up.all():
            note = "read as natural log-probabilities: none is above 0, and their exponentials sum to 1"
            return _exponential(matrix), (note,)
        row = int(np.flatnonzero(scored)[np.argmin(adds_up)])
        raise InputError(
            f"row {row} has no value above 0, but its exponentials do not sum to 1: "
            "logarithms to another base, or not normalised? Pass logits=True if "
            "their softmax is meant, else convert them first."
        )
    if _is_inside(values, SHAKEN_VALUES) and _is_inside(sums, SHAKEN_SUMS):
        row = int(np.flatnonzero(scored)[np.argmax((values < -ROUNDING).any(axis=1))])
        column = int(np.argmax(matrix[row] < -ROUNDING))
        raise InputError(
            f"row {row} has {matrix[row, column]:.6g} for {names[column]}: these may "
            "be logits, or probabilities that something pushed below 0. Pass "
            "logits=True, or correct them."
        )
    return softmax(matrix), ("read as logits: the softmax was taken",)


def _is_inside(values: Floats, limits: tuple[float, float]) -> bool:
    return bool(values.min() >= limits[0] and values.max() <= limits[1])


def _exponential(matrix: Floats) -> Floats:
    """Return the exponentials of logarithms; a row without evidence is NaN."""
    bad = ~np.isfinite(matrix.max(axis=1)) & ~np.isnan(matrix).all(axis=1)
    if bad.any():
        raise InputError(
            f"row {int(np.argmax(bad))} has no finite largest value, so it cannot be read as "
            "log-probabilities. Leave the row empty where there is no evidence."
        )
    with np.errstate(over="ignore"):
        return np.exp(matrix)


def pool(density: Hypnodensity, seconds: float) -> tuple[Hypnodensity, tuple[str, ...]]:
    """Average probabilities over epochs of `seconds`, counted from the first row; also return remarks.

    The rule is that of `Hypnodensity.reepoch`: if some rows of a longer epoch have no evidence, the mean is
    over the others, and an epoch with evidence in less than half of its rows has none. Rows that do not fill
    a last epoch are dropped.
    """
    ratio = seconds / density.epoch_seconds
    n_joined = round(ratio)
    if n_joined < 1 or abs(ratio - n_joined) > 1e-6 * n_joined:
        raise InputError(
            f"rows of {density.epoch_seconds:g} s cannot be pooled to {seconds:g} s, expected a whole "
            f"multiple such as {density.epoch_seconds * max(2, n_joined):g}. Leave it out, or correct it."
        )
    if n_joined == 1:
        return density, ()
    n_epochs, n_left = divmod(density.n_epochs, n_joined)
    if not n_epochs:
        raise InputError(
            f"{density.n_epochs} rows of {density.epoch_seconds:g} s do not fill one epoch of {seconds:g} s."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)  # remarks say it instead
        pooled = density.reepoch(seconds)
    notes = [f"{n_joined} rows of {density.epoch_seconds:g} s averaged to one epoch of {seconds:g} s"]
    if n_left:
        notes.append(f"{n_left} row{'s' * (n_left != 1)} at the end fill no epoch: dropped")
    return pooled, tuple(notes)
