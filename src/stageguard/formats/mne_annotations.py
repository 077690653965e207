"""Read stages among annotations of MNE: FIF, text and CSV. Needs no MNE, and reads no recordings.

A FIF file is a chain of tags: kind, type, size and where the next one is, then the data, all big-endian.
"""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from stageguard.formats._density_file import file_error
from stageguard.formats._stage_codes import NUMBERINGS, names_of
from stageguard.formats._stage_rows import as_number, read_rows, text_lines
from stageguard.formats._stage_sniffing import FIF_HEAD
from stageguard.formats._staged_annotations import Annotation, annotated
from stageguard.formats.hypnograms import HypnogramOptions, RawHypnogram
from stageguard.formats.tables import split_line

BLOCK_START, BLOCK_END, ANNOTATIONS, RECORDING = 104, 105, 3810, 100
ONSETS, ENDS, DESCRIPTIONS, MEASUREMENT_DATE = 3568, 3569, 206, 204
MOST_BYTES = 256 * 2**20
MOST_TAGS = 100_000
_TYPES = {3: ">i4", 4: ">f4", 5: ">f8"}


def read_fif(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of a file that `Annotations.save("...-annot.fif")` wrote."""
    annotations, start = _read_fif(path)
    if annotations and all(re.fullmatch(r"\d", each.text) for each in annotations):
        raise file_error(
            path,
            "its annotations are numbers, and tools number stages differently. If GSSC wrote it, say "
            "format='gssc-fif'.",
        )
    return annotated(path, annotations, options, start=start, has_clock=start is not None, only_stages=True)


def read_gssc_fif(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of a file that GSSC wrote: 0 W, 1 N1, 2 N2, 3 N3, 4 REM."""
    annotations, start = _read_fif(path)
    codes = []
    for each in annotations:
        code = as_number(each.text)
        if code is None:
            raise file_error(path, f"has the annotation {each.text[:40]!r}, expected GSSC's numbers 0 to 4.")
        codes.append(code)
    names = names_of(path, codes, NUMBERINGS["yasa"], what="annotation")
    stages = [
        Annotation(each.onset, each.seconds, f"Sleep stage {name}")
        for each, name in zip(annotations, names, strict=True)
    ]
    return annotated(path, stages, options, start=start, has_clock=start is not None, only_stages=True)


def read_text(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of MNE's text: `# MNE-Annotations`, then onset, duration and description per line."""
    start, annotations = None, []
    for number, line in enumerate(text_lines(path), start=1):
        if line.startswith("#"):
            key, _, value = line.lstrip("# ").partition(":")
            if key.strip() == "orig_time" and value.strip():
                start = _moment(path, number, value.strip())
            continue
        cells = split_line(line, ",")
        onset, seconds = (as_number(cell) for cell in cells[:2]) if len(cells) > 2 else (None, None)
        if onset is None or seconds is None:
            raise file_error(
                path, f"line {number} is {line[:40]!r}, expected onset, duration and description."
            )
        annotations.append(Annotation(onset, seconds or None, cells[2]))
    return annotated(path, annotations, options, start=start, has_clock=start is not None, only_stages=True)


def read_csv(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of MNE's CSV, whose onsets are dates: of 1970 where nobody knows the true ones."""
    table = read_rows(path, ("onset", "duration", "description"))
    lasting = table.numbers(path, "duration").tolist()
    moments = [
        _moment(path, line, cell) for line, cell in zip(table.lines, table.column("onset"), strict=True)
    ]
    first = min(moments)
    origin = first
    start: datetime | None = first
    if first.year == 1970 and first.month == 1:
        origin, start = datetime(1970, 1, 1, tzinfo=first.tzinfo), None
    annotations = [
        Annotation((moment - origin).total_seconds(), seconds or None, text)
        for moment, seconds, text in zip(moments, lasting, table.column("description"), strict=True)
    ]
    return annotated(path, annotations, options, start=start, has_clock=start is not None, only_stages=True)


def _moment(path: Path, line: int, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise file_error(path, f"line {line} has the time {text[:40]!r}, expected a date and time.") from None


def _read_fif(path: Path) -> tuple[list[Annotation], datetime | None]:
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise file_error(path, f"has {size:,} bytes, expected annotations alone: at most {MOST_BYTES:,}.")
    tags = _tags(path, path.read_bytes())
    if (BLOCK_START, RECORDING) in {(kind, value) for kind, value in tags if isinstance(value, int)}:
        raise file_error(
            path, "holds a recording. Save its stages alone: raw.annotations.save('night-annot.fif')."
        )
    found = dict(tags)
    onsets, ends, text = (found.get(kind) for kind in (ONSETS, ENDS, DESCRIPTIONS))
    if not isinstance(onsets, list) or not isinstance(ends, list) or not isinstance(text, str):
        raise file_error(path, "holds no annotations. Was it saved by Annotations.save?")
    texts = [part.replace("{COLON}", ":") for part in text.split(":")]
    if not len(onsets) == len(ends) == len(texts):
        raise file_error(path, f"has {len(onsets)} onsets and {len(texts)} texts. It is damaged.")
    rows = zip(onsets, ends, texts, strict=True)
    annotations = [Annotation(onset, end - onset or None, each) for onset, end, each in rows]
    return annotations, _date(found.get(MEASUREMENT_DATE))


def _tags(path: Path, data: bytes) -> list[tuple[int, object]]:
    """Kind and value of every tag that means something here."""
    found: list[tuple[int, object]] = []
    place = 0
    if not data.startswith(FIF_HEAD):
        raise file_error(path, "is no FIF file of MNE.")
    for _ in range(MOST_TAGS):
        if place + 16 > len(data):
            break
        kind, kind_type, size, following = struct.unpack_from(">iiii", data, place)
        end = place + 16 + size
        if size < 0 or end > len(data) or (following not in (0, -1) and following <= place):
            raise file_error(path, "is damaged or cut short: one of its parts ends after the file.")
        content = data[place + 16 : end]
        if kind in (BLOCK_START, BLOCK_END) and size == 4:
            found.append((kind, struct.unpack(">i", content)[0]))
        elif kind in (ONSETS, ENDS, MEASUREMENT_DATE) and kind_type in _TYPES:
            dtype = np.dtype(_TYPES[kind_type])
            if size % dtype.itemsize:
                raise file_error(path, "is damaged: its times are cut.")
            found.append((kind, np.frombuffer(content, dtype).astype(np.float64).tolist()))
        elif kind == DESCRIPTIONS:
            found.append((kind, content.decode("utf-8", errors="replace")))
        if following == -1:
            return found
        place = following or end
    raise file_error(path, "is cut short: its last part is missing.")


def _date(value: object) -> datetime | None:
    """When the recording began: seconds since 1970, or seconds and microseconds."""
    if not isinstance(value, list) or not value:
        return None
    seconds = value[0] + (value[1] * 1e-6 if len(value) > 1 else 0.0)
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None)
    except (OverflowError, OSError, ValueError):
        return None
