"""A profile fitted on one cohort leaves out on others what belongs to that cohort alone."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode
from scored_nights import cohort, fit_report
from small import night, profile_of
from stageguard.report.words import advice

SHARES = {"W": 0.1, "N": 0.7, "R": 0.2}


def weighted(**changes):
    given = {"rule": "match", "fi_target": 0.05}
    base = profile_of().replace(strength=given, prior=SHARES, prior_exponent=0.5, cohort="Our Clinic")
    return base.replace(calibration={"temperature": 1.5, "biases": {"R": 1.0}}, **changes)


def test_on_another_cohort_shares_and_biases_are_left_out():
    profile = weighted()
    other = profile.for_nights_of(None, "another clinic")
    assert (other.prior_exponent, other.calibration.biases) == (0.0, None)
    assert other.calibration.temperature == 1.0
    assert other.strength == profile.strength
    assert other.for_nights_of(None, "another clinic") == other
    assert profile.for_nights_of(None, "another clinic") is other  # made once


def test_decode_does_so_and_says_so():
    profile = weighted()
    probabilities = 0.8 / 3 + 0.2 * night(80, seed=1)  # a stager that is not sure
    own = decode(probabilities, profile, cohort="our clinic")
    assert not own.is_foreign
    assert own.strength.prior_exponent == 0.5
    unsaid = decode(probabilities, profile)
    assert unsaid.strength.prior_exponent == 0.0
    assert mentions(unsaid.assumed, "'Our Clinic'", "not named")
    assert mentions(sg.methods_text(unsaid), "Our Clinic", "left out")
    other = decode(probabilities, profile, cohort="elsewhere")
    assert other.strength.prior_exponent == 0.0
    assert mentions(other.assumed, "'Our Clinic'", "'elsewhere'")
    plain = profile.replace(prior_exponent=None, calibration=None, cohort=None)
    assert np.array_equal(other.hypnogram.labels, decode(probabilities, plain).hypnogram.labels)
    assert not np.array_equal(other.hypnogram.labels, own.hypnogram.labels)


def test_a_fitted_profile_decodes_other_cohorts_and_stagers_as_its_base_does():
    own = cohort(3, hours=3)
    base = sg.Profile.load("human-psg-3")
    profile = fit_report(own, base=base, cohort="our clinic", stager="ours").profile
    assert profile.base == base and sg.Profile.from_dict(profile.to_dict()) == profile
    for said in ({}, {"cohort": "our clinic"}, {"cohort": "theirs", "stager": "ours"}):
        result, plain = decode(own.densities[0], profile, **said), decode(own.densities[0], base)
        assert result.is_foreign
        assert np.array_equal(result.hypnogram.labels, plain.hypnogram.labels)
        assert result.strength == plain.strength
    assert not decode(own.densities[0], profile, cohort="our clinic", stager="ours").is_foreign
    again = fit_report(own, base=profile, cohort="our clinic").profile
    assert again.base.base is None and again.base.strength == base.strength


def test_a_profile_that_steps_aside_on_a_cautioned_cohort_is_the_default_there():
    own = cohort(3, base="human-psg-5", hours=2)
    base = sg.Profile.load("human-psg-5")
    assert base.caution_for("narcolepsy").clock is False
    report = fit_report(own, base=base, cohort="narcolepsy")
    assert report.steps_aside and report.profile.clock is None
    assert report.profile.caution_for("narcolepsy") is None
    result, plain = (decode(own.densities[0], one, cohort="narcolepsy") for one in (report.profile, base))
    assert np.array_equal(result.hypnogram.labels, plain.hypnogram.labels)


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
    assert bool(advice(decode(rows, profile))) == (lift is None)
