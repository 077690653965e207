"""Probabilities, log-probabilities and logits: told apart, said aloud, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import stageguard as sg
from messages import each_mentions, mentions, naming
from stageguard.errors import InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_object

WNR = ("W", "N", "R")
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [np.nan] * 3, [0.2, 0.3, 0.5]])
LOGITS = "read as logits: the softmax was taken"
LOG = "read as natural log-probabilities: none is above 0, and their exponentials sum to 1"


def read(values: object, **options: object) -> tuple[np.ndarray, list[str]]:
    found = read_density_object(values, FileOptions(stages=WNR, epoch_seconds=30, **options))  # type: ignore[arg-type]
    return found.density.probabilities, list(found.notes)


def refused(values: object, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read(values, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix("numpy.ndarray: ")


def test_probabilities_are_taken_as_they_are():
    values, notes = read(P)
    np.testing.assert_array_equal(values, P)
    assert notes == []


@pytest.mark.parametrize("total", [3, 100, 0.5])
def test_rows_of_one_sum_are_divided_by_it_and_that_is_said(total):
    values, notes = read(P * total)
    np.testing.assert_allclose(values, P)
    assert each_mentions(notes, (total, "divided"))


def test_sums_may_differ_by_a_thousandth_and_no_more():
    scale = np.array([[3.0], [3.002], [1], [2.998]])
    assert each_mentions(read(P * scale)[1], (3, "divided by their"))
    message = refused(P * np.array([[3.0], [3.01], [1], [3.0]]))
    assert mentions(message, 1, "3.01", 3)


def test_one_row_has_no_common_sum():
    assert "row 0 sums to 3, expected 1" in refused(P[:1] * 3)


def test_rows_of_different_sums_are_refused_by_the_first_bad_one():
    bad = P.copy()
    bad[3] *= 0.5
    assert refused(bad).startswith("probabilities: row 3 sums to 0.5, expected 1 (within 0.001)")


@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.0])
def test_logits_are_recognised(shift):
    logits = np.log(P) * 2 + shift + 3
    values, notes = read(logits)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(values, expected)
    assert notes == [LOGITS]
    assert np.isnan(values[2]).all()


def test_log_probabilities_are_recognised_zeros_included():
    with np.errstate(divide="ignore"):
        log = np.log(np.vstack([P, [[0.0, 1.0, 0.0]]]))
    values, notes = read(log)
    np.testing.assert_allclose(values, np.vstack([P, [[0.0, 1.0, 0.0]]]))
    assert notes == [LOG]


def test_logarithms_to_another_base_are_refused():
    message = refused(np.log10(P))
    assert mentions(message, 0, 0, "exponentials", 1)


def test_probabilities_pushed_below_zero_are_not_logits():
    shaken = P + np.array([[0.0, 0.0, 0.0], [-0.15, 0.0, 0.2], [0, 0, 0], [0.0, 0.1, 0.0]])
    shaken[0] += 0.01
    message = refused(shaken)
    assert mentions(message, 1, "-0.05", "W")


def test_one_damaged_row_among_probabilities_is_named():
    bad = P.copy()
    bad[1] = [-3.0, 2.0, 1.5]
    assert mentions(refused(bad), 1, "W -3")


def test_rows_that_sum_to_one_with_values_below_zero_are_no_logits():
    rows = np.array([[1.2, -0.1, -0.1], [0.5, 0.7, -0.2]])
    assert mentions(refused(rows), 0, "N -0.1")


def test_probabilities_are_no_logits_whatever_the_caller_says():
    assert mentions(refused(P, logits=True), "logits", "probabilities")


def test_what_the_caller_says_is_not_questioned_where_it_may_be():
    logits = np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.5]])
    values, notes = read(logits, logits=True)
    np.testing.assert_allclose(values, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    assert notes == []
    values, notes = read(np.log(P * 2), log=True)
    np.testing.assert_allclose(values, P)
    assert each_mentions(notes, (2, "divided by their"))


@pytest.mark.parametrize("value", [np.inf, 1e400])
def test_infinity_is_refused(value):
    assert "row 1" in refused(np.array([[0.5, 0.25, 0.25], [value, 0.0, -1.0]]))
    assert mentions(refused(np.array([[value, 0.0, -1.0]]), logits=True), 0, "finite")


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.just(3)),
        elements=st.floats(-50, 50) | st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1.0, 1 / 3]),
    )
)
@settings(max_examples=400)
def test_any_numbers_give_probabilities_or_one_line(matrix):
    try:
        values, notes = read(matrix)
    except InputError as error:
        assert "\n" not in str(error)
        return
    sums = values.sum(axis=1)
    assert (np.isnan(values).all(axis=1) | (np.abs(sums - 1) <= 1e-3)).all()
    np.testing.assert_array_equal(np.isnan(values).all(axis=1), np.isnan(matrix).all(axis=1))
    scored = ~np.isnan(values).any(axis=1)
    # whatever was assumed, it does not change which stage is most probable, ties aside
    kept = matrix[scored][np.arange(scored.sum()), values[scored].argmax(axis=1)]
    assert (kept >= matrix[scored].max(axis=1) - 1e-9).all()
    assert len(notes) <= 1


def night(n_rows: int, seconds: float = 5.0) -> sg.Hypnodensity:
    rng = np.random.default_rng(0)
    return sg.Hypnodensity(rng.dirichlet(np.ones(3), n_rows), "wnr3", seconds)


def test_short_rows_are_averaged_on_request():
    short = night(14)
    pooled = sg.read_density(short, pool_to_seconds=15)
    assert (pooled.n_epochs, pooled.epoch_seconds) == (4, 15.0)
    np.testing.assert_allclose(pooled.probabilities[1], short.probabilities[3:6].mean(axis=0))
    notes = read_density_object(short, FileOptions(pool_to_seconds=15)).notes
    assert each_mentions(notes, ("3 rows", "5 s", "15 s"), ("2 rows", "dropped"))


def test_rows_without_evidence_are_left_out_of_the_mean():
    values = np.array(night(6).probabilities)
    values[[1, 3, 4, 5]] = np.nan
    found = read_density_object(sg.Hypnodensity(values, "wnr3", 5.0), FileOptions(pool_to_seconds=15))
    np.testing.assert_allclose(found.density.probabilities[0], values[[0, 2]].mean(axis=0))
    assert np.isnan(found.density.probabilities[1]).all()
    assert mentions(found.notes, 1, "epochs averaged from")


def test_pooling_and_changing_epochs_are_one_rule():
    """An epoch with evidence in less than half of its rows has none, whoever makes it longer."""
    values = np.array(night(12).probabilities)
    values[[0, 1, 4, 6, 7, 8]] = np.nan
    given = sg.Hypnodensity(values, "wnr3", 5.0)
    found = read_density_object(given, FileOptions(pool_to_seconds=15))
    assert found.density == given.reepoch(15.0)
    assert np.isnan(found.density.probabilities[:, 0]).tolist() == [True, False, True, False]
    assert mentions(found.notes, 1, "less than half")


@pytest.mark.parametrize("seconds", [12, 2.5, 5.01])
def test_a_length_that_is_no_multiple_is_refused(seconds):
    with pytest.raises(InputError, match=naming("5 s", "multiple")):
        sg.read_density(night(12), pool_to_seconds=seconds)


def test_too_few_rows_for_one_epoch_are_refused():
    with pytest.raises(InputError, match=naming("2 rows", "5 s", "30 s")):
        sg.read_density(night(2), pool_to_seconds=30)


@pytest.mark.parametrize("value", [0, -1, float("nan"), "30", True])
def test_a_pooled_length_must_be_a_number_above_zero(value):
    with pytest.raises(InputError, match="pool_to_seconds is"):
        sg.read_density(night(12), pool_to_seconds=value)
