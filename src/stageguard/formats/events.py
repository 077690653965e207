"""Read annotations that are no stages: arousals, apnoeas, lights. Reads no stages and no samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from stageguard.base.errors import InputError
from stageguard.base.files import file_error
from stageguard.formats import registry
from stageguard.formats.hypnogram import STAGE_COLUMNS, UNSCORED_WORDS
from stageguard.formats.outgoing import Event
from stageguard.formats.staged_annotations import Annotation, stage_annotations
from stageguard.formats.tables.delimited import as_number
from stageguard.formats.xml import children, local_name, read_xml, text_of
from stageguard.night.stages import canonical_name

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

NSRR_START = "Recording Start Time"
NSRR_NAMES = ("EventType", "EventConcept", "Start", "Duration", "SignalLocation")
PROFUSION_NAMES = ("Name", "Start", "Duration", "Input")


def read_events(path: Path, format: str | None = None) -> tuple[Event, ...]:
    """Return what a file tells besides stages, in the order of time; nothing for formats without it.

    Parameters
    ----------
    path : Path
        EDF+, NSRR or Profusion XML, Luna .annot, BIDS events, annotations of MNE, EDFbrowser's CSV.
    format : str, optional
        Which of them; by default found from the content.
    """
    form = registry.detect(path, "hypnogram") if format is None else registry.named(format, "hypnogram")
    reader = READERS.get(form.name)
    events = () if reader is None else tuple(reader(path))
    return tuple(sorted(events, key=lambda event: event.onset))


def require_events(path: Path, format: str | None = None) -> tuple[Event, ...]:
    """Like `read_events`, but a format that cannot have any is an error."""
    form = registry.detect(path, "hypnogram") if format is None else registry.named(format, "hypnogram")
    if form.name not in READERS:
        known = ", ".join(READERS)
        raise InputError(f"{path.name}: {form.title} has no annotations besides stages. Known: {known}.")
    return read_events(path, form.name)


def recording_start(path: Path) -> datetime | None:
    """When the recording began that a file's annotations count from, where the file tells it."""
    from stageguard.formats.mne import read_fif_annotations
    from stageguard.formats.nsrr import read_start
    from stageguard.formats.recordings.edf import NO_DATE, find_runs, read_edf_header

    name = registry.detect(path, "hypnogram").name
    if name == "edf-annotations":
        header = read_edf_header(path)
        if header.start is None or header.start == NO_DATE:
            return None
        first_seconds, _, _ = find_runs(header)  # annotations count from the first sample
        return header.start + timedelta(seconds=first_seconds)
    if name == "nsrr-xml":
        return read_start(path)
    return read_fif_annotations(path)[1] if name == "mne-fif" else None


def _others(annotations: Iterable[Annotation]) -> Iterable[Event]:
    """Annotations that no reader of stages takes."""
    found = list(annotations)
    taken = {id(each) for each, _ in stage_annotations(found, least=1)}
    for each in found:
        if id(each) not in taken and each.text and each.text.casefold() not in UNSCORED_WORDS:
            yield Event(each.onset, each.seconds or None, each.text)


def _edf(path: Path) -> Iterable[Event]:
    from stageguard.formats.edf_annotations import read_edf_annotations

    return _others(read_edf_annotations(path))


def _fif(path: Path) -> Iterable[Event]:
    from stageguard.formats.mne import read_fif_annotations

    return _others(read_fif_annotations(path)[0])


def _mne_text(path: Path) -> Iterable[Event]:
    from stageguard.formats.mne import read_text_annotations

    return _others(read_text_annotations(path)[0])


def _mne_csv(path: Path) -> Iterable[Event]:
    from stageguard.formats.mne import read_csv_annotations

    return _others(read_csv_annotations(path)[0])


def _wonambi(path: Path) -> Iterable[Event]:
    """Events and bookmarks of the rater who scored the stages."""
    root = read_xml(path, "annotations")
    for rater in children(root, "rater"):
        if not any(True for parent in children(rater, "stages") for _ in children(parent, "epoch")):
            continue
        found = [
            (each, kind.get("type") or "event", "event")
            for parent in children(rater, "events")
            for kind in children(parent, "event_type")
            for each in children(kind, "event")
        ]
        for parent in children(rater, "bookmarks"):
            marks = children(parent, "bookmark")
            found += [(each, text_of(each, "bookmark_name") or "bookmark", "bookmark") for each in marks]
        for each, text, what in found:
            onset, end = (as_number(text_of(each, f"{what}_{name}") or "") for name in ("start", "end"))
            if onset is None or end is None:
                raise file_error(path, f"has a {what} {text[:40]!r} without times in seconds.")
            channel = text_of(each, f"{what}_chan") or ""
            yield Event(onset, round(end - onset, 9) or None, text, "", channel)


def _nsrr(path: Path) -> Iterable[Event]:
    root = read_xml(path, "PSGAnnotation")
    for parent in children(root, "ScoredEvents"):
        for event in children(parent, "ScoredEvent"):
            kind, concept = text_of(event, "EventType") or "", text_of(event, "EventConcept") or ""
            if kind.partition("|")[0].strip() == "Stages" or not concept or concept == NSRR_START:
                continue
            found = _scored(event, concept.partition("|")[0].strip() or concept, kind)
            channel, more = text_of(event, "SignalLocation") or "", _details(event, NSRR_NAMES)
            yield replace(found, channel=channel, concept=concept, details=more)


def _profusion(path: Path) -> Iterable[Event]:
    root = read_xml(path, "CMPStudyConfig")
    for parent in children(root, "ScoredEvents"):
        for event in children(parent, "ScoredEvent"):
            name = text_of(event, "Name") or ""
            if name:
                channel, more = text_of(event, "Input") or "", _details(event, PROFUSION_NAMES)
                yield replace(_scored(event, name, ""), channel=channel, details=more)


def _scored(event: Element, text: str, kind: str) -> Event:
    onset, seconds = (as_number(text_of(event, name) or "") for name in ("Start", "Duration"))
    return Event(onset or 0.0, seconds or None, text, kind)


def _details(event: Element, known: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return what else an event says, such as how low oxygen fell."""
    found = ((local_name(child), (child.text or "").strip()) for child in event)
    return tuple((name, text) for name, text in found if name not in known and text)


def _luna(path: Path) -> Iterable[Event]:
    from stageguard.formats.luna import COLUMNS, is_stage_class, read_intervals

    rows, times, _, _ = read_intervals(path)
    for row, (onset, seconds) in zip(rows, times, strict=True):
        is_stage = is_stage_class(row[0]) or canonical_name(row[0]) is not None
        if is_stage or row[0].casefold() in (*UNSCORED_WORDS, *"umlg"):
            continue
        told = dict(zip(COLUMNS, row, strict=True)) if len(row) == 6 else {}
        more = tuple(
            (name, told[name]) for name in ("instance", "meta") if told.get(name, ".") not in ("", ".")
        )
        channel = told.get("channel", ".")
        yield Event(onset, seconds, row[0], "", "" if channel == "." else channel, details=more)


def _rows(path: Path) -> Iterable[Event]:
    from stageguard.formats.tables.delimited import read_rows

    table = read_rows(path, ("onset", "duration"))
    column = next((name for name in STAGE_COLUMNS if name in table.header), None)
    if column is None:
        return ()
    onsets, lasting = ([as_number(cell) for cell in table.column(n)] for n in ("onset", "duration"))
    found = zip(onsets, lasting, table.column(column), strict=True)
    # a number is a stage that the JSON beside the table explains
    return _others(
        Annotation(onset, seconds or None, text)
        for onset, seconds, text in found
        if onset is not None and as_number(text) is None
    )


READERS: dict[str, Callable[[Path], Iterable[Event]]] = {
    "edf-annotations": _edf,
    "nsrr-xml": _nsrr,
    "profusion-xml": _profusion,
    "luna-annot": _luna,
    "bids-events": _rows,
    "edfbrowser-csv": _rows,
    "mne-fif": _fif,
    "mne-txt": _mne_text,
    "mne-csv": _mne_csv,
    "wonambi-xml": _wonambi,
}
