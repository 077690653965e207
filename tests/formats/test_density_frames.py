"""Tables in memory, by the names of their columns."""

from __future__ import annotations

from datetime import datetime
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from messages import each_mentions, mentions, message
from stageguard.errors import InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_object

pd = pytest.importorskip("pandas")

NAMES = ("REM", "N3", "Wake", "N2", "N1")
P = np.random.default_rng(2).dirichlet(np.ones(5), 12)
EXPECTED = P[:, [2, 4, 3, 1, 0]]


refused = partial(message, InputError, sg.read_density)


def frame(**more: object):
    return pd.DataFrame(P, columns=list(NAMES)).assign(**more)


@pytest.mark.proves("object:pandas")
def test_a_frame_of_pandas_by_column_name():
    found = read_density_object(frame(comment="x", onset=20.0 * np.arange(12)), FileOptions())
    np.testing.assert_array_equal(found.density.probabilities, EXPECTED)
    assert (found.density.epoch_seconds, found.density.source) == (20.0, "pandas.DataFrame")
    assert each_mentions(found.notes, ("columns ignored: comment",), ("last", "20 s", "onset"))


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_an_index_of_moments_says_start_and_length(zone):
    table = frame()
    table.index = pd.date_range("2024-10-27 01:00", periods=12, freq="20s", tz=zone)
    density = sg.read_density(table)
    assert density.epoch_seconds == 20.0
    assert density.start == table.index[0].to_pydatetime()
    table.index = pd.to_timedelta(np.arange(12) * 15, unit="s")
    density = sg.read_density(table)
    assert (density.epoch_seconds, density.start) == (15.0, None)


def test_gaps_in_the_index_are_epochs_without_evidence():
    table = frame()
    table.index = pd.date_range("2024-01-01", periods=12, freq="30s")
    found = read_density_object(table.iloc[[0, 1, 4, 5]], FileOptions())
    assert (
        np.isnan(found.density.probabilities).all(axis=1).tolist() == [False] * 2 + [True] * 2 + [False] * 2
    )
    table.index = pd.RangeIndex(12, name="epoch")
    assert sg.read_density(table.iloc[[0, 1, 3]]).n_epochs == 4
    assert "column 'epoch': begins with 3, expected 0 or 1" in refused(table.iloc[[3, 4, 6]])
    table.index = pd.RangeIndex(12)  # a filtered table keeps such an index by chance
    assert sg.read_density(table.iloc[[3, 4, 6]]).n_epochs == 3


def test_numbers_as_objects_and_text_are_numbers():
    table = frame().astype(object)
    table.iloc[2] = None
    table.iloc[3] = pd.NA
    table.iloc[4] = "NA"
    table.iloc[5] = [str(x) for x in P[5]]
    values = sg.read_density(table).probabilities
    assert np.isnan(values).all(axis=1).tolist() == [False, False, True, True, True] + [False] * 7
    np.testing.assert_array_equal(values[5:], EXPECTED[5:])
    table.iloc[7, 1] = "often"
    assert mentions(refused(table), "pandas.DataFrame", 7, "'N3'", "'often'")


def test_stages_choose_columns_of_a_frame():
    table = pd.DataFrame({"a": [0.2, 0.5], "b": [0.8, 0.5], "W": [1.0, 1.0]})
    density = sg.read_density(table, stages=["a", "b"])
    assert density.scheme.names == ("a", "b")
    assert mentions(refused(table, stages=["a", "c"]), "'c'")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (pd.DataFrame(), ("pandas.DataFrame: has no rows.",)),
        (pd.DataFrame({"W": [], "S": []}), ("pandas.DataFrame: has no rows.",)),
        (pd.DataFrame({"age": [1], "sex": [2]}), ("pandas.DataFrame", "names no stages")),
        (pd.DataFrame({"W": [1], "Wake": [0], "S": [0]}), ("'W'", "'Wake'")),
        (pd.DataFrame({"W": [0.5, 0.5], "S": [0.5, 0.5], "onset": [0, 0]}),
         ("pandas.DataFrame", 1, "'onset'", 0, 0)),
        (pd.DataFrame({"W": [0.5, 0.5], "S": [0.5, 0.5], "id": ["a", "b"]}),
         ("pandas.DataFrame", 2, "recordings")),
        (pd.DataFrame({"W": [True], "S": [False]}), ("'W'", "bool")),
        (pd.DataFrame({"W": [0.5], "S": [0.2]}), (0, "0.7", 1)),
    ],
)  # fmt: skip
def test_bad_frames_are_one_line(table, expected):
    assert mentions(refused(table), *expected)


@pytest.mark.proves("object:polars")
def test_a_frame_of_polars_by_column_name():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({name: P[:, i] for i, name in enumerate(NAMES)} | {"epoch": list(range(12))})
    density = sg.read_density(table)
    np.testing.assert_array_equal(density.probabilities, EXPECTED)
    with_null = table.with_columns(
        [pl.when(pl.col("epoch") == 3).then(None).otherwise(pl.col(n)).alias(n) for n in NAMES]
    )
    assert np.flatnonzero(np.isnan(sg.read_density(with_null).probabilities[:, 0])).tolist() == [3]
    assert mentions(refused(table.lazy()), "polars.LazyFrame", "collect()")


@pytest.mark.proves("object:pyarrow")
def test_a_table_of_pyarrow_by_column_name():
    pa = pytest.importorskip("pyarrow")
    np.testing.assert_array_equal(sg.read_density(pa.Table.from_pandas(frame())).probabilities, EXPECTED)


@pytest.mark.proves("object:xarray")
def test_an_array_of_xarray_by_its_coordinates():
    xr = pytest.importorskip("xarray")
    moments = np.datetime64("2024-05-01T22:30:00") + np.arange(12) * np.timedelta64(4, "s")
    array = xr.DataArray(P, dims=("time", "stage"), coords={"time": moments, "stage": list(NAMES)})
    for source in (array, array.T, array.to_dataset("stage")):
        density = sg.read_density(source)
        np.testing.assert_array_equal(density.probabilities, EXPECTED)
        assert (density.epoch_seconds, density.start) == (4.0, datetime(2024, 5, 1, 22, 30))
    bare = xr.DataArray(P, dims=("x", "y"), attrs={"epoch_seconds": 15})
    assert "names no stages" in refused(bare)
    for source in (bare, bare.T):
        density = sg.read_density(source, stages=NAMES)
        np.testing.assert_array_equal(density.probabilities, EXPECTED)
        assert density.epoch_seconds == 15.0
    by_epoch = xr.DataArray(
        P, dims=("epoch", "stage"), coords={"epoch": np.arange(12) * 2, "stage": list(NAMES)}
    )
    assert "counts by 2, expected by 1" in refused(by_epoch)
    assert "expected two dimensions" in refused(array.expand_dims("z"))


@pytest.mark.proves("object:columns")
def test_a_dict_of_columns():
    columns = {name: P[:, i].tolist() for i, name in enumerate(NAMES)}
    np.testing.assert_array_equal(sg.read_density(columns).probabilities, EXPECTED)
    assert mentions(refused(columns | {"N2": [0.5]}), "dict", "different")
    assert mentions(refused({}), "dict", "rows")
