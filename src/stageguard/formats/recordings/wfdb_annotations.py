"""Read annotation files of WFDB records (.atr, .ecg, .st): beats and texts with their times. Judges none.

The layout is the MIT format of annot(5) in the WFDB manuals: words of 16 bits, six for a code and ten for the
time since the annotation before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stageguard.base.files import file_error, read_file
from stageguard.night.recording import Series

SKIP, NUM, SUB, CHN, AUX = 59, 60, 61, 62, 63
_RESOLUTION = re.compile(r"## time resolution: (\d+(?:\.\d+)?)")
# Codes that mark a beat, by the table of the WFDB manual: N L R a V F J A S E j / Q e n f r B.
BEATS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 30, 34, 35, 38, 41})


@dataclass(frozen=True, slots=True)
class WfdbAnnotation:
    """What is said of a sample: a code, and text where there is some."""

    sample: int
    code: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class WfdbAnnotations:
    """Annotations in the file's order, and the samples per second they count by where the file says so."""

    marks: tuple[WfdbAnnotation, ...]
    rate_hz: float | None = None


def read_wfdb_annotations(path: Path) -> WfdbAnnotations:
    """All annotations of a file. One that ends before its end mark is refused."""
    data = read_file(path, "annotations")
    found: list[WfdbAnnotation] = []
    place, sample = 0, 0
    while True:
        if place + 2 > len(data):
            raise file_error(path, "ends before the mark of its end. Was it copied completely?")
        word = data[place] | data[place + 1] << 8
        code, steps = word >> 10, word & 0x3FF
        place += 2
        if word == 0:
            return _without_remarks(found)
        if code == SKIP:
            sample += _long(path, data, place)
            place += 4
        elif code == AUX:
            if place + steps > len(data):
                raise file_error(path, f"ends within a text of {steps} bytes. Was it copied completely?")
            text = data[place : place + steps].split(b"\x00")[0].decode("utf-8", errors="replace").strip()
            if found:
                found[-1] = WfdbAnnotation(found[-1].sample, found[-1].code, text)
            place += steps + steps % 2
        elif code not in (NUM, SUB, CHN):
            sample += steps
            if sample < 0 or (found and sample < found[-1].sample):
                raise file_error(
                    path, f"has an annotation at sample {sample}, before the one that precedes it."
                )
            if code:
                found.append(WfdbAnnotation(sample, code))


def _without_remarks(found: list[WfdbAnnotation]) -> WfdbAnnotations:
    """Take out what the file says about itself: texts that begin with ##, such as its time resolution."""
    told = [_RESOLUTION.match(mark.text) for mark in found]
    rates = [float(match[1]) for match in told if match is not None]
    marks = tuple(mark for mark in found if not mark.text.startswith("##"))
    return WfdbAnnotations(marks, rates[0] if rates and rates[0] > 0 else None)


def _long(path: Path, data: bytes, place: int) -> int:
    """Return four bytes as a number, the high half first and each half with its low byte first."""
    if place + 4 > len(data):
        raise file_error(path, "ends within a time. Was it copied completely?")
    high, low = (int.from_bytes(data[at : at + 2], "little") for at in (place, place + 2))
    value = high << 16 | low
    return value - (1 << 32) if value >= 1 << 31 else value


def read_wfdb_beats(path: Path, rate_hz: float) -> Series:
    """Read the times of all beats, normal or not; values are the seconds since the beat before."""
    annotations = read_wfdb_annotations(path)
    samples = [mark.sample for mark in annotations.marks if mark.code in BEATS]
    if not samples:
        raise file_error(path, "marks no beats.")
    times = np.array(samples) / (annotations.rate_hz or rate_hz)
    return Series(path.name, times, np.diff(times, prepend=np.nan), "s")
