"""Strength rules, which choose the transition weight of a night from its fragmentation.

A rule is a subclass of `StrengthRule` with its parameters, which are part of a profile. Its search needs no
kernel: it asks a `Curve`, which `guard` provides, for numbers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from stageguard import checks, documents
from stageguard.arrays import Floats
from stageguard.documents import Range, Share
from stageguard.errors import InputError

Index = Annotated[float, Range(above=0, high=1)]  # of fragmentation
Nats = tuple[float, ...] | None  # added to the evidence of each stage
Step = Literal["fixed", "lowered", "raised", "raised then lowered", "untouched", "hard", "nearest"]
Lifting = Literal["off", "unasked", "tried"]

# The weights that rules try, in order. Below 0.03 hardly a night changes, above 1.5 hardly any more.
TRANSITION_WEIGHTS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5)
PRIOR_EXPONENTS = tuple(round(0.05 * i, 2) for i in range(1, 15))  # .05, .10, … .70
STARVED = 0.05  # of the night: argmax starves stages if more is in other stages than the probabilities expect
_SHARE_OFFSET = 1e-4  # keeps the log of a stage that never occurs finite
_TOGETHER = 4  # weights that the compiled kernel tries in hardly more time than one

# Of the rule `target`.
YIELDING_WEIGHT = 0.3  # the transition weight at which soft evidence gives way
BALANCING_ROUNDS = 4  # chosen on the stagers of studies/guard-on-real-data
NEAR = 0.9  # of the aim: below it, a night's weight is refined
WEIGHTS_BETWEEN = 3  # that the refinement tries, between the weight and the next smaller one
FEWEST_NIGHTS = 10  # medians of fewer hide which stager flickers: batches of five did harm on real nights
ACT_ABOVE_OWN = 1.5  # times the experts' fragmentation, counted by a fit, or exceeded by a stager's median
HIGHEST_AIM = 1.15  # times the experts' index, of a night alone: more is of the stager, not the sleeper
MOST_REM = 1.5  # times what the probabilities expect or argmax has: smoothing beyond it is given up
_LEAST_SHARE = 0.01  # of the night: less REM than that is noise


class Setting(NamedTuple):
    """How a night is decoded: how much transitions count, and nats added to each stage's evidence."""

    transition_weight: float
    stage_nats: Nats = None
    is_free: bool = False  # evidence alone: no transition scores, no minimum bouts


UNTOUCHED = Setting(0.0, None, is_free=True)


class Point(NamedTuple):
    """A night at one setting."""

    fi: float  # fragmentation index
    counts: Sequence[int]  # epochs in each stage


class Curve(Protocol):
    """What a rule may ask of one night; everything is of its sleep period and without the clock."""

    fi: float  # fragmentation index of the stager's own choice; NaN if there is no sleep
    ratio: float  # how many times as long its epochs are as the profile's
    rem: int | None  # index of REM
    is_natural: bool  # whether the stager was trained on natural class frequencies
    is_free_at_zero: bool  # whether a transition weight of 0 constrains nothing
    prior_exponent: float  # of the profile's own prior
    own_counts: Sequence[int]  # epochs in each stage of the stager's own choice

    @property
    def prior_nats(self) -> Nats:
        """What the profile's own prior adds to each stage."""

    def at(self, weights: Sequence[float], nats: Nats = None) -> list[Point]:
        """Return the night at several transition weights."""

    def free(self, nats: Nats) -> Point:
        """Return the night with every epoch decided by itself."""

    def expected(self) -> Floats:
        """Return the mean probability of each stage."""


class Choice(NamedTuple):
    """What a rule decided on one night, and the facts that it reports; see `Strength` for their meaning."""

    rule: str
    setting: Setting
    step: Step
    fi_before: float
    fi_after: float
    prior_exponent: float = 0.0
    fi_low: float = math.nan
    fi_high: float = math.nan
    fi_experts: float = math.nan
    fi_aim: float = math.nan
    fi_yielded: float = math.nan
    stager_fi: float = math.nan
    lifting: Lifting = "unasked"


@dataclass(frozen=True, slots=True)
class StrengthRule:
    """How the transition weight is set per recording; the parameters of a rule are its fields."""

    rule: ClassVar[str]  # its name in the document
    lifts: ClassVar[bool] = False  # whether it may lift minority stages, and so sets the prior's exponent

    fi_target: Index  # the experts' index at the profile's epochs

    @classmethod
    def read_document(cls, value: object, where: str) -> StrengthRule:
        """Return the rule that a table names."""
        table = dict(checks.mapping(value, where))
        if "rule" not in table:
            raise InputError(f"key 'rule' is missing in {where}.")
        name = checks.choice(table.pop("rule"), f"{where}.rule", RULES)
        return documents.read_fields(RULES[name], table, where)

    def to_document(self) -> dict[str, Any]:
        """Return the table of the rule without defaults."""
        return {"rule": self.rule, **documents.plain_fields(self)}

    @abstractmethod
    def choose(self, curve: Curve) -> Choice:
        """Return the setting for a night, and why."""

    @abstractmethod
    def describe(self) -> str:
        """Say in one line what it does to a recording."""

    def rescaled(self, ratio: float) -> StrengthRule:
        """Return the rule for epochs that are `ratio` times as long, in which as many more stages change."""
        per_epoch = ("fi_target", "stager_fi")
        known = {name: getattr(self, name, None) for name in per_epoch}
        return replace(self, **{name: min(fi * ratio, 1.0) for name, fi in known.items() if fi is not None})

    def for_other_stager(self) -> StrengthRule:
        """Return the rule without what it knows of one stager."""
        known: dict[str, Any] = {"stager_fi": None} if hasattr(self, "stager_fi") else {}
        return replace(self, **known)

    @property
    def asks_training(self) -> bool:
        """Whether it lifts minority stages only for stagers trained on natural class frequencies."""
        return self.lifts and getattr(self, "lift", None) is None

    @property
    def flickers(self) -> bool | None:
        """Whether the stager it was tuned to flickers; None if it knows no stager."""
        return None


def smoothed_to(
    curve: Curve, aim: float, nats: Nats, fi_free: float, *, refine: bool = False
) -> tuple[float, float]:
    """Return the smallest transition weight that brings fragmentation down to an aim, and the index then.

    If none does, it is the largest. Fragmentation need not fall with every step, so the weights are tried in
    order. The first one is known to give `fi_free` if it constrains nothing. If asked to refine, and the
    index is then far below the aim, weights in between are tried, and the nearest to the aim is taken.
    """
    weight, fi = TRANSITION_WEIGHTS[0], fi_free
    if not curve.is_free_at_zero:
        fi = curve.at((weight,), nats)[0].fi
    for begin in range(1, len(TRANSITION_WEIGHTS), _TOGETHER):
        if not fi > aim:
            break
        weights = TRANSITION_WEIGHTS[begin : begin + _TOGETHER]
        for tried, point in zip(weights, curve.at(weights, nats), strict=True):
            weight, fi = tried, point.fi
            if fi <= aim:
                break
    if not refine or not fi < NEAR * aim or weight == 0.0:
        return weight, fi
    below = TRANSITION_WEIGHTS[TRANSITION_WEIGHTS.index(weight) - 1]
    step = (weight - below) / (WEIGHTS_BETWEEN + 1)
    weights = tuple((below + np.arange(1, WEIGHTS_BETWEEN + 1) * step).tolist())
    for tried, point in zip(reversed(weights), reversed(curve.at(weights, nats)), strict=True):
        if abs(point.fi - aim) <= abs(fi - aim):  # of equals, the weaker
            weight, fi = tried, point.fi
    return weight, fi


def lifted(curve: Curve, choice: Choice, full: float) -> Choice:
    """Return the choice that lifts minority stages by the smallest exponent that reaches a limit.

    If none does, it is the best one; it is `choice`, which does nothing, if none helps. The limit is
    `choice.fi_low`. If argmax starves stages, it is `full`, but only while the stages' totals come nearer to
    what the probabilities expect. A night that is then above `choice.fi_high` is smoothed.
    """
    expected = curve.expected()
    least = _starved(curve.own_counts, expected)
    is_starved = full > choice.fi_low and least > STARVED
    up_to = full if is_starved else choice.fi_low
    best, best_exponent, best_fi = None, 0.0, curve.fi
    if curve.fi < up_to:
        for exponent in PRIOR_EXPONENTS:
            nats = share_nats(expected, exponent)
            point = curve.free(nats)
            starved = _starved(point.counts, expected)
            if point.fi > best_fi and (starved < least or not is_starved):
                best, best_exponent, best_fi, least = nats, exponent, point.fi, starved
            if point.fi >= up_to:
                break
    if best is None:
        return choice
    raised = choice._replace(prior_exponent=best_exponent)
    if not best_fi > choice.fi_high:
        return raised._replace(setting=Setting(0.0, best, is_free=True), step="raised", fi_after=best_fi)
    weight, fi = smoothed_to(curve, choice.fi_high, best, best_fi)
    return raised._replace(setting=Setting(weight, best), step="raised then lowered", fi_after=fi)


def share_nats(expected: Floats, exponent: float) -> tuple[float, ...]:
    """Return the nats that lifting adds to each stage of a night with these mean probabilities."""
    return tuple((-exponent * np.log(expected + _SHARE_OFFSET)).tolist())


def _starved(counts: Sequence[int], expected: Floats) -> float:
    """Return the share of the night that is in other stages than the probabilities expect."""
    return float(np.abs(np.array(counts) / max(1, sum(counts)) - expected).sum() / 2.0)


@dataclass(frozen=True, slots=True)
class BandRule(StrengthRule):
    """Lower a night above ``cap`` times ``fi_target`` to that bound, by the smallest weight that does so.

    Minority stages of a night below ``floor`` times ``fi_target`` are lifted; ``lift`` says whether, and None
    leaves it to how the stager was trained.
    """

    rule: ClassVar[str] = "band"
    lifts: ClassVar[bool] = True

    floor: Share = 0.5
    cap: Annotated[float, Range(low=1)] = 2.0
    lift: bool | None = None

    def choose(self, curve: Curve) -> Choice:
        """Return the setting for a night, and why."""
        target = self.fi_target * curve.ratio
        low, high = self.floor * target, self.cap * target
        lift = curve.is_natural if self.lift is None else self.lift
        lifting: Lifting = "tried" if lift else "unasked" if self.lift is None else "off"
        choice = Choice(
            "band",
            UNTOUCHED,
            "untouched",
            curve.fi,
            curve.fi,
            fi_low=low,
            fi_high=high,
            fi_experts=target,
            fi_aim=high,
            lifting=lifting,
        )
        if curve.fi > high:
            weight, fi = smoothed_to(curve, high, None, curve.fi)
            return choice._replace(setting=Setting(weight), step="lowered", fi_after=fi)
        return lifted(curve, choice, low) if curve.fi < low and lift else choice

    def describe(self) -> str:
        """Say in one line what it does to a recording."""
        low, high = self.floor * self.fi_target, self.cap * self.fi_target
        return (
            f"per recording, the least that brings the fragmentation index into {low:.3f} to {high:.3f} "
            f"({self.floor:g} to {self.cap:g} times the experts' {self.fi_target:g})"
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
        aim, stager_fi = self.fi_target * curve.ratio, math.nan
        if self.stager_fi is not None:
            stager_fi = self.stager_fi * curve.ratio
            aim *= (curve.fi / stager_fi) ** self.exponent
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
        target = aim = self.fi_target * curve.ratio
        high, stager_fi = self.acts_above * target, math.nan
        if self.stager_fi is not None:
            stager_fi = self.stager_fi * curve.ratio
            aim = target * (curve.fi / stager_fi) ** self.exponent
        elif self.typical is not None:
            median = self.typical * self.fi_target * curve.ratio
            aim = min(target * (curve.fi / median) ** self.exponent, HIGHEST_AIM * target)
        lift = curve.is_natural if self.lift is None else self.lift
        lifting: Lifting = "tried" if lift else "unasked" if self.lift is None else "off"
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
            return lifted(curve, choice, target) if curve.fi < target and lift else choice
        (yielded,) = curve.at((YIELDING_WEIGHT,))
        choice = choice._replace(fi_yielded=yielded.fi)
        if self.stager_fi is None and yielded.fi >= self.soft * curve.fi:
            return choice._replace(step="hard")
        for nats in (_balance(curve, yielded.counts), None):
            weight, fi = smoothed_to(curve, aim, nats, curve.fi, refine=True)
            if not _invents_rem(curve, weight, nats):
                return choice._replace(setting=Setting(weight, nats), step="lowered", fi_after=fi)
        return choice._replace(step="hard", fi_yielded=math.nan)  # what smoothing gains is REM

    @property
    def acts_above(self) -> float:
        """How many times the experts' index is too much; a stager's median varies less than a night."""
        return self.act_above if self.stager_fi is None else min(self.act_above, ACT_ABOVE_OWN)

    @property
    def flickers(self) -> bool | None:
        """Whether the stager it was tuned to flickers; None if it knows no stager."""
        return None if self.stager_fi is None else self.stager_fi > self.acts_above * self.fi_target

    def describe(self) -> str:
        """Say in one line what it does to a recording."""
        experts = f"the experts' fragmentation index {self.fi_target:g}"
        if self.stager_fi is None:
            above, to = f"{self.act_above * self.fi_target:.3f}", "to" if self.typical is None else "towards"
            return f"per recording, {to} {experts} where it is above {above} and the evidence yields"
        if not self.flickers:
            return f"no smoothing: the stager's median fragmentation index {self.stager_fi:g} is not high"
        return (
            f"per recording, towards {experts}, as far off as the recording is from the stager's median "
            f"{self.stager_fi:g}, to the power of {self.exponent:g}"
        )

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
    """Whether smoothing gives a night much more REM than the probabilities expect and argmax has."""
    if curve.rem is None:
        return False
    (_, counts), own = curve.at((weight,), nats)[0], curve.own_counts
    share, of_own = counts[curve.rem] / max(1, sum(counts)), own[curve.rem] / max(1, sum(own))
    return bool(share > MOST_REM * max(curve.expected()[curve.rem], of_own))


RULES: dict[str, type[StrengthRule]] = {rule.rule: rule for rule in (BandRule, MatchRule, TargetRule)}
