"""Which epochs nights have in common, by their starts and by lights off and on. Changes no stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import overload

import numpy as np

from stageguard.base import checks
from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import FIRST_NIGHT, InputError, Message, NightNumber
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.night.hypnogram import UNSCORED, Hypnogram

Night = Hypnogram | Hypnodensity
TIE = 1e-9  # of an epoch: shares that differ by less are the same


def elapsed(start: datetime, end: datetime) -> float:
    """Return seconds from one moment to another, also across a change of clocks; both have a zone or none."""
    if start.tzinfo is not None and end.tzinfo is not None:
        start, end = start.astimezone(UTC), end.astimezone(UTC)
    return (end - start).total_seconds()


def later(start: datetime, seconds: float) -> datetime:
    """Return the moment so many seconds after another, in its zone, also across a change of clocks."""
    if start.tzinfo is None:
        return start + timedelta(seconds=seconds)
    return (start.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(start.tzinfo)


@overload
def begun(night: Hypnogram, recording_began: datetime | None) -> Hypnogram: ...
@overload
def begun(night: Hypnodensity, recording_began: datetime | None) -> Hypnodensity: ...
def begun(night: Night, recording_began: datetime | None) -> Night:
    """Return a night with the start that its recording's gives it, unless it tells one itself."""
    if night.start is not None or recording_began is None:
        return night
    return replace(night, start=later(recording_began, night.offset_seconds))


def recording_start(night: Night) -> datetime | None:
    """Return when a night's recording began, where its start is known."""
    return None if night.start is None else later(night.start, -night.offset_seconds)


def find_shifts(nights: Sequence[Night], tolerance: float) -> tuple[list[int], tuple[str, ...]]:
    """Return epochs from the first night's start to that of each, and what was assumed.

    Nights that tell when they start are placed by their clocks, others by their offsets, as nights of the
    recording of the first one that has a clock. Where only some starts have a time zone, it is that of the
    others too.
    """
    clocks, notes = _clocks(nights)
    base = next((place for place, clock in enumerate(clocks) if clock is not None), 0)
    origin, offset = clocks[base], nights[base].offset_seconds
    shifts = []
    for place, (night, clock) in enumerate(zip(nights, clocks, strict=True)):
        apart = night.offset_seconds - offset
        if clock is not None and origin is not None:
            apart = elapsed(origin, clock)
        shifts.append(_whole_epochs(apart, nights[0].epoch_seconds, tolerance, (place, base)))
    unknown = [place for place, clock in enumerate(clocks) if clock is None]
    if any(nights[place].offset_seconds != offset for place in unknown):
        notes = (*notes, "not every night tells when it began: placed by their offsets in one recording")
    elif unknown and any(shifts):
        named = [part for place in unknown for part in (" and ", NightNumber(place + 1))][1:]
        said = " do not tell when they began" if len(unknown) > 1 else " does not tell when it began"
        notes = (*notes, Message(*named, said, ": taken to begin with ", NightNumber(base + 1)))
    elif unknown and len({night.n_epochs for night in nights}) > 1:
        notes = (*notes, "not every night tells when it began: all begin together")
    return [shift - shifts[0] for shift in shifts], notes


def _clocks(nights: Sequence[Night]) -> tuple[list[datetime | None], tuple[str, ...]]:
    """Return starts that can be compared."""
    starts = [night.start for night in nights]
    zones = [start.tzinfo for start in starts if start is not None]
    zone = next((zone for zone in zones if zone is not None), None)
    if zone is None or None not in zones:
        return starts, ()
    clocks = [
        start if start is None or start.tzinfo is not None else start.replace(tzinfo=zone) for start in starts
    ]
    return clocks, ("only some starts have a time zone: the others are taken to be of the same one",)


def _whole_epochs(apart: float, seconds: float, tolerance: float, places: tuple[int, int]) -> int:
    shift = round(apart / seconds)
    rest = apart - shift * seconds
    if abs(rest) > max(tolerance, TIE * seconds):
        place, base = places
        raise InputError(
            Message(
                NightNumber(place + 1),
                f" begins {apart:g} s after ",
                NightNumber(base + 1, None if base else "the first"),
                f", {abs(rest):g} s off its grid of {seconds:g} s (tolerance {tolerance:g} s). "
                "Correct a start.",
            )
        )
    return shift


def refuse_apart(
    nights: Sequence[Night], shifts: Sequence[int], first: int, end: int, notes: Sequence[str]
) -> None:
    """Refuse nights of which one has no epoch between two of the first night's."""
    ends = [shift + night.n_epochs for shift, night in zip(shifts, nights, strict=True)]
    if first < end and all(shift < end and last > first for shift, last in zip(shifts, ends, strict=True)):
        return
    spans = (f"epochs {shift} to {last - 1}" for shift, last in zip(shifts, ends, strict=True))
    raise InputError(
        Message(
            f"the nights have no epoch in common: {'; '.join(spans)}, counted from ",
            FIRST_NIGHT,
            "'s start. ",
            *(part for note in notes for part in ("Assumed: ", note, ". ")),
            "Do they belong together?",
        )
    )


def cut_notes(place: int, n_first: int, n_last: int) -> tuple[str, ...]:
    """Say how many epochs a night loses at either end, and how many it gets."""
    notes = []
    for count, where in ((n_first, "first"), (n_last, "last")):
        if count:
            what = "left out" if count > 0 else "not there, and unscored"
            n = abs(count)
            notes.append(Message(NightNumber(place), f": the {where} {n:,} epoch{'s' * (n != 1)} {what}"))
    return tuple(notes)


def between_lights(
    night: Night,
    first: int,
    end: int,
    off: datetime | float | None,
    on: datetime | float | None,
) -> tuple[int, int, tuple[str, ...]]:
    """Return the first epoch after lights off and the one after the last before lights on, with notes."""
    seconds = night.epoch_seconds
    low, high = first, end
    notes: list[str] = []
    if off is not None:
        since, notes = _since(night, off, "lights_off")
        low = max(first, int(np.ceil(since / seconds - TIE)))
    if on is not None:
        since, told = _since(night, on, "lights_on")
        notes = [*notes, *told]
        high = min(end, int(np.floor(since / seconds + TIE)))
    if low >= high:
        raise InputError("no epoch lies between lights off and lights on. Are the times right?")
    if (low, high) != (first, end):
        notes.append(f"{low - first:,} epochs before lights off and {end - high:,} after lights on left out")
    return low, high, tuple(notes)


def _since(night: Night, moment: datetime | float, what: str) -> tuple[float, list[str]]:
    """Return seconds from the first night's start to a moment, which may be told by the wrong day."""
    if isinstance(moment, datetime):
        apart = _apart(night, moment, what)
        if what == "lights_on" or apart < -DAY_SECONDS / 2:
            if apart < 0:
                day = f"{moment + timedelta(days=1):%Y-%m-%d %H:%M:%S}"
                return apart + DAY_SECONDS, [f"{what} is before the first night's start: taken as {day}"]
            return apart, []
    else:
        apart = checks.number(moment, what) - night.offset_seconds
    if what == "lights_off" and apart < 0:
        return apart, [f"{what} is {-apart:g} s before the first night's start: no epoch is left out for it"]
    return apart, []


def _apart(night: Night, moment: datetime, what: str) -> float:
    if night.start is None:
        raise InputError(f"{what} is a time, but the first night has no start to count from. Give seconds.")
    if (night.start.tzinfo is None) != (moment.tzinfo is None):
        which = (
            ("the first night's start", what) if moment.tzinfo is None else (what, "the first night's start")
        )
        raise InputError(f"{which[0]} has a time zone, but {which[1]} has none. Give both one, or seconds.")
    apart = elapsed(night.start, moment)
    if apart <= -DAY_SECONDS:
        raise InputError(
            f"{what} is {moment:%Y-%m-%d %H:%M:%S}, a day or more before the first night's start "
            f"({night.start:%Y-%m-%d %H:%M:%S}). Correct the date, or give seconds."
        )
    return apart


@overload
def from_recording_start(night: Hypnogram) -> Hypnogram: ...
@overload
def from_recording_start(night: Hypnodensity) -> Hypnodensity: ...
def from_recording_start(night: Night) -> Night:
    """Return a night with the whole epochs from the recording's start to its first, unscored or NaN."""
    n_before = int(night.offset_seconds / night.epoch_seconds + TIE)
    return part_of(night, -n_before, night.n_epochs) if n_before else night


@overload
def part_of(night: Hypnogram, first: int, end: int) -> Hypnogram: ...
@overload
def part_of(night: Hypnodensity, first: int, end: int) -> Hypnodensity: ...
def part_of(night: Night, first: int, end: int) -> Night:
    """Return epochs of a night from first to end, unscored or NaN where it has none."""
    later_seconds = first * night.epoch_seconds
    start = None if night.start is None else later(night.start, later_seconds)
    offset = max(round(night.offset_seconds + later_seconds, 9), 0.0)
    low, high = max(first, 0), min(end, night.n_epochs)
    inside, own = slice(low - first, max(high, low) - first), slice(low, max(high, low))
    if isinstance(night, Hypnogram):
        labels = np.full(end - first, UNSCORED, dtype=np.int8)
        labels[inside] = night.labels[own]
        return replace(night, labels=labels, start=start, offset_seconds=offset)
    rows = np.full((end - first, night.scheme.n_stages), np.nan)
    rows[inside] = night.probabilities[own]
    return Hypnodensity(
        *(rows, night.scheme, night.epoch_seconds, start, night.source, night.assumed, offset)
    )
