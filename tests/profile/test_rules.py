"""Strength rules as plain functions of a curve: no night, no kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stageguard.profile.profile import Profile
from stageguard.profile.rules import (
    RULES,
    TRANSITION_WEIGHTS,
    UNTOUCHED,
    YIELDING_WEIGHT,
    BandRule,
    Point,
    Setting,
    TargetRule,
)


class DrawnCurve:
    """A night whose fragmentation falls by `softness` per unit of weight, whatever is added to its stages."""

    ratio, rem, is_natural, is_free_at_zero, prior_exponent, prior_nats = 1.0, 2, False, True, 0.0, None
    own_counts = (60, 40, 0)

    def __init__(self, fi, softness, **facts):
        self.fi, self.softness, self.asked = fi, softness, []
        vars(self).update(facts)

    def at(self, weights, nats=None):
        self.asked += weights
        return [Point(self.fi * math.exp(-self.softness * weight), [40, 40, 20]) for weight in weights]

    def free(self, nats):
        return Point(min(1.0, self.fi + 0.01 * float(np.ptp(nats))), [40, 40, 20])

    def expected(self):
        return np.array([0.4, 0.4, 0.2])


RULE = {name: rule(0.1) for name, rule in RULES.items()}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("fi", [0.02, 0.09, 0.12, 0.3, 0.6])
@pytest.mark.parametrize("softness", [0.01, 3.0])
def test_every_rule_reports_the_night_at_the_weight_that_it_chose(name, fi, softness):
    curve = DrawnCurve(fi, softness)
    choice = RULE[name].choose(curve)
    assert (choice.rule, choice.fi_before) == (name, fi)
    weight = choice.setting.transition_weight
    assert choice.fi_after == pytest.approx(fi * math.exp(-softness * weight))
    assert weight == 0.0 or weight in curve.asked
    assert RULE[name].describe()


@pytest.mark.parametrize("name", RULES)
def test_no_rule_acts_without_sleep(name):
    assert RULE[name].choose(DrawnCurve(math.nan, 1.0)).setting == UNTOUCHED


@pytest.mark.parametrize("name", RULES)
def test_every_rule_reads_back_from_its_table(name):
    table = RULE[name].to_document()
    assert table["rule"] == name
    profile = Profile.load("human-psg-5").replace(strength=table)
    assert profile.strength == RULE[name]
    assert profile.to_dict()["strength"] == table


def test_band_takes_the_smallest_weight_that_reaches_its_cap():
    choice = BandRule(0.1, cap=2.0).choose(DrawnCurve(0.6, 3.0))
    smaller = [w for w in TRANSITION_WEIGHTS if 0.6 * math.exp(-3.0 * w) <= 0.2]
    assert choice.setting == Setting(smaller[0])
    assert choice.step == "lowered"


def test_target_leaves_a_night_alone_whose_evidence_does_not_yield():
    curve = DrawnCurve(0.6, 0.01)
    choice = TargetRule(0.1).choose(curve)
    assert (choice.step, choice.setting, curve.asked) == ("hard", UNTOUCHED, [YIELDING_WEIGHT])
    assert choice.fi_yielded == pytest.approx(0.6 * math.exp(-0.003))


def test_target_lands_nearest_to_its_aim_between_two_weights():
    choice = TargetRule(0.1).choose(DrawnCurve(0.6, 8.0))
    assert choice.setting.transition_weight not in TRANSITION_WEIGHTS
    assert abs(choice.fi_after - 0.1) < 0.02


def test_a_tuned_target_judges_the_stager():
    flickers, calm = TargetRule(0.1, stager_fi=0.3), TargetRule(0.1, stager_fi=0.12)
    assert flickers.choose(DrawnCurve(0.3, 3.0)).step == "lowered"
    assert calm.choose(DrawnCurve(0.3, 3.0)).step == "untouched"
    assert flickers.for_other_stager().stager_fi is None


def test_a_night_alone_keeps_half_of_its_difference_from_a_typical_one():
    rule = TargetRule(0.1, typical=2.0)
    for fi in (0.16, 0.2, 0.25, 0.6):
        choice = rule.choose(DrawnCurve(fi, 8.0))
        assert choice.fi_aim == pytest.approx(min(0.115, 0.1 * math.sqrt(fi / 0.2)))
        assert (choice.step, math.isnan(choice.stager_fi)) == ("lowered", True)
        assert abs(choice.fi_after - choice.fi_aim) < 0.02
    assert rule.choose(DrawnCurve(0.14, 8.0)).step == "untouched"  # the trigger is the night's, as before
    assert rule.choose(DrawnCurve(0.2, 0.01)).step == "hard"
    tuned = TargetRule.tuned(rule, 0.4)
    assert tuned.choose(DrawnCurve(0.2, 8.0)).fi_aim == pytest.approx(0.1 * math.sqrt(0.2 / 0.4))
