"""Put a night where it lies in the recording whose annotations it gets. Reads no stages, writes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from stageguard.base.arrays import DAY_SECONDS
from stageguard.base.errors import InputError
from stageguard.formats import registry
from stageguard.formats.events import recording_start, require_events
from stageguard.formats.hypnogram import UNSCORED_WORDS
from stageguard.formats.luna import WORDS, is_stage_class
from stageguard.formats.outgoing import Event, Outgoing
from stageguard.formats.staged_annotations import Annotation, stage_annotations
from stageguard.formats.staged_intervals import TOLERANCE
from stageguard.night.common_epochs import elapsed, part_of
from stageguard.night.stages import canonical_name


def with_events_of(night: Outgoing, path: str | os.PathLike[str], *, is_placed: bool = True) -> Outgoing:
    """Return a night with the annotations of another file, in the place it has there by their clocks.

    Parameters
    ----------
    night : Outgoing
        Stages, probabilities or both.
    path : path-like
        A file with annotations, which count from the start of a recording.
    is_placed : bool
        Whether epochs from the recording's start to the night's, which nobody scored, are added.
    """
    path = Path(path)
    events = require_events(path)
    theirs, ours = recording_start(path), night.any.start
    if theirs is None or ours is None:
        note = f"annotations of {path.name} count from the night's first epoch: a start is not known"
        return _with(night, _moved(events, night.offset_seconds), (note,))
    begins, notes = _begins(path, theirs, ours)
    lasts = night.any.n_epochs * night.epoch_seconds
    if begins + lasts <= 0 or begins >= _ends(path, events):
        raise InputError(
            f"the night begins at {ours:%Y-%m-%d %H:%M:%S}, but {path.name} at {theirs:%Y-%m-%d %H:%M:%S}: "
            f"they do not overlap. {''.join(f'Assumed: {note}. ' for note in notes)}Is it another night's?"
        )
    if begins < 0 or not is_placed:
        if begins < 0:
            notes += (f"the night begins {-begins:g} s before {path.name}: times count from its first epoch",)
        return _with(night, _moved(events, night.offset_seconds - begins), notes)
    own = _moved(night.events, begins - night.offset_seconds)
    placed, told = _placed(replace(night, events=own), begins, path)
    return _with(placed, events, notes + told)


def _begins(path: Path, theirs: datetime, ours: datetime) -> tuple[float, tuple[str, ...]]:
    """Seconds from the recording's start to the night's; a start without zone is of the other one's."""
    if (theirs.tzinfo is None) == (ours.tzinfo is None):
        return round(elapsed(theirs, ours), 9), ()
    if theirs.tzinfo is None:
        note = f"{path.name} tells no time zone: taken to be that of the night"
        return round(elapsed(theirs.replace(tzinfo=ours.tzinfo), ours), 9), (note,)
    note = f"the night tells no time zone: taken to be that of {path.name}"
    return round(elapsed(theirs, ours.replace(tzinfo=theirs.tzinfo)), 9), (note,)


def _ends(path: Path, events: Sequence[Event]) -> float:
    """Seconds of a recording: what its signals last, else a day more than its annotations."""
    if registry.detect(path, "hypnogram").name == "edf-annotations":
        from stageguard.formats.recordings.edf import read_edf_header

        header = read_edf_header(path)
        if header.is_continuous and any(not signal.is_annotation for signal in header.signals):
            return header.n_records * header.record_seconds
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
    hypnogram, density = night.hypnogram, night.density
    if hypnogram is not None:
        hypnogram = replace(part_of(hypnogram, -n_before, hypnogram.n_epochs), offset_seconds=rest)
    if density is not None:
        density = replace(part_of(density, -n_before, density.n_epochs), offset_seconds=rest)
    return replace(night, hypnogram=hypnogram, density=density), notes


def _moved(events: Sequence[Event], seconds: float) -> tuple[Event, ...]:
    return tuple(replace(event, onset=round(event.onset + seconds, 9)) for event in events)


def _with(night: Outgoing, events: Sequence[Event], notes: tuple[str, ...]) -> Outgoing:
    merged = sorted((*night.events, *events), key=lambda event: event.onset)
    return replace(night, events=tuple(merged), notes=(*night.notes, *notes))


PREFIX = "Event "
BY_TEXT = ("edf-annotations", "bids-events", "mne-fif", "edfbrowser-csv")  # "Sleep stage N2" is a stage there
LUNA = "luna-annot"  # where "N2" is one
MOST_TEXTS = 3


def with_plain_events(format: str, night: Outgoing) -> tuple[Outgoing, tuple[str, ...]]:
    """Return a night whose other annotations no reader of this format takes for stages, and what is lost."""
    is_taken = [False] * len(night.events)
    if format in BY_TEXT:
        is_taken = _taken_by_text(night)
    elif format == LUNA:
        is_taken = [_is_word_of_luna(event.text) for event in night.events]
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


def _taken_by_text(night: Outgoing) -> list[bool]:
    """Whether each annotation is a stage beside those of the night, or an unscored epoch next to them."""
    seconds, onsets = night.epoch_seconds, night.onsets
    stages = [Annotation(onset, seconds, "Sleep stage W") for onset in onsets]
    others = [Annotation(event.onset, event.seconds, event.text) for event in night.events]
    taken = {id(each) for each, _ in stage_annotations([*stages, *others], least=1)}
    return [
        id(each) in taken or _is_unscored_end(event, onsets[0], onsets[-1] + seconds)
        for each, event in zip(others, night.events, strict=True)
    ]


def _is_unscored_end(event: Event, first: float, end: float) -> bool:
    is_outside = event.onset >= end or event.onset + (event.seconds or 0.0) <= first
    return is_outside and bool(event.seconds) and event.text.strip().casefold() in (*UNSCORED_WORDS, "m")


def _is_word_of_luna(text: str) -> bool:
    plain = text.strip().casefold()
    is_word = plain in WORDS or plain in UNSCORED_WORDS or is_stage_class(text)
    return is_word or canonical_name(text) is not None
