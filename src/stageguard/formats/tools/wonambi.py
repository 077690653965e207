"""Sleep scores of wonambi, as XML with events and bookmarks, and as CSV."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from stageguard.base.files import file_error
from stageguard.formats.density import listed
from stageguard.formats.file_format import PROBABILITIES, SCORER, START, FileFormat
from stageguard.formats.hypnogram import HypnogramOptions, RawHypnogram
from stageguard.formats.outgoing import Event
from stageguard.formats.sniffing import has_columns, has_xml_root
from stageguard.formats.staged_annotations import named_intervals, raw_of
from stageguard.formats.staged_intervals import stage_epochs
from stageguard.formats.tables.delimited import as_number, read_rows
from stageguard.formats.xml import children, read_xml, text_of
from stageguard.night.stages import AASM5

COLUMNS = ("clock start time", "start", "end", "stage")


def read_wonambi_xml(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Epochs of the only rater who scored stages (`<annotations>`, `<rater>`, `<stages>`, `<epoch>`)."""
    root = read_xml(path, "annotations")
    scored = {}
    for rater in children(root, "rater"):
        epochs = [epoch for parent in children(rater, "stages") for epoch in children(parent, "epoch")]
        if epochs:
            scored[rater.get("name") or ""] = epochs
    if len(scored) != 1:
        found = f"stages of the raters {listed(list(scored))}" if scored else "no stages"
        raise file_error(path, f"holds {found}, expected those of one rater. Export one from wonambi as CSV.")
    ((scorer, epochs),) = scored.items()
    onsets, lasting, texts = [], [], []
    for place, epoch in enumerate(epochs, start=1):
        times = [as_number(text_of(epoch, name) or "") for name in ("epoch_start", "epoch_end")]
        if times[0] is None or times[1] is None:
            raise file_error(path, f"epoch {place} has no <epoch_start> and <epoch_end> in seconds.")
        onsets.append(times[0])
        lasting.append(times[1] - times[0])
        texts.append(text_of(epoch, "stage") or "?")
    places = range(1, len(epochs) + 1)
    intervals = named_intervals(path, places, onsets, lasting, texts, options, what="epoch")
    start = _start(next((text_of(each, "start_time") for each in children(root, "dataset")), None))
    staged = stage_epochs(path, intervals, options.epoch_seconds)
    return raw_of(staged, start=start, has_clock=start is not None, scheme=AASM5, scorer=scorer or None)


def read_wonambi_csv(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Rows of an export: time of day, start and end in seconds, stage."""
    table = read_rows(path, COLUMNS)
    onsets, ends = table.seconds("start"), table.seconds("end")
    intervals = named_intervals(
        path, table.lines, onsets.tolist(), (ends - onsets).tolist(), table.column("stage"), options
    )
    return raw_of(stage_epochs(path, intervals, options.epoch_seconds), scheme=AASM5)


def _start(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


def read_events(path: Path) -> Iterable[Event]:
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


FORMATS = (
    FileFormat(
        "wonambi-xml",
        "wonambi XML",
        (".xml",),
        has_xml_root("annotations"),
        hypnogram=read_wonambi_xml,
        loses=(PROBABILITIES,),
        events=read_events,
    ),
    FileFormat(
        "wonambi-csv",
        "CSV exported from wonambi",
        (".csv",),
        has_columns(*COLUMNS),
        hypnogram=read_wonambi_csv,
        loses=(PROBABILITIES, START, SCORER),
    ),
)
