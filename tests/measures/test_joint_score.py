"""The joint score: against plain NumPy, at its edges, and as what a night passes or fails by."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import stageguard as sg
from small import profile_of
from stageguard.night.period import period_of
from stageguard.night.stages import AASM5, WNR3

W, N, R = range(3)
INDICATORS = {
    "fragmentation_index": {"centre": math.log(0.05), "scale": 0.4},
    "tvr_percent": {"centre": 0.05, "scale": 0.05},
    "flips_per_hour": {"centre": -0.5, "scale": 0.8},
    "one_epoch_bouts_percent_W": {"centre": 0.6, "scale": 0.3},
    "mean_bout_minutes_R": {"centre": 2.0, "scale": 0.6},
}
JOINT = {"threshold": 1.5, "indicators": INDICATORS}
PROFILE = profile_of(species="mouse", joint=JOINT, tvr_pairs=[["W", "R"]])
CYCLE = ((W, 6), (N, 70), (R, 20), (W, 1), (N, 60), (W, 2), (R, 15), (N, 30), (W, 4))


def night(*bouts, seconds=30.0):
    labels = [label for label, n in bouts for _ in range(n)]
    return sg.Hypnogram(np.array(labels, dtype=np.int8), WNR3, seconds)


def score_by_hand(labels, names, indicators, tvr_pairs):
    """The score of a 30-s night without gaps in plain NumPy, written from its definition alone."""
    changes = np.flatnonzero(np.diff(labels)) + 1
    n_pairs, hours = len(labels) - 1, len(labels) / 120
    bouts = [(labels[a], b - a) for a, b in pairwise(changes)]  # complete ones
    flips = np.sum((labels[:-2] == labels[2:]) & (labels[1:-1] != labels[2:]))
    rare = sum((names[a], names[b]) in tvr_pairs for a, b in pairwise(labels))
    z = {
        "fragmentation_index": np.log(len(changes) / n_pairs + 0.001),
        "transitions_per_hour": np.log(120 * len(changes) / n_pairs + 0.1),
        "tvr_percent": np.arcsin(np.sqrt(rare / n_pairs)),
        "flips_per_hour": np.log(flips / hours + 0.1),
    }
    for stage, name in enumerate(names):
        lengths = np.array([length for label, length in bouts if label == stage])
        if len(lengths):
            z[f"one_epoch_bouts_percent_{name}"] = np.arcsin(np.sqrt(np.mean(lengths == 1)))
            z[f"mean_bout_minutes_{name}"] = np.log(lengths.mean() / 2)
    z = [(z[key] - s["centre"]) / s["scale"] for key, s in indicators.items() if key in z]
    return np.sqrt(np.mean(np.square(z)))


def test_the_score_is_the_root_mean_square_of_standardised_indicators():
    scored = night(*CYCLE * 3)
    found = sg.validity(scored, PROFILE)
    assert found.joint.value == pytest.approx(
        score_by_hand(scored.labels, WNR3.names, INDICATORS, {("W", "R")})
    )
    assert (found.joint.low, found.joint.high, found.joint.place) == (0.0, 1.5, "inside")


@pytest.mark.parametrize("seed", range(5))
def test_a_shipped_profile_scores_made_up_nights_as_plain_numpy_does(seed):
    profile = sg.Profile.load("human-psg-5")
    labels = sg.simulate_night("human-psg-5", seed=seed).expert.labels
    asleep = labels[slice(*period_of(labels, 0, 30.0))]
    expected = score_by_hand(
        asleep,
        AASM5.names,
        profile.to_dict()["joint"]["indicators"],
        set(profile.tvr_pairs),
    )
    assert sg.validity(sg.Hypnogram(labels, AASM5, 30.0), profile).joint.value == pytest.approx(expected)


def test_the_joint_score_decides_and_single_bands_do_not():
    """A night may leave a band and pass, and lie inside every band and fail."""
    scored = night(*CYCLE * 3)
    fi = sg.validity(scored, PROFILE).indicators["fragmentation_index"].value
    narrow = PROFILE.replace(bands={"fragmentation_index": {"low": 2 * fi, "high": 3 * fi}})
    passed = sg.validity(scored, narrow)
    assert passed.outside == ("fragmentation_index",)
    assert passed.looks_like_experts is True
    strict = PROFILE.replace(
        bands={"fragmentation_index": {"low": fi, "high": fi}}, joint=JOINT | {"threshold": 0.1}
    )
    failed = sg.validity(scored, strict)
    assert failed.outside == ()
    assert failed.looks_like_experts is False
    assert failed.joint.place == "above"


@pytest.mark.parametrize(
    ("profile", "scored", "reason"),
    [
        (profile_of(), night(*CYCLE * 3), "the profile has no joint score of expert nights"),
        (
            PROFILE,
            night(*CYCLE),
            "1.7 h are scored, expected 2 h or more",
        ),
        (
            PROFILE.replace(joint=JOINT | {"indicators": {"mean_bout_minutes_R": INDICATORS["tvr_percent"]}}),
            night((N, 600)),
            "none of the indicators of the joint score exists on this night",
        ),
    ],
)
def test_what_cannot_be_judged_says_why(profile, scored, reason):
    found = sg.validity(scored, profile)
    assert math.isnan(found.joint.value)
    assert found.looks_like_experts is None
    assert found.verdict == f"cannot be judged: {reason}"


def test_at_another_epoch_length_indicators_are_brought_to_the_profile_s():
    thirds = [(stage, 3 * n) for stage, n in CYCLE * 3]
    whole, finer = night(*CYCLE * 3), night(*thirds, seconds=10.0)
    comparable = {key: INDICATORS[key] for key in ("tvr_percent", "mean_bout_minutes_R")}
    profile = PROFILE.replace(joint=JOINT | {"indicators": comparable})
    value = sg.validity(whole, profile).joint.value
    assert sg.validity(finer, profile).joint.value == pytest.approx(value, rel=0.02)
    # those of single epochs have no counterpart
    single = {key: INDICATORS[key] for key in ("flips_per_hour", "one_epoch_bouts_percent_W")}
    both = PROFILE.replace(joint=JOINT | {"indicators": comparable | single})
    assert sg.validity(finer, both).joint.value == pytest.approx(sg.validity(finer, profile).joint.value)


def test_real_experts_pass_and_their_coin_tossing_twin_does_not(data_dir):
    rng = np.random.default_rng(0)
    passed, flickering = [], []
    with np.load(data_dir / "dod-h" / "dod_h.npz") as archive:
        for key in archive.files:
            if key.endswith("/scorers"):
                labels = archive[key][0].astype(np.int8)
                passed.append(sg.validity(sg.Hypnogram(labels, "aasm5", 30.0), "human-psg-5"))
                tossed = np.where(rng.random(len(labels)) < 0.15, rng.integers(0, 5, len(labels)), labels)
                flickering.append(sg.validity(sg.Hypnogram(tossed, "aasm5", 30.0), "human-psg-5"))
    assert np.mean([found.looks_like_experts for found in passed]) >= 0.88
    assert np.mean([found.looks_like_experts for found in flickering]) <= 0.2
