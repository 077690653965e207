"""A profile compiled for sums over paths: marginals and draws of many nights at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from stageguard.base.arrays import CLIP, Floats, Labels, Mask
from stageguard.guard import kernels as kernels_module
from stageguard.guard.kernels import reference
from stageguard.guard.solver import Job, solver_for, stage_weights, table_rows
from stageguard.profile.profile import Profile

# What the compiled sums take without an automaton; the reference keeps to it, so that both draw alike.
_MOST_STAGES = 8
_LONGEST_MINIMUM = 8

Verb = Literal["smooth", "draw"]
Route = Literal["free", "automaton", "automaton logarithms", "probabilities", "likelihoods", "logarithms"]
Streams = npt.NDArray[np.uint64]


class Smoothed(NamedTuple):
    """Marginals (n_epochs, n_stages) of a night, NaN in gaps, and the log-sum over its paths."""

    marginals: Floats
    log_sum: float


class _Pieces(NamedTuple):
    """Stretches of several nights that one kernel takes together."""

    matrices: list[Floats]
    jobs: list[Job]  # whose stretch each is
    shift: list[float]  # nats to add to each log-sum
    streams: Streams  # (n_pieces, n_draws)

    def only(self, chosen: Sequence[int], matrices: list[Floats]) -> _Pieces:
        """Return some of the pieces, given in another way."""
        jobs = [self.jobs[i] for i in chosen]
        return _Pieces(matrices, jobs, [0.0] * len(matrices), self.streams[list(chosen)])


class Smoother:
    """A profile compiled for sums over paths at one epoch length. The flip-flop window is always exact."""

    def __init__(self, profile: Profile, epoch_seconds: float) -> None:
        self.solver = solver_for(profile, epoch_seconds)
        self.censored = profile.ends == "censored"
        self.is_structured = (
            profile.flip_flop.penalty_nats == 0
            and not profile.durations
            and int(self.solver.tables.minimum_epochs.max()) <= _LONGEST_MINIMUM
            and self.solver.n_stages <= _MOST_STAGES
        )

    def smooth(self, jobs: Sequence[Job]) -> list[Smoothed]:
        """Return marginals and log-sum of every job."""
        results = []
        for job, (arrays, log_sum) in zip(jobs, self._run("smooth", jobs, None), strict=True):
            marginals = arrays[0]
            if len(marginals) != len(job.night.probabilities):
                marginals = np.full(job.night.probabilities.shape, np.nan)
                for (start, stop), rows in zip(job.night.spans, arrays, strict=True):
                    marginals[start:stop] = rows
            results.append(Smoothed(marginals, log_sum))
        return results

    def draw(self, jobs: Sequence[Job], n_draws: int, seeds: Sequence[int]) -> list[Labels]:
        """Return labels (n_draws, n_epochs) of every job, -1 in gaps; each stretch has its own streams."""
        streams = [
            np.stack([_streams(seed, stretch, n_draws) for stretch in range(len(job.night.spans))])
            for job, seed in zip(jobs, seeds, strict=True)
        ]
        results = []
        for job, (arrays, _) in zip(jobs, self._run("draw", jobs, streams), strict=True):
            labels = arrays[0]
            n_epochs = len(job.night.probabilities)
            if labels.shape[1] != n_epochs:
                labels = np.full((n_draws, n_epochs), -1, dtype=np.int8)
                for (start, stop), drawn in zip(job.night.spans, arrays, strict=True):
                    labels[:, start:stop] = drawn
            results.append(labels)
        return results

    def _run(
        self, verb: Verb, jobs: Sequence[Job], streams: Sequence[Streams] | None
    ) -> list[tuple[list[Any], float]]:
        """Return each job's arrays, one per stretch, and its log-sum."""
        groups: dict[Route, list[int]] = {}
        for i, job in enumerate(jobs):
            groups.setdefault(self._route(job), []).append(i)
        results: dict[int, tuple[list[Any], float]] = {}
        for route, members in groups.items():
            empty = [np.empty((len(jobs[i].night.spans), 0), dtype=np.uint64) for i in members]
            given_streams = empty if streams is None else [streams[i] for i in members]
            pieces = _gather([jobs[i] for i in members], route, np.concatenate(given_streams))
            arrays, log_sums = self._sum(verb, route, pieces)
            first = 0
            for i in members:
                stop = first + len(jobs[i].night.spans)
                results[i] = arrays[first:stop], float(sum(log_sums[first:stop]))
                first = stop
        return [results[i] for i in range(len(jobs))]

    def _route(self, job: Job) -> Route:
        if self.solver.is_free(job.trial):
            return "free"
        if not self.is_structured:
            return "automaton"
        if kernels_module.active is reference:
            return "logarithms"  # it reckons with nothing else
        return "probabilities" if job.night.is_plain else "likelihoods"

    def _sum(self, verb: Verb, route: Route, pieces: _Pieces) -> tuple[list[Any], list[float]]:
        """Return each piece's array and log-sum; what products cannot hold is summed as logarithms."""
        if route == "free":
            return _free(verb, pieces)
        arrays, log_sums, certified = self._call(verb, route, pieces)
        doubtful = np.flatnonzero(~certified).tolist()
        if doubtful:
            logs = pieces.matrices
            if route != "automaton":
                logs = _gather(_unique(pieces.jobs), "logarithms", pieces.streams).matrices
            again = pieces.only(doubtful, [logs[i] for i in doubtful])
            exact: Route = "automaton logarithms" if route == "automaton" else "logarithms"
            exact_arrays, exact_sums, _ = self._call(verb, exact, again)
            for i, array, log_sum in zip(doubtful, exact_arrays, exact_sums, strict=True):
                arrays[i], log_sums[i], pieces.shift[i] = array, log_sum, 0.0
        return arrays, [total + shift for total, shift in zip(log_sums, pieces.shift, strict=True)]

    def _call(self, verb: Verb, route: Route, pieces: _Pieces) -> tuple[list[Any], list[float], Mask]:
        """Run one kernel and cut what it returns into one array per piece."""
        kernels, n_pieces, n_draws = kernels_module.active, len(pieces.matrices), pieces.streams.shape[1]
        table, transition_weights = table_rows(pieces.jobs)
        rules: tuple[Any, ...]
        if route.startswith("automaton"):
            kernel = kernels.smooth_automaton if verb == "smooth" else kernels.draw_automaton
            rules = (route == "automaton", table, *self.solver.automaton_tables(transition_weights))
        else:
            kernel = kernels.smooth if verb == "smooth" else kernels.draw
            products, clip = route != "logarithms", CLIP if route == "probabilities" else 0.0
            stay, change = self.solver.scores(transition_weights, products=products)
            weight = stage_weights(pieces.jobs, self.solver.n_stages)
            if route != "probabilities":  # it is in the evidence already
                weight = np.ones_like(weight)
            minimum = self.solver.tables.minimum_epochs
            rules = (products, clip, table, weight, stay, change, minimum, self.censored)
        if verb == "smooth":
            totals, flat, certified = kernel(pieces.matrices, *rules, kernels_module.threads_for(n_pieces))
            ends = np.cumsum([len(matrix) for matrix in pieces.matrices])[:-1]
            return np.split(flat, ends) if n_pieces > 1 else [flat], totals.tolist(), certified
        threads = kernels_module.threads_for(n_pieces * n_draws)
        flat, totals, certified = kernel(pieces.matrices, *rules, pieces.streams, threads)
        return _cut_draws(flat, pieces), totals.tolist(), certified


def smoother_for(profile: Profile, epoch_seconds: float) -> Smoother:
    """Return the profile compiled for an epoch length and the active kernels, once for all calls."""
    key = ("smoother", epoch_seconds, kernels_module.active.NAME)
    smoother: Smoother | None = profile._cache.get(key)
    if smoother is None:
        smoother = profile._cache[key] = Smoother(profile, epoch_seconds)
    return smoother


def _streams(seed: int, stretch: int, n_draws: int) -> Streams:
    """Return one random stream per draw; those of the first draws do not depend on how many there are."""
    words = np.random.SeedSequence(seed, spawn_key=(stretch,)).generate_state(n_draws, np.uint64)
    return words.astype(np.uint64, copy=False)


def _unique(jobs: Sequence[Job]) -> list[Job]:
    return list({id(job): job for job in jobs}.values())


def _gather(jobs: Sequence[Job], route: Route, streams: Streams) -> _Pieces:
    """Return the jobs' stretches in the form a route takes."""
    pieces = _Pieces([], [], [], streams)
    for job in jobs:
        night, added = job.night, job.trial.log_weight
        whole = night.probabilities
        if route != "probabilities":
            whole = night.evidence(None if added is None else np.array(added))
        for start, stop in night.spans:
            matrix, shift = whole[start:stop], 0.0
            if route in ("likelihoods", "free"):
                top = matrix.max(axis=1, keepdims=True)
                matrix = np.exp(matrix - top)
                shift = float(top.sum() + np.log(matrix.sum(axis=1)).sum())
            pieces.matrices.append(matrix)
            pieces.jobs.append(job)
            pieces.shift.append(shift)
    return pieces


def _free(verb: Verb, pieces: _Pieces) -> tuple[list[Any], list[float]]:
    """Sum where nothing ties one epoch to the next."""
    if verb == "smooth":
        return [rows / rows.sum(axis=1, keepdims=True) for rows in pieces.matrices], pieces.shift
    threads = kernels_module.threads_for(pieces.streams.size)
    flat = kernels_module.active.draw_each(pieces.matrices, pieces.streams, threads)
    return _cut_draws(flat, pieces), pieces.shift


def _cut_draws(flat: Labels, pieces: _Pieces) -> list[Any]:
    n_draws, first, arrays = pieces.streams.shape[1], 0, []
    for matrix in pieces.matrices:
        stop = first + n_draws * len(matrix)
        arrays.append(flat[first:stop].reshape(n_draws, len(matrix)))
        first = stop
    return arrays
