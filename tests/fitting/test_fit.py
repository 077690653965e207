"""What `fit` chooses, proves and writes, on simulated cohorts whose answer is known."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode
from scored_nights import Cohort, certain, cohort, fit_report, partial
from stageguard.errors import StageGuardWarning
from stageguard.fitting.candidates import ARGMAX, DEFAULT
from stageguard.fitting.fit import OUTPUTS, _decide
from stageguard.fitting.judging import KAPPA, Criterion
from stageguard.guard.decode import many_changes_advice
from stageguard.measures.intervals import errors, intervals

BASE = "human-psg-3"


@pytest.fixture(scope="module")
def flickering():
    """16 nights of 8 subjects, staged epoch by epoch and overconfidently."""
    return cohort(8, 2, sharpness=2.0)


@pytest.fixture(scope="module")
def of_flickering(flickering):
    return fit_report(flickering, cohort="our lab")


@pytest.fixture(scope="module")
def own():
    """9 nights of a stager that sees REM too often."""
    scored = cohort(9, hours=6)
    densities = [partial(expert, i) for i, expert in enumerate(scored.hypnograms)]
    return Cohort(densities, scored.hypnograms, scored.groups)


@pytest.fixture(scope="module")
def report(own):
    return fit_report(own, cohort="our lab")


def row_of(report, candidate):
    return next(row for row in report.rows if row.candidate == candidate)


def test_a_stager_that_favours_a_stage_is_corrected(report, own):
    assert not report.steps_aside and (report.chosen.biases or report.chosen.totals)
    argmax, default, chosen = (row_of(report, one) for one in (ARGMAX, DEFAULT, report.chosen))
    assert report.rows[:2] == (argmax, default)
    assert chosen.kappa > max(argmax.kappa, default.kappa) + 0.1
    assert chosen.criterion == max(row.criterion for row in report.rows if row.status in ("kept", "chosen"))
    assert report.profile.calibration.biases[2] == min(report.profile.calibration.biases)
    gains = []
    for i, expert in enumerate(cohort(3, seed=7, hours=6).hypnograms):
        wrong = partial(expert, 100 + i)
        fitted, plain = (decode(wrong, p, cohort="our lab").hypnogram for p in (report.profile, BASE))
        gains.append(sg.agreement(expert, fitted).kappa - sg.agreement(expert, plain).kappa)
    assert np.mean(gains) > 0.05


def test_the_overconfidence_is_found(of_flickering):
    weak = fit_report(cohort(5, sharpness=0.7))
    temperatures = [found.profile.provenance["temperature"] for found in (of_flickering, weak)]
    assert temperatures[0] > 1.5 * temperatures[1]


def test_the_provenance_holds_the_table_and_survives_the_file(report, tmp_path):
    path = tmp_path / "lab.toml"
    report.profile.save(path)
    loaded = sg.Profile.load(path)
    assert loaded == report.profile
    made = loaded.provenance
    table = made["cross_validation"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [row["candidate"] for row in rows] == [row.candidate.name for row in report.rows]
    assert [row["kappa"] for row in rows] == pytest.approx([row.kappa for row in report.rows], rel=1e-3)
    assert made["chosen"] == report.chosen.name and made["base"]["name"] == BASE
    assert (made["n_nights"], made["n_subjects"], made["seed"]) == (9, 9, 0)
    assert made["nested"]["kappa_gain"] == pytest.approx(report.gains()["kappa"][0], rel=1e-3)
    assert loaded.cohort == "our lab" and loaded.base == sg.Profile.load(BASE)
    assert report.to_dict()["candidates"][0]["candidate"] == "argmax"
    assert mentions(many_changes_advice(loaded), "look", "night before using")


def test_cautions_of_the_base_stay_but_for_the_cohort_it_was_fitted_on(report):
    base = sg.Profile.load(BASE)
    assert base.not_for and report.profile.not_for == base.not_for
    aside = fit_report(cohort(3, base="human-psg-5", hours=2), "human-psg-5", cohort="mild OSA").profile
    assert "insomnia" in {caution.cohort for caution in aside.not_for}
    assert "sleep apnoea" not in {caution.cohort for caution in aside.not_for}


def test_the_same_seed_gives_the_same_profile_in_any_order_and_by_any_executor(flickering):
    few = flickering.without(*range(10, 16))
    order = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5]
    shuffled = Cohort(*([values[i] for i in order] for values in (few.densities, few.hypnograms, few.groups)))
    for options in ({}, {"subjects": None}):
        first, again = fit_report(few, **options), fit_report(shuffled, **options)
        assert again.profile.to_dict() == first.profile.to_dict()
        for place, i in enumerate(order):
            labels = [one.nested.decoded["fitted"] for one in (again, first)]
            assert np.array_equal(labels[0][place].hypnogram.labels, labels[1][i].hypnogram.labels)
    with ThreadPoolExecutor(2) as executor:
        assert fit_report(few, executor=executor).profile.sha256 == fit_report(few).profile.sha256
    three, others = (fit_report(few, n_folds=3, seed=seed) for seed in (0, 5))
    assert [row.kappa for row in three.rows] != [row.kappa for row in others.rows]


def test_what_is_gained_is_measured_on_nights_that_chose_nothing(report, own):
    nested, gains = report.nested, []
    for result, density, expert in zip(nested.decoded["fitted"], own.densities, own.hypnograms, strict=True):
        plain = sg.agreement(expert, sg.Hypnogram(density.argmax, expert.scheme, 30.0)).kappa
        gains.append(sg.agreement(expert, result.hypnogram).kappa - plain)
    mean, error = report.gains()["kappa"]
    assert mean == pytest.approx(np.mean(gains))
    assert error == pytest.approx(np.std(gains, ddof=1) / 3)
    assert len(nested.chosen) == 5


def test_the_errors_on_held_out_nights_are_kept_for_intervals(of_flickering, flickering):
    held = of_flickering.profile.intervals
    assert held["n_nights"] == 16
    outputs = of_flickering.nested.decoded["default" if of_flickering.steps_aside else "fitted"]
    tst = [
        sg.sleep_statistics(expert).tst_minutes - sg.sleep_statistics(result).tst_minutes
        for expert, result in zip(flickering.hypnograms, outputs, strict=True)
    ]
    by_person = sorted(sorted(pair) for pair in zip(tst[::2], tst[1::2], strict=True))
    assert np.array(held["errors"]["tst_minutes"]) == pytest.approx(np.array(by_person), abs=1e-3)
    n_covered = 0
    for i, value in enumerate(tst):
        others = [abs(v) for j, v in enumerate(tst) if j // 2 != i // 2]
        n_covered += abs(value) <= max(others) + 1e-9  # of seven people the largest
    assert held["coverage"]["tst_minutes"] == pytest.approx(n_covered / 16, abs=1e-3)
    assert 0 <= held["model_coverage"]["tst_minutes"] <= 1
    found = intervals(decode(flickering.densities[0], of_flickering.profile, cohort="our lab"))
    assert found["tst_minutes"].high - found["tst_minutes"].value == pytest.approx(
        max(map(abs, tst)), abs=1e-3
    )


def test_where_nothing_is_better_the_profile_is_the_default():
    scored = cohort(5)
    perfect = [certain(expert) for expert in scored.hypnograms]
    with pytest.warns(StageGuardWarning) as caught:
        found = sg.fit_report(scored.hypnograms, perfect, base=BASE, subjects=scored.groups)
    assert len(caught) == 1 and mentions(caught[0].message, BASE, "the default is kept")
    assert found.steps_aside and found.profile.provenance["steps_aside"] and found.chosen == DEFAULT
    base = sg.Profile.load(BASE)
    for name in ("strength", "clock", "transitions", "rare", "not_for", "calibration", "joint"):
        assert getattr(found.profile, name) == getattr(base, name), name
    for density in perfect:
        plain = decode(density, base)
        assert np.array_equal(decode(density, found.profile).hypnogram.labels, plain.hypnogram.labels)
    kept = found.profile.intervals["errors"]["waso_minutes"]
    made = errors(scored.hypnograms, [decode(density, base) for density in perfect])
    assert sorted(np.concatenate(kept)) == pytest.approx(sorted(made["waso_minutes"]), abs=1e-3)


def test_errors_are_of_whole_outputs_where_the_expert_left_epochs_out():
    """New nights are measured with epochs an expert would leave out, so that these are errors too."""
    scored = cohort(5, seed=1)
    experts = []
    for expert in scored.hypnograms:
        labels = expert.labels.copy()
        labels[100:120] = -1
        experts.append(replace(expert, labels=labels))
    found = fit_report(Cohort(scored.densities, experts, scored.groups))
    outputs = found.nested.decoded["default" if found.steps_aside else "fitted"]
    apart = [
        sg.sleep_statistics(expert).tst_minutes - sg.sleep_statistics(output).tst_minutes
        for expert, output in zip(experts, outputs, strict=True)
    ]
    kept = found.profile.intervals["errors"]["tst_minutes"]
    assert sorted(np.concatenate(kept)) == pytest.approx(sorted(apart), abs=1e-3)


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ((0.02, 0.03, 0.01, 0.02), None),
        ((0.02, -0.03, 0.01, 0.02), ("criterion", "+0.005")),  # a gain within its error
        ((-0.02, -0.03, -0.01, -0.02), ("kappa", "-0.020", "0.004")),
    ],
)
def test_a_choice_that_harms_nights_held_out_is_taken_back(report, gains, words):
    scores = np.zeros((len(OUTPUTS), 4, report.nested.scores.shape[2]))
    scores[:, :, KAPPA] = [[0.4] * 4, [0.5] * 4, [0.5 + gain for gain in gains]]
    nested = replace(report.nested, scores=scores, subjects=tuple("abcd"))
    chosen, reason = _decide(report.rows, nested, Criterion())
    assert chosen == (report.chosen if words is None else DEFAULT)
    assert words is None or mentions(reason, "the default is kept", *words)


def test_few_subjects_compare_little_and_are_warned_of():
    scored = cohort(3, sharpness=2.0)
    with pytest.warns(StageGuardWarning) as caught:
        found = sg.fit_report(scored.hypnograms, scored.densities, base=BASE, subjects=scored.groups)
    assert any(mentions(one.message, 3, "few") for one in caught)
    assert mentions(found.notes, "match", 3, 15)
    assert found.nested is not None
    assert fit_report(cohort(2)).nested is None  # two subjects cannot be split twice
    assert fit_report(cohort(3), n_folds=2).nested is None


def test_a_stager_that_knows_nothing_is_left_alone_and_said_to():
    scored = cohort(6, sharpness=2.0)
    flat = [np.full_like(density.probabilities, 1 / 3) for density in scored.densities]
    with pytest.warns(StageGuardWarning) as caught:
        found = sg.fit_report(scored.hypnograms, flat, base=BASE, subjects=scored.groups)
    assert any(mentions(one.message, "0.000", "well", 0) for one in caught)
    assert found.steps_aside and mentions(found.reason, "hardly more than", "chance")


def test_several_experts_of_a_night_are_merged_and_all_counted():
    scored = cohort(5, hours=3)
    rng, panels = np.random.default_rng(0), []
    for expert in scored.hypnograms:
        late, nearly = expert.labels.copy(), expert.labels.copy()
        late[1:] = np.where(rng.random(len(late) - 1) < 0.3, expert.labels[:-1], late[1:])
        nearly[0] = -1
        panels.append([expert, *(sg.Hypnogram(labels, expert.scheme, 30.0) for labels in (nearly, late))])
    found, alone = fit_report(Cohort(scored.densities, panels, scored.groups)), fit_report(scored)
    assert found.profile.provenance["n_scorings"] == 15
    assert found.rows[0].kappa == pytest.approx(alone.rows[0].kappa)  # the consensus is the first two's
    assert found.rows[0].fi_distance != alone.rows[0].fi_distance  # the fragmentation is the mean of three


def test_hypnograms_alone_give_transitions_and_bands():
    scored = cohort(12, hours=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sg.fit_report(scored.hypnograms, base=BASE, subjects=scored.groups)
    base, profile = sg.Profile.load(BASE), found.profile
    assert found.rows == () and found.chosen is None and not found.steps_aside
    assert profile.transitions != base.transitions
    assert profile.calibration == base.calibration
    mean = np.mean([sg.validity(h, BASE).indicators["fragmentation_index"].value for h in scored.hypnograms])
    expected = (12 * mean + 3 * base.strength.fi_target) / 15
    assert profile.strength == replace(base.strength, fi_target=profile.strength.fi_target)
    assert profile.strength.fi_target == pytest.approx(expected, rel=1e-3)
    assert profile.bands["mean_bout_minutes_R"].source.endswith("over 12 expert nights")
    assert "without probabilities" in profile.summary == found.reason
    one = sg.fit(scored.hypnograms[:1], base=BASE)
    assert one.bands["fragmentation_index"] == base.bands["fragmentation_index"]
    assert one.transitions != base.transitions


def test_gaps_and_finer_stages_are_no_obstacle():
    scored = cohort(5, base="human-psg-5", hours=3)
    densities, experts = [], []
    for density, expert in zip(scored.densities, scored.hypnograms, strict=True):
        rows, labels = density.probabilities.copy(), expert.labels.copy()
        rows[100:104], labels[200:230] = np.nan, -1
        densities.append(sg.Hypnodensity(rows, density.scheme, 30.0))
        experts.append(sg.Hypnogram(labels, expert.scheme, 30.0))
    found = fit_report(Cohort(densities, experts, scored.groups))
    assert found.profile.scheme.name == "wnr3"
    assert found.n_scored_epochs == 5 * 330


def test_real_watch_nights_are_not_harmed(data_dir):
    """Nine nights of Sleep-Accel, staged from movement alone by a rule with two numbers in it."""
    densities, experts = [], []
    base = sg.Profile.load("human-actigraphy-2")
    with np.load(data_dir / "sleep-accel" / "sleep_accel_walch_features.npz") as archive:
        for subject in archive.files[:9]:
            rows = archive[subject]
            place = np.rint(rows[:, 0] * 120).astype(int)
            place -= place[0]
            wake = 1 / (1 + np.exp(-0.8 * (np.log1p(rows[:, 1]) - 2.5)))
            probabilities = np.full((place[-1] + 1, 2), np.nan)
            probabilities[place] = np.c_[wake, 1 - wake]
            labels = np.full(place[-1] + 1, -1, dtype=np.int8)
            labels[place] = rows[:, 5] > 0
            densities.append(sg.Hypnodensity(probabilities, base.scheme, 30.0))
            experts.append(sg.Hypnogram(labels, base.scheme, 30.0))
    found = fit_report(Cohort(densities, experts, archive.files[:9]), "human-actigraphy-2")
    gain, error = found.gains("default")["kappa"]
    assert gain > -0.02 and error < 0.2
    chosen, default = (next(row for row in found.rows if row.status == "chosen"), row_of(found, DEFAULT))
    assert chosen.kappa >= default.kappa and chosen.criterion >= default.criterion
