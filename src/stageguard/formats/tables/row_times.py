"""Find the columns and indices that say when the rows of a table are, and read their times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.arrays import DAY_SECONDS, Floats
from stageguard.checks import MISSING_WORDS
from stageguard.errors import FileFormatError
from stageguard.files import file_error
from stageguard.formats.night import Where
from stageguard.formats.tables.table import (
    NO_INDEX,
    Cells,
    IndexColumns,
    Meaning,
    Role,
    cell_text,
    time_cells,
)
from stageguard.formats.tables.timing import RowTimes, durations_by_onsets
from stageguard.units import seconds_per

_ONSETS = "onset start begin init time t starttime onsettime begintime epochstart"
_ONSETS += " datetime timestamp clock clocktime"
_RUNS = "startepoch beginepoch firstepoch endepoch stopepoch lastepoch nepochs numepochs numberofepochs"
_ROLES: dict[str, Role] = {
    **dict.fromkeys(_ONSETS.split(), "onset"),
    **dict.fromkeys(["end", "stop", "until", "endtime", "stoptime", "epochend"], "end"),
    **dict.fromkeys(["duration", "dur", "lasting", "length", "epochlength", "epochduration"], "duration"),
    **dict.fromkeys(["epoch", "epochnumber", "epochindex"], "epoch"),
    **dict.fromkeys(_RUNS.split(), "run"),
}  # fmt: skip
_ALONE = ("sec", "secs", "seconds", "minutes", "hours")  # units that alone name a column of onsets
_PLAIN = ("onset", "duration", "epoch")  # names that leave no doubt: seconds, or a count
INDEX = "index"
LONGEST_STEP = 120.0  # most seconds between rows whose times are hh:mm, or only ends
MOST_EQUAL = 0.75  # if this share of steps between ends is the shortest step, longer ones may be gaps
SHORTEST_DOUBTLESS = 2.0  # shorter steps in a column without a unit may be minutes, hours or a count
_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?\s*([ap]m)?", re.IGNORECASE)
_ELAPSED = re.compile(r"(\d+) days?,? ?(?:(\d{1,2}):([0-5]\d):([0-5]\d(?:\.\d+)?))?")

# 05/01/2024 22:30, 1.5.2024 22:30, 2024/05/01 10:30 PM, as spreadsheets write them
_DATED = re.compile(
    r"(\d{1,4})([/.\-])(\d{1,2})\2(\d{4}|\d{1,2})[ T]+"
    r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:[.,]\d{1,9})?))?\s*([ap]m)?",
    re.IGNORECASE,
)
# A recording has no gap of this length, but a day that is taken for a month makes one.
LONGEST_GAP = timedelta(days=20).total_seconds()
YEAR_FIRST, DAY_FIRST, MONTH_FIRST = (0, 1, 2), (2, 1, 0), (2, 0, 1)  # places of year, month and day


class Parsed(NamedTuple):
    """Cells of one column: numbers, clock times in seconds, or seconds since the date and time `first`."""

    kind: Literal["numbers", "clock", "dates"]
    values: Floats
    first: datetime | None = None
    is_short: bool = False  # whether clock times have two parts, such as 22:30
    largest: int = 0  # largest first part of the clock times
    is_ambiguous: bool = False  # whether clock times come from dates whose day and month cannot be told apart


class TimeColumn(NamedTuple):
    """A column that says when rows are, whether its name leaves no doubt about the unit, and its values."""

    name: str
    is_plain: bool
    cells: Parsed


@lru_cache(maxsize=4096)
def meaning_of(name: str) -> Meaning | None:
    """Return what a column of this name says about time, or None."""
    plain = " ".join(re.sub(r"[\s_.\-()\[\]]+", " ", name.casefold()).split())
    plain = plain.removesuffix(" hh:mm:ss").removesuffix(" hh:mm")
    if plain in _ALONE:
        return Meaning("onset", seconds_per(plain) or 1.0, True)
    words = plain.split()
    factor = seconds_per(words[-1]) if len(words) > 1 else None
    role = _ROLES.get("".join(words if factor is None else words[:-1]))
    if role is None or (factor is not None and role in ("epoch", "run")):
        return None
    return Meaning(role, factor or 1.0, factor is not None or plain in _PLAIN)


def parse_cells(cells: Sequence[str]) -> Parsed | None:
    """Return the times in a column, or None unless all cells are times of one kind."""
    texts = [cell.strip() for cell in cells]
    numbers = _numbers(texts)
    if numbers is not None:
        return Parsed("numbers", numbers)
    for pattern in (_CLOCK, _ELAPSED):
        matches = list(takewhile(bool, map(pattern.fullmatch, texts)))
        if len(matches) == len(texts):
            known = [match for match in matches if match is not None]
            if pattern is _CLOCK:
                return _clock_cells(known)
            return Parsed("numbers", np.array([_duration_seconds(match) for match in known]))
    try:
        # digits beyond microseconds are dropped
        moments = [datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)) for text in texts]
        seconds = [(moment - moments[0]).total_seconds() for moment in moments]
    except (TypeError, ValueError, OverflowError):
        return _date_cells(texts)
    return Parsed("dates", np.array(seconds), moments[0])


def _date_cells(texts: Sequence[str]) -> Parsed | None:
    """Return dates of a spreadsheet, or None if a cell is none or the order of day and month cannot be told.

    The order is told by a number above 12, or by midnight: dates of a night are a day apart, not a month. If
    both orders give the same times, the night did not pass midnight, and its cells are times of day.
    """
    matches = [match for match in map(_DATED.fullmatch, texts) if match is not None]
    if not matches or len(matches) < len(texts):
        return None
    if len(matches[0][1]) == 4:
        orders = [YEAR_FIRST]
    else:
        orders = [DAY_FIRST] if matches[0][2] == "." else [DAY_FIRST, MONTH_FIRST]
    readings = [reading for order in orders if (reading := _dates_in_order(matches, order)) is not None]
    if len(readings) == 2 and not np.array_equal(readings[0].values, readings[1].values):
        readings = [each for each in readings if np.abs(np.diff(each.values)).max() < LONGEST_GAP]
    first = readings[0].first if readings else None
    if first is None or len(readings) == 1 or first == readings[1].first:
        return readings[0] if readings else None
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    of_day = readings[0].values + (first - midnight).total_seconds()
    return Parsed("clock", of_day, is_ambiguous=True)


def _dates_in_order(matches: Sequence[re.Match[str]], order: tuple[int, int, int]) -> Parsed | None:
    """Return the times with year, month and day in these places, or None if one is no date."""
    moments = []
    for match in matches:
        parts = (match[1], match[3], match[4])
        year, month, day = (parts[place] for place in order)
        hour, half = int(match[5]), (match[8] or "").casefold()
        if len(year) != 4 or (half and not 1 <= hour <= 12):
            return None
        hour = hour % 12 + 12 * (half == "pm") if half else hour
        try:
            moment = datetime(int(year), int(month), int(day), hour, int(match[6]))
        except ValueError:
            return None
        moments.append((moment, float((match[7] or "0").replace(",", "."))))
    midnight = moments[0][0].replace(hour=0, minute=0)
    seconds = np.array([(moment - midnight).total_seconds() + second for moment, second in moments])
    return Parsed("dates", seconds - seconds[0], midnight + timedelta(seconds=float(seconds[0])))


def row_times(
    where: Where,
    columns: Sequence[tuple[str, Sequence[str] | Floats]],
    meanings: Mapping[str, Meaning] | None = None,
) -> RowTimes:
    """Return when rows are, from the columns that tell times by their names or `meanings`.

    Cells are texts as in the table, or numbers if they have been read already.
    """
    by_role: dict[str, list[TimeColumn]] = {}
    used, unread, notes = [], [], []
    for name, cells in columns:
        meaning = (meanings or {}).get(name) or meaning_of(name)
        if meaning is None or not len(cells):
            continue
        parsed = _parse_column(cells, meaning)
        if parsed is None:
            texts = (str(cell).strip() for cell in cells)
            text = next((text for text in texts if text.casefold() not in MISSING_WORDS), "")
            if text or meaning.is_plain:
                why = f"begins with {text[:40]!r}, no number" if text else "is empty"
                notes.append(f"the {name} column {why}: not used")
                used.append(name)
            if text:
                unread.append((name, text))
            continue
        used.append(name)
        _refuse_doubtful(where, name, meaning, parsed)
        if meaning.role == "run":
            _refuse_runs(where, name, parsed)
            continue
        by_role.setdefault(meaning.role, []).append(TimeColumn(name, meaning.is_plain, parsed))
    return _join_columns(where, by_role, RowTimes(used=tuple(used), unread=tuple(unread), notes=tuple(notes)))


def _join_columns(where: Where, by_role: dict[str, list[TimeColumn]], rest: RowTimes) -> RowTimes:
    onsets = sorted(
        by_role.get("onset", []), key=lambda each: (each.cells.kind != "numbers", not each.is_plain)
    )
    clocks = [each for each in onsets if each.cells.kind != "numbers"]
    clocks.sort(key=lambda each: each.cells.kind != "dates")
    notes = rest.notes
    onset, start, name = None, None, "onset"
    if onsets and not {*by_role} & {"duration", "end"}:
        onsets, notes = _drop_repeated_minutes(where, onsets, notes, has_epochs="epoch" in by_role)
        clocks = [each for each in clocks if each in onsets]
    if onsets:
        name, first = onsets[0].name, onsets[0].cells
        onset = first.values - (first.values[0] if first.kind == "clock" else 0.0)
        dated = clocks[0].cells if clocks and clocks[0].cells.kind == "dates" else None
        if dated is not None and dated.first is not None:
            start = dated.first - timedelta(seconds=float(onset[0]))
        if clocks and dated is None:
            why = "tells a time of day without a date"
            if clocks[0].cells.is_ambiguous:
                why = "has dates whose day and month cannot be told apart"
            notes += (f"the {clocks[0].name} column {why}: no start time is kept",)
    lasting, length_name, ends = None, "duration", by_role.get("end", [])
    if "duration" in by_role:
        lasting = by_role["duration"][0].cells.values
    elif ends and onsets:
        end = next((each for each in ends if each.cells.kind == onsets[0].cells.kind), None)
        if end is None:
            raise file_error(
                where,
                f"its columns {name} and {ends[0].name} tell times in different ways, expected both in "
                "seconds or both of the clock.",
            )
        lasting, length_name = _seconds_between(onsets[0].cells, end.cells), end.name
    elif ends:
        name = ends[0].name
        onset, lasting, remarks = _before(where, name, ends[0].cells)
        notes += remarks
        if ends[0].cells.first is not None:
            start = ends[0].cells.first - timedelta(seconds=float(lasting[0]))
    if onset is not None and lasting is not None:
        lasting, remarks = durations_by_onsets(onset, lasting)
        notes += remarks
    epoch = by_role["epoch"][0].cells.values if "epoch" in by_role else None
    return RowTimes(onset, lasting, epoch, start, rest.used, rest.unread, notes, name, length_name)


def _before(where: Where, name: str, ends: Parsed) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Return onsets and durations of rows that only tell their ends, and a remark."""
    steps = np.diff(ends.values)
    if len(steps) and (steps > 0).all() and np.ptp(steps) <= 0.01 * steps[0] and steps[0] <= LONGEST_STEP:
        step = float(np.median(steps))
        first = float(ends.values[0]) if ends.kind == "numbers" else step
        onset = ends.values - ends.values[0] + first - step
        return onset, np.full(len(onset), step), (f"the {name} column tells when epochs end",)
    if ends.kind != "numbers":
        raise file_error(
            where,
            f"its column {name} tells when stages end, and nothing when the first begins. Add a column "
            "start, or durations in seconds.",
        )
    is_shortest = steps <= 1.01 * steps.min() if len(steps) else np.zeros(1, dtype=bool)
    if is_shortest.mean() >= MOST_EQUAL and len(steps) > 1 and not is_shortest.all():
        raise file_error(
            where,
            f"its column {name} goes on by {steps.min():g} s mostly, and sometimes by more: stages that "
            "last, or epochs that are missing? Add a column onset in seconds.",
        )
    onset = np.concatenate([[0.0], ends.values[:-1]])
    note = f"the {name} column tells when stages end: each begins where the one before ends, the first at 0 s"
    return onset, ends.values - onset, (note,)


def _drop_repeated_minutes(
    where: Where, onsets: list[TimeColumn], notes: tuple[str, ...], *, has_epochs: bool
) -> tuple[list[TimeColumn], tuple[str, ...]]:
    """Leave out clock times with repeated minutes if epochs are numbered, too; refuse steps too long."""
    kept = []
    for column in onsets:
        name, is_short = column.name, column.cells.is_short
        steps = np.diff(column.cells.values)
        if is_short and has_epochs and (steps == 0).any():
            notes += (
                f"the {name} column tells minutes only: not used, epochs are those of the epoch column",
            )
            continue
        if is_short and len(steps) and float(np.median(steps)) > LONGEST_STEP:
            raise _minutes_error(where, name, f"goes on by {np.median(steps):g} s if it is hh:mm")
        kept.append(column)
    return kept, notes


def _minutes_error(where: Where, name: str, why: str) -> FileFormatError:
    return file_error(
        where,
        f"its column {name} {why}. Are these minutes and seconds? Write hh:mm:ss, or seconds in a column "
        "onset.",
    )


def _refuse_runs(where: Where, name: str, parsed: Parsed) -> None:
    """Refuse counts of epochs unless they say that each row is one epoch."""
    values = parsed.values
    counts = name.casefold().lstrip("_ ").startswith("n")
    if (values == 1).all() if counts else (np.diff(values) == 1).all() and len(values) > 1:
        return
    raise file_error(
        where,
        f"its column {name} says that a row is several epochs, expected one row per epoch, or runs with "
        "onset and duration in seconds. Add these two columns, or repeat the rows.",
    )


def _seconds_between(begin: Parsed, end: Parsed) -> Floats:
    """Return the seconds from begins to ends; a clock may pass midnight in between."""
    if begin.kind == "clock":
        return (end.values - begin.values) % DAY_SECONDS
    shift = 0.0
    if begin.first is not None and end.first is not None:
        shift = (end.first - begin.first).total_seconds()
    return end.values - begin.values + shift


def _parse_column(cells: Sequence[str] | Floats, meaning: Meaning) -> Parsed | None:
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return Parsed("numbers", cells * meaning.factor) if np.isfinite(cells).all() else None
    texts = list(cells)
    if meaning.role == "duration":  # events may lack a duration
        is_missing = [text.strip().casefold() in MISSING_WORDS for text in texts]
        known = _numbers([text for text, missing in zip(texts, is_missing, strict=True) if not missing])
        if known is None:
            return None
        values = np.full(len(texts), np.nan)
        values[~np.array(is_missing)] = known * meaning.factor
        return Parsed("numbers", values)
    parsed = parse_cells(texts)
    if parsed is None or parsed.kind == "numbers":
        return None if parsed is None else Parsed("numbers", parsed.values * meaning.factor)
    return parsed if meaning.role in ("onset", "end") else None


def _refuse_doubtful(where: Where, name: str, meaning: Meaning, parsed: Parsed) -> None:
    """Refuse numbers that may not be seconds, and hh:mm that may be mm:ss."""
    if parsed.is_short and parsed.largest >= 24:
        raise _minutes_error(where, name, f"reaches hour {parsed.largest} if it is hh:mm")
    if meaning.is_plain or meaning.role != "onset" or parsed.kind != "numbers" or len(parsed.values) < 2:
        return
    step = float(np.median(np.diff(parsed.values)))
    if 0 < step < SHORTEST_DOUBTLESS:
        raise file_error(
            where,
            f"its column {name} counts by {step:.10g}, which may be seconds, minutes, hours or epochs. Name "
            "it onset if it holds seconds, and epoch if it counts epochs.",
        )


def _numbers(texts: Sequence[str]) -> Floats | None:
    try:
        if any("_" in text for text in texts):
            return None
        values = np.array([float(text) for text in texts], dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _clock_cells(matches: Sequence[re.Match[str]]) -> Parsed | None:
    """Return times of day in seconds that go on counting after midnight."""
    values = np.array([_clock_seconds(match) for match in matches])
    if np.isnan(values).any():
        return None
    falls = np.diff(values) < -DAY_SECONDS / 2
    values += DAY_SECONDS * np.concatenate([[0], np.cumsum(falls)])
    is_short = all(match[3] is None for match in matches)
    return Parsed("clock", values, is_short=is_short, largest=max(int(match[1]) for match in matches))


def _clock_seconds(match: re.Match[str]) -> float:
    hours, half = int(match[1]), (match[4] or "").casefold()
    if half:
        if not 1 <= hours <= 12:
            return float("nan")
        hours = hours % 12 + (12 if half == "pm" else 0)
    return 3600.0 * hours + 60.0 * int(match[2]) + float((match[3] or "0").replace(",", "."))


def _duration_seconds(match: re.Match[str]) -> float:
    hours = 24.0 * int(match[1]) + int(match[2] or 0)
    return 3600.0 * hours + 60.0 * int(match[3] or 0) + float(match[4] or 0)


def nameless_index(where: Where, values: Any) -> IndexColumns:
    """Return the times in an index without a name; an index that counts rows tells none.

    The index holds dates, times, numbers, or texts of these as in a file.
    """
    array = np.asarray(values)
    cells: Cells = array
    if array.dtype.kind in "OU":
        texts = [cell_text(cell).strip() for cell in array.tolist()]
        if texts and all(re.fullmatch(r"\d{1,15}", text) for text in texts):
            return IndexColumns(notes=_count_notes(where, np.array([int(text) for text in texts])))
        parsed = parse_cells(texts) if texts else None
        if parsed is None:
            return NO_INDEX
        cells = parsed.values if parsed.kind == "numbers" else texts
    elif array.dtype.kind in "iu":
        return IndexColumns(notes=_count_notes(where, array))
    elif array.dtype.kind not in "mMf":
        return NO_INDEX
    is_certain = not isinstance(cells, np.ndarray) or array.dtype.kind in "mM"
    meanings = {INDEX: Meaning("onset", 1.0, is_certain)} if len(array) else {}
    return IndexColumns([(INDEX, time_cells(where, np.asarray(cells)))], meanings)


def _count_notes(where: Where, index: Any) -> tuple[str, ...]:
    """Return a remark if an index of whole numbers skips rows; refuse one that is not in order."""
    if len(index) < 2:
        return ()
    counts = index.astype(np.int64)
    steps = np.diff(counts)
    back = np.flatnonzero(steps <= 0)
    odd = back[counts[back + 1] != counts[0]]  # joined parts may each count from the beginning
    if len(odd):
        row = int(odd[0]) + 1
        raise file_error(
            where,
            f"row {row} has the index {counts[row]} after {counts[row - 1]}, expected rows in the order of "
            "time. Sort them (sort_index), or drop the index if they are in order (reset_index(drop=True)).",
        )
    if (steps != 1).any():
        remark = "the index does not count by 1: rows are read one after the other. Name it epoch if"
        return (f"{remark} epochs are missing",)
    if counts[0] > 1:
        remark = f"the index begins at {counts[0]}: read as the first epoch"
        return (f"{remark}. If epochs before it are missing, add a column onset in seconds",)
    return ()
