"""Read annotations of MNE, stages and others, from FIF without MNE; write FIF with it.

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
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from stageguard.errors import warn
from stageguard.files import damaged_file, file_error, read_file
from stageguard.formats.annotations import events_among, stages_among
from stageguard.formats.file_format import (
    DETAILS,
    MNE_ENDINGS,
    PROBABILITIES,
    SCORER,
    TYPES,
    ZONE,
    Contents,
    FileFormat,
)
from stageguard.formats.hypnogram import NUMBERINGS, names_of
from stageguard.formats.night import (
    Event,
    FileOptions,
    Night,
    RawHypnogram,
    night_of,
)
from stageguard.formats.sniffing import begins_with
from stageguard.formats.tables.table import as_number
from stageguard.formats.write import timed_texts
from stageguard.guard.decoding import Decoding
from stageguard.lazy import library
from stageguard.night.hypnogram import Hypnogram

FIF_HEAD = b"\x00\x00\x00d\x00\x00\x00\x1f"
BLOCK_START, BLOCK_END, ANNOTATIONS, RECORDING = 104, 105, 3810, 100
ONSETS, ENDS, DESCRIPTIONS, MEASUREMENT_DATE = 3568, 3569, 206, 204
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


def write_fif(night: Night, path: Path) -> Contents:
    """Write a file for `mne.read_annotations`, by MNE: one annotation per epoch, and the others."""
    rows = timed_texts(night, "MNE")
    annotations = _mne_annotations(rows, night.recording_start, f"writing {path.name}")
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"night{MNE_ENDINGS[0]}"
        annotations.save(file, verbose="error")
        return {path: file.read_bytes()}


def _mne_annotations(
    rows: Sequence[tuple[float, float | None, str]], start: datetime | None, doing: str
) -> Any:
    """Return `mne.Annotations`; like MNE for EDF, they stamp the clock time of the start as UTC."""
    mne = library("mne", doing, None)
    offset = None if start is None else start.utcoffset()
    if offset:
        hours = abs(offset.total_seconds()) / 3600
        warn(f"the clock time is stamped as UTC, as MNE does for EDF: {hours:g} h off the instant.")
    return mne.Annotations(
        [onset for onset, _, _ in rows],
        [seconds or 0.0 for _, seconds, _ in rows],
        [text for _, _, text in rows],
        orig_time=None if start is None else start.replace(tzinfo=UTC),
    )


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
    given = replace(night_of(night), events=())
    return _mne_annotations(timed_texts(given, "MNE"), given.recording_start, "to_mne()")


def read_fif_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages in a file that `Annotations.save("...-annot.fif")` wrote."""
    annotations, start = read_fif_annotations(path)
    refuse_numbers(path, annotations)
    return stages_among(path, annotations, options, start=start, only_stages=True)


FORMATS = (
    FileFormat(
        "mne-fif",
        "annotations of MNE (-annot.fif)",
        (MNE_ENDINGS[0], ".fif"),
        begins_with(FIF_HEAD),
        stages=read_fif_stages,
        events=lambda path: events_among(*read_fif_annotations(path)),
        write=write_fif,
        loses=(PROBABILITIES, ZONE, SCORER, TYPES, DETAILS),
        tells_events_by_text=True,
    ),
)
