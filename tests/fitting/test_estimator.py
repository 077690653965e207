"""SemiMarkovDecoder keeps scikit-learn's manners."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import stageguard as sg
from scored_nights import cohort
from small import refusal
from stageguard.base.errors import InputError, StageGuardWarning

BASE = "human-psg-3"
pytestmark = pytest.mark.filterwarnings("ignore::stageguard.base.errors.StageGuardWarning")


@pytest.fixture(scope="module")
def nights():
    return cohort(5, hours=2, sharpness=2.0)


@pytest.fixture(scope="module")
def matrices(nights):
    return [density.probabilities for density in nights.densities]


@pytest.fixture(scope="module")
def labels(nights):
    return [expert.labels for expert in nights.hypnograms]


@pytest.fixture(scope="module")
def fitted(matrices, labels, nights):
    return sg.SemiMarkovDecoder(BASE).fit(matrices, labels, nights.groups)


def test_it_fits_what_fit_fits(fitted, nights):
    profile = sg.fit(
        nights.densities, nights.hypnograms, base=BASE, groups=nights.groups, learning_curve=False
    )
    assert fitted.profile_.transitions == profile.transitions
    assert fitted.report_.chosen.name == profile.provenance["chosen"]
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_features_in_ == 3


def test_it_predicts_what_decode_decodes(fitted, matrices, labels):
    found = fitted.predict(matrices)
    expected = [result.hypnogram.labels for result in sg.decode(matrices, fitted.profile_)]
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    right = sum(np.sum(a == b) for a, b in zip(found, labels, strict=True))
    assert fitted.score(matrices, labels) == pytest.approx(right / sum(map(len, labels)))
    plain = np.mean([np.mean(m.argmax(axis=1) == y) for m, y in zip(matrices, labels, strict=True)])
    assert fitted.score(matrices, labels) > plain + 0.01


def test_one_array_with_lengths_or_groups_is_the_same(fitted, matrices, labels, nights):
    flat, lengths = np.concatenate(matrices), [len(m) for m in matrices]
    stages = np.concatenate(labels)
    groups = np.repeat(nights.groups, lengths)
    by_groups = sg.SemiMarkovDecoder(BASE).fit(flat, stages, groups)
    by_lengths = sg.SemiMarkovDecoder(BASE).fit(flat, stages, nights.groups, lengths=lengths)
    assert by_groups.profile_ == by_lengths.profile_ == fitted.profile_
    assert np.array_equal(fitted.predict(flat, lengths=lengths), np.concatenate(fitted.predict(matrices)))
    assert fitted.score(flat, stages, lengths=lengths) == fitted.score(matrices, labels)
    assert fitted.predict(matrices[0]).shape == (240,)


def test_stages_may_be_names(fitted, matrices, nights):
    names = [expert.stages for expert in nights.hypnograms]
    names[0] = np.where(np.arange(240) < 5, "?", names[0])
    own = sg.SemiMarkovDecoder(BASE).fit(matrices, names, nights.groups)
    assert own.classes_.tolist() == ["W", "N", "R"]
    assert set(own.predict(matrices)[0]) <= {"W", "N", "R"}
    assert own.score(matrices, names) == pytest.approx(fitted.score(matrices, names), abs=0.02)


def test_probabilities_are_the_posterior(fitted, matrices):
    pytest.importorskip("stageguard.guard.posterior")
    found = fitted.predict_proba(matrices)
    assert [p.shape for p in found] == [(240, 3)] * 5
    for p, labels in zip(found, fitted.predict(matrices), strict=True):
        assert p.sum(axis=1) == pytest.approx(1.0)
        assert np.mean(p.argmax(axis=1) == labels) > 0.9
    assert fitted.predict_proba(matrices[0]) == pytest.approx(found[0])


def test_parameters_are_set_and_got():
    own = sg.SemiMarkovDecoder(BASE, seed=3)
    assert own.get_params() == {
        "profile": BASE,
        "cohort": None,
        "keep_accuracy": False,
        "fragmentation_weight": 2.0,
        "statistics_weight": 0.3,
        "statistics": None,
        "n_folds": 5,
        "seed": 3,
    }
    assert own.set_params(seed=4, cohort="x") is own
    assert repr(own) == "SemiMarkovDecoder(profile='human-psg-3', cohort='x', seed=4)"
    with pytest.raises(InputError) as error:
        own.set_params(sed=1)
    refusal(error, "unknown parameter 'sed'", "Did you mean 'seed'")


def test_it_survives_pickling(fitted, matrices):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(matrices[0]), fitted.predict(matrices[0]))


def test_scikit_learn_finds_its_manners():
    """Those of its checks that do not feed arbitrary tables, whose rows are no epochs of a night."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    names = (
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_estimators_unfitted",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_do_not_raise_errors_in_init_or_set_param",
        "check_valid_tag_types",
    )
    ran = 0
    for name in names:
        check = getattr(checks, name, None)
        if check is not None:
            check("SemiMarkovDecoder", sg.SemiMarkovDecoder(BASE))
            ran += 1
    assert ran >= 9


def test_scikit_learn_clones_and_cross_validates_it(matrices, labels, nights):
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import GroupKFold, cross_val_score

    own = sg.SemiMarkovDecoder(BASE, seed=2)
    assert clone(own).get_params() == own.get_params()
    assert is_classifier(own)
    scores = cross_val_score(own, matrices, labels, cv=GroupKFold(2), groups=nights.groups)
    assert scores.shape == (2,)
    assert scores.min() > 0.6


def test_it_must_be_fitted_first(matrices):
    own = sg.SemiMarkovDecoder(BASE)
    for call in (own.predict, own.predict_proba):
        with pytest.raises(InputError, match="this SemiMarkovDecoder is not fitted yet"):
            call(matrices)


def test_scikit_learn_is_not_imported():
    code = (
        "import sys, stageguard as sg\n"
        "own = sg.SemiMarkovDecoder('human-psg-3')\n"
        "try: own.predict([[[1, 0, 0]]])\n"
        "except sg.InputError: print('sklearn' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"lengths": [100, 100]}, "lengths sum to 200, but X has 1200 epochs"),
        ({"lengths": [1200, 0]}, "expected one above 0 per night"),
        ({"y": np.zeros(7)}, r"y has shape \(7,\), expected one stage per epoch: \(1200,\)"),
        ({"X": np.zeros(5)}, r"X has shape \(5,\), expected \(n_epochs, n_stages\)"),
        ({"y": None}, "y is missing"),
        (
            {"lengths": [240] * 5, "groups": ["a"] * 100 + ["b"] * 1100},
            "groups change within the night of epochs 0 to 239",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(matrices, labels, options, pattern):
    given = {"X": np.concatenate(matrices), "y": np.concatenate(labels)} | options
    with pytest.raises(InputError) as error:
        sg.SemiMarkovDecoder(BASE).fit(
            given["X"], given["y"], given.get("groups"), lengths=given.get("lengths")
        )
    refusal(error, pattern)


def test_lists_must_be_of_one_length(matrices, labels, fitted):
    with pytest.raises(InputError) as error:
        sg.SemiMarkovDecoder(BASE).fit(matrices, labels[:3])
    refusal(error, "y has 3 nights and X 5")
    with pytest.raises(InputError) as error:
        fitted.predict(matrices, lengths=[1])
    refusal(error, "lengths are given, but X is a list of nights already")
    with pytest.raises(InputError) as error:
        fitted.score([matrices[0]], [labels[0][:-1]])
    refusal(error, "y has 239 epochs and X 240 in night 0")
    assert issubclass(StageGuardWarning, UserWarning)


def test_what_fit_weighs_is_handed_on(matrices, labels, nights):
    own = sg.SemiMarkovDecoder(BASE, statistics_weight=0.7, statistics="day")
    own.fit(matrices, labels, nights.groups)
    assert own.report_.criterion.statistics_weight == 0.7
    assert "minutes_W" in own.profile_.provenance["statistics"]
    with pytest.raises(InputError) as error:
        own.set_params(statistics="week").fit(matrices, labels, nights.groups)
    refusal(error, "statistics is 'week', expected 'night' or 'day'")


def test_a_grid_search_may_choose_what_statistics_weigh(matrices, labels, nights):
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV, GroupKFold

    grid = {"statistics_weight": [0.0, 0.3]}
    search = GridSearchCV(sg.SemiMarkovDecoder(BASE), grid, cv=GroupKFold(2), error_score="raise")
    search.fit(matrices, labels, groups=nights.groups)
    assert search.best_params_["statistics_weight"] in (0.0, 0.3)
    assert search.best_score_ > 0.6


def ragged(values):
    """An array of arrays, as scikit-learn's users keep sequences of several lengths."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def test_nights_may_come_in_an_array_of_arrays(fitted, matrices, labels, nights):
    uneven = [rows[: 240 - 7 * i] for i, rows in enumerate(matrices)]
    stages = [own[: 240 - 7 * i] for i, own in enumerate(labels)]
    own = sg.SemiMarkovDecoder(BASE).fit(ragged(uneven), ragged(stages), np.array(nights.groups))
    listed = sg.SemiMarkovDecoder(BASE).fit(uneven, stages, nights.groups)
    assert own.profile_ == listed.profile_
    assert [len(found) for found in fitted.predict(ragged(uneven))] == [len(rows) for rows in uneven]
    assert fitted.score(ragged(uneven), ragged(stages)) == fitted.score(uneven, stages)


def test_one_array_is_cut_by_groups_when_decoded(fitted, matrices, labels, nights):
    flat, stages = np.concatenate(matrices), np.concatenate(labels)
    groups = np.repeat(nights.groups, 240)
    expected = np.concatenate(fitted.predict(matrices))
    assert np.array_equal(fitted.predict(flat, groups=groups), expected)
    assert fitted.predict_proba(flat, groups=groups) == pytest.approx(
        np.concatenate(fitted.predict_proba(matrices))
    )
    assert fitted.score(flat, stages, groups=groups) == fitted.score(matrices, labels)
    for given, words in ((flat, "one per epoch: 1200"), (matrices, "one per night: 5")):
        with pytest.raises(InputError) as error:
            fitted.predict(given, groups=["a"] * 7)
        refusal(error, f"groups: got 7 of them, expected {words}")


def test_one_array_that_may_be_several_nights_is_warned_of(matrices, labels, nights):
    flat, stages = np.concatenate(matrices), np.concatenate(labels)
    own = sg.SemiMarkovDecoder(BASE).fit(flat, stages, np.repeat(nights.groups, 240))
    words = "an array of 480 epochs without lengths or groups is decoded as one night, and fit was given one"
    for call in (own.predict, own.predict_proba, lambda X: own.score(X, stages[:480])):
        with pytest.warns(StageGuardWarning, match=words) as caught:
            call(flat[:480])
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "an array of", StageGuardWarning)
        own.predict(flat[:240], lengths=[240])
        own.predict(matrices[:2])
        own.predict(flat[:480], groups=["a"] * 240 + ["b"] * 240)


def test_scikit_learn_hands_groups_on_where_routing_is_on(matrices, labels, nights):
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import GroupKFold, cross_val_score

    flat, stages = np.concatenate(matrices), np.concatenate(labels)
    groups = np.repeat(nights.groups, 240)
    own, folds = sg.SemiMarkovDecoder(BASE), GroupKFold(2)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.filterwarnings("error", "an array of", StageGuardWarning)
        found = cross_val_score(own, flat, stages, cv=folds, params={"groups": groups}, error_score="raise")
    expected = []
    for train, test in folds.split(flat, stages, groups):
        fit = sg.SemiMarkovDecoder(BASE).fit(flat[train], stages[train], groups[train])
        expected.append(fit.score(flat[test], stages[test], groups=groups[test]))
    assert found == pytest.approx(expected)
    with pytest.warns(StageGuardWarning, match="is decoded as one night"):
        cross_val_score(own, flat, stages, cv=folds, groups=groups, params={"groups": groups})


@pytest.mark.parametrize("lengths", [[800.5, 399.5], ["600", "600"], 1200, [True] * 1200, [[600, 600]]])
def test_lengths_are_whole_numbers(fitted, matrices, lengths):
    with pytest.raises(InputError) as error:
        fitted.predict(np.concatenate(matrices), lengths=lengths)
    refusal(error, "lengths are .*expected a whole number of epochs per night")
