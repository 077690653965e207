"""SemiMarkovDecoder keeps scikit-learn's manners, on lists of nights."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import stageguard as sg
from scored_nights import cohort
from small import refusal
from stageguard.errors import InputError

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
    profile = sg.fit(nights.hypnograms, nights.densities, base=BASE, subjects=nights.groups)
    assert fitted.profile_.transitions == profile.transitions
    assert fitted.report_.chosen.name == profile.provenance["chosen"]
    assert (fitted.classes_.tolist(), fitted.n_features_in_) == ([0, 1, 2], 3)


def test_it_predicts_what_decode_decodes_and_scores_the_accuracy(fitted, matrices, labels, nights):
    found = fitted.predict(matrices)
    expected = [result.hypnogram.labels for result in sg.decode(matrices, fitted.profile_)]
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    right = sum(np.sum(a == b) for a, b in zip(found, labels, strict=True))
    assert fitted.score(matrices, labels) == pytest.approx(right / sum(map(len, labels)))
    assert fitted.score(nights.densities, nights.hypnograms) == fitted.score(matrices, labels)
    rows = fitted.predict_proba(matrices)
    assert [p.shape for p in rows] == [(240, 3)] * 5
    assert all(np.mean(p.argmax(axis=1) == own) > 0.9 for p, own in zip(rows, found, strict=True))


def test_without_scikit_learn_it_works_too():
    code = """
import sys
sys.modules["sklearn"] = sys.modules["sklearn.base"] = None
import stageguard as sg
night = sg.simulate_night("human-psg-3", seed=1)
own = sg.SemiMarkovDecoder("human-psg-3", transition_weight=1.0)
try: own.predict([night.density])
except sg.InputError as error: print(error)
print(len(own.fit([night.density], [night.expert]).predict([night.density])[0]))
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    unfitted, n_epochs = run.stdout.splitlines()
    assert "not fitted yet" in unfitted and int(n_epochs) > 100


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (lambda X: X[0], lambda y: y, "X is .* expected a list of nights"),
        (lambda X: sg.Hypnodensity(X[0], "wnr3", 30), lambda y: y, "X is .* expected a list of nights"),
        (lambda X: X, lambda y: None, "y is None, expected the stages of each of the 5 nights"),
        (lambda X: X, lambda y: y[:3], "y has 3 nights, expected .* 5 nights in X"),
        (lambda X: X, lambda y: [y[0][:-1], *y[1:]], r"got \d+ labels for \d+ rows of probabilities"),
        (lambda X: [rows[:, :2] for rows in X], lambda y: y, r"shape \(240, 2\), expected \(epochs, 3\)"),
    ],
)
def test_what_is_no_list_of_nights_or_does_not_fit_is_refused(matrices, labels, X, y, words):
    for weight in (None, 1.0):
        with pytest.raises(InputError) as error:
            sg.SemiMarkovDecoder(BASE, transition_weight=weight).fit(X(matrices), y(labels))
        refusal(error, words)


def test_scikit_learn_clones_pickles_and_cross_validates_it(fitted, matrices, labels, nights):
    base = pytest.importorskip("sklearn.base")
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GroupKFold, cross_val_score

    own = sg.SemiMarkovDecoder(BASE, seed=2)
    assert base.clone(own).get_params() == own.get_params()
    assert base.is_classifier(own) and isinstance(own, base.BaseEstimator)
    with pytest.raises(NotFittedError):
        own.predict(matrices)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(matrices)[0], fitted.predict(matrices)[0])
    scores = cross_val_score(own, matrices, labels, cv=GroupKFold(2), groups=nights.groups)
    assert scores.shape == (2,) and scores.min() > 0.6
    by_object = cross_val_score(own, nights.densities, nights.hypnograms, cv=2)
    assert by_object.tolist() == cross_val_score(own, matrices, labels, cv=2).tolist()


def test_a_weight_leaves_the_choice_to_a_search(matrices, labels, nights):
    pytest.importorskip("sklearn")
    from sklearn.model_selection import GridSearchCV, GroupKFold

    grid = {"transition_weight": [0.0, 1.0]}
    search = GridSearchCV(sg.SemiMarkovDecoder(BASE), grid, cv=GroupKFold(2), error_score="raise")
    search.fit(matrices, labels, groups=nights.groups)
    plain, weighted = search.cv_results_["mean_test_score"]
    assert plain == pytest.approx(
        np.mean(np.concatenate(matrices).argmax(axis=1) == np.concatenate(labels)), abs=0.01
    )
    assert weighted > plain + 0.01
    best = search.best_estimator_.profile_
    assert best.transition_weight == 1.0 and best.strength is None
    expected = sg.fit(nights.hypnograms, base=BASE, subjects=nights.groups)
    assert best.transitions == expected.transitions
    with pytest.raises(ValueError, match="transition_weight"):
        sg.SemiMarkovDecoder(BASE, transition_weight=-1.0).fit(matrices, labels)


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
