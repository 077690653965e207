"""What `fit` refuses, warns of and assumes, word for word."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from scored_nights import Cohort, cohort, fit_report
from small import refusal
from stageguard.errors import InputError, StageGuardWarning
from stageguard.night.stages import AASM5, WNR3, WS2

BASE = "human-psg-3"


@pytest.fixture(scope="module")
def nights():
    return cohort(5, hours=2, sharpness=2.0)


def complaint(own, **options):
    options = {"base": BASE, "learning_curve": False} | options
    with pytest.raises(InputError) as error:
        sg.fit(own.hypnograms, own.densities, **options)
    refusal(error)
    return str(error.value)


def test_one_subject_in_two_groups_is_refused(nights):
    message = complaint(nights, groups=list("aabbc"), subjects=["s1", "s2", "s2", "s3", "s4"])
    assert mentions(message, "'s2'", "'a'", "'b'")


def test_overlapping_nights_of_one_subject_are_refused(nights):
    start = datetime(2024, 5, 1, 22, 0)
    placed = [
        replace(expert, start=start + timedelta(hours=h))
        for expert, h in zip(nights.hypnograms, (0, 1, 0, 24, 48), strict=True)
    ]
    own = Cohort(nights.densities, placed, ["a", "a", "b", "b", "c"])
    message = complaint(own, groups=own.groups)
    assert mentions(message, 0, 1, "'a'", 2024, "05", "02", "00")
    apart = [replace(placed[0]), replace(placed[1], start=start + timedelta(hours=2)), *placed[2:]]
    fit_report(Cohort(nights.densities, apart, own.groups))  # one begins as the other ends


def test_a_night_given_twice_is_refused(nights):
    own = Cohort(
        [*nights.densities, nights.densities[1]], [*nights.hypnograms, nights.hypnograms[1]], [*"abcdef"]
    )
    message = complaint(own, groups=own.groups)
    assert mentions(message, 1, 5, "twice")


@pytest.mark.parametrize("n_epochs", [None, 100])
def test_one_stagers_night_given_twice_is_refused_whoever_scored_it(nights, n_epochs):
    again = nights.densities[1]
    again = replace(again, probabilities=again.probabilities[:n_epochs])
    other = nights.hypnograms[1].labels[:n_epochs].copy()
    other[7] = -1
    experts = [*nights.hypnograms, sg.Hypnogram(other, WNR3, 30.0)]
    message = complaint(Cohort([*nights.densities, again], experts, [*"abcdef"]), groups=[*"abcdef"])
    assert mentions(message, 1, 5, "twice")


def test_one_expert_given_as_two_is_refused(nights):
    panels = [[expert, expert] for expert in nights.hypnograms]
    message = complaint(Cohort(nights.densities, panels, nights.groups), groups=nights.groups)
    assert mentions(message, 0, 1, "twice")
    other = sg.Hypnogram(np.roll(nights.hypnograms[0].labels, 1), WNR3, 30.0)
    panels[0] = [nights.hypnograms[0], other]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        assert sg.fit(panels, base=BASE, groups=nights.groups).provenance["n_scorings"] == 10


def test_names_differ_by_more_than_blanks_and_points(nights):
    def n_groups(groups):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StageGuardWarning)
            found = sg.fit_report(nights.hypnograms, base=BASE, groups=groups)
        return found.n_subjects

    assert n_groups(["s1", "s1 ", " s2", "s2", "s3"]) == 3
    assert n_groups([1, 1.0, 2, np.float64(2.0), "2"]) == 2
    for missing in (float("nan"), "", None):
        assert "night 1 has none" in complaint(nights, groups=["a", missing, "b", "c", "d"])
    assert "night 0 has none" in complaint(nights, groups=[np.array([1, 2]), 2, 3, 4, 5])


def test_two_folds_of_few_subjects_are_not_nested(nights):
    three = Cohort(nights.densities[:3], nights.hypnograms[:3], ["a", "b", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        found = sg.fit_report(three.hypnograms, three.densities, base=BASE, groups=three.groups, n_folds=2)
    assert found.nested is None


def test_options_that_are_no_such_thing_are_refused(nights):
    assert "progress is 3, expected a function" in complaint(nights, groups=nights.groups, progress=3)
    assert "statistics is 'week'" in complaint(nights, groups=nights.groups, statistics="week")


def test_missing_stages_are_warned_of_and_taken_from_the_base(nights):
    without = [
        sg.Hypnogram(np.where(expert.labels == 2, 1, expert.labels).astype(np.int8), WNR3, 30.0)
        for expert in nights.hypnograms
    ]
    with pytest.warns(StageGuardWarning) as caught:
        profile = sg.fit(without, nights.densities, base=BASE, groups=nights.groups, learning_curve=False)
    first = str(caught[0].message)
    assert mentions(first, "'R'", 5, "'human-psg-3'")
    base = np.array(sg.Profile.load(BASE).transitions[2])
    assert profile.transitions[2] == pytest.approx(0.95 * base + 0.05 / 3, rel=1e-4)


def test_one_subject_is_too_few_for_probabilities(nights):
    message = complaint(nights, groups=["a"] * 5)
    assert mentions(message, 1, 2, 15, "without densities")


def test_votes_are_warned_of(nights):
    rng = np.random.default_rng(0)
    votes = []
    for density in nights.densities:
        drawn = rng.multinomial(4, density.probabilities) / 4
        votes.append(sg.Hypnodensity(drawn, WNR3, 30.0))
    with pytest.warns(StageGuardWarning) as caught:
        report = sg.fit_report(
            nights.hypnograms, votes, base=BASE, groups=nights.groups, learning_curve=False
        )
    said = [str(one.message) for one in caught]
    assert any(re.match(r"\d\.\d% of the experts' stages have probability 0, which no", t) for t in said)
    assert any(mentions(note, "look", "votes or rounded") for note in report.notes)


def test_without_groups_every_night_is_a_subject(nights):
    report = fit_report(nights, groups=None)
    assert report.n_subjects == 5
    assert mentions(report.notes, "groups", "taken")


def test_groups_may_be_numbers_in_an_array(nights):
    assert fit_report(nights, groups=np.array([1, 1, 2, 3, 4])).n_subjects == 4


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({"groups": ["a", "b"]}, ("groups", 2, 5, "nights")),
        ({"groups": ["a", "b", None, "c", "d"]}, ("groups: night 2 has none",)),
        ({"groups": ["a", "b", " ", "c", "d"]}, ("groups: night 2 has none",)),
        ({"n_folds": 1}, ("n_folds", 1, 2)),
        ({"n_folds": 2.5}, ("n_folds", "2.5", 2)),
        ({"seed": -1}, ("seed", -1, "least", 0)),
        ({"fragmentation_weight": -2}, ("fragmentation_weight", -2, 0)),
        ({"cohort": ""}, ("cohort", "empty")),
    ],
)
def test_wrong_options_are_refused(nights, change, pattern):
    assert mentions(complaint(nights, **({"groups": nights.groups} | change)), *pattern)


def test_lists_must_belong_together(nights):
    assert mentions(complaint(Cohort(nights.densities[:4], nights.hypnograms, [])), 4, "densities", 5)
    assert mentions(complaint(Cohort(nights.densities[0], nights.hypnograms[:1], [])), "densities", "list")
    assert mentions(complaint(Cohort(nights.densities, nights.hypnograms[0], [])), "experts", "night")
    assert mentions(
        complaint(Cohort([nights.densities[0].probabilities], nights.hypnograms[0].labels, [])),
        "experts",
        "night",
    )
    assert "experts are empty" in complaint(Cohort([], [], []))
    with pytest.raises(InputError) as error:
        sg.fit(None, nights.densities, base=BASE)
    refusal(error, "experts are missing")


def test_a_night_that_does_not_fit_is_named(nights):
    def swapped(i, density=None, hypnogram=None):
        densities, hypnograms = list(nights.densities), list(nights.hypnograms)
        densities[i] = density if density is not None else densities[i]
        hypnograms[i] = hypnogram if hypnogram is not None else hypnograms[i]
        return complaint(Cohort(densities, hypnograms, []))

    expert = nights.hypnograms[3]
    shorter = sg.Hypnogram(expert.labels[:-2], WNR3, 30.0)
    assert mentions(swapped(3, hypnogram=shorter), 3, "238 epochs", 240)
    unscored = sg.Hypnogram(np.full(240, -1), WNR3, 30.0)
    assert mentions(swapped(2, hypnogram=unscored), 2, "epoch is scored")
    coarse = sg.Hypnogram(np.zeros(240, dtype=np.int8), WS2, 30.0)
    assert swapped(1, hypnogram=coarse).startswith("night 1: ")
    wrong = np.array(nights.densities[4].probabilities) * 2
    assert swapped(4, density=wrong).startswith("night 4: probabilities: row 0 sums to 2")
    no_overlap = np.where(np.arange(240)[:, None] < 120, nights.densities[0].probabilities, np.nan)
    late = np.where(np.arange(240) < 120, -1, expert.labels).astype(np.int8)
    assert mentions(
        swapped(0, sg.Hypnodensity(no_overlap, WNR3, 30.0), sg.Hypnogram(late, WNR3, 30.0)),
        0,
        "stage and probabilities",
    )


def test_one_epoch_length_for_all(nights):
    other = [replace(d, epoch_seconds=20.0) if i == 2 else d for i, d in enumerate(nights.densities)]
    experts = [replace(h, epoch_seconds=20.0) if i == 2 else h for i, h in enumerate(nights.hypnograms)]
    assert mentions(complaint(Cohort(other, experts, [])), "30 s", 0, "20 s", 2)


def test_bare_arrays_are_read_as_decode_reads_them(nights):
    order = [2, 0, 1]
    bare = [np.log(density.probabilities[:, order]) for density in nights.densities]
    labels = [expert.labels for expert in nights.hypnograms]
    options = {"base": BASE, "groups": nights.groups, "learning_curve": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        found = sg.fit_report(labels, bare, stages=["R", "W", "N"], epoch_seconds=30, log=True, **options)
        same = sg.fit_report(nights.hypnograms, nights.densities, **options)
    assert [row.kappa for row in found.rows] == pytest.approx([row.kappa for row in same.rows])


def test_finer_hypnograms_are_merged(nights):
    fine = cohort(5, base="human-psg-5", hours=2, sharpness=2.0)
    assert fine.hypnograms[0].scheme == AASM5
    report = fit_report(Cohort(nights.densities, fine.hypnograms, nights.groups))
    assert report.profile.scheme == WNR3


def test_a_density_says_how_it_is_to_be_read(nights):
    words = "stages, epoch_seconds, logits and log describe a bare array, but a Hypnodensity says all of it"
    for option in ({"logits": True}, {"log": True}, {"stages": ["W", "N", "R"]}):
        assert complaint(nights, **option).startswith(f"night 0: {words}")
    assert mentions(complaint(nights, epoch_seconds=20), 0, "epoch_seconds", 20, "30 s")
    bare = Cohort(nights.densities, [expert.labels for expert in nights.hypnograms], [])
    assert mentions(complaint(bare, epoch_seconds=20), 0, "epoch_seconds", 20, "30 s")
    assert "epoch_seconds is 'x', expected a number" in complaint(nights, epoch_seconds="x")
    fit_report(bare, groups=nights.groups, epoch_seconds=30)  # bare labels need it
    alone = Cohort(None, nights.hypnograms, [])
    for option in ({"logits": True}, {"log": True}, {"stages": ["W", "N", "R"]}):
        assert mentions(complaint(alone, **option), "logits and log", "probabilities")


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("abcde", ("'abcde'", 5)),
        ({1, 2, 3, 4, 5}, (1, 2, 3, 4, 5, 5)),
    ],
)
def test_groups_are_a_list(nights, groups, words):
    assert mentions(complaint(nights, groups=groups), *words)


def test_what_is_no_list_of_nights_is_named(nights):
    def complaints(given, field):
        own = {"densities": nights.densities, "hypnograms": nights.hypnograms, "groups": []} | {field: given}
        return complaint(Cohort(**own))

    for field, name in (("densities", "densities"), ("hypnograms", "experts")):
        listed = getattr(nights, field)
        assert complaints((night for night in listed), field).startswith(f"{name}: got <generator object")
        assert complaints(dict(enumerate(listed)), field).startswith(f"{name}: got {{0: ")
        assert mentions(complaints("nights", field), name, "'nights'")
    names = [expert.stages for expert in nights.hypnograms]
    for given in (names, [own.tolist() for own in names]):
        assert mentions(complaints(given, "hypnograms"), 0, "U1", "sg.read_hypnogram")
    without = [*nights.hypnograms[:4], None]
    assert mentions(complaints(without, "hypnograms"), 4, "is no scoring")


def test_overlaps_are_found_where_only_one_night_has_a_time_zone(nights):
    start = datetime(2024, 5, 1, 22, 0)

    def placed(second):
        starts = (start, second, *(start + timedelta(days=k) for k in (3, 5, 7)))
        experts = [replace(e, start=s) for e, s in zip(nights.hypnograms, starts, strict=True)]
        return Cohort(nights.densities, experts, ["a", "a", "b", "c", "d"])

    later = (start + timedelta(hours=1)).replace(tzinfo=timezone(timedelta(hours=2)))
    own = placed(later)
    assert mentions(complaint(own, groups=own.groups), 0, 1, "'a'", 2024, "05", "01", 22)
    fit_report(placed(later + timedelta(hours=1)))  # one begins as the other ends
