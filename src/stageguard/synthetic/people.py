"""Made-up people and mice: covariates, and what they do to sleep, by documented amounts."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from stageguard.base.files import read_text
from stageguard.synthetic.noise import stream

# Groups and their sizes among 25 people, as in the paper's sample of SHHS (table 'Subpopulation analysis').
AGE_GROUPS = {"40-55": (40, 55, 8), "55-70": (55, 70, 10), "70+": (70, 86, 7)}
OSA_GROUPS = {"none": (0.3, 4.9, 12), "mild": (5.0, 14.9, 8), "moderate/severe": (15.0, 55.0, 5)}

# How far along its effect each group is.
AGE_STEP = {"40-55": 0.0, "55-70": 0.5, "70+": 1.0}
OSA_STEP = {"none": 0.0, "mild": 0.4, "moderate/severe": 1.0}

# Logarithms of the factors a whole step multiplies onto a sleeper's gates and stretches (see sleepers.py).
# They are our choice, set so that the group differences come near those the paper's experts found.
OSA_EFFECT = {"gate W": 0.26, "stretch W": 0.24, "gate N1": 0.30, "gate N3": -0.35, "gate R": -0.10}
AGE_EFFECT = {"gate W": 0.10, "stretch W": 0.10, "gate N3": -0.55, "gate N1": 0.15, "early R": 0.40}

# Statistics whose differences between groups are known; studies/simulator/shifts.py measures and writes them.
SHIFTS_FILE = Path(__file__).with_name("known-shifts.toml")
SHIFTED = ("tst_minutes", "waso_minutes", "se_percent", "rem_latency_minutes", "n3_minutes")

# Spread between sleepers: standard deviations of the logarithms.
HUMAN_SPREAD = {
    "gate W": 0.16,
    "stretch W": 0.16,
    "gate N1": 0.12,
    "gate N3": 0.20,
    "gate R": 0.12,
    "early R": 0.2,
}
MOUSE_SPREAD = {"gate W": 0.15, "stretch W": 0.15, "gate R": 0.15, "stretch N": 0.08}

Covariates = Mapping[str, float | str]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """Somebody who does not exist."""

    number: int  # from 1
    covariates: Covariates  # age, sex, AHI, groups; for mice sex and weight
    factors: Mapping[str, float] = field(default_factory=dict)  # on the gates and stretches of the nights


@cache
def known_shifts(modality: str) -> Mapping[str, Mapping[str, float]]:
    """Return by how much groups differ on average from sleepers aged 40-55 without apnoea.

    Group, such as "osa mild" or "age 70+", -> statistic -> minutes, or percent; of nights of 8 h from lights
    off to lights on, with the other covariate at its reference. Empty for mice, whose covariates do nothing.
    """
    shifts: dict[str, dict[str, dict[str, float]]] = tomllib.loads(read_text(SHIFTS_FILE, "TOML"))
    return shifts.get(modality, {})


def draw_adult(
    seed: int, number: int, *, age_group: str | None = None, osa_group: str | None = None
) -> Sleeper:
    """Return an adult of some groups, or of those whose turn it is; the same however many there are."""
    rng = stream(seed, "people", number)
    turn = _groups(number)
    age_group, osa_group = age_group or turn[0], osa_group or turn[1]
    low, high, _ = AGE_GROUPS[age_group]
    least, most, _ = OSA_GROUPS[osa_group]
    age = float(rng.integers(low, high))
    ahi = round(float(np.exp(rng.uniform(np.log(least), np.log(most)))), 1)
    sex = "F" if rng.random() < 0.5 else "M"
    log_factors = {name: float(rng.normal(0, sd)) for name, sd in HUMAN_SPREAD.items()}
    for name, effect in OSA_EFFECT.items():
        log_factors[name] += OSA_STEP[osa_group] * effect
    for name, effect in AGE_EFFECT.items():
        log_factors[name] += AGE_STEP[age_group] * effect
    bmi = round(float(np.clip(rng.normal(26.5 + 3.5 * OSA_STEP[osa_group], 3), 18, 50)), 1)
    groups = {"age_group": age_group, "osa": osa_group}
    covariates: Covariates = {"age": age, "sex": sex, "ahi": ahi, **groups, "bmi": bmi}
    return Sleeper(number, covariates, {name: float(np.exp(value)) for name, value in log_factors.items()})


def draw_infant(seed: int, number: int) -> Sleeper:
    """Return an infant of up to three months."""
    rng = stream(seed, "people", number)
    weeks = float(rng.integers(1, 13))
    sex = "F" if rng.random() < 0.5 else "M"
    covariates: Covariates = {"age_weeks": weeks, "age": round(weeks / 52.18, 3), "sex": sex}
    return Sleeper(number, covariates, _spread(rng, HUMAN_SPREAD))


def draw_mouse(seed: int, number: int) -> Sleeper:
    """Return a mouse. Its covariates do nothing to its sleep."""
    rng = stream(seed, "people", number)
    sex = "F" if rng.random() < 0.5 else "M"
    weight = round(float(rng.normal(22 if sex == "F" else 27, 2)), 1)
    return Sleeper(number, {"sex": sex, "weight_g": weight}, _spread(rng, MOUSE_SPREAD))


def _spread(rng: np.random.Generator, deviations: Mapping[str, float]) -> dict[str, float]:
    return {name: float(np.exp(rng.normal(0, sd))) for name, sd in deviations.items()}


def _groups(number: int) -> tuple[str, str]:
    """Return age and OSA group of the n-th sleeper: the pair that is furthest behind, alone and in sum.

    So the first few differ already, and after 25 the groups have the paper's sizes without going together.
    """
    sizes = [np.array([size for *_, size in groups.values()]) for groups in (AGE_GROUPS, OSA_GROUPS)]
    share = np.outer(*(size / size.sum() for size in sizes))  # (age, severity)
    counts = np.zeros(share.shape)
    chosen = (0, 0)
    for n in range(1, number + 1):
        missing = share * n - counts
        behind = missing + missing.sum(axis=0, keepdims=True) + missing.sum(axis=1, keepdims=True)
        chosen = divmod(int(behind.argmax()), len(OSA_GROUPS))
        counts[chosen] += 1
    return list(AGE_GROUPS)[chosen[0]], list(OSA_GROUPS)[chosen[1]]
