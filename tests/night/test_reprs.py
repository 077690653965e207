"""What an object shows of itself at the prompt: one line, however long the night."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from stageguard.night.recording import Series
from stageguard.synthetic import simulate_recording
from stageguard.synthetic.night import simulate_night


@pytest.fixture(scope="module")
def made():
    return simulate_recording("eeg-emg", hours=0.1, seed=1)


@pytest.fixture(scope="module")
def night():
    return simulate_night("human-psg-5", hours=8, seed=1)


@pytest.fixture(scope="module")
def decoding(night):
    return sg.decode(night.density, "human-psg-5")


def test_a_decoding_says_what_was_decoded_and_how_much_changed(decoding):
    assert repr(decoding) == (
        f"<Decoding 960 epochs of 30 s, aasm5, {decoding.changed.sum()} changed, profile 'human-psg-5', "
        "strength target>"
    )


def test_a_hypnogram_says_its_length_scheme_scorer_and_what_is_unscored():
    labels = np.array([0, 1, -1, 2, -1])
    assert repr(sg.Hypnogram(labels, "wnr3", 4.0)) == "<Hypnogram 5 epochs of 4 s, wnr3, 2 unscored>"
    scored = sg.Hypnogram(labels[:1], "wnr3", 30, scorer="expert")
    assert repr(scored) == "<Hypnogram 1 epochs of 30 s, wnr3, by 'expert'>"


def test_a_density_says_its_length_scheme_source_and_where_it_is_empty(night):
    rows = [[0.5, 0.5], [np.nan, np.nan]]
    assert (
        repr(sg.Hypnodensity(rows, "ws2", 30)) == "<Hypnodensity 2 epochs of 30 s, ws2, 1 without evidence>"
    )
    assert repr(night.density) == "<Hypnodensity 960 epochs of 30 s, aasm5, from 'synthetic'>"


def test_a_recording_says_its_channels_and_scorings(made):
    assert repr(made.recording) == (
        "<Recording 'Mouse01_synthetic' of 'Mouse01_synthetic', 0.1 h, signals eeg emg, scorings synthetic "
        "truth, synthetic>"
    )
    bare = sg.Recording("n", "p", {"hr": Series("hr", [0.0, 90.0], [60.0, 61.0], "bpm")})
    assert repr(bare) == "<Recording 'n' of 'p', 0.025 h, signals hr, scorings none>"
    assert repr(bare.channel("hr")) == "<Series 'hr', 2 values, bpm, 90 s>"
    assert repr(made.recording.channel("eeg")) == "<Signal 'EEG', 512 Hz, uV, 360 s>"
