"""What `decode` takes, what it refuses, and how it says so."""

import math
import re
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from small import night, profile_of, refusal
from stageguard.errors import InputError, PinError, ProfileError


def spoilt(row, values):
    array = night()
    array[row] = values
    return array


LOGS = np.log(night())
NO_SOFTMAX = [[2.0, 0.0, 1.0], [0.0, 1.0, 3.0]]
THREE = ["W, N, R"]

# A night, options, and what the one line of the refusal names: what was found, and what was expected.
REFUSED = [
    # no matrix of numbers
    (np.zeros((0, 3)), {}, [r"\(0, 3\)", "expected"]),
    (np.array(["W", "N"]), {}, ["labels", "typical confusions"]),
    (np.array([["0.5", "0.3", "0.2"]]), {}, ["text|string"]),
    (np.full((4, 3), None, dtype=object), {}, ["object", "expected"]),
    (np.full((5, 4), 0.25), {}, ["4", "3", *THREE]),
    (np.full((3, 10), 0.1), {}, ["10", *THREE]),
    (np.full((1, 2, 4, 3), 1 / 3), {}, [r"\(1, 2, 4, 3\)|4-D", "expected"]),
    (np.full((4, 3), 0.3 + 0j), {}, ["complex"]),
    (np.ma.masked_less(np.full((4, 3), 0.3), 0.1), {}, ["masked"]),
    (np.full((900, 3), np.nan), {}, ["NaN", "every|all|no "]),
    # rows that are no distribution
    (spoilt(17, [0.3, 0.3, 0.02]), {}, ["row 17", r"0\.62", "expected 1"]),
    (spoilt(5, [1.1, -0.2, 0.1]), {}, ["row 5", r"1\.1|-0\.2", "0 to 1|negative"]),
    (spoilt(8, [0.5, np.nan, 0.5]), {}, ["row 8", "N nan"]),
    (spoilt(3, [-np.inf, 0.5, 0.5]), {}, ["row 3", "-inf", "W"]),
    (night() * 100, {}, ["row 0", "100"]),
    ([night(), night(seed=1), spoilt(5, [0.5, 0.6, 0.7])], {}, ["night 2", "row 5", r"1\.8"]),
    # numbers of another kind
    (LOGS + np.linspace(-3, 3, 40)[:, None], {}, ["expected 1"]),
    (LOGS, {}, ["expected 1"]),
    (night(), {"logits": True}, ["these are probabilities"]),
    (night(), {"logits": True, "log": True}, ["logits", r"\blog\b", "exclude"]),
    (night(), {"logits": "yes"}, ["logits", "yes"]),
    *[
        (np.array([*NO_SOFTMAX, row]), {"logits": True}, ["row 2", "(?i)nan|inf"])
        for row in ([1.0, np.nan, 0.0], [-np.inf] * 3, [np.inf, 1.0, 0.0])
    ],
    (LOGS + 1.0, {"log": True}, [r"row \d+", "log-probabilities", "up to 0|sum"]),
    (LOGS - 1.0, {"log": True}, ["row 0", r"sums to 0\.36"]),
    (np.array([[0.0, -np.inf, -np.inf], [-np.inf] * 3]), {"log": True}, ["row 1"]),
    # options
    *[(night(), {"epoch_seconds": value}, ["epoch_seconds", "expected"]) for value in (0, math.nan, "30")],
    (night(), {"quality": np.full(40, 1.5)}, ["quality", r"1\.5", "0 .*1"]),
    (night(), {"quality": np.r_[np.zeros(7), np.nan, np.zeros(32)]}, ["quality", "(?i)nan", "7"]),
    (night(), {"quality": np.zeros(39)}, ["quality", "39", "40"]),
    (night(), {"quality": ["good"] * 40}, ["quality", "numbers"]),
    (night(), {"quality": np.ones(40)}, [r"1 \(lost\) at every epoch", "at every epoch"]),
    (night(), {"pins": {40: "W"}}, ["pin", "41", "40"]),
    (night(), {"pins": {3: "Wkae"}}, ["Wkae", *THREE]),
    (night(), {"pins": {3: 7}}, ["pin", "7", "0 to 2"]),
    (night(), {"pins": {2.5: "W"}}, ["pin", r"2\.5", "whole"]),
    (night(), {"pins": [3]}, ["pins", "expected"]),
    *[
        (night(), {"segments": value}, ["segments", "expected"])
        for value in ([0, 40], [0, -2], [0, 20, 10], [0, 2.5], "0")
    ],
    (night(), {"stages": ["W", "N"]}, ["2|W, N", "3"]),
    (night(), {"stages": ["W", "N", "N"]}, ["W, N, N"]),
    (night(), {"stages": ["W", "N", "X"]}, ["X"]),
    (night(), {"trained": "natrual"}, ["trained", "natrual", "natural"]),
    ([night(), night()], {"quality": [np.zeros(40)]}, ["quality", "2"]),
    ([night(), night()], {"pins": {3: "W"}}, ["pins", "2"]),
    ([night(), night()], {"segments": [[0], [0], [0]]}, ["segments", "2"]),
]


@pytest.mark.parametrize(("given", "options", "named"), REFUSED, ids=lambda value: None)
def test_what_is_no_night_or_option_is_refused(given, options, named):
    with pytest.raises(PinError if "pins" in options and len(given) == 40 else InputError) as error:
        sg.decode(given, profile_of(), **options)
    refusal(error, *named)


def test_one_epoch_is_legal(backend):
    result = sg.decode(np.array([[0.2, 0.7, 0.1]]), profile_of(min_bout_seconds={"N": 120}, ends="paper"))
    assert result.stages.tolist() == ["N"]
    assert result.score == pytest.approx(math.log(0.7), abs=1e-12)
    assert result.hypnogram.labels.dtype == np.int8


def test_a_row_of_logits_that_is_nan_throughout_is_an_epoch_without_evidence(backend):
    logits = np.log(night())
    logits[5] = np.nan
    for option in ("logits", "log"):
        result = sg.decode(logits, profile_of(), **{option: True})
        assert np.flatnonzero(result.filled).tolist() == [5]


def test_pins_take_aliases_and_numpy_indices(backend):
    by_alias = sg.decode(night(), profile_of(), pins={np.int64(4): "REM", 9: "Wake"})
    assert by_alias.stages[[4, 9]].tolist() == ["R", "W"]


def test_an_empty_list_of_nights_gives_an_empty_list(backend):
    assert sg.decode([], profile_of()) == []


def test_a_stacked_array_is_a_batch(backend):
    nights = np.stack([night(), night(seed=1)])
    together = sg.decode(nights, profile_of())
    assert [one.hypnogram for one in together] == [sg.decode(p, profile_of()).hypnogram for p in nights]


def test_an_unknown_profile_is_refused_with_a_suggestion():
    with pytest.raises(ProfileError) as error:
        sg.Profile.load("human-psg5")
    refusal(error, r"human-psg5", r"Did you mean 'human-psg-5'")
    with pytest.raises(ProfileError) as error:
        sg.decode(night(), "human-psg3")
    refusal(error, r"Did you mean 'human-psg-3'")


@pytest.mark.parametrize(
    "convert",
    [
        lambda p: p.astype(np.float16),
        lambda p: p.astype(np.float32),
        np.asfortranarray,
        lambda p: p.tolist(),
        lambda p: np.repeat(p, 2, axis=0)[::2],
        lambda p: np.hstack([p, p])[:, :3],
        lambda p: p.astype(">f8"),
    ],
    ids=["float16", "float32", "fortran", "nested list", "strided", "view", "big endian"],
)
def test_any_layout_and_width_gives_the_same_hypnogram(backend, convert):
    expected = sg.decode(night(), profile_of())
    result = sg.decode(convert(night()), profile_of())
    assert result.hypnogram == expected.hypnogram
    assert result.score == pytest.approx(expected.score, abs=0.1)
    assert len(set(expected.stages.tolist())) == 3


@pytest.mark.parametrize("wrong", [np.full((9, 2), 0.5), np.empty((0, 3)), None, "night.csv", {}])
def test_a_list_says_which_night_is_no_matrix(wrong):
    with pytest.raises(sg.InputError) as alone:
        sg.decode(wrong, profile_of())
    with pytest.raises(sg.InputError) as error:
        sg.decode([night(), wrong, night()], profile_of())
    assert str(error.value) == f"night 1: {alone.value}"


def test_a_density_object_brings_its_own_stages_and_epoch_length(backend):
    density = sg.Hypnodensity(night(), sg.StageScheme.named("wnr3"), 30.0)
    result = sg.decode(density, profile_of())
    assert result.hypnogram == sg.decode(night(), profile_of()).hypnogram
    assert result.density == density
    assert not any(re.search("order|epoch length|epoch_seconds|seconds", text) for text in result.assumed)


def test_a_bare_array_says_what_was_assumed(backend):
    bare = " ".join(sg.decode(night(), profile_of()).assumed)
    assert "W, N, R" in bare
    assert re.search(r"\b30(\.0)?\b", bare)
    told = sg.decode(night(), profile_of(), stages=["W", "N", "R"], epoch_seconds=30.0).assumed
    assert not any(re.search("W, N, R|30", text) for text in told)


def test_columns_are_matched_by_name(backend):
    expected = sg.decode(night(), profile_of())
    order = [2, 0, 1]
    result = sg.decode(night()[:, order], profile_of(), stages=["REM", "Wake", "NREM"])
    assert result.hypnogram == expected.hypnogram
    assert result.argmax.tolist() == expected.argmax.tolist()
    assert result.score == pytest.approx(expected.score, abs=1e-12)


@pytest.mark.parametrize(
    "changes",
    [
        {"transition_weight": 0.0},
        {"strength": {"rule": "band", "fi_target": 0.05}},
        {"flip_flop": {"penalty_nats": 1.0, "window_epochs": 3}},
        {"min_bout_seconds": {"R": 90.0}},
    ],
    ids=["free", "band", "automaton", "minimum"],
)
@pytest.mark.parametrize("calibration", [{"temperature": 1.5}, {"biases": {"W": 0.1, "N": -0.1, "R": 0.0}}])
def test_rounding_below_zero_is_zero_under_a_calibration_too(backend, changes, calibration):
    rounded, clean = night(), night()
    rounded[10], clean[10] = [1 + 4e-10, -4e-10, 0.0], [1.0, 0.0, 0.0]
    profile = profile_of().replace(calibration=calibration, **changes)
    first, second = sg.decode(rounded, profile), sg.decode(clean, profile)
    assert first.hypnogram == second.hypnogram
    assert first.score == pytest.approx(second.score, abs=1e-6)
    smooth, expected = sg.posterior(rounded, profile), sg.posterior(clean, profile)
    assert np.allclose(smooth.probabilities, expected.probabilities, atol=1e-8)


@pytest.mark.parametrize("verb", [sg.decode, sg.posterior, partial(sg.sample, n=1)])
def test_an_unknown_option_is_refused(verb):
    with pytest.raises(TypeError, match="'qualty'"):
        verb([[0.5, 0.5]], "kdd2026-actigraphy", qualty=[0.0])


def test_tensors_of_torch_are_taken_as_a_network_returns_them():
    torch = pytest.importorskip("torch")
    expected = sg.decode(night(), profile_of()).hypnogram
    trained = torch.tensor(night(), requires_grad=True)
    assert sg.decode(trained, profile_of()).hypnogram == expected
    assert sg.decode(trained.log().bfloat16(), profile_of(), logits=True).hypnogram.n_epochs == len(night())
    stacked = sg.decode(torch.stack([trained, trained]), profile_of())  # as a stacked array of NumPy
    assert [each.hypnogram for each in stacked] == [expected, expected]
