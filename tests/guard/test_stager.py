"""What belongs to a stager and a cohort is left out on nights of others, and where none is named."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode
from small import profile_of
from stageguard.errors import InputError

RULE = {"rule": "target", "fi_target": 0.1, "stager_fi": 0.3}


def tuned(**changes):
    return profile_of().replace(strength=RULE, stager="YASA 0.8", **changes)


def night(share=0.3, top=0.75, n_epochs=300, seed=0):
    """A night of changes of stage, with one probability for the likeliest."""
    labels = np.cumsum(np.random.default_rng(seed).random(n_epochs) < share) % 3
    rows = np.full((n_epochs, 3), (1 - top) / 2)
    rows[np.arange(n_epochs), labels] = top
    return rows


NIGHT = night()


@pytest.mark.parametrize("stager", ["YASA 0.9", None])
def test_nights_of_another_stager_and_of_none_that_is_named_are_decoded_by_the_base_rule(stager):
    result, own = decode(NIGHT, tuned(), stager=stager), decode(NIGHT, tuned(), stager="yasa 0.8")
    base = profile_of().replace(strength={"rule": "target", "fi_target": 0.1})
    plain = decode(NIGHT, base)
    assert (result.is_foreign, own.is_foreign) == (True, False)
    assert own.strength.stager_fi == 0.3 and np.isnan(result.strength.stager_fi)
    assert result.strength == plain.strength and result.score == plain.score
    assert np.array_equal(result.hypnogram.labels, plain.hypnogram.labels)
    assert mentions(result.assumed, "'YASA 0.8'", "'YASA 0.9'" if stager else "not named")
    assert not mentions(own.assumed, "'YASA 0.8'")
    assert result.stager == stager
    assert mentions(sg.methods_text(result), "learned of its", "left")


def test_a_profile_of_no_stager_is_anyones():
    profile = profile_of().replace(strength=RULE)
    for stager in (None, "anything"):
        result = decode(NIGHT, profile, stager=stager)
        assert result.profile is profile and not result.is_foreign
    with pytest.raises(InputError, match="stager"):
        decode(NIGHT, profile, stager="")


def test_calibration_and_shares_belong_to_the_stager():
    shares = {"W": 0.1, "N": 0.7, "R": 0.2}
    fitted = profile_of(stager="A", prior=shares, prior_exponent=0.5).replace(
        calibration={"temperature": 1.5, "biases": {"R": 1.0}}, intervals={"n_nights": 9}
    )
    rows = night(top=0.45)
    other = decode(rows, fitted, stager="B")
    plain = decode(rows, profile_of())
    assert np.array_equal(other.hypnogram.labels, plain.hypnogram.labels)
    assert other.score == pytest.approx(plain.score)
    assert not np.array_equal(other.hypnogram.labels, decode(rows, fitted, stager="A").hypnogram.labels)
    assert other.profile.intervals["n_nights"] == 9  # whoever uses them sees that they are foreign
    plain = sg.posterior(rows, profile_of()).probabilities
    assert np.array_equal(sg.posterior(rows, fitted).probabilities, plain)
    assert np.array_equal(sg.sample(rows, fitted, n=2), sg.sample(rows, profile_of(), n=2))


def test_nights_of_others_are_decoded_as_by_the_base_of_a_fitted_profile():
    base = profile_of().replace(strength={"rule": "target", "fi_target": 0.05}, min_bout_seconds={"N": 60})
    fitted = tuned(base=base.to_dict(), min_bout_seconds={"R": 90}, cohort="ours")
    plain = decode(NIGHT, base)
    for named in ({}, {"stager": "YASA 0.8"}, {"cohort": "ours"}, {"stager": "YASA 0.9", "cohort": "ours"}):
        result = decode(NIGHT, fitted, **named)
        assert result.is_foreign
        assert np.array_equal(result.hypnogram.labels, plain.hypnogram.labels)
        assert result.score == plain.score
        assert mentions(result.assumed, "'ours'", repr(base.name))
        assert base.name in sg.methods_text(result)
    assert not decode(NIGHT, fitted, stager="YASA 0.8", cohort="Ours").is_foreign


def test_the_clock_of_the_base_runs_on_nights_of_others_unless_their_cohort_has_none():
    shipped = sg.Profile.load("human-psg-5")
    fitted = shipped.replace(clock=None, transition_weight=0.3, cohort="ours", base=shipped.to_dict())
    density = sg.simulate_night("human-psg-5", hours=4, seed=1).density
    for cohort in ("theirs", "narcolepsy"):
        theirs, plain = decode(density, fitted, cohort=cohort), decode(density, shipped, cohort=cohort)
        assert np.array_equal(theirs.hypnogram.labels, plain.hypnogram.labels)
        assert (theirs.profile.clock is None) == (plain.profile.clock is None) == (cohort == "narcolepsy")
        assert theirs.strength == plain.strength


def test_a_stream_goes_by_what_is_named():
    fitted = profile_of(stager="A", calibration={"biases": {"R": 1.0}})
    assert sg.StreamingDecoder(fitted, stager="A").profile is fitted
    for stager in ("B", None):
        other = sg.StreamingDecoder(fitted, stager=stager)
        assert other.profile.calibration.biases is None
        assert mentions(other.assumed, "'A'", "'B'" if stager else "not named")
        assert sg.StreamingDecoder.restore(other.snapshot()).profile == other.profile
