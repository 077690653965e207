"""The header of an EDF or EDF+ file, checked against the file's size. Reads no samples."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from stageguard.base.files import file_error, open_file

MAGIC = b"0       "
BDF_MAGIC = b"\xffBIOSEMI"
ANNOTATION_LABEL = "EDF Annotations"
FIXED_BYTES = 256
MOST_SIGNALS = 4096
MOST_RECORD_BYTES = 64 * 2**20  # a record is read at once; real ones are below 100 kB
_FIELDS = (  # name and width of what each signal has
    ("label", 16),
    ("transducer", 80),
    ("unit", 8),
    ("physical_min", 8),
    ("physical_max", 8),
    ("digital_min", 8),
    ("digital_max", 8),
    ("prefilter", 80),
    ("n_samples", 8),
    ("reserved", 32),
)
_RANGES = ("physical_min", "physical_max", "digital_min", "digital_max")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
NO_DATE = datetime(1985, 1, 1)  # stands for a date that was removed, as in the files of the NSRR


@dataclass(frozen=True, slots=True)
class EdfSignal:
    """What the header says of one signal."""

    label: str
    unit: str
    physical_min: float
    physical_max: float
    digital_min: float
    digital_max: float
    n_samples: int  # in each record
    first_sample: int  # its place in a record
    prefilter: str = ""

    @property
    def is_annotation(self) -> bool:
        """Whether it holds text instead of samples."""
        return self.label == ANNOTATION_LABEL

    @property
    def gain(self) -> float:
        """Physical units per digital step; NaN where the header gives no calibration."""
        steps = self.digital_max - self.digital_min
        span = self.physical_max - self.physical_min
        return span / steps if steps and span and math.isfinite(span / steps) else math.nan

    @property
    def offset(self) -> float:
        """Physical value of digital 0."""
        return self.physical_min - self.gain * self.digital_min


@dataclass(frozen=True, slots=True)
class EdfHeader:
    """What the header says of the recording."""

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
        """Where the first record begins."""
        return FIXED_BYTES * (len(self.signals) + 1)

    @property
    def record_samples(self) -> int:
        """Samples of all signals in a record."""
        return sum(signal.n_samples for signal in self.signals)


def read_edf_header(path: Path) -> EdfHeader:
    """Read and check a header; anything wrong is one line that names the file and the field."""
    with open_file(path, "a recording") as file:
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
    said = _integer(path, text[236:244], "number of records")
    n_records, notes = _count_records(path, said, size - length, sum(s.n_samples for s in signals))
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
        raise file_error(path, f"begins with {fixed[:8]!r}, expected an EDF header (the version 0).")
    if len(fixed) < FIXED_BYTES:
        raise file_error(path, f"ends after {len(fixed)} bytes of its header. Was it copied completely?")


def _signals(path: Path, text: str, n_signals: int) -> tuple[EdfSignal, ...]:
    columns: dict[str, list[str]] = {}
    place = 0
    for name, width in _FIELDS:
        columns[name] = [text[place + i * width : place + (i + 1) * width] for i in range(n_signals)]
        place += width * n_signals
    found: list[EdfSignal] = []
    first = 0
    for i in range(n_signals):
        cells = {name: columns[name][i] for name in columns}
        label = cells["label"].strip()
        n_samples = _integer(path, cells["n_samples"], f"samples per record of signal {label!r}")
        if n_samples < 0:
            raise file_error(
                path, f"signal {label!r} has {n_samples} samples per record, expected 0 or more."
            )
        low, high, digital_low, digital_high = (_calibration(cells[name]) for name in _RANGES)
        unit, prefilter = cells["unit"].strip(), cells["prefilter"].strip()
        found.append(
            EdfSignal(label, unit, low, high, digital_low, digital_high, n_samples, first, prefilter)
        )
        first += n_samples
    return tuple(found)


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
    """Count the records; the header's word is checked against the size of the file."""
    there = n_bytes // (2 * n_samples)
    if said == -1:  # the recorder stopped before it could fill in the number
        if there < 1:
            raise file_error(path, "has a header but no data record.")
        return there, (f"the header does not say how many records there are: {there:,} were counted",)
    if said < 1:
        raise file_error(path, f"its header counts {said} data records, expected at least 1.")
    if there < said:
        raise file_error(
            path,
            f"holds {there:,} of the {said:,} data records its header counts. Was it copied completely?",
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
    """Return a number of a signal's calibration; NaN where there is none, which spoils this signal only."""
    try:
        return float(text.strip().strip("\x00").replace(",", ".").replace("_", "?"))
    except ValueError:
        return math.nan


def _start(date: str, time: str, recording: str) -> tuple[datetime | None, tuple[str, ...]]:
    """Tell when the recording began; the four-digit year of EDF+ goes before the two-digit one."""
    hours = re.fullmatch(r"\s*([01]?\d|2[0-3])[.:]([0-5]?\d)[.:]([0-5]?\d)\s*", time)
    if hours is None:
        return None, (f"the header gives {time.strip()!r} as starting time: it is not known",)
    clock = timedelta(hours=int(hours[1]), minutes=int(hours[2]), seconds=int(hours[3]))
    full = re.search(r"Startdate (\S{11})", recording)
    day = (None if full is None else plus_date(full[1])) or _plain_date(date)
    if day is not None:
        return day + clock, ()
    return NO_DATE + clock, (f"the header gives {date.strip()!r} as date: {NO_DATE:%Y-%m-%d} stands for it",)


def plus_date(text: str) -> datetime | None:
    """Return a date as EDF+ writes it (02-MAY-1951), or None."""
    found = re.fullmatch(r"(\d{2})-([A-Z]{3})-(\d{4})", text)
    if found is None or found[2] not in _MONTHS:
        return None
    return _day(int(found[3]), _MONTHS.index(found[2]) + 1, int(found[1]))


def _plain_date(date: str) -> datetime | None:
    found = re.fullmatch(r"\s*(\d{1,2})[.:/-](\d{1,2})[.:/-](\d{2})\s*", date)
    if found is None:
        return None
    year = int(found[3])  # EDF writes two digits, and 85 is its first year
    return _day(year + (1900 if year >= 85 else 2000), int(found[2]), int(found[1]))


def _day(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day)
    except ValueError:
        return None
