"""Read annotations of MNE, stages and others, from FIF, and write FIF, without MNE.

A FIF file is a chain of tags: kind, type, size and position of the next tag, then the data, all big-endian.
MNE 1.13 follows a damaged chain for ever, so files are read here; the tests compare with it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import warn
from stageguard.files import damaged_file, file_error, read_file
from stageguard.formats.annotations import are_taken_by_text, events_among, stages_among
from stageguard.formats.file_format import MNE_ENDINGS, PROBABILITIES, SCORER, FileFormat
from stageguard.formats.hypnogram import NUMBERINGS, names_of
from stageguard.formats.night import (
    ONLY_STAGES,
    Event,
    FileOptions,
    RawHypnogram,
    RawNight,
    Reader,
)
from stageguard.formats.outgoing import Content, Outgoing, outgoing_of_night, stage_texts, timed_texts
from stageguard.formats.sniffing import begins_with
from stageguard.formats.tables.table import as_number
from stageguard.guard.decoding import Decoding
from stageguard.lazy import library
from stageguard.night.hypnogram import Hypnogram

FIF_HEAD = b"\x00\x00\x00d\x00\x00\x00\x1f"
BLOCK_START, BLOCK_END, ANNOTATIONS, RECORDING = 104, 105, 3810, 100
ONSETS, ENDS, DESCRIPTIONS, MEASUREMENT_DATE = 3568, 3569, 206, 204
FILE_ID, DIRECTORY, FREE_LIST, NOTHING = 100, 101, 106, 108
NO_DATA, INTEGER, DOUBLE, TEXT, ID = 0, 3, 5, 10, 31  # types of data
VERSION = (1 << 16) + 3  # of the format: 1.3
MOST_TAGS = 100_000
_TYPES = {3: ">i4", 4: ">f4", 5: ">f8"}

Annotated = tuple[list[Event], datetime | None]  # all annotations, and when the recording began


def refuse_numbers(path: Path, annotations: Sequence[Event]) -> None:
    """Refuse annotations that are all numbers, since their numbering is unknown."""
    if annotations and all(re.fullmatch(r"\d", each.text) for each in annotations):
        raise file_error(
            path,
            "its annotations are numbers, and tools number stages differently. Read it with MNE, and pass "
            "its annotations with format='numbers-yasa' (GSSC's) or another format of numbers.",
        )


def numbered(path: Path, annotations: Sequence[Event], numbering: str) -> list[Event]:
    """Return annotations with names of stages for annotations with a tool's numbers."""
    codes = []
    for annotation in annotations:
        code = as_number(annotation.text)
        if code is None:
            raise file_error(
                path, f"has the annotation {annotation.text[:40]!r}, expected a number of a stage."
            )
        codes.append(code)
    names = names_of(path, codes, NUMBERINGS[numbering].codes, what="annotation")
    named = zip(annotations, names, strict=True)
    return [replace(annotation, text=f"Sleep stage {name}") for annotation, name in named]


def write_fif(night: Outgoing, path: Path) -> Content:
    """Write a file for `mne.read_annotations`: one annotation per epoch, and the others."""
    rows = timed_texts(night, "MNE")
    onsets = np.array([onset for onset, _, _ in rows])
    ends = onsets + np.array([seconds or 0.0 for _, seconds, _ in rows])
    text = ":".join(text.replace(":", "{COLON}") for _, _, text in rows)
    parts = [
        _tag(FILE_ID, ID, struct.pack(">5i", VERSION, 0, 0, 0, 0)),
        _tag(DIRECTORY, INTEGER, struct.pack(">i", -1)),
        _tag(FREE_LIST, INTEGER, struct.pack(">i", -1)),
        _tag(BLOCK_START, INTEGER, struct.pack(">i", ANNOTATIONS)),
        _tag(ONSETS, DOUBLE, onsets.astype(">f8").tobytes()),
        _tag(ENDS, DOUBLE, ends.astype(">f8").tobytes()),
        _tag(DESCRIPTIONS, TEXT, text.encode()),
        *_date_tags(night.recording_start),
        _tag(BLOCK_END, INTEGER, struct.pack(">i", ANNOTATIONS)),
        _tag(NOTHING, NO_DATA, b"", -1),
    ]
    notes = clock_notes(night.recording_start)
    if not path.name.endswith(MNE_ENDINGS):
        notes += ("MNE expects names that end with -annot.fif",)
    return Content({path: b"".join(parts)}, n_events=len(night.events), notes=notes)


def clock_notes(start: datetime | None) -> tuple[str, ...]:
    """Return a note on how far the instant is off, because MNE takes the clock time for UTC."""
    offset = None if start is None else start.utcoffset()
    if not offset:
        return ()
    hours = offset.total_seconds() / 3600
    return (f"the clock time is stamped as UTC, as MNE does for EDF: {abs(hours):g} h off the instant",)


def _tag(kind: int, kind_type: int, data: bytes, following: int = 0) -> bytes:
    return struct.pack(">4i", kind, kind_type, len(data), following) + data


def _date_tags(start: datetime | None) -> list[bytes]:
    """Return the tag of the recording's start, since 1970; none if the date is out of range."""
    if start is None:
        return []
    apart = start.replace(tzinfo=None) - datetime(1970, 1, 1)
    seconds = apart.days * 86_400 + apart.seconds
    if not -(2**31) <= seconds < 2**31:
        return []
    return [_tag(MEASUREMENT_DATE, INTEGER, struct.pack(">2i", seconds, apart.microseconds))]


def read_fif_annotations(path: Path) -> Annotated:
    """Return all annotations of a FIF file, and when the recording began."""
    tags = _tags(path, read_file(path))
    if (BLOCK_START, RECORDING) in {(kind, value) for kind, value in tags if isinstance(value, int)}:
        raise file_error(
            path, "holds a recording. Save its stages alone: raw.annotations.save('night-annot.fif')."
        )
    values = dict(tags)
    onsets, ends, text = (values.get(kind) for kind in (ONSETS, ENDS, DESCRIPTIONS))
    if not isinstance(onsets, list) or not isinstance(ends, list) or not isinstance(text, str):
        raise file_error(path, "holds no annotations. Was it saved by Annotations.save?")
    texts = [part.replace("{COLON}", ":") for part in text.split(":")]
    if not len(onsets) == len(ends) == len(texts):
        raise file_error(path, f"has {len(onsets)} onsets and {len(texts)} texts. It is damaged.")
    lasting = [end - onset for onset, end in zip(onsets, ends, strict=True)]
    return list(map(Event, onsets, lasting, texts)), _date(values.get(MEASUREMENT_DATE))


def _tags(path: Path, data: bytes) -> list[tuple[int, object]]:
    """Return kind and value of every tag that is used here."""
    tags: list[tuple[int, object]] = []
    position = 0
    if not data.startswith(FIF_HEAD):
        raise file_error(path, "is no FIF file of MNE.")
    for _ in range(MOST_TAGS):
        if position + 16 > len(data):
            break
        kind, kind_type, size, following = struct.unpack_from(">iiii", data, position)
        end = position + 16 + size
        if size < 0 or end > len(data) or (following not in (0, -1) and following <= position):
            raise damaged_file(path, "one of its parts ends after the file")
        content = data[position + 16 : end]
        if kind in (BLOCK_START, BLOCK_END) and size == 4:
            tags.append((kind, struct.unpack(">i", content)[0]))
        elif kind in (ONSETS, ENDS, MEASUREMENT_DATE) and kind_type in _TYPES:
            dtype = np.dtype(_TYPES[kind_type])
            if size % dtype.itemsize:
                raise file_error(path, "is damaged: its times are cut.")
            tags.append((kind, np.frombuffer(content, dtype).astype(np.float64).tolist()))
        elif kind == DESCRIPTIONS:
            tags.append((kind, content.decode("utf-8", errors="replace")))
        if following == -1:
            return tags
        position = following or end
    raise file_error(path, "is cut short: its last part is missing.")


def _date(value: object) -> datetime | None:
    """Return when the recording began, from seconds, or seconds and microseconds, since 1970."""
    if not isinstance(value, list) or not value:
        return None
    seconds = value[0] + (value[1] * 1e-6 if len(value) > 1 else 0.0)
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None)
    except (OverflowError, OSError, ValueError):
        return None


def stages_of_mne(
    path: Path, source: Any, options: FileOptions, numbering: str | None = None, raw: Any = None
) -> RawHypnogram:
    """Return the stages of `mne.Annotations`; in a `Raw`, they count from its beginning, even if cropped."""
    first = 0.0 if raw is None else float(raw.first_time)
    end = None if raw is None else float(raw.n_times / raw.info["sfreq"])
    texts = map(str, source.description.tolist())
    annotations = list(map(Event, (source.onset - first).tolist(), source.duration.tolist(), texts))
    if numbering is None:
        refuse_numbers(path, annotations)
    else:
        annotations = numbered(path, annotations, numbering)
    start = source.orig_time
    plain = start.replace(tzinfo=None) + timedelta(seconds=first) if isinstance(start, datetime) else None
    return stages_among(path, annotations, options, start=plain, only_stages=True, end_seconds=end)


def to_mne(night: Decoding | Hypnogram) -> Any:
    """Return `mne.Annotations`, "Sleep stage N2" for each epoch.

    As MNE does for EDF, the clock time of the start is marked as UTC, so that stages are aligned with a
    recording that MNE read. If the start has another time zone, a warning says how far the instant is off.
    """
    mne = library("mne", "to_mne()", None)
    outgoing = outgoing_of_night(night)
    start = outgoing.recording_start
    for note in clock_notes(start):
        warn(f"{note}.")
    return mne.Annotations(
        outgoing.onsets,
        [outgoing.epoch_seconds] * len(outgoing.onsets),
        stage_texts(outgoing, "MNE"),
        orig_time=None if start is None else start.replace(tzinfo=UTC),
    )


def read_fif(path: Path, options: FileOptions) -> RawNight:
    """Read a file that `Annotations.save("...-annot.fif")` wrote."""
    annotations, start = read_fif_annotations(path)

    def stages() -> RawHypnogram:
        refuse_numbers(path, annotations)
        return stages_among(path, annotations, options, start=start, only_stages=True)

    return RawNight(
        stages=stages,
        events=lambda: events_among(annotations),
        recording_start=lambda: start,
        stage_texts=lambda: [event.text for event in annotations],
    )


FORMATS = (
    FileFormat(
        "mne-fif",
        "annotations of MNE (-annot.fif)",
        (".fif",),
        begins_with(FIF_HEAD),
        reader=Reader(ONLY_STAGES, read_fif),
        write=write_fif,
        loses=(PROBABILITIES, SCORER),
        usual_suffix=MNE_ENDINGS[0],
        has_events=True,
        are_taken=are_taken_by_text,
    ),
)
