"""A profile fitted on one cohort leaves out on others what belongs to that cohort alone."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode
from scored_nights import Cohort, cohort, fit_report, shifted
from small import night, profile_of
from stageguard.fitting.candidates import Candidate
from stageguard.fitting.cross_validation import Selection
from stageguard.fitting.document import FitChoice, FitNames, _words
from stageguard.fitting.judging import JudgedCandidate
from stageguard.profile.rules.rule import Trial

SHARES = {"W": 0.1, "N": 0.7, "R": 0.2}


def weighted(**changes):
    given = {"rule": "match", "fi_target": 0.05}
    base = profile_of().replace(strength=given, prior=SHARES, prior_exponent=0.5, cohort="Our Clinic")
    return base.replace(calibration={"temperature": 1.5, "biases": {"R": 1.0}}, **changes)


def test_on_its_own_cohort_the_profile_is_as_it_is():
    profile = weighted()
    for said in ("our clinic", "Our_clinic"):
        assert profile.for_cohort(said) is profile
    for said in ("anyone", None):
        assert profile_of().for_cohort(said) == profile_of()  # fitted on none in particular


def test_a_cohort_that_is_not_said_counts_as_another():
    profile = weighted()
    assert profile.for_cohort(None) is profile.for_cohort("another clinic")
    assert weighted(other_cohorts="argmax").for_cohort(None).transition_weight == 0.0


def test_on_another_cohort_shares_and_biases_are_left_out():
    profile = weighted()
    other = profile.for_cohort("another clinic")
    assert (other.prior_exponent, other.calibration.biases) == (0.0, None)
    assert other.calibration.temperature == 1.5
    assert other.strength == profile.strength
    assert other.for_cohort("another clinic") == other
    assert profile.for_cohort("another clinic") is other  # made once


def test_on_another_cohort_it_steps_aside_where_nothing_else_passed():
    profile = weighted(other_cohorts="argmax", min_bout_seconds={"R": 90}, durations={"W": [0.5, 0.2]})
    other = profile.for_cohort("another clinic")
    assert (other.transition_weight, other.strength) == (0.0, None)
    assert not other.min_bout_seconds and not other.durations
    probabilities = night(60, seed=3)
    assert np.array_equal(decode(probabilities, other).hypnogram.labels, probabilities.argmax(axis=1))


def test_decode_does_so_and_says_so():
    profile = weighted()
    probabilities = 0.8 / 3 + 0.2 * night(80, seed=1)  # a stager that is not sure
    own = decode(probabilities, profile, cohort="our clinic")
    assert not any("fitted on" in text for text in own.assumed)
    assert own.strength.prior_exponent == 0.5
    unsaid = decode(probabilities, profile)
    assert unsaid.strength.prior_exponent == 0.0
    assert mentions(unsaid.assumed, "said", "'Our Clinic'")
    assert mentions(unsaid.methods_text(), "is not stated", "shares")
    other = decode(probabilities, profile, cohort="elsewhere")
    assert other.strength.prior_exponent == 0.0
    assert mentions(other.assumed, "'elsewhere'", "'Our Clinic'")
    plain = profile.replace(prior_exponent=None, calibration={"temperature": 1.5}, cohort=None)
    assert np.array_equal(other.hypnogram.labels, decode(probabilities, plain).hypnogram.labels)
    assert not np.array_equal(other.hypnogram.labels, own.hypnogram.labels)
    aside = decode(probabilities, profile.replace(other_cohorts="argmax"), cohort="elsewhere")
    assert any(mentions(text, "fitted", "it steps aside") for text in aside.assumed)


def words_for(chosen, *rows):
    found = tuple(
        JudgedCandidate(candidate, status, 0.5, 0.5, 0.1, 0.0, 0.0, 0.5) for candidate, status in rows
    )
    choice = FitChoice(chosen, "", Selection(found, chosen, None, (0.0, 0.0)), None, None, None)
    own = cohort(1, hours=2)
    from stageguard.fitting.material import read_material

    base = sg.Profile.load("human-psg-3")
    material = read_material(None, own.hypnograms, base)
    return _words(material, FitNames("x", "our clinic", 0, ()), choice)


def test_whether_it_may_act_elsewhere_is_what_cross_validation_said():
    chosen = Candidate("match", trial=Trial(prior_exponent=0.25))
    bare = Candidate("match")
    assert words_for(chosen, (chosen, "chosen"), (bare, "kept"))["other_cohorts"] == "unweighted"
    assert words_for(chosen, (chosen, "chosen"), (bare, "kappa below argmax"))["other_cohorts"] == "argmax"
    assert words_for(bare, (bare, "chosen"))["other_cohorts"] == "unweighted"


def test_a_fitted_shift_is_not_carried_to_another_cohort():
    own = cohort(2, hours=6, sharpness=1.5)
    wrong = Cohort([shifted(d, (1, 1, 60)) for d in own.densities], own.hypnograms, own.groups)
    profile = fit_report(wrong, cohort="shifted").profile
    assert profile.calibration.biases is not None
    repaired, elsewhere = (
        decode(wrong.densities[0], profile, cohort=said).hypnogram for said in ("shifted", "not shifted")
    )
    expert = own.hypnograms[0]
    assert sg.agreement(expert, repaired).kappa > sg.agreement(expert, elsewhere).kappa + 0.1


@pytest.mark.parametrize("lift", [True, False, None])
def test_a_band_may_settle_whether_minority_stages_are_lifted(lift):
    rule = {"rule": "band", "fi_target": 0.3, "floor": 0.9} | ({} if lift is None else {"lift": lift})
    profile = profile_of().replace(strength=rule)
    rng = np.random.default_rng(0)
    rows = np.full((200, 3), 0.1)
    rows[:, 1] = 0.8
    rows[::7, 2] = 0.35 + 0.1 * rng.random(29)
    rows /= rows.sum(axis=1, keepdims=True)
    for trained in (None, "natural", "balanced"):
        result = decode(rows, profile, trained=trained)
        expected = lift if lift is not None else trained == "natural"
        assert result.strength.step.startswith("raised") == expected, (lift, trained)
        assert any(mentions(text, "stager was trained") for text in result.assumed) == (
            lift is None and trained is None
        )
    assert bool(decode(rows, profile).advice()) == (lift is None)
