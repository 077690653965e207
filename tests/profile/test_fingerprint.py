"""The fingerprint of a stager: its rule, and its key in a profile."""

from __future__ import annotations

import numpy as np
import pytest

from small import profile_of, refusal
from stageguard.errors import ProfileError
from stageguard.night.stages import SCHEMES
from stageguard.profile.fingerprint import Fingerprint, StagerFeatures

WRITTEN = {
    "n_nights": 12,
    "fragmentation_index": [0.1, 0.2, 0.3],
    "entropy": [0.4, 0.5, 0.6],
    "sharpness": [0.7, 0.75, 0.8],
    "shares": {"W": [0.1, 0.2, 0.3], "N": [0.5, 0.6, 0.7], "R": [0.2, 0.2, 0.2]},
}
KNOWN = profile_of(fingerprint=WRITTEN).fingerprint


def features(fi=0.2, entropy=0.5, sharpness=0.75, shares=(0.2, 0.6, 0.2)):
    return StagerFeatures(fi, entropy, sharpness, np.array(shares), np.full(3, np.nan), np.eye(3))


def test_it_is_read_and_written_alike():
    profile = profile_of(fingerprint=WRITTEN, stager="mine")
    assert profile.to_dict()["fingerprint"] == WRITTEN
    assert profile.to_dict()["stager"] == "mine"


@pytest.mark.parametrize(
    ("change", "outside"),
    [
        ({}, ()),
        ({"fi": 0.399}, ()),
        ({"fi": 0.401}, ("fragmentation index",)),
        ({"fi": 0.001}, ()),
        ({"fi": float("nan")}, ()),
        ({"entropy": 0.299}, ("entropy",)),
        ({"entropy": 0.71, "sharpness": 0.64}, ("entropy", "sharpness")),
        ({"shares": (0.41, 0.39, 0.2)}, ("stage shares",)),  # two stages are one feature
        ({"shares": (0.2, 0.591, 0.209)}, ()),  # no range: a hundredth is no difference
        ({"shares": (0.2, 0.589, 0.211)}, ("stage shares",)),
    ],
)
def test_outside_is_further_than_half_the_range_beyond_either_end(change, outside):
    night = features(**change)
    assert KNOWN.outside(night) == outside
    assert KNOWN.is_foreign(night) == (len(outside) > 1)


def test_none_of_the_nights_it_was_made_of_is_outside():
    rng = np.random.default_rng(0)
    nights = []
    for n_epochs in (30, 50, 70, 90):
        rows = rng.dirichlet(np.ones(3), size=n_epochs)
        nights.append(StagerFeatures.of(rows, rows.argmax(axis=1), float(rng.random())))
    made = Fingerprint.of(nights, SCHEMES["wnr3"])
    assert [made.outside(night) for night in nights] == [()] * 4
    alike = Fingerprint.of(nights[:1], SCHEMES["wnr3"])
    assert alike.outside(nights[0]) == ()


def test_certain_rows_have_no_entropy():
    night = StagerFeatures.of(np.array([[1.0, 0, 0], [0, 0, 1.0]]), np.array([0, 2]), 1.0)
    assert (night.entropy, night.sharpness, night.shares.tolist()) == (0.0, 1.0, [0.5, 0.0, 0.5])


def test_confidence_and_overlap_are_of_the_stages_that_rows_waver_between():
    rows = np.array([[0.75, 0.25, 0], [0.5, 0.5, 0], [0, 0.25, 0.75]])
    night = StagerFeatures.of(rows, np.array([0, 0, 2]), 0.5)
    assert night.confidences.tolist() == pytest.approx([0.625, np.nan, 0.75], nan_ok=True)
    overlaps = {(0, 1): (0.1875 + 0.25) / 3, (0, 2): 0.0, (1, 2): 0.1875 / 3}
    assert all(night.overlaps[pair] == pytest.approx(value) for pair, value in overlaps.items())


@pytest.mark.parametrize(
    ("change", "patterns"),
    [
        ({"entropy": [0.5, 0.4, 0.6]}, ("fingerprint.entropy", r"\[lowest, median, highest\]")),
        ({"entropy": [0.5]}, ("fingerprint.entropy",)),
        ({"n_nights": 0}, ("fingerprint.n_nights",)),
        ({"shares": {"W": [0.1, 0.2, 0.3]}}, ("fingerprint.shares lacks a stage", "W, N, R")),
        ({"shares": {"N3": [0.1, 0.2, 0.3]}}, ("fingerprint.shares", "'N3' is not a stage")),
        ({"shares": 3}, ("fingerprint.shares",)),
        ({"colour": 3}, ("colour",)),
    ],
)
def test_what_is_wrong_with_it_is_one_line(change, patterns):
    with pytest.raises(ProfileError) as error:
        profile_of(fingerprint=WRITTEN | change)
    refusal(error, *patterns)
