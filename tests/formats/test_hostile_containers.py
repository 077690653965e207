"""Containers that would read other files, or fill the memory, are refused in one line."""

from __future__ import annotations

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stageguard as sg
from messages import mentions
from stageguard.formats.hdf5 import opened_hdf5, values_of

NIGHT = {"W": [1.0] * 500, "N1": [0.0] * 500, "N2": [0.0] * 500, "N3": [0.0] * 500, "R": [0.0] * 500}


def one_line(error) -> str:
    text = str(error.value)
    assert text.isprintable()
    assert len(text) < 400
    return text


def write_parquet(path, columns):
    table = pa.table(columns)
    options = {"compression": "zstd", "dictionary_pagesize_limit": 2**30, "store_schema": False}
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(table)
    return path


def test_columns_that_hold_no_cells_are_not_read(tmp_path):
    more = {"list": [[1.0] * 3] * 500, "bytes": [b"x" * 100] * 500, "struct": [{"a": 1}] * 500}
    path = write_parquet(tmp_path / "night.parquet", NIGHT | more)
    plain = write_parquet(tmp_path / "plain.parquet", NIGHT)
    read, expected = sg.read_density(path), sg.read_density(plain)
    np.testing.assert_array_equal(read.probabilities, expected.probabilities)


def test_texts_are_read_as_before(tmp_path):
    stages = ["W", "N1", "N2", None, "R"] * 4
    for values in (stages, pa.array(stages).dictionary_encode(), pa.array(stages, pa.large_string())):
        path = write_parquet(tmp_path / "night.parquet", {"onset": np.arange(20) * 30.0, "stage": values})
        assert [*sg.read_hypnogram(path).stages] == ["W", "N1", "N2", "?", "R"] * 4


def write_hdf5(path, make):
    (path.parent / "secret.txt").write_bytes(b"secret" * 100)
    with h5py.File(path.parent / "other.h5", "w") as other:
        other["hypnogram"] = np.zeros(10)
    with h5py.File(path, "w", userblock_size=512 if path.suffix == ".mat" else 0) as file:
        make(file, path.parent)
    if path.suffix == ".mat":
        with path.open("r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file")
    return path


def external_storage(file, folder):
    stored = [(str(folder / "secret.txt"), 0, 100)]
    file.create_dataset("hypnogram", (100,), "u1", external=stored)
    file.create_dataset("labels", (100,), "u1", external=stored)


def external_link(file, folder):
    file["hypnogram"] = file["labels"] = h5py.ExternalLink(str(folder / "other.h5"), "/hypnogram")


def soft_link(file, folder):
    file["data"] = np.zeros(10)
    file["hypnogram"] = file["labels"] = h5py.SoftLink("/data")


def link_in_a_group(file, folder):
    file["hypnogram"] = file["labels"] = np.zeros(10)
    file.create_group("a/b")["c"] = h5py.ExternalLink("other.h5", "/")


def virtual_dataset(file, folder):
    layout = h5py.VirtualLayout((10,), "f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "hypnogram", (10,))
    file.create_virtual_dataset("hypnogram", layout)
    file.create_virtual_dataset("labels", layout)


FOREIGN = [external_storage, external_link, soft_link, link_in_a_group, virtual_dataset]


@pytest.mark.parametrize("make", FOREIGN)
@pytest.mark.parametrize("name", ["night.h5", "night.mat"])
def test_hdf5_files_whose_data_lie_elsewhere_are_refused(tmp_path, make, name):
    path = write_hdf5(tmp_path / name, make)
    with pytest.raises(sg.FileFormatError) as error:
        sg.read_hypnogram(path, format="dreem-h5" if name == "night.h5" else "accusleep-mat")
    assert mentions(one_line(error), "Save a copy", "data")


def test_hdf5_files_that_hold_their_data_are_read(tmp_path):
    path = write_hdf5(tmp_path / "night.h5", lambda file, _: file.update({"hypnogram": np.arange(5)}))
    assert [*sg.read_hypnogram(path, format="dreem-h5").stages] == ["W", "N1", "N2", "N3", "R"]


@pytest.mark.parametrize("kind", ["f8", "S1000000", h5py.string_dtype()])
def test_datasets_that_would_fill_the_memory_are_refused(tmp_path, kind):
    with h5py.File(tmp_path / "a.h5", "w") as file:  # nothing of it is stored
        file.create_dataset("a", (1_000_000_000,), kind, chunks=(1000,))
    with opened_hdf5(tmp_path / "a.h5", "reading") as file, pytest.raises(sg.FileFormatError) as error:
        values_of(tmp_path / "a.h5", file["a"])
    assert "1,000,000,000 values" in one_line(error)
