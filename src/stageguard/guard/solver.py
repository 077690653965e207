"""A profile compiled for one epoch length: the best paths of many nights at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import PRODUCT_RANGE_NATS, Floats, Indices, Ints32, Labels
from stageguard.guard import kernels as kernels_module
from stageguard.guard.automaton import Tables, compile_automaton, compile_tables, weigh
from stageguard.guard.clock import ClockRules, RemovedBout
from stageguard.guard.evidence import LOG_CLIP, Night, calibration_of
from stageguard.profile.profile import Profile

_RESCALE_EVERY_EPOCHS, _GREEDY_RESCALES_EVERY = 8, 4  # as in _core/structured.hpp and greedy.hpp

# Limits of the compiled sums without an automaton; the reference keeps to them, so that both draw alike.
SUMS_STAGES = 5
SUMS_MINIMUM = 8

_FIRST_TABLE = np.zeros(1, dtype=np.int32)

NO_PATH = (
    "no path obeys the profile's forbidden transitions, bout lengths and minimum bouts. Give every "
    "transition that may occur a probability above 0, or shorten min_bout_seconds."
)

Item = TypeVar("Item")
Result = TypeVar("Result")
Key = TypeVar("Key", bound=Hashable)
Route = Literal["argmax", "free", "greedy", "greedy logarithms", "automaton", "products", "logarithms"]


class Trial(NamedTuple):
    """One way to decode a night: how much the prior counts, and nats added to each stage's evidence."""

    transition_weight: float
    log_weight: tuple[float, ...] | None = None
    is_free: bool = False  # evidence alone: no transition scores, no minimum bouts


class Job(NamedTuple):
    """A night and how to decode it."""

    night: Night
    trial: Trial


class Passes(NamedTuple):
    """How a path with the clock was found."""

    onsets: tuple[int, ...]  # epochs from which the time is counted
    n: int  # how often the night was decoded with the clock
    is_settled: bool  # whether the path falls asleep there
    removed: tuple[RemovedBout, ...] = ()  # bouts of early REM that are gone


@dataclass(slots=True)
class Path:
    """The result of a job: labels (-1 in gaps), score (None if the kernel keeps none), fragmentation."""

    labels: Labels
    score: float | None
    fragmentation_index: float
    n_changed: int | None = None  # epochs that are not the stager's own choice, if they were counted
    passes: Passes | None = None  # only with a clock


class NoPathError(Exception):
    """No path of a night obeys the constraints."""

    def __init__(self, solver: Solver, job: Job) -> None:
        super().__init__(solver, job)
        self.solver, self.job = solver, job


class Solver:
    """A profile compiled for one epoch length."""

    def __init__(self, profile: Profile, epoch_seconds: float) -> None:
        self.profile = profile
        self.epoch_seconds = epoch_seconds
        self.tables = compile_tables(profile, epoch_seconds)
        self.n_stages = profile.scheme.n_stages
        flip = profile.flip_flop
        self.kernels = kernels_module.for_stages(self.n_stages)
        active = kernels_module.active
        self.is_greedy = flip.is_greedy and not profile.durations
        has_only_bouts = flip.penalty_nats == 0 and not profile.durations
        longest = int(self.tables.minimum_epochs.max())
        self.is_structured = (
            has_only_bouts and longest <= active.LONGEST_MINIMUM and self.n_stages <= active.MOST_STAGES
        )
        self.sums_bouts = has_only_bouts and longest <= SUMS_MINIMUM and self.n_stages <= SUMS_STAGES
        # the other kernels need it only for posteriors and counterfactuals
        self._automaton = (
            None if self.is_greedy or self.is_structured else compile_automaton(profile, epoch_seconds)
        )
        # Then every epoch is independent of the others at transition weight 0.
        self.is_free_at_zero = has_only_bouts and longest == 1
        self.clock = ClockRules.of(profile.clock, profile.scheme, epoch_seconds) if profile.clock else None
        self._clock_spread = self.clock.spread_nats if self.clock else 0.0
        self._kept: dict[tuple[float, bool], tuple[Floats, Floats]] = {}
        window, every = 1, _RESCALE_EVERY_EPOCHS
        if self.is_greedy:
            window, every = flip.window_epochs, _GREEDY_RESCALES_EVERY
        self._reach_epochs = _reach_epochs(self.tables, window) + every
        scores = np.concatenate([self.tables.stay, self.tables.change[self.tables.change > -np.inf]])
        self._largest_score = float(np.abs(scores).max())

    @cached_property
    def opening(self) -> tuple[Any, ...]:
        """Rules under which plain nights are decoded during the checks; empty if products may underflow."""
        trial = None if calibration_of(self.profile) else fixed_trial(self.profile)
        if trial is None or self._plain_route(trial) != "products":
            return ()
        bouts = self.bouts([trial.transition_weight], products=True)
        return (_FIRST_TABLE, _weights_of([trial], self.n_stages), *bouts)

    def check_and_solve(
        self, pieces: list[Floats], threads: int, rooms: list[Floats | None]
    ) -> tuple[Labels, Labels, list[tuple[Any, ...]]]:
        """Copy whole nights to `rooms`, check and decode them."""
        further: dict[str, Any] = {"rooms": rooms} if rooms else {}
        opened: tuple[Labels, Labels, list[tuple[Any, ...]]] = self.kernels.check_and_decode(
            pieces, *self.opening, threads, **further
        )
        return opened

    def is_free(self, trial: Trial) -> bool:
        """Whether every epoch is decided by itself, so that the path is argmax, ties included."""
        return trial.is_free or (self.is_free_at_zero and trial.transition_weight == 0.0)

    def solve(self, jobs: Sequence[Job]) -> list[Path]:
        """Return the best path of every job, in order."""
        plain = {trial: self._plain_route(trial) for trial in {job.trial for job in jobs}}
        routes = [self._route(night, plain[trial]) for night, trial in jobs]
        return run_grouped(jobs, routes, self._run)

    def solve_feasible(self, jobs: Sequence[Job]) -> list[Path]:
        """Return the best path of every job; raise NoPathError if there is none."""
        paths = self.solve(jobs) if jobs else []
        for job, path in zip(jobs, paths, strict=True):
            if path.score == -np.inf:
                raise NoPathError(self, job)
        return paths

    def _route(self, night: Night, route: Route) -> Route:
        """Return the kernel for a night; products of probabilities only if they cannot underflow.

        `route` is the kernel for its trial on a plain night.
        """
        if route == "automaton" or night.is_plain:
            return route
        if self.is_greedy and route != "argmax":
            return "greedy logarithms"
        if night.is_plain_but_for_clock:
            return route
        return "free" if route == "argmax" else "logarithms"

    def n_together(self, job: Job) -> int:
        """Return how many trials of one night take about as long as one."""
        route = self._route(job.night, self._plain_route(job.trial))
        return int(self.kernels.LANES) if route == "products" else 1

    def _plain_route(self, trial: Trial) -> Route:
        """Return the kernel for a night whose evidence is its probabilities."""
        if self.is_free(trial):
            return "argmax"
        if not self.is_greedy and not self.is_structured:
            return "automaton"
        added = trial.log_weight
        spread = max(added) - min(added) if added else 0.0
        worst = -LOG_CLIP + spread + self._clock_spread + trial.transition_weight * self._largest_score
        if self.is_greedy:
            worst += self.profile.flip_flop.penalty_nats
        fits = worst * self._reach_epochs <= PRODUCT_RANGE_NATS
        if self.is_greedy:
            return "greedy" if fits else "greedy logarithms"
        return "products" if fits else "logarithms"

    def _run(self, route: Route, jobs: Sequence[Job]) -> list[Path]:
        products = route in ("products", "greedy")
        is_by_epoch = route == "argmax" and all(job.night.is_complete for job in jobs)
        pieces, owners = _pieces(jobs, probabilities=products or route == "argmax", whole=is_by_epoch)
        threads = kernels_module.threads_for(len(pieces), sum(map(len, pieces)))
        active = kernels_module.active
        weight = _of_pieces(stage_weights(jobs, self.n_stages), owners)
        if route == "argmax":
            clock = _clocks(jobs, owners)
            labels, switches, _ = active.argmax(pieces, weight, threads, clock=clock)
            return _assemble(jobs, owners, labels, switches)
        job_table, transition_weights = table_rows(jobs)
        table = _of_pieces(job_table, owners)
        if route == "automaton":
            tables = self.automaton_tables(transition_weights)
            result = active.automaton(pieces, table, *tables, threads)
        elif route == "free" and self.n_stages > active.MOST_STAGES:
            result = active.automaton(pieces, _FIRST_TABLE, *_free_automaton(self.n_stages), threads)
        elif route.startswith("greedy"):
            rules = self._greedy_rules(transition_weights, products=products)
            if not products:  # the weight is in the evidence already
                weight = kernels_module.no_weight(self.n_stages)
            result = self.kernels.greedy(pieces, products, table, weight, *rules, threads)
        else:
            stay, change, minimum, censored = self.bouts(transition_weights, products=products)
            if route == "free":
                stay, change, minimum = np.zeros_like(stay), np.zeros_like(change), np.ones_like(minimum)
            bouts = (stay, change, minimum, censored)
            clock = _clocks(jobs, owners) if products else []  # log-evidence includes it already
            result = active.structured(pieces, products, table, weight, *bouts, threads, clock=clock)
        labels, scores, switches = result
        if route == "free":
            labels, switches = _chosen_by_epoch(jobs, labels)
        return _assemble(jobs, owners, labels, switches, scores)

    def bouts(
        self, transition_weights: Sequence[float], *, products: bool
    ) -> tuple[Floats, Floats, Ints32, bool]:
        """Return stays and changes (a row per transition weight, as probabilities or in nats), and minima."""
        rows = [self._scores_at(tau, products) for tau in transition_weights]
        stay, change = rows[0] if len(rows) == 1 else map(np.concatenate, zip(*rows, strict=True))
        return stay, change, self.tables.minimum_epochs, self.profile.ends == "censored"

    def _greedy_rules(self, transition_weights: Sequence[float], *, products: bool) -> tuple[Any, ...]:
        flip = self.profile.flip_flop
        return *self.bouts(transition_weights, products=products), flip.penalty_nats, flip.window_epochs

    def _scores_at(self, transition_weight: float, products: bool) -> tuple[Floats, Floats]:
        """Return a one-row table at one transition weight, from a cache."""
        key = (transition_weight, products)
        if key not in self._kept:
            stay = weigh(self.tables.stay, transition_weight)[None, :]
            change = weigh(self.tables.change, transition_weight).reshape(1, -1)
            self._kept[key] = (np.exp(stay), np.exp(change)) if products else (stay, change)
        return self._kept[key]

    def automaton_tables(self, transition_weights: Sequence[float]) -> tuple[npt.NDArray[Any], ...]:
        """Return the automaton's arrays; weights have a row per transition weight."""
        if self._automaton is None:
            self._automaton = compile_automaton(self.profile, self.epoch_seconds)
        a = self._automaton
        weight = np.array([weigh(a.scaled, tau) + a.fixed for tau in transition_weights])
        final = np.array([weigh(a.final, tau) for tau in transition_weights])
        initial = np.tile(a.initial, (len(transition_weights), 1))
        return a.stage, a.first, a.source, weight, initial, final

    def keep(self, job: Job, labels: Labels, regions: Sequence[tuple[int, int]]) -> Floats:
        """Return for each region the score of the best path that has these labels there.

        Regions are ``[first, end)``, in order, none across a cut; each is pinned by itself. All of them
        together take about as long as decoding the night three times.
        """
        night, trial = job
        pieces, _ = _pieces([job], probabilities=False)
        flat = np.concatenate([labels[start:stop] for start, stop in night.spans])
        first, end = np.array(regions, dtype=np.int64).T
        starts = np.array([start for start, _ in night.spans])
        piece = np.searchsorted(starts, first, side="right") - 1
        rows = np.stack([piece, first - starts[piece], end - starts[piece]], axis=1)
        threads = kernels_module.threads_for(len(pieces))
        table = np.zeros(len(pieces), dtype=np.int32)
        if trial.is_free:
            return _keep_free(job, labels, regions)
        rules: tuple[Any, ...]
        if self.is_greedy:
            kernel = self.kernels.keep_greedy
            rules = self._greedy_rules([trial.transition_weight], products=False)
        else:
            kernel = kernels_module.active.keep_automaton
            rules = self.automaton_tables([trial.transition_weight])
        scores, kept = kernel(pieces, flat, rows, table, *rules, threads)
        whole: Floats = kept + (scores.sum() - scores[piece])
        return whole


def solver_for(profile: Profile, epoch_seconds: float) -> Solver:
    """Return the profile compiled for an epoch length and the active kernels, from the profile's cache."""
    key = ("solver", epoch_seconds, kernels_module.active.NAME)
    return profile._once(key, Solver, profile, epoch_seconds)


def run_grouped(
    items: Sequence[Item], keys: Sequence[Key], run: Callable[[Key, list[Item]], Iterable[Result]]
) -> list[Result]:
    """Run the items of each key together; return the result of every item, in order."""
    if len(set(keys)) == 1:
        return list(run(keys[0], list(items)))
    groups: dict[Key, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    results: dict[int, Result] = {}
    for key, members in groups.items():
        results.update(zip(members, run(key, [items[i] for i in members]), strict=True))
    return [results[i] for i in range(len(items))]


def _free_automaton(n_stages: int) -> tuple[npt.NDArray[Any], ...]:
    """Return an automaton in which any stage follows any at no cost; to stay wins ties."""
    stage = np.arange(n_stages, dtype=np.int32)
    source = [[s, *np.delete(stage, s)] for s in stage]
    nothing = np.zeros((1, n_stages))
    first = np.arange(n_stages + 1, dtype=np.int32) * np.int32(n_stages)
    weight = np.zeros((1, n_stages**2))
    return stage, first, np.array(source, dtype=np.int32).ravel(), weight, nothing, nothing


def _keep_free(job: Job, labels: Labels, regions: Sequence[tuple[int, int]]) -> Floats:
    """Return the result of `Solver.keep` if every epoch is decided by itself."""
    scores = job.night.evidence(job.trial.log_weight)
    best = scores.max(axis=1)
    total = sum(float(best[start:stop].sum()) for start, stop in job.night.spans)
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


def _pieces(
    jobs: Sequence[Job], *, probabilities: bool, whole: bool = False
) -> tuple[list[Floats], Indices | None]:
    """Return the jobs' stretches as matrices, and the job of each; None if each is a whole night.

    `whole` nights are not cut: every epoch is decided by itself.
    """
    matrices = [
        night.probabilities if probabilities else night.evidence(trial.log_weight) for night, trial in jobs
    ]
    if whole or all(night.is_whole for night, _ in jobs):
        return matrices, None
    pieces: list[Floats] = []
    owners: list[int] = []
    for i, ((night, _), matrix) in enumerate(zip(jobs, matrices, strict=True)):
        pieces += [matrix[start:stop] for start, stop in night.spans]
        owners += [i] * len(night.spans)
    return pieces, np.array(owners, dtype=np.intp)


def _clocks(jobs: Sequence[Job], owners: Indices | None) -> list[Floats]:
    """Return the clock's factors of the first rows of each piece."""
    clocks = [job.night.clock for job in jobs]
    if not any(clocks):
        return []
    untimed = np.empty((0, jobs[0].night.probabilities.shape[1]))
    factors = [untimed if clock is None else clock.factors for clock in clocks]
    if owners is None:
        return factors
    spans = (span for job in jobs for span in job.night.spans)
    return [factors[i][start:stop] for i, (start, stop) in zip(owners.tolist(), spans, strict=True)]


def _of_pieces(rows: npt.NDArray[Any], owners: Indices | None) -> npt.NDArray[Any]:
    """Return the job's row for each piece; a single row stays one for all."""
    return rows if owners is None or len(rows) == 1 else rows[owners]


def stage_weights(jobs: Sequence[Job], n_stages: int) -> Floats:
    """Return the factors of the stages' probabilities, (n_jobs, n_stages) or one row for all."""
    return _weights_of([job.trial for job in jobs], n_stages)


def _weights_of(trials: Sequence[Trial], n_stages: int) -> Floats:
    if all(trial.log_weight is None for trial in trials):
        return kernels_module.no_weight(n_stages)
    zeros = (0.0,) * n_stages
    return np.asarray(np.exp(np.array([trial.log_weight or zeros for trial in trials])))


def fixed_log_weight(profile: Profile) -> tuple[float, ...] | None:
    """Return the nats that the profile's own prior adds to each stage's evidence; None without one."""
    if profile.prior_exponent == 0.0 or profile.prior is None:
        return None
    return tuple((-profile.prior_exponent * np.log(profile.prior)).tolist())


def fixed_trial(profile: Profile) -> Trial | None:
    """Return the trial of a profile with a fixed strength; None if a rule sets it."""
    if profile.transition_weight is None:
        return None
    return Trial(profile.transition_weight, fixed_log_weight(profile))


def table_rows(jobs: Sequence[Job]) -> tuple[Ints32, list[float]]:
    """Return the table of each job, or one for all, and the transition weight of each table."""
    first = jobs[0].trial.transition_weight
    if all(job.trial.transition_weight == first for job in jobs):
        return _FIRST_TABLE, [first]
    index: dict[float, int] = {}
    of_job = [index.setdefault(job.trial.transition_weight, len(index)) for job in jobs]
    return np.array(of_job, dtype=np.int32), list(index)


def _chosen_by_epoch(jobs: Sequence[Job], labels: Labels) -> tuple[Labels, list[int]]:
    """Give every epoch with evidence its own best stage; also return the stage changes per piece.

    The kernel's path has the same score, but stays where stages tie. Epochs without evidence keep its stage.
    """
    labels, switches, offset = labels.copy(), list[int](), 0
    for night, trial in jobs:
        choices = night.choices(trial.log_weight)
        if night.quality is not None:
            choices[night.quality == 1.0] = -1
        choices[list(night.pins)] = list(night.pins.values())
        for start, stop in night.spans:
            piece = labels[offset : offset + stop - start]
            np.copyto(piece, choices[start:stop], where=choices[start:stop] >= 0)
            switches.append(int(np.count_nonzero(np.diff(piece))))
            offset += stop - start
    return labels, switches


def _assemble(
    jobs: Sequence[Job],
    owners: Indices | None,
    labels: Labels,
    switches: list[int],
    scores: list[float] | None = None,
) -> list[Path]:
    """Put each job's pieces together; fragmentation is that of the epochs that the rules measure."""
    sums: Sequence[float | None] = [None] * len(jobs) if scores is None else scores
    if owners is not None and scores is not None:
        sums = np.bincount(owners, weights=scores, minlength=len(jobs)).tolist()
    paths, offset, begin = [], 0, 0
    for (night, _), score in zip(jobs, sums, strict=True):
        n_epochs, spans = len(night.argmax), night.spans
        if owners is None:  # every night is one piece
            spans = ((0, n_epochs),)
            path_labels = labels[offset : offset + n_epochs]
            offset += n_epochs
        else:
            path_labels = np.full(n_epochs, -1, dtype=np.int8)
            for start, stop in spans:
                path_labels[start:stop] = labels[offset : offset + stop - start]
                offset += stop - start
        counted = switches[begin : begin + len(spans)]
        begin += len(spans)
        paths.append(Path(path_labels, score, _fragmentation(night, path_labels, spans, counted)))
    return paths


def _fragmentation(
    night: Night, labels: Labels, spans: Sequence[tuple[int, int]], switches: Sequence[int]
) -> float:
    """Return the index of labels from the stage changes in each span, if the spans are those measured."""
    first, end = night.measured
    total = n_pairs = 0
    for (start, stop), n_here in zip(spans, switches, strict=True):
        if first <= start and stop <= end:
            total, n_pairs = total + n_here, n_pairs + stop - start - 1
        elif start < end and first < stop:  # a span is measured in part
            return night.fragmentation_index(labels)
    if len(spans) < len(night.segments) + 1:
        return night.fragmentation_index(labels)
    return total / n_pairs if n_pairs else float("nan")
