"""Files that hold no readable probabilities, or too many rows, are refused with what is true of them."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import stageguard as sg
from messages import mentions


def refusal(path):
    with pytest.raises(sg.StageGuardError) as caught:
        sg.read_density(path)
    return str(caught.value)


def test_hdf5_with_other_arrays_is_not_called_a_scoring(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "n.h5", "w") as file:
        file["probabilities"] = np.full((10, 5), 0.2)
    assert "holds an HDF5 file" in refusal(tmp_path / "n.h5")
    with h5py.File(tmp_path / "n.h5", "w") as file:
        file["hypnogram"] = np.zeros(10)
    assert "stages without probabilities" in refusal(tmp_path / "n.h5")


def test_an_excel_workbook_is_called_one(tmp_path):
    with zipfile.ZipFile(tmp_path / "n.xlsx", "w") as archive:
        for name in ("[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"):
            archive.writestr(name, "<x/>")
    assert mentions(refusal(tmp_path / "n.xlsx"), "an Excel workbook")


def test_more_rows_than_a_night_may_have_are_refused_before_they_are_read(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {stage: np.full(50, 0.2) for stage in ("W", "N1", "N2", "N3", "R")}
    parquet.write_table(arrow.table(columns), tmp_path / "n.parquet")
    assert sg.read_density(tmp_path / "n.parquet").n_epochs == 50
    monkeypatch.setattr("stageguard.formats.tools.parquet.MOST_EPOCHS", 49)
    assert mentions(refusal(tmp_path / "n.parquet"), "50 rows", "49 epochs")
