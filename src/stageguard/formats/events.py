"""Annotations other than stages: read them, align those of another file with a night, rename them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from stageguard.arrays import DAY_SECONDS
from stageguard.errors import InputError
from stageguard.formats import registry
from stageguard.formats.annotations import in_order, is_taken_for_stage
from stageguard.formats.file_format import FileFormat
from stageguard.formats.night import Event, Events, Night
from stageguard.formats.tables.times import TOLERANCE
from stageguard.night.timing import part_of, seconds_between

PREFIX = "Event "
MOST_TEXTS = 3


def read_events(path: Path, format: str | None = None) -> tuple[Event, ...]:
    """Return the annotations other than stages in a file, by onset; none if the format has none."""
    form = registry.detect(path, "hypnogram", name=format)
    return () if form.events is None else form.events(path).events


def with_events_of(night: Night, path: Path, *, is_placed: bool = True) -> Night:
    """Return a night with the annotations of another file, aligned by their clocks.

    With `is_placed`, unscored epochs are added from the recording's start to the night's.
    """
    form = registry.detect(path, "hypnogram")
    if form.events is None:
        known = ", ".join(form.name for form in registry.formats() if form.events)
        raise InputError(f"{path.name}: {form.title} has no annotations besides stages. Known: {known}.")
    other = form.events(path)
    events, theirs, ours = other.events, other.recording_start, night.any.start
    if theirs is None or ours is None:
        note = f"annotations of {path.name} count from the night's first epoch: a start is not known"
        return _add_events(night, _shift(events, night.any.offset_seconds), (note,))
    begins, notes = _seconds_after(path, theirs, ours)
    lasts = night.any.n_epochs * night.any.epoch_seconds
    if begins + lasts <= 0 or begins >= _recording_seconds(other):
        raise InputError(
            f"the night begins at {ours:%Y-%m-%d %H:%M:%S}, but {path.name} at {theirs:%Y-%m-%d %H:%M:%S}: "
            f"they do not overlap. {''.join(f'Assumed: {note}. ' for note in notes)}Is it another night's?"
        )
    if begins < 0 or not is_placed:
        if begins < 0:
            notes += (f"the night begins {-begins:g} s before {path.name}: times count from its first epoch",)
        return _add_events(night, _shift(events, night.any.offset_seconds - begins), notes)
    night_events = _shift(night.events, begins - night.any.offset_seconds)
    placed, more = _place(replace(night, events=night_events), begins, path)
    return _add_events(placed, events, notes + more)


def _seconds_after(path: Path, theirs: datetime, ours: datetime) -> tuple[float, tuple[str, ...]]:
    """Return the seconds from the recording's start to the night's; a missing time zone is the other's."""
    notes: tuple[str, ...] = ()
    if theirs.tzinfo is None and ours.tzinfo is not None:
        theirs = theirs.replace(tzinfo=ours.tzinfo)
        notes = (f"{path.name} tells no time zone: taken to be that of the night",)
    elif ours.tzinfo is None and theirs.tzinfo is not None:
        ours = ours.replace(tzinfo=theirs.tzinfo)
        notes = (f"the night tells no time zone: taken to be that of {path.name}",)
    return round(seconds_between(theirs, ours), 9), notes


def _recording_seconds(other: Events) -> float:
    """Return the length of a recording: that of its signals, else a day more than its annotations."""
    if other.recording_seconds is not None:
        return other.recording_seconds
    return max((event.onset + (event.seconds or 0.0) for event in other.events), default=0.0) + DAY_SECONDS


def _place(night: Night, begins: float, path: Path) -> tuple[Night, tuple[str, ...]]:
    """Return a night with unscored epochs before it, so that less than one epoch of offset is left."""
    seconds = night.any.epoch_seconds
    n_before = int(begins / seconds + TOLERANCE)
    rest = round(begins - n_before * seconds, 9)
    notes: tuple[str, ...] = ()
    if rest < 0:  # closer to the next epoch than readers distinguish
        notes = (f"epochs begin {-rest:g} s later, with the epochs of {path.name}",)
        rest = 0.0
    if n_before:
        many = f"{n_before:,} unscored epoch{'s' * (n_before != 1)}"
        notes = (f"{path.name} begins {begins:g} s before the night: {many} put before it", *notes)
    placed = night.changed(lambda part: replace(part_of(part, -n_before, part.n_epochs), offset_seconds=rest))
    return placed, notes


def _shift(events: Sequence[Event], seconds: float) -> tuple[Event, ...]:
    return tuple(replace(event, onset=round(event.onset + seconds, 9)) for event in events)


def _add_events(night: Night, events: Sequence[Event], notes: tuple[str, ...]) -> Night:
    return replace(night, events=in_order((*night.events, *events)), notes=(*night.notes, *notes))


def with_plain_events(form: FileFormat, night: Night) -> tuple[Night, tuple[str, ...]]:
    """Rename other annotations that a reader of this format takes for stages; also return what is lost."""
    taken = [
        event for event in night.events if form.tells_events_by_text and is_taken_for_stage(event, night)
    ]
    if not taken:
        return night, ()
    ids = {id(event) for event in taken}
    events = tuple(
        replace(event, text=PREFIX + event.text, concept="") if id(event) in ids else event
        for event in night.events
    )
    texts = sorted({event.text[:40] for event in taken})
    shown = ", ".join(texts[:MOST_TEXTS]) + ", ..." * (len(texts) > MOST_TEXTS)
    names = f"name{'s' * (len(taken) != 1)} of {len(taken):,} other annotation{'s' * (len(taken) != 1)}"
    return replace(night, events=events), (
        f"{names} ({shown}): {PREFIX!r} is put before, since readers would take it for a stage",
    )
