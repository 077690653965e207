"""Quality of actigraphy: the paper's rule to the letter, and one that lets quiet sleepers sleep."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from body_signals import recording, wrist
from stageguard.night.recording import Recording, Series, Signal

pytest.importorskip("scipy")


def assess(rules="graded", **signals):
    return sg.signal_quality(recording(**signals), "actigraphy", rules=rules)


def counts(values, unit="counts"):
    return Signal("counts", np.asarray(values, dtype=float), 1 / 30, unit)


def restless(n_epochs, seed=0):
    """Counts with a movement at least every twenty minutes."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(n_epochs) < 0.1, rng.integers(1, 80, n_epochs), 0)
    values[::40] = 5
    return values


def test_three_epochs_without_counts_are_lost_and_two_are_not():
    values = [5, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 0]
    found = assess("kdd2026", counts=counts(values))
    np.testing.assert_array_equal(found.beta, [0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1])
    assert found.reasons[4] == "counts: zero"
    assert found.reasons[0] == ""


def test_the_share_of_an_epoch_without_samples_is_beta():
    axes = wrist(300, 50)
    times = np.arange(len(axes)) / 50
    keep = (times < 69) | (times >= 120)
    found = assess(acceleration=Series("watch", times[keep], axes[keep], "g"))
    np.testing.assert_allclose(found.beta[:5], [0, 0, 0.7, 1, 0], atol=1e-9)
    assert found.reasons[2] == found.reasons[3] == "counts: missing"


def test_a_device_off_for_hours_is_found_to_the_epoch():
    values = restless(960)
    values[100:400] = 0
    values[[99, 400]] = 3
    found = assess(counts=counts(values))
    np.testing.assert_array_equal(np.flatnonzero(found.beta), np.arange(100, 400))
    assert set(found.reasons[100:400]) == {"device: still too long"}


def test_a_pulse_means_a_wrist():
    values = restless(960)
    values[99:701] = [3, *[0] * 600, 3]
    times = np.arange(0, 28_800, 300.0)
    worn = assess(counts=counts(values), heart_rate=Series("hr", times, np.full(len(times), 55.0), "bpm"))
    assert not worn.is_bad.any()
    here = (times < 3000) | (times > 21_000)
    some = Series("hr", times[here], np.full(here.sum(), 55.0), "bpm")
    off = assess(counts=counts(values), heart_rate=some)
    assert off.counts() == {"device: still too long": 600}


def test_raw_acceleration_on_a_table_and_on_a_sleeper():
    rate_hz, hours = 10, 3
    rng = np.random.default_rng(0)
    n = hours * 3600 * rate_hz
    axes = rng.normal(0, 0.003, (n, 3)) + np.array([0.0, 0.0, 1.0])
    asleep = axes.copy()
    for minute in range(0, hours * 60, 25):  # turns over now and then
        asleep[minute * 600 : minute * 600 + 30] += rng.normal(0, 0.3, (30, 3))
    times = np.arange(n) / rate_hz
    table = assess(acceleration=Series("watch", times, axes, "g"))
    assert table.beta.min() == 1
    sleeper = assess(acceleration=Series("watch", times, asleep, "g"))
    assert not sleeper.is_bad.any()


def test_real_sleepers_lose_half_their_night_to_the_papers_rule_and_nothing_to_ours(data_dir):
    marked, total = [], 0
    with np.load(data_dir / "sleep-accel" / "sleep_accel_walch_features.npz") as nights:
        for name in nights.files:
            rows = nights[name]
            epochs = np.rint(rows[:, 0] * 120).astype(int)
            values = np.full(epochs[-1] + 1, np.nan)
            values[epochs] = rows[:, 1]
            night = Recording(name, name, {"counts": counts(values)})
            paper = sg.signal_quality(night, "actigraphy", rules="kdd2026")
            ours = sg.signal_quality(night, "actigraphy", rules="graded")
            np.testing.assert_array_equal(ours.beta, np.isnan(values))
            marked.append(paper.counts().get("counts: zero", 0))
            total += len(epochs)
    assert len(marked) == 31
    assert sum(marked) / total == pytest.approx(0.515, abs=0.001)
