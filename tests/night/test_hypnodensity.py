"""Hypnograms and hypnodensities: what they hold, how they compare, and what are probabilities."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stageguard.errors import InputError
from stageguard.night.hypnodensity import (
    Hypnodensity,
    as_float_matrix,
    check_probabilities,
    explain_bad_probabilities,
)
from stageguard.night.hypnogram import UNSCORED, Hypnogram
from stageguard.night.stages import AASM5, WNR3, WS2

START = datetime(2024, 3, 1, 23, 30)
NAN, INF = float("nan"), float("inf")


def rows(n_epochs=40, n_stages=3, seed=0):
    """Return random probabilities, without evidence in epoch 2."""
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(n_stages), n_epochs)
    probabilities[2] = NAN
    return probabilities


NIGHTS = {
    "labels": Hypnogram([0, 1, -1], WNR3, 30, START, "x", ("a remark",)),
    "probabilities": Hypnodensity(rows(), WNR3, 30, START, "x", ("a remark",)),
}


@pytest.mark.parametrize("field", NIGHTS)
def test_nights_are_compared_by_content_and_not_by_remarks(field):
    night = NIGHTS[field]
    values = getattr(night, field)
    same = replace(night, **{field: values.copy(), "assumed": ()})
    assert same == night
    assert hash(same) == hash(night)
    author = "scorer" if field == "labels" else "source"
    changes = [
        {field: np.roll(values, 1, axis=0)},
        {field: values[:2]},
        {"scheme": AASM5.custom(list("abc"))},
    ]
    changes += [{"epoch_seconds": 20}, {"start": None}, {author: "y"}, {"offset_seconds": 3.0}]
    assert all(replace(night, **change) != night for change in changes)
    assert night != 1


@pytest.mark.parametrize("field", NIGHTS)
def test_pickles_keep_everything_and_stay_read_only(field):
    copy = pickle.loads(pickle.dumps(NIGHTS[field]))
    assert copy == NIGHTS[field]
    assert copy.assumed == ("a remark",)
    assert not getattr(copy, field).flags.writeable


@pytest.mark.parametrize(("make", "given"), [(Hypnogram, np.zeros(3, np.int8)), (Hypnodensity, rows(3))])
def test_what_a_night_holds_is_not_the_callers(make, given):
    view = given[:]
    view.flags.writeable = False
    for mine in (given, view):
        night = make(mine, "wnr3", 30)
        before = night.rows.copy()
        given[:] = given[::-1].copy() if given.ndim == 2 else 2
        np.testing.assert_array_equal(night.rows, before)
        with pytest.raises(ValueError, match="read-only"):
            night.rows[0] = 1
    with pytest.raises(AttributeError):
        night.scheme = WS2
    given.flags.writeable = False
    assert make(given, WNR3, 30).rows is given


@given(st.lists(st.integers(UNSCORED, 4), min_size=1), st.sampled_from(["i1", "i2", "i4", "i8", ">i4"]))
def test_labels_and_names_say_the_same(labels, dtype):
    hypnogram = Hypnogram(np.array(labels, dtype=dtype), AASM5, 30)
    assert hypnogram.labels.dtype == np.int8
    assert hypnogram.labels.tolist() == labels
    assert hypnogram.n_epochs == len(labels)
    assert [("W", "N1", "N2", "N3", "R", "?")[label] for label in labels] == hypnogram.stages.tolist()


def test_merge_renames_labels_and_sums_probabilities():
    five = Hypnogram([0, 1, 2, 3, 4, -1], AASM5, 30)
    assert five.merge("wldr4").stages.tolist() == ["W", "Light", "Light", "Deep", "R", "?"]
    assert five.merge("wnr3").merge(WS2).labels.tolist() == [0, 1, 1, 1, 1, -1]
    density = Hypnodensity(rows(n_stages=5), AASM5, 30, START, "x")
    merged = density.merge("wnr3")
    w, n1, n2, n3, r = density.probabilities.T
    np.testing.assert_allclose(merged.probabilities, np.stack([w, n1 + n2 + n3, r], axis=1), rtol=1e-15)
    assert (merged.scheme, merged.epoch_seconds, merged.start, merged.source) == (WNR3, 30.0, START, "x")
    np.testing.assert_allclose(merged.merge(WS2).probabilities, density.merge(WS2).probabilities)
    assert merged.merge("wnr3") is merged


def test_argmax_takes_the_first_of_equals_and_marks_missing_rows():
    density = Hypnodensity([[0.4, 0.4, 0.2], [NAN] * 3, [0, 0.5, 0.5], [0, 0, 1]], WNR3, 30)
    assert density.argmax.tolist() == [0, -1, 1, 2]
    assert density.argmax.dtype == np.int8


LAYOUTS = {
    "float16": lambda p: p.astype(np.float16),
    "longdouble": lambda p: p.astype(np.longdouble),
    "big-endian": lambda p: p.astype(">f8"),
    "fortran": np.asfortranarray,
    "strided": lambda p: np.repeat(p, 2, axis=0)[::2],
    "matrix": lambda p: p.view(np.matrix),
    "list": lambda p: p.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_becomes_the_same_plain_matrix(layout):
    matrix = as_float_matrix(LAYOUTS[layout](rows()), 3, WNR3.names)
    assert (type(matrix), matrix.dtype, matrix.flags.c_contiguous) == (np.ndarray, np.dtype("=f8"), True)
    np.testing.assert_allclose(matrix, rows(), atol=1e-3 if layout == "float16" else 1e-7)
    check_probabilities(matrix, WNR3.names)
    assert as_float_matrix(matrix, 3, WNR3.names) is matrix


@pytest.mark.parametrize("deviation", [0.0, 9.9e-4, -9.9e-4, 1.1e-3, -1.1e-3])
def test_rows_may_miss_1_by_rounding_and_not_by_more(deviation):
    matrix = np.array([[0.5, 0.5], [0.5, 0.5 + deviation]])
    if abs(deviation) < 1e-3:
        assert Hypnodensity(matrix, WS2, 30).probabilities.tolist() == matrix.tolist()
        return
    with pytest.raises(InputError, match=rf"row 1 sums to {1 + deviation:.6g}, expected 1 \(within 0.001\)"):
        check_probabilities(matrix, WS2.names)


def test_a_row_bad_by_the_last_digit_only_is_still_named():
    matrix = np.array([[NAN, NAN], [0.5, 0.5], [0.5, 0.501 - 1e-12]])
    assert "row 2 sums to 1.001, " in str(explain_bad_probabilities(matrix, WS2.names))


matrices = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(2, 5)),
    elements=st.sampled_from([0.0, 0.5, 1.0, 0.25, -0.0, NAN, INF, -INF, -0.5, 1.0009, 0.002, 1e308]),
)


@given(matrices)
def test_check_agrees_with_the_definition_row_by_row(matrix):
    def is_valid(row):
        if any(np.isnan(p) for p in row):
            return all(np.isnan(p) for p in row)
        return all(0 <= p < INF for p in row) and abs(sum(map(float, row)) - 1) <= 1e-3

    names = AASM5.names[: matrix.shape[1]]
    bad = [place for place, row in enumerate(matrix) if not is_valid(row)]
    if not bad:
        check_probabilities(matrix, names)
        return
    with pytest.raises(InputError) as caught:
        check_probabilities(matrix, names)
    said = str(caught.value)
    values = ", ".join(f"{name} {value:.6g}" for name, value in zip(names, matrix[bad[0]], strict=True))
    assert said.startswith(f"probabilities: row {bad[0]} sums to ")
    assert said.endswith(f"it holds {values}.")
