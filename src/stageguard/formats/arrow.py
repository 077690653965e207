"""What every reader of Parquet shares: pyarrow, its faults in one line, and limits of what is unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stageguard.errors import StageGuardError
from stageguard.files import damaged_file, file_error
from stageguard.formats.tables.delimited import MOST_COLUMNS
from stageguard.lazy import library

MOST_BYTES = 2**30  # of all columns, unpacked


def pyarrow_modules(path: Path, doing: str) -> tuple[Any, Any]:
    """Return `pyarrow` and `pyarrow.parquet`; if they are missing, the error says what to install."""
    what = f"{path.name}: {doing} Parquet"
    return library("pyarrow", what, "formats"), library("pyarrow.parquet", what, "formats")


@contextmanager
def faults_of_arrow(path: Path, name: str | None = None) -> Iterator[None]:
    """Turn errors of pyarrow for a damaged file into one line, which begins with the name."""
    arrow, _ = pyarrow_modules(path, "reading")
    try:
        yield
    except StageGuardError:
        raise
    except (arrow.ArrowException, OSError, ValueError, MemoryError) as error:
        raise damaged_file(name or path, error) from None


def decoded(table: Any) -> Any:
    """Return a table, or a batch of one, whose texts are texts, not numbers of them."""
    columns = [
        column.cast(column.type.value_type) if str(column.type).startswith("dictionary") else column
        for column in table.columns
    ]
    return type(table).from_arrays(columns, names=table.schema.names)


def refuse_large(path: Path, metadata: Any) -> None:
    """Refuse a file that would fill the memory, before it is unpacked."""
    if metadata.num_columns > MOST_COLUMNS:
        raise file_error(path, f"has {metadata.num_columns:,} columns, expected at most {MOST_COLUMNS:,}.")
    n_bytes = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    n_bytes = max(n_bytes, 8 * metadata.num_rows * metadata.num_columns)
    if n_bytes > MOST_BYTES:
        raise file_error(
            path, f"would take {n_bytes / 1e6:,.0f} MB unpacked, expected at most {MOST_BYTES / 1e6:,.0f} MB."
        )


def refuse_large_groups(path: Path, metadata: Any) -> None:
    """Refuse a table of many nights with a row group that would fill the memory; each is unpacked at once."""
    sizes = [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]
    if max(sizes, default=0) > MOST_BYTES:
        raise file_error(
            path, f"has a row group of {max(sizes) / 1e6:,.0f} MB, expected at most {MOST_BYTES / 1e6:,.0f} "
            "MB. Save it with smaller row groups."
        )  # fmt: skip
