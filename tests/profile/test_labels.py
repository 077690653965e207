"""A night whose stages do not fit the profile is told which profile has them."""

import numpy as np
import pytest

import stageguard as sg
from messages import mentions, naming
from stageguard.profile.labels import profile_words

THREE, FIVE = sg.Profile.load("human-psg-3"), sg.Profile.load("human-psg-5")


@pytest.mark.parametrize(
    ("stages", "profile", "named"),
    [
        (("W", "N", "R"), "human-psg-5", "human-psg-3"),
        (("R", "NREM", "Wake"), "human-psg-5", "human-psg-3"),
        (3, "human-psg-5", "human-psg-3"),
        (("W", "S"), "human-psg-5", "human-actigraphy-2"),
        (2, "human-psg-3", "human-actigraphy-2"),
        (("W", "N1", "N2", "N3", "R"), "human-psg-3", "human-psg-5"),
    ],
)
def test_the_profile_that_fits_is_named(stages, profile, named):
    assert mentions(profile_words(stages, sg.Profile.load(profile)), "profile", "stages", named)


@pytest.mark.parametrize(
    ("stages", "profile"), [(5, FIVE), (("W", "N", "R"), THREE), (7, FIVE), (("A", "B"), FIVE)]
)
def test_nothing_is_named_where_none_fits_or_the_profile_itself_does(stages, profile):
    assert profile_words(stages, profile) == ""


def test_another_species_is_not_meant():
    assert profile_words(5, sg.Profile.load("mouse-eeg-emg-3")) == ""


@pytest.mark.parametrize("scheme", ["wnr3", "ws2"])
def test_coarser_nights_are_refused_by_every_call_with_that_advice(scheme):
    named = {"wnr3": "human-psg-3", "ws2": "human-actigraphy-2"}[scheme]
    n_stages = sg.StageScheme.named(scheme).n_stages
    rows = np.full((20, n_stages), 1.0 / n_stages)
    calls = (
        lambda: sg.decode(sg.Hypnodensity(rows, scheme, 30.0), FIVE),
        lambda: sg.decode(rows, FIVE),
        lambda: sg.decode(rows, FIVE, stages=sg.StageScheme.named(scheme).names),
        lambda: sg.validity(sg.Hypnogram([0] * 20, scheme, 30.0), FIVE),
    )
    for call in calls:
        with pytest.raises(sg.InputError, match=naming("profile", "stages", named)):
            call()
