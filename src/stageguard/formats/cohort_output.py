"""Write the decoded nights of a cohort as one table, Parquet or text: in parts that are joined at the end."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.base.files import open_file, parse_json, read_file, write_cell
from stageguard.formats.cohort_table import ID, OWN_COLUMNS, PARQUET_SUFFIXES, TEXT_DELIMITERS
from stageguard.formats.outputs import COLUMNS, table_columns
from stageguard.formats.tools.parquet import pyarrow_modules

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

ID_MEANING = {"Description": "Name of the night, as the input has it"}
PART_SUFFIX = {True: ".rows", False: ".txt"}  # by whether the output is Parquet


def column_meanings(stages: Sequence[str]) -> dict[str, Any]:
    """Return the meanings of the table's columns, in the form of BIDS."""
    meanings = {ID: ID_MEANING, **{name: dict(COLUMNS[name]) for name in OWN_COLUMNS}}
    meanings["label"]["Levels"] = {str(i): name for i, name in enumerate(stages)} | {"-1": "?"}
    return meanings


def part_suffix(output: Path) -> str:
    """Return the suffix for parts of this output."""
    return PART_SUFFIX[output.suffix.lower() in PARQUET_SUFFIXES]


def part_bytes(output: Path, nights: Sequence[tuple[str, Decoding]]) -> bytes:
    """Return the rows of decoded nights as a part of an output: packed for `part_table`, or as text."""
    if output.suffix.lower() in PARQUET_SUFFIXES:
        return _packed(nights)
    return _text_bytes(nights, TEXT_DELIMITERS[output.suffix.lower()])


@contextmanager
def joining(output: Path, stream: BinaryIO) -> Iterator[Callable[[Path], None]]:
    """Yield a function that appends a part to the table, which is complete when the block ends."""
    if output.suffix.lower() not in PARQUET_SUFFIXES:
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


# Statistics of ids help to find a night; those of the other columns would take as long as writing them.
_PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [ID, "onset", "duration", "stage", "argmax_stage"],
    "write_statistics": [ID],
}


def _packed(nights: Sequence[tuple[str, Decoding]]) -> bytes:
    """Return a description and four arrays, from which `part_table` makes the rows of a Parquet table."""
    decodings = [decoding for _, decoding in nights]
    labels = np.concatenate([each.hypnogram.labels for each in decodings])
    chosen = np.concatenate([_chosen_probabilities(each) for each in decodings])
    arrays = (
        labels,
        np.concatenate([each.argmax for each in decodings]),
        np.concatenate([each.filled for each in decodings]),
        np.where(labels < 0, np.nan, chosen).astype(np.float32),
    )
    described = [
        (name, each.hypnogram.n_epochs, each.hypnogram.offset_seconds, each.epoch_seconds)
        for name, each in nights
    ]
    about = json.dumps({"stages": decodings[0].profile.scheme.names, "nights": described}).encode()
    return b"".join((about, b"\n", *(array.tobytes() for array in arrays)))


def _chosen_probabilities(decoding: Decoding) -> Floats:
    """Return the probability of the chosen stage of each epoch; meaningless if unscored."""
    labels, probabilities = decoding.hypnogram.labels, decoding.night.probabilities
    n_epochs, n_stages = probabilities.shape
    return probabilities.take(np.arange(0, n_epochs * n_stages, n_stages) + np.maximum(labels, 0))


@lru_cache(8)
def _onsets(n_epochs: int, offset_seconds: float, epoch_seconds: float) -> Floats:
    """Return when each epoch begins; cached, as nights of a cohort often have the same length."""
    return np.asarray(offset_seconds + epoch_seconds * np.arange(n_epochs), dtype=np.float64)


def part_table(output: Path, part: bytes) -> Any:
    """Return the rows of a part, as a table of the Parquet output."""
    arrow, _ = pyarrow_modules(output, "writing")
    position = part.index(b"\n") + 1
    about = parse_json(part[:position])
    words, (ids, n_epochs, offsets, seconds) = (*about["stages"], "?"), zip(*about["nights"], strict=True)
    arrays: list[Any] = []
    for kind in (np.int8, np.int8, np.bool_, np.float32):
        arrays.append(np.frombuffer(part, kind, sum(n_epochs), position))
        position += arrays[-1].nbytes
    labels, argmax, filled, probability = arrays

    def coded(codes: Any, words: Sequence[str], kind: Any) -> Any:
        return arrow.DictionaryArray.from_arrays(arrow.array(codes, kind), arrow.array(words, arrow.string()))

    def stages(labels: Any) -> Any:
        return coded(np.where(labels < 0, np.int8(len(words) - 1), labels), words, arrow.int8())

    columns = {
        ID: coded(np.repeat(np.arange(len(ids), dtype=np.int32), n_epochs), ids, arrow.int32()),
        "onset": np.concatenate([*map(_onsets, n_epochs, offsets, seconds)]),
        "duration": np.repeat(np.array(seconds, dtype=np.float64), n_epochs),
        "stage": stages(labels),
        "label": labels,
        "argmax_stage": stages(argmax),
        "changed": (labels != argmax) & (argmax >= 0),
        "filled": filled,
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
