"""The rule `match`: bring every night as near as it gets to the experts' fragmentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from stageguard.documents import Share
from stageguard.profile.rules.rule import (
    TRANSITION_WEIGHTS,
    UNTOUCHED,
    Choice,
    Curve,
    Index,
    Setting,
    StrengthRule,
    aim_for,
)


@dataclass(frozen=True, slots=True)
class MatchRule(StrengthRule):
    """Take the weight whose fragmentation comes nearest to ``fi_target``.

    With ``stager_fi``, the median index of a stager's nights, a night aims at ``fi_target`` times the
    ``exponent``-th power of its own index divided by that median, which keeps part of its difference.
    """

    rule: ClassVar[str] = "match"

    stager_fi: Index | None = None
    exponent: Share = 0.5

    def choose(self, curve: Curve) -> Choice:
        """Return the setting for a night, and why."""
        if math.isnan(curve.fi):  # no sleep to be measured
            return Choice("match", UNTOUCHED, "untouched", curve.fi, curve.fi, curve.prior_exponent)
        aim, stager_fi = aim_for(curve, self.fi_target, self.stager_fi, self.exponent)
        points = curve.at(TRANSITION_WEIGHTS, curve.prior_nats)
        tried = list(zip(TRANSITION_WEIGHTS, (point.fi for point in points), strict=True))
        weight, fi = min(tried, key=lambda pair: abs(pair[1] - aim))  # the first of equals: the weaker one
        return Choice(
            "match",
            Setting(weight, curve.prior_nats),
            "nearest",
            curve.fi,
            fi,
            curve.prior_exponent,
            fi_low=aim,
            fi_high=aim,
            stager_fi=stager_fi,
        )

    def describe(self) -> str:
        """Say in one line what it does to a recording."""
        return f"per recording, nearest to the experts' fragmentation index {self.fi_target:g}"

    def for_other_stager(self) -> MatchRule:
        """Return the rule without what it knows of one stager."""
        return replace(self, stager_fi=None)
