"""What `fit` chooses, proves and writes, on simulated cohorts whose answer is known."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.stats

import stageguard as sg
from messages import each_mentions, mentions, naming
from nights import decode
from scored_nights import Cohort, certain, cohort, fit_report, shifted
from stageguard import schema
from stageguard.errors import StageGuardWarning
from stageguard.fitting import candidates
from stageguard.fitting.candidates import ARGMAX, Candidate
from stageguard.fitting.cross_validation import Selection, split
from stageguard.fitting.document import _cautions, _effect
from stageguard.fitting.fit import decide
from stageguard.fitting.judging import Criterion, judge
from stageguard.fitting.learning_curve import CurvePoint, LearningCurve
from stageguard.fitting.material import read_material
from stageguard.fitting.scoring import OutputScore, Scores
from stageguard.fitting.training import FitBase, train
from stageguard.night.period import period_of
from stageguard.profile.rules import RULES
from stageguard.profile.rules.band import BandRule
from stageguard.profile.rules.rule import USUAL, Choice, Setting, StrengthRule, Trial, calm
from stageguard.report.guard_words import many_changes_advice

BASE = "human-psg-3"


@pytest.fixture(scope="module")
def flickering():
    """16 nights of 8 subjects, staged epoch by epoch and overconfidently."""
    return cohort(8, 2, sharpness=2.0)


@pytest.fixture(scope="module")
def report(flickering):
    return fit_report(flickering, cohort="our lab")


def kappas(own: Cohort, profile):
    return [
        sg.agreement(expert, decode(density, profile, cohort=profile.cohort).hypnogram).kappa
        for density, expert in zip(own.densities, own.hypnograms, strict=True)
    ]


def test_a_flickering_stager_is_calmed_to_the_experts_fragmentation(report, flickering):
    assert not report.steps_aside
    argmax, chosen = report.rows[0], next(row for row in report.rows if row.status == "chosen")
    assert chosen.kappa > argmax.kappa + 0.05
    assert chosen.fi_distance < argmax.fi_distance / 3
    assert chosen.criterion == max(row.criterion for row in report.rows if row.status in ("kept", "chosen"))
    fresh = cohort(4, seed=7, sharpness=2.0)
    plain = [
        sg.agreement(e, sg.Hypnogram(d.argmax, e.scheme, 30.0)).kappa
        for d, e in zip(fresh.densities, fresh.hypnograms, strict=True)
    ]
    assert np.mean(kappas(fresh, report.profile)) > np.mean(plain) + 0.05


def test_the_overconfidence_is_found(report):
    weaker = fit_report(cohort(5, sharpness=0.7))
    assert report.profile.calibration.temperature > 1.5 * weaker.profile.calibration.temperature


def test_every_kind_of_candidate_is_compared(report):
    rules = {row.candidate.rule for row in report.rows}
    assert rules == {"argmax", "default", "target", "band", "fixed", "minimum", "durations", "match"}
    assert report.rows[0].candidate == ARGMAX
    assert {row.candidate.trial.prior_exponent for row in report.rows} == {0.0, 0.1, 0.25, 0.5}


def test_the_profile_decodes_as_the_candidate_did(report, flickering):
    """Cross-validation calibrates once and decodes probabilities; the profile calibrates night by night."""
    base = sg.Profile.load(BASE)
    material = read_material(flickering.hypnograms, flickering.densities, base, groups=flickering.groups)
    training = train(FitBase(base, 30.0, ("W", "N")), material)
    for candidate in (
        Candidate("band"),
        Candidate("target"),
        Candidate("argmax", clock=True),
        Candidate("fixed", 0.3, clock=True),
        Candidate("band", trial=LIFTED, biases=True),
        Candidate("fixed", 0.3),
        Candidate("durations", 0.5),
        Candidate("match", trial=Trial(prior_exponent=0.25, rem_epochs=3)),
        Candidate("match", trial=Trial(prior_exponent=0.5), biases=True),
    ):
        used = training.biased if candidate.biases else training.temperature
        calibration = {"temperature": used.temperature}
        if used.biases is not None:
            calibration["biases"] = dict(zip(base.scheme.names, used.biases, strict=True))
        profile = training.profile(candidate).replace(calibration=calibration)
        found = training.decode(candidate, material)
        for night, labels in zip(material.nights, found, strict=True):
            decoded = decode(flickering.densities[night.number], profile).hypnogram.labels
            assert np.mean(decoded != labels) < 0.002, candidate


def test_the_provenance_holds_the_table_and_survives_the_file(report, tmp_path):
    path = tmp_path / "lab.toml"
    report.profile.save(path)
    loaded = sg.Profile.load(path)
    assert loaded == report.profile
    made = loaded.provenance
    rows = [
        dict(zip(made["cross_validation"]["columns"], row, strict=True))
        for row in made["cross_validation"]["rows"]
    ]
    assert [row["candidate"] for row in rows] == [row.candidate.name for row in report.rows]
    assert [row["kappa"] for row in rows] == pytest.approx([row.kappa for row in report.rows], rel=1e-3)
    assert sum(row["status"] == "chosen" for row in rows) == 1
    assert made["chosen"] == report.chosen.name
    assert made["base"]["name"] == BASE
    assert (made["n_nights"], made["n_subjects"], made["seed"]) == (16, 8, 0)
    assert made["complete_bouts_counted"]["R"] == report.n_complete_bouts["R"] > 0
    assert made["nested"]["kappa_gain"] == pytest.approx(report.gains()["kappa"][0], rel=1e-3)
    assert loaded.cohort == "our lab"
    assert loaded.bands["fragmentation_index"].source == "5th to 95th percentile over 16 expert nights"
    assert report.to_dict()["candidates"][0]["candidate"] == "argmax"


def test_cautions_say_what_is_done_to_the_cohorts_they_are_about(report, flickering):
    base = sg.Profile.load(BASE)
    assert base.not_for and report.profile.not_for == base.not_for  # which decodes other cohorts
    anyones = replace(report.profile, cohort=None)
    for entry in _cautions(base, None, anyones):
        assert mentions(entry["reason"], "fitted", "is not said")
        assert _effect(anyones) in entry["reason"]
        assert "0.0986" not in entry["reason"]  # the limit of the base


def test_a_profile_fitted_on_a_cohort_has_no_caution_for_it():
    base = sg.Profile.load("human-psg-5")
    kept = {entry["cohort"] for entry in _cautions(base, "mild OSA", base)}
    assert "insomnia" in kept
    assert "sleep apnoea" not in kept


def test_what_a_profile_does_is_told_by_its_fields():
    base = sg.Profile.load(BASE)
    band = base.replace(strength={"rule": "band", "fi_target": 0.05, "cap": 2.0})
    assert mentions(_effect(band), "smooths", "0.1")
    match = base.replace(strength={"rule": "match", "fi_target": 0.05})
    assert mentions(_effect(match), "brings", "0.05")
    weight = base.replace(transition_weight=0.3, min_bout_seconds={"R": 90})
    assert mentions(_effect(weight), "decodes", "0.3")
    assert mentions(_effect(base.replace(transition_weight=0.0)), "adds no rule", "evidence")


def test_a_profile_chosen_on_scored_nights_is_not_said_to_misfit(report):
    assert mentions(many_changes_advice(report.profile), "look", "night before using")
    assert mentions(many_changes_advice(sg.Profile.load(BASE)), "the stager or", "profile")


def test_the_same_seed_gives_the_same_profile(flickering):
    own = flickering.without(*range(10, 16))
    first = fit_report(own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StageGuardWarning)
        again = sg.fit(own.hypnograms, own.densities, base=BASE, groups=own.groups, learning_curve=False)
    assert again.sha256 == first.profile.sha256
    three, others = (fit_report(own, n_folds=3, seed=seed) for seed in (0, 5))
    assert [row.kappa for row in three.rows] != [row.kappa for row in others.rows]


@pytest.mark.parametrize("named", [True, False])
def test_the_order_of_the_nights_does_not_matter(flickering, named):
    own = flickering.without(*range(10, 16))
    order = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5]
    shuffled = Cohort(*([values[i] for i in order] for values in (own.densities, own.hypnograms, own.groups)))
    options = {} if named else {"groups": None}
    first, again = fit_report(own, **options), fit_report(shuffled, **options)
    assert again.profile.to_dict() == first.profile.to_dict()
    assert [night.number for night in again.nested.nights.nights] == list(range(10))
    for place, i in enumerate(order):
        assert np.array_equal(again.nested.labels[place], first.nested.labels[i])
    assert again.nested.scores.kappa[1].tolist() == first.nested.scores.kappa[1, order].tolist()


def test_what_is_gained_is_measured_on_nights_that_chose_nothing(report, flickering):
    nested = report.nested
    assert [night.number for night in nested.nights.nights] == list(range(16))
    gains = []
    for labels, density, expert in zip(
        nested.labels, flickering.densities, flickering.hypnograms, strict=True
    ):
        found = sg.agreement(expert, sg.Hypnogram(labels, expert.scheme, 30.0)).kappa
        plain = sg.agreement(expert, sg.Hypnogram(density.argmax, expert.scheme, 30.0)).kappa
        gains.append(found - plain)
    by_subject = np.array(gains).reshape(8, 2).mean(axis=1)
    mean, error = report.gains()["kappa"]
    assert mean == pytest.approx(by_subject.mean())
    assert error == pytest.approx(by_subject.std(ddof=1) / np.sqrt(8))


def test_the_errors_on_held_out_nights_are_kept_for_intervals(report, flickering):
    held = report.profile.intervals
    assert held["n_nights"] == 16
    experts = flickering.hypnograms
    tst = [
        sg.sleep_statistics(expert).tst_minutes
        - sg.sleep_statistics(sg.Hypnogram(own, expert.scheme, 30.0)).tst_minutes
        for expert, own in zip(experts, report.nested.labels, strict=True)
    ]
    by_person = sorted(sorted(pair) for pair in zip(tst[::2], tst[1::2], strict=True))
    assert np.array(held["errors"]["tst_minutes"]) == pytest.approx(np.array(by_person), abs=1e-3)
    n_covered = 0
    for i, value in enumerate(tst):
        others = [abs(v) for j, v in enumerate(tst) if j // 2 != i // 2]
        n_covered += abs(value) <= max(others) + 1e-9  # of seven people the largest
    assert held["coverage"]["tst_minutes"] == pytest.approx(n_covered / 16, abs=1e-3)
    supported = report.profile.provenance["supported_minimum_bout_seconds"]
    assert held["min_first_rem_seconds"] == max(120.0, supported["R"])
    from stageguard.measures.intervals import intervals

    hits = []
    seeds = [night.seed for night in report.nested.nights.nights]
    for density, expert, profile, seed in zip(
        flickering.densities, experts, report.nested.profiles, seeds, strict=True
    ):
        drawn = intervals(decode(density, profile), method="model", n=100, seed=seed)["tst_minutes"]
        hits.append(drawn.low <= sg.sleep_statistics(expert).tst_minutes <= drawn.high)
    assert held["model_coverage"]["tst_minutes"] == pytest.approx(np.mean(hits), abs=1e-3)
    found = intervals(decode(flickering.densities[0], report.profile, cohort="our lab"))
    assert found["tst_minutes"].high - found["tst_minutes"].value == pytest.approx(
        max(map(abs, tst)), abs=1e-3
    )


def test_no_group_is_on_both_sides_of_a_split(flickering):
    base = sg.Profile.load(BASE)
    material = read_material(flickering.hypnograms, flickering.densities, base, groups=flickering.groups)
    folds = split(material, 5, seed=3)
    held = [group for _, test in folds for group in test.groups]
    assert sorted(held) == sorted(material.groups)
    for training_nights, test in folds:
        assert not set(training_nights.groups) & set(test.groups)
        assert len(training_nights.nights) + len(test.nights) == 16
    assert [test.groups for _, test in split(material, 5, seed=3)] == [test.groups for _, test in folds]
    assert [test.groups for _, test in split(material, 5, seed=4)] != [test.groups for _, test in folds]


def test_where_nothing_is_better_the_profile_is_the_default():
    own = cohort(5)
    perfect = Cohort([certain(expert) for expert in own.hypnograms], own.hypnograms, own.groups)
    with pytest.warns(StageGuardWarning, match=naming(BASE, "It steps aside")) as caught:
        found = sg.fit_report(
            perfect.hypnograms, perfect.densities, base=BASE, groups=perfect.groups, learning_curve=False
        )
    assert len(caught) == 1
    assert found.steps_aside and found.profile.provenance["steps_aside"]
    assert found.chosen == Candidate("default", clock=True)
    base = sg.Profile.load(BASE)
    for name in ("strength", "clock", "transitions", "rare", "not_for", "calibration", "joint"):
        assert getattr(found.profile, name) == getattr(base, name), name
    for density in perfect.densities:
        plain = decode(density, base)
        assert np.array_equal(decode(density, found.profile).hypnogram.labels, plain.hypnogram.labels)
    errors = sg.measures.intervals.errors
    kept = found.profile.intervals["errors"]["waso_minutes"]
    made = errors(perfect.hypnograms, [decode(density, base) for density in perfect.densities])
    assert sorted(np.concatenate(kept)) == pytest.approx(sorted(made["waso_minutes"]), abs=1e-3)


def test_from_ten_nights_on_the_default_is_tuned_on_training_nights_alone(flickering):
    base = sg.Profile.load(BASE)
    material = read_material(flickering.hypnograms, flickering.densities, base, groups=flickering.groups)
    timed, untimed = Candidate("default", clock=True), Candidate("default")
    for training_nights, test in split(material, 3, seed=0):
        training = train(FitBase(base, 30.0), training_nights)
        densities = [flickering.densities[night.number] for night in training_nights.nights]
        tuned = sg.tune(densities, base)
        assert training.profile(timed).strength == tuned.strength != base.strength
        assert training.profile(untimed).strength == tuned.strength
        for candidate, profile in ((timed, tuned), (untimed, tuned.replace(clock=None))):
            for night, labels in zip(test.nights, training.decode(candidate, test), strict=True):
                plain = decode(flickering.densities[night.number], profile, stager="any")
                assert np.array_equal(labels, plain.hypnogram.labels)
    few = train(FitBase(base, 30.0), material.of_groups(material.groups[:4]))
    assert few.profile(timed) is base


def test_biases_are_used_where_they_repair_a_shift_even_with_two_nights():
    own = cohort(2, hours=6, sharpness=1.5)
    wrong = Cohort([shifted(d, (1, 1, 200)) for d in own.densities], own.hypnograms, own.groups)
    found = fit_report(wrong)
    assert found.chosen.biases
    assert found.profile.calibration.biases[2] == min(found.profile.calibration.biases)
    before = next(row for row in found.rows if row.candidate == ARGMAX)
    after = next(row for row in found.rows if row.status == "chosen")
    assert after.kappa > before.kappa + 0.1
    assert found.nested is None  # two subjects cannot be split twice
    assert {row.candidate.rule for row in found.rows} == {"argmax", "default", "target", "band"}


def weak_and_balanced(n_subjects=6, n_epochs=400):
    """A weak stager of rare wake, trained as if both stages were as frequent."""
    rng = np.random.default_rng(0)
    base = sg.Profile.load("human-actigraphy-2")
    densities, hypnograms = [], []
    for _ in range(n_subjects):
        truth = np.repeat((rng.random(n_epochs // 4) > 0.12).astype(np.int8), 4)
        seen = rng.normal(size=n_epochs) + 1.1 * (truth - 0.5)
        wake = 1 / (1 + np.exp(1.1 * seen))  # right if wake were half of the night
        densities.append(sg.Hypnodensity(np.c_[wake, 1 - wake], base.scheme, 30.0))
        hypnograms.append(sg.Hypnogram(truth, base.scheme, 30.0))
    return Cohort(densities, hypnograms, [f"s{i}" for i in range(n_subjects)])


def test_biases_that_only_make_the_stages_likelier_are_left_out():
    own = weak_and_balanced()
    found = fit_report(own, "human-actigraphy-2")
    assert not any(row.candidate.biases for row in found.rows)
    made = found.profile.provenance["calibration"]
    assert made["biases_kappa_gain"] < -0.05
    assert mentions(made["biases"], "kappa", "does not gain")
    # and yet they make the experts' stages likelier
    from stageguard.fitting.calibration import ScoredEpochs, fit_biases, fit_temperature
    from stageguard.guard.evidence import log_probabilities

    epochs = ScoredEpochs([d.probabilities for d in own.densities], [h.labels for h in own.hypnograms])
    likelihood = [
        np.mean(
            [
                log_probabilities(d.probabilities, c)[np.arange(400), h.labels].mean()
                for d, h in zip(own.densities, own.hypnograms, strict=True)
            ]
        )
        for c in (fit_temperature(epochs), fit_biases(epochs))
    ]
    assert likelihood[1] > likelihood[0] + 0.05


def checked(gains, report):
    """The choice of a report, with other gains over the default on the nights held out."""
    kappa = np.array([[0.4] * len(gains), [0.5] * len(gains), [0.5 + gain for gain in gains]])
    scores = Scores(kappa, kappa, kappa, *(np.zeros_like(kappa),) * 2)
    nights = replace(report.nested.nights, nights=report.nested.nights.nights[:8:2])
    rows = tuple(row for row in report.rows)
    picked = Selection(rows, report.chosen, FitBase(sg.Profile.load(BASE), 30.0), (0.0, 0.0))
    return decide(picked, replace(report.nested, nights=nights, scores=scores), None, Criterion())


def test_a_choice_that_harms_nights_held_out_is_taken_back(report):
    kept = checked([0.02, 0.03, 0.01, 0.02], report)
    assert kept.candidate == report.chosen
    by_chance = checked([0.02, -0.03, 0.01, 0.02], report)  # a gain within its error
    assert by_chance.steps_aside and mentions(by_chance.reason, "criterion", "+0.005")
    back = checked([-0.02, -0.03, -0.01, -0.02], report)
    assert back.steps_aside and back.candidate == Candidate("default", clock=True)
    assert mentions(back.reason, "-0.020", "0.004")


def test_errors_are_of_whole_outputs_where_the_expert_left_epochs_out():
    """New nights are measured with epochs an expert would leave out, so that these are errors too."""
    own = cohort(5, seed=1)
    labels = [expert.labels.copy() for expert in own.hypnograms]
    for row in labels:
        row[100:120] = -1
    experts = [replace(e, labels=row) for e, row in zip(own.hypnograms, labels, strict=True)]
    found = fit_report(Cohort(own.densities, experts, own.groups))
    assert found.steps_aside
    outputs = [
        decode(density, profile)
        for density, profile in zip(own.densities, found.nested.default_profiles, strict=True)
    ]
    apart = [
        sg.sleep_statistics(expert).tst_minutes - sg.sleep_statistics(output).tst_minutes
        for expert, output in zip(experts, outputs, strict=True)
    ]
    kept = found.profile.intervals["errors"]["tst_minutes"]
    assert sorted(np.concatenate(kept)) == pytest.approx(sorted(apart), abs=1e-3)


def test_match_needs_fifteen_nights():
    few = fit_report(cohort(7, 2))
    assert not any(row.candidate.rule == "match" for row in few.rows)
    assert mentions(few.notes, "match", 14, 15)


def test_few_subjects_compare_little_and_are_warned_of():
    own = cohort(3, sharpness=2.0)
    with pytest.warns(StageGuardWarning) as caught:
        found = sg.fit_report(
            own.hypnograms, own.densities, base=BASE, groups=own.groups, learning_curve=False
        )
    said = [str(one.message) for one in caught]
    assert sum(mentions(text, 3, "target") for text in said) == 1
    assert {row.candidate.rule for row in found.rows} == {"argmax", "default", "target", "band"}
    assert found.nested is not None


LIFTED = BandRule.trials(has_rem=True)[1]
PLAIN = (Candidate("band"), Candidate("match"), Candidate("match", trial=Trial(rem_epochs=3)))
FIXED = Candidate("fixed", 0.1)


def rows_for(kappa, accuracy, distance, criterion, errors=(1.0,) * 4):
    scores = Scores.of(
        [
            [OutputScore(k, a, 0.1, 0.1 + d, (e,))] * 2
            for k, a, d, e in zip(kappa, accuracy, distance, errors, strict=True)
        ]
    )
    candidates = [ARGMAX, *PLAIN]
    return [row.status for row in judge(candidates, scores, ["a", "b"], criterion, ARGMAX)]


@dataclass(frozen=True, slots=True)
class HalfwayRule(StrengthRule):
    """A rule of somebody else: halve the fragmentation of every night."""

    rule = "halfway"
    share: float = schema.number(0.5, low=0, high=1)

    def choose(self, curve):
        weight, fi = calm(curve, self.share * curve.fi, None, curve.fi)
        return Choice("halfway", Setting(weight), "lowered", curve.fi, fi)

    def describe(self):
        return f"per recording, to {self.share:g} of its fragmentation"

    @classmethod
    def trials(cls, *, has_rem):
        return USUAL, Trial((("share", 0.25),))


def test_a_fit_tries_a_rule_that_only_its_own_file_knows(monkeypatch):
    monkeypatch.setitem(RULES, "halfway", HalfwayRule)
    monkeypatch.setattr(candidates, "STRENGTH_RULES", [*candidates.STRENGTH_RULES, HalfwayRule])
    found = fit_report(cohort(6, hours=2, sharpness=0.7))
    tried = [row.candidate for row in found.rows if row.candidate.rule == "halfway"]
    assert [candidate.name for candidate in tried[:2]] == ["halfway", "halfway, share 0.25"]
    assert all(0 < row.fi < found.rows[0].fi for row in found.rows if row.candidate in tried)
    shares = {row.candidate.name: row.fi for row in found.rows}
    assert shares["halfway, share 0.25"] < shares["halfway"]


def test_the_clock_is_tried_with_the_best_rule_alone(report):
    timed = [row.candidate for row in report.rows if row.candidate.clock]
    assert Candidate("argmax", clock=True) in timed
    assert 1 < len(timed) <= 3
    assert all(
        replace(candidate, clock=False) in [row.candidate for row in report.rows] for candidate in timed
    )
    assert (report.profile.clock is not None) == report.chosen.clock
    assert all(name.endswith("with the clock") for name in (candidate.name for candidate in timed))


def test_a_base_without_a_clock_has_no_candidate_with_one():
    base = sg.Profile.load(BASE).replace(clock=None)
    assert not any(row.candidate.clock for row in fit_report(cohort(2), base=base).rows)


def in_period(density):
    """The probabilities of the sleep period of a stager's own choice."""
    own = density.probabilities.argmax(axis=1).astype(np.int8)
    return density.probabilities[slice(*period_of(own, 0, density.epoch_seconds))]


def test_match_keeps_half_of_the_differences_between_people(flickering):
    base = sg.Profile.load(BASE)
    material = read_material(flickering.hypnograms, flickering.densities, base, groups=flickering.groups)
    training = train(FitBase(base, 30.0), material)
    labels = [in_period(density).argmax(axis=1) for density in flickering.densities]
    indices = [np.mean(own[1:] != own[:-1]) for own in labels]
    for exponent in (0.5, 0.0, 1.0):
        profile = training.profile(Candidate("match", trial=Trial(refinement=(("exponent", exponent),))))
        assert profile.strength.stager_fi == pytest.approx(np.median(indices), rel=1e-3)
        for density, fi in zip(flickering.densities, indices, strict=True):
            aim = profile.strength.fi_target * (fi / np.median(indices)) ** exponent
            assert decode(density, profile).strength.fi_low == pytest.approx(aim, rel=1e-3)


@pytest.mark.parametrize(("factor", "uses"), [(4, False), (60, True)])
def test_few_subjects_take_biases_only_for_a_gain_of_a_tenth_of_kappa(factor, uses):
    own = cohort(3, hours=4, sharpness=1.5)
    wrong = Cohort([shifted(d, (1, 1, factor)) for d in own.densities], own.hypnograms, own.groups)
    found = fit_report(wrong)
    gain = found.profile.provenance["calibration"]["biases_kappa_gain"]
    assert gain > 0.01 and (gain >= 0.1) == uses
    assert any(row.candidate.biases for row in found.rows) == uses


def test_candidates_below_argmax_are_dropped_before_the_best_is_chosen():
    kappa, distance = (0.5, 0.49, 0.51, 0.52), (0.1, 0.0, 0.01, 0.05)
    accuracy = (0.8, 0.9, 0.79, 0.8)
    # criterion 0.3, 0.49, 0.49, 0.42: the second would tie, but falls below argmax's kappa
    assert rows_for(kappa, accuracy, distance, Criterion()) == [
        "kept",
        "kappa below the default",
        "chosen",
        "kept",
    ]
    assert rows_for(kappa, accuracy, distance, Criterion(keep_accuracy=True)) == [
        "kept",
        "kappa below the default",
        "accuracy below the default",
        "chosen",
    ]
    assert rows_for(kappa, accuracy, distance, Criterion(0.0)) == [
        "kept",
        "kappa below the default",
        "kept",
        "chosen",
    ]
    # errors of a tenth more than the next one's cost 0.03 of kappa: more than the 0.01 it has more
    errors = (20.0, 20.0, 19.0, 21.0)
    assert rows_for(kappa, accuracy, distance, Criterion(0.0), errors)[2] == "chosen"
    assert rows_for(kappa, accuracy, distance, Criterion(0.0, 0.0), errors)[3] == "chosen"
    assert rows_for((0.5,) * 4, accuracy, (0.1,) * 4, Criterion()) == [
        "chosen",
        *["gain within its error"] * 3,
    ]


def test_what_is_not_plain_must_surely_be_better_than_the_best_plain_one():
    def judged(*gains, other=FIXED):
        rows = [
            [OutputScore(0.5, 0.8, 0.1, 0.1)] * len(gains),
            [OutputScore(0.6, 0.8, 0.1, 0.1)] * len(gains),
            [OutputScore(0.6 + gain, 0.8, 0.1, 0.1) for gain in gains],
        ]
        subjects = [str(i) for i in range(len(gains))]
        found = judge([ARGMAX, Candidate("match"), other], Scores.of(rows), subjects, Criterion(), ARGMAX)
        return [row.status for row in found]

    assert judged(0.02, 0.03, 0.02, 0.03) == ["kept", "kept", "chosen"]
    # the same on the mean: surely better than argmax, but not than the plain one
    assert judged(-0.05, 0.10, -0.03, 0.08) == ["kept", "chosen", "not surely better"]
    assert judged(-0.05, 0.10, -0.03, 0.08, other=Candidate("band")) == ["kept", "kept", "chosen"]
    shares = Candidate("match", trial=Trial(prior_exponent=0.5))
    assert judged(-0.05, 0.10, -0.03, 0.08, other=shares)[2] == "not surely better"


@pytest.mark.parametrize(
    "shifting",
    [
        Candidate("band", trial=LIFTED),
        Candidate("band", totals=0.5),
        Candidate("band", biases=True),
        Candidate("match", trial=Trial(prior_exponent=0.1)),
    ],
    ids=lambda candidate: candidate.name,
)
def test_evidence_is_shifted_between_stages_only_where_kappa_surely_gains(shifting):
    def status(candidate, *gains):
        rows = [
            [OutputScore(0.5, 0.8, 0.2, 0.1)] * len(gains),
            [OutputScore(0.5 + gain, 0.8, 0.15, 0.1) for gain in gains],
        ]
        subjects = [str(i) for i in range(len(gains))]
        return judge([ARGMAX, candidate], Scores.of(rows), subjects, Criterion(), ARGMAX)[1].status

    # fragmentation is nearer the expert's throughout, kappa higher on the mean
    gains = np.array([0.01, 0.05, 0.03, 0.09, 0.0])
    assert scipy.stats.ttest_1samp(gains, 0.0).pvalue > 0.05
    assert status(Candidate("band"), *gains) == "chosen"
    assert mentions(status(shifting, *gains), "kappa", "not surely gained")
    surer = gains + 0.01
    assert scipy.stats.ttest_1samp(surer, 0.0).pvalue < 0.05
    assert status(shifting, *surer) == "chosen"


def test_half_of_the_differences_between_people_are_kept_unless_less_or_more_is_surely_better():
    def judged(*gains):
        kappa = [0.5, 0.6, 0.61]
        rows = [[OutputScore(value, 0.8, 0.1, 0.1)] * len(gains) for value in kappa]
        rows.append([OutputScore(0.6 + gain, 0.8, 0.1, 0.1) for gain in gains])
        half = Candidate("match")
        other = Candidate("match", trial=Trial(refinement=(("exponent", 1.0),)))
        candidates = [ARGMAX, half, Candidate("target"), other]
        subjects = [str(i) for i in range(len(gains))]
        return [row.status for row in judge(candidates, Scores.of(rows), subjects, Criterion(), ARGMAX)]

    assert judged(0.02, 0.03, 0.02, 0.03) == ["kept", "kept", "kept", "chosen"]
    assert judged(-0.05, 0.10, -0.03, 0.08) == ["kept", "kept", "chosen", "not surely better"]


def test_errors_are_multiples_of_argmax_s_mean_of_a_step_at_least():
    nan = float("nan")
    rows = [
        [OutputScore(0.5, 0.8, 0.1, 0.1, (10.0, 0.0)), OutputScore(0.5, 0.8, 0.1, 0.1, (30.0, nan))],
        [OutputScore(0.5, 0.8, 0.1, 0.1, (10.0, 6.0)), OutputScore(0.5, 0.8, 0.1, 0.1, (10.0, nan))],
    ]
    # argmax is right about the second statistic: six steps off still cost six
    assert Scores.of(rows).error.tolist() == [[0.25, 1.5], [3.25, 0.5]]
    nothing = [[OutputScore(0.5, 0.8, 0.1, 0.1, (nan,))], [OutputScore(0.5, 0.8, 0.1, 0.1, (nan,))]]
    assert Scores.of(nothing).error.tolist() == [[1.0], [1.0]]


def test_what_agrees_by_chance_is_never_chosen():
    rows = [[OutputScore(0.0, 0.3, 0.1, 0.1, (10.0,))] * 3, [OutputScore(0.04, 0.3, 0.1, 0.1, (1.0,))] * 3]
    names = ["a", "b", "c"]
    found = judge([ARGMAX, Candidate("argmax", totals=1.0)], Scores.of(rows), names, Criterion(), ARGMAX)
    assert [row.status for row in found] == ["chosen", "agrees by chance"]
    rescued = [rows[0], [OutputScore(0.3, 0.5, 0.1, 0.1, (1.0,))] * 3]
    found = judge([ARGMAX, Candidate("argmax", biases=True)], Scores.of(rescued), names, Criterion(), ARGMAX)
    assert [row.status for row in found] == ["kept", "chosen"]
    nan = [[OutputScore(float("nan"), 1.0, 0.0, 0.0, (0.0,))] * 3] * 2
    found = judge([ARGMAX, Candidate("band")], Scores.of(nan), names, Criterion(), ARGMAX)
    assert each_mentions([row.status for row in found], ("chosen",), ("kappa to judge",))


def test_a_stager_that_knows_nothing_is_left_alone_and_said_to():
    own = cohort(6, sharpness=2.0)
    flat = [np.full_like(density.probabilities, 1 / 3) for density in own.densities]
    with pytest.warns(StageGuardWarning) as caught:
        found = sg.fit_report(own.hypnograms, flat, base=BASE, groups=own.groups, learning_curve=False)
    said = [str(one.message) for one in caught]
    assert any(mentions(t, "0.000", "well", 0) for t in said)
    assert found.steps_aside
    assert mentions(found.reason, "hardly more than", "chance")


def test_a_gain_must_exceed_its_error():
    def judged(*gains):
        rows = [
            [OutputScore(0.5, 0.8, 0.1, 0.1)] * len(gains),
            [OutputScore(0.5 + gain, 0.8, 0.1, 0.1) for gain in gains],
        ]
        subjects = [str(i) for i in range(len(gains))]
        return judge([ARGMAX, Candidate("fixed", 0.1)], Scores.of(rows), subjects, Criterion(), ARGMAX)[
            1
        ].status

    assert judged(0.02, 0.03, 0.01, 0.02) == "chosen"
    assert mentions(judged(0.10, -0.06, 0.08, -0.06), "gain within its", "error")
    gains = np.array([0.05, 0.0, 0.03, -0.005])  # 1.5 standard errors: one of many has that by chance
    assert 1.0 < gains.mean() / (gains.std(ddof=1) / 2) < scipy.stats.t.ppf(0.95, 3)
    assert mentions(judged(*gains), "gain within its", "error")


def test_errors_must_not_be_above_the_defaults():
    def judged(error):
        rows = [[OutputScore(k, 0.8, 0.1, 0.1, (e,))] * 4 for k, e in ((0.5, 10.0), (0.5, 8.0), (0.7, error))]
        given = [ARGMAX, Candidate("default"), Candidate("band")]
        found = judge(given, Scores.of(rows), list("abcd"), Criterion(), Candidate("default"))
        return [row.status for row in found]

    assert judged(7.9) == ["errors above the default", "kept", "chosen"]
    assert judged(8.1)[1:] == ["chosen", "errors above the default"]


def test_a_night_without_a_kappa_counts_for_nobody():
    nan = float("nan")
    scores = Scores.of(
        [
            [OutputScore(nan, 1.0, 0.0, 0.0), OutputScore(0.5, 0.8, 0.1, 0.1)],
            [OutputScore(0.0, 0.9, 0.0, 0.0), OutputScore(0.6, 0.8, 0.1, 0.1)],
        ]
    )
    rows = judge([ARGMAX, Candidate("fixed", 0.1)], scores, ["a", "b"], Criterion(), ARGMAX)
    assert [row.kappa for row in rows] == [0.5, 0.6]


def test_keeping_accuracy_is_asked_for(flickering):
    own = fit_report(flickering.without(*range(10, 16)), keep_accuracy=True)
    assert "kappa and accuracy" in str(own.criterion)
    default = next(row for row in own.rows if row.candidate == Candidate("default", clock=True))
    for row in own.rows:
        assert (row.accuracy >= default.accuracy) or row.status.endswith("the default")


def curve_of(*gains):
    return LearningCurve(
        tuple(
            CurvePoint(n, 2.0 * n, gain / 2, gain, 0.01) for n, gain in zip((2, 4, 8, 16), gains, strict=True)
        )
    )


def test_the_curve_says_how_many_are_enough():
    assert curve_of(0.1, 0.19, 0.2, 0.2).enough.n_subjects == 4
    assert str(curve_of(0.1, 0.19, 0.2, 0.2)).startswith("About 8 scored nights of 4 subjects are enough")
    assert curve_of(0.19, 0.1, 0.2, 0.2).enough.n_subjects == 8  # a lucky start does not count
    rising = curve_of(0.05, 0.1, 0.15, 0.2)
    assert rising.enough is rising.points[-1]
    assert mentions(str(rising), "grows", 32, 16)
    assert curve_of(0.1, 0.0, 0.0, -0.01).enough is None
    assert mentions(str(curve_of(-0.1, 0.0, 0.0, -0.01)), "Nothing is gained", 32)


def test_a_learning_curve_ends_where_the_nested_check_does_and_every_round_is_counted(flickering):
    seen = []
    small = flickering.without(*range(10, 16))
    found = fit_report(small, learning_curve=True, progress=seen.append)
    points = found.learning_curve.points
    assert [point.n_subjects for point in points] == [2, 4]
    assert [point.n_nights for point in points] == [4, 8]
    assert points[-1].criterion_gain == pytest.approx(found.gains()["criterion"][0])
    assert found.profile.provenance["learning_curve"]["rows"][0][:2] == (2, 4.0)
    assert [at.done for at in seen] == list(range(1, seen[0].total + 1))
    assert {at.total for at in seen} == {len(seen)}


def test_several_experts_of_a_night_are_merged_and_all_counted():
    own = cohort(5, hours=3)
    rng = np.random.default_rng(0)
    panels = []
    for expert in own.hypnograms:
        late = expert.labels.copy()
        late[1:] = np.where(rng.random(len(late) - 1) < 0.3, expert.labels[:-1], late[1:])
        nearly = expert.labels.copy()
        nearly[0] = -1
        panels.append([expert, *(sg.Hypnogram(labels, expert.scheme, 30.0) for labels in (nearly, late))])
    found = fit_report(Cohort(own.densities, panels, own.groups))
    alone = fit_report(own)
    assert found.profile.provenance["n_scorings"] == 15
    assert found.rows[0].kappa == pytest.approx(alone.rows[0].kappa)  # the consensus is the first two's
    assert found.rows[0].fi_distance != alone.rows[0].fi_distance  # the fragmentation is the mean of three
    assert (
        found.profile.provenance["mean_fragmentation_index"]
        != alone.profile.provenance["mean_fragmentation_index"]
    )


def test_hypnograms_alone_give_transitions_durations_and_bands():
    own = cohort(12, hours=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sg.fit_report(own.hypnograms, base=BASE, groups=own.groups)
    base = sg.Profile.load(BASE)
    profile = found.profile
    assert found.rows == () and found.chosen is None and not found.steps_aside
    assert profile.transitions != base.transitions
    assert profile.durations
    assert profile.calibration == base.calibration
    assert profile.strength.rule == base.strength.rule == "target"
    assert profile.strength.soft == base.strength.soft
    assert "whose evidence yields" in profile.caution_for("narcolepsy").reason
    mean = np.mean([sg.validity(h, BASE).fragmentation_index for h in own.hypnograms])
    assert profile.strength.fi_target == pytest.approx(
        (12 * mean + 3 * base.strength.fi_target) / 15, rel=1e-3
    )
    assert profile.bands["mean_bout_minutes_R"].source.endswith("over 12 expert nights")
    assert "without probabilities" in profile.summary
    assert decode(own.densities[0], profile).hypnogram.n_epochs == 480


def test_one_night_alone_can_be_counted():
    own = cohort(1, hours=4)
    profile = sg.fit(own.hypnograms, base=BASE)
    base = sg.Profile.load(BASE)
    assert profile.bands["fragmentation_index"] == base.bands["fragmentation_index"]
    assert profile.transitions[0] != base.transitions[0]
    assert not profile.durations


def test_another_epoch_length_than_the_base_profiles():
    mouse = cohort(5, base="mouse-eeg-emg-3", hours=1)
    found = fit_report(mouse, BASE)
    assert found.profile.epoch_seconds == 4.0
    result = decode(mouse.densities[0], found.profile)
    assert not any("rescaled" in text for text in result.assumed)
    assert "fragmentation_index" not in found.profile.bands or found.profile.bands[
        "fragmentation_index"
    ].source.startswith("5th")
    assert found.profile.transitions[1][1] > 0.9


def test_gaps_and_finer_stages_are_no_obstacle():
    own = cohort(5, base="human-psg-5", hours=3)
    densities, experts = [], []
    for density, expert in zip(own.densities, own.hypnograms, strict=True):
        rows, labels = density.probabilities.copy(), expert.labels.copy()
        rows[100:104], labels[200:230] = np.nan, -1
        densities.append(sg.Hypnodensity(rows, density.scheme, 30.0))
        experts.append(sg.Hypnogram(labels, expert.scheme, 30.0))
    found = fit_report(Cohort(densities, experts, own.groups))
    assert found.profile.scheme.name == "wnr3"
    assert found.n_scored_epochs == 5 * 330
    assert found.gains()["kappa"][0] > 0.05


def test_real_watch_nights_are_not_harmed(data_dir):
    """Nine nights of Sleep-Accel, staged from movement alone by a rule with two numbers in it."""
    densities, experts = [], []
    base = sg.Profile.load("human-actigraphy-2")
    with np.load(data_dir / "sleep-accel" / "sleep_accel_walch_features.npz") as archive:
        for subject in archive.files[:9]:
            rows = archive[subject]
            place = np.rint(rows[:, 0] * 120).astype(int)
            place -= place[0]
            n_epochs = place[-1] + 1
            wake = 1 / (1 + np.exp(-0.8 * (np.log1p(rows[:, 1]) - 2.5)))
            probabilities = np.full((n_epochs, 2), np.nan)
            probabilities[place] = np.c_[wake, 1 - wake]
            labels = np.full(n_epochs, -1, dtype=np.int8)
            labels[place] = rows[:, 5] > 0
            densities.append(sg.Hypnodensity(probabilities, base.scheme, 30.0))
            experts.append(sg.Hypnogram(labels, base.scheme, 30.0))
    found = fit_report(Cohort(densities, experts, archive.files[:9]), "human-actigraphy-2")
    gain, error = found.gains()["kappa"]
    assert gain > -0.02
    assert error < 0.2
    chosen, default = (
        next(row for row in found.rows if getattr(row, field) == value)
        for field, value in (("status", "chosen"), ("candidate", Candidate("default")))
    )
    assert chosen.kappa >= default.kappa
    assert chosen.criterion >= default.criterion


def test_band_allows_less_above_the_cohort_s_own_fragmentation_once_enough_nights_were_counted():
    many, few = cohort(16, sharpness=2.0), cohort(6, sharpness=2.0)
    base = sg.Profile.load(BASE).replace(strength={"rule": "band", "fi_target": 0.05})
    counted, borrowed = (sg.fit(own.hypnograms, base=base, groups=own.groups) for own in (many, few))
    assert (counted.strength.cap, borrowed.strength.cap) == (1.5, 2.0)
