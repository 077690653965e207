"""Searches that rules share: the least smoothing, or the least lifting of stages, that reaches a limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stageguard.base.arrays import Floats
from stageguard.profile.rules.rule import TRANSITION_WEIGHTS, Choice, Curve, Lifting, Nats, Setting

PRIOR_EXPONENTS = tuple(round(0.05 * i, 2) for i in range(1, 15))  # .05, .10, … .70
STARVED = 0.05  # of the night: argmax starves stages if more is in other stages than the probabilities expect
_SHARE_OFFSET = 1e-4  # keeps the log of a stage that never occurs finite
_TOGETHER = 4  # weights that the compiled kernel tries in hardly more time than one


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
