from __future__ import annotations

import pickle
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from messages import mentions
from stageguard.errors import InputError
from stageguard.night.hypnodensity import (
    Hypnodensity,
    as_float_matrix,
    check_probabilities,
    explain_bad_probabilities,
)
from stageguard.night.hypnogram import NO_PROBABILITIES
from stageguard.night.stages import AASM5, WNR3, WS2

START = datetime(2024, 3, 1, 23, 30)
NAN, INF = float("nan"), float("inf")

# How messages end
CORRECT = " Correct the row, or set all of it to NaN (no evidence)."
IN_PART = (
    " but not for every stage, expected a whole row of NaN (no evidence) or none. "
    "Fill the row, or set all of it to NaN."
)
RANGE = ", expected values from 0 to 1."
SUM = ", expected 1 (within 0.001)."
UNSURE = " Are these logits? Then pass logits=True; else divide by the row sums first."
LOGITS = " These look like logits: pass logits=True."
LOG = " These look like log-probabilities: pass log=True."
SHAPE = ", expected (epochs, 3) for W, N, R."
REAL = ", expected real numbers, one column per stage."
OBJECTS = "X are Python objects, expected numbers. Convert them first: np.asarray(x, dtype=float)."
DIVIDE = ": divide by the row sums first."
EMPTY = ", expected at least one epoch."


def night(n_epochs=40, n_stages=3, seed=0):
    """Return random probabilities."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_stages), n_epochs)


def complaint(matrix, names=WNR3.names):
    with pytest.raises(InputError) as caught:
        check_probabilities(np.array(matrix, dtype=float), names)
    return str(caught.value)


def test_holds_the_probabilities_it_was_given():
    probabilities = night()
    probabilities[7] = NAN
    density = Hypnodensity(probabilities, WNR3, 30, START, "a stager")
    np.testing.assert_array_equal(density.probabilities, probabilities)
    assert (density.n_epochs, density.epoch_seconds, density.start, density.source) == (
        40,
        30.0,
        START,
        "a stager",
    )
    assert density.probabilities.flags.c_contiguous


def test_one_epoch_is_a_night():
    assert Hypnodensity([[0.2, 0.3, 0.5]], WNR3, 30).argmax.tolist() == [2]


def test_a_night_without_any_evidence_is_a_density():
    assert Hypnodensity(np.full((3, 3), NAN), WNR3, 30).argmax.tolist() == [-1, -1, -1]


def test_probabilities_are_read_only_and_not_the_callers():
    mine = night()
    density = Hypnodensity(mine, WNR3, 30)
    before = density.probabilities.copy()
    mine[0] = [1, 0, 0]
    np.testing.assert_array_equal(density.probabilities, before)
    with pytest.raises(ValueError, match="read-only"):
        density.probabilities[0, 0] = 1
    with pytest.raises(AttributeError):
        density.scheme = WS2


def test_read_only_probabilities_are_not_copied():
    mine = night()
    mine.flags.writeable = False
    assert Hypnodensity(mine, WNR3, 30).probabilities is mine


def test_equality_is_by_content_and_nan_equals_nan():
    probabilities = night()
    probabilities[3] = NAN
    first = Hypnodensity(probabilities, WNR3, 30, START, "x")
    assert first == Hypnodensity(probabilities, WNR3, 30, START, "x")
    assert hash(first) == hash(Hypnodensity(probabilities, WNR3, 30, START, "x"))
    assert first != Hypnodensity(night(), WNR3, 30, START, "x")
    assert first != Hypnodensity(probabilities, WNR3, 20, START, "x")
    assert first != Hypnodensity(probabilities, WNR3, 30, None, "x")
    assert first != Hypnodensity(probabilities, WNR3, 30, START, "y")
    assert first != 1


def test_pickle_keeps_everything_and_stays_read_only():
    density = Hypnodensity(night(), WNR3, 30, START, "x")
    copy = pickle.loads(pickle.dumps(density))
    assert copy == density
    assert not copy.probabilities.flags.writeable


def test_merge_sums_the_probabilities_of_merged_stages():
    probabilities = night(n_stages=5)
    probabilities[2] = NAN
    density = Hypnodensity(probabilities, AASM5, 30, START, "x")
    merged = density.merge("wnr3")
    w, n1, n2, n3, r = probabilities.T
    np.testing.assert_allclose(merged.probabilities, np.stack([w, n1 + n2 + n3, r], axis=1), rtol=1e-15)
    assert (merged.scheme, merged.epoch_seconds, merged.start, merged.source) == (WNR3, 30.0, START, "x")
    np.testing.assert_allclose(merged.merge(WS2).probabilities, density.merge(WS2).probabilities)


def test_merge_into_the_same_scheme_changes_nothing():
    density = Hypnodensity(night(), WNR3, 30)
    assert density.merge("wnr3") is density
    with pytest.raises(InputError, match="cannot merge scheme 'wnr3' into 'aasm5'"):
        density.merge(AASM5)


def test_argmax_takes_the_first_of_equals_and_marks_missing_rows():
    density = Hypnodensity([[0.4, 0.4, 0.2], [NAN] * 3, [0, 0.5, 0.5], [0, 0, 1]], WNR3, 30)
    assert density.argmax.tolist() == [0, -1, 1, 2]
    assert density.argmax.dtype == np.int8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch_seconds": 0}, "epoch_seconds is 0, expected a number from 0.001 to 86400."),
        ({"epoch_seconds": INF}, "epoch_seconds is inf, expected a finite number."),
        ({"start": 0}, "start is 0, expected a datetime or None."),
        ({"source": 1}, "source is 1, expected text in quotes."),
        ({"scheme": "psg"}, "unknown scheme 'psg'. Known: aasm5, wldr4, wnr3, ws2."),
        (
            {"probabilities": [[0.5, 0.4, 0.0]]},
            "probabilities: row 0 sums to 0.9, expected 1 (within 0.001). Logits need logits=True.",
        ),
        ({"probabilities": [[0.5, 0.5]]}, f"probabilities have shape (1, 2){SHAPE}"),
    ],
)
def test_bad_density_is_refused_at_construction(changes, message):
    with pytest.raises(InputError) as caught:
        Hypnodensity(**{"probabilities": night(), "scheme": WNR3, "epoch_seconds": 30, **changes})
    assert str(caught.value) == message


# ---- any array in


def test_a_float64_matrix_in_c_order_is_not_copied():
    probabilities = night()
    assert as_float_matrix(probabilities, 3, WNR3.names) is probabilities


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("float16", lambda p: p.astype(np.float16)),
        ("float32", lambda p: p.astype(np.float32)),
        ("longdouble", lambda p: p.astype(np.longdouble)),
        ("big-endian", lambda p: p.astype(">f8")),
        ("fortran", np.asfortranarray),
        ("strided", lambda p: np.repeat(p, 2, axis=0)[::2]),
        ("matrix", lambda p: p.view(np.matrix)),
        ("list", lambda p: p.tolist()),
    ],
)
def test_any_layout_becomes_the_same_plain_matrix(name, change):
    probabilities = night()
    given_array = change(probabilities)
    matrix = as_float_matrix(given_array, 3, WNR3.names)
    assert type(matrix) is np.ndarray
    assert matrix.dtype == np.dtype("=f8")
    assert matrix.flags.c_contiguous
    np.testing.assert_allclose(matrix, probabilities, atol=1e-3 if name == "float16" else 1e-7)
    check_probabilities(matrix, WNR3.names)


def test_read_only_input_is_accepted_and_left_alone():
    probabilities = night().astype(np.float32)
    probabilities.flags.writeable = False
    assert as_float_matrix(probabilities, 3, WNR3.names).shape == (40, 3)
    assert not probabilities.flags.writeable


def test_whole_numbers_are_numbers():
    assert as_float_matrix([[1, 0], [0, 1]], 2, WS2.names).tolist() == [[1.0, 0.0], [0.0, 1.0]]


class Unreadable:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("detach it\nfirst")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([], f"X are empty (shape (0,)){EMPTY}"),
        (np.empty((0, 3)), f"X are empty (shape (0, 3)){EMPTY}"),
        ([0.1, 0.2, 0.7], f"X have shape (3,){SHAPE}"),
        (
            np.array([0, 2, 1]),
            f"X have shape (3,){SHAPE} These look like {NO_PROBABILITIES}",
        ),
        (0.5, f"X have shape (){SHAPE}"),
        (np.ones((3, 40)), f"X have shape (3, 40){SHAPE} Stages come second: transpose it."),
        (np.ones((40, 5)), f"X have shape (40, 5){SHAPE}"),
        (np.ones((2, 40, 3)), f"X have shape (2, 40, 3){SHAPE}"),
        ([["0.1", "0.2", "0.7"]], f"X are text{REAL}"),
        ([[b"0.1", b"0.2", b"0.7"]], f"X are text{REAL}"),
        ([[0.1, None, 0.7]], OBJECTS),
        (night().astype(object), OBJECTS),
        (night() + 0j, f"X are complex numbers{REAL}"),
        ([[True, False, False]], f"X are true/false values{REAL}"),
        (np.zeros((2, 3), "M8[s]"), f"X are of type datetime64[s]{REAL}"),
        ([[0.1, 0.9], [1.0]], "X have rows of different lengths, expected an array."),
        (Unreadable(), "X cannot be read as an array: detach it first"),
    ],
)
def test_what_is_no_matrix_of_numbers_says_what_it_is(array, message):
    with pytest.raises(InputError) as caught:
        as_float_matrix(array, 3, WNR3.names, what="X")
    assert str(caught.value) == message


def test_one_stage_leaves_nothing_to_decide():
    with pytest.raises(InputError) as caught:
        as_float_matrix(np.ones((4, 1)), 1, ["W"])
    assert mentions(str(caught.value), "nothing to decide", 2)


# ---- are these probabilities


GOOD = [0.2, 0.3, 0.5]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([GOOD, GOOD, [0.2, 0.3, 0.12]], ("row 2 sums to 0.62", "expected 1")),
        ([GOOD, GOOD, [-0.2, 0.7, 0.5]], ("row 2 has -0.2 for W", "from 0 to 1")),
        ([GOOD, GOOD, [0.5, INF, 0.5]], ("row 2 has inf for N", "from 0 to 1")),
        ([GOOD, [0.5, 0.5, NAN], GOOD], ("row 1 is NaN for R",)),
        ([[INF, NAN, -INF]], ("row 0 is NaN for N",)),
        ([[NAN] * 3, [1, 2, 4]], ("row 1 sums to 7",)),
        ([[2.5, -1, 0.3], [-3, 0, 0.1]], ("row 0 has -1 for N", "logits=True")),
        ([[0, 0, 0]], ("row 0 sums to 0",)),
        ([[0.5, 0.3, 0.21]], ("row 0 sums to 1.01", "normalize=True")),
        (np.log([[0.25, 0.25, 0.5]]), ("row 0 has -1.38629 for W", "log=True")),
        ([[0, -INF, -INF]], ("row 0 has -inf for N", "log=True")),
    ],
)
def test_what_is_no_probability_names_the_first_bad_row(rows, words):
    said = complaint(rows)
    assert said.startswith("probabilities: ")
    assert all(word in said for word in words)


@pytest.mark.parametrize("deviation", [0.0, 9.9e-4, -9.9e-4])
def test_rows_may_miss_1_by_rounding(deviation):
    rows = [[0.5, 0.5 + deviation]]
    assert Hypnodensity(rows, WS2, 30).probabilities.tolist() == rows


@pytest.mark.parametrize("deviation", [1.1e-3, -1.1e-3])
def test_rows_may_not_miss_1_by_more(deviation):
    assert f"row 1 sums to {1 + deviation:.6g}, " in complaint(
        [[0.5, 0.5], [0.5, 0.5 + deviation]], WS2.names
    )


def test_a_row_bad_by_the_last_digit_only_is_still_named():
    matrix = np.array([[NAN, NAN], [0.5, 0.5], [0.5, 0.501 - 1e-12]])
    assert str(explain_bad_probabilities(matrix, WS2.names)).startswith(
        "probabilities: row 2 sums to 1.001, "
    )


def test_float16_probabilities_pass():
    rounded = night(2000, 5).astype(np.float16)
    np.testing.assert_array_equal(Hypnodensity(rounded, AASM5, 30).probabilities, rounded)


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
    if bad:
        message = complaint(matrix, names)
        assert message.startswith(f"probabilities: row {bad[0]} ")
        assert str(explain_bad_probabilities(matrix, names)) == message
        assert "\n" not in message
    else:
        check_probabilities(matrix, names)
