"""Read EDF and EDF+ signals, slice by slice, in standard units; gaps of a discontinuous EDF+ file are NaN.

A channel keeps the path of its file, not its samples: a slice needs memory for itself and a buffer of a few
megabytes, however long the recording is.

EDF+ is written by edfio, but read here. Of 18 damaged files that the tests make, edfio 0.4.18 reads 9 as if
they were whole, two of them with wrong samples; the others end in an IndexError or the like. edfio joins the
records of an EDF+D file as if there were no gaps, reads no decimal commas, takes twice the time for a whole
channel, and sends all samples with a channel to another process.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from stageguard.arrays import Floats
from stageguard.files import SYNTHETIC_WORD, file_error, open_file
from stageguard.formats.recordings.raw import LONGEST_SECONDS, RawRecording, bounds
from stageguard.night.recording import Series, Signal
from stageguard.units import scale_to, standard_unit

MAGIC = b"0       "
BDF_MAGIC = b"\xffBIOSEMI"
ANNOTATION_LABEL = "EDF Annotations"
FIXED_BYTES = 256
MOST_SIGNALS = 4096
MOST_RECORD_BYTES = 64 * 2**20  # a record is read at once; real ones are below 100 kB
_FIELDS = {  # fields of each signal -> characters
    **{"label": 16, "transducer": 80, "unit": 8, "physical_min": 8, "physical_max": 8, "digital_min": 8},
    **{"digital_max": 8, "prefilter": 80, "n_samples": 8, "reserved": 32},
}
_RANGES = ("physical_min", "physical_max", "digital_min", "digital_max")
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
    physical_min: float
    physical_max: float
    digital_min: float
    digital_max: float
    n_samples: int  # in each record
    first_sample: int  # index of its first sample in a record

    @property
    def is_annotation(self) -> bool:
        """Whether the signal holds text instead of samples."""
        return self.label == ANNOTATION_LABEL

    @property
    def gain(self) -> float:
        """Physical units per digital step; NaN if the header gives no calibration."""
        steps = self.digital_max - self.digital_min
        span = self.physical_max - self.physical_min
        return span / steps if steps and span and math.isfinite(span / steps) else math.nan

    @property
    def offset(self) -> float:
        """Physical value of digital 0."""
        return self.physical_min - self.gain * self.digital_min


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
        _check_kind(path, fixed)
        text = fixed.decode("latin-1")
        n_signals = _integer(path, text[252:256], "number of signals")
        if not 1 <= n_signals <= MOST_SIGNALS:
            raise file_error(path, f"its header counts {n_signals} signals, expected 1 to {MOST_SIGNALS}.")
        rest = file.read(FIXED_BYTES * n_signals).decode("latin-1")
        size = os.fstat(file.fileno()).st_size
    if len(rest) < FIXED_BYTES * n_signals:
        raise file_error(path, f"ends within its header of {n_signals} signals. Was it copied completely?")
    length = _integer(path, text[184:192], "header length")
    if length != FIXED_BYTES * (n_signals + 1):
        raise file_error(
            path,
            f"its header says it is {length} bytes long, expected {FIXED_BYTES * (n_signals + 1)} for "
            f"{n_signals} signals. The file is damaged or no EDF.",
        )
    reserved = text[192:236].strip()
    record_seconds = _real(path, text[244:252], "record duration")
    signals = _signals(path, rest, n_signals)
    _check_record(path, record_seconds, signals)
    n_promised = _integer(path, text[236:244], "number of records")
    n_records, notes = _count_records(path, n_promised, size - length, sum(s.n_samples for s in signals))
    start, remarks = _start(text[168:176], text[176:184], text[88:168])
    return EdfHeader(
        path,
        patient=text[8:88].strip(),
        recording=text[88:168].strip(),
        start=start,
        n_records=n_records,
        record_seconds=record_seconds,
        signals=signals,
        is_plus=reserved.startswith("EDF+"),
        is_continuous=not reserved.startswith("EDF+D"),
        notes=notes + remarks,
    )


def _check_kind(path: Path, fixed: bytes) -> None:
    if not fixed:
        raise file_error(path, "is empty (0 bytes). Was it written completely?")
    if fixed.startswith(BDF_MAGIC):
        raise file_error(path, "is a BDF file (24 bit), expected EDF. Export it as EDF or EDF+.")
    if not fixed.startswith(MAGIC):
        raise file_error(
            path, f"begins with {fixed[:8].decode('latin-1')!r}, expected an EDF header (the version 0)."
        )
    if len(fixed) < FIXED_BYTES:
        raise file_error(path, f"ends after {len(fixed)} bytes of its header. Was it copied completely?")


def _signals(path: Path, text: str, n_signals: int) -> tuple[EdfSignal, ...]:
    columns: dict[str, list[str]] = {}
    begin = 0
    for name, width in _FIELDS.items():
        end = begin + width * n_signals
        columns[name] = [text[at : at + width].strip() for at in range(begin, end, width)]
        begin = end
    signals: list[EdfSignal] = []
    first = 0
    for index, label in enumerate(columns["label"]):
        what = f"samples per record of signal {label!r}"
        n_samples = _integer(path, columns["n_samples"][index], what)
        if n_samples < 0:
            raise file_error(
                path, f"signal {label!r} has {n_samples} samples per record, expected 0 or more."
            )
        unit = columns["unit"][index]
        low, high, digital_low, digital_high = (_calibration(columns[name][index]) for name in _RANGES)
        signals.append(EdfSignal(label, unit, low, high, digital_low, digital_high, n_samples, first))
        first += n_samples
    return tuple(signals)


def _check_record(path: Path, record_seconds: float, signals: tuple[EdfSignal, ...]) -> None:
    if not 0 <= record_seconds <= 86_400:
        raise file_error(path, f"a record lasts {record_seconds:g} s by its header, expected 0 to 86400 s.")
    if record_seconds == 0 and not all(s.is_annotation or not s.n_samples for s in signals):
        raise file_error(path, "a record lasts 0 s by its header, but holds signals. The header is damaged.")
    n_bytes = 2 * sum(signal.n_samples for signal in signals)
    if not 0 < n_bytes <= MOST_RECORD_BYTES:
        raise file_error(
            path, f"a record holds {n_bytes:,} bytes by its header, expected 1 to {MOST_RECORD_BYTES:,}."
        )


def _count_records(path: Path, said: int, n_bytes: int, n_samples: int) -> tuple[int, tuple[str, ...]]:
    """Return the number of records; check the header's number against the size of the file."""
    n_there = n_bytes // (2 * n_samples)
    if said == -1:  # the recorder stopped before it could write the number
        if n_there < 1:
            raise file_error(path, "has a header but no data record.")
        return n_there, (f"the header does not say how many records there are: {n_there:,} were counted",)
    if said < 1:
        raise file_error(path, f"its header counts {said} data records, expected at least 1.")
    if n_there < said:
        raise file_error(
            path,
            f"holds {n_there:,} of the {said:,} data records its header counts. Was it copied completely?",
        )
    spare = n_bytes - said * 2 * n_samples
    return said, (f"{spare:,} bytes after the last data record were ignored",) if spare else ()


def _integer(path: Path, text: str, what: str) -> int:
    value = _real(path, text, what)
    if value != int(value):
        raise file_error(path, f"its header gives {text.strip()!r} as {what}, expected a whole number.")
    return int(value)


def _real(path: Path, text: str, what: str) -> float:
    value = _calibration(text)
    if not math.isfinite(value):
        raise file_error(path, f"its header gives {text.strip()!r} as {what}, expected a number.")
    return value


def _calibration(text: str) -> float:
    """Return a number of a signal's calibration; NaN if it is damaged, so that only this signal is lost."""
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


@dataclass(frozen=True, slots=True)
class EdfChannel:
    """Samples of one signal in its file, in the wanted unit."""

    header: EdfHeader = field(repr=False)
    signal: EdfSignal
    runs: tuple[RecordRun, ...] = field(repr=False)
    factor: float  # value = digital x factor + offset
    offset: float

    @property
    def rate_hz(self) -> float:
        """Samples per second."""
        return self.signal.n_samples / self.header.record_seconds

    def __len__(self) -> int:
        """Return the number of samples, including those in gaps."""
        last = self.runs[-1]
        return self._begin(last) + last.n_records * self.signal.n_samples

    def __getitem__(self, where: slice) -> Floats:
        """Return the samples of a slice with step 1; NaN in gaps between records."""
        first, end = bounds(where, len(self))
        values = np.full(end - first, np.nan)
        per_record = self.signal.n_samples
        column = slice(self.signal.first_sample, self.signal.first_sample + per_record)
        with open_file(self.header.path, buffering=0) as file:
            for run in self.runs:
                begin = self._begin(run)
                low, high = max(first - begin, 0), min(end - begin, run.n_records * per_record)
                if low >= high:
                    continue
                record, last = low // per_record, -(-high // per_record)
                for raw in read_records(self.header, file, run.first_record + record, last - record):
                    sample = record * per_record  # sample of the run at which this block begins
                    cut = max(low - sample, 0)
                    part = raw[:, column].reshape(-1)[cut : high - sample]
                    out = values[begin + sample + cut - first :][: len(part)]
                    np.multiply(part, self.factor, out=out)
                    out += self.offset
                    record += len(raw)
        return values

    def _begin(self, run: RecordRun) -> int:
        """Return the sample at which a run begins."""
        return round(run.start_seconds * self.rate_hz)


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
        why = _why_not(signal)
        if why:
            unreadable[label] = why
            continue
        unit = standard_unit(signal.unit)
        factor, shift = scale_to(signal.unit, unit, what=label)
        channel = EdfChannel(header, signal, runs, signal.gain * factor, signal.offset * factor + shift)
        signals[label] = Signal(label, channel, channel.rate_hz, unit)
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


def find_runs(header: EdfHeader) -> tuple[float, tuple[RecordRun, ...], tuple[str, ...]]:
    """Return when the first record begins, the runs of records without gaps, and remarks on gaps."""
    whole = (RecordRun(0, header.n_records, 0.0),)
    if not header.is_plus or not any(signal.is_annotation for signal in header.signals):
        return 0.0, whole, ()
    with open_file(header.path, buffering=0) as file:
        first = _onset(header, file, 0)
        last = _onset(header, file, header.n_records - 1)
        if first is None:
            if header.is_continuous:
                return 0.0, whole, ()
            raise file_error(header.path, "is discontinuous (EDF+D), but its first record has no time.")
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
        if onset is None:
            raise file_error(header.path, f"is discontinuous (EDF+D), but record {record} has no time.")
        begin = onset - first
        if begin < end - 0.5 * header.record_seconds or begin > LONGEST_SECONDS:
            raise file_error(
                header.path,
                f"record {record} begins at {onset:g} s, expected {first + end:g} s or later within "
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


def _why_not(signal: EdfSignal) -> str:
    if not signal.n_samples:
        return "it has no samples"
    if not math.isfinite(signal.gain) or not math.isfinite(signal.offset):
        return (
            f"its calibration is damaged (physical {signal.physical_min:g} to {signal.physical_max:g}, "
            f"digital {signal.digital_min:g} to {signal.digital_max:g})"
        )
    return ""


def _patient(header: EdfHeader) -> tuple[str | None, dict[str, float | str]]:
    """Return subject, sex and age if an EDF+ header gives them; X means unknown."""
    parts = header.patient.split()
    if not header.is_plus or len(parts) < 3:
        return None, {}
    code, sex, born = parts[:3]
    covariates: dict[str, float | str] = {}
    if sex in ("F", "M"):
        covariates["sex"] = sex
    birth = plus_date(born)
    if birth is not None and header.start is not None:
        age = (header.start - birth).total_seconds() / SECONDS_PER_YEAR
        if 0 <= age <= 130:
            covariates["age"] = round(age, 1)
    return None if code in ("X", "") else code, covariates
