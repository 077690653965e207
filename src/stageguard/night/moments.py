"""Moments of a recording, in seconds or as times of the clock, and the epochs that begin there."""

from __future__ import annotations

import math
import re
from datetime import datetime, time, timedelta

from stageguard.base import checks
from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import Argument, EpochNumber, InputError, Message
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import recording_start

Moment = float | timedelta | datetime | str  # a number is seconds since the beginning of the recording

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def epoch_at(hypnogram: Hypnogram, moment: Moment, what: str, after: int = 0) -> int:
    """Return the epoch that begins nearest to a moment in seconds or as a time.

    `what` names the moment in messages. A time of day of ``lights_on`` is the next one after epoch `after`.
    """
    n_epochs, epoch_seconds = hypnogram.n_epochs, hypnogram.epoch_seconds
    seconds = _seconds_from_start(hypnogram, moment, what, after * epoch_seconds)
    epoch = math.floor(seconds / epoch_seconds + 0.5)
    if not 0 <= epoch <= n_epochs:
        began = recording_start(hypnogram)
        begins = "" if began is None else f" ({began:%H:%M:%S})"
        hours = (seconds + hypnogram.offset_seconds) / 3600
        raise _wrong_moment(
            what,
            f"{checks.shown(moment)}, {hours:.2f} h after the recording starts{begins}, "
            f"expected a moment within its {n_epochs * epoch_seconds / 3600:.2f} h.",
        )
    return epoch


def lights_window(
    hypnogram: Hypnogram, lights_off: Moment | None, lights_on: Moment | None
) -> tuple[int, int]:
    """Return [first, stop) of the epochs between lights off and lights on, to the nearest epoch."""
    n_epochs = hypnogram.n_epochs
    first = 0 if lights_off is None else epoch_at(hypnogram, lights_off, "lights_off", 0)
    stop = n_epochs if lights_on is None else epoch_at(hypnogram, lights_on, "lights_on", first)
    if not first < stop:
        raise InputError(
            Message(
                *("lights are off from epoch ", EpochNumber(first), " and on from epoch ", EpochNumber(stop)),
                f" of {n_epochs}, expected at least one epoch between them.",
            )
        )
    return first, stop


def _seconds_from_start(hypnogram: Hypnogram, moment: Moment, what: str, after: float) -> float:
    """Return seconds from the first epoch to a moment, which counts from the beginning of the recording."""
    if isinstance(moment, str):
        ahead = clock_seconds(moment, what) - time_of_day(hypnogram, moment, what)
        seconds = ahead % DAY_SECONDS
        while what == "lights_on" and seconds <= after:  # the next morning, or the one after
            seconds += DAY_SECONDS
        return seconds
    if not isinstance(moment, datetime):
        seconds_in = moment.total_seconds() if isinstance(moment, timedelta) else moment
        try:
            return checks.number(seconds_in, what, low=0) - hypnogram.offset_seconds
        except InputError:
            raise _wrong_moment(
                what,
                f"{checks.shown(moment)}, expected seconds since the beginning of the recording, or a time "
                "such as '22:30'.",
            ) from None
    time_of_day(hypnogram, moment, what)
    assert hypnogram.start is not None
    if (moment.tzinfo is None) != (hypnogram.start.tzinfo is None):
        raise _wrong_moment(
            what,
            f"{moment} and the recording starts at {hypnogram.start}, "
            "expected both with a time zone or both without.",
        )
    return (moment - hypnogram.start).total_seconds()


def time_of_day(hypnogram: Hypnogram, moment: str | datetime, what: str) -> float:
    """Return when the first epoch begins, in seconds after midnight; the start must be known."""
    start = hypnogram.start
    if start is None:
        raise _wrong_moment(
            what,
            f"the time {str(moment)!r}, but when the recording starts is not known. Give ",
            Argument("start", python="start=... to the Hypnogram"),
            "." if what == "lights_on_phase" else ", or seconds since the beginning of the recording.",
        )
    return start.hour * 3600.0 + start.minute * 60.0 + start.second + start.microsecond / 1e6


def clock_seconds(text: object, what: str) -> float:
    """Return a time of day in seconds after midnight."""
    match = _CLOCK.fullmatch(str(text).strip()) if isinstance(text, str | time) else None
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (24, 0, 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _wrong_moment(
            what,
            f"{checks.shown(text)}, expected a time of day such as '07:00'",
            "." if what == "lights_on_phase" else ", or a number of seconds.",
        )
    return hours * 3600.0 + minutes * 60.0 + seconds


def _wrong_moment(what: str, *problem: object) -> InputError:
    return InputError(Message(Argument(what), " is ", *problem))
