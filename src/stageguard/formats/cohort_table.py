"""A cohort as one table: the rows of many nights one after the other, named by the column `id`.

Parquet and delimited text are read a block of rows at a time, and decoded nights are written in parts that
are joined at the end, so that memory does not grow with the number of nights.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from stageguard.base.arrays import SUM_TOLERANCE
from stageguard.base.checks import MISSING_WORDS
from stageguard.base.errors import FileFormatError, Message, StageGuardError, error_message
from stageguard.base.files import checked_file, file_error, open_file, open_text, read_file, write_cell
from stageguard.formats.density import MOST_EPOCHS, build_density, listed
from stageguard.formats.outputs import column_meanings, table_columns
from stageguard.formats.raw_night import FileOptions, RawDensity
from stageguard.formats.sniffing import first_cells, first_lines, read_head
from stageguard.formats.tables.delimited import (
    DELIMITERS,
    HEADER_SEARCH_LINES,
    check_widths,
    split_line,
    split_rows,
)
from stageguard.formats.tables.frames import array_table, density_of_frame
from stageguard.formats.tables.one_night import is_night_column
from stageguard.formats.tables.probabilities import (
    Layout,
    choose_columns,
    density_of_table,
    find_layout,
)
from stageguard.formats.tables.row_times import meaning_of
from stageguard.formats.tables.table import Cells, Table, cell_text
from stageguard.formats.tools.parquet import (
    open_parquet,
    pyarrow_modules,
    refuse_large_groups,
    unpacked_texts,
)
from stageguard.night.hypnodensity import Hypnodensity

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

ID = "id"
BLOCK_ROWS = 2**16  # rows read at a time: about 3 MB for five stages
PARQUET_SUFFIXES = (".parquet", ".pq")
TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TABLE_SUFFIXES = (*PARQUET_SUFFIXES, *TEXT_DELIMITERS)
OWN_COLUMNS = ("onset", "duration", "stage", "label", "argmax_stage", "changed", "filled", "probability")

CellRow = list[str]


@dataclass(frozen=True, slots=True)
class TableNight:
    """A night of a cohort's table, or why it cannot be read."""

    id: str
    density: Hypnodensity | None = None
    notes: tuple[str, ...] = ()
    error: Message | None = None
    has_negative: bool = False  # then its numbers were read as logits or log-probabilities


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Nights whose rows are read together; `nights` makes them, in any process."""

    ids: tuple[str, ...]
    nights: Callable[[], list[TableNight]]  # can be sent to another process


@dataclass(slots=True)
class IdOrder:
    """The ids seen so far, to check that the rows of a night are together."""

    path: Path
    finished: set[str] = field(default_factory=set)

    def check(self, name: str, row: int) -> None:
        """Refuse a row without an id, and an id that occurs again after other nights; rows count from 1."""
        if name.strip().casefold() in MISSING_WORDS:
            raise file_error(
                self.path,
                f"row {row:,} has no {ID}, expected the name of its night in every row. Are cells merged? "
                "Fill them down.",
            )
        if name in self.finished:
            raise file_error(
                self.path,
                f"night {name[:40]!r} begins again at row {row:,}, after other nights. Expected the rows of "
                f"a night together: sort the table by {ID} first, and by time within it.",
            )

    def check_blanks(self, name: str) -> None:
        """Refuse an id that begins or ends with a space, which may split a night in two without notice."""
        if name != name.strip():
            raise file_error(
                self.path, f"the {ID} {name[:40]!r} has a blank at an end, expected none. Remove it."
            )

    def check_length(self, name: str, n_rows: int) -> None:
        """Refuse a night that is impossibly long, before it fills the memory."""
        if n_rows > MOST_EPOCHS:
            raise file_error(
                self.path,
                f"night {name[:40]!r} has more than {MOST_EPOCHS:,} rows, expected the {ID} of one night. "
                "Are several nights under one id?",
            )


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet by its content."""
    return read_head(path).startswith(b"PAR1")


def has_ids(path: Path) -> bool:
    """Whether a table has a column of ids, and so many nights; a Parquet table always counts as one."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return True
    if path.suffix.lower() not in TEXT_DELIMITERS or not path.is_file():
        return False
    return any(ID in first_cells(line) for line in first_lines(read_head(path))[:HEADER_SEARCH_LINES])


def read_nights(path: Path, options: FileOptions) -> Iterator[TableBlock]:
    """Yield the nights of a cohort's table, a block of rows at a time.

    A night with wrong rows has an error instead of probabilities. A fault of the table itself, such as a row
    without an id, raises FileFormatError.
    """
    blocks = _parquet_nights(path, options) if is_parquet(path) else _text_nights(path, options)
    return blocks if options.logits or options.log else _of_one_kind(path, blocks)


def _of_one_kind(path: Path, blocks: Iterator[TableBlock]) -> Iterator[TableBlock]:
    """Refuse nights whose numbers are of another kind than the first's, since one stager wrote the table."""
    first: TableNight | None = None
    for block in blocks:
        if first is None:
            nights = block.nights()
            first = next((night for night in nights if night.density is not None), None)
            block = TableBlock(block.ids, partial(list, nights))
        if first is not None:
            first = replace(first, density=None)
            block = TableBlock(block.ids, partial(_all_of_one_kind, path, block.nights, first))
        yield block


def _all_of_one_kind(path: Path, make: Callable[[], list[TableNight]], first: TableNight) -> list[TableNight]:
    return [_same_kind(path, night, first) for night in make()]


def _same_kind(path: Path, night: TableNight, first: TableNight) -> TableNight:
    if night.density is None or night.has_negative == first.has_negative:
        return night
    kinds = {True: "numbers below 0, as logits have", False: "probabilities"}
    problem = Message(
        f"{path.name}, night {night.id[:40]}: holds {kinds[night.has_negative]}, and night {first.id[:40]} "
        f"{kinds[first.has_negative]}. Expected the same in every night: write all of them as probabilities."
    )
    return TableNight(night.id, error=problem)


def id_column(path: Path, header: Sequence[str]) -> int:
    """Return the index of the column of ids; refuse a table without one or with two."""
    _refuse_decoded(path, header)
    columns = [column for column, name in enumerate(header) if name.strip().casefold() == ID]
    if len(columns) == 1:
        return columns[0]
    if columns:
        raise file_error(path, f"has {len(columns)} columns {ID!r}, expected one. Keep one of them.")
    others = [name for name in header if is_night_column(name)]
    rename = f" Rename {others[0]!r} to it, if that names the nights." if others else ""
    raise file_error(
        path,
        f"has no column {ID!r} that names the night of each row. Columns: {listed(header)}.{rename} "
        "If it is one night, name a folder for the output, or a .tsv.",
    )


def _refuse_decoded(path: Path, header: Sequence[str]) -> None:
    if {*OWN_COLUMNS} <= {*header}:
        raise file_error(
            path, "is an output of decode, expected the stager's probabilities. Name the table it came from."
        )


# a block of rows: each night that begins in it with its first row, and the columns
RowBlock = tuple[Sequence[tuple[str, int]], Sequence[Cells]]


@dataclass(frozen=True, slots=True)
class _NightReader:
    """How nights are read from columns of rows, in any process."""

    path: Path
    options: FileOptions
    density: Callable[[Sequence[Cells]], RawDensity]  # can be sent to another process
    remarks: tuple[str, ...] = ()

    def blocks(self, blocks: Iterator[RowBlock]) -> Iterator[TableBlock]:
        """Yield the nights of blocks of rows; the last night of a block may go on in the next one."""
        ids, n_rows = IdOrder(self.path), 0
        last, rest = "", list[Cells]()  # the night that may go on, and its rows so far
        for begins, columns in blocks:
            names, starts, n_before = list[str](), list[int](), 0
            if rest:
                names, starts, n_before = [last], [0], len(rest[0])
                columns = list(map(_joined, rest, columns))
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
            yield self._block(names[:-1], starts, [column[: starts[-1]] for column in columns])
            n_rows += len(columns[0]) - n_before
        if not rest:
            raise file_error(self.path, "has a header but no rows. Expected one row per epoch.")
        yield self._block([last], [0, len(rest[0])], rest)

    def _block(self, ids: Sequence[str], bounds: Sequence[int], columns: Sequence[Cells]) -> TableBlock:
        return TableBlock(tuple(ids), partial(self._nights, ids, bounds, columns))

    def _nights(
        self, ids: Sequence[str], bounds: Sequence[int], columns: Sequence[Cells]
    ) -> list[TableNight]:
        nights = zip(ids, bounds, bounds[1:], strict=False)
        return [self._night(name, [column[begin:end] for column in columns]) for name, begin, end in nights]

    def _night(self, name: str, columns: Sequence[Cells]) -> TableNight:
        """Return the night in these rows, or its error."""
        try:
            raw = self.density(columns)
            density = build_density(self.path, raw, self.options)
        except FileFormatError as error:
            where = f"{self.path.name}, night {name[:40]}: "
            return TableNight(name, error=Message(where, error.reason or error))
        except StageGuardError as error:
            return TableNight(name, error=error_message(error))
        values = np.asarray(raw.values)
        has_negative = values.dtype.kind in "fiu" and bool((values < -SUM_TOLERANCE).any())
        return TableNight(name, density.density, density.notes + self.remarks, has_negative=has_negative)


def _joined(before: Cells, after: Cells) -> Cells:
    return np.concatenate((before, after)) if isinstance(before, np.ndarray) else [*before, *after]


# Parquet


def _parquet_nights(path: Path, options: FileOptions) -> Iterator[TableBlock]:
    arrow, parquet = pyarrow_modules(path, "reading")
    try:
        checked_path = checked_file(path, "a recording")
        with parquet.ParquetFile(checked_path, memory_map=True) as file:
            header = tuple(file.schema_arrow.names)
            refuse_large_groups(path, file.metadata)
        id_name = header[id_column(path, header)]
        stages = choose_columns(path, header, options).places
        if len(stages) < 2:
            raise file_error(
                path, f"names no stages (got: {listed(header)}). Expected columns such as W, N1, N2, N3, R."
            )
        wanted = [
            name for column, name in enumerate(header)
            if name != id_name and (column in stages or meaning_of(name) is not None or is_night_column(name))
        ]  # fmt: skip
        ignored = [name for name in header if name not in wanted and name != id_name]
        remarks = (f"columns ignored: {listed(ignored)}",) if ignored else ()
        reader = _NightReader(path, options, partial(_array_density, path, wanted, options), remarks)
        with open_parquet(parquet, path, "a recording", memory_map=True) as file:
            yield from reader.blocks(_parquet_blocks(path, arrow, file, id_name, wanted))
    except StageGuardError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise file_error(path, f"is damaged or cut short ({reason}). Save it again.") from None


def _array_density(
    path: Path, header: Sequence[str], options: FileOptions, columns: Sequence[Cells]
) -> RawDensity:
    return density_of_frame(array_table(path, list(zip(header, columns, strict=True))), options)


def _parquet_blocks(path: Path, arrow: Any, file: Any, id_name: str, wanted: list[str]) -> Iterator[RowBlock]:
    """Yield blocks of rows, each from one or more row groups."""

    def block() -> RowBlock:
        (batch,) = arrow.Table.from_batches(waiting).unify_dictionaries().combine_chunks().to_batches()
        texts = unpacked_texts(path, batch.select(wanted))
        columns = [column.to_numpy(zero_copy_only=False) for column in texts.columns]
        return _id_runs(batch.column(id_name)), columns

    waiting, n_rows = list[Any](), 0
    for batch in file.iter_batches(batch_size=BLOCK_ROWS, columns=[id_name, *wanted], use_threads=False):
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows > BLOCK_ROWS // 2:
            yield block()
            waiting, n_rows = [], 0
    if n_rows:
        yield block()


def _id_runs(column: Any) -> list[tuple[str, int]]:
    """Return the name of each night in a column of ids, and the row at which it begins; or a missing id."""
    if column.null_count:
        return [("", int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))))]
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()]
    return [(cell_text(encoded.dictionary[int(codes[start])].as_py()), start) for start in starts]


# delimited text


def _text_nights(path: Path, options: FileOptions) -> Iterator[TableBlock]:
    try:
        with open_text(path, "a recording", encoding="utf-8-sig") as file:
            lines = (line.rstrip("\r\n") for line in file)
            head = list(islice(lines, HEADER_SEARCH_LINES))
            if not any(line.strip() for line in head):
                raise file_error(path, f"is empty. Expected a header such as {ID},W,N1,N2,N3,R.")
            for delimiter in DELIMITERS:
                _refuse_decoded(path, split_line(head[0], delimiter))
            layout = find_layout(path, head, options)
            column = id_column(path, layout.header)
            reader = _NightReader(path, options, partial(_text_density, path, layout, options))
            yield from reader.blocks(_text_blocks(path, layout, column, head, lines))
    except UnicodeDecodeError as error:
        raise file_error(path, f"is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None


def _text_density(path: Path, layout: Layout, options: FileOptions, columns: Sequence[Cells]) -> RawDensity:
    """Return the probabilities of rows whose last column is their lines in the file."""
    *cells, lines = columns
    table = Table(path, layout.header, cells, list(map(int, lines)), layout.delimiter, layout.notes)
    return density_of_table(table, layout.stages, options, expected=(ID,))


def _text_blocks(
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


# decoded nights

ID_MEANING = {"Description": "Name of the night, as the input has it"}
# Statistics of ids help to find a night; those of the other columns would take as long as writing them.
_PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [ID, "onset", "duration", "stage", "argmax_stage"],
    "write_statistics": [ID],
}


def table_meanings(stages: Sequence[str]) -> dict[str, Any]:
    """Return the meanings of the table's columns, in the form of BIDS."""
    return {ID: ID_MEANING, **column_meanings(OWN_COLUMNS, stages)}


def is_parquet_name(path: Path) -> bool:
    """Whether an output is to be Parquet, and not text."""
    return path.suffix.lower() in PARQUET_SUFFIXES


def part_bytes(output: Path, nights: Sequence[tuple[str, Decoding]]) -> bytes:
    """Return the rows of decoded nights as a part of an output: in Arrow's format, or as text."""
    if not is_parquet_name(output):
        return _text_bytes(nights, TEXT_DELIMITERS[output.suffix.lower()])
    arrow, _ = pyarrow_modules(output, "writing")
    table, stream = _table(arrow, nights), io.BytesIO()
    with arrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def part_table(output: Path, part: bytes) -> Any:
    """Return the rows of a part of a Parquet output."""
    arrow, _ = pyarrow_modules(output, "writing")
    with arrow.ipc.open_stream(part) as reader:
        return reader.read_all()


@contextmanager
def joining(output: Path, stream: BinaryIO) -> Iterator[Callable[[Path], None]]:
    """Yield a function that appends a part to the table, which is complete when the block ends."""
    if not is_parquet_name(output):
        delimiter = TEXT_DELIMITERS[output.suffix.lower()]
        stream.write((delimiter.join((ID, *OWN_COLUMNS)) + "\n").encode())

        def add_text(part: Path) -> None:
            with open_file(part, "a recording") as file:
                shutil.copyfileobj(file, stream)

        yield add_text
        return
    _, parquet = pyarrow_modules(output, "writing")
    writer: Any = None

    def add_rows(part: Path) -> None:
        nonlocal writer
        table = part_table(output, read_file(part, "a recording"))
        writer = writer or parquet.ParquetWriter(stream, table.schema, **_PARQUET_OPTIONS)
        writer.write_table(table)

    try:
        yield add_rows
    finally:
        if writer is not None:
            writer.close()


def _table(arrow: Any, nights: Sequence[tuple[str, Decoding]]) -> Any:
    """Return the rows of decoded nights as an Arrow table."""
    ids, decodings = zip(*nights, strict=True)
    words = (*decodings[0].profile.scheme.names, "?")

    def coded(codes: Any, texts: Sequence[str], kind: Any) -> Any:
        return arrow.DictionaryArray.from_arrays(arrow.array(codes, kind), arrow.array(texts, arrow.string()))

    def stages(labels: Any) -> Any:
        return coded(np.where(labels < 0, np.int8(len(words) - 1), labels), words, arrow.int8())

    n_epochs = [each.hypnogram.n_epochs for each in decodings]
    labels = np.concatenate([each.hypnogram.labels for each in decodings])
    argmax = np.concatenate([each.argmax for each in decodings])
    chosen = np.concatenate(
        [
            each.night.probabilities[np.arange(n), np.maximum(each.hypnogram.labels, 0)]
            for each, n in zip(decodings, n_epochs, strict=True)
        ]
    )
    probability = np.where(labels < 0, np.nan, chosen).astype(np.float32)
    columns = {
        ID: coded(np.repeat(np.arange(len(ids), dtype=np.int32), n_epochs), ids, arrow.int32()),
        "onset": np.concatenate(
            [
                each.hypnogram.offset_seconds + each.epoch_seconds * np.arange(n, dtype=np.float64)
                for each, n in zip(decodings, n_epochs, strict=True)
            ]
        ),
        "duration": np.repeat(np.array([each.epoch_seconds for each in decodings], np.float64), n_epochs),
        "stage": stages(labels),
        "label": labels,
        "argmax_stage": stages(argmax),
        "changed": (labels != argmax) & (argmax >= 0),
        "filled": np.concatenate([each.filled for each in decodings]),
        "probability": arrow.array(probability, arrow.float32(), mask=np.isnan(probability)),
    }
    return arrow.table(columns)


def _text_bytes(nights: Sequence[tuple[str, Decoding]], delimiter: str) -> bytes:
    stream = io.StringIO()
    rows = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    for name, decoding in nights:
        cells = table_columns(decoding, None).values()
        rows.writerows(zip([write_cell(name)] * decoding.hypnogram.n_epochs, *cells, strict=True))
    return stream.getvalue().encode()


def table_rows(path: Path) -> Iterator[CellRow]:
    """Yield the cells of each row of a table, the header first."""
    return _parquet_rows(path) if is_parquet(path) else _text_rows(path)


def part_rows(output: Path, part: bytes) -> Iterator[CellRow]:
    """Yield the cells of a part that `part_bytes` made for an output, as `table_rows` yields the output's."""
    if not is_parquet_name(output):
        return csv.reader(io.StringIO(part.decode()), delimiter=TEXT_DELIMITERS[output.suffix.lower()])
    return _batch_rows(part_table(output, part))


def _text_rows(path: Path) -> Iterator[CellRow]:
    """Yield the cells of each non-empty line, the header first."""
    with open_text(path, "a recording", encoding="utf-8-sig") as file:
        lines = (line for line in file if line.strip())
        first = next(lines, "").rstrip("\r\n")
        widest = max(DELIMITERS, key=lambda mark: len(split_line(first, mark)))
        yield [cell.strip() for cell in split_line(first, widest)]
        yield from csv.reader(lines, delimiter=widest)


def _parquet_rows(path: Path) -> Iterator[CellRow]:
    _, parquet = pyarrow_modules(path, "reading")
    with open_parquet(parquet, path, "a recording", memory_map=True) as file:
        yield list(file.schema_arrow.names)
        for batch in file.iter_batches(use_threads=False):
            yield from _batch_rows(unpacked_texts(path, batch))


def _batch_rows(batch: Any) -> Iterator[CellRow]:
    yield from map(list, zip(*(map(_cell, column.to_pylist()) for column in batch.columns), strict=True))


def _cell(value: Any) -> str:
    if value is None:
        return "n/a"
    return str(int(value)) if isinstance(value, bool) else cell_text(value)
