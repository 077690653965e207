"""Made-up sleepers: their bouts are the profiles', their covariates do what they are said to do."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from stageguard.night.stages import AASM5, WNR3
from stageguard.profile.profile import Profile
from stageguard.synthetic import sleepers as chain
from stageguard.synthetic.sleepers import (
    AGE_GROUPS,
    OSA_GROUPS,
    Sleeper,
    day_clock,
    draw_adult,
    draw_day,
    draw_mouse,
    draw_night,
    kind_of,
    night_clock,
)

HUMAN = ("human-psg-5", "human-psg-3", "human-cardiorespiratory-3", "human-bioradar-3", "human-actigraphy-2")
MOUSE = "mouse-eeg-emg-3"


def counted(labels, n_stages):
    """Transitions from epoch to epoch."""
    found = np.zeros((n_stages, n_stages))
    np.add.at(found, (labels[:-1], labels[1:]), 1)
    return found


def merged(counts, scheme):
    """Counts of AASM stages, or those of a coarser scheme."""
    if len(counts) == scheme.n_stages:
        return counts
    into = np.eye(scheme.n_stages)[AASM5.merge_map(scheme)]
    return into.T @ counts @ into


def bouts(labels):
    """Stage and length of each complete bout."""
    runs = [(stage, len(list(run))) for stage, run in itertools.groupby(labels.tolist())]
    return runs[1:-1]


@pytest.mark.parametrize("name", [*HUMAN, MOUSE])
def test_expected_transitions_are_the_profiles(name):
    profile, kind = Profile.load(name), kind_of(name)
    clock = day_clock(kind, 24) if name == MOUSE else night_clock(kind, None, 8)
    start = None if name == MOUSE else kind.begin
    found = merged(chain.expected_transitions(kind.law, clock, start), profile.scheme)
    # the fine stages' shares of a night, which merging weights by, differ a little from those of a long run
    np.testing.assert_allclose(
        found / found.sum(axis=1, keepdims=True), np.array(profile.transitions), atol=0.0015
    )


@pytest.mark.parametrize("name", ["human-psg-5", "human-cardiorespiratory-3"])
def test_drawn_nights_have_the_bouts_of_expert_nights(name):
    profile, kind = Profile.load(name), kind_of(name)
    nights = [draw_night(kind, Sleeper(number, {}), 7, 8).hypnogram.labels for number in range(1, 81)]
    into = AASM5.merge_map(profile.scheme)
    nights = [into[night] for night in nights]
    names = profile.scheme.names
    counts = sum(counted(night, len(names)) for night in nights)
    matrix = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(matrix, np.array(profile.transitions), atol=0.02)
    changes = np.mean([np.mean(night[1:] != night[:-1]) for night in nights])
    assert profile.bands["fragmentation_index"].low < changes < profile.bands["fragmentation_index"].high
    complete = [bout for night in nights for bout in bouts(night)]
    for stage, stage_name in enumerate(names):
        lengths = np.array([length for own, length in complete if own == stage])
        single = profile.bands[f"one_epoch_bouts_percent_{stage_name}"]
        assert single.low <= 100 * np.mean(lengths == 1) <= single.high
        mean = profile.bands[f"mean_bout_minutes_{stage_name}"]
        assert mean.low <= lengths.mean() / 2 <= mean.high


def test_mice_sleep_by_day_and_in_short_bouts():
    kind, profile = kind_of(MOUSE), Profile.load(MOUSE)
    days = np.array([draw_day(kind, draw_mouse(3, n), 3, 24).hypnogram.labels for n in range(1, 7)])
    half = days.shape[1] // 2
    assert np.mean(days[:, :half] == 0) < 0.45 < 0.6 < np.mean(days[:, half:] == 0)
    counts = sum(counted(day, 3) for day in days)
    np.testing.assert_allclose(
        counts / counts.sum(axis=1, keepdims=True), np.array(profile.transitions), atol=0.01
    )
    for stage, name in enumerate(WNR3.names):
        lengths = np.array([length for day in days for own, length in bouts(day) if own == stage])
        band = profile.bands[f"one_epoch_bouts_percent_{name}"]
        assert band.low <= 100 * np.mean(lengths == 1) <= band.high


def test_a_cohort_of_25_has_the_papers_groups_and_the_first_ones_differ():
    people = [draw_adult(1, number) for number in range(1, 26)]
    ages = Counter(person.covariates["age_group"] for person in people)
    severities = Counter(person.covariates["osa"] for person in people)
    assert ages == {name: size for name, (*_, size) in AGE_GROUPS.items()}
    assert severities == {name: size for name, (*_, size) in OSA_GROUPS.items()}
    assert len({person.covariates["osa"] for person in people[:4]}) == 3
    for person in people:
        low, high, _ = AGE_GROUPS[person.covariates["age_group"]]
        assert low <= person.covariates["age"] < high
        least, most, _ = OSA_GROUPS[person.covariates["osa"]]
        assert least - 0.05 <= person.covariates["ahi"] <= most + 0.05


def test_lifted_matrices_merge_into_the_coarse_one():
    rng = np.random.default_rng(0)
    fine = rng.dirichlet(np.ones(5), size=5) * 0.2 + 0.8 * np.eye(5)
    coarse = np.array([[0.8, 0.15, 0.05], [0.05, 0.93, 0.02], [0.03, 0.07, 0.9]])
    merge = AASM5.merge_map(WNR3)
    bent = chain.lift_matrix(fine, coarse, merge)
    np.testing.assert_allclose(bent.sum(axis=1), 1)
    rest = np.linalg.matrix_power(bent, 5000)[0]
    into = np.eye(3)[merge]
    flow = into.T @ (rest[:, None] * bent) @ into
    np.testing.assert_allclose(flow / flow.sum(axis=1, keepdims=True), coarse, atol=1e-6)
    # from N2, N1 is as much more likely than N3 as before
    assert bent[2, 1] / bent[2, 3] == pytest.approx(fine[2, 1] / fine[2, 3])
