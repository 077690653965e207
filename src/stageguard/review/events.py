"""Events that a scorer marks: their kinds, checks, and the signal quality that artefacts leave; no files.

Times are seconds from the recording's start, as the onsets of annotations are; the first epoch begins at the
night's `offset_seconds`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stageguard import checks
from stageguard.arrays import Floats
from stageguard.errors import InputError
from stageguard.night.colours import Shade

MOST_TEXT = 200  # characters of an event's text
MOST_CHANNEL = 80  # characters of a channel's name
MOST_EVENTS = 10_000  # of one review
DECIMALS = 3  # of a time in seconds
# An artefact over more than this share of an epoch loses it: beyond half an epoch, scorers do not stage it
# by its signal either.
LOST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of event: its name and key on the page, its word in files, and how it is drawn.

    `word` is never one that readers of stages take for an unscored epoch, as "movement" and "artifact" are.
    """

    name: str
    title: str
    key: str
    word: str
    pattern: str  # of texts in other files
    shade: Shade
    about: str


KINDS = (
    EventKind(
        *("arousal", "Arousal", "a", "arousal", r"arousal"),
        Shade("#B4530A", "#F0A860"),
        "Arousal",
    ),
    EventKind(
        *("spindle", "Spindle", "s", "spindle", r"spindle"),
        Shade("#1B7F5C", "#63C9A2"),
        "Sleep spindle",
    ),
    EventKind(
        *("k_complex", "K-complex", "k", "k_complex", r"k[ _-]?complex"),
        Shade("#7A4FB0", "#BC9BE8"),
        "K-complex",
    ),
    EventKind(
        *("apnoea", "Apnoea", "o", "apnea", r"(?:apno?ea|hypopno?ea)"),
        Shade("#0B6FA4", "#6FBFEA"),
        "Apnoea or hypopnoea",
    ),
    EventKind(
        *("movement", "Movement", "m", "body_movement", r"movement"),
        Shade("#8A6A12", "#DDBB55"),
        "Movement of the body",
    ),
    EventKind(
        *("artefact", "Artefact", "x", "signal_artifact", r"art[ei]fact"),
        Shade("#B3261E", "#F2918B"),
        "Stretch whose signal is no evidence of the stage",
    ),
    EventKind(
        *("text", "Text", "t", "note", r"^note\b"),
        Shade("#5D646D", "#A8B0B9"),
        "Free text",
    ),
)
BY_NAME: Mapping[str, EventKind] = {kind.name: kind for kind in KINDS}
BY_WORD: Mapping[str, EventKind] = {kind.word: kind for kind in KINDS}
ARTEFACT, TEXT = "artefact", "text"
OTHER = "other"  # an annotation of a file that is of no kind here
_PATTERNS = [(re.compile(kind.pattern, re.IGNORECASE), kind.name) for kind in KINDS]
FIELDS = ("kind", "begin", "end", "channel", "text")  # of an event in an action


@dataclass(frozen=True, slots=True)
class ScoredEvent:
    """An event as a person marked it: what, when, on which channel if on one, and who said so and when."""

    kind: str
    begin: float
    end: float
    channel: str = ""
    text: str = ""
    who: str = ""
    when: str = ""

    @property
    def seconds(self) -> float:
        """Duration, rounded as its times are."""
        return round(self.end - self.begin, DECIMALS)

    def to_dict(self) -> dict[str, Any]:
        """Return what the scorer said, for a journal, whose lines tell who and when."""
        return {name: value for name, value in asdict(self).items() if name in FIELDS}


def parse_event(document: object, span: tuple[float, float]) -> ScoredEvent:
    """Return an event from JSON that comes from outside; `span` is where the epochs begin and end."""
    content = checks.mapping(document, "the event", FIELDS)
    kind = checks.choice(content.get("kind"), "the event's kind", BY_NAME)
    begin, end = (_seconds(content.get(key), f"the event's {key}", span) for key in ("begin", "end"))
    if end < begin:
        raise InputError(f"the event is from {begin:g} s to {end:g} s, expected an end after its begin.")
    channel = _line(content.get("channel", ""), "the event's channel", MOST_CHANNEL)
    text = _line(content.get("text", ""), "the event's text", MOST_TEXT)
    if kind == TEXT and not text:
        raise InputError("the event is a text without words: write some, or choose another kind.")
    return ScoredEvent(kind, begin, end, channel, text)


def _seconds(value: object, what: str, span: tuple[float, float]) -> float:
    """Return a time in whole milliseconds within the night."""
    seconds = round(checks.number(value, what), DECIMALS) + 0.0
    low, high = span
    if not low - 10**-DECIMALS <= seconds <= high + 10**-DECIMALS:
        raise InputError(f"{what} is {seconds:g} s, expected {low:g} to {high:g} s, where the night is.")
    return min(max(seconds, low), high)


def _line(value: object, what: str, most: int) -> str:
    """Return a text on one line."""
    text = checks.text(value, what).strip()
    if not text.isprintable():
        raise InputError(f"{what} is {checks.shown(value)}, expected one line of printable characters.")
    if len(text) > most:
        raise InputError(f"{what} has {len(text)} characters, expected at most {most}.")
    return text


def kind_of_text(text: str) -> str:
    """Return the kind of an annotation of a file by its text, "other" if it is none of these."""
    return next((name for pattern, name in _PATTERNS if pattern.search(text)), OTHER)


def artefact_spans(events: Iterable[ScoredEvent]) -> tuple[tuple[float, float], ...]:
    """Return begin and end of the artefacts, in order and without doubles."""
    return tuple(sorted({(event.begin, event.end) for event in events if event.kind == ARTEFACT}))


def lost_shares(
    spans: Iterable[tuple[float, float]], n_epochs: int, epoch_seconds: float, offset_seconds: float = 0.0
) -> Floats:
    """Return the signal quality beta that artefacts leave in each epoch: 0 clean, 1 lost.

    It is the share of the epoch that artefacts cover, overlapping ones counted once, and 1 above
    `LOST_SHARE`. An artefact on one channel counts as one on all: probabilities do not say which channels
    they rest on.
    """
    covered = np.zeros(n_epochs)
    reached = -np.inf  # end of what is counted already
    for begin, end in sorted(spans):
        begin, reached = max(begin, reached), max(end, reached)
        if end <= begin:
            continue
        first, last = (begin - offset_seconds) / epoch_seconds, (end - offset_seconds) / epoch_seconds
        low, high = max(int(np.floor(first)), 0), min(int(np.ceil(last)), n_epochs)
        epochs = np.arange(low, high)
        covered[low:high] += np.clip(np.minimum(last, epochs + 1) - np.maximum(first, epochs), 0.0, 1.0)
    shares: Floats = np.minimum(covered, 1.0).round(6)  # what is smaller is rounding of floating point
    shares[shares > LOST_SHARE] = 1.0
    return shares
