"""Read EDF and EDF+ signals slice by slice, in standard units. Guesses no roles, reads no sleep stages.

A channel keeps its file's name and its place in it, not its samples: a slice costs the memory of that slice
and a buffer of a few megabytes, however long the recording is. Gaps of a discontinuous EDF+ file are NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import Floats
from stageguard.base.files import SYNTHETIC_WORD, file_error, open_file
from stageguard.base.units import scale_to, standard_unit
from stageguard.formats.recordings.edf_header import EdfHeader, EdfSignal, plus_date, read_edf_header
from stageguard.formats.recordings.raw import RawRecording, bounds
from stageguard.night.recording import Series, Signal

BLOCK_BYTES = 4 * 2**20  # of the file, read at once
LONGEST_SECONDS = 62 * 86_400.0  # a recording with gaps may span two months
JITTER = 0.01  # of a record: times are rounded, and a clock that drifts so little makes no gap
SECONDS_PER_YEAR = 365.25 * 86_400


@dataclass(frozen=True, slots=True)
class Run:
    """Records that follow each other without a gap."""

    first_record: int
    n_records: int
    start_seconds: float  # since the first record


@dataclass(frozen=True, slots=True)
class EdfChannel:
    """Samples of one signal in its file, in the unit asked for."""

    header: EdfHeader = field(repr=False)
    signal: EdfSignal
    runs: tuple[Run, ...] = field(repr=False)
    factor: float  # value = digital x factor + offset
    offset: float

    @property
    def rate_hz(self) -> float:
        """Samples per second."""
        return self.signal.n_samples / self.header.record_seconds

    def __len__(self) -> int:
        """Return the number of samples, those in gaps included."""
        last = self.runs[-1]
        return self._place(last) + last.n_records * self.signal.n_samples

    def __getitem__(self, where: slice) -> Floats:
        """Return the samples of a slice with step 1; NaN in gaps between records."""
        first, end = bounds(where, len(self))
        values = np.full(end - first, np.nan)
        with open_file(self.header.path, "a recording", buffering=0) as file:
            for run in self.runs:
                place = self._place(run)
                low, high = max(first, place), min(end, place + run.n_records * self.signal.n_samples)
                if low >= high:
                    continue
                for at, part in self._blocks(file, run, low - place, high - place):
                    out = values[place + at - first :][: len(part)]
                    np.multiply(part, self.factor, out=out)
                    out += self.offset
        return values

    def _place(self, run: Run) -> int:
        """Return the sample at which a run begins."""
        return round(run.start_seconds * self.rate_hz)

    def _blocks(
        self, file: BinaryIO, run: Run, low: int, high: int
    ) -> Iterator[tuple[int, npt.NDArray[np.int16]]]:
        """Digital samples low to high of a run, some records at a time, each part with its first place."""
        per_record = self.signal.n_samples
        column = slice(self.signal.first_sample, self.signal.first_sample + per_record)
        record, last = low // per_record, -(-high // per_record)
        for raw in read_records(self.header, file, run.first_record + record, last - record):
            begin = record * per_record
            cut = max(low - begin, 0)
            yield begin + cut, raw[:, column].reshape(-1)[cut : high - begin]
            record += len(raw)


def read_records(
    header: EdfHeader, file: BinaryIO, first: int, n_records: int
) -> Iterator[npt.NDArray[np.int16]]:
    """Yield records as they are in the file, one per row and a few megabytes at a time."""
    n_bytes = 2 * header.record_samples
    at_once = max(1, BLOCK_BYTES // n_bytes)
    for record in range(first, first + n_records, at_once):
        n_rows = min(at_once, first + n_records - record)
        buffer = bytearray(n_rows * n_bytes)
        file.seek(header.header_bytes + record * n_bytes)
        view = memoryview(buffer)
        while len(view):
            n_read = file.readinto(view)  # type: ignore[attr-defined]
            if not n_read:
                raise file_error(header.path, "ends before its last data record. Was it changed meanwhile?")
            view = view[n_read:]
        yield np.frombuffer(buffer, dtype="<i2").reshape(n_rows, header.record_samples)


def read_edf_recording(path: Path) -> RawRecording:
    """Channels of an EDF or EDF+ file; those that cannot be told in numbers are listed with the reason.

    Voltages are in uV whatever the file has, accelerations in g, temperatures in degC.
    """
    header = read_edf_header(path)
    first_seconds, runs, notes = find_runs(header)
    signals: dict[str, Signal | Series] = {}
    unreadable: dict[str, str] = {}
    for signal in header.signals:
        if signal.is_annotation:
            continue
        label = _free_name(signal.label, {**signals, **unreadable})
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


def find_runs(header: EdfHeader) -> tuple[float, tuple[Run, ...], tuple[str, ...]]:
    """Tell when the first record begins, which records follow each other, and what to say about gaps."""
    whole = (Run(0, header.n_records, 0.0),)
    if not header.is_plus or not any(signal.is_annotation for signal in header.signals):
        return 0.0, whole, ()
    with open_file(header.path, "a recording", buffering=0) as file:
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
    return (
        first,
        runs,
        (f"{n_gaps} gap{'s' * (n_gaps != 1)} between its records: NaN there",) if n_gaps else (),
    )


def _runs(header: EdfHeader, onsets: list[float | None], first: float) -> tuple[Run, ...]:
    """Join records that follow each other; one that has no time, or goes back in time, is refused."""
    runs: list[Run] = []
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
            last = runs[-1]
            runs[-1] = Run(last.first_record, last.n_records + 1, last.start_seconds)
            end += header.record_seconds
        else:
            runs.append(Run(record, 1, begin))
            end = begin + header.record_seconds
    return tuple(runs)


def _onset(header: EdfHeader, file: BinaryIO, record: int) -> float | None:
    """Time of a record: what its first annotation begins with, or None."""
    signal = next(signal for signal in header.signals if signal.is_annotation)
    raw = next(read_records(header, file, record, 1))
    head = raw[0, signal.first_sample : signal.first_sample + min(signal.n_samples, 32)].tobytes()
    found = re.match(rb"([+-]\d{1,12}(?:\.\d{0,12})?)[\x14\x15]", head)
    return None if found is None else float(found[1])


def _why_not(signal: EdfSignal) -> str:
    if not signal.n_samples:
        return "it has no samples"
    if not math.isfinite(signal.gain) or not math.isfinite(signal.offset):
        return (
            f"its calibration is damaged (physical {signal.physical_min:g} to {signal.physical_max:g}, "
            f"digital {signal.digital_min:g} to {signal.digital_max:g})"
        )
    return ""


def _free_name(label: str, taken: dict[str, object]) -> str:
    """Return a label nobody has: the second EEG of a file is "EEG (2)"."""
    name, number = label or "unnamed", 2
    while name in taken:
        name, number = f"{label or 'unnamed'} ({number})", number + 1
    return name


def _patient(header: EdfHeader) -> tuple[str | None, dict[str, float | str]]:
    """Subject, sex and age where an EDF+ header gives them; X stands for what was left out."""
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
