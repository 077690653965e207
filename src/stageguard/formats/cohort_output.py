"""The decoded nights of a cohort as one table, Parquet or text: written in parts, put together at the end."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from stageguard.base.files import open_file, write_cell
from stageguard.formats.cohort_table import ID, OWN_COLUMNS, PARQUET_SUFFIXES, TEXT_DELIMITERS
from stageguard.formats.outputs import COLUMNS, table_columns
from stageguard.formats.tools.parquet import pyarrow_modules

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

ID_MEANING = {"Description": "Name of the night, as the input has it"}
PART_SUFFIX = {True: ".arrow", False: ".txt"}  # by whether the output is Parquet


def column_meanings(stages: Sequence[str]) -> dict[str, Any]:
    """Return what the columns of the table mean, as BIDS has it."""
    meanings = {ID: ID_MEANING, **{name: dict(COLUMNS[name]) for name in OWN_COLUMNS}}
    meanings["label"]["Levels"] = {str(i): name for i, name in enumerate(stages)} | {"-1": "?"}
    return meanings


def part_suffix(output: Path) -> str:
    """Return how the name of a part of this output ends."""
    return PART_SUFFIX[output.suffix.lower() in PARQUET_SUFFIXES]


def part_bytes(output: Path, nights: Sequence[tuple[str, Decoding]]) -> bytes:
    """Return the rows of decoded nights as a part of an output: Arrow's own format, or text."""
    if output.suffix.lower() in PARQUET_SUFFIXES:
        return _arrow_bytes(output, nights)
    return _text_bytes(nights, TEXT_DELIMITERS[output.suffix.lower()])


@contextmanager
def joining(output: Path, stream: BinaryIO) -> Iterator[Callable[[Path], None]]:
    """Yield what adds a part to the table, which is whole when the block ends; parts come in their order."""
    if output.suffix.lower() not in PARQUET_SUFFIXES:
        delimiter = TEXT_DELIMITERS[output.suffix.lower()]
        stream.write((delimiter.join((ID, *OWN_COLUMNS)) + "\n").encode())

        def add_text(part: Path) -> None:
            with open_file(part, "a recording") as file:
                shutil.copyfileobj(file, stream)

        yield add_text
        return
    arrow, parquet = pyarrow_modules(output, "writing")
    writer: Any = None

    def add_rows(part: Path) -> None:
        nonlocal writer
        table = arrow.ipc.open_file(arrow.memory_map(str(part))).read_all()
        writer = writer or parquet.ParquetWriter(stream, table.schema, **_PARQUET_OPTIONS)
        writer.write_table(table)

    try:
        yield add_rows
    finally:
        if writer is not None:
            writer.close()


# Statistics are for whoever looks for a night; those of the other columns take as long as writing them.
_PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [ID, "onset", "duration", "stage", "argmax_stage"],
    "write_statistics": [ID],
}


def _arrow_bytes(output: Path, nights: Sequence[tuple[str, Decoding]]) -> bytes:
    arrow, _ = pyarrow_modules(output, "writing")
    names = (*nights[0][1].profile.scheme.names, "?")  # index -1 is "?"
    lengths = [decoding.hypnogram.n_epochs for _, decoding in nights]
    columns = {name: np.concatenate([_column(name, each) for _, each in nights]) for name in _ARRAYS}

    def coded(codes: Any, words: Sequence[str], kind: Any) -> Any:
        return arrow.DictionaryArray.from_arrays(arrow.array(codes, kind), arrow.array(words, arrow.string()))

    def stages(labels: Any) -> Any:
        return coded(np.where(labels < 0, len(names) - 1, labels), names, arrow.int8())

    probability = columns["probability"]
    arrays = {
        ID: coded(np.repeat(np.arange(len(nights)), lengths), [name for name, _ in nights], arrow.int32()),
        "onset": columns["onset"],
        "duration": np.repeat([decoding.epoch_seconds for _, decoding in nights], lengths),
        "stage": stages(columns["label"]),
        "label": columns["label"],
        "argmax_stage": stages(columns["argmax"]),
        "changed": columns["changed"],
        "filled": columns["filled"],
        "probability": arrow.array(probability, arrow.float32(), mask=np.isnan(probability)),
    }
    table = arrow.table(arrays)
    stream = io.BytesIO()
    with arrow.ipc.new_file(stream, table.schema) as file:
        file.write_table(table)
    return stream.getvalue()


_ARRAYS = ("onset", "label", "argmax", "changed", "filled", "probability")


def _column(name: str, decoding: Decoding) -> Any:
    """Return one column of one night."""
    night = decoding.hypnogram
    match name:
        case "onset":
            return night.offset_seconds + night.epoch_seconds * np.arange(night.n_epochs)
        case "label":
            return night.labels
        case "argmax":
            return decoding.argmax
        case "changed":
            return decoding.changed
        case "filled":
            return decoding.filled
    labels = night.labels
    chosen = decoding.night.probabilities[np.arange(len(labels)), np.maximum(labels, 0)]
    return np.where(labels < 0, np.nan, chosen).astype(np.float32)


def _text_bytes(nights: Sequence[tuple[str, Decoding]], delimiter: str) -> bytes:
    stream = io.StringIO()
    rows = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    for name, decoding in nights:
        cells = table_columns(decoding, None).values()
        rows.writerows(zip([write_cell(name)] * decoding.hypnogram.n_epochs, *cells, strict=True))
    return stream.getvalue().encode()
