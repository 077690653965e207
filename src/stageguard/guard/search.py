"""How strongly a profile constrains each recording: the rules, and the search for many nights at once.

A rule is a generator: it yields the trials to decode and is sent their paths, so that each round of many
nights' searches is decoded in one call. It returns the trial to keep and the reason. The search ignores a
profile's clock: the night is decoded with the clock at the strength that was found without it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from stageguard.base.arrays import Labels
from stageguard.guard.clock import MOST_PASSES
from stageguard.guard.evidence import Night
from stageguard.guard.solver import Job, Passes, Path, Solver, Trial, fixed_log_weight, fixed_trial
from stageguard.guard.strength import YIELDING_WEIGHT, Lifting, Step, Strength
from stageguard.profile.parts import StrengthRule
from stageguard.profile.profile import OFF, Profile

TRANSITION_WEIGHTS = (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0, 1.5)
PRIOR_EXPONENTS = tuple(round(0.05 * i, 2) for i in range(15))  # 0, .05, … .70
BALANCING_ROUNDS = 4  # chosen on the stagers of studies/guard-on-real-data
NEAR = 0.9  # of the aim: below it, a night's weight is refined
WEIGHTS_BETWEEN = 3  # that the refinement tries, between the weight and the next smaller one
STARVED = 0.05  # of the night: argmax starves stages if more is in other stages than the probabilities expect
_LEAST_SHARE = 0.01  # of the night: less REM than that is noise
_SHARE_OFFSET = 1e-4  # keeps the log of a stage that never occurs finite

Search = Generator[list[Trial], list[Path], tuple[Trial, Strength]]

UNTOUCHED = Trial(0.0, None, is_free=True)


class Limits(NamedTuple):
    """Limits of the fragmentation index on one night."""

    rule: Literal["target", "band"]
    low: float  # below it, minority stages are lifted
    high: float  # above it, fragmentation is lowered
    aim: float  # what it is lowered to
    full: float  # up to it, stages that argmax starves are lifted
    soft: float = math.inf  # share of the index that may be left at the yielding weight
    stager_fi: float = math.nan

    def acts_on(self, fi: float) -> bool:
        """Whether a night's fragmentation is to be lowered."""
        if math.isnan(self.stager_fi):
            return fi > self.high
        return self.stager_fi > self.high and fi > self.aim


def _limits(rule: StrengthRule, ratio: float, fi_before: float) -> Limits:
    """Return a rule's limits for epochs `ratio` times as long as the profile's."""
    target = rule.fi_target * ratio
    low = rule.floor * target
    if rule.rule == "band":
        return Limits("band", low, rule.cap * target, rule.cap * target, low)
    high = rule.act_above * target
    if rule.stager_fi is None:
        return Limits("target", low, high, target, target, rule.soft)
    return Limits("target", low, high, _aim(rule, ratio, fi_before), target, stager_fi=rule.stager_fi * ratio)


def _aim(rule: StrengthRule, ratio: float, fi_before: float) -> float:
    """Return the index to aim at on a night, which keeps part of its difference from the stager's median."""
    target = rule.fi_target * ratio
    return (
        target if rule.stager_fi is None else target * (fi_before / (rule.stager_fi * ratio)) ** rule.exponent
    )


def search(profile: Profile, solver: Solver, night: Night, fi_before: float, *, natural: bool) -> Search:
    """Return the search of the profile's rule on this night."""
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

    A strength of None is fixed by the profile; `fixed_strength` describes it on demand.
    """

    night: Night
    path: Path
    strength: Strength | None


def run_searches(profile: Profile, solver: Solver, nights: Sequence[Night], natural: bool) -> list[Solved]:
    """Run every night's strength search; with a clock, decode again until sleep onset no longer moves."""
    solved = _search_all(profile, solver, nights, natural)
    if solver.clock is None:
        return solved
    open_nights = [i for i, night in enumerate(nights) if night.has_clock]
    for n_passes in range(1, MOST_PASSES + 1):
        timed: dict[int, Night] = {}
        for i in open_nights:
            night, path, _ = solved[i]
            if path.passes is None or not path.passes.is_settled:
                onsets = solver.clock.onsets(path.labels, *night.clock_epochs)
                timed[i] = night.counted_from(onsets, solver.clock)
        if not timed:
            break
        jobs = {
            i: Job(night, _trial_of(profile, nights[i], solved[i].strength)) for i, night in timed.items()
        }
        for i, (night, path) in solve_timed(solver, jobs).items():
            onsets, strength = night.clock.onsets if night.clock else (), solved[i].strength
            is_settled = solver.clock.onsets(path.labels, *night.clock_epochs) == onsets
            removed = night.clock.removed(path.labels, solver.epoch_seconds) if night.clock else ()
            path.passes = Passes(onsets, n_passes, is_settled, removed)
            if strength is not None:
                strength = replace(
                    strength, fi_after=path.fragmentation_index, **_about_clock(night, path.passes)
                )
            solved[i] = Solved(night, path, strength)
        open_nights = list(timed)
    return solved


def solve_timed(solver: Solver, jobs: Mapping[int, Job]) -> dict[int, tuple[Night, Path]]:
    """Decode nights with their clocks; a clock gives way where it would leave a hole in a bout.

    Every round releases epochs that were held back before, so that there is an end.
    """
    found: dict[int, tuple[Night, Path]] = {}
    left = dict(jobs)
    while left:
        paths = solver.solve_feasible([*left.values()])
        again: dict[int, Job] = {}
        for (i, (night, trial)), path in zip(left.items(), paths, strict=True):
            found[i] = night, path
            if night.clock is not None and (holes := night.clock.holes(path.labels)):
                again[i] = Job(night.timed(night.clock.with_released(holes)), trial)
        left = again
    return found


def _about_clock(night: Night, passes: Passes) -> dict[str, Any]:
    """Return the fields of `Strength` about the clock."""
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


def _trial_of(profile: Profile, night: Night, strength: Strength | None) -> Trial:
    if strength is not None:
        return chosen_trial(profile, night, strength)
    trial = fixed_trial(profile)
    assert trial is not None
    return trial


def _search_all(profile: Profile, solver: Solver, nights: Sequence[Night], natural: bool) -> list[Solved]:
    """Run every night's strength search; each round's trials are decoded in one call."""
    if profile.strength is None:
        return _run_fixed(profile, solver, nights)
    before = [_argmax_path(night) for night in nights]
    searches: list[Search] = [
        search(profile, solver, night, path.fragmentation_index, natural=natural)
        for night, path in zip(nights, before, strict=True)
    ]
    rounds: list[list[dict[Trial, Path]]] = [[] for _ in nights]  # the last two rounds of each night
    results: dict[int, tuple[Trial, Strength]] = {}
    replies: dict[int, list[Path] | None] = dict.fromkeys(range(len(nights)))
    while replies:
        requests: dict[int, list[Trial]] = {}
        for i, reply in replies.items():
            try:
                requests[i] = searches[i].send(reply) if reply is not None else next(searches[i])
            except StopIteration as stop:
                results[i] = stop.value
        jobs = [Job(nights[i].asleep(), trial) for i, trials in requests.items() for trial in trials]
        paths = iter(solver.solve_feasible(jobs))
        replies = {}
        for i, trials in requests.items():
            rounds[i] = [*rounds[i][-1:], {trial: next(paths) for trial in trials}]
            replies[i] = list(rounds[i][-1].values())
    tried = [{trial: path for each in last for trial, path in each.items()} for last in rounds]
    found: dict[int, Solved] = {}
    late: dict[int, Job] = {}  # nights to be decoded at the trial of their choice
    for i, (trial, strength) in results.items():
        night = nights[i] if trial == UNTOUCHED else nights[i].cut_at_period()
        if trial == UNTOUCHED and night.is_plain:
            found[i] = Solved(night, before[i], strength)
        elif trial in tried[i] and (night.period is None or (solver.clock and night.has_clock)):
            # of the period alone; the clock only needs its onset, and decodes the whole night
            found[i] = Solved(night, _in_place(tried[i][trial], night), strength)
        else:
            late[i] = Job(night, trial)
    for (i, job), path in zip(late.items(), solver.solve_feasible([*late.values()]), strict=True):
        found[i] = Solved(job.night, path, results[i][1])
    return [found[i] for i in range(len(nights))]


def _in_place(path: Path, night: Night) -> Path:
    """Return a path of the sleep period as one of the night, -1 around the period."""
    if len(path.labels) == len(night.argmax):
        return path
    labels = np.full(len(night.argmax), -1, dtype=np.int8)
    labels[slice(*night.measured)] = path.labels
    return Path(labels, None, path.fragmentation_index)


def _argmax_path(night: Night) -> Path:
    """Return the stager's own choice, calibrated if the profile says so, with its fragmentation index."""
    labels = night.own_choice()
    return Path(labels, None, night.fragmentation_index(labels))


def share_log_weight(night: Night, exponent: float) -> tuple[float, ...]:
    """Return the nats that lifting minority stages adds to each stage's evidence on this night."""
    return tuple((-exponent * np.log(night.mean_probabilities() + _SHARE_OFFSET)).tolist())


def chosen_trial(profile: Profile, night: Night, strength: Strength) -> Trial:
    """Return the trial behind a strength, so that a night can be decoded again in the same way."""
    if strength.step in ("untouched", "hard"):
        return UNTOUCHED
    if strength.rule in ("fixed", "match"):
        return Trial(strength.transition_weight, fixed_log_weight(profile))
    exponent = strength.prior_exponent
    added = share_log_weight(night, exponent) if exponent else strength.balance_nats or None
    return Trial(strength.transition_weight, added, is_free=strength.step == "raised")


def _run_fixed(profile: Profile, solver: Solver, nights: Sequence[Night]) -> list[Solved]:
    """Decode every night at the profile's own transition weight, unless that was done during the checks."""
    opened = [night.opening for night in nights]
    late = [i for i, path in enumerate(opened) if path is None]
    if late:
        trial = fixed_trial(profile)
        assert trial is not None
        paths = solver.solve_feasible([Job(nights[i], trial) for i in late])
        for i, path in zip(late, paths, strict=True):
            opened[i] = path
    return [Solved(night, path, None) for night, path in zip(nights, opened, strict=True)]


def fixed_strength(
    profile: Profile, night: Night, path: Path, asked: float | Literal["off"] | None = None
) -> Strength:
    """Return how strongly a profile with a fixed strength constrained a night.

    It mentions what was `asked`, unless the profile steps aside anyway, as for another cohort.
    """
    assert profile.transition_weight is not None
    is_heeded = asked == OFF or asked == profile.transition_weight
    return Strength(
        rule="fixed",
        step="fixed",
        transition_weight=profile.transition_weight,
        prior_exponent=profile.prior_exponent,
        fi_before=_argmax_path(night).fragmentation_index,
        fi_after=night.fragmentation_index(path.labels),
        asked=asked if is_heeded else None,
        **({} if path.passes is None else _about_clock(night, path.passes)),
    )


@lru_cache(maxsize=16)
def _trials(log_weight: tuple[float, ...] | None) -> list[Trial]:
    """Return a trial per transition weight; nights share the list, so nobody may change it."""
    return [Trial(tau, log_weight) for tau in TRANSITION_WEIGHTS]


def _match(profile: Profile, fi_before: float, target: float, stager_fi: float) -> Search:
    if math.isnan(fi_before):  # no sleep to be measured
        return UNTOUCHED, Strength("match", "untouched", 0.0, profile.prior_exponent, fi_before, fi_before)
    trials = _trials(fixed_log_weight(profile))
    indices = [path.fragmentation_index for path in (yield trials)]
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
    """Search by ``target`` or ``band``, which differ only in their limits."""
    step: Step = "untouched"
    trial, exponent, fi, yielded = UNTOUCHED, 0.0, fi_before, math.nan
    if limits.acts_on(fi_before):
        night, step = night.asleep(), "lowered"
        if limits.rule == "target":
            (path,) = yield [Trial(YIELDING_WEIGHT)]
            yielded = path.fragmentation_index
            step = "hard" if yielded >= limits.soft * fi_before else "lowered"
        if step == "lowered":
            balance = (yield from _balance(solver, night, path)) if limits.rule == "target" else None
            trial, fi = yield from _calm(solver, night, limits.aim, balance, fi_before)
        if step == "lowered" and limits.rule == "target":
            trial, fi = yield from _land(trial, fi, limits.aim)
    elif fi_before < limits.full and lifting == "tried":
        night = night.asleep()
        trial, exponent, fi = yield from _lift(night, limits, fi_before)
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
        balance_nats=trial.log_weight or () if step == "lowered" else (),
        lifting=lifting,
    )


def _balance(
    solver: Solver, night: Night, path: Path
) -> Generator[list[Trial], list[Path], tuple[float, ...] | None]:
    """Find the nats per stage that give REM the total time that the probabilities expect.

    Smoothing removes a stage that is seldom the likeliest, however much of the night the probabilities give
    it: `path` is the night at the yielding weight. Each round goes half of the way, since a whole step
    overshoots. Wake is not balanced: that did harm on real nights.
    """
    scheme = solver.profile.scheme
    rem = scheme.rem_index
    if rem is None:
        return None
    expected = float(night.mean_probabilities()[rem])
    added = 0.0
    for n_rounds in range(1, BALANCING_ROUNDS + 1):
        share = np.count_nonzero(path.labels == rem) / np.count_nonzero(path.labels >= 0)
        added += 0.5 * math.log((expected + _LEAST_SHARE) / (share + _LEAST_SHARE))
        nats = tuple(added if stage == rem else 0.0 for stage in range(scheme.n_stages))
        if n_rounds < BALANCING_ROUNDS:
            (path,) = yield [Trial(YIELDING_WEIGHT, nats)]
    return nats


def _land(trial: Trial, fi: float, aim: float) -> Generator[list[Trial], list[Path], tuple[Trial, float]]:
    """Return the trial that lands nearest to the aim: this one or, if it lands well below, a weaker one."""
    top = trial.transition_weight
    if not fi < NEAR * aim or top == 0.0:
        return trial, fi
    below = TRANSITION_WEIGHTS[TRANSITION_WEIGHTS.index(top) - 1]
    parts = (i / (WEIGHTS_BETWEEN + 1) for i in range(1, WEIGHTS_BETWEEN + 1))
    trials = [trial._replace(transition_weight=below + (top - below) * part) for part in parts]
    tried = [*zip(trials, (path.fragmentation_index for path in (yield trials)), strict=True), (trial, fi)]
    return min(tried, key=lambda each: abs(each[1] - aim))


def _calm(
    solver: Solver, night: Night, high: float, log_weight: tuple[float, ...] | None, fi_free: float
) -> Generator[list[Trial], list[Path], tuple[Trial, float]]:
    """Find the smallest transition weight that brings fragmentation down to `high`, else take the largest.

    Fragmentation need not fall with every step, so the weights are tried in order. The first one is known to
    give `fi_free` if it constrains nothing.
    """
    trials = _trials(log_weight)
    trial, fi, begin = trials[0], fi_free, 1
    if not solver.is_free_at_zero:
        (path,) = yield trials[:1]
        fi = path.fragmentation_index
    while fi > high and begin < len(trials):
        n_together = solver.n_together(Job(night, trials[begin]))
        tried = trials[begin : begin + n_together]
        begin += n_together
        results = [(each, path.fragmentation_index) for each, path in zip(tried, (yield tried), strict=True)]
        trial, fi = next((each for each in results if each[1] <= high), results[-1])
    return trial, fi


def _lift(
    night: Night, limits: Limits, fi_free: float
) -> Generator[list[Trial], list[Path], tuple[Trial, float, float]]:
    """Find the smallest prior exponent that brings fragmentation up to a limit, else the best one.

    If argmax starves stages, ``target`` goes up to the experts' fragmentation, but only while the stages'
    totals come nearer to what the probabilities expect.
    """
    best, best_exponent, best_fi = UNTOUCHED, 0.0, fi_free
    least = _starved(night, _argmax_path(night).labels)
    is_starved = limits.full > limits.low and least > STARVED
    up_to = limits.full if is_starved else limits.low
    if fi_free >= up_to:
        return best, best_exponent, best_fi
    for exponent in PRIOR_EXPONENTS[1:]:
        trial = Trial(0.0, share_log_weight(night, exponent), is_free=True)
        (path,) = yield [trial]
        fi = path.fragmentation_index
        starved = _starved(night, path.labels)
        if fi > best_fi and (starved < least or not is_starved):
            best, best_exponent, best_fi, least = trial, exponent, fi, starved
        if fi >= up_to:
            break
    return best, best_exponent, best_fi


def _starved(night: Night, labels: Labels) -> float:
    """Return the share of the night that is in other stages than the probabilities expect."""
    expected = night.mean_probabilities()
    counts = np.bincount(labels[labels >= 0], minlength=len(expected))
    return float(np.abs(counts / max(1, counts.sum()) - expected).sum() / 2.0)
