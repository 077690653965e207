"""`Strength`: how strongly a recording was constrained, and why, as facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from stageguard.base.lazy import load
from stageguard.guard.clock import RemovedBout
from stageguard.night.quantities import Steering

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
        return strength_words("reason")(self)

    def in_short(self) -> str:
        """Return what was done in one sentence, and what is unusual about the clock."""
        return strength_words("in_short")(self)


def strength_words(name: Literal["reason", "in_short"]) -> Callable[[Strength], str]:
    """Return a function of `report.strength_words`, which writes the sentences; loaded when one is needed."""
    words: Callable[[Strength], str] = load(f"report.strength_words:{name}")
    return words
