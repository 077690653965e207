"""`Profile.for_streaming`: one strength where a rule cannot see the night."""

import pytest

import stageguard as sg
from small import refusal
from stageguard.errors import InputError, ProfileError

RECOMMENDED = [name for name in sg.profiles() if name.startswith(("human-", "mouse-"))]


@pytest.mark.parametrize("name", RECOMMENDED)
def test_every_recommended_profile_has_measured_weights(name):
    profile = sg.Profile.load(name)
    assert "studies/streaming" in profile.streaming.source
    assert 0 <= profile.streaming.transition_weight <= profile.streaming.flickering
    for flickers, weight in (
        (None, profile.streaming.transition_weight),
        (True, profile.streaming.flickering),
        (False, 0.0),
    ):
        fixed = profile.for_streaming(flickers)
        assert (fixed.transition_weight, fixed.strength) == (weight, None)
        kept = {key: value for key, value in profile.to_dict().items() if key != "strength"}
        assert {k: v for k, v in fixed.to_dict().items() if k != "transition_weight"} == kept


def test_a_fixed_strength_stays_as_it_is():
    profile = sg.Profile.load("human-psg-5").replace(transition_weight=0.4)
    assert profile.for_streaming(flickers=True) is profile
    paper = sg.Profile.load("kdd2026-psg-5")
    assert paper.for_streaming() is paper


@pytest.mark.parametrize("flickers", [True, False])
def test_a_tuned_profile_knows_whether_its_stager_flickers(flickers):
    profile = sg.Profile.load("human-psg-5")
    rule = profile.to_dict()["strength"] | {"stager_fi": 0.3 if flickers else 0.1}
    tuned = profile.replace(strength=rule, stager="ours")
    expected = profile.streaming.flickering if flickers else 0.0
    assert tuned.for_streaming().transition_weight == expected
    assert tuned.for_streaming(flickers=False).transition_weight == 0.0
    assert (
        tuned.for_nights_of("theirs", None).for_streaming() == profile.replace(stager="ours").for_streaming()
    )


def test_what_a_profile_was_fitted_from_is_fixed_too():
    base = sg.Profile.load("human-psg-3")
    fitted = base.replace(name="fitted", cohort="ours", base=base.to_dict())
    fixed = fitted.for_streaming(flickers=True)
    assert fixed.base == base.for_streaming(flickers=True)
    assert fixed.for_nights_of(None, "theirs").transition_weight == base.streaming.flickering


def test_a_rule_without_a_weight_for_streams_is_refused():
    with pytest.raises(ProfileError) as error:
        sg.Profile.load("human-psg-3").replace(streaming=None).for_streaming()
    refusal(error, "no key 'streaming'", "'target'")
    with pytest.raises(InputError) as error:
        sg.Profile.load("human-psg-3").for_streaming(flickers="yes")
    refusal(error, "flickers is 'yes', expected true or false")
