"""Write the decoded nights of a cohort as one table, Parquet or text: in parts that are joined at the end."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from stageguard.base.files import open_file, read_file, write_cell
from stageguard.formats.cohort_table import ID, OWN_COLUMNS, PARQUET_SUFFIXES, TEXT_DELIMITERS
from stageguard.formats.outputs import column_meanings, table_columns
from stageguard.formats.tools.parquet import pyarrow_modules

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

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
