"""The grid of epochs: how many there are, where they begin, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from made_recordings import recording, signal
from messages import naming
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


def test_no_scoring_and_no_length_says_what_to_give():
    with pytest.raises(sg.InputError, match=r"'night' has no scoring.* epoch_seconds"):
        EpochGrid.of(recording(eeg=signal(np.zeros(6000))))


def test_scorings_of_different_lengths_say_so():
    night = sg.Recording(
        "n", "s", {"eeg": signal(np.zeros(60_000))}, {"a": scoring(20.0), "b": scoring(30.0)}
    )
    with pytest.raises(sg.InputError, match="scorings of recording 'n' have epochs of 20, 30 s"):
        EpochGrid.of(night)


def test_less_than_an_epoch_says_how_long_it_lasts():
    with pytest.raises(sg.InputError, match=naming("10 s", "30 s")):
        EpochGrid.of(recording(eeg=signal(np.zeros(2000))), 30)


@pytest.mark.parametrize("n_epochs", [0, -1, 2.5, True])
def test_a_grid_needs_a_whole_number_of_epochs(n_epochs):
    with pytest.raises(sg.InputError, match=naming("of at least", 1)):
        EpochGrid(n_epochs, 30.0)


@pytest.mark.parametrize("given", [None, "night.edf"])
def test_what_is_no_recording_is_refused_with_the_way_to_get_one(given):
    for call in (lambda: sg.features(given, "human-eeg"), lambda: sg.signal_quality(given, "eeg-emg")):
        with pytest.raises(sg.InputError, match=naming("sg.read_recording", "path")):
            call()
