"""`Strength`: how strongly a recording was constrained, and why; the curve of a night that rules ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.base.arrays import Floats, Labels
from stageguard.base.lazy import load
from stageguard.guard.clock import RemovedBout
from stageguard.guard.evidence import Night
from stageguard.guard.solver import Path, Solver, prior_nats
from stageguard.night.quantities import Steering
from stageguard.profile.profile import OFF, Profile
from stageguard.profile.rules.rule import UNTOUCHED, Choice, Lifting, Nats, Point, Setting, Step
from stageguard.profile.rules.search import share_nats

STEERING = ("lowered", "raised", "raised then lowered", "nearest")  # steps that aim at a fragmentation


class NightCurve:
    """What a rule may ask of a night; see `stageguard.profile.rules.rule.Curve`."""

    def __init__(self, profile: Profile, solver: Solver, night: Night) -> None:
        self._profile, self._solver, self._night = profile, solver, night
        self._spans = night.spans_asleep()  # hours awake around the night must not count
        self._own: Labels = night.own_choice()
        self.fi = night.fragmentation_index(self._own)
        self.ratio = solver.epoch_seconds / profile.epoch_seconds
        self.rem = profile.scheme.rem_index
        self.is_natural = night.options.trained == "natural"
        self.is_free_at_zero = solver.is_free_at_zero
        self.prior_exponent = profile.prior_exponent

    @cached_property
    def prior_nats(self) -> Nats:
        """What the profile's own prior adds to each stage."""
        return prior_nats(self._profile)

    def at(self, weights: Sequence[float], nats: Nats = None) -> list[Point]:
        """Return the night at several transition weights."""
        return self._solver.curve(self._night, tuple(weights), nats, self._spans)

    def free(self, nats: Nats) -> Point:
        """Return the night with every epoch decided by itself."""
        return self._solver.point(self._night, Setting(0.0, nats, is_free=True), self._spans)

    def own_counts(self) -> Sequence[int]:
        """Return the epochs in each stage of the stager's own choice."""
        own = self._own[slice(*self._night.measured)]
        counts: list[int] = np.bincount(own[own >= 0], minlength=self._solver.n_stages).tolist()
        return counts

    def expected(self) -> Floats:
        """Return the mean probability of each stage."""
        return self._night.mean_probabilities()


class Passes(NamedTuple):
    """How a path with the clock was found."""

    onsets: tuple[int, ...]  # epochs from which the time is counted
    n: int  # how often the night was decoded with the clock
    is_settled: bool  # whether the path falls asleep there
    removed: tuple[RemovedBout, ...] = ()  # bouts of early REM that are gone


@dataclass(frozen=True, slots=True)
class Strength:
    """How strongly one recording was constrained, and why.

    Attributes
    ----------
    rule : str
        ``fixed`` (the profile's own number), or the profile's rule: ``target``, ``band`` or ``match``.
    step : str
        What the rule did to the fragmentation index: ``lowered``, ``raised``, ``raised then lowered``,
        ``untouched`` (no rule acts), ``hard`` (fragmented, and the evidence does not yield: no rule acts),
        ``nearest`` (``match``) or ``fixed``.
    transition_weight, prior_exponent : float
        The values that were used.
    fi_before, fi_after : float
        Fragmentation index of argmax and of the output.
    fi_low, fi_high : float
        The rule acts below and above these, at this epoch length; for ``match`` both are the target; NaN for
        ``fixed``.
    fi_aim : float
        The index that ``target`` aims at, at this epoch length.
    fi_yielded : float
        The index that a transition weight of 0.3 leaves, if ``target`` tried it.
    stager_fi : float
        Median index of the stager's nights at this epoch length, if the profile has it.
    asked : float, "off" or None
        The strength that the caller asked for, instead of the profile's own.
    balance_nats : tuple of float
        Nats that ``target`` added to each stage's evidence on a night it lowered, to give REM the share that
        the probabilities expect; empty on other nights and without REM.
    lifting : str
        Whether minority stages may be lifted on this night: ``tried`` if they may, ``unasked`` if the stager
        is not known to be trained on natural class frequencies, ``off`` if the profile forbids it.
    clock_onsets : tuple of int
        Epochs from which the profile's clock counts: the first of sleep, and of sleep after a long wake.
    clock_passes : int
        How often the night was decoded with the clock, 0 without one.
    clock_settled : bool
        Whether the output's own sleep onset is the one the clock counts from.
    clock_overruled : tuple of int
        Pinned epochs whose stage has less than half its usual share at that time.
    clock_removed : tuple of RemovedBout
        Bouts of early REM of which the output has lost three minutes or more.
    """

    rule: str
    step: Step
    transition_weight: float
    prior_exponent: float
    fi_before: float
    fi_after: float
    fi_low: float = math.nan
    fi_high: float = math.nan
    fi_aim: float = math.nan
    fi_yielded: float = math.nan
    stager_fi: float = math.nan
    asked: float | Literal["off"] | None = None
    balance_nats: tuple[float, ...] = ()
    lifting: Lifting = "unasked"
    clock_onsets: tuple[int, ...] = ()
    clock_passes: int = 0
    clock_settled: bool = True
    clock_overruled: tuple[int, ...] = ()
    clock_removed: tuple[RemovedBout, ...] = ()

    @property
    def steers(self) -> bool:
        """Whether the rule steered the night's fragmentation to its aim."""
        return self.step in STEERING

    def __str__(self) -> str:
        """Return the reason in one sentence, and where the clock begins in another."""
        return strength_words("reason")(self)

    def in_short(self) -> str:
        """Return what was done in one sentence, and what is unusual about the clock."""
        return strength_words("in_short")(self)

    def setting(self, profile: Profile, night: Night) -> Setting:
        """Return the setting behind it, so that a night can be decoded again in the same way."""
        if self.step in ("untouched", "hard"):
            return UNTOUCHED
        if self.step in ("fixed", "nearest"):
            return Setting(self.transition_weight, prior_nats(profile))
        nats = self.balance_nats or None
        if self.prior_exponent:  # its nats follow from the night's own shares, and are not kept
            nats = share_nats(night.mean_probabilities(), self.prior_exponent)
        return Setting(self.transition_weight, nats, is_free=self.step == "raised")


def strength_words(name: Literal["reason", "in_short"]) -> Callable[[Strength], str]:
    """Return a function of `report.strength_words`, which writes the sentences; loaded when one is needed."""
    words: Callable[[Strength], str] = load(f"report.strength_words:{name}")
    return words


def strength_of(choice: Choice, night: Night, path: Path, passes: Passes | None) -> Strength:
    """Return how strongly a rule's choice constrained a night, and what the clock did to it."""
    # the rule measured the night without the clock, which then may have changed stages
    fi_after = choice.fi_after if passes is None else night.fragmentation_index(path.labels)
    is_lowered = choice.step == "lowered"
    return Strength(
        rule=choice.rule,
        step=choice.step,
        transition_weight=choice.setting.transition_weight,
        prior_exponent=choice.prior_exponent,
        fi_before=choice.fi_before,
        fi_after=fi_after,
        fi_low=choice.fi_low,
        fi_high=choice.fi_high,
        fi_aim=choice.fi_aim,
        fi_yielded=choice.fi_yielded,
        stager_fi=choice.stager_fi,
        balance_nats=choice.setting.stage_nats or () if is_lowered else (),
        lifting=choice.lifting,
        **clock_facts(night, passes),
    )


def fixed_strength(profile: Profile, night: Night, path: Path, passes: Passes | None) -> Strength:
    """Return how strongly a profile with a fixed strength constrained a night.

    It mentions what the caller asked for, unless the profile steps aside anyway, as for another cohort.
    """
    assert profile.transition_weight is not None
    asked = night.options.strength
    is_heeded = asked == OFF or asked == profile.transition_weight
    return Strength(
        rule="fixed",
        step="fixed",
        transition_weight=profile.transition_weight,
        prior_exponent=profile.prior_exponent,
        fi_before=night.fragmentation_index(night.own_choice()),
        fi_after=night.fragmentation_index(path.labels),
        asked=asked if is_heeded else None,
        **clock_facts(night, passes),
    )


def clock_facts(night: Night, passes: Passes | None) -> dict[str, Any]:
    """Return the fields of `Strength` about the clock."""
    if passes is None:
        return {}
    return {
        "clock_onsets": passes.onsets,
        "clock_passes": passes.n,
        "clock_settled": passes.is_settled,
        "clock_overruled": overruled_pins(night),
        "clock_removed": passes.removed,
    }


def overruled_pins(night: Night) -> tuple[int, ...]:
    """Return the pinned epochs whose stage has less than half its usual share at that time."""
    if not night.pins or night.clock is None:
        return ()
    log_shares = night.clock.log_shares
    return tuple(epoch for epoch, stage in night.pins.items() if log_shares[epoch, stage] < np.log(0.5))


def steered_by(step: str, prior_exponent: float, biases: Sequence[float] | None) -> frozenset[Steering]:
    """Return what was steered: fragmentation by the rule's step, stage totals by stage shares or biases."""
    by: dict[Steering, bool] = {
        "fragmentation": step in STEERING,
        "totals": prior_exponent > 0 or len(set(biases or ())) > 1,
    }
    return frozenset(what for what, acts in by.items() if acts)
