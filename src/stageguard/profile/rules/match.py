"""The rule `match`: bring every night as near as it gets to the experts' fragmentation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from stageguard import schema
from stageguard.profile.rules.rule import (
    MANY_NIGHTS,
    TRANSITION_WEIGHTS,
    UNTOUCHED,
    Choice,
    Counted,
    Curve,
    Setting,
    StrengthRule,
    Trial,
    aim_for,
)

# What a fit tries.
PRIOR_EXPONENTS = (0.0, 0.1, 0.25, 0.5)
SHORTEST_REM_EPOCHS = (1, 3)
OTHER_EXPONENTS = (0.0, 1.0)  # keep none of the differences between people, or all


@dataclass(frozen=True, slots=True)
class MatchRule(StrengthRule):
    """Take the weight whose fragmentation comes nearest to ``fi_target``.

    With ``stager_fi``, the median index of a stager's nights, a night aims at ``fi_target`` times the
    ``exponent``-th power of its own index divided by that median, which keeps part of its difference.
    """

    rule: ClassVar[str] = "match"
    fewest_nights: ClassVar[int] = MANY_NIGHTS
    takes_totals: ClassVar[bool] = True

    stager_fi: float | None = schema.number(None, positive=True, high=1)
    exponent: float = schema.number(0.5, low=0, high=1)

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

    @property
    def effect(self) -> str:
        """What it does to every night, to follow "the profile"."""
        return f"brings every night near the fragmentation index {self.fi_target:.4g}"

    @classmethod
    def trials(cls, *, has_rem: bool) -> tuple[Trial, ...]:
        """Return what a fit tries: stage shares that count more or less, and short bouts of REM or none."""
        shortest = SHORTEST_REM_EPOCHS if has_rem else (1,)
        return tuple(
            Trial(prior_exponent=exponent, rem_epochs=n_epochs)
            for n_epochs in shortest
            for exponent in PRIOR_EXPONENTS
        )

    @classmethod
    def refinements(cls, best: Trial) -> tuple[Trial, ...]:
        """Return the best trial with more, and with less, of the differences between people."""
        return tuple(best._replace(refinement=(("exponent", exponent),)) for exponent in OTHER_EXPONENTS)

    @classmethod
    def trial_name(cls, trial: Trial) -> str:
        """Return the name of a trial in tables."""
        epochs = f"{trial.rem_epochs} epoch{'s' * (trial.rem_epochs != 1)}"
        powers = "".join(f", differences to the power {exponent:g}" for _, exponent in trial.refinement)
        return f"match, w {trial.prior_exponent:g}, REM from {epochs}{powers}"

    @classmethod
    def fitted(cls, counted: Counted, **parameters: Any) -> MatchRule:
        """Return the rule of a trial; it borrows no nights of the base, since `match` needs many."""
        if counted.stager_fi is None:
            return cls(counted.fi_mean)
        return cls(counted.fi_mean, stager_fi=counted.stager_fi, **parameters)

    def recounted(self, counted: Counted) -> MatchRule:
        """Return the rule with the fragmentation of other nights as its aim."""
        return MatchRule(counted.fi_target)

    def for_other_stager(self) -> MatchRule:
        """Return the rule without what it knows of one stager."""
        return replace(self, stager_fi=None)
