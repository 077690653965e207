"""Read Parquet tables of stage probabilities by column name. Needs pyarrow, and loads it when used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stageguard.errors import FileFormatError, MissingExtraError
from stageguard.formats._density_file import DensityOptions, RawDensity, file_error
from stageguard.formats.frames import density_of_columns
from stageguard.formats.tables import MOST_COLUMNS

MOST_BYTES = 2**30  # of all columns, unpacked


def read_parquet(path: Path, options: DensityOptions) -> RawDensity:
    """Probabilities of a Parquet file with stage-named columns."""
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError(
            f"{path.name}: reading Parquet needs 'pyarrow'. Install with: pip install 'stageguard[formats]'."
        ) from None
    if b"PAR1PAR1" in path.read_bytes():
        raise file_error(path, "ends within, and begins again. Are two files joined in it?")
    try:
        with parquet.ParquetFile(path) as file:
            _refuse_large(path, file.metadata)
            table = file.read()
            columns = [(name, _plain(table.column(place))) for place, name in enumerate(table.column_names)]
    except FileFormatError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise file_error(path, f"is damaged or cut short ({reason}). Save it again.") from None
    return density_of_columns(path, columns, options)


def _plain(column: Any) -> Any:
    return column.to_numpy()


def _refuse_large(path: Path, metadata: Any) -> None:
    """Refuse what would fill the memory before it is unpacked."""
    if metadata.num_columns > MOST_COLUMNS:
        raise file_error(path, f"has {metadata.num_columns:,} columns, expected at most {MOST_COLUMNS:,}.")
    n_bytes = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    n_bytes = max(n_bytes, 8 * metadata.num_rows * metadata.num_columns)
    if n_bytes > MOST_BYTES:
        raise file_error(
            path, f"would take {n_bytes / 1e6:,.0f} MB unpacked, expected at most {MOST_BYTES / 1e6:,.0f} MB."
        )
