"""NSRR annotation XML: sleep stages, arousals, apnoeas and other events.

Stages are runs of epochs ("Stage 2 sleep|2", from 4020 s, for 150 s). Movement and unscored epochs, and codes
nobody knows, are unscored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

from stageguard.base.files import file_error
from stageguard.formats.file_format import PROBABILITIES, SCORER, FileFormat
from stageguard.formats.hypnogram import HypnogramOptions, RawHypnogram
from stageguard.formats.outgoing import Content, Event, Outgoing, number, stage_words
from stageguard.formats.sniffing import has_xml_root
from stageguard.formats.staged_intervals import Interval, stage_epochs
from stageguard.formats.tools.profusion import STAGE_CODES, warn_of_codes
from stageguard.formats.xml import (
    children,
    details_of,
    epoch_length,
    read_xml,
    scored_event,
    text_of,
    xml_document,
)
from stageguard.night.stages import AASM5, UNSCORED_NAME, canonical_name

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

ROOT = "PSGAnnotation"
EVENT_NAMES = ("EventType", "EventConcept", "Start", "Duration", "SignalLocation")
STAGE_TYPE = "Stages"
START_CONCEPT = "Recording Start Time"
OTHER_TYPE = "Other|Other"
CONCEPTS = {
    **{"W": "Wake|0", "N1": "Stage 1 sleep|1", "N2": "Stage 2 sleep|2", "N3": "Stage 3 sleep|3"},
    **{"R": "REM sleep|5", "?": "Unscored|9"},
}


def read_nsrr_xml(path: Path, options: HypnogramOptions | None = None) -> RawHypnogram:
    """Stages of an NSRR file (`<PSGAnnotation>`), one per epoch from the recording's start."""
    root = read_xml(path, ROOT)
    events = list(_scored_events(path, root))
    given = None if options is None else options.epoch_seconds
    epoch_seconds = epoch_length(path, root) or given
    counts: Counter[int] = Counter()
    intervals = []
    for event in events:
        if not _is_stage(event):
            continue
        stage, code = _stage(path, text_of(event, "EventConcept") or "")
        onset = _seconds(path, event, "Start")
        lasting = _seconds(path, event, "Duration")
        intervals.append(Interval(onset, lasting, stage))
        if code is not None:
            counts[code] += max(1, round(lasting / (epoch_seconds or 30.0)))
    if not intervals:
        raise file_error(path, "has no events of the type 'Stages|Stages'. Was the study scored?")
    staged = stage_epochs(path, intervals, epoch_seconds)
    remarks = warn_of_codes(path, counts)
    start = _start(events)
    return RawHypnogram(
        staged.stages,
        tuple(range(1, len(staged.stages) + 1)),
        epoch_seconds=staged.epoch_seconds,
        start=None if start is None else start + timedelta(seconds=staged.offset_seconds),
        scheme=AASM5,
        offset_seconds=staged.offset_seconds,
        notes=staged.notes + remarks,
    )


def read_start(path: Path) -> datetime | None:
    """When the recording began, where the file gives a date that exists."""
    return _start(_scored_events(path))


def write_nsrr_xml(night: Outgoing, path: Path) -> Content:
    """Write runs of equal stages as NSRR files have them, and the other annotations with their types."""
    words = stage_words(night, {"aasm5": {}}, "NSRR XML")
    rows: list[dict[str, str]] = []
    onsets = night.onsets
    last = number(onsets[-1] + night.epoch_seconds)
    start = night.recording_start
    clock = {} if start is None else {"ClockTime": f"{start:%d.%m.%Y %H.%M.%S}"}
    rows.append({"EventType": "", "EventConcept": START_CONCEPT, "Start": "0", "Duration": last, **clock})
    rows += [_event(event) for event in night.events]
    first = 0
    for place in range(1, len(words) + 1):
        if place == len(words) or words[place] != words[first]:
            rows.append(
                {
                    "EventType": f"{STAGE_TYPE}|{STAGE_TYPE}",
                    "EventConcept": CONCEPTS[words[first]],
                    "Start": number(onsets[first]),
                    "Duration": number(round((place - first) * night.epoch_seconds, 9)),
                }
            )
            first = place
    head = {"SoftwareVersion": "StageGuard", "EpochLength": number(night.epoch_seconds)}
    text = xml_document(ROOT, head, {"ScoredEvents": ("ScoredEvent", rows)})
    kept = frozenset(("kind", "channel", "details"))
    return Content({path: text}, n_events=len(night.events), keeps=kept)


def _event(event: Event) -> dict[str, str]:
    found = {
        "EventType": event.kind or OTHER_TYPE,
        "EventConcept": event.concept or f"{event.text}|{event.text}",
        "Start": number(event.onset),
        "Duration": number(event.seconds or 0.0),
    }
    more = {name: text for name, text in event.details if name.isidentifier()}
    return found | ({"SignalLocation": event.channel} if event.channel else {}) | more


def _stage(path: Path, concept: str) -> tuple[str, int | None]:
    """Stage and code of a concept such as "Stage 2 sleep|2"; name and code must not contradict each other."""
    name, _, digits = concept.rpartition("|")
    code = int(digits) if digits.strip().isdecimal() and len(digits) < 9 else None
    said = canonical_name(name if code is not None else concept)
    if code is None:
        return said or UNSCORED_NAME, None
    coded = STAGE_CODES.get(code)
    if said is not None and said != coded:
        raise file_error(path, f"has the stage {concept[:60]!r}, whose name and number do not agree.")
    return coded or UNSCORED_NAME, code


def _seconds(path: Path, event: Element, name: str) -> float:
    text = text_of(event, name) or ""
    try:
        seconds = float(text.replace("_", "?"))
    except ValueError:
        seconds = nan
    if not isfinite(seconds):
        raise file_error(path, f"has a stage whose <{name}> is {text[:40]!r}, expected seconds.")
    return seconds


def _start(events: Iterable[Element]) -> datetime | None:
    """When the recording began, where the file gives a date that exists."""
    for event in events:
        if text_of(event, "EventConcept") != START_CONCEPT:
            continue
        digits = re.findall(r"\d+", text_of(event, "ClockTime") or "")
        if len(digits) != 6:
            return None
        day, month, year, hour, minute, second = (int(part[:4]) for part in digits)
        year += 0 if year > 99 else 1900 if year >= 85 else 2000
        try:
            return datetime(year, month, day, hour, minute, second)
        except ValueError:
            return None
    return None


def _scored_events(path: Path, root: Element | None = None) -> Iterator[Element]:
    """Yield the elements of stages and other events."""
    for parent in children(read_xml(path, ROOT) if root is None else root, "ScoredEvents"):
        yield from children(parent, "ScoredEvent")


def _is_stage(event: Element) -> bool:
    return (text_of(event, "EventType") or "").partition("|")[0].strip() == STAGE_TYPE


def read_events(path: Path) -> Iterable[Event]:
    """Annotations besides stages, with their types."""
    for element in _scored_events(path):
        kind, concept = text_of(element, "EventType") or "", text_of(element, "EventConcept") or ""
        if _is_stage(element) or not concept or concept == START_CONCEPT:
            continue
        event = scored_event(element, concept.partition("|")[0].strip() or concept, kind)
        channel, more = text_of(element, "SignalLocation") or "", details_of(element, EVENT_NAMES)
        yield replace(event, channel=channel, concept=concept, details=more)


def _stage_texts(path: Path) -> list[str]:
    return [text_of(event, "EventConcept") or "" for event in _scored_events(path) if _is_stage(event)]


FORMATS = (
    FileFormat(
        "nsrr-xml",
        "NSRR XML",
        (".xml",),
        has_xml_root(ROOT),
        hypnogram=read_nsrr_xml,
        write=write_nsrr_xml,
        loses=(PROBABILITIES, SCORER),
        events=read_events,
        recording_start=read_start,
        stage_texts=_stage_texts,
    ),
)
