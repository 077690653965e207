"""Intervals around sleep statistics: how wide, how often they cover, what they say when there are none."""

import math

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode, one_hot, plain
from small import refusal
from stageguard.measures.intervals import (
    WITHHELD,
    coverage,
    errors,
    half_width,
    intervals,
    kind_of,
    why_withheld,
)
from stageguard.night.hypnogram import Hypnogram
from stageguard.night.stages import WNR3
from stageguard.synthetic.night import simulate_night

LABELS = [0] * 4 + [1] * 20 + [2] * 6 + [0] * 2 + [1] * 8


def profile_with(**held):
    return sg.Profile.from_dict(plain(transition_weight=0.0, intervals=held))


def night(profile):
    return decode(one_hot(LABELS), profile)


def hypnogram(labels):
    return Hypnogram(np.array(labels, dtype=np.int8), WNR3, 30.0)


def alone(errors):
    """The errors of people with one night each."""
    return [[error] for error in errors]


def test_half_width_is_the_conformal_quantile():
    known = [-3.0, 1.0, 2.0, -4.0, 5.0, 6.0, -7.0, 8.0, 9.0]
    assert half_width(alone(known), 0.9) == 9.0  # ceil(10 * .9) = 9th of 9
    assert half_width(alone(known), 0.5) == 5.0
    assert half_width(alone(known[:8]), 0.9) == math.inf  # ceil(9 * .9) = 9th of 8
    assert half_width([], 0.9) == math.inf


def test_several_nights_of_a_person_count_as_one():
    others = alone([float(k) for k in range(1, 19)])
    # 19 people: the 18th smallest, whether the last one has one night or ten
    assert half_width([*others, [30.0]], 0.9) == half_width([*others, [30.0] * 10], 0.9) == 18.0
    # as nights of different people they would count ten times
    assert half_width([*others, *alone([30.0] * 10)], 0.9) == 30.0


@pytest.mark.parametrize("n_nights", [1, 3])
def test_nights_of_new_people_are_covered_as_often_as_promised(n_nights):
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(3000):
        # heavy tails, no normal quantile would do; nights of a person are all but the same
        drawn = rng.standard_t(2, size=(11, 1)) * rng.uniform(0.98, 1.02, size=(11, n_nights))
        covered.append(abs(drawn[10]) <= half_width(drawn[:10].tolist(), 0.9))
    assert np.mean(covered) == pytest.approx(10 / 11, abs=0.015)


def test_errors_are_expert_less_output():
    output = [*LABELS[:24], *[1] * 6, *LABELS[30:]]  # REM missed
    found = errors([hypnogram(LABELS)], [hypnogram(output)])
    assert found["minutes_R"] == [3.0]
    assert found["minutes_N"] == [-3.0]
    assert found["tst_minutes"] == [0.0]
    assert found["bouts_R"] == [1.0]
    assert math.isnan(found["rem_latency_minutes"][0])


def test_a_night_is_judged_by_the_errors_on_other_people():
    # the two nights of b are far off; by each other they would be covered
    values = [1.0] * 9 + [50.0, 50.0]
    groups = [f"s{i}" for i in range(9)] + ["b", "b"]
    assert coverage(values, groups, level=0.9) == (9, 11)
    assert coverage(values, [str(i) for i in range(11)], level=0.9) == (11, 11)


def test_conformal_intervals_are_as_wide_as_the_errors_and_no_wider_than_possible():
    held = {"tst_minutes": alone(float(k) for k in range(1, 20)), "se_percent": alone([40.0] * 19)}
    found = intervals(night(profile_with(errors=held, n_nights=19, coverage={"tst_minutes": 0.93})))
    tst = found["tst_minutes"]
    assert (tst.value, tst.low, tst.high) == (17.0, 0.0, 20.0)  # 18 min either way, within the night
    assert tst.measured_coverage == 0.93
    assert found["se_percent"].high == 100.0
    assert (found.method, found.level, found.n_nights) == ("conformal", 0.9, 19)
    assert intervals(night(profile_with(errors=held)), level=0.5)["tst_minutes"].low == 7.0


def test_a_statistic_without_errors_enough_has_no_interval_but_a_reason():
    found = intervals(night(profile_with(errors={"tst_minutes": alone([1.0] * 5)})))
    assert math.isnan(found["tst_minutes"].low)
    assert mentions(found["tst_minutes"].reason, 5, "scored", 9)


def test_rem_latency_of_a_night_without_rem_has_no_interval():
    profile = profile_with(errors={"rem_latency_minutes": alone([1.0] * 20)})
    found = intervals(decode(one_hot([0] * 5 + [1] * 20), profile))
    assert found["rem_latency_minutes"].reason == "there is no REM"


def test_rem_latency_follows_the_shortest_first_rem_of_the_profile():
    labels = [1] * 10 + [2] + [1] * 10 + [2] * 4
    held = {"rem_latency_minutes": alone([1.0] * 20), "rem_latency_bout_minutes": alone([2.0] * 20)}
    for fitted, wanted in ((0.0, 5.0), (30.0, 5.0), (60.0, 10.5)):
        found = intervals(decode(one_hot(labels), profile_with(errors=held, min_first_rem_seconds=fitted)))
        plain, lasting = found["rem_latency_minutes"], found["rem_latency_bout_minutes"]
        assert (plain.value, plain.low, plain.high) == (5.0, 4.0, 6.0)
        assert (lasting.value, lasting.low, lasting.high) == (wanted, wanted - 2.0, wanted + 2.0)


def test_a_profile_that_was_not_fitted_has_no_conformal_intervals():
    with pytest.raises(sg.InputError) as error:
        intervals(night(profile_with()), method="conformal")
    refusal(error, "holds no errors on scored nights", "stageguard fit", "method='model'")


FULLY = {
    "errors": {"tst_minutes": alone([1.0] * 20), "rem_latency_bout_minutes": alone([1.0] * 20)},
    "coverage": {"tst_minutes": 0.9, "rem_latency_bout_minutes": 0.9},
    "model_coverage": {"tst_minutes": 0.5, "rem_latency_bout_minutes": 0.5},
    "min_first_rem_seconds": 60.0,
}


@pytest.mark.parametrize("method", ["conformal", "model"])
@pytest.mark.parametrize(
    "options", [{"convention": "yasa"}, {"lights_off": 2}, {"lights_on": 36}, {"level": 0.8}]
)
def test_statistics_measured_otherwise_have_no_measured_coverage(method, options):
    decoded = night(profile_with(**FULLY))
    assert not math.isnan(intervals(decoded, method=method)["tst_minutes"].measured_coverage)
    found = intervals(decoded, method=method, **options)
    assert all(math.isnan(one.measured_coverage) for one in found.values())


@pytest.mark.parametrize(
    ("stager", "cohort"), [("yasa", "their lab"), ("YASA", None), ("U-Sleep", "our lab")]
)
def test_intervals_are_withheld_from_another_cohort_or_stager_and_one_that_is_not_said(stager, cohort):
    profile = profile_with(**FULLY).replace(stager="YASA", cohort="our lab")
    decoded = decode(one_hot(LABELS), profile, stager=stager, cohort=cohort)
    with pytest.warns(sg.StageGuardWarning) as caught:
        found = intervals(decoded)
    (warning,) = caught
    assert mentions(str(warning.message), "'YASA'", "'our lab'", repr(stager), repr(cohort), "method='model'")
    assert warning.filename == __file__
    for one in found.values():
        assert np.isnan([one.low, one.high, one.measured_coverage]).all()
        assert one.reason == WITHHELD
    assert found["tst_minutes"].value == 17.0
    assert not found.is_measured
    model = intervals(decoded, method="model")["tst_minutes"]
    assert model.low <= model.high and math.isnan(model.measured_coverage)


def test_intervals_are_given_to_the_cohort_and_stager_of_the_profile():
    profile = profile_with(**FULLY).replace(stager="YASA", cohort="our lab")
    found = intervals(decode(one_hot(LABELS), profile, stager="yasa", cohort="Our Lab"))["tst_minutes"]
    assert (found.low, found.high, found.measured_coverage) == (16.0, 18.0, 0.9)


def drawn_under(profile, *, hours=4, seed=5, **options):
    return decode(simulate_night("human-psg-3", hours=hours, seed=seed).density, profile, **options)


def test_draws_that_err_all_night_are_made_for_a_level_and_say_what_they_covered():
    night = drawn_under("human-psg-3")
    rules = night.profile.posterior
    assert kind_of(night) in rules.coverage
    found = sg.intervals(night, method="model", n=40)
    assert (found.level, found.kind, found.is_measured) == (0.9, kind_of(night), True)
    for name, one in found.items():
        assert one.measured_coverage == rules.coverage[found.kind][name]
        assert one.low < one.high
    narrow = sg.intervals(night, method="model", n=40, level=0.5)
    assert narrow.level == 0.5 and not narrow.is_measured
    assert all(narrow[name].low >= one.low and narrow[name].high <= one.high for name, one in found.items())
    assert not sg.intervals(night, method="model", n=40, convention="yasa").is_measured


def test_the_coverage_of_a_fit_comes_before_that_of_its_kind():
    held = {"errors": {"tst_minutes": alone([1.0] * 20)}, "model_coverage": {"tst_minutes": 0.77}}
    fitted = sg.Profile.load("human-psg-3").replace(cohort="our lab", intervals=held)
    own, other = (drawn_under(fitted, cohort=cohort) for cohort in (fitted.cohort, "their lab"))
    assert sg.intervals(own, method="model", n=20)["tst_minutes"].measured_coverage == 0.77
    kind = fitted.posterior.coverage[kind_of(other)]
    assert sg.intervals(other, method="model", n=20)["tst_minutes"].measured_coverage == kind["tst_minutes"]


def test_the_kind_of_a_stager_is_read_off_its_own_stages():
    calm = one_hot(np.repeat([0, 1, 2, 1], 60), confidence=0.9)
    rng = np.random.default_rng(3)
    flickering = one_hot(rng.integers(0, 3, 240), confidence=0.9)
    assert kind_of(decode(calm, "human-psg-3")) == "good"
    assert kind_of(decode(flickering, "human-psg-3")) == "flickering"
    labels = sg.Hypnogram(np.repeat([0, 1, 2, 1], 60).astype(np.int8), "wnr3", 30.0)
    assert kind_of(decode(labels, "human-psg-3")) == "labels"


def unlike(share):
    """A profile that finds every night unlike expert scoring, with this coverage of such nights."""
    base = sg.Profile.load("human-psg-3")
    rules = base.to_dict()["posterior"]
    rules["coverage"]["unlike"] = {"tst_minutes": 0.86, "sol_minutes": share}
    return base.replace(joint=base.to_dict()["joint"] | {"threshold": 0.01}, posterior=rules)


@pytest.mark.parametrize(
    ("changes", "cohort"),
    [
        ({}, "insomnia"),  # that the profile cautions against
        ({"joint": unlike(0.5).to_dict()["joint"]}, None),
        ({"joint": unlike(0.5).to_dict()["joint"], "posterior": unlike(0.83).to_dict()["posterior"]}, None),
        ({"provenance": {"shares": "repaired"}}, None),
        ({"provenance": {"shares": "unsure"}}, None),
    ],
)
def test_nights_that_coverage_was_not_measured_on_get_no_interval(changes, cohort):
    night = drawn_under(sg.Profile.load("human-psg-3").replace(**changes), cohort=cohort)
    found = sg.intervals(night, method="model", n=20)
    assert {one.reason for one in found.values()} == {why_withheld(night)} == {WITHHELD}
    assert all(math.isnan(one.low) for one in found.values())


@pytest.mark.parametrize(
    ("changes", "cohort"),
    [
        ({}, None),
        ({"posterior": None}, "insomnia"),  # promises no coverage
        ({"provenance": {"shares": "in range"}}, None),
        ({"cohort": "insomnia", "name": "lab"}, "insomnia"),  # fitted to it
    ],
)
def test_other_nights_get_intervals(changes, cohort):
    assert why_withheld(drawn_under(sg.Profile.load("human-psg-3").replace(**changes), cohort=cohort)) == ""


def test_nights_unlike_expert_scoring_get_intervals_if_such_nights_were_covered():
    measured = sg.intervals(drawn_under(unlike(0.85)), method="model", n=20)
    assert (measured.kind, measured["tst_minutes"].measured_coverage) == ("unlike", 0.86)
    assert measured["tst_minutes"].low < measured["tst_minutes"].high


def test_the_interval_of_sol_is_wider_than_the_draws_by_its_factor():
    rules = sg.Profile.load("human-psg-3").to_dict()["posterior"]
    profile = sg.Profile.load("human-psg-3")
    one, two = (
        sg.intervals(
            drawn_under(profile.replace(posterior=rules | {"sol_factor": factor})), method="model", n=40
        )
        for factor in (1.0, 2.0)
    )
    assert (two["sol_minutes"].low, two["sol_minutes"].high) == (
        one["sol_minutes"].low / 2,
        one["sol_minutes"].high * 2,
    )
    assert two["tst_minutes"] == one["tst_minutes"]


def test_rem_that_some_draws_lack_is_as_late_as_the_night_is_long():
    rows = one_hot(np.repeat([0, 1], [20, 300]), confidence=0.9)
    rows[200:212] = [0.02, 0.45, 0.53]
    profile = sg.Profile.load("human-psg-3").replace(joint=None)
    found = sg.intervals(decode(rows, profile), method="model")["rem_latency_minutes"]
    draws = sg.sample(rows, profile, n=200)
    lacking = (draws != 2).all(axis=1).mean()
    assert 0.06 < lacking < 0.5  # else the test shows nothing
    assert found.high == 160.0
