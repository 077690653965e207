"""Samples that stay in MAT, HDF5, Parquet or CSV files until a slice is read."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from stageguard.errors import FileFormatError, StageGuardError
from stageguard.files import faults_named, local_file, open_file, open_text
from stageguard.formats.hdf5 import opened_hdf5
from stageguard.formats.recordings.raw import Array, Sliced
from stageguard.formats.tables.delimited import read_delimited
from stageguard.lazy import library
from stageguard.night.recording import Samples

Cell = str | float | None

# A table of subjects is never this large.
MOST_ROWS, MOST_COLUMNS = 10_000, 256
LARGEST_WORKBOOK = 32 << 20  # bytes, unpacked
LONGEST_HEADER = 1 << 20  # characters of a CSV file's first line
MOST_SAMPLES = 1 << 30  # of a row that is read whole: a month at 400 Hz
_BLOCK = 1 << 20  # rows
_HDF5 = b"\x89HDF\r\n\x1a\n"


def named(path: Path) -> str:
    """Return a file's name with its folder, to distinguish files of the same name such as EEG.mat."""
    return f"{path.parent.name}/{path.name}" if path.parent.name else path.name


def dataset_error(path: Path, message: str) -> FileFormatError:
    """Return an error whose message begins with the file."""
    return FileFormatError(f"{named(path)}: {message}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error of a library into one that names the file."""
    try:
        yield
    except (StageGuardError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        detail = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".removesuffix(": ")
        raise dataset_error(path, f"cannot be read ({detail}). Is it damaged?") from error


@contextmanager
def hdf5_file(path: Path, what: str = "") -> Iterator[Any]:
    """Open an HDF5 file; ``what`` begins the error if the library is missing. Default: reading the file."""
    with reading(path), opened_hdf5(path, what or f"reading {named(path)}") as file:
        yield file


def spool(rows: Iterable[Sequence[Array]], path: Path, n_columns: int) -> list[Array]:
    """Write blocks of columns to anonymous temporary files, and return each column as a memory map."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile(prefix="stageguard-")) for _ in range(n_columns)]
        length, dtypes = 0, [np.dtype(np.float64)] * n_columns
        for blocks in rows:
            for i, (file, block) in enumerate(zip(files, blocks, strict=True)):
                if block.dtype.kind not in "iufb":
                    raise dataset_error(path, f"holds {block.dtype} values, expected numbers.")
                dtypes[i] = dtypes[i] if length else block.dtype
                file.write(np.ascontiguousarray(block, dtype=dtypes[i]).data)
            length += len(blocks[0])
        if not length:
            raise dataset_error(path, "holds no samples.")
        for file in files:
            file.flush()
        return [
            np.memmap(file, dtype=dtype, mode="r", shape=(length,))
            for file, dtype in zip(files, dtypes, strict=True)
        ]


def spool_samples(length: int, load: Callable[[], Iterable[Array]], path: Path) -> Samples:
    """Return samples of a file that can only be read whole; the first slice copies them to disk."""

    @cache
    def array() -> Array:
        (values,) = spool(((block,) for block in load()), path, 1)
        if len(values) != length:
            raise dataset_error(path, f"holds {len(values):,} samples, its header says {length:,}.")
        return values

    return Sliced(length, lambda first, end: np.asarray(array()[first:end]))


def hdf5_samples(path: Path, name: str, length: int, index: tuple[int | None, ...]) -> Samples:
    """Return a row or column of an HDF5 dataset by its index per axis; None marks the axis of time."""
    return Sliced(length, partial(_read_hdf5, path, name, index))


def _read_hdf5(path: Path, name: str, index: tuple[int | None, ...], first: int, end: int) -> Array:
    with hdf5_file(path) as file:
        return np.asarray(file[name][tuple(slice(first, end) if at is None else at for at in index)])


def hdf5_row(path: Path, dataset: Any) -> Samples:
    """Return the samples of an HDF5 dataset with one long axis, such as MATLAB's 1 x N and N x 1."""
    shape = tuple(int(n) for n in dataset.shape)
    long = [axis for axis, n in enumerate(shape) if n > 1]
    if dataset.dtype.kind not in "iuf" or len(long) > 1 or not shape or 0 in shape:
        kind = "" if dataset.dtype.kind in "iuf" else f" of {dataset.dtype} values"
        raise dataset_error(
            path, f"{dataset.name.lstrip('/')} has shape {shape}{kind}, expected one row of numbers."
        )
    axis = long[0] if long else len(shape) - 1
    index = tuple(None if i == axis else 0 for i in range(len(shape)))
    return hdf5_samples(path, dataset.name, shape[axis], index)


def mat_row(path: Path, variable: str) -> Samples:
    """Return a vector of a MAT-file, version 5 to 7 (through scipy) or 7.3 (through h5py)."""
    with open_file(path) as file:
        head = file.read(1024)
    if head.startswith(b"MATLAB 5.0") and _HDF5 not in head:
        return _mat5_row(path, variable)
    if _HDF5 in head:
        with hdf5_file(path, f"{named(path)} is a MAT-file of version 7.3; reading it") as file:
            return hdf5_row(path, file[_pick(path, variable, [n for n in file if n != "#refs#"])])
    raise dataset_error(path, "is no MAT-file of version 5 to 7.3. Was it written completely?")


def _mat5_row(path: Path, variable: str) -> Samples:
    io = library("scipy.io", f"reading {named(path)}")
    with reading(path):
        shapes = {name: shape for name, shape, _ in io.whosmat(local_file(path))}
    name = _pick(path, variable, list(shapes))
    shape = tuple(int(n) for n in shapes[name])
    length = int(np.prod(shape))
    if length < 1 or max(shape) != length or length > MOST_SAMPLES:
        raise dataset_error(
            path, f"{name} has shape {shape}, expected one row of up to {MOST_SAMPLES:,} numbers."
        )

    def load() -> Iterator[Array]:
        with reading(path):
            yield np.ravel(io.loadmat(local_file(path), variable_names=[name])[name])

    return spool_samples(length, load, path)


def _pick(path: Path, wanted: str, names: Sequence[str]) -> str:
    """Return the variable of this name, ignoring case."""
    if wanted in names:
        return wanted
    alike = [name for name in names if name.lower() == wanted.lower()]
    if len(alike) == 1:
        return alike[0]
    raise dataset_error(path, f"has no variable {wanted!r}; it has: {', '.join(names) or 'none'}.")


def table_columns(path: Path, wanted: Sequence[str]) -> dict[str, Samples]:
    """Return columns of a Parquet or CSV table by name; missing columns are left out.

    A column is read whole when its first slice is: text allows no random access, and a Parquet file may be
    one block.
    """
    is_parquet = path.suffix.lower() == ".parquet"
    parquet = library("pyarrow.parquet" if is_parquet else "pyarrow.csv", f"reading {named(path)}")
    if not is_parquet:
        return _csv_columns(path, wanted, parquet)
    with reading(path), parquet.ParquetFile(local_file(path)) as file:
        length = int(file.metadata.num_rows)
        names = [name for name in wanted if name in file.schema_arrow.names]
    if not length:
        raise dataset_error(path, "has no rows.")

    def load(name: str) -> Iterator[Array]:
        with reading(path), parquet.ParquetFile(local_file(path)) as file:
            for batch in file.iter_batches(batch_size=_BLOCK, columns=[name]):
                yield batch.column(0).to_numpy(zero_copy_only=False)

    return {name: spool_samples(length, partial(load, name), path) for name in names}


def _csv_columns(path: Path, wanted: Sequence[str], csv: Any) -> dict[str, Samples]:
    """Return columns of a CSV file, parsed once into temporary files."""
    with open_text(path, encoding="utf-8-sig") as file:
        header = [name.strip().strip('"') for name in file.readline(LONGEST_HEADER).split(",")]
    names = [name for name in wanted if name in header]
    if not names:
        return {}
    options = csv.ConvertOptions(include_columns=names, column_types=dict.fromkeys(names, "float64"))
    layout = csv.ReadOptions(column_names=header, skip_rows=1)
    source = local_file(path)
    with reading(path), csv.open_csv(source, read_options=layout, convert_options=options) as reader:
        rows = ([column.to_numpy(zero_copy_only=False) for column in batch.columns] for batch in reader)
        return dict(zip(names, spool(rows, path, len(names)), strict=True))


def sheet_rows(path: Path) -> list[list[Cell]]:
    """Return the filled rows of a table of subjects: CSV, or the first sheet of a workbook (.xls, .xlsx)."""
    if path.suffix == ".csv":
        table = read_delimited(path, fallback="latin-1")
        return [list(row) for row in (table.header, *table.rows)]
    if path.suffix == ".xls":
        xlrd = library("xlrd", f"reading {path.name}")
        with reading(path):
            sheet = xlrd.open_workbook(str(local_file(path))).sheet_by_index(0)
            return [list(sheet.row_values(row)) for row in range(sheet.nrows)]
    openpyxl = library("openpyxl", f"reading {path.name}")
    with faults_named(path.name), open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                n_bytes = sum(item.file_size for item in archive.infolist())
        except zipfile.BadZipFile:
            raise dataset_error(path, "is no Excel workbook (.xlsx).") from None
        if n_bytes > LARGEST_WORKBOOK:
            raise dataset_error(path, "is too large for a table of subjects.")
        sheet = openpyxl.load_workbook(file, read_only=True, data_only=True).worksheets[0]
        # bounded, since a cell may claim any place
        cells = sheet.iter_rows(max_row=MOST_ROWS, max_col=MOST_COLUMNS, values_only=True)
        rows = [_trim(row) for row in cells]
    return [row for row in rows if row]


def _trim(row: Sequence[Cell]) -> list[Cell]:
    """Return a row up to its last filled cell."""
    filled = [column for column, cell in enumerate(row) if cell is not None]
    return list(row[: filled[-1] + 1]) if filled else []
