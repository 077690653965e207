"""An expert's scoring on the epochs of a night: the one check behind every comparison of the two.

Both must have epochs of one length and begin together. They may end apart: stagers drop the last, incomplete
epoch, and experts leave epochs unscored after the night.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stageguard.base.errors import InputError, Message, NightNumber
from stageguard.night.align import comparable_starts
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.timing import TIE, part_of, seconds_between

SAME_SECONDS = 1.0  # recorders keep whole seconds, so beginnings that differ by no more are the same
SPARE_EPOCHS = 1  # scored epochs that the longer of the two may have after the end of the other

_EXPERT, _NIGHT = NightNumber(1, "the expert"), NightNumber(2, "the night")
_FILL_UP = "If the rest is unscored, fill the scoring up to the end with the stage ?. "
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
            Message(_EXPERT, f"'s epochs last {own:.12g} s and ", _NIGHT, f"'s {other:.12g} s, expected the ")
            + "same. Bring both to one epoch length: sg.reepoch, or stageguard convert --reepoch "
            + f"{other:.12g}; or use stageguard compare --align."
        )


def _check_beginning(night: Hypnogram, expert: Hypnogram) -> None:
    seconds, later = night.epoch_seconds, _seconds_later(night, expert)
    tolerance = min(SAME_SECONDS, seconds / 2)
    if abs(later) <= tolerance:
        return
    off = abs(later - round(later / seconds) * seconds)
    when = f"{abs(later):.12g} s {'after' if later > 0 else 'before'}"
    raise InputError(
        Message(_EXPERT, f"'s scoring begins {when} ", _NIGHT, ", expected the same epochs (tolerance ")
        + f"{tolerance:g} s). "
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
            Message(_EXPERT, f" scored {len(scored)} epochs{up_to} and ", _NIGHT, f" has {night.n_epochs}")
            + f", expected the same epochs ({SPARE_EPOCHS} more at the end, or unscored ones). "
            + (_FILL_UP if last <= night.n_epochs else "")
            + _ALIGN
        )
