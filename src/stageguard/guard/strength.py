"""`Strength`: how strongly a recording was constrained, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stageguard.arrays import ComparedByValue, Labels
from stageguard.guard.clock import RemovedBout
from stageguard.guard.night import Night
from stageguard.guard.solver import prior_nats
from stageguard.lazy import load
from stageguard.night.quantities import Steering
from stageguard.profile.profile import OFF, Profile
from stageguard.profile.rules import UNTOUCHED, Choice, Lifting, Setting, Step, share_nats

STEERING = ("lowered", "raised", "raised then lowered", "nearest")  # steps that aim at a fragmentation


@dataclass(frozen=True, slots=True, eq=False)
class Strength(ComparedByValue):
    """How strongly one recording was constrained, and why.

    Attributes
    ----------
    rule : str
        ``fixed`` (the profile's own number), the profile's rule: ``target``, ``band`` or ``match``, or
        ``labels``: labels through typical confusions do not say which epochs are doubtful, and no rule acts.
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
        ``fixed`` and ``labels``.
    fi_experts : float
        Mean index of expert scorings at this epoch length, if the rule has limits.
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
    fi_experts: float = math.nan
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

    @property
    def is_reached(self) -> bool:
        """Whether the night ended where the rule allows; a rule without a band allows everything."""
        return math.isnan(self.fi_low) or self.fi_low <= self.fi_after <= self.fi_high

    @property
    def is_of_labels(self) -> bool:
        """Whether no rule acts because labels do not say which epochs are doubtful."""
        return self.rule == "labels"

    @property
    def limit(self) -> float:
        """The index up to which this night is left alone; NaN if the night by itself does not decide."""
        is_by_night = math.isnan(self.stager_fi) and self.fi_low < self.fi_high
        return self.fi_high if is_by_night else math.nan

    def __str__(self) -> str:
        """Return the reason in one sentence, and where the clock begins in another."""
        sentence: str = load("report.guard_words:reason")(self)
        return sentence

    def in_short(self) -> str:
        """Return what was done in one sentence, and what is unusual about the clock."""
        sentence: str = load("report.guard_words:in_short")(self)
        return sentence

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


def strength_of(choice: Choice, night: Night, labels: Labels, clock_facts: Mapping[str, Any]) -> Strength:
    """Return how strongly a choice constrained a night; `clock_facts` are the fields about the clock.

    It mentions what the caller asked for, unless the profile steps aside anyway, as for another cohort.
    """
    facts, asked = choice._asdict(), night.options.strength
    setting: Setting = facts.pop("setting")
    # a rule measured the night without the clock, which then may have changed stages, and with ties unsettled
    if clock_facts or choice.rule == "fixed" or setting.is_free:
        facts["fi_after"] = night.fragmentation_index(labels)
    if choice.step == "lowered" and setting.stage_nats is not None:
        facts["balance_nats"] = setting.stage_nats
    if asked is not None and choice.rule == "fixed" and asked in (OFF, setting.transition_weight):
        facts["asked"] = asked
    return Strength(transition_weight=setting.transition_weight, **facts, **clock_facts)


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
