"""`Strength`: how strongly a recording was constrained, and the reason in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stageguard.base.errors import EpochNumber, Message
from stageguard.guard.clock import RemovedBout
from stageguard.night.quantities import Steering
from stageguard.profile.profile import OFF

YIELDING_WEIGHT = 0.3  # the transition weight at which soft evidence gives way

Step = Literal["fixed", "lowered", "raised", "raised then lowered", "untouched", "hard", "nearest"]
STEERING = ("lowered", "raised", "raised then lowered", "nearest")  # steps that aim at a fragmentation


def steered_by(step: str, prior_exponent: float, biases: Sequence[float] | None) -> frozenset[Steering]:
    """Return what was steered: fragmentation by the rule's step, stage totals by stage shares or biases."""
    by: dict[Steering, bool] = {
        "fragmentation": step in STEERING,
        "totals": prior_exponent > 0 or len(set(biases or ())) > 1,
    }
    return frozenset(what for what, acts in by.items() if acts)


Lifting = Literal["off", "unasked", "tried"]


@dataclass(frozen=True, slots=True)
class Strength:
    """How strongly one recording was constrained, and why.

    Attributes
    ----------
    rule : str
        ``fixed`` (the profile's own number), ``target``, ``band`` or ``match``.
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

    rule: Literal["fixed", "target", "band", "match"]
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
        return self._reason() + self._clock_sentence()

    def in_short(self) -> str:
        """Return what was done in one sentence, and what is unusual about the clock."""
        return self._deed() + self._clock_remarks()

    def _deed(self) -> str:
        if self.asked == OFF:
            return "The guard is off, as asked: the stager's own choice."
        if self.rule == "fixed":
            return self._reason()
        tau = f"transition weight {self.transition_weight:g}"
        change = f"fragmentation from {self.fi_before:.3f} to {self.fi_after:.3f}"
        if self.step == "nearest":
            return f"{tau.capitalize()} brings {change}, nearest to the experts' {self.fi_low:.3f}."
        if self.step == "hard":
            return (
                f"Not smoothed: fragmented ({self.fi_before:.3f}), but smoothing barely lowers it, as in a "
                "fragmented sleeper."
            )
        if self.step == "untouched":
            return self._untouched_in_short()
        reached = (
            "as experts score" if self.fi_low <= self.fi_after <= self.fi_high else "not as experts score"
        )
        lifts = f"prior exponent {self.prior_exponent:g}"
        how = {"lowered": f"Smoothed: {tau}", "raised": f"Minority stages lifted: {lifts}"}
        by = how.get(self.step, f"Minority stages lifted, then smoothed: {lifts} and {tau}")
        return f"{by} brought {change}, {reached}."

    def _untouched_in_short(self) -> str:
        if math.isnan(self.fi_before):
            return "Not smoothed: too few epochs to measure fragmentation."
        if self.fi_before < self.fi_low:
            tried = ", and lifting minority stages does not help" * (self.lifting == "tried")
            return f"Not smoothed: less fragmented ({self.fi_before:.3f}) than experts score{tried}."
        if not math.isnan(self.stager_fi):
            return self._untouched("")
        return f"Not smoothed: as fragmented ({self.fi_before:.3f}) as experts score."

    def _clock_remarks(self) -> Message:
        if self.clock_passes and not self.clock_onsets:
            return Message(" The clock found no sleep to count from.")
        moved = f" Sleep onset, which the clock counts from, still moved after {self.clock_passes} passes."
        pinned = (" Pins overrule the clock at ", *_epochs(self.clock_overruled), ".")
        return Message("" if self.clock_settled else moved, *(pinned if self.clock_overruled else ()))

    def _clock_sentence(self) -> Message:
        if not self.clock_passes:
            return Message("")
        if not self.clock_onsets:
            return Message(" The clock found no sleep to count from.")
        still = "" if self.clock_settled else f", which still moved after {self.clock_passes} passes"
        pinned = (" Pins overrule it at ", *_epochs(self.clock_overruled), ".")
        is_alone = self.step in ("untouched", "hard")
        who = " Only the clock may change stages; it" if is_alone else " The clock"
        onset = (" counts from sleep onset at ", *_epochs(self.clock_onsets), f"{still}.")
        return Message(who, *onset, *(pinned if self.clock_overruled else ()))

    def _reason(self) -> str:
        tau = f"transition weight {self.transition_weight:g}"
        change = f"fragmentation index {self.fi_before:.3f} -> {self.fi_after:.3f}"
        if self.asked == OFF:
            return f"The guard is off, as asked: the stager's own choice; {change}."
        if self.asked is not None:
            return f"{tau.capitalize()} was given, in place of the profile's own; {change}."
        if self.rule == "fixed":
            return f"The profile fixes {tau}; {change}."
        if self.step == "nearest":
            target = f"the experts' fragmentation index {self.fi_low:.3f}"
            if not math.isnan(self.stager_fi):
                target += f" for a night of this index (median of the stager's {self.stager_fi:.3f})"
            return f"{tau.capitalize()} comes nearest to {target}; {change}."
        band = f"the rule allows ({self.fi_low:.3f} to {self.fi_high:.3f})"
        if self.step == "untouched":
            return self._untouched(band)
        if self.step == "hard":
            return (
                f"More fragmented ({self.fi_before:.3f}) than {band}, but smoothing barely lowers it "
                f"({self.fi_yielded:.3f} at transition weight {YIELDING_WEIGHT:g}): a fragmented sleeper, "
                "not a flickering stager; no rule of the profile acts."
            )
        if self.rule == "target" and self.step == "lowered":
            why = f"More fragmented than {band}"
            if not math.isnan(self.stager_fi):
                why = f"The stager flickers (median over its nights {self.stager_fi:.3f})"
            nats = sum(self.balance_nats)  # REM's alone
            moved = "raised" if nats > 0 else "lowered"
            gave = f", REM {moved} by {abs(nats):.2f} nats to what the probabilities expect" if nats else ""
            return f"{why}: {tau} brings it nearest to the aim, {self.fi_aim:.3f}{gave}; {change}."
        reached = "" if self.fi_low <= self.fi_after <= self.fi_high else ", still outside"
        if self.step == "lowered":
            return f"More fragmented than {band}: {tau} is the least that helps; {change}{reached}."
        why = f"Less fragmented than {band}"
        if self.fi_before >= self.fi_low:
            why = "Less fragmented than experts score, and short of stages that the probabilities expect"
        raised = f"{why}: prior exponent {self.prior_exponent:g} lifts minority stages"
        if self.step == "raised":
            return f"{raised}; {change}{reached}."
        return f"{raised}, then {tau} smooths it; {change}{reached}."

    def _untouched(self, band: str) -> str:
        if math.isnan(self.fi_before):
            return "Too few epochs to measure fragmentation: no rule of the profile acts."
        if self.fi_before < self.fi_low:
            reason = {
                "off": "the profile lifts no minority stages",
                "unasked": "minority stages are lifted only for a stager known to be trained on natural "
                "class frequencies",
                "tried": "lifting minority stages was tried, and none of it helps",
            }[self.lifting]
            return (
                f"Less fragmented ({self.fi_before:.3f}) than {band}; {reason}: no rule of the profile acts."
            )
        if not math.isnan(self.stager_fi):
            flickers = self.stager_fi > self.fi_high
            who = "This night needs" if flickers else "The stager does not flicker: it needs"
            return (
                f"{who} no rule (median over its nights {self.stager_fi:.3f}, this one {self.fi_before:.3f})."
            )
        return f"As fragmented ({self.fi_before:.3f}) as {band}: no rule of the profile acts."


def _epochs(epochs: Sequence[int]) -> list[object]:
    """Return the parts of a message that name some epochs."""
    listed = [part for epoch in epochs for part in (", ", EpochNumber(epoch))][1:]
    return ["epoch " if len(epochs) == 1 else "epochs ", *listed]
