"""How strongly a profile constrains each recording: the rules, and the search that all nights make together.

A rule is a generator: it yields the trials it wants decoded and is sent their fragmentation indices, so
that each round of many nights' searches is decoded in one call. It returns the trial to keep and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.guard.clock import MOST_PASSES, NightClock, night_clock, sleep_onsets
from stageguard.guard.evidence import Night, best_stages, fragmentation_index
from stageguard.guard.solver import Job, Path, Solver, Trial, fixed_log_weight, fixed_trial
from stageguard.profile.parts import Clock, StrengthRule
from stageguard.profile.profile import Profile

TRANSITION_WEIGHTS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5)
PRIOR_EXPONENTS = tuple(round(0.05 * i, 2) for i in range(15))  # 0, .05, … .70
YIELDING_WEIGHT = 0.3  # the transition weight at which soft evidence gives way
_SHARE_OFFSET = 1e-4  # keeps the log of a stage that never occurs finite

Step = Literal["fixed", "lowered", "raised", "raised then lowered", "untouched", "hard", "nearest"]
STEERING = ("lowered", "raised", "raised then lowered", "nearest")  # steps that aim at a fragmentation
Lifting = Literal["off", "unasked", "tried"]
Search = Generator[list[Trial], list[float], tuple[Trial, "Strength"]]

UNTOUCHED = Trial(0.0, None, is_free=True)


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
        What was used.
    fi_before, fi_after : float
        Fragmentation index of argmax and of the output.
    fi_low, fi_high : float
        Below and above which the rule acts, at this epoch length; for ``match`` both are the target; NaN for
        ``fixed``.
    fi_aim : float
        What ``target`` brings the night to, at this epoch length.
    fi_yielded : float
        What a transition weight of 0.3 leaves, where ``target`` tried it.
    stager_fi : float
        Median over the stager's nights where the profile holds it, at this epoch length.
    lifting : str
        Whether minority stages may be lifted on this night: ``tried`` where they may, ``unasked`` where
        nobody said that the stager was trained on natural class frequencies, ``off`` where the profile
        says no.
    clock_onsets : tuple of int
        Epochs from which the profile's clock counts: the first of sleep, and of sleep after a long wake.
    clock_passes : int
        How often the night was decoded with the clock, 0 without one.
    clock_settled : bool
        Whether the output's own sleep onset is the one the clock counts from.
    clock_overruled : tuple of int
        Pinned epochs whose stage has less than half its usual share at that time.
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
    lifting: Lifting = "unasked"
    clock_onsets: tuple[int, ...] = ()
    clock_passes: int = 0
    clock_settled: bool = True
    clock_overruled: tuple[int, ...] = ()

    @property
    def steers(self) -> bool:
        """Whether the rule brought the night's fragmentation to what it aims at."""
        return self.step in STEERING

    def __str__(self) -> str:
        """Return the reason in a sentence, and what the clock counts from in another."""
        return self._reason() + self._clock_sentence()

    def _clock_sentence(self) -> str:
        if not self.clock_passes:
            return ""
        if not self.clock_onsets:
            return " The clock found no sleep to count from."
        at = ", ".join(map(str, self.clock_onsets))
        still = "" if self.clock_settled else f", which still moved after {self.clock_passes} passes"
        pins = ", ".join(map(str, self.clock_overruled))
        pinned = f" Pins overrule it at {_epochs(self.clock_overruled)} {pins}." if pins else ""
        alone = "alone acts: it " if self.step in ("untouched", "hard") else ""
        return (
            f" The clock {alone}counts from sleep onset at {_epochs(self.clock_onsets)} {at}{still}.{pinned}"
        )

    def _reason(self) -> str:
        tau = f"transition weight {self.transition_weight:g}"
        change = f"fragmentation index {self.fi_before:.3f} -> {self.fi_after:.3f}"
        if self.rule == "fixed":
            return f"The profile fixes {tau}; {change}."
        if self.rule == "match":
            target = f"the experts' fragmentation index {self.fi_low:.3f}"
            if not math.isnan(self.stager_fi):
                target += f" for a night of this index (median of the stager's {self.stager_fi:.3f})"
            return f"{tau.capitalize()} comes nearest to {target}; {change}."
        band = f"the rule allows ({self.fi_low:.3f} to {self.fi_high:.3f})"
        if self.step == "untouched":
            return self._untouched(band)
        if self.step == "hard":
            return (
                f"More fragmented ({self.fi_before:.3f}) than {band}, but the evidence does not yield "
                f"({self.fi_yielded:.3f} at transition weight {YIELDING_WEIGHT:g}): a fragmented sleeper, "
                "not a flickering stager; no rule of the profile acts."
            )
        if self.rule == "target" and self.step == "lowered":
            why = f"More fragmented than {band}, and the evidence yields"
            if not math.isnan(self.stager_fi):
                why = f"The stager flickers (median over its nights {self.stager_fi:.3f})"
            return f"{why}: {tau} is the least that brings it to {self.fi_aim:.3f} or below; {change}."
        reached = "" if self.fi_low <= self.fi_after <= self.fi_high else ", still outside"
        if self.step == "lowered":
            return f"More fragmented than {band}: {tau} is the least that helps; {change}{reached}."
        raised = f"Less fragmented than {band}: prior exponent {self.prior_exponent:g} lifts minority stages"
        if self.step == "raised":
            return f"{raised}; {change}{reached}."
        return f"{raised}, then {tau} calms it; {change}{reached}."

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


def _epochs(epochs: Sequence[int]) -> str:
    return "epoch" if len(epochs) == 1 else "epochs"


class Limits(NamedTuple):
    """Below and above which fragmentation is changed, what it is brought down to, and what has to yield."""

    rule: Literal["target", "band"]
    low: float
    high: float
    aim: float
    soft: float = math.inf  # share of fragmentation that may be left at the yielding weight
    stager_fi: float = math.nan

    def acts_on(self, fi: float) -> bool:
        """Whether a night's fragmentation is to be lowered."""
        if math.isnan(self.stager_fi):
            return fi > self.high
        return self.stager_fi > self.high and fi > self.aim


def _limits(rule: StrengthRule, ratio: float, fi_before: float) -> Limits:
    """Return a rule's limits at an epoch length that many times the profile's."""
    target = rule.fi_target * ratio
    low = rule.floor * target
    if rule.rule == "band":
        return Limits("band", low, rule.cap * target, rule.cap * target)
    high = rule.act_above * target
    if rule.stager_fi is None:
        return Limits("target", low, high, target, rule.soft)
    return Limits("target", low, high, _aim(rule, ratio, fi_before), stager_fi=rule.stager_fi * ratio)


def _aim(rule: StrengthRule, ratio: float, fi_before: float) -> float:
    """Return the fragmentation a night is brought to: some of what tells it from the stager's is kept."""
    target = rule.fi_target * ratio
    return (
        target if rule.stager_fi is None else target * (fi_before / (rule.stager_fi * ratio)) ** rule.exponent
    )


def search(profile: Profile, solver: Solver, night: Night, fi_before: float, *, natural: bool) -> Search:
    """Return the search that the profile's rule makes on this night."""
    assert profile.strength is not None
    ratio = solver.epoch_seconds / profile.epoch_seconds
    if profile.strength.rule == "match":
        stager_fi = profile.strength.stager_fi
        stager_fi = math.nan if stager_fi is None else stager_fi * ratio
        return _match(profile, fi_before, _aim(profile.strength, ratio, fi_before), stager_fi)
    liftings: dict[bool | None, Lifting] = {True: "tried", False: "off", None: "unasked"}
    lifting = liftings[True if natural and profile.strength.lift is None else profile.strength.lift]
    return _within(solver, night, fi_before, _limits(profile.strength, ratio, fi_before), lifting)


class Solved(NamedTuple):
    """A night with the clock it was decoded with, its path, and how strongly it was constrained.

    None stands for the strength a profile fixes, which `fixed_strength` tells when it is asked for.
    """

    night: Night
    path: Path
    strength: Strength | None


def run_searches(profile: Profile, solver: Solver, nights: Sequence[Night], natural: bool) -> list[Solved]:
    """Run every night's strength search; with a clock, again until sleep onset stays where it was."""
    solved = _search_all(profile, solver, nights, natural)
    if profile.clock is None:
        return solved
    open_nights = list(range(len(nights)))
    read = [_onsets(profile, solver, night, path) for night, path, _ in solved]
    for n_passes in range(1, MOST_PASSES + 1):
        timed: dict[int, Night] = {}
        for i in open_nights:
            night, _, strength = solved[i]
            if strength and strength.clock_passes and read[i] == strength.clock_onsets:
                continue
            timed[i] = night.timed(_clock(profile, solver, night, read[i]) if read[i] else None)
        if not timed:
            break
        again = _search_all(profile, solver, list(timed.values()), natural)
        for i, (night, path, strength) in zip(timed, again, strict=True):
            onsets = night.clock.onsets if night.clock else ()
            read[i] = _onsets(profile, solver, night, path)
            told: dict[str, Any] = {
                "clock_onsets": onsets,
                "clock_passes": n_passes,
                "clock_settled": read[i] == onsets,
                "clock_overruled": _overruled(profile.clock, night),
            }
            if strength is None:
                strength = fixed_strength(profile, night, path, **told)
            else:
                strength = replace(strength, fi_after=path.fragmentation_index, **told)
            solved[i] = Solved(night, path, strength)
        open_nights = list(timed)
    return solved


def _overruled(clock: Clock, night: Night) -> tuple[int, ...]:
    """Return the pinned epochs whose stage has less than half its usual share at that time."""
    if not night.pins or night.clock is None:
        return ()
    nats, least = night.clock.nats, clock.weight * np.log(0.5)
    return tuple(epoch for epoch, stage in night.pins.items() if nats[epoch, stage] < least)


def _clock(profile: Profile, solver: Solver, night: Night, onsets: tuple[int, ...]) -> NightClock:
    wake = profile.scheme.wake_index
    assert wake is not None and solver.clock_factors is not None
    n_epochs = len(night.probabilities)
    return night_clock(solver.clock_factors, onsets, n_epochs, wake, night.clock_stop)


def _onsets(profile: Profile, solver: Solver, night: Night, path: Path) -> tuple[int, ...]:
    assert profile.clock is not None
    return sleep_onsets(path.labels, profile.scheme, profile.clock, solver.epoch_seconds, night.clock_stop)


def _search_all(profile: Profile, solver: Solver, nights: Sequence[Night], natural: bool) -> list[Solved]:
    """Run every night's strength search; each round's trials are decoded in one call."""
    if profile.strength is None:
        return _run_fixed(profile, solver, nights)
    before = [_argmax_path(night) for night in nights]
    searches: list[Search] = [
        search(profile, solver, night, path.fragmentation_index, natural=natural)
        for night, path in zip(nights, before, strict=True)
    ]
    tried: list[dict[Trial, Path]] = [{} for _ in nights]
    results: dict[int, tuple[Trial, Strength]] = {}
    replies: dict[int, list[float] | None] = dict.fromkeys(range(len(nights)))
    while replies:
        asked: dict[int, list[Trial]] = {}
        for i, reply in replies.items():
            try:
                asked[i] = searches[i].send(reply) if reply is not None else next(searches[i])
            except StopIteration as stop:
                results[i] = stop.value
        jobs = [Job(nights[i], trial) for i, trials in asked.items() for trial in trials]
        paths = iter(solver.solve_feasible(jobs))
        replies = {}
        for i, trials in asked.items():
            tried[i] = {trial: next(paths) for trial in trials}
            replies[i] = [path.fragmentation_index for path in tried[i].values()]
    for i, (trial, _) in results.items():
        if trial == UNTOUCHED and nights[i].is_plain:
            tried[i].setdefault(trial, before[i])
    late = {i: trial for i, (trial, _) in results.items() if trial not in tried[i]}  # not of the last round
    paths = iter(solver.solve_feasible([Job(nights[i], trial) for i, trial in late.items()]))
    for i, trial in late.items():
        tried[i][trial] = next(paths)
    chosen = [results[i] for i in range(len(nights))]
    return [
        Solved(night, tried[i][trial], strength)
        for i, (night, (trial, strength)) in enumerate(zip(nights, chosen, strict=True))
    ]


def _argmax_path(night: Night) -> Path:
    """Return the stager's own choice, calibrated if the profile says so, with its fragmentation index."""
    labels = night.argmax
    if night.calibration is None and night.filled is None and len(night.spans) == 1:
        return Path(labels, None, night.n_switches / night.n_pairs if night.n_pairs else float("nan"))
    if night.calibration is not None:
        labels = best_stages(night.probabilities, night.calibration, None)
    return Path(labels, None, fragmentation_index(labels, night.spans))


def share_log_weight(night: Night, exponent: float) -> tuple[float, ...]:
    """Return what lifting minority stages adds to each stage's evidence on this night, in nats."""
    return tuple((-exponent * np.log(night.mean_probabilities() + _SHARE_OFFSET)).tolist())


def chosen_trial(profile: Profile, night: Night, strength: Strength) -> Trial:
    """Return the trial behind a strength that was found, so that a night can be decoded alike once more."""
    if strength.rule in ("fixed", "match"):
        return Trial(strength.transition_weight, fixed_log_weight(profile))
    if strength.step in ("untouched", "hard"):
        return UNTOUCHED
    exponent = strength.prior_exponent
    added = share_log_weight(night, exponent) if exponent else None
    return Trial(strength.transition_weight, added, is_free=strength.step == "raised")


def _run_fixed(profile: Profile, solver: Solver, nights: Sequence[Night]) -> list[Solved]:
    """Decode every night at the profile's own transition weight, unless checking it did so already."""
    opened = [night.opening for night in nights]
    late = [
        i
        for i, (night, path) in enumerate(zip(nights, opened, strict=True))
        if path is None or not night.is_plain
    ]
    if late:
        trial = fixed_trial(profile)
        assert trial is not None
        found = solver.solve_feasible([Job(nights[i], trial) for i in late])
        for i, path in zip(late, found, strict=True):
            opened[i] = path
    return [Solved(night, path, None) for night, path in zip(nights, opened, strict=True)]


def fixed_strength(profile: Profile, night: Night, path: Path, **clock: Any) -> Strength:
    """Return how strongly a profile whose strength follows no rule constrained a night."""
    assert profile.transition_weight is not None
    return Strength(
        rule="fixed",
        step="fixed",
        transition_weight=profile.transition_weight,
        prior_exponent=profile.prior_exponent,
        fi_before=_argmax_path(night).fragmentation_index,
        fi_after=path.fragmentation_index,
        **clock,
    )


def _match(profile: Profile, fi_before: float, target: float, stager_fi: float) -> Search:
    log_weight = fixed_log_weight(profile)
    trials = [Trial(tau, log_weight) for tau in TRANSITION_WEIGHTS]
    indices = yield trials
    distances = [abs(fi - target) for fi in indices]
    best = int(np.argmin(distances))  # the first of equals: the weaker prior
    return trials[best], Strength(
        rule="match",
        step="nearest",
        transition_weight=trials[best].transition_weight,
        prior_exponent=profile.prior_exponent,
        fi_before=fi_before,
        fi_after=indices[best],
        fi_low=target,
        fi_high=target,
        stager_fi=stager_fi,
    )


def _within(solver: Solver, night: Night, fi_before: float, limits: Limits, lifting: Lifting) -> Search:
    """Search as ``target`` and ``band`` do: they differ in their limits alone."""
    step: Step = "untouched"
    trial, exponent, fi, yielded = UNTOUCHED, 0.0, fi_before, math.nan
    if limits.acts_on(fi_before):
        if limits.soft < math.inf:
            (yielded,) = yield [Trial(YIELDING_WEIGHT)]
        step = "hard" if yielded >= limits.soft * fi_before else "lowered"
        if step == "lowered":
            trial, fi = yield from _calm(solver, night, limits.aim, None, fi_before)
    elif fi_before < limits.low and lifting == "tried":
        trial, exponent, fi = yield from _lift(night, limits.low, fi_before)
        if exponent > 0.0:
            step = "raised"
        if exponent > 0.0 and fi > limits.high:
            step = "raised then lowered"
            trial, fi = yield from _calm(solver, night, limits.high, trial.log_weight, fi)
    return trial, Strength(
        rule=limits.rule,
        step=step,
        transition_weight=trial.transition_weight,
        prior_exponent=exponent,
        fi_before=fi_before,
        fi_after=fi,
        fi_low=limits.low,
        fi_high=limits.high,
        fi_aim=limits.aim,
        fi_yielded=yielded,
        stager_fi=limits.stager_fi,
        lifting=lifting,
    )


def _calm(
    solver: Solver, night: Night, high: float, log_weight: tuple[float, ...] | None, fi_free: float
) -> Generator[list[Trial], list[float], tuple[Trial, float]]:
    """Find the smallest transition weight that brings fragmentation down to `high`, else take the largest.

    Fragmentation need not fall with every step, so the weights are tried in order; the first is known
    already where it constrains nothing.
    """
    trials = [Trial(tau, log_weight) for tau in TRANSITION_WEIGHTS]
    trial, fi, begin = trials[0], fi_free, 1
    if not solver.is_free_at_zero:
        (fi,) = yield trials[:1]
    while fi > high and begin < len(trials):
        n_together = solver.n_together(Job(night, trials[begin]))
        tried = trials[begin : begin + n_together]
        begin += n_together
        results = list(zip(tried, (yield tried), strict=True))
        trial, fi = next((each for each in results if each[1] <= high), results[-1])
    return trial, fi


def _lift(
    night: Night, low: float, fi_free: float
) -> Generator[list[Trial], list[float], tuple[Trial, float, float]]:
    """Find the smallest prior exponent that brings fragmentation up to `low`, else the best there is."""
    best, best_exponent, best_fi = UNTOUCHED, 0.0, fi_free
    for exponent in PRIOR_EXPONENTS[1:]:
        trial = Trial(0.0, share_log_weight(night, exponent), is_free=True)
        (fi,) = yield [trial]
        if fi > best_fi:
            best, best_exponent, best_fi = trial, exponent, fi
        if fi >= low:
            break
    return best, best_exponent, best_fi
