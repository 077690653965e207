"""Sentences on a night: what the guard did and why, what not to report, what to look at first."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

import stageguard as sg
from nights import decode, one_hot, plain
from stageguard.guard.explain import Rule
from stageguard.measures.rare import early_rem_removed
from stageguard.report import words
from stageguard.report.numbers import decimals_for, difference, duration, number_text


def banded(**changes):
    """Three stages; a night is left alone between 0.05 and 0.2."""
    strength = {"rule": "band", "fi_target": 0.1, "floor": 0.5, "cap": 2.0}
    return sg.Profile.from_dict(plain(species="mouse", strength=strength, **changes))


def alternating(every, n_epochs=240):
    """Stages that change each so many epochs."""
    return np.arange(n_epochs) // every % 2


def flickering():
    labels = alternating(12)
    labels[5::6] = 2
    return one_hot(labels, confidence=0.5)


def half_sure():
    labels = np.concatenate([alternating(1, 120), alternating(12, 120)])
    labels[125::6] = 2
    probabilities = one_hot(labels, confidence=0.9999999)
    probabilities[120:] = one_hot(labels[120:], confidence=0.5)
    return probabilities


def starved(n_epochs=200):
    """A stager that never names the third stage although it is likely in every fourth stretch of ten."""
    likely = (np.arange(n_epochs) // 10 % 4 == 3)[:, None]
    return np.where(likely, [0.05, 0.5, 0.45], [0.05, 0.92, 0.03])


UNASKED = "minority stages are weighted up only for a stager trained on natural class frequencies"
BAND_OF_FI = {"fragmentation_index": {"low": 0.06, "high": 0.08}}
MATCH = {"rule": "match", "fi_target": 0.05}


@pytest.mark.parametrize(
    ("probabilities", "profile", "options", "step", "expected"),
    [
        (one_hot(alternating(10)), banded(), {}, "untouched",
         "Not smoothed: fragmentation 0.096 is within the limits 0.050–0.200."),
        (flickering(), banded(), {}, "lowered",
         "Smoothed: {changed}; fragmentation {fi} (transition weight {w})."),
        (flickering(), banded(bands=BAND_OF_FI), {}, "lowered",
         "Smoothed: {changed}; fragmentation {fi} (expert range 0.060–0.080; transition weight {w})."),
        (one_hot(alternating(1), confidence=0.9999999), banded(), {}, "lowered",
         "Smoothed: 0 epochs changed; fragmentation {fi} (still outside the limits 0.050–"),
        (half_sure(), banded(), {}, "lowered", "still outside the limits"),
        (starved(), banded(), {}, "untouched", f"is below the limit 0.050; {UNASKED}."),
        (starved(), banded(), {"trained": "balanced"}, "untouched", UNASKED),
        (starved(), banded(), {"trained": "natural"}, "raised",
         "Minority stages weighted up: {changed}; fragmentation {fi} (still outside the limits 0.050–"),
        (np.tile([0.98, 0.01, 0.01], (100, 1)), banded(), {"trained": "natural"}, "untouched",
         "is below the limit 0.050; weighting up minority stages does not help."),
        (flickering(), sg.Profile.from_dict(plain()), {}, "fixed", "Smoothed at a fixed strength: {changed}"),
        (flickering(), banded(), {"strength": 0.2}, "fixed", "Smoothed at the given strength: {changed}"),
        (flickering(), banded(), {"strength": "off"}, "fixed", "Not smoothed: the guard was switched off."),
        (flickering(), sg.Profile.from_dict(plain(strength=MATCH)), {}, "nearest", "Smoothed: {changed}"),
        (one_hot(alternating(10)), banded(), {"pins": {3: "R"}}, "untouched",
         ". 1 epoch (0.4 %) changed by stages that were given."),
        (one_hot([0]), banded(), {}, "untouched", "Not smoothed: too few epochs to measure fragmentation."),
    ],
)  # fmt: skip
def test_what_was_done_is_one_sentence_with_its_numbers(probabilities, profile, options, step, expected):
    result = decode(probabilities, profile, **options)
    strength = result.strength
    assert strength.step == step
    n_changed = int(result.changed.sum())
    share = f"{100 * n_changed / len(result.changed):.1f} %"
    fi = f"{strength.fi_before:.3f} → {strength.fi_after:.3f}"
    changed = f"{n_changed} epoch{'s' * (n_changed != 1)} ({share}) changed"
    said = words.done_words(result)
    assert expected.format(changed=changed, fi=fi, w=f"{strength.transition_weight:g}") in said
    assert "nan" not in said


def test_calibration_is_named_as_the_cause():
    profile = banded(calibration={"biases": {"W": 0.0, "N": 0.0, "R": 2.0}})
    probabilities = one_hot(alternating(10))
    probabilities[100:105] = [0.1, 0.5, 0.4]
    result = decode(probabilities, profile)
    assert " 5 epochs (2.1 %) changed by calibration." in words.done_words(result)
    assert words.steering_words(result.steered)[-1].startswith("Shifted by the profile's stage biases: TST")


def test_warnings_are_those_of_decoding():
    flips = alternating(12)
    flips[3::4] = 2
    caution = {"cohort": "narcolepsy", "aliases": ["NT1"], "action": "warn", "reason": "Sudden REM is real."}
    profile = banded(not_for=[caution])
    result = decode(one_hot(flips, confidence=0.5), profile.replace(species="human"), cohort="nt1")
    assert result.changed_share > 0.1
    hinges = {"rem_latency_minutes": (187, 191)}
    first, second, third, *early = words.warnings_of(result, sg.validity(result), hinges)
    assert first == "The profile has a caution for “nt1”: Sudden REM is real."
    many = f"{result.changed.sum()} of 240 scored epochs ({100 * result.changed_share:.1f} %) were changed, "
    assert second.startswith(many)
    assert third == "REM latency depends on epochs 188–192: look at them."
    assert len(early) == words.MOST_EARLY + 1
    assert all(text.startswith("Early REM removed: R ") for text in early[:-1])
    n_more = len(early_rem_removed(result)) - 3
    assert early[-1] == f"Early REM was removed in {n_more} more places: see the rare events."
    mouse = decode(one_hot(flips, confidence=0.5), profile, cohort="nt1")
    assert not any("Early REM" in text for text in words.warnings_of(mouse, sg.validity(mouse), {}))
    calm = decode(one_hot(alternating(10)), profile, cohort="OSA")
    assert list(words.warnings_of(calm, sg.validity(calm), {})) == []


def test_nights_like_experts_are_counted_and_the_others_named():
    judged, names = [True] * 2 + [False] * 3, [f"n{k}" for k in range(5)]
    assert words.looking_like_experts(judged) == "2 of 5 nights look like expert scoring."
    named = "2 of 5 nights look like expert scoring. 3 nights do not: n2, n3, n4."
    assert words.looking_like_experts(judged, names) == named
    one = "1 of 2 nights looks like expert scoring. 1 night cannot be judged."
    assert words.looking_like_experts([True, None], names) == one
    assert words.few([str(k) for k in range(100)]).endswith(", 39 and 60 more")


def test_every_rule_has_words():
    assert {*words.BY, "clock"} == set(get_args(Rule))


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
