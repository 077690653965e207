"""What `decode` warns of and what it tells about its own output."""

import json
import pickle
import platform
import re
import warnings

import numpy as np
import pytest

import stageguard as sg
from nights import decode
from small import night, profile_of, refusal
from stageguard.errors import CohortError, StageGuardWarning


def lone_epochs(n_lone, n_epochs=100):
    """`n_lone` single epochs lean to N within a night of W; a strong profile removes each of them."""
    array = np.tile([0.9, 0.05, 0.05], (n_epochs, 1))
    array[4 : 4 + 8 * n_lone : 8] = [0.4, 0.55, 0.05]
    return array


def test_more_than_a_tenth_changed_warns_and_a_tenth_does_not(backend):
    profile = profile_of(transition_weight=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = sg.decode(lone_epochs(10), profile)
    assert result.changed.sum() == 10
    assert np.flatnonzero(result.changed).tolist() == list(range(4, 84, 8))
    with pytest.warns(StageGuardWarning, match=r"11(\.0)? ?%|11 of 100") as caught:
        result = sg.decode(lone_epochs(11), profile)
    assert result.changed.sum() == 11
    assert len(caught) == 1


def test_unscored_epochs_do_not_dilute_the_share_that_changed(backend):
    with_gap = np.vstack([lone_epochs(11), np.full((60, 3), np.nan)])
    with pytest.warns(StageGuardWarning, match="%|of 100"):
        sg.decode(with_gap, profile_of(transition_weight=1.0))


CAUTIONS = [
    {"cohort": "narcolepsy", "aliases": ["NT1"], "action": "refuse", "reason": "REM at sleep onset is real."},
    {"cohort": "infants", "aliases": ["newborn"], "action": "warn", "reason": "Other stages apply."},
]


@pytest.mark.parametrize("cohort", ["narcolepsy", "Narcolepsy", "nt1"])
def test_a_refused_cohort_raises_with_the_reason(backend, cohort):
    with pytest.raises(CohortError) as error:
        sg.decode(night(), profile_of(not_for=CAUTIONS), cohort=cohort)
    refusal(error, "small", "REM at sleep onset is real")


@pytest.mark.parametrize("cohort", ["infants", "Newborn"])
def test_a_cautioned_cohort_warns_with_the_reason(backend, cohort):
    with pytest.warns(StageGuardWarning, match="Other stages apply"):
        result = sg.decode(night(), profile_of(not_for=CAUTIONS), cohort=cohort)
    assert result.cohort == cohort


def test_a_cohort_nobody_cautions_against_is_silent(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = sg.decode(night(), profile_of(not_for=CAUTIONS), cohort="healthy adults")
        sg.decode(night(), profile_of(not_for=CAUTIONS))
    assert result.cohort == "healthy adults"


def test_provenance_holds_what_a_rerun_needs(backend):
    result = sg.decode(night(), profile_of(), epoch_seconds=20.0, cohort="adults", trained="natural")
    facts = result.provenance()
    text = json.dumps(facts)
    assert result.profile.sha256 in text
    assert '"small"' in text
    assert np.__version__ in text
    assert platform.python_version() in text
    assert re.search(r'"(compiled|reference)"', text)
    assert re.search(r"\b20(\.0)?\b", text)
    assert "adults" in text
    assert '"natural"' in text


def test_changed_compares_with_argmax_where_there_is_one(backend):
    array = lone_epochs(3)
    array[20:22] = np.nan
    result = sg.decode(array, profile_of(transition_weight=1.0))
    labels, argmax = result.hypnogram.labels, result.argmax
    assert (result.changed == ((labels != argmax) & (argmax >= 0))).all()
    assert result.changed.sum() == 2  # the third lone epoch is lost
    assert np.flatnonzero(result.filled).tolist() == [20, 21]
    assert result.argmax.dtype == np.int8


def test_a_result_survives_pickling(backend):
    result = sg.decode(night(), profile_of())
    again = pickle.loads(pickle.dumps(result))
    assert again.hypnogram == result.hypnogram
    assert again.score == result.score
    assert again.profile == result.profile


def test_the_result_cannot_be_written_to(backend):
    result = sg.decode(night(), profile_of())
    with pytest.raises((ValueError, TypeError)):
        result.hypnogram.labels[0] = 2
    with pytest.raises((AttributeError, TypeError)):
        result.score = 0.0


def test_results_of_a_list_do_not_follow_arrays_that_are_written_to(backend):
    nights = [night(seed=seed)[: 1 + 13 * seed] for seed in range(6)]
    kept = [probabilities.copy() for probabilities in nights]
    results = sg.decode(nights, profile_of())
    for probabilities in nights:
        probabilities[:] = 0.0
    assert all(np.array_equal(one.density.probabilities, p) for one, p in zip(results, kept, strict=True))


@pytest.mark.parametrize("n_nights", [1, 3])
def test_results_do_not_follow_what_a_read_only_view_shows(backend, n_nights):
    stack = np.stack([night(seed=seed) for seed in range(n_nights)])
    kept, view = stack.copy(), stack.view()
    view.flags.writeable = False
    results = sg.decode([*view], profile_of()) if n_nights > 1 else [sg.decode(view[0], profile_of())]
    stack[:] = 0.0
    assert all(np.array_equal(one.density.probabilities, p) for one, p in zip(results, kept, strict=True))


def test_a_flickering_night_may_change_more_before_a_person_has_to_look():
    rng = np.random.default_rng(5)
    labels = np.repeat(rng.integers(0, 3, size=60), 10)
    odds = rng.gamma(np.where(np.eye(3)[labels] > 0, 2.0, 0.9))
    rows = odds / odds.sum(axis=1, keepdims=True)
    target = sg.Profile.load("human-psg-3").replace(
        strength={"rule": "target", "fi_target": 0.1, "soft": 1.0}
    )
    result = decode(rows, target.replace(clock=None))
    assert result.strength.step == "lowered" and result.many_changes == 0.25
    assert decode(rows, target.replace(transition_weight=0.3, clock=None)).many_changes == 0.10
