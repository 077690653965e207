"""Compumedics Profusion XML: sleep stages and other events.

Profusion writes one number per epoch. 9 is "unscored", although some tools read it as wake: such epochs are
unscored here, and a warning says how many there are. 3 and 4 of Rechtschaffen and Kales are both N3.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stageguard.base.errors import StageGuardWarning
from stageguard.base.files import file_error
from stageguard.formats.file_format import LEAD, PROBABILITIES, SCORER, START, FileFormat
from stageguard.formats.hypnogram import HypnogramOptions, RawHypnogram
from stageguard.formats.outgoing import Content, Event, Outgoing, number, stage_words
from stageguard.formats.sniffing import has_xml_root
from stageguard.formats.xml import (
    children,
    details_of,
    epoch_length,
    read_xml,
    scored_event,
    text_of,
    xml_document,
)
from stageguard.night.stages import AASM5, UNSCORED_NAME

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

ROOT = "CMPStudyConfig"
EVENT_NAMES = ("Name", "Start", "Duration", "Input")
STAGE_CODES = {0: "W", 1: "N1", 2: "N2", 3: "N3", 4: "N3", 5: "R"}
MOVEMENT, UNSCORED_CODE = 6, 9


def read_profusion_xml(path: Path, options: HypnogramOptions | None = None) -> RawHypnogram:
    """Stages of a Profusion export (`<CMPStudyConfig>`), one per epoch from the recording's start."""
    root = read_xml(path, ROOT)
    cells = _cells(root)
    if not cells:
        raise file_error(path, "has no <SleepStages>. Was the study scored before it was exported?")
    codes = [_code(path, place, cell) for place, cell in enumerate(cells)]
    notes = warn_of_codes(path, Counter(codes))
    stages = tuple(STAGE_CODES.get(code, UNSCORED_NAME) for code in codes)
    lines = tuple(range(1, len(stages) + 1))
    return RawHypnogram(stages, lines, epoch_seconds=epoch_length(path, root), scheme=AASM5, notes=notes)


def write_profusion_xml(night: Outgoing, path: Path) -> Content:
    """Write one number per epoch, 9 where unscored, and the other annotations as events."""
    night = night.from_recording_start()
    words = stage_words(night, {"aasm5": {}}, "Profusion XML")
    codes = {name: code for code, name in reversed(STAGE_CODES.items())} | {UNSCORED_NAME: UNSCORED_CODE}
    # stages count from the first epoch here, and so must events
    events = [
        {
            "Name": event.text,
            "Start": number(round(event.onset - night.offset_seconds, 9)),
            "Duration": number(event.seconds or 0.0),
            "Input": event.channel,
        }
        | {name: text for name, text in event.details if name.isidentifier()}
        for event in night.events
    ]
    head = {"EpochLength": number(night.epoch_seconds)}
    stages = ("SleepStage", [str(codes[word]) for word in words])
    text = xml_document(ROOT, head, {"ScoredEvents": ("ScoredEvent", events), "SleepStages": stages})
    return Content({path: text}, n_events=len(events), keeps=frozenset(("channel", "details")))


def warn_of_codes(path: Path, counts: Counter[int]) -> tuple[str, ...]:
    """Say which epochs are unscored by a code that tools understand differently, or that nobody knows."""
    found = []
    if counts[UNSCORED_CODE]:
        found.append((counts[UNSCORED_CODE], f"code {UNSCORED_CODE} (some tools take it for wake)"))
    unknown = sorted(set(counts) - {*STAGE_CODES, MOVEMENT, UNSCORED_CODE})
    if unknown:
        codes = ", ".join(map(str, unknown[:8]))
        found.append((sum(counts[code] for code in unknown), f"unknown code {codes}"))
    notes = [f"{n:,} epoch{'s' * (n != 1)} of {what} read as unscored" for n, what in found]
    for note in notes:
        warnings.warn(StageGuardWarning(f"{path.name}: {note}."), stacklevel=3)
    return tuple(notes)


def _code(path: Path, place: int, cell: str) -> int:
    if not cell.lstrip("-").isdecimal() or len(cell) > 9:
        raise file_error(path, f"epoch {place} has the stage {cell[:40]!r}, expected a number from 0 to 9.")
    return int(cell)


def _cells(root: Element) -> list[str]:
    """Return the numbers of the first list of stages."""
    parent = next(children(root, "SleepStages"), None)
    return [] if parent is None else [(stage.text or "").strip() for stage in children(parent, "SleepStage")]


def read_events(path: Path) -> Iterable[Event]:
    """Annotations besides stages."""
    root = read_xml(path, ROOT)
    for parent in children(root, "ScoredEvents"):
        for event in children(parent, "ScoredEvent"):
            name = text_of(event, "Name") or ""
            if name:
                channel, more = text_of(event, "Input") or "", details_of(event, EVENT_NAMES)
                yield replace(scored_event(event, name), channel=channel, details=more)


FORMATS = (
    FileFormat(
        "profusion-xml",
        "Compumedics Profusion XML",
        (".xml",),
        has_xml_root(ROOT),
        hypnogram=read_profusion_xml,
        write=write_profusion_xml,
        loses=(PROBABILITIES, START, LEAD, SCORER),
        events=read_events,
        stage_texts=lambda path: _cells(read_xml(path, ROOT)),
        has_numbers=True,
    ),
)
