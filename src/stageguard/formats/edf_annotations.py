"""Read EDF+ annotations: sleep stages, lights off and on, and other texts with times. Reads no samples."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from stageguard.errors import FileFormatError, StageGuardWarning
from stageguard.formats._density_file import file_error, listed
from stageguard.formats._edf_header import NO_DATE, EdfHeader, read_edf_header
from stageguard.formats._recording_file import RawRecording
from stageguard.formats._staged_intervals import Interval, stage_epochs
from stageguard.formats.edf_recordings import find_runs, read_edf_recording, read_records
from stageguard.formats.hypnograms import UNSCORED_WORDS, HypnogramOptions, RawHypnogram
from stageguard.stages import AASM5, UNSCORED_NAME, canonical_name

MOST_ANNOTATIONS = 2_000_000
LONG_RECORD_BYTES = 32_768
_TIME = re.compile(rb"([+-]\d{1,12}(?:\.\d{0,12})?)(?:\x15(\d{0,12}(?:\.\d{0,12})?))?\Z")
_PREFIX = re.compile(r"(sleep[ _])?stage\b", re.IGNORECASE)
_LONG_PREFIX = re.compile(r"sleep[ _]stage\b", re.IGNORECASE)
BARE_UNSCORED = ("?", "unscored", "unknown", "undefined", "movement time", "mt")
_LIGHTS = re.compile(r"lights?[ _-]*(off|out|on)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Annotation:
    """Text at a time: seconds since the first sample, and how long it lasts where the file says so."""

    onset: float
    seconds: float | None
    text: str


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
    chosen = stage_annotations(annotations)
    if not chosen:
        texts = [text for text, _ in Counter(each.text for each in annotations).most_common()]
        found = f"its annotations are: {listed(texts)}" if texts else "it has no annotations"
        raise file_error(path, f"holds no sleep stages: {found}. Expected texts such as 'Sleep stage W'.")
    unknown = sorted({each.text for each, stage in chosen if stage is None})
    remarks: tuple[str, ...] = ()
    if unknown:
        remarks = (f"{listed(unknown)} read as unscored: no stage of that name is known",)
        warnings.warn(StageGuardWarning(f"{path.name}: {remarks[0]}."), stacklevel=2)
    intervals = [Interval(each.onset, each.seconds, stage or UNSCORED_NAME) for each, stage in chosen]
    staged = stage_epochs(path, intervals, options.epoch_seconds)
    start = header.start
    if start is not None:
        start += timedelta(seconds=first_seconds + staged.offset_seconds)
    return RawHypnogram(
        staged.stages,
        tuple(range(1, len(staged.stages) + 1)),
        epoch_seconds=staged.epoch_seconds,
        start=start,
        scheme=AASM5 if {*staged.stages} <= {*AASM5.names, UNSCORED_NAME} else None,
        offset_seconds=staged.offset_seconds,
        has_clock=header.start not in (None, NO_DATE),
        notes=staged.notes + remarks,
    )


def stage_annotations(annotations: Sequence[Annotation]) -> list[tuple[Annotation, str | None]]:
    """Annotations that are sleep stages, each with its name, "?" or None where the name is not known."""
    prefixed = [(each, _stage(each.text)) for each in annotations if _PREFIX.match(each.text)]
    # what is merely called "Stage ..." may be anything
    chosen = [(each, stage) for each, stage in prefixed if stage or _LONG_PREFIX.match(each.text)]
    if chosen:
        moving = [each for each in annotations if each.text.casefold() in ("movement time", "mt")]
        return chosen + [(each, UNSCORED_NAME) for each in moving]
    named = [(each, canonical_name(each.text)) for each in annotations if each.seconds]
    stages: list[tuple[Annotation, str | None]] = [(each, stage) for each, stage in named if stage]
    if len({stage for _, stage in stages}) < 2:
        return []
    return stages + [(each, UNSCORED_NAME) for each, _ in named if each.text.casefold() in BARE_UNSCORED]


def lights(annotations: Sequence[Annotation]) -> tuple[float | None, float | None]:
    """Seconds of the first "Lights off" and of the last "Lights on", or None."""
    found: dict[str, list[float]] = {"off": [], "on": []}
    for each in annotations:
        match = _LIGHTS.match(each.text)
        if match is not None and each.onset >= 0:
            found["on" if match[1].lower() == "on" else "off"].append(each.onset)
    return min(found["off"], default=None), max(found["on"], default=None)


def _stage(text: str) -> str | None:
    """Name of a stage, "?" where it says that there is none, None where it is not known."""
    bare = _PREFIX.sub("", text).strip(" -:_")
    if bare.casefold() in UNSCORED_WORDS:
        return UNSCORED_NAME
    return canonical_name(f"stage {bare}")


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
