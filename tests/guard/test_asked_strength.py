"""`decode(strength=...)`: one weight for every night, or the stager's own choice."""

from __future__ import annotations

import numpy as np
import pytest

import nights
import stageguard as sg
from messages import mentions
from stageguard.report.words import done_words

PROFILES = sg.profiles()


def probabilities(profile: str, n: int = 200, seed: int = 0) -> np.ndarray:
    n_stages = sg.Profile.load(profile).scheme.n_stages
    return np.random.default_rng(seed).dirichlet([0.5] * n_stages, n)


@pytest.mark.parametrize("profile", PROFILES)
def test_off_is_the_stagers_own_choice_apart_from_pins(profile):
    rows = probabilities(profile)
    off = nights.decode(rows, profile, strength="off")
    assert np.array_equal(off.hypnogram.labels, rows.argmax(axis=1))
    least = int(rows[100].argmin())
    pinned = nights.decode(rows, profile, strength="off", pins={100: least})
    assert np.flatnonzero(pinned.changed).tolist() == [100]
    assert pinned.hypnogram.labels[100] == least
    assert mentions(sg.methods_text(off), "guard", "was switched off")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_number_is_the_transition_weight_and_all_else_stays(profile):
    rows, loaded = probabilities(profile), sg.Profile.load(profile)
    asked = nights.decode(rows, profile, strength=0.4)
    expected = nights.decode(rows, loaded.replace(transition_weight=0.4))
    assert np.array_equal(asked.hypnogram.labels, expected.hypnogram.labels)
    assert asked.profile == expected.profile and asked.profile.clock == loaded.clock
    assert mentions(sg.methods_text(asked), "analyst", "0.4")
    assert asked.provenance()["options"]["strength"] == 0.4
    assert np.allclose(
        sg.posterior(rows, profile, strength=0.4).probabilities,
        sg.posterior(rows, expected.profile).probabilities,
    )


@pytest.mark.parametrize("wrong", ["on", "tune", -0.1, float("nan"), True, [0.3], 1001])
def test_what_is_no_strength_is_refused(wrong):
    with pytest.raises(sg.InputError, match="strength is "):
        sg.decode(probabilities("human-psg-3"), "human-psg-3", strength=wrong)


def test_another_cohort_gets_the_base_at_the_strength_that_is_asked_for():
    base = sg.Profile.load("human-psg-3")
    fitted = base.replace(
        cohort="our lab", min_bout_seconds={"R": 300}, transition_weight=0.1, base=base.to_dict()
    )
    rows = probabilities("human-psg-3")
    theirs = nights.decode(rows, fitted, strength=0.4, cohort="their lab")
    plain = nights.decode(rows, base, strength=0.4)
    assert np.array_equal(theirs.hypnogram.labels, plain.hypnogram.labels)
    assert theirs.is_foreign and mentions(done_words(theirs), "given strength", "0.4")
    ours = nights.decode(rows, fitted, strength=0.4, cohort="our lab")
    assert not ours.is_foreign and ours.profile.min_bout_seconds["R"] == 300
