"""A profile tuned to a stager by its unscored nights."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stageguard as sg
from messages import mentions, naming
from nights import decode
from small import profile_of, refusal
from stageguard.errors import InputError, StageGuardError

RULE = {"rule": "target", "fi_target": 0.1}


def base(**changes):
    # an animal's, so that whole recordings are measured; tests/guard/test_period.py is about people's
    return profile_of(species="mouse").replace(strength=RULE, **changes)


def flickering(share, n_epochs=400, seed=0):
    """A night whose argmax changes stage with about this probability, by evidence that is not sure."""
    rng = np.random.default_rng(seed)
    labels = np.cumsum(rng.random(n_epochs) < share) % 3
    rows = rng.uniform(0.05, 0.3, size=(n_epochs, 3))
    rows[np.arange(n_epochs), labels] += rng.uniform(0.25, 0.6, size=n_epochs)
    return rows / rows.sum(axis=1, keepdims=True)


def fi_of(rows):
    """The fragmentation index by its definition."""
    labels = rows.argmax(axis=1)
    return sum(a != b for a, b in pairwise(labels)) / (len(labels) - 1)


def nights(share, n=11, **options):
    return [flickering(share, seed=seed, **options) for seed in range(n)]


def test_the_median_is_that_of_plain_numpy():
    given = nights(0.3)
    profile = sg.tune(given, base(), stager="Mine 1.0")
    indices = sorted(fi_of(rows) for rows in given)
    assert profile.strength.stager_fi == pytest.approx(indices[5], rel=1e-3)
    assert (profile.strength.rule, profile.strength.fi_target) == ("target", 0.1)
    assert (profile.strength.act_above, profile.strength.exponent) == (1.5, 0.5)
    assert profile.stager == "Mine 1.0"


def test_nights_of_a_flickering_stager_come_to_the_root_of_their_own_index():
    given = [flickering(share, seed=seed) for seed, share in enumerate(np.linspace(0.2, 0.5, 11))]
    profile = sg.tune(given, base())
    median = float(np.median([fi_of(rows) for rows in given]))
    assert profile.provenance["flickers"] is True
    for rows, result in zip(given, decode(given, profile), strict=True):
        aim = 0.1 * (fi_of(rows) / median) ** 0.5
        assert result.strength.fi_aim == pytest.approx(aim, rel=1e-3)
        assert result.strength.step == "lowered"
        assert result.strength.fi_after == pytest.approx(aim, rel=0.15)


def test_nights_of_a_stager_that_does_not_flicker_stay_as_they_are():
    given = [*nights(0.12), flickering(0.5, seed=99)]  # one sleeper is fragmented
    profile = sg.tune(given, base())
    assert profile.provenance["flickers"] is False
    for rows, result in zip(given, decode(given, profile), strict=True):
        assert np.array_equal(result.hypnogram.labels, rows.argmax(axis=1))
        assert result.strength.step == "untouched"


@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_the_decision_turns_where_the_median_is_act_above_times_the_experts(factor):
    given = nights(0.3)
    median = float(np.median([fi_of(rows) for rows in given]))
    profile = sg.tune(given, base().replace(strength=RULE | {"fi_target": median / 1.5 * factor}))
    assert profile.provenance["flickers"] is (factor < 1)
    assert ("does not flicker" in profile.provenance["decision"]) is (factor > 1)


def test_other_epochs_are_measured_at_the_profiles_length():
    given = nights(0.3)
    tuned = sg.tune(given, base(), epoch_seconds=15)
    assert tuned.strength.stager_fi == pytest.approx(2 * np.median([fi_of(rows) for rows in given]), rel=1e-3)
    strength = decode(given[0], tuned, epoch_seconds=15).strength
    assert strength.stager_fi == pytest.approx(np.median([fi_of(rows) for rows in given]), rel=1e-3)


def test_rows_without_evidence_say_nothing():
    given = nights(0.3)
    gaps = [np.vstack([rows[:200], np.full((40, 3), np.nan), rows[200:]]) for rows in given]
    plain, gappy = (sg.tune(each, base()).strength.stager_fi for each in (given, gaps))
    # the pair around the gap is not adjacent any more
    assert gappy == pytest.approx(plain, abs=0.005)


def test_it_says_where_it_comes_from_and_keeps_the_rest(tmp_path):
    before = sg.Profile.load("human-psg-5")
    given = [sg.simulate_night(before, hours=2, seed=seed).density for seed in range(10)]
    tuned = sg.tune(given, before, stager="S", name="mine")
    made = tuned.provenance
    assert made["base"] == {"name": "human-psg-5", "sha256": before.sha256}
    assert (made["n_nights"], made["source"]) == (10, "stageguard.tune on unscored nights")
    assert tuned.name == "mine" and sg.tune(given, before).name == "human-psg-5-tuned"
    assert mentions(tuned.summary, 10, "unscored", "S")
    for key in ("bands", "not_for", "transitions", "clock", "intended_for"):
        assert getattr(tuned, key) == getattr(before, key)
    tuned.save(tmp_path / "mine.toml")
    assert sg.Profile.load(tmp_path / "mine.toml") == tuned
    assert sg.tune(given, tuned, stager="S", name="mine").strength == tuned.strength


def test_few_nights_are_refused_with_the_reason():
    with pytest.raises(InputError) as error:
        sg.tune(nights(0.3, n=9), base())
    refusal(error, "got 9 nights", "expected 10 or more", "need no scoring")
    short = [*nights(0.3, n=9), np.full((1, 3), 1 / 3)]
    with pytest.raises(InputError, match=naming(9, "with adjacent epochs")):
        sg.tune(short, base())


def test_the_same_night_twice_is_refused():
    given = nights(0.3)
    with pytest.raises(InputError) as error:
        sg.tune([*given, given[4]], base())
    refusal(error, "nights 4 and 11", "given twice")


def test_profiles_that_cannot_be_tuned_are_refused():
    for profile, reason in (
        ("kdd2026-cardiorespiratory", "cannot be tuned"),
        (base(calibration={"biases": {"R": 1.0}}), "expected the profile it was fitted from"),
    ):
        with pytest.raises(InputError) as error:
            sg.tune(nights(0.3), profile)
        refusal(error, reason)


ROWS = st.lists(
    st.lists(st.floats(0, 1, allow_subnormal=False) | st.just(float("nan")), min_size=3, max_size=3),
    min_size=0,
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, min_size=8, max_size=13), st.booleans())
def test_any_numbers_are_tuned_on_or_refused_in_one_line(matrices, normalise):
    given = [np.array(rows, dtype=float).reshape(-1, 3) for rows in matrices]
    if normalise:
        given = [(rows + 0.1) / (rows + 0.1).sum(axis=1, keepdims=True) for rows in given]
    try:
        tuned = sg.tune(given, base())
    except StageGuardError as error:
        assert "\n" not in str(error)
        return
    known = [rows[~np.isnan(rows[:, 0])] for rows in given]
    whole = [rows for rows, kept in zip(given, known, strict=True) if len(rows) == len(kept) > 1]
    if len(whole) == len(given):
        assert tuned.strength.stager_fi == pytest.approx(
            max(float(np.median([fi_of(rows) for rows in given])), 1e-4), rel=1e-3
        )
    assert sg.Profile.from_dict(tuned.to_dict()) == tuned
    decode(given, tuned)
