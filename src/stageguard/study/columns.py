"""Columns of epochs as Parquet, in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from stageguard.base.extras import library


def columns_as_parquet(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the bytes of a Parquet table; columns of text are written as codes."""
    arrow = library("pyarrow", "predictions of a study", "study")
    parquet = library("pyarrow.parquet", "predictions of a study", "study")
    arrays = {
        name: arrow.array(column).dictionary_encode() if column.dtype.kind == "U" else column
        for name, column in columns.items()
    }
    buffer = io.BytesIO()
    parquet.write_table(arrow.table(arrays), buffer, compression="zstd")
    return buffer.getvalue()


def read_columns(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of a Parquet table by name."""
    parquet = library("pyarrow.parquet", "predictions of a study", "study")
    table = parquet.read_table(io.BytesIO(data))
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return {name: c.astype(np.str_) if c.dtype == object else c for name, c in columns.items()}
