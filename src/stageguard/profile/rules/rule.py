"""What a strength rule is: a class with parameters, which chooses a setting from the curve of a night.

A rule lives in `profile`, and not in `guard`, because a profile's document is checked when it is read. Its
search needs no kernel: it asks a `Curve`, which `guard` provides, for numbers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from stageguard.base import schema
from stageguard.base.arrays import Floats

Nats = tuple[float, ...] | None  # added to the evidence of each stage
Step = Literal["fixed", "lowered", "raised", "raised then lowered", "untouched", "hard", "nearest"]
Lifting = Literal["off", "unasked", "tried"]

# The weights that rules try, in order. Below 0.03 hardly a night changes, above 1.5 hardly any more.
TRANSITION_WEIGHTS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5)


MANY_NIGHTS = 15  # scored nights of a cohort, to trust their mean fragmentation and stage shares


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
    fi_aim: float = math.nan
    fi_yielded: float = math.nan
    stager_fi: float = math.nan
    lifting: Lifting = "unasked"


class Counted(NamedTuple):
    """What a fit has counted on scored nights, for the rules that it may try."""

    n_nights: int
    fi_mean: float  # mean over nights
    fi_target: float  # the same, drawn towards the base profile's if nights are few
    stager_fi: float | None  # median of the stager's argmax; None without probabilities
    base: StrengthRule | None  # the base profile's own rule


Parameters = tuple[tuple[str, Any], ...]  # of a rule, by name


class Trial(NamedTuple):
    """One variant of a rule that a fit compares with other candidates."""

    parameters: Parameters = ()  # besides what was counted
    refinement: Parameters = ()  # more of them, which must be surely better than the same trial without
    prior_exponent: float = 0.0  # of the experts' stage shares, by which the evidence is divided
    rem_epochs: int = 1  # shortest bout of REM
    shifts: bool = False  # whether the parameters shift evidence between stages


USUAL = Trial()  # nothing is varied


@dataclass(frozen=True, slots=True)
class StrengthRule:
    """How the transition weight is set per recording.

    A rule is one subclass in one file of this folder. It declares its parameters as fields with their checks,
    and has a key, the document's ``rule``. What `fit` tries of it are its `trials`.
    """

    rule: ClassVar[str]
    lifts: ClassVar[bool] = False  # whether it may lift minority stages, and so sets the prior's exponent
    fit_rank: ClassVar[int] = 1  # place among the rules that a fit compares: of equals the first is chosen
    fewest_nights: ClassVar[int] = 0  # scored nights without which a fit does not try it
    takes_totals: ClassVar[bool] = False  # whether a fit tries it with the experts' stage totals, too

    fi_target: float = schema.number(positive=True, high=1)  # the experts' index at the profile's epochs

    @abstractmethod
    def choose(self, curve: Curve) -> Choice:
        """Return the setting for a night, and why."""

    @abstractmethod
    def describe(self) -> str:
        """Say in one line what it does to a recording."""

    @property
    def effect(self) -> str:
        """What it does to every night, to follow "the profile"."""
        return f"sets the strength {self.describe()}"

    @classmethod
    def trials(cls, *, has_rem: bool) -> tuple[Trial, ...]:
        """Return what a fit tries of the rule, the plainest first."""
        return (USUAL,)

    @classmethod
    def refinements(cls, best: Trial) -> tuple[Trial, ...]:
        """Return what else is worth trying if one trial is the best of all candidates."""
        return ()

    @classmethod
    def trial_name(cls, trial: Trial) -> str:
        """Return the name of a trial in tables."""
        varied = (f"{name} {value}" for name, value in trial.parameters + trial.refinement)
        return ", ".join((cls.rule, *varied))

    @classmethod
    def fitted(cls, counted: Counted, **parameters: Any) -> StrengthRule:
        """Return the rule of a trial with these parameters, by what a fit counted."""
        return cls(counted.fi_target, **parameters)

    def recounted(self, counted: Counted) -> StrengthRule:
        """Return the same rule with the fragmentation of other nights as its aim."""
        return replace(self, fi_target=counted.fi_target)

    def for_other_stager(self) -> StrengthRule:
        """Return the rule without what it knows of one stager."""
        return self

    @property
    def asks_training(self) -> bool:
        """Whether it lifts minority stages only for stagers trained on natural class frequencies."""
        return False
