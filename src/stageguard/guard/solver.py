"""A profile compiled for one epoch length: the curve of a night over transition weights, and its path at one.

Which kernel finds a path depends on the profile and the night:

- every epoch decided by itself, if nothing connects them: argmax, ties included
- minimum bouts and transitions: `path` and `curve`, on products of probabilities if these cannot underflow
  and the evidence is nothing but the probabilities and the clock, else on logarithms
- the paper's greedy flip-flop: `greedy`; everything else, and more than five stages: `automaton`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.arrays import PRODUCT_RANGE_NATS, Floats, Ints32, Labels
from stageguard.guard import kernels as kernels_module
from stageguard.guard.automaton import Automaton, Tables, compile_automaton, compile_tables, weigh
from stageguard.guard.clock import ClockRules
from stageguard.guard.night import LOG_CLIP, Night, Spans, settle_ties
from stageguard.profile.profile import Profile
from stageguard.profile.rules import Nats, Point, Setting

_RESCALE_EVERY_EPOCHS, _GREEDY_RESCALES_EVERY = 8, 4  # as in _core/bouts.hpp and greedy.hpp

# Limits of the compiled sums without an automaton; the reference keeps to them, so that both draw alike.
SUMS_STAGES = 5
SUMS_MINIMUM = 8

NO_PATH = (
    "no path obeys the profile's forbidden transitions, bout lengths and minimum bouts. Give every "
    "transition that may occur a probability above 0, or shorten min_bout_seconds."
)

Bouts = tuple[Floats, Floats, Ints32, bool]  # stay, change (a row per transition weight), minimum, censored


class Path(NamedTuple):
    """The stages of a night (-1 in gaps), and their score; None if every epoch was decided by itself."""

    labels: Labels
    score: float | None


class NoPathError(Exception):
    """No path of a night obeys the constraints at a setting."""

    def __init__(self, solver: Solver, night: Night, setting: Setting) -> None:
        super().__init__(solver, night, setting)
        self.solver, self.night, self.setting = solver, night, setting


class Solver:
    """A profile compiled for one epoch length."""

    def __init__(self, profile: Profile, epoch_seconds: float) -> None:
        self.profile = profile
        self.epoch_seconds = epoch_seconds
        self.tables = compile_tables(profile, epoch_seconds)
        self.n_stages = profile.scheme.n_stages
        flip, active = profile.flip_flop, kernels_module.active
        self.is_greedy = flip.is_greedy and not profile.durations
        has_only_bouts = flip.penalty_nats == 0 and not profile.durations
        longest = int(self.tables.minimum_epochs.max())
        self.is_structured = (
            has_only_bouts and longest <= active.LONGEST_MINIMUM and self.n_stages <= active.MOST_STAGES
        )
        self.sums_bouts = has_only_bouts and longest <= SUMS_MINIMUM and self.n_stages <= SUMS_STAGES
        # Then every epoch is independent of the others at transition weight 0.
        self.is_free_at_zero = has_only_bouts and longest == 1
        self.clock = ClockRules.of(profile.clock, profile.scheme, epoch_seconds) if profile.clock else None
        self._clock_spread = self.clock.spread_nats if self.clock else 0.0
        self.bouts = cache(self._bouts)
        self._greedy_rules = flip.penalty_nats, flip.window_epochs
        self._no_weight = np.ones(self.n_stages)
        window, every = 1, _RESCALE_EVERY_EPOCHS
        if self.is_greedy:
            window, every = flip.window_epochs, _GREEDY_RESCALES_EVERY
        self._reach_epochs = _reach_epochs(self.tables, window) + every
        scores = np.concatenate([self.tables.stay, self.tables.change[self.tables.change > -np.inf]])
        self._largest_score = float(np.abs(scores).max())

    def is_free(self, setting: Setting) -> bool:
        """Whether every epoch is decided by itself, so that the path is argmax; ties see `_free_path`."""
        return setting.is_free or (self.is_free_at_zero and setting.transition_weight == 0.0)

    def path(
        self, night: Night, setting: Setting, spans: Spans | None = None, *, may_fail: bool = False
    ) -> Path:
        """Return the best path of a night, or of some stretches of it.

        If there is none, it raises NoPathError, or its score is -inf if it `may_fail`.
        """
        spans = night.spans if spans is None else spans
        weights, nats = (setting.transition_weight,), setting.stage_nats
        if setting.is_free or (self.is_free_at_zero and setting.transition_weight == 0.0):
            return self._free_path(night, setting, spans)
        if self.is_structured:
            rows, products, factors, bouts = self._kernel_input(night, weights, nats)
            clock = night.clock.factors if products and night.clock is not None else None
            found = Path(*kernels_module.active.path(rows, spans, products, factors, *bouts, clock))
        elif self.is_greedy:
            rows, products, factors, bouts = self._kernel_input(night, weights, nats)
            rules: tuple[Any, ...] = (products, factors, *bouts, *self._greedy_rules)
            found = _by_stretch(kernels_module.for_stages(self.n_stages).greedy, rows, spans, rules)
        else:
            rows, rules = night.evidence(nats), self.automaton_tables(setting)
            found = _by_stretch(kernels_module.active.automaton, rows, spans, rules)
        if found.score == -np.inf and not may_fail:
            raise NoPathError(self, night, setting)
        return found

    def curve(self, night: Night, spans: Spans, weights: Sequence[float], nats: Nats = None) -> list[Point]:
        """Return stretches of a night, without its clock, at several transition weights, in order."""
        if self.is_free_at_zero and weights[0] == 0.0:
            free = self.point(night, Setting(0.0, nats), spans)
            return [free, *(self.curve(night, spans, weights[1:], nats) if weights[1:] else ())]
        if not self.is_structured:
            return [self.point(night, Setting(weight, nats), spans) for weight in weights]
        rows, products, factors, bouts = self._kernel_input(night, tuple(weights), nats)
        switches, counts = kernels_module.active.curve(rows, spans, products, factors, *bouts)
        if -1 in switches:
            raise NoPathError(self, night, Setting(weights[switches.index(-1)], nats))
        n_pairs, points = 0, []  # no pair of epochs is across two stretches; single epochs have no index
        for first, end in spans:
            n_pairs += end - first - 1
        for n, own in zip(switches, counts, strict=True):
            points.append(Point(n / (n_pairs or np.nan), own))
        return points

    def point(self, night: Night, setting: Setting, spans: Spans) -> Point:
        """Return stretches of a night at one setting."""
        labels = self.path(night, setting, spans).labels
        counts = np.bincount(labels[labels >= 0], minlength=self.n_stages).tolist()
        return Point(night.fragmentation_index(labels), counts)

    def _free_path(self, night: Night, setting: Setting, spans: Spans) -> Path:
        """Return the path of which every epoch is decided by itself.

        Where a rule leaves a night alone, exact ties follow their neighbours; a fixed weight of 0 is argmax.
        """
        nats = setting.stage_nats
        settled = settle_ties if setting.is_free else lambda labels, scores, spans: labels
        if nats is None and night.is_plain and night.clock is None:
            labels = _only_in(spans, night.argmax)  # stepping aside is argmax to the bit, except for ties
            return Path(settled(labels, night.probabilities, spans), None)
        weight = self._no_weight if nats is None else np.exp(np.array(nats))
        if night.is_plain:
            clock = None if night.clock is None else night.clock.factors
            labels, _ = kernels_module.active.argmax(night.probabilities, weight, clock)
            scores = night.probabilities * weight
            if clock is not None:
                scores[: len(clock)] = night.probabilities[: len(clock)] * (weight * clock)
            return Path(settled(_only_in(spans, labels), scores, spans), None)
        # Epochs without evidence follow their neighbours, at no cost of transitions.
        rows = night.evidence(nats)
        if self.n_stages <= kernels_module.active.MOST_STAGES:
            bouts = _free_bouts(self.n_stages)
            labels, score = kernels_module.active.path(rows, spans, False, weight, *bouts)
        else:
            automaton = kernels_module.active.automaton
            labels, score = _by_stretch(automaton, rows, spans, _free_automaton(self.n_stages))
        # Other epochs have their best stage: the kernel's path scores the same, but stays where stages tie.
        choices, scores = night.choices(nats), night.choice_scores(nats).copy()
        if night.quality is not None:
            choices[night.quality == 1.0] = -1
        choices[list(night.pins)] = list(night.pins.values())
        scores[choices < 0] = scores[list(night.pins)] = np.nan  # neighbours or the caller decide
        labels = np.where((labels >= 0) & (choices >= 0), choices, labels)
        return Path(settled(labels, scores, spans), score)

    def _kernel_input(
        self, night: Night, weights: tuple[float, ...], nats: Nats
    ) -> tuple[Floats, bool, Floats, Bouts]:
        """Return a night as a kernel takes it: rows, whether they are products, factors of stages, and bouts.

        Products of probabilities are faster, if they cannot underflow, whatever the night. Logarithms, which
        include nats and clock already, are for evidence that is more than the probabilities, and for the
        greedy pass, which knows no clock.
        """
        spread = max(nats) - min(nats) if nats else 0.0
        # the largest weight, which is the last, is the first that products might not hold
        worst = -LOG_CLIP + spread + self._clock_spread + weights[-1] * self._largest_score
        if self.is_greedy:
            worst += self.profile.flip_flop.penalty_nats
        knows_clock = night.clock is None or not self.is_greedy
        if not night.is_plain or not knows_clock or worst * self._reach_epochs > PRODUCT_RANGE_NATS:
            return night.evidence(nats), False, self._no_weight, self.bouts(weights, products=False)
        factors = self._no_weight if nats is None else np.exp(np.array(nats))
        return night.probabilities, True, factors, self.bouts(weights, products=True)

    def _bouts(self, transition_weights: tuple[float, ...], *, products: bool) -> Bouts:
        """Return stays and changes (a row per transition weight, as probabilities or in nats), and minima."""
        stay = np.array([weigh(self.tables.stay, tau) for tau in transition_weights])
        change = np.array([weigh(self.tables.change, tau).ravel() for tau in transition_weights])
        if products:
            stay, change = np.exp(stay), np.exp(change)
        return stay, change, self.tables.minimum_epochs, self.profile.ends == "censored"

    def automaton_tables(self, setting: Setting) -> tuple[npt.NDArray[Any], ...]:
        """Return the automaton's arrays at a transition weight."""
        return self._automaton.weighted(setting.transition_weight)

    @cached_property
    def _automaton(self) -> Automaton:
        return compile_automaton(self.profile, self.epoch_seconds)

    def keep(
        self, night: Night, setting: Setting, labels: Labels, regions: Sequence[tuple[int, int]]
    ) -> Floats:
        """Return for each region the score of the best path that has these labels there.

        Regions are ``[first, end)``, in order, none across a cut; each is pinned by itself. All of them
        together take about as long as decoding the night three times.
        """
        if setting.is_free:
            return _keep_free(night, setting.stage_nats, labels, regions)
        rows, kept, bases = night.evidence(setting.stage_nats), [], []
        if self.is_greedy:
            kernel = kernels_module.for_stages(self.n_stages).keep_greedy
            bouts = self.bouts((setting.transition_weight,), products=False)
            rules: tuple[Any, ...] = (*bouts, *self._greedy_rules)
        else:
            kernel, rules = kernels_module.active.keep_automaton, self.automaton_tables(setting)
        for start, stop in night.spans:
            own = [(first - start, end - start) for first, end in regions if start <= first < stop]
            pinned = np.array(own, dtype=np.int64).reshape(-1, 2)
            base, scores = kernel(rows[start:stop], labels[start:stop], pinned, *rules)
            bases.append(base)
            kept.append(scores)
        total = sum(bases)  # stretches add up: pinning one leaves the others as they are
        return np.concatenate([scores + (total - base) for scores, base in zip(kept, bases, strict=True)])


class NightCurve:
    """What a rule may ask of a night; see `stageguard.profile.rules.Curve`."""

    def __init__(self, solver: Solver, night: Night) -> None:
        self._solver, self._night = solver, night
        profile, (first, stop) = solver.profile, night.period
        inside = []  # hours awake around the night must not count; without sleep, all does
        for begin, end in night.spans:
            if begin < stop and end > first:
                inside.append((max(begin, first), min(end, stop)))
        self._spans = night.spans if first == stop else tuple(inside)
        self.fi = night.fragmentation_index(night.own)
        self.ratio = solver.epoch_seconds / profile.epoch_seconds
        self.rem = profile.scheme.rem_index
        self.is_natural = night.options.trained == "natural"
        self.is_free_at_zero = solver.is_free_at_zero
        self.prior_exponent = profile.prior_exponent
        self.at = partial(solver.curve, night, self._spans)
        self.expected = night.mean_probabilities
        own = night.own[first:stop]
        self.own_counts: Sequence[int] = np.bincount(own[own >= 0], minlength=solver.n_stages).tolist()

    @property
    def prior_nats(self) -> Nats:
        """What the profile's own prior adds to each stage."""
        return prior_nats(self._solver.profile)

    def free(self, nats: Nats) -> Point:
        """Return the night with every epoch decided by itself."""
        return self._solver.point(self._night, Setting(0.0, nats, is_free=True), self._spans)


def _by_stretch(kernel: Callable[..., Any], rows: Floats, spans: Spans, rules: tuple[Any, ...]) -> Path:
    """Return the path of a kernel that knows no stretches."""
    labels, total = np.full(len(rows), -1, dtype=np.int8), 0.0
    for first, end in spans:
        labels[first:end], score = kernel(rows[first:end], *rules)
        total += score
    return Path(labels, total)


def solver_for(profile: Profile, epoch_seconds: float) -> Solver:
    """Return the profile compiled for an epoch length and the active kernels, from the profile's cache."""
    key = ("solver", epoch_seconds, kernels_module.active.NAME)
    return profile._once(key, Solver, profile, epoch_seconds)


def fixed_setting(profile: Profile) -> Setting:
    """Return the setting of a profile with a fixed strength."""
    assert profile.transition_weight is not None
    return Setting(profile.transition_weight, prior_nats(profile))


def prior_nats(profile: Profile) -> Nats:
    """Return the nats that the profile's own prior adds to each stage's evidence; None without one."""
    if profile.prior_exponent == 0.0 or profile.prior is None:
        return None
    return tuple((-profile.prior_exponent * np.log(profile.prior)).tolist())


def _only_in(spans: Spans, labels: Labels) -> Labels:
    """Return labels with -1 outside of the spans."""
    if spans == ((0, len(labels)),):
        return labels
    inside = np.zeros(len(labels), dtype=bool)
    for first, end in spans:
        inside[first:end] = True
    return np.where(inside, labels, np.int8(-1))


@lru_cache(maxsize=8)
def _free_bouts(n_stages: int) -> Bouts:
    """Return bouts of any length between which any switch is free, in nats."""
    return np.zeros((1, n_stages)), np.zeros((1, n_stages**2)), np.ones(n_stages, dtype=np.int32), True


@lru_cache(maxsize=8)
def _free_automaton(n_stages: int) -> tuple[npt.NDArray[Any], ...]:
    """Return an automaton in which any stage follows any at no cost; to stay wins ties."""
    stage = np.arange(n_stages, dtype=np.int32)
    source = [[s, *np.delete(stage, s)] for s in stage]
    nothing = np.zeros(n_stages)
    first = np.arange(n_stages + 1, dtype=np.int32) * np.int32(n_stages)
    return stage, first, np.array(source, dtype=np.int32).ravel(), np.zeros(n_stages**2), nothing, nothing


def _keep_free(night: Night, nats: Nats, labels: Labels, regions: Sequence[tuple[int, int]]) -> Floats:
    """Return the result of `Solver.keep` if every epoch is decided by itself."""
    scores = night.evidence(nats)
    best = scores.max(axis=1)
    total = sum(float(best[start:stop].sum()) for start, stop in night.spans)
    return np.array(
        [
            total + float((scores[np.arange(first, end), labels[first:end]] - best[first:end]).sum())
            for first, end in regions
        ]
    )


def _reach_epochs(tables: Tables, window_epochs: int) -> float:
    """Return how many worst-case epochs a survivor can lag behind the best path when scores are rescaled.

    It is infinite if a stage cannot be reached. Survivors are kept apart by age up to the minimum bout, in
    the greedy pass also up to its window.
    """
    n = len(tables.stay)
    hops = np.where(tables.change > -np.inf, 1.0, np.inf)  # (n_stages, n_stages)
    np.fill_diagonal(hops, 0.0)
    for via in range(n):  # shortest ways between stages (Floyd and Warshall)
        hops = np.minimum(hops, hops[:, via : via + 1] + hops[via : via + 1, :])
    longest = max(int(tables.minimum_epochs.max()), window_epochs)
    if np.any(tables.stay == -np.inf):
        return np.inf
    return float(hops.max()) * (longest + 1) + longest
