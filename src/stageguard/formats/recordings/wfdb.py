"""Read WFDB records (.hea with .dat), slice by slice in standard units, and annotations (.atr, .ecg, .st).

Single-segment records in formats 16, 61, 80 and 212 are read, which sleep databases use. The layouts are
those of header(5), signal(5) and annot(5) in the WFDB manuals. The library wfdb loses an annotation at sample
0, and takes a file of annotations that was cut for a whole one (the tests compare).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stageguard.arrays import Floats, Ints32
from stageguard.files import SYNTHETIC_WORD, file_error, open_file, read_file, read_text
from stageguard.formats.recordings.edf import NO_DATE
from stageguard.formats.recordings.raw import RawRecording, Sliced, to_standard
from stageguard.night.recording import Series, Signal

MOST_SIGNALS, FASTEST_HZ = 512, 1e6
BLOCK_FRAMES = 1_000_000
DEFAULT_GAIN = 200.0
# Format -> bytes per two samples, and the value of a missing sample.
FORMATS = {16: (4, -32768), 61: (4, -32768), 80: (2, -128), 212: (3, -2048)}
_NUMBER = r"(?:\d{1,15}\.?\d{0,15}|\.\d{1,15})(?:e[+-]?\d{1,2})?"
_RECORD = ("", "", "250", "0")  # name, signals, rate, samples: defaults of a header's first line
_SIGNAL = ("", "", "0", "", "0", "", "", "", "")  # of the line of a signal
SKIP, NUM, SUB, CHN, AUX = 59, 60, 61, 62, 63
_RESOLUTION = re.compile(r"## time resolution: (\d+(?:\.\d+)?)")
# Codes that mark a beat, from the table of the WFDB manual: N L R a V F J A S E j / Q e n f r B.
BEATS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 30, 34, 35, 38, 41})


class WfdbSignal(NamedTuple):
    """What a header says about one signal."""

    file: str
    format: int
    per_frame: int
    offset_bytes: int
    gain: float
    baseline: int
    unit: str
    description: str


class WfdbHeader(NamedTuple):
    """What a header says about a record."""

    path: Path
    rate_hz: float
    n_frames: int
    start: datetime | None
    signals: tuple[WfdbSignal, ...]
    comments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class WfdbFile(NamedTuple):
    """A file of samples: frames of all its signals."""

    path: Path
    format: int
    offset_bytes: int
    frame_samples: int


def read_wfdb_recording(path: Path) -> RawRecording:
    """Return the channels of a WFDB record by their descriptions; voltages are in uV."""
    header = read_wfdb_header(path)
    signals: dict[str, Signal | Series] = {}
    by_file: dict[str, list[WfdbSignal]] = {}
    for signal in header.signals:
        by_file.setdefault(signal.file, []).append(signal)
    for group in by_file.values():
        file = _data_file(header, group)
        first = 0
        for signal in group:
            label = signal.description or f"signal {header.signals.index(signal) + 1}"
            while label in signals:
                label += "'"
            unit, factor, shift = to_standard(signal.unit, label)
            column = slice(first, first + signal.per_frame)
            zero = shift - signal.baseline * factor / signal.gain
            read = partial(_read_signal, file, column, factor / signal.gain, zero)
            samples = Sliced(header.n_frames * signal.per_frame, read)
            signals[label] = Signal(label, samples, header.rate_hz * signal.per_frame, unit)
            first += signal.per_frame
    made_up = any(SYNTHETIC_WORD in comment for comment in header.comments)
    return RawRecording(signals, start=header.start, is_synthetic=made_up, notes=header.notes)


def signal_files(path: Path) -> set[Path]:
    """Return the files beside a WFDB header that hold its signals; none of any other recording."""
    if path.suffix.lower() != ".hea":
        return set()
    found = {path.parent / Path(signal.file).name for signal in read_wfdb_header(path).signals}
    return {file for file in found if file.is_file()}


def _data_file(header: WfdbHeader, group: list[WfdbSignal]) -> WfdbFile:
    """Return the file of some signals, checked to be as long as the header says."""
    name, format, offset_bytes = group[0].file, group[0].format, group[0].offset_bytes
    path = header.path.parent / name
    if Path(name).name != name or not path.is_file():
        raise file_error(header.path, f"names the signal file {name[:60]!r}, expected one beside the header.")
    if any((signal.format, signal.offset_bytes) != (format, offset_bytes) for signal in group):
        raise file_error(header.path, f"gives the signals of {name!r} different formats, expected one.")
    frame_samples = sum(signal.per_frame for signal in group)
    wanted = offset_bytes + -(-header.n_frames * frame_samples * FORMATS[format][0] // 2)
    size = path.stat().st_size
    if size < wanted:
        raise file_error(path, f"holds {size:,} of {wanted:,} bytes. Was it copied completely?")
    return WfdbFile(path, format, offset_bytes, frame_samples)


def _read_signal(file: WfdbFile, column: slice, factor: float, offset: float, first: int, end: int) -> Floats:
    """Return samples `first` to `end` of some columns of the frames; NaN if marked as missing."""
    per_frame = column.stop - column.start
    frame, last = first // per_frame, -(-end // per_frame)
    parts = [np.empty((0, per_frame), dtype=np.int32)]
    for at in range(frame, last, max(1, BLOCK_FRAMES // file.frame_samples)):
        n_frames = min(max(1, BLOCK_FRAMES // file.frame_samples), last - at)
        parts.append(_frames(file, at, n_frames)[:, column].copy())
    digital = np.concatenate(parts).reshape(-1)[first - frame * per_frame : end - frame * per_frame]
    values = digital * factor + offset
    values[digital == FORMATS[file.format][1]] = np.nan
    return values


def _frames(file: WfdbFile, first: int, n_frames: int) -> Ints32:
    """Return digital samples of all signals of the file, one frame per row."""
    low, high = first * file.frame_samples, (first + n_frames) * file.frame_samples
    low_pair, high_pair = low // 2, -(-high // 2)  # two samples of format 212 share three bytes
    pair_bytes = FORMATS[file.format][0]
    with open_file(file.path) as stream:
        stream.seek(file.offset_bytes + low_pair * pair_bytes)
        data = stream.read((high_pair - low_pair) * pair_bytes)
    samples = unpack(data, file.format)[low - 2 * low_pair :][: high - low]
    if len(samples) < high - low:
        raise file_error(file.path, "ends before its last sample. Was it changed meanwhile?")
    return samples.reshape(n_frames, file.frame_samples)


def unpack(data: bytes, format: int) -> Ints32:
    """Return the samples in the bytes of a WFDB format."""
    if format in (16, 61):
        usable = data[: len(data) // 2 * 2]
        return np.frombuffer(usable, dtype="<i2" if format == 16 else ">i2").astype(np.int32)
    if format == 80:
        return np.frombuffer(data, dtype=np.uint8).astype(np.int32) - 128
    if len(data) % 3 == 2:  # the last of an odd number of samples may have only two bytes
        data += b"\x00"
    triples = np.frombuffer(data[: len(data) // 3 * 3], dtype=np.uint8).reshape(-1, 3).astype(np.int32)
    samples = np.empty((len(triples), 2), dtype=np.int32)
    samples[:, 0] = triples[:, 0] | (triples[:, 1] & 0x0F) << 8
    samples[:, 1] = triples[:, 2] | (triples[:, 1] & 0xF0) << 4
    samples[samples > 2047] -= 4096
    return samples.reshape(-1)


def read_wfdb_header(path: Path) -> WfdbHeader:
    """Read and check a header; an error names the file."""
    lines = [line.strip() for line in read_text(path, errors="replace").splitlines() if line.strip()]
    comments = tuple(line[1:].strip() for line in lines if line.startswith("#"))
    lines = [line for line in lines if not line.startswith("#")]
    name, counted, rate, length, *when = _fields(lines[0] if lines else "", _RECORD)
    if "/" in name:
        raise file_error(path, "is a record of several segments, which are not read. Give a single segment.")
    counted = _match(path, r"[1-9]\d{0,3}", counted, "number of signals", "a WFDB header with 1 or more")[0]
    n_signals = int(counted)
    if len(lines) - 1 < n_signals:
        raise file_error(path, f"counts {n_signals} signals and describes {len(lines) - 1}. Is it complete?")
    signals = tuple(_signal(path, line) for line in lines[1 : n_signals + 1])
    rate_hz = float(_match(path, rf"({_NUMBER})(/.*)?", rate, "sampling rate", "samples per second")[1])
    if not 0 < rate_hz <= FASTEST_HZ:
        raise file_error(path, f"gives {rate[:40]!r} as sampling rate, expected up to {FASTEST_HZ:,.0f} Hz.")
    n_frames = int(_match(path, r"\d{1,15}", length, "number of samples", "a whole number")[0])
    if not n_frames:  # as many as the first file holds
        file, format = signals[0].file, signals[0].format
        per_frame = sum(signal.per_frame for signal in signals if signal.file == file)
        data = path.parent / Path(file).name
        n_bytes = data.stat().st_size - signals[0].offset_bytes if data.is_file() else 0
        n_frames = n_bytes * 2 // FORMATS[format][0] // per_frame
        if n_frames < 1:
            raise file_error(path, f"does not say how many samples there are, and {file!r} holds none.")
    start, notes = _start(when)
    return WfdbHeader(path, rate_hz, n_frames, start, signals, comments, notes)


def _fields(line: str, defaults: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a line, with defaults for those at its end; a last one may hold blanks."""
    words = line.split(maxsplit=8)
    return (*words, *defaults[len(words) :])


def _match(path: Path, pattern: str, text: str, what: str, expected: str) -> re.Match[str]:
    found = re.fullmatch(pattern, text, re.IGNORECASE)
    if found is None:
        raise file_error(path, f"gives {text[:40]!r} as {what}, expected {expected}.")
    return found


def _signal(path: Path, line: str) -> WfdbSignal:
    """Read the line of a signal: file, format, gain, resolution, zero, three other fields and its name."""
    file, layout, gain, _, zero, *_, name = _fields(line, _SIGNAL)
    known = f"one of {', '.join(map(str, FORMATS))} without skew (xform of the WFDB tools converts others)"
    pattern = rf"({'|'.join(map(str, FORMATS))})(?:x(\d{{1,9}}))?(?::0+)?(?:\+(\d{{1,9}}))?"
    parts = _match(path, pattern, layout, "format of a signal", known)
    pattern = rf"(-?{_NUMBER})(?:\((-?\d{{1,9}})\))?(?:/(\S+))?"
    calibration = _match(path, pattern, gain, "gain of a signal", "a number such as 200/mV")
    baseline = _match(path, r"-?\d{1,9}", calibration[2] or zero, "zero of a signal", "a whole number")[0]
    return WfdbSignal(
        file,
        int(parts[1]),
        int(parts[2] or 0) or 1,
        int(parts[3] or 0),
        float(calibration[1]) or DEFAULT_GAIN,
        int(baseline),
        calibration[3] or "mV",
        name.strip(),
    )


def _start(words: list[str]) -> tuple[datetime | None, tuple[str, ...]]:
    """Return when the record begins; a time without a date gets the date `NO_DATE`."""
    time = re.fullmatch(r"(?:(\d{1,2}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", words[0] if words else "")
    if time is None:
        return None, ()
    clock = timedelta(hours=int(time[1] or 0), minutes=int(time[2]), seconds=float(time[3]))
    date = re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{4})", words[1] if len(words) > 1 else "")
    try:
        if date is not None:
            return datetime(int(date[3]), int(date[2]), int(date[1])) + clock, ()
    except ValueError:
        pass
    return NO_DATE + clock, (f"the header gives no date: {NO_DATE:%Y-%m-%d} stands for it",)


class WfdbAnnotation(NamedTuple):
    """An annotation at a sample: a code, and perhaps a text."""

    sample: int
    code: int
    text: str = ""


class WfdbAnnotations(NamedTuple):
    """Annotations in the file's order, and their samples per second if the file says so."""

    marks: tuple[WfdbAnnotation, ...]
    rate_hz: float | None = None


def read_wfdb_annotations(path: Path) -> WfdbAnnotations:
    """Return all annotations of a file; refuse a file without its end mark.

    Texts that begin with ## are remarks on the file itself: one may give samples per second.
    """
    data = read_file(path)
    marks: list[WfdbAnnotation] = []
    at, sample = 0, 0

    def take(n_bytes: int) -> bytes:
        nonlocal at
        part, at = data[at : at + n_bytes], at + n_bytes + n_bytes % 2
        if len(part) < n_bytes:
            raise file_error(path, "ends before the mark of its end. Was it copied completely?")
        return part

    while word := int.from_bytes(take(2), "little"):
        code, steps = word >> 10, word & 0x3FF
        if code == SKIP:  # four bytes: the high half first, each half with its low byte first
            half = take(4)
            sample += int.from_bytes(half[2:] + half[:2], "little", signed=True)
        elif code == AUX:
            text = take(steps).split(b"\x00")[0].decode("utf-8", errors="replace").strip()
            if marks:
                marks[-1] = marks[-1]._replace(text=text)
        elif code not in (NUM, SUB, CHN):
            sample += steps
            before = marks[-1].sample if marks else 0
            if sample < before:
                raise file_error(path, f"has an annotation at sample {sample}, after one at {before}.")
            if code:
                marks.append(WfdbAnnotation(sample, code))
    rates = [float(match[1]) for mark in marks if (match := _RESOLUTION.match(mark.text))]
    kept = tuple(mark for mark in marks if not mark.text.startswith("##"))
    return WfdbAnnotations(kept, rates[0] if rates and rates[0] > 0 else None)


def read_wfdb_beats(path: Path, rate_hz: float) -> Series:
    """Return the times of all beats, normal or not; values are the seconds since the previous beat."""
    annotations = read_wfdb_annotations(path)
    samples = [mark.sample for mark in annotations.marks if mark.code in BEATS]
    if not samples:
        raise file_error(path, "marks no beats.")
    times = np.array(samples) / (annotations.rate_hz or rate_hz)
    return Series(path.name, times, np.diff(times, prepend=np.nan), "s")
