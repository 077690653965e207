"""Rename other annotations that a format's readers would take for stages. Changes no stage."""

from __future__ import annotations

from dataclasses import replace

from stageguard.formats._outgoing import Event, Outgoing
from stageguard.formats._staged_annotations import Annotation, stage_annotations
from stageguard.formats.hypnograms import UNSCORED_WORDS
from stageguard.formats.luna_annotations import WORDS, is_stage_class
from stageguard.stages import canonical_name

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
