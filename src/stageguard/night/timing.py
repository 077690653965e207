"""Starts of nights, moments of a recording, parts of nights, and epochs of another length."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import numpy as np

from stageguard import checks
from stageguard.arrays import DAY_SECONDS
from stageguard.errors import InputError
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import TIE, UNSCORED, Hypnogram, later

Night = Hypnogram | Hypnodensity
AnyNight = TypeVar("AnyNight", Hypnogram, Hypnodensity, Hypnogram | Hypnodensity)
Moment = float | timedelta | datetime | str  # a number is seconds since the beginning of the recording

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def require_night(night: object) -> None:
    """Refuse anything but a hypnogram or a hypnodensity."""
    if not isinstance(night, Night):
        raise InputError(f"a night is {checks.shown(night)}, expected a Hypnogram or a Hypnodensity.")


def seconds_between(start: datetime, end: datetime, what: str = "another start") -> float:
    """Return seconds from one moment to another, also across a change of clocks; `what` is for messages."""
    if (start.tzinfo is None) != (end.tzinfo is None):
        raise InputError(f"{what} is {end} and the start {start}, expected both with a time zone or neither.")
    if start.tzinfo is not None:
        start, end = start.astimezone(UTC), end.astimezone(UTC)
    return (end - start).total_seconds()


def with_start(night: AnyNight, recording_began: datetime | None) -> AnyNight:
    """Return a night with the start that follows from its recording's start, unless it has one."""
    if night.start is not None or recording_began is None:
        return night
    return replace(night, start=later(recording_began, night.offset_seconds))


def recording_start(night: Night) -> datetime | None:
    """Return when a night's recording began; None if the night's start is not known."""
    return None if night.start is None else later(night.start, -night.offset_seconds)


def from_recording_start(night: AnyNight) -> AnyNight:
    """Return a night with whole epochs added back to the recording's start, unscored or NaN."""
    n_before = int(night.offset_seconds / night.epoch_seconds + TIE)
    return part_of(night, -n_before, night.n_epochs) if n_before else night


def part_of(night: AnyNight, first: int, end: int) -> AnyNight:
    """Return the epochs from `first` to `end` (exclusive), unscored or NaN where the night has none."""
    seconds = first * night.epoch_seconds
    start = None if night.start is None else later(night.start, seconds)
    offset = max(round(night.offset_seconds + seconds, 9), 0.0)
    low = max(first, 0)
    high = max(min(end, night.n_epochs), low)
    fill = np.nan if night.rows.dtype.kind == "f" else UNSCORED
    rows = np.full((end - first, *night.rows.shape[1:]), fill, dtype=night.rows.dtype)
    rows[low - first : high - first] = night.rows[low:high]
    return night.with_rows(rows, start=start, offset_seconds=offset)


def lights_window(night: Night, lights_off: Moment | None, lights_on: Moment | None) -> tuple[int, int]:
    """Return [first, stop) of the epochs between lights off and lights on, to the nearest epoch."""
    first = 0 if lights_off is None else _epoch_at(night, lights_off, "lights_off", 0)
    stop = night.n_epochs if lights_on is None else _epoch_at(night, lights_on, "lights_on", first)
    if not first < stop:
        found = f"lights are off from epoch {first + 1} and on from epoch {stop + 1} of {night.n_epochs}"
        raise InputError(f"{found}, expected at least one epoch between them.")
    return first, stop


def _epoch_at(night: Night, moment: Moment, what: str, after: int) -> int:
    """Return the epoch that begins nearest to a moment; a time of lights on is the next after `after`."""
    seconds = seconds_from_start(
        *(night.start, moment, what), offset_seconds=night.offset_seconds, after=after * night.epoch_seconds
    )
    epoch = math.floor(seconds / night.epoch_seconds + 0.5)
    if not 0 <= epoch <= night.n_epochs:
        hours = (seconds + night.offset_seconds) / 3600
        raise InputError(
            f"{what} is {checks.shown(moment)}, {hours:.2f} h after the recording starts, "
            f"expected a moment within its {night.n_epochs * night.epoch_seconds / 3600:.2f} h."
        )
    return epoch


def seconds_from_start(
    start: datetime | None, moment: Moment, what: str, *, offset_seconds: float = 0.0, after: float = 0.0
) -> float:
    """Return seconds from a start to a moment; a number counts from `offset_seconds` before that start.

    `what` names the moment in messages. A time of day of ``lights_on`` is the next one `after` these seconds.
    """
    if isinstance(moment, datetime):
        return seconds_between(_known(start, moment, what), moment, what)
    if not isinstance(moment, str):
        seconds_in = moment.total_seconds() if isinstance(moment, timedelta) else moment
        return checks.number(seconds_in, what, low=0) - offset_seconds
    seconds = (clock_seconds(moment, what) - time_of_day(start, moment, what)) % DAY_SECONDS
    while (found := _by_clock(_known(start, moment, what), seconds)) <= after and what == "lights_on":
        seconds += DAY_SECONDS  # the next morning, or the one after
    return found


def _by_clock(start: datetime, seconds: float) -> float:
    """Return the seconds in which a clock on the wall advances by some, also across a change of clocks."""
    moment = start + timedelta(seconds=seconds)
    elapsed = seconds_between(start, moment)
    return elapsed if elapsed >= 0 else seconds_between(start, moment.replace(fold=1))


def time_of_day(start: datetime | None, moment: str | datetime, what: str) -> float:
    """Return a start in seconds after midnight; it must be known to compare a moment with it."""
    start = _known(start, moment, what)
    return start.hour * 3600.0 + start.minute * 60.0 + start.second + start.microsecond / 1e6


def _known(start: datetime | None, moment: str | datetime, what: str) -> datetime:
    if start is None:
        raise InputError(f"{what} is the time {str(moment)!r}, but when the recording starts is not known.")
    return start


def clock_seconds(text: object, what: str) -> float:
    """Return a time of day in seconds after midnight."""
    match = _CLOCK.fullmatch(str(text).strip())
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (24, 0, 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise InputError(f"{what} is {checks.shown(text)}, expected a time of day such as '07:00'.")
    return hours * 3600.0 + minutes * 60.0 + seconds
