"""A night decoded again at a strength that was chosen before."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from nights import decode
from stageguard.errors import PinError
from stageguard.guard.decode import decode_held
from stageguard.guard.night import GuardOptions


def nights_of(profile: sg.Profile, rng: np.random.Generator):
    """Yield nights with and without gaps, of stagers that flicker more or less."""
    n_stages = profile.scheme.n_stages
    for sharpness in (1.0, 1.5, 3.0):
        labels = np.repeat(rng.integers(0, n_stages, 40), 8)
        logits = rng.normal(size=(320, n_stages))
        logits[np.arange(320), labels] += sharpness
        rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        yield sg.Hypnodensity(rows, profile.scheme, profile.epoch_seconds), labels
        rows = rows.copy()
        rows[50:54] = np.nan
        yield sg.Hypnodensity(rows, profile.scheme, profile.epoch_seconds), labels


@pytest.mark.parametrize("name", sg.profiles())
def test_at_its_own_strength_a_night_is_decoded_as_before(name):
    profile, rng = sg.Profile.load(name), np.random.default_rng(0)
    n_compared = 0
    for density, labels in nights_of(profile, rng):
        first = int(rng.integers(0, 300))
        for pins in (None, dict.fromkeys(range(first, first + 12), int(labels[first]))):
            try:
                fresh = decode(density, profile, pins=pins)
            except PinError:
                continue
            held = decode_held(density, profile, GuardOptions(pins=pins), fresh)
            assert (held.hypnogram.labels == fresh.hypnogram.labels).all()
            assert held.score == pytest.approx(fresh.score)
            assert str(held.strength) == str(fresh.strength)
            n_compared += 1
    assert n_compared > 6
