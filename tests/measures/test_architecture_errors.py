"""Errors of sleep architecture on nights whose statistics can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import stageguard as sg
from stageguard.errors import MissingExtraError
from stageguard.measures import samples as paired_module
from stageguard.measures.cohort import ARCHITECTURE, architecture, architecture_errors, night_errors


def night(text, scheme="wnr3"):
    """One letter is one minute: two epochs of 30 s."""
    names = {"W": 0, "N": 1, "R": 2, "?": -1}
    return sg.Hypnogram(np.repeat([names[letter] for letter in text], 2), scheme, 30.0)


EXPERT = "WWNNNNNNRRRRWNNNRRNN"
GUESS = "WNNNNNNRRRRRNNNWRRNN"


def test_architecture_is_what_can_be_counted():
    assert architecture(night(EXPERT)) == {
        "tst_minutes": 17.0,
        "se_percent": 85.0,
        "rem_latency_minutes": 6.0,
        "waso_minutes": 1.0,
        "nrem_bout_minutes": pytest.approx((6 + 3 + 2) / 3),
        "rem_bout_minutes": 3.0,
        "awakenings": 1.0,
    }


def test_errors_are_absolute_differences():
    errors = night_errors({"before": night(GUESS), "expert": night(EXPERT)})["before"]
    assert errors == {
        "tst_minutes": 1.0,
        "se_percent": 5.0,
        "rem_latency_minutes": 0.0,
        "waso_minutes": 0.0,
        "nrem_bout_minutes": pytest.approx(0.0, abs=1e-12),
        "rem_bout_minutes": 0.5,
        "awakenings": 0.0,
    }


def test_epochs_that_the_expert_left_out_count_for_nobody():
    full, cut = night("WNNNNNRRRR"), night("WNNNNNRR??")
    assert set(night_errors({"after": full, "expert": cut})["after"].values()) == {0.0}


def test_rem_that_is_never_shown_comes_at_the_end():
    errors = night_errors({"after": night("WNNNNNNN"), "expert": night("WNNNNRRR")})["after"]
    assert errors["rem_latency_minutes"] == 8 - 4  # of eight minutes; the expert's comes after four of sleep
    assert errors["rem_bout_minutes"] == 3


def test_what_one_side_lacks_has_no_error():
    errors = night_errors({"after": night("WNNNNRRR"), "expert": night("WNNNNNNN")})["after"]
    assert set(ARCHITECTURE) - set(errors) == {"rem_latency_minutes", "rem_bout_minutes"}
    two_stages = sg.Hypnogram([0, 1, 1, 1], "ws2", 30.0)
    errors = night_errors({"after": two_stages, "expert": two_stages})["after"]
    assert "nrem_bout_minutes" not in errors
    assert errors["tst_minutes"] == 0


def made_up(n, seed=0):
    rng = np.random.default_rng(seed)
    before, after = rng.gamma(4, 5, n), rng.gamma(3, 5, n)
    nights = {
        f"n{i}": {"before": {"tst_minutes": before[i]}, "after": {"tst_minutes": after[i]}} for i in range(n)
    }
    return nights, before, after


def test_means_improvement_and_test_are_those_of_numpy_and_scipy():
    nights, before, after = made_up(12)
    (row,), untested = architecture_errors(nights)
    assert untested == ""
    assert (row.quantity, row.n_subjects) == ("tst_minutes", 12)
    assert (row.before.mean, row.before.sd) == pytest.approx((before.mean(), before.std(ddof=1)))
    assert (row.after.mean, row.after.sd) == pytest.approx((after.mean(), after.std(ddof=1)))
    assert row.after.p == pytest.approx(stats.wilcoxon(after, before).pvalue)
    assert row.improvement_percent == pytest.approx(100 * (before.mean() - after.mean()) / before.mean())


def test_nights_of_one_subject_count_once():
    nights, before, after = made_up(12)
    subjects = {f"n{i}": f"s{i // 2}" for i in range(12)}
    (row,), _ = architecture_errors(nights, subjects)
    before, after = before.reshape(6, 2).mean(axis=1), after.reshape(6, 2).mean(axis=1)
    assert row.n_subjects == 6
    assert row.after.sd == pytest.approx(after.std(ddof=1))
    assert row.after.p == pytest.approx(stats.wilcoxon(after, before).pvalue)


def test_without_a_before_there_is_no_comparison():
    nights, _, after = made_up(5)
    (row,), _ = architecture_errors({name: {"after": each["after"]} for name, each in nights.items()})
    assert row.before is None
    assert row.after.mean == pytest.approx(after.mean())
    assert np.isnan([row.after.p, row.improvement_percent]).all()


def test_without_scipy_the_errors_are_there_and_the_reason_is_said(monkeypatch):
    def missing(*_):
        raise MissingExtraError("tests of significance need 'scipy'.")

    monkeypatch.setattr(paired_module, "library", missing)
    nights, _, after = made_up(5)
    (row,), untested = architecture_errors(nights)
    assert row.after.mean == pytest.approx(after.mean())
    assert np.isnan(row.after.p)
    assert "scipy" in untested
