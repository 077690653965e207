"""Tables of stage probabilities, one row per epoch, whose columns are matched by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import did_you_mean
from stageguard.base.files import file_error
from stageguard.formats.density import DensityOptions, RawDensity, Where, listed
from stageguard.formats.file_format import START, FileFormat
from stageguard.formats.sniffing import is_text
from stageguard.formats.tables.delimited import (
    DELIMITERS,
    HEADER_SEARCH_LINES,
    MOST_COLUMNS,
    TextTable,
    cell_error,
    first_filled,
    is_number,
    read_text,
    rows_below,
    split_line,
)
from stageguard.formats.tables.frame_columns import NAMELESS, IndexColumns, nameless_index
from stageguard.formats.tables.row_times import meaning_of, row_times, timing_of
from stageguard.formats.tables.several import is_night_column, refuse_many
from stageguard.night.stages import StageScheme, canonical_name

LONGEST_NAME = 80  # characters of a column that may be a stage
NAMED = re.compile(r"[B-DF-Zb-df-z]")  # a letter that no number has: only such a line may name stages
_DELIMITED = re.compile(r"[\t;,]")
_LOOKED_AT = 65_536  # characters in which a delimiter is looked for


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the table begins and which columns are stages."""

    delimiter: str
    header: tuple[str, ...]
    header_line: int  # -1 where there is none
    columns: tuple[int, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers of the stages, the cells they come from, and which columns say when rows are."""

    values: Floats
    names: tuple[str, ...]  # of the stages
    text: TextTable
    timing: Mapping[str, Floats] = field(default_factory=dict)  # numbers
    clocks: Mapping[str, Sequence[str]] = field(default_factory=dict)  # other texts
    nameless: int | None = None  # index of a column without a name, as pandas writes it
    notes: tuple[str, ...] = ()

    @property
    def lines(self) -> Sequence[int]:
        """Where each row stands."""
        return self.text.lines

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return the cells of a column, whatever the case of its name, or None where there is none."""
        names = [cell.casefold() for cell in self.text.header]
        return self.text.column(names.index(name)) if name in names else None

    def index(self, path: Path) -> IndexColumns:
        """Return what an index without a name says about time."""
        if self.nameless is None:
            return IndexColumns()
        return nameless_index(path, np.array(self.text.column(self.nameless), dtype=object))


def read_table(path: Path, options: DensityOptions, *, is_own: bool = False) -> RawDensity:
    """Probabilities from a delimited text file with one row per epoch.

    Columns are matched by stage name in any order and any known alias. Columns such as onset, time, duration
    and epoch say how long epochs are, which are missing and when the first is; other columns are ignored and
    listed. A row whose stage cells are all empty or NaN is an epoch without evidence. So are whole epochs
    before the first row, unless this package wrote the table.
    """
    table = load_table(path, options, expected=("stage",) if is_own else ())
    index = table.index(path)
    times = row_times(path, [*index.columns, *table.timing.items(), *table.clocks.items()], index.meanings)
    timing, start = timing_of(path, times, table.lines, given=options.epoch_seconds, fills_lead=not is_own)
    return RawDensity(
        table.values,
        table.names,
        epoch_seconds=timing.epoch_seconds,
        start=start,
        notes=table.notes + index.notes + timing.notes,
        lines=table.lines,
        epoch_source=timing.source,
        places=timing.places,
        offset_seconds=timing.offset_seconds,
        is_told=any(name.casefold() != "epoch" for name in times.unread),
    )


def load_table(
    path: Path, options: DensityOptions, epoch_column: str | None = None, expected: Sequence[str] = ()
) -> Table:
    """Numbers of a table; `epoch_column` alone tells when rows are; `expected` others need no remark."""
    text, is_spaced = _tabbed(read_text(path))
    if not text or text.isspace():
        raise file_error(path, "holds nothing but blank space. Expected a header such as W,N1,N2,N3,R.")
    lines = text.split("\n")
    _refuse_wide(path, lines[:HEADER_SEARCH_LINES])
    layout = _find_layout(path, lines[:HEADER_SEARCH_LINES], options.stages, options.scheme)
    cells = rows_below(path, lines, layout.header_line, layout.delimiter, layout.header)
    table = _with_timing(_numbered(cells, layout), layout, epoch_column, expected, is_spaced)
    for name in layout.header:
        if is_night_column(name):
            refuse_many(path, name, table.texts(name.casefold()))
    return table


def _numbered(cells: TextTable, layout: Layout) -> Table:
    """Return the numbers of the stages; a row has one for each of them, or for none."""
    columns = [cells.numbers(column) for column in layout.columns]
    values = np.column_stack([numbers for numbers, _ in columns])
    is_missing = np.isnan(values)
    is_partial = is_missing.any(axis=1) & ~is_missing.all(axis=1)
    if is_partial.any():
        row = int(np.argmax(is_partial))
        column = layout.columns[int(np.argmax(is_missing[row]))]
        raise file_error(
            cells.path,
            f"line {cells.lines[row]}, column {layout.header[column]!r}: no number, but other stages of this "
            "row have one. Fill it, or leave all stages of the row empty where there is no evidence.",
        )
    has_commas = any(commas for _, commas in columns)
    notes = ("decimal commas were read as points",) if has_commas else ()
    return Table(values, layout.names, cells, notes=notes)


@lru_cache(maxsize=4096)
def stage_of(cell: str) -> str | None:
    """Return the stage a column's name stands for, quickly for those that are numbers or text."""
    if not cell or len(cell) > LONGEST_NAME or cell[0] in "0123456789+-.":
        return None
    return canonical_name(cell)


def _find_layout(
    path: Path, lines: Sequence[str], stages: Sequence[str] | None, profile_scheme: StageScheme | None = None
) -> Layout:
    """Header line and delimiter: the pair under which most cells are stage names."""
    wanted = set() if stages is None else {stage.casefold() for stage in stages}
    profile_stages = set() if profile_scheme is None or stages is not None else set(profile_scheme.names)

    def n_stages(cells: Sequence[str]) -> int:
        if profile_stages and profile_stages <= set(cells):
            return len(profile_stages)
        return sum(stage_of(cell) is not None or cell.casefold() in wanted for cell in cells)

    best: tuple[int, str, int] = (1, "", -1)
    for number, line in enumerate(lines):
        if not wanted and not profile_stages and NAMED.search(line) is None:
            continue
        line = _uncommented(line)
        for delimiter in DELIMITERS:
            n_found = n_stages(split_line(line, delimiter)) if delimiter in line else 0
            if n_found > best[0]:
                best = (n_found, delimiter, number)
    if best[2] < 0:
        return _headerless_layout(path, lines, stages)
    header = split_line(_uncommented(lines[best[2]]), best[1])
    columns, names = choose_columns(path, header, stages, profile_scheme)
    return Layout(best[1], header, best[2], columns, names)


def choose_columns(
    path: Where,
    header: Sequence[str],
    stages: Sequence[str] | None,
    profile_scheme: StageScheme | None = None,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Places and names of the stages' columns: the caller's, a scheme's own, or all that are one."""
    if stages is None and profile_scheme is not None and set(profile_scheme.names) <= set(header):
        stages = profile_scheme.names
    if stages is not None:
        return tuple(_column_of(path, stage, header) for stage in stages), tuple(stages)
    columns = tuple(i for i, cell in enumerate(header) if stage_of(cell))
    _refuse_twins(path, header, columns)
    return columns, tuple(header[i] for i in columns)


def _with_timing(
    table: Table, layout: Layout, epoch_column: str | None, expected: Sequence[str], is_spaced: bool
) -> Table:
    """Add the columns that tell when rows are, and what is left out."""
    cells = table.text
    timing: dict[str, Floats] = {}
    clocks: dict[str, Sequence[str]] = {}
    nameless, taken = None, set(layout.columns)
    for column, name in enumerate(layout.header):
        if column in layout.columns:
            continue
        if epoch_column is None and name.casefold() in NAMELESS:
            nameless = column
            if not re.fullmatch(r"\d+|\D*", _first_cell(cells, column)):
                taken.add(column)
            continue
        tells = meaning_of(name) is not None if epoch_column is None else name.casefold() == epoch_column
        if name.casefold() in expected:
            taken.add(column)
        if not tells or name in timing or name in clocks:
            continue
        taken.add(column)
        first = _first_cell(cells, column)
        if is_number(first if layout.delimiter == "," else first.replace(",", ".")):
            timing[name] = _times(cells, column)
        else:
            clocks[name] = cells.column(column)
    ignored = [cell or "(unnamed)" for column, cell in enumerate(layout.header) if column not in taken]
    notes = (
        *layout.notes,
        *(("cells are separated by spaces",) if is_spaced else ()),
        *cells.notes,
        *((f"columns ignored: {listed(ignored)}",) if ignored else ()),
        *table.notes,
    )
    return Table(table.values, table.names, cells, timing, clocks, nameless, notes)


def _times(cells: TextTable, column: int) -> Floats:
    """Return the numbers of a column that says when a row is; none may be missing."""
    values, _ = cells.numbers(column)
    for row in np.flatnonzero(~np.isfinite(values))[:1].tolist():
        raise cell_error(
            cells.path, cells.lines[row], cells.header[column], "a number", cells.rows[row][column]
        )
    return values


def _first_cell(cells: TextTable, column: int) -> str:
    """Return the first cell of a column that says anything."""
    return next((row[column] for row in cells.rows if row[column].casefold() not in MISSING_WORDS), "")


def _refuse_wide(path: Path, lines: Sequence[str]) -> None:
    """Refuse a line with very many cells before they are split."""
    for number, line in enumerate(lines, start=1):
        widest = max(map(line.count, DELIMITERS)) + 1 if len(line) > MOST_COLUMNS else 0
        if widest > MOST_COLUMNS:
            raise file_error(
                path,
                f"line {number} has {widest:,} cells, expected at most {MOST_COLUMNS:,}: one row per "
                "epoch, one column per stage. Is it transposed?",
            )


def _headerless_layout(path: Path, lines: Sequence[str], stages: Sequence[str] | None) -> Layout:
    """Bare numbers are read only when the caller names every column."""
    first = first_filled(lines)
    lines = lines[first:]
    delimiter = max(DELIMITERS, key=lambda mark: len(split_line(lines[0], mark)))
    cells = split_line(lines[0], delimiter)
    counted = _n_counted(cells, [split_line(line, delimiter) for line in lines[1:]])
    if counted and stages is not None and len(stages) == counted:
        note = f"line {first + 1} numbers the columns: read as {listed(stages)}"
        columns = tuple(range(len(cells) - counted, len(cells)))
        header = (*cells[: len(cells) - counted], *stages)
        return Layout(delimiter, header, first, columns, tuple(stages), (note,))
    if not cells or not all(is_number(cell) for cell in cells):
        shown = ", ".join(cells[:8]) or lines[0][:40]
        raise file_error(
            path,
            f"line {first + 1} names no stages (got: {shown[:80]}). "
            "Expected a header with stage names such as W,N1,N2,N3,R.",
        )
    if stages is None or len(stages) != len(cells):
        raise file_error(
            path,
            f"has no header: line {first + 1} holds {len(cells)} number{'s' * (len(cells) != 1)}. Add a "
            "header with stage names such as W,N1,N2,N3,R, or name every column in order: "
            "--stages W,N1,N2,N3,R.",
        )
    names = tuple(stages)
    note = f"no header: columns read as {listed(names)}"
    return Layout(delimiter, names, first - 1, tuple(range(len(names))), names, (note,))


def _refuse_twins(path: Where, header: Sequence[str], columns: Sequence[int]) -> None:
    seen: dict[str | None, str] = {}
    for i in columns:
        stage = stage_of(header[i])
        if stage in seen:
            raise file_error(
                path,
                f"columns {seen[stage]!r} and {header[i]!r} both mean stage {stage}. "
                "Keep one, or say which columns to read with stages (--stages).",
            )
        seen[stage] = header[i]


def _column_of(path: Where, stage: str, header: Sequence[str]) -> int:
    """Column of a stage the caller named: by its exact name, then ignoring case, then by alias."""
    tests = (
        lambda cell: cell == stage,
        lambda cell: cell.casefold() == stage.casefold(),
        lambda cell: stage_of(cell) is not None and stage_of(cell) == stage_of(stage),
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


def _n_counted(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return how many columns a first line counts from 0, as pandas does without names; 0 where it does not.

    A nameless index may stand before them. Two columns may be a row of probabilities too, 0 and 1: then one
    of the rows below must hold something else than whole numbers.
    """
    counts = list(cells[1:] if cells and not cells[0] else cells)
    if len(counts) < 2 or counts != [str(place) for place in range(len(counts))]:
        return 0
    is_whole = all(re.fullmatch(r"\d*", cell) for row in rows for cell in row)
    return 0 if len(counts) == 2 and is_whole else len(counts)


def _uncommented(line: str) -> str:
    """Return a line without the mark of a comment, which NumPy puts before names of columns."""
    return line.lstrip("#").lstrip() if line.startswith("#") else line


def _tabbed(text: str) -> tuple[str, bool]:
    """Return a table whose cells are separated by spaces with tabs instead, and whether it was one.

    Only text without any other delimiter is one, if its first line names stages or holds numbers alone.
    """
    start = text[:_LOOKED_AT]
    if _DELIMITED.search(start) or " " not in start:
        return text, False
    lines = start.split("\n")
    heads = [_uncommented(line).split() for line in lines[:HEADER_SEARCH_LINES]]
    numbers = next((line.split() for line in lines if line.strip() and not line.startswith("#")), [])
    is_named = any(len(cells) > 1 and all(map(stage_of, cells)) for cells in heads)
    if len(numbers) < 2 or not (is_named or all(map(is_number, numbers))):
        return text, False
    return "\n".join("\t".join(line.split()) for line in text.split("\n")), True


FORMATS = (
    FileFormat(
        "csv",
        "a CSV or TSV table",
        (".csv", ".tsv", ".txt"),
        is_text,
        density=read_table,
        loses=(START,),
        is_general=True,
    ),
)
