"""`posterior` sums over all paths of a night, each in proportion to exp(score); `sample` draws from them.

A stager's errors are shared by a whole night, so that paths drawn at one setting agree with each other, and
with the stager, far too well. Under a profile's `posterior` rules each draw m therefore has its own offset of
the stages and its own transition weight, and a path the score

    x[m, s] = sd[s] · z,    w[m] = weight · exp(weight_sd · z),    z standard normal
    Σ_t (log max(p[t, s_t], floor) + c[t] · x[m, s_t]) + w[m] · (transitions)

where c[t] = 1 - quality is how far epoch t has evidence of the stager, 0 where it is bridged. Calibration,
prior, quality, clock and pins count as in `decode`; how strongly the path was smoothed does not. Wake before
the first sleep is a state of its own. All offsets count alike, however well they fit the night. Under any
other profile, both act at the strength of the night's path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Unpack, get_type_hints, overload

import numpy as np
import numpy.typing as npt

from stageguard import checks
from stageguard.arrays import CLIP, Floats, Ints32, Labels
from stageguard.errors import InputError, warn
from stageguard.guard import kernels as kernels_module
from stageguard.guard.automaton import Automaton, Presleep, compile_automaton
from stageguard.guard.decode import decode_night, for_each_night, profile_for
from stageguard.guard.decoding import Decoding
from stageguard.guard.night import (
    GuardOptions,
    Night,
    OneNight,
    OptionKeywords,
    assumptions,
    is_batch,
    per_night,
)
from stageguard.guard.solver import NO_PATH, Solver, fixed_setting, prior_nats, solver_for
from stageguard.night.hypnodensity import Hypnodensity
from stageguard.profile.profile import Profile
from stageguard.profile.rules import Setting

MOST_DRAWS = 10_000_000
N_FIXED = 32  # offsets of which a posterior is the mean
_OF_OFFSETS = (0, 0)  # key of their random numbers; a night's stretches have the keys (0,), (1,), ...
ERRORS_ALL_NIGHT = (
    f"the stager may err in the same way all night: mean over {N_FIXED} offsets of its stages, whatever the "
    "strength of decode"
)
EXACT_WINDOW = "the flip-flop window is exact: the profile's greedy one exists for decode alone"

Streams = npt.NDArray[np.uint64]  # (n_draws,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Posterior(Hypnodensity):
    """Probability of each stage in each epoch, given the whole night and the profile.

    It is a `Hypnodensity` and can be used as one. Its `argmax` is the most probable stage of each epoch by
    itself, which need not be a path that the profile allows; `decode` finds such a path.

    `probabilities` are marginals, NaN where there is no evidence for more than five minutes; `assumed` says
    how they were computed.
    """

    # log of the sum over all paths of exp(score), in nats; the mean over offsets under `posterior` rules
    log_evidence: float = float("nan")
    # how strongly the profile acted: what its `posterior` rules say, else what `decode` uses on this night
    transition_weight: float = float("nan")
    prior_exponent: float = 0.0
    profile: Profile | None = None

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


def posterior(density: Any, profile: Profile | str, **options: Any) -> Posterior | list[Posterior]:
    """Return the probability of each stage in each epoch, given the whole night and the profile.

    Sums over every path that the profile allows, exactly. A path counts in proportion to exp(score), with the
    score that `decode` maximises, so that minimum bouts, bout lengths, ends, quality, pins, gaps and segments
    count as they do there. Under a profile with `posterior` rules, it is the mean over 32 fixed offsets of
    the stages, each of which makes the stager wrong in the same way all night, whatever the strength of the
    path. Under any other, the strength is that of `decode`. The flip-flop window is always the exact one;
    `.assumed` says so.

    Parameters
    ----------
    density, profile, **options
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
    given = GuardOptions(**options)
    used = profile_for(profile, given)
    if is_batch(density):
        return for_each_night(_posterior_under, density, used, given)
    return _posterior_under(Night.read(density, used, given))


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


def sample(
    density: Any,
    profile: Profile | str,
    *,
    n: int,
    seed: int | Sequence[int] = 0,
    **options: Any,
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
    density, profile, **options
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
    n_draws = checks.whole(n, "n", low=1, high=MOST_DRAWS)
    given = GuardOptions(**options)
    used, batch = profile_for(profile, given), is_batch(density)
    if batch:
        results = for_each_night(decode_night, density, used, given)
    else:
        results = [decode_night(Night.read(density, used, given))]
    one_each = batch and isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str)
    seeds = per_night(seed, len(results), "seed") if one_each else [seed] * len(results)
    seeds = [checks.whole(each, "seed") for each in seeds]
    if any(result.profile.flip_flop.is_greedy for result in results):
        warn(f"sample: {EXACT_WINDOW}.")
    drawn = [sample_like(result, n=n_draws, seed=own) for result, own in zip(results, seeds, strict=True)]
    return drawn if batch else drawn[0]


def sample_like(result: Decoding, *, n: int, seed: int = 0) -> Labels:
    """Draw `n` nights (n, n_epochs) like a decoded one; see `sample`."""
    profile, night = result.profile, result.night
    if profile.posterior is not None:
        drawn = draw_night(profile, uncut(result), random_offsets(profile, n, seed), seed)
        drawn[:, result.hypnogram.labels < 0] = -1  # the path leaves out what lies without evidence at a cut
        return drawn
    drawn = np.full((n, len(night.argmax)), -1, dtype=np.int8)
    solver = solver_for(profile, night.epoch_seconds)
    for number, stretch in enumerate(_at_setting(solver, night, result.setting)):
        drawn[:, stretch.first : stretch.end] = stretch.draw(streams_of(seed, number, n))
    return drawn


def posterior_like(result: Decoding) -> Posterior:
    """Return the posterior of a decoded night; see `posterior`."""
    profile, night, strength = result.profile, result.night, result.strength
    if profile.posterior is None:
        chosen = f"the strength is what decode chooses on this night: {strength.step}, transition weight "
        chosen += f"{result.setting.transition_weight:g}"
        acting = () if profile.strength is None else (chosen,)
        return _at_strength(profile, night, result.setting, strength.prior_exponent, acting)
    marginals, log_sums = smooth_night(profile, uncut(result), fixed_offsets(profile))
    marginals[result.hypnogram.labels < 0] = np.nan
    # the mean of the sums themselves would be that of the one offset that lifts every stage most
    acted = float(log_sums.mean()), profile.posterior.weight, profile.prior_exponent
    return _described(night, marginals, acted, (ERRORS_ALL_NIGHT,))


def path_marginals(result: Decoding) -> Floats:
    """Return marginals (n_epochs, n_stages) at the strength of the path, whatever the `posterior` rules."""
    return smooth_at(result.night, result.profile, result.setting)[0]


def uncut(result: Decoding) -> Night:
    """Return the night with its clock, not cut at the sleep period as the path's rule may have done."""
    return (result.night.uncut or result.night).timed(result.night.clock)


def _posterior_under(night: Night) -> Posterior:
    """Return the posterior of a checked night, decoded if need be."""
    used = night.profile
    # the clock counts from the sleep onset of a path, and a rule asks for paths; else none is needed
    if used.strength is None and used.clock is None and used.posterior is None:
        try:
            return _at_strength(used, night, fixed_setting(used), used.prior_exponent)
        except InputError:
            pass  # decode says which pins leave no path
    return posterior_like(decode_night(night))


def _at_strength(
    profile: Profile, night: Night, setting: Setting, prior_exponent: float, acting: tuple[str, ...] = ()
) -> Posterior:
    marginals, log_sum = smooth_at(night, profile, setting)
    return _described(night, marginals, (log_sum, setting.transition_weight, prior_exponent), acting)


def _described(
    night: Night, marginals: Floats, acted: tuple[float, float, float], acting: tuple[str, ...]
) -> Posterior:
    """Return marginals, their log-sum and how strongly the profile acted, with what is known of the night."""
    profile, stager = night.profile, None  # these are no longer the probabilities of any stager
    window = (EXACT_WINDOW,) if profile.flip_flop.is_greedy else ()
    assumed = (*assumptions(profile, night), *window, *acting)
    about = (profile.scheme, night.epoch_seconds, night.start, night.source, assumed)
    origin = (night.offset_seconds, night.from_labels, stager)
    return Posterior.trusted(marginals, *about, *origin, *acted, profile)


def smooth_at(night: Night, profile: Profile, setting: Setting) -> tuple[Floats, float]:
    """Return a night's marginals, NaN in gaps, and its log-sum over all paths at one setting."""
    marginals, total = np.full(night.probabilities.shape, np.nan), 0.0
    for stretch in _at_setting(solver_for(profile, night.epoch_seconds), night, setting):
        marginals[stretch.first : stretch.end], log_sum = stretch.smooth()
        total += log_sum
    return marginals, total


def streams_of(seed: int, stretch: int, n_draws: int) -> Streams:
    """Return one random stream per draw of a stretch; the first streams do not depend on `n_draws`."""
    words = np.random.SeedSequence(seed, spawn_key=(stretch,)).generate_state(n_draws, np.uint64)
    return words.astype(np.uint64, copy=False)


def _by_automaton(
    kernel: Callable[..., Any], logs: Floats, tables: Sequence[Any], *more: Any, products: bool = True
) -> tuple[Any, float]:
    """Sum over the paths of an automaton, by products if they do not underflow; refuse if there is no path.

    Logarithms do not underflow, at many times the cost.
    """
    for is_product in (True, False) if products else (False,):
        found, log_sum, is_certified = kernel(logs, is_product, *tables, *more)
        if is_certified:
            break
    if log_sum == -np.inf:
        raise InputError(NO_PATH)
    return found, log_sum


def _at_setting(solver: Solver, night: Night, setting: Setting) -> Iterator[_StretchAtSetting]:
    """Yield the stretches of a night at one setting."""
    sums_rows = night.is_plain and solver.sums_bouts and not solver.is_free(setting)
    logs = None if sums_rows else night.evidence(setting.stage_nats)
    for first, end in night.spans:
        yield _StretchAtSetting(solver, night, setting, first, end, logs)


@dataclass(slots=True)
class _StretchAtSetting:
    """A stretch of a night as sums over its paths at one setting take it."""

    solver: Solver
    night: Night
    setting: Setting
    first: int
    end: int
    logs: Floats | None  # (n_epochs of the night, n_stages) log-evidence; None if the rows are all there is

    def draw(self, streams: Streams) -> Labels:
        """Return one path per stream (n_draws, n_epochs)."""
        active, threads = kernels_module.active, kernels_module.threads_for(len(streams))
        drawn: Labels
        if self.solver.is_free(self.setting):
            drawn = active.draw_each(self._likelihoods()[0], streams, threads)
            return drawn
        if self.solver.sums_bouts:
            rows, _, rules, clock = self._rules()
            drawn, _, is_certified = active.draw(rows, *rules, streams, threads, clock)
            if is_certified:
                return drawn
        found: Labels = self._by_automaton(active.draw_automaton, streams, threads)[0]
        return found

    def smooth(self) -> tuple[Floats, float]:
        """Return marginals (n_epochs, n_stages) and the log-sum."""
        active = kernels_module.active
        if self.solver.is_free(self.setting):
            rows, shift = self._likelihoods()
            return rows / rows.sum(axis=1, keepdims=True), shift
        if self.solver.sums_bouts:
            rows, shift, rules, clock = self._rules()
            marginals, log_sum, is_certified = active.smooth(rows, *rules, clock)
            if is_certified:
                return marginals, log_sum + shift
        return self._by_automaton(active.smooth_automaton)

    def _by_automaton(self, kernel: Callable[..., Any], *more: Any) -> tuple[Any, float]:
        logs = self.night.evidence(self.setting.stage_nats) if self.logs is None else self.logs
        tables, has_bouts = self.solver.automaton_tables(self.setting), self.solver.sums_bouts
        return _by_automaton(kernel, logs[self.first : self.end], tables, *more, products=not has_bouts)

    def _likelihoods(self) -> tuple[Floats, float]:
        """Return the rows divided by their largest, and the nats that this took from a sum."""
        assert self.logs is not None
        logs = self.logs[self.first : self.end]
        top = logs.max(axis=1, keepdims=True)  # an epoch's likelihoods may all be tiny
        rows = np.exp(logs - top)
        return rows, float(top.sum() + np.log(rows.sum(axis=1)).sum())

    def _rules(self) -> tuple[Floats, float, tuple[Any, ...], Floats | None]:
        """Return rows, shift, further arguments and clock of the sums over minimum bouts."""
        weight, nats = np.ones(self.solver.n_stages), self.setting.stage_nats
        bouts = self.solver.bouts((self.setting.transition_weight,), products=True)
        if self.logs is not None:
            rows, shift = self._likelihoods()
            return rows, shift, (0.0, weight, *bouts), None
        if nats is not None:
            weight = np.exp(np.array(nats))
        own = slice(self.first, self.end)
        clock = None if self.night.clock is None else self.night.clock.factors[own]
        return self.night.probabilities[own], 0.0, (CLIP, weight, *bouts), clock


class Offsets(NamedTuple):
    """How each of several draws differs from what the stager and the profile say."""

    nats: Floats  # (n_draws, n_stages) added to the stager's evidence in every epoch
    weights: Floats  # (n_draws,) of the transitions


def random_offsets(profile: Profile, n_draws: int, seed: int) -> Offsets:
    """Return the offsets of draws; the first do not depend on their number."""
    return _spread(profile, _normals(seed, n_draws, profile.scheme.n_stages + 1))


def fixed_offsets(profile: Profile) -> Offsets:
    """Return the offsets of which a posterior is the mean: random ones and their opposites."""
    half = _normals(0, N_FIXED // 2, profile.scheme.n_stages + 1)
    return _spread(profile, np.concatenate([half, -half]))


def _spread(profile: Profile, normals: Floats) -> Offsets:
    rules = profile.posterior
    assert rules is not None
    spreads = np.array([rules.stage_sd[stage] for stage in profile.scheme.names])
    return Offsets(normals[:, :-1] * spreads, rules.weight * np.exp(rules.weight_sd * normals[:, -1]))


def _normals(seed: int, n: int, width: int) -> Floats:
    """Return standard normal numbers (n, width), the same with every version of NumPy (Box and Muller)."""
    n_pairs = (width + 1) // 2
    words = np.random.SeedSequence(seed, spawn_key=_OF_OFFSETS).generate_state(2 * n * n_pairs, np.uint64)
    uniforms = ((words >> np.uint64(11)) * 2.0**-53).reshape(n, 2, n_pairs)
    radius, angle = np.sqrt(-2.0 * np.log1p(-uniforms[:, 0])), 2.0 * np.pi * uniforms[:, 1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :width]


def draw_night(profile: Profile, night: Night, offsets: Offsets, seed: int) -> Labels:
    """Return labels (n_draws, n_epochs), -1 in gaps; each draw has one offset, each stretch its streams."""
    labels = np.full((len(offsets.weights), len(night.argmax)), -1, dtype=np.int8)
    for number, stretch in enumerate(_stretches(profile, night)):
        streams = streams_of(seed, number, len(labels))
        labels[:, stretch.first : stretch.end] = stretch.draw(offsets, streams)
    return labels


def smooth_night(profile: Profile, night: Night, offsets: Offsets) -> tuple[Floats, Floats]:
    """Return mean marginals (n_epochs, n_stages), NaN in gaps, and the log-sum at each offset (n_draws,)."""
    marginals, log_sums = np.full(night.probabilities.shape, np.nan), np.zeros(len(offsets.weights))
    for stretch in _stretches(profile, night):
        marginals[stretch.first : stretch.end] = 0.0
        for i, (nats, weight) in enumerate(zip(*offsets, strict=True)):
            found, log_sum = stretch.smooth(nats, weight)
            marginals[stretch.first : stretch.end] += found / len(log_sums)
            log_sums[i] += log_sum
    return marginals, log_sums


class States:
    """Rules at one epoch length, by state: the stages, then wake before sleep where that is a state."""

    def __init__(self, profile: Profile, epoch_seconds: float, with_presleep: bool) -> None:
        self.solver = solver_for(profile, epoch_seconds)
        tables, n = self.solver.tables, self.solver.n_stages
        self.presleep = presleep = Presleep.of(profile, tables, epoch_seconds) if with_presleep else None
        self.stay, self.change, self.minimum = tables.stay, tables.change, tables.minimum_epochs
        if presleep is not None:
            self.stay = np.append(tables.stay, presleep.stay)  # (n_states,)
            self.change = np.full((n + 1, n + 1), -np.inf)  # (n_states, n_states)
            self.change[:n, :n], self.change[n, :n] = tables.change, presleep.leave
            self.minimum = np.append(tables.minimum_epochs, 1).astype(np.int32)

    @cached_property
    def automaton(self) -> Automaton:
        """The same rules, and those that need one."""
        profile, epoch_seconds = self.solver.profile, self.solver.epoch_seconds
        return compile_automaton(profile, epoch_seconds, presleep=self.presleep)

    def bouts(self, weights: Floats) -> tuple[Floats, Floats, Ints32, bool]:
        """Return stays and changes as products, a row per transition weight, minima and how ends count."""
        stay = np.exp(weights[:, None] * self.stay)
        change = np.exp(weights[:, None] * self.change.ravel())
        return stay, change, self.minimum, self.solver.profile.ends == "censored"

    def columns(self, rows: Floats) -> Floats:
        """Return values by state (n, n_states) from values by stage: wake before sleep has those of wake."""
        if self.presleep is None:
            return np.ascontiguousarray(rows)
        wake = rows[:, self.presleep.wake : self.presleep.wake + 1]
        return np.concatenate([rows, wake], axis=1)


def _stretches(profile: Profile, night: Night) -> list[Stretch]:
    """Return the stretches of a night as sums take them; in the first, wake before sleep is a state."""
    assert profile.posterior is not None
    evidence = night.evidence(prior_nats(profile), profile.posterior.floor)
    trust = None
    if night.quality is not None or night.filled is not None:
        trust = np.ones(len(evidence)) if night.quality is None else 1.0 - night.quality
        trust = np.where(np.isnan(night.probabilities[:, 0]), 0.0, trust)
    stretches = []
    for number, (first, end) in enumerate(night.spans):
        key = ("states", night.epoch_seconds, kernels_module.active.NAME, number == 0)
        states = profile._once(key, States, profile, night.epoch_seconds, number == 0)
        own = None if trust is None else trust[first:end]
        stretches.append(Stretch(states, first, end, evidence[first:end], own))
    return stretches


class Stretch:
    """One stretch of a night: its log-evidence without offsets, and how far they count in each epoch."""

    def __init__(self, states: States, first: int, end: int, logs: Floats, trust: Floats | None) -> None:
        self.states, self.first, self.end, self.logs, self.trust = states, first, end, logs, trust
        top = logs.max(axis=1, keepdims=True)  # an epoch's likelihoods may all be tiny
        self.rows = states.columns(np.exp(logs - top))  # (n_epochs, n_states)
        if states.presleep is not None:
            self.rows[0, states.presleep.wake] = 0.0  # a night that begins awake begins before sleep
        self.shift = float(top.sum())

    def draw(self, offsets: Offsets, streams: Streams) -> Labels:
        """Return one path per offset and stream (n_draws, n_epochs)."""
        states, threads = self.states, kernels_module.threads_for(len(streams))
        lost, drawn = list(range(len(streams))), np.empty((len(streams), len(self.logs)), dtype=np.int8)
        if states.solver.sums_bouts:
            stay, change, *ends = states.bouts(offsets.weights)
            if self.trust is None:
                factors = states.columns(np.exp(offsets.nats))
                drawn, lost = kernels_module.active.draw_tables(
                    self.rows, factors, stay, change, *ends, streams, threads
                )
            else:
                lost = []
                for i in range(len(streams)):
                    own, rows = slice(i, i + 1), self._faded(offsets.nats[i])
                    tables = stay[own], change[own], *ends
                    drawn[own], failed = kernels_module.active.draw_tables(*rows, *tables, streams[own], 1)
                    lost += [i] * len(failed)
            if states.presleep is not None:
                drawn = np.where(drawn == states.solver.n_stages, np.int8(states.presleep.wake), drawn)
        for i in lost:
            tables, stream = states.automaton.weighted(float(offsets.weights[i])), streams[i : i + 1]
            kernel, logs = kernels_module.active.draw_automaton, self._logs(offsets.nats[i])
            drawn[i] = _by_automaton(kernel, logs, tables, stream, 1)[0][0]
        return drawn

    def smooth(self, nats: Floats, weight: float) -> tuple[Floats, float]:
        """Return marginals (n_epochs, n_stages) and the log-sum at one offset."""
        states = self.states
        if states.solver.sums_bouts:
            rows, factors = self.rows, states.columns(np.exp(nats)[None])
            if self.trust is not None:
                rows, factors = self._faded(nats)
            bouts = states.bouts(np.array([weight]))
            marginals, log_sum, is_certain = kernels_module.active.smooth(rows, 0.0, factors[0], *bouts)
            if is_certain:
                by_stage = marginals[:, : states.solver.n_stages]
                if states.presleep is not None:
                    by_stage = by_stage.copy()
                    by_stage[:, states.presleep.wake] += marginals[:, -1]
                return by_stage, log_sum + self.shift + float(np.log(rows.sum(axis=1)).sum())
        tables = states.automaton.weighted(weight)
        return _by_automaton(kernels_module.active.smooth_automaton, self._logs(nats), tables)

    def _faded(self, nats: Floats) -> tuple[Floats, Floats]:
        """Return rows that include an offset where it counts, and no factors."""
        assert self.trust is not None
        factors = self.states.columns(np.exp(self.trust[:, None] * nats))
        return self.rows * factors, np.ones((1, self.rows.shape[1]))

    def _logs(self, nats: Floats) -> Floats:
        trust = 1.0 if self.trust is None else self.trust[:, None]
        return np.ascontiguousarray(self.logs + trust * nats)
