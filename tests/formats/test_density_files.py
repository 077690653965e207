"""Files of single tools in their native layouts, and what they are refused for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, mentions
from stageguard.errors import FileFormatError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_file

P = np.random.default_rng(9).dirichlet(np.ones(5), 10)
FIVE = ["W", "N1", "N2", "N3", "R"]


def write(folder: Path, name: str, *lines: str) -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def refused(path: Path, **options: object) -> str:
    with pytest.raises(FileFormatError) as caught:
        sg.read_density(path, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path.name}: ")


def gssc(first_seconds: float = 0.0) -> list[str]:
    header = "Epoch,Time,Stage,Prob. W,Prob. N1,Prob. N2,Prob. N3,Prob. REM"
    rows = [f"{i},{first_seconds + 30.0 * i},{P[i].argmax()},{','.join(map(str, P[i]))}" for i in range(10)]
    return ["Hypnogram of night-1", header, *rows]


@pytest.mark.proves("gssc-csv")
@pytest.mark.parametrize("first_seconds", [0.0, 17.35])
def test_csv_of_gssc(tmp_path, first_seconds):
    found = read_density_file(write(tmp_path, "n.csv", *gssc(first_seconds)), FileOptions())
    np.testing.assert_array_equal(found.density.probabilities, P)
    assert (found.density.epoch_seconds, found.density.offset_seconds) == (30.0, first_seconds)
    assert found.notes == ()
    assert mentions(refused(tmp_path / "n.csv", epoch_seconds=20), "epoch", "lasts", "30 s")


def test_rows_of_gssc_that_are_missing_have_no_evidence(tmp_path):
    lines = gssc()
    del lines[5]
    found = read_density_file(write(tmp_path, "n.csv", *lines), FileOptions())
    assert np.flatnonzero(np.isnan(found.density.probabilities[:, 0])).tolist() == [3]
    assert mentions(found.notes[0], 1, "epoch missing")


@pytest.mark.proves("parquet")
def test_parquet_by_column_name(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(P[:, ::-1], columns=FIVE[::-1]).assign(onset=20.0 * np.arange(10), who="me")
    frame.iloc[4, :5] = np.nan
    frame.to_parquet(tmp_path / "n.parquet")
    found = read_density_file(tmp_path / "n.parquet", FileOptions())
    np.testing.assert_array_equal(np.delete(found.density.probabilities, 4, axis=0), np.delete(P, 4, axis=0))
    assert np.isnan(found.density.probabilities[4]).all()
    assert found.density.epoch_seconds == 20.0
    assert each_mentions(found.notes, ("columns ignored: who",), ("last", "20 s", "onset"))


def test_damaged_and_large_parquet(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "n.parquet"
    pd.DataFrame(P, columns=FIVE).to_parquet(path)
    whole = path.read_bytes()
    for length in range(4, len(whole), 97):
        path.write_bytes(whole[:length])
        assert mentions(refused(path), "damaged or cut", "short")
    path.write_bytes(whole)
    monkeypatch.setattr("stageguard.formats.arrow.MOST_BYTES", 100)
    assert mentions(refused(path), "unpacked", "most")


def test_quoted_cells_as_r_writes_them(tmp_path):
    rows = [f'"{i}",{",".join(map(str, row))},"a"' for i, row in enumerate(P, start=1)]
    path = write(tmp_path, "n.csv", '"","W","N1","N2","N3","R","note"', *rows)
    np.testing.assert_array_equal(sg.read_density(path).probabilities, P)
    quoted = [f'"{i}","{row[0]}",{",".join(map(str, row[1:]))},"b, c"' for i, row in enumerate(P, start=1)]
    path = write(tmp_path, "q.csv", '"","W","N1","N2","N3","R","note"', *quoted)
    np.testing.assert_array_equal(sg.read_density(path).probabilities, P)


def test_rows_of_empty_cells_at_the_end_are_left_out_and_one_within_is_an_epoch(tmp_path):
    for mark in ",;\t":
        row = mark.join(map(str, P[0]))
        path = write(tmp_path, "n.csv", mark.join(FIVE), row, mark * 4, row, mark * 4, mark * 4, "", " ")
        density = sg.read_density(path)
        assert density.n_epochs == 3
        assert np.isnan(density.probabilities[1]).all()
        assert mentions(density.assumed, "2 rows", "cells")
