"""Annotations of files beside a review: existing ones to show, and the scorer's events to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stageguard.errors import FileFormatError, visible
from stageguard.formats.annotations import ANNOTATED_AT, ANNOTATOR, CHANNEL_MARK, DESCRIPTION
from stageguard.formats.event_files import EventList
from stageguard.formats.events import read_events_beside
from stageguard.formats.night import Event
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.timing import recording_start
from stageguard.review.events import BY_NAME, BY_WORD, KINDS, ScoredEvent, kind_of_text

MOST_SHOWN = 20_000  # annotations of files; more would make the page slow
EDF_SUFFIXES = (".edf", ".rec")
TEXT_MARK = ": "  # between the word of a kind and what was said, in formats with one text per event


@dataclass(frozen=True, slots=True)
class ExistingEvent:
    """An annotation of a file, which a review shows and never changes."""

    kind: str
    begin: float
    end: float
    channel: str
    text: str
    file: str


@dataclass(frozen=True, slots=True)
class ExistingEvents:
    """The annotations of the files beside a night, by onset, and remarks."""

    events: tuple[ExistingEvent, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {"events": [asdict(event) for event in self.events], "notes": list(self.notes)}


def existing_events(night: Hypnogram, recording: Path | None, given: Path | None) -> ExistingEvents:
    """Return the annotations of a recording, if it is an EDF+, and of a given file.

    Damaged annotations of the recording are a remark: its signals are shown anyway.
    """
    found, notes = list[ExistingEvent](), list[str]()
    end = night.offset_seconds + night.n_epochs * night.epoch_seconds
    is_edf = recording is not None and recording.suffix.lower() in EDF_SUFFIXES
    for path in (recording if is_edf else None, given):
        if path is None:
            continue
        try:
            events, remarks = read_events_beside(path, night)
        except FileFormatError as error:
            if path is given:
                raise
            notes.append(f"annotations left out: {error}")
            continue
        found += [_existing(event, path.name, end) for event in events]
        notes += remarks
    found.sort(key=lambda event: event.begin)
    if len(found) > MOST_SHOWN:
        notes.append(f"{len(found) - MOST_SHOWN:,} annotations more than {MOST_SHOWN:,} are not shown")
    return ExistingEvents(tuple(found[:MOST_SHOWN]), tuple(notes))


def _existing(event: Event, file: str, latest: float) -> ExistingEvent:
    """Return an annotation to show, which ends with the night at the latest."""
    found = scored_event(event)
    text = found.text
    if is_own_word(event.text):  # told in the words of this page
        text = BY_NAME[found.kind].title + (f"{TEXT_MARK}{text}" if text else "")
    end = max(found.begin, min(found.end, latest))
    return ExistingEvent(found.kind, found.begin, end, visible(found.channel), visible(text), file)


def is_own_word(text: str) -> bool:
    """Whether the text of an annotation begins with the word of a kind, as reviews write it."""
    return text.partition(CHANNEL_MARK)[0].partition(TEXT_MARK)[0] in BY_WORD


def scored_event(event: Event) -> ScoredEvent:
    """Return an annotation of a file as an event; a word of a kind, as reviews write it, becomes the kind."""
    words, _, channel = event.text.partition(CHANNEL_MARK)
    word, _, said = words.partition(TEXT_MARK)
    details = dict(event.details)
    text = details.get(DESCRIPTION) or details.get("instance") or said
    if is_own_word(event.text):
        kind = BY_WORD[word].name
    else:
        kind, text = kind_of_text(words), f"{words} {text}".strip() if text != said else words
    end = round(event.onset + (event.seconds or 0.0), 6)
    who, when = _annotator(details)
    return ScoredEvent(kind, event.onset, end, event.channel or channel, text, who, when)


def _annotator(details: Mapping[str, str]) -> tuple[str, str]:
    """Return who marked an event and when, from columns of their own or from Luna's column `meta`."""
    meta = dict(part.partition("=")[::2] for part in details.get("meta", "").split("|"))
    known = {**meta, **details}
    return known.get(ANNOTATOR, ""), known.get(ANNOTATED_AT, "")


def event_list(
    events: Mapping[int, ScoredEvent], night: Hypnogram, scorer: str, source: Mapping[str, Any]
) -> EventList:
    """Return a scorer's events to write, by begin."""
    ordered = sorted(events.items(), key=lambda item: (item[1].begin, item[0]))
    words = {BY_NAME[event.kind].word for event in events.values()}
    return EventList(
        [_outgoing(event) for _, event in ordered],
        {kind.word: kind.about for kind in KINDS if kind.word in words},
        scorer,
        recording_start(night),
        source,
    )


def _outgoing(event: ScoredEvent) -> Event:
    details = {DESCRIPTION: event.text, ANNOTATOR: event.who, ANNOTATED_AT: event.when}
    filled = tuple((name, text) for name, text in details.items() if text)
    word = BY_NAME[event.kind].word
    return Event(event.begin, event.seconds, word, channel=event.channel, details=filled)
