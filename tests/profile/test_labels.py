"""Nights whose stages do not fit the profile."""

import numpy as np
import pytest

import stageguard as sg


@pytest.mark.parametrize("scheme", ["wnr3", "ws2"])
def test_coarser_nights_are_refused_by_every_call(scheme):
    five = sg.Profile.load("human-psg-5")
    n_stages = sg.StageScheme.named(scheme).n_stages
    rows = np.full((20, n_stages), 1.0 / n_stages)
    calls = (
        lambda: sg.decode(sg.Hypnodensity(rows, scheme, 30.0), five),
        lambda: sg.decode(rows, five),
        lambda: sg.decode(rows, five, stages=sg.StageScheme.named(scheme).names),
        lambda: sg.validity(sg.Hypnogram([0] * 20, scheme, 30.0), five),
    )
    for call in calls:
        with pytest.raises(sg.InputError, match=f"{n_stages}|cannot merge"):
            call()
