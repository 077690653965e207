"""Fitting to a stager that gives labels alone: its confusions, counted on other people's nights."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stageguard as sg
from cli_runner import Runner
from messages import mentions
from scored_nights import Cohort, cohort, fit_report
from stageguard.errors import InputError, StageGuardWarning
from stageguard.fitting.cross_validation import split
from stageguard.fitting.label_shares import across_groups, count_shares
from stageguard.fitting.material import read_material

HEADBAND = "a headband"


def labels_of(density: sg.Hypnodensity) -> sg.Hypnogram:
    return sg.Hypnogram(density.argmax, density.scheme, density.epoch_seconds)


@pytest.fixture(scope="module")
def own():
    """Labels alone of a flickering stager: 12 nights of 6 subjects."""
    scored = cohort(6, 2, sharpness=2.0)
    return Cohort([labels_of(density) for density in scored.densities], scored.hypnograms, scored.groups)


@pytest.fixture(scope="module")
def material(own):
    return read_material(own.hypnograms, own.densities, sg.Profile.load("human-psg-3"), groups=own.groups)


@pytest.fixture(scope="module")
def report(own):
    # a base that smooths far too much, so that the fit does not step aside
    return fit_report(own, sg.Profile.load("human-psg-3").replace(transition_weight=9.0), stager=HEADBAND)


def test_shares_are_what_experts_say_where_the_stager_says_a_stage(own, material):
    counts = np.ones((3, 3))
    for said, expert in zip(own.densities, own.hypnograms, strict=True):
        for a, b in zip(said.labels, expert.labels, strict=True):
            if a >= 0 and b >= 0:
                counts[a, b] += 1
    expected = counts / counts.sum(axis=1, keepdims=True)
    assert (expected.argmax(axis=1) == range(3)).all()  # no label had to be made the likeliest
    np.testing.assert_allclose(count_shares(material.nights, 3), expected, atol=1e-6)


def test_a_label_that_is_mostly_wrong_stays_the_likeliest():
    night = sg.Hypnogram([0] * 60 + [1] * 40, "wnr3", 30)
    expert = sg.Hypnogram([1] * 50 + [0] * 10 + [1] * 40, "wnr3", 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        shares = count_shares(read_material([expert], [night], sg.Profile.load("human-psg-3")).nights, 3)
    assert shares[0].argmax() == 0 and shares[0, 0] > shares[0, 1] > 0.4


def test_no_row_of_a_person_was_counted_on_that_person(material):
    ready = across_groups(material)
    for night in ready.nights:
        others = [other for other in material.nights if other.group != night.group]
        scored = night.said >= 0
        np.testing.assert_array_equal(night.matrix[scored], count_shares(others, 3)[night.said[scored]])
        assert (night.matrix[scored].argmax(axis=1) == night.said[scored]).all()


def test_held_out_people_count_for_no_row_of_a_fold(material):
    for train, test in split(across_groups(material), 3, seed=0):
        assert not set(train.groups) & set(test.groups)
        shares = count_shares(train.nights, 3)
        for night in test.nights:
            np.testing.assert_array_equal(night.matrix, shares[night.said])
        for night in train.nights:
            others = [other for other in train.nights if other.group != night.group]
            np.testing.assert_array_equal(night.matrix, count_shares(others, 3)[night.said])


def test_the_fitted_profile_has_the_stagers_own_shares(own, material, report):
    labels, base = report.profile.labels, sg.Profile.load("human-psg-3").labels
    np.testing.assert_array_equal(labels.own, count_shares(material.nights, 3))
    assert (labels.shares, labels.source) == (base.shares, base.source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        theirs, other = (
            sg.decode(own.densities[0], report.profile, stager=name) for name in (HEADBAND, "another")
        )
    assert (theirs.from_labels, other.from_labels) == ("own", "typical")


def test_labels_of_a_flickering_stager_are_calmed(report):
    assert not report.steps_aside
    argmax, chosen = report.rows[0], next(row for row in report.rows if row.status == "chosen")
    assert chosen.kappa > argmax.kappa and chosen.fi_distance < argmax.fi_distance


def test_a_profile_that_refuses_labels_may_be_fitted_to_them(own):
    nights = Cohort(own.densities[:6], own.hypnograms[:6], own.groups[:6])
    profile = fit_report(nights, base="human-cardiorespiratory-3", stager=HEADBAND).profile
    assert profile.labels.refused and profile.labels.own is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        assert sg.decode(nights.densities[0], profile, stager=HEADBAND).from_labels == "own"
    with pytest.raises(InputError) as refused:
        sg.decode(nights.densities[0], profile)
    assert mentions(refused.value, HEADBAND)


def test_labels_and_probabilities_are_not_mixed(own):
    mixed = [*own.densities[:3], *cohort(3, sharpness=2.0, seed=1).densities]
    with pytest.raises(InputError, match="expected one kind"):
        sg.fit(own.hypnograms[:6], mixed, base="human-psg-3", learning_curve=False)


def test_the_command_fits_to_files_of_labels(own, tmp_path, capsys):
    for folder, nights in (("said", own.densities), ("experts", own.hypnograms)):
        (tmp_path / folder).mkdir()
        for i, night in enumerate(nights):
            (tmp_path / folder / f"n{i}.txt").write_text("\n".join(night.stages) + "\n")
    files = sorted((tmp_path / "said").iterdir())
    output = tmp_path / "ours.toml"
    fit = ("fit", *files, "--expert", tmp_path / "experts", "--base", "human-psg-3", "-o", output)
    ran = Runner(capsys)(*fit, "--stager", HEADBAND, "--no-learning-curve")
    assert ran.code == 0, ran.err
    made = sg.Profile.load(output)
    # stepping aside, it takes labels for what the base takes them
    assert (made.labels.own is None) == made.provenance["steps_aside"]
