"""Write events without stages: EDF+ annotations, Luna's `.annot`, and BIDS events with their JSON.

The readers of these formats in `tools/` read them back. An event's `details` may hold what was said about it
(`description`), who said so (`annotator_id`) and when (`annotated_at`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any

from stageguard.formats.annotations import ANNOTATED_AT, ANNOTATOR, CHANNEL_MARK, DESCRIPTION
from stageguard.formats.night import Event
from stageguard.formats.outgoing import number, plain_text
from stageguard.formats.tools.bids import MISSING, OWN_KEY
from stageguard.formats.tools.edf_annotations import DECIMALS, header_code, header_start
from stageguard.formats.tools.luna import COLUMNS as LUNA_COLUMNS
from stageguard.version import __version__

BIDS_COLUMNS = ("onset", "duration", "trial_type", "channel", DESCRIPTION, ANNOTATOR, ANNOTATED_AT)
NOTHING = "."  # an empty cell of Luna


@dataclass(frozen=True, slots=True)
class EventList:
    """Events of one recording: their meanings by text, who marked them, and when the recording began."""

    events: Sequence[Event]
    meanings: Mapping[str, str]
    annotator: str
    start: datetime | None = None
    source: Mapping[str, Any] | None = None  # what the events were taken from


@dataclass(frozen=True, slots=True)
class EventFormat:
    """A format of events without stages: its name, the end of its files' names, and how it is written."""

    name: str
    title: str
    suffix: str
    write: Callable[[EventList, Path], Mapping[Path, str | bytes]]


def write_edf(listed: EventList, path: Path) -> dict[Path, str | bytes]:
    """Write an EDF+ file without signals; a channel follows its text after @@, as EDF+ says."""
    from edfio import Edf, EdfAnnotation, Recording

    start, _ = header_start(listed.start)
    annotations = [
        EdfAnnotation(round(event.onset, DECIMALS), round(event.seconds or 0.0, DECIMALS), edf_text(event))
        for event in listed.events
    ]
    recording = Recording(
        startdate=None if start is None else start.date(),
        investigator_technician_code=header_code(listed.annotator),
        equipment_code="StageGuard",
    )
    clock = time() if start is None else start.time()
    return {path: Edf([], recording=recording, starttime=clock, annotations=annotations).to_bytes()}


def edf_text(event: Event) -> str:
    """Return an event as one text: "apnea: central@@Flow"."""
    said = dict(event.details).get(DESCRIPTION, "")
    words, channel = (
        plain_text(text).replace(CHANNEL_MARK, "@")
        for text in (f"{event.text}: {said}" if said else event.text, event.channel)
    )
    return f"{words}{CHANNEL_MARK}{channel}" if channel else words


def write_annot(listed: EventList, path: Path) -> dict[Path, str | bytes]:
    """Write an interval per event; its description is the instance, whose text Luna leaves as it is."""
    rows = ["\t".join(LUNA_COLUMNS)]
    for event in listed.events:
        details = dict(event.details)
        # Luna splits the last column at | and ;, and each part at =
        kept = {name: _without(details.get(name, ""), "|;=") for name in (ANNOTATOR, ANNOTATED_AT)}
        meta = "|".join(f"{name}={text}" for name, text in kept.items() if text) or NOTHING
        words = (event.text, details.get(DESCRIPTION, ""), event.channel)
        cells = (
            *(plain_text(text).replace('"', "'") or NOTHING for text in words),  # Luna quotes nothing
            *(number(event.onset), f"+{number(event.seconds or 0.0)}", meta),
        )
        rows.append("\t".join(cells))
    return {path: "\n".join(rows) + "\n"}


def _without(text: str, characters: str) -> str:
    return plain_text("".join(" " if c in characters else c for c in text)).replace('"', "'")


def write_bids(listed: EventList, path: Path) -> dict[Path, str | bytes]:
    """Write a row per event, and the JSON that explains the columns."""
    table = io.StringIO()
    writer = csv.writer(table, delimiter="\t", lineterminator="\n")  # which quotes quotation marks
    writer.writerow(BIDS_COLUMNS)
    for event in listed.events:
        details = dict(event.details)
        cells = (event.text, event.channel, *(details.get(name, "") for name in BIDS_COLUMNS[4:]))
        times = (number(event.onset), number(event.seconds or 0.0))
        writer.writerow((*times, *(plain_text(text) or MISSING for text in cells)))
    sidecar = json.dumps(_sidecar(listed), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return {path: table.getvalue(), path.with_suffix(".json"): sidecar}


def _sidecar(listed: EventList) -> dict[str, Any]:
    start = listed.start
    return {
        "onset": {"Description": "Start, from the start of the recording", "Units": "s"},
        "duration": {"Description": "How long it lasts", "Units": "s"},
        "trial_type": {"Description": "Kind of event", "Levels": dict(listed.meanings)},
        "channel": {"Description": "Channel on which it was marked; n/a: all"},
        DESCRIPTION: {"Description": "What the annotator wrote"},
        ANNOTATOR: {"Description": "Who marked the event, or changed it last"},
        ANNOTATED_AT: {"Description": "When it was marked or changed last, ISO 8601"},
        OWN_KEY: {
            "Version": __version__,
            "AnnotationMethod": "manual",
            "Annotator": listed.annotator,
            "NumberOfEvents": len(listed.events),
            "Start": None if start is None else start.isoformat(),
            "Source": listed.source,
        },
    }


EVENT_FORMATS = (
    EventFormat("events-edf", "events as EDF+ annotations", ".events.edf", write_edf),
    EventFormat("events-luna", "events for Luna", ".events.annot", write_annot),
    EventFormat("events-bids", "events for BIDS, with annotator and time", "_events.tsv", write_bids),
)
