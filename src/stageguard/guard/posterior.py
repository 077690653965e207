"""`posterior` sums over all paths of a night, each in proportion to exp(score); `sample` draws from them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Literal, NamedTuple, Unpack, overload

import numpy as np
import numpy.typing as npt

from stageguard.base import checks
from stageguard.base.arrays import CLIP, Floats, Labels, Mask
from stageguard.base.errors import InputError, StageGuardWarning
from stageguard.guard import kernels as kernels_module
from stageguard.guard.decode import decode_all, decode_asked, read_all
from stageguard.guard.decoding import Decoding
from stageguard.guard.evidence import Night
from stageguard.guard.inputs import (
    BatchKeywords,
    GuardOptions,
    NightInput,
    NightKeywords,
    OneNight,
    assumptions,
    per_night,
    takes_options,
)
from stageguard.guard.search import chosen_trial
from stageguard.guard.solver import (
    Job,
    Solver,
    Trial,
    fixed_trial,
    run_grouped,
    solver_for,
    stage_weights,
    table_rows,
)
from stageguard.guard.strength import Strength
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.profile.profile import Profile

MOST_DRAWS = 10_000_000
EXACT_WINDOW = "the flip-flop window is exact: the profile's greedy one exists for decode alone"

Verb = Literal["smooth", "draw"]
Route = Literal["free", "automaton", "automaton logarithms", "probabilities", "likelihoods", "logarithms"]
Streams = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Posterior(Hypnodensity):
    """Probability of each stage in each epoch, given the whole night and the profile.

    It is a `Hypnodensity` and can be used as one. Its `argmax` is the most probable stage of each epoch by
    itself, which need not be a path that the profile allows; `decode` finds such a path.

    Attributes
    ----------
    probabilities : array, shape (n_epochs, n_stages)
        Marginals; NaN where there is no evidence for more than five minutes.
    log_evidence : float
        Log of the sum over all paths of exp(score), in nats, stretches added up.
    transition_weight, prior_exponent : float
        How strongly the profile acted: what `decode` uses on this night.
    profile : Profile
        The profile it was computed with.
    assumed : tuple of str
        What had to be assumed about the input, and how it was computed.
    """

    log_evidence: float = float("nan")
    transition_weight: float = float("nan")
    prior_exponent: float = 0.0
    profile: Profile | None = None

    def __eq__(self, other: object) -> bool:
        """Compare all fields but `assumed` by content."""
        if not isinstance(other, Posterior):
            return False if isinstance(other, Hypnodensity) else NotImplemented
        return self._is_equal(other)

    def __hash__(self) -> int:
        """Hash as a density."""
        return Hypnodensity.__hash__(self)

    def _facts(self) -> list[str]:
        name = "unknown" if self.profile is None else repr(self.profile.name)
        return [*Hypnodensity._facts(self), f"profile {name}", f"log-evidence {self.log_evidence:.1f} nats"]


@overload
def posterior(
    density: OneNight | Sequence[Sequence[float]], profile: Profile | str, **options: Unpack[NightKeywords]
) -> Posterior: ...


@overload
def posterior(
    density: Sequence[OneNight], profile: Profile | str, **options: Unpack[BatchKeywords]
) -> list[Posterior]: ...


@takes_options
def posterior(density: Any, profile: Profile | str, *, options: GuardOptions) -> Posterior | list[Posterior]:
    """Return the probability of each stage in each epoch, given the whole night and the profile.

    Sums over every path that the profile allows, exactly. A path counts in proportion to exp(score), with the
    score that `decode` maximises, so that minimum bouts, bout lengths, ends, quality, pins, gaps and segments
    count as they do there. A rule that sets the strength per recording sets it as in `decode`. The flip-flop
    window is always the exact one; `.assumed` says so.

    Parameters
    ----------
    density, profile, stages, epoch_seconds, quality, pins, segments, lights_off, lights_on
        As in `stageguard.decode`. A list of nights gives a list.
    cohort, stager, trained, strength, logits, log
        As in `stageguard.decode`. A list of nights gives a list.

    Returns
    -------
    Posterior or list of Posterior
        A `Hypnodensity` of marginals with `.log_evidence`.

    Raises
    ------
    InputError, ProfileError, CohortError, PinError
        As in `stageguard.decode`.

    Examples
    --------
    >>> import stageguard as sg
    >>> smooth = sg.posterior([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]], "kdd2026-actigraphy")
    >>> smooth.probabilities.round(2).tolist()
    [[0.96, 0.04], [0.89, 0.11], [0.85, 0.15]]
    """
    asked = read_all(density, profile, options, stacklevel=5, wants_paths=False)
    # With a fixed strength and without a clock, no path is needed.
    fixed = [
        _Asked(profile, given, night, trial, None)
        for profile, given, night in zip(asked.profiles, asked.given, asked.nights, strict=True)
        if (trial := fixed_trial(profile)) is not None and profile.clock is None
    ]
    posteriors = _smooth(fixed) if len(fixed) == len(asked.nights) else None
    if posteriors is None or any(found.log_evidence == -np.inf for found in posteriors):  # decode says why
        posteriors = _smooth([_asked(result) for result in decode_asked(asked, options)])
    return posteriors if asked.is_batch else posteriors[0]


@overload
def sample(
    density: OneNight, profile: Profile | str, *, n: int, seed: int = 0, **options: Unpack[NightKeywords]
) -> Labels: ...


@overload
def sample(
    density: Sequence[OneNight],
    profile: Profile | str,
    *,
    n: int,
    seed: int | Sequence[int] = 0,
    **options: Unpack[BatchKeywords],
) -> list[Labels]: ...


@takes_options
def sample(
    density: Any, profile: Profile | str, *, n: int, seed: int | Sequence[int] = 0, options: GuardOptions
) -> Labels | list[Labels]:
    """Draw whole nights from the paths that a profile allows, each with its probability.

    The draws are exact and joint, not epoch by epoch: minimum bouts, forbidden switches and pins hold in each
    of them, and the share of draws with a stage in an epoch tends to the probability of `posterior`. They
    reflect the stager's own doubt, and no other. The strength is that of `decode`. The flip-flop window is
    always the exact one, with a warning if the profile's is greedy.

    Parameters
    ----------
    density, profile, stages, epoch_seconds, quality, pins, segments, lights_off, lights_on
        As in `stageguard.decode`. A list of nights gives a list.
    cohort, stager, trained, strength, logits, log
        As in `stageguard.decode`. A list of nights gives a list.
    n : int
        Number of draws.
    seed : int, or one int per night
        The same seed gives the same draws, whatever else is in the list and however many threads there are,
        and the first draws do not depend on `n`. A single seed is used for every night of a list; for draws
        that are independent between nights, pass one seed per night.

    Returns
    -------
    int8 array (n, n_epochs), or a list of them
        Labels in the profile's stage order, -1 where there is no evidence for more than five minutes.

    Raises
    ------
    InputError, ProfileError, CohortError, PinError
        As in `stageguard.decode`.

    Examples
    --------
    >>> import stageguard as sg
    >>> profile = sg.Profile.load("human-psg-3").replace(transition_weight=0.3)
    >>> sg.sample([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]], profile, n=1000, seed=1).shape
    (1000, 2)
    """
    n_draws = _count(n)
    results, batch = decode_all(density, profile, options)
    seeds = _seeds(seed, len(results), batch)
    if any(result.profile.flip_flop.is_greedy for result in results):
        warnings.warn(f"sample: {EXACT_WINDOW}.", StageGuardWarning, stacklevel=3)
    drawn = _draw(results, n_draws, seeds)
    return drawn if batch else drawn[0]


def sample_like(result: Decoding, *, n: int, seed: int = 0) -> Labels:
    """Draw `n` nights (n, n_epochs) at the strength a night was decoded with; see `sample`."""
    return _draw([result], _count(n), _seeds(seed, 1, False))[0]


def posteriors_like(results: Sequence[Decoding]) -> list[Posterior]:
    """Return the posterior of every night at the strength it was decoded with; see `posterior`."""
    return _smooth([_asked(result) for result in results])


def marginals_like(results: Sequence[Decoding]) -> list[Floats]:
    """Return only the probabilities of `posteriors_like`."""
    asked = [_asked(result) for result in results]
    return [marginals for marginals, _ in _marginals(asked, wants_sums=False)]


class _Asked(NamedTuple):
    """A night whose paths are summed, and the strength of the profile."""

    profile: Profile
    given: NightInput
    night: Night
    trial: Trial
    strength: Strength | None  # None: fixed by the profile


def _asked(result: Decoding) -> _Asked:
    trial = chosen_trial(result.profile, result.night, result.strength)
    return _Asked(result.profile, result.given, result.night, trial, result.strength)


def _smooth(asked: Sequence[_Asked]) -> list[Posterior]:
    summed = _marginals(asked)
    return [_posterior(each, *found) for each, found in zip(asked, summed, strict=True)]


def _marginals(asked: Sequence[_Asked], *, wants_sums: bool = True) -> Iterator[tuple[Floats, float]]:
    """Yield each night's marginals, NaN in gaps, and its log-sum, which is only valid with `wants_sums`."""
    no_streams = [np.empty((len(each.night.spans), 0), dtype=np.uint64) for each in asked]
    summed = _sum_paths("smooth", asked, no_streams, wants_sums=wants_sums)
    for each, (arrays, log_sum) in zip(asked, summed, strict=True):
        night, marginals = each.night, arrays[0]
        if len(marginals) != len(night.probabilities):
            marginals = np.full(night.probabilities.shape, np.nan)
            for (start, stop), rows in zip(night.spans, arrays, strict=True):
                marginals[start:stop] = rows
        yield marginals, log_sum


def _draw(results: Sequence[Decoding], n_draws: int, seeds: Sequence[int]) -> list[Labels]:
    """Return labels (n_draws, n_epochs) of every night, -1 in gaps; each stretch has its own streams."""
    streams = [
        np.stack([_streams(seed, stretch, n_draws) for stretch in range(len(result.night.spans))])
        for result, seed in zip(results, seeds, strict=True)
    ]
    draws = []
    asked = [_asked(result) for result in results]
    drawn = _sum_paths("draw", asked, streams, wants_sums=False)
    for result, (arrays, _) in zip(results, drawn, strict=True):
        labels, n_epochs = arrays[0], result.hypnogram.n_epochs
        if labels.shape[1] != n_epochs:
            labels = np.full((n_draws, n_epochs), -1, dtype=np.int8)
            for (start, stop), drawn in zip(result.night.spans, arrays, strict=True):
                labels[:, start:stop] = drawn
        draws.append(labels)
    return draws


def _posterior(asked: _Asked, marginals: Floats, log_sum: float) -> Posterior:
    profile, given, _, trial, strength = asked
    assumed, exponent = assumptions(profile, given), profile.prior_exponent
    if profile.flip_flop.is_greedy:
        assumed = (*assumed, EXACT_WINDOW)
    if strength is not None:
        exponent = strength.prior_exponent
        if strength.rule != "fixed":
            assumed = (*assumed, f"the strength is what decode chooses on this night: {strength}")
    night = (profile.scheme, given.epoch_seconds, given.start, given.source, assumed, given.offset_seconds)
    return Posterior.trusted(marginals, *night, log_sum, trial.transition_weight, exponent, profile)


def _count(n: object) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= MOST_DRAWS:
        raise InputError(
            f"n is {checks.shown(n)}, expected the number of draws, a whole number from 1 to {MOST_DRAWS:,}."
        )
    return int(n)


def _seeds(seed: Any, n_nights: int, batch: bool) -> list[int]:
    """Return one seed per night."""
    seeds = [seed] * n_nights
    if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
        if not batch:
            raise InputError("seed is a list, expected one whole number for one night.")
        seeds = per_night(seed, n_nights, "seed")
    for number in seeds:
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
            raise InputError(f"seed is {checks.shown(number)}, expected a whole number from 0.")
    return [int(number) for number in seeds]


class _Pieces(NamedTuple):
    """Stretches of several nights that one kernel takes together."""

    matrices: list[Floats]
    jobs: list[Job]  # the job of each stretch
    shift: list[float]  # nats to add to each log-sum, 0 if it is not wanted
    streams: Streams  # (n_pieces, n_draws)


def _sum_paths(
    verb: Verb, asked: Sequence[_Asked], streams: Sequence[Streams], *, wants_sums: bool
) -> list[tuple[list[Any], float]]:
    """Return each night's arrays, one per stretch, and its log-sum, at the strength it was decoded with."""

    def run(
        key: tuple[Solver, Route], members: list[tuple[Job, Streams]]
    ) -> Iterator[tuple[list[Any], float]]:
        solver, route = key
        together = members[0][1] if len(members) == 1 else np.concatenate([s for _, s in members])
        pieces = _gather([job for job, _ in members], route, together, wants_sums=wants_sums)
        arrays, log_sums = map(iter, _sum(solver, verb, route, pieces))
        for job, _ in members:
            n = len(job.night.spans)
            yield list(islice(arrays, n)), float(sum(islice(log_sums, n)))

    jobs = [Job(each.night, each.trial) for each in asked]
    solvers = [solver_for(each.profile, each.given.epoch_seconds) for each in asked]
    keys = [(solver, _route(solver, job)) for solver, job in zip(solvers, jobs, strict=True)]
    return run_grouped(list(zip(jobs, streams, strict=True)), keys, run)


def _route(solver: Solver, job: Job) -> Route:
    if solver.is_free(job.trial):
        return "free"
    if not solver.sums_bouts:
        return "automaton"
    if kernels_module.is_reference():
        return "logarithms"  # the only numbers it computes with
    return "probabilities" if job.night.is_plain else "likelihoods"


def _sum(solver: Solver, verb: Verb, route: Route, pieces: _Pieces) -> tuple[list[Any], list[float]]:
    """Return each piece's array and log-sum; pieces whose products underflow are summed as logarithms."""
    if route == "free":
        return _free(verb, pieces)
    arrays, log_sums, certified = _call(solver, verb, route, pieces)
    doubtful = [i for i, is_certain in enumerate(certified.tolist()) if not is_certain]
    if doubtful:
        logs = pieces.matrices
        if route != "automaton":
            jobs = list({id(job): job for job in pieces.jobs}.values())
            logs = _gather(jobs, "logarithms", pieces.streams, wants_sums=False).matrices
        chosen, jobs = [logs[i] for i in doubtful], [pieces.jobs[i] for i in doubtful]
        again = _Pieces(chosen, jobs, [0.0] * len(chosen), pieces.streams[doubtful])
        exact_arrays, exact_sums, _ = _call(solver, verb, "automaton logarithms", again)
        for i, array, log_sum in zip(doubtful, exact_arrays, exact_sums, strict=True):
            arrays[i], log_sums[i], pieces.shift[i] = array, log_sum, 0.0
    return arrays, [total + shift for total, shift in zip(log_sums, pieces.shift, strict=True)]


def _call(solver: Solver, verb: Verb, route: Route, pieces: _Pieces) -> tuple[list[Any], list[float], Mask]:
    """Run one kernel and cut its result into one array per piece."""
    kernels, n_pieces, n_draws = kernels_module.active, len(pieces.matrices), pieces.streams.shape[1]
    table, transition_weights = table_rows(pieces.jobs)
    rules: tuple[Any, ...]
    if route.startswith("automaton"):
        kernel = kernels.smooth_automaton if verb == "smooth" else kernels.draw_automaton
        rules = (route == "automaton", table, *solver.automaton_tables(transition_weights))
    else:
        kernel = kernels.smooth if verb == "smooth" else kernels.draw
        products, clip = route != "logarithms", CLIP if route == "probabilities" else 0.0
        weight = stage_weights(pieces.jobs, solver.n_stages)
        if route != "probabilities":  # the weight is in the evidence already
            weight = kernels_module.no_weight(solver.n_stages)
        bouts = solver.bouts(transition_weights, products=products)
        rules = (products, clip, table, weight, *bouts)
    if verb == "smooth":
        totals, flat, certified = kernel(pieces.matrices, *rules, kernels_module.threads_for(n_pieces))
        return _cut(flat, [len(matrix) for matrix in pieces.matrices]), totals.tolist(), certified
    threads = kernels_module.threads_for(n_pieces * n_draws)
    flat, totals, certified = kernel(pieces.matrices, *rules, pieces.streams, threads)
    return _cut_draws(flat, pieces), totals.tolist(), certified


def _streams(seed: int, stretch: int, n_draws: int) -> Streams:
    """Return one random stream per draw; the first streams do not depend on `n_draws`."""
    words = np.random.SeedSequence(seed, spawn_key=(stretch,)).generate_state(n_draws, np.uint64)
    return words.astype(np.uint64, copy=False)


def _gather(jobs: Sequence[Job], route: Route, streams: Streams, *, wants_sums: bool) -> _Pieces:
    """Return the jobs' stretches in the form that a route takes."""
    pieces = _Pieces([], [], [], streams)
    for job in jobs:
        night = job.night
        is_timed = route == "likelihoods" and night.is_plain_but_for_clock  # it needs no logarithms
        if is_timed:
            whole = night.likelihoods(job.trial.log_weight)
        else:
            whole = night.probabilities if route == "probabilities" else night.evidence(job.trial.log_weight)
        for start, stop in night.spans:
            matrix, shift = whole[start:stop], 0.0
            if is_timed:
                if wants_sums:
                    shift = float(np.log(matrix @ np.ones(matrix.shape[1])).sum())
            elif route in ("likelihoods", "free"):
                top = matrix.max(axis=1, keepdims=True)
                matrix = np.exp(matrix - top)
                if wants_sums:
                    shift = float(top.sum() + np.log(matrix.sum(axis=1)).sum())
            pieces.matrices.append(matrix)
            pieces.jobs.append(job)
            pieces.shift.append(shift)
    return pieces


def _free(verb: Verb, pieces: _Pieces) -> tuple[list[Any], list[float]]:
    """Sum or draw where every epoch is independent of the others."""
    if verb == "smooth":
        return [rows / rows.sum(axis=1, keepdims=True) for rows in pieces.matrices], pieces.shift
    threads = kernels_module.threads_for(pieces.streams.size)
    flat = kernels_module.active.draw_each(pieces.matrices, pieces.streams, threads)
    return _cut_draws(flat, pieces), pieces.shift


def _cut_draws(flat: Labels, pieces: _Pieces) -> list[Any]:
    n_draws = pieces.streams.shape[1]
    lengths = [n_draws * len(matrix) for matrix in pieces.matrices]
    return [drawn.reshape(n_draws, -1) for drawn in _cut(flat, lengths)]


def _cut(flat: npt.NDArray[Any], lengths: Sequence[int]) -> list[Any]:
    """Return consecutive parts of these lengths."""
    return [flat[end - n : end] for n, end in zip(lengths, accumulate(lengths), strict=True)]
