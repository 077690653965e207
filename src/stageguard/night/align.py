"""Nights of one recording, brought to the same stages and epochs, and experts' scorings checked against them.

`align` cuts nights to what they share. `on_epochs_of` is the one check behind each comparison with an expert:
both must have epochs of one length and begin together. They may end apart: stagers drop the last, incomplete
epoch, and experts leave epochs unscored after the night.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from stageguard import checks
from stageguard.errors import InputError
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.night import TIE
from stageguard.night.timing import (
    Moment,
    Night,
    lights_window,
    part_of,
    require_night,
    seconds_between,
    warn_of,
)

KEEP = ("common", "first")


@dataclass(frozen=True, slots=True)
class Aligned:
    """Nights that cover the same epochs, in the order of the arguments, and notes on what was done."""

    nights: tuple[Night, ...]
    notes: tuple[str, ...] = ()


def align(
    *nights: Night,
    epoch_seconds: float | None = None,
    keep: str = "common",
    lights_off: Moment | None = None,
    lights_on: Moment | None = None,
    tolerance_seconds: float = 1.0,
) -> Aligned:
    """Cut nights of one recording to the same epochs: a scoring and probabilities, or several of each.

    Parameters
    ----------
    *nights : Hypnogram or Hypnodensity
        Two or more nights.
    epoch_seconds : float, optional
        Length of the resulting epochs. Without it, all nights must have epochs of the same length.
    keep : {"common", "first"}
        Keep the epochs that all nights have, or those of the first night; epochs that another night lacks
        are then unscored, or NaN.
    lights_off, lights_on : float, timedelta, datetime or str, optional
        Keep only epochs between these, to the nearest epoch: seconds since the beginning of the recording of
        the first night, or times such as "22:30".
    tolerance_seconds : float
        How far starts may be from a whole number of epochs apart. More is an error, since it would move
        stages against the signal.

    Returns
    -------
    Aligned
        Nights are matched by their starts. A night without a start is taken to be of the same recording as
        the first night that has one, and is placed by its `offset_seconds`. If only some starts have a time
        zone, the others are taken to be in the same one. Nights of different lengths lose their last epochs.
        Each of these is a note, and a warning. All nights get the known start, and the first night's offset.

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
    off, on = lights_window(nights[0], lights_off, lights_on)
    low, high = max(first, off), min(end, on)
    if low >= high:
        raise InputError("no epoch lies between lights off and lights on. Are the times right?")
    if (low, high) != (first, end):
        notes += (f"{low - first:,} epochs before lights off and {end - high:,} after lights on left out",)
        first, end = low, high
    if notes:
        warn_of(notes)
    kept = [part_of(n, first - shift, end - shift) for shift, n in zip(shifts, nights, strict=True)]
    start = next((night.start for night in kept if night.start is not None), None)
    offset = kept[0].offset_seconds
    return Aligned(tuple(replace(night, start=start, offset_seconds=offset) for night in kept), notes)


def _same_length(nights: Sequence[Night], epoch_seconds: float | None) -> list[Night]:
    if epoch_seconds is not None:
        return [night.reepoch(epoch_seconds) for night in nights]
    lengths = sorted({night.epoch_seconds for night in nights})
    if lengths[-1] - lengths[0] > TIE * lengths[0]:
        shown = " and ".join(f"{length:g} s" for length in lengths)
        raise InputError(f"epochs last {shown}, expected one length; choose it with epoch_seconds=.")
    return list(nights)


def _find_shifts(nights: Sequence[Night], tolerance: float) -> tuple[list[int], tuple[str, ...]]:
    """Return the number of epochs from the first night's start to each night's, and notes on assumptions.

    Nights with a start are placed by it, others by their offsets in the recording of the first night that has
    a start. If only some starts have a time zone, the others are taken to be in the same one.
    """
    clocks, notes = comparable_starts(nights)
    base = next((index for index, clock in enumerate(clocks) if clock is not None), 0)
    origin, offset = clocks[base], nights[base].offset_seconds
    shifts = []
    for index, (night, clock) in enumerate(zip(nights, clocks, strict=True)):
        apart = night.offset_seconds - offset
        if clock is not None and origin is not None:
            apart = seconds_between(origin, clock)
        shifts.append(_whole_epochs(apart, nights[0].epoch_seconds, tolerance, (index, base)))
    unknown = [index for index, clock in enumerate(clocks) if clock is None]
    if any(nights[index].offset_seconds != offset for index in unknown):
        notes = (*notes, "not every start is known: placed by their offsets in one recording")
    elif unknown and any(shifts):
        named = " and ".join(f"night {index + 1}" for index in unknown)
        notes = (*notes, f"{named}: start not known, taken to begin with night {base + 1}")
    elif unknown and len({night.n_epochs for night in nights}) > 1:
        notes = (*notes, "not every start is known: all are taken to begin together")
    return [shift - shifts[0] for shift in shifts], notes


def comparable_starts(nights: Sequence[Night]) -> tuple[list[datetime | None], tuple[str, ...]]:
    """Return starts that can be compared, missing time zones filled in, and notes on assumptions."""
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
            f"night {index + 1} begins {apart:g} s after night {base + 1}, {abs(rest):g} s off its grid of "
            f"{seconds:g} s, expected at most {tolerance:g} s."
        )
    return shift


def _refuse_apart(
    nights: Sequence[Night], shifts: Sequence[int], first: int, end: int, notes: Sequence[str]
) -> None:
    """Refuse nights if one of them has no epoch from `first` to `end`."""
    ends = [shift + night.n_epochs for shift, night in zip(shifts, nights, strict=True)]
    if first < end and all(shift < end and last > first for shift, last in zip(shifts, ends, strict=True)):
        return
    spans = (f"epochs {shift} to {last - 1}" for shift, last in zip(shifts, ends, strict=True))
    assumed = "".join(f" Assumed: {note}." for note in notes)
    raise InputError(
        f"the nights have no epoch in common: {'; '.join(spans)}, counted from the first one's start."
        + assumed
    )


def _cut_notes(number: int, n_first: int, n_last: int) -> tuple[str, ...]:
    """Return notes on how many epochs a night loses, or gets as unscored ones, at either end."""
    notes = []
    for n, where in ((n_first, "first"), (n_last, "last")):
        epochs = f"{abs(n):,} epoch{'s' * (abs(n) != 1)}"
        what = "left out" if n > 0 else "not there, and unscored"
        notes += [f"night {number}: the {where} {epochs} {what}"] if n else []
    return tuple(notes)


SAME_SECONDS = 1.0  # recorders keep whole seconds, so beginnings that differ by no more are the same
SPARE_EPOCHS = 1  # scored epochs that the longer of the two may have after the end of the other

_ALIGN = "Compare the epochs both have: sg.align, or stageguard compare --align."


def on_epochs_of(night: Hypnogram, expert: Hypnogram) -> Hypnogram:
    """Return an expert's scoring on the epochs of a night, or raise an error if it is of other epochs.

    Epochs after the night's last are left out, and those that the expert lacks there are unscored; no more
    than `SPARE_EPOCHS` of either may be scored.
    """
    _check_length(night, expert)
    _check_beginning(night, expert)
    _check_end(night, expert)
    matched = expert if expert.n_epochs == night.n_epochs else part_of(expert, 0, night.n_epochs)
    start = expert.start if night.start is None else night.start
    if (matched.start, matched.offset_seconds) == (start, night.offset_seconds):
        return matched
    return replace(matched, start=start, offset_seconds=night.offset_seconds)


def where_scored(expert: Hypnogram, scoring: Hypnogram) -> Hypnogram:
    """Return a scoring of the expert's epochs without those that the expert left unscored."""
    labels = np.where(expert.labels == UNSCORED, np.int8(UNSCORED), scoring.labels)
    return replace(scoring, labels=labels)


def _check_length(night: Hypnogram, expert: Hypnogram) -> None:
    own, other = expert.epoch_seconds, night.epoch_seconds
    if abs(own - other) > TIE * other:
        raise InputError(
            f"the expert's epochs last {own:.12g} s and the night's {other:.12g} s, expected the same. "
            + _ALIGN
        )


def _check_beginning(night: Hypnogram, expert: Hypnogram) -> None:
    seconds, later = night.epoch_seconds, _seconds_later(night, expert)
    tolerance = min(SAME_SECONDS, seconds / 2)
    if abs(later) <= tolerance:
        return
    off = abs(later - round(later / seconds) * seconds)
    when = f"{abs(later):.12g} s {'after' if later > 0 else 'before'}"
    raise InputError(
        f"the expert's scoring begins {when} the night, expected the same epochs (within {tolerance:g} s). "
        + (_ALIGN if off <= tolerance else f"That is {off:.12g} s off an epoch: correct a start.")
    )


def _seconds_later(night: Hypnogram, expert: Hypnogram) -> float:
    """Return how long after the night the expert's scoring begins: by clock, else by offset."""
    (begins, other), _ = comparable_starts((expert, night))
    if begins is not None and other is not None:
        return seconds_between(other, begins)
    return expert.offset_seconds - night.offset_seconds


def end_together(one: Hypnogram, other: Hypnogram) -> bool:
    """Whether two nights have the same number of epochs, but for unscored ones and `SPARE_EPOCHS` more."""
    longer = one if one.n_epochs > other.n_epochs else other
    rest = longer.labels[min(one.n_epochs, other.n_epochs) :]
    return int(np.count_nonzero(rest != UNSCORED)) <= SPARE_EPOCHS


def _check_end(night: Hypnogram, expert: Hypnogram) -> None:
    if not end_together(night, expert):
        scored = np.flatnonzero(expert.labels != UNSCORED)
        last = int(scored[-1]) + 1 if len(scored) else 0
        up_to = f", the last of them epoch {last}," if last > len(scored) else ""
        raise InputError(
            f"the expert scored {len(scored)} epochs{up_to} and the night has {night.n_epochs}, expected the "
            f"same epochs ({SPARE_EPOCHS} more at the end, or unscored ones). {_ALIGN}"
        )
