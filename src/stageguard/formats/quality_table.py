"""Read the quality of each epoch from a file, and match it with the epochs of a night by time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats, Indices
from stageguard.base.files import file_error, open_file
from stageguard.formats.tables.delimited import read_delimited
from stageguard.formats.tables.probabilities import other_columns
from stageguard.formats.tables.row_times import meaning_of
from stageguard.formats.tables.table import NAMELESS, Table, as_number, is_number
from stageguard.formats.tables.timing import TOLERANCE, Timing, read_timing, refuse_unread
from stageguard.night.hypnodensity import Hypnodensity

LOST_COLUMNS = ("quality", "beta", "lost")  # 0 clean, 1 lost
CLEAN_COLUMN = "clean"  # 1 clean, 0 lost
NO_TIMES = Timing()


@dataclass(frozen=True, slots=True)
class QualityTable:
    """Quality of rows, 0 clean to 1 lost, and when the rows are."""

    path: Path
    values: Floats
    timing: Timing = NO_TIMES
    is_timed: bool = False  # whether the file says which epochs the rows are

    def of(self, density: Hypnodensity) -> Floats:
        """Return the quality of every epoch of a night; refuse rows that are not its epochs.

        Epochs without evidence need no row.
        """
        seconds, found = density.epoch_seconds, self.timing.epoch_seconds
        if found is not None and abs(found - seconds) > 1e-3 * seconds:
            raise file_error(
                self.path,
                f"its rows are {found:g} s long and the night's epochs {seconds:g} s. Expected one row per "
                "epoch.",
            )
        if not self.is_timed:
            if len(self.values) != density.n_epochs:
                raise file_error(
                    self.path,
                    f"has {len(self.values):,} rows for a night of {density.n_epochs:,} epochs. Expected one "
                    "row per epoch, or a column onset in seconds.",
                )
            return self.values
        rows = np.arange(len(self.values)) if self.timing.places is None else self.timing.places
        return self._put(rows + self._shift(density), density)

    def _shift(self, density: Hypnodensity) -> int:
        """Return how many epochs after the night's first the table's first epoch is."""
        begin, seconds = self.timing.offset_seconds - density.offset_seconds, density.epoch_seconds
        start = self.timing.start
        if start is not None and density.start is not None:
            if (start.tzinfo is None) != (density.start.tzinfo is None):
                raise file_error(self.path, "its times have a zone and the night's none, or the reverse.")
            begin = (start - density.start).total_seconds()
        shift = round(begin / seconds)
        if abs(begin - shift * seconds) > TOLERANCE * seconds:
            raise file_error(
                self.path,
                f"its rows begin {begin - np.floor(begin / seconds) * seconds:g} s after the night's epochs, "
                "expected them at the same times.",
            )
        return shift

    def _put(self, epochs: Indices, density: Hypnodensity) -> Floats:
        """Return the values at these epochs of the night."""
        seconds = density.epoch_seconds
        if epochs[0] < 0:
            raise file_error(
                self.path, f"begins {-epochs[0] * seconds:g} s before the night. Remove the rows."
            )
        if epochs[-1] >= density.n_epochs:
            end = density.offset_seconds + density.n_epochs * seconds
            raise file_error(
                self.path,
                f"goes on after the night's last epoch, which ends at {end:g} s. Remove these rows.",
            )
        quality = np.full(density.n_epochs, np.nan)
        quality[epochs] = self.values
        has_evidence = ~np.isnan(density.probabilities[:, 0])
        missing = np.flatnonzero(np.isnan(quality) & has_evidence)
        if len(missing):
            at, more = density.offset_seconds + missing[0] * seconds, len(missing) - 1
            others = f" and {more:,} more" if more else ""
            raise file_error(
                self.path,
                f"has no row for the epoch at {at:g} s{others}. Add rows, with 1 where the signal was lost.",
            )
        return np.where(np.isnan(quality), 0.0, quality)


def read_quality(path: Path) -> QualityTable:
    """Read one number per epoch from a 1-D .npy, a bare column, or a table with a column of quality.

    The column is named quality, beta or lost (0 clean, 1 lost), or clean (1 clean, 0 lost). Columns such as
    onset, time, duration and epoch say which epochs the rows are.
    """
    if path.suffix.lower() == ".npy":
        return QualityTable(path, _array(path))
    table = read_delimited(path, kind="text")
    if len(table.header) == 1 and is_number(table.header[0]):  # no header: the first line is a number, too
        lines = [table.lines[0] - 1 if table.lines else 1, *table.lines]
        table = replace(
            table, header=LOST_COLUMNS[:1], columns=[(*table.header, *table.column(0))], lines=lines
        )
    header = [cell.strip().casefold() for cell in table.header]
    column = _column(path, table, header)
    values = _numbers(path, table, column)
    if header[column] == CLEAN_COLUMN:
        values = 1.0 - values
    times, _ = other_columns(table, (column,), can_decode=False)
    refuse_unread(path, times, length_is_known=True)
    is_timed = times.onset is not None or times.epoch is not None
    return QualityTable(path, values, read_timing(path, times, table.lines), is_timed)


def _array(path: Path) -> Floats:
    try:
        with open_file(path, "an array") as file:
            values = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise file_error(path, f"is not a readable .npy array ({str(error)[:80]}).") from None
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise file_error(path, f"expected one number per epoch, got shape {values.shape} of {values.dtype}.")
    return np.asarray(values, dtype=np.float64)


def _column(path: Path, table: Table, header: list[str]) -> int:
    """Return the column of quality; ask which way a column of another name runs."""
    known = [i for i, name in enumerate(header) if name in (*LOST_COLUMNS, CLEAN_COLUMN)]
    if len(known) == 1:
        return known[0]
    if known:
        names = " and ".join(table.header[i] for i in known)
        raise file_error(path, f"has the columns {names}, expected one of them. Remove the other.")
    likely = [name for name in table.header if meaning_of(name) is None and name.casefold() not in NAMELESS]
    telling = [name for name in likely if "sqi" in name.casefold() or "quality" in name.casefold()]
    asked = (telling or likely or list(table.header))[0]
    raise file_error(
        path,
        f"which way does its column {asked[:40]} run? Name the column lost if 1 is lost and 0 clean, or "
        "clean if 1 is clean and 0 lost.",
    )


def _numbers(path: Path, table: Table, column: int) -> Floats:
    values = [as_number(cell) for cell in table.column(column)]
    for line, value, cell in zip(table.lines, values, table.column(column), strict=True):
        if value is None or not 0 <= value <= 1:
            raise file_error(path, f"line {line}: expected a quality from 0 to 1, got {cell[:40]!r}.")
    if not values:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    return np.array(values, dtype=np.float64)
