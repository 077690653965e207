"""The decoded nights of a cohort as one table, Parquet or text: written in parts, put together at the end."""

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
from stageguard.base.files import open_file, write_cell
from stageguard.formats.cohort_table import ID, OWN_COLUMNS, PARQUET_SUFFIXES, TEXT_DELIMITERS
from stageguard.formats.outputs import COLUMNS, table_columns
from stageguard.formats.tools.parquet import pyarrow_modules

if TYPE_CHECKING:
    from stageguard.guard.decoding import Decoding

ID_MEANING = {"Description": "Name of the night, as the input has it"}
_ABOUT = b"stageguard"  # the key of what a part says about its nights
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
        table = part_table(output, arrow.memory_map(str(part)))
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
    """Return what the rows of the table are made of by `part_table`."""
    arrow, _ = pyarrow_modules(output, "writing")
    decodings = [decoding for _, decoding in nights]
    labels = np.concatenate([each.hypnogram.labels for each in decodings])
    chosen = np.concatenate([_chosen_probabilities(each) for each in decodings])
    probability = np.where(labels < 0, np.nan, chosen).astype(np.float32)
    arrays = {
        "label": labels,
        "argmax": np.concatenate([each.argmax for each in decodings]),
        "filled": np.concatenate([each.filled for each in decodings]),
        "probability": arrow.array(probability, arrow.float32(), mask=np.isnan(probability)),
    }
    described = [
        (name, each.hypnogram.n_epochs, each.hypnogram.offset_seconds, each.epoch_seconds)
        for name, each in nights
    ]
    about = {"stages": decodings[0].profile.scheme.names, "nights": described}
    table = arrow.table(arrays).replace_schema_metadata({_ABOUT: json.dumps(about)})
    stream = arrow.BufferOutputStream()
    with arrow.ipc.new_file(stream, table.schema) as file:
        file.write_table(table)
    whole: bytes = stream.getvalue().to_pybytes()
    return whole


def _chosen_probabilities(decoding: Decoding) -> Floats:
    """Return the probability of the chosen stage of each epoch; anything where there is none."""
    labels, probabilities = decoding.hypnogram.labels, decoding.night.probabilities
    n_epochs, n_stages = probabilities.shape
    return probabilities.take(np.arange(0, n_epochs * n_stages, n_stages) + np.maximum(labels, 0))


@lru_cache(8)
def _onsets(n_epochs: int, offset_seconds: float, epoch_seconds: float) -> Floats:
    """Return when each epoch begins; nights of a cohort are often of one length."""
    return np.asarray(offset_seconds + epoch_seconds * np.arange(n_epochs), dtype=np.float64)


def part_table(output: Path, part: Any) -> Any:
    """Return the rows, as the output has them, of a part of a Parquet output in Arrow's format."""
    arrow, _ = pyarrow_modules(output, "writing")
    rows = arrow.ipc.open_file(part).read_all()
    about = json.loads(rows.schema.metadata[_ABOUT])
    words, (ids, n_epochs, offsets, seconds) = (*about["stages"], "?"), zip(*about["nights"], strict=True)
    labels, argmax = (rows[name].to_numpy() for name in ("label", "argmax"))

    def coded(codes: Any, words: Sequence[str], kind: Any) -> Any:
        return arrow.DictionaryArray.from_arrays(arrow.array(codes, kind), arrow.array(words, arrow.string()))

    def stages(labels: Any) -> Any:
        return coded(np.where(labels < 0, np.int8(len(words) - 1), labels), words, arrow.int8())

    arrays = {
        ID: coded(np.repeat(np.arange(len(ids), dtype=np.int32), n_epochs), ids, arrow.int32()),
        "onset": np.concatenate([*map(_onsets, n_epochs, offsets, seconds)]),
        "duration": np.repeat(np.array(seconds, dtype=np.float64), n_epochs),
        "stage": stages(labels),
        "label": rows["label"],
        "argmax_stage": stages(argmax),
        "changed": (labels != argmax) & (argmax >= 0),
        "filled": rows["filled"],
        "probability": rows["probability"],
    }
    return arrow.table(arrays)


def _text_bytes(nights: Sequence[tuple[str, Decoding]], delimiter: str) -> bytes:
    stream = io.StringIO()
    rows = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    for name, decoding in nights:
        cells = table_columns(decoding, None).values()
        rows.writerows(zip([write_cell(name)] * decoding.hypnogram.n_epochs, *cells, strict=True))
    return stream.getvalue().encode()
