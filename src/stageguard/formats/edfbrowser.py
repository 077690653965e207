"""Read and write the CSV that EDFbrowser imports as annotations: onset, label, duration. Reads no EDF."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from stageguard.formats.hypnogram import HypnogramOptions, RawHypnogram
from stageguard.formats.outgoing import Content, Outgoing, number, plain_text, stage_texts
from stageguard.formats.staged_annotations import Annotation, annotated
from stageguard.formats.tables.delimited import as_number, read_rows

COLUMNS = ("onset", "label", "duration")


def read_edfbrowser_csv(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages among annotations in seconds from the recording's start."""
    table = read_rows(path, COLUMNS)
    onsets = table.seconds("onset").tolist()
    lasting = [as_number(cell) or None for cell in table.column("duration")]
    rows = zip(onsets, lasting, table.column("label"), strict=True)
    annotations = [Annotation(onset, seconds, text) for onset, seconds, text in rows]
    return annotated(path, annotations, options, only_stages=True)


def write_edfbrowser_csv(night: Outgoing, path: Path) -> Content:
    """Write a row per epoch, "Sleep stage N2", and one per other annotation, in the order of time."""
    seconds = number(night.epoch_seconds)
    texts = stage_texts(night, "EDFbrowser")
    rows = [(onset, text, seconds) for onset, text in zip(night.onsets, texts, strict=True)]
    rows += [(event.onset, plain_text(event.text), number(event.seconds or 0.0)) for event in night.events]
    rows.sort(key=lambda row: row[0])
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((number(onset), text, lasting) for onset, text, lasting in rows)
    return Content({path: stream.getvalue()}, n_events=len(night.events))
