"""`posterior` sums over all paths of a night, each in proportion to exp(score); `sample` draws from them.

Under a profile with `posterior` rules, both let the stager be wrong in the same way all night: see
`stageguard.guard.offsets`. Under any other, they act at the strength of the night's path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack, get_type_hints, overload

import numpy as np

from stageguard import checks
from stageguard.arrays import CLIP, Floats, Labels
from stageguard.errors import InputError, warn
from stageguard.guard import kernels as kernels_module
from stageguard.guard.decode import decode_night, for_each_night, profile_for
from stageguard.guard.decoding import Decoding
from stageguard.guard.night import (
    GuardOptions,
    Night,
    OneNight,
    OptionKeywords,
    assumptions,
    per_night,
    takes_options,
)
from stageguard.guard.offsets import (
    N_FIXED,
    Streams,
    draw_night,
    fixed_offsets,
    random_offsets,
    smooth_night,
    streams_of,
)
from stageguard.guard.solver import Solver, fixed_setting, solver_for
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.profile.profile import Profile
from stageguard.profile.rules import Setting

MOST_DRAWS = 10_000_000
ERRORS_ALL_NIGHT = (
    f"the stager may err in the same way all night: mean over {N_FIXED} offsets of its stages, whatever the "
    "strength of decode"
)
EXACT_WINDOW = "the flip-flop window is exact: the profile's greedy one exists for decode alone"


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
        Log of the sum over all paths of exp(score), in nats, stretches added up; the mean over offsets under
        a profile with `posterior` rules.
    transition_weight, prior_exponent : float
        How strongly the profile acted: what its `posterior` rules say, else what `decode` uses on this night.
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


# types, not their names: those of inherited fields mean nothing in this module, where `inspect` looks them up
Posterior.__init__.__annotations__.update(get_type_hints(Posterior))


@overload
def posterior(
    density: OneNight | Sequence[Sequence[float]], profile: Profile | str, **options: Unpack[OptionKeywords]
) -> Posterior: ...


@overload
def posterior(
    density: Sequence[OneNight], profile: Profile | str, **options: Unpack[OptionKeywords]
) -> list[Posterior]: ...


@takes_options
def posterior(density: Any, profile: Profile | str, *, options: GuardOptions) -> Posterior | list[Posterior]:
    """Return the probability of each stage in each epoch, given the whole night and the profile.

    Sums over every path that the profile allows, exactly. A path counts in proportion to exp(score), with the
    score that `decode` maximises, so that minimum bouts, bout lengths, ends, quality, pins, gaps and segments
    count as they do there. Under a profile with `posterior` rules, it is the mean over 32 fixed offsets of
    the stages, each of which makes the stager wrong in the same way all night, whatever the strength of the
    path. Under any other, the strength is that of `decode`. The flip-flop window is always the exact one;
    `.assumed` says so.

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
    used = profile_for(profile, options)
    posteriors, several = for_each_night(_posterior_under, density, used, options)
    return posteriors if several else posteriors[0]


@overload
def sample(
    density: OneNight, profile: Profile | str, *, n: int, seed: int = 0, **options: Unpack[OptionKeywords]
) -> Labels: ...


@overload
def sample(
    density: Sequence[OneNight],
    profile: Profile | str,
    *,
    n: int,
    seed: int | Sequence[int] = 0,
    **options: Unpack[OptionKeywords],
) -> list[Labels]: ...


@takes_options
def sample(
    density: Any, profile: Profile | str, *, n: int, seed: int | Sequence[int] = 0, options: GuardOptions
) -> Labels | list[Labels]:
    """Draw whole nights from the paths that a profile allows, each with its probability.

    The draws are exact and joint, not epoch by epoch: minimum bouts, forbidden switches and pins hold in each
    of them. Under a profile with `posterior` rules, each draw has a random offset of the stages and a random
    transition weight, since a stager's errors are shared by a whole night; `posterior` is the mean over fixed
    ones. Under any other, the draws reflect the stager's own doubt and no other, at the strength of `decode`,
    and the share of draws with a stage in an epoch tends to the probability of `posterior`. The flip-flop
    window is always the exact one, with a warning if the profile's is greedy.

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
    >>> sg.sample([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]], "human-psg-3", n=1000, seed=1).shape
    (1000, 2)
    """
    n_draws = _count(n)
    used = profile_for(profile, options)
    results, batch = for_each_night(decode_night, density, used, options)
    seeds = _seeds(seed, len(results), batch)
    if any(result.profile.flip_flop.is_greedy for result in results):
        warn(f"sample: {EXACT_WINDOW}.")
    drawn = [_draws(result, n_draws, own) for result, own in zip(results, seeds, strict=True)]
    return drawn if batch else drawn[0]


def sample_like(result: Decoding, *, n: int, seed: int = 0) -> Labels:
    """Draw `n` nights (n, n_epochs) like a decoded one; see `sample`."""
    return _draws(result, _count(n), _seeds(seed, 1, False)[0])


def posterior_like(result: Decoding) -> Posterior:
    """Return the posterior of a decoded night; see `posterior`."""
    if result.profile.posterior is None:
        return _posterior(result.profile, result.night, result.setting, result)
    return _mean_posterior(result)


def path_marginals(result: Decoding) -> Floats:
    """Return marginals (n_epochs, n_stages) at the strength of the path, whatever the `posterior` rules."""
    solver = solver_for(result.profile, result.epoch_seconds)
    return _smooth(solver, result.night, result.setting)[0]


def _posterior_under(night: Night) -> Posterior:
    """Return the posterior of a checked night, decoded if need be."""
    used = night.profile
    # the clock counts from the sleep onset of a path, and a rule asks for paths; else none is needed
    if used.strength is None and used.clock is None and used.posterior is None:
        found = _posterior(used, night, fixed_setting(used), None)
        if found.log_evidence > -np.inf:
            return found
    return posterior_like(decode_night(night))  # which says why, if there is no path


def draws_with_offsets(result: Decoding, *, n: int, seed: int = 0, scale: float = 1.0) -> Labels:
    """Draw `n` nights (n, n_epochs) under the profile's `posterior` rules, all offsets times `scale`."""
    offsets = random_offsets(result.profile, n, seed, scale=scale)
    drawn = draw_night(result.profile, uncut(result), offsets, seed)
    drawn[:, result.hypnogram.labels < 0] = -1  # the path leaves out what lies without evidence at a cut
    return drawn


def _draws(result: Decoding, n_draws: int, seed: int) -> Labels:
    if result.profile.posterior is None:
        return _draw(result, n_draws, seed)
    return draws_with_offsets(result, n=n_draws, seed=seed)


def uncut(result: Decoding) -> Night:
    """Return the night with its clock, not cut at the sleep period as the path's rule may have done."""
    return (result.night.uncut or result.night).timed(result.night.clock)


def _mean_posterior(result: Decoding) -> Posterior:
    """Return the mean of the posteriors at fixed offsets."""
    profile = result.profile
    assert profile.posterior is not None
    marginals, log_sum = smooth_night(profile, uncut(result), fixed_offsets(profile))
    marginals[result.hypnogram.labels < 0] = np.nan
    weight, exponent = profile.posterior.weight, profile.prior_exponent
    return _described(profile, result.night, marginals, log_sum, weight, exponent, (ERRORS_ALL_NIGHT,))


def _posterior(profile: Profile, night: Night, setting: Setting, decoding: Decoding | None) -> Posterior:
    exponent, acting = profile.prior_exponent, tuple[str, ...]()
    if decoding is not None and profile.strength is not None:
        exponent = decoding.strength.prior_exponent
        acting = (f"the strength is what decode chooses on this night: {decoding.strength}",)
    marginals, log_sum = _smooth(solver_for(profile, night.epoch_seconds), night, setting)
    return _described(profile, night, marginals, log_sum, setting.transition_weight, exponent, acting)


def _described(
    profile: Profile,
    night: Night,
    marginals: Floats,
    log_sum: float,
    transition_weight: float,
    prior_exponent: float,
    acting: tuple[str, ...] = (),
) -> Posterior:
    """Return marginals with what is known about the night."""
    window = (EXACT_WINDOW,) if profile.flip_flop.is_greedy else ()
    assumed = (*assumptions(profile, night), *window, *acting)
    about = (profile.scheme, night.epoch_seconds, night.start, night.source, assumed)
    stager = None  # these are no longer the probabilities of any stager
    origin = (night.offset_seconds, night.from_labels, stager)
    acted = (log_sum, transition_weight, prior_exponent, profile)
    return Posterior.trusted(marginals, *about, *origin, *acted)


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


class Evidence:
    """A night's evidence as the sums over paths take it, stretch by stretch."""

    def __init__(self, solver: Solver, night: Night, setting: Setting) -> None:
        self.solver, self.night, self.setting = solver, night, setting
        self.is_plain = night.is_plain and solver.sums_bouts and not solver.is_free(setting)
        self._logs: Floats | None = None

    @property
    def logs(self) -> Floats:
        """Log-evidence, (n_epochs, n_stages)."""
        if self._logs is None:
            self._logs = self.night.evidence(self.setting.stage_nats)
        return self._logs

    def likelihoods(self, first: int, end: int) -> tuple[Floats, float]:
        """Return the rows of a stretch divided by their largest, and the nats that this took from a sum."""
        logs = self.logs[first:end]
        top = logs.max(axis=1, keepdims=True)  # an epoch's likelihoods may all be tiny
        rows = np.exp(logs - top)
        return rows, float(top.sum() + np.log(rows.sum(axis=1)).sum())

    def rules(self, first: int, end: int) -> tuple[Floats, float, tuple[Any, ...], Floats | None]:
        """Return rows, shift, further arguments and clock of the sums over minimum bouts of a stretch."""
        weight = np.ones(self.solver.n_stages)
        bouts = self.solver.bouts((self.setting.transition_weight,), products=True)
        if not self.is_plain:
            rows, shift = self.likelihoods(first, end)
            return rows, shift, (0.0, weight, *bouts), None
        if self.setting.stage_nats is not None:
            weight = np.exp(np.array(self.setting.stage_nats))
        clock = None if self.night.clock is None else self.night.clock.factors[first:end]
        return self.night.probabilities[first:end], 0.0, (CLIP, weight, *bouts), clock


def _smooth(solver: Solver, night: Night, setting: Setting) -> tuple[Floats, float]:
    """Return a night's marginals, NaN in gaps, and its log-sum over all paths."""
    evidence = Evidence(solver, night, setting)
    parts, total = [], 0.0
    for first, end in night.spans:
        marginals, log_sum = _smooth_stretch(evidence, first, end)
        parts.append(marginals)
        total += log_sum
    if len(parts) == 1 and len(parts[0]) == len(night.probabilities):
        return parts[0], total
    whole = np.full(night.probabilities.shape, np.nan)
    for (first, end), marginals in zip(night.spans, parts, strict=True):
        whole[first:end] = marginals
    return whole, total


def _smooth_stretch(evidence: Evidence, first: int, end: int) -> tuple[Floats, float]:
    solver, active = evidence.solver, kernels_module.active
    if solver.is_free(evidence.setting):
        rows, shift = evidence.likelihoods(first, end)
        return rows / rows.sum(axis=1, keepdims=True), shift
    if solver.sums_bouts:
        rows, shift, rules, clock = evidence.rules(first, end)
        marginals, log_sum, is_certified = active.smooth(rows, *rules, clock)
        if is_certified:
            return marginals, log_sum + shift
    logs, automaton = evidence.logs[first:end], solver.automaton_tables(evidence.setting)
    if not solver.sums_bouts:
        marginals, log_sum, is_certified = active.smooth_automaton(logs, True, *automaton)
        if is_certified:
            return marginals, log_sum
    # what underflows as a product does not as a logarithm, at many times the cost
    marginals, log_sum, _ = active.smooth_automaton(logs, False, *automaton)
    return marginals, log_sum


def _draw(result: Decoding, n_draws: int, seed: int) -> Labels:
    """Return labels (n_draws, n_epochs) of a night, -1 in gaps; each stretch has its own streams."""
    night = result.night
    evidence = Evidence(solver_for(result.profile, result.epoch_seconds), night, result.setting)
    labels = np.full((n_draws, len(night.argmax)), -1, dtype=np.int8)
    for stretch, (first, end) in enumerate(night.spans):
        labels[:, first:end] = _draw_stretch(evidence, first, end, streams_of(seed, stretch, n_draws))
    return labels


def _draw_stretch(evidence: Evidence, first: int, end: int, streams: Streams) -> Labels:
    solver, active, threads = evidence.solver, kernels_module.active, kernels_module.threads_for(len(streams))
    drawn: Labels
    if solver.is_free(evidence.setting):
        drawn = active.draw_each(evidence.likelihoods(first, end)[0], streams, threads)
        return drawn
    if solver.sums_bouts:
        rows, _, rules, clock = evidence.rules(first, end)
        drawn, _, is_certified = active.draw(rows, *rules, streams, threads, clock)
        if is_certified:
            return drawn
    logs, automaton = evidence.logs[first:end], solver.automaton_tables(evidence.setting)
    if not solver.sums_bouts:
        drawn, _, is_certified = active.draw_automaton(logs, True, *automaton, streams, threads)
        if is_certified:
            return drawn
    drawn, _, _ = active.draw_automaton(logs, False, *automaton, streams, threads)
    return drawn
