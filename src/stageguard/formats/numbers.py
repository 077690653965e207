"""Read text, tables and arrays of stage numbers whose numbering the caller names. Guesses none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import Argument, Message
from stageguard.base.files import file_error, open_file
from stageguard.formats.hypnogram import NPY, HypnogramOptions, RawHypnogram, stage_column
from stageguard.formats.json_file import number_list
from stageguard.formats.sniffing import HEAD_BYTES
from stageguard.formats.stage_codes import NUMBERINGS, names_of
from stageguard.formats.stage_sniffing import is_dreem_json
from stageguard.formats.tables.delimited import TextTable, as_number, first_filled, text_lines
from stageguard.formats.tables.row_times import Meaning
from stageguard.formats.text import find_table, from_table
from stageguard.night.stages import AASM5, WNR3, StageScheme


def read_yasa_numbers(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """0 W, 1 N1, 2 N2, 3 N3, 4 REM: YASA, Dreem, Visbrain, GSSC."""
    return _read(path, "yasa", AASM5, options)


def read_rk_numbers(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """0 W, 1 to 4, 5 REM: Rechtschaffen and Kales, NSRR, Profusion, Elan, STAGES."""
    return _read(path, "rk", AASM5, options)


def read_usleep_numbers(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """0 W, 1 N1, 2 N2, 3 N3, 4 REM, 5 unknown: U-Time, U-Sleep."""
    return _read(path, "usleep", AASM5, options)


def read_sleepecg_numbers(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """0 undefined, 1 N3, 2 N2, 3 N1, 4 REM, 5 W: SleepECG."""
    return _read(path, "sleepecg", AASM5, options)


def read_accusleep_numbers(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """1 REM, 2 W, 3 NREM: AccuSleep."""
    return _read(path, "accusleep", WNR3, options)


def read_gssc_csv(path: Path, options: HypnogramOptions) -> RawHypnogram:
    """Stages of GSSC's CSV, with or without probabilities: 0 W, 1 N1, 2 N2, 3 N3, 4 REM."""
    return _read(path, "yasa", AASM5, replace(options, format="gssc-csv"))


def _read(path: Path, numbering: str, scheme: StageScheme, options: HypnogramOptions) -> RawHypnogram:
    if options.format is None:  # numbers that fit one numbering only may still be of a tool unknown here
        raise file_error(
            path,
            Message(
                "holds numbers, and tools number stages differently. Say whose: ",
                Argument("format", f"numbers-{numbering}"),
                ".",
            ),
        )
    with open_file(path, "a recording") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(NPY):
        return _from_array(path, numbering, scheme)
    if is_dreem_json(head, path):
        values = number_list(path)
        stages = names_of(path, values, NUMBERINGS[numbering], what="epoch", first=0)
        return RawHypnogram(stages, tuple(range(len(stages))), scheme=scheme)
    lines = text_lines(path)
    first, notes = _first(lines)
    if as_number(lines[first]) is None:
        table = find_table(path, lines)
        if table is None:
            raise file_error(
                path,
                f"line {first + 1} is {lines[first][:40]!r}, expected a number, or a column named stage.",
            )
        return read_numbered_table(path, table, numbering, options)
    codes = []
    for place, cell in enumerate(lines[first:], start=first + 1):
        code = np.nan if cell.strip().casefold() in MISSING_WORDS - {""} else as_number(cell)
        if code is None:
            raise file_error(path, f"line {place} is {cell[:40]!r}, expected a number of a stage.")
        codes.append(float(code))
    stages = names_of(path, codes, NUMBERINGS[numbering], what="line", first=first + 1)
    return RawHypnogram(stages, tuple(range(first + 1, len(lines) + 1)), scheme=scheme, notes=notes)


def _first(lines: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Return the place of the first number; a 0 may be the name that pandas gives a column without one."""
    first = first_filled(lines)
    rest = [line for line in lines[first + 1 :] if line.strip()]
    if lines[first].strip() != "0" or not rest:
        return first, ()
    if all("." in line for line in rest):
        return first + 1, (f"line {first + 1} is 0, the others have decimals: read as a header",)
    return first, (
        f"line {first + 1} is 0: read as an epoch. If it is a header, as pandas writes, remove it",
    )


def read_numbered_table(
    path: Path,
    table: TextTable,
    numbering: str,
    options: HypnogramOptions,
    meanings: Mapping[str, Meaning] | None = None,
) -> RawHypnogram:
    """Stages of a table whose column of stages holds numbers, and whose other columns say when they are."""
    column = stage_column(table.header)
    if column is None:
        return from_table(path, table, options)  # says what is missing
    codes = []
    for place, row in zip(table.lines, table.rows, strict=True):
        cell = row[column]
        code = np.nan if cell.strip().casefold() in MISSING_WORDS else as_number(cell)
        if code is None:
            raise file_error(path, f"line {place} is {cell[:40]!r}, expected a number of a stage.")
        codes.append(float(code))
    names = names_of(path, codes, NUMBERINGS[numbering], what="line", first=table.lines[0])
    rows = [(*row[:column], name, *row[column + 1 :]) for row, name in zip(table.rows, names, strict=True)]
    raw = from_table(path, replace(table, rows=rows), options, meanings)
    return replace(raw, scheme=scheme_of_numbering(numbering))


def scheme_of_numbering(numbering: str) -> StageScheme:
    """Return the scheme that numbers of a tool belong to."""
    return WNR3 if numbering == "accusleep" else AASM5


def _from_array(path: Path, numbering: str, scheme: StageScheme) -> RawHypnogram:
    from stageguard.formats.arrays import load_plain

    values = load_plain(path)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not len(values):
        raise file_error(
            path,
            f"holds {values.dtype} of shape {values.shape}, expected one number per epoch. Are these "
            "probabilities? Then use read_density.",
        )
    stages = names_of(path, values.tolist(), NUMBERINGS[numbering], what="epoch", first=0)
    return RawHypnogram(stages, tuple(range(len(stages))), scheme=scheme)
