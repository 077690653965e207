"""Transitions counted anew, and every rule of the paper kept."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from stageguard.errors import InputError, StageGuardWarning
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import AASM5, WNR3
from stageguard.profile.profile import Profile

BASE = "kdd2026-mouse-eeg-emg"
RULES = ("rare", "rare_probability", "min_bout_seconds", "stay", "ends", "flip_flop", "not_for", "scheme",
         "transition_weight", "epoch_seconds", "reproduces_paper", "tvr_pairs")  # fmt: skip


def night(seed, n_epochs=400):
    """A night that takes every transition, with unscored epochs in it."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(rng.integers(0, 3, n_epochs), rng.integers(1, 6, n_epochs))
    labels[rng.integers(0, len(labels), 20)] = -1
    return labels.astype(np.int8)


def counted(nights, n_stages=3):
    """N_ss' over the sum of N_sj, pair by pair, as the paper writes it."""
    n = [[0] * n_stages for _ in range(n_stages)]
    for labels in nights:
        for a, b in pairwise(labels.tolist()):
            if a >= 0 and b >= 0:
                n[a][b] += 1
    return [[value / sum(row) for value in row] for row in n]


def test_the_matrix_is_the_share_of_pairs_and_nothing_else_changes():
    base, nights = Profile.load(BASE), [night(1), night(2)]
    made = sg.recount([Hypnogram(labels, WNR3, 4.0) for labels in nights], base)
    np.testing.assert_allclose(made.transitions, counted(nights), rtol=1e-12)
    assert made.transitions != base.transitions
    for rule in RULES:
        assert getattr(made, rule) == getattr(base, rule), rule
    changed = {key for key, value in made.to_dict().items() if base.to_dict().get(key) != value}
    assert changed == {"name", "transitions", "provenance"}
    assert made.name == f"{BASE}-recounted"


def test_the_flip_flop_stays_greedy_and_a_rare_pair_keeps_its_epsilon():
    made = sg.recount([night(1)], Profile.load(BASE))
    assert (made.flip_flop.method, made.flip_flop.penalty_nats, made.flip_flop.window_epochs) == (
        "greedy",
        2,
        5,
    )
    share = made.transitions[0][2]
    assert share > 0.05  # wake to REM was scored often, and is discouraged as before
    evidence = np.full((12, 3), 0.05)
    evidence[:6, 0] = evidence[6:, 2] = 0.9
    allowed = made.replace(rare=None)
    assert sg.decode(evidence, allowed).score - sg.decode(evidence, made).score == pytest.approx(
        np.log(share / 0.001)
    )


def test_provenance_says_what_was_counted_and_no_longer_what_was_before():
    base = Profile.load("kdd2026-actigraphy")
    labels = np.tile([0, 0, 1, 1, 1], 50)
    made = sg.recount([labels], base).provenance
    assert (made["n_nights"], made["n_scored_epochs"]) == (1, 250)
    assert dict(made["pairs_counted_from"]) == {"W": 100.0, "S": 149.0}
    assert dict(made["base"]) == {"name": base.name, "sha256": base.sha256}
    assert made["doi"] == base.provenance["doi"]
    assert not {"dataset", "counted_on", "script", "n_subjects"} & set(made)
    assert made["transitions"].startswith("counted")


def test_ranges_and_errors_of_the_nights_before_go():
    base = Profile.load("mouse-eeg-emg-3").replace(intervals={"errors": {"tst_minutes": [[1.0]]}})
    assert base.bands and base.joint and base.intervals
    made = sg.recount([night(3)], base)
    assert (dict(made.bands), made.joint, dict(made.intervals)) == ({}, None, {})
    assert made.strength == base.strength


def test_finer_stages_are_merged_and_several_experts_share_a_night():
    first, second = (np.array([0, 2, 2, 3, 4, 4, 0, 1] * 30), np.array([0, 2, 2, 2, 4, 0, 0, 1] * 30))
    panel = [Hypnogram(labels, AASM5, 30.0, scorer=name) for labels, name in ((first, "a"), (second, "b"))]
    made = sg.recount([panel], Profile.load("kdd2026-cardiorespiratory"))
    merged = [np.array([0, 1, 1, 1, 2])[labels] for labels in (first, second)]
    np.testing.assert_allclose(made.transitions, counted(merged), rtol=1e-12)


def test_a_stage_nobody_scored_keeps_its_row_and_an_unseen_switch_is_said():
    base = Profile.load(BASE)
    with pytest.warns(StageGuardWarning) as said:
        made = sg.recount([np.tile([0, 0, 1, 1], 40)], base)
    assert made.transitions[2] == base.transitions[2]
    assert made.transitions[0] == pytest.approx((80 / 160, 80 / 160, 0))
    words = [str(warning.message) for warning in said]
    assert any("'R' occurs in none" in text for text in words)
    assert any(mentions(text, "N", "R", "forbids") for text in words)


def test_nights_of_another_epoch_length_are_refused():
    with pytest.raises(InputError, match=naming("10 s", "kdd2026", "4 s")):
        sg.recount([Hypnogram(night(1), WNR3, 10.0)], Profile.load(BASE))
