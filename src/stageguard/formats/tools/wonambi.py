"""Read sleep scores of wonambi, as XML with events and bookmarks, and as CSV."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element

from stageguard.base.files import file_error
from stageguard.formats.annotations import staged_rows
from stageguard.formats.density import listed
from stageguard.formats.file_format import PROBABILITIES, SCORER, START, FileFormat
from stageguard.formats.raw_night import (
    ONLY_STAGES,
    Event,
    FileOptions,
    RawHypnogram,
    RawNight,
    Reader,
    of_stages,
)
from stageguard.formats.sniffing import has_columns, has_xml_root
from stageguard.formats.tables.delimited import read_rows
from stageguard.formats.tables.table import as_number
from stageguard.formats.xml import children, read_xml, text_of
from stageguard.night.stages import AASM5

COLUMNS = ("clock start time", "start", "end", "stage")


def read_wonambi_xml(path: Path, options: FileOptions) -> RawNight:
    """Read the stages, events and bookmarks of the only rater with stages."""
    root = read_xml(path, "annotations")
    return RawNight(stages=partial(_stages, path, root, options), events=partial(_events, path, root))


def _stages(path: Path, root: Element, options: FileOptions) -> RawHypnogram:
    """Return the epochs of the only rater with stages (`<annotations>`, `<rater>`, `<stages>`, `<epoch>`)."""
    scored = {}
    for rater in children(root, "rater"):
        epochs = [epoch for parent in children(rater, "stages") for epoch in children(parent, "epoch")]
        if epochs:
            scored[rater.get("name") or ""] = epochs
    if len(scored) != 1:
        content = f"stages of the raters {listed(list(scored))}" if scored else "no stages"
        raise file_error(
            path, f"holds {content}, expected those of one rater. Export one from wonambi as CSV."
        )
    ((scorer, epochs),) = scored.items()
    rows = []
    for number, epoch in enumerate(epochs, start=1):
        begin, end = (as_number(text_of(epoch, name) or "") for name in ("epoch_start", "epoch_end"))
        if begin is None or end is None:
            raise file_error(path, f"epoch {number} has no <epoch_start> and <epoch_end> in seconds.")
        rows.append((number, begin, end - begin, text_of(epoch, "stage") or "?"))
    start = _start(next((text_of(each, "start_time") for each in children(root, "dataset")), None))
    return staged_rows(path, rows, options, what="epoch", start=start, scheme=AASM5, scorer=scorer or None)


def read_wonambi_csv(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the rows of an export: time of day, start and end in seconds, stage."""
    table = read_rows(path, COLUMNS)
    onsets, stages = table.seconds("start"), table.column("stage")
    lasting = table.seconds("end") - onsets
    return staged_rows(path, zip(table.lines, onsets, lasting, stages, strict=True), options, scheme=AASM5)


def _start(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def _events(path: Path, root: Element) -> Iterable[Event]:
    """Yield events and bookmarks of the rater who scored the stages."""
    for rater in children(root, "rater"):
        if not any(True for parent in children(rater, "stages") for _ in children(parent, "epoch")):
            continue
        elements = [
            (each, kind.get("type") or "event", "event")
            for parent in children(rater, "events")
            for kind in children(parent, "event_type")
            for each in children(kind, "event")
        ]
        for parent in children(rater, "bookmarks"):
            marks = children(parent, "bookmark")
            elements += [(each, text_of(each, "bookmark_name") or "bookmark", "bookmark") for each in marks]
        for each, text, what in elements:
            onset, end = (as_number(text_of(each, f"{what}_{name}") or "") for name in ("start", "end"))
            if onset is None or end is None:
                raise file_error(path, f"has a {what} {text[:40]!r} without times in seconds.")
            channel = text_of(each, f"{what}_chan") or ""
            yield Event(onset, round(end - onset, 9) or None, text, "", channel)


FORMATS = (
    FileFormat(
        "wonambi-xml",
        "wonambi XML",
        (".xml",),
        has_xml_root("annotations"),
        reader=Reader(ONLY_STAGES, read_wonambi_xml),
        loses=(PROBABILITIES,),
        has_events=True,
    ),
    FileFormat(
        "wonambi-csv",
        "CSV exported from wonambi",
        (".csv",),
        has_columns(*COLUMNS),
        reader=of_stages(read_wonambi_csv),
        loses=(PROBABILITIES, START, SCORER),
    ),
)
