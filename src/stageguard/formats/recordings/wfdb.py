"""Read WFDB records (.hea with .dat), slice by slice in standard units, and annotations (.atr, .ecg, .st).

Single-segment records in formats 16, 61, 80 and 212 are read, which sleep databases use. The layouts are
those of header(5), signal(5) and annot(5) in the WFDB manuals. The library wfdb is not used because it reads
a cut file of annotations as if it were whole, and slices of a cut record without complaint; it also takes
twice the time for a slice, and needs pandas. The tests compare with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from stageguard.arrays import Floats, Ints32
from stageguard.files import SYNTHETIC_WORD, file_error, open_file, read_file, read_text
from stageguard.formats.recordings.edf import NO_DATE
from stageguard.formats.recordings.raw import RawRecording, bounds
from stageguard.night.recording import Series, Signal
from stageguard.units import scale_to, standard_unit

MOST_SIGNALS = 512
BLOCK_FRAMES = 1_000_000
DEFAULT_RATE, DEFAULT_GAIN = 250.0, 200.0
# Format -> bytes per two samples, and the value of a missing sample.
FORMATS = {16: (4, -32768), 61: (4, -32768), 80: (2, -128), 212: (3, -2048)}
_RATE = re.compile(r"([\d.]+(?:e[+-]?\d+)?)(?:/.*)?\Z", re.IGNORECASE)
_GAIN = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?)(?:\((-?\d+)\))?(?:/(\S+))?\Z", re.IGNORECASE)
_LEFT_OUT = ("", "", "0", "", "0", "", "", "", "")  # defaults for fields at the end of a signal's line
_FORMAT = re.compile(r"(\d+)(?:x(\d+))?(?::(\d+))?(?:\+(\d+))?\Z")
SKIP, NUM, SUB, CHN, AUX = 59, 60, 61, 62, 63
_RESOLUTION = re.compile(r"## time resolution: (\d+(?:\.\d+)?)")
# Codes that mark a beat, from the table of the WFDB manual: N L R a V F J A S E j / Q e n f r B.
BEATS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 25, 30, 34, 35, 38, 41})


@dataclass(frozen=True, slots=True)
class WfdbSignal:
    """What a header says about one signal."""

    file: str
    format: int
    per_frame: int
    offset_bytes: int
    gain: float
    baseline: int
    unit: str
    description: str


@dataclass(frozen=True, slots=True)
class WfdbHeader:
    """What a header says about a record."""

    path: Path
    rate_hz: float
    n_frames: int
    start: datetime | None
    signals: tuple[WfdbSignal, ...]
    comments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WfdbChannel:
    """Samples of one signal in its file, in the wanted unit; NaN if marked as missing."""

    path: Path
    format: int
    offset_bytes: int
    frame_samples: int  # of all signals in the file
    first_sample: int  # of this signal in a frame
    per_frame: int
    n_frames: int
    factor: float  # value = digital x factor + offset
    offset: float

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.n_frames * self.per_frame

    def __getitem__(self, where: slice) -> Floats:
        """Return the samples of a slice with step 1."""
        first, end = bounds(where, len(self))
        values = np.empty(end - first)
        at_once = max(1, BLOCK_FRAMES // self.frame_samples)
        done = 0
        for frame in range(first // self.per_frame, -(-end // self.per_frame), at_once):
            n_frames = min(at_once, -(-end // self.per_frame) - frame)
            digital = self._frames(frame, n_frames)
            part = digital[:, self.first_sample : self.first_sample + self.per_frame].reshape(-1)
            begin = frame * self.per_frame
            part = part[max(first - begin, 0) : end - begin]
            out = values[done : done + len(part)]
            np.multiply(part, self.factor, out=out)
            out += self.offset
            out[part == FORMATS[self.format][1]] = np.nan
            done += len(part)
        return values

    def _frames(self, first: int, n_frames: int) -> Ints32:
        """Return digital samples of all signals of the file, one frame per row."""
        low, high = first * self.frame_samples, (first + n_frames) * self.frame_samples
        low_pair, high_pair = low // 2, -(-high // 2)  # two samples of format 212 share three bytes
        pair_bytes = FORMATS[self.format][0]
        with open_file(self.path) as file:
            file.seek(self.offset_bytes + low_pair * pair_bytes)
            data = file.read((high_pair - low_pair) * pair_bytes)
        samples = unpack(data, self.format)[low - 2 * low_pair :][: high - low]
        if len(samples) < high - low:
            raise file_error(self.path, "ends before its last sample. Was it changed meanwhile?")
        return samples.reshape(n_frames, self.frame_samples)


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


def read_wfdb_recording(path: Path) -> RawRecording:
    """Return the channels of a WFDB record by their descriptions; voltages are in uV."""
    header = read_wfdb_header(path)
    signals: dict[str, Signal | Series] = {}
    by_file: dict[str, list[WfdbSignal]] = {}
    for signal in header.signals:
        by_file.setdefault(signal.file, []).append(signal)
    for file, group in by_file.items():
        frame_samples = sum(signal.per_frame for signal in group)
        first = 0
        for signal in group:
            label = signal.description or f"signal {header.signals.index(signal) + 1}"
            while label in signals:
                label += "'"
            unit = standard_unit(signal.unit)
            factor, shift = scale_to(signal.unit, unit, what=label)
            channel = WfdbChannel(
                _data_file(header, file, group, frame_samples),
                signal.format,
                signal.offset_bytes,
                frame_samples,
                first,
                signal.per_frame,
                header.n_frames,
                factor / signal.gain,
                shift - signal.baseline * factor / signal.gain,
            )
            signals[label] = Signal(label, channel, header.rate_hz * signal.per_frame, unit)
            first += signal.per_frame
    made_up = any(SYNTHETIC_WORD in comment for comment in header.comments)
    return RawRecording(signals, start=header.start, is_synthetic=made_up, notes=header.notes)


def signal_files(path: Path) -> set[Path]:
    """Return the files beside a WFDB header that hold its signals; none of any other recording."""
    if path.suffix.lower() != ".hea":
        return set()
    found = {path.parent / Path(signal.file).name for signal in read_wfdb_header(path).signals}
    return {file for file in found if file.is_file()}


def _data_file(header: WfdbHeader, name: str, group: list[WfdbSignal], frame_samples: int) -> Path:
    """Return the path of a signal file, checked to be as long as the header says."""
    path = header.path.parent / name
    if Path(name).name != name:
        raise file_error(header.path, f"names the signal file {name[:60]!r}, expected one beside the header.")
    if not path.is_file():
        raise file_error(
            header.path, f"names the signal file {name!r}, which is not beside it. Copy it there."
        )
    formats = {(signal.format, signal.offset_bytes) for signal in group}
    if len(formats) > 1:
        raise file_error(header.path, f"gives the signals of {name!r} different formats, expected one.")
    n_samples = header.n_frames * frame_samples
    wanted = group[0].offset_bytes + -(-n_samples * FORMATS[group[0].format][0] // 2)
    size = path.stat().st_size
    if size < wanted:
        raise file_error(path, f"holds {size:,} of {wanted:,} bytes. Was it copied completely?")
    return path


def read_wfdb_header(path: Path) -> WfdbHeader:
    """Read and check a header; an error names the file."""
    text = read_text(path, errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    comments = tuple(line[1:].strip() for line in lines if line.startswith("#"))
    lines = [line for line in lines if not line.startswith("#")]
    if not lines:
        raise file_error(path, "is empty, expected the header of a WFDB record.")
    parts = lines[0].split()
    if len(parts) < 2 or not parts[1].isdecimal() or not 1 <= int(parts[1][:4]) <= MOST_SIGNALS:
        raise file_error(
            path, f"begins with {lines[0][:60]!r}, expected a record's name and number of signals."
        )
    if "/" in parts[0]:
        raise file_error(path, "is a record of several segments, which are not read. Give a single segment.")
    n_signals = int(parts[1])
    if len(lines) - 1 < n_signals:
        raise file_error(path, f"counts {n_signals} signals and describes {len(lines) - 1}. Is it complete?")
    signals = tuple(_signal(path, line) for line in lines[1 : n_signals + 1])
    rate_hz = DEFAULT_RATE
    if len(parts) > 2:
        rate = _RATE.match(parts[2])
        rate_hz = 0.0 if rate is None else _float(rate[1])
        if not 0 < rate_hz <= 1e6:
            raise file_error(path, f"gives {parts[2][:40]!r} as sampling rate, expected samples per second.")
    start, notes = _start(path, parts[4:])
    n_frames = _n_frames(path, parts[3] if len(parts) > 3 else "0", signals)
    return WfdbHeader(path, rate_hz, n_frames, start, signals, comments, notes)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _n_frames(path: Path, text: str, signals: tuple[WfdbSignal, ...]) -> int:
    """Return the samples per signal: from the header, else as many as the first file holds."""
    if not text.isdecimal() or len(text) > 15:
        raise file_error(path, f"gives {text[:40]!r} as number of samples, expected a whole number.")
    if int(text):
        return int(text)
    first = signals[0]
    per_frame = sum(signal.per_frame for signal in signals if signal.file == first.file)
    data = path.parent / Path(first.file).name
    n_bytes = data.stat().st_size - first.offset_bytes if data.is_file() else 0
    n_frames = n_bytes * 2 // FORMATS[first.format][0] // per_frame
    if n_frames < 1:
        raise file_error(path, f"does not say how many samples there are, and {first.file!r} holds none.")
    return n_frames


def _signal(path: Path, line: str) -> WfdbSignal:
    """Read the line of a signal: file, format, gain, resolution, zero, three other fields and its name."""
    parts = line.split(maxsplit=8)
    layout = _FORMAT.match(parts[1]) if len(parts) > 1 else None
    if layout is None:
        raise file_error(path, f"has the line {line[:60]!r}, expected a signal: its file, format and gain.")
    format = int(layout[1][:6])
    per_frame, skew, offset_bytes = (int((part or "0")[:9]) for part in layout.groups()[1:])
    if format not in FORMATS or skew:
        raise file_error(
            path,
            f"has a signal in format {parts[1][:20]}, expected {', '.join(map(str, FORMATS))} without skew. "
            "Convert the record, for example with xform of the WFDB tools.",
        )
    _, _, gain, _, zero, *_, description = (*parts, *_LEFT_OUT[len(parts) :])
    calibration = _GAIN.match(gain)
    if calibration is None or not math.isfinite(_float(calibration[1])):
        raise file_error(path, f"has a signal of gain {gain[:40]!r}, expected a number such as 200/mV.")
    baseline = calibration[2] or zero
    if not re.fullmatch(r"-?\d{1,9}", baseline):
        raise file_error(path, f"has a signal whose zero is {baseline[:20]!r}, expected a number.")
    return WfdbSignal(
        parts[0],
        format,
        per_frame or 1,
        offset_bytes,
        _float(calibration[1]) or DEFAULT_GAIN,
        int(baseline),
        calibration[3] or "mV",
        description.strip(),
    )


def _start(path: Path, parts: list[str]) -> tuple[datetime | None, tuple[str, ...]]:
    """Return when the record begins; a time without a date gets the date `NO_DATE`."""
    time = re.fullmatch(r"(?:(\d{1,2}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,6})?)", parts[0]) if parts else None
    if time is None:
        return None, ()
    clock = timedelta(hours=int(time[1] or 0), minutes=int(time[2]), seconds=float(time[3]))
    date = re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{4})", parts[1]) if len(parts) > 1 else None
    try:
        if date is not None:
            return datetime(int(date[3]), int(date[2]), int(date[1])) + clock, ()
    except ValueError:
        pass
    return NO_DATE + clock, (f"the header gives no date: {NO_DATE:%Y-%m-%d} stands for it",)


@dataclass(frozen=True, slots=True)
class WfdbAnnotation:
    """An annotation at a sample: a code, and perhaps a text."""

    sample: int
    code: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class WfdbAnnotations:
    """Annotations in the file's order, and their samples per second if the file says so."""

    marks: tuple[WfdbAnnotation, ...]
    rate_hz: float | None = None


def read_wfdb_annotations(path: Path) -> WfdbAnnotations:
    """Return all annotations of a file; refuse a file without its end mark."""
    data = read_file(path)
    marks: list[WfdbAnnotation] = []
    at, sample = 0, 0
    while True:
        if at + 2 > len(data):
            raise file_error(path, "ends before the mark of its end. Was it copied completely?")
        word = int.from_bytes(data[at : at + 2], "little")
        code, steps = word >> 10, word & 0x3FF
        at += 2
        if word == 0:
            return _without_remarks(marks)
        if code == SKIP:  # four bytes: the high half first, each half with its low byte first
            if at + 4 > len(data):
                raise file_error(path, "ends within a time. Was it copied completely?")
            sample += int.from_bytes(data[at + 2 : at + 4] + data[at : at + 2], "little", signed=True)
            at += 4
        elif code == AUX:
            if at + steps > len(data):
                raise file_error(path, f"ends within a text of {steps} bytes. Was it copied completely?")
            text = data[at : at + steps].split(b"\x00")[0].decode("utf-8", errors="replace").strip()
            if marks:
                marks[-1] = replace(marks[-1], text=text)
            at += steps + steps % 2
        elif code not in (NUM, SUB, CHN):
            sample += steps
            if sample < 0 or (marks and sample < marks[-1].sample):
                raise file_error(
                    path, f"has an annotation at sample {sample}, before the one that precedes it."
                )
            if code:
                marks.append(WfdbAnnotation(sample, code))


def _without_remarks(marks: list[WfdbAnnotation]) -> WfdbAnnotations:
    """Remove remarks on the file itself, texts that begin with ##, and read its time resolution from them."""
    resolutions = [_RESOLUTION.match(mark.text) for mark in marks]
    rates = [float(match[1]) for match in resolutions if match is not None]
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
