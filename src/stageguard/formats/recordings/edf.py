"""Read EDF and EDF+ signals, slice by slice, in standard units; gaps of a discontinuous EDF+ file are NaN.

A channel keeps the path of its file, not its samples: a slice needs memory for itself and a buffer of a few
megabytes, however long the recording is.

edfio writes EDF+ but does not read it here: it takes half of a file, or two files joined, for a whole one,
joins the records of an EDF+D file as if there were no gaps, and reads no decimal commas (the tests compare).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats
from stageguard.files import SYNTHETIC_WORD, file_error, open_file
from stageguard.formats.recordings.raw import LONGEST_SECONDS, RawRecording, Sliced, to_standard
from stageguard.night.recording import Series, Signal

MAGIC = b"0       "
ANNOTATION_LABEL = "EDF Annotations"
FIXED_BYTES = 256  # of the header, before those of the signals, which take as many each
MOST_SIGNALS, BILLION = 4096, 1e9
MOST_RECORD_BYTES = 64 * 2**20  # a record is read at once; real ones are below 100 kB
# Characters of a signal's label, transducer, unit, ranges (4), prefilter, samples per record, and spare ones
_WIDTHS = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
NO_DATE = datetime(1985, 1, 1)  # instead of a date that was removed, as in the files of the NSRR
BLOCK_BYTES = 4 * 2**20  # of the file, read at once
JITTER = 0.01  # of a record: rounding and clock drift up to this make no gap
SECONDS_PER_YEAR = 365.25 * 86_400


@dataclass(frozen=True, slots=True)
class EdfSignal:
    """What the header says about one signal."""

    label: str
    unit: str
    ranges: tuple[float, float, float, float]  # physical and digital minimum and maximum; NaN if damaged
    n_samples: int  # in each record
    first_sample: int  # index of its first sample in a record

    @property
    def is_annotation(self) -> bool:
        """Whether the signal holds text instead of samples."""
        return self.label == ANNOTATION_LABEL

    @property
    def calibration(self) -> tuple[float, float]:
        """Physical units per digital step, and the physical value of digital 0; NaN without calibration."""
        low, high, digital_low, digital_high = self.ranges
        steps, span = digital_high - digital_low, high - low
        gain = span / steps if steps and span and math.isfinite(span / steps) else math.nan
        return gain, low - gain * digital_low


@dataclass(frozen=True, slots=True)
class EdfHeader:
    """What the header says about the recording."""

    path: Path
    patient: str
    recording: str
    start: datetime | None
    n_records: int
    record_seconds: float
    signals: tuple[EdfSignal, ...]
    is_plus: bool
    is_continuous: bool
    notes: tuple[str, ...] = ()

    @property
    def header_bytes(self) -> int:
        """Length of the header, after which the first record begins."""
        return FIXED_BYTES * (len(self.signals) + 1)

    @property
    def record_samples(self) -> int:
        """Number of samples of all signals in a record."""
        return sum(signal.n_samples for signal in self.signals)


def read_edf_header(path: Path) -> EdfHeader:
    """Read and check a header; an error names the file and the field."""
    with open_file(path) as file:
        fixed = file.read(FIXED_BYTES)
        if not fixed.startswith(MAGIC) or len(fixed) < FIXED_BYTES:
            what = "is a BDF file (24 bit)" if fixed[:1] == b"\xff" else f"begins with {fixed[:8]!r}"[:40]
            raise file_error(path, f"{what} and has {len(fixed)} bytes of 256, expected an EDF header.")
        text = fixed.decode("latin-1")
        n_signals = int(_number(path, text[252:256], "number of signals", 1, MOST_SIGNALS))
        rest = file.read(FIXED_BYTES * n_signals).decode("latin-1")
        size = os.fstat(file.fileno()).st_size
    length = FIXED_BYTES * (n_signals + 1)
    if len(rest) < FIXED_BYTES * n_signals:
        raise file_error(path, f"ends within its header of {n_signals} signals. Was it copied completely?")
    _number(path, text[184:192], f"length in bytes of a header of {n_signals} signals", length, length)
    seconds = _number(path, text[244:252], "seconds of a record", 0, 86_400, whole=False)
    signals = _signals(path, rest, n_signals)
    n_samples = sum(signal.n_samples for signal in signals)
    if not 0 < 2 * n_samples <= MOST_RECORD_BYTES:
        expected = f"1 to {MOST_RECORD_BYTES:,}"
        raise file_error(path, f"a record holds {2 * n_samples:,} bytes by its header, expected {expected}.")
    if seconds == 0 and not all(signal.is_annotation or not signal.n_samples for signal in signals):
        raise file_error(path, "a record lasts 0 s by its header, but holds signals. The header is damaged.")
    said = int(_number(path, text[236:244], "number of records", -1))
    n_there, spare = divmod(size - length, 2 * n_samples)
    n_records = n_there if said == -1 else said  # the recorder stopped before it could write the number
    if not 1 <= n_records <= n_there:
        raise file_error(
            path,
            f"holds {n_there:,} of the {said:,} data records its header counts. Was it copied completely?",
        )
    spare += (n_there - n_records) * 2 * n_samples
    notes: tuple[str, ...] = ()
    if said == -1:
        notes = (f"the header does not say how many records there are: {n_there:,} were counted",)
    elif spare:
        notes = (f"{spare:,} bytes after the last data record were ignored",)
    start, remarks = _start(text[168:176], text[176:184], text[88:168])
    kind = text[192:236].strip()
    return EdfHeader(
        path,
        patient=text[8:88].strip(),
        recording=text[88:168].strip(),
        start=start,
        n_records=n_records,
        record_seconds=seconds,
        signals=signals,
        is_plus=kind.startswith("EDF+"),
        is_continuous=not kind.startswith("EDF+D"),
        notes=notes + remarks,
    )


def _signals(path: Path, text: str, n_signals: int) -> tuple[EdfSignal, ...]:
    columns, begin = [], 0
    for width in _WIDTHS:
        end = begin + width * n_signals
        columns.append([text[at : at + width].strip() for at in range(begin, end, width)])
        begin = end
    signals: list[EdfSignal] = []
    first = 0
    for label, _, unit, low, high, digital_low, digital_high, _, n_samples, _ in zip(*columns, strict=True):
        n_each = int(_number(path, n_samples, f"samples per record of signal {label!r}", 0))
        ranges = (_float(low), _float(high), _float(digital_low), _float(digital_high))
        signals.append(EdfSignal(label, unit, ranges, n_each, first))
        first += n_each
    return tuple(signals)


def _number(
    path: Path, text: str, what: str, low: float, high: float = BILLION, *, whole: bool = True
) -> float:
    """Return a number of the header, or refuse the file."""
    value = _float(text)
    if not low <= value <= high or (whole and value != int(value)):
        upper = "" if high == low else " or more" if high == BILLION else f" to {high:g}"
        expected = f"{'a whole number' if whole else 'a number'} of {low:g}{upper}"
        raise file_error(path, f"its header gives {text.strip()!r} as {what}, expected {expected}.")
    return value


def _float(text: str) -> float:
    """Return a number, perhaps with a decimal comma; NaN if it is damaged."""
    try:
        return float(text.strip().strip("\x00").replace(",", ".").replace("_", "?"))
    except ValueError:
        return math.nan


def _start(date: str, time: str, recording: str) -> tuple[datetime | None, tuple[str, ...]]:
    """Return when the recording began; the four-digit year of EDF+ is preferred to the two-digit one."""
    hours = re.fullmatch(r"\s*([01]?\d|2[0-3])[.:]([0-5]?\d)[.:]([0-5]?\d)\s*", time)
    if hours is None:
        return None, (f"the header gives {time.strip()!r} as starting time: it is not known",)
    clock = timedelta(hours=int(hours[1]), minutes=int(hours[2]), seconds=int(hours[3]))
    full = re.search(r"Startdate (\S{11})", recording)
    plain = re.fullmatch(r"\s*(\d{1,2})[.:/-](\d{1,2})[.:/-](\d{2})\s*", date)
    day = None if full is None else plus_date(full[1])
    if day is None and plain is not None:
        year = int(plain[3])  # EDF years have two digits, and 85 means 1985
        day = _day(year + (1900 if year >= 85 else 2000), int(plain[2]), int(plain[1]))
    if day is not None:
        return day + clock, ()
    return NO_DATE + clock, (f"the header gives {date.strip()!r} as date: {NO_DATE:%Y-%m-%d} stands for it",)


def plus_date(text: str) -> datetime | None:
    """Return a date as EDF+ writes it (02-MAY-1951), or None."""
    parts = re.fullmatch(r"(\d{2})-([A-Z]{3})-(\d{4})", text)
    if parts is None or parts[2] not in _MONTHS:
        return None
    return _day(int(parts[3]), _MONTHS.index(parts[2]) + 1, int(parts[1]))


def _day(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Consecutive records without a gap."""

    first_record: int
    n_records: int
    start_seconds: float  # since the first record


def read_edf_recording(path: Path) -> RawRecording:
    """Return the channels of an EDF or EDF+ file; unreadable ones are listed with the reason.

    Voltages are in uV whatever the file has, accelerations in g, temperatures in degC.
    """
    header = read_edf_header(path)
    first_seconds, runs, notes = find_runs(header)
    signals: dict[str, Signal | Series] = {}
    unreadable: dict[str, str] = {}
    for signal in header.signals:
        if signal.is_annotation:
            continue
        name = label = signal.label or "unnamed"
        number = 2
        while label in signals or label in unreadable:  # a second channel "EEG" becomes "EEG (2)"
            label, number = f"{name} ({number})", number + 1
        gain, zero = signal.calibration
        if not signal.n_samples:
            unreadable[label] = "it has no samples"
        elif not (math.isfinite(gain) and math.isfinite(zero)):
            low, high, first, last = signal.ranges
            unreadable[label] = (
                f"its calibration is damaged (physical {low:g} to {high:g}, digital {first:g} to {last:g})"
            )
        else:
            unit, factor, shift = to_standard(signal.unit, label)
            rate_hz = signal.n_samples / header.record_seconds
            n_samples = _first_of(runs[-1], rate_hz) + runs[-1].n_records * signal.n_samples
            read = partial(_read_signal, header, signal, runs, gain * factor, zero * factor + shift)
            signals[label] = Signal(label, Sliced(n_samples, read), rate_hz, unit)
    subject, covariates = _patient(header)
    start = header.start
    return RawRecording(
        signals,
        start=None if start is None else start + timedelta(seconds=first_seconds),
        subject=subject,
        covariates=covariates,
        is_synthetic=SYNTHETIC_WORD in f"{header.patient} {header.recording}",
        unreadable=unreadable,
        notes=header.notes + notes,
    )


def _first_of(run: RecordRun, rate_hz: float) -> int:
    """Return the sample at which a run begins."""
    return round(run.start_seconds * rate_hz)


def _read_signal(
    header: EdfHeader,
    signal: EdfSignal,
    runs: tuple[RecordRun, ...],
    factor: float,
    offset: float,
    first: int,
    end: int,
) -> Floats:
    """Return samples `first` to `end`, digital x factor + offset; NaN in gaps between records."""
    values = np.full(end - first, np.nan)
    n_each = signal.n_samples
    column = slice(signal.first_sample, signal.first_sample + n_each)
    with open_file(header.path, buffering=0) as file:
        for run in runs:
            begin = _first_of(run, n_each / header.record_seconds)
            low, high = max(first - begin, 0), min(end - begin, run.n_records * n_each)
            if low >= high:
                continue
            record = low // n_each
            blocks = read_records(header, file, run.first_record + record, -(-high // n_each) - record)
            # copies, because a part of a block would keep all of it in memory
            digital = np.concatenate([block[:, column].copy() for block in blocks]).reshape(-1)
            out = values[begin + low - first : begin + high - first]
            np.multiply(digital[low - record * n_each :][: len(out)], factor, out=out)
            out += offset
    return values


def read_records(
    header: EdfHeader, file: BinaryIO, first: int, n_records: int
) -> Iterator[npt.NDArray[np.int16]]:
    """Yield records as they are in the file, one per row, a few megabytes at a time."""
    n_samples = header.record_samples
    at_once = max(1, BLOCK_BYTES // (2 * n_samples))
    for record in range(first, first + n_records, at_once):
        n_rows = min(at_once, first + n_records - record)
        file.seek(header.header_bytes + record * 2 * n_samples)
        block = np.fromfile(file, dtype="<i2", count=n_rows * n_samples)
        if len(block) < n_rows * n_samples:
            raise file_error(header.path, "ends before its last data record. Was it changed meanwhile?")
        yield block.reshape(n_rows, n_samples)


def find_runs(header: EdfHeader) -> tuple[float, tuple[RecordRun, ...], tuple[str, ...]]:
    """Return when the first record begins, the runs of records without gaps, and remarks on gaps.

    Those of a file that calls itself continuous are looked for if its last record is not where it should be.
    """
    whole = (RecordRun(0, header.n_records, 0.0),)
    if not header.is_plus or not any(signal.is_annotation for signal in header.signals):
        return 0.0, whole, ()
    with open_file(header.path, buffering=0) as file:
        first, last = (_onset(header, file, record) for record in (0, header.n_records - 1))
        if first is None:
            if header.is_continuous:
                return 0.0, whole, ()
            raise file_error(header.path, "is discontinuous (EDF+D), but record 0 has no time.")
        expected = first + (header.n_records - 1) * header.record_seconds
        in_time = last is None or abs(last - expected) < 0.5 * header.record_seconds
        if header.record_seconds == 0 or (header.is_continuous and in_time):
            return first, whole, ()
        onsets = [_onset(header, file, record) for record in range(header.n_records)]
    runs = _runs(header, onsets, first)
    n_gaps = len(runs) - 1
    note = f"{n_gaps} gap{'s' * (n_gaps != 1)} between its records: NaN there"
    return first, runs, (note,) if n_gaps else ()


def _runs(header: EdfHeader, onsets: list[float | None], first: float) -> tuple[RecordRun, ...]:
    """Join records without gaps between them; refuse a record without a time, or that goes back in time."""
    runs: list[RecordRun] = []
    end = 0.0
    for record, onset in enumerate(onsets):
        begin = math.nan if onset is None else onset - first
        if not end - 0.5 * header.record_seconds <= begin <= LONGEST_SECONDS:
            found = "has no time" if onset is None else f"begins at {onset:g} s"
            raise file_error(
                header.path,
                f"record {record} {found}, expected {first + end:g} s or later within "
                f"{LONGEST_SECONDS / 86_400:g} days. Its times are damaged.",
            )
        if runs and begin - end < JITTER * header.record_seconds:
            runs[-1] = replace(runs[-1], n_records=runs[-1].n_records + 1)
            end += header.record_seconds
        else:
            runs.append(RecordRun(record, 1, begin))
            end = begin + header.record_seconds
    return tuple(runs)


def _onset(header: EdfHeader, file: BinaryIO, record: int) -> float | None:
    """Return the time of a record, with which its first annotation begins, or None."""
    signal = next(signal for signal in header.signals if signal.is_annotation)
    raw = next(read_records(header, file, record, 1))
    head = raw[0, signal.first_sample : signal.first_sample + min(signal.n_samples, 32)].tobytes()
    match = re.match(rb"([+-]\d{1,12}(?:\.\d{0,12})?)[\x14\x15]", head)
    return None if match is None else float(match[1])


def _patient(header: EdfHeader) -> tuple[str | None, dict[str, float | str]]:
    """Return subject, sex and age if an EDF+ header gives them; X means unknown."""
    parts = header.patient.split()
    if not header.is_plus or len(parts) < 3:
        return None, {}
    code, sex, born = parts[:3]
    covariates: dict[str, float | str] = {"sex": sex} if sex in ("F", "M") else {}
    birth = plus_date(born)
    if birth is not None and header.start is not None:
        age = (header.start - birth).total_seconds() / SECONDS_PER_YEAR
        if 0 <= age <= 130:
            covariates["age"] = round(age, 1)
    return None if code == "X" else code, covariates
