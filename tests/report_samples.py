"""Reports of nights that differ in every way a page can trip over, each made once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import cache

import numpy as np

import stageguard as sg
from nights import decode, random_probabilities
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
def mouse_day():
    simulated = simulate_night("mouse-eeg-emg-3", hours=16, seed=1)
    return simulated, decode(replace(simulated.density, start=START), "mouse-eeg-emg-3")


@cache
def mouse():
    simulated, day = mouse_day()
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


EVIL = "</title></style><script>alert('x')</script><img src=x onerror=\"y\"> & {{ 7 * 7 }} \x00\x07\u202e"
SEEN = "</title></style><script>alert('x')</script><img src=x onerror=\"y\"> & {{ 7 * 7 }}"


def profile_with(text, stages):
    return sg.Profile.from_dict(
        {
            "name": "own",
            "summary": text,
            "intended_for": text,
            "not_for": [{"cohort": text, "aliases": [], "action": "warn", "reason": text}],
            "stages": stages,
            "wake": stages[0],
            "rem": stages[2],
            "epoch_seconds": 30.0,
            "transition_weight": 0.3,
            "tvr_pairs": [[stages[0], stages[2]], [stages[1], stages[0]]],
            "min_bout_seconds": {stages[1]: 60.0},
            "transitions": {a: {b: 0.9 if a == b else 0.05 for b in stages} for a in stages},
            "bands": {
                f"mean_bout_minutes_{stages[1]}": {"low": 1.0, "high": 2.0, "source": text, "unit": text},
                "fragmentation_index": {"low": 0.01, "high": 0.2},
            },
            "provenance": {text: text, "nested": {"list": [text, 3], text: True}},
        }
    )


def report_with(text, stages):
    profile = profile_with(text, stages)
    probabilities = random_probabilities(np.random.default_rng(0), 200, 3)
    density = sg.Hypnodensity(probabilities, profile.scheme, 30.0, source=text)
    expert = sg.Hypnogram(np.arange(200) % 3, profile.scheme, 30.0, scorer=text)
    return night_report(
        decode(density, profile, cohort=text), expert=expert, title=text, staging=(f"by {text}",)
    )


ALL = (full, gaps_and_no_rem, mouse, two_stages, no_bands, one_epoch, almost_nothing)
