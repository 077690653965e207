"""What a strength rule is: a class with parameters, which chooses a setting from the curve of a night.

A rule lives in `profile`, and not in `guard`, because a profile's document is checked when it is read. Its
search needs no kernel: it asks a `Curve`, which `guard` provides, for numbers. The searches that rules share,
the least smoothing or the least lifting of stages that reaches a limit, are at the end.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from stageguard import checks, documents
from stageguard.arrays import Floats
from stageguard.documents import Range
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

    @property
    def prior_nats(self) -> Nats:
        """What the profile's own prior adds to each stage."""

    def at(self, weights: Sequence[float], nats: Nats = None) -> list[Point]:
        """Return the night at several transition weights."""

    def free(self, nats: Nats) -> Point:
        """Return the night with every epoch decided by itself."""

    def own_counts(self) -> Sequence[int]:
        """Return the epochs in each stage of the stager's own choice."""

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
    """How the transition weight is set per recording.

    A rule is one subclass in one file of this folder. It declares its parameters as fields with their checks,
    and has a key, the document's ``rule``.
    """

    rule: ClassVar[str]
    lifts: ClassVar[bool] = False  # whether it may lift minority stages, and so sets the prior's exponent

    fi_target: Index  # the experts' index at the profile's epochs

    @classmethod
    def read_document(cls, value: object, where: str) -> StrengthRule:
        """Return the rule that a table names."""
        table = dict(checks.mapping(value, where))
        rules = {rule.rule: rule for rule in StrengthRule.__subclasses__()}
        if "rule" not in table:
            raise InputError(f"key 'rule' is missing in {where}.")
        name = checks.choice(table.pop("rule"), f"{where}.rule", rules)
        return documents.read_fields(rules[name], table, where)

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
        return self

    @property
    def asks_training(self) -> bool:
        """Whether it lifts minority stages only for stagers trained on natural class frequencies."""
        return False

    @property
    def flickers(self) -> bool | None:
        """Whether the stager it was tuned to flickers; None if it knows no stager."""
        return None


def lifting_of(lift: bool | None, curve: Curve) -> Lifting:
    """Return whether minority stages of a night may be lifted; None leaves it to the stager's training."""
    if lift is None:
        return "tried" if curve.is_natural else "unasked"
    return "tried" if lift else "off"


def aim_for(curve: Curve, fi_target: float, stager_fi: float | None, exponent: float) -> tuple[float, float]:
    """Return the index to aim at on a night, and the stager's median at its epoch length (NaN if unknown).

    With a median, a night keeps part of its difference from it: half of it, in logarithms, at exponent 0.5.
    """
    target = fi_target * curve.ratio
    if stager_fi is None:
        return target, math.nan
    median = stager_fi * curve.ratio
    return target * (curve.fi / median) ** exponent, median


def calm(curve: Curve, aim: float, nats: Nats, fi_free: float) -> tuple[float, float]:
    """Return the smallest transition weight that brings fragmentation down to an aim, and the index then.

    If none does, it is the largest. Fragmentation need not fall with every step, so the weights are tried in
    order. The first one is known to give `fi_free` if it constrains nothing.
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
    return weight, fi


def lift(curve: Curve, choice: Choice, full: float) -> Choice:
    """Return the choice that lifts minority stages by the smallest exponent that reaches a limit.

    If none does, it is the best one; it is `choice`, which does nothing, if none helps. The limit is
    `choice.fi_low`. If argmax starves stages, it is `full`, but only while the stages' totals come nearer to
    what the probabilities expect. A night that is then above `choice.fi_high` is smoothed.
    """
    expected = curve.expected()
    least = _starved(curve.own_counts(), expected)
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
    weight, fi = calm(curve, choice.fi_high, best, best_fi)
    return raised._replace(setting=Setting(weight, best), step="raised then lowered", fi_after=fi)


def share_nats(expected: Floats, exponent: float) -> tuple[float, ...]:
    """Return the nats that lifting adds to each stage of a night with these mean probabilities."""
    return tuple((-exponent * np.log(expected + _SHARE_OFFSET)).tolist())


def _starved(counts: Sequence[int], expected: Floats) -> float:
    """Return the share of the night that is in other stages than the probabilities expect."""
    return float(np.abs(np.array(counts) / max(1, sum(counts)) - expected).sum() / 2.0)
