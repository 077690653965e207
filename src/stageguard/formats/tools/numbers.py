"""Text, tables and arrays of stage numbers, whose numbering the caller names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import Argument, Message
from stageguard.base.files import file_error
from stageguard.formats.file_format import STAGES_ALONE, FileFormat
from stageguard.formats.hypnogram import (
    NPY,
    NUMBERINGS,
    HypnogramOptions,
    Numbering,
    RawHypnogram,
    names_of,
    number_list,
    stage_column,
)
from stageguard.formats.sniffing import Sniff, integers, is_number_list, read_head
from stageguard.formats.tables.delimited import TextTable, as_number, first_filled, text_lines
from stageguard.formats.tables.row_times import Meaning
from stageguard.formats.tools.arrays import load_plain
from stageguard.formats.tools.text import find_table, from_table, words_of
from stageguard.formats.tools.visbrain import description


def read_numbers(path: Path, numbering: str, options: HypnogramOptions) -> RawHypnogram:
    """Stages of a file whose numbers are those of `NUMBERINGS[numbering]`."""
    codes_of, scheme = NUMBERINGS[numbering].codes, NUMBERINGS[numbering].scheme
    if options.format is None:  # numbers that fit one numbering only may still be of a tool unknown here
        raise file_error(
            path,
            Message(
                "holds numbers, and tools number stages differently. Say whose: ",
                Argument("format", f"numbers-{numbering}"),
                ".",
            ),
        )
    head = read_head(path)
    if head.startswith(NPY):
        return _from_array(path, NUMBERINGS[numbering])
    if is_number_list(head, path):
        stages = names_of(path, number_list(path), codes_of, what="epoch", first=0)
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
    stages = names_of(path, codes, codes_of, what="line", first=first + 1)
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
    names = names_of(path, codes, NUMBERINGS[numbering].codes, what="line", first=table.lines[0])
    rows = [(*row[:column], name, *row[column + 1 :]) for row, name in zip(table.rows, names, strict=True)]
    raw = from_table(path, replace(table, rows=rows), options, meanings)
    return replace(raw, scheme=NUMBERINGS[numbering].scheme)


def _from_array(path: Path, numbering: Numbering) -> RawHypnogram:
    values = load_plain(path)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iuf" or not len(values):
        raise file_error(
            path,
            f"holds {values.dtype} of shape {values.shape}, expected one number per epoch. Are these "
            "probabilities? Then use read_density.",
        )
    stages = names_of(path, values.tolist(), numbering.codes, what="epoch", first=0)
    return RawHypnogram(stages, tuple(range(len(stages))), scheme=numbering.scheme)


def _holds(codes: Collection[int]) -> Sniff:
    """Return the test for text with one of these numbers per line and no file that explains them."""

    def test(head: bytes, path: Path) -> bool:
        values = integers(head)
        return values is not None and values <= set(codes) and not description(path).is_file()

    return test


def _reader(numbering: str) -> Callable[[Path, HypnogramOptions], RawHypnogram]:
    return lambda path, options: read_numbers(path, numbering, options)


FORMATS = tuple(
    FileFormat(
        f"numbers-{name}",
        f"stage numbers of {numbering.whose}",
        (".txt", ".csv", ".npy"),
        _holds(numbering.codes),
        hypnogram=_reader(name),
        loses=STAGES_ALONE,
        stage_texts=words_of if name == "rk" else None,
        has_numbers=True,
    )
    for name, numbering in NUMBERINGS.items()
)
