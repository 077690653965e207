"""A cohort in one table of delimited text, read a block of rows at a time by the process that sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, count, islice
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.files import file_error, file_sha256, open_text
from stageguard.formats.cohort_nights import (
    ID,
    Chunk,
    IdOrder,
    NightReader,
    TableNight,
    id_column,
    joined,
    refuse_decoded,
    same_kind,
)
from stageguard.formats.raw_night import FileOptions, RawDensity
from stageguard.formats.tables.delimited import (
    DELIMITERS,
    HEADER_SEARCH_LINES,
    check_widths,
    split_line,
    split_rows,
)
from stageguard.formats.tables.probabilities import Layout, density_of_table, find_layout
from stageguard.formats.tables.table import Cells, Table

BLOCK_ROWS = 2**16  # rows read at a time: about 3 MB for five stages

# a block of rows: each night that begins in it with its first row, and the columns
RowBlock = tuple[Sequence[tuple[str, int]], Sequence[Cells]]


@dataclass(frozen=True, slots=True)
class TextChunk(Chunk):
    """The rows of some nights."""

    reader: NightReader
    ids: Sequence[str]
    bounds: Sequence[int]  # the first row of each night, and the end
    columns: Sequence[Cells]
    first: TableNight | None = None  # of the table, without its probabilities


@dataclass(frozen=True, slots=True)
class TextCohort:
    """A table of delimited text with a column of ids."""

    path: Path
    options: FileOptions

    def describe(self) -> dict[str, Any]:
        """Return name, size and hash of the file."""
        sha256 = file_sha256(self.path)
        return {"file": self.path.name, "bytes": self.path.stat().st_size, "sha256": sha256}

    def knowing_its_first(self) -> TextCohort:
        """Return the table itself: its chunks know."""
        return self

    def reading(self) -> Callable[[TextChunk], Iterator[TableNight]]:
        """Return what yields the nights of a chunk."""
        return self._nights

    def _nights(self, chunk: TextChunk) -> Iterator[TableNight]:
        for name, begin, end in zip(chunk.ids, chunk.bounds, chunk.bounds[1:], strict=False):
            columns = [column[begin:end] for column in chunk.columns]
            yield same_kind(chunk.reader.night(name, columns, self.path.name), chunk.first)

    def chunks(self) -> Iterator[TextChunk]:
        """Yield the blocks of the table as chunks; from the first readable night on, they know it."""
        chunks = self._chunks()
        if self.options.logits or self.options.log:
            yield from chunks
            return
        first: TableNight | None = None
        for chunk in chunks:
            if first is None:
                first = next((night for night in self._nights(chunk) if night.density is not None), None)
                first = first and replace(first, density=None)
            yield replace(chunk, first=first)

    def _chunks(self) -> Iterator[TextChunk]:
        path = self.path
        try:
            with open_text(path, encoding="utf-8-sig") as file:
                lines = (line.rstrip("\r\n") for line in file)
                head = list(islice(lines, HEADER_SEARCH_LINES))
                if not any(line.strip() for line in head):
                    raise file_error(path, f"is empty. Expected a header such as {ID},W,N1,N2,N3,R.")
                for delimiter in DELIMITERS:
                    refuse_decoded(path, split_line(head[0], delimiter))
                layout = find_layout(path, head, self.options)
                column = id_column(path, layout.header)
                density = partial(_density, path, layout, self.options)
                reader = NightReader(path, self.options, density)
                yield from _whole_nights(reader, _blocks(path, layout, column, head, lines))
        except UnicodeDecodeError as error:
            raise file_error(path, f"is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None


def _whole_nights(reader: NightReader, blocks: Iterator[RowBlock]) -> Iterator[TextChunk]:
    """Yield the nights of blocks of rows; the last night of a block may go on in the next one."""
    ids, n_rows, numbers = IdOrder(reader.path), 0, count()
    last, rest = "", list[Cells]()  # the night that may go on, and its rows so far
    for begins, columns in blocks:
        names, starts, n_before = list[str](), list[int](), 0
        if rest:
            names, starts, n_before = [last], [0], len(rest[0])
            columns = list(map(joined, rest, columns))
        for name, row in begins:
            if row == 0 and name == last and rest:
                continue
            ids.check(name, n_rows + row + 1)
            ids.check_blanks(name)
            ids.finished.update(names[-1:])
            names.append(name)
            starts.append(n_before + row)
        for name, first, end in zip(names, starts, [*starts[1:], len(columns[0])], strict=True):
            ids.check_length(name, end - first)
        last, rest = names[-1], [column[starts[-1] :] for column in columns]
        if names[:-1]:
            whole = [column[: starts[-1]] for column in columns]
            yield TextChunk(next(numbers), "", reader, names[:-1], starts, whole)
        n_rows += len(columns[0]) - n_before
    if not rest:
        raise file_error(reader.path, "has a header but no rows. Expected one row per epoch.")
    yield TextChunk(next(numbers), "", reader, [last], [0, len(rest[0])], rest)


def _density(path: Path, layout: Layout, options: FileOptions, columns: Sequence[Cells]) -> RawDensity:
    """Return the probabilities of rows whose last column is their lines in the file."""
    *cells, lines = columns
    table = Table(path, layout.header, cells, list(map(int, lines)), layout.delimiter, layout.notes)
    return density_of_table(table, layout.stages, options, expected=(ID,))


def _blocks(
    path: Path, layout: Layout, id_place: int, head: list[str], lines: Iterator[str]
) -> Iterator[RowBlock]:
    """Yield blocks of rows, with the line of each row as a last column."""
    number = layout.header_line + 2  # of the next line, counted from 1
    waiting = head[layout.header_line + 1 :]
    while waiting:
        more = list(islice(lines, BLOCK_ROWS))
        block = [*waiting, *more]
        while more and sum(line.count('"') for line in block) % 2:  # a cell continues in the next line
            more = list(islice(lines, 1))
            block += more
        rows, begins = split_rows(
            path, block, layout.delimiter, range(number, number + len(block)), exact=id_place
        )
        number += len(block)
        is_filled = list(map(any, rows))
        rows, begins = list(compress(rows, is_filled)), list(compress(begins, is_filled))
        expected = f"the header has {len(layout.header)}. Every row needs one cell per column."
        check_widths(path, rows, begins, len(layout.header), expected)
        if rows:
            columns = [[row[place] for row in rows] for place in range(len(layout.header))]
            ids = columns[id_place]
            changes = [0, *(row for row in range(1, len(ids)) if ids[row] != ids[row - 1])]
            yield [(ids[row], row) for row in changes], [*columns, np.array(begins)]
        waiting = list(islice(lines, 1))
