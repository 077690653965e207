"""A cohort as one table or dataset: what holds it, and how decoded nights are written.

Decoded nights are written in parts, one per chunk of the input, so that memory does not grow with the number
of nights. The parts of one file are joined at the end; those of a dataset are its files.
"""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from stageguard.files import open_file, open_text, read_file, write_cell
from stageguard.formats.cohort_dataset import PARQUET_SUFFIXES, ParquetCohort, read_dataset
from stageguard.formats.cohort_nights import ID, OWN_COLUMNS
from stageguard.formats.cohort_text import TextCohort
from stageguard.formats.outputs import column_meanings, table_columns
from stageguard.formats.raw_night import FileOptions
from stageguard.formats.sniffing import first_cells, first_lines, read_head
from stageguard.formats.tables.delimited import DELIMITERS, HEADER_SEARCH_LINES, split_line
from stageguard.formats.tables.table import cell_text
from stageguard.formats.tools.parquet import open_parquet, pyarrow_modules, unpacked_texts
from stageguard.storage import is_folder

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TABLE_SUFFIXES = (*PARQUET_SUFFIXES, *TEXT_DELIMITERS)

CellRow = list[str]


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


def open_table(paths: Sequence[Path], options: FileOptions) -> TextCohort | ParquetCohort:
    """Return the table of many nights in a file, or in the files or the folder of a dataset."""
    if len(paths) == 1 and not is_folder(paths[0]) and not is_parquet(paths[0]):
        return TextCohort(paths[0], options)
    return read_dataset(paths, options)


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


def output_form(output: Path) -> Literal["text", "parquet", "dataset"]:
    """Return what an output is to be, by its name: one table, or else the folder of a dataset."""
    suffix = output.suffix.lower()
    if suffix not in TABLE_SUFFIXES or is_folder(output):
        return "dataset"
    return "parquet" if suffix in PARQUET_SUFFIXES else "text"


def describe_parts(hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return the files of a dataset with their hashes, and the hash of that list as `sha256sum` prints it."""
    lines = "".join(f"{sha256}  {place}\n" for place, sha256 in hashes.items())
    files = [{"file": place, "sha256": sha256} for place, sha256 in hashes.items()]
    return {"sha256": hashlib.sha256(lines.encode()).hexdigest(), "files": files}


def part_bytes(output: Path, nights: Sequence[tuple[str, Decoding]]) -> bytes:
    """Return the rows of decoded nights as a part of an output.

    Of one Parquet file a part is in Arrow's format, of a dataset it is a Parquet file, else text.
    """
    form = output_form(output)
    if form == "text":
        return _text_bytes(nights, TEXT_DELIMITERS[output.suffix.lower()])
    arrow, parquet = pyarrow_modules(output, "writing")
    table, stream = _table(arrow, nights), io.BytesIO()
    if form == "dataset":
        parquet.write_table(table, stream, **_PARQUET_OPTIONS)
        return stream.getvalue()
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
    if output_form(output) == "text":
        delimiter = TEXT_DELIMITERS[output.suffix.lower()]
        stream.write((delimiter.join((ID, *OWN_COLUMNS)) + "\n").encode())

        def add_text(part: Path) -> None:
            with open_file(part) as file:
                shutil.copyfileobj(file, stream)

        yield add_text
        return
    _, parquet = pyarrow_modules(output, "writing")
    writer: Any = None

    def add_rows(part: Path) -> None:
        nonlocal writer
        table = part_table(output, read_file(part))
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


def output_rows(output: Path, places: Sequence[str]) -> Iterator[CellRow]:
    """Yield the cells of each row of a decoded table, or of the files of a dataset, the header first."""
    if not places:
        yield from table_rows(output)
        return
    for number, place in enumerate(places):
        rows = table_rows(output / place)
        header = next(rows, [])
        if number == 0:
            yield header
        yield from rows


def part_rows(output: Path, part: bytes) -> Iterator[CellRow]:
    """Yield the cells of a part that `part_bytes` made for an output, as `output_rows` yields the whole."""
    form = output_form(output)
    if form == "dataset":
        _, parquet = pyarrow_modules(output, "reading")
        return _batch_rows(parquet.read_table(io.BytesIO(part)))
    if form == "text":
        return csv.reader(io.StringIO(part.decode()), delimiter=TEXT_DELIMITERS[output.suffix.lower()])
    return _batch_rows(part_table(output, part))


def _text_rows(path: Path) -> Iterator[CellRow]:
    """Yield the cells of each non-empty line, the header first."""
    with open_text(path, encoding="utf-8-sig") as file:
        lines = (line for line in file if line.strip())
        first = next(lines, "").rstrip("\r\n")
        widest = max(DELIMITERS, key=lambda mark: len(split_line(first, mark)))
        yield [cell.strip() for cell in split_line(first, widest)]
        yield from csv.reader(lines, delimiter=widest)


def _parquet_rows(path: Path) -> Iterator[CellRow]:
    _, parquet = pyarrow_modules(path, "reading")
    with open_parquet(parquet, path, memory_map=True) as file:
        yield list(file.schema_arrow.names)
        for batch in file.iter_batches(use_threads=False):
            yield from _batch_rows(unpacked_texts(path, batch))


def _batch_rows(batch: Any) -> Iterator[CellRow]:
    yield from map(list, zip(*(map(_cell, column.to_pylist()) for column in batch.columns), strict=True))


def _cell(value: Any) -> str:
    if value is None:
        return "n/a"
    return str(int(value)) if isinstance(value, bool) else cell_text(value)
