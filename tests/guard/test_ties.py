"""Exact ties: undecided epochs follow their neighbours where every epoch is decided by itself."""

import numpy as np
import pytest

import stageguard as sg

W, N, R = [0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]
WN, WR, NR, ANY = [0.45, 0.45, 0.1], [0.45, 0.1, 0.45], [0.1, 0.45, 0.45], [1 / 3] * 3
GAP = [np.nan] * 3


RULE = {"rule": "target", "fi_target": 1.0}  # no night is above its limit
LEFT_ALONE = sg.Profile.load("human-psg-3").replace(strength=RULE, clock=None)


def stages(rows, **options):
    return "".join(sg.decode(rows, LEFT_ALONE, **options).stages)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([N, WN, W], "NNW"),  # before
        ([R, WN, N], "RNN"),  # else after
        ([R, WN, R], "RWR"),  # else the first
        ([WN, N], "NN"),
        ([N, WN], "NN"),
        ([WN], "W"),
        ([N, WN, WN, ANY, W], "NNNNW"),  # a settled tie decides the next
        ([R, WN, WN, N], "RNNN"),
        ([WN, WN], "WW"),
        ([R, WN, NR, R], "RWRR"),
        ([N, GAP, WN, N], "NNNN"),  # bridged epochs have their neighbours' stage
    ],
)
def test_an_exact_tie_follows_its_neighbours(rows, expected, backend):
    assert stages(rows) == expected


def test_a_tie_looks_across_no_cut_and_pins_and_lost_signal_are_not_tied():
    assert stages([N, WN, W], segments=[1]) == "NWW"
    assert stages([N, WN, W], segments=[1, 2]) == "NWW"
    assert stages([N, N, *[GAP] * 11, WN, R]) == "NN" + 11 * "?" + "WR"
    assert stages([N, WN, R], pins={1: "W"}) == "NWR"
    assert stages([R, WN, WN], pins={1: "N"}) == "RNN"
    assert stages([N, R, WN, W], quality=[0, 0, 0.5, 0]) == "NRWW"


def test_a_night_left_alone_settles_ties_and_counts_them_as_undecided():
    night = np.repeat([W, N, R, N], 60, axis=0)
    night[[80, 81, 150, 200]] = [WN, WN, WR, NR]
    result = sg.decode(night, "human-psg-3", segments=[100])
    assert result.strength.step == "untouched"
    assert (result.argmax[[80, 81, 150, 200]] == [0, 0, 0, 1]).all()
    assert (result.hypnogram.labels[[80, 81, 150, 200]] == [1, 1, 2, 1]).all()
    assert result.n_changed == 0 and not sg.explain(result)
    assert result.strength.fi_after < result.strength.fi_before


def test_sums_of_merged_stages_tie_as_on_paper():
    rows = np.repeat([[0.1, 0.1, 0.6, 0.1, 0.1], [0.8, 0.05, 0.05, 0.05, 0.05]], 2, axis=0)
    rows[1] = [0.45, 0.15, 0.3, 0.0, 0.1]  # .15 + .30 is below .45 by rounding
    result = sg.decode(sg.read_density((rows, ["W", "N1", "N2", "N3", "R"])), LEFT_ALONE)
    assert "".join(result.stages) == "NNWW"
    assert result.n_changed == 0 and result.n_ties == 1


def test_ties_under_a_clock_are_those_of_the_evidence():
    night = np.repeat([W, N, R, N], 60, axis=0)
    night[70] = NR  # REM is unlikely five minutes after onset: no tie
    night[130] = WR
    result = sg.decode(night, "human-psg-3")
    assert result.night.clock is not None
    assert result.hypnogram.labels[[70, 130]].tolist() == [1, 2]


def test_one_vote_more_or_less_in_another_order_ties_alike():
    rng = np.random.default_rng(0)
    votes = [sg.read_density((rng.dirichlet([1, 1, 1], 200), ["W", "N", "R"])) for _ in range(5)]
    mixed = sg.combine(votes).probabilities
    np.testing.assert_array_equal(sg.combine(votes[::-1]).probabilities, mixed)


@pytest.mark.parametrize("rows", [[N, WN, W], [R, WN, N]])
def test_without_a_rule_a_weight_of_0_is_argmax(rows):
    off = sg.decode(rows, "human-psg-3", strength="off")
    assert (off.hypnogram.labels == off.argmax).all()
