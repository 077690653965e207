"""Nights of one recording, brought to the same stages and to the same epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from stageguard.base import checks
from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import FIRST_NIGHT, Argument, InputError, Message, NightNumber
from stageguard.base.records import dataclass
from stageguard.night.stages import StageScheme
from stageguard.night.timing import TIE, AnyNight, Night, elapsed, part_of, reepoch, require_night, warn_of

KEEP = ("common", "first")


@dataclass(frozen=True, slots=True)
class Aligned:
    """Nights that cover the same epochs, in the order they were given, and what was done to get there."""

    nights: tuple[Night, ...]
    notes: tuple[str, ...] = ()


def merge_stages(night: AnyNight, scheme: StageScheme | str) -> AnyNight:
    """Return a night in a coarser scheme: 5 stages to 4, 3 or 2.

    Labels are renamed, and probabilities of merged stages are summed.

    Parameters
    ----------
    night : Hypnogram, Hypnodensity or another night of epochs
        What to merge.
    scheme : StageScheme or str
        The coarser scheme.

    Returns
    -------
    the kind of night that was given

    Examples
    --------
    >>> import stageguard as sg
    >>> night = sg.read_hypnogram(["W", "N1", "N2", "R"])
    >>> sg.merge_stages(night, "wnr3").stages.tolist()
    ['W', 'N', 'N', 'R']
    """
    require_night(night)
    return night.merge(scheme)


def align(
    *nights: Night,
    epoch_seconds: float | None = None,
    keep: str = "common",
    lights_off: datetime | float | None = None,
    lights_on: datetime | float | None = None,
    tolerance_seconds: float = 1.0,
) -> Aligned:
    """Cut nights of one recording to the same epochs: a scoring and probabilities, or several of each.

    Parameters
    ----------
    *nights : Hypnogram or Hypnodensity
        Two or more.
    epoch_seconds : float, optional
        Length of the epochs wanted. Without it all must have the same.
    keep : {"common", "first"}
        The epochs that all have, or those of the first night; others are then unscored, or NaN.
    lights_off, lights_on : datetime or float, optional
        Only epochs that lie wholly between these: times, or seconds from the beginning of the recording of
        the first night.
    tolerance_seconds : float
        Clocks that differ by less, after whole epochs, are one. More is an error, since no stage is moved
        against the signal.

    Returns
    -------
    Aligned
        Starts tell which epochs belong together. A night without one is of the recording of the first that
        has one, and its `offset_seconds` tells where it lies there. Where only some have a time zone, it is
        that of the others too. Nights of different lengths lose their last epochs, and a light's time
        before the start may be that of the next day. Each is a note, and a warning. All have the start that
        is known, and the first night's offset.

    Examples
    --------
    >>> import stageguard as sg
    >>> expert = sg.read_hypnogram(["W", "W", "N", "N"], epoch_seconds=30)
    >>> stager = sg.read_hypnogram(["W", "N"], epoch_seconds=60)
    >>> [night.stages.tolist() for night in sg.align(expert, stager, epoch_seconds=30).nights]
    [['W', 'W', 'N', 'N'], ['W', 'W', 'N', 'N']]
    """
    if len(nights) < 2:
        raise InputError(f"got {len(nights)} night{'s' * (len(nights) != 1)} to align, expected two or more.")
    for night in nights:
        require_night(night)
    tolerance = checks.number(tolerance_seconds, "tolerance_seconds", low=0)
    checks.choice(keep, "keep", KEEP)
    nights = tuple(_same_length(nights, epoch_seconds))
    shifts, notes = _find_shifts(nights, tolerance)
    first, end = 0, nights[0].n_epochs
    if keep == "common":
        first = max(shifts)
        end = min(shift + night.n_epochs for shift, night in zip(shifts, nights, strict=True))
    _refuse_apart(nights, shifts, first, end, notes)
    for number, (shift, night) in enumerate(zip(shifts, nights, strict=True), start=1):
        notes += _cut_notes(number, first - shift, shift + night.n_epochs - end)
    first, end, light_notes = _between_lights(nights[0], first, end, lights_off, lights_on)
    notes += light_notes
    if notes:
        warn_of(notes)
    kept = [part_of(n, first - shift, end - shift) for shift, n in zip(shifts, nights, strict=True)]
    start = next((night.start for night in kept if night.start is not None), None)
    offset = kept[0].offset_seconds
    return Aligned(tuple(replace(night, start=start, offset_seconds=offset) for night in kept), notes)


def _same_length(nights: Sequence[Night], epoch_seconds: float | None) -> list[Night]:
    if epoch_seconds is not None:
        return [reepoch(night, epoch_seconds) for night in nights]
    lengths = sorted({night.epoch_seconds for night in nights})
    if lengths[-1] - lengths[0] > TIE * lengths[0]:
        shown = " and ".join(f"{length:g} s" for length in lengths)
        raise InputError(
            Message(
                f"epochs last {shown}, expected one length. Choose it: ",
                Argument("reepoch_to", float(lengths[-1]), f"epoch_seconds={lengths[-1]:g}"),
                ".",
            )
        )
    return list(nights)


def _find_shifts(nights: Sequence[Night], tolerance: float) -> tuple[list[int], tuple[str, ...]]:
    """Return epochs from the first night's start to that of each, and what was assumed.

    Nights that say when they start are placed by their clocks, others by their offsets, as nights of the
    recording of the first one that has a clock. Where only some starts have a time zone, it is that of the
    others too.
    """
    clocks, notes = _clocks(nights)
    base = next((index for index, clock in enumerate(clocks) if clock is not None), 0)
    origin, offset = clocks[base], nights[base].offset_seconds
    shifts = []
    for index, (night, clock) in enumerate(zip(nights, clocks, strict=True)):
        apart = night.offset_seconds - offset
        if clock is not None and origin is not None:
            apart = elapsed(origin, clock)
        shifts.append(_whole_epochs(apart, nights[0].epoch_seconds, tolerance, (index, base)))
    unknown = [index for index, clock in enumerate(clocks) if clock is None]
    if any(nights[index].offset_seconds != offset for index in unknown):
        notes = (*notes, "not every night tells when it began: placed by their offsets in one recording")
    elif unknown and any(shifts):
        named = [part for index in unknown for part in (" and ", NightNumber(index + 1))][1:]
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


def _whole_epochs(apart: float, seconds: float, tolerance: float, pair: tuple[int, int]) -> int:
    shift = round(apart / seconds)
    rest = apart - shift * seconds
    if abs(rest) > max(tolerance, TIE * seconds):
        index, base = pair
        raise InputError(
            Message(
                NightNumber(index + 1),
                f" begins {apart:g} s after ",
                NightNumber(base + 1, None if base else "the first"),
                f", {abs(rest):g} s off its grid of {seconds:g} s (tolerance {tolerance:g} s). "
                "Correct a start.",
            )
        )
    return shift


def _refuse_apart(
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


def _cut_notes(number: int, n_first: int, n_last: int) -> tuple[str, ...]:
    """Say how many epochs a night loses at either end, and how many it gets."""
    notes = []
    for n, where in ((n_first, "first"), (n_last, "last")):
        epochs = f"{abs(n):,} epoch{'s' * (abs(n) != 1)}"
        what = "left out" if n > 0 else "not there, and unscored"
        notes += [Message(NightNumber(number), f": the {where} {epochs} {what}")] if n else []
    return tuple(notes)


def _between_lights(
    night: Night, first: int, end: int, off: datetime | float | None, on: datetime | float | None
) -> tuple[int, int, tuple[str, ...]]:
    """Return the first epoch after lights off and the one after the last before lights on, with notes."""
    low, high = first, end
    notes: list[str] = []
    if off is not None:
        since, notes = _since(night, off, "lights_off")
        low = max(first, math.ceil(since / night.epoch_seconds - TIE))
    if on is not None:
        since, on_notes = _since(night, on, "lights_on")
        notes = [*notes, *on_notes]
        high = min(end, math.floor(since / night.epoch_seconds + TIE))
    if low >= high:
        raise InputError("no epoch lies between lights off and lights on. Are the times right?")
    if (low, high) != (first, end):
        notes.append(f"{low - first:,} epochs before lights off and {end - high:,} after lights on left out")
    return low, high, tuple(notes)


def _since(night: Night, moment: datetime | float, what: str) -> tuple[float, list[str]]:
    """Return seconds from the first night's start to a moment, which may carry the wrong day."""
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
        names = ["the first night's start", what]
        zoned, bare = names if moment.tzinfo is None else reversed(names)
        raise InputError(f"{zoned} has a time zone, but {bare} has none. Give both one, or seconds.")
    apart = elapsed(night.start, moment)
    if apart <= -DAY_SECONDS:
        raise InputError(
            f"{what} is {moment:%Y-%m-%d %H:%M:%S}, a day or more before the first night's start "
            f"({night.start:%Y-%m-%d %H:%M:%S}). Correct the date, or give seconds."
        )
    return apart
