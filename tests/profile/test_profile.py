from __future__ import annotations

import copy

import pytest

from documents import FULL, MINIMAL, fields_of, profile_of
from stageguard.errors import CohortError, ProfileError
from stageguard.night.stages import WNR3
from stageguard.profile.profile import Band, Calibration, Caution, FlipFlop, Profile, RarePair
from stageguard.profile.rules import BandRule

# ---- what a document means


def test_defaults_are_as_documented():
    profile = profile_of()
    assert (profile.name, profile.scheme, profile.epoch_seconds) == ("minimal", WNR3, 30.0)
    assert (profile.summary, profile.intended_for, profile.not_for) == ("", "", ())
    assert (profile.stay, profile.ends) == ("self", "censored")
    assert (profile.transition_weight, profile.strength) == (1.0, None)
    assert (profile.prior_exponent, profile.prior) == (0.0, None)
    assert (profile.rare_probability, profile.rare, profile.tvr_pairs) == (0.001, (), ())
    assert (dict(profile.min_bout_seconds), dict(profile.durations), dict(profile.bands)) == ({}, {}, {})
    assert profile.flip_flop == FlipFlop(penalty_nats=0.0, window_epochs=5, method="exact")
    assert profile.calibration == Calibration(temperature=1.0, biases=None)
    assert dict(profile.provenance) == {}
    assert profile.transitions == ((0.883, 0.113, 0.004), (0.02, 0.97, 0.01), (0.04, 0.03, 0.93))


def test_every_key_arrives():
    profile = Profile.from_dict(FULL)
    assert profile.not_for == (
        Caution(cohort="Narcolepsy", aliases=("NT1",), action="refuse", reason="Sudden REM is a sign."),
        Caution(cohort="children", aliases=(), action="warn", reason="Adults only."),
    )
    assert (profile.stay, profile.ends) == ("free", "paper")
    assert (profile.transition_weight, profile.strength) == (
        None,
        BandRule(0.056, 0.5, 3.0, lift=False),
    )
    assert profile.prior == (0.2, 0.6, 0.2)
    assert profile.rare == (RarePair("W", "R", 0.01), RarePair("R", "N", 0.1))
    assert profile.tvr_pairs == (("N", "R"),)
    assert list(profile.min_bout_seconds.items()) == [("W", 30.0), ("R", 60.0)]
    assert profile.flip_flop == FlipFlop(2.0, 7, "greedy")
    assert profile.calibration == Calibration(1.5, (0.0, 0.0, 0.25))
    assert dict(profile.durations) == {"R": (0.25, 0.25)}
    assert profile.bands["tvr_percent"] == Band(0.0, 1.0, "nights", "%")
    assert profile.provenance["cohorts"][0]["name"] == "a"


def test_stages_may_be_ones_own():
    rows = {"Light": {"Light": 0.5, "Up": 0.5}, "Up": {"Light": 0.5, "Up": 0.5}}
    own = {"name": "own", "epoch_seconds": 5, "stages": ["Light", "Up"], "wake": "Up", "transitions": rows}
    profile = Profile.from_dict(own)
    assert (profile.scheme.names, profile.scheme.wake_index, profile.scheme.rem) == (("Light", "Up"), 1, None)
    assert profile.to_dict()["stages"] == ["Light", "Up"]
    assert Profile.from_dict(profile.to_dict()) == profile


# ---- frozen


def test_nothing_can_be_changed():
    profile = Profile.from_dict(FULL)
    with pytest.raises(AttributeError):
        profile.stay = "self"
    for table in (profile.min_bout_seconds, profile.durations, profile.bands, profile.provenance):
        with pytest.raises(TypeError):
            table["new"] = 1
    with pytest.raises(TypeError):
        profile.provenance["more"]["new"] = 1


def test_the_document_given_and_the_document_returned_are_copies():
    given_document = copy.deepcopy(FULL)
    profile = Profile.from_dict(given_document)
    before = profile.sha256
    given_document["transitions"]["W"]["W"] = 0
    given_document["rare"][0].append(0.5)
    given_document["provenance"]["cohorts"].append(1)
    returned = profile.to_dict()
    returned["transitions"]["W"]["W"] = 0
    returned["rare"].clear()
    returned["provenance"]["cohorts"].clear()
    assert Profile.from_dict(profile.to_dict()).sha256 == before
    assert profile.to_dict() == Profile.from_dict(FULL).to_dict()


# ---- replace


def test_replace_changes_what_it_is_told_and_nothing_else():
    profile = Profile.from_dict(FULL)
    other = profile.replace(epoch_seconds=20, min_bout_seconds={"R": 90})
    changed = {key for key in fields_of(profile) if getattr(profile, key) != getattr(other, key)}
    assert changed == {"epoch_seconds", "min_bout_seconds", "intervals"}  # errors of nights decoded otherwise
    assert (other.epoch_seconds, dict(other.min_bout_seconds)) == (20.0, {"R": 90.0})
    assert profile == Profile.from_dict(FULL)


def test_replace_keeps_transition_weight_and_strength_apart():
    weighted = Profile.from_dict(FULL).replace(transition_weight=0.5)
    assert (weighted.transition_weight, weighted.strength) == (0.5, None)
    ruled = weighted.replace(strength={"rule": "match", "fi_target": 0.1})
    assert (ruled.transition_weight, ruled.strength.rule) == (None, "match")


def test_replace_of_the_scheme_takes_the_stages_away():
    rows = {"W": {"W": 0.5, "x": 0.5}, "x": {"x": 1}}
    own = profile_of().replace(stages=["W", "x"], transitions=rows)
    assert own.scheme.names == ("W", "x")
    back = own.replace(scheme="wnr3", transitions=MINIMAL["transitions"])
    assert back == profile_of()
    with pytest.raises(ProfileError, match="unknown key 'N' in transitions"):
        profile_of().replace(scheme="aasm5")


HELD = {"n_nights": 9, "errors": {"tst_minutes": [[1.0]] * 9}}


@pytest.mark.parametrize(
    "change",
    [
        {"transition_weight": 5.0},
        {"strength": {"rule": "match", "fi_target": 0.1}},
        {"min_bout_seconds": {"R": 90}},
        {"calibration": {"temperature": 2.0}},
        {"durations": {"R": [0.1, 0.2]}},
        {"epoch_seconds": 20.0},
        {"rare": [["W", "R"]]},
    ],
)
def test_replace_of_what_decodes_drops_the_errors_of_nights_decoded_otherwise(change):
    profile = profile_of(intervals=HELD)
    assert dict(profile.replace(**change).intervals) == {}
    kept = profile.replace(**change, intervals=HELD).intervals
    assert kept["n_nights"] == 9


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"cohort": "x"}, {"provenance": {"a": 1}}, {"transition_weight": 1.0}]
)
def test_replace_of_words_keeps_the_errors(change):
    assert profile_of(intervals=HELD).replace(**change).intervals["n_nights"] == 9


def test_another_cohort_gets_the_errors_with_the_profile():
    base = profile_of(transition_weight=0.25)
    profile = profile_of(intervals=HELD, cohort="x", base=base.to_dict(), min_bout_seconds={"R": 60})
    other = profile.for_nights_of(None, "y")
    assert other.transition_weight == 0.25 and not other.min_bout_seconds
    assert other.intervals["n_nights"] == 9
    assert (other.name, other.cohort, other.base) == (profile.name, "x", base)


def test_a_base_is_a_profile_in_the_same_stages_without_a_base():
    assert profile_of(base=MINIMAL).base == profile_of()
    refused = {
        "transitions": {**MINIMAL, "transitions": {}},
        "ws2": Profile.load("human-actigraphy-2").to_dict(),
        "base itself": profile_of(base=MINIMAL).to_dict(),
    }
    for word, document in refused.items():
        with pytest.raises(ProfileError, match=r"^base") as caught:
            profile_of(base=document)
        assert word in str(caught.value)


@pytest.mark.parametrize("value", [1, None])
def test_replace_refuses_unknown_keys(value):
    with pytest.raises(ProfileError) as caught:
        profile_of().replace(min_bout=value)
    assert str(caught.value) == "unknown key 'min_bout' in a profile. Did you mean 'min_bout_seconds'?"


# ---- cautions


@pytest.mark.parametrize("cohort", ["narcolepsy", "NARCOLEPSY", " nt1 ", "NT1"])
def test_caution_is_found_by_cohort_and_alias(cohort):
    assert Profile.from_dict(FULL).caution_for(cohort).action == "refuse"


COHORTS = [
    ("narcolepsy patients", "narcolepsy"),
    ("Narcoleptics", "narcolepsy"),
    ("infant (3 months)", "infants"),
    ("RBD/PD", "RBD"),
]


@pytest.mark.parametrize(("said", "meant"), COHORTS)
def test_cohort_is_matched_by_its_words(said, meant):
    profile = Profile.load("kdd2026-cardiorespiratory")
    caution = profile.caution_for(said)
    assert caution is not None
    assert caution == profile.caution_for(meant)


def test_misspelt_cohort_is_refused_with_the_name():
    with pytest.raises(CohortError, match=r"'narcolpesy' is unknown .* Did you mean 'narcolepsy'\?"):
        Profile.load("human-psg-5").caution_for("narcolpesy")
