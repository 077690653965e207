"""Reports of nights that differ in every way a page can trip over, each made once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import cache

import numpy as np

import stageguard as sg
from nights import decode
from stageguard.report import night_report
from stageguard.synthetic.night import simulate_night

START = datetime(2024, 5, 1, 22, 47)


@cache
def full_night():
    """A simulated night with a clock, and its decoding."""
    simulated = simulate_night("human-psg-5", seed=0)
    night = replace(simulated, density=replace(simulated.density, start=START))
    return night, decode(night.density, "human-psg-5")


@cache
def full():
    night, decoding = full_night()
    return night_report(decoding, expert=night.expert, title="Night 7")


def gappy_night():
    simulated = simulate_night("human-psg-5", seed=5)
    probabilities = simulated.density.probabilities.copy()
    probabilities[:, 4] = 0.0
    probabilities[:, 0] += 1e-3
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    probabilities[200:260] = probabilities[500:504] = probabilities[900:] = np.nan
    return decode(replace(simulated.density, probabilities=probabilities), "human-psg-5"), simulated.expert


@cache
def gaps_and_no_rem():
    gaps, expert = gappy_night()
    return night_report(gaps, expert=expert)


@cache
def mouse():
    simulated = simulate_night("mouse-eeg-emg-3", hours=16, seed=1)
    day = decode(replace(simulated.density, start=START), "mouse-eeg-emg-3")
    return night_report(day, expert=simulated.expert, lights_on_phase="07:00")


@cache
def two_stages():
    density = simulate_night("human-actigraphy-2", seed=4).density
    return night_report(decode(density, "human-actigraphy-2"), lights_off=300, lights_on=27000)


@cache
def no_bands():
    return night_report(decode(simulate_night("human-actigraphy-2", seed=4).density, "kdd2026-actigraphy"))


@cache
def one_epoch():
    return night_report(decode(np.full((1, 2), 0.5), "kdd2026-actigraphy"))


@cache
def almost_nothing():
    probabilities = np.full((60, 5), np.nan)
    probabilities[30] = 0.2
    decoding = decode(probabilities, "human-psg-5")
    return night_report(decoding, expert=sg.Hypnogram(np.full(60, -1), "aasm5", 30.0))


ALL = (full, gaps_and_no_rem, mouse, two_stages, no_bands, one_epoch, almost_nothing)
