"""Read when the rows of a table are: epoch length, missing epochs and start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.arrays import DAY_SECONDS, Floats, Indices
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
from stageguard.units import seconds_per

TIMING_COLUMNS = ("onset", "duration", "epoch")
TOLERANCE = 0.01  # of an epoch, because onsets are often rounded
SAID_ABOVE = 0.001  # of an epoch: a larger difference between onsets and durations is worth a remark
MOST_MISSING = 100_000  # epochs that one file may leave out
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


@dataclass(frozen=True, slots=True)
class RowTimes:
    """When rows are, in seconds from the recording's start, or from the first row if only a clock tells."""

    onset: Floats | None = None
    lasting: Floats | None = None  # duration; NaN if a row does not say
    epoch: Floats | None = None
    start: datetime | None = None  # date and time of second 0
    used: tuple[str, ...] = ()  # names of the columns that tell times
    notes: tuple[str, ...] = ()
    onset_name: str = "onset"
    length_name: str = "duration"  # of the column that says how long rows last


@dataclass(frozen=True, slots=True)
class Timing:
    """Epoch length, the columns that tell it, and the epoch of every row if some epochs are missing."""

    epoch_seconds: float | None = None
    source: str = ""
    places: Indices | None = None
    notes: tuple[str, ...] = ()
    offset_seconds: float = 0.0  # from the recording's start to the first epoch
    start: datetime | None = None  # of the first epoch


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
    used, notes, empty, problem = list[str](), list[str](), list[str](), None
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
            empty.append(f"the {name} column is empty: not used")
        else:
            by_role.setdefault(meaning.role, []).append(parsed._replace(name=name, is_plain=meaning.is_plain))
    if not {"onset", "epoch"} & {*by_role}:  # else nobody misses what is empty
        if problem is not None:
            raise problem
        notes += empty
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
    is_numeric = isinstance(cells, np.ndarray) and cells.dtype.kind in "fiu" and np.isfinite(cells).all()
    texts = [] if is_numeric else [str(cell).strip() for cell in cells]
    is_missing = np.array([text.casefold() in MISSING_WORDS for text in texts])
    if texts and is_missing.all():
        return None
    if is_numeric:
        parsed: Parsed | None = Parsed("numbers", np.asarray(cells, dtype=np.float64))
    elif meaning.role == "duration":  # events may lack a duration
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
    if meaning.is_plain or meaning.role != "onset" or len(cells) < 2:
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


def read_timing(
    path: Where,
    times: RowTimes,
    lines: Sequence[int] | None,
    *,
    given: float | None = None,
    missing: str = "read as without evidence",
    fills_lead: bool = True,
) -> Timing:
    """Return epoch length and gaps of rows that are one epoch each; refuse anything but forward steps.

    Onsets count from the recording's start. Skipped epochs are `missing`, and so are whole epochs before the
    first row if `fills_lead`. Columns that disagree are an error. Errors name rows by their `lines`, or count
    them from 0 without lines. With a single row, the epoch length is `given` by the caller.
    """
    lasting = times.lasting if times.lasting is not None and np.isfinite(times.lasting).all() else None
    n_rows = next((len(each) for each in (times.onset, lasting, times.epoch) if each is not None), 0)
    seconds = None if lasting is None else _one_duration(path, lasting, lines)
    source = "" if seconds is None else "duration column"
    by_column: dict[str, Indices] = {}
    name = times.onset_name
    if times.onset is not None and n_rows > 1:
        by_column[name], step = _epochs(path, name, times.onset, lines, seconds)
        source = f"{name} column" if seconds is None else f"{name} and {times.length_name} columns"
        seconds = step if seconds is None else seconds
    if times.epoch is not None and n_rows > 1:
        by_column["epoch"], _ = _epochs(path, "epoch", times.epoch, lines, 1.0)
    column, epochs = next(iter(by_column.items()), (name, np.zeros(min(n_rows, 1), dtype=np.intp)))
    apart = np.flatnonzero(epochs != by_column.get("epoch", epochs))
    if len(apart):
        row = int(apart[0])
        raise file_error(
            path,
            f"{row_name(lines, row)} is epoch {epochs[row]} by its {column} column and "
            f"{by_column['epoch'][row]} by its epoch column, counted from 0. Correct one, or leave it out.",
        )
    lead, offset = _lead(path, times, lines, seconds if seconds is not None else given)
    if not fills_lead and times.onset is not None:
        lead, offset = 0, max(float(times.onset[0]), 0.0)
    n_missing = int(epochs[-1]) + 1 - len(epochs) if len(epochs) else 0
    notes, owner = times.notes, f"the {'object' if lines is None else 'file'}'s {column} column"
    if lead:
        notes += (f"{lead:,} epoch{'s' * (lead != 1)} before the first row by {owner}: {missing}",)
    if n_missing:
        first = row_name(lines, int(np.argmax(np.diff(epochs) > 1)) + 1)
        many = f"{n_missing:,} epoch{'s' * (n_missing != 1)}"
        notes += (f"{many} missing by {owner} (first before {first}): {missing}",)
    start = None if times.start is None else times.start + timedelta(seconds=offset)
    return Timing(seconds, source, epochs + lead if lead or n_missing else None, notes, offset, start)


def _lead(
    path: Where, times: RowTimes, lines: Sequence[int] | None, seconds: float | None
) -> tuple[int, float]:
    """Return how many whole epochs precede the first row, and the seconds before the first epoch."""
    if times.onset is None and times.epoch is not None and times.epoch[0] not in (0.0, 1.0):
        raise file_error(
            path,
            f"{row_name(lines, 0)}, column 'epoch': begins with {times.epoch[0]:.10g}, expected 0 or 1. Add "
            "a column onset in seconds, or rows for the epochs before it.",
        )
    if times.onset is None or seconds is None or seconds <= 0:
        return 0, 0.0
    first = float(times.onset[0])
    with np.errstate(over="ignore"):
        n_before = np.float64(first) / seconds
    if not -TOLERANCE <= n_before <= MOST_MISSING:
        raise file_error(
            path,
            f"{row_name(lines, 0)}: begins at {first:.10g} s, expected seconds from the recording's start, "
            f"and at most {MOST_MISSING:,} epochs before it.",
        )
    lead = int(n_before + TOLERANCE)
    offset = first - lead * seconds
    return lead, 0.0 if abs(offset) <= TOLERANCE * seconds else offset


def durations_by_onsets(onsets: Floats, lasting: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Return durations corrected to agree with the onsets, and a remark if they were off by over 0.1 %.

    This is for epochs of one length whose ends are a little early or late. Durations that are off by more
    than 1 % stay as they are, because they fit no grid of epochs.
    """
    steps = np.diff(onsets)
    seconds = float(lasting[0]) if len(steps) else 0.0
    alike = np.abs(lasting - seconds) <= 1e-6 * seconds
    if not seconds > 0 or not alike[:-1].all() or not steps.min() > 0:
        return lasting, ()
    shortest = float(steps.min())
    if not np.isfinite(shortest / seconds):  # durations near 0 fit no grid of epochs
        return lasting, ()
    n_epochs = np.rint(steps / (shortest / max(round(shortest / seconds), 1)))
    step = round(float(steps.sum() / n_epochs.sum()), 9)
    off = max(abs(seconds - step), float(np.abs(steps - n_epochs * step).max()))
    if off > TOLERANCE * step or abs(seconds - step) <= 1e-6 * step:  # the same apart from rounding
        return lasting, ()
    notes: tuple[str, ...] = ()
    if abs(seconds - step) > SAID_ABOVE * step:
        notes = (f"epochs last {seconds:g} s by their ends, but begin every {step:g} s: {step:g} s taken",)
    return np.where(alike, step, lasting), notes


def _one_duration(path: Where, durations: Floats, lines: Sequence[int] | None) -> float:
    different = np.flatnonzero(~(np.abs(durations - durations[0]) <= 1e-6 * abs(durations[0])))
    if len(different):
        row = int(different[0])
        raise file_error(
            path,
            f"{row_name(lines, row)} lasts {durations[row]:g} s and the first row {durations[0]:g} s. "
            "Expected one row per epoch, all of one length.",
        )
    if durations[0] <= 0:
        raise file_error(
            path, f"{row_name(lines, 0)}, column 'duration': expected seconds above 0, got {durations[0]:g}."
        )
    return float(durations[0])


def _epochs(
    path: Where, name: str, values: Floats, lines: Sequence[int] | None, step: float | None
) -> tuple[Indices, float]:
    """Return the epoch of every row, counted from the first, and the length of a step."""

    def refuse(row: int, problem: str) -> None:
        raise file_error(path, f"{row_name(lines, row)}, column {name!r}: {problem}")

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        steps = np.diff(values)
        typical = float(np.sort(steps)[(len(steps) - 1) // 2])
        step = typical if step is None else step
        jumps = np.rint(steps / step)
        odd = (jumps < 1) | (np.abs(steps / step - jumps) > TOLERANCE)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        expected = "expected a larger number. Sort the rows, and remove those that are there twice."
        refuse(row, f"{values[row]:.10g} comes after {values[row - 1]:.10g}, {expected}")
    if name == "epoch" and typical != 1:
        refuse(1, f"counts by {typical:.10g}, expected by 1. Name the column onset if it holds seconds.")
    if odd.any():
        row = int(np.argmax(odd)) + 1
        expected = f"expected {step:.10g} or a whole multiple. Give every epoch the same length."
        refuse(row, f"{values[row]:.10g} is {steps[row - 1]:.10g} after the row before, {expected}")
    if jumps.sum() - len(jumps) > MOST_MISSING:
        row = int(np.argmax(jumps)) + 1
        expected = f"expected at most {MOST_MISSING:,} missing epochs."
        refuse(row, f"{jumps[row - 1]:,.0f} epochs after the row before, {expected}")
    epochs = np.concatenate([[0], np.cumsum(jumps)]).astype(np.intp)
    mean, spread = float((values[-1] - values[0]) / epochs[-1]), float(np.ptp(steps / jumps))
    whole = float(round(mean))
    is_jittered = whole >= 1 and spread > 1e-6 and abs(mean - whole) <= min(TOLERANCE * whole, spread)
    return epochs, whole if is_jittered else round(mean, 6)
