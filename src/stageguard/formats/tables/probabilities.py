"""Tables of stage probabilities, one row per epoch, whose columns are matched by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stageguard.arrays import Floats
from stageguard.errors import did_you_mean
from stageguard.files import file_error
from stageguard.formats.density import listed
from stageguard.formats.file_format import START, FileFormat
from stageguard.formats.night import FileOptions, RawDensity, Where
from stageguard.formats.sniffing import is_text
from stageguard.formats.tables.delimited import (
    DELIMITERS,
    HEADER_SEARCH_LINES,
    MOST_COLUMNS,
    even_rows,
    first_filled,
    read_text,
    refuse_rows_above,
    rows_below,
    split_line,
)
from stageguard.formats.tables.table import NAMELESS, Table, is_number, refuse_several, row_name
from stageguard.formats.tables.times import RowTimes, meaning_of, nameless_index, read_timing, row_times
from stageguard.night.stages import canonical_name

LONGEST_NAME = 80  # most characters of a column name that may be a stage
NAMED = re.compile(r"[B-DF-Zb-df-z]")  # a letter that occurs in no number, so that the line may name stages
UNNAMED = "(unnamed)"
_DELIMITED = re.compile(r"[\t;,]")
_LOOKED_AT = 65_536  # characters that are searched for a delimiter


class StageColumns(NamedTuple):
    """Which columns of a table are stages, and the names of the stages."""

    places: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the table in a text begins, and which columns are stages."""

    delimiter: str
    header: tuple[str, ...]
    header_line: int  # -1 without a header
    stages: StageColumns
    notes: tuple[str, ...] = ()


def read_table(path: Path, options: FileOptions) -> RawDensity:
    """Return the probabilities in a delimited text file with one row per epoch; see `density_of_table`."""
    return density_of_table(*load_table(path, read_text(path), options), options)


def load_table(path: Path, text: str, options: FileOptions) -> tuple[Table, StageColumns]:
    """Return the table in a file's text, and its columns of stages."""
    text, is_spaced = _spaces_to_tabs(text)
    if not text or text.isspace():
        raise file_error(path, "holds nothing but blank space. Expected a header such as W,N1,N2,N3,R.")
    lines = text.split("\n", HEADER_SEARCH_LINES)  # the last item is all the rest
    layout = find_layout(path, lines[:HEADER_SEARCH_LINES], options)
    header = (layout.header_line, layout.delimiter, layout.header)
    below = "\n".join(lines[layout.header_line + 1 :])
    table = even_rows(path, below, *header) or rows_below(path, text.split("\n"), *header)
    notes = (*layout.notes, *(("cells are separated by spaces",) * is_spaced), *table.notes)
    return replace(table, notes=notes) if notes else table, layout.stages


def density_of_table(
    table: Table,
    stages: StageColumns,
    options: FileOptions,
    *,
    expected: Sequence[str] = (),
    fills_lead: bool = True,
) -> RawDensity:
    """Return the probabilities of a table's rows, timed by its other columns and its index.

    Columns such as onset, time, duration and epoch say how long epochs are, which are missing, and when the
    first begins. Other columns are ignored, with a remark unless `expected`. A row whose stage cells are all
    empty or NaN is an epoch without evidence. So are whole epochs before the first row if `fills_lead`.
    """
    where, lines = table.path, table.lines_of_file
    values, has_commas = stage_values(table, stages)
    times, ignored = other_columns(table, stages.places, expected)
    timing = read_timing(where, times, lines, given=options.epoch_seconds, fills_lead=fills_lead)
    notes = (
        *table.notes,
        *((f"columns ignored: {listed(ignored)}",) if ignored else ()),
        *(("decimal commas were read as points",) if has_commas else ()),
        *timing.notes,
    )
    return RawDensity(
        values,
        stages.names,
        epoch_seconds=timing.epoch_seconds,
        start=timing.start,
        notes=notes,
        lines=lines,
        epoch_source=timing.source,
        places=timing.places,
        offset_seconds=timing.offset_seconds,
        ignored=ignored,
    )


def other_columns(
    table: Table, known: Collection[int], expected: Collection[str] = ()
) -> tuple[RowTimes, tuple[str, ...]]:
    """Return when rows are, and the names of columns that are neither `known`, nor `expected`, nor times.

    A table of several nights is refused.
    """
    where, index = table.path, table.index
    if len(known) == len(table.header) and not index.columns:
        return RowTimes(notes=index.notes), ()
    refuse_several(table)
    timed, ignored = dict(index.columns), list[str]()
    for column, name in enumerate(table.header):
        if column in known:
            continue
        if name.casefold() in NAMELESS and not index.columns:  # as pandas writes its index
            index = nameless_index(where, np.array(table.column(column), dtype=object))
            timed |= dict(index.columns)
            if not index.columns:
                ignored.append(name or UNNAMED)
        elif meaning_of(name) is not None and name not in timed:
            timed[name] = table.times(column)
        elif name.casefold() not in expected:
            ignored.append(name)
    times = row_times(where, timed.items(), index.meanings, table.lines_of_file)
    return replace(times, notes=index.notes + times.notes), tuple(ignored)


def stage_values(table: Table, stages: StageColumns) -> tuple[Floats, bool]:
    """Return the numbers of the stages, and whether they had decimal commas; refuse incomplete rows."""
    columns = [table.numbers(column) for column in stages.places]
    values = np.column_stack([numbers for numbers, _ in columns])
    is_missing = np.isnan(values)
    is_partial = is_missing.any(axis=1) & ~is_missing.all(axis=1)
    if is_partial.any():
        row = int(np.argmax(is_partial))
        column = stages.places[int(np.argmax(is_missing[row]))]
        raise file_error(
            table.path,
            f"{row_name(table.lines_of_file, row)}, column {table.header[column]!r}: no number, but other "
            "stages of this row have one. Fill it, or leave all stages of the row empty where there is no "
            "evidence.",
        )
    return values, any(has_commas for _, has_commas in columns)


@lru_cache(maxsize=4096)
def stage_of(cell: str) -> str | None:
    """Return the stage that a column's name means, or None, quickly for numbers and long text."""
    if not cell or len(cell) > LONGEST_NAME or cell[0] in "0123456789+-.":
        return None
    return canonical_name(cell)


def find_layout(path: Path, lines: Sequence[str], options: FileOptions) -> Layout:
    """Return the layout with the header line and delimiter that make most cells stage names."""
    widest = max((line.count(mark) for line in lines for mark in DELIMITERS), default=0) + 1
    if widest > MOST_COLUMNS:
        problem = f"has {widest:,} columns, expected at most {MOST_COLUMNS:,}: one row per epoch."
        raise file_error(path, problem)
    wanted = {stage.casefold() for stage in options.stages or ()}
    profile_stages = {*options.scheme.names} if options.scheme and options.stages is None else set()

    def n_stages(cells: Sequence[str]) -> int:
        if profile_stages and profile_stages <= set(cells):
            return len(profile_stages)
        return sum(stage_of(cell) is not None or cell.casefold() in wanted for cell in cells)

    best: tuple[int, str, int] = (1, "", -1)
    for number, line in enumerate(lines):
        if not wanted and not profile_stages and NAMED.search(line) is None:
            continue
        line = _strip_comment(line)
        for delimiter in DELIMITERS:
            n_found = n_stages(split_line(line, delimiter)) if delimiter in line else 0
            if n_found > best[0]:
                best = (n_found, delimiter, number)
    if best[2] < 0:
        return _headerless_layout(path, lines, options.stages)
    header = split_line(_strip_comment(lines[best[2]]), best[1])
    stages = choose_columns(path, header, options)
    above = [split_line(line, best[1]) for line in lines[: best[2]]]
    is_row = [
        len(row) == len(header) and all(is_number(row[place]) for place in stages.places) for row in above
    ]
    refuse_rows_above(path, is_row)
    return Layout(best[1], header, best[2], stages)


def choose_columns(path: Where, header: Sequence[str], options: FileOptions) -> StageColumns:
    """Return the columns of stages: the caller's, the scheme's, or all that name a stage."""
    stages = options.stages
    if stages is None and options.scheme is not None and {*options.scheme.names} <= {*header}:
        stages = options.scheme.names
    if stages is not None:
        return StageColumns(tuple(_column_of(path, stage, header) for stage in stages), tuple(stages))
    by_stage: dict[str, int] = {}
    for column, name in enumerate(header):
        stage = stage_of(name)
        if stage is None:
            continue
        if stage in by_stage:
            raise file_error(
                path,
                f"columns {header[by_stage[stage]]!r} and {name!r} both mean stage {stage}. "
                "Keep one, or say which columns to read with stages (--stages).",
            )
        by_stage[stage] = column
    return StageColumns(tuple(by_stage.values()), tuple(header[column] for column in by_stage.values()))


def _headerless_layout(path: Path, lines: Sequence[str], stages: Sequence[str] | None) -> Layout:
    """Return the layout of bare numbers, which are read only if the caller names every column."""
    first = first_filled(lines)
    lines = lines[first:]
    delimiter = max(DELIMITERS, key=lambda mark: len(split_line(lines[0], mark)))
    cells = split_line(lines[0], delimiter)
    example = "a header with stage names such as W,N1,N2,N3,R"
    if not cells or not all(map(is_number, cells)):
        shown = ", ".join(cells[:8]) or lines[0][:40]
        raise file_error(path, f"line {first + 1} names no stages (got: {shown[:80]}). Expected {example}.")
    if stages is None or len(stages) != len(cells):
        found = f"line {first + 1} holds {len(cells)} number{'s' * (len(cells) != 1)}"
        expected = f"Add {example}, or name every column in order: --stages W,N1,N2,N3,R."
        raise file_error(path, f"has no header: {found}. {expected}")
    names = tuple(stages)
    note = f"no header: columns read as {listed(names)}"
    return Layout(delimiter, names, first - 1, StageColumns(tuple(range(len(names))), names), (note,))


def _column_of(path: Where, stage: str, header: Sequence[str]) -> int:
    """Return the column of a stage the caller named: by exact name, then ignoring case, then by alias."""
    meaning = stage_of(stage)
    tests = (
        lambda cell: cell == stage,
        lambda cell: cell.casefold() == stage.casefold(),
        lambda cell: meaning is not None and stage_of(cell) == meaning,
    )
    for test in tests:
        matches = [i for i, cell in enumerate(header) if test(cell)]
        if len(matches) > 1:
            raise file_error(path, f"{len(matches)} columns could be stage {stage!r}. Keep one.")
        if matches:
            return matches[0]
    raise file_error(
        path, f"has no column for stage {stage!r}. Columns: {listed(header)}.{did_you_mean(stage, header)}"
    )


def _strip_comment(line: str) -> str:
    """Return a line without the comment mark that NumPy puts before column names."""
    return line.lstrip("#").lstrip() if line.startswith("#") else line


def _spaces_to_tabs(text: str) -> tuple[str, bool]:
    """Replace spaces between cells by tabs, as NumPy writes them; return the text, and whether any was.

    This applies only to text without another delimiter in which a row holds only numbers or names of stages.
    """
    start = text[:_LOOKED_AT]
    rows = [_strip_comment(line).split() for line in start.split("\n", HEADER_SEARCH_LINES)[:-1]]
    is_table = any(len(row) > 1 and (all(map(stage_of, row)) or all(map(is_number, row))) for row in rows)
    if _DELIMITED.search(start) or not is_table:
        return text, False
    return "\n".join("\t".join(line.split()) for line in text.split("\n")), True


FORMATS = (
    FileFormat(
        "csv",
        "a CSV or TSV table",
        (".csv", ".tsv", ".txt"),
        is_text,
        probabilities=read_table,
        loses=(START,),
        is_general=True,
    ),
)
