"""Read and write EDF+ annotations: stages, lights and other texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, time, timedelta
from pathlib import Path

import numpy as np

from stageguard.errors import FileFormatError, warn
from stageguard.files import file_error, open_file
from stageguard.formats.annotations import (
    events_among,
    stage_annotations,
    stages_among,
)
from stageguard.formats.file_format import (
    DETAILS,
    PROBABILITIES,
    SCORER,
    TYPES,
    ZONE,
    Contents,
    FileFormat,
)
from stageguard.formats.night import Event, Events, FileOptions, Night, RawHypnogram
from stageguard.formats.recordings.edf import (
    NO_DATE,
    EdfHeader,
    find_runs,
    read_edf_header,
    read_edf_recording,
    read_records,
)
from stageguard.formats.recordings.raw import RawRecording
from stageguard.formats.sniffing import begins_with
from stageguard.formats.write import plain_text, timed_texts

MOST_ANNOTATIONS = 2_000_000
LONG_RECORD_BYTES = 32_768
FIRST_YEAR, LAST_YEAR = 1985, 2084  # years that two digits can express
DECIMALS = 6  # of a time in seconds
_TIME = re.compile(rb"([+-]\d{1,12}(?:\.\d{0,24})?)(?:\x15(\d{0,12}(?:\.\d{0,24})?))?\Z")
_LIGHTS = re.compile(r"lights?[ _-]*(off|out|on)\b", re.IGNORECASE)


def read_annotated_edf(path: Path) -> RawRecording:
    """Return the channels of an EDF or EDF+ file, whether it has stages, and when lights went off and on."""
    raw = read_edf_recording(path)
    try:
        annotations = read_edf_annotations(path)
    except FileFormatError as error:
        warn(f"{error} Its annotations are left out.")
        return raw
    off, on = lights(annotations)
    return replace(
        raw,
        has_scoring=bool(stage_annotations(annotations)),
        lights_off_seconds=off,
        lights_on_seconds=on,
    )


def read_edf_annotations(path: Path) -> tuple[Event, ...]:
    """Return all annotations of an EDF+ file by onset, without the times of its records."""
    header = read_edf_header(path)
    return _annotations(header, find_runs(header)[0])


def read_edf_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the sleep stages of an EDF+ file ("Sleep stage W", "Sleep stage 2", ...).

    Stages without that prefix (W, N2, REM) count if no annotation has it. "Sleep stage ?" and movement time
    are unscored; so is a stage with an unknown name, with a warning.
    """
    header = read_edf_header(path)
    first_seconds, runs, _ = find_runs(header)
    end = runs[-1].start_seconds + runs[-1].n_records * header.record_seconds
    return stages_among(
        path,
        _annotations(header, first_seconds),
        options,
        start=_start(header, first_seconds),
        end_seconds=end if _has_signals(header) else None,
    )


def read_edf_events(path: Path) -> Events:
    """Read the annotations other than stages."""
    header = read_edf_header(path)
    first_seconds = find_runs(header)[0]
    is_whole = header.is_continuous and _has_signals(header)
    seconds = header.n_records * header.record_seconds if is_whole else None
    return events_among(_annotations(header, first_seconds), _start(header, first_seconds), seconds)


def _has_signals(header: EdfHeader) -> bool:
    return any(not signal.is_annotation for signal in header.signals)


def _start(header: EdfHeader, first_seconds: float) -> datetime | None:
    """Return the time of the first sample, from which annotations count; midnight of NO_DATE is no time."""
    known = header.start if header.start != NO_DATE else None
    return None if known is None else known + timedelta(seconds=first_seconds)


def write_edf(night: Night, path: Path) -> Contents:
    """Write an EDF+ file without signals: "Sleep stage N2" for each epoch, and the other annotations."""
    from edfio import Edf, EdfAnnotation, Recording

    start = header_start(night.recording_start)
    annotations = [
        EdfAnnotation(
            round(onset, DECIMALS), None if seconds is None else round(seconds, DECIMALS), plain_text(text)
        )
        for onset, seconds, text in timed_texts(night, "EDF+")
    ]
    recording = Recording(
        startdate=None if start is None else start.date(),
        investigator_technician_code=header_code(night.hypnogram.scorer),
        equipment_code="StageGuard",
    )
    clock = time() if start is None else start.time()
    edf = Edf([], recording=recording, starttime=clock, annotations=annotations)
    return {path: edf.to_bytes()}


def header_start(start: datetime | None) -> datetime | None:
    """Return a start that a header can hold, without time zone; warn of one that it cannot hold."""
    if start is not None and not FIRST_YEAR <= start.year <= LAST_YEAR:
        warn(f"EDF+ tells years from {FIRST_YEAR} to {LAST_YEAR}: the start in {start.year} is left out.")
        return None
    return None if start is None else start.replace(tzinfo=None)


def header_code(text: str | None) -> str:
    """Return a text as one word of a header, with at most 20 characters."""
    plain = "".join(c if c.isascii() and c.isprintable() else "_" for c in text or "")
    return "_".join(plain.split())[:20] or "X"


def lights(annotations: Sequence[Event]) -> tuple[float | None, float | None]:
    """Return the seconds of the first "Lights off" and of the last "Lights on", or None."""
    seconds: dict[str, list[float]] = {"off": [], "on": []}
    for annotation in annotations:
        match = _LIGHTS.match(annotation.text)
        if match is not None and annotation.onset >= 0:
            seconds["on" if match[1].lower() == "on" else "off"].append(annotation.onset)
    return min(seconds["off"], default=None), max(seconds["on"], default=None)


def _annotations(header: EdfHeader, first_seconds: float) -> tuple[Event, ...]:
    spans = [
        slice(signal.first_sample, signal.first_sample + signal.n_samples)
        for signal in header.signals
        if signal.is_annotation
    ]
    if not spans:
        return ()
    annotations: list[Event] = []
    for text in _texts(header, spans):
        annotations += _parse(header.path, text, first_seconds)
        if len(annotations) > MOST_ANNOTATIONS:
            raise file_error(header.path, f"has more than {MOST_ANNOTATIONS:,} annotations. Is it damaged?")
    return tuple(sorted(annotations, key=lambda each: each.onset))


def _texts(header: EdfHeader, spans: Sequence[slice]) -> Iterator[bytes]:
    """Yield the bytes of the annotation signals, record by record; long records are not read completely."""
    n_bytes = 2 * header.record_samples
    with open_file(header.path, buffering=0) as file:
        if n_bytes <= LONG_RECORD_BYTES:
            for block in read_records(header, file, 0, header.n_records):
                for span in spans:
                    yield from map(bytes, np.ascontiguousarray(block[:, span]).view(np.uint8))
            return
        for record in range(header.n_records):
            for span in spans:
                file.seek(header.header_bytes + record * n_bytes + 2 * span.start)
                yield file.read(2 * (span.stop - span.start))


def _parse(path: Path, data: bytes, first_seconds: float) -> Iterator[Event]:
    """Yield the annotations of one signal in one record: lists that begin with a time and end with a zero."""
    for part in data.split(b"\x00"):
        if not part:
            continue
        time, mark, texts = part.partition(b"\x14")
        times = _TIME.match(time)
        if times is None or not mark or (texts and not texts.endswith(b"\x14")):
            raise file_error(
                path,
                f"an annotation begins with {part[:24].decode('latin-1')!r}, expected a time such as "
                "+30.5 and text between its marks. It is damaged.",
            )
        seconds = float(times[2]) if times[2] and times[2] != b"." else None
        for text in texts.split(b"\x14"):
            if text:
                yield Event(
                    float(times[1]) - first_seconds, seconds, text.decode("utf-8", errors="replace").strip()
                )


FORMATS = (
    FileFormat(
        "edf-annotations",
        "EDF+ annotations",
        (".edf",),
        begins_with(b"0       "),
        stages=read_edf_stages,
        events=read_edf_events,
        write=write_edf,
        loses=(PROBABILITIES, ZONE, SCORER, TYPES, DETAILS),
        may_be_recording=True,
        tells_events_by_text=True,
    ),
)
