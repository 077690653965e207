"""Bands over expert scorings, against percentiles taken by hand and the study behind the shipped ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import stageguard as sg
from stageguard.measures.validity import expert_bands
from stageguard.night.stages import AASM5
from stageguard.synthetic.night import simulate_night

STUDY = Path(__file__).parents[2] / "studies" / "expert-scorings" / "results.json"


@pytest.fixture(scope="module")
def nights():
    return [simulate_night("human-psg-5", hours=3, seed=seed).expert for seed in range(12)]


def test_every_indicator_of_validity_gets_its_percentiles(nights):
    bands = expert_bands(nights, "human-psg-5")
    found = [sg.validity(night, "human-psg-5").indicators for night in nights]
    assert set(bands) <= set(found[0])
    several = {
        name
        for name in found[0]
        if np.sum(~np.isnan(values := [one[name].value for one in found])) >= 10
        and np.nanpercentile(values, 5) < np.nanpercentile(values, 95)
    }
    assert set(bands) == several
    assert {"tvr_per_hour", "paper_tvr_percent", "median_bout_minutes_N2"} <= several
    for name, band in bands.items():
        values = [one[name].value for one in found]
        expected = np.nanpercentile(values, [5, 95])
        assert (band.low, band.high) == pytest.approx(expected, rel=1e-3)
        assert band.unit == found[0][name].unit
        assert band.source == "5th to 95th percentile over 12 expert nights"


def test_every_scorer_counts(nights):
    shuffled = [[night, sg.Hypnogram(np.roll(night.labels, 5), AASM5, 30.0)] for night in nights]
    bands = expert_bands(shuffled, "human-psg-5")
    assert bands["fragmentation_index"].source.endswith("24 expert scorings of 12 nights")


def test_too_few_nights_give_no_band(nights):
    assert expert_bands(nights[:9], "human-psg-5") == {}
    short = [sg.Hypnogram(night.labels[:200], AASM5, 30.0) for night in nights]  # less than two hours
    assert expert_bands(short, "human-psg-5") == {}


def test_the_study_counted_the_same_on_the_dreem_nights(data_dir):
    """The study and this package share no code for it."""
    with np.load(data_dir / "dod-h" / "dod_h.npz") as archive:
        keys = [key for key in archive.files if key.endswith("/scorers")]
        panels = [[sg.Hypnogram(row, AASM5, 30.0) for row in archive[key]] for key in keys]
    bands = expert_bands(panels, "human-psg-5")
    known = json.loads(STUDY.read_text("utf-8"))["cohorts"]["dod-h"]["counts"]["aasm5"]["nights"]
    shared = [name for name in known if name in bands]
    assert len(shared) > 10
    for name in shared:
        expected = (known[name]["p5"], known[name]["p95"])
        assert (bands[name].low, bands[name].high) == pytest.approx(expected, rel=2e-3, abs=1e-9), name
