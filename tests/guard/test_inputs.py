"""What `decode` takes, what it refuses, and how it says so."""

import inspect
import math
import re
import warnings
from dataclasses import fields
from functools import partial

import numpy as np
import pytest

import stageguard as sg
from small import night, profile_of, refusal
from stageguard.errors import InputError, PinError, ProfileError, StageGuardWarning
from stageguard.guard.night import GuardOptions, OptionKeywords


@pytest.mark.parametrize(
    ("array", "patterns"),
    [
        (np.zeros((0, 3)), [r"empty|0 epochs", r"at least one|expected"]),
        (np.array([]), [r"empty|0 epochs"]),
        (np.array(["W", "N"]), [r"labels", r"typical confusions"]),
        (np.array([["0.5", "0.3", "0.2"]]), [r"text|string"]),
        (np.full((4, 3), None, dtype=object), [r"object", r"expected"]),
        (np.ones((5, 1)), [r"\(5, 1\)|1 column", r"3"]),
        (np.full((5, 4), 0.25), [r"4", r"3", r"W, N, R"]),
        (np.full((3, 10), 0.1), [r"10", r"transpose"]),
        (np.full(6, 0.5), [r"\(6,\)|1-D|one-dimensional", r"expected"]),
        (np.full((1, 2, 4, 3), 1 / 3), [r"\(1, 2, 4, 3\)|4-D", r"expected"]),
        (np.full((4, 3), 0.3 + 0j), [r"complex"]),
        (np.ma.masked_less(np.full((4, 3), 0.3), 0.1), [r"masked"]),
        (np.ones((4, 3), dtype=bool), [r"true/false|bool"]),
        (np.full((4, 3), np.nan), [r"NaN", r"every|all|no "]),
    ],
    ids=lambda value: None,
)
def test_an_array_of_the_wrong_kind_is_refused(backend, array, patterns):
    with pytest.raises(InputError) as error:
        sg.decode(array, profile_of())
    refusal(error, *patterns)


def test_an_all_nan_night_is_refused_even_when_it_is_long(backend):
    with pytest.raises(InputError) as error:
        sg.decode(np.full((900, 3), np.nan), profile_of())
    refusal(error, "NaN")


def spoilt(row, values):
    array = night()
    array[row] = values
    return array


@pytest.mark.parametrize(
    ("array", "patterns"),
    [
        (spoilt(17, [0.3, 0.3, 0.02]), [r"row 17", r"0\.62", r"expected 1"]),
        (spoilt(5, [1.1, -0.2, 0.1]), [r"row 5", r"1\.1|-0\.2", r"0 to 1|negative"]),
        (spoilt(8, [0.5, np.nan, 0.5]), [r"row 8", r"NaN", r"N\b"]),
        (spoilt(3, [-np.inf, 0.5, 0.5]), [r"row 3", r"-inf", r"W"]),
        (spoilt(3, [np.inf, 0.5, 0.5]), [r"row 3", r"inf"]),
        (spoilt(39, [0.4, 0.4, 0.2021]), [r"row 39", r"1\.0021"]),
        (night() * 100, [r"row 0", r"100"]),
    ],
    ids=lambda value: None,
)
def test_rows_that_are_no_distribution_are_refused_by_number(backend, array, patterns):
    with pytest.raises(InputError) as error:
        sg.decode(array, profile_of())
    refusal(error, *patterns)


def test_the_bad_row_is_found_in_a_batch(backend):
    with pytest.raises(InputError) as error:
        sg.decode([night(), night(seed=1), spoilt(5, [0.5, 0.6, 0.7])], profile_of())
    refusal(error, r"row 5", r"1\.8", r"\b2\b|night 3|third")


def test_one_epoch_is_legal(backend):
    result = sg.decode(np.array([[0.2, 0.7, 0.1]]), profile_of(min_bout_seconds={"N": 120}, ends="paper"))
    assert result.stages.tolist() == ["N"]
    assert result.score == pytest.approx(math.log(0.7), abs=1e-12)
    assert result.hypnogram.labels.dtype == np.int8


def test_logits_and_log_probabilities_are_refused_with_the_flag_that_helps(backend):
    probabilities = night()
    logits = np.log(probabilities) * 1.0 + np.linspace(-3, 3, 40)[:, None]
    with pytest.raises(InputError) as error:
        sg.decode(logits, profile_of())
    refusal(error, "logits=True")
    with pytest.raises(InputError) as error:
        sg.decode(np.log(probabilities), profile_of())
    refusal(error, r"log=True")
    plainly = sg.decode(probabilities, profile_of())
    for values, options in ((logits, {"logits": True}), (np.log(probabilities), {"log": True})):
        result = sg.decode(values, profile_of(), **options)
        assert result.hypnogram.labels.tolist() == plainly.hypnogram.labels.tolist()
        assert result.score == pytest.approx(plainly.score, abs=1e-9)
        assert result.argmax.tolist() == plainly.argmax.tolist()


def test_probabilities_are_no_logits(backend):
    for values in (night(), [night(), night()]):
        with pytest.raises(InputError) as error:
            sg.decode(values, profile_of(), logits=True)
        refusal(error, "these are probabilities", "logits=True")


def test_logits_may_be_as_large_as_they_like(backend):
    result = sg.decode(np.array([[1000.0, 0.0, -1000.0], [0.0, 0.0, 800.0]]), profile_of(), logits=True)
    assert result.stages.tolist() == ["W", "R"]


@pytest.mark.parametrize("row", [[1.0, np.nan, 0.0], [-np.inf] * 3, [np.inf, 1.0, 0.0]])
def test_a_row_of_logits_without_a_softmax_is_refused(backend, row):
    logits = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], row])
    with pytest.raises(InputError) as error:
        sg.decode(logits, profile_of(), logits=True)
    refusal(error, r"row 2", r"(?i)nan|inf")


def test_a_row_of_logits_that_is_nan_throughout_is_an_epoch_without_evidence(backend):
    logits = np.log(night())
    logits[5] = np.nan
    for option in ("logits", "log"):
        result = sg.decode(logits, profile_of(), **{option: True})
        assert np.flatnonzero(result.filled).tolist() == [5]


def test_log_probabilities_that_are_none_are_refused(backend):
    with pytest.raises(InputError) as error:
        sg.decode(np.log(night()) + 1.0, profile_of(), log=True)
    refusal(error, r"row \d+", r"log-probabilities", r"up to 0|sum")
    with pytest.raises(InputError) as error:
        sg.decode(np.log(night()) - 1.0, profile_of(), log=True)
    refusal(error, r"row 0", r"sums to 0\.36")
    with pytest.raises(InputError) as error:
        sg.decode(np.array([[0.0, -np.inf, -np.inf], [-np.inf] * 3]), profile_of(), log=True)
    refusal(error, r"row 1")
    with pytest.raises(InputError) as error:
        sg.decode(np.array([[0.0, -np.inf, -np.inf], [np.nan, -0.1, -3.0]]), profile_of(), log=True)
    refusal(error, r"row 1", "NaN")


def test_logits_and_log_exclude_each_other(backend):
    with pytest.raises(InputError) as error:
        sg.decode(night(), profile_of(), logits=True, log=True)
    refusal(error, "logits", r"\blog\b", "both|one|exclude")


@pytest.mark.parametrize("value", [0, -30, math.nan, math.inf, "30", True])
def test_an_epoch_length_that_is_none_is_refused(backend, value):
    with pytest.raises(InputError) as error:
        sg.decode(night(), profile_of(), epoch_seconds=value)
    refusal(error, "epoch_seconds", r"expected")


@pytest.mark.parametrize(
    ("quality", "patterns"),
    [
        (np.full(40, 1.5), [r"quality", r"1\.5", r"0 .*1"]),
        (np.r_[np.zeros(12), -0.1, np.zeros(27)], [r"quality", r"-0\.1", r"12", r"0 .*1"]),
        (np.r_[np.zeros(7), np.nan, np.zeros(32)], [r"quality", r"(?i)nan", r"7"]),
        (np.zeros(39), [r"quality", r"39", r"40"]),
        (np.zeros((40, 3)), [r"quality", r"\(40, 3\)|one value per epoch"]),
        (["good"] * 40, [r"quality", r"text|number|string"]),
        (0.5, [r"quality", r"per epoch|40|shape"]),
    ],
    ids=lambda value: None,
)
def test_quality_of_the_wrong_kind_is_refused(backend, quality, patterns):
    with pytest.raises(InputError) as error:
        sg.decode(night(), profile_of(), quality=quality)
    refusal(error, *patterns)


@pytest.mark.parametrize(
    ("pins", "patterns"),
    [
        ({40: "W"}, [r"pin", r"40", r"39|40 epochs"]),
        ({-1: "W"}, [r"pin", r"-1"]),
        ({3: "N2"}, [r"N2", r"W, N, R"]),
        ({3: "Wkae"}, [r"Wkae", r"W, N, R|Did you mean"]),
        ({"3": "W"}, [r"pin", r"'3'|3", r"index|whole|integer"]),
        ({2.5: "W"}, [r"pin", r"2\.5", r"index|whole|integer"]),
        ([3], [r"pins", r"expected"]),
        ("W", [r"pins", r"expected"]),
        (5, [r"pins", r"expected"]),
        ({3: None}, [r"3", r"None", r"W, N, R"]),
    ],
    ids=lambda value: None,
)
def test_pins_of_the_wrong_kind_are_refused(backend, pins, patterns):
    with pytest.raises(InputError) as error:
        sg.decode(night(), profile_of(), pins=pins)
    refusal(error, *patterns)


def test_a_pin_out_of_range_is_a_pin_error(backend):
    with pytest.raises(PinError):
        sg.decode(night(), profile_of(), pins={1000: "W"})


def test_pins_take_aliases_and_numpy_indices(backend):
    by_alias = sg.decode(night(), profile_of(), pins={np.int64(4): "REM", 9: "Wake"})
    assert by_alias.stages[[4, 9]].tolist() == ["R", "W"]


@pytest.mark.parametrize("segments", [[0, 40], [0, -2], [0, 20, 10], [0, 10, 10], [0, 2.5], "0", 7])
def test_segments_of_the_wrong_kind_are_refused(backend, segments):
    with pytest.raises(InputError) as error:
        sg.decode(night(), profile_of(), segments=segments)
    refusal(error, "segments", "expected")


def test_an_empty_list_of_nights_gives_an_empty_list(backend):
    assert sg.decode([], profile_of()) == []


def test_a_stacked_array_is_a_batch(backend):
    nights = np.stack([night(), night(seed=1)])
    together = sg.decode(nights, profile_of())
    assert [one.hypnogram for one in together] == [sg.decode(p, profile_of()).hypnogram for p in nights]


def test_options_of_a_batch_are_one_per_night(backend):
    nights = [night(), night(seed=1)]
    for name, value in (("quality", [np.zeros(40)]), ("pins", {3: "W"}), ("segments", [[0], [0], [0]])):
        with pytest.raises(InputError) as error:
            sg.decode(nights, profile_of(), **{name: value})
        refusal(error, name, r"2|two|list")


def test_a_batch_names_the_night_of_an_impossible_pin(backend):
    pins = [None, {9: "W", 10: "N", 11: "W"}]
    with pytest.raises(PinError) as error:
        sg.decode([night(), night(seed=1)], profile_of(min_bout_seconds={"N": 90}), pins=pins)
    refusal(error, r"\b9\b", r"\b10\b", r"\b11\b", r"night.*\b(1|2)\b")


def test_an_unknown_profile_is_refused_with_a_suggestion():
    with pytest.raises(ProfileError) as error:
        sg.Profile.load("human-psg5")
    refusal(error, r"human-psg5", r"Did you mean 'human-psg-5'")
    with pytest.raises(ProfileError) as error:
        sg.decode(night(), "human-psg3")
    refusal(error, r"Did you mean 'human-psg-3'")


def test_a_profile_may_be_given_by_name(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        by_name = sg.decode(night(), "human-psg-3")
        by_object = sg.decode(night(), sg.Profile.load("human-psg-3"))
    assert by_name.profile == by_object.profile
    assert by_name.hypnogram == by_object.hypnogram


def test_something_else_than_a_profile_is_refused():
    with pytest.raises((InputError, ProfileError)) as error:
        sg.decode(night(), 3.0)
    refusal(error, "profile", "3.0|float")


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


def test_a_read_only_array_is_fine_and_stays_unchanged(backend):
    array = night()
    array.flags.writeable = False
    assert sg.decode(array, profile_of()).hypnogram == sg.decode(night(), profile_of()).hypnogram
    assert (array == night()).all()


@pytest.mark.parametrize("wrong", [np.full((9, 2), 0.5), np.empty((0, 3)), None, "night.csv", {}])
def test_a_list_says_which_night_is_no_matrix(wrong):
    with pytest.raises(sg.InputError) as alone:
        sg.decode(wrong, profile_of())
    with pytest.raises(sg.InputError) as error:
        sg.decode([night(), wrong, night()], profile_of())
    assert str(error.value) == f"night 1: {alone.value}"


def test_whole_numbers_are_fine(backend):
    array = np.eye(3, dtype=int)[[0, 0, 0, 1, 1, 1]]
    assert sg.decode(array, profile_of()).stages.tolist() == ["W"] * 3 + ["N"] * 3


def test_a_density_object_brings_its_own_stages_and_epoch_length(backend):
    density = sg.Hypnodensity(night(), sg.StageScheme.named("wnr3"), 30.0)
    result = sg.decode(density, profile_of())
    assert result.hypnogram == sg.decode(night(), profile_of()).hypnogram
    assert result.density == density
    assert not any(re.search("order|epoch length|epoch_seconds|seconds", text) for text in result.assumed)


def test_a_density_of_another_scheme_is_refused_or_merged(backend):
    five = np.random.default_rng(0).dirichlet(np.ones(5), size=40)
    density = sg.Hypnodensity(five, sg.StageScheme.named("aasm5"), 30.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        try:
            result = sg.decode(density, profile_of())
        except InputError as error:
            assert "merge" in str(error)
        else:
            merged = sg.decode(density.merge("wnr3"), profile_of())
            assert result.hypnogram == merged.hypnogram


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
    ("stages", "patterns"),
    [
        (["W", "N"], [r"2|W, N", r"3"]),
        (["W", "N", "N"], [r"twice|more than once|duplicate|both"]),
        (["W", "N", "X"], [r"X"]),
        (["W", "N1", "N2"], [r"N1|N2|scheme"]),
    ],
)
def test_stages_that_do_not_fit_are_refused(backend, stages, patterns):
    with pytest.raises(InputError) as error:
        sg.decode(night(), profile_of(), stages=stages)
    refusal(error, *patterns)


def test_another_epoch_length_is_carried_to_the_output(backend):
    result = sg.decode(night(), profile_of(), epoch_seconds=10)
    assert result.epoch_seconds == 10.0
    assert result.hypnogram.epoch_seconds == 10.0


def test_rounding_below_zero_is_no_error_and_no_logit(backend):
    probabilities = night()
    probabilities[3] = [1 + 1e-12, -1e-12, 0.0]
    assert sg.decode(probabilities, profile_of()).hypnogram.n_epochs == len(probabilities)
    probabilities[:] = [1.1, -0.1, 0.0]
    with pytest.raises(InputError) as error:
        sg.decode(probabilities, profile_of())
    refusal(error, r"-0\.1 for N")


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


def test_quality_that_leaves_nothing_is_refused(backend):
    with pytest.raises(InputError) as error:
        sg.decode(night(), profile_of(), quality=np.ones(len(night())))
    refusal(error, r"1 \(lost\) at every epoch", r"other way round")


def test_decode_lists_every_option():
    options = [option.name for option in fields(GuardOptions)]
    assert list(inspect.signature(sg.decode).parameters) == ["density", "profile", *options]
    assert options == list(OptionKeywords.__annotations__)


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
