"""Annotations that are no stages: read from a file, and put beside a night in the recording they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import InputError
from stageguard.formats import registry
from stageguard.formats.file_format import FileFormat
from stageguard.formats.outgoing import Event, Outgoing
from stageguard.formats.staged_intervals import TOLERANCE
from stageguard.night.timing import elapsed, part_of

PREFIX = "Event "
MOST_TEXTS = 3


def read_events(path: Path, format: str | None = None) -> tuple[Event, ...]:
    """Return what a file tells besides stages, in the order of time; nothing for formats without it."""
    form = registry.chosen(path, "hypnogram", format)
    events = () if form.events is None else form.events(path)
    return tuple(sorted(events, key=lambda event: event.onset))


def with_events_of(night: Outgoing, path: Path, *, is_placed: bool = True) -> Outgoing:
    """Return a night with the annotations of another file, in the place it has there by their clocks.

    `is_placed` adds epochs from the recording's start to the night's, which nobody scored.
    """
    form = registry.detect(path, "hypnogram")
    if form.events is None:
        known = ", ".join(each.name for each in registry.formats() if each.events is not None)
        raise InputError(f"{path.name}: {form.title} has no annotations besides stages. Known: {known}.")
    events = read_events(path, form.name)
    theirs = None if form.recording_start is None else form.recording_start(path)
    ours = night.any.start
    if theirs is None or ours is None:
        note = f"annotations of {path.name} count from the night's first epoch: a start is not known"
        return _with(night, _moved(events, night.offset_seconds), (note,))
    begins, notes = _begins(path, theirs, ours)
    lasts = night.any.n_epochs * night.epoch_seconds
    if begins + lasts <= 0 or begins >= _ends(form, path, events):
        raise InputError(
            f"the night begins at {ours:%Y-%m-%d %H:%M:%S}, but {path.name} at {theirs:%Y-%m-%d %H:%M:%S}: "
            f"they do not overlap. {''.join(f'Assumed: {note}. ' for note in notes)}Is it another night's?"
        )
    if begins < 0 or not is_placed:
        if begins < 0:
            notes += (f"the night begins {-begins:g} s before {path.name}: times count from its first epoch",)
        return _with(night, _moved(events, night.offset_seconds - begins), notes)
    own = _moved(night.events, begins - night.offset_seconds)
    placed, more = _placed(replace(night, events=own), begins, path)
    return _with(placed, events, notes + more)


def _begins(path: Path, theirs: datetime, ours: datetime) -> tuple[float, tuple[str, ...]]:
    """Seconds from the recording's start to the night's; a start without zone is of the other one's."""
    notes: tuple[str, ...] = ()
    if theirs.tzinfo is None and ours.tzinfo is not None:
        theirs = theirs.replace(tzinfo=ours.tzinfo)
        notes = (f"{path.name} tells no time zone: taken to be that of the night",)
    elif ours.tzinfo is None and theirs.tzinfo is not None:
        ours = ours.replace(tzinfo=theirs.tzinfo)
        notes = (f"the night tells no time zone: taken to be that of {path.name}",)
    return round(elapsed(theirs, ours), 9), notes


def _ends(form: FileFormat, path: Path, events: Sequence[Event]) -> float:
    """Seconds of a recording: what its signals last, else a day more than its annotations."""
    seconds = None if form.recording_seconds is None else form.recording_seconds(path)
    if seconds is not None:
        return seconds
    return max((event.onset + (event.seconds or 0.0) for event in events), default=0.0) + DAY_SECONDS


def _placed(night: Outgoing, begins: float, path: Path) -> tuple[Outgoing, tuple[str, ...]]:
    """Return a night with unscored epochs before it, so that less than an epoch is left before the first."""
    seconds = night.epoch_seconds
    n_before = int(begins / seconds + TOLERANCE)
    rest = round(begins - n_before * seconds, 9)
    notes: tuple[str, ...] = ()
    if rest < 0:  # too near to the next epoch for any reader to tell
        notes = (f"epochs begin {-rest:g} s later, with the epochs of {path.name}",)
        rest = 0.0
    if n_before:
        many = f"{n_before:,} unscored epoch{'s' * (n_before != 1)}"
        notes = (f"{path.name} begins {begins:g} s before the night: {many} put before it", *notes)
    placed = night.changed(lambda part: replace(part_of(part, -n_before, part.n_epochs), offset_seconds=rest))
    return placed, notes


def _moved(events: Sequence[Event], seconds: float) -> tuple[Event, ...]:
    return tuple(replace(event, onset=round(event.onset + seconds, 9)) for event in events)


def _with(night: Outgoing, events: Sequence[Event], notes: tuple[str, ...]) -> Outgoing:
    merged = sorted((*night.events, *events), key=lambda event: event.onset)
    return replace(night, events=tuple(merged), notes=(*night.notes, *notes))


def with_plain_events(form: FileFormat, night: Outgoing) -> tuple[Outgoing, tuple[str, ...]]:
    """Return a night whose other annotations no reader of this format takes for stages, and what is lost."""
    is_taken = [] if form.are_taken is None else form.are_taken(night)
    if not any(is_taken):
        return night, ()
    pairs = list(zip(night.events, is_taken, strict=True))
    events = tuple(
        replace(event, text=PREFIX + event.text, concept="") if taken else event for event, taken in pairs
    )
    texts = sorted({event.text[:40] for event, taken in pairs if taken})
    shown = ", ".join(texts[:MOST_TEXTS]) + ", ..." * (len(texts) > MOST_TEXTS)
    n_renamed = sum(is_taken)
    names = f"name{'s' * (n_renamed != 1)} of {n_renamed:,} other annotation{'s' * (n_renamed != 1)}"
    return replace(night, events=events), (
        f"{names} ({shown}): {PREFIX!r} is put before, since readers would take it for a stage",
    )
