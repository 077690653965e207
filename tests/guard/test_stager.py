"""What belongs to a stager is left out on another's nights."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode
from small import profile_of
from stageguard.errors import InputError

RULE = {"rule": "target", "fi_target": 0.1, "stager_fi": 0.3}
FINGERPRINT = {
    "n_nights": 12,
    "fragmentation_index": [0.2, 0.3, 0.4],
    "entropy": [0.5, 0.6, 0.7],
    "sharpness": [0.6, 0.7, 0.8],
    "shares": {stage: [0.2, 0.33, 0.5] for stage in "WNR"},
}


def tuned(**changes):
    return profile_of().replace(strength=RULE, stager="YASA 0.8", fingerprint=FINGERPRINT, **changes)


def night(share=0.3, top=0.7, n_epochs=300, seed=0):
    """A night of about these features: changes of stage, and one probability for the likeliest."""
    labels = np.cumsum(np.random.default_rng(seed).random(n_epochs) < share) % 3
    rows = np.full((n_epochs, 3), (1 - top) / 2)
    rows[np.arange(n_epochs), labels] = top
    return rows


def entropy(top):
    rest = (1 - top) / 2
    return -(top * np.log(top) + 2 * rest * np.log(rest))


OWN, OTHER = night(top=0.75), night(top=0.98)
assert 0.5 < entropy(0.75) < 0.75 and entropy(0.98) < 0.4 and 0.98 > 0.9  # OTHER is outside twice


def test_a_night_like_the_stagers_is_decoded_by_its_rule():
    result = decode(OWN, tuned())
    assert result.strength.stager_fi == 0.3
    assert not result.is_of_other_stager
    assert not any("outside" in text for text in result.assumed)


def test_a_night_unlike_the_stagers_is_decoded_by_the_base_rule_and_says_why():
    result = decode(OTHER, tuned())
    assert result.is_of_other_stager
    assert mentions(result.assumed, "YASA", "0.8", 12)
    base = profile_of().replace(strength={"rule": "target", "fi_target": 0.1})
    plain = decode(OTHER, base)
    assert np.isnan(result.strength.stager_fi)
    assert (result.strength.step, result.strength.fi_after) == (plain.strength.step, plain.strength.fi_after)
    assert np.array_equal(result.hypnogram.labels, plain.hypnogram.labels)
    assert mentions(result.methods_text(), "learned of its", "left")


def test_one_feature_outside_is_no_other_stager():
    calm = decode(night(share=0.02, top=0.75, n_epochs=600), tuned())
    (fi,) = {calm.strength.fi_before}
    assert fi < 0.1
    assert not calm.is_of_other_stager


def test_in_a_batch_each_night_gets_its_own_profile():
    results = decode([OWN, OTHER, OWN[:200], OTHER[:200]], tuned())
    assert [result.is_of_other_stager for result in results] == [False, True, False, True]
    for rows, result in zip([OWN, OTHER, OWN[:200], OTHER[:200]], results, strict=True):
        alone = decode(rows, tuned())
        assert np.array_equal(result.hypnogram.labels, alone.hypnogram.labels)
        assert (result.strength, result.profile) == (alone.strength, alone.profile)
        assert result.score == alone.score
    assert results[1].profile is results[3].profile


@pytest.mark.parametrize("rows", [OWN, OTHER])
def test_what_is_said_of_the_stager_decides(rows):
    same = decode(rows, tuned(), stager="yasa 0.8")
    assert not same.is_of_other_stager
    assert any(mentions(text, "said to be", "night") for text in same.assumed) == (rows is OTHER)
    other = decode(rows, tuned(), stager="YASA 0.9")
    assert other.is_of_other_stager
    assert mentions(other.assumed, "'YASA 0.9'", "'YASA 0.8'")
    assert sum("base rule" in text for text in other.assumed) == 1
    assert (same.stager, other.stager) == ("yasa 0.8", "YASA 0.9")


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


def test_a_fitted_profile_does_elsewhere_what_its_base_does():
    base = profile_of().replace(strength={"rule": "target", "fi_target": 0.05}, min_bout_seconds={"N": 60})
    fitted = tuned(base=base.to_dict(), min_bout_seconds={"R": 90})
    plain = decode(OTHER, base)
    for said in ({}, {"stager": "YASA 0.9"}):
        result = decode(OTHER, fitted, **said)
        assert result.is_foreign and result.is_of_other_stager
        assert np.array_equal(result.hypnogram.labels, plain.hypnogram.labels)
        assert result.score == plain.score
        assert mentions(result.assumed, repr(base.name))
        assert base.name in result.methods_text()
    assert not decode(OTHER, fitted, stager="YASA 0.8").is_foreign


def test_the_clock_of_the_base_runs_elsewhere_unless_the_cohort_has_none():
    shipped = sg.Profile.load("human-psg-5")
    fitted = shipped.replace(clock=None, transition_weight=0.3, cohort="ours", base=shipped.to_dict())
    night = sg.simulate_night("human-psg-5", hours=4, seed=1).density
    for cohort in ("theirs", "narcolepsy"):
        theirs, plain = decode(night, fitted, cohort=cohort), decode(night, shipped, cohort=cohort)
        assert np.array_equal(theirs.hypnogram.labels, plain.hypnogram.labels)
        assert (theirs.profile.clock is None) == (plain.profile.clock is None) == (cohort == "narcolepsy")
        assert theirs.strength == plain.strength


def test_epochs_of_a_bare_array_last_as_long_as_the_profiles_own():
    base = profile_of()
    fitted = base.replace(epoch_seconds=15, cohort="ours", base=base.to_dict())
    theirs = decode(OWN, fitted, cohort="theirs")
    assert theirs.epoch_seconds == 15
    plain = decode(OWN, base, epoch_seconds=15)
    assert np.array_equal(theirs.hypnogram.labels, plain.hypnogram.labels)


def test_posterior_and_draws_do_as_decode_does():
    other = tuned().elsewhere()
    assert np.array_equal(
        sg.posterior(OTHER, tuned()).probabilities, sg.posterior(OTHER, other).probabilities
    )
    assert np.array_equal(sg.sample(OTHER, tuned(), n=3), sg.sample(OTHER, other, n=3))


def test_a_result_can_be_made_again_under_its_own_profile():
    first = decode(OTHER, tuned())
    again = decode(OTHER, first.profile)
    assert (again.profile, again.assumed) == (first.profile, first.assumed)
    assert first.profile.elsewhere() == first.profile


def test_epochs_of_another_length_are_compared_at_the_profiles():
    strict = tuned().replace(
        fingerprint=FINGERPRINT | {"fragmentation_index": [0.55, 0.6, 0.65], "entropy": [0.1, 0.1, 0.1]}
    )
    assert decode(OWN, strict).is_of_other_stager
    assert not decode(OWN, strict, epoch_seconds=15).is_of_other_stager


def test_a_stream_goes_by_what_is_said():
    fitted = profile_of(stager="A", fingerprint=FINGERPRINT, calibration={"biases": {"R": 1.0}})
    assert sg.StreamingDecoder(fitted).profile is fitted
    other = sg.StreamingDecoder(fitted, stager="B")
    assert other.profile.calibration.biases is None
    assert any("stager 'B' is not 'A'" in text for text in other.assumed)
    assert sg.StreamingDecoder.restore(other.snapshot()).profile == other.profile


UNSAID = (
    "the stager is not said: taken as another than 'A': decoded by the base rule, without what belongs to "
    "them"
)


@pytest.mark.parametrize("fitted_on", [{"cohort": "lab"}, {"intervals": {"n_nights": 9}}])
def test_a_fitted_profile_takes_an_unsaid_stager_for_another(fitted_on):
    fitted = profile_of(stager="A", calibration={"biases": {"R": 1.0}}).replace(**fitted_on)
    rows, cohort = night(top=0.45), fitted_on.get("cohort")
    unsaid, said = decode(rows, fitted, cohort=cohort), decode(rows, fitted, cohort=cohort, stager="a")
    assert (unsaid.is_of_other_stager, said.is_of_other_stager) == (True, False)
    assert UNSAID in unsaid.assumed and unsaid.profile.calibration.biases is None
    again = decode(rows, unsaid.profile, cohort=cohort)
    assert (again.profile, again.assumed) == (unsaid.profile, unsaid.assumed)
    assert np.array_equal(unsaid.hypnogram.labels, decode(rows, profile_of()).hypnogram.labels)
    plain = sg.posterior(rows, profile_of()).probabilities
    assert np.array_equal(sg.posterior(rows, fitted, cohort=cohort).probabilities, plain)
    assert np.array_equal(sg.sample(rows, fitted, n=2, cohort=cohort), sg.sample(rows, profile_of(), n=2))
    stream = sg.StreamingDecoder(fitted, cohort=cohort)
    assert stream.profile.calibration.biases is None and UNSAID in stream.assumed
    assert sg.StreamingDecoder(fitted, cohort=cohort, stager="A").profile is fitted


def test_a_profile_of_no_stager_is_anyones():
    assert not decode(OWN, profile_of(), stager="anything").is_of_other_stager
    with pytest.raises(InputError, match="stager"):
        decode(OWN, profile_of(), stager="")
