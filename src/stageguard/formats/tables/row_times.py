"""Read when the rows of a table are, from its columns and its index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
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
    row_name,
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
    name: str = ""
    is_plain: bool = False  # whether the name of the column leaves no doubt about the unit


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
    columns: Iterable[tuple[str, Cells]],
    meanings: Mapping[str, Meaning] | None = None,
    lines: Sequence[int] | None = None,
) -> RowTimes:
    """Return when rows are, from the columns that tell times by their names or `meanings`.

    Cells are texts as in the table, or numbers. A column that cannot be read is an error, unless another one
    says which epochs the rows are. Errors name rows by their `lines`, or count them from 0.
    """
    by_role: dict[Role, list[Parsed]] = {}
    used, notes, problem = list[str](), list[str](), None
    for name, cells in columns:
        meaning = (meanings or {}).get(name) or meaning_of(name)
        if meaning is None or not len(cells):
            continue
        used.append(name)
        try:
            parsed = _parse_column(where, name, cells, meaning, lines)
        except FileFormatError as error:
            if meaning.is_plain:
                raise
            problem = problem or error
            notes.append(f"the {name} column holds no times: not used")
            continue
        if parsed is None:
            notes.append(f"the {name} column is empty: not used")
        else:
            by_role.setdefault(meaning.role, []).append(parsed._replace(name=name, is_plain=meaning.is_plain))
    if problem is not None and not {"onset", "epoch"} & {*by_role}:
        raise problem
    return _joined(where, by_role, tuple(used), tuple(notes))


def _joined(
    where: Where, by_role: Mapping[Role, Sequence[Parsed]], used: tuple[str, ...], notes: tuple[str, ...]
) -> RowTimes:
    onsets = sorted(by_role.get("onset", ()), key=lambda each: (each.kind != "numbers", not each.is_plain))
    onset, lasting, start, name, length_name = None, None, None, "onset", "duration"
    if onsets:
        name, first = onsets[0].name, onsets[0]
        onset = first.values - (first.values[0] if first.kind == "clock" else 0.0)
        dated = next((each.first for each in onsets if each.first is not None), None)
        start = None if dated is None else dated - timedelta(seconds=float(onset[0]))
        clock = next((each.name for each in onsets if each.kind == "clock"), None)
        if clock is not None and dated is None:
            notes += (f"the {clock} column tells a time of day without a date: no start time is kept",)
    if "duration" in by_role:
        lasting = by_role["duration"][0].values
    elif ends := by_role.get("end"):
        length_name = ends[0].name
        if onsets:
            lasting = _seconds_between(where, onsets[0], ends)
        else:
            name = length_name
            onset, lasting = _before(where, ends[0])
            if ends[0].first is not None:
                start = ends[0].first - timedelta(seconds=float(lasting[0]))
            notes += (f"the {name} column tells when epochs end",)
    if onset is not None and lasting is not None:
        lasting, remarks = durations_by_onsets(onset, lasting)
        notes += remarks
    epoch = by_role["epoch"][0].values if "epoch" in by_role else None
    return RowTimes(onset, lasting, epoch, start, used, notes, name, length_name)


def _before(where: Where, ends: Parsed) -> tuple[Floats, Floats]:
    """Return onsets and durations of epochs of one length that tell only their ends."""
    steps = np.diff(ends.values)
    if not len(steps) or not steps[0] > 0 or np.ptp(steps) > TOLERANCE * steps[0]:
        raise file_error(
            where, f"its column {ends.name} tells when rows end, expected a column onset, too, in seconds."
        )
    step = float(np.median(steps))
    first = float(ends.values[0]) if ends.kind == "numbers" else step
    return ends.values - ends.values[0] + first - step, np.full(len(ends.values), step)


def _seconds_between(where: Where, begin: Parsed, ends: Sequence[Parsed]) -> Floats:
    """Return the seconds from begins to ends; a clock may pass midnight in between."""
    end = next((each for each in ends if each.kind == begin.kind), None)
    if end is None:
        raise file_error(
            where,
            f"its columns {begin.name} and {ends[0].name} tell times in different ways, expected both in "
            "seconds or both of the clock.",
        )
    if begin.kind == "clock":
        return (end.values - begin.values) % DAY_SECONDS
    shift = (end.first - begin.first).total_seconds() if end.first and begin.first else 0.0
    return end.values - begin.values + shift


def _parse_column(
    where: Where, name: str, cells: Cells, meaning: Meaning, lines: Sequence[int] | None
) -> Parsed | None:
    """Return the times of a column, None if it is empty; refuse cells that are not of one kind."""
    texts = [str(cell).strip() for cell in cells]
    is_missing = np.array([text.casefold() in MISSING_WORDS for text in texts])
    if is_missing.all():
        return None
    if meaning.role == "duration":  # events may lack a duration
        known = _numbers([text for text, missing in zip(texts, is_missing, strict=True) if not missing])
        values = np.full(len(texts), np.nan)
        if known is not None:
            values[~is_missing] = known
        parsed = None if known is None else Parsed("numbers", values)
    else:
        parsed = parse_cells(texts)
    if parsed is None or (parsed.kind != "numbers" and meaning.role not in ("onset", "end")):
        kinds = [each and each.kind for each in (parse_cells([text]) for text in texts)]
        row = next((k for k, kind in enumerate(kinds) if kind is None or kind != kinds[0]), 0)
        expected = "seconds, hh:mm:ss, or a date and time such as 2024-05-01T22:30:00"
        if meaning.role in ("duration", "epoch"):
            expected = "seconds" if meaning.role == "duration" else "a number"
        problem = f"column {name!r}: expected {expected}, got {texts[row][:40]!r}."
        raise file_error(where, f"{row_name(lines, row)}, {problem}")
    if parsed.kind != "numbers":
        return parsed
    parsed = parsed._replace(values=parsed.values * meaning.factor)
    if meaning.is_plain or meaning.role != "onset" or len(texts) < 2:
        return parsed
    if 0 < (step := float(np.median(np.diff(parsed.values)))) < SHORTEST_DOUBTLESS:
        raise file_error(
            where,
            f"its column {name} counts by {step:.10g}, which may be seconds, minutes, hours or epochs. Name "
            "it onset if it holds seconds, and epoch if it counts epochs.",
        )
    return parsed


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
