"""SemiMarkovDecoder keeps scikit-learn's manners."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from scored_nights import cohort
from small import refusal
from stageguard.errors import InputError, StageGuardWarning

BASE = "human-psg-3"
pytestmark = pytest.mark.filterwarnings("ignore::stageguard.errors.StageGuardWarning")


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
        nights.hypnograms, nights.densities, base=BASE, groups=nights.groups, learning_curve=False
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
        "transition_weight": None,
        "cohort": None,
        "keep_accuracy": False,
        "fragmentation_weight": 2.0,
        "statistics_weight": 0.3,
        "statistics": None,
        "n_folds": 5,
        "seed": 3,
    }
    assert own.set_params(seed=4, cohort="x") is own
    assert repr(own) == "SemiMarkovDecoder(cohort='x', profile='human-psg-3', seed=4)"
    with pytest.raises(ValueError, match="Invalid parameter 'sed'"):
        own.set_params(sed=1)


def test_without_scikit_learn_it_works_too():
    code = """
import sys
sys.modules["sklearn"] = None
import stageguard as sg
own = sg.SemiMarkovDecoder("human-psg-3", seed=3)
print(own.set_params(seed=4, cohort="x") is own, own, sorted(own.get_params())[:2])
for call in (lambda: own.set_params(sed=1), lambda: own.predict([[[1, 0, 0]]])):
    try: call()
    except sg.InputError as error: print(error)
night = sg.simulate_night("human-psg-3", seed=1)
own = sg.SemiMarkovDecoder("human-psg-3", transition_weight=1.0)
print(len(own.fit([night.density.probabilities], [night.expert.labels]).predict(night.density.probabilities)))
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    said, unknown, unfitted, n_epochs = run.stdout.splitlines()
    assert said == (
        "True SemiMarkovDecoder(profile='human-psg-3', cohort='x', seed=4) ['cohort', 'fragmentation_weight']"
    )
    assert mentions(unknown, "'sed'")
    assert unknown.endswith("Did you mean 'seed'?")
    assert mentions(unfitted, "SemiMarkovDecoder", "fitted")
    assert int(n_epochs) > 100


def test_it_survives_pickling(fitted, matrices):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(matrices[0]), fitted.predict(matrices[0]))


# Checks of scikit-learn that feed what no guard can take, with what is not so here.
NO_PROBABILITIES = "rows of X are probabilities of the profile's stages, one column each"
NO_STAGES = "classes are the profile's stages, whether or not y has them all"
ORDERED = "rows are epochs that follow each other: order and neighbours count"
FAIL = {
    NO_PROBABILITIES: """check_classifier_data_not_an_array check_classifiers_train check_dict_unchanged
        check_dont_overwrite_parameters check_estimators_dtypes check_estimators_empty_data_messages
        check_estimators_fit_returns_self check_estimators_overwrite_params check_estimators_pickle
        check_f_contiguous_array_estimator check_fit2d_1feature check_fit2d_1sample check_fit2d_predict1d
        check_fit_check_is_fitted check_fit_idempotent check_fit_score_takes_y check_n_features_in
        check_n_features_in_after_fitting check_pipeline_consistency check_positive_only_tag_during_fit
        check_readonly_memmap_input check_supervised_y_2d""",
    NO_STAGES: """check_classifiers_classes check_classifiers_one_label check_classifiers_regression_target
        check_dtype_object""",
    ORDERED: "check_methods_sample_order_invariance check_methods_subset_invariance",
}


def test_scikit_learn_checks_it():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    own = sg.SemiMarkovDecoder(BASE)
    fail = {name: reason for reason, names in FAIL.items() for name in names.split()}
    found = checks.check_estimator(own, expected_failed_checks=fail, on_skip=None)  # any other failure raises
    passed = {check["check_name"] for check in found if check["status"] == "passed"}
    assert len(passed) >= 20, passed
    assert not passed & set(fail)
    refused = [check["exception"] for check in found if check["status"] == "xfail"]
    assert all(isinstance(error, InputError | AssertionError) for error in refused)


def test_what_those_checks_look_for_holds_on_nights(matrices, labels, nights):
    X, y = np.concatenate(matrices), np.concatenate(labels)
    lengths = [len(night) for night in matrices]
    own = sg.SemiMarkovDecoder(BASE, transition_weight=0.3)
    before = own.get_params()
    assert own.fit(X, y, lengths=lengths) is own
    assert own.get_params() == before
    state, found = dict(vars(own)), own.predict(X, lengths=lengths)
    own.predict_proba(X, lengths=lengths)
    own.score(X, y, lengths=lengths)
    assert vars(own) == state  # nothing but fit changes it
    again = pickle.loads(pickle.dumps(own))
    readonly = X.copy()
    readonly.flags.writeable = False
    for same in (X, np.asfortranarray(X), readonly, X.tolist()):
        again.fit(same, y, lengths=lengths)
        assert again.profile_ == own.profile_
        assert np.array_equal(again.predict(same, lengths=lengths), found)
    with pytest.raises(InputError) as error:
        own.predict(X[:, :2], lengths=lengths)
    refusal(error, "expected")


def test_it_is_an_estimator_of_scikit_learn():
    base = pytest.importorskip("sklearn.base")
    assert issubclass(sg.SemiMarkovDecoder, base.BaseEstimator)
    assert issubclass(sg.SemiMarkovDecoder, base.ClassifierMixin)


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
        with pytest.raises(InputError, match=naming("SemiMarkovDecoder", "fitted")):
            call(matrices)


@pytest.mark.slow
def test_scikit_learn_is_imported_by_it_alone():
    pytest.importorskip("sklearn")
    code = (
        "import sys, stageguard as sg\n"
        "for name in sg.__all__: name == 'SemiMarkovDecoder' or getattr(sg, name)\n"
        "print('sklearn' in sys.modules)\n"
        "sg.SemiMarkovDecoder; print('sklearn' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"lengths": [100, 100]}, "lengths sum to 200, but X has 1200 epochs"),
        ({"lengths": [1200, 0]}, "expected one above 0 per night"),
        ({"y": np.zeros(7)}, r"y has shape \(7,\), expected one stage per epoch: \(1200,\)"),
        ({"X": np.zeros(5)}, r"X has shape \(5,\), expected \(n_epochs, n_stages\)"),
        ({"y": None}, "y is missing: fit requires y"),
        ({"X": np.zeros((5, 3), dtype=complex)}, "Complex data not supported: X is complex128"),
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


def test_epochs_may_weigh_in_the_score(fitted, matrices, labels):
    first = [np.full(240, float(i == 0)) for i in range(5)]
    assert fitted.score(matrices, labels, first) == fitted.score(matrices[:1], labels[:1])
    assert fitted.score(matrices[0], labels[0], np.full(240, 3.0)) == fitted.score(matrices[:1], labels[:1])
    with pytest.raises(InputError) as error:
        fitted.score(matrices[0], labels[0], np.ones(7))
    refusal(error, r"sample_weight has shape \(7,\), expected one per epoch: \(240,\)")


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


@pytest.mark.parametrize("form", ["numbers", "names", "hypnograms"])
def test_scores_of_scikit_learn_take_lists_of_nights(nights, matrices, labels, form):
    pytest.importorskip("sklearn")
    from sklearn.metrics import accuracy_score, f1_score, log_loss
    from sklearn.model_selection import GroupKFold, cross_val_score

    y = {
        "numbers": labels,
        "names": [night.stages for night in nights.hypnograms],
        "hypnograms": nights.hypnograms,
    }[form]
    given = {"cv": GroupKFold(2), "groups": nights.groups, "error_score": "raise"}
    own = sg.SemiMarkovDecoder(BASE, transition_weight=1.0)
    accuracies = cross_val_score(own, matrices, y, scoring=own.scorer("accuracy"), **given)
    assert accuracies.tolist() == pytest.approx(cross_val_score(own, matrices, y, **given).tolist())
    own.fit(matrices, y)
    unscored = [np.where(np.arange(len(a)) < 9, -1, a) for a in labels]
    kept = np.concatenate(unscored) >= 0
    truth, found = (
        np.concatenate(labels)[kept],
        np.concatenate(own.fit(matrices, labels).predict(matrices))[kept],
    )
    assert own.scorer("accuracy")(own, matrices, unscored) == accuracy_score(truth, found)
    assert own.scorer("f1_macro")(own, matrices, unscored) == f1_score(truth, found, average="macro")
    rows = np.concatenate(own.predict_proba(matrices))[kept]
    assert own.scorer("neg_log_loss")(own, matrices, unscored) == pytest.approx(-log_loss(truth, rows))
    again = pickle.loads(pickle.dumps(own.scorer("accuracy")))  # as workers of a search get it
    assert again(own, matrices, labels) == own.score(matrices, labels)


def test_a_score_that_does_not_exist_is_named():
    pytest.importorskip("sklearn")
    with pytest.raises(InputError) as error:
        sg.SemiMarkovDecoder.scorer("acuracy")
    assert mentions(str(error.value), "'acuracy'", "accuracy")


def test_a_weight_leaves_the_choice_to_a_search(matrices, labels, nights):
    """Through a pipeline whose first step makes probabilities, with groups handed on by metadata routing."""
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, GroupKFold
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    logits = np.log(np.concatenate(matrices) + 1e-9) + 3.0
    stages, groups = np.concatenate(labels), np.repeat(nights.groups, 240)
    grid = {"guard__transition_weight": [0.0, 1.0]}
    with sklearn.config_context(enable_metadata_routing=True):
        own = sg.SemiMarkovDecoder(BASE)
        guarded = Pipeline([("stager", FunctionTransformer(softmax)), ("guard", own)])
        search = GridSearchCV(clone(guarded), grid, cv=GroupKFold(2), error_score="raise")
        search.fit(logits, stages, groups=groups)
    plain, weighted = search.cv_results_["mean_test_score"]
    assert plain == pytest.approx(np.mean(np.concatenate(matrices).argmax(axis=1) == stages), abs=0.01)
    assert weighted > plain + 0.01
    best = search.best_estimator_["guard"].profile_
    assert best.transition_weight == 1.0 and best.strength is None
    expected = sg.fit(nights.hypnograms, base=BASE, groups=nights.groups)
    assert best.transitions == expected.transitions


def softmax(logits):
    sizes = np.exp(logits - logits.max(axis=1, keepdims=True))
    return sizes / sizes.sum(axis=1, keepdims=True)


def test_routing_is_set_as_elsewhere_in_scikit_learn(matrices, labels, nights):
    sklearn = pytest.importorskip("sklearn")
    from sklearn.exceptions import UnsetMetadataPassedError
    from sklearn.model_selection import GroupKFold, cross_val_score

    flat, stages = np.concatenate(matrices), np.concatenate(labels)
    given = {"cv": GroupKFold(2), "params": {"groups": np.repeat(nights.groups, 240)}}
    with sklearn.config_context(enable_metadata_routing=True):
        own = sg.SemiMarkovDecoder(BASE, transition_weight=1.0)
        asked = sg.SemiMarkovDecoder(BASE, transition_weight=1.0)
        asked.set_fit_request(groups=True).set_score_request(groups=True)
        assert cross_val_score(asked, flat, stages, **given).tolist() == (
            cross_val_score(own, flat, stages, **given).tolist()
        )
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            cross_val_score(own.set_fit_request(groups=None), flat, stages, **given)


def test_a_weight_does_not_let_pass_what_does_not_fit(matrices, labels):
    own = sg.SemiMarkovDecoder(BASE, transition_weight=1.0)
    with pytest.raises(InputError) as error:
        own.fit(matrices, [labels[0][:-1], *labels[1:]])
    refusal(error, r"got \d+ labels for \d+ rows of probabilities, expected one for each")
    with pytest.raises(InputError) as error:
        own.fit([rows[:, :2] for rows in matrices], labels)
    refusal(error, r"probabilities have shape \(240, 2\), expected \(epochs, 3\)")
    with pytest.raises(ValueError, match="transition_weight"):
        own.set_params(transition_weight=-1.0).fit(matrices, labels)


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
    with pytest.warns(StageGuardWarning, match=naming("decoded as one", "night")):
        cross_val_score(own, flat, stages, cv=folds, groups=groups, params={"groups": groups})


@pytest.mark.parametrize("lengths", [[800.5, 399.5], ["600", "600"], 1200, [True] * 1200, [[600, 600]]])
def test_lengths_are_whole_numbers(fitted, matrices, lengths):
    with pytest.raises(InputError) as error:
        fitted.predict(np.concatenate(matrices), lengths=lengths)
    refusal(error, "lengths are .*expected a whole number of epochs per night")


def test_lists_of_nights_are_scored_whatever_holds_their_stages(nights, matrices, labels, fitted):
    from sklearn.model_selection import cross_val_score

    accuracy = fitted.score(matrices, labels)
    assert 0.5 < accuracy < 1.0
    assert fitted.score(nights.densities, nights.hypnograms) == accuracy
    names = [expert.stages.tolist() for expert in nights.hypnograms]
    assert fitted.score(matrices, names) == accuracy
    own = sg.SemiMarkovDecoder(BASE, transition_weight=0.5)
    by_object = cross_val_score(own, nights.densities, nights.hypnograms, cv=2)
    assert by_object.tolist() == cross_val_score(own, matrices, labels, cv=2).tolist()
    assert np.isfinite(by_object).all()


def test_a_single_night_outside_a_list_is_told_to_be_in_one():
    night = sg.simulate_night("human-psg-5", hours=1, seed=1)
    model = sg.SemiMarkovDecoder("human-psg-5")
    with pytest.raises(InputError, match=naming("X is one Hypnodensity", "[X]")):
        model.fit(night.density, night.expert)
    for X in ([night.density], night.density.probabilities):
        with pytest.raises(InputError, match=naming("y is one Hypnogram", "[y]")):
            model.fit(X, night.expert)


def test_masked_epochs_are_missing_and_masked_stages_unscored(fitted, matrices, labels):
    flat, stages = np.ma.array(np.concatenate(matrices)), np.ma.array(np.concatenate(labels))
    lengths = [len(m) for m in matrices]
    flat[40:60] = np.ma.masked
    stages[100:200] = np.ma.masked
    plain, scored = flat.filled(np.nan), stages.filled(-1)
    assert np.array_equal(fitted.predict(flat, lengths=lengths), fitted.predict(plain, lengths=lengths))
    assert fitted.score(flat, stages, lengths=lengths) == fitted.score(plain, scored, lengths=lengths)
