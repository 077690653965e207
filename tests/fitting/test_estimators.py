"""Which estimator serves which statistic: chosen on held-out nights, recorded, and used by estimates."""

from __future__ import annotations

import numpy as np
import pytest

import stageguard as sg
from messages import mentions
from nights import decode
from scored_nights import Cohort, certain, cohort, fit_report
from stageguard.base.errors import ProfileError
from stageguard.fitting.estimates import DEFAULT, _choice, held_out_decodings
from stageguard.measures.estimates import Estimates, estimates, stager_kind_of
from stageguard.profile.parts import ESTIMATORS, estimators_of
from stageguard.synthetic.night import simulate_night

SUBJECTS = ["a", "b", "c", "d"]


def choice(default, others):
    nights = [{DEFAULT: d, "posterior": d, "path": o} for d, o in zip(default, others, strict=True)]
    return _choice("tst_minutes", nights, SUBJECTS)


def test_another_estimator_is_taken_where_it_is_surely_better():
    found = choice((10, 12, 14, 16), (5, 6, 8, 9))
    assert (found.estimator, found.default_error, found.error) == ("path", 13.0, 7.0)
    assert found.gain == 6.0
    assert found.gain_error == pytest.approx(np.std([5, 6, 6, 7], ddof=1) / 2)
    assert choice((10, 12, 14, 16), (9, 20, 8, 9)).estimator == DEFAULT  # better by less than its error
    assert choice((10, 12, 14, 16), (10, 12, 14, 16)).estimator == DEFAULT
    nan = float("nan")
    assert choice((nan,) * 4, (nan,) * 4) is None  # no expert's night has it
    assert choice((nan, 12, 14, 16), (nan, 6, 8, 9)).estimator == "path"


@pytest.fixture(scope="module")
def sure():
    """A stager whose argmax is the expert's night, and which admits doubt that it does not have."""
    own = cohort(5, 1, hours=2.0, seed=3)
    return Cohort([certain(expert, 0.7) for expert in own.hypnograms], own.hypnograms, own.groups)


def test_fit_chooses_on_held_out_nights_and_writes_it_down(sure):
    # a base that smooths far too much, so that the fit does not step aside
    base = sg.Profile.load("human-psg-3").replace(transition_weight=5.0)
    report = fit_report(sure, base, cohort="lab")
    assert not report.steps_aside
    chosen = {each.statistic: each for each in report.estimators}
    latencies = {"sol_minutes", "rem_latency_minutes"}
    assert chosen.keys() == {"tst_minutes", "minutes_W", "minutes_N", "minutes_R"} | latencies
    assert chosen["minutes_N"].estimator == "path"  # right to the epoch: no sum is
    assert chosen["minutes_N"].error == 0.0 < chosen["minutes_N"].default_error
    assert report.profile.estimators["minutes_N"] == "path"
    assert DEFAULT not in report.profile.estimators.values()
    recorded = report.profile.provenance["estimators"]
    row = dict(
        zip(recorded["columns"], next(r for r in recorded["rows"] if r[0] == "minutes_N"), strict=True)
    )
    assert row["estimator"] == "path" and row["gain"] == pytest.approx(chosen["minutes_N"].gain, rel=1e-3)
    assert sg.Profile.from_dict(report.profile.to_dict()) == report.profile
    result = decode(sure.densities[0], report.profile, cohort="lab")
    found, plain = estimates(result), sg.sleep_statistics(result)
    assert found.best.stage_minutes["N"] == plain.stage_minutes["N"]
    assert found.values("after")["expected_minutes_N"] == plain.stage_minutes["N"]
    assert "N" in found.by_estimator[ESTIMATORS["path"]]


def test_what_is_held_out_is_of_the_kind_that_will_be_decoded():
    own = cohort(5, 1, hours=2.0, seed=3)
    labels = Cohort(own.hypnograms, own.hypnograms, own.groups)
    by_default, fitted = (
        held_out_decodings(fit_report(labels).nested, by_default=by_default) for by_default in (True, False)
    )
    assert {stager_kind_of(night) for night in fitted} == {"own labels"}
    assert {stager_kind_of(night) for night in by_default} <= {"labels", "own labels"}


def test_two_subjects_choose_no_estimator(sure):
    report = fit_report(sure.without(2, 3, 4))
    assert report.estimators == () and not report.profile.estimators


NAMED = {"tst_minutes": "probabilities", "minutes_W": "path", "rem_latency_minutes": "path"}


def test_a_profile_names_the_estimators_and_the_hypnogram_stays():
    base = sg.Profile.load("human-psg-5")
    density = simulate_night(base, hours=3, seed=5).density
    plain, named = decode(density, base), decode(density, base.replace(estimators=NAMED))
    assert np.array_equal(plain.hypnogram.labels, named.hypnogram.labels)
    default, found = estimates(plain), estimates(named)
    assert default.best == default.after and default.stager_kind == "unsure"
    assert found.best.tst_minutes == found.before.tst_minutes
    counted = sg.sleep_statistics(named)
    assert found.best.stage_minutes["W"] == counted.stage_minutes["W"]
    assert found.best.stage_minutes["N2"] == default.after.stage_minutes["N2"]
    assert found.rem_latency_minutes == counted.rem_latency_minutes
    assert found.rem_latency_estimator == "first REM epoch"
    assert found.by_estimator == {
        ESTIMATORS["probabilities"]: ["TST"],
        ESTIMATORS["path"]: ["W"],
        ESTIMATORS["posterior"]: ["N1", "N2", "N3", "R"],
    }
    assert Estimates.from_dict(found.to_dict()) == found
    drawn = estimates(decode(density, base.replace(estimators={"rem_latency_minutes": "draws"})))
    assert mentions(drawn.rem_latency_estimator, "median of posterior", "draws")


def test_estimators_belong_to_the_stager_and_the_cohort():
    fitted = sg.Profile.load("human-psg-5").replace(estimators=NAMED, cohort="lab", stager="A")
    assert fitted.for_nights_of("lab", "A").estimators == NAMED
    assert not fitted.for_nights_of("lab").estimators and not fitted.for_nights_of(None, "A").estimators
    assert not fitted.elsewhere().estimators


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"minutes_N9": "path"}, "minutes_N9"),
        ({"tst_minutes": "bout"}, "estimators.tst_minutes is 'bout', expected 'path' or 'probabilities'"),
        ({"rem_latency_minutes": "posterior"}, "estimators.rem_latency_minutes"),
        ("path", "estimators"),
    ],
)
def test_an_estimator_that_cannot_serve_is_refused(given, words):
    with pytest.raises(ProfileError, match=words):
        sg.Profile.load("human-psg-5").replace(estimators=given)


def test_every_statistic_has_a_default_among_its_estimators():
    scheme = sg.Profile.load("human-psg-3").scheme
    assert estimators_of(scheme)["minutes_R"] == ("path", "probabilities", "posterior")
    assert estimators_of(scheme)["sol_minutes"] == ("path", "lasting")
    assert estimators_of(scheme)["rem_latency_minutes"] == ("path", "bout", "clock", "expected", "draws")
    assert {way for ways in estimators_of(scheme).values() for way in ways} == set(ESTIMATORS)
