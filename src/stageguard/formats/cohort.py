"""A cohort as one table: many nights below one another, named by a column id.

The table is delimited text, or Parquet: one file, or the files of a dataset in the order of their folders.
Both are read in blocks of rows and grouped by id; each group is one night. Decoded nights are written alike.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from stageguard.checks import MISSING_WORDS
from stageguard.errors import FileFormatError, InputError, StageGuardError, error_message
from stageguard.files import file_error, file_sha256, open_text, seekable_file, write_cell
from stageguard.formats.arrow import decoded, faults_of_arrow, pyarrow_modules, refuse_large_groups
from stageguard.formats.density import MOST_EPOCHS, build_density, listed
from stageguard.formats.night import FileOptions, RawDensity
from stageguard.formats.outputs import column_meanings, table_columns
from stageguard.formats.sniffing import read_head
from stageguard.formats.tables.delimited import (
    DELIMITERS,
    HEADER_SEARCH_LINES,
    check_widths,
    split_line,
    split_rows,
)
from stageguard.formats.tables.probabilities import Layout, choose_columns, density_of_table, find_layout
from stageguard.formats.tables.table import Cells, Table, cell_text, is_night_column
from stageguard.formats.tables.times import meaning_of
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.storage import files_below, is_folder, is_remote, place_in

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

ID = "id"
OWN_COLUMNS = ("onset", "duration", "stage", "label", "argmax_stage", "changed", "filled", "probability")
PARQUET_SUFFIXES = (".parquet", ".pq")
TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TABLE_SUFFIXES = (*PARQUET_SUFFIXES, *TEXT_DELIMITERS)
BLOCK_ROWS = 2**16  # rows read at a time: about 3 MB for five stages
CHUNK_ROWS = 2**15  # rows decoded and kept together: some thirty nights, the most that a kill costs

CellRow = list[str]


class Rows(NamedTuple):
    """The rows of one night, and where they begin."""

    id: str
    file: str  # its name, or its place in the dataset
    row: int  # counted from 1
    folder: str  # of the dataset, such as site=A; empty for none
    columns: list[Cells]


class Block(NamedTuple):
    """Some rows of a table: the ids with the rows at which they begin, from 0, and the columns."""

    file: str
    folder: str
    row: int  # of the file, from 0, with which the block begins
    begins: list[tuple[str, int]]
    columns: list[Cells]


@dataclass(frozen=True, slots=True)
class TableNight:
    """A night of a cohort's table, or why it cannot be read."""

    id: str
    file: str
    density: Hypnodensity | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CohortTable:
    """A table of many nights; it can be sent to other processes."""

    root: Path  # the file, or the folder of a dataset
    files: tuple[Path, ...]
    options: FileOptions

    def describe(self) -> dict[str, Any]:
        """Return name, size and hash; the hash of several files is that of their list."""
        facts = {"file": self.root.name, "bytes": sum(path.stat().st_size for path in self.files)}
        if self.files == (self.root,):
            return facts | {"sha256": file_sha256(self.root)}
        hashes = {place_in(path, self.root): file_sha256(path) for path in self.files}
        return facts | {"sha256": list_sha256(hashes), "files": [*hashes]}

    def nights(self) -> Iterator[Rows]:
        """Yield the rows of each night; refuse rows without an id, and a night that begins again."""
        seen: dict[str, tuple[str, int]] = {}
        last: Rows | None = None
        for block in self.blocks():
            ends = [*(start for _, start in block.begins[1:]), len(block.columns[0])]
            for (name, start), end in zip(block.begins, ends, strict=True):
                columns = [column[start:end] for column in block.columns]
                if last is not None and start == 0 and (name, block.folder) == (last.id, last.folder):
                    last = last._replace(columns=list(map(_joined, last.columns, columns)))
                else:
                    if last is not None:
                        yield last
                    last = Rows(name, block.file, block.row + start + 1, block.folder, columns)
                    check_id(name, (last.file, last.row), seen)
                if len(last.columns[0]) > MOST_EPOCHS:
                    raise file_error(
                        block.file,
                        f"night {name[:40]!r} has more than {MOST_EPOCHS:,} rows, expected the {ID} of one "
                        "night.",
                    )
        if last is None:
            raise file_error(self.root, "has a header but no rows. Expected one row per epoch.")
        yield last

    def read(self, rows: Rows) -> TableNight:
        """Return the night in these rows, or its error."""
        try:
            read = build_density(self.root, self.density(rows), self.options)
        except FileFormatError as error:
            where = f"{rows.file}, night {rows.id[:40]}: "
            return TableNight(rows.id, rows.file, error=f"{where}{error.reason or error}")
        except StageGuardError as error:
            return TableNight(rows.id, rows.file, error=error_message(error))
        return TableNight(rows.id, rows.file, read.density, read.notes)

    def blocks(self) -> Iterator[Block]:
        """Yield the table block by block."""
        raise NotImplementedError

    def density(self, rows: Rows) -> RawDensity:
        """Return the probabilities of the rows of one night."""
        raise NotImplementedError


def check_id(name: str, place: tuple[str, int], seen: dict[str, tuple[str, int]]) -> None:
    """Refuse a night without a name, and one that begins again; `place` is its file and row."""
    file, row = place
    if name.strip().casefold() in MISSING_WORDS:
        raise file_error(
            file,
            f"row {row:,} has no {ID}, expected the name of its night in every row. Are cells merged? Fill "
            "them down.",
        )
    if name != name.strip():
        raise file_error(file, f"the {ID} {name[:40]!r} has a blank at an end, expected none. Remove it.")
    before = seen.setdefault(name, place)
    if before != place:
        raise file_error(
            file,
            f"night {name[:40]!r} begins again at row {row:,} of {file}, and begins first at row "
            f"{before[1]:,} of {before[0]}. Expected the rows of a night together: sort the table by {ID} "
            "first, and by time within it.",
        )


def chunks(nights: Iterable[Rows]) -> Iterator[list[Rows]]:
    """Yield nights of one folder that are decoded together, the same for any number of workers."""
    chunk, n_rows = list[Rows](), 0
    for night in nights:
        if chunk and (n_rows >= CHUNK_ROWS or night.folder != chunk[0].folder):
            yield chunk
            chunk, n_rows = [], 0
        chunk.append(night)
        n_rows += len(night.columns[0])
    if chunk:
        yield chunk


def _joined(before: Cells, after: Cells) -> Cells:
    return np.concatenate((before, after)) if isinstance(before, np.ndarray) else [*before, *after]


# delimited text


@dataclass(frozen=True, slots=True)
class TextTable(CohortTable):
    """A table of delimited text; the lines of the rows are a last column."""

    layout: Layout

    def blocks(self) -> Iterator[Block]:
        """Yield blocks of lines."""
        path, layout = self.root, self.layout
        place, row = id_column(path, layout.header), 0
        with _lines(path) as lines:
            numbered = enumerate(islice(lines, layout.header_line + 1, None), start=layout.header_line + 2)
            while block := list(islice(numbered, BLOCK_ROWS)):
                while sum(line.count('"') for _, line in block) % 2 and (more := next(numbered, None)):
                    block.append(more)  # a cell continues in the next line
                numbers, texts = zip(*block, strict=True)
                cells, begins = split_rows(path, texts, layout.delimiter, numbers, exact=place)
                filled = [(line, each) for line, each in zip(begins, cells, strict=True) if any(each)]
                if not filled:
                    continue
                at, rows = zip(*filled, strict=True)
                expected = f"the header has {len(layout.header)}. Every row needs one cell per column."
                check_widths(path, rows, at, len(layout.header), expected)
                columns: list[Cells] = [*map(list, zip(*rows, strict=True)), np.array(at)]
                ids = columns[place]
                starts = [n for n in range(len(ids)) if n == 0 or ids[n] != ids[n - 1]]
                yield Block(path.name, "", row, [(ids[n], n) for n in starts], columns)
                row += len(rows)

    def density(self, rows: Rows) -> RawDensity:
        """Return the probabilities of the rows of one night."""
        (*cells, lines), layout = rows.columns, self.layout
        table = Table(self.root, layout.header, cells, list(map(int, lines)), layout.delimiter, layout.notes)
        return density_of_table(table, layout.stages, self.options, expected=(ID,))


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    try:
        with open_text(path, encoding="utf-8-sig") as file:
            yield (line.rstrip("\r\n") for line in file)
    except UnicodeDecodeError as error:
        raise file_error(path, f"is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None


def _text_table(path: Path, options: FileOptions) -> TextTable:
    with _lines(path) as lines:
        head = list(islice(lines, HEADER_SEARCH_LINES))
    if not any(line.strip() for line in head):
        raise file_error(path, f"is empty. Expected a header such as {ID},W,N1,N2,N3,R.")
    for delimiter in DELIMITERS:
        _refuse_decoded(path, split_line(head[0], delimiter))
    layout = find_layout(path, head, options)
    id_column(path, layout.header)
    return TextTable(path, (path,), options, layout)


# Parquet


@dataclass(frozen=True, slots=True)
class ParquetTable(CohortTable):
    """The Parquet files of a dataset, in order; of their columns, the id and those that are read."""

    id_name: str
    wanted: tuple[str, ...]
    ignored: tuple[str, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield batches of rows."""
        for path in self.files:
            place = path.name if path == self.root else place_in(path, self.root)
            row, (_, parquet) = 0, pyarrow_modules(path, "reading")
            with (
                faults_of_arrow(path, place),
                parquet.ParquetFile(seekable_file(path), memory_map=True) as file,
            ):
                columns = [self.id_name, *self.wanted]
                for batch in file.iter_batches(BLOCK_ROWS, columns=columns, use_threads=False):
                    texts = decoded(batch.select(list(self.wanted)))
                    cells = [column.to_numpy(zero_copy_only=False) for column in texts.columns]
                    begins = _id_runs(batch.column(self.id_name))
                    yield Block(place, place.rpartition("/")[0], row, begins, cells)
                    row += batch.num_rows

    def density(self, rows: Rows) -> RawDensity:
        """Return the probabilities of the rows of one night."""
        from stageguard.formats.tables.frames import array_table, density_of_frame  # which text does without

        columns = list(zip(self.wanted, rows.columns, strict=True))
        raw = density_of_frame(array_table(self.root, columns), self.options)
        notes = (f"columns ignored: {listed(self.ignored)}",) if self.ignored else ()
        return replace(raw, notes=(*raw.notes, *notes))


def _id_runs(column: Any) -> list[tuple[str, int]]:
    """Return the name of each night in a column of ids, and the row at which it begins; or a missing id."""
    if column.null_count:
        return [("", int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))))]
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()]
    return [(cell_text(encoded.dictionary[int(codes[start])].as_py()), start) for start in starts]


def _parquet_table(paths: Sequence[Path], options: FileOptions) -> ParquetTable:
    root, files = dataset_root(paths), _parquet_files(paths)
    headers = {path: header for path in files if (header := _header(path))}
    if not headers:
        what = "has a header but no rows. Expected one row per epoch." if files else "holds no Parquet file."
        raise file_error(root, what)
    folders = {path: "" if path == root else place_in(path, root).rpartition("/")[0] for path in headers}
    (first, header), *_ = headers.items()
    id_name = header[id_column(first.name, header)]
    wanted, ignored = _columns(first, header, id_name, options)
    for path, other in headers.items():
        differing = {*wanted} ^ {*_columns(path, other, id_name, options)[0]} or {id_name} - {*other}
        if differing:
            raise file_error(
                place_in(path, root),
                f"and {place_in(first, root)} do not both have the column {min(differing)!r}, expected the "
                "same columns in all files of a dataset.",
            )
    ordered = tuple(sorted(headers, key=folders.__getitem__))
    return ParquetTable(root, ordered, options, id_name, wanted, ignored)


def _header(path: Path) -> tuple[str, ...]:
    """Return the columns of a file, none if it has no rows."""
    _, parquet = pyarrow_modules(path, "reading")
    with faults_of_arrow(path), parquet.ParquetFile(seekable_file(path)) as file:
        refuse_large_groups(path, file.metadata)
        return tuple(file.schema_arrow.names) if file.metadata.num_rows else ()


def _columns(
    path: Path, header: Sequence[str], id_name: str, options: FileOptions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that are read besides the id, and those that are not."""
    stages = [header[place] for place in choose_columns(path, header, options).places]
    if len(stages) < 2:
        expected = "Expected columns such as W, N1, N2, N3, R."
        raise file_error(path, f"names no stages (got: {listed(header)}). {expected}")
    others = [name for name in header if name != id_name]
    wanted = [name for name in others if name in stages or meaning_of(name) or is_night_column(name)]
    return tuple(wanted), tuple(name for name in others if name not in wanted)


def _parquet_files(paths: Sequence[Path]) -> list[Path]:
    """Return Parquet files, and those in folders and below, each once and part-2 before part-10.

    Names in a folder that begin with . or _ are not data.
    """
    found = list[Path]()
    for path in paths:
        inside = files_below(path) if is_folder(path) else ()
        data = [one for one in inside if not re.search(r"(^|/)[._]", place_in(one, path))]
        found += [one for one in data or [path] * (not inside) if one.suffix.lower() in PARQUET_SUFFIXES]

    def natural(path: Path) -> list[Any]:
        parts = re.split(r"(\d+)", str(path))
        return [(int(part), part) if part.isdecimal() else (0, part) for part in parts]

    return sorted(dict.fromkeys(found), key=natural)


# what a cohort is


def open_cohort(paths: Sequence[Path], options: FileOptions) -> TextTable | ParquetTable:
    """Return the table of many nights in a file, or in the files or the folder of a dataset."""
    if len(paths) == 1 and not is_folder(paths[0]) and not is_parquet(paths[0]):
        return _text_table(paths[0], options)
    return _parquet_table(paths, options)


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet by its content."""
    return read_head(path).startswith(b"PAR1")


def holds_parquet(path: Path) -> bool:
    """Whether a path is named like a Parquet file, or is a folder that holds such files."""
    return bool(_parquet_files([path]))


def is_dataset(paths: Sequence[Path]) -> bool:
    """Whether Parquet files are parts of one table: in a partition such as site=A, or of several nights.

    Files of one night each are nights; if two of these share an id, they may be halves of one: an error.
    """
    if not paths or not all(map(holds_parquet, paths)):
        return False
    root, seen, twice = dataset_root(paths), set[Any](), None
    for path in _parquet_files(paths):
        if any(map(is_folder, paths)) and "=" in place_in(path, root).rpartition("/")[0]:
            return True
        try:
            ids = _ids(path)
        except (StageGuardError, OSError):  # told when it is read
            continue
        if len(ids) > 1:
            return True
        twice = twice or (path if ids & seen else None)
        seen |= ids
    if twice:
        raise file_error(
            twice,
            f"has the {ID} of a file before it, and no file has several. For one table of nights, name a "
            f"table as output, such as out.parquet; if each file is a night, remove the column {ID}.",
        )
    return False


def _ids(path: Path) -> set[Any]:
    """Return the ids of a file, none without such a column."""
    _, parquet = pyarrow_modules(path, "reading")
    with faults_of_arrow(path), parquet.ParquetFile(seekable_file(path)) as file:
        names = [name for name in file.schema_arrow.names if name.strip().casefold() == ID]
        return {*file.read(columns=names).column(0).unique().to_pylist()} if names else set()


def dataset_root(paths: Sequence[Path]) -> Path:
    """Return the one file or folder of a dataset, or the folder that holds all of several."""
    if len(paths) == 1:
        return paths[0]
    root = paths[0].parent
    while not all(is_remote(path) == is_remote(root) and path.is_relative_to(root) for path in paths):
        if root == root.parent:
            raise InputError(f"{paths[0]} and {paths[-1]} are in different stores, expected one dataset.")
        root = root.parent
    return root


def id_column(path: Path | str, header: Sequence[str]) -> int:
    """Return the index of the column of ids; refuse a table without one or with two."""
    _refuse_decoded(path, header)
    columns = [column for column, name in enumerate(header) if name.strip().casefold() == ID]
    if len(columns) == 1:
        return columns[0]
    if columns:
        raise file_error(path, f"has {len(columns)} columns {ID!r}, expected one. Keep one of them.")
    raise file_error(
        path,
        f"has no column {ID!r} that names the night of each row, and the output is named as a table of many "
        "nights. If this is one night, name a folder for the output, or a .tsv. "
        f"Columns: {listed(header)}.",
    )


def _refuse_decoded(path: Path | str, header: Sequence[str]) -> None:
    if {*OWN_COLUMNS} <= {*header}:
        raise file_error(
            path, "is an output of decode, expected the stager's probabilities. Name the table it came from."
        )


# decoded nights

_PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [ID, "onset", "duration", "stage", "argmax_stage"],
    "write_statistics": [ID],  # of the other columns they would take as long as writing them
}


def table_meanings(stages: Sequence[str]) -> dict[str, Any]:
    """Return the meanings of the table's columns, in the form of BIDS."""
    id_meaning = {"Description": "Name of the night, as the input has it"}
    return {ID: id_meaning, **column_meanings(OWN_COLUMNS, stages)}


def output_form(output: Path) -> Literal["text", "parquet", "dataset"]:
    """Return what an output is to be, by its name: one table, or else the folder of a dataset."""
    suffix = output.suffix.lower()
    if suffix not in TABLE_SUFFIXES or is_folder(output):
        return "dataset"
    return "parquet" if suffix in PARQUET_SUFFIXES else "text"


def list_sha256(hashes: Mapping[str, str]) -> str:
    """Return the hash of a list of files with their hashes, as `sha256sum` prints it."""
    lines = "".join(f"{each}  {place}\n" for place, each in hashes.items())
    return hashlib.sha256(lines.encode()).hexdigest()


def decoded_rows(output: Path, nights: Sequence[tuple[str, Decoding]]) -> bytes:
    """Return the rows of decoded nights for an output: text, or a stream of Arrow."""
    if output_form(output) != "text":
        arrow, _ = pyarrow_modules(output, "writing")
        rows, held = _arrow_rows(arrow, nights), io.BytesIO()
        with arrow.ipc.new_stream(held, rows.schema) as writer:
            writer.write_table(rows)
        return held.getvalue()
    stream = io.StringIO()
    lines = csv.writer(stream, delimiter=TEXT_DELIMITERS[output.suffix.lower()], lineterminator="\n")
    for name, decoding in nights:
        cells = table_columns(decoding, None).values()
        lines.writerows(zip([write_cell(name)] * decoding.hypnogram.n_epochs, *cells, strict=True))
    return stream.getvalue().encode()


@contextmanager
def table_writer(output: Path, made: Path, places: list[str]) -> Iterator[Any]:
    """Yield a function that adds what `decoded_rows` returned for a folder of the input to a table.

    The table is made at `made`, a file or the folder of a dataset, whose files are added to `places`.
    """
    form, writers = output_form(output), list[Any]()

    def add_text(rows: bytes, folder: str) -> None:
        writers[0].write(rows)

    def add_rows(rows: bytes, folder: str) -> None:
        arrow, parquet = pyarrow_modules(output, "writing")
        with arrow.ipc.open_stream(rows) as reader:
            table = reader.read_all()
        if form == "parquet":
            if not writers:
                writers.append(parquet.ParquetWriter(made, table.schema, **_PARQUET_OPTIONS))
            writers[0].write_table(table)
            return
        places.append(f"{folder}/part-{len(places):06d}.parquet".lstrip("/"))
        (made / places[-1]).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, made / places[-1], **_PARQUET_OPTIONS)

    if form == "text":
        header = TEXT_DELIMITERS[output.suffix.lower()].join((ID, *OWN_COLUMNS)) + "\n"
        writers.append(made.open("wb"))
        writers[0].write(header.encode())
    try:
        yield add_text if form == "text" else add_rows
    finally:
        for writer in writers:
            writer.close()


def _arrow_rows(arrow: Any, nights: Sequence[tuple[str, Decoding]]) -> Any:
    """Return the rows of decoded nights as an Arrow table."""
    ids, decodings = zip(*nights, strict=True)
    words = (*decodings[0].profile.scheme.names, "?")
    n_epochs = [each.hypnogram.n_epochs for each in decodings]

    def coded(codes: Any, texts: Sequence[str], kind: Any) -> Any:
        return arrow.DictionaryArray.from_arrays(arrow.array(codes, kind), arrow.array(texts, arrow.string()))

    def stages(labels: Any) -> Any:
        return coded(np.where(labels < 0, np.int8(len(words) - 1), labels), words, arrow.int8())

    def stacked(values: Iterable[Any]) -> Any:
        return np.concatenate([*values])

    labels = stacked(each.hypnogram.labels for each in decodings)
    argmax = stacked(each.argmax for each in decodings)
    chosen = stacked(
        each.night.probabilities[np.arange(n), np.maximum(each.hypnogram.labels, 0)]
        for each, n in zip(decodings, n_epochs, strict=True)
    )
    probability = np.where(labels < 0, np.nan, chosen).astype(np.float32)
    onsets = (
        each.hypnogram.offset_seconds + each.epoch_seconds * np.arange(n, dtype=np.float64)
        for each, n in zip(decodings, n_epochs, strict=True)
    )
    columns = {
        ID: coded(np.repeat(np.arange(len(ids), dtype=np.int32), n_epochs), ids, arrow.int32()),
        "onset": stacked(onsets),
        "duration": np.repeat(np.array([each.epoch_seconds for each in decodings], np.float64), n_epochs),
        "stage": stages(labels),
        "label": labels,
        "argmax_stage": stages(argmax),
        "changed": (labels != argmax) & (argmax >= 0),
        "filled": stacked(each.filled for each in decodings),
        "probability": arrow.array(probability, arrow.float32(), mask=np.isnan(probability)),
    }
    return arrow.table(columns)


def table_rows(path: Path, places: Sequence[str] = ()) -> Iterator[CellRow]:
    """Yield the cells of each row of a table, or of the files of a dataset, the header first."""
    for number, one in enumerate([path / place for place in places] or [path]):
        yield from islice(_parquet_rows(one) if is_parquet(one) else _text_rows(one), int(number > 0), None)


def _text_rows(path: Path) -> Iterator[CellRow]:
    with open_text(path, encoding="utf-8-sig") as file:
        lines = (line for line in file if line.strip())
        first = next(lines, "").rstrip("\r\n")
        widest = max(DELIMITERS, key=lambda mark: len(split_line(first, mark)))
        yield [cell.strip() for cell in split_line(first, widest)]
        yield from csv.reader(lines, delimiter=widest)


def _parquet_rows(path: Path) -> Iterator[CellRow]:
    _, parquet = pyarrow_modules(path, "reading")
    with parquet.ParquetFile(seekable_file(path), memory_map=True) as file:
        yield list(file.schema_arrow.names)
        for batch in file.iter_batches(use_threads=False):
            columns = decoded(batch).columns
            yield from map(list, zip(*(map(_cell, column.to_pylist()) for column in columns), strict=True))


def _cell(value: Any) -> str:
    if value is None:
        return "n/a"
    return str(int(value)) if isinstance(value, bool) else cell_text(value)
