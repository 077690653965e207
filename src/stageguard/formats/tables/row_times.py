"""Read when the rows of a table are, from its columns and its index."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.arrays import DAY_SECONDS, Floats
from stageguard.checks import MISSING_WORDS
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
from stageguard.formats.tables.timing import TOLERANCE, RowTimes, durations_by_onsets
from stageguard.units import seconds_per

_ONSETS = "onset start begin init time t starttime onsettime begintime epochstart"
_ONSETS += " datetime timestamp clock clocktime"
_ROLES: dict[str, Role] = {
    **dict.fromkeys(_ONSETS.split(), "onset"),
    **dict.fromkeys(["end", "stop", "until", "endtime", "stoptime", "epochend"], "end"),
    **dict.fromkeys(["duration", "dur", "lasting", "length", "epochlength", "epochduration"], "duration"),
    **dict.fromkeys(["epoch", "epochnumber", "epochindex"], "epoch"),
}  # fmt: skip
_ALONE = ("sec", "secs", "seconds", "minutes", "hours")  # units that alone name a column of onsets
_PLAIN = ("onset", "duration", "epoch")  # names that leave no doubt: seconds, or a count
INDEX = "index"
SHORTEST_DOUBTLESS = 2.0  # shorter steps in a column without a unit may be minutes, hours or a count
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d):([0-5]\d(?:[.,]\d+)?)")


class Parsed(NamedTuple):
    """Cells of one column: numbers, clock times in seconds, or seconds since the date and time `first`."""

    kind: Literal["numbers", "clock", "dates"]
    values: Floats
    first: datetime | None = None


class TimeColumn(NamedTuple):
    """A column that says when rows are, whether its name leaves no doubt about the unit, and its values."""

    name: str
    is_plain: bool
    cells: Parsed


@lru_cache(maxsize=4096)
def meaning_of(name: str) -> Meaning | None:
    """Return what a column of this name says about time, or None."""
    plain = " ".join(re.sub(r"[\s_.\-()\[\]]+", " ", name.casefold()).split()).removesuffix(" hh:mm:ss")
    if plain in _ALONE:
        return Meaning("onset", seconds_per(plain) or 1.0, True)
    words = plain.split()
    factor = seconds_per(words[-1]) if len(words) > 1 else None
    role = _ROLES.get("".join(words if factor is None else words[:-1]))
    if role is None or (factor is not None and role == "epoch"):
        return None
    return Meaning(role, factor or 1.0, factor is not None or plain in _PLAIN)


def parse_cells(cells: Sequence[str]) -> Parsed | None:
    """Return numbers, times such as 22:30:00, or dates and times of ISO 8601; None if a cell is another."""
    texts = [cell.strip() for cell in cells]
    if (numbers := _numbers(texts)) is not None:
        return Parsed("numbers", numbers)
    clock = [match for match in map(_CLOCK.fullmatch, texts) if match]
    if len(clock) == len(texts):
        parts = [(3600 * int(each[1]) + 60 * int(each[2]), each[3].replace(",", ".")) for each in clock]
        values = np.array([minutes + float(seconds) for minutes, seconds in parts])
        past_midnight = np.cumsum(np.diff(values, prepend=values[:1]) < -DAY_SECONDS / 2)
        return Parsed("clock", values + DAY_SECONDS * past_midnight)
    try:
        moments = list(map(datetime.fromisoformat, texts))
        return Parsed(
            "dates", np.array([(each - moments[0]).total_seconds() for each in moments]), moments[0]
        )
    except (TypeError, ValueError, OverflowError):
        return None


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
        used.append(name)
        parsed = _parse_column(cells, meaning)
        if parsed is None:
            texts = (str(cell).strip() for cell in cells)
            if text := next((text for text in texts if text.casefold() not in MISSING_WORDS), ""):
                unread.append((name, text))
            why = f"begins with {text[:40]!r}, no number" if text else "is empty"
            notes.append(f"the {name} column {why}: not used")
            continue
        _refuse_doubtful(where, name, meaning, parsed)
        by_role.setdefault(meaning.role, []).append(TimeColumn(name, meaning.is_plain, parsed))
    return _joined(where, by_role, RowTimes(used=tuple(used), unread=tuple(unread), notes=tuple(notes)))


def _joined(where: Where, by_role: dict[str, list[TimeColumn]], rest: RowTimes) -> RowTimes:
    onsets = by_role.get("onset", [])
    onsets.sort(key=lambda each: (each.cells.kind != "numbers", not each.is_plain))
    onset, lasting, start, name, length_name = None, None, None, "onset", "duration"
    notes = rest.notes
    if onsets:
        name, first = onsets[0].name, onsets[0].cells
        onset = first.values - (first.values[0] if first.kind == "clock" else 0.0)
        dated = next((each.cells.first for each in onsets if each.cells.first is not None), None)
        start = None if dated is None else dated - timedelta(seconds=float(onset[0]))
        clock = next((each.name for each in onsets if each.cells.kind == "clock"), None)
        if clock is not None and dated is None:
            notes += (f"the {clock} column tells a time of day without a date: no start time is kept",)
    if "duration" in by_role:
        lasting = by_role["duration"][0].cells.values
    elif ends := by_role.get("end"):
        length_name = ends[0].name
        if onsets:
            lasting = _seconds_between(where, onsets[0], ends)
        else:
            name = length_name
            onset, lasting = _before(where, name, ends[0].cells)
            if ends[0].cells.first is not None:
                start = ends[0].cells.first - timedelta(seconds=float(lasting[0]))
            notes += (f"the {name} column tells when epochs end",)
    if onset is not None and lasting is not None:
        lasting, remarks = durations_by_onsets(onset, lasting)
        notes += remarks
    epoch = by_role["epoch"][0].cells.values if "epoch" in by_role else None
    return RowTimes(onset, lasting, epoch, start, rest.used, rest.unread, notes, name, length_name)


def _before(where: Where, name: str, ends: Parsed) -> tuple[Floats, Floats]:
    """Return onsets and durations of epochs of one length that tell only their ends."""
    steps = np.diff(ends.values)
    if not len(steps) or not steps[0] > 0 or np.ptp(steps) > TOLERANCE * steps[0]:
        raise file_error(
            where, f"its column {name} tells when rows end, expected a column onset, too, in seconds."
        )
    step = float(np.median(steps))
    first = float(ends.values[0]) if ends.kind == "numbers" else step
    return ends.values - ends.values[0] + first - step, np.full(len(ends.values), step)


def _seconds_between(where: Where, begin: TimeColumn, ends: Sequence[TimeColumn]) -> Floats:
    """Return the seconds from begins to ends; a clock may pass midnight in between."""
    first = begin.cells
    end = next((each.cells for each in ends if each.cells.kind == first.kind), None)
    if end is None:
        raise file_error(
            where,
            f"its columns {begin.name} and {ends[0].name} tell times in different ways, expected both in "
            "seconds or both of the clock.",
        )
    if first.kind == "clock":
        return (end.values - first.values) % DAY_SECONDS
    shift = (end.first - first.first).total_seconds() if end.first and first.first else 0.0
    return end.values - first.values + shift


def _parse_column(cells: Sequence[str] | Floats, meaning: Meaning) -> Parsed | None:
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return Parsed("numbers", cells * meaning.factor) if np.isfinite(cells).all() else None
    texts = [cell.strip() for cell in cells]
    if meaning.role == "duration":  # events may lack a duration
        is_missing = np.array([text.casefold() in MISSING_WORDS for text in texts])
        known = _numbers([text for text, missing in zip(texts, is_missing, strict=True) if not missing])
        if known is None:
            return None
        values = np.full(len(texts), np.nan)
        values[~is_missing] = known * meaning.factor
        return Parsed("numbers", values)
    parsed = parse_cells(texts)
    if parsed is None or parsed.kind == "numbers":
        return None if parsed is None else Parsed("numbers", parsed.values * meaning.factor)
    return parsed if meaning.role in ("onset", "end") else None


def _refuse_doubtful(where: Where, name: str, meaning: Meaning, parsed: Parsed) -> None:
    """Refuse numbers that may not be seconds."""
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


def nameless_index(where: Where, values: Any) -> IndexColumns:
    """Return the times in an index without a name; an index that counts rows tells none.

    The index holds dates, times, numbers, or texts of these as in a file.
    """
    array = np.asarray(values)
    cells: Cells = array
    if array.dtype.kind in "OU":
        texts = [cell_text(cell).strip() for cell in array.tolist()]
        if all(re.fullmatch(r"\d{1,15}", text) for text in texts):
            array = np.array(list(map(int, texts)), dtype=np.int64)
        elif (parsed := parse_cells(texts)) is None:
            return NO_INDEX
        else:
            cells = parsed.values if parsed.kind == "numbers" else texts
    if array.dtype.kind in "iu":
        is_count = bool((np.diff(array.astype(np.int64)) == 1).all())
        remark = "the index does not count by 1: rows are read one after the other"
        return IndexColumns(notes=() if is_count else (remark,))
    if array.dtype.kind not in "mMfOU":
        return NO_INDEX
    is_certain = not isinstance(cells, np.ndarray) or array.dtype.kind in "mM"
    meanings = {INDEX: Meaning("onset", 1.0, is_certain)} if len(array) else {}
    return IndexColumns([(INDEX, time_cells(where, np.asarray(cells)))], meanings)
