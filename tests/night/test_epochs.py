"""The grid of epochs: how many there are, where they begin, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from made_recordings import recording, signal
from stageguard.night.recording import EpochGrid, Series


def scoring(epoch_seconds, n_epochs=4):
    return sg.Hypnogram(np.zeros(n_epochs, dtype=np.int8), sg.StageScheme.named("wnr3"), epoch_seconds)


@pytest.mark.parametrize(("seconds", "n_epochs"), [(120, 4), (119.9, 3), (119.995, 4), (149, 4), (30, 1)])
def test_whole_epochs_count_and_a_rest_belongs_to_none(seconds, n_epochs):
    night = recording(eeg=signal(np.zeros(round(seconds * 200))))
    assert EpochGrid.of(night, 30).n_epochs == n_epochs


def test_the_longest_signal_counts():
    night = recording(eeg=signal(np.zeros(20_000)), emg=signal(np.zeros(2_000), rate=10))
    assert EpochGrid.of(night, 10).n_epochs == 20


def test_a_count_per_epoch_lasts_until_the_next():
    times = np.arange(10) * 30.0
    assert EpochGrid.of(recording(counts=Series("c", times, times)), 30).n_epochs == 10


def test_the_scoring_says_how_long_an_epoch_is_unless_told():
    night = recording(scoring(4.0), eeg=signal(np.zeros(24_000)))
    assert EpochGrid.of(night).n_epochs == 30
    assert EpochGrid.of(night, 30).n_epochs == 4


def test_edges_follow_the_length():
    assert EpochGrid(3, 2.5).edges.tolist() == [0, 2.5, 5, 7.5]
