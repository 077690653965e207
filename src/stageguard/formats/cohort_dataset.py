"""A cohort as a Parquet dataset: one file, several, or a folder of them, with or without partitions.

Whoever plans a run reads footers alone, and cuts the rows of each folder into chunks. Whoever decodes a chunk
reads its rows: the nights that begin in it, the last of them to its end even if that is in the next file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.errors import InputError, StageGuardError
from stageguard.files import damaged_file, file_error, file_sha256, open_file
from stageguard.formats.cohort_nights import (
    ID,
    Chunk,
    IdOrder,
    NightReader,
    TableNight,
    id_column,
    same_kind,
)
from stageguard.formats.density import listed
from stageguard.formats.raw_night import FileOptions, RawDensity
from stageguard.formats.tables.frames import array_table, density_of_frame
from stageguard.formats.tables.one_night import is_night_column
from stageguard.formats.tables.probabilities import choose_columns
from stageguard.formats.tables.row_times import meaning_of
from stageguard.formats.tables.table import cell_text
from stageguard.formats.tools.parquet import (
    faults_of_arrow,
    open_parquet,
    pyarrow_modules,
    refuse_contradiction,
    refuse_large_groups,
    text_columns,
    unpacked_texts,
)
from stageguard.storage import files_below, is_folder, is_remote, place_in

PARQUET_SUFFIXES = (".parquet", ".pq")
BATCH_ROWS = 2**16  # rows unpacked at a time: about 3 MB for five stages
LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES = 2**20, 2**23  # unpacked; 8 MB are some hundred nights
FEWEST_CHUNKS = 32  # of a table that is large enough, so that several workers share it
FOOTER_BYTES = 8  # at the end of a file: the length of the footer before it, and PAR1


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file of a dataset, as its footer describes it."""

    path: Path
    place: str  # in the dataset; of a dataset of one file, its name
    n_bytes: int
    footer_sha256: str
    group_rows: tuple[int, ...]  # rows of each row group
    group_bytes: tuple[int, ...]  # unpacked
    header: tuple[str, ...]
    texts: tuple[str, ...]  # the columns of text

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(self.group_rows)

    @property
    def folder(self) -> str:
        """The folder in the dataset, such as site=A; empty for none."""
        return str(PurePosixPath(self.place).parent).removeprefix(".")


@dataclass(frozen=True, slots=True)
class RowChunk(Chunk):
    """The nights that begin in rows `begin` to `end` of a folder, whose files count as one table."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class ParquetCohort:
    """A dataset of nights: its files, by folder and in order, and how their rows are read."""

    root: Path  # the file, or the folder
    folders: dict[str, tuple[DatasetFile, ...]]
    id_name: str
    reader: NightReader
    wanted: tuple[str, ...]  # columns that are read besides the id
    first: TableNight | None = None  # the first readable night, without its probabilities

    @property
    def files(self) -> list[DatasetFile]:
        """All files, in order."""
        return [file for files in self.folders.values() for file in files]

    def describe(self) -> dict[str, Any]:
        """Return name, size and hash; the hash of several files is one of their places, sizes and footers."""
        return _described(self.root, self.files)

    def chunks(self) -> list[RowChunk]:
        """Return the chunks, the same for every number of workers."""
        n_bytes = sum(sum(file.group_bytes) for file in self.files)
        target = min(max(n_bytes // FEWEST_CHUNKS, LEAST_CHUNK_BYTES), MOST_CHUNK_BYTES)
        ranges = [(folder, *rows) for folder, files in self.folders.items() for rows in _cut(files, target)]
        return [RowChunk(number, *each) for number, each in enumerate(ranges)]

    def reading(self) -> Callable[[RowChunk], Iterator[TableNight]]:
        """Return what yields the nights that begin in a chunk; chunks in order are read in one go."""
        return partial(self._nights, Rows(self))

    def _nights(self, rows: Rows, chunk: RowChunk) -> Iterator[TableNight]:
        for name, row, columns in rows.nights_of(chunk):
            file, of_file = _place_of(self.folders[chunk.folder], row)
            yield same_kind(self.reader.night(name, columns, file.place, of_file + 1), self.first)

    def knowing_its_first(self) -> ParquetCohort:
        """Return the cohort with its first readable night, which shows what the numbers of all are."""
        if self.reader.options.logits or self.reader.options.log:
            return self
        for chunk in self.chunks():
            for night in self._nights(Rows(self), chunk):
                if night.density is not None:
                    return replace(self, first=replace(night, density=None))
        return self


def _cut(files: Sequence[DatasetFile], target: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of about as many bytes: some row groups, or parts of a large one."""
    groups = [pair for file in files for pair in zip(file.group_rows, file.group_bytes, strict=True)]
    begin = row = n_bytes = 0
    for n_rows, of_group in groups:
        if n_bytes and n_bytes + of_group > 2 * target:
            yield begin, row
            begin, n_bytes = row, 0
        row, n_bytes = row + n_rows, n_bytes + of_group
        n_parts = max(1, min(n_bytes // target, row - begin))
        if n_bytes >= target:
            bounds = [begin + (row - begin) * part // n_parts for part in range(n_parts + 1)]
            yield from pairwise(bounds)
            begin, n_bytes = row, 0
    if begin < row:
        yield begin, row


def _place_of(files: Sequence[DatasetFile], row: int) -> tuple[DatasetFile, int]:
    """Return the file of a folder that has a row, and the number of that row in it, both from 0."""
    for file in files:
        if row < file.n_rows:
            return file, row
        row -= file.n_rows
    raise IndexError(row)


# rows


Column = npt.NDArray[Any]
Block = tuple[int, list[tuple[str, int]], list[Column]]  # first row, the ids with their first rows, columns


@dataclass(slots=True)
class Rows:
    """Where in a dataset its rows are being read: chunks that follow each other are read in one go."""

    cohort: ParquetCohort
    _next: tuple[str, int] | None = None  # folder and first row of the chunk that would follow
    _blocks: Iterator[Block] = field(default_factory=lambda: iter(()))
    _rest: Block | None = None  # read already, from the first night of the next chunk on
    _last: str | None = None  # the id before that

    def nights_of(self, chunk: RowChunk) -> Iterator[tuple[str, int, list[Column]]]:
        """Yield id, first row and columns of the nights that begin in a chunk."""
        if self._next != (chunk.folder, chunk.begin):
            self._begin(chunk)
        files = self.cohort.folders[chunk.folder]
        order, last = IdOrder(""), self._last
        names, starts, held = list[str](), list[int](), list[list[Column]]()
        first = stop = -1  # rows: of the first held block, and of the first night after the chunk
        while stop < 0 and (block := self._take()) is not None:
            row, begins, columns = block
            for name, of_block in begins:
                if name == last:  # the night goes on
                    continue
                file, of_file = _place_of(files, row + of_block)
                order.path = file.place
                order.check(name, of_file + 1)
                order.check_blanks(name)
                if row + of_block >= chunk.end:
                    stop = row + of_block
                    self._rest = _from_row(block, stop)
                    break
                names.append(name)
                starts.append(row + of_block)
                order.finished.add(name)
                last = name
            first = row if first < 0 else first
            held.append(columns)
            if starts:
                order.check_length(names[-1], (stop if stop >= 0 else row + len(columns[0])) - starts[-1])
        self._last, self._next = last, (chunk.folder, chunk.end)
        if not starts:
            return
        columns = [np.concatenate(parts) for parts in zip(*held, strict=True)] if held[1:] else held[0]
        bounds = [*starts, stop if stop >= 0 else first + len(columns[0])]
        for name, begin, end in zip(names, bounds, bounds[1:], strict=False):
            yield name, begin, [column[begin - first : end - first] for column in columns]

    def _begin(self, chunk: RowChunk) -> None:
        """Begin to read at the first row of a chunk, knowing the id of the row before."""
        files = self.cohort.folders[chunk.folder]
        self._blocks, self._rest, self._last = self._read(files, chunk.begin), None, None
        if chunk.begin > 0:
            self._last = self._id_at(*_place_of(files, chunk.begin - 1))

    def _take(self) -> Block | None:
        if self._rest is None:
            return next(self._blocks, None)
        block, self._rest = self._rest, None
        return block

    def _read(self, files: Sequence[DatasetFile], begin: int) -> Iterator[Block]:
        """Yield blocks of rows, from a row of a folder on."""
        columns = [self.cohort.id_name, *self.cohort.wanted]
        row = 0
        for file in files:
            if row + file.n_rows <= begin:
                row += file.n_rows
                continue
            with faults_of_arrow(file.path, file.place), _opened(file) as opened:
                for group, n_rows in enumerate(file.group_rows):
                    if row + n_rows <= begin:
                        row += n_rows
                        continue
                    for batch in opened.iter_batches(
                        BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False
                    ):
                        n_skipped = min(max(begin - row, 0), batch.num_rows)
                        row += batch.num_rows
                        if n_skipped < batch.num_rows:
                            kept = batch.slice(n_skipped)
                            yield self._block(file, row - kept.num_rows, kept)

    def _block(self, file: DatasetFile, row: int, batch: Any) -> Block:
        texts = unpacked_texts(file.path, batch.select(list(self.cohort.wanted)))
        columns = [column.to_numpy(zero_copy_only=False) for column in texts.columns]
        return row, _id_runs(batch.column(self.cohort.id_name)), columns

    def _id_at(self, file: DatasetFile, row: int) -> str:
        """Return the id of a row of a file; of the row group that has it, only the ids are read."""
        group = 0
        while row >= file.group_rows[group]:
            row -= file.group_rows[group]
            group += 1
        with faults_of_arrow(file.path, file.place), _opened(file) as opened:
            column = opened.read_row_group(group, columns=[self.cohort.id_name], use_threads=False).column(0)
            return cell_text(column[row].as_py())


def _from_row(block: Block, first: int) -> Block:
    """Return the rows of a block from one on."""
    row, begins, columns = block
    n_cut = first - row
    left = [(name, start - n_cut) for name, start in begins if start >= n_cut]
    return first, left, [column[n_cut:] for column in columns]


def _id_runs(column: Any) -> list[tuple[str, int]]:
    """Return the name of each night in a column of ids, and the row at which it begins; or a missing id."""
    if column.null_count:
        return [("", int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))))]
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist()]
    return [(cell_text(encoded.dictionary[int(codes[start])].as_py()), start) for start in starts]


def _opened(file: DatasetFile) -> Any:
    _, parquet = pyarrow_modules(file.path, "reading")
    return open_parquet(parquet, file.path, texts=file.texts, memory_map=True)


# what a dataset is


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files in a folder and below; names that begin with . or _ are not data."""
    found = [one for one in files_below(path) if one.suffix.lower() in PARQUET_SUFFIXES]
    inner = [(tuple(place_in(one, path).split("/")), one) for one in found]
    return [one for parts, one in sorted(inner, key=_natural) if not any(name[0] in "._" for name in parts)]


def _natural(pair: tuple[tuple[str, ...], Path]) -> tuple[Any, ...]:
    """Return a sort key that puts part-2 before part-10."""
    parts = re.split(r"(\d+)", "/".join(pair[0]))
    return tuple((int(part), part) if part.isdecimal() else (0, part) for part in parts)


def holds_parquet(path: Path) -> bool:
    """Whether a path is named like a Parquet file, or is a folder that holds such files."""
    return bool(parquet_files(path)) if is_folder(path) else path.suffix.lower() in PARQUET_SUFFIXES


def is_dataset(paths: Sequence[Path]) -> bool:
    """Whether Parquet files, and those of folders, are parts of one table of many nights, by their footers.

    They are if a folder is a partition or a file holds several nights. Files that hold one night each are
    none; if two of these share an id, they may be halves of a night or two nights, which is an error.
    """
    if not paths or not all(map(holds_parquet, paths)):
        return False
    files, seen = _expanded(paths), set[Any]()
    shared: Any = None  # a file that has the id of another
    if any(map(is_folder, paths)):
        root = dataset_root(paths)
        if any("=" in place_in(file, root).rpartition("/")[0] for file in files):
            return True
    for file in files:
        try:
            ids = _least_and_most_ids(file)
        except (StageGuardError, OSError):  # told when it is read
            continue
        if ids is None or len(ids) > 1:
            return True
        shared = shared or (ids & seen and file)
        seen |= ids
    if shared:
        raise file_error(
            shared,
            f"has the {ID} of a file before it, and no file has several. If they are parts of one table of "
            "nights, name a table as output, such as out.parquet; if each is a night, remove the column "
            f"{ID}.",
        )
    return False


def _expanded(paths: Sequence[Path]) -> list[Path]:
    """Return files, and those in folders, each once; in natural order, since a shell puts 10 before 9."""
    files = [one for path in paths for one in (parquet_files(path) if is_folder(path) else [path])]
    named = [(tuple(str(one).split("/")), one) for one in dict.fromkeys(files)]
    return [one for _, one in sorted(named, key=_natural)]


def _least_and_most_ids(path: Path) -> set[Any] | None:
    """Return the least and the most id of each row group of a file; None if its footer does not tell."""
    _, metadata, _ = _footer(path)
    leaves = [
        metadata.schema.column(number).path.strip().casefold() for number in range(metadata.num_columns)
    ]
    if ID not in leaves:
        return set()
    column = leaves.index(ID)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found = [group.column(column).statistics for group in groups if group.num_rows]
    if not all(one is not None and one.has_min_max for one in found):
        return None
    return {value for one in found for value in (one.min, one.max)}


def read_dataset(paths: Sequence[Path], options: FileOptions) -> ParquetCohort:
    """Return a dataset by its files, its folder or its one file; of each file only the footer is read."""
    root, files = dataset_root(paths), _expanded(paths)
    if not files:
        raise file_error(root, f"this folder holds no Parquet file. Expected a dataset of {ID} and stages.")
    read = [_dataset_file(one, root) for one in files]
    with_rows = [file for file in read if file.n_rows]
    if not with_rows:
        raise file_error(root, "has a header but no rows. Expected one row per epoch.")
    first = with_rows[0]
    id_name = first.header[id_column(first.place, first.header)]
    wanted, ignored = _columns(first, id_name, options)
    for file in with_rows[1:]:
        missing = [name for name in (id_name, *wanted) if name not in file.header]
        if missing:
            raise file_error(
                file.place, f"lacks the column {missing[0]!r} of {first.place}, expected the same columns in "
                "all files of a dataset."
            )  # fmt: skip
        if file.header != first.header:
            more = [name for name in _columns(file, id_name, options)[0] if name not in wanted]
            if more:
                raise file_error(
                    file.place, f"has the column {more[0]!r}, which {first.place} lacks, expected the same "
                    "columns in all files of a dataset."
                )  # fmt: skip
    remarks = (f"columns ignored: {listed(ignored)}",) if ignored else ()
    reader = NightReader(root, options, partial(_density, root, wanted, options), remarks)
    folders = {
        folder: tuple(of_folder)
        for folder, of_folder in groupby(sorted(with_rows, key=_folder), _folder)
    }  # fmt: skip
    return ParquetCohort(root, folders, id_name, reader, tuple(wanted))


def describe_dataset(root: Path, places: Sequence[str]) -> dict[str, Any]:
    """Return what identifies these files of a folder."""
    return _described(root, [_dataset_file(root / place, root) for place in places])


def _described(root: Path, files: Sequence[DatasetFile]) -> dict[str, Any]:
    facts = {"file": root.name, "bytes": sum(file.n_bytes for file in files)}
    if [file.path for file in files] == [root]:
        return facts | {"sha256": file_sha256(root)}
    lines = "".join(f"{file.place} {file.n_bytes} {file.footer_sha256}\n" for file in files)
    places = [file.place for file in files]
    return facts | {"sha256": hashlib.sha256(lines.encode()).hexdigest(), "files": places}


def _folder(file: DatasetFile) -> str:
    return file.folder


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


def _columns(file: DatasetFile, id_name: str, options: FileOptions) -> tuple[list[str], list[str]]:
    """Return the columns that are read besides the id, and those that are not."""
    stages = choose_columns(file.path, file.header, options).places
    if len(stages) < 2:
        raise file_error(
            file.place,
            f"names no stages (got: {listed(file.header)}). Expected columns such as W, N1, N2, N3, R.",
        )
    others = [(column, name) for column, name in enumerate(file.header) if name != id_name]
    wanted = [
        name for column, name in others
        if column in stages or meaning_of(name) is not None or is_night_column(name)
    ]  # fmt: skip
    return wanted, [name for _, name in others if name not in wanted]


def _dataset_file(path: Path, root: Path) -> DatasetFile:
    footer, metadata, schema = _footer(path)
    refuse_large_groups(path, metadata)
    refuse_contradiction(path, metadata, partial(_read_columns, path))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return DatasetFile(
        path,
        path.name if path == root else place_in(path, root),
        path.stat().st_size,
        hashlib.sha256(footer).hexdigest(),
        tuple(group.num_rows for group in groups),
        tuple(group.total_byte_size for group in groups),
        tuple(schema.names),
        tuple(text_columns(schema)),
    )


def _read_columns(path: Path, columns: list[str]) -> Any:
    _, parquet = pyarrow_modules(path, "reading")
    with faults_of_arrow(path), open_parquet(parquet, path) as file:
        return file.read(columns=columns)


def _footer(path: Path) -> tuple[bytes, Any, Any]:
    """Return the footer of a Parquet file as bytes, its metadata and its schema."""
    arrow, parquet = pyarrow_modules(path, "reading")
    try:
        with open_file(path) as file:
            file.seek(-FOOTER_BYTES, 2)
            n_bytes = int.from_bytes(file.read(4), "little")
            file.seek(-(FOOTER_BYTES + n_bytes), 2)
            footer = file.read()
        with parquet.ParquetFile(arrow.BufferReader(footer)) as read:
            return footer, read.metadata, read.schema_arrow
    except (StageGuardError, FileNotFoundError):
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise damaged_file(path, error) from None


def _density(
    path: Path, header: Sequence[str], options: FileOptions, columns: Sequence[Column]
) -> RawDensity:
    return density_of_frame(array_table(path, list(zip(header, columns, strict=True))), options)
