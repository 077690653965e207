"""Posteriors of Luna: tables of POPS and SOAP per epoch, and channels in EDF files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.base.arrays import Floats, Mask
from stageguard.base.files import file_error
from stageguard.formats.density import DensityOptions, RawDensity, Where, listed
from stageguard.formats.file_format import START, FileFormat
from stageguard.formats.recordings.edf import read_edf_recording
from stageguard.formats.sniffing import header_cells, read_head
from stageguard.formats.tables.frame_columns import numbers_of
from stageguard.formats.tables.probabilities import choose_columns, load_table
from stageguard.formats.tables.several import refuse_many
from stageguard.formats.tables.timing import MOST_MISSING, row_name
from stageguard.night.recording import Signal

TOOL, USUAL_SECONDS = "Luna", 30.0
FIVE = ("PP_W", "PP_N1", "PP_N2", "PP_N3", "PP_R")
THREE = ("PP_W", "PP_NR", "PP_R")


def is_pops(header: Sequence[str]) -> bool:
    """Whether columns are named as Luna names posteriors."""
    names = {name.upper() for name in header}
    return {"E", "PP_W", "PP_R"} <= names


def read_luna_pops(path: Path, options: DensityOptions) -> RawDensity:
    """Posteriors of a text table."""
    header = header_cells(read_head(path))
    options = replace(options, stages=options.stages or _posteriors(path, header))
    table = load_table(path, options, "e")
    refuse_many(path, "CH", table.texts("ch"))
    texts = {name: table.texts(name) for name in ("flag", "start", "stop")}
    epochs = next(iter(table.timing.values()), None)
    if epochs is None:
        raise file_error(path, "has no numbers in its column E. Expected Luna's table of one row per epoch.")
    return _placed(path, table.values, table.names, epochs, texts, table.lines)


def density_of_pops(where: Where, columns: Sequence[tuple[str, Any]], options: DensityOptions) -> RawDensity:
    """Posteriors of the columns of a frame that lunapi returned."""
    header = [name for name, _ in columns]
    places, names = choose_columns(where, header, options.stages or _posteriors(where, header))
    values = np.column_stack([numbers_of(where, *columns[place]) for place in places])
    by_name = {name.casefold(): cells for name, cells in columns}
    texts = {
        name: [str(cell) for cell in np.asarray(by_name[name]).tolist()] if name in by_name else None
        for name in ("flag", "start", "stop", "ch")
    }
    refuse_many(where, "CH", texts["ch"])
    return _placed(where, values, names, numbers_of(where, "E", by_name["e"]), texts, None)


def _posteriors(where: Where, header: Iterable[str]) -> tuple[str, ...]:
    """Columns to read: Luna may write PP_NR, the sum of three others, beside them."""
    names = {name.upper() for name in header}
    for columns in (FIVE, THREE):
        if names >= set(columns):
            return columns
    found = sorted(name for name in names if name.startswith("PP_"))
    has = f"the posteriors {listed(found)}" if found else "no posteriors of Luna"
    raise file_error(where, f"has {has}, expected {', '.join(FIVE)}, or {', '.join(THREE)}.")


def _placed(
    where: Where,
    values: Floats,
    names: tuple[str, ...],
    epochs: Floats,
    texts: Mapping[str, Sequence[str] | None],
    lines: Sequence[int] | None,
) -> RawDensity:
    """Put rows where their epochs are, counted from the recording's start."""
    odd = ~((epochs >= 1) & (epochs == np.rint(epochs)) & (epochs < 1e9))
    odd[1:] |= ~(np.diff(epochs) > 0)
    if odd.any():
        row = int(np.argmax(odd))
        raise file_error(
            where,
            f"{row_name(lines, row)}, column 'E': got {epochs[row]:.10g}, expected to count up from 1.",
        )
    places = epochs.astype(np.intp) - 1
    n_missing = int(places[-1]) + 1 - len(places)
    if n_missing > MOST_MISSING:
        raise file_error(where, f"leaves out {n_missing:,} epochs, expected at most {MOST_MISSING:,}.")
    notes = []
    if n_missing:
        notes.append(
            f"{n_missing:,} epoch{'s' * (n_missing != 1)} that Luna left out: read as without evidence"
        )
    excluded = _excluded(texts["flag"], len(values)) & ~np.isnan(values).all(axis=1)
    if excluded.any():
        values = np.where(excluded[:, None], np.nan, values)
        n_excluded = int(np.count_nonzero(excluded))
        notes.append(f"{n_excluded:,} with FLAG -1 (excluded): read as without evidence")
    return RawDensity(
        values,
        names,
        epoch_seconds=_seconds(texts["start"], texts["stop"]),
        notes=tuple(notes),
        lines=lines,
        places=places if n_missing else None,
        usual_seconds=USUAL_SECONDS,
        tool=TOOL,
    )


def _excluded(flags: Sequence[str] | None, n_rows: int) -> Mask:
    if flags is None:
        return np.zeros(n_rows, dtype=np.bool_)
    return np.array([flag.strip() in ("-1", "-1.0") for flag in flags], dtype=np.bool_)


def _seconds(starts: Sequence[str] | None, stops: Sequence[str] | None) -> float | None:
    """Epoch length by the first row's clock or seconds, where both are there."""
    if not starts or not stops:
        return None
    start, stop = _clock(starts[0]), _clock(stops[0])
    if start is None or stop is None:
        return None
    seconds = round((stop - start) % 86_400, 3)
    return seconds if seconds > 0 else None


def _clock(text: str) -> float | None:
    """Seconds of a number, or of a time of day."""
    try:
        return float(text)
    except ValueError:
        pass
    for layout in ("%H:%M:%S", "%H:%M:%S.%f", "%H.%M.%S"):
        try:
            moment = datetime.strptime(text, layout)
        except ValueError:
            continue
        return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
    return None


PREFIX = "PP_"
MOST_SAMPLES = 10_000_000  # of one channel: a night has one per 5 or 30 s
ROUNDING = 1e-3  # how far below 0 the 16 bits of a sample may put a probability


def read_luna_edf(path: Path, options: DensityOptions) -> RawDensity:
    """Posteriors of `RUN-POPS hypnodensity` or of POPS with posterior channels, one row per sample."""
    recording = read_edf_recording(path)
    channels = {
        name.upper(): signal
        for name, signal in recording.signals.items()
        if name.upper().startswith(PREFIX) and isinstance(signal, Signal)
    }
    if len(channels) < 2:
        raise file_error(
            path, f"has no channels of posteriors such as PP_W (got: {listed(list(recording.signals))})."
        )
    header = tuple(channels)
    places, names = choose_columns(path, header, options.stages, options.scheme)
    chosen = [channels[header[place]] for place in places]
    shapes = {(signal.n_samples, signal.rate_hz) for signal in chosen}
    if len(shapes) != 1:
        raise file_error(path, "has channels of posteriors of different lengths or sampling rates.")
    n_samples, rate_hz = shapes.pop()
    if n_samples > MOST_SAMPLES:
        raise file_error(path, f"has {n_samples:,} samples of posteriors, expected at most {MOST_SAMPLES:,}.")
    values = np.column_stack([signal.read(0, n_samples) for signal in chosen])
    values = np.where((values < 0) & (values >= -ROUNDING), 0.0, values)
    is_empty = (values == 0).all(axis=1)
    values[is_empty] = np.nan
    n_empty = int(np.count_nonzero(is_empty))
    note = f"{n_empty:,} rows of zeros: read as without evidence"
    return RawDensity(
        values,
        names,
        epoch_seconds=round(1 / rate_hz, 6),
        start=recording.start,
        notes=recording.notes + ((note,) if n_empty else ()),
    )


def _is_pops(head: bytes, path: Path) -> bool:
    return is_pops(tuple(header_cells(head)))


def _is_edf(head: bytes, path: Path) -> bool:
    """Whether this is an EDF file with channels of posteriors that Luna added."""
    if not head.startswith(b"0       ") or not head[252:256].strip().isdigit():
        return False
    n_signals = int(head[252:256])
    labels = {head[256 + 16 * i : 272 + 16 * i].strip().upper() for i in range(n_signals)}
    return {b"PP_W", b"PP_R"} <= labels


FORMATS = (
    FileFormat(
        "luna-pops",
        "Luna's POPS or SOAP table per epoch",
        (".txt", ".tsv", ".csv"),
        _is_pops,
        density=read_luna_pops,
        loses=(START, "excluded epochs at the end"),
    ),
    FileFormat(
        "luna-edf",
        "EDF with Luna's channels of posteriors",
        (".edf",),
        _is_edf,
        density=read_luna_edf,
        loses=("digits of probabilities behind 16 bits",),
    ),
)
