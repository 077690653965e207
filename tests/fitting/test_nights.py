"""Which nights `fit` takes, what it refuses, and what stands for a stager's labels."""

from __future__ import annotations

import warnings
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from scored_nights import Cohort, cohort, fit_report
from small import refusal
from stageguard.errors import InputError, StageGuardWarning
from stageguard.fitting.fit import split
from stageguard.fitting.nights import confusion_shares, read_nights
from stageguard.night.stages import WNR3

BASE = "human-psg-3"
HEADBAND = "a headband"


@pytest.fixture(scope="module")
def nights():
    return cohort(5, hours=2, sharpness=2.0)


def complaint(own, **options):
    with pytest.raises(InputError) as error:
        sg.fit(own.hypnograms, own.densities, **({"base": BASE} | options))
    refusal(error)
    return str(error.value)


def changed(nights, i, *, density=None, hypnogram=None):
    densities, hypnograms = list(nights.densities), list(nights.hypnograms)
    densities[i] = density if density is not None else densities[i]
    hypnograms[i] = hypnogram if hypnogram is not None else hypnograms[i]
    return Cohort(densities, hypnograms, nights.groups)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subjects": ["a"] * 5}, (1, 2, 15)),
        ({"subjects": ["a", "b"]}, ("subjects", 2, 5, "nights")),
        ({"subjects": "abcde"}, ("'abcde'", 5)),
        ({"subjects": {1, 2, 3, 4, 5}}, (5,)),
        ({"subjects": ["a", "b", None, "c", "d"]}, ("subjects: night 2 has none",)),
        ({"subjects": ["a", "b", " ", "c", "d"]}, ("subjects: night 2 has none",)),
        ({"subjects": ["a", "b", float("nan"), "c", "d"]}, ("subjects: night 2 has none",)),
        ({"n_folds": 1}, ("n_folds", 1, 2)),
        ({"seed": -1}, ("seed", -1, "least", 0)),
        ({"fragmentation_weight": -2}, ("fragmentation_weight", -2, 0)),
        ({"statistics": "week"}, ("statistics", "'week'")),
        ({"cohort": ""}, ("cohort", "empty")),
        ({"logits": True}, ("night 0", "got a Hypnodensity")),
    ],
)
def test_options_that_do_not_fit_the_nights_are_refused(nights, options, words):
    assert mentions(complaint(nights, **({"subjects": nights.groups} | options)), *words)


def test_lists_must_belong_together(nights):
    densities, experts = nights.densities, nights.hypnograms
    for given, words in (
        (Cohort(densities[:4], experts, []), (4, "densities", 5)),
        (Cohort(densities[0], experts[:1], []), ("densities", "list")),
        (Cohort(densities, experts[0], []), ("experts", "list")),
        (Cohort([densities[0].probabilities], experts[0].labels, []), ("experts", "list")),
        (Cohort((density for density in densities), experts, []), ("densities", "list")),
        (Cohort(densities, [*experts[:4], None], []), ("night 4", "is no scoring")),
        (Cohort(experts, densities, []), ("night 0", "experts come first")),
        (Cohort([], [], []), ("experts are empty",)),
        (Cohort(densities, None, []), ("experts", "list")),
        (Cohort([*densities[:4], sg.Hypnogram(densities[4].argmax, WNR3, 30)], experts, []), ("one kind",)),
    ):
        assert mentions(complaint(given), *words), words


def test_a_night_that_does_not_fit_is_named(nights):
    expert = nights.hypnograms[3]
    late = np.where(np.arange(240) < 120, -1, expert.labels).astype(np.int8)
    early = np.where(np.arange(240)[:, None] < 120, nights.densities[0].probabilities, np.nan)
    for own, words in (
        (changed(nights, 3, hypnogram=sg.Hypnogram(expert.labels[:-2], WNR3, 30.0)), ("night 3", 238, 240)),
        (changed(nights, 3, hypnogram=expert.labels[:-1]), ("night 3", 239, 240)),
        (changed(nights, 2, hypnogram=np.full(240, -1)), ("night 2", "epoch is scored")),
        (changed(nights, 1, hypnogram=sg.Hypnogram(np.zeros(240, int), "ws2", 30.0)), ("night 1",)),
        (changed(nights, 4, density=2 * nights.densities[4].probabilities), ("night 4", "row 0", 2)),
        (changed(nights, 0, density=early, hypnogram=late), ("night 0", "stage and probabilities")),
    ):
        assert mentions(complaint(own), *words), words
    seconds = [20.0 if i == 2 else 30.0 for i in range(5)]
    shorter = [
        [replace(night, epoch_seconds=s) for night, s in zip(own, seconds, strict=True)]
        for own in (nights.densities, nights.hypnograms)
    ]
    assert mentions(complaint(Cohort(*shorter, [])), "30 s", 0, "20 s", 2)


def test_overlapping_nights_of_one_subject_are_refused(nights):
    start = datetime(2024, 5, 1, 22, 0)

    def placed(*hours):
        starts = [start + timedelta(hours=h) for h in hours]
        experts = [replace(e, start=s) for e, s in zip(nights.hypnograms, starts, strict=True)]
        return Cohort(nights.densities, experts, ["a", "a", "b", "b", "c"])

    assert mentions(complaint(placed(0, 1, 0, 24, 48), subjects=[*"aabbc"]), 0, 1, "'a'")
    fit_report(placed(0, 2, 0, 24, 48))  # one begins as the other ends


@pytest.mark.parametrize("n_epochs", [None, 100])
def test_a_night_given_twice_is_refused_whoever_scored_it(nights, n_epochs):
    again = nights.densities[1].with_rows(nights.densities[1].probabilities[:n_epochs])
    other = nights.hypnograms[1].labels[:n_epochs].copy()
    other[7] = -1
    experts = [*nights.hypnograms, sg.Hypnogram(other, WNR3, 30.0)]
    own = Cohort([*nights.densities, again], experts, [*"abcdef"])
    assert mentions(complaint(own, subjects=own.groups), 1, 5, "twice")
    scored = Cohort(None, [*nights.hypnograms, nights.hypnograms[1]], [])
    assert mentions(complaint(scored), 1, 5, "twice")


def test_missing_stages_are_warned_of_and_taken_from_the_base(nights):
    without = [replace(e, labels=np.where(e.labels == 2, 1, e.labels)) for e in nights.hypnograms]
    with pytest.warns(StageGuardWarning) as caught:
        profile = sg.fit(without, base=BASE, subjects=nights.groups)
    assert mentions(caught[0].message, "'R'", 5, "'human-psg-3'")
    base = np.array(sg.Profile.load(BASE).transitions[2])
    assert profile.transitions[2] == pytest.approx(0.95 * base + 0.05 / 3, rel=1e-4)


@pytest.fixture(scope="module")
def labelled():
    """Labels alone of a flickering stager: 12 nights of 6 subjects."""
    scored = cohort(6, 2, sharpness=2.0)
    said = [sg.Hypnogram(d.argmax, d.scheme, d.epoch_seconds) for d in scored.densities]
    return Cohort(said, scored.hypnograms, scored.groups)


@pytest.fixture(scope="module")
def material(labelled):
    base = sg.Profile.load(BASE)
    return read_nights(labelled.hypnograms, labelled.densities, base, subjects=labelled.groups)


def test_shares_are_what_experts_say_where_the_stager_says_a_stage(labelled, material):
    counts = np.ones((3, 3))
    for said, expert in zip(labelled.densities, labelled.hypnograms, strict=True):
        np.add.at(counts, (said.labels, expert.labels), 1)
    expected = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(confusion_shares(material, 3), expected, atol=1e-6)


def test_a_label_that_is_mostly_wrong_stays_the_likeliest():
    night = sg.Hypnogram([0] * 60 + [1] * 40, "wnr3", 30)
    expert = sg.Hypnogram([1] * 50 + [0] * 10 + [1] * 40, "wnr3", 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        shares = confusion_shares(read_nights([expert], [night], sg.Profile.load(BASE)), 3)
    assert shares[0].argmax() == 0 and shares[0, 0] > shares[0, 1] > 0.4


def test_no_row_of_a_person_was_counted_on_that_person_or_on_people_held_out(material):
    def check(nights, counted_on):
        for night in nights:
            others = [other for other in counted_on if other.subject != night.subject]
            np.testing.assert_array_equal(
                night.density.probabilities, confusion_shares(others, 3)[night.said]
            )

    check(material, material)
    for train, test in split(material, 3, seed=0):
        assert not set(train.subjects) & set(test.subjects)
        check([*train, *test], train)


def test_a_profile_fitted_to_labels_has_the_stagers_own_shares(labelled, material):
    # a base that smooths far too much, so that the fit does not step aside
    base = sg.Profile.load(BASE).replace(transition_weight=9.0)
    report = fit_report(labelled, base, stager=HEADBAND)
    assert not report.steps_aside
    np.testing.assert_array_equal(report.profile.labels.own, confusion_shares(material, 3))
    assert report.profile.labels.shares == base.labels.shares
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        decoded = [sg.decode(labelled.densities[0], report.profile, stager=s) for s in (HEADBAND, "another")]
    assert [result.from_labels for result in decoded] == ["own", "typical"]
