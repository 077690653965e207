"""Read and write Parquet tables of stages and probabilities, of one night or a cohort, with pyarrow."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from stageguard.errors import InputError
from stageguard.files import file_error, read_file, seekable_file
from stageguard.formats.arrow import decoded, faults_of_arrow, pyarrow_modules, refuse_large
from stageguard.formats.density import MOST_EPOCHS, listed
from stageguard.formats.file_format import ANNOTATIONS, Contents, FileFormat
from stageguard.formats.hypnogram import stage_column
from stageguard.formats.night import FileOptions, Night, RawDensity, RawHypnogram
from stageguard.formats.outputs import OWN_HEAD
from stageguard.formats.sniffing import begins_with
from stageguard.formats.tables.frames import arrow_table, density_of_frame, stage_table
from stageguard.formats.tools.stageguard import stage_columns
from stageguard.formats.tools.text import from_table
from stageguard.night.stages import canonical_name

COHORT_HEAD = ("id", *OWN_HEAD)


def _read(path: Path) -> Any:
    """Return the table in a file of one night."""
    with _open(path) as file:
        _refuse_long(path, file.metadata.num_rows)
        # no cell of a table holds a list or bytes
        plain = [f.name for f in file.schema_arrow if not re.search(r"list|struct|map|binary", str(f.type))]
        table = file.read(columns=plain)
        return decoded(table).replace_schema_metadata(table.schema.metadata)


def read_probabilities(path: Path, options: FileOptions) -> RawDensity:
    """Read the probabilities in columns that are named after stages."""
    table = _read(path)
    with faults_of_arrow(path):
        is_own = _is_own(table.column_names)
        raw = density_of_frame(arrow_table(table, path), options, fills_lead=not is_own)
        return replace(raw, start=_first_time(table) or raw.start)


def read_stages(path: Path, options: FileOptions) -> RawHypnogram:
    """Read the stages in a column of stages."""
    table = _read(path)
    with faults_of_arrow(path):
        scored = stage_table(path, arrow_table(table, path))
        raw = from_table(path, scored, options)
        return replace(raw, scorer=_first_text(table, "scorer"), start=_first_time(table) or raw.start)


def has_final_stages(path: Path) -> bool:
    """Whether a file has stages, and no probabilities except those that this package wrote beside them."""
    with _open(path) as file:
        header = [name.casefold() for name in file.schema_arrow.names]
    is_density = sum(canonical_name(name) is not None for name in header) > 1
    return stage_column(header) is not None and (_is_own(header) or not is_density)


def _is_own(names: Sequence[str]) -> bool:
    """Whether columns are those of `write_cohort`, which has no stage column for probabilities alone."""
    return tuple(names)[: len(COHORT_HEAD) - 1] == COHORT_HEAD[:-1]


def write_cohort(nights: Sequence[Night], path: Path) -> Contents:
    """Write nights one after the other: id, onset, duration, time, stage, probabilities, scorer per epoch."""
    arrow, parquet = pyarrow_modules(path, "writing")
    schemes = list(dict.fromkeys(night.any.scheme.names for night in nights))
    if len(schemes) > 1:
        raise InputError(
            f"the nights have different stages ({listed(schemes[0])}; "
            f"{listed(schemes[1])}), expected the same in one file. Merge them first: "
            "merge_to='wnr3'."
        )
    for what, missing in {"scoring": "stages", "probabilities": "probabilities"}.items():
        without = [night.id for night in nights if getattr(night, what) is None]
        if 0 < len(without) < len(nights):
            raise InputError(
                f"{listed(without, 3)}: no {missing}, which other nights have. Write them apart."
            )
    columns: dict[str, list[Any]] = {}
    for night in nights:
        n_epochs, scorer = night.any.n_epochs, None if night.scoring is None else night.scoring.scorer
        of_night: dict[str, Sequence[Any]] = {"id": [night.id] * n_epochs, **stage_columns(night)}
        for name, values in {**of_night, "scorer": [scorer] * n_epochs}.items():
            columns.setdefault(name, []).extend(values)
    columns["time"] = [None if moment is None else moment.isoformat() for moment in columns["time"]]
    stream = io.BytesIO()
    kinds = dict.fromkeys(("id", "time", "stage", "scorer"), arrow.string())
    arrays = {name: arrow.array(cells, kinds.get(name, arrow.float64())) for name, cells in columns.items()}
    parquet.write_table(arrow.table(arrays), stream, compression="zstd")
    return {path: stream.getvalue()}


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Yield a file that does not fill the memory."""
    _, parquet = pyarrow_modules(path, "reading")
    if b"PAR1PAR1" in read_file(path):
        raise file_error(path, "is two Parquet files, one behind the other. Are two files joined in it?")
    with faults_of_arrow(path), parquet.ParquetFile(seekable_file(path)) as file:
        refuse_large(path, file.metadata)
        yield file


def _first_text(table: Any, name: str) -> str | None:
    """Return the text in the first row of the only column of this name, or None."""
    if table.column_names.count(name) != 1 or not table.num_rows:
        return None
    cell = table.column(name)[0].as_py()
    return cell if isinstance(cell, str) else None


def _first_time(table: Any) -> datetime | None:
    """Return the time of the first row, if this package wrote it."""
    try:
        return datetime.fromisoformat(_first_text(table, "time") or "")
    except ValueError:
        return None


def _refuse_long(path: Path, n_rows: int) -> None:
    """Refuse more rows than a night may have, before they are unpacked: equal ones take hardly any bytes."""
    if n_rows > MOST_EPOCHS:
        raise file_error(
            path, f"has {n_rows:,} rows, expected at most {MOST_EPOCHS:,} epochs of one night. A table of "
            "many nights needs a column id, and an output such as out.parquet."
        )  # fmt: skip


FORMATS = (
    FileFormat(
        "parquet",
        "a Parquet table",
        (".parquet", ".pq"),
        begins_with(b"PAR1"),
        stages=read_stages,
        probabilities=read_probabilities,
        write=lambda night, path: write_cohort([night], path),
        loses=(ANNOTATIONS,),
        has_final_stages=has_final_stages,
        writes_probabilities_alone=True,
        holds_cohort=True,
    ),
)
