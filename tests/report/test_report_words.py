"""The report's sentences: what the guard did, why, and what a reader must know first."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from nights import decode, one_hot, plain
from stageguard.measures.statistics import StatisticsOptions
from stageguard.measures.validity import validity
from stageguard.report import words
from stageguard.report.numbers import decimals_for, difference, duration, number_text
from stageguard.report.summary import early_rem_removed
from stageguard.report.tables import measure

NO_LIGHTS = StatisticsOptions()


def banded(**changes):
    """Three stages; a night is left alone between 0.05 and 0.2."""
    strength = {"rule": "band", "fi_target": 0.1, "floor": 0.5, "cap": 2.0}
    return sg.Profile.from_dict(plain(species="mouse", strength=strength, **changes))


def alternating(every, n_epochs=240):
    """Stages that change each so many epochs."""
    return np.arange(n_epochs) // every % 2


def starved(n_epochs=200):
    """A stager that never names the third stage although it is likely in every fourth stretch of ten."""
    likely = (np.arange(n_epochs) // 10 % 4 == 3)[:, None]
    return np.where(likely, [0.05, 0.5, 0.45], [0.05, 0.92, 0.03])


def told(result):
    return words.headline(result), " ".join(words.summary(result, measure(result, None, NO_LIGHTS)))


def test_a_night_like_an_experts_is_left_alone():
    result = decode(one_hot(alternating(10)), banded())
    headline, text = told(result)
    assert headline == "The guard stepped aside."
    assert "times as often as expert scorings do on average: up to 2 times is left alone. All 240" in text


def test_an_over_fragmented_night_is_calmed_and_says_how_much():
    flips = alternating(12)
    flips[5::6] = 2
    result = decode(one_hot(flips, confidence=0.5), banded())
    assert result.strength.step == "lowered"
    n_changed = int(result.changed.sum())
    assert n_changed > 0
    ratio = result.strength.fi_before / banded().strength.fi_target
    assert ratio > 2
    headline, text = told(result)
    assert headline == "The guard smoothed an over-fragmented night."
    assert f"changes stage {ratio:.1f} times as often as expert scorings do; decoded, it is smoother." in text
    assert f"{n_changed} of 240 epochs ({n_changed / 2.4:.1f} %) got another stage" in text


def test_a_night_that_cannot_be_calmed_enough_says_so():
    result = decode(one_hot(alternating(1), confidence=0.9999999), banded())
    assert result.strength.step == "lowered"
    assert result.strength.fi_after > result.strength.fi_high
    headline, text = told(result)
    assert headline == "The guard could change nothing."
    assert "but is too sure of each epoch to be smoothed. All 240 epochs keep the stage" in text


def test_a_night_that_is_not_calmed_enough_says_so():
    labels = np.concatenate([alternating(1, 120), alternating(12, 120)])
    labels[125::6] = 2
    probabilities = one_hot(labels, confidence=0.9999999)
    probabilities[120:] = one_hot(labels[120:], confidence=0.5)
    result = decode(probabilities, banded())
    assert result.changed.any()
    assert result.strength.fi_after > result.strength.fi_high
    assert "decoded, it is smoother, although not as far as the rule asks." in told(result)[1]


@pytest.mark.parametrize(
    ("trained", "reason"),
    [
        (None, "minority stages are lifted only for a stager trained on natural class frequencies"),
        ("balanced", "minority stages are lifted only for a stager trained on natural class frequencies"),
    ],
)
def test_a_night_too_calm_is_left_alone_with_the_reason(trained, reason):
    headline, text = told(decode(starved(), banded(), trained=trained))
    assert headline == "The guard stepped aside."
    assert f"times as often as expert scorings do, but {reason}" in text


def test_starved_stages_are_brought_back():
    result = decode(starved(), banded(), trained="natural")
    assert result.strength.step == "raised"
    headline, text = told(result)
    assert headline == "The guard brought back stages that the stager starved."
    assert "times as often as expert scorings do; decoded, it is livelier" in text


def test_lifting_that_helps_nothing_says_so():
    headline, text = told(decode(np.tile([0.98, 0.01, 0.01], (100, 1)), banded(), trained="natural"))
    assert headline == "The guard stepped aside."
    assert "but no lifting of minority stages helps, so it is left alone" in text


def test_a_fixed_profile_says_so():
    labels = alternating(20)
    labels[50] = 2
    headline, text = told(decode(one_hot(labels, confidence=0.5), sg.Profile.from_dict(plain())))
    assert headline == "The profile was applied at its fixed strength."
    assert "This profile acts on every night alike" in text
    headline, _ = told(decode(one_hot(alternating(20)), sg.Profile.from_dict(plain())))
    assert headline == "Nothing had to be changed."


def test_match_says_so():
    labels = alternating(12)
    labels[5::6] = 2
    profile = sg.Profile.from_dict(plain(strength={"rule": "match", "fi_target": 0.05}))
    headline, text = told(decode(one_hot(labels, confidence=0.5), profile))
    assert headline == "The guard brought the night close to the experts' fragmentation."
    assert "The strength was chosen so that stages change as often as experts score." in text


def test_stages_that_were_given_are_named_as_the_cause():
    result = decode(one_hot(alternating(10)), banded(), pins={3: "R"})
    assert result.strength.step == "untouched"
    headline, text = told(result)
    assert headline == "The guard stepped aside."
    assert (
        "1 of 240 epochs (0.4 %) got another stage than the stager chose, by stages that were given." in text
    )


def test_calibration_is_named_as_the_cause():
    profile = banded(calibration={"biases": {"W": 0.0, "N": 0.0, "R": 2.0}})
    labels = alternating(10)
    probabilities = one_hot(labels)
    probabilities[100:105] = [0.1, 0.5, 0.4]
    text = told(decode(probabilities, profile))[1]
    assert "5 of 240 epochs (2.1 %) got another stage than the stager chose, by calibration." in text


def test_too_few_epochs_say_so():
    headline, text = told(decode(one_hot([0]), banded()))
    assert headline == "The guard stepped aside."
    assert "There are too few epochs to measure fragmentation. All 1 epoch keep" in text


def test_day_long_recordings_are_not_called_nights():
    profile = banded(epoch_seconds=4.0)
    assert words.noun(decode(one_hot(alternating(10, 21600)), profile)) == "recording"
    assert words.noun(decode(one_hot(alternating(10, 7200)), profile)) == "night"


def test_warnings_are_those_of_decoding():
    flips = alternating(12)
    flips[3::4] = 2
    caution = {
        "cohort": "narcolepsy",
        "aliases": ["NT1"],
        "action": "warn",
        "reason": "Sudden REM is real there.",
    }
    result = decode(one_hot(flips, confidence=0.5), banded(not_for=[caution]), cohort="nt1")
    assert result.changed_share > 0.1
    first, second, *early = words.warnings_of(result, measure(result, None, StatisticsOptions()))
    assert first == "The profile has a caution for “nt1”: Sudden REM is real there."
    assert second.startswith(
        f"{result.changed.sum()} of 240 scored epochs ({100 * result.changed_share:.1f} %) were changed, "
    )
    assert len(early) == words.MOST_EARLY + 1
    assert all(text.startswith("Early REM removed: R ") for text in early[:-1])
    assert (
        early[-1]
        == f"Early REM was removed in {len(early_rem_removed(result)) - 3} more places: see the rare events."
    )
    calm = decode(one_hot(alternating(10)), banded(not_for=[caution]), cohort="OSA")
    assert list(words.warnings_of(calm, measure(calm, None, StatisticsOptions()))) == []


def test_a_band_narrower_than_the_rule_is_explained():
    profile = banded(bands={"fragmentation_index": {"low": 0.06, "high": 0.08}})
    result = decode(one_hot(alternating(10)), profile)
    (note,) = words.band_notes(result, validity(result))
    assert "leaves a night alone between 0.050 and 0.200" in note
    assert "the band, 0.060 to 0.080" in note
    inside = banded(bands={"fragmentation_index": {"low": 0.06, "high": 0.2}})
    result = decode(one_hot(alternating(10)), inside)
    assert list(words.band_notes(result, validity(result))) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4, "4 s"), (2.5, "2.5 s"), (60, "1 min"), (90, "1 min 30 s"), (600, "10 min"), (28770, "8 h 0 min")],
)
def test_durations_read_naturally(seconds, text):
    assert duration(seconds) == text


def test_numbers_keep_their_sign_and_say_when_there_is_none():
    assert number_text(float("nan"), 1) == "–"
    assert number_text(-0.04, 1) == "0.0"
    assert number_text(-1234.5, 1) == "−1,234.5"
    assert difference(2.0, 3.5, 1) == "−1.5"
    assert difference(3.5, 2.0, 1) == "+1.5"
    assert difference(2.0, 2.0, 1) == "0.0"
    assert difference(2.01, 2.0, 1) == "±0.0"
    assert difference(float("nan"), 2.0, 1) == "–"
    assert [decimals_for([x]) for x in (0.05, 3, 31, 310, float("nan"))] == [3, 2, 1, 0, 3]
