"""Which columns of a table say when its rows are, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple

import numpy as np

from stageguard.base.arrays import DAY_SECONDS, Floats
from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import FileFormatError
from stageguard.base.files import file_error
from stageguard.base.units import seconds_per
from stageguard.formats.density import Where
from stageguard.formats.tables.timing import Timing, durations_by_onsets, read_timing

Role = Literal["onset", "end", "duration", "epoch", "run"]

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
_ALONE = ("sec", "secs", "seconds", "minutes", "hours")  # units that are the name of a column of onsets
_PLAIN = ("onset", "duration", "epoch")  # names that leave no doubt: seconds, or a count
LONGEST_STEP = 120.0  # seconds between rows that are told in hours and minutes, or by their ends
MOST_EQUAL = 0.75  # of the steps between ends: where so many are the shortest, others may be gaps
SHORTEST_DOUBTLESS = 2.0  # steps below this, of a column without unit, may be minutes, hours or a count
_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?\s*([ap]m)?", re.IGNORECASE)
_ELAPSED = re.compile(r"(\d+) days?,? ?(?:(\d{1,2}):([0-5]\d):([0-5]\d(?:\.\d+)?))?")


class Meaning(NamedTuple):
    """What a column says about time, and seconds per unit of its numbers."""

    role: Role
    factor: float
    is_plain: bool  # its name leaves no doubt about the unit


class Parsed(NamedTuple):
    """Cells of one column: numbers, seconds of a clock, or seconds since `first`, a date and time."""

    kind: Literal["numbers", "clock", "dates"]
    values: Floats
    first: datetime | None = None
    is_short: bool = False  # of a clock: two parts, such as 22:30
    largest: int = 0  # first part of such a clock


@dataclass(frozen=True, slots=True)
class RowTimes:
    """When rows are: seconds from the recording's start, or from the first row where a clock tells them."""

    onset: Floats | None = None
    lasting: Floats | None = None  # NaN where a row does not say it
    epoch: Floats | None = None
    start: datetime | None = None  # when second 0 is
    used: tuple[str, ...] = ()  # names of the columns
    unread: tuple[str, ...] = ()  # names of those that hold something else
    notes: tuple[str, ...] = ()
    onset_name: str = "onset"
    length_name: str = "duration"  # of the column that says how long rows last

    @property
    def columns(self) -> dict[str, Floats]:
        """Return what there is by its role, for `read_timing`."""
        found = {"onset": self.onset, "duration": self.lasting, "epoch": self.epoch}
        return {name: values for name, values in found.items() if values is not None}


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
    """Return what all cells of a column are; None where they are nothing that tells a time, or not all."""
    texts = [cell.strip() for cell in cells]
    numbers = _numbers(texts)
    if numbers is not None:
        return Parsed("numbers", numbers)
    for pattern in (_CLOCK, _ELAPSED):
        found = list(takewhile(bool, map(pattern.fullmatch, texts)))
        if len(found) == len(texts):
            known = [each for each in found if each is not None]
            if pattern is _CLOCK:
                return _of_clock(known)
            return Parsed("numbers", np.array([_elapsed(each) for each in known]))
    try:
        moments = [datetime.fromisoformat(text if len(text) < 27 else _short(text)) for text in texts]
        first = moments[0]
        seconds = [(moment - first).total_seconds() for moment in moments]
    except (TypeError, ValueError, OverflowError):
        return None
    return Parsed("dates", np.array(seconds), moments[0])


def row_times(
    where: Where,
    columns: Sequence[tuple[str, Sequence[str] | Floats]],
    meanings: Mapping[str, Meaning] | None = None,
) -> RowTimes:
    """Return when rows are, by the columns whose names say that they tell it.

    Parameters
    ----------
    where : Path or str
        For the errors.
    columns : sequence of (str, cells)
        Names as they are in the table, and texts, or numbers where they have been read already.
    meanings : mapping of str to Meaning, optional
        What columns say whose names do not tell it.
    """
    found: dict[str, list[tuple[str, Meaning, Parsed]]] = {}
    used, unread, notes = [], [], []
    for name, cells in columns:
        meaning = (meanings or {}).get(name) or meaning_of(name)
        if meaning is None or not len(cells):
            continue
        parsed = _parsed(cells, meaning)
        if parsed is None:
            told = next((str(cell).strip() for cell in cells if _is_told(cell)), "")
            if told or meaning.is_plain:
                why = f"begins with {told[:40]!r}, no number" if told else "is empty"
                notes.append(f"the {name} column {why}: not used")
                used.append(name)
            if told:
                unread.append(name)
            continue
        used.append(name)
        _refuse_doubtful(where, name, meaning, parsed)
        if meaning.role == "run":
            _refuse_runs(where, name, parsed)
            continue
        found.setdefault(meaning.role, []).append((name, meaning, parsed))
    return _joined(where, found, RowTimes(used=tuple(used), unread=tuple(unread), notes=tuple(notes)))


def timing_of(
    where: Where,
    times: RowTimes,
    lines: Sequence[int] | None,
    *,
    given: float | None = None,
    missing: str = "read as without evidence",
    fills_lead: bool = True,
) -> tuple[Timing, datetime | None]:
    """Return epoch length and place of rows that are one epoch each, and when the first epoch begins."""
    columns = times.columns
    if times.lasting is not None and not np.isfinite(times.lasting).all():
        del columns["duration"]
    timing = read_timing(
        where,
        columns,
        lines,
        given=given,
        onset_name=times.onset_name,
        length_name=times.length_name,
        missing=missing,
        fills_lead=fills_lead,
    )
    timing = replace(timing, notes=times.notes + timing.notes)
    if times.start is None:
        return timing, None
    return timing, times.start + timedelta(seconds=timing.offset_seconds)


def _joined(where: Where, found: dict[str, list[tuple[str, Meaning, Parsed]]], rest: RowTimes) -> RowTimes:
    onsets = sorted(found.get("onset", []), key=lambda each: not each[1].is_plain)
    onsets.sort(key=lambda each: each[2].kind != "numbers")
    clocks = [each for each in onsets if each[2].kind != "numbers"]
    clocks.sort(key=lambda each: each[2].kind != "dates")
    notes = rest.notes
    onset, start, name = None, None, "onset"
    if onsets and not {*found} & {"duration", "end"}:
        onsets, notes = _without_minutes(where, onsets, notes, has_epochs="epoch" in found)
        clocks = [each for each in clocks if each in onsets]
    if onsets:
        name, _, first = onsets[0]
        onset = first.values - (first.values[0] if first.kind == "clock" else 0.0)
        dated = clocks[0][2] if clocks and clocks[0][2].kind == "dates" else None
        if dated is not None and dated.first is not None:
            start = dated.first - timedelta(seconds=float(onset[0]))
        if clocks and dated is None:
            notes += (f"the {clocks[0][0]} column tells a time of day without a date: no start time is kept",)
    lasting, length_name = None, "duration"
    if "duration" in found:
        lasting = found["duration"][0][2].values
    elif "end" in found and onsets:
        end = next((each for each in found["end"] if each[2].kind == onsets[0][2].kind), None)
        if end is None:
            raise file_error(
                where,
                f"its columns {name} and {found['end'][0][0]} tell times in different ways, expected both in "
                "seconds or both of the clock.",
            )
        lasting, length_name = _between(onsets[0][2], end[2]), end[0]
    elif "end" in found:
        name, _, ends = found["end"][0]
        onset, lasting, told = _before(where, name, ends)
        notes += told
        if ends.first is not None:
            start = ends.first - timedelta(seconds=float(lasting[0]))
    if onset is not None and lasting is not None:
        lasting, told = durations_by_onsets(onset, lasting)
        notes += told
    epoch = found["epoch"][0][2].values if "epoch" in found else None
    return RowTimes(onset, lasting, epoch, start, rest.used, rest.unread, notes, name, length_name)


def _before(where: Where, name: str, ends: Parsed) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Onsets and durations of rows that tell their ends alone, and a remark."""
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
    said = f"the {name} column tells when stages end: each begins where the one before ends, the first at 0 s"
    return onset, ends.values - onset, (said,)


def _without_minutes(
    where: Where, onsets: list[tuple[str, Meaning, Parsed]], notes: tuple[str, ...], *, has_epochs: bool
) -> tuple[list[tuple[str, Meaning, Parsed]], tuple[str, ...]]:
    """Leave out clock times whose minutes repeat, where epochs are counted too; refuse steps too long."""
    kept = []
    for each in onsets:
        name, _, parsed = each
        steps = np.diff(parsed.values)
        if parsed.is_short and has_epochs and (steps == 0).any():
            notes += (
                f"the {name} column tells minutes only: not used, epochs are those of the epoch column",
            )
            continue
        if parsed.is_short and len(steps) and float(np.median(steps)) > LONGEST_STEP:
            raise _minutes_error(where, name, f"goes on by {np.median(steps):g} s if it is hh:mm")
        kept.append(each)
    return kept, notes


def _minutes_error(where: Where, name: str, why: str) -> FileFormatError:
    return file_error(
        where,
        f"its column {name} {why}. Are these minutes and seconds? Write hh:mm:ss, or seconds in a column "
        "onset.",
    )


def _refuse_runs(where: Where, name: str, parsed: Parsed) -> None:
    """Refuse counts of epochs that say a row is several; those of one row per epoch say nothing new."""
    values = parsed.values
    counts = name.casefold().lstrip("_ ").startswith("n")
    if (values == 1).all() if counts else (np.diff(values) == 1).all() and len(values) > 1:
        return
    raise file_error(
        where,
        f"its column {name} says that a row is several epochs, expected one row per epoch, or runs with "
        "onset and duration in seconds. Add these two columns, or repeat the rows.",
    )


def _between(begin: Parsed, end: Parsed) -> Floats:
    """Seconds from begins to ends; a clock may pass midnight in between."""
    if begin.kind == "clock":
        return (end.values - begin.values) % DAY_SECONDS
    shift = 0.0
    if begin.first is not None and end.first is not None:
        shift = (end.first - begin.first).total_seconds()
    return end.values - begin.values + shift


def _parsed(cells: Sequence[str] | Floats, meaning: Meaning) -> Parsed | None:
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        return Parsed("numbers", cells * meaning.factor) if np.isfinite(cells).all() else None
    texts = list(cells)
    if meaning.role == "duration":  # events may have none
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
    """Refuse numbers that may be minutes, hours or a count as well as seconds, and minutes as hours."""
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


def _is_told(cell: object) -> bool:
    return str(cell).strip().casefold() not in MISSING_WORDS


def _numbers(texts: Sequence[str]) -> Floats | None:
    try:
        if any("_" in text for text in texts):
            return None
        values = np.array([float(text) for text in texts], dtype=np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _of_clock(found: Sequence[re.Match[str]]) -> Parsed | None:
    """Seconds of times of day, which go on after midnight."""
    values = np.array([_clock_seconds(each) for each in found])
    if np.isnan(values).any():
        return None
    falls = np.diff(values) < -DAY_SECONDS / 2
    is_short = all(each[3] is None for each in found)
    return Parsed(
        "clock",
        values + DAY_SECONDS * np.concatenate([[0], np.cumsum(falls)]),
        None,
        is_short,
        max(int(each[1]) for each in found),
    )


def _clock_seconds(found: re.Match[str]) -> float:
    hours, half = int(found[1]), (found[4] or "").casefold()
    if half:
        if not 1 <= hours <= 12:
            return float("nan")
        hours = hours % 12 + (12 if half == "pm" else 0)
    return 3600.0 * hours + 60.0 * int(found[2]) + float((found[3] or "0").replace(",", "."))


def _elapsed(found: re.Match[str]) -> float:
    hours = 24.0 * int(found[1]) + int(found[2] or 0)
    return 3600.0 * hours + 60.0 * int(found[3] or 0) + float(found[4] or 0)


def _short(text: str) -> str:
    """Return a date and time without the digits behind microseconds, which Python does not read."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text)
