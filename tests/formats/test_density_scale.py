"""Probabilities, percentages, log-probabilities and logits: told apart, said aloud, or refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import stageguard as sg
from cli_runner import Runner, error_line
from messages import each_mentions, mentions
from stageguard.errors import InputError
from stageguard.formats.night import FileOptions
from stageguard.formats.read import read_density_object

WNR = ("W", "N", "R")
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [np.nan] * 3, [0.2, 0.3, 0.5]])
ROUNDED = np.array([[0.33, 0.33, 0.33], [0.1, 0.2, 0.7], [0.5, 0.26, 0.26], [0.34, 0.34, 0.34]])
LOGITS = "read as logits: the softmax was taken"
LOG = "read as natural log-probabilities: none is above 0, and their exponentials sum to 1"


def read(values, **options):
    found = read_density_object(values, FileOptions(stages=WNR, epoch_seconds=30, **options))
    return found.density.probabilities, list(found.notes)


def softmax(values):
    weights = np.exp(values)
    return weights / weights.sum(axis=1, keepdims=True)


def test_probabilities_are_taken_as_they_are():
    for normalize in (False, True):
        values, notes = read(P, normalize=normalize)
        np.testing.assert_array_equal(values, P)
        assert notes == []


@pytest.mark.parametrize("total", [3, 100, 0.5])
def test_rows_of_one_sum_are_divided_by_it_and_that_is_said(total):
    values, notes = read(P * total)
    np.testing.assert_allclose(values, P)
    assert each_mentions(notes, (total, "divided"))
    scale = np.array([[3.0], [3.002], [1], [2.998]])
    assert each_mentions(read(P * scale)[1], (3, "divided by their"))


@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.0])
def test_logits_are_recognised(shift):
    logits = np.log(P) * 2 + shift + 3
    values, notes = read(logits)
    np.testing.assert_allclose(values, softmax(logits))
    assert notes == [LOGITS]


def test_log_probabilities_are_recognised_zeros_included():
    whole = np.vstack([P, [[0.0, 1.0, 0.0]]])
    with np.errstate(divide="ignore"):
        values, notes = read(np.log(whole))
    np.testing.assert_allclose(values, whole)
    assert notes == [LOG]


def test_what_the_caller_says_is_not_questioned_where_it_may_be():
    logits = np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.5]])
    values, notes = read(logits, logits=True)
    np.testing.assert_allclose(values, softmax(logits))
    assert notes == []
    values, notes = read(np.log(P * 2), log=True)
    np.testing.assert_allclose(values, P)
    assert each_mentions(notes, (2, "divided by their"))


def test_rounded_rows_are_divided_by_their_sums_on_request():
    values, notes = read(ROUNDED, normalize=True)
    np.testing.assert_allclose(values, ROUNDED / ROUNDED.sum(axis=1, keepdims=True), atol=1e-15)
    assert mentions(notes, "3 rows", "0.02")


def pushed():
    shaken = P + np.array([[0.0, 0.0, 0.0], [-0.15, 0.0, 0.2], [0, 0, 0], [0.0, 0.1, 0.0]])
    return shaken + np.array([[0.01], [0], [0], [0]])


REFUSED = {
    "another sum": (P * [[3.0], [3.01], [1], [3.0]], {}, (1, "3.01", 3)),
    "a sum of its own": (P[:1] * 3, {}, (0, "sums", 3, "expected 1")),
    "half a row": (P * [[1], [1], [1], [0.5]], {}, (3, "sums", "0.5", "expected 1")),
    "another base": (np.log10(P), {}, (0, "exponentials", 1)),
    "pushed below 0": (pushed(), {}, (1, "-0.05", "W")),
    "a damaged row": (np.vstack([P[0], [-3.0, 2.0, 1.5], P[3]]), {}, (1, "W -3")),
    "below 0 with a sum of 1": (np.array([[1.2, -0.1, -0.1], [0.5, 0.7, -0.2]]), {}, (0, "N -0.1")),
    "no logits": (P, {"logits": True}, ("logits", "probabilities")),
    "infinite": (np.array([[0.5, 0.25, 0.25], [np.inf, 0.0, -1.0]]), {}, ("row 1",)),
    "infinite logits": (np.array([[np.inf, 0.0, -1.0]]), {"logits": True}, (0, "finite")),
    "rounded": (ROUNDED, {}, ("sums", "0.99")),
    "more than rounded": (np.vstack([ROUNDED, [0.5, 0.2, 0.2]]), {"normalize": True}, ("row 4",)),
    "rounded and below 0": (np.vstack([ROUNDED, [1.5, -0.3, -0.2]]), {"normalize": True}, ("row 4",)),
}


@pytest.mark.parametrize(("values", "options", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_neither_is_refused(values, options, told):
    with pytest.raises(InputError) as caught:
        read(values, **options)
    assert "\n" not in str(caught.value) and mentions(str(caught.value), *told)


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


def test_decode_records_that_sums_were_divided_and_verify_repeats_it(tmp_path, capsys):
    run, path = Runner(capsys), tmp_path / "night.csv"
    path.write_text("W,N,R\n" + "".join(",".join(map(str, row)) + "\n" for row in ROUNDED.tolist() * 20))
    assert mentions(error_line(run("decode", path, "--profile", "human-psg-3")), "0.99")
    assert run("decode", path, "--profile", "human-psg-3", "--normalize").code == 0
    sidecar = json.loads((tmp_path / "night.hypnogram.json").read_text())
    assert sidecar["stageguard"]["options"]["normalize"] is True
    assert run("verify", tmp_path / "night.hypnogram.tsv").code == 0


# ---- several rows per epoch


def night(n_rows: int) -> sg.Hypnodensity:
    return sg.Hypnodensity(np.random.default_rng(0).dirichlet(np.ones(3), n_rows), "wnr3", 5.0)


def test_short_rows_are_averaged_on_request_as_reepoch_does():
    short = night(14)
    pooled = sg.read_density(short, pool_to_seconds=15)
    assert (pooled.n_epochs, pooled.epoch_seconds) == (4, 15.0)
    np.testing.assert_allclose(pooled.probabilities[1], short.probabilities[3:6].mean(axis=0))
    notes = read_density_object(short, FileOptions(pool_to_seconds=15)).notes
    assert each_mentions(notes, ("3 rows", "5 s", "15 s"), ("2 rows", "dropped"))
    values = np.array(night(12).probabilities)
    values[[0, 1, 4, 6, 7, 8]] = np.nan
    given = sg.Hypnodensity(values, "wnr3", 5.0)
    found = read_density_object(given, FileOptions(pool_to_seconds=15))
    assert found.density == given.reepoch(15.0)
    np.testing.assert_allclose(found.density.probabilities[1], values[[3, 5]].mean(axis=0))
    assert np.isnan(found.density.probabilities[:, 0]).tolist() == [True, False, True, False]


@pytest.mark.parametrize("seconds", [12, 2.5, 5.01, 90, 0, -1, float("nan"), "30", True])
def test_a_length_that_rows_cannot_fill_is_refused(seconds):
    with pytest.raises(InputError, match=r"multiple|do not fill|pool_to_seconds is"):
        sg.read_density(night(12), pool_to_seconds=seconds)
