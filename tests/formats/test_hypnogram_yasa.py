"""Hypnograms of the installed YASA: its object, its JSON and its events."""

from __future__ import annotations

from datetime import datetime

import pytest

import stageguard as sg

STAGES = {
    5: ["WAKE", "N1", "N2", "N3", "REM", "ART", "UNS"],
    4: ["WAKE", "LIGHT", "DEEP", "REM", "UNS"],
    3: ["WAKE", "NREM", "REM", "ART"],
    2: ["WAKE", "SLEEP", "UNS"],
}
EXPECTED = {
    5: ["W", "N1", "N2", "N3", "R", "?", "?"],
    4: ["W", "Light", "Deep", "R", "?"],
    3: ["W", "N", "R", "?"],
    2: ["W", "S", "?"],
}


@pytest.fixture(scope="module")
def hypnogram():
    return pytest.importorskip("yasa").Hypnogram


@pytest.mark.proves("yasa-json", "object:yasa")
@pytest.mark.parametrize("n_stages", STAGES)
@pytest.mark.parametrize(("freq", "seconds"), [("30s", 30.0), ("2.5s", 2.5), ("4s", 4.0)])
def test_json_of_the_installed_yasa(tmp_path, hypnogram, n_stages, freq, seconds):
    theirs = hypnogram(
        STAGES[n_stages], n_stages=n_stages, freq=freq, start="2024-05-01 22:30:00", scorer="Ann"
    )
    path = tmp_path / "night.json"
    theirs.to_json(path)
    for night in (sg.read_hypnogram(path), sg.read_hypnogram(theirs)):
        assert night.stages.tolist() == EXPECTED[n_stages]
        assert (night.epoch_seconds, night.scheme.n_stages) == (seconds, n_stages)
        assert (night.start, night.scorer) == (datetime(2024, 5, 1, 22, 30), "Ann")


def test_a_night_of_one_stage_needs_no_scheme(hypnogram):
    night = sg.read_hypnogram(hypnogram(["WAKE", "WAKE"], n_stages=3, freq="30s"))
    assert (night.scheme.name, night.start, night.scorer) == ("wnr3", None, "yasa.Hypnogram")


def test_time_zones_survive(tmp_path, hypnogram):
    theirs = hypnogram(["WAKE", "N1"], freq="30s", start="2024-05-01 22:30:00", tz="Europe/Paris")
    theirs.to_json(tmp_path / "night.json")
    assert sg.read_hypnogram(tmp_path / "night.json").start == sg.read_hypnogram(theirs).start
    assert sg.read_hypnogram(theirs).start.utcoffset().total_seconds() == 7200


def test_the_series_of_a_hypnogram(hypnogram):
    theirs = hypnogram(STAGES[5], freq="30s")
    assert sg.read_hypnogram(theirs.hypno).stages.tolist() == EXPECTED[5]
