"""What the demo shows holds for other made-up nights too: its night was not picked."""

import warnings

import pytest

import stageguard as sg
from stageguard.cli.commands.demo import PROFILE, SEED

SEEDS = range(SEED, SEED + 10)


@pytest.fixture(scope="module")
def nights():
    made = [sg.simulate_night(PROFILE, seed=seed) for seed in SEEDS]
    with warnings.catch_warnings():  # of early REM that was removed
        warnings.simplefilter("ignore", sg.StageGuardWarning)
        results = sg.decode([night.density for night in made], PROFILE)
    return list(zip(made, results, strict=True))


def first_rem_errors(nights, labels_of):
    """Minutes between REM latency of some labels and of the true stages."""
    errors = []
    for night, result in nights:
        scored = sg.Hypnogram(labels_of(result), night.expert.scheme, night.expert.epoch_seconds)
        latencies = [sg.sleep_statistics(stages).rem_latency_minutes for stages in (scored, night.expert)]
        errors.append(abs(latencies[0] - latencies[1]))
    return errors


def test_rem_latency_of_ten_demo_nights_is_near_the_truth_where_argmax_is_not(nights):
    guarded = first_rem_errors(nights, lambda result: result.hypnogram.labels)
    assert sum(error <= 15.0 for error in guarded) >= 9
    assert sum(error > 15.0 for error in first_rem_errors(nights, lambda result: result.argmax)) >= 9


def test_ten_demo_nights_end_inside_the_experts_band_of_fragmentation(nights):
    band = sg.Profile.load(PROFILE).bands["fragmentation_index"]
    for _, result in nights:
        assert result.strength.fi_before > band.high
        assert band.low <= sg.validity(result).indicators["fragmentation_index"].value <= band.high
