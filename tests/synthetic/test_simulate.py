"""Synthetic nights: repeatable, plausible, and marked as made up."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from stageguard.synthetic.night import simulate_night


def fragmentation(labels):
    return np.mean(labels[1:] != labels[:-1])


@pytest.mark.parametrize("profile", ["human-psg-5", "human-psg-3", "human-actigraphy-2", "mouse-eeg-emg-3"])
def test_the_stager_flickers_more_than_the_sleeper(profile):
    ratios, accuracies = [], []
    for seed in range(8):
        night = simulate_night(profile, seed=seed)
        argmax, truth = night.density.argmax, night.expert.labels
        ratios.append(fragmentation(argmax) / fragmentation(truth))
        accuracies.append(np.mean(argmax == truth))
    assert 2.3 < np.mean(ratios) < 4.5
    assert 0.72 < np.mean(accuracies) < 0.97


def test_adult_nights_have_the_shape_of_sleep():
    nights = [simulate_night("human-psg-5", seed=seed).expert.labels for seed in range(20)]
    labels = np.array(nights)
    half = labels.shape[1] // 2
    share = [np.mean(labels == stage) for stage in range(5)]
    assert 0.03 < share[0] < 0.2
    assert 0.03 < share[1] < 0.15
    assert 0.3 < share[2] < 0.55
    assert 0.12 < share[3] < 0.3
    assert 0.15 < share[4] < 0.3
    assert (labels[:, 0] == 0).all()
    assert np.sum(labels[:, :half] == 3) > 1.5 * np.sum(labels[:, half:] == 3)
    assert np.sum(labels[:, half:] == 4) > 1.5 * np.sum(labels[:, :half] == 4)
    band = sg.Profile.load("human-psg-5").bands["fragmentation_index"]
    assert band.low < np.mean([fragmentation(night) for night in nights]) < band.high


def test_one_seed_is_one_night():
    first, again, other = (simulate_night("human-psg-5", seed=seed) for seed in (5, 5, 6))
    assert first.density == again.density
    assert first.expert == again.expert
    assert first.density != other.density
    generator = simulate_night("human-psg-5", seed=np.random.default_rng(5))
    assert generator.density == first.density
