"""Read dates and times as spreadsheets write them: 05/01/2024 22:30, 1.5.2024 22:30, 2024/05/01 10:30 PM."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from stageguard.base.arrays import Floats

_DATED = re.compile(
    r"(\d{1,4})([/.\-])(\d{1,2})\2(\d{4}|\d{1,2})[ T]+"
    r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:[.,]\d{1,9})?))?\s*([ap]m)?",
    re.IGNORECASE,
)
# A recording has no gap of this length, but a day that is taken for a month makes one.
LONGEST_GAP = timedelta(days=20).total_seconds()
YEAR_FIRST, DAY_FIRST, MONTH_FIRST = (0, 1, 2), (2, 1, 0), (2, 0, 1)  # places of year, month and day


@dataclass(frozen=True, slots=True)
class Dated:
    """Seconds of each cell since midnight of the first day, and that midnight if the date is certain."""

    seconds: Floats
    midnight: datetime | None


def parse_dates(texts: Sequence[str]) -> Dated | None:
    """Return dates with times, or None if a cell is none or the order of day and month cannot be told.

    The order is told by a number above 12, or by midnight: dates of a night are a day apart, not a month. If
    both orders give the same times, the night did not pass midnight, and only its date is unknown.
    """
    matches = [match for match in map(_DATED.fullmatch, texts) if match is not None]
    if not matches or len(matches) < len(texts):
        return None
    if len(matches[0][1]) == 4:
        orders = [YEAR_FIRST]
    else:
        orders = [DAY_FIRST] if matches[0][2] == "." else [DAY_FIRST, MONTH_FIRST]
    readings = [reading for order in orders if (reading := _read(matches, order)) is not None]
    if len(readings) == 2 and not np.array_equal(readings[0].seconds, readings[1].seconds):
        readings = [each for each in readings if np.abs(np.diff(each.seconds)).max() < LONGEST_GAP]
    if len(readings) == 2:
        return Dated(readings[0].seconds, readings[0].midnight if _same_day(readings) else None)
    return readings[0] if readings else None


def _same_day(readings: Sequence[Dated]) -> bool:
    return readings[0].midnight == readings[1].midnight


def _read(matches: Sequence[re.Match[str]], order: tuple[int, int, int]) -> Dated | None:
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
    seconds = [(moment - midnight).total_seconds() + second for moment, second in moments]
    return Dated(np.array(seconds), midnight)
