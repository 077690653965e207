"""Read and write the XML of NSRR recordings, of NSRR and of Compumedics Profusion: stages and other events.

NSRR's stages are runs of epochs ("Stage 2 sleep|2", from 4020 s, for 150 s), Profusion's a number per epoch.
9 is "unscored", although some tools read it as wake: such epochs are unscored here, and a warning says how
many there are. Movement and unknown codes are unscored, too. 3 and 4 of Rechtschaffen and Kales are both N3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from stageguard.errors import warn
from stageguard.files import file_error
from stageguard.formats import xml
from stageguard.formats.annotations import in_order, raw_of, stage_epochs
from stageguard.formats.file_format import (
    LEAD,
    PROBABILITIES,
    SCORER,
    START,
    TYPES,
    ZONE,
    Contents,
    FileFormat,
)
from stageguard.formats.night import Event, Events, FileOptions, Night, RawHypnogram
from stageguard.formats.sniffing import has_xml_root
from stageguard.formats.tables.table import as_number
from stageguard.formats.write import number, stage_words
from stageguard.formats.xml import children, text_of
from stageguard.night.stages import AASM5, UNSCORED_NAME, canonical_name

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

ROOT, PROFUSION_ROOT = "PSGAnnotation", "CMPStudyConfig"
STAGE_CODES = {0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "N3", 5: "R"}
MOVEMENT, UNSCORED_CODE = 6, 9
EVENT_NAMES = ("EventType", "EventConcept", "Start", "Duration", "SignalLocation")
PROFUSION_NAMES = ("Name", "Start", "Duration", "Input")
STAGE_TYPE = "Stages"
START_CONCEPT = "Recording Start Time"
OTHER_TYPE = "Other|Other"
CONCEPTS = {
    **{"W": "Wake|0", "N1": "Stage 1 sleep|1", "N2": "Stage 2 sleep|2", "N3": "Stage 3 sleep|3"},
    **{"R": "REM sleep|5", "?": "Unscored|9"},
}


def read_nsrr_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages of an NSRR file (`<PSGAnnotation>`), one per epoch from the recording's start."""
    root = xml.read_xml(path, ROOT)
    events = list(_scored_events(root))
    epoch_seconds = xml.epoch_length(path, root) or options.epoch_seconds
    counts: Counter[int] = Counter()
    intervals = []
    for event in filter(_is_stage, events):
        stage, code = _stage(path, text_of(event, "EventConcept") or "")
        onset, lasting = _seconds(path, event, "Start"), _seconds(path, event, "Duration")
        intervals.append(Event(onset, lasting, stage))
        if code is not None:
            counts[code] += max(1, round(lasting / (epoch_seconds or 30.0)))
    if not intervals:
        raise file_error(path, "has no events of the type 'Stages|Stages'. Was the study scored?")
    staged = stage_epochs(path, intervals, epoch_seconds)
    raw = raw_of(staged, _start(events), AASM5, _warn_of_codes(path, counts))
    return replace(raw, has_clock=False)


def read_nsrr_events(path: Path) -> Events:
    """Read the events other than stages, with their types."""
    events, scored = [], list(_scored_events(xml.read_xml(path, ROOT)))
    for element in scored:
        kind, concept = text_of(element, "EventType") or "", text_of(element, "EventConcept") or ""
        if _is_stage(element) or not concept or concept == START_CONCEPT:
            continue
        event = xml.scored_event(element, concept.partition("|")[0].strip() or concept, kind)
        channel, more = text_of(element, "SignalLocation") or "", xml.details_of(element, EVENT_NAMES)
        events.append(replace(event, channel=channel, concept=concept, details=more))
    return Events(in_order(events), _start(scored))


def write_nsrr_xml(night: Night, path: Path) -> Contents:
    """Write runs of equal stages as in NSRR files, and the other annotations with their types."""
    words = stage_words(night, {"aasm5": {}}, "NSRR XML")
    rows: list[dict[str, str]] = []
    onsets, seconds = night.onsets, night.any.epoch_seconds
    last = number(onsets[-1] + seconds)
    start = night.recording_start
    clock = {} if start is None else {"ClockTime": f"{start:%d.%m.%Y %H.%M.%S}"}
    rows.append({"EventType": "", "EventConcept": START_CONCEPT, "Start": "0", "Duration": last, **clock})
    rows += [_event(event) for event in night.events]
    first = 0
    for word, run in groupby(words):
        n_epochs = len(list(run))
        rows.append(
            {
                "EventType": f"{STAGE_TYPE}|{STAGE_TYPE}",
                "EventConcept": CONCEPTS[word],
                "Start": number(onsets[first]),
                "Duration": number(round(n_epochs * seconds, 9)),
            }
        )
        first += n_epochs
    head = {"SoftwareVersion": "StageGuard", "EpochLength": number(seconds)}
    return {path: xml.xml_document(ROOT, head, {"ScoredEvents": ("ScoredEvent", rows)})}


def _event(event: Event) -> dict[str, str]:
    texts = {
        "EventType": event.kind or OTHER_TYPE,
        "EventConcept": event.concept or f"{event.text}|{event.text}",
        "Start": number(event.onset),
        "Duration": number(event.seconds or 0.0),
    }
    more = {name: text for name, text in event.details if name.isidentifier()}
    return texts | ({"SignalLocation": event.channel} if event.channel else {}) | more


def _stage(path: Path, concept: str) -> tuple[str, int | None]:
    """Return stage and code of a concept such as "Stage 2 sleep|2"; refuse a name and code that disagree."""
    name, _, digits = concept.rpartition("|")
    code = int(digits) if digits.strip().isdecimal() and len(digits) < 9 else None
    named = canonical_name(name if code is not None else concept)
    if code is None:
        return named or UNSCORED_NAME, None
    coded = STAGE_CODES.get(code)
    if named is not None and named != coded:
        raise file_error(path, f"has the stage {concept[:60]!r}, whose name and number do not agree.")
    return coded or UNSCORED_NAME, code


def _seconds(path: Path, event: Element, name: str) -> float:
    text = text_of(event, name) or ""
    seconds = as_number(text)
    if seconds is None:
        raise file_error(path, f"has a stage whose <{name}> is {text[:40]!r}, expected seconds.")
    return seconds


def _start(events: Iterable[Element]) -> datetime | None:
    """Return when the recording began, if the file gives a valid date."""
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


def _scored_events(root: Element) -> Iterator[Element]:
    """Yield the elements of stages and other events."""
    for parent in children(root, "ScoredEvents"):
        yield from children(parent, "ScoredEvent")


def _is_stage(event: Element) -> bool:
    return (text_of(event, "EventType") or "").partition("|")[0].strip() == STAGE_TYPE


def read_profusion_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages of a Profusion export (`<CMPStudyConfig>`), one per epoch from the start."""
    root = xml.read_xml(path, PROFUSION_ROOT)
    cells = _cells(root)
    if not cells:
        raise file_error(path, "has no <SleepStages>. Was the study scored before it was exported?")
    codes = [_code(path, epoch, cell) for epoch, cell in enumerate(cells)]
    notes = _warn_of_codes(path, Counter(codes))
    stages = tuple(STAGE_CODES.get(code, UNSCORED_NAME) for code in codes)
    lines, seconds = range(1, len(stages) + 1), xml.epoch_length(path, root)
    return RawHypnogram(stages, lines, epoch_seconds=seconds, scheme=AASM5, notes=notes)


def write_profusion_xml(night: Night, path: Path) -> Contents:
    """Write one number per epoch, 9 if unscored, and the other annotations as events."""
    night = night.from_recording_start()
    words = stage_words(night, {"aasm5": {}}, "Profusion XML")
    codes = {name: code for code, name in reversed(STAGE_CODES.items())} | {UNSCORED_NAME: UNSCORED_CODE}
    # stages count from the first epoch in this format, so events must, too
    events = [
        {
            "Name": event.text,
            "Start": number(round(event.onset - night.any.offset_seconds, 9)),
            "Duration": number(event.seconds or 0.0),
            "Input": event.channel,
        }
        | {name: text for name, text in event.details if name.isidentifier()}
        for event in night.events
    ]
    head = {"EpochLength": number(night.any.epoch_seconds)}
    stages = ("SleepStage", [str(codes[word]) for word in words])
    text = xml.xml_document(
        PROFUSION_ROOT, head, {"ScoredEvents": ("ScoredEvent", events), "SleepStages": stages}
    )
    return {path: text}


def _warn_of_codes(path: Path, counts: Counter[int]) -> tuple[str, ...]:
    """Warn of epochs that are unscored by an unknown or ambiguous code, and return this as notes."""
    unscored = []
    if counts[UNSCORED_CODE]:
        unscored.append((counts[UNSCORED_CODE], f"code {UNSCORED_CODE} (some tools take it for wake)"))
    unknown = sorted(set(counts) - {*STAGE_CODES, MOVEMENT, UNSCORED_CODE})
    if unknown:
        codes = ", ".join(map(str, unknown[:8]))
        unscored.append((sum(counts[code] for code in unknown), f"unknown code {codes}"))
    notes = [f"{n:,} epoch{'s' * (n != 1)} of {what} read as unscored" for n, what in unscored]
    for note in notes:
        warn(f"{path.name}: {note}.")
    return tuple(notes)


def _code(path: Path, epoch: int, cell: str) -> int:
    if not cell.lstrip("-").isdecimal() or len(cell) > 9:
        got = f" has the stage {cell[:40]!r}, expected a number from 0 to 9."
        raise file_error(path, "epoch ", f"{epoch}", got)
    return int(cell)


def _cells(root: Element) -> list[str]:
    """Return the numbers of the first list of stages."""
    parent = next(children(root, "SleepStages"), None)
    return [] if parent is None else [(stage.text or "").strip() for stage in children(parent, "SleepStage")]


def read_profusion_events(path: Path) -> Events:
    """Read the events other than stages."""
    events = []
    for element in _scored_events(xml.read_xml(path, PROFUSION_ROOT)):
        name = text_of(element, "Name") or ""
        if name:
            channel, more = text_of(element, "Input") or "", xml.details_of(element, PROFUSION_NAMES)
            events.append(replace(xml.scored_event(element, name), channel=channel, details=more))
    return Events(in_order(events))


FORMATS = (
    FileFormat(
        "nsrr-xml",
        "NSRR XML",
        (".xml",),
        has_xml_root(ROOT),
        stages=read_nsrr_stages,
        events=read_nsrr_events,
        write=write_nsrr_xml,
        loses=(PROBABILITIES, ZONE, SCORER),
    ),
    FileFormat(
        "profusion-xml",
        "Compumedics Profusion XML",
        (".xml",),
        has_xml_root(PROFUSION_ROOT),
        stages=read_profusion_stages,
        events=read_profusion_events,
        write=write_profusion_xml,
        loses=(PROBABILITIES, START, LEAD, SCORER, TYPES),
    ),
)
