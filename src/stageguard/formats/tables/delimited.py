"""Read CSV and TSV tables of stage probabilities by column name. Does not guess what unnamed columns mean."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.errors import did_you_mean
from stageguard.base.files import file_error, read_file
from stageguard.formats.density import DensityOptions, RawDensity, Where, listed
from stageguard.formats.tables.cells import (
    NO_EVIDENCE,
    Cells,
    careful_numbers,
    careful_times,
    empty_rows_note,
    find_cells,
    is_number,
    point,
    quick_numbers,
    rows_of,
)
from stageguard.formats.tables.decimals import PADDING
from stageguard.formats.tables.frame_columns import NAMELESS, IndexColumns, nameless_index
from stageguard.formats.tables.row_times import meaning_of, row_times, timing_of
from stageguard.formats.tables.several import is_night_column, refuse_many
from stageguard.night.stages import StageScheme, canonical_name

DELIMITERS = ("\t", ";", ",")
HEADER_SEARCH_LINES = 20
MOST_COLUMNS = 10_000
LONGEST_NAME = 80  # characters of a column that may be a stage
NAMED = re.compile(r"[B-DF-Zb-df-z]")  # a letter that no number has: only such a line may name stages


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the table begins and which columns are stages."""

    delimiter: str
    header: tuple[str, ...]
    first_line: int
    columns: tuple[int, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    timing: Mapping[str, int] = field(default_factory=dict)  # places of numbers that tell when rows are
    clocks: Mapping[str, int] = field(default_factory=dict)  # places of such columns that hold other texts
    nameless: int | None = None  # place of an index without a name, as pandas writes it


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers of the stages, what other columns say about time, and where it all stands."""

    values: Floats
    layout: Layout
    timing: Mapping[str, Floats]
    lines: Sequence[int]
    notes: tuple[str, ...]
    cells: Cells | None  # None where the table was read cell by cell
    body: bytes

    def texts(self, path: Path, name: str) -> list[str] | None:
        """Return the cells of a column, whatever the case of its name, or None where there is none."""
        names = [cell.casefold() for cell in self.layout.header]
        if name not in names:
            return None
        return self._column(path, names.index(name))

    def _column(self, path: Path, place: int) -> list[str]:
        if self.cells is not None:
            return self.cells.column(place)
        return [row[place].strip() for _, row in rows_of(path, self.body.decode(), self.layout)]

    def index(self, path: Path) -> IndexColumns:
        """Return what an index without a name says about time."""
        if self.layout.nameless is None:
            return IndexColumns()
        return nameless_index(path, np.array(self._column(path, self.layout.nameless), dtype=object))

    def clocks(self, path: Path) -> list[tuple[str, list[str]]]:
        """Return the columns that may tell a time of day or a date, with their cells."""
        return [(name, self._column(path, place)) for name, place in self.layout.clocks.items()]


def read_table(path: Path, options: DensityOptions, *, is_own: bool = False) -> RawDensity:
    """Probabilities from a delimited text file with one row per epoch.

    Columns are matched by stage name in any order and any known alias. Columns such as onset, time, duration
    and epoch say how long epochs are, which are missing and when the first is; other columns are ignored and
    listed. A row whose stage cells are all empty or NaN is an epoch without evidence. So are whole epochs
    before the first row, unless this package wrote the table.
    """
    table = load_table(path, options, expected=("stage",) if is_own else ())
    index = table.index(path)
    times = row_times(path, [*index.columns, *table.timing.items(), *table.clocks(path)], index.meanings)
    timing, start = timing_of(path, times, table.lines, given=options.epoch_seconds, fills_lead=not is_own)
    return RawDensity(
        table.values,
        table.layout.names,
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
    data, is_spaced = tabbed(read_bytes(path), stage_of)
    if not data or data.isspace():
        raise file_error(path, "holds nothing but blank space. Expected a header such as W,N1,N2,N3,R.")
    head = _first_lines(path, data)
    layout = _find_layout(path, head, options.stages, options.scheme)
    body, n_empty = without_empty_rows(_body(data, layout), layout.delimiter)
    spaced = ("cells are separated by spaces",) if is_spaced else ()
    layout = replace(layout, notes=layout.notes + spaced + empty_rows_note(n_empty))
    if not body:
        raise file_error(path, "has a header but no rows. Expected one row per epoch.")
    table = _read_cells(path, body, _with_timing(layout, body, epoch_column, expected))
    for name in layout.header:
        if is_night_column(name):
            refuse_many(path, name, table.texts(path, name.casefold()))
    return table


def _read_cells(path: Path, body: bytes, layout: Layout) -> Table:
    """All numbers in one go where the table is clean, else cell by cell, to say what is wrong."""
    plain = body if layout.delimiter == "," else body.replace(b",", b".")
    cells = find_cells(plain, layout)
    numbers = None if cells is None else quick_numbers(cells, (*layout.columns, *layout.timing.values()))
    if cells is not None and numbers is not None:
        n_stages = len(layout.columns)
        values, times = np.ascontiguousarray(numbers[:, :n_stages]), numbers[:, n_stages:]
        empty = np.isnan(values)
        is_partly = empty.any() and (empty.all(axis=1) != empty.any(axis=1)).any()
        if not is_partly and np.isfinite(times).all():
            has_comma = plain is not body and b"," in body and _has_comma(body, cells, layout)
            lines: Sequence[int] = range(layout.first_line + 1, layout.first_line + 1 + len(values))
            timing = dict(zip(layout.timing, times.T, strict=True))
            return Table(values, layout, timing, lines, _notes(layout, has_comma), cells, body)
    text = body.decode()
    values, lines, has_comma = careful_numbers(path, text, layout, layout.columns)
    times = careful_times(path, text, layout, tuple(layout.timing.values()))
    timing = dict(zip(layout.timing, times.T, strict=True))
    return Table(values, layout, timing, lines, _notes(layout, has_comma), None, body)


def _notes(layout: Layout, has_comma: bool) -> tuple[str, ...]:
    return layout.notes + (("decimal commas were read as points",) if has_comma else ())


def _has_comma(body: bytes, cells: Cells, layout: Layout) -> bool:
    """Whether a comma stands in a stage's cell."""
    commas = np.flatnonzero(np.frombuffer(body, dtype=np.uint8) == ord(",")) + PADDING
    places = np.searchsorted(cells.end.ravel(), commas) % len(layout.header)
    return bool(np.isin(places, layout.columns).any())


def read_text(path: Path) -> str:
    """Text of a file in UTF-8, with plain line ends; anything else is one line that names the file."""
    return read_bytes(path).decode()


def read_bytes(path: Path) -> bytes:
    """Return UTF-8 text of a file as it is, but with plain line ends and no byte order mark."""
    data = read_file(path, "text")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise file_error(path, "is UTF-16 text. Save it as UTF-8.")
    if b"\x00" in data:
        raise file_error(path, f"holds binary data (a NUL at byte {data.index(0)}), not a CSV or TSV table.")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise file_error(
                path, f"line {line} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
            ) from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def split_line(line: str, delimiter: str) -> tuple[str, ...]:
    """Cells of one line, without the space around them; none when the quotes do not match."""
    try:
        rows = list(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return ()
    return tuple(cell.strip() for cell in rows[0]) if rows else ()


def _first_lines(path: Path, data: bytes) -> list[str]:
    """Return the lines among which the header is; one with very many cells is refused."""
    lines: list[str] = []
    for raw in _lines(data):
        widest = max(map(raw.count, (b"\t", b";", b","))) + 1 if len(raw) > MOST_COLUMNS else 0
        if widest > MOST_COLUMNS:
            raise file_error(
                path,
                f"line {len(lines) + 1} has {widest:,} cells, expected at most {MOST_COLUMNS:,}: one row per "
                "epoch, one column per stage. Is it transposed?",
            )
        lines.append(raw.decode())
        if len(lines) == HEADER_SEARCH_LINES:
            break
    while lines and not lines[-1].strip(" "):
        lines.pop()
    return lines


def _lines(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        yield data[place:end]
        place = end + 1


def _body(data: bytes, layout: Layout) -> bytes:
    """Return the rows below the header, without blank lines at the end; empty cells are no blank line."""
    place = 0
    for _ in range(layout.first_line):
        found = data.find(b"\n", place)
        place = len(data) if found < 0 else found + 1
    blank = b" \n" if layout.delimiter == "\t" else b" \t\n"
    tail = data[max(place, len(data) - 4096) :]
    if not tail.rstrip(blank):
        tail = data[place:]
    filled = tail.rstrip(blank)
    end = tail.find(b"\n", len(filled))  # what stands behind the last cell belongs to its row
    n_dropped = 0 if end < 0 else len(tail) - end
    return data[place : len(data) - n_dropped] if filled else b""


@lru_cache(maxsize=4096)
def stage_of(cell: str) -> str | None:
    """Return the stage a column's name stands for, quickly for those that are numbers or text."""
    if not cell or len(cell) > LONGEST_NAME or cell[0] in "0123456789+-.":
        return None
    return canonical_name(cell)


def _find_layout(
    path: Path, lines: Sequence[str], stages: Sequence[str] | None, own: StageScheme | None = None
) -> Layout:
    """Header line and delimiter: the pair under which most cells are stage names."""
    wanted = set() if stages is None else {stage.casefold() for stage in stages}
    own_names = set() if own is None or stages is not None else set(own.names)

    def n_stages(cells: Sequence[str]) -> int:
        if own_names and own_names <= set(cells):
            return len(own_names)
        return sum(stage_of(cell) is not None or cell.casefold() in wanted for cell in cells)

    best: tuple[int, str, int] = (1, "", -1)
    for number, line in enumerate(lines[:HEADER_SEARCH_LINES]):
        if not wanted and not own_names and NAMED.search(line) is None:
            continue
        line = uncommented(line)
        for delimiter in DELIMITERS:
            n_found = n_stages(split_line(line, delimiter)) if delimiter in line else 0
            if n_found > best[0]:
                best = (n_found, delimiter, number)
    if best[2] < 0:
        return _headerless_layout(path, lines, stages)
    header = split_line(uncommented(lines[best[2]]), best[1])
    columns, names = choose_columns(path, header, stages, own)
    return Layout(best[1], header, best[2] + 1, columns, names, ())


def choose_columns(
    path: Where, header: Sequence[str], stages: Sequence[str] | None, own: StageScheme | None = None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Places and names of the stages' columns: the caller's, a scheme's own, or all that are one."""
    if stages is None and own is not None and set(own.names) <= set(header):
        stages = own.names
    if stages is not None:
        return tuple(_column_of(path, stage, header) for stage in stages), tuple(stages)
    columns = tuple(i for i, cell in enumerate(header) if stage_of(cell))
    _refuse_twins(path, header, columns)
    return columns, tuple(header[i] for i in columns)


def _with_timing(
    layout: Layout, body: bytes, epoch_column: str | None, expected: Sequence[str] = ()
) -> Layout:
    """Add the places of columns that tell when rows are, and what is left out."""
    timing: dict[str, int] = {}
    clocks: dict[str, int] = {}
    nameless = None
    for place, name in enumerate(layout.header):
        if epoch_column is None and name.casefold() in NAMELESS and place not in layout.columns:
            nameless = place
            continue
        told = meaning_of(name) is not None if epoch_column is None else name.casefold() == epoch_column
        if not told or place in layout.columns or name in timing or name in clocks:
            continue
        cell = _first_cell(layout, body, place)
        is_plain = is_number(point(cell, layout.delimiter)) and cell.casefold() not in NO_EVIDENCE
        (timing if is_plain else clocks)[name] = place
    taken = {*layout.columns, *timing.values(), *clocks.values()}
    if nameless is not None and not re.fullmatch(r"\d+|\D*", _first_cell(layout, body, nameless)):
        taken.add(nameless)
    taken |= {place for place, name in enumerate(layout.header) if name.casefold() in expected}
    ignored = [cell or "(unnamed)" for i, cell in enumerate(layout.header) if i not in taken]
    notes = (f"columns ignored: {listed(ignored)}",) if ignored else ()
    return replace(layout, notes=(*layout.notes, *notes), timing=timing, clocks=clocks, nameless=nameless)


def _first_cell(layout: Layout, body: bytes, place: int) -> str:
    """Return the first cell of a column that says anything."""
    for line in _lines(body):
        row = split_line(line.decode(), layout.delimiter)
        if place < len(row) and row[place].casefold() not in NO_EVIDENCE:
            return row[place]
    return ""


def _headerless_layout(path: Path, lines: Sequence[str], stages: Sequence[str] | None) -> Layout:
    """Bare numbers are read only when the caller names every column."""
    first = next((place for place, line in enumerate(lines) if line.strip() and line[0] != "#"), 0)
    lines = lines[first:]
    delimiter = max(DELIMITERS, key=lambda mark: len(split_line(lines[0], mark)))
    cells = split_line(lines[0], delimiter)
    counted = n_counted(cells, [split_line(line, delimiter) for line in lines[1:]])
    if counted and stages is not None and len(stages) == counted:
        note = f"line {first + 1} numbers the columns: read as {listed(stages)}"
        columns = tuple(range(len(cells) - counted, len(cells)))
        header = (*cells[: len(cells) - counted], *stages)
        return Layout(delimiter, header, first + 1, columns, tuple(stages), (note,))
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
    return Layout(delimiter, names, first, tuple(range(len(names))), names, (note,))


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
        found = [i for i, cell in enumerate(header) if test(cell)]
        if len(found) > 1:
            raise file_error(path, f"{len(found)} columns could be stage {stage!r}. Keep one.")
        if found:
            return found[0]
    raise file_error(
        path, f"has no column for stage {stage!r}. Columns: {listed(header)}.{did_you_mean(stage, header)}"
    )


_DELIMITED = re.compile(rb"[\t;,]")
_LOOKED_AT = 65_536  # bytes in which a delimiter is looked for


def n_counted(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return how many columns a first line counts from 0, as pandas does without names; 0 where it does not.

    A nameless index may stand before them. Two columns may be a row of probabilities too, 0 and 1: then one
    of the rows below must hold something else than whole numbers.
    """
    counts = list(cells[1:] if cells and not cells[0] else cells)
    if len(counts) < 2 or counts != [str(place) for place in range(len(counts))]:
        return 0
    is_whole = all(re.fullmatch(r"\d*", cell) for row in rows for cell in row)
    return 0 if len(counts) == 2 and is_whole else len(counts)


def uncommented(line: str) -> str:
    """Return a line without the mark of a comment, which NumPy puts before names of columns."""
    return line.lstrip("#").lstrip() if line.startswith("#") else line


def tabbed(data: bytes, stage_of: Callable[[str], str | None]) -> tuple[bytes, bool]:
    """Return a table whose cells are separated by spaces with tabs instead, and whether it was one.

    Only text without any other delimiter is one, if its first line names stages or holds numbers alone.
    """
    if _DELIMITED.search(data, 0, _LOOKED_AT) or b" " not in data[:_LOOKED_AT]:
        return data, False
    lines = data[:_LOOKED_AT].decode(errors="replace").split("\n")
    heads = [uncommented(line).split() for line in lines[:20]]
    numbers = next((line.split() for line in lines if line.strip() and not line.startswith("#")), [])
    is_named = any(len(cells) > 1 and all(map(stage_of, cells)) for cells in heads)
    if len(numbers) < 2 or not (is_named or all(map(_is_number, numbers))):
        return data, False
    rows = (b"\t".join(line.split()) for line in data.split(b"\n"))
    return b"\n".join(rows), True


def without_empty_rows(body: bytes, delimiter: str) -> tuple[bytes, int]:
    """Return rows without those at the end whose cells are all empty, and how many these were."""
    blank = f" \t{delimiter}".encode()
    end, n_rows = len(body), 0
    while (begin := body.rfind(b"\n", 0, end)) >= 0 and not body[begin + 1 : end].strip(blank):
        end, n_rows = begin, n_rows + 1
    if not body[:end].strip(blank + b"\n"):
        return body, 0
    return body[:end], n_rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
