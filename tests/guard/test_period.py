"""Rules act on the sleep period: nothing that lies around the night changes the night."""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import stageguard as sg
from messages import mentions, naming
from nights import decode
from stageguard.errors import InputError, PinError
from stageguard.night.period import period_of

HUMAN = ("human-actigraphy-2", "human-bioradar-3", "human-cardiorespiratory-3", "human-psg-3", "human-psg-5")
MARGIN = 20  # epochs of clear wake at either end of a night


@cache
def flickering_night(name, seed):
    """Probabilities of a simulated night that begins and ends in clear wake."""
    profile = sg.Profile.load(name)
    rows = sg.simulate_night(name, seed=seed, hours=4).density.probabilities
    return np.concatenate([wake(profile, MARGIN), rows, wake(profile, MARGIN)])


def wake(profile, n_epochs):
    row = np.full(profile.scheme.n_stages, 0.03 / (profile.scheme.n_stages - 1))
    row[profile.scheme.wake_index] = 0.97
    return np.tile(row, (n_epochs, 1))


def nothing(profile, n_epochs):
    return np.full((n_epochs, profile.scheme.n_stages), np.nan)


KINDS = {"wake": wake, "unscored": nothing}


def index_of(night, profile=None):
    return sg.validity(night, profile).indicators["fragmentation_index"].value


def moved(strength, by):
    """A strength whose epochs are counted from an earlier one."""
    removed = tuple(replace(bout, first_epoch=bout.first_epoch + by) for bout in strength.clock_removed)
    onsets = tuple(epoch + by for epoch in strength.clock_onsets)
    return replace(strength, clock_onsets=onsets, clock_removed=removed)


@pytest.mark.parametrize("name", HUMAN)
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([1, 2]),
    st.sampled_from(["wake", "unscored"]),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
@example(1, "wake", 960, 960)
@example(1, "unscored", 8, 8)  # short enough to be bridged
def test_hours_around_a_night_change_nothing_in_it(name, seed, kind, n_before, n_after):
    profile, rows = sg.Profile.load(name), flickering_night(name, seed)
    alone = decode(rows, profile)
    assert alone.strength.step == "lowered"  # else the test would be easy
    around = [KINDS[kind](profile, n) for n in (n_before, n_after)]
    result = decode(np.concatenate([around[0], rows, around[1]]), profile)
    assert result.period == (alone.period[0] + n_before, alone.period[1] + n_before)
    assert np.array_equal(result.hypnogram.labels[n_before : n_before + len(rows)], alone.hypnogram.labels)
    assert result.strength == moved(alone.strength, n_before)
    assert index_of(result) == index_of(alone)
    assert sg.validity(result).joint.value == sg.validity(alone).joint.value


@pytest.mark.parametrize("name", HUMAN)
@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from([1, 2, 3]),
    st.integers(0, 120),
    st.integers(0, 120),
    st.sampled_from(["wake", "unscored"]),
)
def test_a_night_that_is_cut_in_sleep_keeps_its_sleep_period(name, seed, first, last, kind):
    profile = sg.Profile.load(name)
    rows = sg.simulate_night(name, seed=seed, hours=3).density.probabilities
    rows = rows[first : len(rows) - last]
    alone = decode(rows, profile)
    result = decode(np.concatenate([KINDS[kind](profile, 700), rows, KINDS[kind](profile, 300)]), profile)
    inside = slice(*alone.period)
    assert np.array_equal(
        result.hypnogram.labels[700 : 700 + len(rows)][inside], alone.hypnogram.labels[inside]
    )
    assert result.strength.fi_after == pytest.approx(alone.strength.fi_after, nan_ok=True)


@pytest.mark.parametrize("name", HUMAN)
def test_missing_epochs_inside_are_of_the_night(name):
    profile, rows = sg.Profile.load(name), flickering_night(name, 1).copy()
    rows[200:230] = np.nan
    alone = decode(rows, profile)
    result = decode(np.concatenate([wake(profile, 500), rows]), profile)
    assert np.array_equal(result.hypnogram.labels[500:], alone.hypnogram.labels)
    assert (alone.hypnogram.labels[200:230] == -1).all()


def test_every_fragmentation_index_of_a_night_is_one_number():
    profile = sg.Profile.load("human-psg-5")
    rows = np.concatenate([wake(profile, 900), flickering_night("human-psg-5", 1), wake(profile, 900)])
    result = decode(rows, profile)
    before = replace(result.hypnogram, labels=result.argmax)
    assert index_of(result) == pytest.approx(result.strength.fi_after)
    assert index_of(before, profile) == pytest.approx(result.strength.fi_before)
    off = decode(rows, profile, strength="off")
    assert off.strength.fi_before == off.strength.fi_after == pytest.approx(result.strength.fi_before)


def test_lights_bound_the_period():
    profile = sg.Profile.load("human-psg-5")
    night = flickering_night("human-psg-5", 1)
    rows = np.concatenate([night, night])  # two nights in one recording
    alone, second = decode(night, profile), len(night) * 30.0
    result = decode(rows, profile, lights_off=second)
    assert result.period == (alone.period[0] + len(night), alone.period[1] + len(night))
    assert np.array_equal(result.hypnogram.labels[len(night) :], alone.hypnogram.labels)
    first = decode(rows, profile, lights_on=second)
    assert first.period == alone.period
    assert first.strength.fi_after == alone.strength.fi_after
    one, other = decode([rows, rows], profile, lights_off=[None, second], lights_on=[second, None])
    assert (one.period, other.period) == (first.period, result.period)
    with pytest.raises(InputError, match=naming("least one epoch")):
        decode(rows, profile, lights_off=second, lights_on=60.0)


def test_a_night_without_sleep_has_no_period_and_no_index():
    profile = sg.Profile.load("human-psg-5")
    result = decode(wake(profile, 300), profile)
    assert result.period[0] == result.period[1]
    assert np.isnan(result.strength.fi_before)
    measured = sg.validity(result)
    assert np.isnan(measured.indicators["fragmentation_index"].value)
    assert mentions(measured.indicators["fragmentation_index"].reason, "epoch", "scored as sleep")
    assert measured.looks_like_experts is None


def test_animals_and_the_paper_measure_the_recording():
    for name in ("mouse-eeg-emg-3", "kdd2026-cardiorespiratory"):
        profile = sg.Profile.load(name)
        result = decode(wake(profile, 50), profile)
        assert result.period == (0, 50)
        assert result.strength.fi_before == 0.0


DATA = Path(os.environ.get("STAGEGUARD_DATA", "/nowhere"))
VOTES = DATA / "dod-h" / "dod_h.npz"


@pytest.mark.skipif(not VOTES.is_file(), reason="STAGEGUARD_DATA has no dod-h")
def test_real_nights_in_a_day_of_wake_are_as_without_it():
    profile = sg.Profile.load("human-psg-5")
    with np.load(VOTES) as archive:
        votes = [archive[key] for key in archive.files if key.endswith("/votes")][:8]
    for counts in votes:
        rows = counts.astype(float)
        rows = rows if rows.shape[1] == 5 else rows.T
        known = rows.sum(axis=1) > 0
        rows = np.where(known[:, None], rows / np.maximum(rows.sum(axis=1, keepdims=True), 1), np.nan)
        first, stop = period_of(
            np.where(known, np.nan_to_num(rows).argmax(axis=1), -1).astype(np.int8), 0, 30.0
        )
        alone = decode(rows, profile)
        result = decode(np.concatenate([wake(profile, 960), rows, wake(profile, 960)]), profile)
        labels = result.hypnogram.labels[960 : 960 + len(rows)]
        assert alone.period == (first, stop)
        assert np.array_equal(labels[first:stop], alone.hypnogram.labels[first:stop])
        assert result.strength.fi_after == alone.strength.fi_after


def test_pins_that_cannot_hold_in_the_period_are_named_by_their_epochs_in_the_recording():
    document = sg.Profile.load("human-psg-3").to_dict()
    document.pop("clock")
    document["transitions"] = {
        "W": {"W": 0.9, "N": 0.1},
        "N": {"W": 0.05, "N": 0.9, "R": 0.05},
        "R": {"N": 0.1, "R": 0.9},
    }
    profile = sg.Profile.from_dict(document)
    flickers = np.random.default_rng(0).dirichlet([1, 3, 1.5], 200)
    rows = np.concatenate([wake(profile, 100), flickers, wake(profile, 50)])
    with pytest.raises(PinError, match="night 1: ") as error:
        decode([rows.copy(), rows.copy()], profile, pins=[None, {150: "W", 151: "R"}])
    assert error.value.pins == ((150, "W"), (151, "R"))
