"""The rule `target`: bring flickering nights to the experts' fragmentation, but not fragmented sleepers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar

from stageguard.documents import Range, Share
from stageguard.profile.rules.rule import (
    TRANSITION_WEIGHTS,
    UNTOUCHED,
    Choice,
    Curve,
    Index,
    Nats,
    Setting,
    StrengthRule,
    aim_for,
    calm,
    lift,
    lifting_of,
)

YIELDING_WEIGHT = 0.3  # the transition weight at which soft evidence gives way
BALANCING_ROUNDS = 4  # chosen on the stagers of studies/guard-on-real-data
NEAR = 0.9  # of the aim: below it, a night's weight is refined
WEIGHTS_BETWEEN = 3  # that the refinement tries, between the weight and the next smaller one
FEWEST_NIGHTS = 10  # medians of fewer hide which stager flickers: batches of five did harm on real nights
ACT_ABOVE_OWN = 1.5  # times the experts' fragmentation, counted by a fit, or exceeded by a stager's median
HIGHEST_AIM = 1.15  # times the experts' index, of a night alone: more is of the stager, not the sleeper
MOST_REM = 1.5  # times what the probabilities expect or argmax has: a balance beyond it is given up
_LEAST_SHARE = 0.01  # of the night: less REM than that is noise


@dataclass(frozen=True, slots=True)
class TargetRule(StrengthRule):
    """Lower a night to ``fi_target`` if it is much more fragmented and its evidence yields.

    That is, if it is more than ``act_above`` times as fragmented, and a transition weight of 0.3 leaves less
    than ``soft`` of its index. With ``stager_fi``, the median index of a stager's nights as `tune` measures
    it, the stager is judged instead of the night, by 1.5 times the index at most, and a night is lowered to
    ``fi_target`` times the ``exponent``-th power of its own index divided by that median. Without it, the
    median is taken to be ``typical`` times ``fi_target``, and no night aims above 1.15 times ``fi_target``;
    None lowers every night to ``fi_target``. Minority stages of a night below ``floor`` times ``fi_target``
    are lifted, and up to ``fi_target`` if argmax starves these stages; ``lift`` says whether, and None leaves
    it to how the stager was trained.
    """

    rule: ClassVar[str] = "target"
    lifts: ClassVar[bool] = True

    floor: Share = 0.5
    lift: bool | None = None
    act_above: Annotated[float, Range(low=1)] = 1.5
    soft: Annotated[float, Range(low=0)] = 0.6
    stager_fi: Index | None = None
    exponent: Share = 0.5
    typical: Annotated[float, Range(low=1)] | None = None

    def choose(self, curve: Curve) -> Choice:
        """Return the setting for a night, and why."""
        target = self.fi_target * curve.ratio
        high = self.acts_above * target
        median = self.stager_fi
        if median is None and self.typical is not None:
            median = self.typical * self.fi_target
        aim, stager_fi = aim_for(curve, self.fi_target, median, self.exponent)
        if self.stager_fi is None:
            aim, stager_fi = min(aim, HIGHEST_AIM * target), math.nan
        lifting = lifting_of(self.lift, curve)
        choice = Choice(
            "target",
            UNTOUCHED,
            "untouched",
            curve.fi,
            curve.fi,
            fi_low=self.floor * target,
            fi_high=high,
            fi_experts=target,
            fi_aim=aim,
            stager_fi=stager_fi,
            lifting=lifting,
        )
        flickers = curve.fi > high if self.stager_fi is None else stager_fi > high and curve.fi > aim
        if not flickers:
            return lift(curve, choice, target) if curve.fi < target and lifting == "tried" else choice
        (yielded,) = curve.at((YIELDING_WEIGHT,))
        choice = choice._replace(fi_yielded=yielded.fi)
        if self.stager_fi is None and yielded.fi >= self.soft * curve.fi:
            return choice._replace(step="hard")
        nats = _balance(curve, yielded.counts)
        weight, fi = _smoothed(curve, aim, nats)
        if _invents_rem(curve, weight, nats):
            nats = None
            weight, fi = _smoothed(curve, aim, nats)
        return choice._replace(setting=Setting(weight, nats), step="lowered", fi_after=fi)

    @property
    def acts_above(self) -> float:
        """How many times the experts' index is too much; a stager's median varies less than a night."""
        return self.act_above if self.stager_fi is None else min(self.act_above, ACT_ABOVE_OWN)

    @property
    def asks_training(self) -> bool:
        """Whether it lifts minority stages only for stagers trained on natural class frequencies."""
        return self.lift is None

    @property
    def says_flicker(self) -> bool:
        """Whether the rule was tuned to a stager that flickers."""
        return self.stager_fi is not None and self.stager_fi > self.acts_above * self.fi_target

    @property
    def flickers(self) -> bool | None:
        """Whether the stager it was tuned to flickers; None if it knows no stager."""
        return None if self.stager_fi is None else self.says_flicker

    def describe(self) -> str:
        """Say in one line what it does to a recording."""
        experts = f"the experts' fragmentation index {self.fi_target:g}"
        if self.stager_fi is None:
            above, to = f"{self.act_above * self.fi_target:.3f}", "to" if self.typical is None else "towards"
            return f"per recording, {to} {experts} where it is above {above} and the evidence yields"
        if not self.says_flicker:
            return f"no smoothing: the stager's median fragmentation index {self.stager_fi:g} is not high"
        return (
            f"per recording, towards {experts}, as far off as the recording is from the stager's median "
            f"{self.stager_fi:g}, to the power of {self.exponent:g}"
        )

    def for_other_stager(self) -> TargetRule:
        """Return the rule without what it knows of one stager."""
        return replace(self, stager_fi=None)

    @classmethod
    def tuned(cls, base: StrengthRule, stager_fi: float) -> TargetRule:
        """Return the rule for a stager with this median index, with the parameters of a base rule."""
        shared = {item.name: getattr(base, item.name) for item in fields(cls) if hasattr(base, item.name)}
        return cls(**shared | {"stager_fi": stager_fi})


def _balance(curve: Curve, counts: Sequence[int]) -> Nats:
    """Return the nats per stage that give REM the total time that the probabilities expect.

    Smoothing removes a stage that is seldom the likeliest, however much of the night the probabilities give
    it: `counts` are of the night at the yielding weight. Each round goes half of the way, since a whole step
    overshoots. Wake is not balanced: that did harm on real nights.
    """
    if curve.rem is None:
        return None
    expected, added = float(curve.expected()[curve.rem]), 0.0
    for n_rounds in range(1, BALANCING_ROUNDS + 1):
        share = counts[curve.rem] / sum(counts)
        added += 0.5 * math.log((expected + _LEAST_SHARE) / (share + _LEAST_SHARE))
        nats = (*(0.0,) * curve.rem, added, *(0.0,) * (len(counts) - curve.rem - 1))
        if n_rounds < BALANCING_ROUNDS:
            ((_, counts),) = curve.at((YIELDING_WEIGHT,), nats)
    return nats


def _invents_rem(curve: Curve, weight: float, nats: Nats) -> bool:
    """Whether a balance raises REM, and gives it more than the probabilities expect and argmax has."""
    if nats is None or curve.rem is None or not nats[curve.rem] > 0.0:
        return False
    (point,), own = curve.at((weight,), nats), curve.own_counts()
    share, of_own = (counts[curve.rem] / max(1, sum(counts)) for counts in (point.counts, own))
    return bool(share > MOST_REM * max(curve.expected()[curve.rem], of_own))


def _smoothed(curve: Curve, aim: float, nats: Nats) -> tuple[float, float]:
    """Return the transition weight that brings a night nearest to the aim, and its index then."""
    return _land(curve, aim, nats, *calm(curve, aim, nats, curve.fi))


def _land(curve: Curve, aim: float, nats: Nats, weight: float, fi: float) -> tuple[float, float]:
    """Return the weight that lands nearest to the aim: this one or, if it lands well below, a weaker one."""
    if not fi < NEAR * aim or weight == 0.0:
        return weight, fi
    below = TRANSITION_WEIGHTS[TRANSITION_WEIGHTS.index(weight) - 1]
    step = (weight - below) / (WEIGHTS_BETWEEN + 1)
    weights = [below + i * step for i in range(1, WEIGHTS_BETWEEN + 1)]
    for tried, point in zip(reversed(weights), reversed(curve.at(weights, nats)), strict=True):
        if abs(point.fi - aim) <= abs(fi - aim):  # of equals, the weaker
            weight, fi = tried, point.fi
    return weight, fi
