"""Read what may accompany nights: pins, tables of groups and subjects, sample lists, tables of quality."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from pathlib import Path

import numpy as np

from stageguard.arrays import Floats
from stageguard.checks import MISSING_WORDS
from stageguard.errors import PinError, did_you_mean
from stageguard.files import file_error, read_cell
from stageguard.formats.density import listed
from stageguard.formats.tables.delimited import read_delimited
from stageguard.formats.tables.probabilities import other_columns
from stageguard.formats.tables.table import Table, as_number, is_number
from stageguard.formats.tables.times import TOLERANCE, Timing, read_timing
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.timing import Moment, seconds_between
from stageguard.storage import location

MOST_DIGITS = 9  # of an epoch's index: enough for 30 years in epochs of 1 s


NO_GROUP = MISSING_WORDS - {"none"}  # "none" may be a group, as in apnoea: none, mild, severe


@dataclass(frozen=True, slots=True)
class ListRow:
    """A row of a table of groups or subjects; missing cells are empty or None."""

    night_id: str
    group: str
    subject: str
    expert: Path | None


def parse_pins(texts: Sequence[str]) -> dict[int, str]:
    """Return pins from `120=R` items or from tables with the columns epoch and stage.

    They are typed from 1 and returned from 0. An epoch pinned twice to different stages is an error.
    """
    pairs: list[tuple[str, str]] = []
    for text in texts:
        if "=" in text and not location(text).is_file():
            parts = (part.partition("=") for part in text.split(",") if part.strip())
            pairs += [(epoch, stage) for epoch, _, stage in parts]
        elif text.strip() and location(text).is_file():
            pairs += [(row["epoch"], row["stage"]) for _, row in _records(location(text), ("epoch", "stage"))]
        else:
            expected = "expected one such as 120=R, or a table with the columns epoch and stage."
            raise PinError(f"{text!r} is neither a pin nor a file, {expected}")
    pins: dict[int, str] = {}
    for epoch, stage in ((epoch.strip(), stage.strip()) for epoch, stage in pairs):
        if not epoch.isdecimal() or len(epoch) > MOST_DIGITS or int(epoch) < 1 or not stage:
            found = f"{epoch[:40]!r} and the stage {stage[:40]!r}"
            raise PinError(f"a pin has the epoch {found}, expected such as 120=R; the first epoch is 1.")
        index = int(epoch) - 1
        if pins.setdefault(index, stage) != stage:
            raise PinError(f"epoch {epoch} is pinned to {pins[index]!r} and to {stage!r}. Keep one.")
    return pins


def read_groups(path: Path) -> dict[str, ListRow]:
    """Return nights by id from a table with the columns id and group, and optionally subject and expert.

    `expert` is the path of an expert's hypnogram, relative to the table's folder. A night whose group is n/a
    is left out.
    """
    return _nights(path, "group", leaves_out=True)


def read_subjects(path: Path) -> dict[str, ListRow]:
    """Return nights by id from a table with the columns id and subject, and optionally group and expert.

    Nights of one `group` stay together when nights are split, if that is more than the subject.
    """
    return _nights(path, "subject")


def _nights(path: Path, key: str, *, leaves_out: bool = False) -> dict[str, ListRow]:
    """Return nights by id; nights without `key` are left out if `leaves_out`, else an error."""
    nights: dict[str, ListRow] = {}
    for line, cells in _records(path, ("id", key)):
        cells |= {column: read_cell(cells[column]) for column in ("id", key)}
        if leaves_out and cells["id"] and cells[key].casefold() in NO_GROUP - {""}:
            continue
        cells |= {column: "" for column, cell in cells.items() if cell.casefold() in NO_GROUP}
        name, expert = cells["id"], cells.get("expert")
        empty = [column for column in ("id", key) if not cells[column]]
        if empty:
            raise file_error(path, f"line {line} has no {empty[0]}.")
        if name in nights:
            raise file_error(path, f"line {line} names {name!r} again. Expected one row per night.")
        of_expert = path.parent / expert if expert else None
        nights[name] = ListRow(name, cells.get("group", ""), cells.get("subject", ""), of_expert)
    if not nights:
        raise file_error(path, "has a header but no rows. Expected one row per night.")
    return nights


def _records(path: Path, columns: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Return line and cells of each row of a table that has these columns, in upper or lower case."""
    table = read_delimited(path)
    header = tuple(name.casefold() for name in table.header)
    if not all(name in header for name in columns):
        there = ", ".join(table.header)
        raise file_error(path, f"expected the columns {' and '.join(columns)}, got: {there}.")
    return list(zip(table.lines, replace(table, header=header).records(), strict=True))


# Sample lists: a TSV or CSV with a row per night, with its files, start and lights.
SOME_DAY = date(2000, 1, 1)  # for a time of day without a date; no statistic depends on the day
START_WORDS = "a time such as 22:30 or 2024-05-01T22:30"
MOMENT_WORDS = f"seconds since the beginning of the recording, or {START_WORDS}"


def numbered_rows(path: Path, files: Sequence[str] = ("edf",)) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a list with their line numbers; each must name at least one of `files`."""
    columns = ", ".join(dict.fromkeys(("id", "subject", *files, "scoring")))
    table = read_delimited(path, comments=True, expected=f"a header such as: {columns}")
    header = [_column(name) for name in table.header]
    for index, name in enumerate(header):
        if name in header[:index]:
            raise file_error(path, f"has the column {name!r} twice. Keep one.")
        if name.endswith(":") or name.startswith(":"):
            raise file_error(
                path, f"has the column {name!r}, expected such as channel:eeg or scoring:second."
            )
    wanted = " or ".join(files)
    if not {*files} & {*header}:
        there = f"{', '.join(header)[:80]}.{did_you_mean(files[0], header)}"
        raise file_error(path, f"has no column {wanted}, expected one; it has: {there}")
    rows: dict[str, tuple[int, dict[str, str]]] = {}
    for line, cells in zip(table.lines, table.rows, strict=True):
        row = {
            name: cell for name, cell in zip(header, cells, strict=True) if cell.lower() not in MISSING_WORDS
        }
        row |= {name: read_cell(row[name]) for name in ("id", "subject") if name in row}
        file = next((row[column] for column in files if column in row), None)
        if file is None:
            raise file_error(path, f"line {line} names no file in its column {wanted}.")
        name = row.get("id") or Path(file).stem
        if name in rows:
            again = f"line {line} is {name!r} again, after line {rows[name][0]}"
            raise file_error(path, f"{again}. Give each its own id.")
        rows[name] = line, row
    if not rows:
        raise file_error(path, "has a header but no rows, expected one row per recording.")
    return list(rows.values())


def _column(name: str) -> str:
    prefix, mark, rest = name.strip().partition(":")
    return f"{prefix.strip().lower()}{mark}{rest.strip()}" if mark else prefix.lower().replace(" ", "_")


def parse_moment(text: str) -> Moment:
    """Return a time for `sleep_statistics`, or raise ValueError: see `MOMENT_WORDS`."""
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d*)?s?", text):
        return float(text.removesuffix("s"))
    if "-" in text:
        return datetime.fromisoformat(text)
    _time_of_day(text)
    return text


def parse_start(text: str) -> datetime:
    """Return when a recording begins, or raise ValueError; a time without a date gets `SOME_DAY`."""
    text = text.strip()
    return datetime.fromisoformat(text) if "-" in text else datetime.combine(SOME_DAY, _time_of_day(text))


def _time_of_day(text: str) -> time:
    if not re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
        raise ValueError(text)
    return time.fromisoformat(f"0{text}" if text[1] == ":" else text)


# Quality of each epoch, matched with the epochs of a night by time.
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
            expected = f"the night's epochs {seconds:g} s. Expected one row per epoch."
            raise file_error(self.path, f"its rows are {found:g} s long and {expected}")
        if not self.is_timed:
            if len(self.values) != density.n_epochs:
                found_rows = f"{len(self.values):,} rows for a night of {density.n_epochs:,} epochs"
                expected = "expected one row per epoch, or a column onset in seconds."
                raise file_error(self.path, f"has {found_rows}, {expected}")
            return self.values
        rows = np.arange(len(self.values)) if self.timing.places is None else self.timing.places
        epochs = rows + self._shift(density)
        if epochs[0] < 0:
            raise file_error(
                self.path, f"begins {-epochs[0] * seconds:g} s before the night. Remove the rows."
            )
        if epochs[-1] >= density.n_epochs:
            raise file_error(self.path, "goes on after the night's last epoch. Remove these rows.")
        quality = np.full(density.n_epochs, np.nan)
        quality[epochs] = self.values
        missing = np.flatnonzero(np.isnan(quality) & ~np.isnan(density.probabilities[:, 0]))
        if len(missing):
            first = f"the epoch at {density.offset_seconds + missing[0] * seconds:g} s"
            others = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            advice = "Add rows, with 1 where the signal was lost."
            raise file_error(self.path, f"has no row for {first}{others}. {advice}")
        return np.where(np.isnan(quality), 0.0, quality)

    def _shift(self, density: Hypnodensity) -> int:
        """Return how many epochs after the night's first the table's first epoch is."""
        begin, seconds = self.timing.offset_seconds - density.offset_seconds, density.epoch_seconds
        start = self.timing.start
        if start is not None and density.start is not None:
            if (start.tzinfo is None) != (density.start.tzinfo is None):
                raise file_error(self.path, "its times have a zone and the night's none, or the reverse.")
            begin = seconds_between(density.start, start)
        shift = round(begin / seconds)
        if abs(begin - shift * seconds) > TOLERANCE * seconds:
            late = f"{begin % seconds:g} s after the night's epochs"
            raise file_error(self.path, f"its rows begin {late}, expected them at the same times.")
        return shift


def read_quality(path: Path) -> QualityTable:
    """Read one number per epoch from a 1-D .npy, a bare column, or a table with a column of quality.

    The column is named quality, beta or lost (0 clean, 1 lost), or clean (1 clean, 0 lost). Columns such as
    onset, time, duration and epoch say which epochs the rows are.
    """
    if path.suffix.lower() == ".npy":
        from stageguard.formats.tools.arrays import load_plain  # only an array needs it

        array = load_plain(path)
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            raise file_error(
                path, f"expected one number per epoch, got shape {array.shape} of {array.dtype}."
            )
        return QualityTable(path, np.asarray(array, dtype=np.float64))
    table = read_delimited(path)
    if len(table.header) == 1 and is_number(table.header[0]):  # no header: the first line is a number, too
        lines = [table.lines[0] - 1 if table.lines else 1, *table.lines]
        table = replace(
            table, header=LOST_COLUMNS[:1], columns=[(*table.header, *table.column(0))], lines=lines
        )
    header = [cell.strip().casefold() for cell in table.header]
    column = _quality_column(path, table, header)
    values = _quality_numbers(path, table, column)
    if header[column] == CLEAN_COLUMN:
        values = 1.0 - values
    times, _ = other_columns(table, (column,))
    is_timed = times.onset is not None or times.epoch is not None
    return QualityTable(path, values, read_timing(path, times, table.lines), is_timed)


def _quality_column(path: Path, table: Table, header: list[str]) -> int:
    """Return the column of quality; another name does not say which way it runs."""
    known = [i for i, name in enumerate(header) if name in (*LOST_COLUMNS, CLEAN_COLUMN)]
    if len(known) == 1:
        return known[0]
    raise file_error(
        path,
        f"has the columns {listed(table.header)}, expected one named lost if 1 is lost and 0 clean, or clean "
        "if 1 is clean and 0 lost.",
    )


def _quality_numbers(path: Path, table: Table, column: int) -> Floats:
    values = [as_number(cell) for cell in table.column(column)]
    for line, value, cell in zip(table.lines, values, table.column(column), strict=True):
        if value is None or not 0 <= value <= 1:
            raise file_error(path, f"line {line}: expected a quality from 0 to 1, got {cell[:40]!r}.")
    if not values:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    return np.array(values, dtype=np.float64)
