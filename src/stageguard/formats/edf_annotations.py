"""Read EDF+ annotations: sleep stages, lights off and on, and other texts with times. Reads no samples."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from stageguard.errors import FileFormatError, StageGuardWarning
from stageguard.formats._density_file import file_error
from stageguard.formats._edf_header import NO_DATE, EdfHeader, read_edf_header
from stageguard.formats._recording_file import RawRecording
from stageguard.formats._staged_annotations import Annotation as Annotation
from stageguard.formats._staged_annotations import annotated, stage_annotations
from stageguard.formats.edf_recordings import find_runs, read_edf_recording, read_records
from stageguard.formats.hypnograms import HypnogramOptions, RawHypnogram

MOST_ANNOTATIONS = 2_000_000
LONG_RECORD_BYTES = 32_768
_TIME = re.compile(rb"([+-]\d{1,12}(?:\.\d{0,12})?)(?:\x15(\d{0,12}(?:\.\d{0,12})?))?\Z")
_LIGHTS = re.compile(r"lights?[ _-]*(off|out|on)\b", re.IGNORECASE)


def read_annotated_edf(path: Path) -> RawRecording:
    """Channels of an EDF or EDF+ file, and whether its annotations tell stages and when lights went off."""
    raw = read_edf_recording(path)
    try:
        annotations = read_edf_annotations(path)
    except FileFormatError as error:
        warnings.warn(StageGuardWarning(f"{error} Its annotations are left out."), stacklevel=2)
        return raw
    off, on = lights(annotations)
    return replace(
        raw,
        has_scoring=bool(stage_annotations(annotations)),
        lights_off_seconds=off,
        lights_on_seconds=on,
    )


def read_edf_annotations(path: Path) -> tuple[Annotation, ...]:
    """All annotations of an EDF+ file in the order of their times, without the times of its records."""
    header = read_edf_header(path)
    first_seconds, _, _ = find_runs(header)
    return _annotations(header, first_seconds)


def read_edf_hypnogram(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Sleep stages of an EDF+ file ("Sleep stage W", "Sleep stage 2", ...).

    Stages without that prefix (W, N2, REM) count where no annotation has it. "Sleep stage ?" and movement
    time are unscored; so is a stage of another name, with a warning. Other annotations are left alone.
    """
    header = read_edf_header(path)
    first_seconds, _, _ = find_runs(header)
    annotations = _annotations(header, first_seconds)
    start = None if header.start is None else header.start + timedelta(seconds=first_seconds)
    return annotated(path, annotations, options, start=start, has_clock=header.start not in (None, NO_DATE))


def lights(annotations: Sequence[Annotation]) -> tuple[float | None, float | None]:
    """Seconds of the first "Lights off" and of the last "Lights on", or None."""
    found: dict[str, list[float]] = {"off": [], "on": []}
    for each in annotations:
        match = _LIGHTS.match(each.text)
        if match is not None and each.onset >= 0:
            found["on" if match[1].lower() == "on" else "off"].append(each.onset)
    return min(found["off"], default=None), max(found["on"], default=None)


def _annotations(header: EdfHeader, first_seconds: float) -> tuple[Annotation, ...]:
    places = [
        slice(signal.first_sample, signal.first_sample + signal.n_samples)
        for signal in header.signals
        if signal.is_annotation
    ]
    if not places:
        return ()
    found: list[Annotation] = []
    for text in _texts(header, places):
        found += _parsed(header.path, text, first_seconds)
        if len(found) > MOST_ANNOTATIONS:
            raise file_error(header.path, f"has more than {MOST_ANNOTATIONS:,} annotations. Is it damaged?")
    return tuple(sorted(found, key=lambda each: each.onset))


def _texts(header: EdfHeader, places: Sequence[slice]) -> Iterator[bytes]:
    """Bytes of the annotation signals, record by record; long records are not read as a whole."""
    n_bytes = 2 * header.record_samples
    with header.path.open("rb", buffering=0) as file:
        if n_bytes <= LONG_RECORD_BYTES:
            for block in read_records(header, file, 0, header.n_records):
                for place in places:
                    yield from map(bytes, np.ascontiguousarray(block[:, place]).view(np.uint8))
            return
        for record in range(header.n_records):
            for place in places:
                file.seek(header.header_bytes + record * n_bytes + 2 * place.start)
                yield file.read(2 * (place.stop - place.start))


def _parsed(path: Path, data: bytes, first_seconds: float) -> Iterator[Annotation]:
    """Annotations of one signal in one record: lists that begin with a time and end with a zero byte."""
    for part in data.split(b"\x00"):
        if not part:
            continue
        time, mark, texts = part.partition(b"\x14")
        found = _TIME.match(time)
        if found is None or not mark or (texts and not texts.endswith(b"\x14")):
            raise file_error(
                path,
                f"has an annotation that begins with {part[:24]!r}, expected a time such as +30.5 and text "
                "between its marks. It is damaged.",
            )
        seconds = float(found[2]) if found[2] and found[2] != b"." else None
        for text in texts.split(b"\x14"):
            if text:
                yield Annotation(
                    float(found[1]) - first_seconds, seconds, text.decode("utf-8", errors="replace").strip()
                )
